//! after: hooks may change a reply before it is bounded.
//!
//! The hooks of the tool run first, if it ran, then those of every kept reply. A failing hook cannot undo the
//! call: the reply is withheld with an error that says so. A cancelled call stops waiting for its hooks.

use serde_json::Value;
use sinew_guard::Store;
use sinew_tool::{
    Arguments, Block, Cancel, ErrorBody, Hook, HookEvent, Kind, NamedPaths, Reply, ToolError,
};

use super::open::Open;
use super::run;
use crate::caught::caught;
use crate::hooks;
use crate::runtime::Runtime;

#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The operation of a known tool.
    pub(super) operation: Option<String>,
    /// The decoded arguments.
    pub(super) arguments: Option<Arguments>,
    /// The real paths of the call.
    pub(super) paths: Option<Vec<String>>,
    /// Whether the tool ran.
    pub(super) has_run: bool,
}

/// Runs the hooks in order of priority.
pub(super) async fn after(
    runtime: &Runtime,
    open: &Open,
    store: Option<&Store>,
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
    // The error text of a failing hook says whether the call ran.
    let after = if seen.has_run { " after the call ran" } else { "" };
    let withheld = format!("{after}, so its reply is withheld");
    if seen.has_run {
        for hook in runtime.hooks.at(HookEvent::AfterToolExecute) {
            let duration_ms = open.entry.elapsed_ms();
            let before = Before::of(&reply);
            let notes = notes_of(&reply);
            // A panic counts as a failure of the hook.
            let done = async { hook.after_tool_execute(&call, duration_ms, &mut reply).await };
            let done = run::in_time(caught(done), cancel, None).await.flatten();
            forget_notes(&mut reply, &notes);
            reply = left(store, &**hook, before, reply, done, &withheld);
        }
    }
    for hook in runtime.hooks.at(HookEvent::Persist) {
        let before = Before::of(&reply);
        let notes = notes_of(&reply);
        let done = async { hook.persist(&call, &mut reply).await };
        let done = run::in_time(caught(done), cancel, None).await.flatten();
        forget_notes(&mut reply, &notes);
        reply = left(store, &**hook, before, reply, done, &withheld);
    }
    reply
}

/// Returns the notes of sinew behind the content.
fn notes_of(reply: &Reply) -> Vec<Block> {
    let at = reply.content.len().saturating_sub(reply.n_notes);
    reply.content.get(at..).unwrap_or_default().to_vec()
}

/// Counts every block as content where a hook changed the notes: they cannot be told apart any more.
fn forget_notes(reply: &mut Reply, notes: &[Block]) {
    if !reply.content.ends_with(notes) {
        reply.n_notes = 0;
    }
}

/// The parts of a reply that exist in several places, before a hook. It is empty for most replies, which
/// saves a copy.
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

/// Returns the reply after a hook. Content that the hook removed is also removed from the error and the
/// stored output.
fn left(
    store: Option<&Store>,
    hook: &dyn Hook,
    before: Before,
    mut reply: Reply,
    done: Result<(), ToolError>,
    withheld: &str,
) -> Reply {
    if let Err(error) = done {
        drop_output(store, &mut reply);
        return failure(hook, reply, error, withheld);
    }
    let Before(Some((content, structured, error))) = before else { return reply };
    // What a hook only adds leaves the words of the call as they are.
    let has_content_changed = !content.iter().all(|block| reply.content.contains(block));
    if has_content_changed || structured != reply.structured {
        drop_output(store, &mut reply);
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

fn drop_output(store: Option<&Store>, reply: &mut Reply) {
    reply.meta.output_id = None;
    let path = reply.meta.output_path.take();
    if let (Some(store), Some(path)) = (store, path) {
        store.remove(&path);
    }
}

fn text_of(content: &[Block]) -> String {
    let texts = content.iter().filter_map(Block::as_text);
    match texts.collect::<Vec<_>>().join("\n").as_str() {
        "" => String::from("a hook took the words out"),
        text => text.to_owned(),
    }
}

/// Returns the reply that replaces a withheld one.
fn failure(hook: &dyn Hook, reply: Reply, error: ToolError, withheld: &str) -> Reply {
    let error = match error.kind {
        Kind::Cancelled => error,
        _ => hooks::failed(hook, withheld, error),
    };
    let mut failure = Reply::failure(&error);
    failure.meta = reply.meta;
    failure
}
