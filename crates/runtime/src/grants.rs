//! What was answered for more than one call.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use sinew_guard::{Judged, Rule};
use sinew_tool::ToolError;
use sinew_tool::sync::lock;

use crate::broker::Digest;

/// The most rules, and the most calls, that one session keeps.
const MAX_KEPT: usize = 1_000;
/// The most sessions that have any.
const MAX_SESSIONS: usize = 10_000;

/// Keeps what somebody granted for ever.
pub trait GrantStore: Send + Sync {
    /// Keeps rules that allow, for these roots and every session after this one.
    fn keep(&self, rules: &[Rule]) -> Result<(), ToolError>;
}

/// What somebody granted, by session. It ends with the process.
#[derive(Debug, Default)]
pub(crate) struct Grants(Mutex<HashMap<String, OfSession>>);

#[derive(Debug, Default)]
struct OfSession {
    rules: Vec<Rule>,
    calls: HashSet<Digest>,
}

impl Grants {
    /// Keeps rules for a session. Where there are too many, the next call asks again.
    pub(crate) fn keep(&self, session: &str, rules: Vec<Rule>) {
        self.with(session, |kept| {
            for rule in rules {
                if kept.rules.len() < MAX_KEPT && !kept.rules.contains(&rule) {
                    kept.rules.push(rule);
                }
            }
        });
    }

    /// Keeps one call for a session, with the arguments that it has.
    pub(crate) fn keep_call(&self, session: &str, digest: Digest) {
        self.with(session, |kept| {
            if kept.calls.len() < MAX_KEPT {
                kept.calls.insert(digest);
            }
        });
    }

    fn with(&self, session: &str, work: impl FnOnce(&mut OfSession)) {
        let mut all = self.locked();
        if all.contains_key(session) || all.len() < MAX_SESSIONS {
            work(all.entry(session.to_owned()).or_default());
        }
    }

    /// Returns whether what its session was granted covers a call that asks.
    pub(crate) fn cover(&self, session: &str, call: &Judged, digest: &Digest) -> bool {
        let all = self.locked();
        all.get(session).is_some_and(|kept| {
            call.covered_by(&kept.rules).is_some()
                || (kept.calls.contains(digest) && call.can_be_granted())
        })
    }

    /// Returns a call with the ruling that it has once what its session was granted counts.
    pub(crate) fn applied(&self, session: &str, call: Judged, digest: &Digest) -> Judged {
        let all = self.locked();
        match all.get(session) {
            None => call,
            Some(kept) if kept.calls.is_empty() => call.granted(&kept.rules),
            Some(kept) => {
                let is_kept = call.can_be_granted() && kept.calls.contains(digest);
                if is_kept { call.granted_as_it_is() } else { call.granted(&kept.rules) }
            }
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, OfSession>> {
        lock(&self.0)
    }
}
