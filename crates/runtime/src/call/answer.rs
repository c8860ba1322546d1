//! answer: the entry closes with how the call ended, and the reply leaves.

use sinew_tool::{Kind, Reply};

use super::open::Open;

/// Returns what kind of error a reply tells, if any.
pub(super) fn error_of(reply: &Reply) -> Option<Kind> {
    let named = reply.outcome.or(reply.error.as_ref().map(|error| error.kind));
    named.or((!reply.ok).then_some(Kind::ExecutionFailed))
}

/// Closes the entry of a call, which ended with this error or none, and returns its reply. What hooks left of
/// the reply says nothing about what was done.
pub(super) fn answer(open: Open, mut reply: Reply, error: Option<Kind>) -> Reply {
    reply.meta.duration_ms = (open.entry.elapsed_ms() * 1e3).round() / 1e3;
    open.entry.close(error, reply.text_bytes());
    reply
}
