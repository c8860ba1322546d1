//! `sinew checkpoint`: lists, compares and restores checkpoints, the snapshots of files before changes.
//!
//! Each command is a tool call, so roots, rules, the ledger and approvals apply.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Value, json};
use sinew_runtime::{Approvals, CallOptions};
use sinew_tool::{Approver, Arguments, Request};

use super::call;
use crate::by_caller::ByCaller;
use crate::cli::CheckpointCommand;
use crate::json_form::{self, CommandError};
use crate::terminal::Terminal;
use crate::wiring::{self, Loaded, Wired};

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
            return Err(CommandError::unasked("no terminal to ask at; `--yes` restores unasked"));
        }
    }
    loaded.settings.approvals = Approvals::Ask;
    let approver = Arc::new(ByCaller { terminal }) as Arc<dyn Approver>;
    let wired = wiring::wire(&loaded, "checkpoint", &["all"], Some(approver))?;
    wired.runtime.add_tool(&sinew_ops::checkpoint_diff::ROW.tool())?;
    // It replaces the native tool of the same name.
    wired.runtime.add_tool(&sinew_ops::checkpoint_restore::COMMAND.tool())?;
    if as_json && matches!(command, CheckpointCommand::List { .. }) {
        return list(&wired, tool, arguments);
    }
    call::one(&wired, tool, arguments, as_json)
}

/// Writes each checkpoint as one line.
fn list(wired: &Wired, tool: &str, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let id = format!("{}-1", wired.session);
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let request = Request::new(id.as_str(), tool, arguments);
    let reply = tokio.block_on(wired.runtime.call(request, CallOptions::default()));
    super::flush(&wired.runtime);
    if let Some(error) = &reply.error {
        return Err(CommandError::of(error.kind.exit_code(), error));
    }
    let listed = reply.structured.unwrap_or_default();
    let listed = listed.get("checkpoints").and_then(Value::as_array);
    json_form::write_all(&mut listed.into_iter().flatten().map(line))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a checkpoint of the tool's reply with the keys of `sinew log`.
fn line(checkpoint: &Value) -> Value {
    match checkpoint {
        Value::Object(object) => object.iter().map(|(key, value)| renamed(key, value)).collect(),
        Value::Array(list) => list.iter().map(line).collect(),
        value => value.clone(),
    }
}

fn renamed(key: &str, value: &Value) -> (String, Value) {
    let (key, value) = match (key, value.as_str()) {
        ("id", _) => ("checkpoint", line(value)),
        ("time", _) => ("at", line(value)),
        ("paths", _) => ("changes", line(value)),
        ("deed", Some("created")) => ("change", Value::from("new")),
        ("deed", Some("removed")) => ("change", Value::from("deleted")),
        ("deed", _) => ("change", line(value)),
        _ => (key, line(value)),
    };
    (key.to_owned(), value)
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
