//! `[run]`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[run]`: how commands are run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunOptions {
    /// The sandbox of commands: `auto` (the strongest that works here and needs nothing but the kernel), `namespaces`,
    /// `bubblewrap`, `landlock` or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// The weakest sandbox that commands may run in: `namespaces`, `bubblewrap`, `landlock` or `none`. Where only
    /// weaker ones work, no command runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_sandbox: Option<String>,
    /// Which commands ask where `approvals` is `auto`: `auto` (those that reach the network, a protected name or a terminal,
    /// or whose changes cannot be undone) or `always` (all but plain reads).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<String>,
    /// Whether commands may reach the network: all of it, or nothing but one another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<bool>,
    /// Whether a call may ask to run its command without a sandbox, by `needs`: `ask` or `deny`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsandboxed: Option<String>,
    /// How long package managers' caches keep what commands download: `session`, or `project` (packages of npm and crates that
    /// a lockfile of the roots names with their hash are there in later sessions of the same roots), on the sandbox level
    /// `namespaces`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caches: Option<String>,
    /// Names of variables that commands get beside those that every command gets. Some that make programs run other
    /// code are never passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<String>>,
    /// Which environments of a project commands get: `venv` (a virtual environment of Python named
    /// `.venv` or `venv`), `direnv` (an `.envrc` that was allowed there).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activate: Option<Vec<String>>,
    /// Absolute paths of files and directories that commands do not see, beside those that hold
    /// secrets by their name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hide: Option<Vec<PathBuf>>,
    /// Absolute paths that commands see although they hold secrets by their name or are in a private directory: `/home`,
    /// `/root`, `/Users`, `/mnt`, `/media`, `/run/media` and the home directory, of which commands see only roots and toolchains.
    /// A file in a hidden directory opens with that directory alone, and nothing shows sinew's own state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show: Option<Vec<PathBuf>>,
    /// Protected names that commands may change without asking, such as `.github/workflows`. The file tools still ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unprotected: Option<Vec<String>>,
    /// How many commands of a session may run in the background or in terminals at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_background: Option<u32>,
    /// The most processes of one command, where the system can hold it to that: at least 301. At most 512 for each processor without `CAP_SYS_NICE`, and 128 where sinew kills them one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_processes: Option<u64>,
    /// The processor time of each process, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cpu_s: Option<u64>,
    /// The memory of its own that each process may write, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_memory_mib: Option<u64>,
    /// The memory that all processes of a command may hold together, in MiB: a command that holds more is ended. Looked at
    /// up to four times a second; by default seven eighths of the memory of the machine or container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_command_memory_mib: Option<u64>,
    /// The free space below which a running command is ended, in MiB, on the disks of the roots and of temporary files; 0
    /// for no such floor. Where less than twice that is free when its session begins, half of what is free then. Disks of
    /// other machines do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_free_disk_mib: Option<u64>,
    /// The size of a file that a process writes, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_file_mib: Option<u64>,
    /// The descriptors that each process may have open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_open_files: Option<u64>,
}
