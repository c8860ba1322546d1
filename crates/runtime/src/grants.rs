//! Session grants: approval answers that cover more than one call.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use sinew_guard::{Judged, Rule};
use sinew_tool::ToolError;
use sinew_tool::sync::lock;

use crate::broker::Digest;

/// The most rules, and the most calls, per session.
const MAX_KEPT: usize = 1_000;
/// The most sessions with grants.
const MAX_SESSIONS: usize = 10_000;

/// Stores `forever` grants.
pub trait GrantStore: Send + Sync {
    /// Stores allow rules for these roots and all later sessions.
    fn keep(&self, rules: &[Rule]) -> Result<(), ToolError>;
}

/// A grant of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionGrant {
    /// Calls that a rule covers.
    Rule(Box<Rule>),
    /// One call with its exact arguments, by its hash.
    Call([u8; 32]),
}

/// Stores the grants of a session that can be resumed. One that cannot be stored counts until the process ends.
pub trait SessionGrantStore: Send + Sync {
    /// Stores grants.
    fn keep(&self, session: &str, grants: &[SessionGrant]);
}

/// Grants by session.
#[derive(Default)]
pub(crate) struct Grants {
    sessions: Mutex<HashMap<String, OfSession>>,
    /// Where they are stored too, if sessions can be resumed.
    store: OnceLock<Arc<dyn SessionGrantStore>>,
}

#[derive(Debug, Default)]
struct OfSession {
    rules: Vec<Rule>,
    calls: HashSet<Digest>,
}

impl Grants {
    /// Keeps grants until the process ends; above the limit the next call asks again.
    pub(crate) fn keep(&self, session: &str, grants: Vec<SessionGrant>) {
        self.with(session, |kept| {
            for grant in grants {
                match grant {
                    SessionGrant::Rule(rule) => {
                        if kept.rules.len() < MAX_KEPT && !kept.rules.contains(&rule) {
                            kept.rules.push(*rule);
                        }
                    }
                    SessionGrant::Call(digest) => {
                        if kept.calls.len() < MAX_KEPT {
                            kept.calls.insert(digest);
                        }
                    }
                }
            }
        });
    }

    /// Stores grants with their session, if it can be resumed.
    pub(crate) fn store(&self, session: &str, grants: &[SessionGrant]) {
        if let Some(store) = self.store.get() {
            store.keep(session, grants);
        }
    }

    /// Stores the grants of later answers too. The first store counts.
    pub(crate) fn store_to(&self, store: Arc<dyn SessionGrantStore>) {
        let _ = self.store.set(store);
    }

    fn with(&self, session: &str, work: impl FnOnce(&mut OfSession)) {
        let mut all = self.locked();
        if all.contains_key(session) || all.len() < MAX_SESSIONS {
            work(all.entry(session.to_owned()).or_default());
        }
    }

    /// Returns whether the grants of its session cover an asking call.
    pub(crate) fn cover(&self, session: &str, call: &Judged, digest: &Digest) -> bool {
        let all = self.locked();
        all.get(session).is_some_and(|kept| {
            call.covered_by(&kept.rules).is_some()
                || (kept.calls.contains(digest) && call.can_be_granted_as_it_is())
        })
    }

    /// Returns a call with its ruling after the session's grants; `digest` is that of a call that asks.
    pub(crate) fn applied(&self, session: &str, call: Judged, digest: Option<&Digest>) -> Judged {
        let all = self.locked();
        let Some(kept) = all.get(session) else { return call };
        let call = call.granted(&kept.rules);
        let is_kept = digest.is_some_and(|digest| kept.calls.contains(digest));
        if is_kept { call.granted_as_it_is() } else { call }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, OfSession>> {
        lock(&self.sessions)
    }
}
