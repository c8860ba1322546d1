//! The processes below one, as `/proc` shows them: the last resort for ending a command.
//!
//! Processes fork while `/proc` is read, so one pass may miss some. Each is killed as soon as it is found,
//! and passes are repeated until one finds nothing. Nothing is waited for meanwhile: a killed process holds
//! its share of the limit of processes, so the others cannot go on forking. Without such a limit this may
//! not come to an end.
#![expect(clippy::disallowed_methods, reason = "the guard may look at the system")]

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Dir, Mode, OFlags, openat};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, pidfd_send_signal,
    waitid,
};

/// How many processes there is memory for before the first is killed.
const N_PREPARED: usize = 8_192;
/// How long a line of `/proc/PID/stat` may be.
const MAX_STAT_BYTES: usize = 1_024;
/// How many passes look at the children alone before one reads all of `/proc`, where there are any.
const CHILDREN_ALONE: u32 = 64;
/// How long the processes that were killed get until the next pass.
const PAUSE: Duration = Duration::from_millis(1);

/// The processes below this one. What it takes to kill them is allocated before there are any.
#[derive(Debug)]
pub(super) struct ProcessTree {
    /// `/proc`, opened while there are descriptors.
    proc: Option<OwnedFd>,
    /// The threads of this process, whose children `hidepid` does not hide.
    threads: Option<OwnedFd>,
    /// The processes that a pass has found.
    below: HashSet<i32>,
}

impl ProcessTree {
    pub(super) fn new() -> Self {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |path| openat(CWD, path, flags, Mode::empty()).ok();
        Self {
            proc: open("/proc"),
            threads: open("/proc/self/task"),
            below: HashSet::with_capacity(N_PREPARED),
        }
    }

    /// Sends a signal to every process below this one, as far as the time lasts.
    pub(super) fn signal(&mut self, signal: Signal, until: Instant) {
        self.below.clear();
        self.signal_children(signal, &|_| false);
        self.signal_shown(signal, &|_| false, until);
    }

    /// Kills every process below this one but the trees of those children that are spared, until a pass finds
    /// none or the time is over; returns whether the last pass found one.
    pub(super) fn kill(&mut self, is_spared: &dyn Fn(Pid) -> bool, until: Instant) -> bool {
        for n in 1_u32.. {
            self.below.clear();
            // To list the children takes little of a processor that a bomb uses up, and what they leave become
            // children in their turn. To read all of `/proc` takes much, and reaches the whole tree.
            let mut is_any = self.signal_children(Signal::KILL, is_spared);
            if !is_any || n.is_multiple_of(CHILDREN_ALONE) {
                is_any |= self.signal_shown(Signal::KILL, is_spared, until);
            }
            if !is_any || until <= Instant::now() {
                return is_any;
            }
            std::thread::sleep(PAUSE);
        }
        true
    }

    /// Sends a signal to each process below this one that `/proc` shows after its parent, as those that are
    /// older; returns whether there was one.
    fn signal_shown(
        &mut self,
        signal: Signal,
        is_spared: &dyn Fn(Pid) -> bool,
        until: Instant,
    ) -> bool {
        let own = std::process::id().cast_signed();
        let Some(proc) = &self.proc else { return false };
        let Ok(dir) = Dir::read_from(proc) else { return false };
        for entry in dir.filter_map(Result::ok) {
            let number = entry.file_name().to_str().ok().and_then(|name| name.parse().ok());
            let Some(pid) = number.and_then(Pid::from_raw) else { continue };
            // Opened before it is looked at: the PID may be given to another process afterwards.
            let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            let number = pid.as_raw_nonzero().get();
            let Some(parent) = parent(proc, number) else { continue };
            if self.below.contains(&parent) || (parent == own && !is_spared(pid)) {
                self.below.insert(number);
                let _ = pidfd_send_signal(&process, signal);
            }
            if until <= Instant::now() {
                break;
            }
        }
        !self.below.is_empty()
    }
}

impl ProcessTree {
    /// Sends a signal to each child of this process, from lists that hold those too that `/proc` hides: with
    /// `hidepid` a process that may not be traced. What a killed one leaves becomes a child of this process.
    /// Returns whether there was one.
    fn signal_children(&mut self, signal: Signal, is_spared: &dyn Fn(Pid) -> bool) -> bool {
        let Some(threads) = &self.threads else { return false };
        let Ok(dir) = Dir::read_from(threads) else { return false };
        let mut list = String::new();
        for entry in dir.filter_map(Result::ok) {
            let Ok(thread) = entry.file_name().to_str() else { continue };
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let file = openat(threads, format!("{thread}/children"), flags, Mode::empty());
            list.clear();
            let Ok(_) = file.map(|file| File::from(file).read_to_string(&mut list)) else {
                continue;
            };
            let children = list.split_whitespace().filter_map(|number| number.parse().ok());
            for child in children.filter_map(Pid::from_raw).filter(|child| !is_spared(*child)) {
                // This process waits for its children: until then their PIDs are theirs.
                if has_not_ended(child) && kill_process(child, signal).is_ok() {
                    self.below.insert(child.as_raw_nonzero().get());
                }
            }
        }
        !self.below.is_empty()
    }
}

/// Returns whether a child still runs, without waiting for it.
fn has_not_ended(child: Pid) -> bool {
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(child), ended), Ok(None))
}

/// Returns the parent of a process that has not ended.
fn parent(proc: &OwnedFd, pid: i32) -> Option<i32> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = openat(proc, format!("{pid}/stat"), flags, Mode::empty()).ok()?;
    let mut text = [0; MAX_STAT_BYTES];
    let n = File::from(file).read(&mut text).ok()?;
    parent_in(text.get(..n)?)
}

/// Reads `/proc/PID/stat` (proc_pid_stat(5)): the name of the program may hold any bytes.
fn parent_in(stat: &[u8]) -> Option<i32> {
    let end_of_name = memchr::memrchr(b')', stat)?;
    let fields = std::str::from_utf8(stat.get(end_of_name + 2..)?).ok()?;
    let mut fields = fields.split(' ');
    let ended = matches!(fields.next()?, "Z" | "X");
    if ended { None } else { fields.next()?.parse().ok() }
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
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| of(entry.file_name().to_str()?.parse().ok()?)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parent_is_read_past_the_name() {
        let check = |stat: &str, expected: Option<i32>| {
            assert_eq!(parent_in(stat.as_bytes()), expected, "{stat}");
        };
        check("7 (sh) S 3 5 5 0 -1", Some(3));
        check("7 (a) R 9) T 3 5 5 0 -1", Some(3));
        check("7 (sh) Z 3 5 5 0 -1", None);
        check("7 (sh) S", None);
        check("7 (sh)", None);
        check("7 (sh", None);
        check("", None);
    }
}
