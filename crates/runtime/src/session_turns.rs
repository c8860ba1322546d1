//! Session turns: calls that run alone in their session, for dialects that take turns.
//!
//! Calls that only observe share the turn. Waiting calls get it in the order in which they asked for it, so a
//! call that only observes does not pass one that waits to run alone. Other processes of the same session are
//! not seen.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use sinew_tool::sync::lock;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

type Table = Arc<Mutex<HashMap<String, Arc<RwLock<()>>>>>;

/// The sessions with running or waiting calls.
#[derive(Debug, Default)]
pub(crate) struct SessionTurns(Table);

/// The turn of one call; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct HeldTurn {
    session: String,
    queue: Option<Arc<RwLock<()>>>,
    turn: Option<Turn>,
    table: Table,
}

#[derive(Debug)]
#[expect(dead_code, reason = "the guards are held, not read")]
enum Turn {
    Shared(OwnedRwLockReadGuard<()>),
    Alone(OwnedRwLockWriteGuard<()>),
}

impl SessionTurns {
    /// Waits until a call may run beside the others of its session.
    pub(crate) async fn shared(&self, session: &str) -> HeldTurn {
        let (mut held, queue) = self.enter(session);
        held.turn = Some(Turn::Shared(queue.read_owned().await));
        held
    }

    /// Waits until no other call of the session runs, and lets none begin.
    pub(crate) async fn alone(&self, session: &str) -> HeldTurn {
        let (mut held, queue) = self.enter(session);
        held.turn = Some(Turn::Alone(queue.write_owned().await));
        held
    }

    /// Returns the place of a call before its wait: a cancelled waiter is then removed like a holder.
    fn enter(&self, session: &str) -> (HeldTurn, Arc<RwLock<()>>) {
        let session = session.to_owned();
        let queue = Arc::clone(lock(&self.0).entry(session.clone()).or_default());
        let (table, held) = (Arc::clone(&self.0), Some(Arc::clone(&queue)));
        (HeldTurn { session, queue: held, turn: None, table }, queue)
    }
}

impl Drop for HeldTurn {
    fn drop(&mut self) {
        let mut table = lock(&self.table);
        drop((self.turn.take(), self.queue.take()));
        // Only the table still holds this lock.
        if table.get(&self.session).is_some_and(|queue| Arc::strong_count(queue) == 1) {
            table.remove(&self.session);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn one_call_waits_for_all_and_all_for_it() {
        let turns = SessionTurns::default();
        let readers = (turns.shared("s").await, turns.shared("s").await);
        let mut alone = Box::pin(turns.alone("s"));
        assert!(poll!(alone.as_mut()).is_pending(), "others run");
        let mut late = Box::pin(turns.shared("s"));
        assert!(poll!(late.as_mut()).is_pending(), "it asked later");
        drop(turns.alone("another").await);
        drop(readers);
        let held = alone.await;
        assert!(poll!(late.as_mut()).is_pending(), "one runs alone");
        drop(held);
        drop(late.await);
        assert!(lock(&turns.0).is_empty());
    }

    #[tokio::test]
    async fn a_call_that_stops_waiting_leaves_nothing_behind() {
        let turns = SessionTurns::default();
        for released_first in [true, false] {
            let held = turns.alone("s").await;
            let mut waiter = Box::pin(turns.shared("s"));
            assert!(poll!(waiter.as_mut()).is_pending());
            if released_first {
                drop(held);
                drop(waiter);
            } else {
                drop(waiter);
                drop(held);
            }
            assert!(lock(&turns.0).is_empty(), "{released_first}");
        }
    }
}
