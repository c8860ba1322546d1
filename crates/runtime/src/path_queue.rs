//! Path queue: serialises changes of the same path.

use sinew_tool::sync::lock;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::sync::{Mutex as PathLock, OwnedMutexGuard};

/// The paths under change, each with its queue.
#[derive(Debug, Default)]
pub(crate) struct PathQueue(Arc<Mutex<HashMap<PathBuf, Arc<PathLock<()>>>>>);

/// The lock of one call on its paths; others wait until it is dropped.
#[derive(Debug)]
pub(crate) struct HeldPaths {
    held: Vec<QueuedPath>,
    order: Arc<Mutex<HashMap<PathBuf, Arc<PathLock<()>>>>>,
}

#[derive(Debug)]
struct QueuedPath {
    path: PathBuf,
    queue: Arc<PathLock<()>>,
    /// The lock, once acquired.
    turn: Option<OwnedMutexGuard<()>>,
}

impl PathQueue {
    /// Locks every path. The sorted order prevents deadlocks between calls.
    pub(crate) async fn turns(&self, paths: impl IntoIterator<Item = &Path>) -> HeldPaths {
        let mut paths: Vec<PathBuf> = paths.into_iter().map(Path::to_path_buf).collect();
        paths.sort();
        paths.dedup();
        let mut turns = HeldPaths { held: Vec::new(), order: Arc::clone(&self.0) };
        for path in paths {
            let queue = {
                let mut order = lock(&self.0);
                Arc::clone(order.entry(path.clone()).or_default())
            };
            // Inserted before the wait: a cancelled waiter is then removed like a holder.
            turns.held.push(QueuedPath { path, queue: Arc::clone(&queue), turn: None });
            let turn = queue.lock_owned().await;
            if let Some(place) = turns.held.last_mut() {
                place.turn = Some(turn);
            }
        }
        turns
    }
}

impl Drop for HeldPaths {
    fn drop(&mut self) {
        let mut order = lock(&self.order);
        for QueuedPath { path, queue, turn } in self.held.drain(..) {
            drop((turn, queue));
            // Only the table still holds this lock.
            if order.get(&path).is_some_and(|turn| Arc::strong_count(turn) == 1) {
                order.remove(&path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn changes_to_one_path_wait_and_leave_nothing_behind() {
        let order = PathQueue::default();
        let first = order.turns([Path::new("/b"), Path::new("/a"), Path::new("/a")]).await;
        let mut second = Box::pin(order.turns([Path::new("/a")]));
        assert!(futures_util::poll!(second.as_mut()).is_pending(), "the path is taken");
        let other = order.turns([Path::new("/c")]).await;
        drop((first, other));
        drop(second.await);
        assert!(order.0.lock().expect("unpoisoned").is_empty());
    }

    /// Regression: a call cancelled in the queue left its path in the table.
    #[tokio::test]
    async fn a_call_that_stops_waiting_leaves_nothing_behind() {
        let order = PathQueue::default();
        let a = [Path::new("/a")];
        for released_first in [true, false] {
            let holder = order.turns(a).await;
            let mut waiter = Box::pin(order.turns(a));
            assert!(futures_util::poll!(waiter.as_mut()).is_pending(), "the path is taken");
            if released_first {
                drop(holder);
                drop(waiter);
            } else {
                drop(waiter);
                drop(holder);
            }
            assert!(order.0.lock().expect("unpoisoned").is_empty(), "{released_first}");
        }
    }
}
