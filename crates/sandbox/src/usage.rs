//! Looks at what all processes of a running command use together, and says when it is too much: memory above a bound, or
//! free space below a floor. The supervisor then ends the command.
//!
//! The kernel bounds single processes alone where sinew may not make a cgroup, and a disk that a command fills hurts all
//! programs. A thread looks, since a look at many processes takes long, and the supervisor must be able to kill meanwhile.
//! It starts after a quarter of a second, so most commands never have one.
#![expect(clippy::disallowed_methods, reason = "the guard may look at the system")]

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{stat, statfs};
use rustix::process::Pid;
use rustix::system::sysinfo;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use sinew_policy::path_bytes;
use sinew_tool::sync::lock;

use super::process_tree::ProcessTree;

/// The time before the first look, and between two.
const PAUSE: Duration = Duration::from_millis(250);
/// The time between two looks at a command that holds half of its bound, or where a disk has little more than its floor.
const SHORT_PAUSE: Duration = Duration::from_millis(50);
/// A look at many processes takes long. It may take one part in so many of the time, if that makes no longer pause.
const SHARE: u32 = 20;
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// How many looks in a row must show too much memory, and the time between them: a process that starts another shares its
/// pages with it for a moment, in which they count twice.
const CONFIRMED: u32 = 6;
/// How many of the largest processes each of these looks reads anew.
const N_CONFIRMED: usize = 8;
const CONFIRM_PAUSE: Duration = Duration::from_millis(10);
/// The processor time after which a look at many processes takes a nap. A supervisor shares its processor with all sessions
/// of the command, and what its looks use delays the kill: half a millisecond among 1,024 sessions on two processors by a
/// quarter of a second.
const SLICE: Duration = Duration::from_micros(500);
const NAP: Duration = Duration::from_millis(1);
/// Which part of a floor a command may take where less than the floor was free before it.
const SLACK: u64 = 32;
/// Which part of the machine's memory a command may hold by default: the rest keeps the machine usable.
const PART_OF_MACHINE: (u64, u64) = (7, 8);
/// Where a container reads the limit of its memory, in both versions of cgroups.
const CONTAINER_LIMITS: [&str; 2] =
    ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
/// The magic numbers of file systems of other machines, statfs(2): their answer may never come. NFS, SMB (3), 9P, Ceph,
/// AFS, and what programs serve (FUSE).
const REMOTE: [u32; 8] =
    [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x00c3_6400, 0x5346_414f, 0x6573_5546];

/// Limits of what all processes of a command use together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageLimits {
    /// The memory that they may hold, in bytes; `None`: seven eighths of that of the machine or container.
    pub memory_bytes: Option<u64>,
    /// The free space below which a running command is ended, in bytes. Where less than twice that is free when the
    /// session starts, half of what is free then.
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
    /// The disk of this directory had so much free space left while it ran, and so much is the least, in bytes.
    Disk(#[serde(with = "path_bytes")] PathBuf, u64, u64),
    /// The same when it had ended by itself.
    DiskAfter(#[serde(with = "path_bytes")] PathBuf, u64, u64),
}

/// A disk that commands may fill.
#[derive(Debug)]
pub(super) struct Disk {
    /// A directory on it.
    dir: PathBuf,
    /// The least free space, in bytes.
    floor: u64,
}

/// Returns the disks of this machine on which the directories are, each once.
pub(super) fn disks(limits: UsageLimits, dirs: impl IntoIterator<Item = PathBuf>) -> Vec<Disk> {
    let mut known = Vec::new();
    let mut disks = Vec::new();
    for dir in dirs.into_iter().filter(|_| limits.min_free_disk_bytes != 0) {
        let (Ok(device), Ok(system)) = (stat(&dir), statfs(&dir)) else { continue };
        #[expect(clippy::cast_possible_truncation, reason = "magic numbers have 32 bits")]
        #[expect(clippy::cast_sign_loss, reason = "and no sign")]
        let is_remote = REMOTE.contains(&(system.f_type as u32));
        if !is_remote && !known.contains(&device.st_dev) {
            known.push(device.st_dev);
            let free = bytes(system.f_bavail, system.f_bsize);
            disks.push(Disk { dir, floor: limits.min_free_disk_bytes.min(free / 2) });
        }
    }
    disks
}

/// Returns the free space of each disk, in bytes.
pub(super) fn free(disks: &[Disk]) -> Vec<u64> {
    disks.iter().map(|disk| free_at(&disk.dir).unwrap_or_default()).collect()
}

/// The usage of one command.
pub(super) struct Usage {
    shared: Arc<Shared>,
    looks: Looks,
    start_at: Instant,
}

/// Who looks at a command.
enum Looks {
    None,
    /// A thread, which makes this eventfd readable when it found something.
    Thread(OwnedFd),
    /// The supervisor: the command has taken what a thread needs.
    Supervisor(Box<HeldMemory>),
}

/// What a supervisor and its watching thread share.
struct Shared {
    limits: UsageLimits,
    disks: Arc<[Disk]>,
    /// The free space of each disk before the command.
    free_before: Vec<u64>,
    state: Mutex<UsageState>,
    ended: Condvar,
}

#[derive(Default)]
struct UsageState {
    exhausted: Option<Exhausted>,
    has_ended: bool,
}

impl Usage {
    /// Begins to look at a command, before which so much space was [`free`].
    pub(super) fn begin(limits: UsageLimits, disks: Arc<[Disk]>, free_before: Vec<u64>) -> Self {
        let state = Mutex::default();
        let shared = Shared { limits, disks, free_before, state, ended: Condvar::new() };
        Self { shared: Arc::new(shared), looks: Looks::None, start_at: Instant::now() + PAUSE }
    }

    /// Returns how long the supervisor may sleep.
    pub(super) fn due_in(&self) -> Duration {
        match &self.looks {
            Looks::None => self.start_at.saturating_duration_since(Instant::now()),
            Looks::Thread(_) => Duration::MAX,
            Looks::Supervisor(memory) => memory.due_at.saturating_duration_since(Instant::now()),
        }
    }

    /// Returns an fd that becomes readable when there is something to [`look`](Self::look) at.
    pub(super) fn signal(&self) -> Option<&OwnedFd> {
        match &self.looks {
            Looks::Thread(signal) => Some(signal),
            Looks::None | Looks::Supervisor(_) => None,
        }
    }

    /// Returns what the command used too much of, once. Starts to look when that is due.
    pub(super) fn look(&mut self) -> Option<Exhausted> {
        match &mut self.looks {
            Looks::None if self.start_at <= Instant::now() => {
                self.looks = self.start().unwrap_or_else(|_| {
                    Looks::Supervisor(Box::new(HeldMemory::new(&self.shared.limits)))
                });
                None
            }
            Looks::Supervisor(memory) if memory.due_at <= Instant::now() => {
                self.shared.look(memory)
            }
            Looks::Thread(_) => lock(&self.shared.state).exhausted.take(),
            Looks::None | Looks::Supervisor(_) => None,
        }
    }

    fn start(&self) -> io::Result<Looks> {
        let signal = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (shared, signals) = (Arc::clone(&self.shared), signal.try_clone()?);
        let watch = move || shared.watch(&signals);
        thread::Builder::new().name(String::from("usage")).spawn(watch)?;
        Ok(Looks::Thread(signal))
    }

    /// Ends the looks, since the command has ended. Returns whether it left too little space.
    pub(super) fn end(self) -> Option<Exhausted> {
        lock(&self.shared.state).has_ended = true;
        self.shared.ended.notify_one();
        match self.shared.fullest() {
            Some((disk, free)) if free < disk.floor => {
                Some(Exhausted::DiskAfter(disk.dir.clone(), free, disk.floor))
            }
            _ => None,
        }
    }
}

impl Shared {
    fn watch(&self, signal: &OwnedFd) {
        let mut memory = HeldMemory::new(&self.limits);
        loop {
            let exhausted = self.look(&mut memory);
            let mut state = lock(&self.state);
            if exhausted.is_some() {
                state.exhausted = exhausted;
                drop(state);
                let _ = rustix::io::write(signal, &1_u64.to_ne_bytes());
                return;
            }
            let pause = memory.due_at.saturating_duration_since(Instant::now());
            let wait = self.ended.wait_timeout_while(state, pause, |state| !state.has_ended);
            if wait.is_ok_and(|(state, _)| state.has_ended) {
                return;
            }
        }
    }

    /// Returns what the command uses too much of, and sets when the next look is due.
    fn look(&self, memory: &mut HeldMemory) -> Option<Exhausted> {
        let (exhausted, pause) = self.look_now(memory);
        memory.due_at = Instant::now() + pause;
        exhausted
    }

    /// Returns what the command uses too much of, and the time until the next look.
    fn look_now(&self, memory: &mut HeldMemory) -> (Option<Exhausted>, Duration) {
        let fullest = self.fullest();
        if let Some((disk, free)) = fullest.filter(|(disk, free)| *free < disk.floor) {
            return (Some(Exhausted::Disk(disk.dir.clone(), free, disk.floor)), PAUSE);
        }
        let Some(held) = memory.look() else { return (None, NAP) };
        if memory.at_most < held {
            memory.n_over += 1;
            let is_confirmed = CONFIRMED <= memory.n_over;
            let exhausted = is_confirmed.then_some(Exhausted::Memory(held, memory.at_most));
            return (exhausted, CONFIRM_PAUSE);
        }
        memory.n_over = 0;
        let is_near = memory.at_most / 2 < held || fullest.is_some();
        let pause = if is_near { SHORT_PAUSE } else { PAUSE };
        (None, pause.max(memory.last_took * SHARE).min(MAX_PAUSE))
    }

    /// Returns a disk of which the command took space and that has less than twice its floor, with its free space.
    fn fullest(&self) -> Option<(&Disk, u64)> {
        let taken = self.disks.iter().zip(&self.free_before).filter_map(|(disk, before)| {
            let free = free_at(&disk.dir)?;
            let took = before.saturating_sub(free);
            (free / 2 < disk.floor && disk.floor / SLACK < took).then_some((disk, free))
        });
        taken.min_by_key(|(disk, free)| free.saturating_sub(disk.floor))
    }
}

/// The memory of the processes of a command.
struct HeldMemory {
    tree: ProcessTree,
    /// The most that they may hold, in bytes.
    at_most: u64,
    /// How many looks in a row have shown more.
    n_over: u32,
    /// What processes hold with their parts of shared pages, as the looks found it that showed more.
    parts: HashMap<Pid, u64>,
    /// The look of which a part is done.
    unfinished: Option<Look>,
    /// The processor time of the last whole look.
    last_took: Duration,
    due_at: Instant,
}

/// A look at each process of a command.
struct Look {
    took: Duration,
    /// The processes found until now; the first `n_read` of them have been read.
    found: Vec<Pid>,
    n_read: usize,
    /// What each holds with all shared pages, in bytes; the largest first once all have been read.
    of_each: Vec<(Pid, u64)>,
    /// Whether all are read, and sorted.
    is_sorted: bool,
    /// How many of them are added up with their parts of shared pages, and the sum, in bytes.
    n_added: usize,
    sum: u64,
}

/// The processor time that one part of a look may take.
struct Slice {
    began: Duration,
}

impl Slice {
    fn begin() -> Self {
        Self { began: processor_time() }
    }

    fn took(&self) -> Duration {
        processor_time().saturating_sub(self.began)
    }

    fn is_over(&self) -> bool {
        SLICE <= self.took()
    }
}

/// Returns the processor time of this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

impl HeldMemory {
    fn new(limits: &UsageLimits) -> Self {
        Self {
            tree: ProcessTree::new(),
            at_most: limits.memory_bytes.unwrap_or_else(default_bound),
            n_over: 0,
            parts: HashMap::new(),
            unfinished: None,
            last_took: Duration::ZERO,
            due_at: Instant::now(),
        }
    }

    /// Returns what the processes hold, in bytes; nothing when a slice is over before that is known. A result up to the
    /// bound may be too large: it can count shared pages for each process that has them, or the whole machine.
    fn look(&mut self) -> Option<u64> {
        let mut look = match self.unfinished.take() {
            Some(look) => look,
            None => match of_all().filter(|of_all| *of_all <= self.at_most) {
                Some(of_all) => {
                    self.parts.clear();
                    self.last_took = Duration::ZERO;
                    return Some(of_all);
                }
                None => Look::begin(&mut self.tree),
            },
        };
        let slice = Slice::begin();
        let held = self.continue_look(&mut look, &slice);
        look.took += slice.took();
        match held {
            Some(_) => self.last_took = look.took,
            None => self.unfinished = Some(look),
        }
        held
    }

    fn continue_look(&mut self, look: &mut Look, slice: &Slice) -> Option<u64> {
        while let Some(pid) = look.found.get(look.n_read).copied() {
            if slice.is_over() {
                return None;
            }
            look.n_read += 1;
            look.found.extend(self.tree.children_of(pid));
            look.of_each.extend(own(pid).map(|held| (pid, held)));
        }
        if !look.is_sorted {
            look.is_sorted = true;
            let sum: u64 = look.of_each.iter().map(|(_, held)| held).sum();
            if sum <= self.at_most {
                self.parts.clear();
                return Some(sum);
            }
            look.of_each.sort_unstable_by_key(|(_, held)| std::cmp::Reverse(*held));
            // The largest decide whether it was for a moment.
            for (pid, _) in look.of_each.iter().take(N_CONFIRMED) {
                self.parts.remove(pid);
            }
        }
        while let Some((pid, _)) = look.of_each.get(look.n_added).copied() {
            // Some processes hide it, and some have ended since.
            let part = || proportional(pid).or_else(|| own(pid)).unwrap_or_default();
            look.n_added += 1;
            look.sum = look.sum.saturating_add(*self.parts.entry(pid).or_insert_with(part));
            // Some of them can hold too much already.
            if self.at_most < look.sum {
                return Some(look.sum);
            }
            if slice.is_over() {
                return None;
            }
        }
        self.parts.clear();
        Some(look.sum)
    }
}

impl Look {
    fn begin(tree: &mut ProcessTree) -> Self {
        Self {
            took: Duration::ZERO,
            found: tree.own_children(),
            n_read: 0,
            of_each: Vec::new(),
            is_sorted: false,
            n_added: 0,
            sum: 0,
        }
    }
}

fn free_at(dir: &Path) -> Option<u64> {
    let system = statfs(dir).ok()?;
    Some(bytes(system.f_bavail, system.f_bsize))
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

/// Returns the memory that all processes of the machine hold, in bytes, which no command exceeds: pages without a file, in
/// memory or swapped out, and the tables for them.
fn of_all() -> Option<u64> {
    let machine = sysinfo();
    let swapped = machine.totalswap.saturating_sub(machine.freeswap);
    let swapped = swapped.saturating_mul(u64::from(machine.mem_unit));
    let held = sum_of(Path::new("/proc/meminfo"), &["AnonPages:", "Shmem:", "PageTables:"])?;
    // A kernel that does not count has none.
    (held != 0).then(|| held.saturating_add(swapped))
}

/// Returns the memory of a process without pages of files, in bytes: its own and shared pages, in memory or swapped out,
/// and the tables for them.
fn own(pid: Pid) -> Option<u64> {
    let process = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
    let fields = ["RssAnon:", "RssShmem:", "VmSwap:", "VmPTE:"];
    // A thread that ended before the others has none.
    sum_of(&process.join("status"), &fields).or_else(|| {
        let threads = fs::read_dir(process.join("task")).ok()?.filter_map(Result::ok);
        threads.filter_map(|thread| sum_of(&thread.path().join("status"), &fields)).next()
    })
}

/// Returns the memory of a process, in bytes: its own pages and its part of shared ones. Some processes hide that.
fn proportional(pid: Pid) -> Option<u64> {
    let file = PathBuf::from(format!("/proc/{}/smaps_rollup", pid.as_raw_nonzero()));
    sum_of(&file, &["Pss_Anon:", "Pss_Shmem:", "SwapPss:"])
}

/// Returns the sum of fields of a file of the kernel, in bytes; nothing without the first of them.
fn sum_of(file: &Path, fields: &[&str]) -> Option<u64> {
    // The name of a process is any bytes.
    let text = String::from_utf8_lossy(&fs::read(file).ok()?).into_owned();
    let of = |field: &&str| {
        let line = text.lines().find_map(|line| line.strip_prefix(field))?;
        number(line.split_whitespace().next()?)
    };
    fields.first().and_then(of)?;
    Some(fields.iter().filter_map(of).sum::<u64>().saturating_mul(1024))
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}
