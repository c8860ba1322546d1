//! Unified diffs, computed only near the changes.
//!
//! Each change knows its place, so only the lines around it are compared: the cost does not grow with the
//! file, except for counting the lines before. Shown lines, line length and compared size are limited. A
//! question to the user shows everything, and content too large to compare appears whole, before and after.

use std::fmt::Write;
use std::time::Instant;

use memchr::{memchr, memrchr};
use similar::{DiffOp, DiffTag, group_diff_ops};

use crate::line_diff::line_ops;
use crate::lines::{clip, n_line_ends};
use crate::replace::{self, ContentChange};

/// The largest range of a file that is compared line by line, in bytes.
const MAX_COMPARED: usize = 1 << 20;

/// The most characters of a line that are shown.
const MAX_CHARS: usize = 500;

/// How much a diff may show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiffLimits {
    /// Unchanged lines around a change.
    pub(crate) context: usize,
    pub(crate) max_lines: usize,
    /// The most characters of a line.
    pub(crate) max_chars: usize,
    /// The deadline after which a diff need not be minimal.
    pub(crate) until: Option<Instant>,
}

impl DiffLimits {
    /// For a reply: the place of the change and its new text.
    pub(crate) fn reply() -> Self {
        Self { context: 2, max_lines: 20, max_chars: MAX_CHARS, until: None }
    }

    /// For callers who get no other view of the change.
    pub(crate) fn in_full() -> Self {
        Self { context: 4, max_lines: 20_000, max_chars: MAX_CHARS, until: None }
    }

    pub(crate) fn dry_run(until: Option<Instant>) -> Self {
        Self { context: 3, max_lines: 2_000, max_chars: MAX_CHARS, until }
    }

    /// For the user who decides about the change: nothing is left out.
    pub(crate) fn question(until: Option<Instant>) -> Self {
        Self { context: 3, max_lines: usize::MAX, max_chars: usize::MAX, until }
    }

    /// Returns whether nothing is left out.
    pub(crate) fn is_whole(&self) -> bool {
        self.max_lines == usize::MAX
    }
}

/// Returns the whole diff of two texts.
pub fn unified_diff(old: &str, new: &str) -> String {
    of_contents(old.as_bytes(), new.as_bytes(), DiffLimits::question(None))
}

/// Returns the diff of changes that are in order and do not overlap.
pub(crate) fn of_changes(old: &[u8], changes: &[ContentChange<'_>], limits: DiffLimits) -> String {
    let mut hunks = Hunks { limits, ..Hunks::default() };
    let mut rest = changes;
    while let Some(first) = rest.first() {
        let mut stretch = stretch(old, first, limits.context);
        let mut n_taken = 1;
        let mut line_end = end_of_line(old, first.range.end);
        for next in rest.iter().skip(1) {
            // A second change of this line shows nothing new; the line may be all of the file: no rescan.
            if next.range.end < line_end {
                n_taken += 1;
                continue;
            }
            line_end = end_of_line(old, next.range.end);
            let more = self::stretch(old, next, limits.context);
            if stretch.1 < more.0 {
                break;
            }
            stretch.1 = stretch.1.max(more.1);
            n_taken += 1;
        }
        let (taken, left) = rest.split_at(n_taken);
        hunks.add(old, stretch, taken);
        rest = left;
        if hunks.full() && !rest.is_empty() {
            let _ = writeln!(hunks.out, "[{} more changes]", rest.len());
            break;
        }
    }
    hunks.out
}

/// Returns the diff of two whole contents.
pub(crate) fn of_contents(old: &[u8], new: &[u8], limits: DiffLimits) -> String {
    if old == new {
        return String::new();
    }
    let prefix = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) =
        (old.get(prefix..).unwrap_or_default(), new.get(prefix..).unwrap_or_default());
    let suffix = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b);
    let suffix = suffix.count();
    let new = new_rest.get(..new_rest.len() - suffix).unwrap_or_default();
    of_changes(old, &[ContentChange { range: prefix..old.len() - suffix, new: new.into() }], limits)
}

/// Returns a diff with the two lines that name the file before and after.
pub(crate) fn titled(shown: &str, created: bool, diff: &str) -> String {
    let before = if created { "/dev/null" } else { shown };
    format!("--- {before}\n+++ {shown}\n{diff}")
}

/// Returns where the line ends that a place lies in, with its line feed.
fn end_of_line(old: &[u8], at: usize) -> usize {
    let tail = old.get(at..).unwrap_or_default();
    at + memchr(b'\n', tail).map_or(tail.len(), |at| at + 1)
}

/// Returns the range of whole lines around a change.
fn stretch(old: &[u8], change: &ContentChange<'_>, context: usize) -> (usize, usize) {
    let mut start = change.range.start;
    for step in 0..=context {
        let head = old.get(..start).unwrap_or_default();
        let head = head.strip_suffix(b"\n").filter(|_| 0 < step).unwrap_or(head);
        start = memrchr(b'\n', head).map_or(0, |at| at + 1);
    }
    let mut end = change.range.end;
    for _ in 0..=context {
        end = end_of_line(old, end);
    }
    (start, end)
}

#[derive(Default)]
struct Hunks {
    limits: DiffLimits,
    out: String,
    n_lines: usize,
    /// The place up to which line ends of the old content were counted, and how many there are.
    counted: (usize, u64),
    /// How many lines more the new content has up to there.
    grown: i64,
}

impl Default for DiffLimits {
    fn default() -> Self {
        Self::reply()
    }
}

fn by_line(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

impl Hunks {
    fn full(&self) -> bool {
        self.limits.max_lines <= self.n_lines
    }

    /// Adds the hunks of one stretch of the old content.
    fn add(&mut self, old: &[u8], (start, end): (usize, usize), changes: &[ContentChange<'_>]) {
        let old_text = old.get(start..end).unwrap_or_default();
        let before = old.get(self.counted.0..start).unwrap_or_default();
        let first = self.counted.1 + n_line_ends(before);
        let moved: Vec<ContentChange<'_>> = changes
            .iter()
            .map(|change| ContentChange {
                range: change.range.start - start..change.range.end - start,
                new: change.new.as_ref().into(),
            })
            .collect();
        let new_text = replace::pieces(old_text, &moved).concat();
        let new_first = first.saturating_add_signed(self.grown);
        let is_large = MAX_COMPARED < old_text.len() + new_text.len();
        if is_large && self.limits.is_whole() {
            let lines = |text: &[u8]| n_line_ends(text) + u64::from(!text.ends_with(b"\n"));
            let _ = writeln!(
                self.out,
                "@@ -{},{} +{},{} @@",
                first + 1,
                lines(old_text),
                new_first + 1,
                lines(&new_text)
            );
            self.lines('-', &by_line(old_text));
            self.lines('+', &by_line(&new_text));
        } else if is_large {
            let (removed, added) = (old_text.len(), new_text.len());
            let _ = writeln!(
                self.out,
                "@@ -{} +{} @@\n[{removed} bytes become {added}; too many to show]",
                first + 1,
                new_first + 1
            );
            self.n_lines += 2;
        } else {
            self.compare(old_text, &new_text, first, new_first);
        }
        let old_ends = n_line_ends(old_text);
        self.counted = (end, first + old_ends);
        self.grown += n_line_ends(&new_text).cast_signed() - old_ends.cast_signed();
    }

    fn compare(&mut self, old: &[u8], new: &[u8], first: u64, new_first: u64) {
        let (old, new) = (by_line(old), by_line(new));
        let ops = line_ops(&old, &new, self.limits.until);
        for group in group_diff_ops(ops, self.limits.context) {
            if self.full() {
                return;
            }
            self.head(&group, first, new_first);
            for op in &group {
                let (tag, old_range, new_range) = op.as_tag_tuple();
                if tag == DiffTag::Equal {
                    self.lines(' ', old.get(old_range).unwrap_or_default());
                } else {
                    self.lines('-', old.get(old_range).unwrap_or_default());
                    self.lines('+', new.get(new_range).unwrap_or_default());
                }
            }
        }
    }

    fn head(&mut self, group: &[DiffOp], first: u64, new_first: u64) {
        let (Some(head), Some(tail)) = (group.first(), group.last()) else { return };
        let shown = |start: usize, end: usize, first: u64| {
            let n = end - start;
            // An empty range is named by the line before it.
            let line = first + start as u64 + u64::from(0 < n);
            if n == 1 { line.to_string() } else { format!("{line},{n}") }
        };
        let old = shown(head.old_range().start, tail.old_range().end, first);
        let new = shown(head.new_range().start, tail.new_range().end, new_first);
        let _ = writeln!(self.out, "@@ -{old} +{new} @@");
        self.n_lines += 1;
    }

    fn lines(&mut self, mark: char, lines: &[&[u8]]) {
        for (at, line) in lines.iter().enumerate() {
            if self.full() {
                let _ = writeln!(self.out, "[{} more `{mark}` lines]", lines.len() - at);
                return;
            }
            self.n_lines += 1;
            let ended = line.strip_suffix(b"\n");
            let text = String::from_utf8_lossy(ended.unwrap_or(line));
            let (shown, cut) = clip(&text, self.limits.max_chars);
            let more = if cut == 0 { "" } else { "…" };
            let _ = writeln!(self.out, "{mark}{shown}{more}");
            if ended.is_none() {
                let _ = writeln!(self.out, "\\ No newline at end of file");
            }
        }
    }
}
