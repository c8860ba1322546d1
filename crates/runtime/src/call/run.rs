//! run: executes the call with its deadline, cancellation and panic handling.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use sinew_tool::{Cancel, Context, Cost, Kind, Prepared, Ran, Ruling, Targets, ToolError};

use super::keep::Kept;
use super::midway::MidwayAsker;
use super::open::Open;
use super::tell;
use crate::caught::panicked;
use crate::runtime::{CallOptions, Runtime};

pub(super) struct Done {
    pub(super) ran: Box<dyn Ran>,
    pub(super) ruling: Ruling,
    pub(super) notes: Vec<String>,
    pub(super) context: Context,
    pub(super) targets: Arc<Targets>,
}

/// Runs a call: `Cheap` in place, `Long` on a blocking thread, `Waits` in this task.
pub(super) async fn run(
    runtime: &Runtime,
    kept: Kept,
    open: &mut Open,
    options: &CallOptions,
) -> Result<Done, ToolError> {
    let Kept { prepared, cost, context, ruling, turns, session_turn, midway } = kept;
    let notes = prepared.notes().to_vec();
    let result = match cost {
        Cost::Cheap => prepared.run(context.clone()).await,
        Cost::Long => Box::pin(on_thread(runtime, prepared, context.clone(), options)).await,
        Cost::Waits => Box::pin(waiting(prepared, &context, midway.as_deref(), options)).await,
    };
    midway.inspect(|asker| asker.end(&mut open.entry));
    open.entry.changed(context.world.files.changes());
    let used = context.world.processes.used();
    open.checkpoint = context.world.files.checkpoint().or_else(|| used.checkpoint.clone());
    open.entry.used(used);
    open.runs_later = tell::runs_later(&open.entry, &context.targets);
    drop((turns, session_turn));
    let targets = Arc::clone(&context.targets);
    result.map(|ran| Done { ran, ruling, notes, context, targets })
}

/// Runs on a blocking thread; such work checks the cancel flag itself.
async fn on_thread(
    runtime: &Runtime,
    prepared: Box<dyn Prepared>,
    context: Context,
    options: &CallOptions,
) -> Result<Box<dyn Ran>, ToolError> {
    let _turn = tokio::select! {
        turn = runtime.long.acquire() => turn,
        () = options.cancel.cancelled() => {
            return Err(ToolError::new(Kind::Cancelled, "the call was cancelled"));
        }
    };
    let handle = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || handle.block_on(prepared.run(context)))
        .await
        .unwrap_or_else(|error| Err(lost(error)))
}

fn lost(error: tokio::task::JoinError) -> ToolError {
    match error.try_into_panic() {
        Ok(panic) => panicked(&*(panic as Box<dyn Any + Send>)),
        Err(error) => {
            ToolError::new(Kind::Cancelled, "the process is ending").source(error.to_string())
        }
    }
}

/// Waits for a future; cancellation or the deadline ends it.
async fn waiting(
    prepared: Box<dyn Prepared>,
    context: &Context,
    midway: Option<&MidwayAsker>,
    options: &CallOptions,
) -> Result<Box<dyn Ran>, ToolError> {
    let late = async {
        match (context.deadline, midway) {
            (Some(at), Some(asker)) => asker.until(at).await,
            (at, _) => until(at).await,
        }
    };
    before(prepared.run(context.clone()), &options.cancel, late).await?
}

/// Waits for a future until cancellation or the deadline; a ready result wins.
pub(super) async fn in_time<T>(
    future: impl Future<Output = T>,
    cancel: &Cancel,
    deadline: Option<Instant>,
) -> Result<T, ToolError> {
    before(future, cancel, until(deadline)).await
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// Waits for a future until cancellation or until it is late; a ready result wins.
async fn before<T>(
    future: impl Future<Output = T>,
    cancel: &Cancel,
    late: impl Future<Output = ()>,
) -> Result<T, ToolError> {
    tokio::select! {
        biased;
        done = future => Ok(done),
        () = cancel.cancelled() => {
            Err(ToolError::new(Kind::Cancelled, "the call was cancelled"))
        }
        () = late => Err(ToolError::new(Kind::Timeout, "the time for this call ran out")),
    }
}
