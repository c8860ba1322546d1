//! contain: every path is resolved beneath a root, on open handles.

use sinew_guard::Contained;
use sinew_tool::{Effects, Kind, ToolError};

use super::decode::Decoded;
use super::open::Open;

/// A call whose paths are held.
pub(super) struct Held {
    pub(super) decoded: Decoded,
    pub(super) effects: Effects,
    pub(super) contained: Contained,
}

/// Resolves the claims of a call.
pub(super) fn contain(decoded: Decoded, open: &mut Open) -> Result<Held, ToolError> {
    let request = &open.request;
    let effects = decoded.prepared.effects();
    open.entry.effects(effects);
    let contained = decoded
        .guard
        .contain(&decoded.claims, request.cwd.as_deref(), request.roots.as_deref())
        .inspect_err(|error| {
            if error.kind == Kind::PathDenied {
                open.entry.refused();
            }
        })?;
    open.entry.resolved(contained.targets().files.first().map(|target| target.path.clone()));
    Ok(Held { decoded, effects, contained })
}
