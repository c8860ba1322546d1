//! Looks at what all processes of a running command use together, and says when it is too much: memory above a bound, or
//! free space below a floor. The supervisor then ends the command.
//!
//! The kernel bounds single processes alone where sinew may not make a cgroup, and a disk that a command fills hurts all
//! programs. A command gets its first look after a quarter of a second, so most never get one.
#![expect(clippy::disallowed_methods, reason = "the guard may look at the system")]

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::statfs;
use rustix::process::Pid;
use rustix::system::sysinfo;
use serde::{Deserialize, Serialize};

use super::process_tree::ProcessTree;

/// The time before the first look, and between two.
const PAUSE: Duration = Duration::from_millis(250);
/// The time between two looks at a command that holds half of its bound.
const SHORT_PAUSE: Duration = Duration::from_millis(50);
/// A look at many processes takes long. It may take one part in so many of the time.
const SHARE: u32 = 20;
/// Which part of the machine's memory a command may hold by default: the rest keeps the machine usable.
const PART_OF_MACHINE: (u64, u64) = (7, 8);
/// Where a container reads the limit of its memory, in both versions of cgroups.
const CONTAINER_LIMITS: [&str; 2] =
    ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
/// The magic numbers of file systems of other machines, statfs(2): their answer may never come. NFS, SMB (3), 9P, Ceph,
/// AFS, and what programs serve (FUSE).
const REMOTE: [u64; 8] =
    [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x00c3_6400, 0x5346_414f, 0x6573_5546];

/// Limits of what all processes of a command use together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageLimits {
    /// The memory that they may hold, in bytes; `None`: seven eighths of that of the machine or container.
    pub memory_bytes: Option<u64>,
    /// The free space below which a running command is ended, in bytes. Where less than twice that is free when it
    /// starts, half of what is free then.
    pub min_free_disk_bytes: u64,
}

impl Default for UsageLimits {
    fn default() -> Self {
        Self { memory_bytes: None, min_free_disk_bytes: 512 << 20 }
    }
}

/// What a command used too much of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Exhausted {
    /// Its processes held this much memory, and so much is the most, in bytes.
    Memory(u64, u64),
    /// This directory had so much free space left, and so much is the least, in bytes.
    Disk(PathBuf, u64, u64),
}

/// Returns the least free space that a command must leave on the disk of each directory, in bytes; 0 where that does not
/// count.
pub(super) fn floors(limits: UsageLimits, dirs: &[PathBuf]) -> Vec<u64> {
    let mut known = Vec::new();
    let mut floor = |dir: &PathBuf| {
        let stat = statfs(dir).ok()?;
        let kind = u64::try_from(stat.f_type).unwrap_or_default() & u64::from(u32::MAX);
        // Directories of one file system answer the same.
        let place = (kind, stat.f_blocks, stat.f_files);
        let counts = !REMOTE.contains(&kind) && !known.contains(&place);
        known.push(place);
        counts.then(|| limits.min_free_disk_bytes.min(bytes(stat.f_bavail, stat.f_bsize) / 2))
    };
    match limits.min_free_disk_bytes {
        0 => Vec::new(),
        _ => dirs.iter().map(|dir| floor(dir).unwrap_or_default()).collect(),
    }
}

/// The usage of one command.
pub(super) struct Usage<'a> {
    limits: UsageLimits,
    dirs: &'a [PathBuf],
    floors: Vec<u64>,
    tree: Option<ProcessTree>,
    next: Instant,
}

impl<'a> Usage<'a> {
    /// Begins to look at a command, which must leave these [`floors`].
    pub(super) fn begin(limits: UsageLimits, (dirs, floors): (&'a [PathBuf], Vec<u64>)) -> Self {
        Self { limits, dirs, floors, tree: None, next: Instant::now() + PAUSE }
    }

    /// Returns the time until the next look.
    pub(super) fn due_in(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Looks at the command if that is due. Returns what it used too much of.
    pub(super) fn look(&mut self) -> Option<Exhausted> {
        let began = Instant::now();
        if began < self.next {
            return None;
        }
        let (held, at_most) = self.memory();
        let pause = if at_most / 2 < held { SHORT_PAUSE } else { PAUSE };
        if at_most < held {
            return Some(Exhausted::Memory(held, at_most));
        }
        let disks = self.dirs.iter().zip(&self.floors).filter(|(_, floor)| **floor != 0);
        let too_full = disks.into_iter().find_map(|(dir, floor)| {
            let stat = statfs(dir).ok()?;
            let left = bytes(stat.f_bavail, stat.f_bsize);
            (left < *floor).then(|| Exhausted::Disk(dir.clone(), left, *floor))
        });
        self.next = Instant::now() + pause.max(began.elapsed() * SHARE);
        too_full
    }

    /// Returns the memory that the processes of the command hold, and the most that they may, in bytes.
    fn memory(&mut self) -> (u64, u64) {
        let at_most = *self.limits.memory_bytes.get_or_insert_with(default_bound);
        let tree = self.tree.get_or_insert_with(ProcessTree::new);
        let processes = tree.below();
        let resident: u64 = processes.iter().filter_map(|pid| resident(*pid)).sum();
        if resident <= at_most {
            return (resident, at_most);
        }
        // Processes share pages, which the sum counts for each.
        (processes.iter().filter_map(|pid| proportional(*pid)).sum(), at_most)
    }
}

fn bytes(blocks: u64, size: impl TryInto<u64>) -> u64 {
    blocks.saturating_mul(size.try_into().unwrap_or_default())
}

fn default_bound() -> u64 {
    let machine = sysinfo();
    let machine = machine.totalram.saturating_mul(u64::from(machine.mem_unit));
    let own = CONTAINER_LIMITS.iter().find_map(|file| number(&fs::read_to_string(file).ok()?));
    let (part, of) = PART_OF_MACHINE;
    own.unwrap_or(u64::MAX).min(machine) / of * part
}

/// Returns the pages that a process has in memory, in bytes.
fn resident(pid: Pid) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{}/statm", pid.as_raw_nonzero())).ok()?;
    let pages = number(text.split(' ').nth(1)?)?;
    Some(bytes(pages, rustix::param::page_size()))
}

/// Returns the memory that a process holds, in bytes: its own pages and its part of shared ones, in memory or swapped out.
/// Pages of files are not its own.
fn proportional(pid: Pid) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", pid.as_raw_nonzero())).ok()?;
    let of = |field: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(field))?;
        number(line.split_whitespace().next()?)
    };
    let kib = ["Pss_Anon:", "Pss_Shmem:", "SwapPss:"].into_iter().filter_map(of).sum::<u64>();
    Some(kib.saturating_mul(1024))
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}
