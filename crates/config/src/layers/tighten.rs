//! Accepts a value from a layer that can only tighten if it is at least as strict as the one before.
//! A key whose values have no order keeps its value.

use serde_json::Value;

use super::super::serve;
use super::words;
use crate::context_window::tokens_for_reply;

/// Returns the value if it tightens, else `None`.
pub(super) fn tightened(key: &str, old: Option<&Value>, new: Value) -> Option<Value> {
    let number = |value: &Value| value.as_u64();
    match key {
        "read_only"
        | "tools.fs.require_approval"
        | "tools.fs.track_reads"
        | "tools.fs.must_read_before_write" => (new == Value::Bool(true)).then_some(new),
        // If the user turned this off, a change that can be undone would run unasked.
        "tools.fs.checkpoint_before_mutation" => {
            (new == Value::Bool(true) && old != Some(&Value::Bool(false))).then_some(new)
        }
        "approvals" => {
            (old.and_then(|old| strength(MODES, old)) <= strength(MODES, &new)).then_some(new)
        }
        "profile" => {
            let is_known = strength(PROFILES, &new).is_some();
            let old = old.map_or(Some(1), |old| strength(PROFILES, old));
            (is_known && old <= strength(PROFILES, &new)).then_some(new)
        }
        // An allow list narrows only if none was set before.
        "tools.fs.allow_paths" | "tools.policy.allow" => {
            let was_empty = old.and_then(Value::as_array).is_none_or(Vec::is_empty);
            (was_empty || old == Some(&new)).then_some(new)
        }
        "files.glob_limit"
        | "files.grep_limit"
        | "files.list_limit"
        | "files.search_timeout_ms"
        | "tools.fs.max_read_bytes"
        | "tools.fs.context_window_tokens"
        | "mcp.max_line_bytes" => {
            // Without a value the dialect's limit counts, so a number must be below that of every dialect.
            let old = old.and_then(number).or(smallest_default(key));
            match (old, number(&new)) {
                (Some(old), Some(new_number)) if old < new_number => None,
                _ => Some(new),
            }
        }
        "run.require_sandbox" => {
            let old = old.map_or(Some(0), |old| strength(LEVELS, old));
            let stricter = strength(LEVELS, &new);
            (stricter.is_some() && old <= stricter).then_some(new)
        }
        "run.network" => (new == Value::Bool(false)).then_some(new),
        "ledger.mode" => (new.as_str() == Some("sqlite")).then_some(new),
        "files.hard_links" | "ledger.on_failure" => (new.as_str() == Some("refuse")).then_some(new),
        "files.sync" => {
            let strength = |value: &Value| strength(&["off", "data", "full"], value);
            (old.and_then(strength) <= strength(&new)).then_some(new)
        }
        "serve" => {
            let old = old.map(words);
            serve::narrows(old.as_deref(), &words(&new)).then_some(new)
        }
        // Only `reject` shows nothing of a binary file.
        "tools.fs.binary_policy" => (new.as_str() == Some("reject")).then_some(new),
        // Other keys keep their value: a dialect has its own rules and limits.
        _ => (old == Some(&new)).then_some(new),
    }
}

/// The approval modes, the loosest first.
pub(super) const MODES: &[&str] = &["allow", "trust-client", "auto", "ask", "deny"];
/// The profiles, the loosest first.
pub(super) const PROFILES: &[&str] = &["full", "workspace", "read-only"];

/// The modes of `ledger.on_failure`, the loosest first.
pub(super) const FAILURES: &[&str] = &["continue", "refuse"];
/// The modes of `ledger.sync`, the loosest first.
pub(super) const SYNCS: &[&str] = &["normal", "full"];
/// The sandbox levels, the loosest first.
pub(super) const LEVELS: &[&str] = &["none", "landlock", "bubblewrap", "namespaces"];

/// Returns the index of a word in a list that starts with the loosest.
pub(super) fn strength(words: &[&str], word: &Value) -> Option<usize> {
    words.iter().position(|known| Some(*known) == word.as_str())
}

/// Returns the smallest default limit of all dialects.
fn smallest_default(key: &str) -> Option<u64> {
    let defaults = sinew_dialects::ALL.iter().map(|dialect| (dialect.settings)());
    defaults
        .filter_map(|files| {
            Some(match key {
                "files.glob_limit" => files.glob_limit as u64,
                "files.grep_limit" => files.grep_limit as u64,
                "files.list_limit" => files.list_limit as u64,
                "files.search_timeout_ms" => files.search_timeout_ms,
                "tools.fs.max_read_bytes" => files.max_read_bytes?,
                "tools.fs.context_window_tokens" => tokens_for_reply(files.read_reply_bytes),
                _ => return None,
            })
        })
        .min()
}
