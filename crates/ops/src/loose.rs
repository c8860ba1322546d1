//! Finds a text whose form differs from that of the file, for callers who allow it.
//!
//! Three stages run in order until one finds a match: lines without trailing blanks, lines without
//! indentation, characters in plain form. Each also ignores line endings. The text must occur once. Where
//! the form of the replacement is uncertain, nothing is found.
//!
//! Only the differences between the text and its replacement are changed, so their common parts keep the
//! blanks, indentation, quotes and endings of the file.

use std::ops::Range;

use memchr::{memchr, memmem};
use similar::DiffTag;

use crate::line_diff::line_ops;
use crate::lines::Ending;
use crate::nearest::lines_back;
use crate::replace::{self, Budget, ContentChange, FoundText, Miss, Stage, TextLine};

use shift::{Pair, Shift};

mod shift;

/// A line of more tokens than this is compared as a whole.
const MAX_TOKENS: usize = 20_000;

/// Finds the only place of a text whose form differs, within the budget.
pub(crate) fn find(text: &[u8], old: &str, new: &str, budget: &Budget) -> Result<FoundText, Miss> {
    for stage in [Stage::TrailingBlanks, Stage::Indentation, Stage::Punctuation] {
        let found = match stage {
            Stage::Punctuation => replace::gather(stage, characters(text, old, budget), false),
            _ => replace::gather(stage, WholeLines::new(text, old, stage, budget), false),
        };
        let found = budget.checked(found);
        let certain = |found: &FoundText| {
            let range = found.ranges.first().cloned().unwrap_or_default();
            changes(text, range, stage, old, new).is_some()
        };
        match found {
            Err(Miss::Nowhere) => {}
            Ok(found) if !certain(&found) => {}
            found => return found,
        }
    }
    Err(Miss::Nowhere)
}

/// Returns the changes of one match, in order, or `None` where the replacement's form is uncertain.
pub(crate) fn changes(
    text: &[u8],
    range: Range<usize>,
    stage: Stage,
    old: &str,
    new: &str,
) -> Option<Vec<ContentChange<'static>>> {
    let place = Position { text, range };
    match stage {
        Stage::Punctuation => Some(place.by_token(old, new)),
        Stage::Indentation => place.by_line(old, new, Some(&place.shift(old)?)),
        Stage::Exact | Stage::LineEndings | Stage::TrailingBlanks => place.by_line(old, new, None),
    }
}

/// Returns the plain form of typographic quotes, dashes and blanks.
pub(crate) fn plain(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201B}' | '\u{2032}' => '\'',
        '\u{201C}'..='\u{201F}' | '\u{2033}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{A0}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => ' ',
        other => other,
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Returns the line that begins at a place, with its ending; empty at the end.
fn line_at(text: &[u8], at: usize) -> &[u8] {
    let tail = text.get(at..).unwrap_or_default();
    let end = memchr(b'\n', tail).map_or(tail.len(), |end| end + 1);
    tail.get(..end).unwrap_or_default()
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn without_end(line: &[u8]) -> &[u8] {
    let n_blanks = line.iter().rev().take_while(|byte| is_blank(**byte)).count();
    line.get(..line.len() - n_blanks).unwrap_or_default()
}

fn indentation(line: &[u8]) -> (&[u8], &[u8]) {
    line.split_at(line.iter().take_while(|byte| is_blank(**byte)).count())
}

/// The matches of a text whose lines are compared without some blanks, in order, not overlapping.
struct WholeLines<'t, 'n> {
    text: &'t [u8],
    stage: Stage,
    old: Vec<TextLine<'n>>,
    /// Which line holds the text that is searched for.
    anchor: usize,
    places: Box<dyn Iterator<Item = usize> + 't>,
    /// The end of the line compared last.
    line_end: usize,
    free_from: usize,
    budget: &'n Budget,
}

impl<'t, 'n: 't> WholeLines<'t, 'n> {
    fn new(text: &'t [u8], old: &'n str, stage: Stage, budget: &'n Budget) -> Self {
        let old = replace::lines(old.as_bytes());
        let cores = old.iter().map(|line| without_end(indentation(line.text).1));
        let longest = cores.enumerate().max_by_key(|(_, core)| core.len());
        let (anchor, core) = longest.unwrap_or_default();
        // Blanks alone would match everywhere.
        let places: Box<dyn Iterator<Item = usize> + 't> = if core.is_empty() {
            Box::new(std::iter::empty())
        } else {
            Box::new(memmem::find_iter(text, core))
        };
        Self { text, stage, old, anchor, places, line_end: 0, free_from: 0, budget }
    }

    /// Returns whether the line of a place is the one that is searched for.
    fn fits_anchor(&mut self, place: usize) -> bool {
        let start = lines_back(self.text, place, 0).unwrap_or(place);
        let line = line_at(self.text, start);
        self.line_end = start + line.len();
        let line = line.strip_suffix(b"\n").map_or(line, without_cr);
        self.old
            .get(self.anchor)
            .is_some_and(|wanted| self.fit(self.anchor, wanted, line).is_some())
    }

    /// Returns the whole match that begins in the line at a place.
    fn from(&self, start: usize) -> Option<Range<usize>> {
        let (mut at, mut range) = (start, start..start);
        let mut ended = true;
        for (number, wanted) in self.old.iter().enumerate() {
            if !ended {
                return None;
            }
            let raw = line_at(self.text, at);
            self.budget.spend(1 + raw.len() / 64).then_some(())?;
            let whole = raw.strip_suffix(b"\n");
            let line = whole.map_or(raw, without_cr);
            let fit = self.fit(number, wanted, line)?;
            if number == 0 {
                range.start = at + fit.start;
            }
            range.end = at + fit.end;
            ended = whole.is_some();
            at += raw.len();
        }
        (self.free_from <= range.start).then_some(range)
    }

    /// Returns the part of a content line that a line of the text matches.
    fn fit(&self, number: usize, wanted: &TextLine<'_>, line: &[u8]) -> Option<Range<usize>> {
        let is_last = wanted.ending == Ending::None;
        let all = 0..line.len();
        if is_last && 0 < number && wanted.text.is_empty() {
            return Some(0..0);
        }
        if self.stage == Stage::Indentation {
            let core = |line| without_end(indentation(line).1);
            return (core(line) == core(wanted.text)).then_some(all);
        }
        let (kept, core) = (without_end(line), without_end(wanted.text));
        // The last line may be a prefix, unless it ends with blanks or is blank.
        if is_last && (core.is_empty() || core.len() == wanted.text.len()) {
            let fits = 0 < number && line.starts_with(wanted.text);
            return fits.then_some(0..wanted.text.len());
        }
        // The first line may be a suffix of the content's line.
        let start = kept.len().checked_sub(core.len())?;
        let fits = kept.ends_with(core) && (start == 0 || number == 0);
        fits.then_some(start..line.len())
    }
}

impl<'t, 'n: 't> Iterator for WholeLines<'t, 'n> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        loop {
            let place = self.places.next().filter(|_| self.budget.spend(1))?;
            // A line is compared once, however often it holds the text.
            if place < self.line_end || !self.fits_anchor(place) {
                continue;
            }
            let start = lines_back(self.text, place, self.anchor);
            let n_back = place - start.unwrap_or_default().min(place);
            if !self.budget.spend(self.anchor + n_back / 64) {
                return None;
            }
            let Some(start) = start else { continue };
            if let Some(range) = self.from(start) {
                self.free_from = range.end;
                return Some(range);
            }
        }
    }
}

/// Returns the places of a text whose characters are compared in their plain form.
fn characters<'t>(
    text: &'t [u8],
    old: &str,
    budget: &'t Budget,
) -> impl Iterator<Item = Range<usize>> + 't {
    let mut before: Vec<char> = old.replace("\r\n", "\n").chars().collect();
    let has_forms = |c: &char| plain(*c) != *c || matches!(c, '"' | '\'' | '-' | ' ' | '\n');
    let mut longest = 0..0;
    let mut start = 0;
    for run in before.split_inclusive(has_forms) {
        let n = run.iter().take_while(|c| !has_forms(c)).count();
        if longest.len() < n {
            longest = start..start + n;
        }
        start += run.len();
    }
    let after = before.split_off(longest.start);
    let anchor: String = after.iter().take(longest.len()).collect();
    let finder = memmem::Finder::new(&anchor).into_owned();
    let mut from = if anchor.is_empty() { None } else { Some(0) };
    let places = std::iter::from_fn(move || {
        let place = from? + finder.find(text.get(from?..)?)?;
        from = Some(place + 1);
        Some(place)
    });
    replace::extended(places, budget, move |place| {
        let mut start = place;
        for wanted in before.iter().rev() {
            budget.spend(1).then_some(())?;
            start = back(text.get(..start)?, *wanted)?;
        }
        let mut end = place;
        for wanted in &after {
            budget.spend(1).then_some(())?;
            end += ahead(text.get(end..)?, *wanted)?;
        }
        Some(start..end)
    })
}

/// Returns how long the character at the start of a text is, where it is the wanted one in some form.
fn ahead(text: &[u8], wanted: char) -> Option<usize> {
    if wanted == '\n' && text.starts_with(b"\r\n") {
        return Some(2);
    }
    let n = match text.first()? {
        0..=0x7F => 1,
        0x80..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xFF => 4,
    };
    let c = std::str::from_utf8(text.get(..n)?).ok()?.chars().next()?;
    (plain(c) == plain(wanted)).then_some(n)
}

/// Returns where the character at the end of a text begins, where it is the wanted one in some form.
fn back(text: &[u8], wanted: char) -> Option<usize> {
    let n_more = text.iter().rev().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
    let start = text.len().checked_sub(n_more + 1)?;
    ahead(text.get(start..)?, wanted).filter(|n| start + n == text.len())?;
    let is_crlf = wanted == '\n' && text.ends_with(b"\r\n");
    Some(start - usize::from(is_crlf))
}

struct Position<'t> {
    text: &'t [u8],
    range: Range<usize>,
}

impl Position<'_> {
    fn matched(&self) -> &[u8] {
        self.text.get(self.range.clone()).unwrap_or_default()
    }

    /// Returns the changes of the lines that differ between a text and its replacement.
    fn by_line(
        &self,
        old: &str,
        new: &str,
        shift: Option<&Shift>,
    ) -> Option<Vec<ContentChange<'static>>> {
        let (old, new) = (replace::lines(old.as_bytes()), replace::lines(new.as_bytes()));
        let here = replace::lines(self.matched());
        let mut changes = Vec::new();
        for op in line_ops(&replace::keys(&old), &replace::keys(&new), None) {
            let (tag, of_old, of_new) = op.as_tag_tuple();
            if tag == DiffTag::Equal {
                continue;
            }
            let at = |n: usize| {
                self.range.start + here.get(n).map_or(self.range.len(), |line| line.start)
            };
            let ending = self.ending(at(of_old.start));
            let mut text = Vec::new();
            for line in new.get(of_new)? {
                let (indent, rest) = indentation(line.text);
                match shift.filter(|_| !rest.is_empty()) {
                    Some(shift) => text.extend(shift.of(indent)?),
                    None => text.extend_from_slice(indent),
                }
                text.extend_from_slice(rest);
                if line.ending != Ending::None {
                    text.extend_from_slice(ending);
                }
            }
            changes
                .push(ContentChange { range: at(of_old.start)..at(of_old.end), new: text.into() });
        }
        Some(changes)
    }

    /// Returns the changes of the words and signs that differ from the replacement, line by line.
    fn by_token(&self, old: &str, new: &str) -> Vec<ContentChange<'static>> {
        let (old, new) = (old.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let new: Vec<&str> = new.split_inclusive('\n').collect();
        let starts = self.starts(self.range.start, &old);
        let mut changes = Vec::new();
        for op in line_ops(&old, &new, None) {
            let (tag, of_old, of_new) = op.as_tag_tuple();
            if tag == DiffTag::Equal {
                continue;
            }
            let (old, new) =
                (old.get(of_old.clone()).unwrap_or_default(), new.get(of_new).unwrap_or_default());
            for at in 0..old.len().max(new.len()) {
                let line = of_old.start + at.min(old.len());
                let start = starts.get(line).copied().unwrap_or(self.range.end);
                let old = old.get(at).copied().unwrap_or_default();
                let new = new.get(at).copied().unwrap_or_default();
                self.of_line(start, old, new, &mut changes);
            }
        }
        changes
    }

    /// Adds the changes of one line that begins at a place; an empty one is added or removed.
    fn of_line(
        &self,
        start: usize,
        old: &str,
        new: &str,
        changes: &mut Vec<ContentChange<'static>>,
    ) {
        let (mut of_old, mut of_new) = (tokens(old), tokens(new));
        if MAX_TOKENS < of_old.len() + of_new.len() {
            (of_old, of_new) = (vec![old], vec![new]);
        }
        let starts = self.starts(start, &of_old);
        let start = |n: usize| starts.get(n).copied().unwrap_or(self.range.end);
        for op in line_ops(&of_old, &of_new, None) {
            let (tag, of_old, new_range) = op.as_tag_tuple();
            if tag == DiffTag::Equal {
                continue;
            }
            let range = start(of_old.start)..start(of_old.end);
            let text = of_new.get(new_range).unwrap_or_default().concat();
            let text = match self.ending(range.start) {
                b"\r\n" => text.replace('\n', "\r\n"),
                _ => text,
            };
            changes.push(ContentChange { range, new: text.into_bytes().into() });
        }
    }

    /// Returns where each of some consecutive texts begins from a place on, and where the last ends.
    fn starts(&self, mut at: usize, texts: &[&str]) -> Vec<usize> {
        let mut starts = vec![at];
        for text in texts {
            for c in text.chars() {
                at += ahead(self.text.get(at..).unwrap_or_default(), c).unwrap_or_default();
            }
            starts.push(at);
        }
        starts
    }

    /// Returns the ending of the line that a place is in, or of the one before where it has none.
    fn ending(&self, at: usize) -> &'static [u8] {
        let after = replace::first_ending(self.text.get(at..).unwrap_or_default());
        let last = || {
            let before = self.text.get(..at).unwrap_or_default();
            let end = memchr::memrchr(b'\n', before)?;
            replace::first_ending(before.get(end.saturating_sub(1)..)?)
        };
        after.or_else(last).unwrap_or(b"\n")
    }

    /// Returns how the lines' indentation differs from that of a text, where all lines agree.
    fn shift(&self, old: &str) -> Option<Shift> {
        let here = replace::lines(self.matched());
        let old = replace::lines(old.as_bytes());
        let mut pairs = Vec::new();
        for (here, old) in here.iter().zip(&old) {
            let ((here, rest), (old, _)) = (indentation(here.text), indentation(old.text));
            if !rest.is_empty() {
                pairs.push(Pair { old: old.to_vec(), here: here.to_vec() });
            }
        }
        Shift::new(pairs)
    }
}

/// Returns words, and the characters between them one by one.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let n = match is_word(first) {
            true => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (token, tail) = rest.split_at(n);
        tokens.push(token);
        rest = tail;
    }
    tokens
}

#[cfg(test)]
mod tests;
