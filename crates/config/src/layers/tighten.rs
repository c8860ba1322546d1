//! Accepts a value from a layer that can only tighten if it is at least as strict as the one before.
//! A key whose values have no order keeps its value.

use serde_json::Value;

use super::super::serve;
use super::keys::{KEYS, Tightens};
use super::words;
use crate::context_window::tokens_for_reply;

/// Returns the value if it tightens, else `None`.
pub(super) fn tightened(name: &str, old: Option<&Value>, new: Value) -> Option<Value> {
    let row = KEYS.iter().find(|key| key.name == name);
    let tightens = match row.map_or(Tightens::Unordered, |key| key.tightens) {
        // Each layer adds to these before it comes to this question.
        Tightens::Unordered | Tightens::Added => old == Some(&new),
        Tightens::ToTrue => new == Value::Bool(true),
        Tightens::ToFalse => new == Value::Bool(false),
        Tightens::ToTrueUnlessOff => new == Value::Bool(true) && old != Some(&Value::Bool(false)),
        Tightens::To(word) => new.as_str() == Some(word),
        Tightens::Word(loosest_first, usual) => {
            let strength = |word: &Value| strength(loosest_first, word);
            let new = strength(&new);
            new.is_some() && old.map_or(strength(&Value::from(usual)), strength) <= new
        }
        // An allow list narrows only if none was set before.
        Tightens::FirstList => {
            let was_empty = old.and_then(Value::as_array).is_none_or(Vec::is_empty);
            was_empty || old == Some(&new)
        }
        Tightens::AtMost => {
            let old = old.and_then(Value::as_u64).or(smallest_default(name));
            old.zip(new.as_u64()).is_none_or(|(old, new)| new <= old)
        }
        Tightens::Serves => {
            let old = old.map(words);
            serve::narrows(old.as_deref(), &words(&new))
        }
    };
    tightens.then_some(new)
}

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
                "tools.exec.timeout" => files.command_timeout_s?.cast_unsigned(),
                _ => return None,
            })
        })
        .min()
}
