//! The ledger in SQLite: an audit log in one hash chain, which reveals each removed record.
//!
//! Each process has one appender: a queue, and one connection for the helper thread and changes. Records of
//! reads are written in batches, at most 50 ms or 256 records late. The intent of a change is committed to
//! the write-ahead log before the change, with all waiting records. The first write opens the database, not
//! the start.
//!
//! Another process may hold the database for seconds, but a change must not block the thread that reads
//! requests. So it tries briefly and then waits as a future for the helper thread. The intent still precedes
//! the change.
//!
//! A record gets its number and hash in the transaction that writes it, so all processes share one chain. The
//! writer first compares the head file, and records the loss if it names missing records.
//!
//! In an idle server the helper thread sometimes reads the whole database (`check`). It keeps a damaged one
//! aside, and the next reply reports it. The next opener removes temporary files of dead processes.

mod append;
mod audit;
mod batches;
mod check;
mod head;
mod key;
mod known;
mod leftovers;
mod opening;
mod reading;
mod record;
mod retention;
mod row;
mod scan;
mod verify;
mod waiting;
mod whole_check;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use sinew_tool::sync::lock;
use sinew_tool::{BoxFuture, Closing, Event, Kind, Ledger, Ticket, ToolError};

use crate::database::{Failed, PATIENT, at_once};
use crate::redact::Redactor;
use batches::{Pending, Queue};
use opening::{FileId, OpenLedger, Opener};
use row::{Row, Who};
use sinew_fs::process_identity::{ProcessIdentity, os_user};
use sinew_fs::state::StateDir;

pub use crate::database::LedgerSync;
pub use audit::{Audit, AuditError, SessionsAndCalls, Wanted, key_of};
pub use key::Key;
pub use known::KnownFrom;
pub(crate) use known::{Known, KnownRow, Records};
pub(crate) use reading::{Reading, open_file};
pub use record::{Field, Fields, Link as ChainLink, Record};
pub use retention::Retention;
pub use verify::{Finding, Unfinished, Verified, Walk};

/// The most records that wait while the database cannot be written.
const MAX_KEPT: usize = 65_536;
/// How long a change waits in place while another process writes.
const QUICK: Duration = Duration::from_millis(20);
/// The handling of calls while no record can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// Changes are refused. Reads go on while their records can wait.
    Refuse,
    /// Calls run, and lost records are counted.
    Continue,
}

/// The settings of a ledger.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The surface that takes the calls: `call`, `mcp` …
    pub surface: &'static str,
    /// Which crashes a committed intent survives.
    pub sync: LedgerSync,
    /// The handling of calls while no record can be written.
    pub on_failure: OnFailure,
    /// How long records are kept.
    pub retention: Retention,
    /// Removes secrets from records.
    pub redactor: Redactor,
}

impl Recorded {
    /// Returns the default settings of a surface.
    pub fn by(surface: &'static str) -> Self {
        Self {
            surface,
            sync: LedgerSync::Normal,
            on_failure: OnFailure::Refuse,
            retention: Retention::default(),
            redactor: Redactor::default(),
        }
    }
}

impl From<Failed> for ToolError {
    fn from(failed: Failed) -> Self {
        let message = if failed.busy {
            "another process holds the audit log, so this call cannot be recorded and does not run"
        } else {
            "the audit log cannot record this call, so it does not run"
        };
        Self::new(Kind::Unavailable, message)
            .hint(
                "run `sinew doctor`; `ledger.on_failure = \"continue\"` runs calls all the same, and \
                 `ledger.mode = \"off\"` runs without records",
            )
            .source(failed.problem)
    }
}

/// The ledger of one process over one database.
pub struct SqliteLedger {
    shared: Arc<SharedLedger>,
    helper: Mutex<Option<JoinHandle<()>>>,
}

struct SharedLedger {
    state: PathBuf,
    recorded: Recorded,
    client: Mutex<Option<String>>,
    who: OnceLock<Who>,
    queue: Mutex<Queue>,
    wake: Condvar,
    database: Mutex<Database>,
    /// The written intents, by database file and record number.
    intents: Mutex<HashMap<Ticket, (FileId, i64)>>,
    /// A damaged database file, and its damage.
    damaged: Mutex<Option<(FileId, String)>>,
    loss: Mutex<Loss>,
    /// Why the last write failed, if it did.
    problem: Mutex<Option<String>>,
    next_ticket: AtomicU64,
    /// The number of openings of the database.
    n_openings: AtomicU64,
    on_failure: OnceLock<Tell>,
    on_notice: OnceLock<Tell>,
    /// Notices for the next reply.
    news: Mutex<Vec<String>>,
    /// The last reported record that does not match its hash.
    misfit: Mutex<Option<Finding>>,
    /// The progress of a whole check that a call interrupted.
    checked: Mutex<Option<(FileId, whole_check::Progress)>>,
}

/// A callback for notices about the ledger.
type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// Losses while no record could be written.
#[derive(Debug, Default, Clone, Copy)]
struct Loss {
    /// The dropped records.
    n_lost: u64,
    /// The changes that happened before their intent was written.
    n_late: u64,
}

enum Database {
    Closed,
    Open(Box<OpenLedger>),
}

impl SqliteLedger {
    /// Returns the rows about callers' knowledge of files.
    pub(crate) fn records(&self) -> Records {
        Records::new(Arc::clone(&self.shared))
    }

    /// Returns the ledger of a state directory. Opens and starts nothing yet.
    pub fn new(state: &StateDir, recorded: Recorded) -> Self {
        Self {
            shared: Arc::new(SharedLedger {
                state: state.path().to_owned(),
                recorded,
                client: Mutex::new(None),
                who: OnceLock::new(),
                queue: Mutex::default(),
                wake: Condvar::new(),
                database: Mutex::new(Database::Closed),
                intents: Mutex::default(),
                damaged: Mutex::new(None),
                loss: Mutex::default(),
                problem: Mutex::new(None),
                next_ticket: AtomicU64::new(1),
                n_openings: AtomicU64::new(0),
                on_failure: OnceLock::new(),
                on_notice: OnceLock::new(),
                news: Mutex::default(),
                misfit: Mutex::default(),
                checked: Mutex::default(),
            }),
            helper: Mutex::new(None),
        }
    }

    /// Sets the client for later records, by its own name. A process with a client is a server, and reads the
    /// whole database once it idles.
    pub fn set_client(&self, client: String) {
        *lock(&self.shared.client) = Some(client);
        self.start_helper();
    }

    /// Sets the callback for the first failed write; a success rearms it.
    pub fn on_failure(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.shared.on_failure.set(Box::new(tell));
    }

    /// Sets the callback for notices to the user, such as a damaged database kept aside.
    pub fn on_notice(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.shared.on_notice.set(Box::new(tell));
    }

    /// Returns the names of damaged databases in the state directory.
    pub fn kept_aside(&self) -> Vec<String> {
        opening::kept_aside(&self.shared.state)
    }

    /// Opens the database and commits a change without effect, for `doctor`.
    pub fn probe(&self) -> Result<(), ToolError> {
        let mut database = lock(&self.shared.database);
        let probed = self.shared.connection(&mut database, PATIENT).and_then(|open| {
            at_once(&open.connection, |connection| {
                let process = self.shared.who().enter(connection, None)?;
                connection.execute("DELETE FROM process WHERE process = ?1", [process.number])?;
                Ok::<_, Failed>(())
            })
        });
        probed.inspect_err(|failed| self.shared.note(failed)).map_err(ToolError::from)
    }

    fn add(&self, row: Row) {
        let due = self.shared.push(row);
        self.start_helper();
        if due {
            self.shared.wake.notify_one();
        }
    }

    /// Starts the helper thread unless it runs; returns whether it runs.
    fn start_helper(&self) -> bool {
        let mut helper = lock(&self.helper);
        if helper.is_none() {
            let shared = Arc::clone(&self.shared);
            *helper = std::thread::Builder::new()
                .name(String::from("ledger"))
                .spawn(move || shared.write_batches())
                .ok();
        }
        helper.is_some()
    }
}

impl SharedLedger {
    /// Returns the open database; opens it if needed or replaced. Waits up to `patience` for other processes.
    fn connection<'a>(
        &self,
        database: &'a mut Database,
        patience: Duration,
    ) -> Result<&'a mut OpenLedger, Failed> {
        if !matches!(database, Database::Open(open) if self.is_there(open)) {
            *database = Database::Closed;
            *database = Database::Open(Box::new(self.open(patience)?));
        }
        match database {
            Database::Open(open) => {
                open.connection.busy_timeout(patience)?;
                Ok(open)
            }
            Database::Closed => Err(Failed::new("it is closed")),
        }
    }

    /// Returns whether the open database is the one at the path.
    fn is_there(&self, open: &OpenLedger) -> bool {
        opening::file_of(&self.state.join(opening::NAME)) == Some(open.file)
    }

    fn open(&self, patience: Duration) -> Result<OpenLedger, Failed> {
        let damaged = lock(&self.damaged).clone();
        let opener = Opener {
            state: &self.state,
            sync: self.recorded.sync,
            who: self.who(),
            redactor: &self.recorded.redactor,
            damaged: damaged.as_ref(),
        };
        let mut told = None;
        let opened = opener.open(patience, &mut told);
        self.n_openings.fetch_add(1, Ordering::Relaxed);
        if let Some(text) = told {
            self.tell(text);
        }
        opened
    }

    /// Passes a notice to the callback and the next reply.
    fn tell(&self, text: String) {
        lock(&self.news).push(text.clone());
        if let Some(tell) = self.on_notice.get() {
            tell(&text);
        }
    }

    fn who(&self) -> &Who {
        self.who.get_or_init(|| Who {
            surface: self.recorded.surface,
            user: os_user(),
            mark: ProcessIdentity::own(),
        })
    }

    /// Writes all waiting records and these intents in one transaction.
    fn write(
        &self,
        database: &mut Database,
        intents: &[&Row],
        patience: Duration,
    ) -> Result<(), Failed> {
        let rows = std::mem::take(&mut lock(&self.queue).rows);
        if rows.is_empty() && intents.is_empty() {
            return Ok(());
        }
        let loss = *lock(&self.loss);
        let lost = loss.row();
        let all = || rows.iter().chain(intents.iter().copied()).chain(&lost);
        let mut written = self.insert(database, all(), patience);
        if let (Err(failed), Database::Open(open)) = (&written, &*database)
            && failed.corrupt
        {
            // The next opening keeps it aside, and the records go to the new one.
            *lock(&self.damaged) = Some((open.file, failed.problem.clone()));
            *database = Database::Closed;
            written = self.insert(database, all(), patience);
        }
        match &written {
            Ok(()) => {
                lock(&self.loss).forget(loss);
                *lock(&self.problem) = None;
            }
            Err(failed) => {
                self.put_back(rows);
                // Other errors may pass: the next record reopens the database.
                if !failed.busy {
                    *database = Database::Closed;
                }
            }
        }
        written
    }

    /// Writes an intent within a moment; returns false if it must wait.
    fn write_quickly(&self, intent: &Row) -> Result<bool, Failed> {
        let mut database = match self.database.try_lock() {
            Ok(database) => database,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(false),
        };
        match self.write(&mut database, &[intent], QUICK) {
            Ok(()) => Ok(true),
            Err(failed) if failed.busy => Ok(false),
            Err(failed) => {
                self.note(&failed);
                Err(failed)
            }
        }
    }
}

impl Loss {
    fn row(self) -> Option<Row> {
        let Self { n_lost, n_late } = self;
        let text = format!(
            "while the audit log could not be written, {n_lost} records were lost, and {n_late} changes \
             happened before their intent was written"
        );
        let is_there = 0 < n_lost + n_late;
        is_there.then(|| Row::event(Event { kind: "lost", text, session: None }))
    }

    fn forget(&mut self, recorded: Self) {
        self.n_lost -= recorded.n_lost.min(self.n_lost);
        self.n_late -= recorded.n_late.min(self.n_late);
    }
}

impl Ledger for SqliteLedger {
    fn intend<'a>(
        &'a self,
        so_far: &'a Closing,
        paths: &'a [PathBuf],
        temporaries: &'a [PathBuf],
    ) -> BoxFuture<'a, Result<Ticket, ToolError>> {
        Box::pin(async move {
            let ticket = Ticket(self.shared.next_ticket.fetch_add(1, Ordering::Relaxed));
            let row = Row::intent(ticket, so_far, paths, temporaries);
            match self.shared.write_quickly(&row) {
                Ok(true) => return Ok(ticket),
                Ok(false) => {}
                Err(failed) if self.shared.recorded.on_failure == OnFailure::Refuse => {
                    return Err(failed.into());
                }
                Err(_) => {
                    self.shared.put_late(row);
                    self.start_helper();
                    return Ok(ticket);
                }
            }
            let (promise, waiting) = waiting::promise(ticket);
            lock(&self.shared.queue).intents.push(Pending { row, ticket, promise });
            if self.start_helper() {
                self.shared.wake.notify_one();
            } else {
                // Without a helper thread no other thread can wait.
                let _ = self.shared.write_patiently();
            }
            Ok(waiting.await?)
        })
    }

    fn close(&self, intent: Option<Ticket>, closing: Closing) {
        self.add(Row::outcome(intent, closing));
    }

    fn event(&self, event: Event) {
        self.add(Row::event(event));
    }

    fn flush(&self) -> Result<(), ToolError> {
        self.shared.write_patiently().map_err(|failed| {
            let n = lock(&self.shared.queue).rows.len();
            let message = format!("records could not be written ({n} waiting): {}", failed.problem);
            ToolError::new(Kind::Unavailable, message).hint("run `sinew doctor`")
        })
    }

    fn full(&self) -> bool {
        let may_wait = self.shared.recorded.on_failure == OnFailure::Continue;
        !may_wait && MAX_KEPT <= lock(&self.shared.queue).rows.len()
    }

    fn broken(&self) -> Option<String> {
        lock(&self.shared.problem).clone()
    }

    fn news(&self) -> Vec<String> {
        // Without a client, standard error reaches the caller.
        match lock(&self.shared.client).is_some() {
            true => std::mem::take(&mut *lock(&self.shared.news)),
            false => Vec::new(),
        }
    }
}

impl Drop for SqliteLedger {
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.wake.notify_all();
        match lock(&self.helper).take() {
            Some(helper) => drop(helper.join()),
            None => drop(self.shared.write_patiently()),
        }
    }
}

#[cfg(test)]
mod tests;
