//! Control groups (cgroups) that limit the number of a command's processes and kill them, where no PID
//! namespace does.
//!
//! A session has a cgroup below sinew's, and each supervisor one below that. Only commands enter these: the
//! supervisor stays outside and kills with one write, without a migration that contends with forks. A process
//! leaves a cgroup only by a write to the cgroup file system, which sandboxed commands cannot make. Version 2
//! is used where it limits processes, else the `pids` controller of version 1.
#![expect(clippy::disallowed_methods, reason = "the guard may touch the system")]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, flock, fstat, mkdirat, openat, statat,
    unlinkat,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::kill_scope::ONE_ATTEMPT;
use super::sandbox_level::Shortfall;

/// The prefix of the names of session cgroups.
const NAME: &str = "sinew-";
/// How many processes are killed at once: each needs an fd meanwhile.
const AT_ONCE: usize = 512;
/// How many names are tried for a session's cgroup.
const MAX_TRIES: u32 = 16;

/// A cgroup hierarchy, seen from the cgroup of this process. Stays writable in a mount namespace entered
/// later.
#[derive(Debug)]
pub(super) struct Hierarchy {
    own: OwnedFd,
    version: Version,
    /// Whether cgroups below can limit their processes.
    has_bound: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    /// The `pids` controller of version 1.
    One,
    Two,
}

impl Hierarchy {
    /// Returns the most capable hierarchy for commands of this process.
    pub(super) fn find() -> Result<Self, Shortfall> {
        let missing = |error: io::Error| Shortfall::new("cgroup", error);
        let groups = fs::read_to_string("/proc/self/cgroup").map_err(missing)?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(missing)?;
        let two = directory(&groups, &mounts, Version::Two);
        let two_bounds =
            two.as_ref().is_some_and(|own| has_pids(&own.join("cgroup.subtree_control")));
        let one = directory(&groups, &mounts, Version::One);
        let (dir, version, has_bound) = match (two, one) {
            (Some(dir), _) if two_bounds => (dir, Version::Two, true),
            (_, Some(dir)) => (dir, Version::One, true),
            (Some(dir), None) => (dir, Version::Two, false),
            (None, None) => return Err(missing(io::Error::other("no hierarchy is mounted"))),
        };
        let own = open_directory(CWD, &dir).map_err(missing)?;
        Ok(Self { own, version, has_bound })
    }

    pub(super) fn make_session(self, max_processes: u64) -> Result<SessionCgroup, Shortfall> {
        self.remove_dead();
        let made = self.make_directory().map_err(|error| Shortfall::new("cgroup", error));
        let (dir, name) = made?;
        let mut session = SessionCgroup { dir, name, hierarchy: self, max_processes };
        session.hierarchy.has_bound &= session.delegate_bound();
        // Failures must show now, not when a command waits.
        let tried = session.open_command(0).map(drop);
        session.remove_command(0);
        tried.map_err(|error| {
            session.remove();
            Shortfall::new("cgroup", error)
        })?;
        Ok(session)
    }

    fn make_directory(&self) -> io::Result<(OwnedFd, String)> {
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for n in 0..MAX_TRIES {
            let name = format!("{NAME}{}-{n}", std::process::id());
            match mkdirat(&self.own, &name, Mode::from_raw_mode(0o755)) {
                Ok(()) => {}
                Err(rustix::io::Errno::EXIST) => continue,
                Err(errno) => return Err(errno.into()),
            }
            let locked = open_directory(&self.own, &name).and_then(|dir| {
                // A session that starts meanwhile takes an unlocked cgroup for dead.
                flock(&dir, FlockOperation::NonBlockingLockExclusive)?;
                // It may have removed this one before the lock.
                let (there, held) =
                    (statat(&self.own, &name, AtFlags::SYMLINK_NOFOLLOW)?, fstat(&dir)?);
                if there.st_ino != held.st_ino {
                    return Err(io::ErrorKind::NotFound.into());
                }
                Ok(dir)
            });
            match locked {
                Ok(dir) => return Ok((dir, name)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Removes session cgroups that no process locks, and kills the processes in them. They remain if a
    /// command killed its fork server and supervisors.
    fn remove_dead(&self) {
        for name in names(&self.own).into_iter().filter(|name| is_of_session(name)) {
            let Ok(dir) = open_directory(&self.own, &name) else { continue };
            let supervisors = names(&dir);
            let is_own = supervisors.iter().all(|name| is_number(name));
            if !is_own || flock(&dir, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            for name in supervisors {
                let command = open_directory(&dir, &name)
                    .and_then(|command| CommandCgroup::open(command, self.version));
                let _ = command.and_then(|mut command| command.kill());
            }
            remove(&self.own, &name, &dir);
        }
    }
}

/// Returns whether a cgroup has a name that [`Hierarchy::make_directory`] gives.
fn is_of_session(name: &str) -> bool {
    let numbers = name.strip_prefix(NAME).and_then(|rest| rest.split_once('-'));
    numbers.is_some_and(|(process, n)| is_number(process) && is_number(n))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[derive(Debug)]
pub(super) struct SessionCgroup {
    dir: OwnedFd,
    name: String,
    hierarchy: Hierarchy,
    max_processes: u64,
}

impl SessionCgroup {
    /// Returns whether it limits the processes of commands.
    pub(super) fn has_bound(&self) -> bool {
        self.hierarchy.has_bound
    }

    /// Enables limits in the cgroups of commands, as version 2 requires.
    fn delegate_bound(&self) -> bool {
        let wants = self.hierarchy.has_bound && self.hierarchy.version == Version::Two;
        !wants || write(&self.dir, "cgroup.subtree_control", b"+pids").is_ok()
    }

    /// Makes the cgroup for the commands of this supervisor.
    pub(super) fn make_command(&self) -> io::Result<CommandCgroup> {
        self.open_command(std::process::id())
    }

    fn open_command(&self, supervisor: u32) -> io::Result<CommandCgroup> {
        let name = supervisor.to_string();
        match mkdirat(&self.dir, &name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let dir = open_directory(&self.dir, &name)?;
        if self.hierarchy.has_bound {
            write(&dir, "pids.max", self.max_processes.to_string().as_bytes())?;
        }
        CommandCgroup::open(dir, self.hierarchy.version)
    }

    /// Removes the cgroup of a supervisor that ended, and kills processes left in it.
    pub(super) fn end_command(&self, supervisor: u32) {
        if self.remove_command(supervisor) {
            return;
        }
        if let Ok(mut command) = self.open_command(supervisor) {
            let _ = command.kill();
        }
        self.remove_command(supervisor);
    }

    fn remove_command(&self, supervisor: u32) -> bool {
        unlinkat(&self.dir, supervisor.to_string(), AtFlags::REMOVEDIR).is_ok()
    }

    /// Removes the cgroup of the session and those below it, if they are empty.
    pub(super) fn remove(&self) {
        remove(&self.hierarchy.own, &self.name, &self.dir);
    }
}

/// The cgroup of the commands of one supervisor.
#[derive(Debug)]
pub(super) struct CommandCgroup {
    dir: OwnedFd,
    entrance: File,
    /// `cgroup.kill` in version 2, `pids.max` in version 1.
    stop: File,
    version: Version,
    /// Reserves an fd for the list of members.
    spare: Option<File>,
}

impl CommandCgroup {
    fn open(dir: OwnedFd, version: Version) -> io::Result<Self> {
        let stop = match version {
            Version::One => open(&dir, "pids.max", OFlags::WRONLY)?,
            // Kernels before 5.14 cannot kill a cgroup.
            Version::Two => open(&dir, "cgroup.kill", OFlags::WRONLY)?,
        };
        Ok(Self {
            entrance: open(&dir, "cgroup.procs", OFlags::WRONLY)?,
            stop,
            version,
            dir,
            spare: Some(File::open("/dev/null")?),
        })
    }

    /// Moves this process into it.
    pub(super) fn enter(&self) -> io::Result<()> {
        (&self.entrance).write_all(b"0")
    }

    /// Kills every process in it. Version 1 also forbids new forks; the next kill reaches one in progress.
    pub(super) fn kill(&mut self) -> io::Result<()> {
        match self.version {
            Version::Two => (&self.stop).write_all(b"1"),
            Version::One => {
                (&self.stop).write_all(b"0")?;
                self.signal(&[Signal::KILL], Instant::now() + ONE_ATTEMPT)
            }
        }
    }

    /// Sends signals in order to each process in it, until the time is over.
    pub(super) fn signal(&mut self, signals: &[Signal], until: Instant) -> io::Result<()> {
        let members = self.members()?;
        for some in members.chunks(AT_ONCE) {
            if until <= Instant::now() {
                break;
            }
            let open = |number: &i32| {
                let process = pidfd_open(Pid::from_raw(*number)?, PidfdFlags::empty()).ok()?;
                Some((*number, process))
            };
            let opened: Vec<_> = some.iter().filter_map(open).collect();
            // A PID may have been reused before it was opened.
            let still = self.members()?;
            for (number, process) in opened {
                if still.binary_search(&number).is_ok() {
                    for signal in signals {
                        let _ = pidfd_send_signal(&process, *signal);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the sorted PIDs of its processes. Opens the file each time: version 1 caches the list per open
    /// file.
    fn members(&mut self) -> io::Result<Vec<i32>> {
        drop(self.spare.take());
        let mut file = open(&self.dir, "cgroup.procs", OFlags::RDONLY)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        self.spare = Some(file);
        let mut members: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        members.sort_unstable();
        Ok(members)
    }
}

/// Returns the directory of this process's cgroup, where the hierarchy is mounted.
fn directory(groups: &str, mounts: &str, version: Version) -> Option<PathBuf> {
    let is_pids = |controllers: &str| controllers.split(',').any(|one| one == "pids");
    let own = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let fits = match version {
            Version::One => is_pids(controllers),
            Version::Two => controllers.is_empty(),
        };
        fits.then_some(path)
    })?;
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let fits = match version {
            Version::One => kind.next()? == "cgroup" && is_pids(kind.nth(1)?),
            Version::Two => kind.next()? == "cgroup2",
        };
        let mut place = place.split(' ').skip(3);
        let (root, mount) = (place.next()?, place.next()?);
        let below = Path::new(own).strip_prefix(root).ok()?;
        fits.then(|| Path::new(mount).join(below))
    })
}

fn has_pids(file: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace().any(|one| one == "pids")
}

/// Removes a cgroup and those below it, if they hold no process.
fn remove(above: &OwnedFd, name: &str, dir: &OwnedFd) {
    for name in names(dir) {
        let _ = unlinkat(dir, name, AtFlags::REMOVEDIR);
    }
    let _ = unlinkat(above, name, AtFlags::REMOVEDIR);
}

/// Returns the names of the subdirectories.
fn names(dir: &OwnedFd) -> Vec<String> {
    let entries = Dir::read_from(dir).into_iter().flatten().filter_map(Result::ok);
    let entries = entries.filter(|entry| entry.file_type().is_dir());
    let name = |entry: rustix::fs::DirEntry| entry.file_name().to_str().ok().map(str::to_owned);
    entries.filter_map(name).filter(|name| !name.starts_with('.')).collect()
}

fn open_directory(at: impl AsFd, path: impl AsRef<Path>) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(openat(at, path.as_ref(), flags, Mode::empty())?)
}

fn open(dir: &OwnedFd, name: &str, flags: OFlags) -> io::Result<File> {
    Ok(openat(dir, name, flags | OFlags::CLOEXEC, Mode::empty())?.into())
}

fn write(dir: &OwnedFd, name: &str, text: &[u8]) -> io::Result<()> {
    open(dir, name, OFlags::WRONLY)?.write_all(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
        24 1 0:22 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n\
        25 1 0:23 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        26 1 0:24 /docker/ab /sys/fs/cgroup/pids rw shared:9 - cgroup cgroup rw,pids\n";

    #[test]
    fn names_of_sessions_are_told_from_others() {
        for (name, expected) in [
            ("sinew-1-0", true),
            ("sinew-4194304-15", true),
            ("sinew-agents", false),
            ("sinew-1", false),
            ("sinew-1-", false),
            ("sinew-a-0", false),
            ("sinew-1-0-0", false),
            ("sinew-1-0.scope", false),
            ("x-1-0", false),
        ] {
            assert_eq!(is_of_session(name), expected, "{name}");
        }
    }

    #[test]
    fn own_cgroup_is_found_beneath_its_mount() {
        let check = |groups: &str, version, expected: Option<&str>| {
            assert_eq!(directory(groups, MOUNTS, version), expected.map(PathBuf::from), "{groups}");
        };
        check("0::/a/b.scope\n", Version::Two, Some("/sys/fs/cgroup/unified/a/b.scope"));
        check("0::/\n", Version::Two, Some("/sys/fs/cgroup/unified/"));
        check("8:pids:/docker/ab/x:y\n0::/\n", Version::One, Some("/sys/fs/cgroup/pids/x:y"));
        check("8:pids:/elsewhere\n", Version::One, None);
        check("1:cpu,cpuacct:/\n", Version::One, None);
        check("1:cpu:/\n", Version::Two, None);
        check("", Version::Two, None);
        check("no cgroup file\n", Version::One, None);
    }
}
