//! CheckpointDiff: shows what a call changed, or how the current state differs from the one before it.
//!
//! It is a command for users, not a tool of a dialect. The state before a call is kept. The state after it
//! is compared where a later checkpoint keeps it or the path still has it.

use serde::Deserialize;
use serde_json::json;
use sinew_tool::{
    Bound, Context, Cost, Facts, NoCheckpoints, Operation, Param, ParamKind, PathChange, Preset,
    Reply, Restore, RestoreChoice, RestorePlan, Row, Shaping, Targets, ToolError,
};

use crate::checkpoint_restore::{kept, now, why};
use crate::states::{self, Side};

/// Compares what a call changed.
#[derive(Debug)]
pub struct CheckpointDiff;

/// Arguments of CheckpointDiff.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointDiffArgs {
    /// The checkpoint.
    pub id: String,
    /// Whether the current state is compared instead of the state after the call.
    #[serde(default)]
    pub now: bool,
}

/// Outcome of CheckpointDiff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointDiffOut {
    /// The differences as text.
    pub text: String,
    /// How many paths differ.
    pub n_paths: usize,
}

/// The row of the command line.
pub const ROW: Row<CheckpointDiff> = Row {
    name: "CheckpointDiff",
    description: "Shows what a call changed.",
    params: &[
        Param::required("id", "id", ParamKind::String, "Such as c12"),
        Param::optional("now", "now", ParamKind::Boolean, "Compare with the files now")
            .or(Preset::Bool(false)),
    ],
    bound: Bound::HARD,
    core: false,
    ..Row::shaped(shape)
};

impl Operation for CheckpointDiff {
    const NAME: &'static str = "CheckpointDiff";
    const FACTS: Facts = Facts::OBSERVES;
    type Args = CheckpointDiffArgs;
    type Out = CheckpointDiffOut;

    fn restores(args: &CheckpointDiffArgs) -> Option<Restore> {
        Some(Restore {
            argument: "id",
            choice: RestoreChoice::Id(args.id.clone()),
            only: true,
            turn: false,
            path: None,
            force: false,
            looks: true,
            partial: false,
            operations: &[],
            of_memory: &[],
        })
    }

    fn cost(_args: &CheckpointDiffArgs, _targets: &Targets) -> Cost {
        Cost::Long
    }

    async fn run(args: &CheckpointDiffArgs, cx: &Context) -> Result<CheckpointDiffOut, ToolError> {
        let plan = cx.world.checkpoints.plan().ok_or_else(NoCheckpoints::error)?;
        let mut out = CheckpointDiffOut { text: String::new(), n_paths: 0 };
        for change in &plan.changes {
            let text = compared(args, change, plan, cx);
            out.n_paths += usize::from(!text.is_empty());
            out.text.push_str(&text);
        }
        Ok(out)
    }
}

/// Returns the difference at one path.
fn compared(
    args: &CheckpointDiffArgs,
    change: &PathChange,
    plan: &RestorePlan,
    cx: &Context,
) -> String {
    let shown = cx.shown(&change.path);
    let step = plan.steps.iter().find(|step| step.path == change.path);
    let before = match kept(&change.path, &change.before, cx) {
        Ok(content) => Side { was: &change.before, content },
        Err(error) => {
            let why = why(&error);
            return format!("{shown}: what was there before cannot be restored: {why}\n");
        }
    };
    let after = match (args.now, &change.after, step) {
        (true, _, Some(step)) => Side { was: &step.now, content: now(step, cx) },
        (_, Some(after), step) => {
            // A path unchanged since the call still has that content.
            let still = step.filter(|step| step.now == *after).and_then(|step| now(step, cx));
            // The state after a call is kept only where a later call changed it.
            let left = still.or_else(|| kept(&change.path, after, cx).ok().flatten());
            Side { was: after, content: left }
        }
        _ => return format!("{shown}: the state after the call is not known\n"),
    };
    let mut text = states::call_difference(&shown, &before, &after, cx.deadline);
    if !args.now && !change.settled {
        text.push_str(&format!(
            "{shown}: unfinished, so the change may not have happened; `--now` shows what is there\n"
        ));
    }
    text
}

fn shape(_args: &CheckpointDiffArgs, out: CheckpointDiffOut, _shaping: &Shaping<'_>) -> Reply {
    let text = if out.text.is_empty() { "no difference" } else { out.text.trim_end() };
    let mut reply = Reply::text(text);
    reply.structured = Some(json!({ "n_paths": out.n_paths, "diff": out.text }));
    reply
}
