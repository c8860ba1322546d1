//! Tracks which file contents each caller knows, to reject changes based on stale content.
//!
//! A caller is a session, or one agent of it. It knows the hash of a file that it wrote or read whole, and
//! the status of one that it read in part. A change is rejected if the content that it replaces is not the
//! known one. A content without a known writer counts as written by another program.
//!
//! Memory is bounded and per process. The ledger's database extends it, so that a session may span processes:
//! it is queried if memory has no entry, and before each rejection. Without it only memory counts.

use std::collections::HashMap;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use sinew_tool::sync::lock;
use sinew_tool::{
    Caller, Change, Clock, ContentHash, FileError, FileSettings, Identity, Knowledge,
    ReadObservation, Slot, Targets, Writer,
};

use crate::ledger::{Known, KnownFrom, KnownRow, Records, SqliteLedger};
use sinew_fs::clock::SystemClock;
use sinew_fs::content_hash::content_hash;

/// The most files per caller, and the most files with a known writer.
const MAX_FILES: usize = 4_096;
/// The most callers.
const MAX_CALLERS: usize = 256;

/// The knowledge of all callers in this process.
#[derive(Debug, Default)]
pub struct KnowledgeBase {
    memory: Mutex<Memory>,
    records: Option<Records>,
}

impl SqliteLedger {
    /// Returns the knowledge base on this ledger's database.
    pub fn knowledge(&self) -> Arc<KnowledgeBase> {
        Arc::new(KnowledgeBase::over(self.records()))
    }
}

#[derive(Debug, Default)]
struct Memory {
    callers: HashMap<(String, String), CallerMemory>,
    /// The writer of each file's content, as far as this process knows.
    writers: HashMap<PathBuf, Wrote>,
    /// A use counter for evicting the oldest entries.
    now: u64,
}

#[derive(Debug, Default)]
struct CallerMemory {
    files: HashMap<PathBuf, Remembered>,
    last: Option<LastRead>,
    used: u64,
}

#[derive(Debug)]
struct Remembered {
    /// `None` if the database has no entry either.
    known: Option<Known>,
    used: u64,
}

/// A caller's last read, and how often it was repeated.
#[derive(Debug)]
struct LastRead {
    path: PathBuf,
    observation: ReadObservation,
    n_times: u32,
}

impl LastRead {
    fn is(&self, path: &Path, observation: &ReadObservation) -> bool {
        let same_content = match (self.observation.content, observation.content) {
            (Some(then), Some(now)) => then == now,
            _ => self.observation.state == observation.state,
        };
        same_content && self.observation.part == observation.part && self.path == path
    }
}

#[derive(Debug)]
struct Wrote {
    content: ContentHash,
    session: String,
    agent: Option<String>,
    tool: String,
    at_ms: u64,
    used: u64,
}

/// Evicts the least recently used quarter of a full table.
fn make_room<K: Eq + Hash, V>(table: &mut HashMap<K, V>, max: usize, used: impl Fn(&V) -> u64) {
    if table.len() < max {
        return;
    }
    let mut times: Vec<u64> = table.values().map(&used).collect();
    let (_, oldest_kept, _) = times.select_nth_unstable(max / 4);
    let oldest_kept = *oldest_kept;
    table.retain(|_, value| oldest_kept <= used(value));
}

impl Memory {
    fn caller(&mut self, caller: &Caller) -> &mut CallerMemory {
        self.now += 1;
        let key = (caller.session.clone(), caller.agent.clone().unwrap_or_default());
        if MAX_CALLERS <= self.callers.len() && !self.callers.contains_key(&key) {
            make_room(&mut self.callers, MAX_CALLERS, |of| of.used);
        }
        let of = self.callers.entry(key).or_default();
        of.used = self.now;
        of
    }
}

impl CallerMemory {
    fn remember(&mut self, path: &Path, known: Option<Known>) {
        let used = self.used;
        match self.files.get_mut(path) {
            Some(remembered) => *remembered = Remembered { known, used },
            None => {
                make_room(&mut self.files, MAX_FILES, |remembered| remembered.used);
                self.files.insert(path.to_owned(), Remembered { known, used });
            }
        }
    }
}

impl KnowledgeBase {
    /// Returns a knowledge base on the database of a ledger.
    pub(crate) fn over(records: Records) -> Self {
        Self { memory: Mutex::default(), records: Some(records) }
    }

    /// Returns whether the audit log recorded a call of a session among the latest.
    pub(crate) fn has_session(&self, session: &str) -> bool {
        self.records.as_ref().is_some_and(|records| records.has_session(session))
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }

    fn known(&self, caller: &Caller, path: &Path) -> Option<Known> {
        if let Some(remembered) = self.memory().caller(caller).files.get(path) {
            return remembered.known;
        }
        // Usually no other process knows the caller, so one query is enough.
        let known = self.recorded(caller, path);
        let mut memory = self.memory();
        let of = memory.caller(caller);
        // An entry made meanwhile is newer.
        if let Some(remembered) = of.files.get(path) {
            return remembered.known;
        }
        of.remember(path, known);
        known
    }

    /// Returns the knowledge in the database.
    fn recorded(&self, caller: &Caller, path: &Path) -> Option<Known> {
        self.records.as_ref()?.known(caller, path)
    }

    /// Rejects a file that differs from the caller's knowledge, or that it must know and does not.
    fn check(
        &self,
        caller: &Caller,
        path: &Path,
        must_know: bool,
        state: &Identity,
        content: Option<ContentHash>,
    ) -> Result<(), FileError> {
        let known = match self.known(caller, path) {
            None if !must_know => return Ok(()),
            known => known,
        };
        let is_right =
            |known: Option<Known>| known.is_some_and(|known| known.holds(Some(state), content));
        if is_right(known) {
            return Ok(());
        }
        // The caller may have read or written it in another process meanwhile.
        let recorded = self.recorded(caller, path);
        if is_right(recorded) {
            self.memory().caller(caller).remember(path, recorded);
            return Ok(());
        }
        match known.or(recorded) {
            None => Err(FileError::Unread),
            Some(_) => Err(FileError::Stale(self.writer(caller, path, content))),
        }
    }

    /// Returns the writer of a file's content, if it was a call of sinew.
    fn writer(&self, caller: &Caller, path: &Path, content: Option<ContentHash>) -> Option<Writer> {
        let now = SystemClock.wall_ms();
        let here =
            self.memory().writers.get(path).filter(|wrote| Some(wrote.content) == content).map(
                |wrote| Writer {
                    session: wrote.session.clone(),
                    agent: wrote.agent.clone(),
                    tool: wrote.tool.clone(),
                    ago: Duration::from_millis(now.saturating_sub(wrote.at_ms)),
                    is_done: true,
                },
            );
        here.or_else(|| self.records.as_ref()?.writer(caller, path, content, now))
    }

    /// Notes a read; returns how often in a row it was repeated.
    fn saw(&self, caller: &Caller, path: &Path, observation: &ReadObservation) -> u32 {
        let mut memory = self.memory();
        let of = memory.caller(caller);
        let before = of.files.get(path).and_then(|remembered| remembered.known);
        let known = before.map_or(
            Known { content: observation.content, state: Some(observation.state) },
            |before| before.and(observation),
        );
        if before != Some(known) {
            of.remember(path, Some(known));
        }
        let n_times = match &mut of.last {
            Some(last) if last.is(path, observation) => {
                last.n_times = last.n_times.saturating_add(1);
                last.n_times
            }
            last => {
                *last =
                    Some(LastRead { path: path.to_owned(), observation: *observation, n_times: 1 });
                1
            }
        };
        drop(memory);
        let is_news = match (before, known.content) {
            (Some(before), Some(_)) => before.content != known.content,
            (Some(before), None) => before != known,
            (None, _) => true,
        };
        if let (true, Some(records)) = (is_news, &self.records) {
            records.note(KnownRow::new(caller, path, KnownFrom::Read, known));
        }
        n_times
    }

    /// Notes that a caller wrote the current content of a file.
    fn wrote(&self, caller: &Caller, path: &Path, content: ContentHash) {
        let known = Known { content: Some(content), state: None };
        let row = KnownRow::new(caller, path, KnownFrom::Wrote, known);
        let mut memory = self.memory();
        let of = memory.caller(caller);
        of.last = None;
        of.remember(path, Some(known));
        let used = memory.now;
        let wrote = Wrote {
            content,
            session: caller.session.clone(),
            agent: caller.agent.clone(),
            tool: caller.tool.clone(),
            at_ms: row.at_ms,
            used,
        };
        if !memory.writers.contains_key(path) {
            make_room(&mut memory.writers, MAX_FILES, |wrote| wrote.used);
        }
        memory.writers.insert(path.to_owned(), wrote);
        drop(memory);
        if let Some(records) = &self.records {
            records.note(row);
        }
    }
}

/// The knowledge of one call's caller.
#[derive(Debug)]
pub struct CallKnowledge {
    base: Arc<KnowledgeBase>,
    caller: Option<Arc<Caller>>,
    targets: Arc<Targets>,
    settings: Arc<FileSettings>,
}

impl CallKnowledge {
    pub fn new(
        base: Arc<KnowledgeBase>,
        caller: Option<Arc<Caller>>,
        targets: Arc<Targets>,
        settings: Arc<FileSettings>,
    ) -> Self {
        Self { base, caller, targets, settings }
    }

    /// Returns the caller if its knowledge is tracked.
    fn tracked(&self) -> Option<&Caller> {
        self.caller.as_deref().filter(|_| self.settings.track_reads)
    }

    fn path(&self, slot: Slot) -> Option<&Path> {
        self.targets.files.get(slot.0).map(|target| target.path.as_path())
    }

    /// Returns whether a change of a file can be rejected.
    pub fn needs_check(&self, path: &Path) -> bool {
        let must_know = self.settings.must_read_before_write;
        self.tracked().is_some_and(|caller| must_know || self.base.known(caller, path).is_some())
    }

    /// Rejects a change if the caller knows another state, or none and must; `content` is the current hash.
    pub fn check_path(
        &self,
        path: &Path,
        state: &Identity,
        content: Option<ContentHash>,
    ) -> Result<(), FileError> {
        let Some(caller) = self.tracked() else { return Ok(()) };
        let must_know = self.settings.must_read_before_write;
        self.base.check(caller, path, must_know, state, content)
    }

    /// Returns the writer of a file's content, if the caller is tracked.
    pub fn writer(
        &self,
        path: &Path,
        content: impl FnOnce() -> Option<ContentHash>,
    ) -> Option<Writer> {
        self.tracked().and_then(|caller| self.base.writer(caller, path, Some(content()?)))
    }

    /// Notes a change by the caller. A removed or partly written file keeps the old knowledge.
    pub fn changed(&self, change: &Change) {
        let after = change.after;
        if let (Some(caller), Some(after)) = (&self.caller, after) {
            self.base.wrote(caller, &change.path, after);
        }
    }
}

impl Knowledge for CallKnowledge {
    fn minds(&self, slot: Slot) -> bool {
        self.path(slot).is_some_and(|path| self.needs_check(path))
    }

    fn check(
        &self,
        slot: Slot,
        state: &Identity,
        content: &[u8],
    ) -> Result<Option<ContentHash>, FileError> {
        let Some(path) = self.path(slot).filter(|path| self.needs_check(path)) else {
            return Ok(None);
        };
        let hash = content_hash(content);
        self.check_path(path, state, Some(hash))?;
        Ok(Some(hash))
    }

    fn saw(&self, slot: Slot, observation: &ReadObservation) -> u32 {
        self.tracked()
            .zip(self.path(slot))
            .map_or(1, |(caller, path)| self.base.saw(caller, path, observation))
    }
}
