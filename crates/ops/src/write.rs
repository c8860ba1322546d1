//! Write: replaces the content of a file.
//!
//! The replacement is atomic: a reader sees the old content or the new one. The old content matters where
//! the caller knows another one, states its hash, or omits some of it; the change is then bound to it.

use std::io::Read;
use std::path::PathBuf;

use serde::Deserialize;
use sinew_tool::{
    Access, Claim, Context, Cost, Expect, Facts, FileError, FileSettings, FileState, FileTarget,
    Kind, Links, Operation, Param, ParamKind, Preset, Preview, Reply, Row, Shaping, Targets,
    ToolError,
};

use crate::diff::{self, DiffLimits};
use crate::edit;
use crate::omission;
use crate::source::{self, ContentKind, Whole};

/// The largest old or new content that a preview compares.
const MAX_COMPARED: u64 = 1 << 20;

/// The largest content that is written on the thread that read the call.
const SMALL: usize = 1 << 20;

/// Writes a file.
#[derive(Debug)]
pub struct Write;

/// Arguments of Write.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteArgs {
    /// The file.
    pub path: String,
    /// Its new content.
    pub content: String,
    /// Whether missing parent directories are created.
    #[serde(default)]
    pub parents: bool,
    /// The SHA-256 that the whole file must have, in hex.
    #[serde(default)]
    pub expected_sha256: Option<String>,
    /// Whether the target of a symbolic link is changed; else a link is rejected.
    #[serde(default)]
    pub follow_links: bool,
}

/// Outcome of Write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOut {
    /// The real path.
    pub path: PathBuf,
    /// The size of the new content.
    pub bytes_written: u64,
    /// Whether the file did not exist before.
    pub created: bool,
}

/// The native row.
pub const NATIVE: Row<Write> = Row {
    name: "Write",
    description: "Creates or replaces a file, with its directories.",
    params: &[
        Param::required("file_path", "path", ParamKind::String, "").also(&["path"]),
        Param::required("content", "content", ParamKind::String, ""),
        Param::optional("expected_sha256", "expected_sha256", ParamKind::String, ""),
    ],
    presets: &[("parents", Preset::Bool(true)), ("follow_links", Preset::Bool(true))],
    ..Row::shaped(shape)
};

impl Operation for Write {
    const NAME: &'static str = "Write";
    const FACTS: Facts = Facts { idempotent: true, ..Facts::CHANGES };
    type Args = WriteArgs;
    type Out = WriteOut;

    fn check(args: &WriteArgs) -> Result<(), ToolError> {
        if 1 < args.path.len() && args.path.ends_with('/') {
            let problem = format!("a path that ends in a slash names no file: {}", args.path);
            return Err(ToolError::new(Kind::InvalidPath, problem).hint(
                "name the file to write in it; a directory needs no call of its own, since the \
                 missing ones above a file are created",
            ));
        }
        source::check_digits(args.expected_sha256.as_deref())
    }

    fn claims(args: &WriteArgs, _settings: &FileSettings) -> Vec<Claim> {
        let links = if args.follow_links { Links::Follow } else { Links::Refuse };
        let access = Access::Write { parents: args.parents, links };
        vec![Claim::new("path", Some(args.path.clone()), access)]
    }

    fn cost(args: &WriteArgs, targets: &Targets) -> Cost {
        // The old content is read too, to be hashed.
        if args.content.len() <= SMALL { edit::cost(targets) } else { Cost::Long }
    }

    fn preview(args: &WriteArgs, cx: &Context) -> Preview {
        let Ok(target) = cx.target(0) else { return Preview::Nothing };
        if old(args, cx, target).is_err() {
            return Preview::Nothing;
        }
        let shown = cx.shown(&target.path);
        let new = args.content.as_bytes();
        let (created, old) = match cx.world.files.open(target.slot) {
            Ok(opened) => {
                let mut old = Vec::new();
                let read = (&opened.file).take(MAX_COMPARED + 1).read_to_end(&mut old);
                (false, read.map(|_| old).unwrap_or_default())
            }
            Err(FileError::Missing) => (true, Vec::new()),
            Err(FileError::Permission) => return Preview::Unknown,
            Err(_) => return Preview::Nothing,
        };
        let limits = edit::question_limits(cx);
        Preview::Diff(diff::titled(&shown, created, &replaced(&old, new, limits)))
    }

    async fn run(args: &WriteArgs, cx: &Context) -> Result<WriteOut, ToolError> {
        let target = cx.target(0)?;
        let old = old(args, cx, target)?;
        let expect = match &old {
            Some(old) => Expect::Same(old.seen()),
            None => Expect::Any,
        };
        let written = cx.replace(target, &[args.content.as_bytes()], expect).await?;
        Ok(WriteOut {
            path: target.path.clone(),
            bytes_written: written.bytes,
            created: written.created,
        })
    }
}

/// Returns the diff of a whole replacement: all new content, and of old content that cannot be shown as lines the
/// size. The old content was read up to [`MAX_COMPARED`] and one byte more.
pub(crate) fn replaced(old: &[u8], new: &[u8], limits: DiffLimits) -> String {
    let gone = match old.len() as u64 {
        n_bytes if MAX_COMPARED < n_bytes => Some(format!("[more than {MAX_COMPARED} bytes go]\n")),
        n_bytes if source::sniff(old) != ContentKind::Text => {
            Some(format!("[{n_bytes} bytes of binary content go]\n"))
        }
        _ => None,
    };
    match gone {
        Some(gone) => gone + &diff::of_contents(&[], new, limits),
        None => diff::of_contents(old, new, limits),
    }
}

/// Returns the old content where the write depends on it, or rejects; the change itself checks a large one.
fn old(args: &WriteArgs, cx: &Context, target: &FileTarget) -> Result<Option<Whole>, ToolError> {
    let leaves_out = omission::find(&args.path, &args.content).next().is_some();
    let expected = args.expected_sha256.as_deref();
    let is_small = match &target.state {
        FileState::Found(meta) => meta.size() <= MAX_COMPARED,
        FileState::Missing => false,
    };
    let is_known = is_small && cx.world.knowledge.minds(target.slot);
    if !leaves_out && expected.is_none() && !is_known {
        return Ok(None);
    }
    let old = match source::whole_if_known(cx, target) {
        // The old file is gone, so nothing is lost.
        Err(error) if error.kind == Kind::FileNotFound && expected.is_none() => {
            omission::check("content", &args.path, &args.content, "")?;
            return Ok(None);
        }
        whole => whole?,
    };
    source::check_sha256(cx, target, expected, &old.bytes)?;
    if leaves_out {
        omission::check(
            "content",
            &args.path,
            &args.content,
            &String::from_utf8_lossy(&old.bytes),
        )?;
    }
    Ok(Some(old))
}

fn shape(_args: &WriteArgs, out: WriteOut, shaping: &Shaping<'_>) -> Reply {
    Reply::text(format!(
        "{} {}: {} bytes",
        if out.created { "created" } else { "wrote" },
        shaping.shown(&out.path),
        out.bytes_written
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sinew_testkit::{MemoryWorld, call};
    use sinew_tool::Block;

    use super::*;

    /// Regression: a few bytes in place of many ran on the thread that reads calls, which then read the many.
    #[test]
    fn what_is_replaced_counts_as_what_is_written() {
        let world = MemoryWorld::new();
        world.file("small", "x").file("large", vec![b'x'; 300 << 10]);
        for (path, n_bytes, expected) in [
            ("new", 1, Cost::Cheap),
            ("new", SMALL, Cost::Cheap),
            ("new", SMALL + 1, Cost::Long),
            ("small", 1, Cost::Cheap),
            ("large", 1, Cost::Long),
        ] {
            let (path, content) = (path.to_owned(), "y".repeat(n_bytes));
            let expected_sha256 = None;
            let args =
                WriteArgs { path, content, parents: false, expected_sha256, follow_links: false };
            let claims = Write::claims(&args, &world.settings);
            let targets = world.contain(claims).expect("the path is in the root");
            assert_eq!(Write::cost(&args, &targets), expected, "{}: {n_bytes}", args.path);
        }
    }

    /// Regression: a name with a line feed made a second line of the reply.
    #[test]
    fn a_reply_has_one_line_whatever_the_name() {
        let world = MemoryWorld::new();
        for (path, expected) in [
            ("a b", "created a b: 1 bytes"),
            ("a\nwrote b: 1 bytes", "created \"a\\nwrote b: 1 bytes\": 1 bytes"),
            ("a\x1b[2J", "created \"a\\033[2J\": 1 bytes"),
        ] {
            let reply = call(&world, &NATIVE.tool(), json!({"file_path": path, "content": "x"}));
            let Some(Block::Text { text }) = reply.content.first() else { panic!("{reply:?}") };
            assert!(text.starts_with(expected), "{text}");
        }
    }

    /// Regression: a new directory was reported as a missing file.
    #[test]
    fn a_path_that_ends_in_a_slash_is_no_file() {
        let world = MemoryWorld::new();
        for path in ["newd/", "a/b//"] {
            let reply = call(&world, &NATIVE.tool(), json!({"file_path": path, "content": "x"}));
            let error = reply.error.expect("an error");
            assert_eq!(error.kind, Kind::InvalidPath);
            assert_eq!(error.message, format!("a path that ends in a slash names no file: {path}"));
        }
    }
}
