//! Applies the hunks of one file to its content.
//!
//! Only changed lines are written: context stays as in the file, even where the patch differs. A hunk found
//! with other line endings brings none: its added lines take the ending of the lines they replace or
//! follow. A file without a final newline stays so, unless the patch says otherwise.

use std::ops::Range;

use memchr::memrchr;

use super::hunk::{HunkLine, LineKind};
use super::place::{Finder, How, Match, Placed, Shape};
use super::refusal::{Failure, Rejected, Why};
use super::text::IndexedText;
use super::{FilePatch, PatchOp};
use crate::nearest;
use crate::replace::{ContentChange, first_ending};

/// After this many failures no more hunks are tried.
const MAX_FAILURES: usize = 1000;

/// The number of hunks between two checks for cancellation.
const HUNKS_A_LOOK: usize = 256;

/// The number of failures for which similar regions are searched.
const MAX_NEAREST: usize = 3;

/// The result of applying a patch to a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedPatch {
    /// How each hunk was found, in order.
    pub hunks: Vec<Match>,
    /// The new bytes of all changes.
    new: Vec<u8>,
    blocks: Vec<Block>,
}

/// Bytes of the old content and their replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Block {
    old: Range<usize>,
    new: Range<usize>,
}

impl AppliedPatch {
    /// Returns the changes of the old content, in order and not overlapping.
    pub fn changes(&self) -> Vec<ContentChange<'_>> {
        let change = |block: &Block| ContentChange {
            range: block.old.clone(),
            new: self.new.get(block.new.clone()).unwrap_or_default().into(),
        };
        self.blocks.iter().map(change).collect()
    }
}

/// Applies the hunks of one file to its content: all of them, or none.
///
/// A created file starts empty; the caller sets its name and mode. `is_wanted` polls for cancellation.
pub fn apply(
    file: &FilePatch<'_>,
    old: &[u8],
    is_wanted: impl Fn() -> bool,
) -> Result<AppliedPatch, Rejected> {
    match file.deed {
        PatchOp::Create if !old.is_empty() => return Err(Rejected::Exists),
        PatchOp::Drop => {
            let block = Block { old: 0..old.len(), new: 0..0 };
            return Ok(AppliedPatch { hunks: Vec::new(), new: Vec::new(), blocks: vec![block] });
        }
        _ => {}
    }
    let mut finder = Finder::new(old);
    let mut applied = AppliedPatch { hunks: Vec::new(), new: Vec::new(), blocks: Vec::new() };
    let mut failures: Vec<Failure> = Vec::new();
    for (at, hunk) in file.hunks.iter().enumerate() {
        if at % HUNKS_A_LOOK == HUNKS_A_LOOK - 1 && !is_wanted() {
            return Err(Rejected::Unwanted);
        }
        let shape = Shape::new(hunk);
        let mut placed = finder.locate(&shape);
        if failures.is_empty()
            && let Ok(found) = placed
        {
            let n_bytes = applied.write(&finder.text, &shape, found);
            // Lines that fuzz left out were not compared, and may be long.
            placed = if finder.spend(n_bytes) { Ok(found) } else { Err(Why::Costly) };
        }
        match placed {
            Ok(placed) => applied.hunks.push(placed.to_match(hunk)),
            Err(why) => {
                let is_told = failures.len() < MAX_NEAREST
                    && matches!(why, Why::NotFound | Why::NoContext(_) | Why::PastEnd(_));
                let wanted = if is_told { shape.wanted() } else { String::new() };
                failures.push(Failure {
                    number: at + 1,
                    patch_line: hunk.line,
                    why,
                    nearest: if is_told { nearest::regions(old, &wanted) } else { Vec::new() },
                });
            }
        }
        // A hunk that needs too much work leaves none for the others.
        let is_spent = failures.last().is_some_and(|failure| failure.why == Why::Costly);
        if is_spent || failures.len() == MAX_FAILURES {
            break;
        }
    }
    if !failures.is_empty() {
        return Err(Rejected::Hunks { n_hunks: file.hunks.len(), failures });
    }
    if file.deed == PatchOp::Delete
        && let Some(at) = applied.first_left(old)
    {
        return Err(Rejected::Leaves { line: finder.text.line_of(at) as u64 + 1 });
    }
    Ok(applied)
}

impl AppliedPatch {
    /// Returns the first content left in a file that should be empty.
    fn first_left(&self, old: &[u8]) -> Option<usize> {
        let mut end = 0;
        for block in &self.blocks {
            if block.old.start != end || !block.new.is_empty() {
                return Some(end);
            }
            end = block.old.end;
        }
        (end < old.len()).then_some(end)
    }

    /// Writes the changes of a hunk; returns how many bytes of the content were compared.
    fn write(&mut self, text: &IndexedText<'_>, shape: &Shape<'_, '_>, placed: Placed) -> usize {
        let begin = text.start(placed.line);
        let mut at = begin;
        let mut lines = shape.lines.as_slice();
        while let Some(first) = lines.first() {
            let is_kept = |line: &&HunkLine<'_>| {
                (line.mark == LineKind::Keep) == (first.mark == LineKind::Keep)
            };
            let (run, rest) = lines.split_at(lines.iter().take_while(is_kept).count());
            lines = rest;
            let start = at;
            for line in run.iter().filter(|line| line.mark != LineKind::Add) {
                at += if placed.is_exact() { line.n_bytes() } else { text.line_at(at).len() };
            }
            if first.mark != LineKind::Keep {
                self.block(text, run, start..at, placed.how);
            }
        }
        at - begin
    }

    fn block(&mut self, text: &IndexedText<'_>, run: &[HunkLine<'_>], old: Range<usize>, how: How) {
        let begin = self.new.len();
        let at_end = old.end == text.bytes.len();
        let follows_open = at_end && old.is_empty() && text.is_open();
        let ending = match how {
            How::Exact if !follows_open => b"\n",
            _ => ending(text, &old, run),
        };
        let mut added = run.iter().filter(|line| line.mark == LineKind::Add).peekable();
        if follows_open && added.peek().is_some() {
            self.new.extend_from_slice(ending);
        }
        // Whether the patch states that the file has no final newline.
        let speaks = run.iter().any(|line| !line.ended);
        let stays_open = how != How::Exact && text.is_open() && !speaks;
        while let Some(line) = added.next() {
            let is_end = at_end && added.peek().is_none();
            let is_ended = !is_end || (line.ended && !stays_open);
            let (content, ending) = match how {
                How::Exact => (line.text, b"\n".as_slice()),
                _ => (line.text.strip_suffix(b"\r").unwrap_or(line.text), ending),
            };
            self.new.extend_from_slice(content);
            self.new.extend_from_slice(if is_ended { ending } else { b"" });
        }
        self.blocks.push(Block { old, new: begin..self.new.len() });
    }
}

/// Returns the ending of added lines: that of the lines that they replace or follow.
fn ending(text: &IndexedText<'_>, old: &Range<usize>, run: &[HunkLine<'_>]) -> &'static [u8] {
    let first = text.first_ending.filter(|_| old.end == 0);
    let text = text.bytes;
    let above = || {
        let head = text.get(..old.start).unwrap_or_default();
        let end = memrchr(b'\n', head)?;
        Some(if head.get(..end)?.ends_with(b"\r") { b"\r\n".as_slice() } else { b"\n" })
    };
    let replaced = first_ending(text.get(old.clone()).unwrap_or_default());
    let own = || {
        let crlf = run.iter().any(|line| line.ended && line.text.ends_with(b"\r"));
        if crlf { b"\r\n".as_slice() } else { b"\n" }
    };
    replaced.or_else(above).or(first).unwrap_or_else(own)
}
