//! The default settings of commands, derived from the user's directories and environment.
//!
//! The command line and embedding programs share them. The caller passes the environment, since only a program reads its
//! own.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use sinew_fs::real_path::real;
use sinew_fs::user_database::UserEntry;

use super::seen_of_home::{
    CACHE_VARIABLES, CACHES, CREDENTIALS, PRIVATE, SECRET, SECRET_OF_SYSTEM, SHOWN,
    SHOWN_OF_SYSTEM, config_files, is_of_tools, programs,
};
use super::{CommandSettings, Helper, ProcessLimits, environment};

/// The directories and the environment from which [`CommandSettings::of_user`] derives what commands see.
#[derive(Debug, Clone)]
pub struct UserContext {
    /// The user's home directories.
    pub homes: Vec<PathBuf>,
    /// The roots of the runtime.
    pub roots: Vec<PathBuf>,
    /// The state directory, which commands do not see.
    pub state: PathBuf,
    /// The environment of the process.
    pub variables: Vec<(OsString, OsString)>,
    /// Names of further variables that commands get.
    pub passed: Vec<String>,
    /// Further paths that commands do not see.
    pub hide: Vec<PathBuf>,
    /// Paths that commands see although the tables call them secret or private.
    pub show: Vec<PathBuf>,
}

impl CommandSettings {
    /// Returns the settings that the command line uses by default.
    ///
    /// - Of home directories, commands see the roots, toolchains, caches and configuration without secrets.
    /// - Secrets such as `~/.ssh`, and the state directory, are hidden.
    /// - Commands get a filtered environment and no network.
    /// - The strongest sandbox level that works here is used. Remove [`SandboxLevel::None`](super::SandboxLevel::None) from
    ///   `levels` to run nothing without a sandbox.
    ///
    /// `variables` is the environment, usually `std::env::vars_os()`. Home directories are those of the user database
    /// and of `HOME`. `state` is a directory outside the roots, which the first command creates.
    pub fn standard(
        helper: Helper,
        roots: impl IntoIterator<Item = impl Into<PathBuf>>,
        state: impl Into<PathBuf>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Self {
        let variables: Vec<_> = variables.into_iter().collect();
        let context = UserContext {
            homes: home_directories(&variables),
            roots: roots.into_iter().map(Into::into).collect(),
            state: state.into(),
            variables,
            passed: Vec::new(),
            hide: Vec::new(),
            show: Vec::new(),
        };
        Self::of_user(helper, context)
    }

    /// Returns [`CommandSettings::standard`] for given home directories and exceptions.
    pub fn of_user(helper: Helper, user: UserContext) -> Self {
        let UserContext { homes, roots, state, variables, passed, hide, show } = user;
        let directory = |name| directory(&variables, name);
        let at_home = |names: &'static [&'static str]| {
            homes.iter().flat_map(move |home| names.iter().map(|name| home.join(name)))
        };
        let named_caches: Vec<PathBuf> =
            CACHE_VARIABLES.iter().filter_map(|name| directory(name)).collect();
        let credentials =
            named_caches.iter().flat_map(|dir| CREDENTIALS.iter().map(|name| dir.join(name)));
        let hidden = at_home(SECRET)
            .chain(SECRET_OF_SYSTEM.iter().map(PathBuf::from))
            .chain(credentials)
            .chain(hide)
            .filter(|path| !show.contains(path))
            .chain([state.clone()]);
        let private = PRIVATE.iter().map(PathBuf::from).chain(homes.iter().cloned());
        let path = value(&variables, "PATH").unwrap_or_default();
        let shown = at_home(SHOWN)
            .chain(SHOWN_OF_SYSTEM.iter().map(PathBuf::from))
            .chain(homes.iter().flat_map(|home| config_files(home, &roots)))
            .chain(programs(path, &homes, &roots));
        let of_tools = named_caches.iter().filter(|dir| is_of_tools(dir, &homes, &show)).cloned();
        // A project must not choose the shell.
        let is_outside = |shell: &PathBuf| {
            let shell = real(shell);
            !roots.iter().any(|root| shell.starts_with(real(root)))
        };
        Self {
            helper: Some(helper),
            sessions: state.join("sessions"),
            hidden: hidden.collect(),
            private: private.collect(),
            shown: shown.collect(),
            caches: at_home(CACHES).chain(of_tools).collect(),
            ssh_agent: directory("SSH_AUTH_SOCK"),
            shell: directory("SHELL").filter(is_outside),
            env: environment(variables.iter().cloned(), &passed),
            shown_by_settings: show,
            homes: homes.clone(),
            max_background: MAX_BACKGROUND,
            max_processes: MAX_PROCESSES,
            limits: ProcessLimits { file_bytes: Some(MAX_FILE_BYTES), ..ProcessLimits::default() },
            ..Self::default()
        }
    }
}

const MAX_BACKGROUND: u32 = 16;
const MAX_PROCESSES: u64 = 4_096;
const MAX_FILE_BYTES: u64 = 16 << 30;

/// Returns the home directories of the user database and of `HOME`, each once.
fn home_directories(variables: &[(OsString, OsString)]) -> Vec<PathBuf> {
    let own = UserEntry::of_process().ok().flatten().and_then(|entry| entry.home);
    let is_own = |home: &PathBuf| own.as_deref().is_some_and(|own| is_same(own, home));
    let named = directory(variables, "HOME").filter(|home| !is_own(home));
    own.iter().cloned().chain(named).collect()
}

fn is_same(one: &Path, other: &Path) -> bool {
    one == other || real(one) == real(other)
}

/// Returns the absolute path that a variable holds.
fn directory(variables: &[(OsString, OsString)], name: &str) -> Option<PathBuf> {
    value(variables, name).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn value<'v>(variables: &'v [(OsString, OsString)], name: &str) -> Option<&'v OsStr> {
    variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_settings_hide_secrets_and_pass_no_keys() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = real(dir.path());
        let text = |path: PathBuf| path.into_os_string();
        let variables = [
            ("HOME", text(home.clone())),
            ("PATH", OsString::from("/usr/bin")),
            ("CARGO_HOME", text(home.join("own/.cargo"))),
            ("GOPATH", text(home.join("papers"))),
            ("SHELL", text(home.join("project/sh"))),
            ("SSH_AUTH_SOCK", OsString::from("agent")),
            ("API_TOKEN", OsString::from("x")),
        ];
        let variables = variables.map(|(name, value)| (OsString::from(name), value));
        let (project, state) = (home.join("project"), home.join("state"));
        let helper = Helper::program("/helper");
        let settings = CommandSettings::standard(helper, [&project], &state, variables);
        assert!(settings.homes.contains(&home), "{:?}", settings.homes);
        assert!(settings.private.contains(&home), "{:?}", settings.private);
        for secret in [home.join(".ssh"), home.join("own/.cargo/credentials.toml"), state.clone()] {
            assert!(settings.hidden.contains(&secret), "{}", secret.display());
        }
        assert!(settings.caches.contains(&home.join("own/.cargo")));
        assert!(!settings.caches.contains(&home.join("papers")), "a variable names any directory");
        assert!(settings.shown.contains(&PathBuf::from("/usr/bin")));
        assert_eq!(settings.sessions, state.join("sessions"));
        assert_eq!((settings.shell, settings.ssh_agent), (None, None));
        assert!(!settings.env.iter().any(|(name, _)| name == "API_TOKEN"));
        assert!(!settings.network);
    }
}
