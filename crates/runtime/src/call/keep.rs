//! keep: queues a change at its paths and commits its intent. Cancellation in the queue ends the call.

use std::path::PathBuf;
use std::sync::Arc;

use sinew_tool::{Context, Cost, Kind, Prepared, Ruling, ToolError};

use super::clear::Clear;
use super::midway::MidwayAsker;
use super::open::Open;
use crate::path_queue::HeldPaths;
use crate::runtime::{CallOptions, Runtime};
use crate::session_turns::HeldTurn;

pub(super) struct Kept {
    pub(super) prepared: Box<dyn Prepared>,
    pub(super) cost: Cost,
    pub(super) context: Context,
    pub(super) ruling: Ruling,
    /// Held until the call ends: the next change of a path then sees this one.
    pub(super) turns: Option<HeldPaths>,
    /// Held until the call ends, where the dialect takes turns.
    pub(super) session_turn: Option<HeldTurn>,
    pub(super) midway: Option<Arc<MidwayAsker>>,
}

/// Continues a call that changes nothing.
pub(super) fn observing(clear: Clear) -> Kept {
    let Clear { decoded, context, ruling, session_turn, midway, .. } = clear;
    let cost = decoded.prepared.cost(&context.targets);
    let prepared = decoded.prepared;
    Kept { prepared, cost, context, ruling, turns: None, session_turn, midway }
}

/// Queues a call with the changes to its paths, and records its intent.
pub(super) async fn keep(
    runtime: &Runtime,
    mut clear: Clear,
    open: &mut Open,
    options: &CallOptions,
) -> Result<Kept, ToolError> {
    let temporaries = std::mem::take(&mut clear.temporaries);
    let mut kept = observing(clear);
    let targets = kept.context.targets.files.iter();
    let changed: Vec<PathBuf> = targets
        .filter(|target| target.claim.access.changes())
        .map(|target| target.path.clone())
        .collect();
    let queued = async {
        let turns = runtime.order.turns(changed.iter().map(PathBuf::as_path)).await;
        open.entry.intend(&changed, &temporaries).await?;
        Ok::<_, ToolError>(turns)
    };
    // `biased`: work that is ready precedes cancellation.
    kept.turns = tokio::select! {
        biased;
        turns = queued => Some(turns?),
        () = options.cancel.cancelled() => {
            return Err(ToolError::new(Kind::Cancelled, "the call was cancelled"));
        }
    };
    Ok(kept)
}
