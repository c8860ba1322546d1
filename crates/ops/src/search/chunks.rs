//! Searches a large file in chunks, several at once, and puts their matches together in order.
//!
//! A chunk consists of the lines that begin in its part of the file. It is read, never mapped, and is
//! small enough that what looks at it once more finds it in the processor's cache. The result is that
//! of a search from the first line to the last: later chunks wait for earlier ones, and the search ends
//! where the first would have ended. Where lines are shown it ends before the line with the first NUL.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, available_parallelism};

use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use memchr::{memchr, memchr_iter, memchr2, memrchr, memrchr2};
use sinew_tool::sync::{into_inner, lock};

use super::{Gather, MAX_LINE, Matches, SearchPlan, Searched};
use crate::grep::OutputMode;
use crate::kept::MAX_BYTES;
use crate::watch::Watch;

/// The bytes of a chunk.
const CHUNK: usize = 1 << 20;

/// The most threads of one search.
const MAX_THREADS: usize = 8;

/// How many chunks each thread may be ahead of the first one that is not searched yet.
const AHEAD: u64 = 4;

/// From which length on a line is long, and a buffer is not kept.
const LONG: usize = 4 << 20;

/// The bytes that are read at once behind a chunk, where its last line continues.
const BLOCK: usize = 64 << 10;

/// A search of one file by several threads.
pub(super) struct ChunkSearch<'a> {
    plan: &'a SearchPlan,
    file: &'a File,
    watch: &'a Watch<'a>,
    n_chunk_bytes: usize,
    n_threads: usize,
    merged: Mutex<Merged>,
    moved: Condvar,
    /// Held while a long line is: one of them at a time is in memory.
    long: Mutex<()>,
}

/// The merged results of the file, from its start on.
#[derive(Default)]
struct Merged {
    /// The number of the chunk that is searched next.
    next: u64,
    /// The number of the first chunk whose matches are missing.
    first: u64,
    /// Chunks that were searched before an earlier one.
    early: BTreeMap<u64, Chunk>,
    n_lines: u64,
    n_bytes: usize,
    matches: Matches,
    /// How the search ended, once it has.
    end: Option<SearchEnd>,
}

/// How the search of a file ended.
enum SearchEnd {
    /// Nothing more is needed or there.
    Done,
    /// It failed.
    Failed(Searched),
}

/// Why the lines of a chunk cannot be read, or not all.
struct Cut {
    /// Where in the buffer those that can be read begin.
    begin: usize,
    end: SearchEnd,
}

/// The matches of a chunk, its lines counted from 1.
#[derive(Default)]
struct Chunk {
    matches: Matches,
    n_lines: u64,
    end: Option<SearchEnd>,
}

impl<'a> ChunkSearch<'a> {
    /// Returns the search of a file that a plan without lines of context is made for.
    pub(super) fn new(plan: &'a SearchPlan, file: &'a File, watch: &'a Watch<'a>) -> Self {
        let n_threads = available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
        Self {
            plan,
            file,
            watch,
            n_chunk_bytes: CHUNK,
            n_threads,
            merged: Mutex::default(),
            moved: Condvar::new(),
            long: Mutex::default(),
        }
    }

    pub(super) fn run(self) -> Searched {
        thread::scope(|scope| {
            for _ in 1..self.n_threads {
                // The others do the work of a thread that the system does not start.
                drop(thread::Builder::new().spawn_scoped(scope, || self.work()));
            }
            self.work();
        });
        let merged = into_inner(self.merged);
        match merged.end {
            Some(SearchEnd::Failed(end)) => super::ended(merged.matches, Some(end), Ok(())),
            _ => super::ended(merged.matches, None, Ok(())),
        }
    }

    /// Searches one chunk after the other until the search has ended.
    fn work(&self) {
        let _over = OverOnPanic(self);
        let mut buffer = Vec::new();
        let mut searcher = SearcherBuilder::new()
            .line_number(self.shows_lines())
            .max_matches(self.shows_lines().then_some(self.plan.max_rows))
            // Binary bytes and a BOM are handled for the file, not for each chunk.
            .binary_detection(BinaryDetection::none())
            .bom_sniffing(false)
            .build();
        while let Some(number) = self.take() {
            let chunk = match self.watch.over() {
                true => Chunk::failed(Searched::Stopped),
                false => self.chunk(number, &mut buffer, &mut searcher),
            };
            self.give(number, chunk);
            if LONG < buffer.capacity() {
                buffer = Vec::new();
            }
        }
    }

    fn shows_lines(&self) -> bool {
        self.plan.mode == OutputMode::Content
    }

    /// Returns the number of the next chunk, or nothing once the search has ended.
    fn take(&self) -> Option<u64> {
        let ahead = AHEAD * self.n_threads as u64;
        let mut merged = lock(&self.merged);
        while merged.end.is_none() && merged.first + ahead <= merged.next {
            merged = self.moved.wait(merged).unwrap_or_else(PoisonError::into_inner);
        }
        let number = merged.next;
        merged.next += 1;
        merged.end.is_none().then_some(number)
    }

    /// Puts a chunk behind the earlier ones.
    fn give(&self, number: u64, chunk: Chunk) {
        let mut merged = lock(&self.merged);
        merged.early.insert(number, chunk);
        while merged.end.is_none() {
            let first = merged.first;
            let Some(chunk) = merged.early.remove(&first) else { break };
            merged.add(chunk, self.plan);
            merged.first += 1;
        }
        drop(merged);
        self.moved.notify_all();
    }

    fn chunk(&self, number: u64, buffer: &mut Vec<u8>, searcher: &mut Searcher) -> Chunk {
        let mut turn = None;
        let mut end = None;
        let begin = match self.lines(number, buffer, &mut turn) {
            Ok(begin) => begin,
            // What comes before a line that is too long is searched.
            Err(Cut { begin, end: why }) => {
                end = Some(why);
                begin
            }
        };
        match buffer.get_mut(begin..).filter(|lines| !lines.is_empty()) {
            Some(lines) => Chunk { end, ..self.search(lines, searcher) },
            None => Chunk { end, ..Chunk::default() },
        }
    }

    /// Reads the lines that begin in a part of the file, and returns where in the buffer they do.
    fn lines<'s>(
        &'s self,
        number: u64,
        buffer: &mut Vec<u8>,
        turn: &mut Option<MutexGuard<'s, ()>>,
    ) -> Result<usize, Cut> {
        let start = number * self.n_chunk_bytes as u64;
        // The byte before a part tells whether a line begins with it.
        let n_before = usize::from(0 < number);
        buffer.clear();
        let n_wanted = n_before + self.n_chunk_bytes;
        let from = start - n_before as u64;
        let nothing = |end| Cut { begin: usize::MAX, end };
        self.read(from, n_wanted, buffer).map_err(nothing)?;
        if buffer.len() <= n_before {
            return Err(nothing(SearchEnd::Done));
        }
        let begin = match n_before {
            0 if buffer.starts_with(b"\xEF\xBB\xBF") => 3,
            0 => 0,
            _ => line_end(buffer).map_or(buffer.len(), |at| at + 1),
        };
        let whole = buffer.len() < n_wanted || matches!(buffer.last(), Some(b'\n' | 0));
        if begin < buffer.len() && !whole {
            self.read_line_end(from, buffer, turn).map_err(|end| Cut { begin, end })?;
        }
        Ok(begin)
    }

    /// Reads on to the end of the line that the buffer ends in; takes the start of one that is too long out of it.
    fn read_line_end<'s>(
        &'s self,
        from: u64,
        buffer: &mut Vec<u8>,
        turn: &mut Option<MutexGuard<'s, ()>>,
    ) -> Result<(), SearchEnd> {
        let line = memrchr2(b'\n', 0, buffer).map_or(0, |at| at + 1);
        loop {
            let known = buffer.len();
            if MAX_LINE < known - line {
                buffer.truncate(line);
                return Err(SearchEnd::Failed(Searched::TooLarge));
            }
            if LONG < known - line && turn.is_none() {
                *turn = Some(lock(&self.long));
            }
            self.read(from + known as u64, BLOCK, buffer)?;
            let added = buffer.get(known..).unwrap_or_default();
            if let Some(end) = line_end(added) {
                buffer.truncate(known + end + 1);
                return Ok(());
            }
            if added.len() < BLOCK {
                return Ok(());
            }
            if self.watch.over() {
                return Err(SearchEnd::Failed(Searched::Stopped));
            }
        }
    }

    /// Adds bytes of the file to a buffer, fewer only at its end.
    fn read(&self, from: u64, n: usize, buffer: &mut Vec<u8>) -> Result<(), SearchEnd> {
        let known = buffer.len();
        buffer.resize(known + n, 0);
        let mut filled = known;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, from + (filled - known) as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(SearchEnd::Failed(Searched::Unreadable)),
            }
        }
        buffer.truncate(filled);
        self.watch.read(filled - known);
        Ok(())
    }

    fn search(&self, lines: &mut [u8], searcher: &mut Searcher) -> Chunk {
        let nul = memchr(0, lines);
        let binary = nul.is_some() && self.shows_lines();
        let lines = match nul {
            Some(at) if binary => {
                let head = lines.get(..at).unwrap_or_default();
                head.get(..memrchr(b'\n', head).map_or(0, |end| end + 1)).unwrap_or_default()
            }
            Some(at) => {
                // As for a file that is searched from its start: a NUL ends a line there.
                let tail = lines.get_mut(at..).unwrap_or_default();
                tail.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b'\n');
                &*lines
            }
            None => &*lines,
        };
        let mut sink = Gather { plan: self.plan, matches: Matches::default(), n_bytes: 0 };
        let result: io::Result<()> = searcher.search_slice(&self.plan.matcher, lines, &mut sink);
        if result.is_err() {
            return Chunk::failed(Searched::Unreadable);
        }
        let n_lines = if self.shows_lines() { memchr_iter(b'\n', lines).count() as u64 } else { 0 };
        Chunk { matches: Matches { binary, ..sink.matches }, n_lines, end: None }
    }
}

/// Returns the place of the first line feed or NUL, which ends the search or a line.
fn line_end(bytes: &[u8]) -> Option<usize> {
    memchr2(b'\n', 0, bytes)
}

/// Ends a search whose thread panics: the other threads would wait for its chunk.
struct OverOnPanic<'a>(&'a ChunkSearch<'a>);

impl Drop for OverOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            lock(&self.0.merged).end = Some(SearchEnd::Failed(Searched::Unreadable));
            self.0.moved.notify_all();
        }
    }
}

impl Chunk {
    fn failed(end: Searched) -> Self {
        Self { end: Some(SearchEnd::Failed(end)), ..Self::default() }
    }
}

impl Merged {
    /// Adds the chunk that follows, up to the place where a search from the start would have ended.
    fn add(&mut self, chunk: Chunk, plan: &SearchPlan) {
        let found = chunk.matches;
        match plan.mode {
            OutputMode::FilesWithMatches if 0 < found.count => {
                self.matches.count = 1;
                self.end = Some(SearchEnd::Done);
            }
            OutputMode::FilesWithMatches => {}
            OutputMode::Count => self.matches.count += found.count,
            OutputMode::Content => {
                for mut hit in found.hits {
                    hit.number += self.n_lines;
                    self.n_bytes += hit.text.len();
                    self.matches.count += 1;
                    self.matches.hits.push(hit);
                    if MAX_BYTES <= self.n_bytes || plan.max_rows <= self.matches.count {
                        self.end = Some(SearchEnd::Done);
                        return;
                    }
                }
                self.n_lines += chunk.n_lines;
            }
        }
        if found.binary {
            self.matches.binary = true;
            self.end = Some(SearchEnd::Done);
        } else if self.end.is_none() {
            self.end = chunk.end;
        }
    }
}

#[cfg(test)]
mod tests;
