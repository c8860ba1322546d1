//! shape: gives an outcome the reply shape of its dialect.

use sinew_tool::{Reply, Ruled, Shaping};

use super::run::Done;

/// Shapes an outcome and adds the notes of decoding.
pub(super) fn shape(done: Done) -> Reply {
    let Done { ran, ruling, notes, context, targets } = done;
    let checkpoint = context.world.files.checkpoint();
    let mut reply = ran.shape(&Shaping {
        targets: &targets,
        cwd: &context.cwd,
        settings: &context.settings,
        checkpoint: checkpoint.as_deref(),
    });
    reply.meta.ruling = Some(Ruled { verdict: ruling.verdict, rule: ruling.rule });
    if !notes.is_empty() {
        reply.note(format!("[{}]", notes.join("\n")));
    }
    reply
}
