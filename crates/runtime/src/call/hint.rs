//! hint: tells a session once that a tool does the same as its command.

use sinew_tool::sync::lock;
use sinew_tool::{Reply, Request, Targets};

use crate::runtime::Runtime;

/// The most remembered hints; above it no hint is given.
const MAX_HINTS: usize = 10_000;

/// Adds a hint with the served tool that does the same as a command.
pub(super) fn hint(runtime: &Runtime, request: &Request, targets: &Targets, reply: &mut Reply) {
    let repeats = targets.command.as_ref().and_then(|command| command.analysis.repeats);
    let Some(operation) = repeats.filter(|_| reply.ok) else { return };
    let catalogs = runtime.catalogs();
    let Some(catalog) = super::find::catalog(&catalogs, request) else { return };
    let Some(name) = catalog.does(operation) else { return };
    let mut told = lock(&runtime.hinted);
    if told.len() < MAX_HINTS && told.insert((request.session.clone(), operation)) {
        reply.note(format!("[`{name}` does this too, without a shell]"));
    }
}
