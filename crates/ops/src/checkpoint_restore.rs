//! CheckpointRestore: restores files to their state before a change.
//!
//! The guard plans the steps and holds the paths; this module executes them. A restore undoes a checkpoint
//! and all later ones of its session; `only` undoes all later changes of its paths alone. It is rejected
//! where another writer changed a path since, unless forced, and never removes what no change of the
//! session made. It is atomic, except that of a file and a directory that swap the old one goes first.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::json;
use sinew_tool::{
    Becomes, Context, Cost, Effects, Expect, Facts, FileMode, FileOp, Kind, LeftPath,
    NoCheckpoints, Operation, Param, ParamKind, PathChange, Preview, Reply, Restore, RestoreAct,
    RestoreChoice, RestorePlan, RestoreStep, Row, Shaping, Targets, ToolError, Was, line_name,
};

use crate::apply_patch::ApplyPatch;
use crate::checkpoint_list;
use crate::diff::DiffLimits;
use crate::edit::Edit;
use crate::make_directory::MakeDirectory;
use crate::memory_write::MemoryWrite;
use crate::multi_edit::MultiEdit;
use crate::states::{self, MAX_COMPARED, SET_ASIDE, Side};
use crate::write::Write;

/// The most bytes that one restore brings back.
const MAX_BYTES: u64 = 512 << 20;
/// The most paths that a text names.
const MAX_SHOWN: usize = 50;
/// The most reasons that a refusal names.
const MAX_REASONS: usize = 5;

/// The tools that could do each act of a restore: a restore needs what a call of them would need.
pub(crate) const OPERATIONS: &[(RestoreAct, &[&str])] = &[
    (RestoreAct::Write, &[Write::NAME, Edit::NAME, ApplyPatch::NAME, MultiEdit::NAME]),
    (RestoreAct::MakeLink, &[Write::NAME]),
    (RestoreAct::MakeDirectory, &[MakeDirectory::NAME]),
    (RestoreAct::SetAside, &[ApplyPatch::NAME]),
    (RestoreAct::BringBack, &[MakeDirectory::NAME]),
    (RestoreAct::Remove, &[ApplyPatch::NAME]),
    (RestoreAct::RemoveDirectory, &[ApplyPatch::NAME]),
];

/// The tools that could do it in the memory.
pub(crate) const OF_MEMORY: &[&str] = &[MemoryWrite::NAME];

/// Restores files as they were.
#[derive(Debug)]
pub struct CheckpointRestore;

/// Arguments of CheckpointRestore.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointRestoreArgs {
    /// The checkpoint.
    pub id: String,
    /// Whether only the paths of this checkpoint are restored, undoing later changes of them.
    #[serde(default)]
    pub only: bool,
    /// Whether the whole turn that it belongs to is undone.
    #[serde(default)]
    pub turn: bool,
    /// The file or directory that alone is restored.
    #[serde(default)]
    pub path: Option<String>,
    /// Whether the restore overwrites later changes of other writers.
    #[serde(default)]
    pub force: bool,
    /// Whether refused paths are left as they are and the others restored.
    #[serde(default)]
    pub partial: bool,
    /// Whether this is a dry run.
    #[serde(default)]
    pub dry_run: bool,
    /// Whether only a user can ask for more: hints name the command, with absolute paths for any cwd.
    #[serde(default)]
    pub asks_person: bool,
}

/// Outcome of CheckpointRestore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointRestoreOut {
    /// The checkpoint.
    pub id: String,
    /// When it was made, in ISO 8601.
    pub time: String,
    /// The wire name of the tool that it was made for.
    pub tool: String,
    /// The changes of its call, by path.
    pub changes: Vec<PathChange>,
    /// The checkpoints that are undone.
    pub undone: Vec<String>,
    /// The step done, or planned, at each path.
    pub steps: Vec<Restored>,
    /// The paths that stay as they are: of a partial restore, or of one that would be refused.
    pub left: Vec<LeftPath>,
    /// How many paths a partial restore would change, where a dry run would be rejected.
    pub n_others: usize,
    /// The diff of a dry run.
    pub diff: Option<String>,
    /// The reason for which a dry run would be rejected.
    pub refusal: Option<String>,
}

/// The step at one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The real path.
    pub path: PathBuf,
    /// The step in one word.
    pub act: &'static str,
    /// The problem that a dry run found.
    pub problem: Option<String>,
    /// The command that makes a directory anew that is set aside, if known.
    pub rebuild: Option<&'static str>,
}

/// The row of the command line, whose arguments are options.
pub const COMMAND: Row<CheckpointRestore> =
    Row { fail: |error, _| failure(error, with_options), ..NATIVE };

/// The native row.
pub const NATIVE: Row<CheckpointRestore> = Row {
    name: "CheckpointRestore",
    description: "Undoes a checkpoint and the later ones of its session. Refused where others \
                  changed a file since, unless forced.",
    params: &[
        Param::required("id", "id", ParamKind::String, "Such as c12"),
        Param::optional("only", "only", ParamKind::Boolean, "Only its paths"),
        Param::optional("turn", "turn", ParamKind::Boolean, "From the first of its turn"),
        Param::optional("path", "path", ParamKind::String, "Only this path"),
        Param::optional("force", "force", ParamKind::Boolean, ""),
        Param::optional("partial", "partial", ParamKind::Boolean, "Skip files that others changed"),
        Param::optional("dry_run", "dry_run", ParamKind::Boolean, ""),
    ],
    core: false,
    ..Row::shaped(shape)
};

impl Operation for CheckpointRestore {
    const NAME: &'static str = "CheckpointRestore";
    const FACTS: Facts = Facts { idempotent: true, ..Facts::CHANGES };
    type Args = CheckpointRestoreArgs;
    type Out = CheckpointRestoreOut;

    fn effects(args: &CheckpointRestoreArgs) -> Effects {
        if args.dry_run { Effects::OBSERVE } else { Self::FACTS.effects }
    }

    fn restores(args: &CheckpointRestoreArgs) -> Option<Restore> {
        Some(Restore {
            argument: "id",
            choice: RestoreChoice::Id(args.id.clone()),
            only: args.only,
            turn: args.turn,
            path: args.path.clone(),
            force: args.force,
            looks: args.dry_run,
            partial: args.partial,
            operations: OPERATIONS,
            of_memory: OF_MEMORY,
        })
    }

    fn cost(_args: &CheckpointRestoreArgs, _targets: &Targets) -> Cost {
        Cost::Long
    }

    fn preview(args: &CheckpointRestoreArgs, cx: &Context) -> Preview {
        let Some(plan) = cx.world.checkpoints.plan() else { return Preview::Nothing };
        if refusal(plan, args, cx).is_some() || plan.acting().next().is_none() {
            return Preview::Nothing;
        }
        let shown = ShownRestore::of(plan, cx, DiffLimits::question(cx.deadline));
        if shown.lost.is_empty() { Preview::Diff(shown.diff) } else { Preview::Nothing }
    }

    async fn run(
        args: &CheckpointRestoreArgs,
        cx: &Context,
    ) -> Result<CheckpointRestoreOut, ToolError> {
        let plan = cx.world.checkpoints.plan().ok_or_else(NoCheckpoints::error)?;
        let refusal = refusal(plan, args, cx);
        let done = |step: &RestoreStep| Restored {
            path: step.path.clone(),
            act: states::act(step.act, &step.now),
            problem: None,
            rebuild: step.rebuild,
        };
        let mut out = CheckpointRestoreOut {
            id: plan.id.clone(),
            time: checkpoint_list::time(plan.at_ms),
            tool: plan.tool.clone(),
            changes: plan.changes.clone(),
            undone: plan.undone.clone(),
            steps: plan.acting().map(done).collect(),
            left: plan.left.clone(),
            n_others: match plan.refused(args.force).next() {
                Some(_) => others(plan, args),
                None => 0,
            },
            diff: None,
            refusal: refusal.as_ref().map(|error| error.message.to_string()),
        };
        match refusal {
            _ if args.dry_run => {
                let shown = ShownRestore::of(plan, cx, DiffLimits::dry_run(cx.deadline));
                if let Some((_, error)) = shown.lost.first() {
                    out.refusal.get_or_insert(error.message.to_string());
                }
                for step in &mut out.steps {
                    let lost = shown.lost.iter().find(|(path, _)| **path == step.path);
                    step.problem = lost.map(|(_, error)| why(error).to_owned());
                }
                out.diff = Some(shown.diff);
            }
            Some(error) => return Err(error),
            None => {
                restore(plan, args, cx).await?;
                for (step, done) in plan.acting().zip(&mut out.steps) {
                    done.problem = unmoved(step, cx);
                }
            }
        }
        Ok(out)
    }
}

/// Returns how many paths a partial restore would change in place of a refused one.
fn others(plan: &RestorePlan, args: &CheckpointRestoreArgs) -> usize {
    let mut partial = plan.clone();
    partial.leave_refused(args.force);
    partial.acting().map(|step| &step.path).collect::<HashSet<_>>().len()
}

/// Returns why a directory that tools make anew did not move, if so: the other changes hold all the same.
fn unmoved(step: &RestoreStep, cx: &Context) -> Option<String> {
    let is_there = || step.slot.is_some_and(|slot| cx.world.files.meta(slot).is_ok());
    match step.act {
        RestoreAct::SetAside
            if is_there() && !matches!(step.wanted, Was::File { .. } | Was::Link(_)) =>
        {
            Some(String::from(
                "it could not be moved, so what commands changed in it is still there",
            ))
        }
        RestoreAct::RemoveDirectory if is_there() && step.wanted == Was::Absent => {
            Some(String::from("it is not empty, and stays"))
        }
        RestoreAct::BringBack if !is_there() => Some(String::from("it is gone")),
        _ => None,
    }
}

/// Returns the reason for which a restore is rejected, if any.
fn refusal(plan: &RestorePlan, args: &CheckpointRestoreArgs, cx: &Context) -> Option<ToolError> {
    let refused: Vec<_> = plan.refused(args.force).collect();
    if refused.is_empty() {
        return too_large(plan, args);
    }
    let shown = |path: &Path| match args.asks_person {
        true => line_name(path).into_owned(),
        false => cx.shown(path),
    };
    let mut named = HashSet::new();
    let mut whys: Vec<String> = Vec::new();
    for (step, conflict) in refused.iter().filter(|(step, _)| named.insert(&step.path)) {
        whys.push(format!("{}: {}", conflict.why, shown(&step.path)));
    }
    let paths: HashSet<&PathBuf> = plan.acting().map(|step| &step.path).chain(named).collect();
    let at = match (whys.len(), paths.len()) {
        (1, 1) => String::new(),
        (n, n_all) => format!(" at {n} of {n_all} paths"),
    };
    let more = match whys.len().checked_sub(MAX_REASONS) {
        None | Some(0) => String::new(),
        Some(n) => format!("; and {n} more"),
    };
    whys.truncate(MAX_REASONS);
    let message = format!("the restore of {} is refused{at}: {}{more}", plan.id, whys.join("; "));
    let can_be_forced = refused.iter().all(|(_, conflict)| conflict.can_be_forced);
    let mut hints = Vec::new();
    match (others(plan, args), args.asks_person) {
        (0, _) if can_be_forced => {}
        (0, _) => hints.push(one_by_one(&plan.id, args, "restore the other paths")),
        (n, false) => hints.push(format!("`partial` restores the other {n}")),
        (n, true) => hints.push(format!(
            "ask the user to run `{}`, which restores the other {n}",
            command(&plan.id, args, "--partial")
        )),
    }
    match (can_be_forced, args.asks_person) {
        (false, _) => {}
        (true, false) => {
            hints.push(String::from(
                "`dry_run` shows what would change; `force` restores it all the same",
            ));
        }
        (true, true) => hints.push(format!(
            "ask the user to run `{}`, which restores it all the same",
            command(&plan.id, args, "--force")
        )),
    }
    Some(ToolError::new(Kind::Stale, message).hint(hints.join("; ")))
}

/// Returns the error of a restore that is too large, if it is.
fn too_large(plan: &RestorePlan, args: &CheckpointRestoreArgs) -> Option<ToolError> {
    let total: u64 = plan.acting().map(|step| size(&step.wanted)).sum();
    let message =
        format!("the files have {total} bytes together, and at most {MAX_BYTES} come back at once");
    let hint = || one_by_one(&plan.id, args, "restore them");
    (MAX_BYTES < total).then(|| ToolError::new(Kind::TooLarge, message).hint(hint()))
}

/// Returns the hint to restore single paths, where not all can be restored.
fn one_by_one(id: &str, args: &CheckpointRestoreArgs, what: &str) -> String {
    match args.asks_person {
        false => format!("{what} one by one with `path`"),
        true => {
            let command = command(id, args, "--path PATH");
            format!("ask the user to {what} one by one with `{command}`")
        }
    }
}

/// Returns the command line with which the user restores the same.
fn command(id: &str, args: &CheckpointRestoreArgs, option: &str) -> String {
    let only = if args.only { " --only" } else { "" };
    format!("sinew checkpoint restore {id} {option}{only}")
}

/// Returns the message of an error without the path at its end.
pub(crate) fn why(error: &ToolError) -> &str {
    error.message.split_once(": ").map_or(&*error.message, |(why, _)| why)
}

async fn restore(
    plan: &RestorePlan,
    args: &CheckpointRestoreArgs,
    cx: &Context,
) -> Result<(), ToolError> {
    let without =
        |error: ToolError| error.hint(one_by_one(&plan.id, args, "restore the other paths"));
    // Every content is read whole and verified before the first change.
    let mut steps = Vec::new();
    for step in plan.acting() {
        let content = match (step.act, &step.wanted) {
            (RestoreAct::Write, wanted) => {
                cx.world.checkpoints.content(&step.path, wanted).map_err(without)?
            }
            (RestoreAct::MakeLink, Was::Link(target)) => link_bytes(target),
            _ => Vec::new(),
        };
        steps.push((step, content));
    }
    let pieces: Vec<[&[u8]; 1]> = steps.iter().map(|(_, content)| [content.as_slice()]).collect();
    let deeds: Vec<FileOp<'_>> = steps
        .iter()
        .zip(&pieces)
        .filter_map(|((step, content), pieces)| {
            let becomes = match step.act {
                RestoreAct::Remove => Becomes::Nothing,
                RestoreAct::RemoveDirectory => Becomes::NoDirectory,
                RestoreAct::SetAside => Becomes::SetAside,
                RestoreAct::BringBack => match &step.now {
                    Was::SetAside(from) => Becomes::BroughtBack(from),
                    _ => return None,
                },
                RestoreAct::MakeDirectory => Becomes::Directory { mode: bits(&step.wanted) },
                RestoreAct::MakeLink => Becomes::Link(content),
                RestoreAct::Write => Becomes::File { pieces, mode: mode(step), like: None },
                RestoreAct::Nothing => return None,
            };
            Some(FileOp { slot: step.slot?, expect: Expect::Any, becomes })
        })
        .collect();
    let clears = |step: &RestoreStep| {
        matches!(step.act, RestoreAct::Remove | RestoreAct::RemoveDirectory | RestoreAct::SetAside)
    };
    let mut paths = HashSet::new();
    let is_twice = plan.acting().any(|step| !paths.insert(&step.path));
    let n_cleared = match is_twice {
        true => plan.acting().take_while(|step| clears(step)).count(),
        false => 0,
    };
    let (first, rest) = deeds.split_at(n_cleared.min(deeds.len()));
    for deeds in [first, rest] {
        if !deeds.is_empty() {
            cx.commit(deeds).await?;
        }
    }
    Ok(())
}

/// Returns the reply of an error with another hint.
pub(crate) fn failure(error: &ToolError, hint: fn(&str) -> String) -> Reply {
    let said = ToolError::new(error.kind, error.message.to_string());
    Reply::failure(&match &error.hint {
        Some(written) => said.hint(hint(written)),
        None => said,
    })
}

/// Returns a hint with command-line options instead of arguments.
fn with_options(hint: &str) -> String {
    hint.replace("`path`", "`--path`")
        .replace("`dry_run`", "`--dry-run`")
        .replace("`force`", "`--force`")
        .replace("`partial`", "`--partial`")
        .replace("CheckpointList", "`sinew checkpoint list`")
}

fn mode(step: &RestoreStep) -> FileMode {
    bits(&step.wanted).map_or(FileMode::Kept, FileMode::Exact)
}

/// Returns the permission bits of a state.
fn bits(was: &Was) -> Option<u32> {
    match was {
        Was::File { mode, .. } | Was::Directory { mode } => Some(*mode),
        _ => None,
    }
}

fn size(was: &Was) -> u64 {
    match was {
        Was::File { size, .. } => *size,
        _ => 0,
    }
}

fn link_bytes(target: &std::path::Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    target.as_os_str().as_bytes().to_vec()
}

/// The dry run of a restore.
struct ShownRestore<'p> {
    diff: String,
    /// The paths that cannot be restored, because their kept content is lost or damaged.
    lost: Vec<(&'p PathBuf, ToolError)>,
}

impl<'p> ShownRestore<'p> {
    fn of(plan: &'p RestorePlan, cx: &Context, limits: DiffLimits) -> Self {
        let mut shown = Self { diff: String::new(), lost: Vec::new() };
        let mut before = None;
        for step in plan.acting() {
            // A second step at one path shows the same difference.
            if before.replace(&step.path) == Some(&step.path) {
                continue;
            }
            match kept(&step.path, &step.wanted, cx) {
                Ok(content) => {
                    let now = Side { was: &step.now, content: now(step, cx) };
                    let wanted = Side { was: &step.wanted, content };
                    let name = cx.shown(&step.path);
                    shown.diff.push_str(&states::difference(&name, &now, &wanted, limits));
                }
                Err(error) => shown.lost.push((&step.path, error)),
            }
        }
        shown
    }
}

/// Reads all that was kept of a path, so that loss or damage shows; returns it if small enough to compare.
pub(crate) fn kept(path: &Path, was: &Was, cx: &Context) -> Result<Option<Vec<u8>>, ToolError> {
    if !matches!(was, Was::File { .. }) {
        return Ok(None);
    }
    let content = cx.world.checkpoints.content(path, was)?;
    Ok((size(was) <= MAX_COMPARED).then_some(content))
}

/// Reads the current file at the path of a step, where it is small.
pub(crate) fn now(step: &RestoreStep, cx: &Context) -> Option<Vec<u8>> {
    use std::io::Read;
    if MAX_COMPARED < size(&step.now) || !matches!(step.now, Was::File { .. }) {
        return None;
    }
    let opened = cx.world.files.open(step.slot?).ok()?;
    let mut content = Vec::new();
    opened.file.take(MAX_COMPARED + 1).read_to_end(&mut content).ok()?;
    Some(content)
}

fn shape(args: &CheckpointRestoreArgs, out: CheckpointRestoreOut, shaping: &Shaping<'_>) -> Reply {
    shaped(args.dry_run, out, shaping, |id| format!("{id} undoes this"))
}

/// Returns the reply of a restore; `back` says how its checkpoint is undone.
pub(crate) fn shaped(
    is_dry_run: bool,
    out: CheckpointRestoreOut,
    shaping: &Shaping<'_>,
    back: impl FnOnce(&str) -> String,
) -> Reply {
    let line = |step: &Restored| {
        let problem = step.problem.as_ref();
        let problem = problem.map_or(String::new(), |why| format!("  (cannot be done: {why})"));
        let rebuild = match (step.act, step.rebuild) {
            (SET_ASIDE, _) if step.problem.is_some() => String::new(),
            (SET_ASIDE, Some(command)) => {
                format!("  (in .sinew/undone; `{command}` makes it anew)")
            }
            (SET_ASIDE, None) => String::from("  (in .sinew/undone)"),
            _ => String::new(),
        };
        format!("  {}  {}{rebuild}{problem}\n", step.act, shaping.shown(&step.path))
    };
    let stays = match out.left.len() {
        0 => String::new(),
        n => format!(", {n} left alone"),
    };
    let mut text = match (out.steps.len(), is_dry_run, &out.refusal) {
        (_, true, Some(_)) => format!("restoring {} would fail and change nothing\n", out.id),
        (0, ..) if !out.left.is_empty() => format!("nothing of {} was restored{stays}\n", out.id),
        (0, ..) => format!("everything is as it was before {}\n", out.id),
        (n, true, None) => format!("restoring {} would change {n}{stays}:\n", out.id),
        (n, false, _) => format!("restored {}: {n} changed{stays}\n", out.id),
    };
    let left = |left: &LeftPath| format!("  left  {}  ({})\n", shaping.shown(&left.path), left.why);
    text.extend(out.left.iter().take(MAX_SHOWN).map(left));
    text.extend(out.steps.iter().take(MAX_SHOWN).map(line));
    if let Some(more @ 1..) = out.steps.len().checked_sub(MAX_SHOWN) {
        text.push_str(&format!("  and {more} more\n"));
    }
    if 1 < out.undone.len() && !out.steps.is_empty() {
        text.push_str(&format!("undone: {}\n", out.undone.join(", ")));
    }
    if let Some(id) = shaping.checkpoint {
        text.push_str(&format!("{}\n", back(id)));
    }
    if let Some(refusal) = &out.refusal {
        text.push_str(&format!("\n{refusal}\n"));
    }
    if let Some(diff) = out.diff.as_ref().filter(|diff| !diff.is_empty()) {
        text.push_str(&format!("\n{diff}"));
    }
    let steps: Vec<_> = out
        .steps
        .iter()
        .map(|step| {
            let path = step.path.to_string_lossy();
            json!({ "path": path, "act": step.act, "problem": step.problem, "rebuild": step.rebuild })
        })
        .collect();
    let left = out.left.iter();
    let left: Vec<_> =
        left.map(|left| json!({ "path": left.path.to_string_lossy(), "why": left.why })).collect();
    let mut reply = Reply::text(text.trim_end());
    reply.structured = Some(json!({
        "id": out.id,
        "undone": out.undone,
        "dry_run": is_dry_run,
        "refused": out.refusal,
        "steps": steps,
        "left": left,
        "n_others": out.n_others,
        "checkpoint_id": shaping.checkpoint,
    }));
    reply
}
