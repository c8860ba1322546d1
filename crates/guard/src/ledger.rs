//! The ledger in SQLite: every call, its intent before it changes anything and its outcome after.
//!
//! One appender a process: a queue that callers add to without waiting, and one connection that
//! the helper thread or a change writes through. Records of calls that only looked are written in
//! batches, at most 50 ms or 256 records late; the intent of a change is committed to the
//! write-ahead log before the change happens, and everything that waited goes with it. The
//! database is opened by whichever of the two needs it first, never at start.
//!
//! Another process may hold the database for seconds. The thread that reads the requests of a client
//! must not stand still meanwhile, so a change tries for a moment and then waits as a future, while
//! the helper thread goes on trying in its place. The change itself still comes after its intent.
//!
//! The next opener of the database removes the temporary files that changes of dead processes left
//! behind: their intent records name them.

mod known;
mod leftovers;
mod row;
mod waiting;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use sinew_tool::{BoxFuture, Closing, Effects, Kind, Ledger, Opening, Ticket, ToolError};

use crate::StateDir;
use crate::database::{self, Failed, PATIENT, Tables, at_once, lock};
use crate::knowledge::KnowledgeBase;
use crate::mark::{ProcessMark, os_user};
use row::{Row, Who};
use waiting::Promise;

pub(crate) use known::{Deed, KnownRow, Records};

/// The longest that the record of a call that only looked may wait.
const MAX_WAIT: Duration = Duration::from_millis(50);
/// The most records that may wait.
const MAX_WAITING: usize = 256;
/// The most records that wait for a database that cannot be written.
const MAX_KEPT: usize = 65_536;
/// How long a change waits in place for a database that somebody else writes.
const QUICK: Duration = Duration::from_millis(20);
/// How long the helper thread waits after a failure.
const RETRY: Duration = Duration::from_millis(500);

/// How much a committed intent survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerSync {
    /// Any death of the process: the record is in the hands of the kernel.
    Normal,
    /// Power loss too: the record is on the disk.
    Full,
}

/// Who the records name beside the call itself.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The surface that takes the calls: `call`, `mcp` …
    pub surface: &'static str,
    /// How much a committed intent survives.
    pub sync: LedgerSync,
}

impl From<Failed> for ToolError {
    fn from(failed: Failed) -> Self {
        let message = if failed.busy {
            "another process holds the ledger, so this call cannot be recorded and does not run"
        } else {
            "the ledger cannot record this call, so it does not run"
        };
        Self::new(Kind::Unavailable, message)
            .hint("run `sinew doctor`; `ledger.mode = \"off\"` runs without records")
            .source(failed.problem)
    }
}

/// The ledger of one process over one database.
pub struct SqliteLedger {
    shared: Arc<Shared>,
    helper: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    path: PathBuf,
    recorded: Recorded,
    client: Mutex<Option<String>>,
    who: OnceLock<Who>,
    queue: Mutex<Queue>,
    wake: Condvar,
    database: Mutex<Database>,
    /// Why the last attempt to write failed, if it did.
    problem: Mutex<Option<String>>,
    next_ticket: AtomicU64,
    on_failure: OnceLock<Tell>,
}

/// Told why nothing can be written.
type Tell = Box<dyn Fn(&str) + Send + Sync>;

#[derive(Default)]
struct Queue {
    rows: Vec<Row>,
    /// Intents whose changes wait for the helper thread.
    intents: Vec<Intent>,
    /// Whether the helper thread sleeps until there is something to write.
    idle: bool,
    closed: bool,
}

struct Intent {
    row: Row,
    ticket: Ticket,
    promise: Promise,
}

enum Database {
    Closed,
    Open(Open),
}

struct Open {
    connection: Connection,
    /// The number of this process in the database, and the client it was entered with.
    process: Option<(i64, Option<String>)>,
}

impl SqliteLedger {
    /// Returns the ledger of a state directory. Nothing is opened or started yet.
    pub fn new(state: &StateDir, recorded: Recorded) -> Self {
        Self {
            shared: Arc::new(Shared {
                path: state.database(),
                recorded,
                client: Mutex::new(None),
                who: OnceLock::new(),
                queue: Mutex::default(),
                wake: Condvar::new(),
                database: Mutex::new(Database::Closed),
                problem: Mutex::new(None),
                next_ticket: AtomicU64::new(1),
                on_failure: OnceLock::new(),
            }),
            helper: Mutex::new(None),
        }
    }

    /// Names the client in the records that follow, as the client names itself.
    pub fn set_client(&self, client: String) {
        *lock(&self.shared.client) = Some(client);
    }

    /// Names who is told when records cannot be written any more: once, until they can again.
    pub fn on_failure(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.shared.on_failure.set(Box::new(tell));
    }

    /// Returns what callers know of files, kept in the database of this ledger.
    pub fn knowledge(&self) -> Arc<KnowledgeBase> {
        Arc::new(KnowledgeBase::over(Records::new(Arc::clone(&self.shared))))
    }

    /// Opens the database now, for `doctor`.
    pub fn probe(&self) -> Result<(), ToolError> {
        let mut database = lock(&self.shared.database);
        let opened = self.shared.connection(&mut database, PATIENT).map(|_| ());
        opened.inspect_err(|failed| self.shared.note(failed)).map_err(ToolError::from)
    }

    /// Starts the helper thread unless it runs; returns whether it does.
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

impl Shared {
    /// Returns the open connection, opening it where it is not. It waits so long for others.
    fn connection<'a>(
        &self,
        database: &'a mut Database,
        patience: Duration,
    ) -> Result<&'a mut Open, Failed> {
        if matches!(database, Database::Closed) {
            *database = Database::Open(Open { connection: self.open(patience)?, process: None });
        }
        match database {
            Database::Open(open) => {
                open.connection.busy_timeout(patience)?;
                Ok(open)
            }
            Database::Closed => Err(Failed { busy: false, problem: String::from("it is closed") }),
        }
    }

    fn open(&self, patience: Duration) -> Result<Connection, Failed> {
        let tables =
            Tables { version: row::VERSION, previous: Some(row::PREVIOUS), schema: row::SCHEMA };
        let connection = database::open(&self.path, &tables, self.recorded.sync, patience)?;
        leftovers::remove(&connection, self.path.parent().unwrap_or(&self.path))?;
        Ok(connection)
    }

    /// Writes everything that waits, and intents, in one transaction.
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
        let written = self.insert(database, rows.iter().chain(intents.iter().copied()), patience);
        match &written {
            Ok(()) => *lock(&self.problem) = None,
            Err(failed) => {
                self.put_back(rows);
                // Whatever else is wrong may pass: the next record opens the database again.
                if !failed.busy {
                    *database = Database::Closed;
                }
            }
        }
        written
    }

    fn insert<'a>(
        &self,
        database: &mut Database,
        rows: impl Iterator<Item = &'a Row>,
        patience: Duration,
    ) -> Result<(), Failed> {
        let Open { connection, process } = self.connection(database, patience)?;
        let client = lock(&self.client).clone();
        let who = self.who.get_or_init(|| Who {
            surface: self.recorded.surface,
            user: os_user(),
            mark: ProcessMark::own(),
        });
        let number = at_once(connection, |connection| {
            let number = match process {
                Some((number, known)) if *known == client => *number,
                _ => who.enter(connection, client.as_deref())?,
            };
            rows.into_iter().try_for_each(|row| row.insert(connection, who, number))?;
            Ok::<_, Failed>(number)
        })?;
        *process = Some((number, client));
        Ok(())
    }

    /// Writes an intent within a moment; returns whether it is written, or must wait for others.
    fn write_quickly(&self, intent: &Row) -> Result<bool, ToolError> {
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
                Err(failed.into())
            }
        }
    }

    /// Writes everything that waits, for as long as it takes.
    fn write_patiently(&self) -> Result<(), Failed> {
        let mut database = lock(&self.database);
        let mut intents = std::mem::take(&mut lock(&self.queue).intents);
        intents.retain(|intent| !intent.promise.is_withdrawn());
        let rows: Vec<&Row> = intents.iter().map(|intent| &intent.row).collect();
        let written = self.write(&mut database, &rows, PATIENT);
        if let Err(failed) = &written {
            self.note(failed);
        }
        for intent in intents {
            if !intent.promise.settle(written.clone()) && written.is_ok() {
                lock(&self.queue).rows.push(Row::Withdrawn(intent.ticket));
            }
        }
        written
    }

    /// Remembers why nothing could be written.
    fn note(&self, failed: &Failed) {
        let before = lock(&self.problem).replace(failed.problem.clone());
        if let (None, Some(tell)) = (before, self.on_failure.get()) {
            tell(&failed.problem);
        }
    }

    /// Keeps records that could not be written for the next attempt, as many as may wait.
    fn put_back(&self, mut rows: Vec<Row>) {
        let mut queue = lock(&self.queue);
        rows.append(&mut queue.rows);
        rows.truncate(MAX_KEPT);
        queue.rows = rows;
    }

    /// The helper thread: waits for records, writes them in batches, keeps the log short.
    fn write_batches(&self) {
        let mut is_first = true;
        loop {
            let closed = self.wait_for_batch();
            // What could not be written waits for the next batch; changes are refused meanwhile.
            if self.write_patiently().is_err() && !closed {
                std::thread::sleep(RETRY);
            }
            if std::mem::take(&mut is_first) {
                self.prune();
            }
            self.shorten_log();
            if closed {
                return;
            }
        }
    }

    /// Waits until a batch is due; returns whether the ledger is closing.
    fn wait_for_batch(&self) -> bool {
        let mut queue = lock(&self.queue);
        while queue.rows.is_empty() && queue.intents.is_empty() && !queue.closed {
            queue.idle = true;
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.idle = false;
        let due = Instant::now() + MAX_WAIT;
        while queue.rows.len() < MAX_WAITING && queue.intents.is_empty() && !queue.closed {
            let Some(left) = due.checked_duration_since(Instant::now()) else { break };
            queue = self
                .wake
                .wait_timeout(queue, left)
                .map_or_else(|error| error.into_inner().0, |(queue, _)| queue);
        }
        queue.closed
    }

    /// Forgets what callers knew long ago.
    fn prune(&self) {
        if let Database::Open(Open { connection, process: Some((number, _)) }) =
            &*lock(&self.database)
        {
            // What could not be removed is removed another time.
            let _ = known::prune(connection, *number);
        }
    }

    fn shorten_log(&self) {
        if let Database::Open(Open { connection, .. }) = &*lock(&self.database) {
            database::shorten_log(connection);
        }
    }
}

impl Ledger for SqliteLedger {
    fn intend<'a>(
        &'a self,
        opening: &'a Opening,
        effects: Effects,
        paths: &'a [PathBuf],
        temporaries: &'a [PathBuf],
    ) -> BoxFuture<'a, Result<Ticket, ToolError>> {
        Box::pin(async move {
            let ticket = Ticket(self.shared.next_ticket.fetch_add(1, Ordering::Relaxed));
            let row = Row::intent(ticket, opening, effects, paths, temporaries);
            if self.shared.write_quickly(&row)? {
                return Ok(ticket);
            }
            let (promise, waiting) = waiting::promise(ticket);
            lock(&self.shared.queue).intents.push(Intent { row, ticket, promise });
            if self.start_helper() {
                self.shared.wake.notify_one();
            } else {
                // Without a thread nobody else can wait.
                let _ = self.shared.write_patiently();
            }
            Ok(waiting.await?)
        })
    }

    fn close(&self, intent: Option<Ticket>, closing: Closing) {
        let due = {
            let mut queue = lock(&self.shared.queue);
            queue.rows.push(Row::outcome(intent, closing));
            // Who counts down from an earlier record comes by in time without being woken.
            std::mem::take(&mut queue.idle) || MAX_WAITING <= queue.rows.len()
        };
        self.start_helper();
        if due {
            self.shared.wake.notify_one();
        }
    }

    fn flush(&self) -> Result<(), ToolError> {
        self.shared.write_patiently().map_err(|failed| {
            let n = lock(&self.shared.queue).rows.len();
            let message = format!("records could not be written ({n} waiting): {}", failed.problem);
            ToolError::new(Kind::Unavailable, message).hint("run `sinew doctor`")
        })
    }

    fn full(&self) -> bool {
        MAX_KEPT <= lock(&self.shared.queue).rows.len()
    }

    fn broken(&self) -> Option<String> {
        lock(&self.shared.problem).clone()
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
