//! Undo: takes the last changes of the caller's session back, or the last undos.
//!
//! The guard chooses the checkpoint when it contains the call; the rest is CheckpointRestore. `sinew undo` is the same for users.

use serde::Deserialize;
use sinew_tool::{
    Context, Cost, Effects, Facts, Operation, Param, ParamKind, Preset, Preview, Reply, Restore,
    RestoreChoice, Row, Shaping, Targets, ToolError,
};

use crate::checkpoint_restore::{
    self, CheckpointRestore, CheckpointRestoreArgs, CheckpointRestoreOut, OF_MEMORY, OPERATIONS,
};

/// Takes changes back.
#[derive(Debug)]
pub struct Undo;

/// Arguments of Undo.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UndoArgs {
    /// How many changes or undos are taken back.
    pub n: usize,
    /// Whether undos are taken back instead of changes.
    #[serde(default)]
    pub redo: bool,
    /// Whether this is a dry run.
    #[serde(default)]
    pub dry_run: bool,
    /// Whether it overwrites later changes of other writers.
    #[serde(default)]
    pub force: bool,
    /// Whether refused paths are left as they are.
    #[serde(default)]
    pub partial: bool,
}

impl UndoArgs {
    /// Returns the restore of the checkpoint that the guard chose.
    fn restore(&self) -> CheckpointRestoreArgs {
        CheckpointRestoreArgs {
            id: String::new(),
            only: false,
            turn: false,
            path: None,
            force: self.force,
            partial: self.partial,
            dry_run: self.dry_run,
            asks_person: false,
        }
    }
}

/// The native row.
pub const NATIVE: Row<Undo> = Row {
    name: "Undo",
    description: "Undoes the last changes of this session, also those of commands. Refused where others \
                  changed a file since, unless forced.",
    params: &[
        Param::optional("n", "n", ParamKind::Integer { min: 1, cap: None }, "How many changes")
            .or(Preset::Int(1)),
        Param::optional("redo", "redo", ParamKind::Boolean, "Take back undos"),
        Param::optional("dry_run", "dry_run", ParamKind::Boolean, ""),
        Param::optional("force", "force", ParamKind::Boolean, ""),
        Param::optional("partial", "partial", ParamKind::Boolean, "Skip files that others changed"),
    ],
    fail: |error, _| checkpoint_restore::failure(error, with_other_tool),
    ..Row::shaped(shape)
};

impl Operation for Undo {
    const NAME: &'static str = "Undo";
    const FACTS: Facts = Facts::CHANGES;
    type Args = UndoArgs;
    type Out = CheckpointRestoreOut;

    fn effects(args: &UndoArgs) -> Effects {
        if args.dry_run { Effects::OBSERVE } else { Self::FACTS.effects }
    }

    fn restores(args: &UndoArgs) -> Option<Restore> {
        Some(Restore {
            argument: "n",
            choice: RestoreChoice::Last { n: args.n, redo: args.redo },
            only: false,
            turn: false,
            path: None,
            force: args.force,
            looks: args.dry_run,
            partial: args.partial,
            operations: OPERATIONS,
            of_memory: OF_MEMORY,
        })
    }

    fn cost(_args: &UndoArgs, _targets: &Targets) -> Cost {
        Cost::Long
    }

    fn preview(args: &UndoArgs, cx: &Context) -> Preview {
        CheckpointRestore::preview(&args.restore(), cx)
    }

    async fn run(args: &UndoArgs, cx: &Context) -> Result<CheckpointRestoreOut, ToolError> {
        CheckpointRestore::run(&args.restore(), cx).await
    }
}

fn shape(args: &UndoArgs, out: CheckpointRestoreOut, shaping: &Shaping<'_>) -> Reply {
    checkpoint_restore::shaped(args.dry_run, out, shaping, |_| {
        String::from(match args.redo {
            false => "Undo with `redo` takes this back",
            true => "Undo takes this back",
        })
    })
}

/// Returns a hint that names the tool with a `path`.
fn with_other_tool(hint: &str) -> String {
    hint.replace(
        "one by one with `path`",
        "one by one with CheckpointRestore, or `sinew checkpoint restore ID --path PATH`",
    )
}
