//! MemoryWrite: notes something for later sessions in `MEMORY.md`.
//!
//! An append is worked out on the content that is there and applies to it alone. If another process wrote meanwhile,
//! it is worked out again, so that no entry of either is lost. Bytes that are there stay; a blank line parts entries.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use sinew_tool::{
    Access, Claim, Context, Cost, Expect, Facts, FileSettings, Kind, Links, MemoryScope, Operation,
    Param, ParamKind, Preset, Preview, Reply, Row, Shaping, Targets, ToolError, Written,
};

use crate::diff;
use crate::edit;
use crate::memory::{self, Memory};
use crate::source::Whole;
use crate::write;

/// How often an append is worked out while others change the memory: for more than two seconds.
const MAX_ATTEMPTS: u32 = 150;
/// The first pause between attempts; pauses double up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LAST_PAUSE: Duration = Duration::from_millis(16);

/// Writes the memory.
#[derive(Debug)]
pub struct MemoryWrite;

/// How the content gets into the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryMode {
    /// After the existing content.
    #[default]
    Append,
    /// In place of the existing content.
    Overwrite,
}

/// Arguments of MemoryWrite.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryWriteArgs {
    /// The text.
    pub content: String,
    /// How it gets into the memory.
    #[serde(default)]
    pub mode: MemoryMode,
    /// Whose memory.
    #[serde(default, deserialize_with = "memory::scope")]
    pub scope: MemoryScope,
}

/// Outcome of MemoryWrite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryWriteOut {
    /// The real path.
    pub path: PathBuf,
    /// The size of the whole memory.
    pub n_bytes: u64,
    /// Whether there was none before.
    pub created: bool,
    /// Whether it has entries of others that the caller has not read.
    pub has_unread: bool,
}

/// The values of `mode`.
pub const MODES: ParamKind = ParamKind::Enum(&["append", "overwrite"]);

/// The native row.
pub const NATIVE: Row<MemoryWrite> = Row {
    name: "MemoryWrite",
    description: "Notes something for later sessions in MEMORY.md. Can be undone.",
    params: &[
        Param::required("content", "content", ParamKind::String, ""),
        Param::optional("mode", "mode", MODES, "").or(Preset::Str("append")),
        memory::SCOPE,
    ],
    ..Row::shaped(shape)
};

impl Operation for MemoryWrite {
    const NAME: &'static str = "MemoryWrite";
    const FACTS: Facts = Facts::CHANGES;
    type Args = MemoryWriteArgs;
    type Out = MemoryWriteOut;

    fn check(args: &MemoryWriteArgs) -> Result<(), ToolError> {
        if args.mode == MemoryMode::Append && args.content.trim().is_empty() {
            return Err(ToolError::argument("content", "is empty; write what is to be noted"));
        }
        Ok(())
    }

    fn claims(args: &MemoryWriteArgs, _settings: &FileSettings) -> Vec<Claim> {
        let access = Access::Write { parents: true, links: Links::Refuse };
        vec![Claim::on_memory(args.scope, access)]
    }

    fn cost(_args: &MemoryWriteArgs, targets: &Targets) -> Cost {
        edit::cost(targets)
    }

    fn preview(args: &MemoryWriteArgs, cx: &Context) -> Preview {
        // The call itself reports a failure.
        let Ok(old) = Old::load(args, cx) else { return Preview::Nothing };
        let (created, old_bytes) = match &old {
            Old::Nothing => (true, [].as_slice()),
            Old::Whole(whole) => (false, whole.bytes.as_slice()),
            Old::Any(head) => (false, head.as_slice()),
        };
        let limits = edit::question_limits(cx);
        let diff = write::replaced(old_bytes, &old.pieces(args).concat(), limits);
        Preview::Diff(diff::titled(args.scope.shown(), created, &diff))
    }

    async fn run(args: &MemoryWriteArgs, cx: &Context) -> Result<MemoryWriteOut, ToolError> {
        let (mut n_attempts, mut pause, mut has_unread) = (1, FIRST_PAUSE, false);
        let written = loop {
            let old = Old::load(args, cx)?;
            has_unread |= old.note(cx)?;
            let written = old.replace(args, cx).await;
            let is_stale = matches!(&written, Err(error) if error.kind == Kind::Stale);
            if !is_stale || args.mode == MemoryMode::Overwrite || MAX_ATTEMPTS <= n_attempts {
                break written?;
            }
            // Another process wrote since: its entry is there now, and this one follows it.
            (cx.sleep)(pause).await;
            cx.still_wanted()?;
            (n_attempts, pause) = (n_attempts + 1, LAST_PAUSE.min(pause * 2));
        };
        let Written { bytes, created } = written;
        let path = cx.target(0)?.path.clone();
        Ok(MemoryWriteOut { path, n_bytes: bytes, created, has_unread })
    }
}

/// The memory before a write.
enum Old {
    Nothing,
    /// What the write depends on.
    Whole(Whole),
    /// Content that is replaced in any state; its beginning.
    Any(Vec<u8>),
}

impl Old {
    /// Reads the memory; rejects a write that it or the limit does not allow.
    fn load(args: &MemoryWriteArgs, cx: &Context) -> Result<Self, ToolError> {
        let max_bytes = cx.settings.max_memory_bytes;
        let n_bytes = args.content.len() as u64;
        if max_bytes < n_bytes {
            let problem = format!("content has {n_bytes} bytes, and a memory holds {max_bytes}");
            return Err(ToolError::new(Kind::TooLarge, problem).hint(
                "write a shorter text; keep a long one in a file of the project, and note its path",
            ));
        }
        let old = match (Memory::load(cx, args.scope)?, args.mode) {
            (Memory::Missing, _) => Self::Nothing,
            (Memory::Whole(whole), MemoryMode::Append) => Self::Whole(whole),
            (Memory::Whole(whole), MemoryMode::Overwrite) => Self::Any(whole.bytes),
            (Memory::TooLarge { head, .. }, MemoryMode::Overwrite) => Self::Any(head),
            (Memory::TooLarge { n_bytes, .. }, MemoryMode::Append) => {
                return Err(memory::too_large(n_bytes, max_bytes, args.scope));
            }
        };
        let n_bytes = old.pieces(args).iter().map(|piece| piece.len() as u64).sum();
        if max_bytes < n_bytes {
            return Err(memory::too_large(n_bytes, max_bytes, args.scope));
        }
        Ok(old)
    }

    /// Returns the new memory: what stays, what parts it from the content, and the content.
    fn pieces<'a>(&'a self, args: &'a MemoryWriteArgs) -> [&'a [u8]; 3] {
        let kept = match self {
            Self::Whole(whole) => whole.bytes.as_slice(),
            Self::Nothing | Self::Any(_) => &[],
        };
        [kept, separator(kept), args.content.as_bytes()]
    }

    /// Makes the content that stays known to the caller: an append loses none of it, so it needs no reading before.
    /// Returns whether the caller had not read it.
    fn note(&self, cx: &Context) -> Result<bool, ToolError> {
        let Self::Whole(whole) = self else { return Ok(false) };
        let target = cx.target(0)?;
        let known = cx.world.knowledge.check(target.slot, &whole.meta.identity, &whole.bytes);
        memory::note(cx, whole)?;
        Ok(known.is_err())
    }

    async fn replace(&self, args: &MemoryWriteArgs, cx: &Context) -> Result<Written, ToolError> {
        let expect = match (self, args.mode) {
            (Self::Whole(whole), _) => Expect::Same(whole.seen()),
            (Self::Nothing, MemoryMode::Append) => Expect::Nothing,
            (Self::Nothing, MemoryMode::Overwrite) | (Self::Any(_), _) => Expect::Any,
        };
        cx.replace(cx.target(0)?, &self.pieces(args), expect).await
    }
}

/// Returns what ends the last line of a memory and leaves a blank one.
fn separator(kept: &[u8]) -> &'static [u8] {
    let is_blank = |end: &[u8]| kept.ends_with(end);
    match kept {
        [] => b"",
        _ if is_blank(b"\n\n") || is_blank(b"\n\r\n") => b"",
        _ if is_blank(b"\n") => b"\n",
        _ => b"\n\n",
    }
}

fn shape(args: &MemoryWriteArgs, out: MemoryWriteOut, _shaping: &Shaping<'_>) -> Reply {
    let did = match (out.created, args.mode) {
        (true, _) => "created",
        (false, MemoryMode::Append) => "appended to",
        (false, MemoryMode::Overwrite) => "overwrote",
    };
    let mut text = format!("{did} {}: {} bytes", args.scope.shown(), out.n_bytes);
    if out.has_unread {
        text.push_str(
            "\nIt has entries of others that you have not read: read it before you overwrite it.",
        );
    }
    Reply::text(text)
}

#[cfg(test)]
mod tests;
