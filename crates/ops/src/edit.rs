//! Edit: replaces one text of a file by another.
//!
//! The text must occur once, unless `replace_all` is set. Every byte outside the matches stays: byte order
//! mark, line endings, invalid UTF-8, a missing final newline. The new file is written from slices of the
//! old one, so a large file is not copied in memory. A file in another encoding is decoded and encoded
//! again where that round trip is exact. The error for a missing text shows the most similar one.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use sinew_tool::{
    Access, Claim, Context, Cost, Effects, Expect, Facts, FileSettings, FileState, FileTarget,
    Kind, Links, Operation, Param, ParamKind, Preset, Preview, Reply, Row, Shaping, Targets,
    ToolError,
};

use crate::diff::{self, DiffLimits};
use crate::lines::n_line_ends;
use crate::nearest;
use crate::omission;
use crate::replace::{self, ContentChange, Miss, Needle, Stage};
use crate::source::{self, Loaded};

/// Files up to this size are edited on the thread that read the call.
const SMALL: u64 = 256 * 1024;

/// The largest file, in bytes, that is kept in memory while a question about its change waits.
const MAX_KEPT: usize = 1 << 20;

/// More changes than this are written as one content, not as pieces.
const MAX_PIECES: usize = 1 << 16;

/// Replaces a text in a file.
#[derive(Debug)]
pub struct Edit;

/// Arguments of Edit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditArgs {
    /// The file.
    pub path: String,
    /// The text to find.
    pub old_string: String,
    /// The replacement, literally.
    pub new_string: String,
    /// Whether every place is replaced.
    #[serde(default)]
    pub replace_all: bool,
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
    /// What the preview found, so that an approved call neither loads nor searches the file again.
    #[serde(skip)]
    found: Arc<OnceLock<FoundPlaces>>,
}

/// Outcome of Edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditOut {
    /// The real path.
    pub path: PathBuf,
    /// How many places were replaced.
    pub replacements: u64,
    /// How the text was found.
    pub stage: Stage,
    /// The encoding of the file, where it is not UTF-8.
    pub encoding: Option<&'static str>,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Whether the replacement brought LF into a line of a file with CRLF.
    pub mixes_endings: bool,
    /// The size of the new content.
    pub bytes: u64,
    /// The first places as a unified diff without title; the whole change in a dry run.
    pub diff: String,
}

/// The native row.
pub const NATIVE: Row<Edit> = Row {
    name: "Edit",
    description: "Replaces old_string, found exactly once, by new_string.",
    params: &[
        Param::required("file_path", "path", ParamKind::String, "").also(&["path"]),
        Param::required("old_string", "old_string", ParamKind::String, "Without line numbers"),
        Param::required("new_string", "new_string", ParamKind::String, ""),
        Param::optional(
            "replace_all",
            "replace_all",
            ParamKind::Boolean,
            "Replace every occurrence",
        ),
        Param::optional("loose", "loose", ParamKind::Boolean, "Ignore whitespace, indent, quotes"),
        Param::optional("dry_run", "dry_run", ParamKind::Boolean, "Only the diff"),
        Param::optional("expected_sha256", "expected_sha256", ParamKind::String, ""),
    ],
    presets: &[("follow_links", Preset::Bool(true)), ("offers_loose", Preset::Bool(true))],
    ..Row::shaped(shape)
};

impl Operation for Edit {
    const NAME: &'static str = "Edit";
    const FACTS: Facts = Facts::CHANGES;
    type Args = EditArgs;
    type Out = EditOut;

    fn check(args: &EditArgs) -> Result<(), ToolError> {
        source::check_digits(args.expected_sha256.as_deref())?;
        check_texts("", &args.path, &args.old_string, &args.new_string)
    }

    fn effects(args: &EditArgs) -> Effects {
        effects(args.dry_run)
    }

    fn claims(args: &EditArgs, _settings: &FileSettings) -> Vec<Claim> {
        vec![claim(&args.path, args.dry_run, args.follow_links)]
    }

    fn cost(_args: &EditArgs, targets: &Targets) -> Cost {
        cost(targets)
    }

    fn preview(args: &EditArgs, cx: &Context) -> Preview {
        let Ok(target) = cx.target(0) else { return Preview::Nothing };
        let needle = args.needle();
        let diff = FoundPlaces::of(args, cx, target, &needle).and_then(|found| {
            let (text, changes) = (found.loaded.text(), found.changes(&needle));
            found.loaded.encoded(cx, target, text, &changes)?;
            let diff = diff::of_changes(text, &changes, question_limits(cx));
            if found.loaded.seen().content.len() <= MAX_KEPT {
                // A second preview finds the same.
                let _ = args.found.set(found);
            }
            Ok(diff)
        });
        preview(cx, target, diff)
    }

    async fn run(args: &EditArgs, cx: &Context) -> Result<EditOut, ToolError> {
        let target = cx.target(0)?;
        let needle = args.needle();
        let now;
        let found = match args.found.get() {
            Some(found) => found,
            None => {
                now = FoundPlaces::of(args, cx, target, &needle)?;
                &now
            }
        };
        let FoundPlaces { loaded, stage, ranges } = found;
        let (text, changes) = (loaded.text(), found.changes(&needle));
        let limits = if args.dry_run { dry_run_limits(cx) } else { DiffLimits::reply() };
        let diff = diff::of_changes(text, &changes, limits);
        let mixes_endings = mixes_endings(text, &changes);
        let bytes = write(cx, target, loaded, text, &changes, args.dry_run).await?;
        Ok(EditOut {
            path: target.path.clone(),
            replacements: ranges.len() as u64,
            stage: *stage,
            encoding: loaded.encoding(),
            dry_run: args.dry_run,
            mixes_endings,
            bytes,
            diff,
        })
    }
}

impl EditArgs {
    fn needle(&self) -> Needle<'_> {
        Needle::new(&self.old_string, &self.new_string, self.loose)
    }
}

/// A loaded file and where the text is in it.
#[derive(Debug)]
struct FoundPlaces {
    loaded: Loaded,
    stage: Stage,
    ranges: Vec<Range<usize>>,
}

impl FoundPlaces {
    fn of(
        args: &EditArgs,
        cx: &Context,
        target: &FileTarget,
        needle: &Needle<'_>,
    ) -> Result<Self, ToolError> {
        let loaded = source::load(cx, target, args.expected_sha256.as_deref())?;
        let text = loaded.text();
        let found = needle.find(text, args.replace_all).map_err(|miss| {
            let offers_loose = args.offers_loose && !args.replace_all;
            let shown = cx.shown(&target.path);
            missed(&miss, needle, text, &shown, &EditNumber::Only, offers_loose)
        })?;
        Ok(Self { stage: found.stage, ranges: found.ranges, loaded })
    }

    fn changes<'n>(&self, needle: &'n Needle<'n>) -> Vec<ContentChange<'n>> {
        let ranges = self.ranges.iter().cloned();
        ranges.flat_map(|range| needle.changes(self.loaded.text(), range, self.stage)).collect()
    }
}

/// Which edit of a call an error is about.
pub(crate) enum EditNumber {
    Only,
    /// One of several, counted from 0.
    At(usize),
}

/// Returns the error of a failed edit; `offers_loose` says whether the caller can ask for other forms.
pub(crate) fn missed(
    miss: &Miss,
    needle: &Needle<'_>,
    text: &[u8],
    shown: &str,
    place: &EditNumber,
    offers_loose: bool,
) -> ToolError {
    let (prefix, old) = match place {
        EditNumber::Only => (String::new(), String::from("old_string")),
        EditNumber::At(at) => (format!("edit #{}: ", at + 1), format!("edits[{at}].old_string")),
    };
    match miss {
        Miss::Often(count, places) => {
            let mut lines: Vec<String> = Vec::new();
            let (mut from, mut line) = (0, 1);
            for place in places {
                line += n_line_ends(text.get(from..*place).unwrap_or_default());
                from = *place;
                lines.push(line.to_string());
            }
            let more = if lines.len() as u64 == *count { "" } else { " …" };
            ToolError::new(
                Kind::NotUnique,
                format!(
                    "{prefix}{old} occurs {count} times in {shown}: lines {}{more}",
                    lines.join(", ")
                ),
            )
            .hint("add surrounding lines until it is unique, or set replace_all")
        }
        Miss::Costly => ToolError::new(
            Kind::LimitReached,
            format!(
                "{prefix}{old} is not in {shown} as it is, and looking for it in other forms takes \
                 too long"
            ),
        )
        .hint("read the lines again and send them as they are, with some that are rare"),
        Miss::Nowhere => {
            let mut hints: Vec<String> =
                nearest::regions(text, needle.old).iter().map(nearest::Region::words).collect();
            let new = needle.new.trim();
            if 8 <= new.len() && memchr::memmem::find(text, new.as_bytes()).is_some() {
                hints.insert(0, String::from("new_string is already in the file"));
            }
            if let Some(hint) = needle.hint_loose(text).filter(|_| offers_loose) {
                hints.insert(0, hint);
            }
            if hints.is_empty() {
                hints.push(String::from("no line like it was found; read the file again"));
            }
            ToolError::new(Kind::NoMatch, format!("{prefix}{old} was not found in {shown}"))
                .hint(hints.join("\n\n"))
        }
    }
}

/// Rejects texts that can never be replaced. `prefix` names the edit in messages.
pub(crate) fn check_texts(prefix: &str, path: &str, old: &str, new: &str) -> Result<(), ToolError> {
    if old.is_empty() {
        let name = format!("{prefix}old_string");
        return Err(
            ToolError::argument(&name, "is empty").hint("to create a file, write the whole of it")
        );
    }
    if old == new {
        return Err(ToolError::argument(
            &format!("{prefix}new_string"),
            "is the same as old_string: nothing would change",
        ));
    }
    omission::check(&format!("{prefix}new_string"), path, new, old)
}

pub(crate) fn effects(dry_run: bool) -> Effects {
    if dry_run { Effects::OBSERVE } else { Effects::CHANGE }
}

pub(crate) fn claim(path: &str, dry_run: bool, follow_links: bool) -> Claim {
    let links = if follow_links { Links::Follow } else { Links::Refuse };
    let access = if dry_run { Access::Read } else { Access::Edit { links } };
    Claim::new("path", Some(path.to_owned()), access)
}

pub(crate) fn cost(targets: &Targets) -> Cost {
    match targets.files.first().map(|target| &target.state) {
        Some(FileState::Found(meta)) if SMALL < meta.size() => Cost::Long,
        _ => Cost::Cheap,
    }
}

pub(crate) fn question_limits(cx: &Context) -> DiffLimits {
    DiffLimits::question(comparing(cx))
}

pub(crate) fn dry_run_limits(cx: &Context) -> DiffLimits {
    DiffLimits::dry_run(comparing(cx))
}

/// Returns the deadline for comparing.
fn comparing(cx: &Context) -> Option<std::time::Instant> {
    Some(cx.world.clock.now() + std::time::Duration::from_millis(200))
}

/// Returns the preview of a change, or nothing where the call would fail.
pub(crate) fn preview(
    cx: &Context,
    target: &FileTarget,
    diff: Result<String, ToolError>,
) -> Preview {
    match diff {
        Ok(diff) => Preview::Diff(diff::titled(&cx.shown(&target.path), false, &diff)),
        Err(_) => Preview::Nothing,
    }
}

/// Writes `base` with its changes if the file is still as `loaded`, unless in a dry run; returns the size.
pub(crate) async fn write(
    cx: &Context,
    target: &FileTarget,
    loaded: &Loaded,
    base: &[u8],
    changes: &[ContentChange<'_>],
    dry_run: bool,
) -> Result<u64, ToolError> {
    let expect = Expect::Same(loaded.seen());
    if let Some(content) = loaded.encoded(cx, target, base, changes)? {
        if !dry_run {
            cx.replace(target, &[&content], expect).await?;
        }
        return Ok(content.len() as u64);
    }
    let removed: usize = changes.iter().map(|change| change.range.len()).sum();
    let added: usize = changes.iter().map(|change| change.new.len()).sum();
    let bytes = (base.len() - removed + added) as u64;
    if dry_run {
        return Ok(bytes);
    }
    let pieces = replace::pieces(base, changes);
    if changes.len() <= MAX_PIECES {
        cx.replace(target, &pieces, expect).await?;
    } else {
        cx.replace(target, &[&pieces.concat()], expect).await?;
    }
    Ok(bytes)
}

/// Returns whether a replacement brings LF into a line that ends with CRLF.
pub(crate) fn mixes_endings(text: &[u8], changes: &[ContentChange<'_>]) -> bool {
    changes.first().is_some_and(|change| {
        let after = text.get(change.range.start..).unwrap_or_default();
        replace::first_ending(&change.new) == Some(b"\n")
            && replace::first_ending(after) == Some(b"\r\n")
    })
}

fn shape(_args: &EditArgs, out: EditOut, shaping: &Shaping<'_>) -> Reply {
    let n = out.replacements;
    let head = format!(
        "{} {}: {n} replacement{} ({})",
        if out.dry_run { "would edit" } else { "edited" },
        shaping.shown(&out.path),
        if n == 1 { "" } else { "s" },
        out.stage.as_str()
    );
    Reply::text(text(&head, &out.diff, out.encoding, out.mixes_endings))
}

/// Returns the text of a reply about an edit.
pub(crate) fn text(head: &str, diff: &str, encoding: Option<&str>, mixes_endings: bool) -> String {
    let note = if mixes_endings {
        "[new_string has LF line endings, the lines around it CRLF]\n"
    } else {
        ""
    };
    let encoding = encoding.map_or(String::new(), |name| format!("[the file is in {name}]\n"));
    format!("{head}\n{encoding}{note}{diff}")
}

#[cfg(test)]
mod tests;
