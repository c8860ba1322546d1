//! The settings of sandboxed commands, and what they see of a home directory.

use std::path::{Path, PathBuf};

use sinew_guard::{CommandSettings, environment};

use super::Loaded;
use crate::config::{self, env_vars};
use crate::screen::say;

/// Secret paths in the home directory, which are hidden from commands.
const SECRET: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".config/rclone",
    ".config/op",
    ".config/sinew",
    ".config/git/credentials",
    ".password-store",
    ".local/share/keyrings",
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".netrc",
    ".git-credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".terraform.d",
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".bash_history",
    ".zsh_history",
];

/// Secret paths of the system.
const SECRET_OF_SYSTEM: &[&str] =
    &["/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh", "/etc/ssl/private"];

/// Cache directories of tools in the home directory.
const CACHES: &[&str] = &[
    ".cargo",
    ".rustup",
    ".npm",
    ".cache",
    "go",
    ".m2",
    ".gradle",
    ".bun",
    ".deno",
    ".nuget",
    ".local/share/pnpm",
    ".local/share/uv",
    ".gem",
    ".rbenv",
    ".nvm",
    ".pyenv",
];

/// Returns the settings of commands.
pub(super) fn commands(loaded: &Loaded, state: &Path) -> CommandSettings {
    let run = &loaded.settings.run;
    let homes = loaded.said.places.homes();
    let at_home = |names: &'static [&'static str]| {
        homes.iter().flat_map(move |home| names.iter().map(|name| home.join(name)))
    };
    let hidden = at_home(SECRET)
        .chain(SECRET_OF_SYSTEM.iter().map(PathBuf::from))
        .chain(run.hide.iter().cloned())
        .filter(|path| !run.show.contains(path))
        .chain([state.to_owned()]);
    CommandSettings {
        helper: Some(loaded.helper.clone()),
        levels: run.levels.clone(),
        sessions: state.join("sessions"),
        hidden: hidden.collect(),
        caches: at_home(CACHES).chain(env_vars::caches()).collect(),
        unprotected: run.unprotected.clone(),
        network: run.network,
        ask: run.ask,
        homes: homes.clone(),
        env: environment(env_vars::all(), &run.env),
        // A project must not choose the shell.
        shell: env_vars::shell().filter(|shell| {
            let shell = config::real(shell);
            !loaded.roots.iter().any(|root| shell.starts_with(config::real(root)))
        }),
        max_background: run.max_background,
        max_processes: run.max_processes,
        limits: run.limits,
        activate: run.activate.clone(),
        warn: Some(say),
    }
}
