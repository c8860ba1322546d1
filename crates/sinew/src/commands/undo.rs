//! `sinew undo`: undoes the last changes of a session, or takes an undo back.
//!
//! It chooses the checkpoint, shows what its restore changes, and calls the tool that `sinew checkpoint restore` calls: roots,
//! rules, conflicts and the ledger are those of a restore.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use sinew_guard::checkpoints::{CheckpointId, Checkpoints, Listed, Query, UndoHistory};
use sinew_runtime::{Approvals, CallOptions};
use sinew_tool::{Arguments, Block, Reply, Request, shown_line};

use super::call;
use crate::cli::UndoArgs;
use crate::screen;
use crate::wiring::{self, Loaded, Wired};

/// The most checkpoints that are looked at.
const MAX_LOOKED: usize = 10_000;
/// The tool that restores.
const TOOL: &str = "CheckpointRestore";

/// Undoes or redoes.
pub(crate) fn run(mut loaded: Loaded, args: &UndoArgs) -> anyhow::Result<ExitCode> {
    super::warn(&loaded);
    super::warn_of_other_ledger(&loaded);
    loaded.settings.serve = None;
    loaded.settings.dialect = sinew_dialects::NATIVE;
    let asks = !args.yes && !args.dry_run;
    if asks && !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        screen::say(
            "nobody can be asked here; `--yes` undoes unasked, `--dry-run` shows what that changes",
        );
        return Ok(ExitCode::from(3));
    }
    // The person answers below, once the whole change was shown.
    loaded.settings.approvals = Approvals::Allow;
    let wired = wiring::wire(&loaded, "undo", &["all"], None)?;
    wired.runtime.add_tool(&sinew_ops::checkpoint_restore::COMMAND.tool())?;
    let checkpoints =
        wired.checkpoints.as_deref().context("there is no directory for checkpoints")?;
    let session = loaded.settings.session.as_deref();
    let mut ids = chosen(checkpoints, session, &wired.runtime.roots(), args)?.into_iter();
    let arguments = |id: CheckpointId, dry_run| -> Arguments {
        match json!({ "id": id.to_string(), "force": args.force, "dry_run": dry_run }) {
            Value::Object(arguments) => arguments,
            _ => Arguments::new(),
        }
    };
    let id = loop {
        let Some(id) = ids.next() else { bail!("{}", nothing(args)) };
        let reply = preview(&wired, arguments(id, true))?;
        let found = reply.structured.as_ref();
        // A change that a person took back by hand needs no undo.
        let is_done = |found: &Value| {
            found["refused"].is_null() && found["steps"].as_array().is_some_and(Vec::is_empty)
        };
        if found.is_some_and(is_done) && ids.len() != 0 {
            continue;
        }
        if asks && !is_wanted(&reply, args)? {
            return Ok(ExitCode::FAILURE);
        }
        break id;
    };
    let code = call::one(&wired, TOOL, arguments(id, args.dry_run), args.json)?;
    if asks && code == ExitCode::SUCCESS {
        let back = if args.redo { "`sinew undo`" } else { "`sinew undo --redo`" };
        screen::say(&format!("{back} takes that back"));
    }
    Ok(code)
}

/// Returns the checkpoints that may be restored, the newest first.
fn chosen(
    checkpoints: &Checkpoints,
    session: Option<&str>,
    roots: &[PathBuf],
    args: &UndoArgs,
) -> anyhow::Result<Vec<CheckpointId>> {
    let n = match args.what.as_deref() {
        None => 1,
        Some(text) => match (text.parse::<usize>(), text.parse::<CheckpointId>()) {
            (Ok(n), _) if 0 < n => n,
            (_, Ok(id)) => return Ok(vec![id]),
            _ => bail!(
                "`{}` is no number of changes and no checkpoint: give a number from 1, or an id such as c12",
                shown_line(text)
            ),
        },
    };
    let query = Query { session, turn: None, id: None, before: None, limit: MAX_LOOKED };
    let mut sessions: BTreeMap<String, Vec<Listed>> = BTreeMap::new();
    for one in checkpoints.list(&query)? {
        if one.mark.roots.iter().any(|root| roots.contains(root)) {
            sessions.entry(one.mark.session.clone()).or_default().push(one);
        }
    }
    let of_session = |listed: &Vec<Listed>| -> Vec<CheckpointId> {
        let history = UndoHistory::of(listed);
        if args.redo { history.undos().collect() } else { history.changes().collect() }
    };
    let all = sessions.iter().map(|(session, listed)| (session, of_session(listed)));
    // The session whose change is the last one in force.
    let Some((session, ids)) = all.max_by_key(|(_, ids)| ids.first().copied()) else {
        bail!("{}", nothing(args));
    };
    match (ids.len(), ids.get(n - 1..)) {
        (0, _) => bail!("{}", nothing(args)),
        (_, Some(ids)) if !ids.is_empty() => Ok(ids.to_vec()),
        (n_left, _) => {
            bail!("session {} has {n_left} changes to undo, not {n}", shown_line(session))
        }
    }
}

fn nothing(args: &UndoArgs) -> String {
    let what = if args.redo { "no undo is left to take back" } else { "no change is left to undo" };
    format!("{what} in this directory; `sinew checkpoint list` shows what was kept")
}

/// Works out what a restore changes.
fn preview(wired: &Wired, arguments: Arguments) -> anyhow::Result<Reply> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let id = format!("{}-preview", wired.session);
    let request = Request::new(id.as_str(), TOOL, arguments);
    Ok(tokio.block_on(wired.runtime.call(request, CallOptions::default())))
}

/// Shows a change to the person, who takes it by Enter.
fn is_wanted(reply: &Reply, args: &UndoArgs) -> anyhow::Result<bool> {
    for block in &reply.content {
        if let Block::Text { text } = block {
            writeln!(screen::errors(), "{}", text.trim_end_matches('\n'))?;
        }
    }
    let is_refused = |found: &Value| !found["refused"].is_null();
    if !reply.ok || reply.structured.as_ref().is_some_and(is_refused) {
        screen::say("nothing was changed; `--force` overwrites what others changed since");
        return Ok(false);
    }
    let what = if args.redo { "redoes" } else { "undoes" };
    write!(screen::errors(), "\nEnter {what} this, anything else leaves it: ")?;
    let mut line = String::new();
    let n = io::stdin().lock().read_line(&mut line)?;
    let is_wanted = n != 0 && line.trim().is_empty();
    if !is_wanted {
        screen::say("nothing was changed");
    }
    Ok(is_wanted)
}
