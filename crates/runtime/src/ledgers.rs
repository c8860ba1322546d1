//! Ledgers without a database, for embedding programs.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use sinew_tool::sync::lock;
use sinew_tool::{BoxFuture, Closing, Event, Ledger, Ticket, ToolError};

/// Records nothing.
#[derive(Debug, Default)]
pub struct NoLedger;

impl Ledger for NoLedger {
    fn intend<'a>(
        &'a self,
        _so_far: &'a Closing,
        _paths: &'a [PathBuf],
        _temporaries: &'a [PathBuf],
    ) -> BoxFuture<'a, Result<Ticket, ToolError>> {
        Box::pin(std::future::ready(Ok(Ticket(0))))
    }

    fn close(&self, _intent: Option<Ticket>, _closing: Closing) {}

    fn flush(&self) -> Result<(), ToolError> {
        Ok(())
    }
}

/// Keeps records in memory.
#[derive(Debug, Default)]
pub struct MemoryLedger {
    next: AtomicU64,
    closed: Mutex<Vec<(Option<Ticket>, Closing)>>,
    events: Mutex<Vec<Event>>,
}

impl MemoryLedger {
    /// Returns and removes the closed calls in order; a change comes with the ticket of its intent.
    pub fn take(&self) -> Vec<(Option<Ticket>, Closing)> {
        std::mem::take(&mut *lock(&self.closed))
    }

    /// Returns and removes the recorded events in order.
    pub fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut *lock(&self.events))
    }
}

impl Ledger for MemoryLedger {
    fn intend<'a>(
        &'a self,
        _so_far: &'a Closing,
        _paths: &'a [PathBuf],
        _temporaries: &'a [PathBuf],
    ) -> BoxFuture<'a, Result<Ticket, ToolError>> {
        let ticket = Ticket(self.next.fetch_add(1, Ordering::Relaxed));
        Box::pin(std::future::ready(Ok(ticket)))
    }

    fn close(&self, intent: Option<Ticket>, closing: Closing) {
        lock(&self.closed).push((intent, closing));
    }

    fn event(&self, event: Event) {
        lock(&self.events).push(event);
    }

    fn flush(&self) -> Result<(), ToolError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_kept_once_and_apart() {
        let ledger = MemoryLedger::default();
        let event = Event { kind: "granted", text: String::from("words"), session: None };
        ledger.event(event.clone());
        assert_eq!(ledger.take().len(), 0);
        assert_eq!(ledger.take_events(), [event]);
        assert_eq!(ledger.take_events(), []);
    }
}
