//! Every environment variable that sinew reads. Nothing else in the workspace reads one.
//!
//! An empty variable counts as one that is not set: that is how wrappers and service files write
//! "nothing".
#![expect(clippy::disallowed_methods, reason = "this is the one place that reads variables")]

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// `--root`: directories, separated by `:`.
pub const ROOT: &str = "SINEW_ROOT";
/// `--dialect`.
pub const DIALECT: &str = "SINEW_DIALECT";
/// `--tools`: separated by `,`.
pub const TOOLS: &str = "SINEW_TOOLS";
/// `--read-only`: `1`, `true`, `yes` or `on`; `0`, `false`, `no` or `off` leave it to the files.
pub const READ_ONLY: &str = "SINEW_READ_ONLY";
/// `--config`.
pub const CONFIG: &str = "SINEW_CONFIG";
/// `--set`: one `key=value`.
pub const SET: &str = "SINEW_SET";
/// `--session`.
pub const SESSION: &str = "SINEW_SESSION";
/// `--log`.
pub const LOG: &str = "SINEW_LOG";
/// `--approvals`.
pub const APPROVALS: &str = "SINEW_APPROVALS";

/// The directory of the user's configuration, `.config` in the home directory unless it is set.
pub const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";
/// The directory of state, `.local/state` in the home directory unless it is set.
pub const XDG_STATE_HOME: &str = "XDG_STATE_HOME";
/// The user's home directory.
pub const HOME: &str = "HOME";

/// Where programs lie.
pub const PATH: &str = "PATH";
/// The person's shell.
const SHELL: &str = "SHELL";
/// `--require-sandbox`.
pub const REQUIRE_SANDBOX: &str = "SINEW_REQUIRE_SANDBOX";
/// Places of tools' caches that are elsewhere than in the home directory.
const CACHES: [&str; 8] = [
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOPATH",
    "GOCACHE",
    "XDG_CACHE_HOME",
    "NVM_DIR",
    "UV_CACHE_DIR",
    "PIP_CACHE_DIR",
];

/// What the C library does with freed memory.
const MALLOC: [&str; 2] = ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"];

/// Returns whether the person has settled what becomes of freed memory.
pub fn settles_memory() -> bool {
    MALLOC.into_iter().any(|name| std::env::var_os(name).is_some())
}

fn directory(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Returns whether a variable is there and empty.
pub fn is_empty(name: &OsStr) -> bool {
    std::env::var_os(name).is_some_and(|value| value.is_empty())
}

/// Returns the home directory.
pub fn home() -> Option<PathBuf> {
    directory(HOME)
}

/// Returns the value of `HOME`, absolute or not.
pub fn written_home() -> Option<OsString> {
    std::env::var_os(HOME)
}

/// Returns the directory of the user's configuration, if `XDG_CONFIG_HOME` names one.
pub fn config_home() -> Option<PathBuf> {
    directory(XDG_CONFIG_HOME)
}

/// Returns the directory of state, if `XDG_STATE_HOME` names one.
pub fn state_home() -> Option<PathBuf> {
    directory(XDG_STATE_HOME)
}

/// Returns the person's shell.
pub fn shell() -> Option<PathBuf> {
    directory(SHELL)
}

/// Returns the places of tools' caches that variables name.
pub fn caches() -> impl Iterator<Item = PathBuf> {
    CACHES.into_iter().filter_map(directory)
}

/// Returns every variable, for the environment of commands.
pub fn all() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os()
}

/// Returns the list of directories in which this process finds programs.
pub fn path() -> OsString {
    std::env::var_os(PATH).unwrap_or_default()
}

/// Returns whether a program of a name is in `PATH`.
pub fn has_program(name: &str) -> bool {
    !name.contains('/') && std::env::split_paths(&path()).any(|dir| dir.join(name).is_file())
}

/// The variables that stand for flags.
const FLAGS: [&str; 10] =
    [APPROVALS, CONFIG, DIALECT, LOG, READ_ONLY, REQUIRE_SANDBOX, ROOT, SESSION, SET, TOOLS];

/// Returns the variables that say something to sinew, by name. Another name is anybody's, and might be code
/// where it is shown as a part of a command.
pub fn own() -> impl Iterator<Item = (&'static str, OsString)> {
    let set = |name: &&'static str| Some((*name, std::env::var_os(name)?));
    FLAGS.iter().filter_map(set).filter(|(_, value)| !value.is_empty())
}
