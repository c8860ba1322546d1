//! keep: a change waits for its turn at its paths, and its intent is committed. A call that is taken
//! back while it waits ends here.

use std::path::PathBuf;

use sinew_tool::{Context, Cost, Kind, Prepared, Ruling, ToolError};

use super::clear::Clear;
use super::open::Open;
use crate::path_queue::HeldPaths;
use crate::runtime::{CallOptions, Runtime};

/// A call that may start.
pub(super) struct Kept {
    pub(super) prepared: Box<dyn Prepared>,
    pub(super) cost: Cost,
    pub(super) context: Context,
    pub(super) ruling: Ruling,
    /// Held until the call ends, so that the next change of the same path sees this one.
    pub(super) turns: Option<HeldPaths>,
}

/// Orders changes to one path, and records what is about to happen.
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
        // Whatever need not wait is done before the flag is looked at.
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
