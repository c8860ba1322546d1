//! answer: closes the ledger entry and returns the reply.

use sinew_tool::{Kind, Reply};

use super::open::Open;

/// Returns the error kind of a reply, if any.
pub(super) fn error_of(reply: &Reply) -> Option<Kind> {
    let named = reply.outcome.or(reply.error.as_ref().map(|error| error.kind));
    named.or((!reply.ok).then_some(Kind::ExecutionFailed))
}

/// Closes the entry of a call with its own outcome, whatever hooks made of the reply.
pub(super) fn answer(open: Open, mut reply: Reply, error: Option<Kind>) -> Reply {
    reply.meta.duration_ms = (open.entry.elapsed_ms() * 1e3).round() / 1e3;
    open.entry.close(error, reply.text_bytes());
    reply
}
