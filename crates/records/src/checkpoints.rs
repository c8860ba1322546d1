//! What was there before each change, kept so that the change can be undone.
//!
//! A call that changes files has one checkpoint: for each path, what was there before and what the
//! call left. It is on record before the first change, so a change that cannot be kept does not
//! happen. The contents lie in a store that names them by their hash (`contents`), the rest in a
//! database of its own beside the ledger's (`index`), which works without the ledger too. Both are in
//! the state directory, where no tool and no command comes.
//!
//! A restore is worked out here (`plan`) and done elsewhere: by ordinary changes that pass
//! containment, rules and a checkpoint of their own. Nothing in this module changes a file of anybody.
//!
//! Deliberately absent: what commands change, owners, extended attributes and times.

mod collect;
mod content;
mod contents;
mod draft;
mod error;
mod index;
mod path_state;
mod plan;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use sinew_tool::sync::lock;
use sinew_tool::{FileKind, FileState};

use crate::database::{self, PATIENT, at_once};
use crate::ledger::LedgerSync;
pub use collect::Collected;
use collect::Collector;
pub use content::Content;
use contents::Contents;
pub use contents::Held;
pub use draft::{Before, CheckpointDraft};
pub use error::CheckpointError;
pub use path_state::PathState;
pub use plan::{Act, Changer, Conflict, History, Plan, PlannedStep, Scope};
use sinew_fs::process_identity::ProcessIdentity;
use sinew_fs::state::StateDir;

/// How long a change waits in place for those who collect.
pub const QUICK: Duration = Duration::from_millis(20);
/// How long a thread sleeps that waits for another of its process, which writes for about as long.
const SHORT: Duration = Duration::from_micros(50);
/// After this many checkpoints of this process the log of the database is looked at.
const N_LOGGED: u64 = 200;

/// What is kept, and for how long.
#[derive(Debug, Clone)]
pub struct CheckpointSettings {
    /// The most bytes that all contents take, as they are stored. An eighth more may be there until
    /// the next collection.
    pub max_bytes: u64,
    /// How old a checkpoint becomes.
    pub max_age: Duration,
    /// The most checkpoints.
    pub max_count: u64,
    /// The largest file whose content is kept.
    pub max_file_bytes: u64,
    /// What becomes of a change to a larger file.
    pub larger: Larger,
    /// How much a checkpoint survives.
    pub sync: LedgerSync,
}

impl Default for CheckpointSettings {
    fn default() -> Self {
        Self {
            max_bytes: 1024 * 1024 * 1024,
            max_age: Duration::from_secs(30 * 24 * 60 * 60),
            max_count: 10_000,
            max_file_bytes: 256 * 1024 * 1024,
            larger: Larger::Refuse,
            sync: LedgerSync::Normal,
        }
    }
}

/// What becomes of a change to a file that is too large to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Larger {
    /// It is refused.
    Refuse,
    /// It happens and cannot be undone. The checkpoint says so.
    Unkept,
}

/// Names a checkpoint: `c` and its number, which is not given out again. A later checkpoint of one
/// state directory has a higher number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointId(i64);

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}", self.0)
    }
}

/// The text is no id of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the id of a checkpoint is `c` and a number, as in `c12`")]
pub struct NoCheckpointId;

impl FromStr for CheckpointId {
    type Err = NoCheckpointId;

    fn from_str(text: &str) -> Result<Self, NoCheckpointId> {
        let number = text.strip_prefix('c').and_then(|digits| digits.parse().ok());
        let id = number.map(Self).filter(|id| 0 < id.0);
        // What a number may also be written like is no id: one checkpoint has one.
        id.filter(|id| id.to_string() == text).ok_or(NoCheckpointId)
    }
}

/// The call that a checkpoint belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallContext {
    /// Its session.
    pub session: String,
    /// The agent that makes it, where there are several.
    pub agent: Option<String>,
    /// The turn of the conversation, where the caller names one.
    pub turn: Option<String>,
    /// The call.
    pub call_id: String,
    /// The dialect whose name was used.
    pub dialect: String,
    /// The wire name of the tool.
    pub tool: String,
    /// The roots that the call was contained in.
    pub roots: Vec<PathBuf>,
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The checkpoints.
    pub n_checkpoints: u64,
    /// The bytes that their contents take.
    pub n_bytes: u64,
}

/// Which checkpoints are listed.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// Those of this session, or of all.
    pub session: Option<&'a str>,
    /// Those of this turn, or of all.
    pub turn: Option<&'a str>,
    /// This one alone, or all.
    pub id: Option<CheckpointId>,
    /// Those before this one, or all: where the last list ended.
    pub before: Option<CheckpointId>,
    /// How many, the newest first.
    pub limit: usize,
}

/// A checkpoint in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub id: CheckpointId,
    /// When it was made, in milliseconds since 1970.
    pub at_ms: u64,
    /// The call that it belongs to.
    pub mark: CallContext,
    /// How many paths it has.
    pub n_paths: u64,
}

/// What a call did to one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The real path.
    pub path: PathBuf,
    /// Whether the change is known to have happened. Where it is not, the call is under way, or its
    /// process died; the disk tells.
    pub settled: bool,
    /// What was there before.
    pub before: PathState,
    /// What the call left, or was to leave; `None` where nobody said.
    pub after: Option<PathState>,
}

/// The checkpoints of a state directory, for one process.
#[derive(Debug)]
pub struct Checkpoints {
    shared: Arc<SharedCheckpoints>,
}

#[derive(Debug)]
struct SharedCheckpoints {
    path: PathBuf,
    contents: Contents,
    settings: CheckpointSettings,
    own: OnceLock<ProcessIdentity>,
    database: Mutex<Option<OpenIndex>>,
    /// What became of changes, where it could not be written yet.
    settled: Mutex<Vec<Settlement>>,
    /// Whether somebody has to look after the store, and the thread that does.
    due: AtomicBool,
    n_recorded: AtomicU64,
    /// Bytes that this process added to the store, and those that no record counted.
    n_kept: AtomicU64,
    n_uncounted: AtomicU64,
    helper: Mutex<Option<JoinHandle<()>>>,
    /// Since when the process ends.
    ends: Arc<OnceLock<Instant>>,
}

#[derive(Debug)]
struct OpenIndex {
    connection: Connection,
    /// The number of this process in the database.
    process: Option<i64>,
}

/// What became of a change: what it left, or nothing where it did not happen.
#[derive(Debug)]
struct Settlement {
    id: CheckpointId,
    path: PathBuf,
    after: Option<PathState>,
}

impl Checkpoints {
    /// Returns the checkpoints of a state directory. Nothing is opened or started yet.
    pub fn new(state: &StateDir, settings: CheckpointSettings) -> Self {
        Self::at(state.path(), settings)
    }

    /// Returns the checkpoints of a state directory that is made when the first is needed.
    pub fn at(state: &Path, settings: CheckpointSettings) -> Self {
        let contents = Contents::new(StateDir::contents_at(state), settings.sync);
        Self {
            shared: Arc::new(SharedCheckpoints {
                path: StateDir::checkpoints_at(state),
                contents,
                settings,
                own: OnceLock::new(),
                database: Mutex::new(None),
                settled: Mutex::default(),
                due: AtomicBool::new(false),
                n_recorded: AtomicU64::new(0),
                n_kept: AtomicU64::new(0),
                n_uncounted: AtomicU64::new(0),
                helper: Mutex::new(None),
                ends: Arc::default(),
            }),
        }
    }

    /// Returns whether what is at a path can be kept.
    pub fn keeps(&self, state: &FileState) -> bool {
        match state {
            FileState::Found(meta) if meta.kind == FileKind::File => {
                meta.size() <= self.shared.settings.max_file_bytes
            }
            FileState::Found(_) | FileState::Missing => true,
        }
    }

    /// Returns whether this process kept so little that nothing of it is pushed out soon: less than
    /// half of what may be kept. Beyond that a change cannot be relied on to be undone later.
    pub fn has_room(&self) -> bool {
        let SharedCheckpoints { settings, n_recorded, n_kept, .. } = &*self.shared;
        n_recorded.load(Ordering::Relaxed) < settings.max_count / 2
            && n_kept.load(Ordering::Relaxed) < settings.max_bytes / 2
    }

    /// Begins the checkpoint of a call. Nothing is written before something is kept.
    pub fn begin(&self, mark: CallContext) -> CheckpointDraft {
        CheckpointDraft::new(Arc::clone(&self.shared), mark)
    }

    /// Lists checkpoints, the newest first.
    pub fn list(&self, query: &Query<'_>) -> Result<Vec<Listed>, CheckpointError> {
        self.shared.read(|connection| Ok(index::list(connection, query)?))
    }

    /// Returns the first checkpoint of the turn that one belongs to.
    pub fn first_of_turn(&self, id: CheckpointId) -> Result<CheckpointId, CheckpointError> {
        let found = self.shared.read(|connection| Ok(index::first_of_turn(connection, id)?))?;
        found.ok_or(CheckpointError::NoTurn(id))
    }

    /// Returns what the call of a checkpoint did, by path.
    pub fn entries(&self, id: CheckpointId) -> Result<Vec<Entry>, CheckpointError> {
        let entries = self.shared.read(|connection| Ok(index::entries(connection, id)?))?;
        if entries.is_empty() { Err(CheckpointError::Unknown(id)) } else { Ok(entries) }
    }

    /// Opens the kept content of a path: what `state`, the state before a change, says of it.
    pub fn content(&self, path: &Path, state: &PathState) -> Result<Content, CheckpointError> {
        self.shared.contents.open(path, state)
    }

    /// Returns what happened since a checkpoint, from which the plan of a restore is made.
    pub fn history(&self, id: CheckpointId, scope: Scope) -> Result<History, CheckpointError> {
        self.shared.read(|connection| {
            let session = index::session_of(connection, id)?;
            let mut history = History::new(id, session.ok_or(CheckpointError::Unknown(id))?);
            index::changes_since(connection, id, |change| history.add(change, scope))?;
            Ok(history)
        })
    }

    /// Keeps every content where it is as long as the answer lives, for a restore that reads them one
    /// after the other.
    pub fn hold(&self) -> Result<Held, CheckpointError> {
        self.shared.contents.hold(PATIENT)
    }

    /// Forgets what is too old, too much or too many, now. Otherwise that happens beside the calls, at
    /// most once an hour or after an eighth of what may be kept.
    pub fn collect(&self) -> Result<Collected, CheckpointError> {
        self.shared.flush(PATIENT)?;
        self.shared.collector().collect()
    }

    /// Reads the whole index and returns how much is kept, for `doctor`.
    pub fn usage(&self) -> Result<Usage, CheckpointError> {
        let n_checkpoints = self.shared.read(|connection| {
            match database::broken_pages(connection)? {
                None => Ok(index::total(connection)?),
                Some(problem) => Err(CheckpointError::Unusable(format!(
                    "pages of `checkpoints.db` are broken: {problem}; to undo nothing earlier and begin \
                     anew, move it away with `contents` beside it"
                ))),
            }
        })?;
        let n_bytes = self.shared.contents.list()?.iter().map(|found| found.n_bytes).sum();
        Ok(Usage { n_checkpoints, n_bytes })
    }
}

/// Makes the state directory of a path in it, where it is missing.
fn make_state(path: &Path) -> Result<(), CheckpointError> {
    let state = StateDir::open(path.parent().unwrap_or(path));
    state.map(drop).map_err(|error| CheckpointError::Unusable(error.to_string()))
}

impl SharedCheckpoints {
    /// Waits so long for the other threads of this process.
    fn database(
        &self,
        patience: Duration,
    ) -> Result<MutexGuard<'_, Option<OpenIndex>>, CheckpointError> {
        let due = Instant::now() + patience;
        loop {
            match self.database.try_lock() {
                Ok(database) => return Ok(database),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() < due => {
                    std::thread::sleep(SHORT);
                }
                Err(TryLockError::WouldBlock) => return Err(CheckpointError::Busy),
            }
        }
    }

    /// Returns the open connection, opening it where it is not. It waits so long for others.
    fn connection<'a>(
        &self,
        database: &'a mut Option<OpenIndex>,
        patience: Duration,
    ) -> Result<&'a mut OpenIndex, CheckpointError> {
        let open = match database.take() {
            Some(open) => open,
            None => {
                let sync = self.settings.sync;
                make_state(&self.path)?;
                let connection = database::open(&self.path, &index::TABLES, sync, patience)?;
                OpenIndex { connection, process: None }
            }
        };
        open.connection.busy_timeout(patience)?;
        Ok(database.insert(open))
    }

    /// Writes the new entries of a checkpoint, and what waits.
    fn record<'a>(
        &self,
        mark: &CallContext,
        id: Option<CheckpointId>,
        mut entries: impl Iterator<Item = (&'a Path, &'a PathState, Option<&'a PathState>)>,
        n_new: u64,
        patience: Duration,
    ) -> Result<CheckpointId, CheckpointError> {
        let own = self.own.get_or_init(ProcessIdentity::own);
        let n_waiting = self.n_uncounted.load(Ordering::Relaxed);
        let n_counted = n_new.saturating_add(n_waiting);
        let (id, since) = self.write(patience, |transaction, process| {
            let process = match process {
                Some(process) => *process,
                None => *process.insert(index::enter(transaction, own)?),
            };
            let id = match id {
                Some(id) => id,
                None => index::insert(transaction, process, mark)?,
            };
            entries.try_for_each(|(path, before, after)| {
                index::insert_entry(transaction, id, path, before, after)
            })?;
            Ok((id, index::count(transaction, n_counted)?))
        })?;
        let n_recorded = 1 + self.n_recorded.fetch_add(1, Ordering::Relaxed);
        self.n_kept.fetch_add(n_new, Ordering::Relaxed);
        self.n_uncounted.fetch_sub(n_waiting, Ordering::Relaxed);
        if n_recorded.is_multiple_of(N_LOGGED) || self.collector().is_due(since) {
            self.due.store(true, Ordering::Relaxed);
        }
        Ok(id)
    }

    /// Takes down bytes that were kept for a change that did not happen. Where they are a part of what
    /// may be kept, they are collected now.
    fn uncounted(&self, n_bytes: u64) {
        if n_bytes == 0 {
            return;
        }
        self.n_kept.fetch_add(n_bytes, Ordering::Relaxed);
        let n_waiting = n_bytes + self.n_uncounted.fetch_add(n_bytes, Ordering::Relaxed);
        if !self.collector().is_much(n_waiting) {
            return;
        }
        let counted = self.write(QUICK, |transaction, _| Ok(index::count(transaction, n_waiting)?));
        if counted.is_ok() {
            self.n_uncounted.fetch_sub(n_waiting, Ordering::Relaxed);
            self.tend();
        }
    }

    /// Writes what became of changes, at once if nobody else is writing, and else with the next
    /// checkpoint; then lets somebody look after the store if that is due.
    fn settle(&self, settled: Vec<Settlement>) {
        lock(&self.settled).extend(settled);
        let _ = self.flush(Duration::ZERO);
        if self.due.swap(false, Ordering::Relaxed) {
            self.tend();
        }
    }

    /// Writes what waits.
    fn flush(&self, patience: Duration) -> Result<(), CheckpointError> {
        if lock(&self.settled).is_empty() {
            return Ok(());
        }
        self.write(patience, |_, _| Ok(()))
    }

    /// Writes what waits and does work, in one transaction. `work` also gets the number of this
    /// process in the database.
    fn write<T>(
        &self,
        patience: Duration,
        work: impl FnOnce(&Connection, &mut Option<i64>) -> Result<T, CheckpointError>,
    ) -> Result<T, CheckpointError> {
        let mut database = self.database(patience)?;
        let open = self.connection(&mut database, patience)?;
        let settled = std::mem::take(&mut *lock(&self.settled));
        let mut process = open.process;
        let done = at_once(&open.connection, |transaction| {
            settled.iter().try_for_each(|Settlement { id, path, after }| match after {
                Some(after) => index::settle(transaction, *id, path, after),
                None => index::withdraw(transaction, *id, path),
            })?;
            work(transaction, &mut process)
        });
        match done {
            Ok(done) => {
                open.process = process;
                Ok(done)
            }
            Err(error) => {
                let mut waiting = lock(&self.settled);
                let later = std::mem::replace(&mut *waiting, settled);
                waiting.extend(later);
                // Whatever else is wrong may pass: the next one opens the database again.
                if !matches!(error, CheckpointError::Busy) {
                    *database = None;
                }
                Err(error)
            }
        }
    }

    /// Reads the index as it is with everything that waits.
    fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, CheckpointError>,
    ) -> Result<T, CheckpointError> {
        self.flush(PATIENT)?;
        let mut database = self.database(PATIENT)?;
        let open = self.connection(&mut database, PATIENT)?;
        work(&open.connection)
    }

    fn collector(&self) -> Collector {
        Collector {
            database: self.path.clone(),
            contents: self.contents.clone(),
            settings: self.settings.clone(),
            ends: Arc::clone(&self.ends),
        }
    }

    /// Starts the thread that looks after the store, unless it runs.
    fn tend(&self) {
        let mut helper = lock(&self.helper);
        if helper.as_ref().is_none_or(JoinHandle::is_finished) {
            let collector = self.collector();
            *helper = std::thread::Builder::new()
                .name(String::from("checkpoints"))
                .spawn(move || collector.tend())
                .ok();
        }
    }
}

impl Drop for SharedCheckpoints {
    fn drop(&mut self) {
        self.ends.get_or_init(Instant::now);
        let _ = self.flush(PATIENT);
        let helper = self.helper.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(helper) = helper {
            let _ = helper.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_spelling() {
        let check = |text: &str, expected: Option<i64>| {
            let id = text.parse::<CheckpointId>().ok();
            assert_eq!(id, expected.map(CheckpointId), "{text:?}");
        };
        for number in [1, 12, i64::MAX] {
            check(&CheckpointId(number).to_string(), Some(number));
        }
        for text in
            ["", "c", "12", "c0", "c-1", "c+1", "c01", "c 1", "c1 ", "C1", "c9223372036854775808"]
        {
            check(text, None);
        }
    }
}
