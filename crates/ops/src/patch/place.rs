//! Finds the place of a hunk in a content.
//!
//! The search starts at the line that the header names, shifted as the previous hunk was, and then takes
//! the nearest place. Exact matches come first, then other line endings, then other trailing blanks. At
//! last one or two lines of context are left out, as in GNU `patch`. A hunk from line 1 with less context
//! above than below belongs at the start of the file, one with less below at the end. Two equally good
//! places are rejected.
//!
//! A hunk without a number must fit in exactly one place. In an envelope the search begins after the lines
//! that the headers name and takes the first place.
//!
//! As in GNU `patch`, a hunk without any context line left matches nothing. Unlike there, a hunk for the
//! end of the file is accepted where lines follow, if all its lines fit.

use super::hunk::{Hunk, HunkLine, LineKind, PatchFormat};
use super::refusal::Why;
use super::seek::{Core, MAX_ANCHORS, Pick, Spot};
use super::text::{Index, IndexedText, without_blanks};

/// How many lines of context may be left out.
const MAX_FUZZ: usize = 2;

/// Room for the lines of most hunks.
const USUAL_LINES: usize = 16;

/// How many lines may be compared in search of the hunks of one file.
const MAX_WORK: usize = 1 << 24;

/// Lines of at least this many bytes cost budget when compared with those that a header names.
const LONG_LINE: usize = 1024;

/// How a hunk was compared with the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Byte by byte.
    Exact,
    /// With other line endings, or with or without one at the end of the file.
    LineEndings,
    /// With other blanks at the end of lines too.
    Blanks,
}

/// Where a hunk was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match {
    /// Its first line in the old content, counted from 1.
    pub line: u64,
    /// How many lines that is behind the place its header names; 0 where it names none.
    pub offset: i64,
    /// How many lines of context were left out, above or below, whichever is more.
    pub fuzz: u8,
    /// How it was compared.
    pub how: How,
    /// Whether its header has counts that are not those of its lines.
    pub miscounted: bool,
}

impl Match {
    /// Returns a note about an inexact match, or `None` where it was at its place.
    pub fn words(&self) -> Option<String> {
        let mut parts = Vec::new();
        match self.offset {
            0 => {}
            1 | -1 => parts.push(format!("offset {} line", self.offset)),
            offset => parts.push(format!("offset {offset} lines")),
        }
        if 0 < self.fuzz {
            parts.push(format!("fuzz {}", self.fuzz));
        }
        match self.how {
            How::Exact => {}
            How::LineEndings => parts.push(String::from("line endings differ")),
            How::Blanks => parts.push(String::from("blanks at line ends differ")),
        }
        if self.miscounted {
            parts.push(String::from("its line counts are wrong"));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// A hunk in parsed form.
#[derive(Debug)]
pub(super) struct Shape<'h, 'p> {
    pub(super) hunk: &'h Hunk<'p>,
    pub(super) lines: Vec<HunkLine<'p>>,
    /// The lines that the content has.
    old: Vec<HunkLine<'p>>,
    /// Lines of context above the first change and below the last one.
    prefix: usize,
    suffix: usize,
    /// Whether all its lines have the same ending. Otherwise endings must match exactly.
    is_uniform: bool,
    /// Whether a line that it adds is the last of the file and lacks its line feed.
    is_open: bool,
}

impl<'h, 'p> Shape<'h, 'p> {
    pub(super) fn new(hunk: &'h Hunk<'p>) -> Self {
        let (mut lines, mut old) =
            (Vec::with_capacity(USUAL_LINES), Vec::with_capacity(USUAL_LINES));
        lines.extend(hunk.lines());
        old.extend(lines.iter().filter(|line| line.mark != LineKind::Add));
        let is_context = |line: &&HunkLine<'_>| line.mark == LineKind::Keep;
        let prefix = lines.iter().take_while(is_context).count();
        let suffix = lines.iter().rev().take_while(is_context).count();
        let ended = || lines.iter().filter(|line| line.ended && !line.text.is_empty());
        let n_crlf = ended().filter(|line| line.text.ends_with(b"\r")).count();
        let is_uniform = n_crlf == 0 || n_crlf == ended().count();
        let is_open = lines.iter().any(|line| line.mark == LineKind::Add && !line.ended);
        Self { hunk, lines, old, prefix, suffix, is_uniform, is_open }
    }

    /// Returns the old lines as a text.
    pub(super) fn wanted(&self) -> String {
        let lines = self.old.iter().map(|line| {
            let text = line.text.strip_suffix(b"\r").unwrap_or(line.text);
            String::from_utf8_lossy(text)
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Returns whether an added line claims to end the file, and more lines follow.
    fn goes_on(&self) -> bool {
        let new = self.lines.iter().filter(|line| line.mark != LineKind::Remove);
        let n_ended =
            new.clone().take_while(|line| line.ended || line.mark != LineKind::Add).count();
        n_ended + 1 < new.count()
    }

    /// Returns how many lines from its place on it changes, up to the last change.
    fn n_changed(&self) -> usize {
        self.old.len() - self.suffix.min(self.old.len())
    }

    /// Returns the ways of comparing, the strictest first.
    fn hows(&self) -> &'static [How] {
        if self.is_uniform { &[How::Exact, How::LineEndings, How::Blanks] } else { &[How::Exact] }
    }
}

/// Where a hunk was placed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    /// Its first line, counted from 0.
    pub(super) line: usize,
    pub(super) how: How,
    fuzz: usize,
    offset: i64,
}

impl Placed {
    /// Returns whether all of its old lines are there, byte by byte.
    pub(super) fn is_exact(self) -> bool {
        self.how == How::Exact && self.fuzz == 0
    }

    pub(super) fn to_match(self, hunk: &Hunk<'_>) -> Match {
        Match {
            line: self.line as u64 + 1,
            offset: self.offset,
            fuzz: u8::try_from(self.fuzz).unwrap_or(u8::MAX),
            how: self.how,
            miscounted: hunk.miscounted,
        }
    }
}

/// Finds the hunks of one file, in order.
#[derive(Debug)]
pub(super) struct Finder<'t> {
    pub(super) text: IndexedText<'t>,
    /// Made when it is needed first; nothing inside where it would be too large.
    pub(super) index: Option<Option<Index>>,
    pub(super) work_left: usize,
    /// How many lines the hunks before have settled.
    pub(super) frozen: usize,
    /// How far the hunk before was from its place.
    drift: i64,
}

impl<'t> Finder<'t> {
    pub(super) fn new(old: &'t [u8]) -> Self {
        let text = IndexedText::new(old);
        Self { text, index: None, work_left: MAX_WORK, frozen: 0, drift: 0 }
    }

    pub(super) fn locate(&mut self, shape: &Shape<'_, '_>) -> Result<Placed, Why> {
        let placed = match shape.hunk.old_start {
            _ if shape.old.is_empty() => self.insertion(shape)?,
            Some(start) => self.by_number(shape, start)?,
            None => self.by_lines(shape)?,
        };
        let behind = placed.line.saturating_add(shape.old.len());
        if shape.is_open && (behind < self.text.n_lines() || shape.goes_on()) {
            return Err(Why::NotEnd(behind as u64));
        }
        self.frozen = placed.line.saturating_add(shape.n_changed());
        if shape.hunk.old_start.is_some() {
            self.drift = placed.offset;
        }
        Ok(placed)
    }

    /// Places a hunk without old lines.
    fn insertion(&mut self, shape: &Shape<'_, '_>) -> Result<Placed, Why> {
        let n_lines = self.text.n_lines();
        let placed = |line, offset| Placed { line, how: How::Exact, fuzz: 0, offset };
        if let Some(start) = shape.hunk.old_start.filter(|_| shape.hunk.counted) {
            let line = as_line(start).saturating_add_signed(self.drift);
            return match as_usize(line) {
                line if n_lines == 0 && 0 < line => Err(Why::PastEnd(0)),
                // Behind the end is at the end, as for `git apply --unidiff-zero` and GNU `patch`.
                line if n_lines < line => {
                    let offset = (n_lines as i64).saturating_sub_unsigned(as_line(start));
                    Ok(placed(n_lines, offset))
                }
                line if line < self.frozen => Err(Why::Before(line as u64 + 1)),
                line => Ok(placed(line, self.drift)),
            };
        }
        if n_lines == 0 {
            return Ok(placed(0, 0));
        }
        if shape.hunk.form != PatchFormat::Update || shape.hunk.old_start.is_some() {
            return Err(Why::Unplaced);
        }
        if shape.hunk.at_end || shape.hunk.contexts().next().is_none() {
            return Ok(placed(n_lines, 0));
        }
        let line = self.behind_contexts(shape)?;
        match self.chain(shape, line) {
            Ok(other) => Err(Why::Ambiguous(vec![line as u64, other as u64])),
            Err(_) => Ok(placed(line, 0)),
        }
    }

    /// Finds a hunk whose header says where it is.
    fn by_number(&mut self, shape: &Shape<'_, '_>, start: u64) -> Result<Placed, Why> {
        let stated = as_line(start.saturating_sub(1));
        let guess = as_usize(stated.saturating_add_signed(self.drift));
        let context = shape.prefix.max(shape.suffix);
        let is_diff = shape.hunk.form == PatchFormat::Diff;
        let inserts = shape.lines.iter().all(|line| line.mark != LineKind::Remove);
        let opens = shape.prefix == 0 && inserts;
        let max_fuzz = if is_diff { context.min(MAX_FUZZ) } else { 0 };
        for fuzz in 0..=max_fuzz {
            let (front, back) = (fuzz + shape.prefix, fuzz + shape.suffix);
            let only_top = is_diff && start <= 1 && front < context;
            let only_end = shape.hunk.at_end || shape.is_open || (is_diff && back < context);
            let (front, back) = (front.saturating_sub(context), back.saturating_sub(context));
            let n_left = shape.old.len() - back;
            let Some(lines) = shape.old.get(front..n_left) else { continue };
            if 0 < fuzz && lines.iter().all(|line| without_blanks(line.text).is_empty()) {
                continue;
            }
            let end = self.text.n_lines().checked_sub(n_left);
            let hows = shape.hows();
            for how in hows.iter().filter(|how| fuzz == 0 || **how != How::Blanks) {
                let core = Core { lines, front, how: *how };
                let mut spot = Spot::Nowhere;
                if only_top || only_end {
                    let at = if only_top { Some(0) } else { end };
                    spot = self.exactly(core, at);
                }
                let is_held = shape.hunk.at_end
                    || (only_top && opens)
                    || (0 < fuzz && (only_top || only_end));
                if matches!(spot, Spot::Nowhere) && !is_held {
                    let pick = if *how == How::Blanks { Pick::Only } else { Pick::Nearest(guess) };
                    spot = self.seek(core, self.frozen, end, pick);
                }
                if let Some(line) = settle(spot)? {
                    let offset = (line as i64).saturating_sub_unsigned(stated);
                    return Ok(Placed { line, how: *how, fuzz, offset });
                }
            }
        }
        Err(self.diagnose(shape, Some(guess)))
    }

    /// Finds a hunk whose lines alone say where it is.
    fn by_lines(&mut self, shape: &Shape<'_, '_>) -> Result<Placed, Why> {
        let end = self.text.n_lines().checked_sub(shape.old.len());
        let is_update = shape.hunk.form == PatchFormat::Update;
        let has_contexts = shape.hunk.contexts().next().is_some();
        for how in shape.hows() {
            let core = Core { lines: &shape.old, front: 0, how: *how };
            let spot = if shape.hunk.at_end || shape.is_open {
                self.exactly(core, end)
            } else if is_update && has_contexts {
                self.behind(shape, core, end)?
            } else {
                match self.seek(core, self.frozen, end, Pick::Only) {
                    // The text after the signs may tell the places apart.
                    Spot::Many(lines) if has_contexts => {
                        self.behind(shape, core, end).unwrap_or(Spot::Many(lines))
                    }
                    spot => spot,
                }
            };
            if let Some(line) = settle(spot)? {
                return Ok(Placed { line, how: *how, fuzz: 0, offset: 0 });
            }
        }
        let context = shape.prefix.max(shape.suffix);
        let max_fuzz = if is_update { 0 } else { context.min(MAX_FUZZ) };
        for fuzz in 1..=max_fuzz {
            let front = (fuzz + shape.prefix).saturating_sub(context);
            let n_left = shape.old.len() - (fuzz + shape.suffix).saturating_sub(context);
            let Some(lines) = shape.old.get(front..n_left) else { continue };
            if lines.iter().all(|line| without_blanks(line.text).is_empty()) {
                continue;
            }
            let core = Core { lines, front, how: How::Exact };
            let end = self.text.n_lines().checked_sub(n_left);
            if let Some(line) = settle(self.seek(core, self.frozen, end, Pick::Only))? {
                return Ok(Placed { line, how: How::Exact, fuzz, offset: 0 });
            }
        }
        Err(self.diagnose(shape, None))
    }

    /// Finds lines after those that the headers name; a second such place makes them ambiguous.
    fn behind(
        &mut self,
        shape: &Shape<'_, '_>,
        core: Core<'_, '_>,
        end: Option<usize>,
    ) -> Result<Spot, Why> {
        let from = self.behind_contexts(shape)?;
        let mut spot = self.seek(core, from, end, Pick::First);
        if matches!(spot, Spot::Nowhere) && self.frozen < from {
            // The hunk may begin with the line that its header names.
            spot = self.seek(core, from - 1, end, Pick::First);
        }
        let Spot::At(line) = spot else { return Ok(spot) };
        if let Ok(from) = self.chain(shape, line + core.lines.len())
            && let Spot::At(other) = self.seek(core, from, end, Pick::First)
        {
            return Ok(Spot::Many(vec![line, other]));
        }
        Ok(Spot::At(line))
    }

    /// Returns the line after those that the headers name; they may lie before the end of the last hunk.
    fn behind_contexts(&mut self, shape: &Shape<'_, '_>) -> Result<usize, Why> {
        let from = self.frozen;
        match self.chain(shape, from) {
            Err(Why::NoContext(_)) if 0 < from => Ok(self.chain(shape, 0)?.max(from)),
            result => result,
        }
    }

    /// Follows the lines that the headers name, each behind the one before.
    fn chain(&mut self, shape: &Shape<'_, '_>, from: usize) -> Result<usize, Why> {
        let mut at = from;
        for context in shape.hunk.contexts() {
            let missing = || Why::NoContext(String::from_utf8_lossy(context).into_owned());
            if context.trim_ascii().is_empty() {
                continue;
            }
            let Some(index) = self.index() else { return Err(Why::Costly) };
            let places = index.places(context).unwrap_or_default();
            let n_passed = places.partition_point(|entry| Index::number(*entry) < at);
            let places = places.iter().skip(n_passed).take(MAX_ANCHORS);
            let places: Vec<usize> = places.map(|entry| Index::number(*entry)).collect();
            let text_at = |line: usize| self.text.line_at(self.text.start(line));
            let lengths = places.iter().map(|line| text_at(*line).len());
            let n_bytes = lengths.filter(|length| LONG_LINE < *length).sum();
            if !self.spend(n_bytes) {
                return Err(Why::Costly);
            }
            let is_context = |line: &&usize| {
                let there = self.text.line_at(self.text.start(**line));
                there.trim_ascii() == context.trim_ascii()
            };
            let whole = |line: &&usize| {
                let there = self.text.line_at(self.text.start(**line));
                without_blanks(there) == without_blanks(context)
            };
            let first = places.iter().find(whole).or_else(|| places.iter().find(is_context));
            at = first.ok_or_else(missing)? + 1;
        }
        Ok(at)
    }

    /// Returns why a hunk was not found.
    fn diagnose(&mut self, shape: &Shape<'_, '_>, guess: Option<usize>) -> Why {
        let pick = guess.map_or(Pick::First, Pick::Nearest);
        let new: Vec<HunkLine<'_>> =
            shape.lines.iter().filter(|line| line.mark != LineKind::Remove).copied().collect();
        let adds = |line: &HunkLine<'_>| {
            line.mark == LineKind::Add && !without_blanks(line.text).is_empty()
        };
        if new.iter().any(adds) {
            let core = Core { lines: &new, front: 0, how: How::LineEndings };
            let end = self.text.n_lines().checked_sub(new.len());
            if let Spot::At(line) = self.seek(core, 0, end, pick) {
                return Why::Applied(line as u64 + 1);
            }
        }
        if let Some(last) = self.frozen.checked_sub(1) {
            let core = Core { lines: &shape.old, front: 0, how: How::LineEndings };
            let end = self.text.n_lines().checked_sub(shape.old.len());
            let end = end.map(|end| end.min(last));
            if let Spot::At(line) = self.seek(core, 0, end, pick) {
                return Why::Before(line as u64 + 1);
            }
        }
        match guess {
            Some(guess) if self.text.n_lines() < guess => Why::PastEnd(self.text.n_lines() as u64),
            _ => Why::NotFound,
        }
    }
}

/// Returns the place that a search found, if it can be taken.
fn settle(spot: Spot) -> Result<Option<usize>, Why> {
    match spot {
        Spot::At(line) => Ok(Some(line)),
        Spot::Nowhere => Ok(None),
        Spot::Costly => Err(Why::Costly),
        Spot::Many(lines) => {
            Err(Why::Ambiguous(lines.into_iter().map(|line| line as u64 + 1).collect()))
        }
    }
}

/// Returns a line number that can be counted with: none is larger than a file can have lines.
fn as_line(number: u64) -> u64 {
    number.min(1 << 48)
}

fn as_usize(line: u64) -> usize {
    usize::try_from(line).unwrap_or(usize::MAX)
}
