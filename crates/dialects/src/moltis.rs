//! The dialect of Moltis: six file tools with typed JSON payloads, `checkpoint_restore` and `exec`.
//!
//! A payload with a `kind` is a result, even of a failed call, since models branch on it. A missing file has
//! a payload in Read and is an error elsewhere. Where page and program differ, the page decides names,
//! defaults and limits. Paths are absolute; final symlinks are refused; parents are never created.
//!
//! Differences from the program:
//! - `checkpoint_restore` restores one checkpoint, asks like any change, and is refused for a file that
//!   changed since.
//! - `Read` ignores `pages` for files that are no PDF, and refuses a PDF.
//! - A search counts what it skipped, as far as the counts do not depend on the order of the search.
//! - The text of a reply is its JSON object alone. `stderr` ends with what the sandbox refused and which
//!   processes were ended; other notes are in `_meta` (`sinew/meta`, `notes`).
//! - `exec` uses `sh`; an exit code other than 0 is a result. A missing `cwd` or one outside the roots is an
//!   error. A timeout error contains the output so far.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use sinew_ops::bash::{self, end};
use sinew_ops::{checkpoint_restore, edit, glob, grep, multi_edit, read, write};
use sinew_tool::{
    Bound, Conventions, Dialect, Exit, FileSettings, Finished, ForeignNames, Kind, OutsidePaths,
    Param, ParamKind, Preset, Reply, Row, Scale, Shaping, Skipped, Tool, ToolError, Was,
};

use crate::words::{text, without_argument};

/// The dialect of Moltis.
pub const MOLTIS: Dialect = Dialect {
    name: "moltis",
    tools,
    settings,
    approval_timeout_ms: 120_000,
    conventions: CONVENTIONS,
};

const CONVENTIONS: Conventions = Conventions {
    foreign_names: ForeignNames { prefix: "mcp__", ..ForeignNames::DEFAULT },
    notes_apart: true,
    ..Conventions::DEFAULT
};

fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        READ.tool(),
        WRITE.tool(),
        EDIT.tool(),
        MULTI_EDIT.tool(),
        GLOB.tool(),
        GREP.tool(),
        CHECKPOINT_RESTORE.tool(),
        EXEC.tool(),
    ]
}

/// The most paths of Glob and rows of Grep.
const MAX_ROWS: i64 = 1_000;

fn settings() -> FileSettings {
    FileSettings {
        outside: OutsidePaths::Deny,
        require_approval: true,
        checkpoint_before_mutation: false,
        max_read_bytes: Some(10 * 1024 * 1024),
        glob_limit: MAX_ROWS as usize,
        grep_limit: MAX_ROWS as usize,
        ..FileSettings::default()
    }
}

const FILE_PATH: Param =
    Param::required("file_path", "path", ParamKind::String, "Absolute path of the file");
const OLD: Param = Param::required("old_string", "old_string", ParamKind::String, "Exact text");
const NEW: Param = Param::required("new_string", "new_string", ParamKind::String, "Replacement");
const REPLACE_ALL: Param =
    Param::optional("replace_all", "replace_all", ParamKind::Boolean, "Replace every occurrence")
        .or(Preset::Bool(false));
const NO_LINKS: (&str, Preset) = ("follow_links", Preset::Bool(false));

const READ: Row<read::Read> = Row {
    name: "Read",
    description: "Reads a file with line numbers. The result's `kind` says what was found.",
    params: &[
        FILE_PATH,
        Param::optional("offset", "offset", LINES, "First line, counted from 1").or(Preset::Int(1)),
        Param::optional("limit", "limit", LINES, "Most lines")
            .or(Preset::Int(read::DEFAULT_LIMIT as i64)),
        Param::optional("pages", "pages", ParamKind::String, "PDF only: pages, such as 1-5"),
    ],
    presets: &[("max_line_chars", Preset::Int(2_000))],
    absolute_paths: true,
    bound: Bound::HARD,
    fail: |error, path| fail(error, path, true),
    ..Row::shaped(shape_read)
};

/// A line count; 0 counts as 1.
const LINES: ParamKind = ParamKind::Integer { min: 0, cap: None };

const WRITE: Row<write::Write> = Row {
    name: "Write",
    description: "Writes a file atomically. Its directory must exist; links are refused.",
    params: &[
        FILE_PATH,
        Param::required("content", "content", ParamKind::String, "The whole new content"),
    ],
    presets: &[("parents", Preset::Bool(false)), NO_LINKS],
    absolute_paths: true,
    bound: Bound::HARD,
    fail: |error, path| fail(error, path, false),
    ..Row::<write::Write>::shaped(|_, out, shaping| {
        Reply::json(json!({
            "file_path": text(shaping.path(0)),
            "bytes_written": out.bytes_written,
            "checkpoint_id": shaping.checkpoint,
        }))
    })
};

const EDIT: Row<edit::Edit> = Row {
    name: "Edit",
    description: "Replaces an exact text, which must be unique unless replace_all is set.",
    params: &[
        FILE_PATH.also(&["filePath", "filepath", "path"]),
        OLD.also(&["old_str"]),
        NEW.also(&["new_str"]),
        REPLACE_ALL,
    ],
    presets: &[NO_LINKS],
    absolute_paths: true,
    bound: Bound::HARD,
    fail: |error, path| fail(error, path, false),
    ..Row::<edit::Edit>::shaped(|args, out, shaping| {
        Reply::json(json!({
            "file_path": text(shaping.path(0)),
            "replacements": out.replacements,
            "replace_all": args.replace_all,
            "recovered_via_crlf": out.stage == sinew_ops::Stage::LineEndings,
            "checkpoint_id": shaping.checkpoint,
        }))
    })
};

const MULTI_EDIT: Row<multi_edit::MultiEdit> = Row {
    name: "MultiEdit",
    description: "Makes several edits of one file in order, each on the result of the one before. \
                  All are made or none.",
    params: &[
        FILE_PATH,
        Param::required(
            "edits",
            "edits",
            ParamKind::Objects(&[OLD, NEW, REPLACE_ALL]),
            "The edits, in order",
        ),
    ],
    presets: &[NO_LINKS],
    absolute_paths: true,
    bound: Bound::HARD,
    fail: |error, path| fail(error, path, false),
    ..Row::<multi_edit::MultiEdit>::shaped(|_, out, shaping| {
        let counts: Vec<u64> = out.applied.iter().map(|edit| edit.replacements).collect();
        Reply::json(json!({
            "file_path": text(shaping.path(0)),
            "edits_applied": out.applied.len(),
            "replacements_per_edit": counts,
            "recovered_via_crlf": out.matched_other_endings(),
            "checkpoint_id": shaping.checkpoint,
        }))
    })
};

const CHECKPOINT_RESTORE: Row<checkpoint_restore::CheckpointRestore> = Row {
    name: "checkpoint_restore",
    description: "Restores what was there before the change of a checkpoint.",
    params: &[Param::required("id", "id", ParamKind::String, "The checkpoint_id of a result")],
    presets: &[("only", Preset::Bool(true)), ("asks_person", Preset::Bool(true))],
    absolute_paths: true,
    bound: Bound::HARD,
    fail: |error, _| fail_restore(error),
    ..Row::shaped(shape_restore)
};

const GLOB: Row<glob::Glob> = Row {
    name: "Glob",
    description: "Finds files by glob, newest first. Ignore files are heeded.",
    params: &[
        Param::required("pattern", "pattern", ParamKind::String, "Such as **/*.rs"),
        Param::optional("path", "path", ParamKind::String, "Absolute path of the directory"),
    ],
    presets: &[("star_crosses", Preset::Bool(true))],
    absolute_paths: true,
    bound: Bound::HARD,
    fail: |error, path| fail(error, path, false),
    ..Row::<glob::Glob>::shaped(|_, out, _| {
        let truncated = out.truncated();
        let paths: Vec<String> = out.files.iter().map(|file| text(&file.path)).collect();
        let payload = json!({ "paths": paths, "truncated": truncated, "root": text(&out.root) });
        searched(payload, truncated, out.skipped)
    })
};

const GREP: Row<grep::Grep> = Row {
    name: "Grep",
    description: "Searches file contents with a regular expression. Ignore files are heeded.",
    params: &[
        Param::required("pattern", "pattern", ParamKind::String, "Regular expression"),
        Param::optional("path", "path", ParamKind::String, "Absolute path, file or directory"),
        Param::optional("glob", "glob", ParamKind::String, "Only files of this glob"),
        Param::optional(
            "type",
            "file_type",
            ParamKind::String,
            "Only files of this type: rust, py",
        ),
        Param::optional(
            "output_mode",
            "mode",
            ParamKind::Enum(&["files_with_matches", "content", "count"]),
            "What is returned",
        )
        .or(Preset::Str("files_with_matches")),
        Param::optional("-i", "ignore_case", ParamKind::Boolean, "Ignore case"),
        Param::optional("-n", "line_numbers", ParamKind::Boolean, "Line numbers")
            .or(Preset::Bool(false)),
        Param::optional("-A", "after", COUNT, "Lines after each match"),
        Param::optional("-B", "before", COUNT, "Lines before each match"),
        Param::optional("-C", "context", COUNT, "Lines around each match").also(&["context"]),
        Param::optional("multiline", "multiline", ParamKind::Boolean, "Matches may span lines"),
        Param::optional(
            "head_limit",
            "limit",
            ParamKind::Integer { min: 0, cap: Some(MAX_ROWS) },
            "Most rows",
        ),
        Param::optional("offset", "offset", COUNT, "Rows to pass over"),
    ],
    presets: &[("order", Preset::Str("path"))],
    absolute_paths: true,
    bound: Bound::HARD,
    fail: |error, path| fail(error, path, false),
    ..Row::shaped(shape_grep)
};

/// The most bytes per stream.
const MAX_STREAM: usize = 200 * 1024;

const EXEC: Row<bash::Bash> = Row {
    name: "exec",
    description: "Execute a shell command. Returns stdout, stderr, and exit code.",
    params: &[
        Param::required("command", "command", ParamKind::String, "The shell command to execute"),
        Param::optional(
            "timeout",
            "timeout_ms",
            ParamKind::Integer { min: 1, cap: Some(1_800) },
            "Timeout in seconds, at most 1800",
        )
        .or(Preset::Int(30))
        .scaled(Scale::Seconds),
        Param::optional("working_dir", "cwd", ParamKind::String, "Working directory"),
    ],
    // A byte takes up to six in JSON, and a reply holds 1 MiB.
    presets: &[("posix", Preset::Bool(true)), ("store_above_bytes", Preset::Int(170 * 1024))],
    bound: Bound::HARD,
    ..Row::<bash::Bash>::shaped(|args, out, _| bash::shaped(args, out, shape_exec))
};

const COUNT: ParamKind = ParamKind::Integer { min: 0, cap: Some(1_000_000) };

fn shape_read(_: &read::ReadArgs, out: read::ReadOut, shaping: &Shaping<'_>) -> Reply {
    let path = text(shaping.path(0));
    match out {
        read::ReadOut::Text(lines) => shape_text(&path, &lines),
        read::ReadOut::Binary { bytes, encoding, base64 } => {
            let what = encoding.unwrap_or("binary");
            let mut payload = json!({
                "kind": "binary",
                "file_path": path,
                "bytes": bytes,
                "message": format!("{what} content of {bytes} bytes is not shown as text"),
            });
            if let (Some(base64), Some(object)) = (base64, payload.as_object_mut()) {
                object.insert(String::from("base64"), Value::from(base64));
            }
            typed(payload, Kind::Binary)
        }
        read::ReadOut::Media { bytes, base64, .. } => typed(
            json!({ "kind": "binary", "file_path": path, "bytes": bytes, "base64": base64 }),
            Kind::Binary,
        ),
        read::ReadOut::NotFound => {
            refused("not_found", Some(&path), "file does not exist", None, Kind::FileNotFound)
        }
        read::ReadOut::PermissionDenied => refused(
            "permission_denied",
            Some(&path),
            "the system denies reading the file",
            None,
            Kind::PermissionDenied,
        ),
        read::ReadOut::TooLarge { bytes, max_bytes } => typed(
            json!({
                "kind": "too_large",
                "file_path": path,
                "bytes": bytes,
                "max_bytes": max_bytes,
                "error": format!("file has {bytes} bytes, more than the limit of {max_bytes}"),
            }),
            Kind::TooLarge,
        ),
        read::ReadOut::NotRegularFile { kind } => refused(
            "not_regular_file",
            Some(&path),
            &format!("not a regular file but {}", kind.words()),
            None,
            Kind::NotRegularFile,
        ),
    }
}

fn shape_text(path: &str, lines: &sinew_ops::LineWindow) -> Reply {
    let mut content = String::new();
    for line in lines.lines() {
        let cut = if 0 < line.cut_chars { "…" } else { "" };
        content.push_str(&format!("{:>6}→{}{cut}\n", line.number, line.text));
    }
    // Moltis counts an empty file as one empty line.
    let empty = lines.bytes == 0 && lines.total_lines == Some(0) && lines.start_line == 1;
    if empty {
        content.push_str("     1→\n");
    }
    let mut payload = json!({
        "kind": "text",
        "file_path": path,
        "content": content,
        "total_lines": if empty { Some(1) } else { lines.total_lines },
        "rendered_lines": if empty { 1 } else { lines.rendered_lines },
        "start_line": lines.start_line,
        "truncated": lines.truncated,
    });
    if let (Some(next), Some(object)) = (lines.next_offset, payload.as_object_mut()) {
        object.insert(String::from("next_offset"), Value::from(next));
        let hint = format!("read on with offset {next}");
        object.insert(String::from("continuation_hint"), Value::from(hint));
    }
    if let (true, Some(object)) = (read::MANY_TIMES <= lines.n_times, payload.as_object_mut()) {
        let n = lines.n_times;
        let warning = format!("identical read {n} times in a row; nothing changed in between");
        object.insert(String::from("loop_warning"), Value::from(warning));
    }
    let mut reply = Reply::json(payload);
    reply.meta.truncated = lines.truncated;
    reply.bounded = true;
    reply
}

/// Moltis reports one path per change: the last, which is the deepest new directory.
fn shape_restore(
    _args: &checkpoint_restore::CheckpointRestoreArgs,
    out: checkpoint_restore::CheckpointRestoreOut,
    _shaping: &Shaping<'_>,
) -> Reply {
    let change = out.changes.last();
    let existed = change.is_some_and(|change| change.before != Was::Absent);
    let kind = match change.map(|change| &change.before) {
        Some(Was::Directory { .. }) => "directory",
        _ => "file",
    };
    Reply::json(json!({
        "restored": true,
        "checkpoint": {
            "id": out.id,
            "createdAt": out.time,
            "reason": out.tool,
            "sourcePath": change.map(|change| text(&change.path)),
            "sourceKind": kind,
            "existed": existed,
        },
    }))
}

fn shape_exec(args: &bash::BashArgs, finished: &Finished) -> Reply {
    let (code, error) = match &finished.exit {
        Exit::Code(code) => (*code, None),
        Exit::Signal(_) | Exit::Lost => (-1, None),
        Exit::TimedOut => {
            (-1, Some(format!("command timed out after {}s", args.timeout_ms / 1_000)))
        }
        Exit::Cancelled | Exit::NotStarted { .. } => return end::not_run(args, finished),
    };
    // Reserves space for markers and keys.
    let json = Bound::HARD.max_bytes - 1_024;
    let room = end::Room { stdout: MAX_STREAM, stderr: MAX_STREAM, json };
    let (stdout, stderr) = end::streams(finished, room);
    let marked = |stream: &end::Stream| match stream.left_out {
        Some(_) => format!("{}\n... [output truncated]", stream.text),
        None => stream.text.clone(),
    };
    let mut payload =
        json!({ "stdout": marked(&stdout), "stderr": marked(&stderr), "exit_code": code });
    if let (Some(error), Some(object)) = (&error, payload.as_object_mut()) {
        object.insert(String::from("error"), Value::from(error.as_str()));
    }
    let mut reply = Reply::json(payload);
    if let Some(error) = error {
        reply = end::failed(reply, Kind::Timeout, error);
    }
    end::apart(reply, args, finished, stdout.left_out.into_iter().chain(stderr.left_out).collect())
}

fn shape_grep(args: &grep::GrepArgs, out: grep::GrepOut, _: &Shaping<'_>) -> Reply {
    let (key, rows): (&str, Vec<Value>) = match args.mode {
        grep::OutputMode::FilesWithMatches => {
            ("files", out.files.iter().map(|file| Value::from(text(&file.path))).collect())
        }
        grep::OutputMode::Count => (
            "counts",
            out.files
                .iter()
                .map(|file| json!({ "path": text(&file.path), "count": file.count }))
                .collect(),
        ),
        grep::OutputMode::Content => {
            ("matches", out.files.iter().flat_map(|file| matches(args, file)).collect())
        }
    };
    let mode = match args.mode {
        grep::OutputMode::FilesWithMatches => "files_with_matches",
        grep::OutputMode::Content => "content",
        grep::OutputMode::Count => "count",
    };
    let truncated = out.truncated || out.timed_out;
    let mut payload = Map::new();
    payload.insert(String::from("mode"), Value::from(mode));
    payload.insert(key.to_owned(), Value::Array(rows));
    payload.insert(String::from("truncated"), Value::Bool(truncated));
    searched(Value::Object(payload), truncated, out.skipped)
}

/// Returns one row per match with its context; lines near two matches appear in both rows.
fn matches(args: &grep::GrepArgs, file: &grep::FileHits) -> Vec<Value> {
    let around = args.context.unwrap_or(0);
    let before = args.before.unwrap_or(around);
    let after = args.after.unwrap_or(around);
    let starts = file.hits.iter().filter(|hit| hit.kind == grep::HitKind::Match);
    starts
        .map(|start| {
            let last = file
                .hits
                .iter()
                .skip_while(|hit| hit.number <= start.number)
                .take_while(|hit| hit.kind == grep::HitKind::More)
                .last()
                .map_or(start.number, |hit| hit.number);
            let near = start.number.saturating_sub(before)..=last.saturating_add(after);
            let block: Vec<Value> = file
                .hits
                .iter()
                .filter(|hit| near.contains(&hit.number))
                .map(|hit| {
                    let is_match = hit.kind != grep::HitKind::Context;
                    json!({ "line": hit.number, "text": hit.text, "match": is_match })
                })
                .collect();
            let mut row = json!({ "path": text(&file.path) });
            if let Some(object) = row.as_object_mut() {
                if args.line_numbers {
                    object.insert(String::from("line"), Value::from(start.number));
                }
                object.insert(String::from("match"), Value::from(start.text.as_str()));
                if 1 < block.len() {
                    object.insert(String::from("block"), Value::Array(block));
                }
            }
            row
        })
        .collect()
}

/// Returns the reply of a search with its skip counts, as far as every search of the tree has the same.
fn searched(mut payload: Value, truncated: bool, skipped: Skipped) -> Reply {
    let settled = skipped.settled();
    if !settled.is_empty()
        && let Some(object) = payload.as_object_mut()
    {
        object.insert(String::from("skipped"), json!(settled));
    }
    let mut reply = Reply::json(payload);
    reply.meta.truncated = truncated;
    reply.meta.skipped = (!skipped.is_empty()).then_some(skipped);
    reply
}

/// Returns a payload as a result and records its real outcome in the ledger.
fn typed(payload: Value, outcome: Kind) -> Reply {
    let mut reply = Reply::json(payload);
    reply.outcome = Some(outcome);
    reply.bounded = true;
    reply
}

fn refused(
    kind: &str,
    path: Option<&str>,
    error: &str,
    detail: Option<&str>,
    outcome: Kind,
) -> Reply {
    typed(json!({ "kind": kind, "file_path": path, "error": error, "detail": detail }), outcome)
}

/// Shapes the refusal of a restore, with the path at the end of the message.
fn fail_restore(error: &ToolError) -> Reply {
    let path = error.message.split_once(": /").map(|(_, path)| format!("/{path}"));
    let names_arguments =
        |hint: &str| hint.contains("with `path`") || hint.contains("CheckpointList");
    match error.hint.as_deref() {
        Some(hint) if names_arguments(hint) => {
            let plain = ToolError::new(error.kind, error.message.to_string()).hint(
                "ask the person to look with `sinew checkpoint list` and to restore single paths",
            );
            fail(&plain, path.as_deref(), false)
        }
        _ => fail(error, path.as_deref(), false),
    }
}

/// Shapes a refusal: a typed payload where a model can act on it, else an error. Argument names are removed.
fn fail(error: &ToolError, path: Option<&str>, reads: bool) -> Reply {
    let message = without_argument(&error.message);
    let kind = match error.kind {
        Kind::FileNotFound if reads => "not_found",
        Kind::PathDenied => "path_denied",
        Kind::PermissionDenied => "permission_denied",
        Kind::NotRegularFile => "not_regular_file",
        Kind::TooLarge => "too_large",
        Kind::Binary => "binary",
        Kind::MustReadFirst => "must_read_before_write",
        Kind::Stale => "file_modified_since_read",
        _ if message.len() == error.message.len() => return Reply::failure(error),
        _ => {
            let plain = ToolError::new(error.kind, message.to_owned());
            return Reply::failure(&ToolError { hint: error.hint.clone(), ..plain });
        }
    };
    refused(kind, path, message, error.hint.as_deref(), error.kind)
}
