//! after: hooks may change a reply before it is bounded.
//!
//! First come those that follow tools, where one ran, then those that follow whatever is kept. The deed
//! is done, so a hook that fails cannot stop it: its reply is withheld, and the failure says so. One that
//! waits for something is given up where nobody wants the reply any more.

use serde_json::Value;
use sinew_tool::{
    Arguments, Block, Cancel, ErrorBody, Hook, HookEvent, Kind, NamedPaths, Reply, ToolError,
};

use super::open::Open;
use super::run;
use crate::caught::caught;
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
    // What a hook that fails is told to have come after.
    let after = if seen.has_run { " after the call ran" } else { "" };
    let withheld = format!("{after}, so its reply is withheld");
    if seen.has_run {
        for hook in runtime.hooks.at(HookEvent::AfterToolExecute) {
            let duration_ms = open.entry.elapsed_ms();
            let before = Before::of(&reply);
            // A hook that panics is one that failed.
            let done = async { hook.after_tool_execute(&call, duration_ms, &mut reply).await };
            let done = run::in_time(caught(done), cancel, None).await.flatten();
            reply = left(runtime, &**hook, before, reply, done, &withheld);
        }
    }
    for hook in runtime.hooks.at(HookEvent::Persist) {
        let before = Before::of(&reply);
        let done = async { hook.persist(&call, &mut reply).await };
        let done = run::in_time(caught(done), cancel, None).await.flatten();
        reply = left(runtime, &**hook, before, reply, done, &withheld);
    }
    reply
}

/// What of a reply stands in more than one place, as it was before a hook. Nearly every reply has none
/// of it, so nothing is copied for that.
struct Before(Option<(Vec<Block>, Option<Value>, Option<ErrorBody>)>);

impl Before {
    fn of(reply: &Reply) -> Self {
        let is_twice = reply.error.is_some() || reply.meta.output_path.is_some();
        Self(
            is_twice
                .then(|| (reply.content.clone(), reply.structured.clone(), reply.error.clone())),
        )
    }
}

/// Returns what a hook leaves of a reply. What it took out of the content is nowhere else: neither in the
/// error that programs read nor in the full output that was stored.
fn left(
    runtime: &Runtime,
    hook: &dyn Hook,
    before: Before,
    mut reply: Reply,
    done: Result<(), ToolError>,
    withheld: &str,
) -> Reply {
    if let Err(error) = done {
        drop_output(runtime, &mut reply);
        return failure(hook, reply, error, withheld);
    }
    let Before(Some((content, structured, error))) = before else { return reply };
    let has_content_changed = content != reply.content;
    if has_content_changed || structured != reply.structured {
        drop_output(runtime, &mut reply);
    }
    if has_content_changed
        && error == reply.error
        && let Some(error) = &mut reply.error
    {
        error.message = text_of(&reply.content);
        error.hint = None;
    }
    reply
}

/// Removes the full output of a reply.
fn drop_output(runtime: &Runtime, reply: &mut Reply) {
    reply.meta.output_id = None;
    let path = reply.meta.output_path.take();
    if let (Some(store), Some(path)) = (&runtime.store, path) {
        store.remove(&path);
    }
}

/// Returns the texts of a content as the message of an error.
fn text_of(content: &[Block]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        Block::Image { .. } | Block::Audio { .. } | Block::Resource { .. } => None,
    });
    match texts.collect::<Vec<_>>().join("\n").as_str() {
        "" => String::from("a hook took the words out"),
        text => text.to_owned(),
    }
}

/// Returns the reply in the place of one that is withheld.
fn failure(hook: &dyn Hook, reply: Reply, error: ToolError, withheld: &str) -> Reply {
    let error = match error.kind {
        Kind::Cancelled => error,
        _ => hooks::failed(hook, withheld, error),
    };
    let mut failure = Reply::failure(&error);
    failure.meta = reply.meta;
    failure
}
