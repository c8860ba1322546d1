//! Detects lines that stand for omitted content: `// ... existing code ...`, `# (unchanged)`.
//!
//! Such a line means the rest of the old file, and written literally it would destroy that rest. So a new
//! text may have one only where the old text has it. A line counts if it is only a comment, in brackets, or
//! begins or ends with an ellipsis, and its words only say that something stays. Outside of prose a bare
//! line about a rest counts too: `rest unchanged`. One word of the subject lets an honest comment pass, as
//! in `// rest of the header is padding`.

use sinew_tool::{Kind, ToolError};

/// The longest line that is checked, in bytes: placeholders are short.
const MAX_LINE: usize = 120;

/// Words for the content that follows.
const REST: &[&str] = &["rest", "remainder", "remaining"];
/// Words for the old content.
const OLD: &[&str] = &["existing", "other", "original", "previous", "same", "unchanged"];
/// Words for the parts of a file.
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
/// Of these, the words that as a whole occur in hardly anything but a placeholder.
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
/// Words for content that stays, or is left out here.
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
/// Words for content that was removed.
const CUT: &[&str] = &["abbreviated", "abridged", "cut", "shortened", "trimmed", "truncated"];
/// Words that say nothing by themselves.
const SMALL: &[&str] = &[
    "a", "above", "all", "and", "are", "as", "before", "below", "change", "changes", "for", "from",
    "goes", "here", "in", "is", "it", "its", "keep", "my", "needed", "no", "not", "of", "our",
    "shown", "the", "this", "to", "your",
];

/// The mark that sets a line apart from content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OmissionMark {
    /// A comment sign.
    Comment,
    /// No comment sign.
    None,
}

/// Rejects a new text with a placeholder line that the old text lacks; `name` is the argument in messages.
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

/// Returns the placeholder lines of a text, with their numbers.
pub(crate) fn find<'a>(path: &str, text: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let is_prose = is_prose(path);
    let (mut follows_comment, mut before) = (false, "");
    text.lines().map(str::trim).zip(1..).filter_map(move |(line, number)| {
        let before = std::mem::replace(&mut before, line);
        if is_content(line) {
            follows_comment = false;
            let counts = begins_with_rest(line) && !is_prose && is_bare_omission(line, before);
            return counts.then_some((number, line));
        }
        let follows = follows_comment;
        let (inner, mark) = uncommented(line, is_prose);
        follows_comment = mark == OmissionMark::Comment;
        let counts = (4..=MAX_LINE).contains(&line.len()) && is_omission(inner, mark, follows);
        counts.then_some((number, line))
    })
}

/// Returns whether a line has no comment sign or ellipsis at its ends; this runs for every written line.
fn is_content(line: &str) -> bool {
    let ends = line.as_bytes().first().zip(line.as_bytes().last());
    ends.is_some_and(|(first, last)| {
        first.is_ascii_alphanumeric() && last.is_ascii() && !b".:;!-=*_~".contains(last)
    })
}

/// Returns whether a line begins with a word for the rest; its first letter excludes nearly all.
fn begins_with_rest(line: &str) -> bool {
    if !matches!(line.as_bytes().first(), Some(b'R' | b'r' | b'T' | b't')) {
        return false;
    }
    let begins = |line: &str, word: &str| {
        line.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    let rest = if begins(line, "the ") { line.get(4..).unwrap_or_default() } else { line };
    REST.iter().any(|word| begins(rest, word))
}

/// Returns whether an unmarked line is a placeholder; after a line of words it likely ends their sentence.
fn is_bare_omission(line: &str, before: &str) -> bool {
    let is_words = |line: &str, signs: &str| {
        line.len() <= MAX_LINE && line.chars().all(|c| c.is_alphanumeric() || signs.contains(c))
    };
    let is_sentence = is_words(before, " ,-'") && before.split_whitespace().nth(3).is_some();
    if is_sentence || !is_words(line, " ") {
        return false;
    }
    Words::of(line).are_complete()
}

/// Returns whether a file is prose, in which comment signs have other meanings.
fn is_prose(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    matches!(extension.as_deref(), Some("md" | "markdown" | "mdx" | "txt" | "rst" | "adoc" | "org"))
}

/// Returns whether a line is a placeholder; after a comment, one without an ellipsis likely continues it.
fn is_omission(inner: &str, mark: OmissionMark, follows_comment: bool) -> bool {
    if matches!(inner, "[...]" | "[…]" | "(...)" | "(…)") {
        return mark == OmissionMark::Comment && !follows_comment;
    }
    let (inner, is_elided, is_bracketed) = unwrapped(inner);
    // Nearly every line returns here, before its words are parsed.
    if mark == OmissionMark::None && !is_elided && !is_bracketed {
        return false;
    }
    let is_plain = |c: char| c.is_alphanumeric() || " ,-'/".contains(c);
    if mark == OmissionMark::None && is_list(inner) {
        return false;
    }
    if inner.is_empty() || (follows_comment && !is_elided) || !inner.chars().all(is_plain) {
        return false;
    }
    Words::of(inner).stand_for_more(mark, is_elided, is_bracketed)
}

/// Returns whether a text is several names with commas between them, as in the lists of a program.
fn is_list(inner: &str) -> bool {
    inner.contains(',') && inner.split(',').all(|name| !name.trim().contains(' '))
}

/// Takes the signs of a comment off a line.
fn uncommented(line: &str, is_prose: bool) -> (&str, OmissionMark) {
    const PAIRS: &[(&str, &str)] = &[("<!--", "-->"), ("{/*", "*/}"), ("/*", "*/"), ("(*", "*)")];
    for (open, close) in PAIRS {
        let inner = line.strip_prefix(open).map(|rest| rest.strip_suffix(close).unwrap_or(rest));
        if let Some(inner) = inner {
            return (inner.trim_start_matches('*').trim(), OmissionMark::Comment);
        }
    }
    if is_prose {
        return (line, OmissionMark::None);
    }
    let signs = ["//", "#", "--", ";", "%"].into_iter();
    let inner = signs.filter(|sign| line.starts_with(*sign)).find_map(|sign| {
        let inner = line.trim_start_matches([sign.chars().next()?, '!']);
        // Options, directives and values begin with some of the signs too.
        let is_apart = sign == "//" || inner.starts_with([' ', '\t', '.', '…', '(', '[']);
        is_apart.then(|| inner.trim())
    });
    inner.map_or((line, OmissionMark::None), |inner| (inner, OmissionMark::Comment))
}

/// Strips dots, brackets and rulers off both ends; returns the rest, if it had an ellipsis, if brackets.
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

/// The meaning of the words of a line.
#[derive(Debug, Default)]
struct Words {
    n: usize,
    /// How many words are about the subject itself.
    n_others: usize,
    says_rest: bool,
    says_old: bool,
    says_part: bool,
    says_whole: bool,
    says_code: bool,
    stays: bool,
    /// Whether `existing` is among them, which only describes old content.
    says_existing: bool,
    says_cut: bool,
    says_here: bool,
    /// Whether `brevity` is among them, which only explains omitted content.
    says_brevity: bool,
}

impl Words {
    fn of(line: &str) -> Self {
        let line = line.to_lowercase();
        let words = line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let words: Vec<&str> = words.collect();
        let mut said = Self { n: words.len(), ..Self::default() };
        for word in &words {
            let is = |list: &[&str]| list.contains(word);
            said.says_rest |= is(REST);
            said.says_old |= is(OLD);
            said.says_part |= is(PARTS);
            said.says_whole |= is(WHOLES);
            said.says_code |= matches!(*word, "code" | "implementation");
            said.says_existing |= matches!(*word, "existing" | "unchanged");
            said.says_cut |= is(CUT);
            said.says_here |= *word == "here";
            said.says_brevity |= *word == "brevity";
            said.stays |= is(STAYS);
            let is_known = [REST, OLD, PARTS, STAYS, CUT, SMALL].iter().any(|list| is(list));
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

    /// Returns whether the words make the line a placeholder.
    fn stand_for_more(&self, mark: OmissionMark, is_elided: bool, is_bracketed: bool) -> bool {
        let is_complete = self.are_complete();
        match (mark, is_elided) {
            (OmissionMark::Comment, true) => {
                let says = self.stays || self.says_rest || (self.says_old && self.says_part);
                let is_cut = self.says_cut && self.n_others == 0;
                is_cut || ((says || self.says_existing) && self.n_others <= 2)
            }
            (OmissionMark::Comment, false) => {
                let is_whole =
                    (self.says_rest && self.says_whole) || (self.says_existing && self.says_code);
                let is_there = self.says_old && self.says_code && (self.says_here || is_bracketed);
                let is_short = self.stays && self.n <= 4 && !self.is_reading();
                let says = is_complete || is_whole || is_there || is_short || self.says_brevity;
                self.n_others == 0 && says
            }
            (OmissionMark::None, true) => {
                let says = (self.are_of_old() && self.says_part) || is_complete;
                2 <= self.n && self.n_others == 0 && says
            }
            (OmissionMark::None, false) => is_bracketed && is_complete,
        }
    }

    fn are_of_old(&self) -> bool {
        self.says_rest || self.says_old
    }

    /// Returns whether the words only name old or remaining content and say that it stays.
    fn are_complete(&self) -> bool {
        let is_about = self.are_of_old() && (self.says_part || self.says_rest);
        is_about && self.stays && self.n_others == 0
    }

    /// Returns whether the words may describe the following code instead of omitted content.
    fn is_reading(&self) -> bool {
        self.says_part && !self.says_code
    }
}

#[cfg(test)]
mod tests;
