//! The sandbox levels of commands, and what this machine lacks for a higher one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A way to contain commands, ordered by strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SandboxLevel {
    /// Commands can do what sinew can do.
    None,
    /// Landlock rules on files, and a seccomp filter.
    Landlock,
    /// Namespaces that bubblewrap makes for the whole session, beside both.
    Bubblewrap,
    /// Namespaces of their own beside both.
    Namespaces,
}

impl SandboxLevel {
    /// Every sandbox level, the strongest first.
    pub const ALL: [Self; 4] = [Self::Namespaces, Self::Bubblewrap, Self::Landlock, Self::None];

    /// The sandbox levels that need only the kernel, the strongest first.
    pub const OWN: [Self; 3] = [Self::Namespaces, Self::Landlock, Self::None];

    /// Returns the word of configuration and replies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Landlock => "landlock",
            Self::Bubblewrap => "bubblewrap",
            Self::Namespaces => "namespaces",
        }
    }

    /// Returns the level that a word names.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }
}

impl fmt::Display for SandboxLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Missing: a limit on the number of a command's processes.
pub(super) const UNBOUNDED: &str = "bound of processes";
/// Missing: a way to find a command's processes for a kill.
pub(super) const UNLISTED: &str = "lists of processes";
/// Missing: the interception of system calls.
pub(super) const WATCHED_NAMES: &str = "watched names";

/// Not a feature: an extra path that was replaced since the call was judged.
pub(super) const REPLACED: &str = "replaced path";

/// A feature that this machine lacks, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall {
    /// The missing feature, in a word or two.
    pub what: String,
    /// Why, as the system says it.
    pub why: String,
}

impl Shortfall {
    pub(super) fn new(what: &str, why: impl fmt::Display) -> Self {
        Self { what: what.to_owned(), why: why.to_string() }
    }

    /// Returns what would make the missing part available.
    pub fn remedy(&self) -> &'static str {
        match self.what.as_str() {
            "namespaces" => {
                "allow unprivileged user namespaces: `sysctl kernel.unprivileged_userns_clone=1` on \
                 Debian, `sysctl kernel.apparmor_restrict_unprivileged_userns=0` on Ubuntu, a seccomp \
                 profile that allows `unshare` and `mount` in containers"
            }
            "bubblewrap" => {
                "install bubblewrap (`bwrap`), and allow it user namespaces: Ubuntu has a profile of \
                 AppArmor for it"
            }
            "landlock" => {
                "use a kernel of 5.13 or later with `landlock` in its list of security modules \
                 (`lsm=` on the kernel's command line)"
            }
            "seccomp" => "use a kernel with CONFIG_SECCOMP_FILTER",
            "own /proc" => {
                "give the container an unmasked /proc (`--security-opt systempaths=unconfined`); until \
                 then commands see the processes of the machine"
            }
            "cgroup" => {
                "run sinew where it can make cgroups (`systemd-run --user --scope`), or on Linux 6.12 or \
                 later with Landlock: until then the processes of a command are listed in /proc and killed one by one"
            }
            WATCHED_NAMES => {
                "use a kernel of 5.19 or later with CONFIG_SECCOMP_FILTER, outside of another sandbox \
                 that watches calls, with `kernel.yama.ptrace_scope` below 2"
            }
            UNBOUNDED => {
                "run sinew as another user than root, on Linux 6.14 or later where it can make PID \
                 namespaces, or where the cgroup that it is in bounds processes (`pids.max`, \
                 `docker run --pids-limit`); until then sinew bounds no fork bomb"
            }
            UNLISTED => {
                "use a kernel with CONFIG_PROC_CHILDREN, or run sinew where it can make cgroups \
                 (`systemd-run --user --scope`); until then processes that a command leaves are not killed"
            }
            _ => "see `sinew doctor`",
        }
    }
}
