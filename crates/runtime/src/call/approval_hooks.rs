//! What hooks are told of a question: that it was asked, and what was answered. They answer nothing, and
//! nobody waits for them: they run beside the call.

use std::sync::Arc;

use sinew_tool::{
    Answer, Approval, CommandLine, CommandTarget, Hook, HookEvent, Question, Scope, Tool,
};
use tokio::sync::oneshot;

use crate::caught::caught;
use crate::hooks;
use crate::runtime::Runtime;

/// A question that hooks were told of. Dropped without an answer, as where its call is taken back, it is
/// told as one that nobody is left to answer.
pub(super) struct AnnouncedQuestion {
    answered: Option<oneshot::Sender<Answered>>,
}

struct Answered {
    by: Option<String>,
    answer: Answer,
}

impl Drop for AnnouncedQuestion {
    fn drop(&mut self) {
        self.say(None, Answer::Gone);
    }
}

impl AnnouncedQuestion {
    fn say(&mut self, by: Option<String>, answer: Answer) {
        if let Some(answered) = self.answered.take() {
            // Whoever listens goes away with the process only.
            let _ = answered.send(Answered { by, answer });
        }
    }
}

/// Tells the hooks that a question is asked. Returns nothing where there are none.
pub(super) fn asked(
    runtime: &Runtime,
    tool: &dyn Tool,
    question: &Question,
    approver: &str,
) -> Option<AnnouncedQuestion> {
    let hooks = runtime.hooks.at(HookEvent::Approval).to_vec();
    if hooks.is_empty() {
        return None;
    }
    let targets = &question.targets;
    let mut approval = Approval {
        session: question.session.clone(),
        call_id: question.call_id.clone(),
        tool: question.tool.clone(),
        operation: tool.operation().to_owned(),
        effects: question.effects.iter().map(ToString::to_string).collect(),
        paths: targets.files.iter().map(|file| file.path.to_string_lossy().into_owned()).collect(),
        finds_paths: hooks::paths_of(targets).is_none(),
        argv: targets.command.as_ref().map(argv),
        diff: question.diff.clone(),
        rule: question.rule.to_owned(),
        why: question.why.clone(),
        approver: approver.to_owned(),
        state: String::from("asked"),
        answer: None,
        reason: None,
    };
    let (answered, waiting) = oneshot::channel();
    runtime.telling.tell(async move {
        run(&hooks, &approval).await;
        let Ok(Answered { by, answer }) = waiting.await else { return };
        let (word, reason) = match answer {
            Answer::Yes(Scope::Call) => ("yes", None),
            Answer::Yes(scope) => (scope.as_str(), None),
            Answer::No(words) => ("no", words),
            Answer::TimedOut => ("timed_out", None),
            Answer::Gone => ("gone", None),
        };
        approval.state = String::from("answered");
        approval.approver = by.unwrap_or(approval.approver);
        approval.answer = Some(word.to_owned());
        approval.reason = reason;
        run(&hooks, &approval).await;
    });
    Some(AnnouncedQuestion { answered: Some(answered) })
}

/// Tells the hooks what was answered, once they know what was asked.
pub(super) fn answered(told: Option<AnnouncedQuestion>, by: Option<&str>, answer: &Answer) {
    if let Some(mut told) = told {
        told.say(by.map(str::to_owned), answer.clone());
    }
}

/// Returns what a command runs with the text that the call wrote, not with what is put before it.
fn argv(command: &CommandTarget) -> Vec<String> {
    let mut argv = command.argv.clone();
    if let (CommandLine::Shell(_, text), Some(last)) = (&command.command.line, argv.last_mut()) {
        text.clone_into(last);
    }
    argv
}

async fn run(hooks: &[Arc<dyn Hook>], approval: &Approval) {
    for hook in hooks {
        // Whoever only looks on decides nothing, not even by a panic.
        let _ = caught(async { hook.approval(approval).await }).await;
    }
}
