//! Lines that stand for content that was left out: `// ... existing code ...`, `# (unchanged)`.
//!
//! Whoever sends one means the rest of the old file, and a tool that takes it literally throws that
//! rest away. So a new text may only have such a line where the old one has it. A line counts when it
//! is nothing but a comment, or begins or ends with an ellipsis, and when its words say no more than
//! that something stays as it was. What may also be an honest comment is let through: a word that
//! belongs to the matter itself, such as in `// rest of the header is padding`, is enough.

use sinew_tool::{Kind, ToolError};

/// The longest line that is looked at, in bytes: nobody leaves out content in many words.
const MAX_LINE: usize = 120;

/// Words for what comes after.
const REST: &[&str] = &["rest", "remainder", "remaining"];
/// Words for what was there.
const OLD: &[&str] = &["existing", "other", "original", "previous", "same", "unchanged"];
/// Words for what a file is made of.
const PARTS: &[&str] = &[
    "body",
    "case",
    "cases",
    "class",
    "classes",
    "code",
    "component",
    "components",
    "config",
    "configuration",
    "constants",
    "content",
    "contents",
    "declarations",
    "definitions",
    "entries",
    "fields",
    "file",
    "function",
    "functions",
    "handlers",
    "implementation",
    "implementations",
    "import",
    "imports",
    "items",
    "lines",
    "logic",
    "method",
    "methods",
    "module",
    "options",
    "properties",
    "props",
    "routes",
    "rules",
    "script",
    "section",
    "sections",
    "setup",
    "statements",
    "styles",
    "test",
    "tests",
    "types",
    "variables",
];
/// Of these, what hardly anything else than a placeholder speaks of as a whole.
const WHOLES: &[&str] = &[
    "class",
    "code",
    "component",
    "content",
    "contents",
    "file",
    "function",
    "implementation",
    "methods",
    "module",
    "script",
];
/// Words that say that something stays, or is not here.
const STAYS: &[&str] = &[
    "brevity",
    "elided",
    "identical",
    "omitted",
    "remain",
    "remains",
    "snip",
    "snipped",
    "stay",
    "stays",
    "unchanged",
    "unmodified",
    "untouched",
];
/// Words that say nothing by themselves.
const SMALL: &[&str] = &[
    "a", "above", "all", "and", "are", "as", "before", "below", "change", "changes", "for", "from",
    "goes", "here", "in", "is", "it", "its", "keep", "my", "needed", "no", "not", "of", "our",
    "shown", "the", "this", "to", "your",
];

/// How a line is set apart from content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// By the signs of a comment.
    Comment,
    /// By nothing of the kind.
    None,
}

/// Refuses a new text with a line that stands for content left out, unless the old text has the same
/// line. `name` is how messages name the argument.
pub(crate) fn check(name: &str, path: &str, new: &str, old: &str) -> Result<(), ToolError> {
    let mut found = find(path, new);
    let Some((number, line)) = found.find(|(_, line)| !old.lines().any(|old| old.trim() == *line))
    else {
        return Ok(());
    };
    let problem = format!("stands for content that it leaves out in line {number}: `{line}`");
    Err(ToolError::new(Kind::InvalidArgs, format!("argument `{name}` {problem}")).hint(
        "nothing is filled in, so the content would be lost: send it in full, or edit only the lines \
         that change",
    ))
}

/// Returns the lines of a text that stand for content left out, with their numbers.
pub(crate) fn find<'a>(path: &str, text: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let is_prose = is_prose(path);
    let mut follows_comment = false;
    text.lines().map(str::trim).zip(1..).filter_map(move |(line, number)| {
        if is_content(line) {
            follows_comment = false;
            return None;
        }
        let follows = follows_comment;
        let (inner, mark) = uncommented(line, is_prose);
        follows_comment = mark == Mark::Comment;
        let counts = (4..=MAX_LINE).contains(&line.len()) && is_omission(inner, mark, follows);
        counts.then_some((number, line))
    })
}

/// Returns whether a line neither is a comment nor begins or ends with an ellipsis, by its ends: this is
/// asked of every line that is written.
fn is_content(line: &str) -> bool {
    let ends = line.as_bytes().first().zip(line.as_bytes().last());
    ends.is_some_and(|(first, last)| {
        first.is_ascii_alphanumeric() && last.is_ascii() && !b".:;!-=*_~".contains(last)
    })
}

/// Returns whether a file holds text for people, in which the signs of comments mean other things.
fn is_prose(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    matches!(extension.as_deref(), Some("md" | "markdown" | "mdx" | "txt" | "rst" | "adoc" | "org"))
}

/// Returns whether a line, without the signs of a comment, stands for content left out. One that follows
/// a comment without an ellipsis is likely the end of its sentence.
fn is_omission(inner: &str, mark: Mark, follows_comment: bool) -> bool {
    let (inner, is_elided, is_bracketed) = unwrapped(inner);
    // Nearly every line is one of these, and nobody reads their words.
    if mark == Mark::None && !is_elided && !is_bracketed {
        return false;
    }
    let is_plain = |c: char| c.is_alphanumeric() || " ,-'/".contains(c);
    if inner.is_empty() || (follows_comment && !is_elided) || !inner.chars().all(is_plain) {
        return false;
    }
    let inner = inner.to_lowercase();
    let words = inner.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let words: Vec<&str> = words.collect();
    Words::of(&words).stand_for_more(mark, is_elided, is_bracketed)
}

/// Takes the signs of a comment off a line.
fn uncommented(line: &str, is_prose: bool) -> (&str, Mark) {
    const PAIRS: &[(&str, &str)] = &[("<!--", "-->"), ("{/*", "*/}"), ("/*", "*/"), ("(*", "*)")];
    for (open, close) in PAIRS {
        let inner = line.strip_prefix(open).map(|rest| rest.strip_suffix(close).unwrap_or(rest));
        if let Some(inner) = inner {
            return (inner.trim_start_matches('*').trim(), Mark::Comment);
        }
    }
    if is_prose {
        return (line, Mark::None);
    }
    let signs = ["//", "#", "--", ";", "%"].into_iter();
    let inner = signs.filter(|sign| line.starts_with(*sign)).find_map(|sign| {
        let inner = line.trim_start_matches([sign.chars().next()?, '!']);
        // Options, directives and values begin with some of the signs too.
        let is_apart = sign == "//" || inner.starts_with([' ', '\t', '.', '…', '(', '[']);
        is_apart.then(|| inner.trim())
    });
    inner.map_or((line, Mark::None), |inner| (inner, Mark::Comment))
}

/// Takes dots, brackets and rulers off both ends; returns what is left, and whether there was an
/// ellipsis and whether there were brackets.
fn unwrapped(mut inner: &str) -> (&str, bool, bool) {
    let (mut is_elided, mut is_bracketed) = (false, false);
    loop {
        let before = inner;
        inner = inner.trim().trim_matches(['-', '=', '*', '_', '~']).trim();
        for ellipsis in ["...", "…"] {
            for rest in [inner.strip_prefix(ellipsis), inner.strip_suffix(ellipsis)] {
                if let Some(rest) = rest.filter(|rest| rest.len() < inner.len()) {
                    inner = rest.trim_matches('.');
                    is_elided = true;
                    break;
                }
            }
        }
        for (open, close) in [('(', ')'), ('[', ']'), ('{', '}'), ('<', '>')] {
            let within = inner.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
            if let Some(within) = within {
                inner = within;
                is_bracketed = true;
            }
        }
        inner = inner.trim_end_matches(['.', ':', ';', '!']);
        if inner == before {
            return (inner, is_elided, is_bracketed);
        }
    }
}

/// What the words of a line say together.
#[derive(Debug, Default)]
struct Words {
    n: usize,
    /// How many belong to the matter itself.
    n_others: usize,
    says_rest: bool,
    says_old: bool,
    says_part: bool,
    says_whole: bool,
    says_code: bool,
    stays: bool,
    /// Whether `existing` is among them, which is said of nothing but what was there.
    says_existing: bool,
}

impl Words {
    fn of(words: &[&str]) -> Self {
        let mut said = Self { n: words.len(), ..Self::default() };
        for word in words {
            let is = |list: &[&str]| list.contains(word);
            said.says_rest |= is(REST);
            said.says_old |= is(OLD);
            said.says_part |= is(PARTS);
            said.says_whole |= is(WHOLES);
            said.says_code |= matches!(*word, "code" | "implementation");
            said.says_existing |= matches!(*word, "existing" | "unchanged");
            said.stays |= is(STAYS);
            let is_known = [REST, OLD, PARTS, STAYS, SMALL].iter().any(|list| is(list));
            said.n_others += usize::from(!is_known);
        }
        let says = |phrase: &[&str]| words.windows(phrase.len()).any(|window| window == phrase);
        said.stays |= says(&["same", "as", "before"])
            || says(&["the", "same"])
            || says(&["as", "is"])
            || says(&["no", "changes"])
            || says(&["not", "shown"]);
        said
    }

    /// Returns whether the words stand for content that is not there.
    fn stand_for_more(&self, mark: Mark, is_elided: bool, is_bracketed: bool) -> bool {
        let of_old = self.says_rest || self.says_old;
        // What something is about, and that it stays.
        let is_complete = of_old && (self.says_part || self.says_rest) && self.stays;
        match (mark, is_elided) {
            (Mark::Comment, true) => {
                let says = self.stays || self.says_rest || (self.says_old && self.says_part);
                (says || self.says_existing) && self.n_others <= 2
            }
            (Mark::Comment, false) => {
                let is_whole =
                    (self.says_rest && self.says_whole) || (self.says_existing && self.says_code);
                let is_short = self.stays && self.n <= 4 && !self.is_reading();
                self.n_others == 0 && (is_complete || is_whole || is_short)
            }
            (Mark::None, true) => {
                let says = (of_old && self.says_part) || is_complete;
                2 <= self.n && self.n_others == 0 && says
            }
            (Mark::None, false) => is_bracketed && self.n_others == 0 && is_complete && 3 <= self.n,
        }
    }

    /// Returns whether what stays may be meant of what follows, and not of what is left out.
    fn is_reading(&self) -> bool {
        self.says_part && !self.says_code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_line(path: &str, line: &str, expected: bool) {
        let found: Vec<_> = find(path, line).collect();
        assert_eq!(!found.is_empty(), expected, "{path}: {line}");
    }

    #[test]
    fn placeholders_are_found() {
        for line in [
            "// ... existing code ...",
            "// existing code",
            "// existing code here",
            "    // ... existing code ...",
            "// your existing code here",
            "// ... rest of the code ...",
            "// rest of the code",
            "// rest of code remains the same",
            "// rest of methods unchanged",
            "// The rest of the file stays the same.",
            "// rest of the file unchanged",
            "// ... rest of file",
            "// Rest of the implementation...",
            "// ...rest of the component",
            "// (rest of the class unchanged)",
            "// ... other methods ...",
            "// ... other imports remain unchanged ...",
            "// other methods remain the same",
            "// ... unchanged ...",
            "// unchanged",
            "// remaining code unchanged",
            "// [existing code]",
            "/// ... rest of the function ...",
            "// ... (same as before)",
            "// ... same as before ...",
            "// no changes here",
            "// ... keep existing code",
            "// --- rest of the code ---",
            "// ... previous implementation ...",
            "// ... existing imports and helper methods ...",
            "// code omitted for brevity",
            "// ... omitted ...",
            "# (unchanged)",
            "# ... rest of the code ...",
            "# ... existing code ...",
            "# rest of the function remains unchanged",
            "# … rest unchanged …",
            "-- ... rest of the file unchanged ...",
            "; ... existing code ...",
            "% ... rest of the file ...",
            "/* same as before */",
            "/* ... existing styles ... */",
            "{/* ... existing code ... */}",
            "{/* rest of the component */}",
            "<!-- rest remains -->",
            "<!-- ... existing content ... -->",
            "<!-- rest of the file unchanged -->",
            "(* ... rest of the module ... *)",
            "... rest of the code ...",
            "...rest of the file unchanged...",
            "... (rest of the code remains the same)",
            "[... rest of the file unchanged ...]",
            "[rest of the code unchanged]",
            "(rest of the file stays the same)",
            "… existing code …",
        ] {
            check_line("a.rs", line, true);
        }
        for line in [
            "... rest of the code ...",
            "[... rest of the file unchanged ...]",
            "<!-- ... existing sections ... -->",
        ] {
            check_line("docs/a.md", line, true);
        }
    }

    #[test]
    fn code_and_text_are_not() {
        for line in [
            "...",
            "    ...",
            "// ...",
            "# ...",
            "/* ... */",
            "..",
            "    Self { n: 1, ..Self::default() }",
            "        ..",
            "    ..rest",
            "match rest { [first, ..] => {} }",
            "...rest,",
            "    ...props,",
            "  ...existing,",
            "  ...state.unchanged,",
            "return { ...existing, ...other };",
            "def f(self): ...",
            "x: tuple[int, ...]",
            "let existing = code(rest);",
            "existing code",
            "unchanged",
            "rest of the code",
            "// Rest of the header is padding.",
            "// the rest of the line",
            "// remaining bytes",
            "// Other imports",
            "// other methods",
            "// other tests",
            "// same as above",
            "// Same as `Foo`, but unchanged by the rest.",
            "// `foo` remains unchanged.",
            "// Existing users keep their password.",
            "// the existing file is replaced",
            "// nothing changes here",
            "// methods",
            "// code",
            "// The content is unchanged, so the cache is kept.",
            "// everything else stays where the compiler put it",
            "# remaining arguments",
            "# existing connections are closed first",
            "# Keep the rest of the arguments for later",
            "#include <code>",
            "#[test]",
            "[package]",
            "[existing]",
            "[other.code]",
            "(unchanged)",
            "-- the rest of the rows",
            "--no-changes",
            "* rest of the code",
            "<code>",
            "<script>",
            "</script>",
            "%rest",
            "'...existing code...'",
            "\"// ... existing code ...\",",
            "println!(\"... rest of the code ...\");",
        ] {
            check_line("a.rs", line, false);
        }
        for line in [
            "# Existing code",
            "## Rest of the file",
            "The rest of the code is unchanged.",
            "...and the rest is history.",
            "... the same as before, she said.",
            "Unchanged:",
            "- unchanged",
            "* other methods",
            "// ... existing code ...",
            "(same as before)",
            "The existing code... well, the rest of it stays.",
        ] {
            check_line("README.md", line, false);
        }
    }

    #[test]
    fn own_sources_have_none() {
        for (path, text) in [
            ("edit.rs", include_str!("edit.rs")),
            ("diff.rs", include_str!("diff.rs")),
            ("lines.rs", include_str!("lines.rs")),
            ("omission.rs", include_str!("omission.rs")),
            ("patch/name.rs", include_str!("patch/name.rs")),
            ("read.rs", include_str!("read.rs")),
            ("ARCHITECTURE.md", include_str!("../../../ARCHITECTURE.md")),
            ("CONTRIBUTING.md", include_str!("../../../CONTRIBUTING.md")),
            ("SECURITY.md", include_str!("../../../SECURITY.md")),
        ] {
            let found: Vec<_> = find(path, text).collect();
            assert!(found.is_empty(), "{path}: {found:?}");
        }
    }

    #[test]
    fn what_the_old_text_has_may_stay() {
        for (new, old, refused) in [
            ("fn a() {\n    // ... existing code ...\n}\n", "fn a() {\n    b();\n}\n", true),
            ("a\n  // existing code\n", "// existing code\n", false),
            ("a\r\n# (unchanged)\r\n", "# (unchanged)\r\nb", false),
            ("# (unchanged)\n\n// rest of the code\n", "# (unchanged)\n", true),
            ("// What it returns is\n// unchanged.\n", "", false),
            ("// A\n// ... unchanged ...\n", "", true),
            ("a\n", "", false),
        ] {
            let refusal = check("content", "a.rs", new, old).err();
            assert_eq!(refusal.is_some(), refused, "{new}");
            if let Some(error) = refusal {
                assert_eq!(error.kind, Kind::InvalidArgs);
                assert!(
                    error.message.starts_with("argument `content` stands for content"),
                    "{error}"
                );
            }
        }
    }
}
