//! Builds the runtime, the ledger and the checkpoints of a process from its loaded configuration.
#![expect(clippy::disallowed_methods, reason = "looks whether there is a state directory")]

use std::sync::Arc;

use anyhow::{Context as _, bail};
use sinew_guard::{
    Audit, Checkpoints, GlobalIgnore, JournalSettings, MessageStore, OnFailure, Recorded, Redactor,
    SqliteLedger, StateDir, WebSettings,
};
use sinew_mcp_client::Servers;
use sinew_ops::tool_call::ToolCall;
use sinew_ops::{skill, tool_search};
use sinew_runtime::{Asking, Builder, GrantStore, NoLedger, Runtime};
use sinew_tool::{Approver, Dialect, Ledger, SearchSettings, Tool};

use self::commands::commands;
use crate::config::{self, Grants, LedgerMode, LogLevel, env_vars};
use crate::hooks;
use crate::mcp_servers;
use crate::screen::say;
use crate::second_terminal::SecondTerminal;
use crate::skills;
use crate::trace::Trace;
use crate::webhook::Webhook;

mod cli_input;
mod commands;
mod homes;
mod loading;
mod messages;
mod places;

pub(crate) use cli_input::{CliInput, current_dir, quoted};
pub(crate) use loading::{
    Loaded, Project, load, load_anyway, look, settle, trusted, without_project,
};
pub(crate) use places::{DatabaseHome, NamedDir, Places};

/// Opens the state directory, and creates a missing one.
pub(crate) fn state_dir(loaded: &Loaded) -> anyhow::Result<StateDir> {
    let path = loaded
        .state
        .as_ref()
        .context("there is no state directory; set XDG_STATE_HOME to an absolute directory")?;
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
            "this is the audit log in {}, which {variable} names; another is in {}, where `sinew mcp` records where \
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
    /// The MCP servers of others, if there are any.
    pub(crate) servers: Option<Servers>,
    /// The messages between agents, if there is a state directory.
    pub(crate) messages: Option<Arc<MessageStore>>,
}

impl Wired {
    /// Waits for the tools of servers that were never used, unless the catalog has a tool of this name already.
    pub(crate) async fn settle_tools(&self, wanted: Option<&str>) {
        let Some(servers) = &self.servers else { return };
        servers.wait_for_pins();
        let catalogs = self.runtime.catalogs();
        let is_known = wanted.is_some_and(|name| {
            let looks = [tool_search::NATIVE.name, "ToolCall"].contains(&name);
            !looks && catalogs.iter().any(|catalog| catalog.has(name))
        });
        if !is_known {
            servers.settle(&self.session).await;
        }
    }
}

/// Returns what removes secrets from records.
pub(crate) fn redactor(loaded: &Loaded) -> Redactor {
    let secrets = loaded.secrets.iter().map(|secret| (SECRET.into(), secret.into()));
    Redactor::knowing(env_vars::all().chain(secrets))
}

/// A name whose value is a secret.
const SECRET: &str = "MODEL_API_KEY";

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
    let grants = grants(loaded);
    let mut rules = settings.rules.clone();
    if let Some(grants) = &grants {
        rules.rules.extend(grants.rules()?.into_iter().map(Arc::new));
    }
    let tools = loaded.layered.options.tools.as_ref();
    let deferred = tools.and_then(|tools| tools.deferred.clone()).unwrap_or_default();
    // Rules may name the tools of every dialect.
    let has_servers = tools.is_some_and(|tools| tools.mcp_servers.is_some());
    let reserved: Vec<String> =
        has_servers.then(sinew_dialects::names).into_iter().flatten().collect();
    let mut builder = Runtime::builder(settings.dialect)
        .settings(|into| into.clone_from(&files))
        .rules(rules)
        .resolver(settings.resolver)
        .global_ignore(GlobalIgnore::FromGit)
        .asking(Asking {
            approvals: settings.approvals,
            approvers: approvers(loaded, surface, approver)?,
            grant_store: grants.map(|grants| Arc::new(grants) as Arc<dyn GrantStore>),
            timeout: settings.approval_timeout,
        })
        .deferred(deferred)
        .reserved(reserved)
        .only(move |tool| serve.iter().any(|word| config::serves(word, tool)));
    for root in &loaded.roots {
        builder = builder.root(root);
    }
    builder = added(&settings.dialect).into_iter().fold(builder, Builder::tool);
    if let Some(state) = loaded.state.clone() {
        builder = builder.commands(commands(loaded, &state)).user_state(config::real(&state));
        builder = builder.journals(JournalSettings { state, warn: say });
    }
    let helper = Some(loaded.helper.clone());
    let search = with_keys(settings.web.search.clone());
    let web = settings.web.clone();
    let proxies = loaded.layered.proxies(&web.proxies)?;
    builder = builder.web(WebSettings { helper, search, proxies, ..web });
    let messages = messages::settings(loaded);
    let store = messages.store.clone();
    builder = builder.messages(messages);
    let checkpoints = checkpoints(loaded);
    if let Some(checkpoints) = &checkpoints {
        builder = builder.checkpoints(Arc::clone(checkpoints));
    }
    for hook in hooks::checked(loaded)? {
        builder = builder.hook(hook);
    }
    let mut trace = None;
    if let Some(path) = &settings.trace {
        let redactor = redactor(loaded);
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
    skills::add(loaded, &runtime);
    let servers = mcp_servers::add(loaded, &runtime)?;
    if servers.is_none()
        && written.is_some_and(|words| !words.is_empty())
        && runtime.catalogs().iter().all(|catalog| catalog.names().next().is_none())
    {
        bail!("no tool is left to serve; `sinew tools` without `--tools` lists them");
    }
    if LogLevel::Info <= settings.log {
        say(&format!("session {session}, roots {:?}", runtime.roots()));
    }
    Ok(Wired { runtime, ledger, trace, checkpoints, session, servers, messages: store })
}

/// Returns who answers: the approver of the surface, the webhook and a second terminal.
fn approvers(
    loaded: &Loaded,
    surface: &str,
    own: Option<Arc<dyn Approver>>,
) -> anyhow::Result<Vec<Arc<dyn Approver>>> {
    let mut all: Vec<_> = own.into_iter().collect();
    if let Some(webhook) = &loaded.settings.webhook {
        all.push(Arc::new(Webhook::new(webhook, &loaded.roots)?));
    }
    // Where a person runs the command that asks, that person answers.
    if let Some(state) = &loaded.state
        && !["undo", "checkpoint"].contains(&surface)
    {
        all.push(Arc::new(SecondTerminal::new(state, surface, &loaded.roots)));
    }
    Ok(all)
}

/// Adds the keys of searches, which are in variables.
fn with_keys(search: SearchSettings) -> SearchSettings {
    SearchSettings {
        tavily_key: env_vars::api_key(env_vars::TAVILY_API_KEY),
        brave_key: env_vars::api_key(env_vars::BRAVE_API_KEY),
        ..search
    }
}

/// Returns the tools that find and call deferred ones, and that load skills, as far as the dialect has none of its own.
fn added(dialect: &Dialect) -> Vec<Arc<dyn Tool>> {
    let own = (dialect.tools)();
    let has_skills = own.iter().any(|tool| tool.skill_argument().is_some());
    let is_missing = |tool: &Arc<dyn Tool>| {
        let is_needed = !(has_skills && tool.skill_argument().is_some());
        is_needed && own.iter().all(|known| known.name() != tool.name())
    };
    let native = [tool_search::NATIVE.tool(), Arc::new(ToolCall), skill::NATIVE.tool()];
    native.into_iter().filter(is_missing).collect()
}

/// Returns the permanent approvals of these roots, if a state directory exists and the floor permits them.
fn grants(loaded: &Loaded) -> Option<Grants> {
    if loaded.layered.keeps_from_allowing {
        return None;
    }
    let state = loaded.state.as_ref()?;
    (!loaded.roots.is_empty()).then(|| Grants::of(state, &loaded.roots))
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
            let redactor = redactor(loaded);
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
            ledger.on_notice(|what| say(&format!("the audit log: {what}")));
            let recorded: Arc<dyn Ledger> = Arc::clone(&ledger) as Arc<dyn Ledger>;
            let builder = builder.knowledge(ledger.knowledge()).ledger(recorded);
            Ok((builder.deny(state.path()), Some(ledger)))
        }
    }
}

/// Returns a name for a new session.
pub(crate) fn new_session() -> anyhow::Result<String> {
    let mut random = [0_u8; 8];
    getrandom::fill(&mut random).map_err(|error| anyhow::anyhow!("no random numbers: {error}"))?;
    Ok(format!("{:016x}", u64::from_le_bytes(random)))
}
