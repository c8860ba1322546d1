//! Applies many edits to one content, each on the result of the one before.
//!
//! A search per edit would read the content a hundred times for a hundred edits, so one pass looks for all
//! texts. Each edit then checks only the seams, where an earlier edit may have made or destroyed a match.
//! [`Needle::find`] decides the other cases on the current content: a text that is missing, too frequent,
//! in other line endings or in the output of an earlier edit. The result is that of one edit after another.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use memchr::memmem;

use crate::replace::{self, ContentChange, Miss, Needle, Stage};

/// Contents up to this size are searched edit by edit.
const SMALL: usize = 64 * 1024;

/// The longest part of a text that the common pass looks for.
const MAX_ANCHOR: usize = 16;

/// The most places that the common pass remembers, and the most changes it is used with.
const MAX_PLACES: usize = 1 << 16;
const MAX_CHANGES: usize = 2_000;

/// How often the common pass is made again after an edit was not plain.
const MAX_PASSES: usize = 3;

/// One edit: what to find, and whether everywhere.
pub(crate) struct BatchEdit<'a> {
    pub(crate) needle: Needle<'a>,
    pub(crate) all: bool,
}

/// The outcome of one edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppliedEdit {
    /// How many places it replaced.
    pub replacements: u64,
    /// How the text was found.
    pub stage: Stage,
}

/// The result of edits: a content and its changes.
pub(crate) struct Edited<'a> {
    /// The content that the changes belong to.
    pub(crate) base: Cow<'a, [u8]>,
    /// In order, not overlapping.
    pub(crate) changes: Vec<ContentChange<'a>>,
    pub(crate) applied: Vec<AppliedEdit>,
}

/// An edit that cannot be made, and the content it was tried on.
pub(crate) struct Failed<'a> {
    pub(crate) at: usize,
    pub(crate) miss: Miss,
    pub(crate) text: Cow<'a, [u8]>,
}

/// Makes all edits in order, or none.
pub(crate) fn apply<'a>(
    old: &'a [u8],
    edits: &'a [BatchEdit<'a>],
) -> Result<Edited<'a>, Failed<'a>> {
    let mut state =
        BatchState { base: Cow::Borrowed(old), changes: Vec::new(), places: None, n_passes: 0 };
    let mut applied = Vec::with_capacity(edits.len());
    for (at, edit) in edits.iter().enumerate() {
        if state.places.is_none() {
            state.look_for(edits.get(at..).unwrap_or_default(), at);
        }
        let done = match state.plain(at, edit) {
            Some(replacements) => Ok(AppliedEdit { replacements, stage: Stage::Exact }),
            None => state.thorough(edit),
        };
        match done {
            Ok(done) => applied.push(done),
            Err(miss) => return Err(Failed { at, miss, text: state.base }),
        }
    }
    Ok(Edited { base: state.base, changes: state.changes, applied })
}

struct BatchState<'a> {
    base: Cow<'a, [u8]>,
    changes: Vec<ContentChange<'a>>,
    /// Where the text of each edit begins in the base, overlaps included; from which edit on.
    places: Option<(usize, Vec<Vec<usize>>)>,
    n_passes: usize,
}

impl<'a> BatchState<'a> {
    /// Looks for the texts of all edits that are left, in one pass.
    fn look_for(&mut self, edits: &[BatchEdit<'_>], from: usize) {
        let worth = SMALL < self.base.len() && 1 < edits.len() && self.n_passes < MAX_PASSES;
        if worth && self.changes.is_empty() {
            self.n_passes += 1;
            self.places = places(&self.base, edits).map(|places| (from, places));
        }
    }

    /// Makes an edit whose places are all outside earlier changes.
    fn plain(&mut self, at: usize, edit: &'a BatchEdit<'a>) -> Option<u64> {
        let (from, places) = self.places.as_ref()?;
        let old = edit.needle.old.as_bytes();
        if MAX_CHANGES < self.changes.len() || self.made_by_changes(old) {
            return None;
        }
        let mut found: Vec<usize> = Vec::new();
        for place in places.get(at.checked_sub(*from)?)? {
            let end = place + old.len();
            let next = self.changes.partition_point(|change| change.range.end <= *place);
            let changed = self.changes.get(next).is_some_and(|change| change.range.start < end);
            let overlaps = found.last().is_some_and(|last| *place < last + old.len());
            if !changed && !overlaps {
                found.push(*place);
            }
        }
        if found.is_empty() || (1 < found.len() && !edit.all) {
            return None;
        }
        for place in &found {
            let range = *place..place + old.len();
            let next = self.changes.partition_point(|change| change.range.end <= *place);
            let new = edit.needle.new.as_bytes().into();
            self.changes.insert(next, ContentChange { range, new });
        }
        Some(found.len() as u64)
    }

    /// Makes an edit on the content as it is by now.
    fn thorough(&mut self, edit: &'a BatchEdit<'a>) -> Result<AppliedEdit, Miss> {
        if !self.changes.is_empty() {
            self.base = Cow::Owned(replace::pieces(&self.base, &self.changes).concat());
            self.changes.clear();
        }
        self.places = None;
        let found = edit.needle.find(&self.base, edit.all)?;
        let (base, stage) = (&self.base, found.stage);
        let replacements = found.ranges.len() as u64;
        let changes = found.ranges.into_iter();
        self.changes = changes.flat_map(|range| edit.needle.changes(base, range, stage)).collect();
        Ok(AppliedEdit { replacements, stage })
    }

    /// Returns whether a text occurs where an earlier edit wrote something.
    fn made_by_changes(&self, text: &[u8]) -> bool {
        let finder = memmem::Finder::new(text);
        (0..self.changes.len())
            .any(|at| finder.find(&self.around(at, text.len().saturating_sub(1))).is_some())
    }

    /// Returns what a change wrote with so many bytes of the present content on each side.
    fn around(&self, at: usize, reach: usize) -> Vec<u8> {
        let change = |at: usize| self.changes.get(at);
        let mut left: Vec<&[u8]> = Vec::new();
        let mut missing = reach;
        let mut place = at;
        while let Some(here) = change(place) {
            let before = place.checked_sub(1).and_then(change);
            let gap = before.map_or(0, |before| before.range.end)..here.range.start;
            for piece in [self.base.get(gap), before.map(|before| &*before.new)] {
                let piece = piece.unwrap_or_default();
                let piece = piece.get(piece.len().saturating_sub(missing)..).unwrap_or_default();
                missing -= piece.len();
                left.push(piece);
            }
            match place.checked_sub(1).filter(|_| 0 < missing) {
                Some(before) => place = before,
                None => break,
            }
        }
        let mut text: Vec<u8> = left.into_iter().rev().flatten().copied().collect();
        text.extend_from_slice(change(at).map_or(&[], |change| &*change.new));
        let mut missing = reach;
        let mut place = at;
        while let Some(here) = change(place) {
            let after = change(place + 1);
            let gap = here.range.end..after.map_or(self.base.len(), |after| after.range.start);
            for piece in [self.base.get(gap), after.map(|after| &*after.new)] {
                let piece = piece.unwrap_or_default();
                let piece = piece.get(..missing).unwrap_or(piece);
                missing -= piece.len();
                text.extend_from_slice(piece);
            }
            if missing == 0 {
                break;
            }
            place += 1;
        }
        text
    }
}

/// Returns where the text of each edit begins, overlaps included, or `None` for too many places.
fn places(base: &[u8], edits: &[BatchEdit<'_>]) -> Option<Vec<Vec<usize>>> {
    let anchors: Vec<(usize, &[u8])> =
        edits.iter().map(|edit| anchor(edit.needle.old.as_bytes())).collect();
    let searcher = AhoCorasick::builder()
        .match_kind(MatchKind::Standard)
        .kind(Some(AhoCorasickKind::DFA))
        .build(anchors.iter().map(|(_, anchor)| anchor))
        .ok()?;
    let mut places: Vec<Vec<usize>> = vec![Vec::new(); edits.len()];
    let mut n_places = 0;
    for hit in searcher.find_overlapping_iter(base) {
        let at = hit.pattern().as_usize();
        let (offset, _) = anchors.get(at)?;
        let Some(start) = hit.start().checked_sub(*offset) else { continue };
        let old = edits.get(at)?.needle.old.as_bytes();
        if base.get(start..).is_some_and(|tail| tail.starts_with(old)) {
            places.get_mut(at)?.push(start);
        }
        n_places += 1;
        if MAX_PLACES < n_places {
            return None;
        }
    }
    Some(places)
}

/// Returns a likely rare part of a text and its start: from the first word on, not the indentation.
fn anchor(text: &[u8]) -> (usize, &[u8]) {
    let word = text.iter().position(u8::is_ascii_alphanumeric).unwrap_or(0);
    let start = word.min(text.len().saturating_sub(MAX_ANCHOR));
    (start, text.get(start..).map_or(text, |tail| tail.get(..MAX_ANCHOR).unwrap_or(tail)))
}
