//! before: hooks may change or stop a call before anything judges it.

use sinew_tool::{Cancel, Decision, HookEvent, NamedPaths, ToolError};

use super::find::Found;
use super::open::Open;
use super::run;
use crate::hooks::{self, Notes};
use crate::runtime::Runtime;

/// Runs the hooks in order of priority; each sees what the ones before it changed. A hook that
/// fails stops the call, unless it says that the call goes on.
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
        // A hook that panics is one that failed.
        let deciding = run::caught(async { hook.before_tool_execute(&call).await });
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
            Ok(Decision::Failed(why)) => notes.add(name, event, format!("failed: {why}")),
            Ok(Decision::Block(reason)) => {
                notes.add(name, event, "blocked");
                open.entry.blocked();
                return Err(hooks::blocked(&**hook, &reason));
            }
            Err(error) => {
                notes.add(name, event, "failed and blocked");
                open.entry.blocked();
                return Err(hooks::failed(&**hook, ", so the call does not run", error));
            }
        }
    }
    Ok(())
}
