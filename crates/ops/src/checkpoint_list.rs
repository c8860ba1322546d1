//! CheckpointList: lists the checkpoints taken before changes, newest first.
//!
//! Each call that changed files has one checkpoint, with its operation on each path. Paths that the caller
//! may not touch are left out, and so are checkpoints without any other path.

use serde::Deserialize;
use serde_json::{Value, json};
use sinew_tool::{
    Access, CheckpointInfo, CheckpointQuery, Claim, Context, Cost, Facts, FileSettings, Operation,
    Param, ParamKind, PathChange, Reply, Row, Shaping, Stamp, Targets, ToolError,
};

use crate::states;
use crate::time::iso;

/// How many checkpoints are listed where no limit is given.
pub const DEFAULT_LIMIT: u64 = 20;
/// The most checkpoints that are listed.
pub const MAX_LIMIT: u64 = 1_000;
/// The most paths of one checkpoint that a text shows.
const MAX_SHOWN: usize = 10;

/// Lists checkpoints.
#[derive(Debug)]
pub struct CheckpointList;

/// Arguments of CheckpointList.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointListArgs {
    /// Those of this session, or of all.
    #[serde(default)]
    pub session: Option<String>,
    /// Those of this turn, or of all.
    #[serde(default)]
    pub turn: Option<String>,
    /// Those that changed this path or a path beneath it, or all.
    #[serde(default)]
    pub path: Option<String>,
    /// The most that are listed.
    #[serde(default)]
    pub limit: Option<u64>,
}

/// Outcome of CheckpointList.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointListOut {
    /// The checkpoints, the newest first.
    pub checkpoints: Vec<CheckpointInfo>,
}

/// The native row.
pub const NATIVE: Row<CheckpointList> = Row {
    name: "CheckpointList",
    description: "Lists checkpoints, the states before changes, newest first.",
    params: &[
        Param::optional("session", "session", ParamKind::String, ""),
        Param::optional("turn", "turn", ParamKind::String, ""),
        Param::optional("path", "path", ParamKind::String, "Only of this path or beneath it"),
        Param::optional(
            "limit",
            "limit",
            ParamKind::Integer { min: 1, cap: Some(MAX_LIMIT as i64) },
            "",
        ),
    ],
    core: false,
    ..Row::shaped(shape)
};

impl Operation for CheckpointList {
    const NAME: &'static str = "CheckpointList";
    const FACTS: Facts = Facts::OBSERVES;
    type Args = CheckpointListArgs;
    type Out = CheckpointListOut;

    fn claims(args: &CheckpointListArgs, _settings: &FileSettings) -> Vec<Claim> {
        let claim = |path: &String| Claim::new("path", Some(path.clone()), Access::Inspect);
        args.path.iter().map(claim).collect()
    }

    fn cost(_args: &CheckpointListArgs, _targets: &Targets) -> Cost {
        Cost::Long
    }

    async fn run(args: &CheckpointListArgs, cx: &Context) -> Result<CheckpointListOut, ToolError> {
        let path = args.path.as_ref().map(|_| cx.target(0)).transpose()?;
        let limit = args.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
        let checkpoints = cx.world.checkpoints.list(&CheckpointQuery {
            session: args.session.clone(),
            turn: args.turn.clone(),
            path: path.map(|target| target.path.clone()),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
        })?;
        Ok(CheckpointListOut { checkpoints })
    }
}

/// Returns when a checkpoint was made, in ISO 8601.
pub(crate) fn time(at_ms: u64) -> String {
    let seconds = i64::try_from(at_ms / 1_000).unwrap_or(i64::MAX);
    iso(Stamp { seconds, nanos: 0 })
}

fn shape(_args: &CheckpointListArgs, out: CheckpointListOut, shaping: &Shaping<'_>) -> Reply {
    let mut text = String::new();
    for checkpoint in &out.checkpoints {
        let CheckpointInfo { id, session, tool, changes, .. } = checkpoint;
        let time = time(checkpoint.at_ms);
        let turn =
            checkpoint.turn.as_ref().map(|turn| format!("  turn {turn}")).unwrap_or_default();
        text.push_str(&format!("{id}  {time}  {tool}  session {session}{turn}\n"));
        for change in changes.iter().take(MAX_SHOWN) {
            let deed = states::deed(&change.before, change.after.as_ref());
            let open =
                if change.settled { "" } else { " (unfinished: the call is under way or died)" };
            text.push_str(&format!("  {deed}  {}{open}\n", shaping.shown(&change.path)));
        }
        if let Some(more @ 1..) = changes.len().checked_sub(MAX_SHOWN) {
            text.push_str(&format!("  and {more} more\n"));
        }
    }
    if out.checkpoints.is_empty() {
        text.push_str("no checkpoints");
    }
    let mut reply = Reply::text(text.trim_end());
    reply.structured = Some(json!({
        "checkpoints": out.checkpoints.iter().map(object).collect::<Vec<_>>(),
    }));
    reply
}

fn object(checkpoint: &CheckpointInfo) -> Value {
    let change = |change: &PathChange| {
        json!({
            "path": change.path.to_string_lossy(),
            "deed": states::deed(&change.before, change.after.as_ref()),
            "finished": change.settled,
        })
    };
    json!({
        "id": checkpoint.id,
        "time": time(checkpoint.at_ms),
        "session": checkpoint.session,
        "agent": checkpoint.agent,
        "turn": checkpoint.turn,
        "call_id": checkpoint.call_id,
        "dialect": checkpoint.dialect,
        "tool": checkpoint.tool,
        "paths": checkpoint.changes.iter().map(change).collect::<Vec<_>>(),
    })
}
