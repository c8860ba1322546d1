//! Words for the old and the current state of a path.

use std::time::Instant;

use sinew_tool::{RestoreAct, Was, line_name};

use crate::diff::{self, DiffLimits};

/// The largest content that is compared line by line.
pub(crate) const MAX_COMPARED: u64 = 1 << 20;

/// One side of a comparison: its state, and its content where small enough.
#[derive(Debug)]
pub struct Side<'a> {
    /// The state.
    pub was: &'a Was,
    /// The content of a file.
    pub content: Option<Vec<u8>>,
}

/// Returns the state of a path in words.
pub(crate) fn words(was: &Was) -> String {
    match was {
        Was::Absent => String::from("nothing"),
        Was::File { size, mode, .. } => format!("a file of {size} bytes, mode {mode:o}"),
        Was::Unkept => String::from("a file that was too large to be kept"),
        Was::Link(target) => format!("a symbolic link to {}", line_name(target)),
        Was::Directory { mode } => format!("a directory, mode {mode:o}"),
        Was::Special => String::from("a FIFO, socket or device"),
        Was::Rebuilt => String::from("a directory that tools make anew"),
        Was::SetAside(to) => format!("nothing: a restore moved it to {}", line_name(to)),
    }
}

/// Returns one word for the change of a path by a call.
pub(crate) fn deed(before: &Was, after: Option<&Was>) -> &'static str {
    match (before, after) {
        (Was::Absent, Some(Was::Absent)) => "unchanged",
        (_, Some(Was::SetAside(_))) => "set aside",
        (Was::Absent, _) => "created",
        (_, Some(Was::Absent)) => "removed",
        _ => "changed",
    }
}

/// The word for a directory that a restore moves out of the way.
pub(crate) const SET_ASIDE: &str = "set aside";

/// Returns one word for a step of a restore.
pub(crate) fn act(act: RestoreAct, now: &Was) -> &'static str {
    match act {
        RestoreAct::SetAside => SET_ASIDE,
        RestoreAct::BringBack => "bring back",
        RestoreAct::Remove => "remove",
        RestoreAct::RemoveDirectory => "remove if empty",
        RestoreAct::MakeDirectory if matches!(now, Was::Directory { .. }) => "restore mode",
        RestoreAct::MakeDirectory => "make directory",
        RestoreAct::Write if matches!(now, Was::Absent) => "bring back",
        RestoreAct::Write => "restore",
        RestoreAct::MakeLink => "link",
        RestoreAct::Nothing => "keep",
    }
}

/// Returns what a call changed at a path, as a diff where both sides are text. It need not be the shortest after `until`.
pub fn call_difference(
    shown: &str,
    before: &Side<'_>,
    after: &Side<'_>,
    until: Option<Instant>,
) -> String {
    difference(shown, before, after, DiffLimits::dry_run(until))
}

/// Returns how one side differs from the other, as a diff where both are text.
pub(crate) fn difference(
    shown: &str,
    old: &Side<'_>,
    new: &Side<'_>,
    limits: DiffLimits,
) -> String {
    let mut text = String::new();
    match (old.was, new.was) {
        (Was::File { mode: old, .. }, Was::File { mode: new, .. }) if old != new => {
            text.push_str(&format!("mode {old:o} to {new:o}: {shown}\n"));
        }
        _ => {}
    }
    let is_text = |side: &Side<'_>| match (side.was, &side.content) {
        (Was::Absent, _) => true,
        (Was::File { .. }, Some(content)) => memchr::memchr(0, content).is_none(),
        _ => false,
    };
    let is_file = |was: &Was| matches!(was, Was::File { .. });
    if (is_file(old.was) || is_file(new.was)) && is_text(old) && is_text(new) {
        let content = |side: &Side<'_>| side.content.clone().unwrap_or_default();
        let lines = diff::of_contents(&content(old), &content(new), limits);
        let name = |was: &Was| if is_file(was) { shown.to_owned() } else { "/dev/null".to_owned() };
        if !lines.is_empty() || old.was == &Was::Absent || new.was == &Was::Absent {
            text.push_str(&format!("--- {}\n+++ {}\n{lines}", name(old.was), name(new.was)));
        }
    } else if old.was != new.was {
        text.push_str(&format!("{shown}: {} becomes {}\n", words(old.was), words(new.was)));
    }
    text
}
