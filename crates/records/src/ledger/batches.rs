//! Queues records, and writes them in batches in the helper thread.

use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use sinew_tool::Ticket;
use sinew_tool::sync::lock;

use super::row::Row;
use super::waiting::Promise;
use super::{Database, MAX_KEPT, OnFailure, SharedLedger, known};
use crate::database::{self, Failed, PATIENT};

/// The longest delay of a read's record.
const MAX_WAIT: Duration = Duration::from_millis(50);
/// The queue length at which a batch is written.
const MAX_WAITING: usize = 256;
/// The pause of the helper thread after a failure.
const RETRY: Duration = Duration::from_millis(500);
/// The interval of retention in the helper thread.
pub(super) const TENDED_EVERY: Duration = Duration::from_secs(10 * 60);
/// The time without records before the whole database is read.
const IDLE: Duration = Duration::from_secs(2);

/// Why a wait of the helper thread ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Woke {
    /// Records are due.
    Due,
    /// Long idle: the whole database should be read.
    Idle,
    /// The ledger closes.
    Closed,
}

#[derive(Default)]
pub(super) struct Queue {
    pub(super) rows: Vec<Row>,
    /// Intents whose changes wait for the helper thread.
    pub(super) intents: Vec<Pending>,
    /// Whether the helper thread sleeps until a record arrives.
    idle: bool,
    pub(super) closed: bool,
}

pub(super) struct Pending {
    pub(super) row: Row,
    pub(super) ticket: Ticket,
    pub(super) promise: Promise,
}

impl SharedLedger {
    /// Writes all waiting records and intents, waiting up to [`PATIENT`].
    pub(super) fn write_patiently(&self) -> Result<(), Failed> {
        let mut database = lock(&self.database);
        let mut intents = std::mem::take(&mut lock(&self.queue).intents);
        intents.retain(|intent| !intent.promise.is_withdrawn());
        let rows: Vec<&Row> = intents.iter().map(|intent| &intent.row).collect();
        let written = self.write(&mut database, &rows, PATIENT);
        if let Err(failed) = &written {
            self.note(failed);
        }
        for Pending { row, ticket, promise } in intents {
            let goes_on = self.goes_on(&written);
            if goes_on && written.is_err() {
                self.put_late(row);
            }
            let came = if goes_on { Ok(()) } else { written.clone() };
            if !promise.settle(came) && goes_on {
                lock(&self.queue).rows.push(Row::withdrawn(ticket));
            }
        }
        written
    }

    fn goes_on(&self, written: &Result<(), Failed>) -> bool {
        written.is_ok() || self.recorded.on_failure == OnFailure::Continue
    }

    /// Queues the intent of a change that happens unrecorded.
    pub(super) fn put_late(&self, row: Row) {
        lock(&self.loss).n_late += 1;
        self.put_back(vec![row]);
    }

    /// Remembers why a write failed, and reports the first failure.
    pub(super) fn note(&self, failed: &Failed) {
        let before = lock(&self.problem).replace(failed.problem.clone());
        if let (None, Some(tell)) = (before, self.on_failure.get()) {
            tell(&failed.problem);
        }
    }

    /// Queues unwritten records again, up to [`MAX_KEPT`].
    pub(super) fn put_back(&self, mut rows: Vec<Row>) {
        let mut queue = lock(&self.queue);
        rows.append(&mut queue.rows);
        let n_over = rows.len().saturating_sub(MAX_KEPT);
        rows.truncate(MAX_KEPT);
        queue.rows = rows;
        drop(queue);
        lock(&self.loss).n_lost += n_over as u64;
    }

    /// Queues a record; returns whether to wake the helper thread.
    pub(super) fn push(&self, row: Row) -> bool {
        let mut queue = lock(&self.queue);
        if MAX_KEPT <= queue.rows.len() {
            drop(queue);
            lock(&self.loss).n_lost += 1;
            return false;
        }
        queue.rows.push(row);
        // A helper thread that waits for a batch needs no wake.
        std::mem::take(&mut queue.idle) || MAX_WAITING <= queue.rows.len()
    }

    /// The helper thread: writes batches, shortens the write-ahead log, and checks the database when idle.
    pub(super) fn write_batches(self: &Arc<Self>) {
        let mut tended: Option<Instant> = None;
        let mut check_at = Instant::now();
        loop {
            let woke = self.wait_for_batch(check_at.max(Instant::now() + IDLE));
            if woke == Woke::Idle {
                let rest = self.check();
                check_at = Instant::now() + rest;
                continue;
            }
            let closed = woke == Woke::Closed;
            // The records wait for the next batch; changes are refused meanwhile.
            if self.write_patiently().is_err() && !closed {
                std::thread::sleep(RETRY);
            }
            if tended.is_none_or(|at| TENDED_EVERY < at.elapsed()) {
                self.tend();
                tended = Some(Instant::now());
            }
            self.shorten_log();
            if closed {
                return;
            }
        }
    }

    /// Waits until a batch is due, or until `idle_at` without records.
    fn wait_for_batch(&self, idle_at: Instant) -> Woke {
        let mut queue = lock(&self.queue);
        while queue.rows.is_empty() && queue.intents.is_empty() && !queue.closed {
            let Some(left) = idle_at.checked_duration_since(Instant::now()) else {
                queue.idle = false;
                return Woke::Idle;
            };
            queue.idle = true;
            queue = self.wait(queue, left);
        }
        queue.idle = false;
        let due = Instant::now() + MAX_WAIT;
        while queue.rows.len() < MAX_WAITING && queue.intents.is_empty() && !queue.closed {
            let Some(left) = due.checked_duration_since(Instant::now()) else { break };
            queue = self.wait(queue, left);
        }
        if queue.closed { Woke::Closed } else { Woke::Due }
    }

    fn wait<'a>(&self, queue: MutexGuard<'a, Queue>, at_most: Duration) -> MutexGuard<'a, Queue> {
        let waited = self.wake.wait_timeout(queue, at_most);
        waited.map_or_else(|error| error.into_inner().0, |(queue, _)| queue)
    }

    /// Removes old knowledge of files, and records beyond retention.
    fn tend(&self) {
        let mut database = lock(&self.database);
        let Database::Open(open) = &mut *database else { return };
        // A failed removal is retried later.
        if let Some((process, _)) = &open.process {
            let _ = known::prune(&open.connection, process.number);
        }
        let kept = self.recorded.retention.apply(open, self.who(), &self.recorded.redactor);
        if let (Ok(Some(why)), Some(tell)) = (kept, self.on_notice.get()) {
            tell(&why);
        }
    }

    fn shorten_log(&self) {
        if let Database::Open(open) = &*lock(&self.database) {
            database::shorten_log(&open.connection);
        }
    }
}
