//! keep: queues a call at its session and its paths, and commits the intent of a change. Cancellation and the
//! deadline end a call in the queue of its session.

use std::path::PathBuf;

use sinew_tool::{Context, Cost, Kind, Prepared, Ruling, ToolError};

use super::clear::Clear;
use super::open::Open;
use super::run::in_time;
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
}

/// Continues a call that waits for nothing and changes nothing.
pub(super) fn observing(clear: Clear) -> Kept {
    let Clear { decoded, context, ruling, .. } = clear;
    let cost = decoded.prepared.cost(&context.targets);
    let prepared = decoded.prepared;
    Kept { prepared, cost, context, ruling, turns: None, session_turn: None }
}

/// Queues a call that takes turns and changes to one path, and records the intent of a change.
pub(super) async fn keep(
    runtime: &Runtime,
    mut clear: Clear,
    open: &mut Open,
    options: &CallOptions,
) -> Result<Kept, ToolError> {
    let temporaries = std::mem::take(&mut clear.temporaries);
    let (facts, effects) = (clear.decoded.facts, clear.effects);
    let takes_turns = clear.decoded.takes_turns;
    let mut kept = observing(clear);
    if takes_turns {
        let session = open.request.session.as_str();
        let turn = async {
            match facts.parallel && facts.effects.only_observes() {
                true => runtime.session_turns.shared(session).await,
                false => runtime.session_turns.alone(session).await,
            }
        };
        kept.session_turn = Some(in_time(turn, &options.cancel, kept.context.deadline).await?);
    }
    if effects.only_observes() {
        return Ok(kept);
    }
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
