//! Builds the environment of commands from the user's own, without variables that inject foreign code.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Variables that every command gets where they are set.
const PASSED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "TMPDIR",
    "TZ",
    // Where tools lie and keep their caches.
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "GOCACHE",
    "GOMODCACHE",
    "GOTOOLCHAIN",
    "JAVA_HOME",
    "MAVEN_HOME",
    "GRADLE_USER_HOME",
    "NVM_DIR",
    "NVM_BIN",
    "VOLTA_HOME",
    "FNM_DIR",
    "PNPM_HOME",
    "BUN_INSTALL",
    "DENO_DIR",
    "NODE_ENV",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "PYENV_ROOT",
    "POETRY_HOME",
    "UV_CACHE_DIR",
    "PIP_CACHE_DIR",
    "RBENV_ROOT",
    "GEM_HOME",
    "ASDF_DIR",
    "ASDF_DATA_DIR",
    "MISE_DATA_DIR",
    "SDKMAN_DIR",
    "NIX_PATH",
    "NIX_PROFILES",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "CC",
    "CXX",
    "PKG_CONFIG_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "EDITOR",
];

/// Variables that are never passed, even if configured: they make a loader or an interpreter run other code.
const NEVER: &[&str] = &[
    "BASH_ENV",
    "ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "PROMPT_COMMAND",
    "ZDOTDIR",
    "IFS",
    "CDPATH",
    "GLOBIGNORE",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "PERL5OPT",
    "PERL5LIB",
    "PERL5DB",
    "RUBYOPT",
    "RUBYLIB",
    "NODE_OPTIONS",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_ASKPASS",
    "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR",
    "GIT_EXTERNAL_DIFF",
    "GCONV_PATH",
    "LOCPATH",
    "NLSPATH",
    "HOSTALIASES",
    "RESOLV_HOST_CONF",
    "MALLOC_TRACE",
    "TERMINFO",
    "TERMINFO_DIRS",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
];

/// Beginnings of names that are never passed.
const NEVER_BEGINNINGS: &[&str] = &["LD_", "DYLD_", "BASH_FUNC_", "GIT_CONFIG", "SINEW_"];

/// The directories for programs if there is no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables that keep programs from prompting and paging.
const TOLD: &[(&str, &str)] = &[
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_PAGER", "cat"),
    ("PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
    ("GH_PAGER", "cat"),
];

/// Returns the environment of commands: those of `vars` that are always passed or `named`, and variables
/// against prompts. A name that is never passed stays out even if named.
pub fn environment(
    vars: impl IntoIterator<Item = (OsString, OsString)>,
    named: &[String],
) -> Vec<(OsString, OsString)> {
    let told = TOLD.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let wanted = |name: &OsStr| {
        let known = is_passed(name) || named.iter().any(|named| name == named.as_str());
        known && !never(name) && !is_told(name)
    };
    let mut passed: Vec<_> =
        vars.into_iter().filter(|(name, _)| wanted(name)).chain(told).collect();
    if !passed.iter().any(|(name, _)| name == "PATH") {
        passed.push((OsString::from("PATH"), OsString::from(DEFAULT_PATH)));
    }
    passed
}

fn is_passed(name: &OsStr) -> bool {
    PASSED.iter().any(|passed| name == *passed) || name.as_bytes().starts_with(b"LC_")
}

fn is_told(name: &OsStr) -> bool {
    TOLD.iter().any(|(told, _)| name == *told)
}

/// Returns the environment of a command that has a terminal.
pub(super) fn in_terminal(env: &mut Vec<(OsString, OsString)>) {
    // In a terminal the client answers prompts and turns pages.
    env.retain(|(name, _)| name != "TERM" && !is_told(name));
    env.push((OsString::from("TERM"), OsString::from("xterm-256color")));
}

/// Returns whether every command gets a variable by default.
pub(super) fn is_given(name: &OsStr) -> bool {
    is_passed(name) || is_told(name)
}

/// Returns whether a variable is never passed.
pub(super) fn never(name: &OsStr) -> bool {
    NEVER.iter().any(|never| name == *never)
        || NEVER_BEGINNINGS.iter().any(|start| name.as_bytes().starts_with(start.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_needed_and_what_brings_code_stays_out() {
        for (name, named, expected) in [
            ("PATH", "", true),
            ("LC_ALL", "", true),
            ("CARGO_HOME", "", true),
            ("ANTHROPIC_API_KEY", "", false),
            ("ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY", true),
            ("LD_PRELOAD", "LD_PRELOAD", false),
            ("BASH_ENV", "BASH_ENV", false),
            ("BASH_FUNC_ls%%", "BASH_FUNC_ls%%", false),
            ("NODE_OPTIONS", "NODE_OPTIONS", false),
            ("SINEW_CONFIG", "SINEW_CONFIG", false),
        ] {
            let vars = [(OsString::from(name), OsString::from("value"))];
            let passed = environment(vars, &[String::from(named)]);
            assert_eq!(passed.iter().any(|(at, _)| at == name), expected, "{name} {named}");
        }
        let pager = [(OsString::from("PAGER"), OsString::from("less"))];
        let passed = environment(pager, &[String::from("PAGER")]);
        let of: Vec<_> = passed.iter().filter(|(name, _)| name == "PAGER").collect();
        assert_eq!(of, [&(OsString::from("PAGER"), OsString::from("cat"))]);
    }
}
