//! `sinew checkpoint`: lists, compares and restores checkpoints, the snapshots of files before changes.
//!
//! Each command is a tool call, so roots, rules, the ledger and approvals apply.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Value, json};
use sinew_runtime::Approvals;
use sinew_tool::{Approver, Arguments};

use super::call;
use crate::by_caller::ByCaller;
use crate::cli::CheckpointCommand;
use crate::screen;
use crate::terminal::Terminal;
use crate::wiring::{self, Loaded};

/// Lists, compares or restores.
pub(crate) fn run(mut loaded: Loaded, command: &CheckpointCommand) -> anyhow::Result<ExitCode> {
    super::warn(&loaded);
    super::warn_of_other_ledger(&loaded);
    // The `serve` list is for models only.
    loaded.settings.serve = None;
    loaded.settings.dialect = sinew_dialects::NATIVE;
    let (tool, arguments, as_json) = named(&loaded, command);
    let mut terminal = None;
    if let CheckpointCommand::Restore { yes, dry_run, .. } = command {
        let is_sure = *yes || *dry_run || loaded.settings.approvals == Approvals::Allow;
        let can_ask = io::stdin().is_terminal() && io::stderr().is_terminal();
        if can_ask && !is_sure {
            terminal = Some(Terminal::default());
        } else if !is_sure {
            screen::say("no terminal to ask at; `--yes` restores unasked");
            return Ok(ExitCode::from(3));
        }
    }
    loaded.settings.approvals = Approvals::Ask;
    let approver = Arc::new(ByCaller { terminal }) as Arc<dyn Approver>;
    let wired = wiring::wire(&loaded, "checkpoint", &["all"], Some(approver))?;
    wired.runtime.add_tool(&sinew_ops::checkpoint_diff::ROW.tool())?;
    // It replaces the native tool of the same name.
    wired.runtime.add_tool(&sinew_ops::checkpoint_restore::COMMAND.tool())?;
    call::one(&wired, tool, arguments, as_json)
}

/// Returns the tool that a command calls, its arguments, and whether the result is printed as JSON.
fn named(loaded: &Loaded, command: &CheckpointCommand) -> (&'static str, Arguments, bool) {
    let (tool, written, as_json) = match command {
        CheckpointCommand::List { turn, path, limit, json } => {
            let session = loaded.settings.session.as_ref();
            let arguments = json!({
                "session": session, "turn": turn, "path": path, "limit": limit,
            });
            ("CheckpointList", arguments, *json)
        }
        CheckpointCommand::Diff { id, now, json } => {
            ("CheckpointDiff", json!({ "id": id, "now": now }), *json)
        }
        CheckpointCommand::Restore {
            id, only, turn, path, force, partial, dry_run, json, ..
        } => {
            let arguments = json!({
                "id": id, "only": only, "turn": turn, "path": path, "force": force,
                "partial": partial, "dry_run": dry_run,
            });
            ("CheckpointRestore", arguments, *json)
        }
    };
    let arguments = match written {
        Value::Object(arguments) => arguments,
        _ => Arguments::new(),
    };
    (tool, arguments, as_json)
}
