//! The agent loop: the user's message, the model's answer, its tool calls, until the model is done.
//!
//! Every step is stored in the transcript before the next one, so that a session survives the end of its process at any
//! moment. Calls go through the [`Runtime`] like those of any other surface: rules, approvals, checkpoints and the
//! ledger hold for them.

mod asking;
mod calls;
mod fitting;
mod hooks;

use std::sync::Arc;
use std::time::{Duration, Instant};

use sinew_runtime::Runtime;
use sinew_tool::{Cancel, Progress, Reply, ToolError, agents};

use crate::budget::{Budget, Prices, Spending};
use crate::message::{CallResult, ToolCall};
use crate::model::{Model, ModelError, StreamEvent, Usage};
use crate::output_compaction::OutputCompaction;
use crate::repeats::Repeats;
use crate::session::{Entry, LastAnswer, Session, Transcript, TurnStop};
use crate::sub_agent::SubAgentPlace;
use crate::tools::{Offer, Tools};

use asking::Asked;

/// How an agent works.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// The name of the session.
    pub session: String,
    /// Who serves the model, for hooks.
    pub provider: String,
    /// The system prompt.
    pub system: String,
    /// How the tools are offered.
    pub offer: Offer,
    /// The tokens of the model's context window.
    pub context: u32,
    /// The most tokens of one answer.
    pub max_output_tokens: u32,
    /// The sampling temperature; `None` leaves it to the server.
    pub temperature: Option<f64>,
    /// How often the model may call tools in one turn, before it must answer.
    pub max_tool_iterations: u32,
    /// What all turns of this agent and of its sub-agents may cost.
    pub budget: Option<Budget>,
    /// What they cost so far.
    pub spending: Arc<Spending>,
    /// Its place, if it is a sub-agent.
    pub sub_agent: Option<SubAgentPlace>,
    /// What tokens cost.
    pub prices: Option<Prices>,
    /// How much of the output of commands is left out.
    pub output_compaction: OutputCompaction,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnEnd {
    /// Its name, which its checkpoints have.
    pub turn: String,
    /// Why.
    pub stop: TurnStop,
    /// The last text of the model.
    pub text: String,
    /// How often the model was asked.
    pub n_iterations: u32,
    /// How many calls it made.
    pub n_calls: u64,
}

/// Why a turn could not go on. The session is stored up to here and can be resumed.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The model did not answer.
    #[error("{0}")]
    Model(#[from] ModelError),
    /// The transcript cannot be written.
    #[error("the session cannot be stored: {0}")]
    Transcript(String),
    /// A hook blocked it.
    #[error("{0}")]
    Blocked(#[from] ToolError),
    /// The context window is too small.
    #[error(
        "the prompt and the tools take about {needed} tokens, more than half of the {context} of the model's context \
         window; serve fewer tools with `--tools`, or set a larger `context` for the model"
    )]
    TooSmall {
        /// The tokens of prompt and tools.
        needed: u64,
        /// The tokens of the context window.
        context: u32,
    },
    /// The session ended with an answer, and no message continues it.
    #[error("the last turn of the session is over; say what to do next")]
    NothingToDo,
}

/// What happens in a turn, as it happens.
#[derive(Debug)]
pub enum TurnEvent<'a> {
    /// A request is sent.
    Asks {
        /// About how many tokens it has.
        tokens: u64,
    },
    /// The model's stream brings something.
    Stream(StreamEvent),
    /// The model's message is complete.
    Answered {
        /// What it cost.
        usage: Usage,
    },
    /// A call begins.
    CallBegins {
        /// The call.
        call: &'a ToolCall,
        /// Its id in the ledger.
        call_id: &'a str,
    },
    /// A call ended.
    CallEnds {
        /// The call.
        call: &'a ToolCall,
        /// Its result for the model.
        result: &'a CallResult,
        /// The reply, if the call ran.
        reply: Option<&'a Reply>,
        /// How long it took.
        duration: Duration,
    },
    /// The conversation was shortened.
    Compacted {
        /// About how many tokens a request had.
        before: u64,
        /// About how many it has now.
        after: u64,
    },
    /// The loop tells the model something.
    Notice(&'a str),
}

/// Receives what happens in a turn.
pub type TurnListener<'a> = &'a mut (dyn FnMut(TurnEvent<'_>) + Send);

/// An agent: a model, its session, and the tools.
pub struct Agent {
    runtime: Arc<Runtime>,
    model: Arc<dyn Model>,
    settings: AgentSettings,
    transcript: Arc<dyn Transcript>,
    session: Session,
    tools: Tools,
    /// What this agent's messages cost; the session may have cost more before.
    spent: Usage,
    /// How many bytes of a request are about a token, as the provider counted the last one.
    bytes_of_token: f64,
    /// The system prompt of the turn, which hooks may have changed.
    system: String,
    /// Whether hooks were told that the agent began.
    is_started: bool,
    /// How often the model was asked, in all turns of this agent.
    n_iterations: u64,
    /// How many calls it made in them.
    n_calls: u64,
    progress: Progress,
}

/// The state of a turn.
struct Turn {
    name: String,
    n_iterations: u32,
    n_calls: u64,
    repeats: Repeats,
}

impl Agent {
    /// Creates an agent that continues a session. Its calls belong to the session of that name in the ledger.
    pub fn new(
        runtime: Arc<Runtime>,
        model: Arc<dyn Model>,
        settings: AgentSettings,
        transcript: Arc<dyn Transcript>,
        session: Session,
    ) -> Self {
        let tools = Tools::new(Arc::clone(&runtime), &settings);
        let mut agent = Self {
            runtime,
            model,
            system: settings.system.clone(),
            settings,
            transcript,
            session,
            tools,
            spent: Usage::default(),
            bytes_of_token: fitting::BYTES_OF_TOKEN,
            is_started: false,
            n_iterations: 0,
            n_calls: 0,
            progress: Progress::default(),
        };
        agent.session.set_model_name(&agent.model_words());
        agent
    }

    /// Sets what its calls report their progress to.
    pub fn set_progress(&mut self, progress: Progress) {
        self.progress = progress;
    }

    /// Returns how often the model was asked, in all turns.
    pub fn n_iterations(&self) -> u32 {
        u32::try_from(self.n_iterations).unwrap_or(u32::MAX)
    }

    /// Returns how it works.
    pub fn settings(&self) -> &AgentSettings {
        &self.settings
    }

    /// Returns the session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns what the messages of this agent cost, without those of its sub-agents.
    pub fn spent(&self) -> Usage {
        self.spent
    }

    /// Returns what this agent and its sub-agents cost.
    pub fn spent_with_sub_agents(&self) -> Usage {
        self.settings.spending.usage()
    }

    fn spend(&mut self, usage: &Usage) {
        self.spent.add(usage);
        self.settings.spending.add(usage, self.settings.prices.as_ref());
    }

    /// Returns whether it may use no further tokens.
    fn has_no_budget(&self) -> bool {
        let AgentSettings { budget, spending, sub_agent, .. } = &self.settings;
        budget.is_some_and(|budget| spending.uses_up(budget))
            || sub_agent.as_ref().is_some_and(|place| place.max_tokens <= self.spent.total())
    }

    /// Returns the name of a sub-agent.
    fn sub_agent(&self) -> Option<&str> {
        self.settings.sub_agent.as_ref().map(|place| place.name.as_str())
    }

    /// Replaces the model for the following turns.
    pub fn set_model(&mut self, model: Arc<dyn Model>, settings: AgentSettings) {
        let tools = Tools::new(Arc::clone(&self.runtime), &settings);
        self.system.clone_from(&settings.system);
        let spending = Arc::clone(&self.settings.spending);
        let settings = AgentSettings { spending, ..settings };
        (self.model, self.settings, self.tools) = (model, settings, tools);
        self.bytes_of_token = fitting::BYTES_OF_TOKEN;
        self.session.set_model_name(&self.model_words());
    }

    /// Returns the model as transcripts name it.
    fn model_words(&self) -> String {
        format!("{}/{}", self.settings.provider, self.model.name())
    }

    /// Runs a turn: a message of the user, or without one the rest of a turn that was interrupted. `cancel` ends it and
    /// keeps its messages so far.
    pub async fn turn(
        &mut self,
        prompt: Option<String>,
        cancel: &Cancel,
        listener: TurnListener<'_>,
    ) -> Result<TurnEnd, AgentError> {
        let begun = Instant::now();
        self.close_open_calls()?;
        self.tools.refresh();
        self.check_size()?;
        let is_new = prompt.is_some();
        let name = match prompt {
            Some(prompt) => self.begin(prompt).await?,
            None if self.session.is_in_turn() => self.session.n_turns().to_string(),
            None => return Err(AgentError::NothingToDo),
        };
        let mut turn = Turn { name, n_iterations: 0, n_calls: 0, repeats: Repeats::default() };
        if let Err(error) = self.before_prompt().await {
            if is_new {
                self.store(Entry::TurnWithdrawn)?;
            }
            return Err(error);
        }
        let answer = self.session.ends_with_answer().filter(|_| !is_new);
        if answer == Some(LastAnswer::Cut) {
            let text = String::from("[your last message was cut; go on with it]");
            self.store(Entry::Notice { text })?;
        }
        let stop = match answer {
            // Only its end was not stored.
            Some(LastAnswer::Whole) => Ok(TurnStop::Done),
            _ => self.steps(&mut turn, cancel, listener).await,
        };
        let stored = stop.and_then(|stop| self.store(Entry::TurnEnds { stop }).map(|()| stop));
        self.n_iterations += u64::from(turn.n_iterations);
        self.n_calls += turn.n_calls;
        // What a skill left of the tools is for its turn.
        self.runtime.widen_tools(agents::address(&self.settings.session, self.sub_agent()));
        self.turn_ended(&turn, begun.elapsed()).await;
        let Turn { name, n_iterations, n_calls, .. } = turn;
        let text = self.session.answer().to_owned();
        Ok(TurnEnd { turn: name, stop: stored?, text, n_iterations, n_calls })
    }

    /// Stores the user's message; returns the name of the turn.
    async fn begin(&mut self, prompt: String) -> Result<String, AgentError> {
        let turn = (self.session.n_turns() + 1).to_string();
        self.turn_begins(&turn, &prompt).await?;
        let model = self.model_words();
        self.store(Entry::TurnBegins { turn: turn.clone(), prompt, model })?;
        Ok(turn)
    }

    /// Asks the model and runs its calls until it makes none.
    async fn steps(
        &mut self,
        turn: &mut Turn,
        cancel: &Cancel,
        listener: TurnListener<'_>,
    ) -> Result<TurnStop, AgentError> {
        // Why the next answer is the last one.
        let mut last = None;
        loop {
            if cancel.is_cancelled() {
                return Ok(TurnStop::Interrupted);
            }
            if self.has_no_budget() {
                return Ok(TurnStop::Budget);
            }
            turn.n_iterations += 1;
            let calls = match self.ask(turn, last.is_none(), cancel, listener).await? {
                Asked::Interrupted => return Ok(TurnStop::Interrupted),
                Asked::Ended(stop) => return Ok(last.unwrap_or(stop)),
                Asked::Calls(calls) => calls,
            };
            let was_repeated = self.run_calls(turn, &calls, cancel, listener).await?;
            if cancel.is_cancelled() {
                return Ok(TurnStop::Interrupted);
            }
            if was_repeated {
                last = Some(TurnStop::Repeated);
            } else if self.settings.max_tool_iterations <= turn.n_iterations {
                last = Some(TurnStop::MaxTurns);
                let text = format!(
                    "[the limit of {} rounds of tool calls is reached; answer now, without a call: what you found, \
                     what you did, and what is left]",
                    self.settings.max_tool_iterations
                );
                listener(TurnEvent::Notice(&text));
                self.store(Entry::Notice { text })?;
            }
        }
    }

    /// Stores an entry, then adds it to the session.
    fn store(&mut self, entry: Entry) -> Result<(), AgentError> {
        self.transcript.append(&entry).map_err(AgentError::Transcript)?;
        self.session.apply(&entry);
        Ok(())
    }

    /// Gives the calls that an earlier process left open a result.
    fn close_open_calls(&mut self) -> Result<(), AgentError> {
        for open in self.session.open_calls() {
            let text = match open.call_id {
                Some(call_id) => format!(
                    "sinew ended while this call ran (its id in the audit log is {call_id}), so its result is lost. It may \
                     have done all, a part or nothing of it: look before you make it again."
                ),
                None => String::from("not run: sinew ended before this call began."),
            };
            let (id, name) = (open.call.id, open.call.name);
            let result = CallResult { id, name, text, is_error: true, ..CallResult::default() };
            self.store(Entry::CallEnds { result })?;
        }
        Ok(())
    }
}
