//! Loads the configuration and builds the runtime, ledger, checkpoints and sandbox settings from it.
#![expect(clippy::disallowed_methods, reason = "the working directory becomes the first root here")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use sinew_guard::{
    Audit, Checkpoints, CommandSettings, GlobalIgnore, Helper, JournalSettings, Layer, OnFailure,
    Recorded, Redactor, RuleOrigin, SqliteLedger, StateDir, environment,
};
use sinew_runtime::{Asking, Builder, GrantStore, NoLedger, Runtime};
use sinew_tool::{Approver, Ledger, shown};

use crate::cli::Global;
use crate::config::trust::{Known, Trusted};
use crate::config::{
    self, Grants, Layered, Layers, LedgerMode, LogLevel, Origin, SYSTEM_FILE, Settings, env_vars,
};
use crate::hooks;
use crate::screen::say;
use crate::trace::Trace;
use crate::webhook::Webhook;

mod homes;
mod places;

pub(crate) use places::{DatabaseHome, NamedDir, Places};

/// The configuration of one process, and its origin.
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

/// The command-line input of a process: its options, and which of them are flags.
#[derive(Debug, Clone)]
pub(crate) struct CliInput {
    pub(crate) global: Global,
    /// The raw arguments.
    pub(crate) arguments: Vec<OsString>,
    /// The current directory.
    pub(crate) current: PathBuf,
    /// Whether it may come from a repository, so that unconfirmed values only tighten.
    pub(crate) is_held: bool,
    /// Whether a client started the process, confirmed or not.
    pub(crate) by_client: bool,
    /// The text of the `--config` file at the first read.
    pub(crate) config_text: Option<String>,
    /// The places of the user's configuration and state.
    pub(crate) places: Places,
}

impl CliInput {
    /// Returns the input of a process that the user started.
    pub(crate) fn by_person(global: &Global) -> anyhow::Result<Self> {
        let arguments = std::env::args_os().skip(1).collect();
        Ok(Self {
            global: global.clone(),
            arguments,
            current: current_dir()?,
            is_held: false,
            by_client: false,
            config_text: None,
            places: Places::of_process(),
        })
    }

    /// Returns the input of a process that a client started, perhaps from a project's file.
    /// It is an error if the user's directories would be in a project or cannot be determined.
    pub(crate) fn by_client(global: &Global) -> anyhow::Result<Self> {
        let said = Self::by_person(global)?;
        if let DatabaseHome::Unreadable(problem) = &said.places.database {
            bail!("{problem}; without it sinew cannot find the rules of the user");
        }
        homes::hold(&said.current)?;
        // The confirmed line is the server's, without `--check`.
        let arguments = said.arguments.into_iter().filter(|word| word != "--check").collect();
        Ok(Self { is_held: true, by_client: true, arguments, ..said })
    }

    /// Reads the `--config` file once, so that the confirmed text is the text in use (no TOCTOU race).
    fn read_config(&mut self) {
        let path = self.global.config.as_ref();
        self.config_text = path.and_then(|path| config::read_text(path).ok());
    }

    /// Returns the variables of the user's hooks. A client's variables may come from a repository and make
    /// programs load its modules, so few pass; `HOME` is the user database's unless another one is confirmed.
    pub(crate) fn variables(&self) -> Vec<(OsString, OsString)> {
        match self.by_client {
            false => env_vars::all().collect(),
            true => {
                let confirmed = self.places.other_home().filter(|_| !self.is_held).cloned();
                let own = self.places.database.known().map(|home| home.as_os_str().to_owned());
                homes::variables_of_client(confirmed.or(own), &self.current)
            }
        }
    }

    /// Returns whether a client started this process, so that its variables may come from a repository.
    pub(crate) fn is_by_client(&self) -> bool {
        self.by_client
    }

    /// Returns the origin of an option: its variable, unless the flag is written.
    fn origin(&self, variable: &'static str, flag: &'static str) -> Origin {
        let written = self.arguments.iter().any(|arg| {
            let arg = arg.to_string_lossy();
            arg == flag || arg.strip_prefix(flag).is_some_and(|rest| rest.starts_with('='))
        });
        if written { Origin::Flag(flag) } else { Origin::Variable(variable) }
    }

    /// Returns the shell command that confirms this input.
    pub(crate) fn line(&self) -> String {
        let mut words: Vec<String> = env_vars::own()
            .chain(self.places.said())
            .map(|(name, value)| format!("{name}={}", quoted(&value.to_string_lossy())))
            .collect();
        words.push(String::from("sinew trust --arguments --"));
        words.extend(self.arguments.iter().map(|arg| quoted(&arg.to_string_lossy())));
        words.join(" ")
    }
}

/// Quotes a word for a shell, with invisible characters escaped.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => shown(&format!("'{}'", text.replace('\'', "'\\''"))),
    }
}

/// Returns the current directory.
pub(crate) fn current_dir() -> anyhow::Result<PathBuf> {
    std::env::current_dir().context("the current directory cannot be read")
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
            without.warnings.push(format!("{error:#}; it is passed over"));
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
    Ok(Loaded { layered, settings, roots, helper, said, state, stopped: None })
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
    layered(own, said, Some((&said.current.join(root), trusted)))
}

/// Returns the permanent approvals of these roots, if a state directory exists and the floor permits them.
fn grants(loaded: &Loaded) -> Option<Grants> {
    if loaded.layered.keeps_from_allowing {
        return None;
    }
    let state = loaded.state.as_ref()?;
    (!loaded.roots.is_empty()).then(|| Grants::of(state, &loaded.roots))
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
    Ok(layers.merge()?)
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
        let own = homes::own().map(|home| config::real(&home));
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
    let homes = places.homes().into_iter().chain(homes::own());
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
            "the root {} lies outside of `managed.roots` in {SYSTEM_FILE}; use one beneath {}",
            root.display(),
            allowed.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", ")
        ),
    }
}

/// Opens the state directory, and creates a missing one.
pub(crate) fn state_dir(loaded: &Loaded) -> anyhow::Result<StateDir> {
    let path = loaded
        .state
        .as_ref()
        .context("there is no place for state; set XDG_STATE_HOME to an absolute directory")?;
    StateDir::open(path).with_context(|| format!("the state directory {}", path.display()))
}

/// Returns a note on the ledger in the home directory if `XDG_STATE_HOME` names another one: `sinew mcp`
/// records in the home directory until the variable is confirmed.
pub(crate) fn other_ledger(loaded: &Loaded) -> Option<String> {
    let places = &loaded.said.places;
    let own = places.state().map(|state| config::real(&state))?;
    let NamedDir { path, variable } = places.other_state()?;
    let is_other = variable == env_vars::XDG_STATE_HOME && places.other_home().is_none();
    let is_used = loaded.state.as_ref() != Some(&own);
    (is_other && is_used && Audit::is_in(&own)).then(|| {
        format!(
            "this is the ledger in {}, which {variable} names; another is in {}, where `sinew mcp` records where \
             you did not confirm {variable}",
            path.display(),
            own.display()
        )
    })
}

/// A runtime and its parts.
pub(crate) struct Wired {
    /// The runtime.
    pub(crate) runtime: Arc<Runtime>,
    /// The SQLite ledger, if enabled.
    pub(crate) ledger: Option<Arc<SqliteLedger>>,
    /// The trace file, if configured.
    pub(crate) trace: Option<Arc<Trace>>,
    /// The checkpoints, if there is a state directory.
    pub(crate) checkpoints: Option<Arc<Checkpoints>>,
    /// The session of every call.
    pub(crate) session: String,
}

/// Builds the runtime of a surface. `serve` is its default list of tools.
pub(crate) fn wire(
    loaded: &Loaded,
    surface: &'static str,
    serve: &[&str],
    approver: Option<Arc<dyn Approver>>,
) -> anyhow::Result<Wired> {
    let settings = &loaded.settings;
    let written = settings.serve.clone();
    let serve = written.clone().unwrap_or_else(|| serve.iter().map(ToString::to_string).collect());
    let files = settings.files.clone();
    let webhook = settings.webhook.as_ref().map(|to| Webhook::new(to, &loaded.roots));
    let webhook = webhook.transpose()?.map(|webhook| Arc::new(webhook) as Arc<dyn Approver>);
    let grants = grants(loaded);
    let mut rules = settings.rules.clone();
    if let Some(grants) = &grants {
        rules.rules.extend(grants.rules()?.into_iter().map(Arc::new));
    }
    let mut builder = Runtime::builder(settings.dialect)
        .settings(|into| into.clone_from(&files))
        .rules(rules)
        .resolver(settings.resolver)
        .global_ignore(GlobalIgnore::FromGit)
        .asking(Asking {
            approvals: settings.approvals,
            approvers: approver.into_iter().chain(webhook).collect(),
            grant_store: grants.map(|grants| Arc::new(grants) as Arc<dyn GrantStore>),
            timeout: settings.approval_timeout,
        })
        .only(move |tool| serve.iter().any(|word| config::serves(word, tool)));
    for root in &loaded.roots {
        builder = builder.root(root);
    }
    if let Some(state) = loaded.state.clone() {
        builder = builder.commands(commands(loaded, &state));
        builder = builder.journals(JournalSettings { state, warn: say });
    }
    let checkpoints = checkpoints(loaded);
    if let Some(checkpoints) = &checkpoints {
        builder = builder.checkpoints(Arc::clone(checkpoints));
    }
    for hook in hooks::checked(loaded)? {
        builder = builder.hook(hook);
    }
    let mut trace = None;
    if let Some(path) = &settings.trace {
        let redactor = Redactor::knowing(env_vars::all());
        builder = builder.redactor(redactor.clone());
        trace = Some(Trace::begin(path, &loaded.roots, surface, redactor)?);
    }
    let builder = counted(builder, loaded)?;
    let (builder, ledger) = with_ledger(builder, loaded, surface)?;
    let session = match &settings.session {
        Some(session) => session.clone(),
        None => new_session()?,
    };
    let runtime = builder.build()?;
    if written.is_some_and(|words| !words.is_empty())
        && runtime.catalogs().iter().all(|catalog| catalog.tools().is_empty())
    {
        bail!("no tool is left to serve; `sinew tools` without `--tools` lists them");
    }
    if LogLevel::Info <= settings.log {
        say(&format!("session {session}, roots {:?}", runtime.roots()));
    }
    Ok(Wired { runtime, ledger, trace, checkpoints, session })
}

/// Adds the metrics recorder, if a file is configured.
fn counted(builder: Builder, loaded: &Loaded) -> anyhow::Result<Builder> {
    let Some(settings) = &loaded.settings.metrics else { return Ok(builder) };
    let file = crate::metrics::file::MetricsFile::open(settings, &loaded.roots)?;
    Ok(builder.recorder(Arc::new(file)))
}

/// Returns the checkpoints of the state directory, if there is one.
fn checkpoints(loaded: &Loaded) -> Option<Arc<Checkpoints>> {
    let state = loaded.state.as_ref()?;
    // Read-only calls need no state directory, so a missing one is not created here.
    if state.exists() && state_dir(loaded).is_err() {
        return None;
    }
    Some(Arc::new(Checkpoints::at(state, loaded.settings.checkpoints.clone())))
}

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
fn commands(loaded: &Loaded, state: &Path) -> CommandSettings {
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

fn with_ledger(
    builder: Builder,
    loaded: &Loaded,
    surface: &'static str,
) -> anyhow::Result<(Builder, Option<Arc<SqliteLedger>>)> {
    match loaded.settings.ledger {
        // Records of earlier sessions stay inaccessible.
        LedgerMode::Off => {
            let builder = match &loaded.state {
                Some(path) => builder.deny(config::real(path)),
                None => builder,
            };
            Ok((builder.ledger(Arc::new(NoLedger)), None))
        }
        LedgerMode::Sqlite(config::LedgerSettings { sync, on_failure, retention }) => {
            let state = state_dir(loaded).map_err(|error| {
                anyhow::anyhow!(
                    "{error:#}; make it a directory that you may write, or a link to one, or run without records \
                     (`ledger.mode = \"off\"` in your configuration)"
                )
            })?;
            let redactor = Redactor::knowing(env_vars::all());
            let recorded = Recorded { surface, sync, on_failure, retention, redactor };
            let ledger = Arc::new(SqliteLedger::new(&state, recorded));
            ledger.on_failure(move |problem| {
                let meanwhile = match on_failure {
                    OnFailure::Refuse => "changes do not run meanwhile",
                    OnFailure::Continue => "they run all the same, as `ledger.on_failure` says",
                };
                say(&format!(
                    "calls cannot be recorded: {problem}; {meanwhile}; run `sinew doctor`"
                ));
            });
            ledger.on_notice(|what| say(&format!("the ledger: {what}")));
            let recorded: Arc<dyn Ledger> = Arc::clone(&ledger) as Arc<dyn Ledger>;
            let builder = builder.knowledge(ledger.knowledge()).ledger(recorded);
            Ok((builder.deny(state.path()), Some(ledger)))
        }
    }
}

fn new_session() -> anyhow::Result<String> {
    let mut random = [0_u8; 8];
    getrandom::fill(&mut random).map_err(|error| anyhow::anyhow!("no random numbers: {error}"))?;
    Ok(format!("{:016x}", u64::from_le_bytes(random)))
}
