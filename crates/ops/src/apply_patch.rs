//! ApplyPatch: applies a patch of one or many files, to all of them or to none.
//!
//! The [patch](crate::patch) names the files and their changes. Every path is contained before any file is
//! read. A symbolic link is followed only where a file's content changes, never where a name is created,
//! removed or moved. New contents are computed in memory, each entry on the result of the one before. Then
//! all files change together, each only if it is still as it was read.
//!
//! As `git apply`, it rejects creating an existing file, deleting a file with other content, and changing a
//! missing file. It decodes and encodes text as Edit does and rejects hunks for binary content. Everything
//! that the patch does not mention stays; a renamed file keeps its attributes.
//!
//! Deliberately absent: directories. Missing ones are created and empty ones stay. Rejected: replacing a
//! file by a directory or the reverse and, as by git, a second rename of a file.

mod names;
mod shown;
mod work;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use self_cell::self_cell;
use serde::{Deserialize, Deserializer};
use sinew_tool::{
    Claim, Context, Cost, Effects, Facts, FileSettings, FileState, Kind, Operation, Param,
    ParamKind, Preset, Preview, Reply, Row, Shaping, Targets, ToolError,
};

use crate::edit;
use crate::patch::{self, FilePatch, Match, Patch, PatchOp};
use names::EntryNames;
use work::Work;

/// The largest patch, in bytes.
const MAX_PATCH_BYTES: usize = 64 << 20;

/// Patches up to this size, of a few small files, are applied on the thread that read the call.
const SMALL: usize = 64 * 1024;
const FEW: usize = 8;

/// Applies a patch.
#[derive(Debug)]
pub struct ApplyPatch;

/// Arguments of ApplyPatch.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplyPatchArgs {
    /// The patch: a unified or git diff, or an envelope.
    #[serde(deserialize_with = "shared")]
    pub patch: Arc<String>,
    /// The one file to patch, overriding the headers.
    #[serde(default)]
    pub path: Option<String>,
    /// How many leading parts of a diff's names are stripped.
    #[serde(default)]
    pub strip: Option<u32>,
    /// Whether this is a dry run: the changes are only shown.
    #[serde(default)]
    pub dry_run: bool,
    /// Whether the target of a symbolic link is changed; else a link is rejected.
    #[serde(default)]
    pub follow_links: bool,
    /// Whether only hunks apply: no header deletes a file or changes its mode.
    #[serde(default)]
    pub content_only: bool,
    /// The parsed patch, kept for the whole call, also while it waits for an answer: 64 bytes a hunk.
    #[serde(skip)]
    asked: OnceLock<Arc<Asked>>,
}

self_cell! {
    /// A patch and its parsed form.
    struct Asked {
        owner: Arc<String>,
        #[covariant]
        dependent: Parsed,
    }

    impl {Debug}
}

/// The changes that a patch asks for.
#[derive(Debug)]
struct Parsed<'p> {
    patch: Patch<'p>,
    names: EntryNames,
}

fn shared<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<String>, D::Error> {
    String::deserialize(deserializer).map(Arc::new)
}

impl ApplyPatchArgs {
    /// Returns the parsed patch: each step of a call needs it, and only the first one parses.
    fn asked(&self) -> Result<Arc<Asked>, ToolError> {
        if let Some(asked) = self.asked.get() {
            return Ok(Arc::clone(asked));
        }
        let asked = Asked::try_new(Arc::clone(&self.patch), |text| {
            let patch = self.read(text)?;
            let names = EntryNames::of(&patch, self.path.as_deref())?;
            Ok::<_, ToolError>(Parsed { patch, names })
        })?;
        Ok(Arc::clone(self.asked.get_or_init(|| Arc::new(asked))))
    }

    fn read<'p>(&self, text: &'p str) -> Result<Patch<'p>, ToolError> {
        let mut patch =
            patch::parse(text.as_bytes(), self.strip).map_err(|error| error.to_error())?;
        if self.content_only {
            for file in &mut patch.files {
                keep_content(file)?;
            }
        }
        Ok(patch)
    }
}

/// Outcome of ApplyPatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyPatchOut {
    /// The outcome of each file, in the order of the patch.
    pub files: Vec<Patched>,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// The changes as a unified diff in a dry run, else nothing.
    pub diff: String,
}

/// The change of one file by a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patched {
    /// The operation.
    pub what: What,
    /// The real path; the new one of a rename or copy.
    pub path: PathBuf,
    /// The real path before, of a file that got another name or was copied.
    pub from: Option<PathBuf>,
    /// How each hunk was found, in the order of the patch.
    pub hunks: Vec<Match>,
}

/// The operation on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It was made.
    Added,
    /// Its content or its mode was changed.
    Modified,
    /// It was removed.
    Deleted,
    /// It got another name.
    Renamed,
    /// A copy was made.
    Copied,
}

impl What {
    /// Returns the letter that git gives it.
    pub fn letter(self) -> char {
        match self {
            Self::Added => 'A',
            Self::Modified => 'M',
            Self::Deleted => 'D',
            Self::Renamed => 'R',
            Self::Copied => 'C',
        }
    }
}

/// The native row.
pub const NATIVE: Row<ApplyPatch> = Row {
    name: "ApplyPatch",
    description: "Applies a unified or git diff, or a *** Begin Patch envelope: to all files or none.",
    params: &[
        Param::required("patch", "patch", ParamKind::String, ""),
        Param::optional("path", "path", ParamKind::String, "Patch this file, whatever it names"),
        Param::optional(
            "strip",
            "strip",
            ParamKind::Integer { min: 0, cap: Some(64) },
            "Path parts to strip",
        ),
        Param::optional("dry_run", "dry_run", ParamKind::Boolean, "Only the diff"),
    ],
    presets: &[("follow_links", Preset::Bool(true))],
    ..Row::shaped(shape)
};

impl Operation for ApplyPatch {
    const NAME: &'static str = "ApplyPatch";
    const FACTS: Facts = Facts::CHANGES;
    type Args = ApplyPatchArgs;
    type Out = ApplyPatchOut;

    fn check(args: &ApplyPatchArgs) -> Result<(), ToolError> {
        if MAX_PATCH_BYTES < args.patch.len() {
            let n = args.patch.len();
            let message =
                format!("the patch has {n} bytes, and at most {MAX_PATCH_BYTES} are read");
            return Err(ToolError::new(Kind::TooLarge, message).hint("send it in parts"));
        }
        args.asked().map(drop)
    }

    fn effects(args: &ApplyPatchArgs) -> Effects {
        edit::effects(args.dry_run)
    }

    fn claims(args: &ApplyPatchArgs, _settings: &FileSettings) -> Vec<Claim> {
        // An invalid patch was rejected before.
        let claims = |asked: Arc<Asked>| asked.borrow_dependent().names.claims(args);
        args.asked().map(claims).unwrap_or_default()
    }

    fn cost(args: &ApplyPatchArgs, targets: &Targets) -> Cost {
        let size = |state: &FileState| match state {
            FileState::Found(meta) => usize::try_from(meta.size()).unwrap_or(usize::MAX),
            FileState::Missing => 0,
        };
        let sizes = targets.files.iter().map(|target| size(&target.state));
        let total = sizes.fold(args.patch.len(), usize::saturating_add);
        if targets.files.len() <= FEW && total <= SMALL { Cost::Cheap } else { Cost::Long }
    }

    fn preview(args: &ApplyPatchArgs, cx: &Context) -> Preview {
        let diff = args.asked().and_then(|asked| {
            let Parsed { patch, names } = asked.borrow_dependent();
            Ok(Work::new(cx, names)?.run(patch)?.question())
        });
        diff.map_or(Preview::Nothing, Preview::Diff)
    }

    async fn run(args: &ApplyPatchArgs, cx: &Context) -> Result<ApplyPatchOut, ToolError> {
        let asked = args.asked()?;
        let Parsed { patch, names } = asked.borrow_dependent();
        let done = Work::new(cx, names)?.run(patch)?;
        let diff = if args.dry_run { done.diff() } else { String::new() };
        if !args.dry_run {
            cx.still_wanted()?;
            let deeds = done.deeds();
            let deeds: Vec<_> = deeds.iter().map(work::EntryChange::deed).collect();
            cx.commit(&deeds).await?;
        }
        Ok(ApplyPatchOut { files: done.patched, dry_run: args.dry_run, diff })
    }
}

/// Reduces an entry to its change of the content.
fn keep_content(file: &mut FilePatch<'_>) -> Result<(), ToolError> {
    let creates = file.deed == PatchOp::Create;
    if file.hunks.is_empty() && !creates {
        let problem = "has no hunks, so it does not change the content of a file";
        let message = format!("the entry at line {} of the patch {problem}", file.line);
        return Err(ToolError::new(Kind::InvalidArgs, message)
            .hint("send hunks; files are not removed and modes are not changed here"));
    }
    if file.deed == PatchOp::Delete {
        file.deed = PatchOp::Change;
    }
    (file.old_mode, file.new_mode) = (None, None);
    Ok(())
}

fn shape(_args: &ApplyPatchArgs, out: ApplyPatchOut, shaping: &Shaping<'_>) -> Reply {
    let n = out.files.len();
    let plural = if n == 1 { "" } else { "s" };
    let verb = if out.dry_run { "would patch" } else { "patched" };
    let mut text = format!("{verb} {n} file{plural}\n");
    for file in &out.files {
        text.push_str(&line(file, shaping));
        text.push('\n');
    }
    text.push_str(&out.diff);
    Reply::text(text)
}

/// Returns the reply line of one file: its operation, and how each inexact hunk was found.
fn line(file: &Patched, shaping: &Shaping<'_>) -> String {
    const MAX_TOLD: usize = 8;
    let path = shaping.shown(&file.path);
    let name = match &file.from {
        Some(from) => format!("{} -> {path}", shaping.shown(from)),
        None => path,
    };
    let words = |(at, hunk): (usize, &Match)| Some(format!("hunk #{}: {}", at + 1, hunk.words()?));
    let mut told: Vec<String> = file.hunks.iter().enumerate().filter_map(words).collect();
    let n_more = told.len().saturating_sub(MAX_TOLD);
    if 0 < n_more {
        told.truncate(MAX_TOLD);
        told.push(format!("{n_more} more hunks"));
    }
    let how = if told.is_empty() { String::new() } else { format!(" ({})", told.join("; ")) };
    format!("{} {name}{how}", file.what.letter())
}

#[cfg(test)]
mod tests;
