//! Grep: finds lines that match a regular expression in the files of a tree, newest file first.
//!
//! The answer equals searching everything, sorting and cutting; files that cannot be part of it are skipped
//! ([kept](crate::kept)). A matching file is stat'ed after its search, and before it only once the answer
//! is full. Binary files are handled as by ripgrep: a NUL ends the search of a file; a name or line found
//! before it counts, a number does not.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::Deserialize;
use sinew_tool::sync::{into_inner, lock};
use sinew_tool::{
    Access, Claim, Context, Cost, Entry, Facts, FileError, FileKind, FileSettings, FileTarget,
    Flow, Operation, Param, ParamKind, Preset, Reply, Row, Shaping, Skipped, Stamp, Targets,
    ToolError, Visitor, Visitors, WalkOptions,
};

use crate::glob::{finish, search_path};
use crate::kept::{Kept, MAX_BYTES};
use crate::names::PathWriter;
use crate::pattern::{self, Filter, RegexKey};
use crate::search::{Engine, Matches, SearchPlan, Searched};
use crate::watch::Watch;

/// The most lines of context on each side.
const MAX_CONTEXT: u64 = 100;

/// The most rows of one call; a limit of 0 means this many.
const MAX_ROWS: u64 = 10_000;

/// Searches contents.
#[derive(Debug)]
pub struct Grep;

/// Arguments of Grep.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrepArgs {
    /// The regular expression.
    pub pattern: String,
    /// The file or directory; `None` is the configured one or the working directory.
    #[serde(default)]
    pub path: Option<String>,
    /// Which files, as ripgrep's `--glob`, but ignored files are searched only where `path` names them.
    /// Does not apply to a file named itself.
    #[serde(default)]
    pub glob: Option<String>,
    /// Which files, as ripgrep's `--type`. Does not apply to a file named itself.
    #[serde(default)]
    pub file_type: Option<String>,
    /// The kind of answer.
    #[serde(default)]
    pub mode: OutputMode,
    /// Whether case is ignored.
    #[serde(default)]
    pub ignore_case: bool,
    /// Whether lines are shown with their numbers.
    #[serde(default = "yes")]
    pub line_numbers: bool,
    /// Lines shown before a match; overrides `context`.
    #[serde(default)]
    pub before: Option<u64>,
    /// Lines shown after a match; overrides `context`.
    #[serde(default)]
    pub after: Option<u64>,
    /// Lines shown on both sides of a match.
    #[serde(default)]
    pub context: Option<u64>,
    /// Whether a match may span lines, and `.` matches their ends.
    #[serde(default)]
    pub multiline: bool,
    /// The most rows: files, or matches in content mode; `None` is the configured limit, 0 the maximum.
    #[serde(default)]
    pub limit: Option<u64>,
    /// The number of rows to skip first.
    #[serde(default)]
    pub offset: u64,
    /// The order of files.
    #[serde(default)]
    pub order: RowOrder,
    /// Whether names that begin with a dot are searched only where `path` or `glob` names them.
    #[serde(default)]
    pub skip_hidden: bool,
}

fn yes() -> bool {
    true
}

/// The kind of answer of Grep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputMode {
    /// The names of files.
    #[default]
    FilesWithMatches,
    /// The lines that match.
    Content,
    /// How many lines match, per file; matches where they may span lines.
    Count,
}

/// The order of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowOrder {
    /// Newest first, equally new ones by path.
    #[default]
    Newest,
    /// By path.
    Path,
}

/// Outcome of Grep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepOut {
    /// The directory or file searched.
    pub root: PathBuf,
    /// The files with their shown lines, in order.
    pub files: Vec<FileHits>,
    /// How many rows are shown.
    pub rows: u64,
    /// Whether rows follow that are not shown.
    pub truncated: bool,
    /// Whether the search ended at 4 MiB of text, so that no offset reaches the rest.
    pub too_much_text: bool,
    /// The offset of the next page, where rows follow.
    pub next_offset: Option<u64>,
    /// The skipped entries, by reason.
    pub skipped: Skipped,
    /// Whether the time ran out before everything was searched.
    pub timed_out: bool,
}

/// The matches of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHits {
    /// The absolute path.
    pub path: PathBuf,
    /// When its content changed last.
    pub modified: Stamp,
    /// How many lines match; 1 where only names are returned.
    pub count: u64,
    /// The lines, in content mode.
    pub hits: Vec<Hit>,
    /// Whether the search ended at a NUL.
    pub binary: bool,
}

/// One line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Its number, counted from 1.
    pub number: u64,
    /// Why it is shown.
    pub kind: HitKind,
    /// The line without its ending, or the part of it around the match.
    pub text: String,
    /// How many of its characters are not shown.
    pub cut_chars: u64,
}

/// Why a line is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HitKind {
    /// It matches, or a match begins in it.
    Match,
    /// It belongs to the match that began above.
    More,
    /// It lies near a match.
    Context,
}

impl FileHits {
    /// Returns the number of rows of the file.
    pub fn rows(&self) -> u64 {
        let matches = self.hits.iter().filter(|hit| hit.kind == HitKind::Match).count() as u64;
        matches.max(1)
    }

    /// Returns the bytes of its lines.
    pub(crate) fn bytes(&self) -> usize {
        self.hits.iter().map(|hit| hit.text.len()).sum()
    }
}

/// The native row.
pub const NATIVE: Row<Grep> = Row {
    name: "Grep",
    description: "Searches file contents with a Rust regex (no look-around), newest file first.",
    params: &[
        Param::required("pattern", "pattern", ParamKind::String, ""),
        Param::optional("path", "path", ParamKind::String, "File or directory"),
        Param::optional(
            "glob",
            "glob",
            ParamKind::String,
            "e.g. *.{ts,tsx}, !*.min.js; ignored files stay out",
        ),
        Param::optional("type", "file_type", ParamKind::String, "e.g. rust, py"),
        Param::optional(
            "output_mode",
            "mode",
            ParamKind::Enum(&["files_with_matches", "content", "count"]),
            "",
        ),
        Param::optional("-i", "ignore_case", ParamKind::Boolean, ""),
        Param::optional("-n", "line_numbers", ParamKind::Boolean, ""),
        Param::optional("-A", "after", CONTEXT, ""),
        Param::optional("-B", "before", CONTEXT, ""),
        Param::optional("-C", "context", CONTEXT, "").also(&["context"]),
        Param::optional("multiline", "multiline", ParamKind::Boolean, "`.` matches newlines"),
        Param::optional(
            "head_limit",
            "limit",
            ParamKind::Integer { min: 0, cap: Some(MAX_ROWS as i64) },
            "Default 250",
        ),
        Param::optional("offset", "offset", ParamKind::Integer { min: 0, cap: None }, ""),
    ],
    presets: &[("order", Preset::Str("newest"))],
    ..Row::shaped(shape)
};

const CONTEXT: ParamKind = ParamKind::Integer { min: 0, cap: Some(MAX_CONTEXT as i64) };

impl Operation for Grep {
    const NAME: &'static str = "Grep";
    const FACTS: Facts = Facts::OBSERVES;
    type Args = GrepArgs;
    type Out = GrepOut;

    fn check(args: &GrepArgs) -> Result<(), ToolError> {
        if args.pattern.is_empty() {
            return Err(ToolError::argument("pattern", "is empty; it would match every line"));
        }
        Ok(())
    }

    fn claims(args: &GrepArgs, settings: &FileSettings) -> Vec<Claim> {
        let path = search_path(args.path.as_deref(), settings);
        vec![Claim::new("path", path, Access::Search)]
    }

    fn cost(_args: &GrepArgs, _targets: &Targets) -> Cost {
        Cost::Long
    }

    async fn run(args: &GrepArgs, cx: &Context) -> Result<GrepOut, ToolError> {
        let target = cx.target(0)?;
        let meta = cx.world.files.meta(target.slot).map_err(|error| cx.about(target, error))?;
        let limit = match args.limit {
            None => cx.settings.grep_limit as u64,
            Some(0) => MAX_ROWS,
            Some(limit) => limit,
        };
        // One row more than requested shows whether rows follow.
        let max_rows = args.offset.saturating_add(limit).saturating_add(1);
        let watch = Watch::new(cx);
        let search = GrepSearch {
            plan: plan(args, cx, max_rows, meta.kind == FileKind::File)?,
            filter: Filter::new(&target.path, args.glob.as_deref(), args.file_type.as_deref())?,
            skip_hidden: args.skip_hidden
                && !args.glob.as_deref().is_some_and(pattern::names_hidden),
            root: &target.path,
            watch: &watch,
            kept: Mutex::new(Kept::new(args.order, max_rows)),
            skipped: Mutex::new(Skipped::default()),
        };
        let skipped = if meta.kind == FileKind::Directory {
            search.tree(args, cx, target)?
        } else {
            search.file(cx, target, meta.modified())?;
            Skipped::default()
        };
        watch.not_cancelled()?;
        Ok(search.finish(args, limit, skipped))
    }
}

fn plan(
    args: &GrepArgs,
    cx: &Context,
    max_rows: u64,
    named: bool,
) -> Result<SearchPlan, ToolError> {
    let key = RegexKey {
        pattern: args.pattern.clone(),
        ignore_case: args.ignore_case,
        multiline: args.multiline,
    };
    let lines = |own: Option<u64>| own.or(args.context).unwrap_or(0).min(MAX_CONTEXT) as usize;
    Ok(SearchPlan {
        matcher: pattern::regex(cx, key)?,
        mode: args.mode,
        multiline: args.multiline,
        before: lines(args.before),
        after: lines(args.after),
        max_rows,
        named,
    })
}

struct GrepSearch<'a> {
    plan: SearchPlan,
    filter: Filter,
    skip_hidden: bool,
    root: &'a Path,
    watch: &'a Watch<'a>,
    kept: Mutex<Kept>,
    skipped: Mutex<Skipped>,
}

impl<'a> GrepSearch<'a> {
    /// Searches the files beneath a directory; returns the entries that the walk skipped.
    fn tree(
        &self,
        args: &GrepArgs,
        cx: &Context,
        target: &FileTarget,
    ) -> Result<Skipped, ToolError> {
        let options = WalkOptions {
            heed_ignore: cx.settings.respect_gitignore,
            enter_state: args.glob.as_deref().is_some_and(pattern::names_state),
            max_depth: None,
            directories: false,
        };
        let report = cx
            .world
            .files
            .walk(target.slot, &options, self, cx.cancel.flag())
            .map_err(|error| cx.about(target, error))?;
        Ok(report.skipped)
    }

    /// Searches one file that was named itself.
    fn file(&self, cx: &Context, target: &FileTarget, modified: Stamp) -> Result<(), ToolError> {
        let opened = cx.world.files.open(target.slot).map_err(|error| cx.about(target, error))?;
        let mut engine = Engine::new(self.plan.clone(), self.watch);
        let mut skipped = Skipped::default();
        let size = opened.meta.size();
        if let Some(matches) = note(engine.search_named(opened.file, size), &mut skipped) {
            self.keep(self.root.to_path_buf(), modified, matches);
        }
        self.skip(&skipped);
        Ok(())
    }

    fn keep(&self, path: PathBuf, modified: Stamp, matches: Matches) {
        let Matches { count, hits, binary } = matches;
        self.kept().add(FileHits { path, modified, count, hits, binary });
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        lock(&self.kept)
    }

    fn skip(&self, skipped: &Skipped) {
        lock(&self.skipped).add(skipped);
    }

    /// Cuts the results to the requested rows.
    fn finish(self, args: &GrepArgs, limit: u64, walked: Skipped) -> GrepOut {
        let kept = into_inner(self.kept);
        let mut skipped = into_inner(self.skipped);
        skipped.add(&walked);
        let mut page = Page { pass: args.offset, left: limit, n_bytes: 0, more: false };
        let too_much_text = kept.is_cut_by_text();
        let files: Vec<FileHits> =
            kept.into_files().filter_map(|file| page.take(file, &self.plan)).collect();
        let rows = files.iter().map(FileHits::rows).sum();
        GrepOut {
            root: self.root.to_path_buf(),
            files,
            rows,
            truncated: page.more || too_much_text || self.watch.out_of_time(),
            too_much_text,
            next_offset: (page.more && 0 < rows).then_some(args.offset + rows),
            skipped,
            timed_out: self.watch.out_of_time(),
        }
    }
}

/// Returns the matches of a searched file, or counts it as skipped.
fn note(searched: Searched, skipped: &mut Skipped) -> Option<Matches> {
    match searched {
        Searched::Done(matches) => return Some(matches).filter(|matches| 0 < matches.count),
        Searched::Binary => skipped.binary += 1,
        Searched::TooLarge => skipped.too_large += 1,
        Searched::Unreadable => skipped.unreadable += 1,
        Searched::Stopped => skipped.out_of_time += 1,
    }
    None
}

/// The cut through the rows of all files.
struct Page {
    pass: u64,
    left: u64,
    n_bytes: usize,
    more: bool,
}

impl Page {
    /// Returns the part of a file that belongs to the page.
    fn take(&mut self, mut file: FileHits, plan: &SearchPlan) -> Option<FileHits> {
        let rows = file.rows();
        let passed = self.pass.min(rows);
        self.pass -= passed;
        if passed == rows {
            return None;
        }
        let full = self.left == 0 || MAX_BYTES <= self.n_bytes;
        let taken = if full { 0 } else { self.left.min(rows - passed) };
        self.more |= taken < rows - passed;
        self.left -= taken;
        if taken == 0 {
            return None;
        }
        if taken < rows {
            cut(&mut file.hits, passed, taken, plan);
        }
        self.n_bytes += file.bytes();
        Some(file)
    }
}

/// Cuts the lines of a file to some of its rows, with the context of those.
fn cut(hits: &mut Vec<Hit>, passed: u64, taken: u64, plan: &SearchPlan) {
    let mut row = 0;
    let (mut first, mut last) = (u64::MAX, 0);
    let mut inside = Vec::with_capacity(hits.len());
    for hit in hits.iter() {
        row += u64::from(hit.kind == HitKind::Match);
        let shown = hit.kind != HitKind::Context && passed < row && row <= passed + taken;
        if shown {
            first = first.min(hit.number);
            last = last.max(hit.number);
        }
        inside.push(shown);
    }
    let first = first.saturating_sub(plan.before as u64);
    let last = last + plan.after as u64;
    let mut inside = inside.into_iter();
    hits.retain_mut(|hit| {
        if !inside.next().unwrap_or(false) {
            hit.kind = HitKind::Context;
        }
        first <= hit.number && hit.number <= last
    });
}

impl Visitors for GrepSearch<'_> {
    fn visitor(&self) -> Box<dyn Visitor + '_> {
        Box::new(Searcher {
            search: self,
            engine: Engine::new(self.plan.clone(), self.watch),
            skipped: Skipped::default(),
            n_seen: 0,
        })
    }
}

/// The state of one search thread.
struct Searcher<'a> {
    search: &'a GrepSearch<'a>,
    engine: Engine<'a>,
    skipped: Skipped,
    n_seen: u32,
}

impl Searcher<'_> {
    /// Searches a file unless it is known that it cannot be part of the answer.
    fn search(&mut self, entry: &dyn Entry) -> Result<(), FileError> {
        let mut modified = None;
        if self.search.kept().is_full() {
            let time = entry.meta()?.modified();
            if !self.search.kept().wants(time, &self.search.root.join(entry.path())) {
                self.skipped.older += 1;
                return Ok(());
            }
            modified = Some(time);
        }
        if let Some(matches) = note(self.engine.search(entry.open()?), &mut self.skipped) {
            let modified = match modified {
                Some(modified) => modified,
                None => entry.meta()?.modified(),
            };
            self.search.keep(self.search.root.join(entry.path()), modified, matches);
        }
        Ok(())
    }
}

impl Visitor for Searcher<'_> {
    fn visit(&mut self, entry: &dyn Entry) -> Flow {
        if self.search.watch.over_sometimes(&mut self.n_seen) {
            return Flow::Stop;
        }
        if entry.kind() != FileKind::File || !self.search.filter.passes(entry.path()) {
            return Flow::Continue;
        }
        if self.search.skip_hidden && pattern::is_hidden(entry.path()) {
            return Flow::Continue;
        }
        match self.search(entry) {
            Ok(()) => {}
            Err(FileError::Denied(_)) => self.skipped.denied += 1,
            Err(_) => self.skipped.unreadable += 1,
        }
        Flow::Continue
    }

    fn enter(&mut self, path: &Path) -> bool {
        let hidden = self.search.skip_hidden && pattern::is_hidden(path);
        !hidden && self.search.filter.enters(path)
    }
}

impl Drop for Searcher<'_> {
    fn drop(&mut self) {
        self.search.skip(&self.skipped);
    }
}

fn shape(args: &GrepArgs, out: GrepOut, shaping: &Shaping<'_>) -> Reply {
    let mut text = String::new();
    let context = args.before.or(args.after).or(args.context).is_some_and(|n| 0 < n);
    let mut begun = false;
    let mut names = PathWriter::default();
    for file in &out.files {
        let path = names.row(shaping.cwd, &file.path);
        match args.mode {
            OutputMode::FilesWithMatches => text.push_str(&format!("{path}\n")),
            OutputMode::Count => text.push_str(&format!("{path}:{}\n", file.count)),
            OutputMode::Content => {
                let mut next = 0;
                for hit in &file.hits {
                    if context && begun && hit.number != next {
                        text.push_str("--\n");
                    }
                    begun = true;
                    next = hit.number + 1;
                    push_hit(&mut text, &path, hit, args.line_numbers);
                }
                if file.binary {
                    text.push_str(&format!("{path}: [binary from here on: not searched]\n"));
                }
            }
        }
    }
    names.explain(&mut text);
    if out.files.is_empty() {
        text.push_str(if args.offset == 0 { "no matches\n" } else { "no more matches\n" });
    }
    if out.too_much_text {
        text.push_str("[the search ended at 4 MiB of text: matches are missing; narrow it]\n");
    }
    if let Some(next) = out.next_offset {
        text.push_str(&format!(
            "[stopped after {} rows; go on with offset {next} or narrow the search]\n",
            out.rows
        ));
    }
    let mut reply = finish(text, out.truncated, out.timed_out, out.skipped);
    if let Some(next) = out.next_offset {
        reply.meta.more.insert("next_offset", next);
    }
    reply
}

fn push_hit(text: &mut String, path: &str, hit: &Hit, numbered: bool) {
    let mark = if hit.kind == HitKind::Context { '-' } else { ':' };
    text.push_str(path);
    text.push(mark);
    if numbered {
        text.push_str(&hit.number.to_string());
        text.push(mark);
    }
    text.push_str(&hit.text);
    if 0 < hit.cut_chars {
        text.push_str(&format!(" [{} more characters]", hit.cut_chars));
    }
    text.push('\n');
}

#[cfg(test)]
mod tests;
