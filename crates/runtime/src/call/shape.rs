//! shape: an outcome gets the words of its dialect.

use sinew_tool::{Block, Reply, Ruled, Shaping};

use super::run::Done;

/// Shapes an outcome, and adds what decoding wanted the caller to know.
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
        let text = notes.join("\n");
        reply.content.push(Block::Text { text: format!("[{text}]") });
    }
    reply
}
