//! The tree that is searched: the sources of the crates that this project is built from, copied once
//! into the target directory, and on top of them everything that makes searching hard.
//!
//! One half of the crates lies in `plain`, which is no repository by itself, the other in `repo`,
//! which is one and holds others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Changes with what this file lays out.
const LAYOUT: u32 = 7;

/// How many files are copied at least, and of how many crates one is: fewer, but at night.
fn extent() -> (usize, usize) {
    match std::env::var_os("SINEW_TEST_ROUNDS") {
        Some(_) => (22_000, 1),
        None => (3_000, 8),
    }
}

/// Files up to this size are all copied, of larger ones some.
const SMALL: u64 = 16 * 1024;
const LARGE: u64 = 256 * 1024;
const ONE_OF: usize = 8;

/// Files with a longer line, or with more bytes in the [`CONTEXT`] lines of a window, are left out: once a thread of either side has seen one, it reads larger
/// blocks, and finds a NUL that lies far behind a match before it sees the match.
const MAX_LINE: usize = 60_000;
/// The most lines of context that a pattern of the list asks for.
const CONTEXT: usize = 100;

/// Files up to this size are copied more than once, as long as there are too few.
const TINY: u64 = 4 * 1024;

/// The tree, and its numbers of files, crates and links.
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    /// Where the person's own ignore file lies.
    pub(crate) home: PathBuf,
    pub(crate) n_files: usize,
    /// How many files ignore files leave at least.
    pub(crate) min_heeded: usize,
    /// The directories of the crates, relative to the root.
    pub(crate) crates: Vec<String>,
    /// Every link, and whether ignore files leave it.
    pub(crate) links: BTreeMap<Vec<u8>, bool>,
}

impl Tree {
    /// Returns the tree, laid out where that was not done before.
    pub(crate) fn open() -> Self {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock();
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("differential");
        let (root, stamp) = (place.join("tree"), place.join("stamp"));
        let sources = sources();
        let wanted = stamp_of(&sources);
        if fs::read_to_string(&stamp).ok().as_ref() != Some(&wanted) {
            let _ = fs::remove_dir_all(&place);
            fs::create_dir_all(&root).unwrap();
            copy(&sources, &root);
            decorate(&root);
            write(&place.join("home/git/ignore"), b"*.globally\n");
            fs::write(&stamp, wanted).unwrap();
        }
        let root = fs::canonicalize(&root).unwrap();
        let home = fs::canonicalize(place.join("home")).unwrap();
        let crates = ["plain", "repo"].iter().flat_map(|half| {
            let entries = fs::read_dir(root.join(half)).unwrap().map(Result::unwrap);
            let directories = entries.filter(|entry| entry.file_type().unwrap().is_dir());
            directories
                .map(move |entry| format!("{half}/{}", entry.file_name().into_string().unwrap()))
        });
        let crates: Vec<String> = crates.filter(|path| !path.ends_with("/.git")).collect();
        let n_files = n_files(&root);
        let links = LINKS.iter().map(|(path, _, heeded)| (path.as_bytes().to_vec(), *heeded));
        Self {
            home,
            n_files,
            min_heeded: extent().0 * 9 / 10,
            crates,
            links: links.collect(),
            root,
        }
    }

    /// Returns the directory of the crate that holds a file.
    pub(crate) fn crate_of(&self, path: &[u8]) -> Option<&str> {
        let holds = |dir: &&String| {
            path.strip_prefix(dir.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
        };
        self.crates.iter().find(holds).map(String::as_str)
    }
}

/// One file to copy: where it is, its place beneath its crate, its crate, its size.
#[derive(Hash)]
struct Source {
    file: PathBuf,
    krate: String,
    beneath: PathBuf,
    size: u64,
}

/// Returns every file of every crate of the lock file that cargo has unpacked, in order.
fn sources() -> Vec<Source> {
    let locked = locked();
    let cargo = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").expect("a home")).join(".cargo"));
    let registry = cargo.join("registry/src");
    let mut sources = Vec::new();
    for index in fs::read_dir(&registry).expect("cargo has unpacked crates").map(Result::unwrap) {
        for krate in fs::read_dir(index.path()).unwrap().map(Result::unwrap) {
            let name = krate.file_name().into_string().unwrap();
            if !locked.contains(&name) {
                continue;
            }
            let mut left = vec![krate.path()];
            while let Some(path) = left.pop() {
                let meta = fs::symlink_metadata(&path).unwrap();
                if meta.is_dir() {
                    left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                } else if meta.is_file() && path.file_name().unwrap() != ".cargo-ok" {
                    let beneath = path.strip_prefix(krate.path()).unwrap().to_owned();
                    let (krate, size) = (name.clone(), meta.len());
                    sources.push(Source { file: path, krate, beneath, size });
                }
            }
        }
    }
    sources.sort_by(|a, b| (&a.krate, &a.beneath).cmp(&(&b.krate, &b.beneath)));
    assert!(1_000 < sources.len(), "too few sources in {}", registry.display());
    sources
}

/// Returns the crates of the lock file as cargo names their directories.
fn locked() -> BTreeSet<String> {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    let lock = fs::read_to_string(lock).unwrap();
    let value = |line: &str, key: &str| Some(line.strip_prefix(key)?.trim_matches('"').to_owned());
    let lines: Vec<&str> = lock.lines().collect();
    let named = lines.windows(2).filter_map(|pair| {
        Some(format!("{}-{}", value(pair[0], "name = ")?, value(pair[1], "version = ")?))
    });
    named.collect()
}

fn stamp_of(sources: &[Source]) -> String {
    let mut hasher = DefaultHasher::new();
    (LAYOUT, extent(), sources).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Returns a number of a crate by its name alone (FNV-1a), so that a new crate or version takes the place of no other.
fn number_of(krate: &str) -> usize {
    let name = krate.rsplit_once('-').map_or(krate, |(name, _)| name);
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(16_777_619);
    name.bytes().fold(2_166_136_261, step) as usize
}

fn copy(sources: &[Source], root: &Path) {
    let (min_files, one_of) = extent();
    let mut n_copied = 0;
    for round in 0..50 {
        for (at, source) in sources.iter().enumerate() {
            let number = number_of(&source.krate);
            let half = number / one_of % 2;
            if !number.is_multiple_of(one_of) {
                continue;
            }
            let wanted = match round {
                0 => source.size <= SMALL || (at % ONE_OF == 0 && source.size <= LARGE),
                _ => source.size <= TINY,
            };
            if !wanted || (0 < round && min_files <= n_copied) {
                continue;
            }
            let content = fs::read(&source.file).unwrap();
            let lines: Vec<usize> = content.split(|b| *b == b'\n').map(|l| l.len() + 1).collect();
            let is_long = |lines: &[usize]| MAX_LINE < lines.iter().sum::<usize>();
            if lines.windows(CONTEXT.min(lines.len())).any(is_long) {
                continue;
            }
            let again = if round == 0 { String::new() } else { format!(".{round}") };
            let krate = format!("{}/{}{again}", ["plain", "repo"][half], source.krate);
            let target = root.join(krate).join(&source.beneath);
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::write(&target, content).unwrap();
            n_copied += 1;
        }
        if min_files <= n_copied {
            return;
        }
    }
    panic!("only {n_copied} files");
}

fn n_files(root: &Path) -> usize {
    let mut n = 0;
    let mut left = vec![root.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            n += usize::from(kind.is_file());
            if kind.is_dir() {
                left.push(entry.path());
            }
        }
    }
    n
}

fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Links: where, to what, and whether ignore files leave them.
const LINKS: &[(&str, &str, bool)] = &[
    ("repo/odd/link.rs", "plain.rs", true),
    ("repo/odd/link-outside", "/etc/passwd", true),
    ("repo/odd/link-up", "..", true),
    ("repo/odd/link-nowhere.rs", "nowhere", true),
    ("repo/odd/link-itself", "link-itself", true),
    ("repo/odd/link.log", "plain.rs", false),
    ("repo/odd/keep.log", "plain.rs", true),
    ("repo/target", "odd", true),
    ("plain/odd/link-to-repo", "../../repo", true),
    ("plain/odd/link-to-ignored", "ignored", true),
    ("plain/odd/ignored-link", "plain.rs", false),
];

/// Ignore files, and what stands for repositories.
const RULES: &[(&str, &str)] = &[
    (
        "repo/.gitignore",
        "# results\n/target/\n*.log\n!keep.log\n*.snap\n!important.snap\nbenches\n/*/doc/\n\
         !/*/doc/keep.md\ndocs/**/*.png\n**/fixtures/**\n\\#odd.rs\n\\!bang.rs\ntrailing.rs   \n\
         escaped\\ \nsp?ce.rs\n[ab]cd.rs\n*.excluded\n/odd/deep/**/leaf.rs\n!/odd/deep/4/\n\
         rustfmt.toml\r\nodd/anchored.rs\n/unanchored/\nnever/{a,b}\n*.globally-not\n",
    ),
    ("repo/.git/HEAD", "ref: refs/heads/main\nfn hidden_in_git() {}\n"),
    ("repo/.git/info/exclude", "*.orig\n!important.orig\n/odd/excluded/\n*.excluded\n"),
    ("repo/.git/hooks/pre-commit.rs", "fn hidden_in_git() {}\n"),
    ("repo/odd/.gitignore", "!again.log\n!inner.excluded\n*.tmp\n!/sub/keep.tmp\nsub/none.rs\n"),
    ("repo/odd/.ignore", "!snapshots.snap\ndrop.rs\n"),
    ("repo/odd/bad/.gitignore", "first.rs\n[z-a]\n{x\nsecond.rs\n"),
    ("repo/odd/.rgignore", "!drop.rs\ndropped.rs\n"),
    ("repo/nested/.git/HEAD", "ref: refs/heads/main\n"),
    ("repo/nested/.git/info/exclude", "from-exclude.rs\n"),
    ("repo/nested/.gitignore", "\u{feff}first.rs\nsecond.rs\n"),
    ("repo/linked/.git", "gitdir: ../nowhere\n"),
    ("repo/linked/.gitignore", "second.rs\n"),
    ("repo/.git/worktrees/worktree/commondir", "../..\n"),
    ("repo/other/.jj/repo", "x\n"),
    ("repo/other/.gitignore", "second.rs\n"),
    ("plain/.gitignore", "*.markdown\n"),
    ("plain/.ignore", "CHANGELOG.md\nbenches/\n!benches/keep.rs\n*.yml\n!.travis.yml\n"),
    ("plain/.rgignore", "!CHANGELOG.md\nLICENSE-MIT\n"),
    ("plain/odd/.ignore", "ignored*\n!ignored-not.rs\n/deep/*/2/\n"),
    ("plain/odd/.sinew/config.toml", "fn hidden_in_state() {}\n"),
    ("plain/odd/.molf/a.rs", "fn hidden_in_state() {}\n"),
    (".ignore", "top-ignored.rs\n"),
];

/// Files whose name or place is the point: all hold the same two lines.
const NAMED: &[&str] = &[
    "top.rs",
    "top-ignored.rs",
    "repo/odd/plain.rs",
    "repo/odd/a.log",
    "repo/odd/again.log",
    "repo/odd/sub/again.log",
    "repo/odd/snapshots.snap",
    "repo/odd/other.snap",
    "repo/odd/important.snap",
    "repo/odd/inner.excluded",
    "repo/odd/a.orig",
    "repo/odd/important.orig",
    "repo/odd/excluded/a.rs",
    "repo/odd/drop.rs",
    "repo/odd/dropped.rs",
    "repo/odd/a.tmp",
    "repo/odd/sub/keep.tmp",
    "repo/odd/sub/other.tmp",
    "repo/odd/sub/none.rs",
    "repo/odd/#odd.rs",
    "repo/odd/!bang.rs",
    "repo/odd/trailing.rs",
    "repo/odd/escaped ",
    "repo/odd/space.rs",
    "repo/odd/sp ce.rs",
    "repo/odd/acd.rs",
    "repo/odd/ccd.rs",
    "repo/odd/anchored.rs",
    "repo/odd/sub/odd/anchored.rs",
    "repo/odd/unanchored/a.rs",
    "repo/odd/fixtures/a.rs",
    "repo/odd/fixtures/b/c.rs",
    "repo/odd/docs/a/b.png",
    "repo/odd/never/a",
    "repo/odd/a.globally",
    "repo/odd/bad/first.rs",
    "repo/odd/bad/second.rs",
    "repo/odd/bad/third.rs",
    "repo/odd/.hidden.rs",
    "repo/odd/.hidden/inner.rs",
    "repo/odd/benches/a.rs",
    "repo/odd/doc/keep.md",
    "repo/target-not/a.rs",
    "repo/nested/first.rs",
    "repo/nested/second.rs",
    "repo/nested/third.rs",
    "repo/nested/a.log",
    "repo/nested/from-exclude.rs",
    "repo/nested/a.orig",
    "repo/linked/a.log",
    "repo/linked/second.rs",
    "repo/linked/third.rs",
    "repo/worktree/a.log",
    "repo/worktree/a.orig",
    "repo/worktree/important.orig",
    "repo/worktree/odd/excluded/a.rs",
    "repo/worktree/other/odd/excluded/a.rs",
    "repo/other/a.log",
    "repo/other/second.rs",
    "repo/other/third.rs",
    "plain/odd/plain.rs",
    "plain/odd/ignored/a.rs",
    "plain/odd/ignored.rs",
    "plain/odd/ignored-not.rs",
    "plain/odd/a.markdown",
    "plain/odd/a.globally",
    "plain/odd/a.yml",
    "plain/odd/.travis.yml",
    "plain/odd/benches/keep.rs",
    "plain/odd/LICENSE-MIT",
    "plain/odd/CHANGELOG.md",
    "plain/odd/a[1].rs",
    "plain/odd/{x}.rs",
    "plain/odd/star*.rs",
    "plain/odd/back\\slash.rs",
    "plain/odd/-dash.rs",
    "plain/odd/ünïcode.rs",
    "plain/odd/日本.rs",
    "plain/odd/two  blanks.rs",
    "plain/odd/UPPER.RS",
    "plain/odd/no-extension",
    "plain/odd/.gitignored/a.rs",
    "plain/odd/dir.rs/inner.rs",
];

fn decorate(root: &Path) {
    for (path, text) in RULES {
        write(&root.join(path), text.as_bytes());
    }
    // A linked worktree and its repository name one another.
    let git = fs::canonicalize(root).unwrap().join("repo/.git/worktrees/worktree");
    let worktree = root.join("repo/worktree/.git");
    write(&worktree, format!("gitdir: {}\n", git.display()).as_bytes());
    let worktree = fs::canonicalize(worktree).unwrap();
    write(&git.join("gitdir"), format!("{}\n", worktree.display()).as_bytes());
    for path in NAMED {
        write(&root.join(path), b"fn odd_name() {}\n// needle in an odd place\n");
    }
    for (path, target, _) in LINKS {
        symlink(target, root.join(path)).unwrap();
    }
    for half in ["plain", "repo"] {
        let odd = root.join(half).join("odd");
        for (name, content) in contents() {
            write(&odd.join("contents").join(name), &content);
        }
        for depth in 0..60 {
            let dir: PathBuf = (0..depth).map(|level| (level % 5).to_string()).collect();
            write(&odd.join("deep").join(dir).join("leaf.rs"), b"fn leaf() {}\n");
        }
        for name in [&b"latin-\xe9.rs"[..], b"\xff\xfe.txt", b"dir-\xe9/inner.rs", b"cut-\xe2\x82"]
        {
            let name = PathBuf::from(std::ffi::OsString::from_vec(name.to_vec()));
            write(&odd.join(name), b"fn not_utf8_name() {}\n");
        }
        // Ignore files that are none.
        fs::create_dir_all(odd.join("strange/.gitignore")).unwrap();
        fs::create_dir_all(odd.join("strange/.ignore")).unwrap();
        write(&odd.join("strange/a.rs"), b"fn strange() {}\n");
        write(&odd.join("strange/latin/.ignore"), b"first.rs\nl\xe9tter.rs\nsecond.rs\n");
        write(&odd.join("strange/latin/first.rs"), b"fn first() {}\n");
        write(&odd.join("strange/latin/second.rs"), b"fn second() {}\n");
        mknodat(CWD, odd.join("pipe.rs"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let directory = odd.join("empty");
        fs::create_dir_all(&directory).unwrap();
    }
}

/// Contents that are hard to search, by name.
fn contents() -> Vec<(&'static str, Vec<u8>)> {
    let needle = b"// needle in a haystack\n".as_slice();
    let line = b"fn filler() -> u32 { 1 }\n";
    let wide = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    };
    let long = |before: usize, after: usize, fill: &str| {
        format!("{}needle{}\nnext line\n", fill.repeat(before), fill.repeat(after)).into_bytes()
    };
    let text = "\u{feff}fn wide() {}\r\n// needle, wide: \u{fc}\u{20ac}\u{1f600}\r\nlast";
    vec![
        ("empty.rs", Vec::new()),
        ("newline.rs", b"\n".to_vec()),
        ("newlines.rs", b"\n\n\n\n".to_vec()),
        ("unended.rs", [needle, b"// needle at the end"].concat()),
        ("crlf.rs", b"fn crlf() {\r\n    // needle\r\n}\r\n".to_vec()),
        ("crlf-unended.rs", b"a\r\nneedle\r".to_vec()),
        ("mixed.rs", b"fn a() {}\r\nfn b() {}\n\rfn c() {}\r\n\nneedle\r\r\n".to_vec()),
        ("cr.txt", b"one\rneedle\rtwo\r".to_vec()),
        ("bom.rs", b"\xef\xbb\xbffn bom() {}\nneedle\n".to_vec()),
        ("latin.rs", b"caf\xe9 needle \xff\xfe\nna\xefve\n".to_vec()),
        ("utf16le.txt", wide(text, u16::to_le_bytes)),
        ("utf16be.txt", wide(text, u16::to_be_bytes)),
        ("utf16-cut.txt", [&wide(text, u16::to_le_bytes)[..], b"x"].concat()),
        ("utf16-no-mark.txt", wide("needle without a mark\n", u16::to_le_bytes)),
        ("nul-first.bin", [b"\0", needle].concat()),
        ("nul-after.bin", [needle, b"\0more\n", needle].concat()),
        ("nul-in-line.bin", b"a\nneedle \0 here\nneedle\n".to_vec()),
        ("nul-far.bin", [needle, &line.repeat(4_000), b"\0\n", needle].concat()),
        ("nul-far-only.bin", [&line.repeat(4_000), b"\0\n".as_slice(), needle].concat()),
        ("nul-at-65536.bin", [needle, &b"x\n".repeat(32_756), b"\0\n"].concat()),
        ("nul-last.bin", [needle, b"\0"].concat()),
        ("elf", [b"\x7fELF\x02\x01\x01\0".as_slice(), needle].concat()),
        ("long-499.txt", long(493, 0, "x")),
        ("long-500.txt", long(494, 0, "x")),
        ("long-501.txt", long(495, 0, "x")),
        ("long-before.txt", long(3_000, 0, "x")),
        ("long-after.txt", long(0, 3_000, "x")),
        ("long-around.txt", long(2_000, 2_000, "\u{fc}")),
        ("long-emoji.txt", long(700, 700, "\u{1f600}")),
        ("long-50k.txt", long(25_000, 25_000, "y")),
        ("long-latin.txt", [&[0xe9; 900][..], b"needle", &[0xe9; 900], b"\n"].concat()),
        ("many.txt", b"needle needle needle\n".repeat(500)),
        ("control.txt", b"\x1b[31mneedle\x1b[0m\x07\x08\n\x0c\x0bneedle\n".to_vec()),
        (
            "unicode.txt",
            "Stra\u{df}e STRASSE \u{130}stanbul \u{3a3}\u{3c3}\u{3c2} needl\u{e9}\n\
            \u{65e5}\u{672c}\u{8a9e} \u{1f600}\u{200d} \u{2028}needle\u{2029}\u{85}\n"
                .into(),
        ),
        ("tabs.txt", b"\tneedle\t\n \tneedle \n".to_vec()),
        ("blanks.txt", b"   \n\t\n \t \nneedle   \n".to_vec()),
    ]
}
