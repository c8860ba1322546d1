//! tell: adds notices to a reply: changed files that run later, ended background commands and damage to the ledger.

use sinew_tool::{Background, RUNS_LATER, Reply, Request, Targets, line_name};

use super::open::Open;
use crate::runtime::Runtime;

/// Adds a line for each newly ended background command of the session.
pub(super) fn endings(runtime: &Runtime, request: &Request, reply: &mut Reply) {
    let ended = runtime.guard.endings(&request.session);
    if !ended.is_empty() {
        let lines: Vec<String> = ended.iter().map(line).collect();
        reply.note(lines.join("\n"));
    }
}

/// Adds a line for each new event of the ledger itself.
pub(super) fn news(runtime: &Runtime, reply: &mut Reply) {
    let news = runtime.ledger.news();
    news.iter().for_each(|text| reply.note(format!("[the ledger: {text}]")));
}

/// Adds a line about changed files that the user's own commands execute later.
pub(super) fn later(open: &mut Open, targets: &Targets, reply: &mut Reply) {
    let names = open.entry.runs_later(targets);
    if names.is_empty() {
        return;
    }
    let names: Vec<_> = names.into_iter().map(|name| line_name(name.as_ref())).collect();
    let line = format!("{RUNS_LATER}: {}", names.join(", "));
    reply.note(format!("[{line}]"));
    open.entry.consequences(line);
}

fn line(one: &Background) -> String {
    let (id, state, command) = (&one.id, one.state(), one.short_command());
    format!("[{id} has ended: {state}, {} bytes not looked at: {command}]", one.n_unread)
}
