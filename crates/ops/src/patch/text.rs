//! The content that is patched, by its lines.
//!
//! Where a line begins is remembered for every few lines or bytes alone, so that a large file costs
//! little, and a line is found at once also among long ones. A table from lines to their places is made
//! when a hunk is not where it should be. It knows lines without the blanks around them, and not those
//! that are empty then.

use std::hash::{DefaultHasher, Hasher};

use memchr::{memchr, memchr_iter};

use super::hunk::Line;
use crate::replace::first_ending;

/// How many lines, and about how many bytes, lie between two lines that are remembered, unless they
/// become too many.
const STEP: usize = 8;
const STEP_BYTES: usize = 4096;

/// The most lines that are remembered.
const MAX_MARKS: usize = 1 << 16;

/// The most lines of a table.
const MAX_INDEXED: usize = 32 << 20;

/// A content and where its lines begin.
#[derive(Debug)]
pub(super) struct Text<'t> {
    pub(super) bytes: &'t [u8],
    marks: Vec<Mark>,
    n_lines: usize,
    /// The ending of the first line.
    pub(super) first_ending: Option<&'static [u8]>,
}

/// A line, counted from 0, and where it begins.
#[derive(Debug, Clone, Copy)]
struct Mark {
    line: usize,
    at: usize,
}

impl<'t> Text<'t> {
    pub(super) fn new(bytes: &'t [u8]) -> Self {
        let mut last = Mark { line: 0, at: 0 };
        let mut marks = vec![last];
        let (mut step, mut step_bytes) = (STEP, STEP_BYTES);
        let mut n_lines = 0;
        for end in memchr_iter(b'\n', bytes) {
            n_lines += 1;
            if step <= n_lines - last.line || step_bytes <= end - last.at {
                last = Mark { line: n_lines, at: end + 1 };
                marks.push(last);
            }
            if marks.len() == MAX_MARKS {
                let mut nth = 0;
                marks.retain(|_| {
                    nth += 1;
                    nth % 2 == 1
                });
                (step, step_bytes) = (step * 2, step_bytes * 2);
            }
        }
        let is_open = bytes.last().is_some_and(|byte| *byte != b'\n');
        let first_ending = first_ending(bytes);
        Self { bytes, marks, n_lines: n_lines + usize::from(is_open), first_ending }
    }

    pub(super) fn n_lines(&self) -> usize {
        self.n_lines
    }

    /// Returns whether the last line lacks its line feed.
    pub(super) fn is_open(&self) -> bool {
        self.bytes.last().is_some_and(|byte| *byte != b'\n')
    }

    /// Returns where a line begins, counted from 0; the end of the content for lines behind it.
    pub(super) fn start(&self, line: usize) -> usize {
        let n_before = self.marks.partition_point(|mark| mark.line <= line);
        let mark = n_before.checked_sub(1).and_then(|nth| self.marks.get(nth));
        let Some(mark) = mark.filter(|_| line <= self.n_lines) else { return self.bytes.len() };
        let mut at = mark.at;
        for _ in mark.line..line {
            at += self.line_at(at).len();
        }
        at
    }

    /// Returns the line that begins at a place, with its line feed; empty at the end.
    pub(super) fn line_at(&self, at: usize) -> &'t [u8] {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let end = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        rest.get(..end).unwrap_or_default()
    }

    /// Returns whether the line that begins at a place is a line of a hunk, byte by byte.
    pub(super) fn has_line(&self, at: usize, line: &Line<'_>) -> bool {
        let rest = self.bytes.get(at..).unwrap_or_default();
        match rest.split_at_checked(line.text.len()) {
            Some((text, rest)) if text == line.text => match rest.first() {
                Some(byte) => *byte == b'\n' && line.ended,
                None => !text.is_empty() && !line.ended,
            },
            _ => false,
        }
    }

    /// Returns the number of the line that begins at a place, counted from 0.
    pub(super) fn line_of(&self, at: usize) -> usize {
        let n_before = self.marks.partition_point(|mark| mark.at <= at);
        let mark = n_before.checked_sub(1).and_then(|nth| self.marks.get(nth));
        let mark = mark.copied().unwrap_or(Mark { line: 0, at: 0 });
        let between = self.bytes.get(mark.at..at).unwrap_or_default();
        mark.line + memchr_iter(b'\n', between).count()
    }
}

/// Where each line of a content occurs.
#[derive(Debug)]
pub(super) struct Index {
    /// A part of the hash of a line above, its number below, in order.
    entries: Vec<u64>,
}

impl Index {
    /// Makes the table, or nothing where the content has too many lines.
    pub(super) fn new(text: &Text<'_>) -> Option<Self> {
        let mut entries = Vec::new();
        let lines = text.bytes.split_inclusive(|byte| *byte == b'\n');
        for (number, line) in (0_u64..).zip(lines) {
            if let Some(hash) = hash(line) {
                entries.push(hash | number);
            }
            if MAX_INDEXED < entries.len() || u64::from(u32::MAX) < number {
                return None;
            }
        }
        entries.sort_unstable();
        Some(Self { entries })
    }

    /// Returns where a line may be, as entries in order, or nothing for an empty line.
    pub(super) fn places(&self, line: &[u8]) -> Option<&[u64]> {
        let hash = hash(line)?;
        let from = self.entries.partition_point(|entry| *entry < hash);
        let rest = self.entries.get(from..).unwrap_or_default();
        rest.get(..rest.partition_point(|entry| entry >> 32 == hash >> 32))
    }

    /// Returns the number of the line of an entry, counted from 0.
    pub(super) fn number(entry: u64) -> usize {
        usize::try_from(entry & u64::from(u32::MAX)).unwrap_or(usize::MAX)
    }
}

/// Returns the hash of a line without the blanks around it, in the upper half.
fn hash(line: &[u8]) -> Option<u64> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(line);
    Some(hasher.finish() & !u64::from(u32::MAX))
}

/// Returns a line without its ending and the blanks before it.
pub(super) fn without_blanks(line: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let n_blanks = line.iter().rev().take_while(|byte| is_blank(byte)).count();
    line.get(..line.len() - n_blanks).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the place of some lines with that which counting gives, and bounds what is remembered.
    #[track_caller]
    fn check(text: &str) {
        let found = Text::new(text.as_bytes());
        assert!(found.marks.len() <= MAX_MARKS, "{} marks", found.marks.len());
        let mut at = 0;
        for (number, line) in text.split_inclusive('\n').enumerate() {
            if number % 997 < 2 {
                assert_eq!((found.start(number), found.line_of(at)), (at, number));
            }
            at += line.len();
        }
        assert_eq!(found.start(found.n_lines() + 1), text.len());
    }

    #[test]
    fn lines_are_found_where_few_are_remembered() {
        check("");
        check("a\nb\n\nc");
        check(&"line\n".repeat(1_000));
        check(&"\n".repeat(5 * STEP * MAX_MARKS));
        check(&format!("{}\n{}", "x".repeat(9_000), "yz\n".repeat(2 * STEP * MAX_MARKS)));
    }
}
