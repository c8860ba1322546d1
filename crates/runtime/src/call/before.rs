//! before: hooks may change or stop a call before anything judges it.

use std::sync::Arc;

use sinew_tool::{Cancel, Decision, Hook, HookEvent, NamedPaths, Tool, ToolError};

use super::find::Found;
use super::open::Open;
use super::run;
use crate::caught::caught;
use crate::hooks::{self, Notes};
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
    Ok(())
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
