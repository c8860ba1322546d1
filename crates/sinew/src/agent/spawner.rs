//! Spawns sub-agents: in this process, with the model and the rights of the agent above them, within the limits that all
//! processes of the user share.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use sinew_agent::{
    Agent, AgentError, AgentSettings, Budget, Model, Session, SubAgentPlace, TurnEnd, TurnEvent,
    TurnStop, Unstored,
};
use sinew_guard::{MessageError, MessageStore, NewChildren};
use sinew_runtime::{NarrowedBy, Narrowing, Runtime, SubAgent, WorkingAgent};
use sinew_tool::sync::lock;
use sinew_tool::{
    AgentReport, AgentSpawner, AgentTask, BoxFuture, Cancel, Context, Kind, SpawnLimit,
    TemplateInfo, ToolError, agents, shown_line,
};

use super::model_client;
use super::models::{self, Choice, ChosenModel};
use super::setup::{self, AgentWishes, SubAgentPrompt};
use crate::config::agent_templates::{AgentTemplate, FoundTemplates};
use crate::skills::SkillFinder;
use crate::wiring::{Loaded, Wired};

/// How long found templates count.
const FRESH: Duration = Duration::from_secs(2);
/// How often a sub-agent may call tools, where nothing says so.
const MAX_ITERATIONS: u32 = 20;
/// How long a sub-agent may take to end behind its time limit.
const ENDS: Duration = Duration::from_secs(5);

/// What the sub-agents of an agent begin with.
#[derive(Clone)]
pub(crate) struct AgentBase {
    /// How that agent works.
    pub(crate) settings: AgentSettings,
    /// Its model.
    pub(crate) model: Arc<dyn Model>,
    /// The model, as the user names it.
    pub(crate) written: String,
}

/// Spawns the sub-agents of a process.
pub(crate) struct Spawner {
    runtime: Weak<Runtime>,
    loaded: Loaded,
    finder: SkillFinder,
    store: Option<Arc<MessageStore>>,
    templates: Mutex<Option<(Instant, Arc<FoundTemplates>)>>,
    /// The agents that work now, by their addresses.
    bases: Mutex<HashMap<String, Arc<AgentBase>>>,
}

impl Spawner {
    /// Lets a runtime spawn sub-agents, at once if a model is configured, else when an agent begins.
    pub(crate) fn add(loaded: &Loaded, wired: &Wired) -> Arc<Self> {
        let spawner = Arc::new(Self {
            runtime: Arc::downgrade(&wired.runtime),
            loaded: loaded.clone(),
            finder: SkillFinder::new(loaded),
            store: wired.messages.clone(),
            templates: Mutex::default(),
            bases: Mutex::default(),
        });
        if loaded.settings.agent.model.is_some() {
            spawner.offer(&wired.runtime);
        }
        spawner
    }

    fn offer(self: &Arc<Self>, runtime: &Runtime) {
        if 0 < self.loaded.settings.sub_agents.limits.max_depth {
            let own: Arc<dyn AgentSpawner> = Arc::clone(self) as _;
            runtime.set_agents(&own);
        }
    }

    /// Lets the agent of a session spawn sub-agents, which have its model.
    pub(crate) fn begin(self: &Arc<Self>, base: AgentBase) {
        let session = base.settings.session.clone();
        lock(&self.bases).insert(session, Arc::new(base));
        if let Some(runtime) = self.runtime.upgrade() {
            self.offer(&runtime);
        }
    }

    fn found(&self) -> Arc<FoundTemplates> {
        let mut templates = lock(&self.templates);
        if let Some((at, found)) = &*templates
            && at.elapsed() < FRESH
        {
            return Arc::clone(found);
        }
        let found = Arc::new(self.finder.find_templates());
        *templates = Some((Instant::now(), Arc::clone(&found)));
        found
    }

    fn template(&self, name: &str) -> Result<AgentTemplate, ToolError> {
        let found = self.found();
        let template = found.templates.iter().find(|template| template.name == name);
        template.cloned().ok_or_else(|| {
            let known: Vec<&str> = found.templates.iter().map(|one| one.name.as_str()).collect();
            let message = format!("no template of this name: {}", shown_line(name));
            let error = ToolError::new(Kind::NotFound, message);
            error.hint(format!("known templates: {}", known.join(", ")))
        })
    }

    /// Returns the base of the agent that spawns; that of a client of MCP has the configured model.
    async fn base(&self, cx: &Context, runtime: &Runtime) -> Result<Arc<AgentBase>, ToolError> {
        if let Some(base) = lock(&self.bases).get(cx.address()).cloned() {
            return Ok(base);
        }
        let written = self.loaded.settings.agent.model.clone();
        let chosen = self.choose(written.as_deref()).await?;
        let base = Arc::new(self.base_of(&chosen, (runtime, &cx.session))?);
        // A budget is that of the session in this process, so the first base stays.
        Ok(Arc::clone(lock(&self.bases).entry(cx.session.clone()).or_insert(base)))
    }

    async fn choose(&self, written: Option<&str>) -> Result<ChosenModel, ToolError> {
        match models::choose(&self.loaded, written).await {
            Ok(Choice::Model(chosen)) => Ok(chosen),
            Ok(Choice::Found(_)) => Err(unavailable("no model is configured for sub-agents")),
            Err(error) => Err(unavailable(&format!("the model of the sub-agent: {error:#}"))),
        }
    }

    fn base_of(&self, chosen: &ChosenModel, by: (&Runtime, &str)) -> Result<AgentBase, ToolError> {
        let failed = |error: anyhow::Error| unavailable(&format!("{error:#}"));
        let settings = setup::settings(&self.loaded, &AgentWishes::default(), chosen, by);
        let model = model_client::connect(chosen).map_err(failed)?;
        Ok(AgentBase {
            settings: settings.map_err(failed)?,
            model: Arc::new(model),
            written: chosen.written.clone(),
        })
    }

    /// Prepares a task: its template, its model and how it works.
    async fn prepared(
        &self,
        cx: &Context,
        runtime: &Runtime,
        base: &AgentBase,
        task: AgentTask,
    ) -> Result<PreparedTask, ToolError> {
        let template = self.template(&task.template)?;
        let narrowing = template.tools.as_ref().map(|tools| {
            let mut tools = tools.clone();
            tools.extend(sinew_dialects::operations(&tools));
            Narrowing { by: NarrowedBy::Template(template.name.clone()), tools }
        });
        check_tools(cx, runtime, &template, narrowing.as_ref())?;
        let mut own = base.clone();
        if let Some(model) = template.model.as_ref().filter(|model| **model != base.written) {
            let chosen = self.choose(Some(model)).await?;
            let AgentBase { settings, model, written } =
                self.base_of(&chosen, (runtime, &cx.session))?;
            let AgentSettings { budget, ref spending, .. } = base.settings;
            if let (Some(Budget::Dollars(_)), None) = (budget, settings.prices) {
                return Err(unavailable(&format!(
                    "the budget is in dollars, and the model `{written}` of the template has no prices"
                )));
            }
            let spending = Arc::clone(spending);
            own = AgentBase {
                settings: AgentSettings { budget, spending, ..settings },
                model,
                written,
            };
        }
        let config = &self.loaded.settings.sub_agents;
        let usual = config.max_iterations.or(task.max_iterations).unwrap_or(MAX_ITERATIONS);
        let steps = template.max_steps.unwrap_or(usual);
        let AgentSettings { max_tool_iterations, max_output_tokens, .. } = &mut own.settings;
        *max_tool_iterations = config.max_iterations.map_or(steps, |most| steps.min(most));
        if let Some(most) = task.max_output_tokens {
            *max_output_tokens = most.min(*max_output_tokens);
        }
        Ok(PreparedTask { task, template, narrowing, base: own })
    }

    async fn spawned(
        &self,
        cx: &Context,
        tasks: Vec<AgentTask>,
    ) -> Result<Vec<AgentReport>, ToolError> {
        let runtime = self.runtime.upgrade().ok_or_else(|| unavailable("this server ends"))?;
        let store = self.store.as_ref().ok_or_else(|| {
            unavailable("sub-agents need a state directory, which this process has not")
        })?;
        let base = self.base(cx, &runtime).await?;
        let mut prepared = Vec::with_capacity(tasks.len());
        for task in tasks {
            prepared.push(self.prepared(cx, &runtime, &base, task).await?);
        }
        let named: Vec<(&str, Option<&str>)> = prepared
            .iter()
            .map(|one| (one.template.name.as_str(), one.task.label.as_deref()))
            .collect();
        let roots = runtime.roots();
        let root = roots.first().map(|root| root.to_string_lossy()).unwrap_or_default();
        let new = NewChildren {
            session: &cx.session,
            agent: cx.agent.as_deref(),
            root: &root,
            tasks: &named,
        };
        let names = store
            .begin_children(&new, self.loaded.settings.sub_agents.limits)
            .map_err(|error| failed(&error))?
            .map_err(|error| limit(&error))?;
        let ends: Vec<EndOfChild> =
            names.iter().map(|name| EndOfChild(Arc::clone(store), name.clone())).collect();
        let works = prepared.into_iter().zip(names).zip(ends).map(|((one, name), end)| {
            let runtime = Arc::clone(&runtime);
            async move {
                let report = self.worked(cx, runtime, one, name).await;
                drop(end);
                report
            }
        });
        Ok(join_all(works).await)
    }

    /// Lets one sub-agent work.
    async fn worked(
        &self,
        cx: &Context,
        runtime: Arc<Runtime>,
        prepared: PreparedTask,
        name: String,
    ) -> AgentReport {
        let depth = agents::depth(Some(&name));
        let PreparedTask { task, template, narrowing, base } = prepared;
        let working = self.begin_agent(cx, &runtime, narrowing, &name);
        let settings = match self.child_settings(cx, &runtime, &base, &template, &name) {
            Ok(settings) => settings,
            Err(error) => {
                let problem = Some(format!("{error:#}"));
                return AgentReport { agent: name, depth, problem, ..AgentReport::default() };
            }
        };
        let base = AgentBase { settings: settings.clone(), ..base };
        let model = Arc::clone(&base.model);
        let _base = HeldBase::hold(self, &name, base);
        let mut agent =
            Agent::new(runtime, model, settings, Arc::new(Unstored), Session::default());
        let (ended, is_late) = self.turn(cx, &mut agent, task.prompt, &name).await;
        agent.ended().await;
        drop(working);
        let spent = agent.spent();
        let (n_iterations, n_calls, response) = match &ended {
            Ok(end) => (end.n_iterations, end.n_calls, end.text.clone()),
            Err(_) => (
                agent.n_iterations(),
                agent.session().n_calls(),
                agent.session().answer().to_owned(),
            ),
        };
        AgentReport {
            agent: name,
            depth,
            response,
            problem: problem(&ended, is_late.then_some(self.loaded.settings.sub_agents.timeout)),
            n_iterations,
            n_calls,
            tokens_read: spent.input,
            tokens_written: spent.output,
        }
    }

    fn begin_agent(
        &self,
        cx: &Context,
        runtime: &Arc<Runtime>,
        tools: Option<Narrowing>,
        name: &str,
    ) -> WorkingAgent {
        runtime.begin_agent(SubAgent {
            name: name.to_owned(),
            tools,
            session: cx.session.clone(),
            spawned_by: cx.call_id.clone(),
        })
    }

    /// Returns how a sub-agent works.
    fn child_settings(
        &self,
        cx: &Context,
        runtime: &Arc<Runtime>,
        base: &AgentBase,
        template: &AgentTemplate,
        name: &str,
    ) -> anyhow::Result<AgentSettings> {
        let listed: Vec<String> =
            runtime.with_listed_tools(Some(cx.dialect), (&cx.session, Some(name)), |tools| {
                tools.map(|tool| tool.name).collect()
            });
        let left = |tool: &str| listed.iter().any(|listed| listed == tool);
        let above = cx.address();
        let words = format!(
            "You are the sub-agent `{name}`, and work on one task of the agent `{above}`. Your last message is your report: \
             the agent sees nothing else of your work. The user answers no questions; where something is unclear, choose, and \
             say in the report what you chose.\n\n{}",
            template.body
        );
        let prompt = SubAgentPrompt { left: &left, words: &words };
        let is_lean = base.settings.offer.is_lean;
        let system = setup::prompt(&self.loaded, runtime, is_lean, Some(prompt))?;
        let number = name.rsplit('-').next().unwrap_or_default().to_owned();
        Ok(AgentSettings {
            system,
            sub_agent: Some(SubAgentPlace {
                name: name.to_owned(),
                number,
                spawned_by: cx.call_id.clone(),
                turn: cx.turn.clone(),
                roots: cx.roots.clone(),
                dialect: cx.dialect,
                max_tokens: self.loaded.settings.sub_agents.max_tokens,
            }),
            ..base.settings.clone()
        })
    }

    /// Runs the only turn of a sub-agent, and says whether its time ran out. A call that is cancelled drops this future.
    async fn turn(
        &self,
        cx: &Context,
        agent: &mut Agent,
        prompt: String,
        name: &str,
    ) -> (Result<TurnEnd, AgentError>, bool) {
        let (cancel, progress) = (Cancel::default(), cx.progress.clone());
        let calls = format!("calls of {name}");
        let mut n_calls = 0;
        let mut listener = |event: TurnEvent<'_>| {
            if let TurnEvent::CallBegins { .. } = event {
                n_calls += 1;
                progress.report(n_calls, &calls);
            }
        };
        let mut turn = std::pin::pin!(agent.turn(Some(prompt), &cancel, &mut listener));
        let timeout = self.loaded.settings.sub_agents.timeout;
        if let Ok(ended) = tokio::time::timeout(timeout, &mut turn).await {
            return (ended, false);
        }
        cancel.cancel();
        let ended = tokio::time::timeout(ENDS, turn).await;
        (ended.unwrap_or(Err(AgentError::NothingToDo)), true)
    }
}

impl AgentSpawner for Spawner {
    fn templates(&self) -> Vec<TemplateInfo> {
        let info = |template: &AgentTemplate| TemplateInfo {
            name: template.name.clone(),
            description: template.description.clone(),
        };
        self.found().templates.iter().map(info).collect()
    }

    fn spawn<'a>(
        &'a self,
        cx: &'a Context,
        tasks: Vec<AgentTask>,
    ) -> BoxFuture<'a, Result<Vec<AgentReport>, ToolError>> {
        Box::pin(self.spawned(cx, tasks))
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").field("finder", &self.finder).finish_non_exhaustive()
    }
}

/// A task that can begin.
struct PreparedTask {
    task: AgentTask,
    template: AgentTemplate,
    narrowing: Option<Narrowing>,
    base: AgentBase,
}

/// Keeps the base of a sub-agent as long as it works, for those beneath it.
struct HeldBase<'a> {
    spawner: &'a Spawner,
    name: String,
}

impl<'a> HeldBase<'a> {
    fn hold(spawner: &'a Spawner, name: &str, base: AgentBase) -> Self {
        lock(&spawner.bases).insert(name.to_owned(), Arc::new(base));
        Self { spawner, name: name.to_owned() }
    }
}

impl Drop for HeldBase<'_> {
    fn drop(&mut self) {
        lock(&self.spawner.bases).remove(&self.name);
    }
}

/// Records that a sub-agent ended, however it did.
struct EndOfChild(Arc<MessageStore>, String);

impl Drop for EndOfChild {
    fn drop(&mut self) {
        // One that cannot be recorded counts as working until this process ends.
        let _ = self.0.end_child(&self.1);
    }
}

/// Rejects a template none of whose tools the agent that spawns has.
fn check_tools(
    cx: &Context,
    runtime: &Runtime,
    template: &AgentTemplate,
    narrowing: Option<&Narrowing>,
) -> Result<(), ToolError> {
    let Some(narrowing) = narrowing.filter(|narrowing| !narrowing.tools.is_empty()) else {
        return Ok(());
    };
    let has_one = runtime.leaves_one((&cx.session, cx.agent.as_deref()), cx.dialect, narrowing);
    if has_one {
        return Ok(());
    }
    let message = format!(
        "the template `{}` asks for tools that this agent has not: {}",
        template.name,
        template.tools.iter().flatten().map(|tool| shown_line(tool)).collect::<Vec<_>>().join(", ")
    );
    Err(ToolError::new(Kind::PolicyDenied, message)
        .hint("a sub-agent has no more rights than the agent above it; use another template"))
}

/// Returns why a sub-agent did not finish, if it did not.
fn problem(ended: &Result<TurnEnd, AgentError>, late: Option<Duration>) -> Option<String> {
    if let Some(time) = late {
        return Some(format!("its time of {} s ran out", time.as_secs()));
    }
    let words = match ended {
        Ok(end) => match end.stop {
            TurnStop::Done | TurnStop::MaxTurns => return None,
            TurnStop::Repeated => "it made the same call again and again",
            TurnStop::Budget => "its tokens are used up",
            TurnStop::Interrupted => "it was ended",
            TurnStop::Length => "its answer was cut at the most output tokens",
            TurnStop::Refusal => "its model refused",
        },
        Err(error) => return Some(error.to_string()),
    };
    Some(words.to_owned())
}

fn unavailable(words: &str) -> ToolError {
    ToolError::new(Kind::Unavailable, words.to_owned())
}

fn failed(error: &MessageError) -> ToolError {
    unavailable(&error.to_string())
}

fn limit(error: &SpawnLimit) -> ToolError {
    let (key, hint) = match error {
        SpawnLimit::TooDeep(_) => ("max_depth", "do the task yourself"),
        SpawnLimit::TooMany { .. } => {
            ("max_children", "do the rest yourself, or with fewer agents")
        }
        SpawnLimit::TooManyInSession { .. } => ("max_total", "do the rest yourself"),
        SpawnLimit::TooManyRunning { .. } => ("max_running", "spawn fewer at once"),
    };
    ToolError::new(Kind::LimitReached, error.to_string())
        .hint(format!("{hint}; the user can set `sub_agents.{key}`"))
}
