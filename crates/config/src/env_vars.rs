//! Reads every environment variable of sinew; no other module in the workspace reads one.
//!
//! An empty variable counts as unset, because wrappers and service files write "nothing" that way.
#![expect(clippy::disallowed_methods, reason = "this is the one place that reads variables")]

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use sinew_tool::ApiKey;

/// `--root`: directories separated by `:`.
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
/// `--profile`.
pub const PROFILE: &str = "SINEW_PROFILE";

/// The XDG configuration directory, by default `~/.config`.
pub const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";
/// The XDG state directory, by default `~/.local/state`.
pub const XDG_STATE_HOME: &str = "XDG_STATE_HOME";
/// The user's home directory.
pub const HOME: &str = "HOME";

/// The directory of Claude Code's files, by default `~/.claude` and the home directory.
pub const CLAUDE_CONFIG_DIR: &str = "CLAUDE_CONFIG_DIR";
/// The directory of Codex's files, by default `~/.codex`.
pub const CODEX_HOME: &str = "CODEX_HOME";
/// The directory above Gemini CLI's `.gemini`, by default the home directory.
pub const GEMINI_CLI_HOME: &str = "GEMINI_CLI_HOME";

/// The search path of programs.
pub const PATH: &str = "PATH";
/// The key of Tavily for searches.
pub const TAVILY_API_KEY: &str = "TAVILY_API_KEY";
/// The key of Brave for searches.
pub const BRAVE_API_KEY: &str = "BRAVE_API_KEY";
/// The variables that name proxies, and hosts without one.
pub const PROXIES: [&str; 8] = [
    "http_proxy",
    "HTTP_PROXY",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
];
const NO_COLOR: &str = "NO_COLOR";
const TERM: &str = "TERM";
/// `--require-sandbox`.
pub const REQUIRE_SANDBOX: &str = "SINEW_REQUIRE_SANDBOX";
/// The glibc malloc variables that set when freed memory returns to the kernel.
const MALLOC: [&str; 2] = ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"];

/// Returns whether the user set one of the glibc malloc variables.
pub fn settles_memory() -> bool {
    MALLOC.into_iter().any(|name| std::env::var_os(name).is_some())
}

fn directory(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Returns whether a variable is set to the empty string.
pub fn is_empty(name: &OsStr) -> bool {
    std::env::var_os(name).is_some_and(|value| value.is_empty())
}

/// Returns the home directory.
pub fn home() -> Option<PathBuf> {
    directory(HOME)
}

/// Returns the value of `HOME`, absolute or relative.
pub fn written_home() -> Option<OsString> {
    std::env::var_os(HOME)
}

/// Returns the XDG configuration directory, if `XDG_CONFIG_HOME` is set.
pub fn config_home() -> Option<PathBuf> {
    directory(XDG_CONFIG_HOME)
}

/// Returns the XDG state directory, if `XDG_STATE_HOME` is set.
pub fn state_home() -> Option<PathBuf> {
    directory(XDG_STATE_HOME)
}

/// Returns the directory that a variable of an MCP client names.
pub fn client_directory(name: &str) -> Option<PathBuf> {
    let is_known = [CLAUDE_CONFIG_DIR, CODEX_HOME, GEMINI_CLI_HOME].contains(&name);
    is_known.then(|| directory(name)).flatten()
}

/// Returns the key of a provider of searches or models.
pub fn api_key(name: &str) -> Option<ApiKey> {
    std::env::var(name).ok().filter(|key| !key.trim().is_empty()).map(ApiKey::new)
}

/// Returns the value of a variable that names proxies, or hosts without one.
pub fn proxy(name: &str) -> Option<String> {
    let value = PROXIES.contains(&name).then(|| std::env::var_os(name)).flatten()?;
    // A value that is no UTF-8 names no usable proxy; the error for the converted text says so.
    let value = value.to_string_lossy().into_owned();
    Some(value).filter(|value| !value.trim().is_empty())
}

/// Returns a variable that the settings of an MCP server name.
pub fn of_server(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Returns whether a terminal gets colors: not where `NO_COLOR` has a value or `TERM` is `dumb`.
pub fn allow_colors() -> bool {
    let has = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    has(NO_COLOR).is_none() && has(TERM).is_some_and(|term| term != "dumb")
}

/// Returns the whole environment, from which that of commands is built.
pub fn all() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os()
}

/// Returns the value of `PATH`.
pub fn path() -> OsString {
    std::env::var_os(PATH).unwrap_or_default()
}

/// Returns whether a graphical session is there in which a browser can open.
pub fn has_display() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"]
        .into_iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Returns whether `PATH` has a program of a name.
pub fn has_program(name: &str) -> bool {
    !name.contains('/') && std::env::split_paths(&path()).any(|dir| dir.join(name).is_file())
}

const FLAGS: [&str; 10] =
    [APPROVALS, CONFIG, DIALECT, LOG, READ_ONLY, REQUIRE_SANDBOX, ROOT, SESSION, SET, TOOLS];

/// Returns sinew's own variables by name. A foreign name printed in a command line could inject shell code.
pub fn own() -> impl Iterator<Item = (&'static str, OsString)> {
    let set = |name: &&'static str| Some((*name, std::env::var_os(name)?));
    FLAGS.iter().filter_map(set).filter(|(_, value)| !value.is_empty())
}
