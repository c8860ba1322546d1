//! The settings of sandboxed commands.

use std::path::{Path, PathBuf};

use sinew_guard::{CommandSettings, environment};

use super::Loaded;
use super::seen_of_home::{
    CACHES, CREDENTIALS, PRIVATE, SECRET, SECRET_OF_SYSTEM, SHOWN, SHOWN_OF_SYSTEM, config_files,
    is_of_tools, programs,
};
use crate::config::{self, env_vars};
use crate::screen::say;

/// Returns the settings of commands.
pub(super) fn commands(loaded: &Loaded, state: &Path) -> CommandSettings {
    let run = &loaded.settings.run;
    let homes = loaded.said.places.homes();
    let at_home = |names: &'static [&'static str]| {
        homes.iter().flat_map(move |home| names.iter().map(|name| home.join(name)))
    };
    let hidden = at_home(SECRET)
        .chain(SECRET_OF_SYSTEM.iter().map(PathBuf::from))
        .chain(
            env_vars::caches().flat_map(|dir| CREDENTIALS.iter().map(move |name| dir.join(name))),
        )
        .chain(run.hide.iter().cloned())
        .filter(|path| !run.show.contains(path))
        .chain([state.to_owned()]);
    let private = PRIVATE.iter().map(PathBuf::from).chain(homes.iter().cloned());
    let shown = at_home(SHOWN)
        .chain(SHOWN_OF_SYSTEM.iter().map(PathBuf::from))
        .chain(homes.iter().flat_map(|home| config_files(home, &loaded.roots)))
        .chain(programs(&env_vars::path(), &homes, &loaded.roots));
    let is_cache = |dir: &PathBuf| is_of_tools(dir, &homes, &run.show);
    CommandSettings {
        helper: Some(loaded.helper.clone()),
        levels: run.levels.clone(),
        sessions: state.join("sessions"),
        hidden: hidden.collect(),
        private: private.collect(),
        shown: shown.collect(),
        shown_by_settings: run.show.clone(),
        caches: at_home(CACHES).chain(env_vars::caches().filter(is_cache)).collect(),
        unprotected: run.unprotected.clone(),
        network: run.network,
        forbids_network: run.forbids_network,
        forbids_unsandboxed: run.forbids_unsandboxed,
        ssh_agent: env_vars::ssh_agent(),
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
