//! before: hooks may change or stop a call before anything judges it.
//!
//! Where the dialect says so, its paths are joined with the working directory first.

use std::sync::Arc;

use serde_json::Value;
use sinew_tool::{Cancel, Decision, Hook, HookEvent, NamedPaths, Tool, ToolError};

use super::find::Found;
use super::open::Open;
use super::run;
use crate::caught::caught;
use crate::hooks::{self, Notes, messages};
use crate::runtime::Runtime;

/// Runs the hooks by priority; each sees the changes of earlier ones. A failing hook stops the call unless
/// it returns [`Decision::Failed`].
pub(super) async fn before(
    runtime: &Runtime,
    found: &Found,
    open: &mut Open,
    notes: &mut Notes,
    cancel: &Cancel,
) -> Result<(), ToolError> {
    if found.joined_paths {
        join_paths(found, open);
    }
    let event = HookEvent::BeforeToolExecute;
    for hook in runtime.hooks.at(event) {
        let request = &open.request;
        let paths = || hooks::named_paths(&found.listed, &found.settings, &found.guard, request);
        let dialect = open.entry.dialect();
        let names = (&*dialect, found.listed.tool.operation());
        let call =
            hooks::call_of(runtime, request, names, &request.arguments, NamedPaths::new(&paths));
        // A panic counts as a failure of the hook.
        let deciding = caught(async { hook.before_tool_execute(&call).await });
        let decided = run::in_time(deciding, cancel, open.request.deadline).await?;
        let name = hook.name();
        match decided {
            Ok(Decision::Continue) => {}
            Ok(Decision::Modify(arguments)) => {
                notes.add(name, event, "changed arguments");
                open.request.arguments.extend(arguments);
                open.entry.changed_arguments(&open.request.arguments);
            }
            Ok(Decision::Replace(arguments)) => {
                notes.add(name, event, "changed arguments");
                open.request.arguments = arguments;
                open.entry.changed_arguments(&open.request.arguments);
            }
            Ok(Decision::Ask(reason)) => {
                notes.add(name, event, "asked");
                open.asked.get_or_insert_with(|| hooks::asking(&**hook, &reason));
            }
            Ok(Decision::Failed(why)) => notes.add(name, event, format!("failed: {why}")),
            Ok(Decision::Block(reason)) => {
                notes.add(name, event, "blocked");
                stopped(found, open, &**hook);
                return Err(hooks::blocked(&**hook, &reason));
            }
            Err(error) => {
                notes.add(name, event, "failed and blocked");
                stopped(found, open, &**hook);
                return Err(hooks::failed(&**hook, ", so the call does not run", error));
            }
        }
    }
    if !runtime.hooks.at(HookEvent::MessageSending).is_empty() {
        sending(runtime, found, open, notes, cancel).await?;
    }
    Ok(())
}

/// Runs the hooks before a message is sent.
async fn sending(
    runtime: &Runtime,
    found: &Found,
    open: &mut Open,
    notes: &mut Notes,
    cancel: &Cancel,
) -> Result<(), ToolError> {
    let deadline = open.request.deadline;
    let (listed, settings) = (&found.listed, &found.settings);
    let sending = messages::sending(runtime, listed, settings, &mut open.request, notes);
    match run::in_time(sending, cancel, deadline).await? {
        Ok(false) => Ok(()),
        Ok(true) => {
            open.entry.changed_arguments(&open.request.arguments);
            Ok(())
        }
        Err(hooks::Stopped { hook, error }) => {
            stopped(found, open, &*hook);
            Err(error)
        }
    }
}

/// Joins each path argument of a call with the working directory; an absent one becomes that directory.
///
/// Arguments that cannot be decoded stay, as do all paths where the working directory is none: later stages return the
/// error. Joining changes no target, since containment would join the same way.
fn join_paths(found: &Found, open: &mut Open) {
    let request = &open.request;
    let (cwd, roots) = (request.cwd.as_deref(), request.roots.as_deref());
    let Ok(cwd) = found.guard.working_directory(cwd, roots) else { return };
    let Some(cwd) = cwd.to_str() else { return };
    let tool: Arc<dyn Tool> = Arc::clone(&found.listed.tool);
    let decoded = found.listed.check(request.arguments.clone());
    let Ok(mut prepared) = decoded.and_then(|args| tool.prepare(args, &found.settings)) else {
        return;
    };
    let mut has_changed = false;
    for claim in prepared.claims() {
        let written = claim.path.as_deref().unwrap_or_default();
        let argument = open.request.arguments.get(claim.argument);
        let is_this = match argument.unwrap_or(&Value::Null) {
            Value::Null => true,
            Value::String(text) => text.is_empty() || text == written,
            _ => false,
        };
        let path = Value::from(match written.starts_with('/') {
            true => written.to_owned(),
            false => joined(cwd, written),
        });
        if is_this && !claim.argument.is_empty() && argument != Some(&path) {
            open.request.arguments.insert(claim.argument.to_owned(), path);
            has_changed = true;
        }
    }
    if has_changed {
        open.entry.changed_arguments(&open.request.arguments);
    }
}

/// Returns a directory with a path beneath it, without the `.` at its beginning.
fn joined(dir: &str, path: &str) -> String {
    let mut rest = path;
    while let Some(after) = rest.strip_prefix("./") {
        rest = after.trim_start_matches('/');
    }
    match rest {
        "" | "." => dir.to_owned(),
        rest if dir.ends_with('/') => format!("{dir}{rest}"),
        rest => format!("{dir}/{rest}"),
    }
}

/// Notes the hook that stopped a call and, as far as the arguments say, the targets.
fn stopped(found: &Found, open: &mut Open, hook: &dyn Hook) {
    open.entry.blocked(hook);
    let tool: Arc<dyn Tool> = Arc::clone(&found.listed.tool);
    let decoded = found.listed.check(open.request.arguments.clone());
    let Ok(mut prepared) = decoded.and_then(|args| tool.prepare(args, &found.settings)) else {
        return;
    };
    if let Some(path) = prepared.claims().first().and_then(|claim| claim.path.as_deref()) {
        open.entry.named(path);
    }
    if let Some(command) = prepared.command() {
        open.entry.runs(&command.line);
    }
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn paths_are_joined_as_written() {
        for (dir, path, expected) in [
            ("/r", "a/b.txt", "/r/a/b.txt"),
            ("/r", "./a/", "/r/a/"),
            ("/r", ".//./a", "/r/a"),
            ("/r", ".", "/r"),
            ("/r", "./", "/r"),
            ("/r", "", "/r"),
            ("/r", "../x/./y", "/r/../x/./y"),
            ("/r", ".env", "/r/.env"),
            ("/", "a", "/a"),
        ] {
            assert_eq!(joined(dir, path), expected, "{path}");
        }
    }
}
