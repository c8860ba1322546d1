//! Notifies hooks of approval questions and answers, beside the call: they decide nothing.

use std::sync::Arc;

use sinew_tool::{
    Answer, Approval, CommandLine, CommandTarget, Hook, HookEvent, Question, Scope, Tool,
};
use tokio::sync::oneshot;

use crate::caught::caught;
use crate::hooks;
use crate::runtime::Runtime;

/// A question that hooks know. Dropped without an answer, as by a cancelled call, it is reported as gone.
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
            // The receiver ends only with the process.
            let _ = answered.send(Answered { by, answer });
        }
    }
}

/// Notifies hooks of a question; `None` without hooks.
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

/// Notifies hooks of the answer, after the question.
pub(super) fn answered(told: Option<AnnouncedQuestion>, by: Option<&str>, answer: &Answer) {
    if let Some(mut told) = told {
        told.say(by.map(str::to_owned), answer.clone());
    }
}

/// Returns the arguments of a command with the text as the call wrote it, without the prefix.
fn argv(command: &CommandTarget) -> Vec<String> {
    let mut argv = command.argv.clone();
    if let (CommandLine::Shell(_, text), Some(last)) = (&command.command.line, argv.last_mut()) {
        text.clone_into(last);
    }
    argv
}

async fn run(hooks: &[Arc<dyn Hook>], approval: &Approval) {
    for hook in hooks {
        // An observer hook decides nothing, even by a panic.
        let _ = caught(async { hook.approval(approval).await }).await;
    }
}
