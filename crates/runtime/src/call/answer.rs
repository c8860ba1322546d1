//! answer: the entry closes with how the call ended, and the reply leaves.

use sinew_tool::{Kind, Reply};

use super::open::Open;

/// Closes the entry of a call and returns its reply.
pub(super) fn answer(open: Open, mut reply: Reply) -> Reply {
    reply.meta.duration_ms = (open.entry.elapsed_ms() * 1e3).round() / 1e3;
    let named = reply.outcome.or(reply.error.as_ref().map(|error| error.kind));
    let error = named.or((!reply.ok).then_some(Kind::ExecutionFailed));
    open.entry.close(error, reply.text_bytes());
    reply
}
