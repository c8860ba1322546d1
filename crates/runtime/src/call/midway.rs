//! midway: asks about the running command, which waits: about a change that undo cannot keep, or a file outside the roots
//! that it opens for writing. No deadline passes meanwhile.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sinew_tool::sync::lock;
use sinew_tool::{
    Answer, AsksMidway, Clock, Effects, MidwayAnswer, OutsideAnswer, OutsideOpen, Question,
    Targets, UnkeptChange,
};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::approval_hooks;
use super::decode::Decoded;
use super::open::{Entry, Open, asked_for};
use super::running_call::{QuestionOrder, RunningCall};
use crate::broker::{About, Digest};
use crate::runtime::Runtime;

/// The rule of a question about what undo cannot keep.
pub(super) const UNKEPT: &str = "unkept";

/// The longest words of an approver in a reply, in bytes.
const MAX_WORDS: usize = 4_096;

/// Asks about the command of one call.
pub(super) struct MidwayAsker {
    runtime: Arc<Runtime>,
    /// Runs the question: the command may be followed on a thread of its own.
    tasks: Option<Handle>,
    call: Arc<RunningCall>,
    state: Arc<QuestionState>,
}

impl fmt::Debug for MidwayAsker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MidwayAsker").field("call_id", &self.call.call_id()).finish_non_exhaustive()
    }
}

/// The question of a command so far.
pub(super) struct QuestionState {
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
        // The answer to an earlier question is none to this one.
        *progress = AskingProgress {
            since: Some(state.clock.now()),
            by: Some(names.join(", ")),
            waited: progress.waited,
            answer: None,
        };
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

impl MidwayAsker {
    pub(super) fn new(
        runtime: &Arc<Runtime>,
        decoded: &Decoded,
        (effects, targets): (Effects, &Arc<Targets>),
        open: &Open,
    ) -> Arc<Self> {
        let asked_for = asked_for(runtime, &open.request);
        let call = RunningCall::new(decoded, (effects, targets), open, asked_for);
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
}

/// Returns the names of the approvers that can be asked.
pub(super) fn approvers(runtime: &Runtime, call: &RunningCall) -> Vec<&'static str> {
    let asked = runtime.broker.approvers(call.session(), &call.asked_for);
    asked.iter().map(|approver| approver.name()).collect()
}

impl AsksMidway for MidwayAsker {
    fn ask_unkept(
        &self,
        change: UnkeptChange,
        answered: Box<dyn FnOnce(MidwayAnswer) + Send>,
    ) -> Box<dyn Send> {
        let has_approver = !approvers(&self.runtime, &self.call).is_empty();
        let Some(tasks) = self.tasks.as_ref().filter(|_| has_approver) else {
            return Box::new(());
        };
        let (runtime, call) = (Arc::clone(&self.runtime), Arc::clone(&self.call));
        let state = Arc::clone(&self.state);
        let asking = async move {
            let path = change.path.to_string_lossy();
            let digest = call.digest(&[UNKEPT, &path]);
            let question = |order: QuestionOrder| call.question_of_unkept(order, &change);
            let (answer, _) = put(&runtime, &call, &state, (digest, &question), &|| false).await;
            answered(answer_of(&answer));
        };
        Box::new(AbortOnDrop(tasks.spawn(asking).abort_handle()))
    }

    fn ask_outside(
        &self,
        wanted: OutsideOpen,
        asking: Box<dyn FnOnce() + Send>,
        answered: Box<dyn FnOnce(OutsideAnswer) + Send>,
    ) -> Box<dyn Send> {
        let Some(tasks) = &self.tasks else { return Box::new(()) };
        let (runtime, call) = (Arc::clone(&self.runtime), Arc::clone(&self.call));
        let state = Arc::clone(&self.state);
        let opening = async move { answered(call.opens(&runtime, &state, &wanted, asking).await) };
        Box::new(AbortOnDrop(tasks.spawn(opening).abort_handle()))
    }
}

/// Sends a question about the command of a call and waits until it is settled, with its clock stopped. Returns the answer, and
/// who gave it.
pub(super) async fn put(
    runtime: &Runtime,
    call: &RunningCall,
    state: &Arc<QuestionState>,
    (digest, question): (Digest, &(dyn Fn(QuestionOrder) -> Question + Sync)),
    covered: &(dyn Fn() -> bool + Sync),
) -> (Answer, Option<&'static str>) {
    let names = approvers(runtime, call);
    let thinking = Thinking::begin(state, &names);
    let about = About {
        digest,
        session: call.session(),
        call_id: &call.asked_for,
        timeout: runtime.answer_within,
    };
    let sandbox = runtime.guard.containment(call.session());
    let told = Mutex::new(None);
    let names = names.join(", ");
    let question = |n_asked, id| {
        let (timeout, sandbox) = (about.timeout, sandbox.clone());
        let question = question(QuestionOrder { id, n_asked, timeout, sandbox });
        *lock(&told) = approval_hooks::asked(runtime, &*call.tool, &question, &names);
        question
    };
    let settled = runtime.broker.settle(&about, question, covered).await;
    let told = lock(&told).take();
    approval_hooks::answered(told, settled.by, &settled.answer);
    let mut progress = lock(&state.progress);
    if let Some(by) = settled.by {
        progress.by = Some(by.to_owned());
    }
    progress.answer = Some(settled.answer.clone());
    drop(progress);
    // The clock of the command runs again with the answer.
    drop(thinking);
    (settled.answer, settled.by)
}

/// Returns an answer as the command gets it.
pub(super) fn answer_of(answer: &Answer) -> MidwayAnswer {
    match answer {
        Answer::Yes(_) => MidwayAnswer::Yes,
        Answer::No(words) => MidwayAnswer::No(words.as_deref().map(short)),
        Answer::TimedOut => MidwayAnswer::TimedOut,
        Answer::Gone => MidwayAnswer::Unanswered,
    }
}

/// Returns the words of an approver in one line, of at most [`MAX_WORDS`] bytes.
fn short(words: &str) -> String {
    let words = words.get(..words.floor_char_boundary(MAX_WORDS)).unwrap_or_default();
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}
