//! Session hooks: a session starts with its first call and ends when its surface says so.
//!
//! Without hooks at either event, no session is stored.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use sinew_tool::sync::lock;
use sinew_tool::{HookEvent, SessionEnd, SessionStart};
use tokio::sync::watch;

use super::Hooks;
use crate::caught::caught;
use crate::runtime::Runtime;

/// The started sessions.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Arc<Began>>>);

struct Began {
    at: Instant,
    n_calls: AtomicU64,
    /// Set after the start hooks ran: every call of the session waits for it.
    started: watch::Sender<bool>,
}

/// Releases the waiting calls of a session on drop, even if the start hooks failed.
struct Starting(Arc<Began>);

impl Drop for Starting {
    fn drop(&mut self) {
        self.0.started.send_replace(true);
    }
}

impl Sessions {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Began>>> {
        lock(&self.0)
    }

    /// Returns a session and, for its first call, the guard of the start hooks.
    fn entered(&self, session: &str) -> (Arc<Began>, Option<Starting>) {
        let mut all = self.all();
        if let Some(began) = all.get(session) {
            return (Arc::clone(began), None);
        }
        let began = Arc::new(Began {
            at: Instant::now(),
            n_calls: AtomicU64::new(0),
            started: watch::Sender::new(false),
        });
        all.insert(session.to_owned(), Arc::clone(&began));
        let starting = Starting(Arc::clone(&began));
        (began, Some(starting))
    }
}

impl Hooks {
    pub(crate) fn follow_sessions(&self) -> bool {
        let of = |event| !self.at(event).is_empty();
        of(HookEvent::SessionStart) || of(HookEvent::SessionEnd)
    }
}

/// Counts a call of a session and waits for its start hooks. They run once, even if the first call is
/// cancelled.
pub(crate) async fn begin(runtime: &Runtime, session: &str, dialect: &str) {
    let (began, starting) = runtime.sessions.entered(session);
    began.n_calls.fetch_add(1, Ordering::Relaxed);
    let hooks = runtime.hooks.at(HookEvent::SessionStart);
    if let Some(starting) = starting.filter(|_| !hooks.is_empty()) {
        let roots = runtime.roots();
        let told = SessionStart {
            session: session.to_owned(),
            roots: roots.iter().map(|root| root.to_string_lossy().into_owned()).collect(),
            dialect: dialect.to_owned(),
        };
        let hooks = hooks.to_vec();
        runtime.telling.tell(async move {
            let _starting = starting;
            for hook in hooks {
                // An observer hook cannot block a session, even by a panic.
                let _ = caught(async { hook.session_start(&told).await }).await;
            }
        });
    }
    let mut started = began.started.subscribe();
    // Cannot fail: `began` holds the sender.
    let _ = started.wait_for(|started| *started).await;
}

impl Runtime {
    /// Runs the end hooks of every session that had a call and waits up to `within` for queued hook events.
    /// Surfaces call it after their last call; without such hooks it does nothing.
    pub async fn end_sessions(&self, within: Duration) {
        let ended: Vec<_> = self.sessions.all().drain().collect();
        let ending = async {
            for (session, began) in ended.into_iter().filter(|(_, began)| *began.started.borrow()) {
                let told = SessionEnd {
                    session,
                    n_calls: began.n_calls.load(Ordering::Relaxed),
                    duration_ms: began.at.elapsed().as_secs_f64() * 1e3,
                };
                for hook in self.hooks.at(HookEvent::SessionEnd) {
                    let _ = caught(async { hook.session_end(&told).await }).await;
                }
            }
        };
        let both = futures_util::future::join(self.telling.done(), ending);
        let _ = tokio::time::timeout(within, both).await;
    }

    /// Returns whether [`Runtime::end_sessions`] has work to do.
    pub fn has_sessions_to_end(&self) -> bool {
        let has_sessions = || !self.sessions.all().is_empty();
        self.telling.has_more()
            || (!self.hooks.at(HookEvent::SessionEnd).is_empty() && has_sessions())
    }
}
