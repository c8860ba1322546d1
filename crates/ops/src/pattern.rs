//! Compiles patterns from models: regular expressions, file globs, file types.
//!
//! Regular expressions are ripgrep's: linear in time, without look-around or backreferences. Errors name
//! the fault and its place, because the model uses them for its next attempt.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;

use globset::{ErrorKind, GlobBuilder, GlobSet, GlobSetBuilder};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind};
use sinew_tool::sync::lock;
use sinew_tool::{Context, ToolError};

/// The most bytes of a compiled pattern, and of its cache in each thread.
const MAX_SIZE: usize = 16 << 20;

/// How many compiled patterns are kept between calls.
const MAX_KEPT: usize = 16;

/// The cache key of a compiled regular expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegexKey {
    pub(crate) pattern: String,
    pub(crate) ignore_case: bool,
    pub(crate) multiline: bool,
}

/// The patterns compiled last; the one used last is at the back.
#[derive(Default)]
struct RegexStore(Mutex<VecDeque<(RegexKey, RegexMatcher)>>);

/// Returns a compiled regular expression, perhaps from an earlier call.
pub(crate) fn regex(cx: &Context, key: RegexKey) -> Result<RegexMatcher, ToolError> {
    let store = cx.memo.get::<RegexStore>();
    let mut kept = lock(&store.0);
    if let Some(entry) =
        kept.iter().position(|(known, _)| *known == key).and_then(|at| kept.remove(at))
    {
        let matcher = entry.1.clone();
        kept.push_back(entry);
        return Ok(matcher);
    }
    drop(kept);
    let matcher = compile(&key)?;
    let mut kept = lock(&store.0);
    kept.push_back((key, matcher.clone()));
    if MAX_KEPT < kept.len() {
        kept.pop_front();
    }
    Ok(matcher)
}

fn compile(key: &RegexKey) -> Result<RegexMatcher, ToolError> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(key.ignore_case)
        .multi_line(true)
        .dot_matches_new_line(key.multiline)
        .line_terminator((!key.multiline).then_some(b'\n'))
        .size_limit(MAX_SIZE)
        .dfa_size_limit(MAX_SIZE);
    short_enough("pattern", &key.pattern, MAX_REGEX_BYTES)?;
    check_length(key)?;
    builder.build(&key.pattern).map_err(|error| match error.kind() {
        grep_regex::ErrorKind::Regex(text) => regex_error(&key.pattern, text),
        grep_regex::ErrorKind::NotAllowed(_) => {
            ToolError::argument("pattern", "contains a line feed, which one line never does")
                .hint("set multiline to true to match across lines")
        }
        _ => ToolError::argument("pattern", format!("is not a valid regular expression: {error}")),
    })
}

/// Refuses a pattern with too many characters in a row: each of its places can be reached at each byte of a line, which
/// takes minutes with 16,000 places and a line of 1 MiB.
fn check_length(key: &RegexKey) -> Result<(), ToolError> {
    let mut parser = ParserBuilder::new().utf8(false).case_insensitive(key.ignore_case).build();
    // The compiler returns the error of an invalid pattern.
    let Ok(parsed) = parser.parse(&key.pattern) else { return Ok(()) };
    match n_in_a_row(&parsed) {
        n if n <= MAX_IN_A_ROW => Ok(()),
        n => Err(ToolError::argument(
            "pattern",
            format!(
                "is for up to {n} characters in a row; at most {MAX_IN_A_ROW} are searched for"
            ),
        )
        .hint("search for a shorter part of the text, or repeat with * or + without a number")),
    }
}

/// Returns the most characters that a pattern matches if each repetition without a bound matches once.
fn n_in_a_row(part: &Hir) -> usize {
    match part.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(_) => 1,
        HirKind::Capture(capture) => n_in_a_row(&capture.sub),
        HirKind::Repetition(repeated) => {
            let times = repeated.max.unwrap_or(repeated.min.max(1));
            n_in_a_row(&repeated.sub).saturating_mul(times as usize)
        }
        HirKind::Concat(parts) => parts.iter().map(n_in_a_row).fold(0, usize::saturating_add),
        HirKind::Alternation(parts) => parts.iter().map(n_in_a_row).max().unwrap_or(0),
    }
}

/// Condenses a multi-line syntax error into its reason and column.
pub(crate) fn regex_error(pattern: &str, text: &str) -> ToolError {
    if text.contains("exceeds size limit") {
        return ToolError::argument(
            "pattern",
            format!("needs more than {MAX_SIZE} bytes compiled"),
        )
        .hint("use fewer or smaller repetitions such as {1000}");
    }
    // An error that only the compiler finds has no place.
    let too_deep = text.starts_with("error parsing pattern");
    let reason = text.lines().rev().find_map(|line| line.strip_prefix("error: "));
    let reason = reason.unwrap_or_else(|| text.lines().next().unwrap_or_default());
    // The pattern follows four blanks in an added group: an error at the group is a stray parenthesis.
    let points = |line: &&str| line.contains('^') && line.chars().all(|c| c == ' ' || c == '^');
    let column = text.lines().find(points).and_then(|line| match line.find('^')? {
        0..7 => stray_parenthesis(pattern),
        at if pattern.chars().count() < at - 6 => stray_parenthesis(pattern),
        at => Some(at - 6),
    });
    let place = column.map_or(String::new(), |column| format!(" at character {column}"));
    if too_deep || reason.contains("maximum number of nested") {
        return ToolError::argument("pattern", format!("is nested more than 250 deep{place}"))
            .hint("take groups out of one another, or search several times");
    }
    let error = ToolError::argument(
        "pattern",
        format!("is not a valid regular expression{place}: {}", reason.trim_end_matches('.')),
    );
    if reason.contains("look-around") || reason.contains("backreference") {
        error.hint("this is Rust regex syntax, without look-around and backreferences")
    } else {
        error.hint("escape ( ) [ ] { } . * + ? | ^ $ \\ with a backslash to match them literally")
    }
}

/// Returns the place of the parenthesis without a partner, from 1: the first stray `)`, else the last `(`.
fn stray_parenthesis(pattern: &str) -> Option<usize> {
    let mut open = Vec::new();
    let mut chars = pattern.chars().zip(1..);
    while let Some((c, at)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '(' => open.push(at),
            ')' if open.pop().is_none() => return Some(at),
            _ => {}
        }
    }
    open.pop()
}

/// The longest regular expression, in bytes: a longer one may take seconds to compile.
const MAX_REGEX_BYTES: usize = 32 * 1024;
/// The most characters in a row that a regular expression may be for; of a literal the bytes count.
const MAX_IN_A_ROW: usize = 8 * 1024;
/// The longest glob, in bytes: as long as the longest path.
const MAX_GLOB_BYTES: usize = 4 * 1024;

fn short_enough(argument: &str, pattern: &str, max: usize) -> Result<(), ToolError> {
    if pattern.len() <= max {
        return Ok(());
    }
    let n = pattern.len();
    Err(ToolError::argument(argument, format!("is longer than {max} bytes: {n} bytes")))
}

pub(crate) fn glob(pattern: &str, star_crosses: bool) -> Result<GlobSet, ToolError> {
    short_enough("pattern", pattern, MAX_GLOB_BYTES)?;
    let glob = GlobBuilder::new(pattern).literal_separator(!star_crosses).build();
    // A set of one: it recognises plain suffixes and names without a regular expression.
    let set = glob.and_then(|glob| GlobSetBuilder::new().add(glob).build());
    set.map_err(|error| glob_error("pattern", pattern, error.kind()))
}

fn glob_error(argument: &str, pattern: &str, kind: &ErrorKind) -> ToolError {
    let place = match kind {
        ErrorKind::UnclosedClass => pattern.rfind('['),
        ErrorKind::InvalidRange(from, to) => pattern.find(&format!("{from}-{to}")),
        ErrorKind::UnopenedAlternates => pattern.rfind('}'),
        ErrorKind::UnclosedAlternates | ErrorKind::NestedAlternates => pattern.rfind('{'),
        ErrorKind::DanglingEscape => pattern.rfind('\\'),
        _ => None,
    };
    let place = place.map_or(String::new(), |at| {
        let column = pattern.get(..at).map_or(0, |head| head.chars().count()) + 1;
        format!(" at character {column}")
    });
    ToolError::argument(argument, format!("is not a valid glob{place}: {kind}"))
}

/// The filter of the files that a search reads.
pub(crate) struct Filter {
    globs: Override,
    types: Types,
}

impl Filter {
    /// Compiles ripgrep's `--glob` and `--type`; the empty filter lets everything pass.
    pub(crate) fn new(
        root: &Path,
        glob: Option<&str>,
        file_type: Option<&str>,
    ) -> Result<Self, ToolError> {
        let mut globs = OverrideBuilder::new(root);
        short_enough("glob", glob.unwrap_or_default(), MAX_GLOB_BYTES)?;
        let refused = |error: ignore::Error| filter_error(glob.unwrap_or_default(), &error);
        if let Some(glob) = glob {
            globs.add(glob).map_err(refused)?;
        }
        let globs = globs.build().map_err(refused)?;
        Ok(Self { globs, types: types(file_type)? })
    }

    /// Returns whether a file passes; its path is relative to the root.
    pub(crate) fn passes(&self, path: &Path) -> bool {
        if !self.types.is_empty() && self.types.matched(path, false).is_ignore() {
            return false;
        }
        self.globs.is_empty()
            || (!self.globs.matched(path, false).is_ignore()
                && path
                    .ancestors()
                    .skip(1)
                    .take_while(|_| 0 < self.globs.num_ignores())
                    .all(|directory| self.enters(directory)))
    }

    /// Returns whether files beneath a directory can pass.
    pub(crate) fn enters(&self, directory: &Path) -> bool {
        directory.as_os_str().is_empty() || !self.globs.matched(directory, true).is_ignore()
    }
}

/// Returns the error of a filter's glob, as for any glob where that one finds it too.
fn filter_error(glob: &str, error: &ignore::Error) -> ToolError {
    let plain = glob.strip_prefix('!').unwrap_or(glob);
    match GlobBuilder::new(plain).literal_separator(true).build() {
        Err(error) => glob_error("glob", glob, error.kind()),
        Ok(_) => ToolError::argument("glob", format!("is not a valid glob: {error}")),
    }
}

fn types(name: Option<&str>) -> Result<Types, ToolError> {
    let Some(name) = name else { return Ok(Types::empty()) };
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    // Names that models use and ripgrep does not have.
    for (name, glob) in [("tsx", "*.tsx"), ("jsx", "*.jsx")] {
        builder.add(name, glob).map_err(|error| ToolError::argument("type", error))?;
    }
    let unknown = || {
        let mut near: Vec<(usize, String)> = builder
            .definitions()
            .iter()
            .map(|known| (distance(name, known.name()), known.name().to_owned()))
            .collect();
        near.sort();
        let near: Vec<String> = near.into_iter().take(3).map(|(_, name)| name).collect();
        ToolError::argument("type", format!("is unknown: `{name}`"))
            .hint(format!("nearest types: {}; or use glob", near.join(", ")))
    };
    if !builder.definitions().iter().any(|known| known.name() == name) {
        return Err(unknown());
    }
    builder.select(name);
    builder.build().map_err(|error| ToolError::argument("type", error))
}

/// Returns the edit distance of two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, y) in row.iter_mut().skip(1).zip(&b) {
            let change = diagonal + usize::from(x != *y);
            diagonal = *cell;
            left = change.min(left + 1).min(diagonal + 1);
            *cell = left;
        }
    }
    row.last().copied().unwrap_or(0)
}

/// Returns whether a pattern or path names one of the directories that are otherwise never entered.
pub(crate) fn names_state(text: &str) -> bool {
    text.split('/').any(|part| matches!(part, ".git" | ".sinew" | ".molf"))
}

/// Returns whether a pattern names something that begins with a dot.
pub(crate) fn names_hidden(pattern: &str) -> bool {
    pattern.split('/').any(|part| part.starts_with('.') && !matches!(part, "." | ".."))
}

pub(crate) fn is_hidden(path: &Path) -> bool {
    path.iter().any(|part| part.as_encoded_bytes().starts_with(b"."))
}
