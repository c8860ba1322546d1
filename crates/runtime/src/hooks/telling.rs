//! What hooks are told that nobody waits for: it goes on beside the calls, on a thread of its own, which
//! outlives the thread that reads them. The thread begins with the first of it and ends with the runtime.

use sinew_tool::sync::lock;
use std::sync::Mutex;
use std::thread;

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, watch};

/// Runs what nobody waits for.
pub(crate) struct Telling {
    to: Mutex<Option<mpsc::UnboundedSender<BoxFuture<'static, ()>>>>,
    /// How much of it is not done.
    n_left: watch::Sender<usize>,
}

impl Default for Telling {
    fn default() -> Self {
        Self { to: Mutex::default(), n_left: watch::Sender::new(0) }
    }
}

/// Counts one thing less when it is done, or given up.
struct Left(watch::Sender<usize>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n = n.saturating_sub(1));
    }
}

impl Telling {
    /// Begins something and goes on. Where there is no thread to be had it is left undone.
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

    /// Waits until nothing is left to do.
    pub(crate) async fn done(&self) {
        let mut left = self.n_left.subscribe();
        // The sender is here.
        let _ = left.wait_for(|n| *n == 0).await;
    }

    /// Returns whether something is left to do.
    pub(crate) fn has_more(&self) -> bool {
        *self.n_left.borrow() != 0
    }
}

/// Starts the thread.
fn begun() -> Option<mpsc::UnboundedSender<BoxFuture<'static, ()>>> {
    let (to, mut from) = mpsc::unbounded_channel();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let run = move || {
        tokio.block_on(async {
            while let Some(what) = from.recv().await {
                tokio::spawn(what);
            }
        });
        // What is left ends with its programs.
        tokio.shutdown_background();
    };
    thread::Builder::new().name(String::from("hooks")).spawn(run).ok()?;
    Some(to)
}
