//! Code of an embedding program that runs before and after calls.

use crate::{Arguments, BoxFuture, Reply, Request, ToolError};

/// What a hook decided before a call.
#[derive(Debug)]
pub enum BeforeCall {
    /// Nothing to say.
    Continue,
    /// Replaces these arguments; keys that are not named stay.
    Modify(Arguments),
    /// Stops the call, with the reason for the model.
    Block(String),
}

/// Runs around every call. Hooks with a higher priority run first; later ones see what earlier
/// ones changed.
pub trait Hook: Send + Sync {
    /// Names the hook in messages.
    fn name(&self) -> &str;

    /// Orders hooks, high first.
    fn priority(&self) -> i32 {
        0
    }

    /// Runs before anything judges the call. An error blocks it.
    fn before<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<BeforeCall, ToolError>> {
        let _ = request;
        Box::pin(std::future::ready(Ok(BeforeCall::Continue)))
    }

    /// Runs on the reply, before it is bounded.
    fn after<'a>(
        &'a self,
        request: &'a Request,
        reply: &'a mut Reply,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        let _ = (request, reply);
        Box::pin(std::future::ready(Ok(())))
    }
}
