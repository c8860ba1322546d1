//! The dialect of codex: `apply_patch`, whose only argument is an envelope.
//!
//! The reply lists changed names with a letter: added, then modified, then deleted. A moved file counts as
//! modified, under its new name.
//!
//! Differences from the program: the patch is atomic over all files. An ambiguous hunk, other blanks within
//! a line, and `*** Add File: ` over an existing file are refused. A unified diff works too.
//! A refusal names the line and the text most similar to the hunk.
//!
//! Blanks around a marker are ignored, as by the program. Within a hunk, a marker after a blank is an unchanged
//! line where no other marker of the patch has blanks before it and a hunk could go on behind it; the program
//! takes it for a marker.

use std::sync::Arc;

use sinew_ops::apply_patch::{ApplyPatch, ApplyPatchOut, What};
use sinew_tool::{
    Conventions, Dialect, FileSettings, Param, ParamKind, Preset, Reply, Row, Shaping, Tool,
    ToolError,
};

use crate::words::{hint, said};

/// The dialect of codex.
pub const CODEX: Dialect = Dialect {
    name: "codex",
    tools,
    settings,
    approval_timeout_ms: 300_000,
    conventions: Conventions::DEFAULT,
};

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

/// Shapes a refusal: verification failed before any write.
fn fail(error: &ToolError, _: Option<&str>) -> Reply {
    // The dialect has no argument `path`.
    let message = error.message.replace("argument `path` is missing", "the patch names no file");
    let message = format!("apply_patch verification failed: {message}");
    let hint = hint(error);
    let hint = hint.map(|hint| hint.replace("pass it as path", "write `*** Update File: ` before"));
    said(error, message, hint)
}
