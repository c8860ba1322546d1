//! unkept: asks about a change of the running command that undo cannot keep. The command waits, and no deadline passes.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sinew_tool::sync::lock;
use sinew_tool::{
    Answer, Arguments, AsksUnkept, Clock, Question, Targets, Tool, UndoCover, UnkeptAnswer,
    UnkeptChange,
};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::approval_hooks;
use super::open::{Entry, Open};
use crate::broker::About;
use crate::runtime::Runtime;

/// The rule of the question.
const UNKEPT: &str = "unkept";

/// The longest words of an approver in a reply, in bytes.
const MAX_WORDS: usize = 4_096;

/// Asks about the command of one call.
pub(super) struct UnkeptAsker {
    runtime: Arc<Runtime>,
    /// Runs the question: the command may be followed on a thread of its own.
    tasks: Option<Handle>,
    call: Arc<AskingCall>,
    state: Arc<QuestionState>,
}

impl fmt::Debug for UnkeptAsker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnkeptAsker").field("call_id", &self.call.call_id).finish_non_exhaustive()
    }
}

/// What a question says of its call.
struct AskingCall {
    tool: Arc<dyn Tool>,
    effects: Vec<&'static str>,
    targets: Arc<Targets>,
    arguments: Arguments,
    session: String,
    agent: Option<String>,
    call_id: String,
    asked_for: String,
}

/// The question of a command so far.
struct QuestionState {
    clock: Arc<dyn Clock>,
    progress: Mutex<AskingProgress>,
    /// Wakes the deadline once nothing waits any more.
    settled: Notify,
}

#[derive(Default)]
struct AskingProgress {
    since: Option<Instant>,
    waited: Duration,
    /// The approvers that were asked, or the one that answered.
    by: Option<String>,
    answer: Option<Answer>,
}

impl QuestionState {
    fn waited(&self, progress: &AskingProgress) -> Duration {
        let now = self.clock.now();
        let last = progress.since.map(|since| now.saturating_duration_since(since));
        progress.waited + last.unwrap_or_default()
    }
}

/// An approver thinks, until this is dropped.
struct Thinking(Arc<QuestionState>);

impl Thinking {
    fn begin(state: &Arc<QuestionState>, names: &[&str]) -> Self {
        let mut progress = lock(&state.progress);
        (progress.since, progress.by) = (Some(state.clock.now()), Some(names.join(", ")));
        Self(Arc::clone(state))
    }
}

impl Drop for Thinking {
    fn drop(&mut self) {
        let mut progress = lock(&self.0.progress);
        progress.waited = self.0.waited(&progress);
        progress.since = None;
        drop(progress);
        self.0.settled.notify_one();
    }
}

/// A task that ends when this is dropped.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl UnkeptAsker {
    pub(super) fn new(
        runtime: &Arc<Runtime>,
        (tool, effects): (&Arc<dyn Tool>, sinew_tool::Effects),
        (targets, arguments): (&Arc<Targets>, &Arguments),
        open: &Open,
    ) -> Arc<Self> {
        let request = &open.request;
        let call = AskingCall {
            tool: Arc::clone(tool),
            effects: effects.names(),
            targets: Arc::clone(targets),
            arguments: arguments.clone(),
            session: request.session.clone(),
            agent: request.agent.clone(),
            call_id: request.call_id.clone(),
            asked_for: super::clear::asked_for(runtime, request),
        };
        let state = QuestionState {
            clock: Arc::clone(&runtime.clock),
            progress: Mutex::default(),
            settled: Notify::new(),
        };
        let runtime = Arc::clone(runtime);
        let tasks = Handle::try_current().ok();
        Arc::new(Self { runtime, tasks, call: Arc::new(call), state: Arc::new(state) })
    }

    /// Waits until a deadline is over that does not pass while an approver thinks.
    pub(super) async fn until(&self, deadline: Instant) {
        loop {
            let settled = self.state.settled.notified();
            let at = {
                let progress = lock(&self.state.progress);
                match progress.since {
                    Some(_) => None,
                    None => Some(deadline + progress.waited),
                }
            };
            match at {
                Some(at) if at <= Instant::now() => return,
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => settled.await,
            }
        }
    }

    /// Notes the question and its answer, once the command has ended.
    pub(super) fn end(&self, entry: &mut Entry) {
        let mut progress = lock(&self.state.progress);
        let waited = self.state.waited(&progress);
        let Some(by) = progress.by.take() else { return };
        entry.asked(by);
        match progress.answer.take() {
            Some(answer) => entry.answered(&answer, waited),
            None => entry.waited(waited),
        }
    }

    fn approvers(&self) -> Vec<&'static str> {
        let AskingCall { session, asked_for, .. } = &*self.call;
        let asked = self.runtime.broker.approvers(session, asked_for);
        asked.iter().map(|approver| approver.name()).collect()
    }
}

impl AsksUnkept for UnkeptAsker {
    fn ask(
        &self,
        change: UnkeptChange,
        answered: Box<dyn FnOnce(UnkeptAnswer) + Send>,
    ) -> Box<dyn Send> {
        let names = self.approvers();
        let Some(tasks) = self.tasks.as_ref().filter(|_| !names.is_empty()) else {
            return Box::new(());
        };
        let (runtime, call) = (Arc::clone(&self.runtime), Arc::clone(&self.call));
        let thinking = Thinking::begin(&self.state, &names);
        let asking = async move {
            let answer = put(&runtime, &call, &thinking.0, change, &names.join(", ")).await;
            // The clock of the command runs again with the answer.
            drop(thinking);
            answered(answer);
        };
        Box::new(AbortOnDrop(tasks.spawn(asking).abort_handle()))
    }
}

/// Sends the question and waits until it is settled.
async fn put(
    runtime: &Runtime,
    call: &AskingCall,
    state: &QuestionState,
    change: UnkeptChange,
    names: &str,
) -> UnkeptAnswer {
    let mut hasher = blake3::Hasher::new();
    let path = change.path.to_string_lossy();
    let agent = call.agent.as_deref().unwrap_or_default();
    for text in [UNKEPT, &call.session, agent, &call.call_id, &path] {
        hasher.update(text.as_bytes()).update(&[0]);
    }
    let about = About {
        digest: hasher.finalize().into(),
        session: &call.session,
        call_id: &call.asked_for,
        timeout: runtime.answer_within,
    };
    let sandbox = runtime.guard.containment(&call.session);
    let told = Mutex::new(None);
    let question = |n_asked, id| {
        let question = call.question((n_asked, id), &change, sandbox.clone(), about.timeout);
        *lock(&told) = approval_hooks::asked(runtime, &*call.tool, &question, names);
        question
    };
    let settled = runtime.broker.settle(&about, question, || false).await;
    let told = lock(&told).take();
    approval_hooks::answered(told, settled.by, &settled.answer);
    let answer = match &settled.answer {
        Answer::Yes(_) => UnkeptAnswer::Yes,
        Answer::No(words) => UnkeptAnswer::No(words.as_deref().map(short)),
        Answer::TimedOut => UnkeptAnswer::TimedOut,
        Answer::Gone => UnkeptAnswer::Unanswered,
    };
    let mut progress = lock(&state.progress);
    if let Some(by) = settled.by {
        progress.by = Some(by.to_owned());
    }
    progress.answer = Some(settled.answer);
    answer
}

/// Returns the words of an approver in one line, of at most [`MAX_WORDS`] bytes.
fn short(words: &str) -> String {
    let words = words.get(..words.floor_char_boundary(MAX_WORDS)).unwrap_or_default();
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl AskingCall {
    fn question(
        &self,
        (n_asked, id): (u64, String),
        change: &UnkeptChange,
        sandbox: Option<String>,
        timeout: Duration,
    ) -> Question {
        Question {
            id,
            call_id: self.call_id.clone(),
            session: self.session.clone(),
            agent: self.agent.clone(),
            asked_for: self.asked_for.clone(),
            tool: self.tool.name().to_owned(),
            tool_origin: self.tool.origin(),
            effects: self.effects.clone(),
            targets: self.targets.as_ref().clone(),
            arguments: self.arguments.clone(),
            is_open: false,
            undo: UndoCover::None,
            unkept: Some(change.clone()),
            diff: None,
            sandbox,
            rule: UNKEPT,
            origin: None,
            why: format!("it ran unasked, and {}", change.why),
            covers: Vec::new(),
            n_asked,
            timeout,
        }
    }
}
