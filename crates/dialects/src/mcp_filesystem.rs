//! The dialect of the MCP project's filesystem server: its fourteen tools, for clients written for it.
//!
//! Names, parameters, defaults, annotations, result schemas and texts are those of release 2026.8.31.
//! `tests/e2e/filesystem.py` compares both and lists each difference with its reason.
//!
//! Main differences:
//! - An edit text must match once, or in one place with other blanks; line endings stay. Binary is not text.
//! - A symlink is moved itself. A call with one path outside the roots is refused whole, without the target.
//! - Rows are sorted by name. Replies hold 1 MiB, and raw files up to 700 KiB. Argument errors have sinew's
//!   words. Times are in UTC.

mod refusal;
mod shown;

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use sinew_ops::{find, info, list, make_directory, move_path, multi_edit, read, read_many, roots};
use sinew_ops::{long_time, write};
use sinew_tool::{
    Arguments, Block, Bound, BoxFuture, Context, Conventions, Dialect, Facts, FileKind,
    FileSettings, Kind, OutsidePaths, Param, ParamKind, Prepared, Preset, Reply, Row, Shaping,
    Tool, ToolError, line_name,
};

use crate::words::text;
use refusal::{EDIT, LIST, MKDIR, OPEN, RENAME, STAT};

/// The dialect of the filesystem server.
pub const MCP_FILESYSTEM: Dialect = Dialect {
    name: "mcp-filesystem",
    tools,
    settings,
    approval_timeout_ms: 300_000,
    conventions: Conventions::DEFAULT,
};

fn tools() -> Vec<Arc<dyn Tool>> {
    let published = |title, row: Arc<dyn Tool>| -> Arc<dyn Tool> {
        Arc::new(Published { row, title, output: text_output })
    };
    vec![
        published("Read File (Deprecated)", READ_FILE.tool()),
        published("Read Text File", READ_TEXT_FILE.tool()),
        Arc::new(Published {
            row: READ_MEDIA_FILE.tool(),
            title: "Read Media File",
            output: media_output,
        }),
        published("Read Multiple Files", READ_MULTIPLE_FILES.tool()),
        published("Write File", WRITE_FILE.tool()),
        published("Edit File", EDIT_FILE.tool()),
        published("Create Directory", CREATE_DIRECTORY.tool()),
        published("List Directory", LIST_DIRECTORY.tool()),
        published("List Directory with Sizes", LIST_DIRECTORY_WITH_SIZES.tool()),
        published("Directory Tree", DIRECTORY_TREE.tool()),
        published("Move File", MOVE_FILE.tool()),
        published("Search Files", SEARCH_FILES.tool()),
        published("Get File Info", GET_FILE_INFO.tool()),
        published("List Allowed Directories", LIST_ALLOWED_DIRECTORIES.tool()),
    ]
}

fn settings() -> FileSettings {
    FileSettings {
        outside: OutsidePaths::Deny,
        read_reply_bytes: Bound::HARD.max_bytes,
        list_limit: 50_000,
        ..FileSettings::default()
    }
}

/// A row with its published metadata beside the argument schema.
struct Published {
    row: Arc<dyn Tool>,
    title: &'static str,
    output: fn() -> Value,
}

impl Tool for Published {
    fn name(&self) -> &str {
        self.row.name()
    }

    fn title(&self) -> Option<&str> {
        Some(self.title)
    }

    fn description(&self) -> &str {
        self.row.description()
    }

    fn parameters(&self) -> Value {
        self.row.parameters()
    }

    fn output_schema(&self) -> Option<Value> {
        Some((self.output)())
    }

    fn facts(&self) -> Facts {
        self.row.facts()
    }

    fn operation(&self) -> &str {
        self.row.operation()
    }

    fn bound(&self) -> Bound {
        self.row.bound()
    }

    fn core(&self) -> bool {
        self.row.core()
    }

    fn checked_by_schema(&self) -> bool {
        self.row.checked_by_schema()
    }

    fn execute<'a>(
        &'a self,
        args: Arguments,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<Reply, ToolError>> {
        self.row.execute(args, cx)
    }

    fn prepare(
        self: Arc<Self>,
        args: Arguments,
        settings: &Arc<FileSettings>,
    ) -> Result<Box<dyn Prepared>, ToolError> {
        Arc::clone(&self.row).prepare(args, settings)
    }

    fn fail(&self, error: &ToolError, path: Option<&str>) -> Reply {
        self.row.fail(error, path)
    }
}

fn text_output() -> Value {
    json!({
        "type": "object",
        "properties": { "content": { "type": "string" } },
        "required": ["content"],
        "additionalProperties": false,
    })
}

fn media_output() -> Value {
    let string = || json!({ "type": "string" });
    let object = |properties: Value, required: &[&str]| {
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    };
    let kind = json!({ "type": "string", "enum": ["image", "audio"] });
    let shown = json!({ "type": kind, "data": string(), "mimeType": string() });
    let held = json!({ "uri": string(), "mimeType": string(), "blob": string() });
    let embedded = json!({
        "type": { "type": "string", "const": "resource" },
        "resource": object(held, &["uri", "blob"]),
    });
    let items = json!([
        object(shown, &["type", "data", "mimeType"]),
        object(embedded, &["type", "resource"]),
    ]);
    object(json!({ "content": { "type": "array", "items": { "anyOf": items } } }), &["content"])
}

const PATH: Param = Param::required("path", "path", ParamKind::String, "");
const LINES: ParamKind = ParamKind::Number { min: 0, cap: None };
const EXCLUDE: Param = Param::optional(
    "excludePatterns",
    "exclude",
    ParamKind::Strings { min: 0 },
    "Globs that are left out",
)
.or(Preset::Strings(&[]));

const READ_FILE: Row<read::Read> = Row {
    name: "read_file",
    description: "Read the complete contents of a file as text. DEPRECATED: Use read_text_file.",
    ..READ_TEXT_FILE
};

const READ_TEXT_FILE: Row<read::Read> = Row {
    name: "read_text_file",
    description: "Read a text file: all of it, its first or its last lines.",
    params: &[
        PATH,
        Param::optional("tail", "tail", LINES, "Only the last N lines"),
        Param::optional("head", "head", LINES, "Only the first N lines"),
    ],
    presets: &[("limit", Preset::Int(i64::MAX)), ("media", Preset::Str("plain"))],
    bound: Bound::HARD,
    fail: |error, path| OPEN.fail(error, path),
    ..Row::shaped(read_text)
};

const READ_MEDIA_FILE: Row<read::Read> = Row {
    name: "read_media_file",
    description: "Read a file in base64, with its MIME type: a picture, a sound or anything else.",
    params: &[PATH],
    presets: &[("media", Preset::Str("every"))],
    bound: Bound::HARD,
    fail: |error, path| OPEN.fail(error, path),
    ..Row::shaped(read_media)
};

const READ_MULTIPLE_FILES: Row<read_many::ReadMany> = Row {
    name: "read_multiple_files",
    description: "Read several text files. One that cannot be read does not keep the others away.",
    params: &[Param::required("paths", "paths", ParamKind::Strings { min: 1 }, "The files")],
    bound: Bound::HARD,
    fail: |error, path| OPEN.fail(error, path),
    ..Row::<read_many::ReadMany>::shaped(|_, out, shaping| {
        let one = |(at, one): (usize, &read_many::One)| {
            let found = match &one.found {
                Ok(found) => content(found, &text(shaping.path(at))),
                Err(error) => Err(OPEN.words(error, &one.path)),
            };
            match found {
                Ok(content) => format!("{}:\n{content}\n", one.path),
                Err(words) => format!("{}: Error - {words}", one.path),
            }
        };
        let files: Vec<String> = out.iter().enumerate().map(one).collect();
        said(files.join("\n---\n"))
    })
};

const WRITE_FILE: Row<write::Write> = Row {
    name: "write_file",
    description: "Create a file or replace its contents. Its directory must exist.",
    params: &[PATH, Param::required("content", "content", ParamKind::String, "")],
    presets: &[("follow_links", Preset::Bool(true))],
    bound: Bound::HARD,
    fail: |error, path| OPEN.fail(error, path),
    ..Row::<write::Write>::shaped(|args, _, _| {
        said(format!("Successfully wrote to {}", in_line(&args.path)))
    })
};

const EDIT_FILE: Row<multi_edit::MultiEdit> = Row {
    name: "edit_file",
    description: "Make edits of a text file in order, all or none, and return a git-style diff. \
                  Each oldText must be there once; other blanks are forgiven in one place.",
    params: &[
        PATH,
        Param::required(
            "edits",
            "edits",
            ParamKind::Objects(&[
                Param::required("oldText", "old_string", ParamKind::String, "Text to find"),
                Param::required("newText", "new_string", ParamKind::String, "Its replacement"),
            ]),
            "",
        ),
        Param::optional("dryRun", "dry_run", ParamKind::Boolean, "Only show the diff")
            .or(Preset::Bool(false)),
    ],
    presets: &[
        ("follow_links", Preset::Bool(true)),
        ("loose", Preset::Bool(true)),
        ("in_full", Preset::Bool(true)),
    ],
    bound: Bound::HARD,
    fail: |error, path| EDIT.fail(error, path),
    ..Row::<multi_edit::MultiEdit>::shaped(|_, out, _| {
        said(shown::diff(&text(&out.path), &out.diff))
    })
};

const CREATE_DIRECTORY: Row<make_directory::MakeDirectory> = Row {
    name: "create_directory",
    description: "Create a directory, and those above it. One that is there is no error.",
    params: &[PATH],
    bound: Bound::HARD,
    fail: |error, path| MKDIR.fail(error, path),
    ..Row::<make_directory::MakeDirectory>::shaped(|args, _, _| {
        said(format!("Successfully created directory {}", in_line(&args.path)))
    })
};

const LIST_DIRECTORY: Row<list::List> = Row {
    name: "list_directory",
    description: "List a directory, each entry with [FILE] or [DIR] before its name.",
    params: &[PATH],
    bound: Bound::HARD,
    fail: |error, path| LIST.fail(error, path),
    ..Row::<list::List>::shaped(|_, out, _| {
        let rows: Vec<String> = out
            .rows
            .iter()
            .map(|row| format!("{} {}", shown::mark(row.kind), text(&row.path)))
            .collect();
        let is_cut = (rows.len() as u64) < out.total;
        cut(said(rows.join("\n")), is_cut)
    })
};

const LIST_DIRECTORY_WITH_SIZES: Row<list::List> = Row {
    name: "list_directory_with_sizes",
    description: "List a directory with the sizes of its files and their sum.",
    params: &[PATH, SORT_BY],
    bound: Bound::HARD,
    fail: |error, path| LIST.fail(error, path),
    ..Row::<list::List>::shaped(|args, out, _| {
        let is_cut = (out.rows.len() as u64) < out.total;
        cut(said(shown::sizes(&out.rows, args.sort_by)), is_cut)
    })
};

const SORT_BY: Param = Param::optional(
    "sortBy",
    "sort_by",
    ParamKind::Enum(&["name", "size"]),
    "The order of entries",
)
.or(Preset::Str("name"));

const DIRECTORY_TREE: Row<find::Find> = Row {
    name: "directory_tree",
    description: "Get everything beneath a directory as JSON: name, type, and children of \
                  directories.",
    params: &[PATH, EXCLUDE],
    presets: &[("exclude_anywhere", Preset::Bool(true))],
    bound: Bound::HARD,
    fail: |error, path| LIST.fail(error, path),
    ..Row::<find::Find>::shaped(|_, out, _| {
        let is_cut = out.truncated();
        cut(said(shown::tree(&out.names)), is_cut)
    })
};

const MOVE_FILE: Row<move_path::Move> = Row {
    name: "move_file",
    description: "Move or rename a file or directory. Where the destination exists, it fails.",
    params: &[
        Param::required("source", "source", ParamKind::String, ""),
        Param::required("destination", "destination", ParamKind::String, ""),
    ],
    bound: Bound::HARD,
    fail: |error, path| RENAME.fail(error, path),
    ..Row::<move_path::Move>::shaped(|args, out, _| {
        let (from, to) = (text(&out.from), text(&out.to));
        let refused = |words: String| {
            let kind = match out.end {
                move_path::End::Exists => Kind::ExecutionFailed,
                _ => Kind::FileNotFound,
            };
            Reply::failure(&ToolError::new(kind, words))
        };
        match out.end {
            move_path::End::Moved => {
                let (from, to) = (in_line(&args.source), in_line(&args.destination));
                said(format!("Successfully moved {from} to {to}"))
            }
            move_path::End::Exists => refused(format!("Destination already exists: {to}")),
            move_path::End::NotFound | move_path::End::NoParent => {
                refused(format!("ENOENT: no such file or directory, rename '{from}' -> '{to}'"))
            }
        }
    })
};

const SEARCH_FILES: Row<find::Find> = Row {
    name: "search_files",
    description: "Find files and directories by a glob of paths relative to the directory: *.ext \
                  there, **/*.ext at any depth. Returns full paths.",
    params: &[PATH, Param::required("pattern", "pattern", ParamKind::String, ""), EXCLUDE],
    bound: Bound::HARD,
    fail: |error, path| LIST.fail(error, path),
    ..Row::<find::Find>::shaped(|_, out, _| {
        let paths: Vec<String> =
            out.names.iter().map(|name| text(&out.root.join(&name.path))).collect();
        let is_cut = out.truncated();
        cut(
            said(if paths.is_empty() { "No matches found".into() } else { paths.join("\n") }),
            is_cut,
        )
    })
};

const GET_FILE_INFO: Row<info::Info> = Row {
    name: "get_file_info",
    description: "Get size, times, permissions and kind of a file or directory.",
    params: &[PATH],
    bound: Bound::HARD,
    fail: |error, path| STAT.fail(error, path),
    ..Row::<info::Info>::shaped(|_, out, _| {
        let meta = &out.info.meta;
        let created = out.info.created.map_or_else(|| String::from("unknown"), long_time);
        said(format!(
            "size: {}\ncreated: {created}\nmodified: {}\naccessed: {}\nisDirectory: {}\nisFile: {}\n\
             permissions: {:03o}",
            meta.size(),
            long_time(meta.modified()),
            long_time(out.info.accessed),
            meta.kind == FileKind::Directory,
            meta.kind == FileKind::File,
            meta.mode & 0o777,
        ))
    })
};

const LIST_ALLOWED_DIRECTORIES: Row<roots::Roots> = Row {
    name: "list_allowed_directories",
    description: "List the directories that may be accessed, with all beneath them.",
    params: &[],
    bound: Bound::HARD,
    fail: |error, path| STAT.fail(error, path),
    ..Row::<roots::Roots>::shaped(|_, out, _| {
        let paths: Vec<String> = out.iter().map(|root| text(root)).collect();
        said(format!("Allowed directories:\n{}", paths.join("\n")))
    })
};

/// Returns a path as written, escaped for a line of text.
fn in_line(path: &str) -> Cow<'_, str> {
    line_name(Path::new(path))
}

/// Returns a text reply, as content and as structured result.
fn said(words: String) -> Reply {
    let mut reply = Reply::text(words.clone());
    reply.structured = Some(json!({ "content": words }));
    reply
}

/// Returns a reply that says whether it is truncated.
fn cut(mut reply: Reply, is_cut: bool) -> Reply {
    reply.meta.truncated = is_cut;
    reply
}

fn read_text(args: &read::ReadArgs, out: read::ReadOut, shaping: &Shaping<'_>) -> Reply {
    let is_cut =
        matches!(&out, read::ReadOut::Text(lines) if lines.truncated && args.head.is_none());
    match content(&out, &text(shaping.path(0))) {
        Ok(mut content) => {
            if args.head.is_some_and(|head| 0 < head) && content.ends_with('\n') {
                content.pop();
            }
            if args.tail.is_some_and(|tail| 0 < tail) {
                content = content.replace("\r\n", "\n");
            }
            cut(said(content), is_cut)
        }
        Err(words) => Reply::failure(&ToolError::new(refusal::kind(&out), words)),
    }
}

/// Returns the text of a file, or why it has none.
fn content(found: &read::ReadOut, path: &str) -> Result<String, String> {
    match found {
        read::ReadOut::Text(lines) => Ok(lines.plain()),
        other => Err(refusal::of_read(other, path)),
    }
}

fn read_media(_: &read::ReadArgs, out: read::ReadOut, shaping: &Shaping<'_>) -> Reply {
    let path = shaping.path(0);
    match out {
        read::ReadOut::Media { mime, base64, .. } => {
            // The server knows fewer media types than the engine.
            let known =
                mime.filter(|mime| !matches!(*mime, "application/pdf" | "audio/mp4" | "audio/aac"));
            let mime = known.unwrap_or("application/octet-stream").to_owned();
            let block = Block::of_file(path, mime, base64);
            let mut reply = Reply::text("");
            reply.structured = Some(json!({ "content": [block] }));
            reply.content = vec![block];
            reply
        }
        other => {
            let words = refusal::of_read(&other, &text(path));
            Reply::failure(&ToolError::new(refusal::kind(&other), words))
        }
    }
}
