//! What was answered for the rest of a session.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use sinew_guard::{CommandPattern, Judged};

/// The most patterns that one session keeps.
const MAX_PATTERNS: usize = 1_000;
/// The most sessions that have any.
const MAX_SESSIONS: usize = 10_000;

/// Patterns of commands that somebody granted, by session. They end with the process.
#[derive(Debug, Default)]
pub(crate) struct Grants(Mutex<HashMap<String, Vec<CommandPattern>>>);

impl Grants {
    /// Keeps patterns for a session. Where there are too many, the next call asks again.
    pub(crate) fn keep(&self, session: &str, patterns: Vec<CommandPattern>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains_key(session) && MAX_SESSIONS <= all.len() {
            return;
        }
        let kept = all.entry(session.to_owned()).or_default();
        for pattern in patterns {
            if kept.len() < MAX_PATTERNS && !kept.contains(&pattern) {
                kept.push(pattern);
            }
        }
    }

    /// Returns a call with the ruling that it has once what its session was granted counts.
    pub(crate) fn applied(&self, session: &str, call: Judged) -> Judged {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(session) {
            Some(granted) => call.granted(granted),
            None => call,
        }
    }
}
