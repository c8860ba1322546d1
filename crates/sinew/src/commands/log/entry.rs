//! One call of the log, as text and as JSON.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use sinew_guard::checkpoints::Listed;
use sinew_guard::{Record, timestamp};
use sinew_tool::{Kind, shown_line, shown_path};

use super::changes::CallChange;
use super::from_root;
use crate::commands::audit::{self, REFUSED};

/// The longest subject of a call, in characters.
const MAX_SUBJECT: usize = 100;
/// The most paths of a call that are shown.
const MAX_PATHS: usize = 10;

/// A call with its checkpoint.
pub(super) struct LoggedCall {
    /// When it ended, in milliseconds since 1970.
    pub(super) at_ms: u64,
    /// Its record in the audit log.
    pub(super) record: Option<Record>,
    /// The checkpoint with its changes.
    pub(super) checkpoint: Option<Listed>,
    /// Whether an undo took the change back, or a redo the undo.
    pub(super) is_undone: bool,
}

impl LoggedCall {
    /// Returns the ID of its checkpoint.
    pub(super) fn id(&self) -> String {
        self.checkpoint.as_ref().map_or_else(|| String::from("-"), |one| one.id.to_string())
    }

    /// Returns whether its record names changed files.
    pub(super) fn has_recorded_changes(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.number("bytes").is_some())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.record.as_ref().and_then(|record| record.text(name))
    }

    fn tool(&self) -> &str {
        let kept = self.checkpoint.as_ref().map(|one| one.mark.tool.as_str());
        self.text("tool").or(kept).unwrap_or_default()
    }

    /// Returns how it ended; `None` if it is not recorded.
    fn outcome(&self) -> Option<&str> {
        audit::state(self.record.as_ref()?).or(self.text("outcome"))
    }

    /// Returns in words what a restore restores.
    fn restores(&self) -> Option<String> {
        let checkpoint = self.checkpoint.as_ref()?;
        let id = checkpoint.mark.restores?;
        Some(match checkpoint.is_redo {
            true => format!("restores the state before undo {id}"),
            false => format!("restores the state before {id}"),
        })
    }

    /// Returns the first line of its command.
    fn command(&self) -> Option<String> {
        let command = self.text("command")?.trim();
        let first = command.lines().next().unwrap_or_default();
        let line = audit::short(&shown_line(first), MAX_SUBJECT);
        Some(if first.len() < command.len() && !line.ends_with('…') {
            line + " …"
        } else {
            line
        })
    }
}

/// The text of an entry, without its first columns.
#[derive(Debug, Default)]
pub(super) struct EntryLines {
    pub(super) head: String,
    /// How the call ended, and whether it was undone.
    pub(super) marks: Vec<String>,
    pub(super) lines: Vec<String>,
}

/// Returns the lines of an entry.
pub(super) fn lines(call: &LoggedCall, changes: &[CallChange], roots: &[PathBuf]) -> EntryLines {
    // The path of a file in a new directory shows the directory.
    let is_shown = |change: &&CallChange| {
        let is_in =
            |other: &CallChange| other.path != change.path && other.path.starts_with(&change.path);
        !(change.is_new_directory() && changes.iter().any(is_in))
    };
    let shown: Vec<&CallChange> = changes.iter().filter(is_shown).collect();
    let path = call.text("file_path").map(Path::new);
    let restores = call.restores();
    let mut left = shown.as_slice();
    let subject = match (call.command(), &restores, shown.as_slice()) {
        (Some(command), ..) => command,
        (None, Some(restores), _) => restores.clone(),
        (None, None, [one]) if path.is_none_or(|path| path == one.path) => {
            left = &[];
            one.file.words()
        }
        (None, None, []) => path.map(|path| shown_path(from_root(path, roots))).unwrap_or_default(),
        (None, None, several) => format!("{} paths", several.len()),
    };
    let ended = call.outcome().and_then(ended);
    let undone = match (call.is_undone, &restores) {
        (false, _) => None,
        (true, None) => Some(String::from("undone")),
        (true, Some(_)) => Some(String::from("taken back")),
    };
    let subject = Some(subject).filter(|subject| !subject.is_empty());
    let tool = shown_line(call.tool());
    let head = std::iter::once(tool).chain(subject).collect::<Vec<_>>().join(" ");
    let marks = ended.into_iter().chain(undone).collect();
    let mut lines = Vec::new();
    // A repository is one line: the user knows what git writes there.
    let is_of_git = |change: &&&CallChange| change.path.iter().any(|name| name == ".git");
    let (of_git, files): (Vec<&CallChange>, Vec<&CallChange>) =
        left.iter().copied().partition(|change| is_of_git(&change));
    lines.extend(files.iter().take(MAX_PATHS).map(|change| change.file.words()));
    if let Some(more @ 1..) = files.len().checked_sub(MAX_PATHS) {
        lines.push(format!("and {more} more"));
    }
    match of_git.as_slice() {
        [] => {}
        [one] => lines.push(one.file.words()),
        several => lines.push(format!(".git ({} files)", several.len())),
    }
    EntryLines { head, marks, lines }
}

/// Returns how a call ended in words, unless it succeeded.
fn ended(outcome: &str) -> Option<String> {
    let outcome = shown_line(outcome);
    Some(match Kind::from_word(&outcome) {
        _ if outcome == "ok" => return None,
        Some(kind) if kind.exit_code() == REFUSED => format!("denied: {kind}"),
        Some(Kind::Cancelled) | None => outcome,
        Some(kind) => format!("failed: {kind}"),
    })
}

/// Returns an entry as an object. Its keys are part of the API.
pub(super) fn object(
    call: &LoggedCall,
    changes: &[CallChange],
    diff: Option<String>,
) -> Map<String, Value> {
    let mark = call.checkpoint.as_ref().map(|one| &one.mark);
    let text = |name, kept: Option<&str>| json!(call.text(name).or(kept));
    let changes: Vec<Value> = changes
        .iter()
        .map(|CallChange { path, file, .. }| {
            json!({
                "path": path.to_string_lossy(), "change": file.change, "added": file.added,
                "removed": file.removed, "uncounted": file.uncounted,
            })
        })
        .collect();
    let record = call.record.as_ref();
    let restores = mark.and_then(|mark| mark.restores);
    let duration_us = record.and_then(|record| record.number("duration_us"));
    let all = [
        ("checkpoint", json!(call.checkpoint.as_ref().map(|one| one.id.to_string()))),
        ("at", json!(timestamp(call.at_ms))),
        ("seq", json!(record.map(|record| record.link.seq))),
        ("session", text("session", mark.map(|mark| mark.session.as_str()))),
        ("agent", text("agent", mark.and_then(|mark| mark.agent.as_deref()))),
        ("call_id", text("call_id", mark.map(|mark| mark.call_id.as_str()))),
        ("dialect", text("dialect", mark.map(|mark| mark.dialect.as_str()))),
        ("tool", json!(call.tool())),
        ("path", text("file_path", None)),
        ("command", text("command", None)),
        ("outcome", json!(call.outcome())),
        ("duration_ms", json!(duration_us.map(|us| us as f64 / 1e3))),
        ("changes", json!(changes)),
        ("undone", json!(call.is_undone)),
        ("restores", json!(restores.map(|id| id.to_string()))),
        ("redo", json!(call.checkpoint.as_ref().is_some_and(|one| one.is_redo))),
    ];
    let diff = diff.map(|diff| ("diff", json!(diff)));
    all.into_iter().chain(diff).map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Returns how long ago something happened.
pub(super) fn ago(now_ms: u64, at_ms: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    const MAX_DAYS: u64 = 60;
    let seconds = now_ms.saturating_sub(at_ms) / 1_000;
    if MAX_DAYS * 86_400 <= seconds {
        return timestamp(at_ms).chars().take("2026-01-31".len()).collect();
    }
    match UNITS.iter().find(|(unit, _)| *unit <= seconds) {
        None => String::from("just now"),
        Some((unit, name)) => match seconds / unit {
            1 => format!("1 {name} ago"),
            n => format!("{n} {name}s ago"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_told_from_now() {
        const NOW: u64 = 1_767_225_600_000;
        for (before_s, expected) in [
            (0, "just now"),
            (1, "1 second ago"),
            (59, "59 seconds ago"),
            (60, "1 minute ago"),
            (3_599, "59 minutes ago"),
            (7_200, "2 hours ago"),
            (86_400, "1 day ago"),
            (59 * 86_400, "59 days ago"),
            (60 * 86_400, "2025-11-02"),
        ] {
            assert_eq!(ago(NOW, NOW - before_s * 1_000), expected, "{before_s}");
        }
        // A clock that was put back.
        assert_eq!(ago(NOW, NOW + 5_000), "just now");
    }

    #[test]
    fn outcome_is_shown_unless_the_call_succeeded() {
        for (outcome, expected) in [
            ("ok", None),
            ("policy_denied", Some("denied: policy_denied")),
            ("not_found", Some("failed: not_found")),
            ("cancelled", Some("cancelled")),
            ("never ended", Some("never ended")),
            ("\u{1b}[2J", Some("\\u{1b}[2J")),
        ] {
            assert_eq!(ended(outcome).as_deref(), expected, "{outcome}");
        }
    }
}
