//! The processes below one, as `/proc` shows them.
#![expect(clippy::disallowed_methods, reason = "the guard may look at the system")]

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// Sends a signal to every process below this one, the deepest last, as well as that can be done
/// while they come and go.
pub(super) fn signal_all_below(signal: Signal) {
    for pid in below(std::process::id()) {
        if let Some(pid) = Pid::from_raw(pid) {
            let _ = kill_process(pid, signal);
        }
    }
}

/// Kills the direct children of this process but those that are spared. Their children become its own, so that repeating this
/// reaches every process below. A child's number is not given out again before this process has
/// waited for it, so no other process is hit.
pub(super) fn kill_children(is_spared: impl Fn(Pid) -> bool) {
    let own = std::process::id().cast_signed();
    for (pid, parent) in table() {
        if let Some(pid) = Pid::from_raw(pid).filter(|pid| parent == own && !is_spared(*pid)) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Returns the processes below one that have not ended, parents first.
fn below(top: u32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (pid, parent) in table() {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut next = vec![top.cast_signed()];
    while let Some(pid) = next.pop() {
        let of = children.remove(&pid).unwrap_or_default();
        found.extend(&of);
        next.extend(of);
    }
    found
}

/// Returns every process that has not ended, with its parent.
fn table() -> Vec<(i32, i32)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect()
}

/// Counts the threads of a user: what the kernel compares with its limit of processes.
pub(super) fn n_threads_of(user: u32) -> u64 {
    let of = |pid: i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        field("Threads:").filter(|_| field("Uid:") == Some(u64::from(user)))
    };
    table().into_iter().filter_map(|(pid, _)| of(pid)).sum()
}

/// Reads the parent of a process that has not ended.
fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let ended = matches!(fields.next()?, "Z" | "X");
    if ended { None } else { fields.next()?.parse().ok() }
}
