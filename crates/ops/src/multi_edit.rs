//! MultiEdit: replaces several texts of one file, all or none.
//!
//! Each edit works on the result of the one before. The file is read once and written once.

use std::path::PathBuf;

use serde::Deserialize;
use sinew_tool::{
    Claim, Context, Cost, Effects, Facts, FileSettings, FileTarget, Operation, Param, ParamKind,
    Preset, Preview, Reply, Row, Shaping, Targets, ToolError,
};

use crate::batch::{self, Edited, Failed};
use crate::diff::{self, DiffLimits};
use crate::edit::{self, EditNumber};
use crate::replace::{self, Needle, Stage};
use crate::source;

pub use crate::batch::AppliedEdit;

/// Replaces several texts in a file.
#[derive(Debug)]
pub struct MultiEdit;

/// Arguments of MultiEdit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MultiEditArgs {
    /// The file.
    pub path: String,
    /// The edits, in order.
    pub edits: Vec<Replacement>,
    /// Whether one place that differs in blanks, indentation or quotes is found too.
    #[serde(default)]
    pub loose: bool,
    /// Whether errors may offer `loose`: some callers have no such argument.
    #[serde(default)]
    pub offers_loose: bool,
    /// Whether this is a dry run: the change is only shown.
    #[serde(default)]
    pub dry_run: bool,
    /// The SHA-256 that the whole file must have, in hex.
    #[serde(default)]
    pub expected_sha256: Option<String>,
    /// Whether the target of a symbolic link is changed; else a link is rejected.
    #[serde(default)]
    pub follow_links: bool,
    /// Whether the whole change is shown, with four lines of context, and errors quote the missing text.
    #[serde(default)]
    pub in_full: bool,
}

/// One edit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replacement {
    /// The text to find.
    pub old_string: String,
    /// The replacement, literally.
    pub new_string: String,
    /// Whether every place is replaced.
    #[serde(default)]
    pub replace_all: bool,
}

/// Outcome of MultiEdit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultiEditOut {
    /// The real path.
    pub path: PathBuf,
    /// The outcome of each edit, in order.
    pub applied: Vec<AppliedEdit>,
    /// The encoding of the file, where it is not UTF-8.
    pub encoding: Option<&'static str>,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Whether a replacement brought LF into a line of a file with CRLF.
    pub mixes_endings: bool,
    /// The size of the new content.
    pub bytes: u64,
    /// The first places as a unified diff without title; the whole change in a dry run.
    pub diff: String,
}

impl MultiEditOut {
    /// Returns whether any text was found only with other line endings.
    pub fn matched_other_endings(&self) -> bool {
        self.applied.iter().any(|applied| applied.stage == Stage::LineEndings)
    }

    /// Returns the last stage that a text needed to be found.
    pub fn stage(&self) -> Stage {
        self.applied.iter().map(|applied| applied.stage).max().unwrap_or(Stage::Exact)
    }
}

const EDITS: &[Param] = &[
    Param::required("old_string", "old_string", ParamKind::String, ""),
    Param::required("new_string", "new_string", ParamKind::String, ""),
    Param::optional("replace_all", "replace_all", ParamKind::Boolean, ""),
];

/// The native row.
pub const NATIVE: Row<MultiEdit> = Row {
    name: "MultiEdit",
    description: "Applies several Edits to one file in order: all or none.",
    params: &[
        Param::required("file_path", "path", ParamKind::String, "").also(&["path"]),
        Param::required("edits", "edits", ParamKind::Objects(EDITS), ""),
        Param::optional("loose", "loose", ParamKind::Boolean, "As in Edit"),
        Param::optional("dry_run", "dry_run", ParamKind::Boolean, ""),
        Param::optional("expected_sha256", "expected_sha256", ParamKind::String, ""),
    ],
    presets: &[("follow_links", Preset::Bool(true)), ("offers_loose", Preset::Bool(true))],
    core: false,
    ..Row::shaped(shape)
};

impl Operation for MultiEdit {
    const NAME: &'static str = "MultiEdit";
    const FACTS: Facts = Facts::CHANGES;
    type Args = MultiEditArgs;
    type Out = MultiEditOut;

    fn check(args: &MultiEditArgs) -> Result<(), ToolError> {
        if args.edits.is_empty() {
            return Err(ToolError::argument("edits", "must hold at least one item"));
        }
        source::check_digits(args.expected_sha256.as_deref())?;
        args.edits.iter().enumerate().try_for_each(|(at, edit)| {
            let prefix = format!("edits[{at}].");
            edit::check_texts(&prefix, &args.path, &edit.old_string, &edit.new_string)
        })
    }

    fn effects(args: &MultiEditArgs) -> Effects {
        edit::effects(args.dry_run)
    }

    fn claims(args: &MultiEditArgs, _settings: &FileSettings) -> Vec<Claim> {
        vec![edit::claim(&args.path, args.dry_run, args.follow_links)]
    }

    fn cost(_args: &MultiEditArgs, targets: &Targets) -> Cost {
        edit::cost(targets)
    }

    fn preview(args: &MultiEditArgs, cx: &Context) -> Preview {
        let Ok(target) = cx.target(0) else { return Preview::Nothing };
        let edits = edits(args);
        let expected = args.expected_sha256.as_deref();
        let diff = source::load(cx, target, expected).and_then(|loaded| {
            let edited = apply(args, cx, target, loaded.text(), &edits)?;
            loaded.encoded(cx, target, &edited.base, &edited.changes)?;
            Ok(diff(loaded.text(), &edited, edit::question_limits(cx)))
        });
        edit::preview(cx, target, diff)
    }

    async fn run(args: &MultiEditArgs, cx: &Context) -> Result<MultiEditOut, ToolError> {
        let target = cx.target(0)?;
        let edits = edits(args);
        let loaded = source::load(cx, target, args.expected_sha256.as_deref())?;
        let edited = apply(args, cx, target, loaded.text(), &edits)?;
        let limits = match (args.in_full, args.dry_run) {
            (true, _) => DiffLimits::in_full(),
            (false, true) => edit::dry_run_limits(cx),
            (false, false) => DiffLimits::reply(),
        };
        let diff = diff(loaded.text(), &edited, limits);
        let mixes_endings = edit::mixes_endings(&edited.base, &edited.changes);
        let bytes =
            edit::write(cx, target, &loaded, &edited.base, &edited.changes, args.dry_run).await?;
        Ok(MultiEditOut {
            path: target.path.clone(),
            applied: edited.applied,
            encoding: loaded.encoding(),
            dry_run: args.dry_run,
            mixes_endings,
            bytes,
            diff,
        })
    }
}

fn edits(args: &MultiEditArgs) -> Vec<batch::BatchEdit<'_>> {
    let needles = args.edits.iter().map(|edit| batch::BatchEdit {
        needle: Needle::new(&edit.old_string, &edit.new_string, args.loose),
        all: edit.replace_all,
    });
    needles.collect()
}

fn apply<'a>(
    args: &MultiEditArgs,
    cx: &Context,
    target: &FileTarget,
    old: &'a [u8],
    edits: &'a [batch::BatchEdit<'a>],
) -> Result<Edited<'a>, ToolError> {
    batch::apply(old, edits).map_err(|failed| {
        let shown = cx.shown(&target.path);
        match edits.get(failed.at) {
            Some(edit) => {
                let place = EditNumber::At(failed.at);
                let offers_loose = args.offers_loose && !edit.all;
                let Failed { miss, text, .. } = &failed;
                let error = edit::missed(miss, &edit.needle, text, &shown, &place, offers_loose);
                match args.in_full {
                    true => {
                        let message = format!("{}\n{}", error.message, edit.needle.old);
                        ToolError { message: message.into(), ..error }
                    }
                    false => error,
                }
            }
            None => ToolError::new(sinew_tool::Kind::ExecutionFailed, "an edit was lost"),
        }
    })
}

/// Returns the diff of a file and its edited content.
fn diff(old: &[u8], edited: &Edited<'_>, limits: DiffLimits) -> String {
    match &edited.base {
        std::borrow::Cow::Borrowed(_) => diff::of_changes(old, &edited.changes, limits),
        std::borrow::Cow::Owned(base) => {
            let new = replace::pieces(base, &edited.changes).concat();
            diff::of_contents(old, &new, limits)
        }
    }
}

fn shape(_args: &MultiEditArgs, out: MultiEditOut, shaping: &Shaping<'_>) -> Reply {
    let n: u64 = out.applied.iter().map(|applied| applied.replacements).sum();
    let head = format!(
        "{} {}: {} edits, {n} replacement{} ({})",
        if out.dry_run { "would edit" } else { "edited" },
        shaping.shown(&out.path),
        out.applied.len(),
        if n == 1 { "" } else { "s" },
        out.stage().as_str()
    );
    Reply::text(edit::text(&head, &out.diff, out.encoding, out.mixes_endings))
}
