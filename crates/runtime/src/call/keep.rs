//! keep: a change waits for its turn at its paths, and its intent is committed.

use std::path::PathBuf;

use sinew_tool::{Context, Cost, Prepared, Ruling, ToolError};

use super::clear::Clear;
use super::open::Open;
use crate::order::Turns;
use crate::runtime::Runtime;

/// A call that may start.
pub(super) struct Kept {
    pub(super) prepared: Box<dyn Prepared>,
    pub(super) cost: Cost,
    pub(super) context: Context,
    pub(super) ruling: Ruling,
    /// Held until the call ends, so that the next change of the same path sees this one.
    pub(super) turns: Option<Turns>,
}

/// Orders changes to one path, and records what is about to happen.
pub(super) async fn keep(
    runtime: &Runtime,
    clear: Clear,
    open: &mut Open,
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
        turns = Some(runtime.order.turns(changed.iter().map(PathBuf::as_path)).await);
        open.entry.intend(effects, &changed, &temporaries).await?;
    }
    Ok(Kept { prepared: decoded.prepared, cost, context, ruling, turns })
}
