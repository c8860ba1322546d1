//! List: lists a directory or the tree beneath it.
//!
//! One directory is listed in full. A recursive listing heeds ignore files, skips state directories as
//! searches do, and counts both. Rows are sorted by path and cut, but counted in full. Only kept ones are
//! stat'ed.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sinew_tool::{
    Access, Claim, Context, Cost, Entry, Facts, FileKind, FileMeta, FileSettings, FileState,
    Operation, Param, ParamKind, Reply, Row, Shaping, Skipped, Stamp, Targets, ToolError,
    WalkOptions,
};

use crate::gather::{self, Gatherer, gather};
use crate::glob::{finish, search_path};
use crate::names::PathWriter;
use crate::pattern;
use crate::time::iso;

/// Directories up to this size are listed on the thread that read the call.
const SMALL: u64 = 64 * 1024;

/// Lists a directory.
#[derive(Debug)]
pub struct List;

/// Arguments of List.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListArgs {
    /// The directory; `None` is the configured one or the working directory.
    #[serde(default)]
    pub path: Option<String>,
    /// Whether everything beneath is listed.
    #[serde(default)]
    pub recursive: bool,
    /// How many levels are listed; 1 is the directory alone. More than 1 implies `recursive`.
    #[serde(default)]
    pub depth: Option<u64>,
    /// The most rows; `None` is the configured limit.
    #[serde(default)]
    pub limit: Option<u64>,
    /// The order of the rows, in a dialect that lets callers choose.
    #[serde(default)]
    pub sort_by: SortBy,
}

/// The order of the shown rows. The kept rows are the first by path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SortBy {
    /// By name.
    #[default]
    Name,
    /// The largest first.
    Size,
}

/// Outcome of List.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListOut {
    /// The directory listed.
    pub root: PathBuf,
    /// The first rows, by path.
    pub rows: Vec<Item>,
    /// How many rows there are in all.
    pub total: u64,
    /// The skipped entries, by reason.
    pub skipped: Skipped,
    /// Whether the time ran out before everything was seen.
    pub timed_out: bool,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The path relative to the directory.
    pub path: PathBuf,
    /// The file type; links are not followed.
    pub kind: FileKind,
    /// Its size in bytes, where stat returned it.
    pub size: Option<u64>,
    /// When its content changed last, where stat returned it.
    pub modified: Option<Stamp>,
}

impl Item {
    fn new(path: PathBuf, kind: FileKind, meta: Option<&FileMeta>) -> Self {
        let size = meta.map(FileMeta::size);
        Self { path, kind, size, modified: meta.map(FileMeta::modified) }
    }

    /// Returns the time in ISO 8601, in UTC.
    pub fn modified_iso(&self) -> Option<String> {
        self.modified.map(iso)
    }
}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Item {
    fn cmp(&self, other: &Self) -> Ordering {
        self.path.cmp(&other.path)
    }
}

/// The native row.
pub const NATIVE: Row<List> = Row {
    name: "List",
    description: "Lists a directory: type, size, time, name.",
    params: &[
        Param::optional("path", "path", ParamKind::String, ""),
        Param::optional("recursive", "recursive", ParamKind::Boolean, ""),
        Param::optional("depth", "depth", ParamKind::Integer { min: 1, cap: None }, "Levels"),
        Param::optional("limit", "limit", ParamKind::Integer { min: 1, cap: Some(10_000) }, ""),
    ],
    ..Row::shaped(shape)
};

impl Operation for List {
    const NAME: &'static str = "List";
    const FACTS: Facts = Facts::OBSERVES;
    type Args = ListArgs;
    type Out = ListOut;

    fn claims(args: &ListArgs, settings: &FileSettings) -> Vec<Claim> {
        let path = search_path(args.path.as_deref(), settings);
        vec![Claim::new("path", path, Access::Search)]
    }

    fn cost(args: &ListArgs, targets: &Targets) -> Cost {
        match targets.files.first().map(|target| &target.state) {
            Some(FileState::Found(meta)) if SMALL < meta.size() => Cost::Long,
            _ if deep(args) => Cost::Long,
            _ => Cost::Cheap,
        }
    }

    async fn run(args: &ListArgs, cx: &Context) -> Result<ListOut, ToolError> {
        let limit = args.limit.and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.unwrap_or(cx.settings.list_limit);
        if deep(args) { tree(args, cx, limit) } else { directory(cx, limit) }
    }
}

fn deep(args: &ListArgs) -> bool {
    match args.depth {
        Some(depth) => 1 < depth,
        None => args.recursive,
    }
}

fn directory(cx: &Context, limit: usize) -> Result<ListOut, ToolError> {
    let target = cx.target(0)?;
    let listing =
        cx.world.files.list(target.slot, limit).map_err(|error| cx.about(target, error))?;
    let rows = listing.rows.into_iter();
    Ok(ListOut {
        root: target.path.clone(),
        rows: rows.map(|row| Item::new(row.path, row.kind, row.meta.as_ref())).collect(),
        total: listing.total,
        skipped: listing.skipped,
        timed_out: false,
    })
}

fn tree(args: &ListArgs, cx: &Context, limit: usize) -> Result<ListOut, ToolError> {
    let target = cx.target(0)?;
    let options = WalkOptions {
        heed_ignore: cx.settings.respect_gitignore,
        enter_state: args.path.as_deref().is_some_and(pattern::names_state),
        max_depth: args.depth.and_then(|depth| usize::try_from(depth - 1).ok()),
        directories: true,
    };
    let gathered = gather(cx, target, &options, limit, &ListSearch)?;
    Ok(ListOut {
        root: target.path.clone(),
        rows: gathered.items,
        total: gathered.total,
        skipped: gathered.skipped,
        timed_out: gathered.timed_out,
    })
}

struct ListSearch;

impl Gatherer for ListSearch {
    type Item = Item;

    fn visit(&self, entry: &dyn Entry, found: &mut gather::ThreadFound<Item>) {
        found.total += 1;
        if found.best.wants(|last| entry.path() < last.path.as_path()) {
            let meta = entry.meta().ok();
            found.best.push(Item::new(entry.path().to_path_buf(), entry.kind(), meta.as_ref()));
        }
    }
}

fn shape(_args: &ListArgs, out: ListOut, _shaping: &Shaping<'_>) -> Reply {
    let mut text = String::new();
    let mut names = PathWriter::default();
    for row in &out.rows {
        let size = match (row.kind, row.size) {
            (FileKind::File, Some(size)) => size.to_string(),
            _ => String::from("-"),
        };
        let time = row.modified_iso().unwrap_or_else(|| String::from("-"));
        let end = if row.kind == FileKind::Directory { "/" } else { "" };
        let name = names.row(Path::new(""), &row.path);
        text.push_str(&format!("{} {size} {time} {name}{end}\n", row.kind.as_str()));
    }
    names.explain(&mut text);
    let n_rows = out.rows.len() as u64;
    if out.rows.is_empty() && out.total == 0 {
        text.push_str("the directory is empty\n");
    } else if n_rows < out.total {
        text.push_str(&format!("[{n_rows} of {} entries, by name]\n", out.total));
    }
    finish(text, n_rows < out.total || out.timed_out, out.timed_out, out.skipped)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use sinew_testkit::{MemoryWorld, call};
    use sinew_tool::Block;

    use super::*;

    fn world() -> MemoryWorld {
        let world = MemoryWorld::new();
        world
            .file("b.txt", "12345")
            .modified("b.txt", 1_000_000_000)
            .file("a/one", "1")
            .modified("a/one", 0)
            .directory("a")
            .modified("a", 60)
            .link("z", "a")
            .modified("z", 0)
            .special("pipe")
            .modified("pipe", 0)
            .file(".git/config", "x")
            .modified(".git", 0)
            .file(".gitignore", "*.log\n")
            .modified(".gitignore", 0)
            .file("a/x.log", "")
            .modified("a/x.log", 0);
        world
    }

    #[track_caller]
    fn check(args: Value, expected: &[&str]) {
        let reply = call(&world(), &NATIVE.tool(), args);
        let Some(Block::Text { text }) = reply.content.first() else { panic!("no text") };
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_directory_is_listed_as_it_is() {
        check(
            json!({}),
            &[
                "directory - 1970-01-01T00:00:00Z .git/",
                "file 6 1970-01-01T00:00:00Z .gitignore",
                "directory - 1970-01-01T00:01:00Z a/",
                "file 5 2001-09-09T01:46:40Z b.txt",
                "special - 1970-01-01T00:00:00Z pipe",
                "symlink - 1970-01-01T00:00:00Z z",
            ],
        );
        check(
            json!({"path": "z"}),
            &["file 1 1970-01-01T00:00:00Z one", "file 0 1970-01-01T00:00:00Z x.log"],
        );
        check(
            json!({"limit": 1}),
            &["directory - 1970-01-01T00:00:00Z .git/", "[1 of 6 entries, by name]"],
        );
    }

    #[test]
    fn a_tree_is_listed_with_what_was_passed_over() {
        check(
            json!({"recursive": true}),
            &[
                "file 6 1970-01-01T00:00:00Z .gitignore",
                "directory - 1970-01-01T00:01:00Z a/",
                "file 1 1970-01-01T00:00:00Z a/one",
                "file 5 2001-09-09T01:46:40Z b.txt",
                "special - 1970-01-01T00:00:00Z pipe",
                "symlink - 1970-01-01T00:00:00Z z",
                "[skipped: 1 ignored, 1 hidden]",
            ],
        );
        check(
            json!({"depth": 2, "limit": 3}),
            &[
                "file 6 1970-01-01T00:00:00Z .gitignore",
                "directory - 1970-01-01T00:01:00Z a/",
                "file 1 1970-01-01T00:00:00Z a/one",
                "[3 of 6 entries, by name]",
                "[skipped: 1 ignored, 1 hidden]",
            ],
        );
        check(json!({"path": ".git", "recursive": true}), &["file 1 2023-11-14T22:13:25Z config"]);
    }

    #[test]
    fn what_is_no_directory_is_refused() {
        check(
            json!({"path": "b.txt"}),
            &[
                "argument `path`: not a directory: b.txt",
                "",
                "each name before a `/`, and a path to list or search, must be a directory",
            ],
        );
        check(
            json!({"path": "none"}),
            &[
                "argument `path`: no such file: none",
                "",
                "check the path by listing the directory above it; a dangling link counts as missing",
            ],
        );
    }
}
