//! Finds the text that an edit names.
//!
//! The search is byte by byte first, then with other line endings. Models see lines without CR, so a text
//! must match in a file with CRLF, and its replacement must not bring other endings. In files with mixed
//! endings each ending is compared. Lines that the text and its replacement share keep their endings; the
//! others take that of the line they replace or follow. Later [stages](crate::loose) find other blanks or
//! quotes for callers who allow it; the rest get a hint ([nearest](crate::nearest)).
//!
//! The replacement is literal text: `$&` and `\1` mean themselves.

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;

use memchr::{memchr_iter, memmem};
use similar::DiffTag;

use crate::line_diff::line_ops;
use crate::lines::{Ending, n_line_ends};
use crate::loose;

sinew_tool::word_enum! {
    /// How a text was found, in the order in which that is tried.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Stage {
        /// Byte by byte.
        Exact = "exact",
        /// With other line endings.
        LineEndings = "line endings differ",
        /// With other blanks at the ends of lines.
        TrailingBlanks = "blanks at line ends differ",
        /// With other indentation.
        Indentation = "indentation differs",
        /// With other forms of quotes, dashes and blanks.
        Punctuation = "quotes, dashes or blanks differ",
    }
}

/// Where a text was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundText {
    pub(crate) stage: Stage,
    /// In order, not overlapping, at least one; exactly one unless all were asked for.
    pub(crate) ranges: Vec<Range<usize>>,
}

/// Why a text cannot be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Miss {
    /// It is not there.
    Nowhere,
    /// It is there this often, first at these places.
    Often(u64, Vec<usize>),
    /// It is not there as it is, and the search for other forms takes too long.
    Costly,
}

/// Limits the lines or characters compared for other forms: repetitive content would take hours.
#[derive(Debug)]
pub(crate) struct Budget(Cell<Option<usize>>);

impl Budget {
    /// Returns the budget of a search in a content.
    pub(crate) fn of(text: &[u8]) -> Self {
        Self(Cell::new(Some(text.len().saturating_mul(4).saturating_add(MIN_WORK))))
    }

    /// Spends some work; returns whether the budget sufficed.
    pub(crate) fn spend(&self, work: usize) -> bool {
        self.0.set(self.0.get().and_then(|left| left.checked_sub(work)));
        !self.is_spent()
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.0.get().is_none()
    }

    /// Returns the result of a search, or `Costly` if the budget ran out.
    pub(crate) fn checked(&self, found: Result<FoundText, Miss>) -> Result<FoundText, Miss> {
        if self.is_spent() { Err(Miss::Costly) } else { found }
    }
}

/// How many places of a too frequent text are named.
const MAX_NAMED: usize = 10;

/// The largest content searched for another form only for a hint.
const MAX_HINTED: usize = 64 << 20;

/// The least budget of a search, and the budget of a search for a hint.
///
/// Tests, which are not optimized, take 80 ns for a unit of work.
const MIN_WORK: usize = if cfg!(test) { 1 << 23 } else { 1 << 26 };
const MAX_HINT_WORK: usize = 1 << 24;

/// A text to find and its replacement.
#[derive(Debug)]
pub(crate) struct Needle<'a> {
    pub(crate) old: &'a str,
    pub(crate) new: &'a str,
    /// Whether it may be there in another form.
    loose: bool,
    /// The replacement with each of its line endings as LF, and as CRLF.
    new_lf: Cow<'a, str>,
    new_crlf: Cow<'a, str>,
}

/// One change of a content: a byte range and its replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentChange<'a> {
    /// The replaced bytes of the old content.
    pub range: Range<usize>,
    /// The new bytes.
    pub new: Cow<'a, [u8]>,
}

impl<'a> Needle<'a> {
    pub(crate) fn new(old: &'a str, new: &'a str, loose: bool) -> Self {
        let new_lf: Cow<'a, str> =
            if new.contains("\r\n") { new.replace("\r\n", "\n").into() } else { new.into() };
        let new_crlf = match new_lf.contains('\n') {
            true => new_lf.replace('\n', "\r\n").into(),
            false => new_lf.clone(),
        };
        Self { old, new, loose, new_lf, new_crlf }
    }

    /// Finds the text: once, or everywhere with `all`.
    pub(crate) fn find(&self, text: &[u8], all: bool) -> Result<FoundText, Miss> {
        let finder = memmem::Finder::new(self.old);
        let exact = finder.find_iter(text).map(|at| at..at + self.old.len());
        let mut found = gather(Stage::Exact, exact, all);
        let budget = Budget::of(text);
        if found == Err(Miss::Nowhere) && self.may_end_otherwise(text) {
            let places = any_ending(text, self.old, &budget);
            found = budget.checked(gather(Stage::LineEndings, places, all));
        }
        if found == Err(Miss::Nowhere) && self.loose && !all {
            found = loose::find(text, self.old, self.new, &budget);
        }
        found
    }

    /// Returns whether the text could be there with other line endings.
    fn may_end_otherwise(&self, text: &[u8]) -> bool {
        let has_crlf = |text: &[u8]| memmem::find(text, b"\r\n").is_some();
        self.old.contains('\n') && (has_crlf(self.old.as_bytes()) || has_crlf(text))
    }

    /// Returns a hint where the text is not found as it is, but would be in another form.
    pub(crate) fn hint_loose(&self, text: &[u8]) -> Option<String> {
        if self.loose || MAX_HINTED < text.len() {
            return None;
        }
        let budget = Budget(Cell::new(Some(MAX_HINT_WORK)));
        let found = loose::find(text, self.old, self.new, &budget).ok()?;
        let start = found.ranges.first()?.start;
        let line = n_line_ends(text.get(..start)?) + 1;
        Some(format!("with `loose` it is found at line {line}: {}", found.stage.as_str()))
    }

    /// Returns the changes of one match, in order.
    pub(crate) fn changes(
        &self,
        text: &[u8],
        range: Range<usize>,
        stage: Stage,
    ) -> Vec<ContentChange<'_>> {
        let matched = text.get(range.clone()).unwrap_or_default();
        let new: &str = match (stage, first_ending(matched)) {
            (Stage::Exact, _) => self.new,
            (Stage::LineEndings, _) if is_mixed(matched) => {
                return self.line_by_line(matched, range.start);
            }
            (Stage::LineEndings, Some(b"\r\n")) => &self.new_crlf,
            (Stage::LineEndings, _) => &self.new_lf,
            (Stage::TrailingBlanks | Stage::Indentation | Stage::Punctuation, _) => {
                return loose::changes(text, range, stage, self.old, self.new).unwrap_or_default();
            }
        };
        vec![ContentChange { range, new: new.as_bytes().into() }]
    }

    /// Returns the changes of a match whose lines end differently: only of lines that differ.
    fn line_by_line(&self, matched: &[u8], start: usize) -> Vec<ContentChange<'_>> {
        let old = lines(matched);
        let (lf, crlf) = (lines(self.new_lf.as_bytes()), lines(self.new_crlf.as_bytes()));
        let mut changes = Vec::new();
        for op in line_ops(&keys(&old), &keys(&lf), None) {
            let (tag, of_old, of_new) = op.as_tag_tuple();
            if tag == DiffTag::Equal {
                continue;
            }
            let replaced = old.get(of_old.clone()).and_then(<[TextLine<'_>]>::first);
            let replaced = replaced.filter(|line| line.ending != Ending::None);
            let above = || old.get(of_old.start.checked_sub(1)?);
            let ending = replaced.or_else(above).or(old.first()).map(|line| line.ending);
            let (new, whole) = match ending {
                Some(Ending::CrLf) => (&crlf, self.new_crlf.as_bytes()),
                _ => (&lf, self.new_lf.as_bytes()),
            };
            let at = |lines: &[TextLine<'_>], end: usize, n: usize| {
                lines.get(n).map_or(end, |line| line.start)
            };
            let range = at(&old, matched.len(), of_old.start)..at(&old, matched.len(), of_old.end);
            let text = at(new, whole.len(), of_new.start)..at(new, whole.len(), of_new.end);
            changes.push(ContentChange {
                range: start + range.start..start + range.end,
                new: whole.get(text).unwrap_or_default().into(),
            });
        }
        changes
    }
}

/// Returns the only match, or all of them if requested.
pub(crate) fn gather(
    stage: Stage,
    mut matches: impl Iterator<Item = Range<usize>>,
    all: bool,
) -> Result<FoundText, Miss> {
    if all {
        let ranges: Vec<_> = matches.collect();
        return if ranges.is_empty() {
            Err(Miss::Nowhere)
        } else {
            Ok(FoundText { stage, ranges })
        };
    }
    let Some(first) = matches.next() else { return Err(Miss::Nowhere) };
    let mut places = vec![first.start];
    let mut count = 1;
    for more in matches {
        count += 1;
        if places.len() < MAX_NAMED {
            places.push(more.start);
        }
    }
    if count == 1 {
        Ok(FoundText { stage, ranges: vec![first] })
    } else {
        Err(Miss::Often(count, places))
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct TextLine<'t> {
    pub(crate) start: usize,
    pub(crate) text: &'t [u8],
    pub(crate) ending: Ending,
}

/// Returns the lines of a text; the rest after the last line ending is one too, even if empty.
pub(crate) fn lines(text: &[u8]) -> Vec<TextLine<'_>> {
    let mut lines = Vec::new();
    let mut start = 0;
    for at in memchr_iter(b'\n', text) {
        let line = text.get(start..at).unwrap_or_default();
        lines.push(match line.strip_suffix(b"\r") {
            Some(line) => TextLine { start, text: line, ending: Ending::CrLf },
            None => TextLine { start, text: line, ending: Ending::Lf },
        });
        start = at + 1;
    }
    lines.push(TextLine {
        start,
        text: text.get(start..).unwrap_or_default(),
        ending: Ending::None,
    });
    lines
}

/// Returns keys that are equal for lines that differ only in LF or CRLF.
pub(crate) fn keys<'t>(lines: &[TextLine<'t>]) -> Vec<(&'t [u8], bool)> {
    lines.iter().map(|line| (line.text, line.ending == Ending::None)).collect()
}

/// Returns whether the lines of a text end differently.
fn is_mixed(text: &[u8]) -> bool {
    let endings = lines(text).into_iter().map(|line| line.ending);
    let mut endings = endings.filter(|ending| *ending != Ending::None);
    endings.next().is_some_and(|first| endings.any(|other| other != first))
}

pub(crate) fn first_ending(text: &[u8]) -> Option<&'static [u8]> {
    let at = memchr::memchr(b'\n', text)?;
    let before = text.get(..at).unwrap_or_default();
    Some(if before.ends_with(b"\r") { b"\r\n" } else { b"\n" })
}

/// Returns the ranges that `extend` makes of places, in order, not overlapping.
pub(crate) fn extended<'t>(
    places: impl Iterator<Item = usize> + 't,
    budget: &'t Budget,
    extend: impl Fn(usize) -> Option<Range<usize>> + 't,
) -> impl Iterator<Item = Range<usize>> + 't {
    let mut free_from = 0;
    places.take_while(|_| budget.spend(1)).filter_map(move |place| {
        let range = extend(place).filter(|range| free_from <= range.start)?;
        free_from = range.end;
        Some(range)
    })
}

/// Returns matches in which each line ending may be LF or CRLF; finds them by the longest line.
fn any_ending<'t>(
    text: &'t [u8],
    needle: &'t str,
    budget: &'t Budget,
) -> impl Iterator<Item = Range<usize>> + 't {
    let mut before: Vec<&[u8]> = needle.split('\n').map(str::as_bytes).collect();
    let n_ended = before.len() - 1;
    for line in before.iter_mut().take(n_ended) {
        *line = line.strip_suffix(b"\r").unwrap_or(line);
    }
    let longest = (0..before.len()).max_by_key(|at| before.get(*at).map_or(0, |l| l.len()));
    let after = before.split_off(longest.unwrap_or(0) + 1);
    let anchor = before.pop().unwrap_or_default();
    let places: Box<dyn Iterator<Item = usize> + 't> = if anchor.is_empty() {
        // Nothing but line endings: a match can only begin at one.
        Box::new(memchr_iter(b'\n', text).map(move |at| {
            let cr = at.checked_sub(1).and_then(|before| text.get(before)) == Some(&b'\r');
            at - usize::from(cr)
        }))
    } else {
        Box::new(memmem::find_iter(text, anchor))
    };
    let is_affordable = |line: &[u8]| budget.spend(1 + line.len() / 64);
    extended(places, budget, move |place| {
        let mut start = place;
        for line in before.iter().rev() {
            is_affordable(line).then_some(())?;
            let head = text.get(..start)?.strip_suffix(b"\n")?;
            let head = head.strip_suffix(b"\r").unwrap_or(head);
            start = head.strip_suffix(*line)?.len();
        }
        let mut end = place + anchor.len();
        for line in &after {
            is_affordable(line).then_some(())?;
            let tail = text.get(end..)?;
            let ending = if tail.starts_with(b"\r\n") { 2 } else { 1 };
            if ending == 1 && !tail.starts_with(b"\n") {
                return None;
            }
            end += ending;
            end += text.get(end..)?.starts_with(line).then_some(line.len())?;
        }
        Some(start..end)
    })
}

/// Returns a changed content as pieces: slices of the old content and the new texts, in order.
pub(crate) fn pieces<'a>(old: &'a [u8], changes: &'a [ContentChange<'_>]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::with_capacity(changes.len() * 2 + 1);
    let mut at = 0;
    for change in changes {
        pieces.push(old.get(at..change.range.start).unwrap_or_default());
        pieces.push(&change.new);
        at = change.range.end;
    }
    pieces.push(old.get(at..).unwrap_or_default());
    pieces.retain(|piece| !piece.is_empty());
    pieces
}
