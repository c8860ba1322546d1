//! Makes an agent out of configuration and options: model, tools, system prompt and session.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use sinew_agent::{
    Agent, AgentSettings, Budget, Model, Offer, OutputCompaction, PromptParts, RecordingHeader,
    Session, Wire, system_prompt,
};
use sinew_guard::{Sessions, StoredSession, SystemClock, timestamp};
use sinew_runtime::Runtime;
use sinew_tool::{Approver, Clock as _};

use super::instructions;
use super::model_client;
use super::models::{self, Choice, ChosenModel};
use super::spawner::{AgentBase, Spawner};
use super::transcript::{self, SessionPlace, StoredTranscript};
use crate::cli::AgentArgs;
use crate::screen::say;
use crate::terminal;
use crate::wiring::{self, Loaded, Wired};

/// The tools of a model with a small context window, by the names of the native dialect.
const LEAN_TOOLS: [&str; 6] = ["Read", "Grep", "Glob", "Edit", "Write", "Bash"];
/// How long the tools of MCP servers are waited for.
const TOOLS_WITHIN: Duration = Duration::from_secs(10);

/// What the options of a command ask for.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgentWishes {
    /// The model, if one is named.
    pub(crate) model: Option<String>,
    /// How often it may call tools in one turn.
    pub(crate) max_turns: Option<u32>,
    /// What the run may cost.
    pub(crate) budget: Option<String>,
    /// The file that records the session.
    pub(crate) record: Option<PathBuf>,
}

impl AgentWishes {
    /// Returns what options ask for.
    pub(crate) fn of(args: &AgentArgs) -> Self {
        Self {
            model: args.model.clone(),
            max_turns: args.max_turns,
            budget: args.budget.clone(),
            record: args.record.clone(),
        }
    }
}

/// An agent that is ready, with its surroundings.
pub(crate) struct AgentParts {
    pub(crate) agent: Agent,
    pub(crate) wired: Wired,
    pub(crate) chosen: ChosenModel,
    pub(crate) spawner: Arc<Spawner>,
}

/// Chooses the model. One that was found on this machine is offered at a terminal.
pub(crate) async fn choose_model(
    loaded: &Loaded,
    wanted: &AgentWishes,
    stored: Option<&StoredSession>,
) -> anyhow::Result<ChosenModel> {
    let agent = &loaded.settings.agent;
    let written = wanted.model.as_deref().or(stored.map(|stored| stored.model.as_str()));
    match models::choose(loaded, written.or(agent.model.as_deref())).await? {
        Choice::Model(chosen) => Ok(chosen),
        Choice::Found(chosen) => {
            let found =
                format!("{} at {} serves {}", chosen.provider, chosen.url.server(), chosen.name);
            if !terminal::is_attended() {
                bail!("no model is configured, but {found}; `--model local` uses it");
            }
            match terminal::confirms(&format!(
                "No model is configured, but {found}. Use it? [y/N] "
            ))? {
                true => Ok(chosen),
                false => bail!("no model is chosen; `--model` names one"),
            }
        }
    }
}

/// Makes the agent. `stored` is the session that it continues.
pub(crate) async fn set_up(
    loaded: &mut Loaded,
    wanted: &AgentWishes,
    chosen: ChosenModel,
    surface: &'static str,
    approver: Option<Arc<dyn Approver>>,
    stored: Option<StoredSession>,
) -> anyhow::Result<AgentParts> {
    loaded.secrets.extend(chosen.key.as_ref().map(|key| key.reveal().to_owned()));
    let sessions = transcript::sessions(loaded)?;
    if let Some(stored) = &stored {
        loaded.settings.session = Some(stored.id.clone());
    }
    let is_native = loaded.settings.dialect.name == "native";
    let serve: &[&str] = match is_native {
        true if chosen.is_lean() => &LEAN_TOOLS,
        true => &["core", "Spawn", "TodoWrite"],
        false => &["all"],
    };
    let wired = wiring::wire(loaded, surface, serve, approver)?;
    if let Some(servers) = &wired.servers {
        servers.begin(&wired.session);
        wired.runtime.tools_settled(TOOLS_WITHIN).await;
    }
    let root = loaded.roots.first().context("there is no root")?;
    let settings = settings(loaded, wanted, &chosen, (&wired.runtime, &wired.session))?;
    let (mut transcript, session) = match &stored {
        Some(stored) => {
            let session = transcript::session(&sessions, &stored.id)?;
            (StoredTranscript::resume(Arc::clone(&sessions), stored)?, session)
        }
        None => {
            expire(loaded, &sessions);
            let place = SessionPlace {
                root: root.to_string_lossy().into_owned(),
                dialect: loaded.settings.dialect.name,
                model: chosen.written.clone(),
            };
            let sessions = Arc::clone(&sessions);
            (StoredTranscript::create(sessions, &wired.session, place)?, Session::default())
        }
    };
    if !loaded.layered.keeps_from_allowing {
        transcript::resume_grants(&sessions, &wired.session, &wired.runtime)?;
    }
    if let Some(path) = &wanted.record {
        let dialect = loaded.settings.dialect.name;
        let n = settings.max_tool_iterations;
        let header = RecordingHeader::new(dialect, &chosen.name, &root.to_string_lossy(), n);
        transcript = transcript.record(path, &header)?;
    }
    let model: Arc<dyn Model> = Arc::new(model_client::connect(&chosen)?);
    let spawner = Spawner::add(loaded, &wired);
    spawner.begin(AgentBase {
        settings: settings.clone(),
        model: Arc::clone(&model),
        written: chosen.written.clone(),
    });
    let runtime = Arc::clone(&wired.runtime);
    let agent = Agent::new(runtime, model, settings, Arc::new(transcript), session);
    Ok(AgentParts { agent, wired, chosen, spawner })
}

/// Lets the agent go on with another model.
pub(crate) fn switch_model(
    loaded: &Loaded,
    wanted: &AgentWishes,
    chosen: ChosenModel,
    parts: &mut AgentParts,
) -> anyhow::Result<()> {
    let by = (&*parts.wired.runtime, parts.wired.session.as_str());
    let settings = settings(loaded, wanted, &chosen, by)?;
    let model: Arc<dyn Model> = Arc::new(model_client::connect(&chosen)?);
    parts.agent.set_model(Arc::clone(&model), settings);
    parts.spawner.begin(AgentBase {
        settings: parts.agent.settings().clone(),
        model,
        written: chosen.written.clone(),
    });
    parts.chosen = chosen;
    Ok(())
}

pub(super) fn settings(
    loaded: &Loaded,
    wanted: &AgentWishes,
    chosen: &ChosenModel,
    (runtime, session): (&Runtime, &str),
) -> anyhow::Result<AgentSettings> {
    let agent = &loaded.settings.agent;
    let budget = wanted.budget.as_ref().or(agent.budget.as_ref());
    let budget = budget.map(|written| written.parse::<Budget>().map_err(anyhow::Error::msg));
    let budget = budget.transpose()?;
    if let (Some(Budget::Dollars(_)), None) = (budget, chosen.prices) {
        bail!(
            "a budget in dollars needs the prices of the model: set `input_price` and `output_price` of \
             `[models.NAME]`, or give a budget in tokens, such as 200k"
        );
    }
    let Some(output_compaction) = OutputCompaction::from_word(&agent.output_compaction) else {
        bail!(
            "`agent.output_compaction` must be one of off, safe, full, not `{}`",
            agent.output_compaction
        );
    };
    Ok(AgentSettings {
        session: session.to_owned(),
        provider: chosen.provider.clone(),
        system: prompt(loaded, runtime, chosen.is_lean(), None)?,
        offer: Offer {
            is_lean: chosen.is_lean(),
            has_namespaces: loaded.settings.dialect.name == "codex"
                && chosen.wire == Wire::Responses,
        },
        context: chosen.context,
        max_output_tokens: chosen.max_output_tokens,
        // Small models call tools by chance at the temperatures that servers begin with.
        temperature: chosen.temperature.or(chosen.is_lean().then_some(0.0)),
        max_tool_iterations: wanted.max_turns.unwrap_or(agent.max_tool_iterations),
        budget,
        spending: Arc::default(),
        sub_agent: None,
        prices: chosen.prices,
        output_compaction,
    })
}

/// What the prompt of a sub-agent has beside.
#[derive(Clone, Copy)]
pub(super) struct SubAgentPrompt<'a> {
    /// Whether it has a tool of this name.
    pub(super) left: &'a dyn Fn(&str) -> bool,
    /// How it works, in words.
    pub(super) words: &'a str,
}

/// Makes the system prompt of the served tools and of the instructions that are found.
pub(super) fn prompt(
    loaded: &Loaded,
    runtime: &Runtime,
    is_lean: bool,
    sub_agent: Option<SubAgentPrompt<'_>>,
) -> anyhow::Result<String> {
    let root = loaded.roots.first().context("there is no root")?;
    let catalogs = runtime.catalogs();
    let catalog = catalogs.first().context("there are no tools")?;
    let instructions = instructions::found(loaded, runtime, root);
    let time = timestamp(SystemClock.wall_ms());
    let date = time.split('T').next().unwrap_or_default();
    let parts = PromptParts {
        root,
        date,
        catalog,
        left: sub_agent.map(|sub_agent| sub_agent.left),
        sub_agent: sub_agent.map(|sub_agent| sub_agent.words),
        instructions: &instructions,
        is_lean,
    };
    Ok(system_prompt(&parts))
}

/// Removes the sessions that are older than configured. A failure is no reason not to work.
fn expire(loaded: &Loaded, sessions: &Sessions) {
    let agent = &loaded.settings.agent;
    if let Err(error) = sessions.expire(agent.max_age, agent.max_sessions) {
        say(&error.to_string());
    }
}
