//! The sessions that hooks follow: each begins with its first call and ends when its surface says so.
//!
//! Where no hook waits for either, nothing is remembered.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sinew_tool::{HookEvent, SessionEnd, SessionStart};
use tokio::sync::OnceCell;

use super::Hooks;
use crate::runtime::Runtime;

/// The sessions that began.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Arc<Began>>>);

struct Began {
    at: Instant,
    n_calls: AtomicU64,
    /// Set once the hooks of the start have run: every call of the session waits for them.
    started: OnceCell<()>,
}

impl Sessions {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Began>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entered(&self, session: &str) -> Arc<Began> {
        let mut all = self.all();
        if let Some(began) = all.get(session) {
            return Arc::clone(began);
        }
        let began = Arc::new(Began {
            at: Instant::now(),
            n_calls: AtomicU64::new(0),
            started: OnceCell::new(),
        });
        all.insert(session.to_owned(), Arc::clone(&began));
        began
    }
}

impl Hooks {
    /// Returns whether a hook follows sessions.
    pub(crate) fn follow_sessions(&self) -> bool {
        let of = |event| !self.at(event).is_empty();
        of(HookEvent::SessionStart) || of(HookEvent::SessionEnd)
    }
}

/// Counts a call of a session, and runs the hooks of its start before its first.
pub(crate) async fn begin(runtime: &Runtime, session: &str, dialect: &str) {
    let began = runtime.sessions.entered(session);
    began.n_calls.fetch_add(1, Ordering::Relaxed);
    let start = || async {
        let roots = runtime.roots();
        let told = SessionStart {
            session: session.to_owned(),
            roots: roots.iter().map(|root| root.to_string_lossy().into_owned()).collect(),
            dialect: dialect.to_owned(),
        };
        for hook in runtime.hooks.at(HookEvent::SessionStart) {
            // Whoever only looks on cannot keep a session from its calls.
            let _ = hook.session_start(&told).await;
        }
    };
    began.started.get_or_init(start).await;
}

impl Runtime {
    /// Runs the hooks of the end of every session that had a call, for as long as `within` at most. A
    /// surface calls this once no more calls come; it does nothing where no hook waits for it.
    pub async fn end_sessions(&self, within: Duration) {
        let ended: Vec<_> = self.sessions.all().drain().collect();
        let ending = async {
            for (session, began) in
                ended.into_iter().filter(|(_, began)| began.started.initialized())
            {
                let told = SessionEnd {
                    session,
                    n_calls: began.n_calls.load(Ordering::Relaxed),
                    duration_ms: began.at.elapsed().as_secs_f64() * 1e3,
                };
                for hook in self.hooks.at(HookEvent::SessionEnd) {
                    let _ = hook.session_end(&told).await;
                }
            }
        };
        let _ = tokio::time::timeout(within, ending).await;
    }

    /// Returns whether [`Runtime::end_sessions`] has something to do.
    pub fn has_sessions_to_end(&self) -> bool {
        !self.hooks.at(HookEvent::SessionEnd).is_empty() && !self.sessions.all().is_empty()
    }
}
