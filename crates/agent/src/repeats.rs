//! Notices calls that a model makes again and again: the same arguments with the same result.
//!
//! A call whose result differs is no repetition, and a change of a file makes every later result a new one.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::message::ToolCall;

/// From so many identical calls on, the result says so.
const NOTICED: u32 = 3;
/// So many identical calls end the turn; the last of them does not run.
const STOPPED: u32 = 5;

/// How the note of a repeated call begins.
const NOTE: &str = "[this call was made ";

/// The calls of a turn.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    /// The calls, by the hash of name and arguments.
    seen: HashMap<u64, Seen>,
}

/// A call that was made.
#[derive(Debug, Default)]
struct Seen {
    /// The hash of its last result.
    outcome: u64,
    /// How often it had this result.
    n_times: u32,
    /// How many of it run now, side by side.
    n_running: u32,
}

impl Repeats {
    /// Returns whether a call was repeated so often that it does not run again. Those that run now count as repeated.
    pub(crate) fn is_stopped(&self, call: &ToolCall) -> bool {
        self.seen.get(&key(call)).is_some_and(|seen| STOPPED <= seen.n_times + seen.n_running + 1)
    }

    /// Notes that a call begins.
    pub(crate) fn begin(&mut self, call: &ToolCall) {
        self.seen.entry(key(call)).or_default().n_running += 1;
    }

    /// Counts a call that ended. Returns a note for the model where it is repeated.
    ///
    /// Notes in brackets at the end of its result do not count: some of them say how often the call was made.
    pub(crate) fn count(&mut self, call: &ToolCall, said: &str, changes: bool) -> Option<String> {
        if changes {
            self.seen.retain(|_, seen| 0 < seen.n_running);
            self.seen.values_mut().for_each(|seen| seen.n_times = 0);
        }
        let outcome = hashed(&without_notes(said));
        let seen = self.seen.entry(key(call)).or_default();
        seen.n_running = seen.n_running.saturating_sub(1);
        if seen.outcome != outcome {
            (seen.outcome, seen.n_times) = (outcome, 0);
        }
        seen.n_times += 1;
        let n_times = seen.n_times;
        (NOTICED <= n_times).then(|| {
            format!("{NOTE}{n_times} times with this result; do something else, or answer]")
        })
    }

    /// Returns a result without the note of [`Repeats::count`].
    pub(crate) fn without_note(text: &str) -> &str {
        match text.rsplit_once("\n\n") {
            Some((before, note)) if note.starts_with(NOTE) => before,
            _ => text,
        }
    }

    /// Returns the result in place of a call that does not run.
    pub(crate) fn stopped(call: &ToolCall) -> String {
        format!(
            "not run: {} was called {} times with the same arguments and the same result; answer with what you know",
            call.name,
            STOPPED - 1
        )
    }
}

/// Returns a result without the lines in brackets at its end.
fn without_notes(mut said: &str) -> &str {
    loop {
        said = said.trim_end();
        let line = said.rsplit('\n').next().unwrap_or_default();
        let is_note = line.starts_with('[') && line.ends_with(']') && line.len() < said.len();
        match said.strip_suffix(line).filter(|_| is_note) {
            Some(before) => said = before,
            None => return said,
        }
    }
}

fn key(call: &ToolCall) -> u64 {
    hashed(&(call.full_name(), call.arguments.trim()))
}

fn hashed(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: &str) -> ToolCall {
        ToolCall {
            id: String::new(),
            name: String::from("Bash"),
            namespace: None,
            arguments: arguments.to_owned(),
        }
    }

    #[test]
    fn identical_calls_are_noticed_and_stopped() {
        let mut repeats = Repeats::default();
        let notes: Vec<bool> = (0..4)
            .map(|_| {
                assert!(!repeats.is_stopped(&call("{}")));
                repeats.count(&call("{}"), "x", false).is_some()
            })
            .collect();
        assert_eq!(notes, [false, false, true, true]);
        assert!(repeats.is_stopped(&call(" {}")) && !repeats.is_stopped(&call("{\"a\":1}")));
    }

    #[test]
    fn identical_calls_side_by_side_count() {
        let mut repeats = Repeats::default();
        let ran = (0..10).filter(|_| {
            let runs = !repeats.is_stopped(&call("{}"));
            if runs {
                repeats.begin(&call("{}"));
            }
            runs
        });
        assert_eq!(ran.count(), 4);
        for _ in 0..4 {
            repeats.count(&call("{}"), "x", false);
        }
        assert!(repeats.is_stopped(&call("{}")));
        // A change makes every result a new one, also while others run.
        repeats.begin(&call("run"));
        repeats.count(&call("edit"), "ok", true);
        assert!(!repeats.is_stopped(&call("{}")));
        repeats.count(&call("run"), "x", false);
        assert_eq!(repeats.seen[&key(&call("run"))].n_running, 0);
    }

    #[test]
    fn other_results_and_changes_are_progress() {
        let mut repeats = Repeats::default();
        for n in 0..10 {
            assert_eq!(repeats.count(&call("poll"), &n.to_string(), false), None);
            assert_eq!(repeats.count(&call("test"), "1 failed", false), None);
            assert_eq!(repeats.count(&call(&format!("edit {n}")), "ok", true), None);
        }
        // Notes may count.
        let mut repeats = Repeats::default();
        for n in 0..4 {
            repeats.count(&call("read"), &format!("x\n[read {n} times in a row]\n"), false);
        }
        assert!(repeats.is_stopped(&call("read")));
        // Calls in turns are repeated calls.
        let mut repeats = Repeats::default();
        for _ in 0..4 {
            for arguments in ["a", "b"] {
                repeats.count(&call(arguments), "x", false);
            }
        }
        assert!(repeats.is_stopped(&call("a")) && repeats.is_stopped(&call("b")));
    }
}
