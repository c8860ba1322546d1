//! The pipeline of one call: its stages in order, each in a file of its name.
//!
//! `open → find → before → decode → contain → judge → clear → keep → run → shape → hint → tell → after →
//! bound → answer`. A refusal is shaped at once, then passed to hooks, bounded and recorded like any reply.

mod after;
mod answer;
mod approval_hooks;
mod before;
mod bound;
mod clear;
mod contain;
mod decode;
mod find;
mod hint;
mod judge;
mod keep;
mod midway;
mod open;
mod run;
mod running_call;
mod shape;
mod standing;
mod tell;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use sinew_guard::{Guard, Rules};
use sinew_tool::{Conventions, HookEvent, Kind, Reply, Request, Ruling, Targets, Tool, ToolError};
use tracing::Instrument as _;

use crate::catalog::denies;
use crate::caught::caught;
use crate::hooks::{Notes, session};
use crate::narrowing::Narrowings;
use crate::runtime::{CallOptions, Runtime, anchored};
use after::Seen;
use open::Open;

/// How long a call of an unknown tool waits for pending ones.
const SETTLES: Duration = Duration::from_secs(30);

impl Runtime {
    /// Executes one call; the future owns its data and can move between threads.
    ///
    /// Poll it inside a tokio runtime. A first poll in place completes cheap calls.
    pub fn call(
        self: &Arc<Self>,
        request: Request,
        options: CallOptions,
    ) -> impl Future<Output = Reply> + Send + use<> {
        // The client has the previous reply, so deferred work may run.
        self.rest();
        call(Arc::clone(self), request, options)
    }

    /// Returns the targets of a call and its ruling by the changed rules of its dialect.
    /// Nothing runs or is recorded; hooks and grants are left out.
    pub fn judge_call(
        &self,
        request: Request,
        change: impl FnOnce(&mut Rules),
    ) -> Result<(Arc<Targets>, Ruling), ToolError> {
        judged(self, request, |guard, rules| {
            let mut rules = rules.clone();
            change(&mut rules);
            anchored(guard, rules)
        })
    }
}

async fn call(runtime: Arc<Runtime>, request: Request, options: CallOptions) -> Reply {
    let raised = RaisedOnDrop(options.cancel.clone());
    let mut open = open::open(&runtime, request);
    let span = open.entry.span();
    let (reply, error) = stages(&runtime, &mut open, &options).instrument(span).await;
    raised.forget();
    answer::answer(open, reply, error)
}

/// Runs the stages and builds the reply, wherever they end. Beside it is the error of the call itself.
///
/// Every call is moved several times before it starts, with room for all that it may hold: what most calls
/// never do is boxed here and in [`way`].
async fn stages(
    runtime: &Arc<Runtime>,
    open: &mut Open,
    options: &CallOptions,
) -> (Reply, Option<Kind>) {
    let mut told = RefusalShape::default();
    let went = caught(way(runtime, open, &mut told, options)).await;
    let catalogs = runtime.catalogs();
    let catalog = find::catalog(&catalogs, &open.request);
    let conventions = catalog.map_or(Conventions::DEFAULT, |catalog| catalog.conventions);
    let mut reply = match went {
        Ok(reply) => reply,
        Err(error) => {
            open.entry.failed(error.kind);
            match &told.tool {
                Some(tool) => tool.fail(&error, told.path.as_deref()),
                None => (conventions.fail)(&error),
            }
        }
    };
    // A failed call may have changed files before its error.
    reply.meta.checkpoint_id = open.checkpoint.take();
    tell::later(open, &mut reply);
    // The reply to a cancelled call reaches no client.
    if !options.cancel.is_cancelled() {
        tell::endings(runtime, &open.request, &mut reply);
        tell::news(runtime, &mut reply);
    }
    std::mem::take(&mut told.notes).tell(&mut reply.meta);
    let error = answer::error_of(&reply);
    let store = catalog.and_then(|catalog| catalog.store.as_ref());
    if runtime.hooks.see_replies() {
        let after = after::after(runtime, open, store, &told.seen, reply, &options.cancel);
        reply = Box::pin(after).await;
    }
    let limits = bound::Limits { conventions: &conventions, store, path: told.path.as_deref() };
    (bound::bound(&open.request, told.tool.as_deref(), &limits, reply), error)
}

/// Judges a call by changed rules and stops there.
fn judged(
    runtime: &Runtime,
    mut request: Request,
    rules: impl FnOnce(&Guard, &Rules) -> Result<Rules, ToolError>,
) -> Result<(Arc<Targets>, Ruling), ToolError> {
    let catalogs = runtime.catalogs();
    let dialect = find::catalog(&catalogs, &request).map(|catalog| catalog.name);
    let found = find::find(&catalogs, &mut request, &Narrowings::default())?;
    let decoded = decode::decode(found, &mut request)?;
    let rules = rules(&decoded.guard, &decoded.rules)?;
    let dialect = dialect.unwrap_or_default().into();
    let contained = contain::contained(&decoded, &rules, &request, dialect)?;
    let by = (&rules, denies(&rules, &*decoded.tool));
    let judged = judge::ruled(&decoded, decoded.prepared.effects(), contained, by, &request);
    let judged = runtime.undone_unasked(judged);
    Ok((Arc::clone(judged.contained().targets()), judged.ruling().clone()))
}

/// The data that shapes a refusal; stages fill it in.
#[derive(Default)]
struct RefusalShape {
    tool: Option<Arc<dyn Tool>>,
    path: Option<String>,
    /// The effects of hooks so far.
    notes: Notes,
    /// The data for hooks that process the reply.
    seen: Seen,
}

async fn way(
    runtime: &Arc<Runtime>,
    open: &mut Open,
    told: &mut RefusalShape,
    options: &CallOptions,
) -> Result<Reply, ToolError> {
    let called = open.request.name.clone();
    // Asked before the name is looked up: they may come in between.
    let are_coming = runtime.has_pending_tools();
    let Request { session, agent, .. } = &open.request;
    let narrowings = runtime.narrowings.of(session, agent.as_deref(), options.loads_skill);
    let narrowings = match narrowings {
        Ok(narrowings) => narrowings,
        Err(error) => {
            open.entry.admit()?;
            return Err(error);
        }
    };
    let mut found = find::find(&runtime.catalogs(), &mut open.request, &narrowings);
    // A tool that is looked for may be among those that come.
    let looks = match &found {
        Ok(found) => found.listed.tool.for_deferred(),
        Err(error) => error.kind == Kind::NotFound,
    };
    if looks && are_coming {
        let settled = runtime.tools_settled(SETTLES);
        Box::pin(run::in_time(settled, &options.cancel, open.request.deadline)).await?;
        found = find::find(&runtime.catalogs(), &mut open.request, &narrowings);
    }
    if open.request.name != called {
        open.entry.forwards(&open.request);
    }
    // Metrics count a call that is not admitted for its tool too.
    if let Ok(found) = &found {
        open.entry.found(&*found.listed.tool);
    }
    open.entry.admit()?;
    if runtime.hooks.follow_sessions() {
        let dialect = open.entry.dialect();
        let beginning = session::begin(runtime, &open.request.session, &dialect);
        let begun = run::in_time(beginning, &options.cancel, open.request.deadline);
        Box::pin(begun).await?;
    }
    let found = found?;
    told.tool = Some(Arc::clone(&found.listed.tool));
    let has_hooks = [HookEvent::BeforeToolExecute, HookEvent::MessageSending]
        .into_iter()
        .any(|event| !runtime.hooks.at(event).is_empty());
    if found.joined_paths || has_hooks {
        let before = before::before(runtime, &found, open, &mut told.notes, &options.cancel);
        Box::pin(before).await?;
    }
    let see_replies = runtime.hooks.see_replies();
    if see_replies {
        told.seen.operation = Some(found.listed.tool.operation().to_owned());
        told.seen.arguments = Some(open.request.arguments.clone());
    }
    let decoded = decode::decode(found, &mut open.request)?;
    told.path = decoded.claims.first().and_then(|claim| claim.path.clone());
    told.path.iter().for_each(|path| open.entry.named(path));
    let contained = contain::contain(decoded, open)?;
    if see_replies {
        told.seen.paths = contained.paths();
    }
    let judged = judge::judge(runtime, contained, open);
    let cleared = clear::clear(runtime, judged, open, options).await?;
    let kept = match cleared.effects.only_observes() {
        true => keep::observing(cleared),
        false => Box::pin(keep::keep(runtime, cleared, open, options)).await?,
    };
    told.seen.has_run = true;
    let ran = run::run(runtime, kept, open, options).await?;
    let targets = Arc::clone(&ran.targets);
    let mut reply = shape::shape(ran);
    hint::hint(runtime, &open.request, &targets, &mut reply);
    Ok(reply)
}

/// Cancels a call whose future is dropped, so that work on other threads ends.
struct RaisedOnDrop(sinew_tool::Cancel);

impl RaisedOnDrop {
    fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for RaisedOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
