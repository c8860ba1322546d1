//! Loads the configuration: its layers in their order, trust, the settings and the roots.
#![expect(clippy::disallowed_methods, reason = "roots are compared by their real paths")]

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use sinew_guard::{Helper, Layer, RuleOrigin};

use super::{CliInput, Places, current_dir, homes as own_homes};
use crate::config::trust::{Known, Trusted};
use crate::config::{self, Layered, Layers, Origin, SYSTEM_FILE, Settings, env_vars};

/// The configuration of one process, and its origin.
#[derive(Clone)]
pub(crate) struct Loaded {
    /// The merged layers.
    pub(crate) layered: Layered,
    /// The validated settings.
    pub(crate) settings: Settings,
    /// The absolute roots.
    pub(crate) roots: Vec<PathBuf>,
    /// The helper program of sandboxed commands.
    pub(crate) helper: Helper,
    /// The input of this process.
    pub(crate) said: CliInput,
    /// The state directory, if there is a place for one.
    pub(crate) state: Option<PathBuf>,
    /// The error of the project's configuration, if it was left out.
    pub(crate) stopped: Option<String>,
    /// Secrets that are in no variable, which records leave out.
    pub(crate) secrets: Vec<String>,
}

/// How to treat a project's own configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Project {
    /// It counts; an invalid one is an error.
    Needed,
    /// It counts; an invalid one is skipped, for commands without a root.
    Optional,
    /// It is not read.
    LeftOut,
}

/// Loads all layers. Input from a repository only tightens until the user confirms it.
pub(crate) fn load(mut said: CliInput, helper: Helper, project: Project) -> anyhow::Result<Loaded> {
    let trusted = match project {
        Project::LeftOut => Trusted::default(),
        Project::Needed | Project::Optional => trusted(&said.places)?,
    };
    said.read_config();
    let mut layered = match project {
        Project::LeftOut => without_project(&said)?,
        Project::Needed => settle(&said, &trusted)?,
        Project::Optional => settle(&said, &trusted).or_else(|error| {
            let mut without = without_project(&said)?;
            without.warnings.push(format!("{error:#}; it is left out"));
            Ok::<_, anyhow::Error>(without)
        })?,
    };
    let may_be_confirmed = said.is_held && !layered.keeps_from_trusting;
    if may_be_confirmed && trusted.confirms(&said.current, layered.unconfirmed()) {
        said.is_held = false;
        layered = settle(&said, &trusted)?;
    }
    layered.warn_of_unknown_tools();
    layered.warn_of_contradictions();
    layered.warn_of_url_policy();
    layered.check_served()?;
    let mut settings =
        Settings::resolve(&layered.options).map_err(|error| layered.located(error))?;
    settings.rules.rules = layered.all_rules()?;
    settings.rules.profile_origin = ["read_only", "profile"].into_iter().find_map(|key| {
        let (value, origin) = layered.origins.get(key)?;
        (*origin != Origin::Default && *value != Value::Bool(false)).then(|| origin.of_rule())
    });
    let required = "tools.fs.require_approval";
    settings.rules.required_origin = layered.origins.get(required).and_then(|(value, origin)| {
        let place = format!("{origin} (`{required}`)");
        let is_written = *origin != Origin::Default && *value == Value::Bool(true);
        is_written.then(|| RuleOrigin { layer: origin.layer(), place })
    });
    let roots = match roots(&settings, &said) {
        Err(_) if project != Project::Needed => Vec::new(),
        Err(error) if layered.unconfirmed().any(|left| left.key == "roots") => {
            let line = said.line();
            bail!("{error}; what a client names is left out until you confirm it: {line}");
        }
        roots => roots?,
    };
    hold_roots(&layered, &roots)?;
    layered.warn_of_idle_rules(&roots);
    let is_left_out = layered.left_out.iter().any(|left| left.key == env_vars::XDG_STATE_HOME);
    let state = if is_left_out { said.places.state() } else { said.places.chosen_state() };
    // The databases are not opened through a symlink.
    let state = state.map(|state| config::real(&state));
    Ok(Loaded { layered, settings, roots, helper, said, state, stopped: None, secrets: Vec::new() })
}

/// Loads all layers for commands that must run in any project: leaves out an invalid one and keeps the error.
pub(crate) fn load_anyway(
    said: CliInput,
    helper: Helper,
    project: Project,
) -> anyhow::Result<Loaded> {
    load(said.clone(), helper.clone(), project).or_else(|error| {
        let mut loaded = load(said, helper, Project::LeftOut)?;
        loaded.stopped = Some(format!("{error:#}"));
        Ok(loaded)
    })
}

/// Reads trust from the user database's home: a file that variables name could confirm itself.
pub(crate) fn trusted(places: &Places) -> anyhow::Result<Trusted> {
    Ok(match places.state() {
        Some(state) => Trusted::read(&state)?,
        None => Trusted::default(),
    })
}

/// Merges all layers, including the project's file.
pub(crate) fn settle(said: &CliInput, trusted: &Trusted) -> anyhow::Result<Layered> {
    // The project is the first root of the other layers.
    let own = own_layers(said)?;
    let without = layered(own.clone(), said, None)?;
    let settings = Settings::resolve(&without.options).map_err(|error| without.located(error))?;
    let root = settings.roots.first().map_or(Path::new(""), PathBuf::as_path);
    let project = said.current.join(root);
    if trusted.knows(&project) || config::may_have_settings(&project) {
        return layered(own, said, Some((&project, trusted)));
    }
    Ok(without)
}

/// Merges all layers as for an untrusted project.
pub(crate) fn look(said: &CliInput, project: &Path) -> anyhow::Result<Layered> {
    layered(own_layers(said)?, said, Some((project, &Trusted::default())))
}

/// Merges all layers except the project's.
pub(crate) fn without_project(said: &CliInput) -> anyhow::Result<Layered> {
    layered(own_layers(said)?, said, None)
}

/// Returns the layers that the system and the user own.
fn own_layers(said: &CliInput) -> anyhow::Result<Layers> {
    let mut layers = Layers::with_defaults()?;
    layers.add_file(Path::new(SYSTEM_FILE), Layer::System, false)?;
    if let Some(dir) = said.places.config() {
        layers.add_user_dir(&dir)?;
    }
    let other = said.places.other_config();
    if let Some(dir) = other.as_ref().filter(|_| !said.is_held) {
        layers.add_user_dir(&dir.path)?;
    }
    Ok(layers)
}

/// Merges all layers, including the file of a given project, over those that the system and the user own.
fn layered(
    mut layers: Layers,
    said: &CliInput,
    project: Option<(&Path, &Trusted)>,
) -> anyhow::Result<Layered> {
    if let Some((project, trusted)) = project {
        add_project(&mut layers, project, trusted)?;
    }
    if said.is_held {
        layers.hold_arguments(&said.current, homes(&said.places));
        if let Some(dir) = said.places.other_config() {
            layers.add_named_dir(&dir.path, dir.origin())?;
        }
        if let Some(dir) = said.places.other_state() {
            layers.leave_out_state(&dir.path, dir.origin());
        }
        if let Some(home) = said.places.other_home() {
            layers.leave_out_home(home);
        }
    }
    if let Some(path) = &said.global.config {
        match &said.config_text {
            Some(text) => layers.add_named(path, text.clone())?,
            None => layers.add_file(path, Layer::Session, true)?,
        }
    }
    for written in &said.global.set {
        layers.set_written(written, said.origin(env_vars::SET, "--set"))?;
    }
    add_flags(&mut layers, said)?;
    let mut layered = layers.merge()?;
    if said.is_held {
        layered.leave_out_proxies();
    }
    Ok(layered)
}

/// Adds a project's file, which may loosen if the user trusts its current content.
fn add_project(layers: &mut Layers, project: &Path, trusted: &Trusted) -> anyhow::Result<()> {
    let known = if layers.may_trust() { trusted.of_project(project) } else { Known::Never };
    let name = project.display();
    match known {
        Known::Now(content) => {
            layers.trust_project(project);
            if let Some(text) = &content.config {
                layers.add_trusted_project(project, text.clone())?;
            }
            if let Some(text) = &content.servers {
                layers.add_project_servers(project, Some(text))?;
            }
            return Ok(layers.add_trusted_hooks(project, &content)?);
        }
        Known::Never => {}
        Known::Before(None) => layers.warn(format!(
            "what {name} holds for sinew has changed since you trusted it, so it can only tighten; look at \
             it and trust it anew with `sinew trust {name}`"
        )),
        Known::Before(Some(problem)) => layers.warn(format!(
            "what {name} holds for sinew cannot be read as it was when you trusted it, so it can only \
             tighten: {problem}"
        )),
    }
    layers.add_project_file(project)?;
    layers.add_project_servers(project, None)?;
    Ok(layers.add_project_hooks(project)?)
}

fn add_flags(layers: &mut Layers, said: &CliInput) -> anyhow::Result<()> {
    let global = &said.global;
    let origin = |variable, flag| said.origin(variable, flag);
    let texts = [
        (&global.dialect, "dialect", env_vars::DIALECT, "--dialect"),
        (&global.session, "session", env_vars::SESSION, "--session"),
        (&global.log, "log", env_vars::LOG, "--log"),
        (&global.approvals, "approvals", env_vars::APPROVALS, "--approvals"),
        (&global.profile, "profile", env_vars::PROFILE, "--profile"),
        (
            &global.require_sandbox,
            "run.require_sandbox",
            env_vars::REQUIRE_SANDBOX,
            "--require-sandbox",
        ),
    ];
    for (value, key, variable, flag) in texts {
        if let Some(value) = value {
            layers.set(key, Value::from(value.as_str()), origin(variable, flag));
        }
    }
    if !global.root.is_empty() {
        let from = origin(env_vars::ROOT, "--root");
        let roots = global.root.iter().map(|root| {
            root.to_str().with_context(|| {
                format!("{from}: the name of a root must be UTF-8, and {root:?} is not; start sinew in it")
            })
        });
        layers.set("roots", json!(roots.collect::<anyhow::Result<Vec<_>>>()?), from.clone());
    }
    if !global.tools.is_empty() {
        layers.set("serve", json!(global.tools), origin(env_vars::TOOLS, "--tools"));
    }
    if global.read_only {
        layers.set("read_only", Value::Bool(true), origin(env_vars::READ_ONLY, "--read-only"));
    }
    Ok(())
}

/// Returns the absolute roots. The default is the current directory, except `/`, a home or its ancestor.
fn roots(settings: &Settings, said: &CliInput) -> anyhow::Result<Vec<PathBuf>> {
    if settings.roots.is_empty() {
        let current = current_dir()?;
        // An ancestor of a home directory exposes it too; for a client, `HOME` counts as well.
        let own = own_homes::own().map(|home| config::real(&home));
        let homes = homes(&said.places);
        let above = own.iter().chain(homes.iter().filter(|_| said.by_client));
        let holds_home = above.into_iter().any(|home| home.starts_with(&current));
        if current == Path::new("/") || holds_home || homes.contains(&current) {
            bail!(
                "tools would get all of {0}; name it with `--root {0}` if that is meant, or start \
                 sinew in a project",
                current.display()
            );
        }
        return Ok(vec![current]);
    }
    let mut roots = Vec::new();
    for root in &settings.roots {
        roots.push(if root.is_absolute() { root.clone() } else { current_dir()?.join(root) });
    }
    Ok(roots)
}

/// Returns the canonical home directories: those of the user database and of `HOME`, which a client may set.
fn homes(places: &Places) -> Vec<PathBuf> {
    let homes = places.homes().into_iter().chain(own_homes::own());
    homes.map(|home| config::real(&home)).collect()
}

/// Rejects roots outside those of the floor.
fn hold_roots(layered: &Layered, roots: &[PathBuf]) -> anyhow::Result<()> {
    let managed = layered.options.managed.as_ref().and_then(|managed| managed.roots.as_ref());
    let Some(allowed) = managed else { return Ok(()) };
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let allowed: Vec<PathBuf> = allowed.iter().map(|path| real(path)).collect();
    let outside = roots.iter().find(|root| !allowed.iter().any(|dir| real(root).starts_with(dir)));
    match outside {
        None => Ok(()),
        Some(root) => bail!(
            "the root {} is outside `managed.roots` in {SYSTEM_FILE}; use one beneath {}",
            root.display(),
            allowed.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", ")
        ),
    }
}
