//! Telling processes apart: a number alone is given out again.

use std::fs;

/// A process, by namespace, number and start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessMark {
    /// The namespace that the number counts in, or 0 where it cannot be told.
    pub(super) namespace: i64,
    pub(super) pid: i64,
    /// Clock ticks since boot, or 0 where it cannot be told.
    pub(super) started: i64,
}

impl ProcessMark {
    /// Returns the mark of this process.
    pub(super) fn own() -> Self {
        let pid = i64::from(std::process::id());
        let namespace = rustix::fs::stat("/proc/self/ns/pid").map_or(0, |stat| stat.st_ino as i64);
        Self { namespace, pid, started: started(pid).unwrap_or(0) }
    }

    /// Returns whether the process may still run. Nothing can be known of one in another namespace.
    pub(super) fn may_be_alive(self) -> bool {
        if self.namespace != Self::own().namespace {
            return true;
        }
        started(self.pid).is_some_and(|started| self.started == 0 || started == self.started)
    }
}

#[expect(clippy::disallowed_methods, reason = "the guard may look at the system")]
fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Reads when a process started: field 22 of its `stat`, counted after the name in parentheses,
/// which may itself hold blanks and parentheses.
fn started(pid: i64) -> Option<i64> {
    let stat = read(&format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(19)?.parse().ok()
}

/// Returns the name of the user that runs this process, or its number.
pub(super) fn os_user() -> String {
    let uid = rustix::process::getuid().as_raw().to_string();
    let passwd = read("/etc/passwd").unwrap_or_default();
    passwd
        .lines()
        .find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)? == uid).then(|| name.to_owned())
        })
        .unwrap_or(uid)
}
