//! KillShell: kills a background command and every process that it started.

use serde::Deserialize;
use sinew_tool::{
    Background, Bound, Context, Cost, Effects, Facts, Operation, Param, ParamKind, Reply, Row,
    Shaping, Targets, ToolError,
};

use crate::bash::end;
use crate::waits;

/// Kills a background command.
#[derive(Debug)]
pub struct KillShell;

/// Arguments of KillShell.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KillShellArgs {
    /// The ID of the background command.
    pub id: String,
}

/// The native row.
pub const NATIVE: Row<KillShell> = Row {
    name: "KillShell",
    description: "Ends a background command or terminal and all it started.",
    params: &[Param::required("shell_id", "id", ParamKind::String, "")],
    bound: Bound::HARD,
    ..Row::shaped(shape)
};

impl Operation for KillShell {
    const NAME: &'static str = "KillShell";
    const FACTS: Facts =
        Facts { effects: Effects::SESSION, idempotent: true, destructive: true, parallel: true };
    type Args = KillShellArgs;
    type Out = Background;

    fn cost(_args: &KillShellArgs, _targets: &Targets) -> Cost {
        Cost::Waits
    }

    async fn run(args: &KillShellArgs, cx: &Context) -> Result<Background, ToolError> {
        cx.world.processes.end(&args.id).await
    }
}

fn shape(_args: &KillShellArgs, one: Background, _shaping: &Shaping<'_>) -> Reply {
    let mut text = end::refusal_lines(&one.findings);
    text.push_str(&waits::line(&one));
    if 0 < one.n_unread {
        text.push_str(&format!("\n[{} bytes of its output were not read]", one.n_unread));
    }
    let mut reply = Reply::text(text);
    reply.meta.output_path = one.stored;
    reply.meta.more.insert("background_id", one.id);
    reply
}
