//! Process identity that survives PID reuse: machine, boot ID, PID namespace, PID and start time.
//!
//! Several machines may share a ledger in one home directory; the initial PID namespace has the same number
//! on each. One boot ID means one machine, in containers too. A process from an earlier boot of this machine
//! is dead. The state of a process on another machine is unknown.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::user_database::UserEntry;

/// A change on this machine counts as given up after this time, if its process has an unknown state.
const GIVEN_UP_MS: i64 = 60 * 60 * 1_000;
/// The same for another machine, whose clock may be wrong.
const GIVEN_UP_ELSEWHERE_MS: i64 = 30 * 24 * 60 * 60 * 1_000;

/// A process: machine, boot ID, PID namespace, PID and start time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// The machine ID and the host name.
    pub machine: String,
    /// The boot ID, or empty if unknown.
    pub boot: String,
    /// The inode of the PID namespace, or 0 if unknown.
    pub namespace: i64,
    pub pid: i64,
    /// The start time in clock ticks since boot, or 0 if unknown.
    pub started: i64,
}

impl ProcessIdentity {
    /// Returns the identity of this process.
    pub fn own() -> Self {
        let pid = i64::from(std::process::id());
        let namespace = rustix::fs::stat("/proc/self/ns/pid").map_or(0, |stat| stat.st_ino as i64);
        Self {
            machine: machine(),
            boot: boot(),
            namespace,
            pid,
            started: started(pid).unwrap_or(0),
        }
    }

    /// Returns whether the process may still work on a change of this age.
    pub fn may_be_at_it(&self, own: &Self, age_ms: i64) -> bool {
        match self.life(own) {
            Life::Alive => true,
            Life::Dead => false,
            Life::Unknown => age_ms <= GIVEN_UP_MS,
            Life::Elsewhere => age_ms <= GIVEN_UP_ELSEWHERE_MS,
        }
    }

    /// Returns whether the process is known to be of the current boot.
    pub fn is_of_this_boot(&self, own: &Self) -> bool {
        !self.boot.is_empty() && self.boot == own.boot
    }

    /// Returns the state of the process as the process `own` can see it.
    pub fn life(&self, own: &Self) -> Life {
        let boots_told = !self.boot.is_empty() && !own.boot.is_empty();
        let same_boot = boots_told && self.boot == own.boot;
        if !same_boot && self.machine != own.machine {
            return Life::Elsewhere;
        }
        if boots_told && !same_boot {
            return Life::Dead;
        }
        if self.namespace == 0 || self.started == 0 || self.namespace != own.namespace {
            return Life::Unknown;
        }
        match started(self.pid) {
            Some(started) if started == self.started => Life::Alive,
            // Without an entry of this process, `/proc` shows no other either.
            None if own.started == 0 => Life::Unknown,
            Some(_) | None => Life::Dead,
        }
    }
}

/// The state of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It runs.
    Alive,
    /// It has ended.
    Dead,
    /// It ran on this machine, and its state cannot be read.
    Unknown,
    /// It ran on another machine.
    Elsewhere,
}

/// Returns whether a process in this namespace has this PID and start time.
pub fn is_running(pid: i64, at: i64) -> bool {
    started(pid) == Some(at)
}

/// Returns machine ID and host name: copies of one image may share one of them.
fn machine() -> String {
    let id = read("/etc/machine-id").unwrap_or_default();
    format!("{} {}", id.trim(), rustix::system::uname().nodename().to_string_lossy())
}

/// Returns the boot ID.
fn boot() -> String {
    read("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[expect(clippy::disallowed_methods, reason = "the guard may look at the system")]
fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Returns the start time: field 22 of `stat`, after the name, which may hold blanks and parentheses.
fn started(pid: i64) -> Option<i64> {
    let stat = read(&format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(19)?.parse().ok()
}

/// Returns the name of the user that runs this process, or the UID.
pub fn os_user() -> String {
    let entry = UserEntry::of_process().ok().flatten();
    entry.map_or_else(|| rustix::process::getuid().as_raw().to_string(), |entry| entry.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Earlier, a live process on another machine counted as dead, as did every process without `/proc`.
    #[test]
    fn what_cannot_be_told_is_not_dead() {
        const ELSEWHERE: Life = Life::Elsewhere;
        let own = ProcessIdentity::own();
        assert!(!own.boot.is_empty() && own.namespace != 0 && own.started != 0);
        for (change, expected) in [
            ((|_| {}) as fn(&mut ProcessIdentity), Life::Alive),
            (|mark| mark.started += 1, Life::Dead),
            (|mark| mark.pid = i64::MAX, Life::Dead),
            (|mark| mark.boot = String::from("other"), Life::Dead),
            (|mark| mark.boot = String::new(), Life::Alive),
            (|mark| mark.namespace += 1, Life::Unknown),
            (|mark| mark.namespace = 0, Life::Unknown),
            (|mark| mark.started = 0, Life::Unknown),
            (|mark| mark.machine = String::from("a container"), Life::Alive),
            (|mark| (mark.machine, mark.boot) = (String::from("other"), String::new()), ELSEWHERE),
            (
                |mark| (mark.machine, mark.boot) = (String::from("other"), String::from("other")),
                ELSEWHERE,
            ),
        ] {
            let mut mark = own.clone();
            change(&mut mark);
            assert_eq!(mark.life(&own), expected, "{mark:?}");
        }
        // Without `/proc` every state is unknown.
        let blind =
            ProcessIdentity { boot: String::new(), namespace: 0, started: 0, ..own.clone() };
        assert_eq!(blind.life(&blind), Life::Unknown);
        assert_eq!(own.life(&blind), Life::Unknown);
        assert_eq!(blind.life(&own), Life::Unknown);
    }
}
