//! Builds the runtime's hooks from the configuration.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use sinew_guard::{
    Layer, OwnProgramSettings, OwnPrograms, TrustedPrograms, Unrunnable, environment,
};
use sinew_runtime::{CommandHook, CommandHookSettings};

use crate::config::trust::{Content, Known};
use crate::config::{HookOptions, LogLevel, Origin, hooks};
use crate::wiring::{self, Loaded};

/// Returns the hooks of a runtime. A hook with a model-writable program is an error.
/// A missing program causes a warning, and the hook fails when it runs.
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

/// Returns the configured hooks.
pub(crate) fn of(loaded: &Loaded) -> anyhow::Result<Vec<Arc<CommandHook>>> {
    let settings = &loaded.settings.hooks;
    if settings.is_empty() {
        return Ok(Vec::new());
    }
    let by_client = loaded.said.is_by_client();
    let required = |hook: Option<&HookOptions>| hook.and_then(|hook| hook.requires.clone());
    let programs = OwnPrograms::new(program_settings(loaded, &[])?);
    let written = loaded.layered.options.hooks.as_ref();
    let written = written.map(|hooks| hooks.0.as_slice()).unwrap_or_default();
    let first = loaded.roots.first().cloned().unwrap_or_default();
    let trusted = trusted(loaded)?;
    let mut all = Vec::new();
    for (at, settings) in settings.iter().enumerate() {
        let mut settings = settings.clone();
        let origin = loaded.layered.hooks.get(at);
        settings.origin = origin.map_or_else(|| settings.origin.clone(), ToString::to_string);
        if origin.is_some_and(|origin| origin.layer() == Layer::Project) {
            // The project's author must not choose more programs of it to run.
            settings.in_root = false;
            settings.trusted.clone_from(&trusted);
        }
        if settings.folder.as_os_str().is_empty() {
            settings.folder =
                if settings.form.starts_in_root { first.clone() } else { PathBuf::from(NOWHERE) };
        }
        let given = settings.paths.clone();
        settings.paths.extend(given.iter().filter_map(|glob| real_spelling(glob, &loaded.roots)));
        let origin = settings.origin.clone();
        let warn = |text: &str| {
            if LogLevel::Warn <= loaded.settings.log {
                tell(text);
            }
        };
        let requires = required(written.get(at)).unwrap_or_default();
        if let Some(why) = hooks::unmet(&requires, by_client) {
            warn(&format!("{origin}: the hook `{}` is left out, since {why}", settings.name));
            continue;
        }
        if let Some(why) = hooks::absent(&requires) {
            let name = &settings.name;
            warn(&format!(
                "{origin}: the hook `{name}` may fail: {why} here. It stays, because a client can take both away"
            ));
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

/// Returns how the user's own programs are run, with these variables beside the usual ones.
pub(crate) fn program_settings(
    loaded: &Loaded,
    variables: &[String],
) -> anyhow::Result<OwnProgramSettings> {
    let state = loaded.state.as_ref().context(
        "hooks of the user need a state directory; set XDG_STATE_HOME to an absolute directory",
    )?;
    Ok(OwnProgramSettings {
        helper: loaded.helper.clone(),
        sessions: state.join("sessions"),
        env: environment(loaded.said.variables(), variables),
        roots: loaded.roots.iter().map(real).collect(),
    })
}

/// The default working directory of programs: in a root, they would load modules that a model writes.
pub(crate) const NOWHERE: &str = "/";

/// Returns the trusted programs of the project, if it has hooks.
fn trusted(loaded: &Loaded) -> anyhow::Result<Option<TrustedPrograms>> {
    let is_own = |origin: &Origin| origin.layer() == Layer::Project;
    let has_own = loaded.layered.hooks.iter().any(is_own);
    let Some(project) = loaded.layered.trusted_project.as_ref().filter(|_| has_own) else {
        return Ok(None);
    };
    let project = real(project);
    let read = match wiring::trusted(&loaded.said.places)?.of_project(&project) {
        Known::Now(content) => Some(content.hooks()),
        // The content changed during start-up.
        Known::Never | Known::Before(_) => None,
    };
    let dir = project.join(".sinew/hooks");
    let is_as_read = move || read.is_some() && Content::read_hooks(&project).ok() == read;
    Ok(Some(TrustedPrograms { dir, is_as_read: Arc::new(is_as_read) }))
}

/// Returns a glob that starts with a root as given, with the canonical root instead.
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
    crate::screen::say(text);
}
