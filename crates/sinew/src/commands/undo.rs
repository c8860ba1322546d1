//! `sinew undo`: undoes the last changes of a session, or takes an undo back.
//!
//! It chooses the checkpoint and calls the tool that `sinew checkpoint restore` calls: roots, rules, conflicts, the question and
//! the ledger are those of a restore.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use sinew_guard::checkpoints::{CheckpointId, Checkpoints, Listed, Query, UndoHistory};
use sinew_runtime::{Approvals, CallOptions};
use sinew_tool::{Approver, Arguments, Block, Kind, Reply, Request, shown_line};

use super::call;
use crate::by_caller::ByCaller;
use crate::cli::UndoArgs;
use crate::json_form::CommandError;
use crate::screen;
use crate::shown_question::OnEnter;
use crate::terminal::{Terminal, is_attended};
use crate::wiring::{self, Loaded, Wired};

/// The most checkpoints that are looked at.
const MAX_LOOKED: usize = 10_000;
/// The most changes that are passed over because a person took them back by hand.
const MAX_DONE: usize = 50;
/// The tool that restores.
const TOOL: &str = "CheckpointRestore";

/// Undoes or redoes.
pub(crate) fn run(mut loaded: Loaded, args: &UndoArgs) -> anyhow::Result<ExitCode> {
    super::warn(&loaded);
    super::warn_of_other_ledger(&loaded);
    loaded.settings.serve = None;
    loaded.settings.dialect = sinew_dialects::NATIVE;
    let asks = !args.yes && !args.dry_run && loaded.settings.approvals != Approvals::Allow;
    if asks && !is_attended() {
        return Err(CommandError::unasked(
            "no terminal is here to ask the user at; `--yes` undoes unasked, `--dry-run` shows what that changes",
        ));
    }
    loaded.settings.approvals = Approvals::Ask;
    let terminal = asks.then_some(Terminal { progress: None, on_enter: OnEnter::Runs });
    let caller = Arc::new(ByCaller { terminal }) as Arc<dyn Approver>;
    let wired = wiring::wire(&loaded, "undo", &["all"], Some(caller))?;
    wired.runtime.add_tool(&sinew_ops::checkpoint_restore::COMMAND.tool())?;
    let checkpoints =
        wired.checkpoints.as_deref().context("there is no directory for checkpoints")?;
    let session = loaded.settings.session.as_deref();
    let candidates = chosen(checkpoints, session, &wired.runtime.roots(), args)?;
    let (id, found) = effective(&wired, &candidates, args)?;
    let structured = found.structured.as_ref();
    let mut args = args.clone();
    if asks && (!found.ok || structured.is_some_and(|found| !found["refused"].is_null())) {
        let others = structured.and_then(|found| found["n_others"].as_u64()).unwrap_or(0);
        let refused = structured.and_then(|found| found["refused"].as_str());
        let Some(refused) = refused.filter(|_| 0 < others) else {
            let texts = found.content.iter().filter_map(|block| match block {
                Block::Text { text } => Some(text.trim_end()),
                _ => None,
            });
            let message = texts.collect::<Vec<_>>().join("\n");
            let kind = found.error.as_ref().map_or(Kind::ExecutionFailed, |error| error.kind);
            return Err(CommandError::with(1, kind.as_str(), message));
        };
        // What can be undone is offered, as the question that follows.
        screen::say(refused);
        args.partial = true;
        screen::say(&format!(
            "{others} of the paths can be undone, and the others stay as they are:"
        ));
    }
    let args = &args;
    let changes_some = structured.is_some_and(|found| !is_done(found));
    let code = call::one(&wired, TOOL, arguments(id, args, args.dry_run), args.json)?;
    if asks && changes_some && code == ExitCode::SUCCESS && !args.redo && args.what.is_none() {
        screen::say("`sinew undo --redo` takes that back");
    }
    Ok(code)
}

fn arguments(id: CheckpointId, args: &UndoArgs, dry_run: bool) -> Arguments {
    match json!({ "id": id.to_string(), "force": args.force, "partial": args.partial, "dry_run": dry_run })
    {
        Value::Object(arguments) => arguments,
        _ => Arguments::new(),
    }
}

/// Returns the checkpoints that may be restored, in the order in which they are tried.
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
                "`{}` is neither a number of changes nor a checkpoint: give a number from 1, or an id such as c12",
                shown_line(text)
            ),
        },
    };
    let query = Query { session, turn: None, id: None, before: None, limit: MAX_LOOKED };
    let mut sessions: BTreeMap<String, Vec<Listed>> = BTreeMap::new();
    // What a call here changed outside the roots is undone here too.
    let mut made_here: HashSet<CheckpointId> = HashSet::new();
    for one in checkpoints.list(&query)? {
        if !one.mark.roots.is_empty() && one.mark.roots.iter().all(|root| roots.contains(root)) {
            made_here.insert(one.id);
        }
        sessions.entry(one.mark.session.clone()).or_default().push(one);
    }
    let mut all: Vec<(&String, Vec<CheckpointId>)> = Vec::new();
    for (session, listed) in &sessions {
        // An undo restores a whole session, so the last change decides where the session belongs.
        let near = |one: &Listed| one.mark.roots.iter().any(|root| is_near(root, roots));
        let ids = UndoHistory::of(listed).left(args.redo);
        if !ids.is_empty() && listed.iter().any(near) {
            all.push((session, ids));
        }
    }
    all.sort_by_key(|(_, ids)| std::cmp::Reverse(ids.first().copied()));
    // No more sessions are looked at than changes are passed over: each call on the command line has a session of its own.
    let mut left = Vec::new();
    for (session, ids) in all {
        if let Some(first) = ids.first()
            && left.len() < MAX_DONE
            && (made_here.contains(first) || is_beneath(checkpoints, *first, roots)?)
        {
            left.push((session, ids));
        }
    }
    let Some((session, ids)) = left.first() else {
        let what =
            if args.redo { "no undo is left to take back" } else { "no change is left to undo" };
        bail!("{what} in this directory; `sinew checkpoint list` shows what was kept");
    };
    if args.redo {
        return Ok(ids.iter().take(1).copied().collect());
    }
    if n == 1 {
        let mut all: Vec<_> = left.iter().flat_map(|(_, ids)| ids).copied().collect();
        all.sort_by(|a, b| b.cmp(a));
        all.truncate(MAX_DONE);
        return Ok(all);
    }
    let Some(id) = ids.get(n - 1) else {
        bail!("changes of session {} left to undo: {}, not {n}", shown_line(session), ids.len());
    };
    for id in ids.iter().take(n) {
        if !made_here.contains(id) && !is_beneath(checkpoints, *id, roots)? {
            bail!(
                "{id} of session {} changed files outside of this directory; `sinew checkpoint restore ID --path PATH` \
                 restores single ones",
                shown_line(session)
            );
        }
    }
    Ok(vec![*id])
}

/// Returns whether a root is one of these, or is in one, or has one in it.
pub(super) fn is_near(root: &Path, roots: &[PathBuf]) -> bool {
    roots.iter().any(|one| one.starts_with(root) || root.starts_with(one))
}

/// Returns whether all that a checkpoint changed is beneath these roots.
fn is_beneath(
    checkpoints: &Checkpoints,
    id: CheckpointId,
    roots: &[PathBuf],
) -> anyhow::Result<bool> {
    let entries = checkpoints.entries(id)?;
    Ok(entries.iter().all(|entry| roots.iter().any(|root| entry.path.starts_with(root))))
}

/// Returns the first checkpoint whose restore changes something, and its dry run: a change that a person took back by hand needs
/// no undo.
fn effective(
    wired: &Wired,
    candidates: &[CheckpointId],
    args: &UndoArgs,
) -> anyhow::Result<(CheckpointId, Reply)> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut last = None;
    for (at, id) in candidates.iter().enumerate() {
        let name = format!("{}-preview-{at}", wired.session);
        let request = Request::new(name.as_str(), TOOL, arguments(*id, args, true));
        let reply = tokio.block_on(wired.runtime.call(request, CallOptions::default()));
        let done = reply.structured.as_ref().is_some_and(is_done);
        last = Some((*id, reply));
        if !done {
            break;
        }
    }
    last.context("no checkpoint was chosen")
}

/// Returns whether a dry run found everything as it was.
fn is_done(found: &Value) -> bool {
    let is_empty = |list: &Value| list.as_array().is_some_and(Vec::is_empty);
    found["refused"].is_null() && is_empty(&found["left"]) && is_empty(&found["steps"])
}
