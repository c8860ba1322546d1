//! Answers questions about a restore for the person who called it at the command line.

use sinew_tool::{Answer, Approver, BoxFuture, Question, Scope};

use crate::terminal::Terminal;

/// The person at the command line: looking was asked for by the call itself, and so was the restore unless a terminal asks.
pub(crate) struct ByCaller {
    pub(crate) terminal: Option<Terminal>,
}

impl Approver for ByCaller {
    fn name(&self) -> &'static str {
        self.terminal.as_ref().map_or("command line", |terminal| terminal.name())
    }

    fn ask(&self, question: Question) -> BoxFuture<'_, Answer> {
        let looks = question.effects.iter().all(|effect| *effect == "observe");
        match &self.terminal {
            Some(terminal) if !looks => terminal.ask(question),
            _ => Box::pin(std::future::ready(Answer::Yes(Scope::Call))),
        }
    }

    fn may_grant(&self) -> bool {
        false
    }
}
