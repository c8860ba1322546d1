//! The hooks of the configuration, as hooks of a runtime.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use sinew_guard::{OwnProgramSettings, OwnPrograms, Unrunnable, environment};
use sinew_runtime::{CommandHook, CommandHookSettings};

use crate::config::{HookOptions, LogLevel, env_vars, hooks};
use crate::wiring::Loaded;

/// Returns the hooks of a runtime. One that would run what a model can write is an error, and one whose
/// program is not there is told: it fails when it is its turn.
pub(crate) fn checked(loaded: &Loaded) -> anyhow::Result<Vec<Arc<CommandHook>>> {
    let all = of(loaded)?;
    for hook in &all {
        let CommandHookSettings { origin, name, .. } = hook.settings();
        match hook.problem() {
            Some(Unrunnable::InRoot(why)) => bail!("{origin}: the hook `{name}`: {why}"),
            Some(Unrunnable::NotThere(why)) if LogLevel::Warn <= loaded.settings.log => {
                tell(&format!("{origin}: the hook `{name}` will fail: {why}"));
            }
            _ => {}
        }
    }
    Ok(all)
}

/// Returns the hooks that are configured.
pub(crate) fn of(loaded: &Loaded) -> anyhow::Result<Vec<Arc<CommandHook>>> {
    let settings = &loaded.settings.hooks;
    if settings.is_empty() {
        return Ok(Vec::new());
    }
    let state = env_vars::state_home()
        .context("hooks need a place for state; set XDG_STATE_HOME to an absolute directory")?;
    let programs = OwnPrograms::new(OwnProgramSettings {
        helper: loaded.helper.clone(),
        sessions: state.join("sinew/sessions"),
        env: environment(loaded.said.variables(), &[]),
        roots: loaded.roots.iter().map(real).collect(),
    });
    let written = loaded.layered.options.hooks.as_ref();
    let written = written.map(|hooks| hooks.0.as_slice()).unwrap_or_default();
    let first = loaded.roots.first().cloned().unwrap_or_default();
    let mut all = Vec::new();
    for (at, settings) in settings.iter().enumerate() {
        let mut settings = settings.clone();
        let origin = loaded.layered.hooks.get(at);
        settings.origin = origin.map_or_else(|| settings.origin.clone(), ToString::to_string);
        if settings.folder.as_os_str().is_empty() {
            settings.folder.clone_from(&first);
        }
        let given = settings.paths.clone();
        settings.paths.extend(given.iter().filter_map(|glob| real_spelling(glob, &loaded.roots)));
        let origin = settings.origin.clone();
        let warn = |text: &str| {
            if LogLevel::Warn <= loaded.settings.log {
                tell(text);
            }
        };
        if let Some(why) = written.get(at).and_then(unmet) {
            warn(&format!("{origin}: the hook `{}` is left out, since {why}", settings.name));
            continue;
        }
        for warning in
            written.get(at).map(|hook| hooks::warnings(hook, &origin)).unwrap_or_default()
        {
            warn(&warning);
        }
        let name = settings.name.clone();
        let hook = CommandHook::new(settings, Arc::clone(&programs), Some(tell))
            .map_err(|why| anyhow::anyhow!("{origin}: the hook `{name}`: {why}"))?;
        all.push(Arc::new(hook));
    }
    Ok(all)
}

fn unmet(hook: &HookOptions) -> Option<String> {
    hooks::unmet(hook.requires.as_ref()?)
}

/// Returns the same glob with the real path of a root, where it begins with a root as that was given.
fn real_spelling(glob: &str, roots: &[PathBuf]) -> Option<String> {
    let (root, rest) = roots.iter().find_map(|root| {
        let rest = glob.strip_prefix(root.to_str()?)?;
        rest.starts_with('/').then_some((root, rest))
    })?;
    let real = real(root);
    (real != *root).then(|| Some(format!("{}{rest}", real.to_str()?)))?
}

#[expect(clippy::disallowed_methods, reason = "roots are compared by their real paths")]
fn real(root: &PathBuf) -> PathBuf {
    std::fs::canonicalize(root).unwrap_or_else(|_| root.clone())
}

fn tell(text: &str) {
    eprintln!("sinew: {text}");
}
