//! The dialect of codex: `apply_patch`, whose one argument is an envelope.
//!
//! The answer is a list of names with a letter each: those that were added, then those that were
//! modified, then those that were deleted. A file that gets another name is modified, and its new name
//! is told.
//!
//! What differs from the program: all files change or none does, a hunk that fits in two places is
//! refused, blanks within lines are not forgiven, a file that is there is not overwritten by
//! `*** Add File: `, and a diff is taken too. A refusal names the line and what is most like the hunk.

use std::sync::Arc;

use sinew_ops::apply_patch::{ApplyPatch, ApplyPatchOut, What};
use sinew_tool::{
    Dialect, FileSettings, Param, ParamKind, Preset, Reply, Row, Shaping, Tool, ToolError,
};

use crate::words::{hint, said};

/// The dialect of codex.
pub const CODEX: Dialect = Dialect { name: "codex", tools, settings, approval_timeout_ms: 300_000 };

fn tools() -> Vec<Arc<dyn Tool>> {
    vec![APPLY_PATCH.tool()]
}

fn settings() -> FileSettings {
    FileSettings::default()
}

const APPLY_PATCH: Row<ApplyPatch> = Row {
    name: "apply_patch",
    description: "Edits files by a patch: `*** Begin Patch`, then each file after `*** Add File: `, \
                  `*** Update File: ` or `*** Delete File: `, then `*** End Patch`.",
    params: &[Param::required("input", "patch", ParamKind::String, "The whole patch")],
    presets: &[("follow_links", Preset::Bool(true))],
    fail,
    ..Row::<ApplyPatch>::shaped(|_, out, shaping| summary(&out, shaping))
};

fn summary(out: &ApplyPatchOut, shaping: &Shaping<'_>) -> Reply {
    let letter = |what: What| match what {
        What::Added | What::Copied => 'A',
        What::Modified | What::Renamed => 'M',
        What::Deleted => 'D',
    };
    let mut text = String::from("Success. Updated the following files:\n");
    for wanted in ['A', 'M', 'D'] {
        for file in out.files.iter().filter(|file| letter(file.what) == wanted) {
            text.push_str(&format!("{wanted} {}\n", shaping.shown(&file.path)));
        }
    }
    Reply::text(text)
}

/// Shapes a refusal: the patch was looked at before anything was written.
fn fail(error: &ToolError, _: Option<&str>) -> Reply {
    // No argument has this name here.
    let message = error.message.replace("argument `path` is missing", "the patch names no file");
    let message = format!("apply_patch verification failed: {message}");
    let hint = hint(error);
    let hint = hint.map(|hint| hint.replace("pass it as path", "write `*** Update File: ` before"));
    said(error, message, hint)
}
