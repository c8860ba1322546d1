//! The files, their edits, and the expected contents.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, XattrFlags, lsetxattr, mknodat};
use sinew::file::HardLinks;
use sinew_testkit::access_list;

use crate::snapshot::{CAPABILITY, Snapshot};

/// The call that changes the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaseOp {
    Edit,
    MultiEdit,
    /// ApplyPatch, with a diff of the lines that change.
    ApplyPatch,
    /// ApplyPatch, with a diff without context that adds the new text behind the first line.
    Insert,
    /// ApplyPatch, with a diff that gives the file the name [`RENAMED`].
    Rename,
    Write,
    /// Edit, and a restore of its checkpoint: everything is as it was.
    Restore,
}

/// The name that a file gets.
pub(super) const RENAMED: &str = "renamed.txt";

const EDITS: &[CaseOp] = &[CaseOp::Edit, CaseOp::MultiEdit, CaseOp::Restore];
const CHANGES: &[CaseOp] = &[CaseOp::Edit, CaseOp::MultiEdit, CaseOp::ApplyPatch, CaseOp::Restore];
const MANY: &[CaseOp] = &[CaseOp::MultiEdit];
const WRITES: &[CaseOp] = &[CaseOp::Write];
const ALL: &[CaseOp] =
    &[CaseOp::Edit, CaseOp::MultiEdit, CaseOp::Write, CaseOp::ApplyPatch, CaseOp::Restore];
const MOVES: &[CaseOp] = &[
    CaseOp::Edit,
    CaseOp::MultiEdit,
    CaseOp::Write,
    CaseOp::ApplyPatch,
    CaseOp::Rename,
    CaseOp::Restore,
];

/// One file and one change.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) deeds: &'static [CaseOp],
    /// The content of `ws/file.txt`.
    content: Vec<u8>,
    /// What else is laid out; returns whether the system can.
    lay_out: fn(&Path) -> bool,
    /// What the call names, beneath the root.
    pub(super) path: &'static str,
    pub(super) old: &'static str,
    pub(super) new: &'static str,
    pub(super) all: bool,
    /// Further edits of a MultiEdit.
    pub(super) more: &'static [(&'static str, &'static str)],
    /// What Write writes.
    pub(super) written: &'static str,
    pub(super) hard_links: HardLinks,
    /// The content after an edit; nothing where the only right answer is a refusal.
    after: Option<Vec<u8>>,
    /// Whether opening the file waits for another process.
    pub(super) blocks: bool,
    /// What a change does to the record of the directory, given the new content.
    pub(super) effect: fn(&mut Snapshot, &[u8]),
}

impl Case {
    /// Lays the case out; returns whether the system can.
    pub(super) fn lay_out(&self, top: &Path) -> bool {
        for dir in ["ws", "outside"] {
            fs::create_dir(top.join(dir)).unwrap();
        }
        let other = b"other lines \t\r\nwithout\xff end";
        fs::write(top.join("ws/other.txt"), other).unwrap();
        fs::write(top.join("outside/file.txt"), BEFORE).unwrap();
        fs::write(top.join("ws/file.txt"), &self.content).unwrap();
        (self.lay_out)(top)
    }

    /// Returns the content that must come out, or nothing where the call must be refused.
    pub(super) fn expected(&self, deed: CaseOp) -> Option<Vec<u8>> {
        match deed {
            CaseOp::Edit | CaseOp::MultiEdit | CaseOp::ApplyPatch | CaseOp::Insert => {
                self.after.clone()
            }
            CaseOp::Rename | CaseOp::Restore => self.after.as_ref().map(|_| self.content.clone()),
            CaseOp::Write => self.after.as_ref().map(|_| self.written.as_bytes().to_vec()),
        }
    }

    /// Returns a diff that adds the new text behind the first line.
    pub(super) fn insertion(&self) -> String {
        format!("--- a/{0}\n+++ b/{0}\n@@ -1,0 +2 @@\n+{1}\n", self.path, self.new)
    }

    /// Returns a diff of the change as a writer makes it who sees lines without their endings.
    pub(super) fn diff(&self) -> String {
        let text = String::from_utf8_lossy(&self.content).replace("\r\n", "\n");
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let (old, new) = (self.old.replace("\r\n", "\n"), self.new.replace("\r\n", "\n"));
        let (path, at) = (self.path, text.find(&old));
        let start = at.map_or(0, |at| text[..at].rfind('\n').map_or(0, |at| at + 1));
        let end = at.map_or(0, |at| {
            text[at + old.len()..].find('\n').map_or(text.len(), |n| at + old.len() + n)
        });
        let line = text[..start].matches('\n').count() + 1;
        let before = if at.is_some() { &text[start..end] } else { old.as_str() };
        let open = if end == text.len() { "\\ No newline at end of file\n" } else { "" };
        let lines = |mark: char, text: &str| -> String {
            text.split('\n').map(|line| format!("{mark}{line}\n")).collect()
        };
        let (removed, added) = (lines('-', before), lines('+', &before.replacen(&old, &new, 1)));
        let counts = [&removed, &added].map(|lines| lines.matches('\n').count());
        let header = format!("@@ -{line},{} +{line},{} @@", counts[0], counts[1]);
        format!("--- a/{path}\n+++ b/{path}\n{header}\n{removed}{open}{added}{open}")
    }

    fn refused(self) -> Self {
        Self { after: None, ..self }
    }

    fn deeds(self, deeds: &'static [CaseOp]) -> Self {
        Self { deeds, ..self }
    }
}

const BEFORE: &[u8] = b"first\nold text\nlast\n";
const AFTER: &[u8] = b"first\nnew text\nlast\n";

/// An edit of a content.
fn content(
    name: &'static str,
    before: impl Into<Vec<u8>>,
    (old, new): (&'static str, &'static str),
    after: impl Into<Vec<u8>>,
) -> Case {
    Case {
        name,
        deeds: EDITS,
        content: before.into(),
        lay_out: |_| true,
        path: "file.txt",
        old,
        new,
        all: false,
        more: &[],
        written: "written\r\nanew",
        hard_links: HardLinks::Refuse,
        after: Some(after.into()),
        blocks: false,
        effect: changed,
    }
}

/// A change of some lines of a content, also by a patch.
fn lines(
    name: &'static str,
    before: impl Into<Vec<u8>>,
    texts: (&'static str, &'static str),
    after: impl Into<Vec<u8>>,
) -> Case {
    content(name, before, texts, after).deeds(CHANGES)
}

/// A line that comes behind the first one of a content.
fn inserted(
    name: &'static str,
    before: impl Into<Vec<u8>>,
    line: &'static str,
    after: impl Into<Vec<u8>>,
) -> Case {
    content(name, before, ("", line), after).deeds(&[CaseOp::Insert])
}

/// A change of a file with something about it that is not its content.
fn about(name: &'static str, lay_out: fn(&Path) -> bool) -> Case {
    Case { deeds: ALL, lay_out, ..content(name, BEFORE, ("old text", "new text"), AFTER) }
}

/// The usual effect: the file has the new content, and no set-id bits.
fn changed(snapshot: &mut Snapshot, content: &[u8]) {
    changed_at("ws/file.txt", snapshot, content);
}

fn changed_at(path: &str, snapshot: &mut Snapshot, content: &[u8]) {
    let node = snapshot.0.get_mut(path).unwrap();
    node.content = content.to_vec();
    node.mode &= !0o6000;
    node.attributes.remove(CAPABILITY);
}

/// Every case, in the order of the page.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = endings();
    cases.extend(encodings());
    cases.extend(matches());
    cases.extend(written());
    cases.extend(metadata());
    cases.extend(names());
    cases
}

const ONE: (&str, &str) = ("old text", "new text");
/// Two lines, as a model sees them.
const TWO: (&str, &str) = ("old\ntext", "new\nlonger\ntext");

fn endings() -> Vec<Case> {
    vec![
        lines("LF", BEFORE, ONE, AFTER),
        lines("CRLF", "a\r\nold text\r\nb\r\n", ONE, "a\r\nnew text\r\nb\r\n"),
        lines(
            "CRLF, text of two lines written with LF",
            "a\r\nold\r\ntext\r\nb\r\n",
            TWO,
            "a\r\nnew\r\nlonger\r\ntext\r\nb\r\n",
        ),
        lines(
            "CRLF, text of two lines written with CRLF",
            "a\r\nold\r\ntext\r\nb\r\n",
            ("old\r\ntext", "new\r\ntext"),
            "a\r\nnew\r\ntext\r\nb\r\n",
        ),
        lines("mixed endings", "a\r\nold text\nb\r\nc\n\r", ONE, "a\r\nnew text\nb\r\nc\n\r"),
        content(
            "mixed endings, text of two lines with LF",
            "a\r\nold\ntext\nb\r\n",
            TWO,
            "a\r\nnew\nlonger\ntext\nb\r\n",
        ),
        content(
            "mixed endings, text of two lines with CRLF",
            "a\nold\r\ntext\r\nb\n",
            TWO,
            "a\nnew\r\nlonger\r\ntext\r\nb\n",
        ),
        content(
            "mixed endings within the text",
            "a\nold\r\nkept\ntext\r\nb\n",
            ("old\nkept\ntext", "new\nkept\ntext"),
            "a\nnew\r\nkept\ntext\r\nb\n",
        ),
        content("CR alone", "a\rold text\rb\r", ONE, "a\rnew text\rb\r"),
        content("LF, new text with CRLF", "a\nold\nb\n", ("old", "n\r\nm"), "a\nn\r\nm\nb\n"),
        lines("no line end at the end", "a\nold text\nb", ONE, "a\nnew text\nb"),
        lines("no line end at the end, last line", "a\nold text", ONE, "a\nnew text"),
        lines("empty lines at the end", "old text\n\n\n\n", ONE, "new text\n\n\n\n"),
        lines(
            "blanks at the end of other lines",
            "a \t \nold text\n \n\t\n",
            ONE,
            "a \t \nnew text\n \n\t\n",
        ),
        lines(
            "a line separator U+2028",
            "a\u{2028}old text\u{85}b",
            ONE,
            "a\u{2028}new text\u{85}b",
        ),
    ]
}

fn encodings() -> Vec<Case> {
    let long = "\u{e9}x".repeat(1 << 20);
    let mut cases = vec![
        lines(
            "UTF-8 with a byte order mark",
            "\u{feff}a\nold text\n",
            ONE,
            "\u{feff}a\nnew text\n",
        ),
        lines(
            "UTF-8 with a byte order mark, first line",
            "\u{feff}old text\nb\n",
            ONE,
            "\u{feff}new text\nb\n",
        ),
        lines(
            "a Latin-1 byte on another line",
            *b"caf\xe9\nold text\n",
            ONE,
            *b"caf\xe9\nnew text\n",
        ),
        lines(
            "a Latin-1 byte on the same line",
            *b"\xe9 old text \xff\n",
            ONE,
            *b"\xe9 new text \xff\n",
        ),
        lines(
            "a surrogate and an overlong form",
            *b"\xed\xa0\x80\xc0\xaf old text",
            ONE,
            *b"\xed\xa0\x80\xc0\xaf new text",
        ),
        lines("a NUL near the start", *b"a\0b\nold text\n", ONE, *b"a\0b\nnew text\n"),
        lines(
            "a NUL far from the start",
            [&b"line\n".repeat(4_000)[..], b"old text\n\0\xff\n"].concat(),
            ONE,
            [&b"line\n".repeat(4_000)[..], b"new text\n\0\xff\n"].concat(),
        ),
        lines(
            "control characters",
            "\u{1b}[1mold text\u{7}\u{8}\u{c}\u{7f}\n",
            ONE,
            "\u{1b}[1mnew text\u{7}\u{8}\u{c}\u{7f}\n",
        ),
        lines(
            "a line of 3 MiB",
            format!("{long}old text{long}\n"),
            ONE,
            format!("{long}new text{long}\n"),
        ),
        lines(
            "characters outside the BMP",
            "\u{1f600}old text\u{10ffff}",
            ONE,
            "\u{1f600}new text\u{10ffff}",
        ),
    ];
    cases.extend(wide_and_legacy());
    cases.extend(insertions());
    cases
}

fn wide_and_legacy() -> Vec<Case> {
    let wide = |bytes: fn(u16) -> [u8; 2], text: &str| -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    };
    let wider = |bytes: fn(u32) -> [u8; 4], text: &str| -> Vec<u8> {
        text.chars().map(u32::from).flat_map(bytes).collect()
    };
    let marked = ("\u{feff}a\r\nold text\n\u{1f600}\n", "\u{feff}a\r\nnew text\n\u{1f600}\n");
    let accents = ("cr\u{e8}me", "th\u{e9}");
    vec![
        lines(
            "UTF-16LE with a byte order mark",
            wide(u16::to_le_bytes, marked.0),
            ONE,
            wide(u16::to_le_bytes, marked.1),
        ),
        lines(
            "UTF-16BE with a byte order mark",
            wide(u16::to_be_bytes, marked.0),
            ONE,
            wide(u16::to_be_bytes, marked.1),
        ),
        lines(
            "UTF-16LE without a mark",
            wide(u16::to_le_bytes, "[a]\r\nold text\r\n"),
            ONE,
            wide(u16::to_le_bytes, "[a]\r\nnew text\r\n"),
        ),
        content(
            "UTF-16LE with half a character",
            [wide(u16::to_le_bytes, marked.0), vec![0, 0xD8]].concat(),
            ONE,
            "",
        )
        .refused(),
        lines(
            "UTF-32LE with a byte order mark",
            wider(u32::to_le_bytes, marked.0),
            ONE,
            wider(u32::to_le_bytes, marked.1),
        ),
        lines(
            "UTF-32BE with a byte order mark",
            wider(u32::to_be_bytes, marked.0),
            ONE,
            wider(u32::to_be_bytes, marked.1),
        ),
        lines(
            "windows-1252, text with accents",
            *b"Un caf\xe9 cr\xe8me, s'il vous pla\xeet.\r\n",
            accents,
            *b"Un caf\xe9 th\xe9, s'il vous pla\xeet.\r\n",
        ),
        content(
            "windows-1252, new text with what it lacks",
            *b"Un caf\xe9 cr\xe8me, s'il vous pla\xeet.\r\n",
            ("cr\u{e8}me", "\u{1f600}"),
            "",
        )
        .refused(),
        lines(
            "Shift_JIS with a backslash in a character",
            *b"\x82\xb1\x82\xea\x82\xcd\x95\x5c\x8e\xa6\x82\xc5\x82\xb7\n\\\n",
            ("\\", "/"),
            *b"\x82\xb1\x82\xea\x82\xcd\x95\x5c\x8e\xa6\x82\xc5\x82\xb7\n/\n",
        ),
    ]
}

fn insertions() -> Vec<Case> {
    let wide = |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    let wider =
        |text: &str| -> Vec<u8> { text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect() };
    let (before, after) = ("\u{feff}a\nb\n", "\u{feff}a\nth\u{e9}\nb\n");
    vec![
        inserted("UTF-8, a line added", "a\nb\n", "th\u{e9}", "a\nth\u{e9}\nb\n"),
        inserted("UTF-16LE with a mark, a line added", wide(before), "th\u{e9}", wide(after)),
        inserted("UTF-32BE with a mark, a line added", wider(before), "th\u{e9}", wider(after)),
        inserted(
            "Latin-1, a line added",
            *b"caf\xe9 au lait, tr\xe8s bon\nb\n",
            "th\u{e9}",
            *b"caf\xe9 au lait, tr\xe8s bon\nth\xe9\nb\n",
        ),
        inserted(
            "Latin-1, a line added that it cannot hold",
            *b"caf\xe9 au lait, tr\xe8s bon\nb\n",
            "\u{1f600}",
            "",
        )
        .refused(),
        inserted("binary, a line added", *b"\x7fELF\0\n\xff\n", "x", "").refused(),
    ]
}

fn matches() -> Vec<Case> {
    let twice = "old text\nb\nold text\n";
    vec![
        content("the text is there twice", twice, ONE, "").refused(),
        Case {
            all: true,
            ..content(
                "the text is there twice, all asked for",
                twice,
                ONE,
                "new text\nb\nnew text\n",
            )
        },
        content(
            "the text is there twice, with other endings",
            "a\nb\nx\na\r\nb\n",
            ("a\nb\n", "c\n"),
            "c\nx\na\r\nb\n",
        ),
        content("tabs, text with blanks", "\told\ttext\n", ("    old text", "x"), "").refused(),
        content("blanks, text with a tab", "    old text\n", ("\told text", "x"), "").refused(),
        content("blanks at the end of the line, text without", "old \ntext\n", TWO, "").refused(),
        content(
            "typographic quotes, text with plain ones",
            "\u{201c}old\u{201d}\n",
            ("\"old\"", "x"),
            "",
        )
        .refused(),
        content(
            "combining accents, text with composed ones",
            "cafe\u{301}\n",
            ("caf\u{e9}", "x"),
            "",
        )
        .refused(),
        content("other case", "Old Text\n", ONE, "").refused(),
        content(
            "`$&`, `$1`, `${0}` in the new text",
            BEFORE,
            ("old text", "$& $1 ${0} $$"),
            "first\n$& $1 ${0} $$\nlast\n",
        ),
        content(
            "`\\1`, `\\n`, `\\\\` in the new text",
            BEFORE,
            ("old text", "\\1 \\n \\\\"),
            "first\n\\1 \\n \\\\\nlast\n",
        ),
        content("`.*` in the old text", "a.*b axxb\n", ("a.*b", "c"), "c axxb\n"),
        content("the whole content", "old text", ("old text", ""), ""),
        content("the text is not there", BEFORE, ("none", "new"), "").refused(),
        content("an empty file", "", ONE, "").refused(),
        Case {
            more: &[("first", "1st"), ("new text\nlast", "end")],
            ..content("three edits", BEFORE, ONE, "1st\nend\n").deeds(MANY)
        },
        Case {
            more: &[("first", "1st"), ("none", "x")],
            ..content("three edits, the last is not there", BEFORE, ONE, "").refused().deeds(MANY)
        },
    ]
}

fn written() -> Vec<Case> {
    let write = |name, content_before: &'static [u8], written| Case {
        written,
        ..content(name, content_before, ONE, "").deeds(WRITES)
    };
    vec![
        write("overwritten with mixed endings", BEFORE, "a\r\nb\nc\r"),
        write("overwritten with NUL", BEFORE, "a\0b"),
        write("overwritten with a byte order mark", BEFORE, "\u{feff}a\n"),
        write("overwritten with nothing", BEFORE, ""),
        write("overwritten with the same", BEFORE, "first\nold text\nlast\n"),
        write("binary, overwritten", b"\x7fELF\0\xff", "text\n"),
        Case {
            path: "new.txt",
            effect: |snapshot, content| {
                let mut node = snapshot.0["ws/other.txt"].clone();
                node.content = content.to_vec();
                snapshot.0.insert("ws/new.txt".into(), node);
            },
            ..write("created", BEFORE, "a\r\nb")
        },
    ]
}

fn set_mode(top: &Path, mode: u32) -> bool {
    fs::set_permissions(top.join("ws/file.txt"), fs::Permissions::from_mode(mode)).is_ok()
}

fn set_attribute(path: &Path, name: &str, value: &[u8]) -> bool {
    lsetxattr(path, name, value, XattrFlags::empty()).is_ok()
}

/// `cap_net_raw` in the second form of the attribute.
const NET_RAW: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn metadata() -> Vec<Case> {
    let about = |name, lay_out| Case { deeds: MOVES, ..about(name, lay_out) };
    vec![
        about("mode 0755", |top| set_mode(top, 0o755)),
        about("mode 0600", |top| set_mode(top, 0o600)),
        about("mode 0666", |top| set_mode(top, 0o666)),
        about("mode 1644, sticky", |top| set_mode(top, 0o1644)),
        about("mode 6755, set-id", |top| set_mode(top, 0o6755)),
        about("another owner and group", |top| {
            chown(top.join("ws/file.txt"), Some(12), Some(34)).is_ok()
        }),
        about("another owner, set-id", |top| {
            chown(top.join("ws/file.txt"), Some(12), Some(34)).is_ok() && set_mode(top, 0o4755)
        }),
        about("extended attributes", |top| {
            let file = top.join("ws/file.txt");
            set_attribute(&file, "user.note", b"kept \0 \xff")
                && set_attribute(&file, "user.empty", b"")
                && set_attribute(&file, "user.large", &[7; 2_000])
        }),
        about("an access list", |top| {
            set_attribute(&top.join("ws/file.txt"), "system.posix_acl_access", &access_list())
        }),
        about("mode 0600 in a directory with an access list for new files", |top| {
            set_mode(top, 0o600)
                && set_attribute(&top.join("ws"), "system.posix_acl_default", &access_list())
        }),
        about("a capability", |top| {
            set_attribute(&top.join("ws/file.txt"), "security.capability", &NET_RAW)
        }),
    ]
}

fn linked(top: &Path, target: &str, name: &str) -> bool {
    symlink(target, top.join("ws").join(name)).is_ok()
}

fn second_name(top: &Path) -> bool {
    fs::hard_link(top.join("ws/file.txt"), top.join("outside/second.txt")).is_ok()
}

fn names() -> Vec<Case> {
    let link = |name, lay_out| Case { path: "link", ..about(name, lay_out) };
    vec![
        link("a link to a file inside", |top| linked(top, "file.txt", "link")),
        link("a link to a link inside", |top| {
            linked(top, "file.txt", "middle") && linked(top, "middle", "link")
        }),
        link("a link to a file outside", |top| linked(top, "../outside/file.txt", "link"))
            .refused(),
        link("a link to nothing", |top| linked(top, "nothing", "link")).refused(),
        link("a link to nothing outside", |top| linked(top, "../outside/no", "link")).refused(),
        link("a link to itself", |top| linked(top, "link", "link")).refused(),
        Case {
            path: "dir/file.txt",
            ..about("a directory that is a link inside", |top| linked(top, ".", "dir"))
        },
        Case {
            path: "dir/file.txt",
            ..about("a directory that is a link outside", |top| linked(top, "../outside", "dir"))
        }
        .refused(),
        Case { path: "../outside/file.txt", ..about("a path that leads outside", |_| true) }
            .refused(),
        about("two names, `files.hard_links` = `refuse`", second_name).refused(),
        Case {
            hard_links: HardLinks::Break,
            effect: |snapshot, content| {
                changed(snapshot, content);
                for name in ["ws/file.txt", "outside/second.txt"] {
                    snapshot.0.get_mut(name).unwrap().links = 1;
                }
            },
            ..about("two names, `files.hard_links` = `break`", second_name)
        },
        Case {
            hard_links: HardLinks::InPlace,
            effect: |snapshot, content| {
                changed(snapshot, content);
                changed_at("outside/second.txt", snapshot, content);
            },
            ..about("two names, `files.hard_links` = `in_place`", second_name)
        },
        Case {
            path: "other",
            ..about("a directory", |top| fs::create_dir(top.join("ws/other")).is_ok())
        }
        .refused(),
        Case {
            path: "pipe",
            blocks: true,
            ..about("a pipe", |top| {
                mknodat(CWD, top.join("ws/pipe"), FileType::Fifo, Mode::RWXU, 0).is_ok()
            })
        }
        .refused(),
    ]
}
