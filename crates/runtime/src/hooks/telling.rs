//! Runs hook notifications beside the calls, on their own thread.
//! The thread starts with the first notification and ends with the runtime.

use sinew_tool::sync::lock;
use std::sync::Mutex;
use std::thread;

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, watch};

/// The queue of notifications.
pub(crate) struct Telling {
    to: Mutex<Option<mpsc::UnboundedSender<BoxFuture<'static, ()>>>>,
    /// The number of unfinished notifications.
    n_left: watch::Sender<usize>,
}

impl Default for Telling {
    fn default() -> Self {
        Self { to: Mutex::default(), n_left: watch::Sender::new(0) }
    }
}

/// Decrements the counter when a notification is done or dropped.
struct Left(watch::Sender<usize>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n = n.saturating_sub(1));
    }
}

impl Telling {
    /// Starts a notification without waiting; dropped if no thread can start.
    pub(crate) fn tell(&self, what: impl Future<Output = ()> + Send + 'static) {
        self.n_left.send_modify(|n| *n += 1);
        let left = Left(self.n_left.clone());
        let what: BoxFuture<'static, ()> = Box::pin(async move {
            let _left = left;
            what.await;
        });
        let mut to = lock(&self.to);
        let what = match &*to {
            Some(open) => match open.send(what) {
                Ok(()) => return,
                Err(mpsc::error::SendError(what)) => what,
            },
            None => what,
        };
        *to = begun().inspect(|open| drop(open.send(what)));
    }

    /// Waits until no notification is left.
    pub(crate) async fn done(&self) {
        let mut left = self.n_left.subscribe();
        // Cannot fail: `self` holds the sender.
        let _ = left.wait_for(|n| *n == 0).await;
    }

    /// Returns whether a notification is unfinished.
    pub(crate) fn has_more(&self) -> bool {
        *self.n_left.borrow() != 0
    }
}

fn begun() -> Option<mpsc::UnboundedSender<BoxFuture<'static, ()>>> {
    let (to, mut from) = mpsc::unbounded_channel();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let run = move || {
        tokio.block_on(async {
            while let Some(what) = from.recv().await {
                tokio::spawn(what);
            }
        });
        // Remaining notifications end with their programs.
        tokio.shutdown_background();
    };
    thread::Builder::new().name(String::from("hooks")).spawn(run).ok()?;
    Some(to)
}
