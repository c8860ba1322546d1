//! before: hooks may change or stop a call before anything judges it.

use sinew_tool::{BeforeCall, Kind, Request, ToolError};

use crate::runtime::Runtime;

/// Runs the hooks in order of priority; each sees what the ones before it changed. A hook that
/// fails stops the call.
pub(super) async fn before(runtime: &Runtime, request: &mut Request) -> Result<(), ToolError> {
    for hook in &runtime.hooks {
        let decided = hook.before(request).await.map_err(|error| {
            ToolError::new(
                Kind::BlockedByHook,
                format!("the hook `{}` failed, so the call does not run", hook.name()),
            )
            .source(error)
        })?;
        match decided {
            BeforeCall::Continue => {}
            BeforeCall::Modify(arguments) => request.arguments.extend(arguments),
            BeforeCall::Block(reason) => {
                return Err(ToolError::new(
                    Kind::BlockedByHook,
                    format!("blocked by the hook `{}`: {reason}", hook.name()),
                ));
            }
        }
    }
    Ok(())
}
