//! The hooks of a runtime by event, and how their decisions combine.
//!
//! Each event has its own list, built once, so that events without hooks cost nothing.

mod answer;
mod breaker;
mod command;
pub(crate) mod messages;
pub(crate) mod session;
pub(crate) mod telling;

use std::borrow::Cow;
use std::sync::Arc;

use sinew_guard::Guard;
use sinew_tool::{
    Access, AgentEvent, Arguments, Decision, FileKind, FileSettings, FileTarget, Hook, HookEvent,
    Kind, NamedPaths, Request, Ruling, Targets, Tool, ToolCall, ToolError, Verdict,
};

use crate::catalog::Listed;
use crate::caught::caught;
use crate::runtime::Runtime;

pub use command::{CommandHook, CommandHookSettings, HookCommand, HookTrial};

/// A hook that stopped an event, and the error for the caller.
pub(crate) struct Stopped {
    pub(crate) hook: Arc<dyn Hook>,
    pub(crate) error: ToolError,
}

/// Hooks by event, in running order.
#[derive(Default)]
pub(crate) struct Hooks(Vec<Vec<Arc<dyn Hook>>>);

impl Hooks {
    pub(crate) fn new(mut hooks: Vec<Arc<dyn Hook>>) -> Self {
        if hooks.is_empty() {
            return Self::default();
        }
        hooks.sort_by_key(|hook| std::cmp::Reverse(hook.priority()));
        let at = |event| hooks.iter().filter(|hook| hook.wants(event)).cloned().collect();
        Self(HookEvent::ALL.into_iter().map(at).collect())
    }

    pub(crate) fn at(&self, event: HookEvent) -> &[Arc<dyn Hook>] {
        self.0.get(event as usize).map_or(&[], Vec::as_slice)
    }

    /// Returns whether a hook processes replies.
    pub(crate) fn see_replies(&self) -> bool {
        let of = |event| !self.at(event).is_empty();
        of(HookEvent::AfterToolExecute) || of(HookEvent::Persist)
    }
}

/// The effects of hooks on a call.
#[derive(Debug, Default)]
pub(crate) struct Notes(Vec<(String, HookEvent, String)>);

impl Notes {
    pub(crate) fn add(&mut self, hook: &str, event: HookEvent, did: impl Into<String>) {
        self.0.push((hook.to_owned(), event, did.into()));
    }

    /// Adds the notes to the metadata of a reply.
    pub(crate) fn tell(self, meta: &mut sinew_tool::Meta) {
        for (hook, event, did) in self.0 {
            meta.hook_did(&hook, event, &did);
        }
    }
}

/// Builds the hook payload of a call.
pub(crate) fn call_of<'a>(
    runtime: &'a Runtime,
    request: &'a Request,
    (dialect, operation): (&'a str, &'a str),
    arguments: &'a Arguments,
    paths: NamedPaths<'a>,
) -> ToolCall<'a> {
    let root = || runtime.guard.roots().next().map(std::path::Path::to_string_lossy);
    let cwd = match &request.cwd {
        // A relative directory starts at the first root, as paths do.
        Some(cwd) if cwd.is_absolute() => cwd.to_string_lossy(),
        Some(cwd) => {
            let root = runtime.guard.roots().next().unwrap_or(std::path::Path::new("/"));
            Cow::Owned(root.join(cwd).to_string_lossy().into_owned())
        }
        None => root().unwrap_or_default(),
    };
    ToolCall {
        session: &request.session,
        agent: request.agent.as_deref(),
        turn: request.turn.as_deref(),
        call_id: &request.call_id,
        dialect,
        tool: &request.name,
        operation,
        cwd,
        arguments,
        paths,
    }
}

/// Returns the real paths in the current arguments of a call. `None` means unknown: invalid arguments, a
/// rejected path, or a tool that finds paths itself.
pub(crate) fn named_paths(
    listed: &Listed,
    settings: &Arc<FileSettings>,
    guard: &Arc<Guard>,
    request: &Request,
) -> Option<Vec<String>> {
    let args = listed.check(request.arguments.clone()).ok()?;
    let tool: Arc<dyn Tool> = Arc::clone(&listed.tool);
    let mut prepared = tool.prepare(args, settings).ok()?;
    if prepared.restores().is_some() || prepared.command().is_some() {
        return None;
    }
    let claims = prepared.claims();
    let cwd = request.cwd.as_deref();
    let contained = guard.contain(&claims, cwd, request.roots.as_deref()).ok()?;
    paths_of(contained.targets())
}

/// Returns the real paths of a call; `None` where it searches, runs a command or names no path.
pub(crate) fn paths_of(targets: &Targets) -> Option<Vec<String>> {
    let searches = |target: &FileTarget| {
        target.claim.access == Access::Search && target.state.kind() != Some(FileKind::File)
    };
    let files = &targets.files;
    if targets.command.is_some() || files.is_empty() || files.iter().any(searches) {
        return None;
    }
    Some(files.iter().map(|target| target.path.to_string_lossy().into_owned()).collect())
}

pub(crate) fn failed(hook: &dyn Hook, so: &str, error: ToolError) -> ToolError {
    let message = format!("the hook `{}` failed{so}: {}", hook.name(), error.message);
    let mut failed = ToolError::new(Kind::BlockedByHook, message);
    failed.hint.clone_from(&error.hint);
    failed.source(error)
}

pub(crate) fn blocked(hook: &dyn Hook, reason: &str) -> ToolError {
    ToolError::new(Kind::BlockedByHook, format!("blocked by the hook `{}`: {reason}", hook.name()))
}

/// Returns the ruling of a hook that asks whether a call may run.
pub(crate) fn asking(hook: &dyn Hook, reason: &str) -> Ruling {
    let why = format!("the hook `{}` asks: {reason}", hook.name());
    let origin = hook.origin().unwrap_or("a hook");
    Ruling { verdict: Verdict::Ask, rule: "hook", why: why.into(), origin: Some(origin.into()) }
}

impl Runtime {
    /// Returns the operation and the real paths of a request, as hooks get them; `None` means unknown.
    /// Nothing runs.
    pub fn named(&self, request: &Request) -> (Option<String>, Option<Vec<String>>) {
        let catalogs = self.catalogs();
        let wanted = |catalog: &&crate::Catalog| {
            request.dialect.as_deref().is_none_or(|dialect| dialect == catalog.name())
        };
        let Some(catalog) = catalogs.iter().find(wanted) else { return (None, None) };
        let Some(listed) = catalog.find(&request.name) else { return (None, None) };
        let operation = listed.tool.operation().to_owned();
        let paths = named_paths(listed, &catalog.settings, &catalog.guard, request);
        (Some(operation), paths)
    }

    /// Returns whether a hook handles an event, so that nothing is gathered for none.
    pub fn has_hooks_at(&self, event: HookEvent) -> bool {
        !self.hooks.at(event).is_empty()
    }

    /// Runs the hooks of an agent event by priority; returns the changed event, or the error that blocks it.
    /// The agent calls it, and agent programs do.
    pub async fn agent_event(&self, moment: AgentEvent) -> Result<AgentEvent, ToolError> {
        let went = self.run_event_hooks(moment, &mut Notes::default()).await;
        went.map_err(|stopped| stopped.error)
    }

    /// Runs the hooks of an event of an agent or a message, and notes what each did.
    pub(crate) async fn run_event_hooks(
        &self,
        moment: AgentEvent,
        notes: &mut Notes,
    ) -> Result<AgentEvent, Stopped> {
        let event = moment.event();
        let mut moment = moment;
        for hook in self.hooks.at(event) {
            let name = hook.name();
            let stopped = |error| Stopped { hook: Arc::clone(hook), error };
            // A panic counts as a failure of the hook.
            let decided = match caught(async { hook.agent(&moment).await }).await {
                Ok(decided) => decided,
                Err(error) if event.can_block() => {
                    notes.add(name, event, "failed and blocked");
                    return Err(stopped(failed(&**hook, "", error)));
                }
                Err(_) => continue,
            };
            match decided {
                Decision::Continue => {}
                Decision::Failed(why) => notes.add(name, event, format!("failed: {why}")),
                Decision::Modify(changes) | Decision::Replace(changes) => {
                    moment = moment.changed(changes).map_err(|why| {
                        stopped(failed(&**hook, "", ToolError::new(Kind::ExecutionFailed, why)))
                    })?;
                    notes.add(name, event, "changed it");
                }
                Decision::Block(reason) if event.can_block() => {
                    notes.add(name, event, "blocked");
                    return Err(stopped(blocked(&**hook, &reason)));
                }
                // An event that already happened cannot be blocked, and only calls ask.
                Decision::Block(_) | Decision::Ask(_) => {}
            }
        }
        Ok(moment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(&'static str, i32, HookEvent);

    impl Hook for Named {
        fn name(&self) -> &str {
            self.0
        }
        fn priority(&self) -> i32 {
            self.1
        }
        fn wants(&self, event: HookEvent) -> bool {
            event == self.2
        }
    }

    #[test]
    fn each_event_has_its_hooks_in_order() {
        let before = HookEvent::BeforeToolExecute;
        let all: [Arc<dyn Hook>; 4] = [
            Arc::new(Named("low", -1, before)),
            Arc::new(Named("first", 5, before)),
            Arc::new(Named("end", 9, HookEvent::SessionEnd)),
            Arc::new(Named("second", 5, before)),
        ];
        let hooks = Hooks::new(all.to_vec());
        let names = |event| hooks.at(event).iter().map(|hook| hook.name()).collect::<Vec<_>>();
        assert_eq!(names(before), ["first", "second", "low"]);
        assert_eq!(names(HookEvent::SessionEnd), ["end"]);
        assert!(names(HookEvent::AgentEnd).is_empty() && !hooks.see_replies());
        assert!(Hooks::default().at(before).is_empty());
    }
}
