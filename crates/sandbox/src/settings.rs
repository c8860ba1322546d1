//! Settings for commands, as the configuration gives them.

use std::ffi::OsString;
use std::path::PathBuf;

use super::{Activate, AskCommands, Helper, SandboxLevel, UsageLimits};

/// How commands are run.
#[derive(Debug, Clone)]
pub struct CommandSettings {
    /// The program that becomes the helper; without one no command runs.
    pub helper: Option<Helper>,
    /// The sandbox levels that may be taken, the strongest first.
    pub levels: Vec<SandboxLevel>,
    /// Where sessions keep their own files.
    pub sessions: PathBuf,
    /// Directories and files that commands do not see.
    pub hidden: Vec<PathBuf>,
    /// Directories of which commands see only the roots and what is shown, such as the home directory.
    pub private: Vec<PathBuf>,
    /// Files and directories in private ones that commands may read by default, besides the caches. One that leads through
    /// a root, or to a whole private directory, does not count.
    pub shown: Vec<PathBuf>,
    /// The same by the user's configuration, where a private directory as a whole counts too.
    pub shown_by_settings: Vec<PathBuf>,
    /// Directories that commands may change for themselves, for the length of a session.
    pub caches: Vec<PathBuf>,
    /// Where downloads in caches that a lockfile names last from session to session, by project; `None` keeps none.
    pub cache_stores: Option<PathBuf>,
    /// Protected names that commands may change all the same.
    pub unprotected: Vec<String>,
    /// Whether commands may reach the network.
    pub network: bool,
    /// Whether no answer opens the network to a command.
    pub forbids_network: bool,
    /// Whether no answer lets a command run without a sandbox.
    pub forbids_unsandboxed: bool,
    /// The socket of the user's SSH agent.
    pub ssh_agent: Option<PathBuf>,
    /// Which commands ask.
    pub ask: AskCommands,
    /// Home directories. Commands ask where a root is or contains one.
    pub homes: Vec<PathBuf>,
    /// The environment of every command.
    pub env: Vec<(OsString, OsString)>,
    /// Which environments of a project they get.
    pub activate: Vec<Activate>,
    /// The user's shell, as the environment names it.
    pub shell: Option<PathBuf>,
    /// How many background commands a session may run at once.
    pub max_background: u32,
    /// The most processes of one command, where a limit is possible.
    pub max_processes: u64,
    /// What each process may use.
    pub limits: ProcessLimits,
    /// What all processes of a command may use together.
    pub usage: UsageLimits,
    /// Called once if commands run uncontained although containment was requested.
    pub warn: Option<fn(&str)>,
}

impl Default for CommandSettings {
    /// Returns settings that run no command, since there is no helper, and hide nothing.
    fn default() -> Self {
        Self {
            helper: None,
            levels: SandboxLevel::OWN.to_vec(),
            sessions: PathBuf::new(),
            hidden: Vec::new(),
            private: Vec::new(),
            shown: Vec::new(),
            shown_by_settings: Vec::new(),
            caches: Vec::new(),
            cache_stores: None,
            unprotected: Vec::new(),
            network: false,
            forbids_network: false,
            forbids_unsandboxed: false,
            ssh_agent: None,
            ask: AskCommands::default(),
            homes: Vec::new(),
            env: Vec::new(),
            activate: Vec::new(),
            shell: None,
            max_background: 4,
            max_processes: 512,
            limits: ProcessLimits::default(),
            usage: UsageLimits::default(),
            warn: None,
        }
    }
}

/// Limits of each process of a command; `None` keeps the limit of sinew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Processor time, in seconds.
    pub cpu_s: Option<u64>,
    /// Memory of its own that it may write, in bytes.
    pub memory_bytes: Option<u64>,
    /// The size of a file that it writes, in bytes.
    pub file_bytes: Option<u64>,
    /// Fds open at once.
    pub open_files: Option<u64>,
}

impl ProcessLimits {
    /// Returns the limits as `RLIMIT_` numbers with values. Core files are never written.
    pub(super) fn of_system(&self) -> Vec<(u32, u64)> {
        let all = [
            (libc::RLIMIT_CORE, Some(0)),
            (libc::RLIMIT_CPU, self.cpu_s),
            (libc::RLIMIT_DATA, self.memory_bytes),
            (libc::RLIMIT_FSIZE, self.file_bytes),
            (libc::RLIMIT_NOFILE, self.open_files),
        ];
        all.into_iter().filter_map(|(resource, most)| Some((resource, most?))).collect()
    }
}
