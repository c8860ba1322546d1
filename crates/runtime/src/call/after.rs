//! after: hooks may change a reply before it is bounded.

use sinew_tool::{Kind, Reply, Request, ToolError};

use crate::runtime::Runtime;

/// Runs the hooks in order of priority. The deed is done, so a hook that fails cannot stop it: its
/// reply is withheld and the failure says so.
pub(super) async fn after(runtime: &Runtime, request: &Request, mut reply: Reply) -> Reply {
    for hook in &runtime.hooks {
        if let Err(error) = hook.after(request, &mut reply).await {
            let error = ToolError::new(
                Kind::BlockedByHook,
                format!(
                    "the hook `{}` failed after the call ran; its reply is withheld",
                    hook.name()
                ),
            )
            .source(error);
            let mut failure = Reply::failure(&error);
            failure.meta = reply.meta;
            reply = failure;
        }
    }
    reply
}
