//! tell: adds notices to a reply: changed files that run later, ended background commands and damage to the ledger.

use std::path::Path;

use sinew_tool::{Background, RUNS_LATER, Reply, Request, Targets, line_name};

use super::open::{Entry, Open};
use crate::runtime::Runtime;

/// The most names in the line about what runs later.
const MAX_SHOWN: usize = 16;

/// Adds a line for each newly ended background command of the session, and for what it changed that acts later.
pub(super) fn endings(runtime: &Runtime, request: &Request, reply: &mut Reply) {
    let ended = runtime.guard.endings(request.address());
    if !ended.is_empty() {
        let lines: Vec<String> = ended.iter().flat_map(lines).collect();
        reply.note(lines.join("\n"));
    }
}

/// Adds a line for each new event of the ledger itself.
pub(super) fn news(runtime: &Runtime, reply: &mut Reply) {
    let news = runtime.ledger.news();
    news.iter().for_each(|text| reply.note(format!("[the audit log: {text}]")));
}

/// Returns a line about changed files that the user's own commands execute later.
pub(super) fn runs_later(entry: &Entry, targets: &Targets) -> Option<String> {
    let names = entry.runs_later(targets);
    let shown: Vec<_> = names.iter().take(MAX_SHOWN).map(|name| line_name(name.as_ref())).collect();
    let more = match names.len() - shown.len() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    (!names.is_empty()).then(|| format!("{RUNS_LATER}: {}{more}", shown.join(", ")))
}

/// Adds that line to a reply, also of a call that failed after it had changed files, and to the record.
pub(super) fn later(open: &mut Open, reply: &mut Reply) {
    if let Some(line) = open.runs_later.take() {
        reply.note(format!("[{line}]"));
        open.entry.consequences(line);
    }
}

fn lines(one: &Background) -> Vec<String> {
    let (id, state, command) = (&one.id, one.state(), one.short_command());
    let end = format!("[{id} has ended: {state}, {} bytes not read: {command}]", one.n_unread);
    let consequences = one.findings.consequences().into_iter().map(|line| format!("[{id} {line}]"));
    let shown = |path: &Path| line_name(path).into_owned();
    let changes = one.findings.changes.iter().flat_map(|changes| changes.lines(shown));
    let changes = changes.map(|line| format!("[{id}: {line}]"));
    [end].into_iter().chain(consequences).chain(changes).collect()
}
