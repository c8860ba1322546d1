//! after: hooks may change a reply before it is bounded.
//!
//! First come those that follow tools, where one ran, then those that follow whatever is kept. The deed
//! is done, so a hook that fails cannot stop it: its reply is withheld, and the failure says so. One that
//! waits for something is given up where nobody wants the reply any more.

use sinew_tool::{Arguments, Cancel, Hook, HookEvent, Kind, NamedPaths, Reply, ToolError};

use super::open::Open;
use super::run;
use crate::hooks;
use crate::runtime::Runtime;

/// What hooks are told of a call beside its request.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The operation, where the tool was found.
    pub(super) operation: Option<String>,
    /// The arguments as they were decoded.
    pub(super) arguments: Option<Arguments>,
    /// The real paths that it named.
    pub(super) paths: Option<Vec<String>>,
    /// Whether the tool ran.
    pub(super) has_run: bool,
}

/// Runs the hooks in order of priority.
pub(super) async fn after(
    runtime: &Runtime,
    open: &Open,
    seen: &Seen,
    mut reply: Reply,
    cancel: &Cancel,
) -> Reply {
    let dialect = open.entry.dialect();
    let operation = seen.operation.as_deref().unwrap_or(&open.request.name);
    let arguments = seen.arguments.as_ref().unwrap_or(&open.request.arguments);
    let paths = || seen.paths.clone();
    let paths = NamedPaths::new(&paths);
    let call = hooks::call_of(runtime, &open.request, (&dialect, operation), arguments, paths);
    if seen.has_run {
        for hook in runtime.hooks.at(HookEvent::AfterToolExecute) {
            let duration_ms = open.entry.elapsed_ms();
            // A hook that panics is one that failed.
            let done = async { hook.after_tool_execute(&call, duration_ms, &mut reply).await };
            let done = run::in_time(run::caught(done), cancel, None).await.flatten();
            reply = withheld_where_it_failed(&**hook, reply, done);
        }
    }
    for hook in runtime.hooks.at(HookEvent::Persist) {
        let done = async { hook.persist(&call, &mut reply).await };
        let done = run::in_time(run::caught(done), cancel, None).await.flatten();
        reply = withheld_where_it_failed(&**hook, reply, done);
    }
    reply
}

fn withheld_where_it_failed(hook: &dyn Hook, reply: Reply, done: Result<(), ToolError>) -> Reply {
    let Err(error) = done else { return reply };
    let error = match error.kind {
        Kind::Cancelled => error,
        _ => hooks::failed(hook, " after the call ran, so its reply is withheld", error),
    };
    let mut failure = Reply::failure(&error);
    failure.meta = reply.meta;
    failure
}
