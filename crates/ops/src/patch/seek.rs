//! Searches a content for lines.
//!
//! The rarest line is looked up in a table, and the others are compared around each of its places. The
//! hunks of one file share a budget for this; a search beyond it finds nothing. A check of one given place
//! costs only for long lines, because a hunk needs few of them.

use super::hunk::HunkLine;
use super::place::{Finder, How};
use super::text::{Index, without_blanks};

/// How many compared lines it counts for to look at a place.
const COST_OF_PLACE: usize = 16;

/// How many bytes of a line count for one more line.
const BYTES_A_LINE: usize = 64;

/// The most places that are named where there are too many.
const MAX_NAMED: usize = 10;

/// The most lines of a hunk among which a rare one is searched for.
pub(super) const MAX_ANCHORS: usize = 64;

/// The result of a search. Lines are counted from 0.
pub(super) enum Spot {
    At(usize),
    Many(Vec<usize>),
    Nowhere,
    Costly,
}

/// Which place is meant where there are several.
#[derive(Clone, Copy)]
pub(super) enum Pick {
    Nearest(usize),
    First,
    Only,
}

/// The lines to search for.
#[derive(Clone, Copy)]
pub(super) struct Core<'a, 'p> {
    pub(super) lines: &'a [HunkLine<'p>],
    /// How many lines before them belong to the hunk.
    pub(super) front: usize,
    pub(super) how: How,
}

/// Places that may be right, in order.
struct Places<'i> {
    /// Entries of a rare line, or nothing where every place may be right.
    entries: Option<&'i [u64]>,
    /// How far the rare line is behind the place, or the first place.
    shift: usize,
    n_places: usize,
}

impl Places<'_> {
    fn get(&self, nth: usize) -> Option<usize> {
        match self.entries {
            Some(entries) => Some(Index::number(*entries.get(nth)?) - self.shift),
            None => (nth < self.n_places).then_some(self.shift + nth),
        }
    }

    /// Returns how many places are before a line.
    fn n_before(&self, line: usize) -> usize {
        match self.entries {
            Some(entries) => entries
                .partition_point(|entry| Index::number(*entry) < line.saturating_add(self.shift)),
            None => line.saturating_sub(self.shift).min(self.n_places),
        }
    }
}

impl Finder<'_> {
    pub(super) fn index(&mut self) -> Option<&Index> {
        let text = &self.text;
        self.index.get_or_insert_with(|| Index::new(text)).as_ref()
    }

    /// Compares lines at one place alone.
    pub(super) fn exactly(&mut self, core: Core<'_, '_>, at: Option<usize>) -> Spot {
        let Some(at) = at.filter(|at| self.frozen <= *at) else { return Spot::Nowhere };
        match self.is_at(core, at) {
            Some(true) => Spot::At(at),
            Some(false) => Spot::Nowhere,
            None => Spot::Costly,
        }
    }

    /// Takes the work of so many bytes off the budget; returns whether so much is left.
    pub(super) fn spend(&mut self, n_bytes: usize) -> bool {
        let left = self.work_left.checked_sub(n_bytes / BYTES_A_LINE);
        self.work_left = left.unwrap_or_default();
        left.is_some()
    }

    /// Finds lines from one place to another.
    pub(super) fn seek(
        &mut self,
        core: Core<'_, '_>,
        min: usize,
        max: Option<usize>,
        pick: Pick,
    ) -> Spot {
        let Some(max) = max.filter(|max| min <= *max) else { return Spot::Nowhere };
        if let Pick::Nearest(guess) = pick
            && min <= guess
            && guess <= max
        {
            match self.is_at(core, guess) {
                Some(true) => return Spot::At(guess),
                Some(false) => {}
                None => return Spot::Costly,
            }
        }
        self.index();
        let Some(Some(index)) = &self.index else { return Spot::Costly };
        let places = candidates(index, core, min, max);
        let mut work_left = self.work_left;
        let spot = self.choose(core, &places, pick, &mut work_left);
        self.work_left = work_left;
        spot.unwrap_or(Spot::Costly)
    }

    /// Returns which of some places is meant, or nothing where that is too much work.
    fn choose(
        &self,
        core: Core<'_, '_>,
        places: &Places<'_>,
        pick: Pick,
        work_left: &mut usize,
    ) -> Option<Spot> {
        let mut fits = |place: usize| self.fits(core, place, work_left);
        if let Pick::Nearest(guess) = pick {
            return nearest(places, guess, fits);
        }
        let wanted = if matches!(pick, Pick::First) { 1 } else { MAX_NAMED };
        let mut found = Vec::new();
        for place in (0..places.n_places).map_while(|nth| places.get(nth)) {
            if fits(place)? {
                found.push(place);
            }
            if found.len() == wanted {
                break;
            }
        }
        Some(match found.as_slice() {
            [] => Spot::Nowhere,
            [place] => Spot::At(*place),
            _ => Spot::Many(found),
        })
    }

    /// Returns whether lines are at a place, or nothing where they are too long.
    fn is_at(&mut self, core: Core<'_, '_>, place: usize) -> Option<bool> {
        let mut work_left = self.work_left;
        let fits = self.compare(core, place, 0, &mut work_left);
        self.work_left = work_left;
        fits
    }

    /// Returns whether lines are at a place, or nothing where no work is left.
    fn fits(&self, core: Core<'_, '_>, place: usize, work_left: &mut usize) -> Option<bool> {
        *work_left = work_left.checked_sub(COST_OF_PLACE)?;
        self.compare(core, place, 1, work_left)
    }

    /// Compares lines; each costs the given work, and more where it is long.
    fn compare(
        &self,
        core: Core<'_, '_>,
        place: usize,
        cost: usize,
        work_left: &mut usize,
    ) -> Option<bool> {
        let mut at = self.text.start(place.saturating_add(core.front));
        for line in core.lines {
            if core.how == How::Exact {
                *work_left = work_left.checked_sub(cost + line.text.len() / BYTES_A_LINE)?;
                if !self.text.has_line(at, line) {
                    return Some(false);
                }
                at += line.n_bytes();
                continue;
            }
            let raw = self.text.line_at(at);
            at += raw.len();
            *work_left = work_left.checked_sub(cost + raw.len() / BYTES_A_LINE)?;
            let is_last = at == self.text.bytes.len();
            if raw.is_empty() || !alike(line, raw, core.how, is_last) {
                return Some(false);
            }
        }
        Some(true)
    }
}

/// Compares lines under `how`, their endings aside; a hunk line without a line feed only fits the last.
fn alike(line: &HunkLine<'_>, raw: &[u8], how: How, is_last: bool) -> bool {
    let text = raw.strip_suffix(b"\n").unwrap_or(raw);
    let without_cr = |text: &'_ [u8]| text.strip_suffix(b"\r").unwrap_or(text).len();
    match how {
        _ if !line.ended && !is_last => false,
        How::Blanks => without_blanks(line.text) == without_blanks(text),
        How::Exact | How::LineEndings => {
            line.text.get(..without_cr(line.text)) == text.get(..without_cr(text))
        }
    }
}

/// Returns the places at which the rarest of some lines is where it should be.
fn candidates<'i>(index: &'i Index, core: Core<'_, '_>, min: usize, max: usize) -> Places<'i> {
    let mut rarest: Option<(&[u64], usize)> = None;
    let mut n_tried = 0;
    for (at, line) in core.lines.iter().enumerate() {
        let Some(entries) = index.places(line.text) else { continue };
        if rarest.is_none_or(|(rarest, _)| entries.len() < rarest.len()) {
            rarest = Some((entries, core.front + at));
        }
        n_tried += 1;
        if entries.len() <= 1 || n_tried == MAX_ANCHORS {
            break;
        }
    }
    let Some((entries, shift)) = rarest else {
        return Places { entries: None, shift: min, n_places: max - min + 1 };
    };
    let from = entries.partition_point(|entry| Index::number(*entry) < min.saturating_add(shift));
    let to = entries.partition_point(|entry| Index::number(*entry) <= max.saturating_add(shift));
    let entries = entries.get(from..to).unwrap_or_default();
    Places { entries: Some(entries), shift, n_places: entries.len() }
}

/// Returns the place nearest to a line, or `None` for too much work. Two equally near are ambiguous.
fn nearest(
    places: &Places<'_>,
    guess: usize,
    mut fits: impl FnMut(usize) -> Option<bool>,
) -> Option<Spot> {
    let mut after = places.n_before(guess);
    let mut before = after;
    loop {
        let back = before.checked_sub(1).and_then(|nth| places.get(nth));
        let ahead = places.get(after);
        let back_distance = back.map_or(usize::MAX, |place| guess - place);
        let ahead_distance = ahead.map_or(usize::MAX, |place| place.saturating_sub(guess));
        let back = back.filter(|_| back_distance <= ahead_distance);
        let ahead = ahead.filter(|_| ahead_distance <= back_distance);
        before -= usize::from(back.is_some());
        after += usize::from(ahead.is_some());
        if back.is_none() && ahead.is_none() {
            return Some(Spot::Nowhere);
        }
        let back_fits = back.map_or(Some(false), &mut fits)?;
        let ahead_fits = ahead.map_or(Some(false), &mut fits)?;
        match (back.filter(|_| back_fits), ahead.filter(|_| ahead_fits)) {
            (Some(back), Some(ahead)) => return Some(Spot::Many(vec![back, ahead])),
            (Some(place), None) | (None, Some(place)) => return Some(Spot::At(place)),
            (None, None) => {}
        }
    }
}
