//! Checkpoints: snapshots of files before each change, so that a change can be undone.
//!
//! A call has one checkpoint: the state of each path before and after. It is recorded before the first
//! change, so a change without a checkpoint does not happen. The `contents` store names contents by hash; the
//! `index` is a database of its own and needs no ledger. Both lie in the state directory, out of reach of
//! tools and commands.
//!
//! A [`Plan`] of a restore changes no file. Ordinary changes carry it out, with containment, rules and a
//! checkpoint of their own.
//!
//! A command has a checkpoint too, made from its [undo log](sinew_fs::undo_log) once it has ended.
//!
//! Deliberately absent: owners, extended attributes and times.

mod collect;
mod commands;
mod content;
mod contents;
mod draft;
mod error;
mod held_usage;
mod index;
mod path_state;
mod plan;
mod reader;
mod undo_history;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use sinew_tool::sync::lock;
use sinew_tool::{Caller, FileKind, FileState};

use crate::database::{self, PATIENT, at_once};
use crate::ledger::LedgerSync;
pub use collect::Collected;
use collect::Collector;
pub use commands::{CommandCall, CommandDraft};
pub use content::Content;
use contents::Contents;
pub use contents::Held;
pub use draft::{Before, CheckpointDraft};
pub use error::CheckpointError;
use held_usage::HeldUsage;
pub use path_state::PathState;
pub use plan::{Act, Changer, Conflict, History, Plan, PlannedStep, Scope};
pub use reader::CheckpointReader;
use sinew_fs::process_identity::ProcessIdentity;
use sinew_fs::state::StateDir;
pub use undo_history::UndoHistory;

/// How long a change waits in place for a collection.
pub const QUICK: Duration = Duration::from_millis(20);
/// The sleep of a thread that waits for another one's write, which takes about as long.
const SHORT: Duration = Duration::from_micros(50);
/// This process checks the length of the write-ahead log after so many checkpoints.
const N_LOGGED: u64 = 200;

/// The limits and the durability of checkpoints.
#[derive(Debug, Clone)]
pub struct CheckpointSettings {
    /// The limit of all stored contents in bytes; an eighth more may exist until the next collection.
    pub max_bytes: u64,
    /// The maximum age of a checkpoint.
    pub max_age: Duration,
    /// The most checkpoints.
    pub max_count: u64,
    /// The largest file whose content is kept.
    pub max_file_bytes: u64,
    /// Whether changes of larger files are refused.
    pub larger: Larger,
    /// Which crashes a checkpoint survives.
    pub sync: LedgerSync,
    /// Whether commands have checkpoints too.
    pub commands: bool,
    /// How long the checkpoints of a process that runs stay beyond `max_bytes` and `max_count`: else a session could push out
    /// the undo of its own changes by many more.
    pub holds_for: Duration,
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
            commands: true,
            holds_for: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// What happens to a change of a file that is too large to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Larger {
    /// It is refused.
    Refuse,
    /// It happens and cannot be undone; the checkpoint says so.
    Unkept,
}

/// The ID of a checkpoint: `c` and a number that grows and is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointId(i64);

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}", self.0)
    }
}

/// The text is not a checkpoint ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the id of a checkpoint is `c` and a number, as in `c12`")]
pub struct NoCheckpointId;

impl FromStr for CheckpointId {
    type Err = NoCheckpointId;

    fn from_str(text: &str) -> Result<Self, NoCheckpointId> {
        let number = text.strip_prefix('c').and_then(|digits| digits.parse().ok());
        let id = number.map(Self).filter(|id| 0 < id.0);
        // Rejects other spellings of the number: one checkpoint has one ID.
        id.filter(|id| id.to_string() == text).ok_or(NoCheckpointId)
    }
}

/// The call that a checkpoint belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallContext {
    /// Its session.
    pub session: String,
    /// The agent, if the session has several.
    pub agent: Option<String>,
    /// The turn of the conversation, if the caller names one.
    pub turn: Option<String>,
    /// The call.
    pub call_id: String,
    /// The dialect whose name was used.
    pub dialect: String,
    /// The wire name of the tool.
    pub tool: String,
    /// The roots that the call was contained in.
    pub roots: Vec<PathBuf>,
    /// The checkpoint that the call undoes, with all later ones of the session.
    pub restores: Option<CheckpointId>,
}

impl CallContext {
    /// Returns the context of a call by a caller in these roots.
    pub fn of(caller: &Caller, roots: Vec<PathBuf>, restores: Option<CheckpointId>) -> Self {
        Self {
            session: caller.session.clone(),
            agent: caller.agent.clone(),
            turn: caller.turn.clone(),
            call_id: caller.call_id.clone(),
            dialect: caller.dialect.clone().into_owned(),
            tool: caller.tool.clone(),
            roots,
            restores,
        }
    }
}

/// The number of checkpoints and the size of their contents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The checkpoints.
    pub n_checkpoints: u64,
    /// The bytes of their contents.
    pub n_bytes: u64,
}

/// Selects checkpoints for a list.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// Only this session.
    pub session: Option<&'a str>,
    /// Only this turn.
    pub turn: Option<&'a str>,
    /// Only this one.
    pub id: Option<CheckpointId>,
    /// Only those before this one, to continue a list.
    pub before: Option<CheckpointId>,
    /// The limit, the newest first.
    pub limit: usize,
}

/// A checkpoint in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub id: CheckpointId,
    /// The creation time in milliseconds since 1970.
    pub at_ms: u64,
    /// The call of the checkpoint.
    pub mark: CallContext,
    /// How many paths it has.
    pub n_paths: u64,
    /// Whether it restores the state before a restore.
    pub is_redo: bool,
}

/// The change of one path by a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The real path.
    pub path: PathBuf,
    /// Whether the change certainly happened. Else the call runs or its process died; the disk decides.
    pub settled: bool,
    /// The state before.
    pub before: PathState,
    /// The state after, or the planned one; `None` if unknown.
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
    /// Results of changes that are not written yet.
    settled: Mutex<Vec<Settlement>>,
    /// Whether maintenance is due, which the thread `helper` does.
    due: AtomicBool,
    n_recorded: AtomicU64,
    /// The checkpoints that this process holds against collections.
    held: Mutex<HeldUsage>,
    /// Bytes that this process added to the store and that are not counted in the index yet.
    n_uncounted: AtomicU64,
    helper: Mutex<Option<JoinHandle<()>>>,
    /// Set when this process ends.
    ends: Arc<OnceLock<Instant>>,
    /// Set once checkpoints of commands whose processes died are made.
    has_recovered: OnceLock<()>,
    /// The threads that make checkpoints of commands that have ended.
    under_way: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct OpenIndex {
    connection: Connection,
    /// The ID of this process in the database.
    process: Option<i64>,
}

/// The result of a change: the state after it, or `None` if it did not happen.
#[derive(Debug)]
struct Settlement {
    id: CheckpointId,
    path: PathBuf,
    after: Option<PathState>,
}

impl Checkpoints {
    /// Returns the checkpoints of a state directory. Opens and starts nothing yet.
    pub fn new(state: &StateDir, settings: CheckpointSettings) -> Self {
        Self::at(state.path(), settings)
    }

    /// Returns the checkpoints of a state directory, created when first needed.
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
                held: Mutex::default(),
                n_uncounted: AtomicU64::new(0),
                helper: Mutex::new(None),
                ends: Arc::default(),
                has_recovered: OnceLock::new(),
                under_way: Mutex::default(),
            }),
        }
    }

    /// Returns whether a state can be kept.
    pub fn keeps(&self, state: &FileState) -> bool {
        match state {
            FileState::Found(meta) if meta.kind == FileKind::File => {
                meta.size() <= self.shared.settings.max_file_bytes
            }
            FileState::Found(_) | FileState::Missing => true,
        }
    }

    /// Returns whether this process kept less than half of the limits. Beyond that, a collection may remove
    /// the checkpoint before an undo.
    pub fn has_room(&self) -> bool {
        let settings = &self.shared.settings;
        let held = lock(&self.shared.held).sum(settings.holds_for);
        held.n_checkpoints < settings.max_count / 2 && held.n_bytes < settings.max_bytes / 2
    }

    /// Begins the checkpoint of a call; writes nothing yet.
    pub fn begin(&self, mark: CallContext) -> CheckpointDraft {
        self.shared.wait_for_commands();
        self.shared.recover_once();
        CheckpointDraft::new(Arc::clone(&self.shared), mark)
    }

    /// Makes the checkpoints of commands that have ended, also of those whose processes died.
    pub fn catch_up(&self) {
        self.shared.wait_for_commands();
        self.shared.recover_commands();
    }

    /// Catches up, and lists checkpoints, the newest first.
    pub fn list(&self, query: &Query<'_>) -> Result<Vec<Listed>, CheckpointError> {
        self.catch_up();
        self.shared.read(|connection| Ok(index::list(connection, query)?))
    }

    /// Returns the row of one checkpoint.
    pub fn listed(&self, id: CheckpointId) -> Result<Listed, CheckpointError> {
        let query = Query { session: None, turn: None, id: Some(id), before: None, limit: 1 };
        let mut found = self.shared.read(|connection| Ok(index::list(connection, &query)?))?;
        found.pop().ok_or(CheckpointError::Unknown(id))
    }

    /// Returns the first checkpoint of the turn of this one.
    pub fn first_of_turn(&self, id: CheckpointId) -> Result<CheckpointId, CheckpointError> {
        let found = self.shared.read(|connection| Ok(index::first_of_turn(connection, id)?))?;
        found.ok_or(CheckpointError::NoTurn(id))
    }

    /// Returns the changes of a checkpoint's call, by path.
    pub fn entries(&self, id: CheckpointId) -> Result<Vec<Entry>, CheckpointError> {
        // That of a command has them when its thread ends.
        self.shared.wait_for_commands();
        let entries = self.shared.read(|connection| Ok(index::entries(connection, id)?))?;
        if entries.is_empty() { Err(CheckpointError::Unknown(id)) } else { Ok(entries) }
    }

    /// Opens the kept content of a path for `state`, its state before a change.
    pub fn content(&self, path: &Path, state: &PathState) -> Result<Content, CheckpointError> {
        self.shared.contents.open(path, state)
    }

    /// Returns the changes since a checkpoint, for the plan of a restore; [`catch_up`](Self::catch_up) comes first.
    pub fn history(&self, id: CheckpointId, scope: Scope) -> Result<History, CheckpointError> {
        self.shared.read(|connection| {
            let session = index::session_of(connection, id)?;
            let mut history = History::new(id, session.ok_or(CheckpointError::Unknown(id))?);
            index::changes_since(connection, id, |change| history.add(change, scope))?;
            Ok(history)
        })
    }

    /// Blocks collections until the result is dropped, for a restore that reads several contents.
    pub fn hold(&self) -> Result<Held, CheckpointError> {
        self.shared.contents.hold(PATIENT)
    }

    /// Removes checkpoints beyond the limits now. Otherwise a thread does it: at most hourly, or after an
    /// eighth of the byte limit.
    pub fn collect(&self) -> Result<Collected, CheckpointError> {
        self.shared.flush(PATIENT)?;
        self.shared.collector().collect()
    }

    /// Reads the whole index and returns number and size of the checkpoints, for `doctor`.
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

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.shared.wait_for_commands();
    }
}

/// Creates the state directory of a path if missing.
fn make_state(path: &Path) -> Result<(), CheckpointError> {
    let state = StateDir::open(path.parent().unwrap_or(path));
    state.map(drop).map_err(|error| CheckpointError::Unusable(error.to_string()))
}

impl SharedCheckpoints {
    /// Locks the connection; waits up to `patience` for other threads of this process.
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

    /// Returns the connection, opening it if needed; waits up to `patience` for other processes.
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

    /// Writes the new entries of a checkpoint, and all waiting results.
    fn record<'a>(
        &self,
        mark: &CallContext,
        id: Option<CheckpointId>,
        mut entries: impl Iterator<Item = (&'a Path, &'a PathState, Option<&'a PathState>)>,
        (n_new, are_settled): (u64, bool),
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
                index::insert_entry(transaction, id, path, before, after, are_settled)
            })?;
            Ok((id, index::count(transaction, n_counted)?))
        })?;
        let n_recorded = 1 + self.n_recorded.fetch_add(1, Ordering::Relaxed);
        lock(&self.held).add(Usage { n_checkpoints: 1, n_bytes: n_new });
        self.n_uncounted.fetch_sub(n_waiting, Ordering::Relaxed);
        if n_recorded.is_multiple_of(N_LOGGED) || self.collector().is_due(since) {
            self.due.store(true, Ordering::Relaxed);
        }
        Ok(id)
    }

    /// Counts bytes that were kept for a change that did not happen, and collects them if they are many.
    fn uncounted(&self, n_bytes: u64) {
        if n_bytes == 0 {
            return;
        }
        lock(&self.held).add(Usage { n_checkpoints: 0, n_bytes });
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

    /// Writes results of changes now or, if another writer is active, later. Starts maintenance if due.
    fn settle(&self, settled: Vec<Settlement>) {
        lock(&self.settled).extend(settled);
        let _ = self.flush(Duration::ZERO);
        if self.due.swap(false, Ordering::Relaxed) {
            self.tend();
        }
    }

    /// Writes the waiting results.
    fn flush(&self, patience: Duration) -> Result<(), CheckpointError> {
        if lock(&self.settled).is_empty() {
            return Ok(());
        }
        self.write(patience, |_, _| Ok(()))
    }

    /// Writes waiting results and runs `work` in one transaction. `work` gets the ID of this process too.
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
                // Other errors may pass: the next attempt reopens the database.
                if !matches!(error, CheckpointError::Busy) {
                    *database = None;
                }
                Err(error)
            }
        }
    }

    /// Reads the index, after all waiting results are written.
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

    /// Starts the maintenance thread unless it runs.
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
