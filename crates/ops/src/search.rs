//! Searches one open file with ripgrep's searcher and keeps its matches.
//!
//! Files are read, not mapped: truncating a mapped file kills the process. The reader checks the clock
//! between blocks, so that a huge or endless file cannot stall a search. A large file that was named
//! itself is searched by several threads ([chunks]).

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};

use self::chunks::ChunkSearch;
use crate::grep::{Hit, HitKind, OutputMode};
use crate::kept::MAX_BYTES;
use crate::watch::Watch;

mod chunks;

/// The largest file that is searched across lines, because it is held whole.
const MAX_MULTILINE: u64 = 16 << 20;

/// The longest line that is held.
const MAX_LINE: usize = 64 << 20;

/// Files of this size named directly are read whole: a growing buffer would copy a 50 MB line repeatedly.
const WHOLE: std::ops::RangeInclusive<u64> = 1 << 20..=(64 << 20) - 1;

/// The most characters of a line that are shown, and how many of them before a match far in.
const SHOWN_CHARS: usize = 500;
const SHOWN_BEFORE: usize = 100;

/// The search in each file, and its limits.
#[derive(Debug, Clone)]
pub(crate) struct SearchPlan {
    pub(crate) matcher: RegexMatcher,
    pub(crate) mode: OutputMode,
    pub(crate) multiline: bool,
    pub(crate) before: usize,
    pub(crate) after: usize,
    pub(crate) max_rows: u64,
    /// Whether the file was named itself: then a NUL does not end the search for names and counts.
    pub(crate) named: bool,
}

/// The searcher of one thread.
pub(crate) struct Engine<'a> {
    plan: SearchPlan,
    searcher: Searcher,
    watch: &'a Watch<'a>,
}

/// The outcome of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Searched {
    /// It was searched.
    Done(Matches),
    /// It is binary and nothing is shown of it.
    Binary,
    /// It is larger than what can be searched this way.
    TooLarge,
    /// It could not be read.
    Unreadable,
    /// The search was over before its end.
    Stopped,
}

/// The matches of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Matches {
    pub(crate) count: u64,
    pub(crate) hits: Vec<Hit>,
    /// Whether the search ended at a NUL.
    pub(crate) binary: bool,
}

impl<'a> Engine<'a> {
    pub(crate) fn new(plan: SearchPlan, watch: &'a Watch<'a>) -> Self {
        let content = plan.mode == OutputMode::Content;
        let binary = if plan.named && !content {
            BinaryDetection::convert(0)
        } else {
            BinaryDetection::quit(0)
        };
        let mut builder = SearcherBuilder::new();
        builder
            .multi_line(plan.multiline)
            .line_number(content)
            .binary_detection(binary)
            .heap_limit((!plan.multiline).then_some(MAX_LINE));
        if content {
            builder
                .before_context(plan.before)
                .after_context(plan.after)
                .max_matches(Some(plan.max_rows));
        }
        Self { searcher: builder.build(), plan, watch }
    }

    /// Searches a file that was named itself: as it is read, whole in memory from 1 MiB on, in chunks from 64 MiB on.
    /// Its size is only a hint.
    pub(crate) fn search_named(&mut self, file: File, size: u64) -> Searched {
        if self.plan.multiline || size < *WHOLE.start() {
            return self.search(file);
        }
        if *WHOLE.end() < size {
            return match self.plan.before + self.plan.after == 0 && !is_utf16(&file) {
                true => ChunkSearch::new(&self.plan, &file, self.watch).run(),
                false => self.search(file),
            };
        }
        let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
        match (&file).take(WHOLE.end() + 1).read_to_end(&mut content) {
            Ok(n) if n as u64 <= *WHOLE.end() => {}
            // The file grew meanwhile.
            Ok(_) => return Searched::TooLarge,
            Err(_) => return Searched::Unreadable,
        }
        let mut sink = Gather { plan: &self.plan, matches: Matches::default(), n_bytes: 0 };
        let result = self.searcher.search_slice(&self.plan.matcher, &content, &mut sink);
        ended(sink.matches, None, result)
    }

    pub(crate) fn search(&mut self, file: File) -> Searched {
        let mut reader = Paced {
            file,
            watch: self.watch,
            left: if self.plan.multiline { MAX_MULTILINE } else { u64::MAX },
            end: None,
        };
        let mut sink = Gather { plan: &self.plan, matches: Matches::default(), n_bytes: 0 };
        let result = self.searcher.search_reader(&self.plan.matcher, &mut reader, &mut sink);
        ended(sink.matches, reader.end, result)
    }
}

/// Returns whether a file begins with the mark of UTF-16, which the searcher translates as it reads.
fn is_utf16(file: &File) -> bool {
    let mut mark = [0; 2];
    let read = file.read_exact_at(&mut mark, 0);
    read.is_ok() && matches!(mark, [0xFF, 0xFE] | [0xFE, 0xFF])
}

/// Returns the outcome of a searched file; `end` is why reading stopped early.
fn ended(matches: Matches, end: Option<Searched>, result: io::Result<()>) -> Searched {
    match (end, result) {
        (Some(end), _) => end,
        // An error without a number is the searcher's own: a line does not fit.
        (None, Err(error)) if error.raw_os_error().is_none() => Searched::TooLarge,
        (None, Err(_)) => Searched::Unreadable,
        (None, Ok(())) if matches.binary && matches.count == 0 => Searched::Binary,
        (None, Ok(())) => Searched::Done(matches),
    }
}

/// A file that is read only as long as the search goes on, and only so far.
struct Paced<'a> {
    file: File,
    watch: &'a Watch<'a>,
    left: u64,
    end: Option<Searched>,
}

impl Read for Paced<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.watch.over() {
            self.end = Some(Searched::Stopped);
            return Err(io::Error::other("the search is over"));
        }
        let n = self.file.read(buffer)?;
        self.watch.read(n);
        match self.left.checked_sub(n as u64) {
            Some(left) => self.left = left,
            None => {
                self.end = Some(Searched::TooLarge);
                return Err(io::Error::other("the file is too large"));
            }
        }
        Ok(n)
    }
}

/// Keeps the matches in the form of the output mode.
struct Gather<'p> {
    plan: &'p SearchPlan,
    matches: Matches,
    n_bytes: usize,
}

impl Gather<'_> {
    /// Keeps the lines of one match or of one line of context.
    fn keep(&mut self, first: u64, bytes: &[u8], kind: HitKind) {
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        for (at, line) in lines.enumerate() {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let (text, cut_chars) = self.shown(line, kind);
            self.n_bytes += text.len();
            let more = kind == HitKind::Match && 0 < at;
            let kind = if more { HitKind::More } else { kind };
            self.matches.hits.push(Hit { number: first + at as u64, kind, text, cut_chars });
        }
    }

    /// Returns the shown text of a line: all, or a part around its first match.
    fn shown(&self, line: &[u8], kind: HitKind) -> (String, u64) {
        if line.len() <= SHOWN_CHARS {
            return (String::from_utf8_lossy(line).into_owned(), 0);
        }
        let found = match kind {
            HitKind::Context => 0,
            _ => self.plan.matcher.find(line).ok().flatten().map_or(0, |found| found.start()),
        };
        let far = SHOWN_CHARS - SHOWN_BEFORE < found;
        let start = if far { char_start(line, found - SHOWN_BEFORE) } else { 0 };
        let tail = line.get(start..).unwrap_or_default();
        let part = tail.get(..SHOWN_CHARS * 4).unwrap_or(tail);
        let part: String = String::from_utf8_lossy(part).chars().take(SHOWN_CHARS).collect();
        let cut = n_chars(line).saturating_sub(part.chars().count() as u64);
        let head = if far { "…" } else { "" };
        let end = if cut == 0 || start + part.len() == line.len() { "" } else { "…" };
        (format!("{head}{part}{end}"), cut)
    }
}

/// Returns how many characters are shown for a line: each invalid sequence of UTF-8 is shown as one.
fn n_chars(line: &[u8]) -> u64 {
    let chunks = line.utf8_chunks();
    let shown = chunks
        .map(|chunk| chunk.valid().chars().count() + usize::from(!chunk.invalid().is_empty()));
    shown.sum::<usize>() as u64
}

/// Returns the start of the character that a place lies in.
fn char_start(bytes: &[u8], place: usize) -> usize {
    let head = bytes.get(..=place).unwrap_or(bytes);
    let inside = head.iter().rev().take(4).take_while(|byte| **byte & 0xC0 == 0x80).count();
    place.saturating_sub(inside)
}

impl Sink for Gather<'_> {
    type Error = io::Error;

    fn matched(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        match self.plan.mode {
            OutputMode::FilesWithMatches => {
                self.matches.count = 1;
                Ok(false)
            }
            OutputMode::Count if self.plan.multiline && searcher.multi_line() => {
                let mut n = 0;
                let each = self.plan.matcher.find_iter(found.bytes(), |_| {
                    n += 1;
                    true
                });
                each.map_err(io::Error::other)?;
                self.matches.count += n.max(1);
                Ok(true)
            }
            OutputMode::Count => {
                self.matches.count += 1;
                Ok(true)
            }
            OutputMode::Content => {
                self.matches.count += 1;
                self.keep(found.line_number().unwrap_or(0), found.bytes(), HitKind::Match);
                Ok(self.n_bytes < MAX_BYTES)
            }
        }
    }

    fn context(&mut self, _searcher: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        if self.plan.mode == OutputMode::Content {
            self.keep(line.line_number().unwrap_or(0), line.bytes(), HitKind::Context);
        }
        Ok(self.n_bytes < MAX_BYTES)
    }

    fn finish(&mut self, searcher: &Searcher, end: &SinkFinish) -> io::Result<()> {
        if end.binary_byte_offset().is_some() && searcher.binary_detection().quit_byte().is_some() {
            self.matches.binary = true;
            // A count of a part would mislead; a name or a line is true as it is.
            if self.plan.mode == OutputMode::Count {
                self.matches.count = 0;
            }
        }
        Ok(())
    }
}
