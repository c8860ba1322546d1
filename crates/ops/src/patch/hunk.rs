//! One hunk: its place in the patch, its target and its lines.
//!
//! A hunk keeps its lines as a slice of the patch and parses them each time, so a large patch costs little
//! more than itself. This module decides which lines belong to a hunk. Where the counts of the header are
//! right, every counted line is content, even one that looks like a header. Where they are wrong, the hunk
//! ends at the first line that cannot belong to it. A text that ends within a line, before all counted
//! lines, is rejected as cut off.

use super::line::{Lines, bare};
use super::refusal::PatchError;
use super::{envelope, section};

/// A hunk of a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk<'p> {
    /// The line of the patch at which it begins, counted from 1.
    pub line: u64,
    /// The first old line, from 1, by the header; the line before where the hunk has no old lines.
    pub old_start: Option<u64>,
    /// Whether the counts of its header are those of its lines.
    pub(super) counted: bool,
    /// Whether its header has counts that are not those of its lines.
    pub(super) miscounted: bool,
    /// Whether its last line is the last of the file.
    pub(super) at_end: bool,
    pub(super) form: PatchFormat,
    /// The header lines of an envelope, or the text after the numbers that a header lacks.
    heads: &'p [u8],
    body: &'p [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatchFormat {
    Diff,
    /// The lines of an envelope that change a file.
    Update,
    /// The lines of an envelope that create a file: an empty line is an added one.
    Add,
}

/// The change of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    Keep,
    Remove,
    Add,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HunkLine<'p> {
    pub(super) mark: LineKind,
    /// Without its line feed; a carriage return is part of it.
    pub(super) text: &'p [u8],
    /// Whether a line feed follows. It does, unless the patch states otherwise.
    pub(super) ended: bool,
}

impl HunkLine<'_> {
    /// Returns how many bytes it has, its line feed included.
    pub(super) fn n_bytes(&self) -> usize {
        self.text.len() + usize::from(self.ended)
    }
}

impl<'p> Hunk<'p> {
    pub(super) fn lines(&self) -> impl Iterator<Item = HunkLine<'p>> {
        let mut rest = Lines::new(self.body);
        let form = self.form;
        std::iter::from_fn(move || {
            loop {
                let raw = rest.next()?;
                let Some((mark, text)) = split(raw) else { continue };
                let mark = if form == PatchFormat::Add { LineKind::Add } else { mark };
                let text = text.strip_suffix(b"\n").unwrap_or(text);
                let ended = !rest.peek().is_some_and(|next| next.starts_with(b"\\"));
                return Some(HunkLine { mark, text, ended });
            }
        })
    }

    /// Returns whether it may be cut off: its text ends within a line and has fewer lines than counted.
    fn is_cut_off(&self, [(_, n_old), (_, n_new)]: [(u64, u64); 2]) -> bool {
        let n = |mark: LineKind| self.lines().filter(|line| line.mark != mark).count() as u64;
        self.miscounted
            && !self.body.ends_with(b"\n")
            && (n(LineKind::Add) < n_old || n(LineKind::Remove) < n_new)
    }

    pub(super) fn has_old(&self) -> bool {
        self.lines().any(|line| line.mark != LineKind::Add)
    }

    pub(super) fn has_new(&self) -> bool {
        self.lines().any(|line| line.mark != LineKind::Remove)
    }

    /// Returns whether one of its lines begins with some bytes.
    pub fn has_line(&self, begin: &[u8]) -> bool {
        self.lines().any(|line| line.text.starts_with(begin))
    }

    /// Returns the context lines that its headers name, the outermost first.
    pub(super) fn contexts(&self) -> impl Iterator<Item = &'p [u8]> {
        Lines::new(self.heads).map(|raw| {
            let text = raw.trim_ascii();
            let text = text.strip_prefix(b"@@").unwrap_or(text);
            text.strip_prefix(b" ").unwrap_or(text)
        })
    }
}

/// Splits a line into kind and text with LF; an empty line or one that begins with a tab lost its blank.
fn split(raw: &[u8]) -> Option<(LineKind, &[u8])> {
    match raw.split_first()? {
        (b' ', text) => Some((LineKind::Keep, text)),
        (b'-', text) => Some((LineKind::Remove, text)),
        (b'+', text) => Some((LineKind::Add, text)),
        (b'\n' | b'\r' | b'\t', _) => Some((LineKind::Keep, raw)),
        _ => None,
    }
}

/// A parsed hunk header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header<'p> {
    /// Where the old and the new lines begin and how many they are.
    numbers: Option<[(u64, u64); 2]>,
    /// The first number, also where the rest of them cannot be read.
    start: Option<u64>,
    /// The text of a header without numbers.
    heading: &'p [u8],
}

fn header(raw: &[u8]) -> Header<'_> {
    let text = raw.trim_ascii();
    let text = text.strip_prefix(b"@@").unwrap_or(text).trim_ascii();
    let text = text.strip_suffix(b"@@").unwrap_or(text).trim_ascii();
    let old = text.strip_prefix(b"-").and_then(range);
    let new = old.and_then(|(_, rest)| rest.trim_ascii_start().strip_prefix(b"+").and_then(range));
    let numbers = old.zip(new).map(|((old, _), (new, _))| [old, new]);
    let start = old.map(|((start, _), _)| start);
    // Dots and signs are no evidence of the place.
    let speaks = start.is_none() && text.iter().any(u8::is_ascii_alphanumeric);
    Header { numbers, start, heading: if speaks { text } else { b"" } }
}

/// Reads `start` or `start,count`; numbers that are too large become the largest.
fn range(text: &[u8]) -> Option<((u64, u64), &[u8])> {
    let (start, rest) = number(text)?;
    match rest.strip_prefix(b",").and_then(number) {
        Some((count, rest)) => Some(((start, count), rest)),
        None => Some(((start, 1), rest)),
    }
}

fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let n_digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(n_digits).filter(|_| 0 < n_digits)?;
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some((digits.iter().fold(0, add), rest))
}

/// Reads a hunk of a diff that begins with its header.
pub(super) fn read<'p>(lines: &mut Lines<'p>) -> Result<Hunk<'p>, PatchError> {
    let line = lines.number();
    let header = header(lines.next().unwrap_or_default());
    let counted = header.numbers.and_then(|[old, new]| by_counts(*lines, old, new));
    let end = counted.unwrap_or_else(|| by_lines(*lines));
    let hunk = Hunk {
        line,
        old_start: header.start,
        counted: counted.is_some(),
        miscounted: header.numbers.is_some() && counted.is_none(),
        at_end: false,
        form: PatchFormat::Diff,
        heads: header.heading,
        body: lines.until(&end),
    };
    *lines = end;
    if header.numbers.is_some_and(|promised| hunk.is_cut_off(promised)) && lines.peek().is_none() {
        return Err(PatchError::CutOff { line });
    }
    checked(hunk)
}

/// Reads the lines of a hunk of a diff that has no header.
pub(super) fn read_bare<'p>(lines: &mut Lines<'p>) -> Result<Hunk<'p>, PatchError> {
    let end = by_lines(*lines);
    let hunk = Hunk {
        line: lines.number(),
        old_start: None,
        counted: false,
        miscounted: false,
        at_end: false,
        form: PatchFormat::Diff,
        heads: b"",
        body: lines.until(&end),
    };
    *lines = end;
    checked(hunk)
}

/// Reads a hunk of an envelope: its headers, if it has any, and its lines. `padded` is whether markers of the
/// envelope have blanks before them.
pub(super) fn read_update<'p>(lines: &mut Lines<'p>, padded: bool) -> Result<Hunk<'p>, PatchError> {
    let line = lines.number();
    let begin = *lines;
    let mut heads = lines.until(lines);
    let mut old_start = None;
    let is_head = |raw: &&[u8]| {
        raw.starts_with(b"@@") || (padded && raw.trim_ascii_start().starts_with(b"@@"))
    };
    while let Some(raw) = lines.peek().filter(is_head) {
        let header = header(raw);
        lines.next();
        if header.start.is_some() {
            old_start = header.start;
        } else if !header.heading.is_empty() {
            heads = begin.until(lines);
        }
    }
    let body = *lines;
    let mut end = *lines;
    while let Some(raw) = lines.peek().filter(|raw| split(raw).is_some() || is_note(raw)) {
        if envelope::is_padded_marker(*lines, padded) {
            break;
        }
        lines.next();
        if !bare(raw).is_empty() {
            end = *lines;
        }
    }
    let at_end = lines.peek().is_some_and(is_end_of_file);
    if at_end {
        lines.next();
    }
    checked(Hunk {
        line,
        old_start,
        counted: false,
        miscounted: false,
        at_end,
        form: PatchFormat::Update,
        heads: if old_start.is_some() { b"" } else { heads },
        body: body.until(&end),
    })
}

/// Reads the lines of a file that an envelope makes, or nothing where it is made empty.
pub(super) fn read_add<'p>(lines: &mut Lines<'p>) -> Option<Hunk<'p>> {
    let begin = *lines;
    let mut end = begin;
    while let Some(raw) = lines.peek().filter(|raw| raw.starts_with(b"+") || bare(raw).is_empty()) {
        lines.next();
        if !bare(raw).is_empty() {
            end = *lines;
        }
    }
    let body = begin.until(&end);
    (!body.is_empty()).then(|| Hunk {
        line: begin.number(),
        old_start: Some(0),
        counted: true,
        miscounted: false,
        at_end: false,
        form: PatchFormat::Add,
        heads: b"",
        body,
    })
}

fn checked(hunk: Hunk<'_>) -> Result<Hunk<'_>, PatchError> {
    if hunk.lines().all(|line| line.mark == LineKind::Keep) {
        return Err(PatchError::Hunk { line: hunk.line });
    }
    Ok(hunk)
}

/// Returns whether a line says that the hunk before it ends with the file.
pub(super) fn is_end_of_file(raw: &[u8]) -> bool {
    raw.trim_ascii() == b"*** End of File"
}

fn is_note(raw: &[u8]) -> bool {
    raw.starts_with(b"\\")
}

/// Returns where a hunk ends whose counts are right.
fn by_counts<'p>(
    mut lines: Lines<'p>,
    (old_start, n_old): (u64, u64),
    (_, n_new): (u64, u64),
) -> Option<Lines<'p>> {
    let (mut old, mut new) = (n_old, n_new);
    let mut last_two = [lines, lines];
    while 0 < old || 0 < new {
        let here = lines;
        let raw = lines.next()?;
        if is_note(raw) {
            continue;
        }
        let (mark, _) = split(raw)?;
        old = old.checked_sub(u64::from(mark != LineKind::Add))?;
        new = new.checked_sub(u64::from(mark != LineKind::Remove))?;
        last_two = [last_two[1], here];
    }
    while lines.peek().is_some_and(is_note) {
        lines.next();
    }
    // The counts include the names of the next file, if the next hunk cannot follow this one.
    let [before, _] = last_two;
    let ends_with_names = section::is_header(before) && {
        let next = lines.peek().map(header).and_then(|next| next.start);
        next.is_some_and(|next| next < old_start.saturating_add(n_old))
    };
    (!ends_with_names && !goes_on(lines)).then_some(lines)
}

/// Returns whether a hunk continues after the end by its counts.
fn goes_on(mut lines: Lines<'_>) -> bool {
    loop {
        if section::is_names(lines) || is_signature(lines) {
            return false;
        }
        match lines.next().and_then(split) {
            Some((LineKind::Keep, _)) => {}
            Some(_) => return true,
            None => return false,
        }
    }
}

/// Returns where a hunk ends by its lines alone. Empty lines at its end are not part of it.
fn by_lines(mut lines: Lines<'_>) -> Lines<'_> {
    let mut end = lines;
    while let Some(raw) = lines.peek() {
        let is_line = split(raw).is_some() || is_note(raw);
        if !is_line || section::is_header(lines) || is_signature(lines) {
            break;
        }
        lines.next();
        if !bare(raw).is_empty() {
            end = lines;
        }
    }
    end
}

/// Returns whether a mail ends here: two dashes, and then the version of the program.
pub(super) fn is_signature(mut lines: Lines<'_>) -> bool {
    lines.peek().is_some_and(|raw| raw.starts_with(b"--") && raw.trim_ascii_end() == b"--")
        && lines.nth(1).is_some_and(|raw| raw.first().is_some_and(u8::is_ascii_digit))
}
