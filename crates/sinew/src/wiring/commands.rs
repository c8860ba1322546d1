//! The settings of sandboxed commands.

use std::path::Path;

use sinew_guard::{CommandSettings, UserContext};

use super::Loaded;
use crate::config::env_vars;
use crate::screen::say;

/// Returns the settings of commands: the standard ones, and what the configuration changes.
pub(super) fn commands(loaded: &Loaded, state: &Path) -> CommandSettings {
    let run = &loaded.settings.run;
    let user = UserContext {
        homes: loaded.said.places.homes(),
        roots: loaded.roots.clone(),
        state: state.to_owned(),
        variables: env_vars::all().collect(),
        passed: run.env.clone(),
        hide: run.hide.clone(),
        show: run.show.clone(),
    };
    CommandSettings {
        levels: run.levels.clone(),
        unprotected: run.unprotected.clone(),
        network: run.network,
        forbids_network: run.forbids_network,
        forbids_unsandboxed: run.forbids_unsandboxed,
        ask: run.ask,
        cache_stores: run.keeps_downloads.then(|| state.join("caches")),
        max_background: run.max_background,
        max_processes: run.max_processes,
        limits: run.limits,
        usage: run.usage,
        activate: run.activate.clone(),
        warn: Some(say),
        ..CommandSettings::of_user(loaded.helper.clone(), user)
    }
}

#[cfg(test)]
mod tests {
    use sinew_guard::Helper;

    use crate::config::{Options, Settings};

    use super::*;

    #[test]
    fn library_and_configuration_share_defaults() {
        let none = std::iter::empty::<&Path>();
        let standard = CommandSettings::standard(Helper::program("/helper"), none, "/state", []);
        let run = Settings::resolve(&Options::default()).expect("settings").run;
        let of_library = (
            (standard.levels, standard.unprotected, standard.network, standard.forbids_network),
            (standard.forbids_unsandboxed, standard.ask, standard.activate),
            standard.cache_stores.is_some(),
            (standard.max_background, standard.max_processes, standard.limits, standard.usage),
        );
        let of_configuration = (
            (run.levels, run.unprotected, run.network, run.forbids_network),
            (run.forbids_unsandboxed, run.ask, run.activate),
            run.keeps_downloads,
            (run.max_background, run.max_processes, run.limits, run.usage),
        );
        assert_eq!(of_library, of_configuration);
    }
}
