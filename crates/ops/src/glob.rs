//! Glob: finds files whose names match a pattern, newest first.
//!
//! The search visits the whole tree and keeps the newest of all matches, not of the first ones; only
//! matches are stat'ed. Directories are never returned; links are, and are not followed. Patterns are
//! relative to the searched directory: one without `/` names its direct children.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use globset::GlobSet;
use serde::Deserialize;
use sinew_tool::{
    Access, Claim, Context, Cost, Entry, Facts, FileKind, FileSettings, FileTarget, Operation,
    Param, ParamKind, Reply, Row, Shaping, Skipped, Stamp, Targets, ToolError, WalkOptions,
};

use crate::gather::{self, Gatherer, gather};
use crate::names::PathWriter;
use crate::pattern;

/// Finds files by name.
#[derive(Debug)]
pub struct Glob;

/// Arguments of Glob.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GlobArgs {
    /// The pattern, relative to the directory.
    pub pattern: String,
    /// The directory; `None` is the configured one or the working directory.
    #[serde(default)]
    pub path: Option<String>,
    /// The most paths; `None` is the configured limit.
    #[serde(default)]
    pub limit: Option<u64>,
    /// Whether `*` and `?` match `/` too.
    #[serde(default)]
    pub star_crosses: bool,
    /// Whether files are found that ignore files name.
    #[serde(default)]
    pub all_files: bool,
    /// Whether names that begin with a dot are found only where the pattern names them.
    #[serde(default)]
    pub skip_hidden: bool,
}

/// Outcome of Glob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobOut {
    /// The directory searched.
    pub root: PathBuf,
    /// The newest files, newest first; equally new ones by path.
    pub files: Vec<GlobMatch>,
    /// How many files matched in all.
    pub total: u64,
    /// The skipped entries, by reason.
    pub skipped: Skipped,
    /// Whether the time ran out before everything was seen.
    pub timed_out: bool,
}

impl GlobOut {
    /// Returns whether matches are missing from the answer.
    pub fn truncated(&self) -> bool {
        self.timed_out || (self.files.len() as u64) < self.total
    }
}

/// One match. The order is the order of the answer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GlobMatch {
    /// When its content changed last.
    pub modified: Reverse<Stamp>,
    /// Its absolute path.
    pub path: PathBuf,
}

/// The native row.
pub const NATIVE: Row<Glob> = Row {
    name: "Glob",
    description: "Finds files by glob, newest first. `*.rs` is the top level only; `**/*.rs` any \
                  depth.",
    params: &[
        Param::required("pattern", "pattern", ParamKind::String, ""),
        Param::optional("path", "path", ParamKind::String, "Directory"),
    ],
    ..Row::shaped(shape)
};

impl Operation for Glob {
    const NAME: &'static str = "Glob";
    const FACTS: Facts = Facts::OBSERVES;
    type Args = GlobArgs;
    type Out = GlobOut;

    fn check(args: &GlobArgs) -> Result<(), ToolError> {
        if args.pattern.is_empty() {
            return Err(ToolError::argument("pattern", "is empty; `**` names every file"));
        }
        if args.pattern.split('/').any(|part| part == "..") {
            return Err(ToolError::argument("pattern", "holds `..`, which matches nothing")
                .hint("name the directory to search in `path`"));
        }
        pattern::glob(&args.pattern, args.star_crosses).map(drop)
    }

    fn claims(args: &GlobArgs, settings: &FileSettings) -> Vec<Claim> {
        let (argument, path) = match (&args.path, fixed_directory(&args.pattern)) {
            (None, Some((directory, _))) => ("pattern", Some(directory)),
            (path, _) => ("path", search_path(path.as_deref(), settings)),
        };
        vec![Claim::new(argument, path, Access::Search)]
    }

    fn cost(_args: &GlobArgs, _targets: &Targets) -> Cost {
        Cost::Long
    }

    async fn run(args: &GlobArgs, cx: &Context) -> Result<GlobOut, ToolError> {
        let target = cx.target(0)?;
        let pattern = relative_pattern(args, target)?;
        let limit = args.limit.and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.unwrap_or(cx.settings.glob_limit);
        let search = GlobSearch {
            glob: pattern::glob(&pattern, args.star_crosses)?,
            prefix: literal_prefix(&pattern),
            skip_hidden: args.skip_hidden && !pattern::names_hidden(&pattern),
            root: &target.path,
        };
        let crosses = args.star_crosses || pattern.contains("**");
        let options = WalkOptions {
            heed_ignore: cx.settings.respect_gitignore && !args.all_files,
            enter_state: pattern::names_state(&pattern),
            max_depth: (!crosses).then(|| pattern.matches('/').count()),
            directories: false,
        };
        let gathered = gather(cx, target, &options, limit, &search)?;
        Ok(GlobOut {
            root: target.path.clone(),
            files: gathered.items,
            total: gathered.total,
            skipped: gathered.skipped,
            timed_out: gathered.timed_out,
        })
    }
}

/// Returns where a search starts: the path argument, the configured root, or the working directory.
pub(crate) fn search_path(path: Option<&str>, settings: &FileSettings) -> Option<String> {
    path.map(str::to_owned).or_else(|| {
        settings.workspace_root.as_ref().map(|root| root.to_string_lossy().into_owned())
    })
}

/// Returns the directory that an absolute pattern begins with, and the pattern beneath it.
fn fixed_directory(pattern: &str) -> Option<(String, &str)> {
    let rest = pattern.strip_prefix('/')?;
    let special = rest.find(['*', '?', '[', '{', '\\']).unwrap_or(rest.len());
    let end = rest.get(..special)?.rfind('/').map_or(0, |at| at + 1);
    let (directory, pattern) = rest.split_at(end);
    Some((format!("/{}", directory.trim_end_matches('/')), pattern))
}

/// Returns the pattern relative to the directory searched.
fn relative_pattern(args: &GlobArgs, target: &FileTarget) -> Result<String, ToolError> {
    let pattern = args.pattern.as_str();
    if !pattern.starts_with('/') {
        return Ok(pattern.strip_prefix("./").unwrap_or(pattern).to_owned());
    }
    if args.path.is_none() {
        return Ok(fixed_directory(pattern).map_or(pattern, |(_, pattern)| pattern).to_owned());
    }
    let written = target.claim.path.as_deref().map(Path::new);
    [Some(target.path.as_path()), written]
        .into_iter()
        .flatten()
        .find_map(|root| Path::new(pattern).strip_prefix(root).ok()?.to_str())
        .map(str::to_owned)
        .ok_or_else(|| {
            ToolError::argument("pattern", "is absolute and not beneath `path`")
                .hint("make the pattern relative to path")
        })
}

/// Returns the directories that every match lies in: the leading parts without special characters.
fn literal_prefix(pattern: &str) -> Vec<OsString> {
    let mut parts: Vec<&str> = pattern.split('/').collect();
    parts.pop();
    let plain = |part: &&str| !part.contains(['*', '?', '[', ']', '{', '}', '\\']);
    // An alternative may hold a slash, so nothing behind the first special part is certain.
    parts.into_iter().take_while(plain).map(OsString::from).collect()
}

struct GlobSearch<'a> {
    glob: GlobSet,
    prefix: Vec<OsString>,
    skip_hidden: bool,
    root: &'a Path,
}

impl Gatherer for GlobSearch<'_> {
    type Item = GlobMatch;

    fn visit(&self, entry: &dyn Entry, found: &mut gather::ThreadFound<GlobMatch>) {
        let wanted = matches!(entry.kind(), FileKind::File | FileKind::Symlink);
        let hidden = || self.skip_hidden && pattern::is_hidden(entry.path());
        if !wanted || !self.glob.is_match(entry.path()) || hidden() {
            return;
        }
        let Ok(meta) = entry.meta() else {
            found.unreadable += 1;
            return;
        };
        found.total += 1;
        let modified = Reverse(meta.modified());
        if found.best.wants(|last| modified <= last.modified) {
            found.best.push(GlobMatch { modified, path: self.root.join(entry.path()) });
        }
    }

    fn enter(&self, path: &Path) -> bool {
        if self.skip_hidden && pattern::is_hidden(path) {
            return false;
        }
        path.iter().zip(&self.prefix).all(|(part, wanted)| part == wanted)
    }
}

fn shape(_args: &GlobArgs, out: GlobOut, shaping: &Shaping<'_>) -> Reply {
    let mut text = String::new();
    let mut names = PathWriter::default();
    for found in &out.files {
        text.push_str(&names.row(shaping.cwd, &found.path));
        text.push('\n');
    }
    names.explain(&mut text);
    if out.files.is_empty() {
        text.push_str("no files match\n");
    } else if (out.files.len() as u64) < out.total {
        text.push_str(&format!(
            "[{} of {} files, newest first; narrow the pattern]\n",
            out.files.len(),
            out.total
        ));
    }
    let truncated = out.truncated();
    finish(text, truncated, out.timed_out, out.skipped)
}

/// Ends the reply of a search with notes on skipped entries and truncation.
pub(crate) fn finish(
    mut text: String,
    truncated: bool,
    timed_out: bool,
    skipped: Skipped,
) -> Reply {
    if timed_out {
        text.push_str("[the time ran out: this is a part of the result]\n");
    }
    let told = skipped.settled();
    if !told.is_empty() {
        text.push_str(&format!("[skipped: {}]\n", told.words()));
    }
    let mut reply = Reply::text(text.trim_end_matches('\n'));
    reply.meta.truncated = truncated;
    reply.meta.skipped = (!skipped.is_empty()).then_some(skipped);
    reply
}

#[cfg(test)]
mod tests;
