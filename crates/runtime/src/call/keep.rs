//! keep: queues a change at its paths and commits its intent. Cancellation in the queue ends the call.

use std::path::PathBuf;

use sinew_tool::{Context, Cost, Kind, Prepared, Ruling, ToolError};

use super::clear::Clear;
use super::open::Open;
use crate::path_queue::HeldPaths;
use crate::runtime::{CallOptions, Runtime};

pub(super) struct Kept {
    pub(super) prepared: Box<dyn Prepared>,
    pub(super) cost: Cost,
    pub(super) context: Context,
    pub(super) ruling: Ruling,
    /// Held until the call ends: the next change of a path then sees this one.
    pub(super) turns: Option<HeldPaths>,
}

/// Queues changes to one path, and records the intent of this one.
pub(super) async fn keep(
    runtime: &Runtime,
    clear: Clear,
    open: &mut Open,
    options: &CallOptions,
) -> Result<Kept, ToolError> {
    let Clear { decoded, effects, context, temporaries, ruling } = clear;
    let cost = decoded.prepared.cost(&context.targets);
    let mut turns = None;
    if !effects.only_observes() {
        let changed: Vec<PathBuf> = context
            .targets
            .files
            .iter()
            .filter(|target| target.claim.access.changes())
            .map(|target| target.path.clone())
            .collect();
        let kept = async {
            let turns = runtime.order.turns(changed.iter().map(PathBuf::as_path)).await;
            open.entry.intend(&changed, &temporaries).await?;
            Ok::<_, ToolError>(turns)
        };
        // `biased`: work that is ready precedes cancellation.
        turns = tokio::select! {
            biased;
            turns = kept => Some(turns?),
            () = options.cancel.cancelled() => {
                return Err(ToolError::new(Kind::Cancelled, "the call was cancelled"));
            }
        };
    }
    Ok(Kept { prepared: decoded.prepared, cost, context, ruling, turns })
}
