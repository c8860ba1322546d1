//! Indexes the lines of the content that is patched.
//!
//! The number of line ends before each block of bytes is kept, so a large file costs little and a line is
//! searched in one block. A table from lines to places is built when a hunk is not at its place. It holds
//! the non-empty lines without surrounding blanks.

use std::hash::{DefaultHasher, Hasher};

use memchr::{memchr, memchr_iter};

use super::hunk::HunkLine;
use crate::replace::first_ending;

/// How many bytes a block has, unless there would be too many of them.
const BLOCK: usize = 256;

const MAX_BLOCKS: usize = 1 << 16;

/// The most lines of a table.
const MAX_INDEXED: usize = 32 << 20;

/// A content and where its lines begin.
#[derive(Debug)]
pub(super) struct IndexedText<'t> {
    pub(super) bytes: &'t [u8],
    block: usize,
    /// How many lines end before each block.
    n_before: Vec<usize>,
    n_lines: usize,
    pub(super) first_ending: Option<&'static [u8]>,
}

impl<'t> IndexedText<'t> {
    pub(super) fn new(bytes: &'t [u8]) -> Self {
        let block = BLOCK.max(bytes.len().div_ceil(MAX_BLOCKS));
        let mut n_lines = 0;
        let before = |bytes: &[u8]| {
            let n_before = n_lines;
            n_lines += memchr_iter(b'\n', bytes).count();
            n_before
        };
        let n_before = bytes.chunks(block).map(before).collect();
        let is_open = bytes.last().is_some_and(|byte| *byte != b'\n');
        let first_ending = first_ending(bytes);
        Self { bytes, block, n_before, n_lines: n_lines + usize::from(is_open), first_ending }
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
        let Some(n_ends) = line.checked_sub(1) else { return 0 };
        // The end of the line before lies in the last block before which fewer lines end.
        let block = self.n_before.partition_point(|n_before| *n_before <= n_ends).saturating_sub(1);
        let (begin, n_before) = self.block(block);
        let rest = self.bytes.get(begin..).unwrap_or_default();
        let end = memchr_iter(b'\n', rest).nth(n_ends - n_before);
        end.map_or(self.bytes.len(), |end| begin + end + 1)
    }

    /// Returns the line that begins at a place, with its line feed; empty at the end.
    pub(super) fn line_at(&self, at: usize) -> &'t [u8] {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let end = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        rest.get(..end).unwrap_or_default()
    }

    /// Returns whether the line that begins at a place is a line of a hunk, byte by byte.
    pub(super) fn has_line(&self, at: usize, line: &HunkLine<'_>) -> bool {
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
        let (begin, n_before) = self.block(at / self.block);
        let between = self.bytes.get(begin..at).unwrap_or_default();
        n_before + memchr_iter(b'\n', between).count()
    }

    /// Returns where a block begins and how many lines end before it.
    fn block(&self, nth: usize) -> (usize, usize) {
        // The end of the last block is the beginning of none.
        let nth = nth.min(self.n_before.len().saturating_sub(1));
        (nth * self.block, self.n_before.get(nth).copied().unwrap_or(0))
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
    pub(super) fn new(text: &IndexedText<'_>) -> Option<Self> {
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

    /// Compares the places of lines with a plain count, and checks the number of blocks.
    #[track_caller]
    fn check(text: &str) {
        let found = IndexedText::new(text.as_bytes());
        assert!(found.n_before.len() <= MAX_BLOCKS, "{} blocks", found.n_before.len());
        let mut at = 0;
        for (number, line) in text.split_inclusive('\n').enumerate() {
            if number % 997 < 2 {
                assert_eq!((found.start(number), found.line_of(at)), (at, number));
            }
            at += line.len();
        }
        assert_eq!(at, text.len());
        let n_ends = text.matches('\n').count();
        for behind in found.n_lines()..found.n_lines() + 3 {
            assert_eq!((found.start(behind), found.line_of(at)), (at, n_ends));
        }
    }

    #[test]
    fn lines_are_found_where_few_are_remembered() {
        check("");
        check("a\nb\n\nc");
        check(&"line\n".repeat(1_000));
        for n_bytes in BLOCK - 2..BLOCK + 2 {
            let line = "x".repeat(n_bytes);
            check(&line);
            check(&format!("{line}\n{line}\n\n{line}"));
        }
        check(&"\n".repeat(2 * BLOCK * MAX_BLOCKS + 1));
        check(&format!("{}\n{}", "x".repeat(9_000), "yz\n".repeat(BLOCK * MAX_BLOCKS)));
    }
}
