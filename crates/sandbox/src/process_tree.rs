//! Lists the processes below this one by the `children` files of `/proc`, to kill them: the last resort.
//!
//! Processes fork while lists are read, so one pass may miss some. Each is killed when found, and passes
//! repeat until one finds none. No killed process is reaped meanwhile: a zombie holds its share of the
//! process limit, so the others cannot fork on. Without such a limit the passes may never end.
//!
//! Only lists are read, never the state of a process. That read waits for locks, whose holder gets little of
//! a processor under a fork bomb.
#![expect(clippy::disallowed_methods, reason = "the guard may look at the system")]

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Dir, Mode, OFlags, openat};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, pidfd_send_signal,
    waitid,
};

/// The memory for a list before the first process is killed, in bytes.
const PREPARED_BYTES: usize = 65_536;
/// How many generations one pass reaches. Later ones become children when their parents are killed.
const MAX_GENERATIONS: u32 = 16;
/// How many processes of one list are held at once: each needs an fd.
const AT_ONCE: usize = 32;
/// The pause between two passes.
const PAUSE: Duration = Duration::from_millis(1);

/// The processes below this one. `/proc` is opened before there are any.
#[derive(Debug)]
pub(super) struct ProcessTree {
    proc: Option<OwnedFd>,
    /// The threads of this process, whose children `hidepid` shows. `None` if the kernel has no lists.
    threads: Option<OwnedFd>,
    /// The buffer for the last list.
    list: String,
}

/// Returns whether the kernel lists the children of a process (`CONFIG_PROC_CHILDREN`).
pub(super) fn has_lists() -> bool {
    fs::exists(format!("/proc/self/task/{}/children", std::process::id())).unwrap_or(false)
}

/// One pass over the processes below.
struct Pass<'a> {
    /// Sent to each process, in this order.
    signals: &'a [Signal],
    /// Whether to list the children of all threads, not of the first alone. That takes longer, and a kill of
    /// the parent reveals its children anyway.
    of_all_threads: bool,
    until: Instant,
}

impl Pass<'_> {
    fn is_over(&self) -> bool {
        self.until <= Instant::now()
    }
}

impl ProcessTree {
    pub(super) fn new() -> Self {
        Self {
            proc: open_directory(CWD, "/proc"),
            threads: open_directory(CWD, "/proc/self/task").filter(|_| has_lists()),
            list: String::with_capacity(PREPARED_BYTES),
        }
    }

    /// Sends SIGTERM and SIGCONT to every process below this one, until the time is over.
    pub(super) fn terminate(&mut self, until: Instant) {
        let signals = &[Signal::TERM, Signal::CONT];
        self.signal(&Pass { signals, of_all_threads: true, until }, &|_| false);
    }

    /// Kills every process below this one except the trees of spared children, until a pass finds none or the
    /// time is over. Returns whether the last pass found one or failed.
    pub(super) fn kill(&mut self, is_spared: &dyn Fn(Pid) -> bool, until: Instant) -> bool {
        let pass = Pass { signals: &[Signal::KILL], of_all_threads: false, until };
        loop {
            let is_any = self.signal(&pass, is_spared);
            if !is_any || pass.is_over() {
                return is_any;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns the children of this process, as far as they are listed.
    pub(super) fn own_children(&mut self) -> Vec<Pid> {
        let mut children = Vec::new();
        if let Some(threads) = &self.threads {
            let _ = append_children(threads, &mut self.list, &mut children);
        }
        children
    }

    /// Returns the children of all threads of a process, as far as they are listed.
    pub(super) fn children_of(&mut self, parent: Pid) -> Vec<Pid> {
        self.children(parent, true)
    }

    /// Signals each child of this process, then its descendants; returns whether a child still ran or the
    /// list failed. Children of a killed process become children of this one.
    fn signal(&mut self, pass: &Pass<'_>, is_spared: &dyn Fn(Pid) -> bool) -> bool {
        let mut children = Vec::new();
        if let Some(threads) = &self.threads
            && append_children(threads, &mut self.list, &mut children).is_err()
        {
            // The system may be out of fds.
            return true;
        }
        // This process has not reaped its children, so their PIDs are still theirs.
        children.retain(|child| !is_spared(*child) && has_not_ended(*child));
        for child in &children {
            for signal in pass.signals {
                let _ = kill_process(*child, *signal);
            }
        }
        for child in children.iter().take_while(|_| !pass.is_over()) {
            self.signal_below(*child, None, pass, MAX_GENERATIONS);
        }
        !children.is_empty()
    }

    /// Signals each process below one that was signalled. That one is a child of this process, or its pidfd
    /// shows whether it still has its PID.
    fn signal_below(
        &mut self,
        parent: Pid,
        pidfd: Option<&OwnedFd>,
        pass: &Pass<'_>,
        generations: u32,
    ) {
        let listed = self.children(parent, pass.of_all_threads);
        for some in listed.chunks(AT_ONCE) {
            if generations == 0 || pass.is_over() {
                return;
            }
            let open = |pid: &Pid| Some((*pid, pidfd_open(*pid, PidfdFlags::empty()).ok()?));
            let opened: Vec<_> = some.iter().filter_map(open).collect();
            // A PID may have been reused before it was opened.
            let still = self.children(parent, pass.of_all_threads);
            if !pidfd.is_none_or(is_running) {
                return;
            }
            let is_still = |(pid, _): &&(Pid, OwnedFd)| still.contains(pid);
            for (_, child) in opened.iter().filter(is_still) {
                for signal in pass.signals {
                    let _ = pidfd_send_signal(child, *signal);
                }
            }
            for (pid, child) in opened.iter().filter(is_still) {
                self.signal_below(*pid, Some(child), pass, generations - 1);
            }
        }
    }

    fn children(&mut self, of: Pid, of_all_threads: bool) -> Vec<Pid> {
        let mut children = Vec::new();
        let Some(proc) = &self.proc else { return children };
        let of = of.as_raw_nonzero();
        if of_all_threads {
            if let Some(threads) = open_directory(proc, &format!("{of}/task")) {
                let _ = append_children(&threads, &mut self.list, &mut children);
            }
        } else {
            let path = format!("{of}/task/{of}/children");
            let _ = append_list(proc, &path, &mut self.list, &mut children);
        }
        children
    }
}

/// Appends the children of all threads in a `task` directory.
fn append_children(
    threads: &OwnedFd,
    list: &mut String,
    children: &mut Vec<Pid>,
) -> io::Result<()> {
    for entry in Dir::read_from(threads)? {
        let entry = entry?;
        let Ok(thread) = entry.file_name().to_str() else { continue };
        if thread.starts_with('.') {
            continue;
        }
        match append_list(threads, &format!("{thread}/children"), list, children) {
            // The thread ended.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            appended => appended?,
        }
    }
    Ok(())
}

fn append_list(
    at: &OwnedFd,
    path: &str,
    list: &mut String,
    children: &mut Vec<Pid>,
) -> io::Result<()> {
    let file = openat(at, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    list.clear();
    File::from(file).read_to_string(list)?;
    let numbers = list.split_whitespace().filter_map(|number| number.parse().ok());
    children.extend(numbers.filter_map(Pid::from_raw));
    Ok(())
}

fn open_directory(at: impl AsFd, path: &str) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(at, path, flags, Mode::empty()).ok()
}

/// Returns whether the process of a pidfd still runs.
fn is_running(pidfd: &OwnedFd) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&at_once)) == Ok(0)
}

/// Returns whether a child still runs, without reaping it.
fn has_not_ended(child: Pid) -> bool {
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(child), ended), Ok(None))
}

/// Counts the threads of a user, which the kernel compares with its process limit.
pub(super) fn n_threads_of(user: u32) -> u64 {
    let of = |pid: i32| {
        // The name of a process is any bytes.
        let status = fs::read(format!("/proc/{pid}/status")).ok()?;
        let status = String::from_utf8_lossy(&status);
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        field("Threads:").filter(|_| field("Uid:") == Some(u64::from(user)))
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| of(entry.file_name().to_str()?.parse().ok()?)).sum()
}
