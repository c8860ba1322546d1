//! The dialect of aionrs: `Read`, `Write`, `Edit`, `Bash`, `Grep`, `Glob` and `Spawn`.
//!
//! Commands run with `sh`; an exit code other than 0 is an error, also for the model. `Read` counts offsets
//! from 0 and lines from 1. Replies that are too long lose their middle.
//!
//! `Read`, `Grep` and `Glob` run side by side. `Write`, `Edit` and `Bash` run alone in their session: a call
//! that may run waits for those that run, and later ones wait for it.
//!
//! Differences from the program:
//! - `Bash`: a timeout shows the output so far and ends all its processes. Colours are removed; output over
//!   the limit is stored whole and named.
//! - `Read` shows unchanged files again, since the caller may have forgotten them. It shows at most the first
//!   4 MiB and how to continue.
//! - `Edit` is atomic, refuses an empty text, tries other line endings and shows the most similar text.
//! - `Grep` starts no program. It sorts by path, shows a long line around its match, and reports further
//!   matches.
//! - `Spawn`: sub-agents have the rights of the agent above them, ask as it asks, and may spawn others. A failed one
//!   says why.
//! - `Glob` returns the newest of all files and skips `.git`; a missing directory is an error.

use std::path::Path;
use std::sync::Arc;

use sinew_ops::bash::{self, end};
use sinew_ops::{edit, glob, grep, read, row_name, spawn, tool_search, write};
use sinew_tool::{
    Bound, Conventions, Dialect, Exit, FileKind, FileSettings, Finished, ForeignNames, Kind,
    OutsidePaths, Param, ParamKind, Preset, Reply, Row, Scale, Shaping, Skipped, Tool, ToolError,
    line_name,
};

use crate::words::{hint, occurrences, said, without_argument};

/// The dialect of aionrs.
pub const AIONRS: Dialect = Dialect {
    name: "aionrs",
    tools,
    settings,
    approval_timeout_ms: 300_000,
    conventions: CONVENTIONS,
};

const CONVENTIONS: Conventions = Conventions {
    foreign_names: ForeignNames { prefix: "mcp__", bare: true, ..ForeignNames::DEFAULT },
    takes_turns: true,
    ..Conventions::DEFAULT
};

fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        READ.tool(),
        WRITE.tool(),
        EDIT.tool(),
        BASH.tool(),
        GREP.tool(),
        GLOB.tool(),
        SPAWN.tool(),
        TOOL_SEARCH.tool(),
    ]
}

fn settings() -> FileSettings {
    FileSettings {
        outside: OutsidePaths::Deny,
        read_reply_bytes: 4 << 20,
        glob_limit: 100,
        grep_limit: 250,
        track_reads: true,
        must_read_before_write: true,
        ..FileSettings::default()
    }
}

/// The most bytes of Read and of Grep.
const MAX_READ: usize = 100_000;
const MAX_GREP: usize = 20_000;

const FILE_PATH: Param =
    Param::required("file_path", "path", ParamKind::String, "Absolute path of the file");

const READ: Row<read::Read> = Row {
    name: "Read",
    description: "Reads a file from the local filesystem, with line numbers.",
    params: &[
        FILE_PATH,
        Param::optional(
            "offset",
            "offset",
            ParamKind::Integer { min: 0, cap: None },
            "First line, counted from 0",
        )
        .scaled(Scale::FromZero),
        Param::optional("limit", "limit", ParamKind::Integer { min: 1, cap: None }, "Most lines"),
    ],
    presets: &[("limit", Preset::Int(i64::MAX)), ("media", Preset::Str("plain"))],
    bound: Bound::HARD,
    fail: |error, path| fail(error, path, "Failed to read file"),
    ..Row::<read::Read>::shaped(|args, out, _| read(args, out))
};

const WRITE: Row<write::Write> = Row {
    name: "Write",
    description: "Writes a file atomically, and its parent directories where they are missing.",
    params: &[
        FILE_PATH,
        Param::required("content", "content", ParamKind::String, "The whole new content"),
    ],
    presets: &[("parents", Preset::Bool(true)), ("follow_links", Preset::Bool(true))],
    fail: |error, _| match error.kind {
        Kind::InvalidArgs | Kind::PathDenied => Reply::failure(error),
        _ => fail(error, None, "Failed to write file"),
    },
    ..Row::<write::Write>::shaped(|args, out, _| {
        let deed = if out.created { "Created" } else { "Updated" };
        let path = line_name(Path::new(&args.path));
        Reply::text(format!("{deed} {path} ({} lines)", args.content.lines().count()))
    })
};

const EDIT: Row<edit::Edit> = Row {
    name: "Edit",
    description: "Replaces an exact text, which must be unique unless replace_all is set.",
    params: &[
        FILE_PATH,
        Param::required("old_string", "old_string", ParamKind::String, "The text to replace"),
        Param::required("new_string", "new_string", ParamKind::String, "The replacement"),
        Param::optional(
            "replace_all",
            "replace_all",
            ParamKind::Boolean,
            "Replace every occurrence",
        )
        .or(Preset::Bool(false)),
    ],
    presets: &[("follow_links", Preset::Bool(true))],
    fail: fail_edit,
    ..Row::<edit::Edit>::shaped(|args, out, _| {
        let path = line_name(Path::new(&args.path));
        Reply::text(format!("Edited {path}: replaced {} occurrence(s)", out.replacements))
    })
};

/// What a sub-agent may do, unless configured.
const SPAWN_ITERATIONS: i64 = 10;
const SPAWN_OUTPUT_TOKENS: i64 = 4_096;

const SPAWN: Row<spawn::Spawn> = Row {
    name: "Spawn",
    description: "Spawns sub-agents for parallel tasks and returns their results. Kinds of \
                  sub-agents, of which these tasks get `general`:",
    params: &[Param::required(
        "tasks",
        "tasks",
        ParamKind::Objects(&[
            Param::required("name", "name", ParamKind::String, "Short name of the task"),
            Param::required("prompt", "prompt", ParamKind::String, "What the sub-agent is to do"),
        ]),
        "The tasks, 5 at most",
    )],
    presets: &[
        ("max_iterations", Preset::Int(SPAWN_ITERATIONS)),
        ("max_output_tokens", Preset::Int(SPAWN_OUTPUT_TOKENS)),
    ],
    spawns: true,
    ..Row::<spawn::Spawn>::shaped(|args, reports, _| spawn::shaped(args, &reports))
};

const TOOL_SEARCH: Row<tool_search::ToolSearch> = Row {
    name: "ToolSearch",
    description: "Load full schemas for deferred tools.",
    for_deferred: true,
    bound: Bound::HARD,
    params: &[
        Param::required(
            "query",
            "query",
            ParamKind::String,
            "`select:Read,Edit` for exact names, or keywords",
        ),
        Param::optional(
            "max_results",
            "max_results",
            ParamKind::Integer { min: 1, cap: Some(tool_search::MAX_LIMIT) },
            "Most tools",
        )
        .or(Preset::Int(tool_search::LIMIT)),
    ],
    ..Row::<tool_search::ToolSearch>::shaped(|_, found, _| match found.found.is_empty() {
        true => Reply::text(tool_search::nothing(&found)),
        false => Reply::text(tool_search::as_json(&found).to_string()),
    })
};

const GREP: Row<grep::Grep> = Row {
    name: "Grep",
    description: "Searches file contents with a regular expression; 250 lines at most.",
    params: &[
        Param::required("pattern", "pattern", ParamKind::String, "Regular expression"),
        Param::optional("path", "path", ParamKind::String, "Where to search"),
        Param::optional("glob", "glob", ParamKind::String, "Only files of this glob: *.rs"),
        Param::optional("case_insensitive", "ignore_case", ParamKind::Boolean, "Ignore case"),
    ],
    presets: &[
        ("mode", Preset::Str("content")),
        ("order", Preset::Str("path")),
        ("skip_hidden", Preset::Bool(true)),
    ],
    bound: Bound::HARD,
    fail: |error, path| match (error.kind, path) {
        (Kind::FileNotFound, Some(path)) => {
            let words = format!("rg error: {path}: No such file or directory (os error 2)");
            said(error, words, None)
        }
        (Kind::InvalidArgs, _) if error.message.contains("` is not a valid ") => {
            said(error, format!("rg error: {}", error.message), hint(error))
        }
        _ => Reply::failure(error),
    },
    ..Row::shaped(grep)
};

const GLOB: Row<glob::Glob> = Row {
    name: "Glob",
    description: "Finds files matching a glob pattern, newest first; 100 at most.",
    params: &[
        Param::required("pattern", "pattern", ParamKind::String, "Such as **/*.rs"),
        Param::optional("path", "path", ParamKind::String, "Root directory"),
    ],
    presets: &[("all_files", Preset::Bool(true))],
    fail: |error, _| match error.message.strip_prefix("argument `pattern` is not a valid glob") {
        Some(why) => said(error, format!("Invalid glob pattern{why}"), None),
        None => said(error, without_argument(&error.message).to_owned(), hint(error)),
    },
    ..Row::<glob::Glob>::shaped(|_, out, _| {
        let rows: Vec<String> =
            out.files.iter().map(|file| row_name(&out.root, &file.path)).collect();
        let text = match rows.is_empty() {
            true => String::from("No files matched the pattern"),
            false => rows.join("\n"),
        };
        searched(text, out.truncated(), out.skipped)
    })
};

fn read(args: &read::ReadArgs, out: read::ReadOut) -> Reply {
    let path = &args.path;
    let failed = |kind, why: &str| {
        Reply::failure(&ToolError::new(kind, format!("Failed to read file {path}: {why}")))
    };
    match out {
        read::ReadOut::Text(lines) => read_text(args, &lines),
        read::ReadOut::Binary { bytes, .. } | read::ReadOut::Media { bytes, .. } => {
            let mut reply = Reply::text(format!("(binary file, {bytes} bytes)"));
            reply.outcome = Some(Kind::Binary);
            reply
        }
        read::ReadOut::NotFound => {
            failed(Kind::FileNotFound, "No such file or directory (os error 2)")
        }
        read::ReadOut::PermissionDenied => {
            failed(Kind::PermissionDenied, "Permission denied (os error 13)")
        }
        read::ReadOut::NotRegularFile { kind: FileKind::Directory } => {
            failed(Kind::NotRegularFile, "Is a directory (os error 21)")
        }
        read::ReadOut::NotRegularFile { kind } => {
            failed(Kind::NotRegularFile, &format!("it is no file but {}", kind.words()))
        }
        read::ReadOut::TooLarge { bytes, max_bytes } => {
            failed(Kind::TooLarge, &format!("it has {bytes} bytes, more than {max_bytes}"))
        }
    }
}

fn read_text(args: &read::ReadArgs, lines: &sinew_ops::LineWindow) -> Reply {
    let mut shown = lines.numbered("\t", |n| format!("… [{n} more characters]"));
    if shown.ends_with('\n') {
        shown.pop();
    }
    let (mut text, is_cut) = without_middle(shown, MAX_READ);
    let goes_on = lines.next_offset.filter(|_| lines.rendered_lines < args.limit);
    if let Some(next) = goes_on {
        text.push_str(&format!("\n\n... [the file goes on: read it from offset {}]", next - 1));
    }
    let mut reply = Reply::text(text);
    reply.meta.truncated = is_cut || goes_on.is_some() || lines.cuts_lines();
    reply.bounded = true;
    reply
}

fn grep(args: &grep::GrepArgs, out: grep::GrepOut, _: &Shaping<'_>) -> Reply {
    let start = Path::new(args.path.as_deref().unwrap_or("."));
    let mut rows = Vec::new();
    for file in &out.files {
        let below = file.path.strip_prefix(&out.root).unwrap_or(&file.path);
        // A file searched by its own path has no relative name.
        let name = match below.as_os_str().is_empty() {
            true => String::new(),
            false => format!("{}:", row_name(Path::new(""), &start.join(below))),
        };
        rows.extend(file.hits.iter().map(|hit| format!("{name}{}:{}", hit.number, hit.text)));
    }
    let (mut text, is_cut) = match rows.is_empty() {
        true => (String::from("No matches found"), false),
        false => without_middle(rows.join("\n"), MAX_GREP),
    };
    if out.truncated {
        text.push_str("\n\n... [more lines match: narrow the search]");
    }
    let mut reply = searched(text, out.truncated || is_cut, out.skipped);
    reply.bounded = true;
    reply
}

/// Replaces the middle of a too long text with its size.
fn without_middle(text: String, max_bytes: usize) -> (String, bool) {
    if text.len() <= max_bytes {
        return (text, false);
    }
    let head = text.get(..text.floor_char_boundary(max_bytes / 2)).unwrap_or_default();
    let tail = text.get(text.ceil_char_boundary(text.len() - max_bytes / 2)..).unwrap_or_default();
    let n_left_out = text.len() - head.len() - tail.len();
    (format!("{head}\n\n... [truncated {n_left_out} chars] ...\n\n{tail}"), true)
}

/// Returns the reply of a search with its skip counts.
fn searched(text: String, truncated: bool, skipped: Skipped) -> Reply {
    let mut reply = Reply::text(text);
    reply.meta.truncated = truncated;
    reply.meta.skipped = (!skipped.is_empty()).then_some(skipped);
    reply
}

/// Shapes the refusal of an edit with the most similar text.
fn fail_edit(error: &ToolError, path: Option<&str>) -> Reply {
    match (error.kind, occurrences(&error.message)) {
        (Kind::NoMatch, _) => {
            said(error, String::from("old_string not found in file"), hint(error))
        }
        (Kind::NotUnique, Some((n, lines))) => {
            let words =
                format!("Multiple matches found ({n}). Use replace_all or provide more context.");
            said(error, words, Some(lines))
        }
        (Kind::FileNotFound, _) => fail(error, path, "Failed to read file"),
        _ => said(error, error.message.to_string(), hint(error)),
    }
}

/// Shapes a refusal: the action and the reason.
fn fail(error: &ToolError, path: Option<&str>, what: &str) -> Reply {
    let message = match (error.kind, path) {
        (Kind::FileNotFound, Some(path)) => {
            format!("{what} {path}: No such file or directory (os error 2)")
        }
        (Kind::FileNotFound | Kind::NotRegularFile | Kind::PermissionDenied, _)
        | (Kind::ExecutionFailed | Kind::LimitReached, _) => {
            format!("{what}: {}", without_argument(&error.message))
        }
        _ => error.message.to_string(),
    };
    said(error, message, hint(error))
}

/// The most bytes of both streams together.
const MAX_BYTES: usize = 50_000;

const BASH: Row<bash::Bash> = Row {
    name: "Bash",
    description: "Execute a shell command and return its exit code, stdout and stderr.",
    params: &[
        Param::required("command", "command", ParamKind::String, "The command to execute"),
        Param::optional(
            "timeout",
            "timeout_ms",
            ParamKind::Integer { min: 1, cap: Some(600_000) },
            "Timeout in milliseconds, at most 600000",
        )
        .or(Preset::Int(120_000)),
    ],
    // A byte that is not text is shown as up to three.
    presets: &[
        ("posix", Preset::Bool(true)),
        ("store_above_bytes", Preset::Int(MAX_BYTES as i64 / 3)),
    ],
    bound: Bound::HARD,
    ..Row::<bash::Bash>::shaped(|args, out, _| bash::shaped(args, out, bash))
};

fn bash(args: &bash::BashArgs, finished: &Finished) -> Reply {
    let first = match &finished.exit {
        Exit::Code(code) => format!("Exit code: {code}"),
        Exit::Signal(_) | Exit::Lost => String::from("Exit code: -1"),
        Exit::TimedOut => format!("Command timed out after {}ms", args.timeout_ms),
        Exit::Cancelled | Exit::NotStarted { .. } => return end::not_run(args, finished),
    };
    let (stdout, stderr) = end::both_ends(finished, MAX_BYTES);
    let text = format!("{first}\nSTDOUT:\n{}\nSTDERR:\n{}", stdout.text, stderr.text);
    let mut reply = Reply::text(text);
    if let Some((kind, message)) = end::failure(args, finished) {
        reply = end::failed(reply, kind, message);
    }
    end::told(reply, args, finished, stdout.left_out.into_iter().chain(stderr.left_out).collect())
}
