//! What hooks are told of a question: that it was asked, and what was answered. They answer nothing.

use std::sync::Arc;

use sinew_tool::{Answer, Approval, Hook, HookEvent, Question, Scope};
use tokio::task::JoinHandle;

use crate::runtime::Runtime;

/// A question that hooks were told of.
pub(super) struct Told {
    approval: Approval,
    hooks: Vec<Arc<dyn Hook>>,
    asked: JoinHandle<()>,
}

impl Drop for Told {
    fn drop(&mut self) {
        // A call that was taken back has no question any more.
        self.asked.abort();
    }
}

/// Tells the hooks that a question is asked; nobody waits for them. Returns nothing where there are
/// none.
pub(super) fn asked(runtime: &Runtime, question: &Question, approver: &str) -> Option<Told> {
    let hooks = runtime.hooks.at(HookEvent::Approval).to_vec();
    if hooks.is_empty() {
        return None;
    }
    let targets = &question.targets;
    let approval = Approval {
        session: question.session.clone(),
        call_id: question.call_id.clone(),
        tool: question.tool.clone(),
        effects: question.effects.iter().map(ToString::to_string).collect(),
        paths: targets.files.iter().map(|file| file.path.to_string_lossy().into_owned()).collect(),
        argv: targets.command.as_ref().map(|command| command.argv.clone()),
        diff: question.diff.clone(),
        rule: question.rule.to_owned(),
        why: question.why.clone(),
        approver: approver.to_owned(),
        state: String::from("asked"),
        answer: None,
        reason: None,
    };
    let (told, of_task) = (approval.clone(), hooks.clone());
    let asked = tokio::spawn(async move { run(&of_task, &told).await });
    Some(Told { approval, hooks, asked })
}

/// Tells the hooks what was answered, after what was asked.
pub(super) async fn answered(told: Option<Told>, by: Option<&str>, answer: &Answer) {
    let Some(mut told) = told else { return };
    let _ = (&mut told.asked).await;
    let (word, reason) = match answer {
        Answer::Yes(Scope::Call) => ("yes", None),
        Answer::Yes(scope) => (scope.as_str(), None),
        Answer::No(words) => ("no", words.clone()),
        Answer::TimedOut => ("timed_out", None),
        Answer::Gone => ("gone", None),
    };
    told.approval.state = String::from("answered");
    by.iter().for_each(|by| (*by).clone_into(&mut told.approval.approver));
    told.approval.answer = Some(word.to_owned());
    told.approval.reason = reason;
    run(&told.hooks, &told.approval).await;
}

async fn run(hooks: &[Arc<dyn Hook>], approval: &Approval) {
    for hook in hooks {
        // Whoever only looks on decides nothing.
        let _ = hook.approval(approval).await;
    }
}
