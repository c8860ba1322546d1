//! The dialect of molf: the six tools of its worker, and the tool of its server that loads skills.
//!
//! Commands run in the user's shell; an exit code other than 0 is a result. Where page and program differ,
//! the page decides names, defaults and limits; the exit code follows a blank line, as in the program. An
//! empty optional path or glob counts as absent.
//!
//! Differences from the program:
//! - Results: `structured` is the envelope of the page; the text is its `output`, or its `error`. Notes of sinew
//!   are in `_meta` (`sinew/meta`, `notes`). The `error` of a refusal ends with a hint.
//! - Cut output: hints use the parameters of `read_file`, and name the copy relative to the first root. A second
//!   output of one call id gets another name. `.molf/tool-output/` takes at most 1,000 outputs, and none once they
//!   hold 1 GiB; sinew removes none. Where nothing can be kept, the cut text says so.
//! - Commands: a timeout shows the output so far; a time above the maximum is cut with a note. The
//!   environment is filtered, and colours are removed. Refusals of the sandbox end the output.
//! - Files: all paths lie beneath a root. Of a file, 1 MiB is read at once and copied; of a longer part there is no
//!   copy, and the reply names the file. Attachments have at most 700 KiB. Content decides whether a file is binary;
//!   the name counts for pictures, sound and PDF only.
//! - Edits: replacement text is literal, including `$&`. A failed match tries other line endings and shows
//!   the most similar text. Changes are atomic.
//! - Search: `glob` and `grep` return the newest of all matches, skip `.git` and show a long line around its
//!   match. An invalid pattern is an error.
//! - Errors name paths as hooks left them: joined with the working directory, unless a hook wrote others.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use sinew_ops::bash::{self, end};
use sinew_ops::{edit, glob, grep, read, row_name, skill, write};
use sinew_tool::{
    Block, Bound, Conventions, CutText, Dialect, Exit, FileKind, FileSettings, Finished,
    ForeignNames, Kind, Outputs, OutsidePaths, Param, ParamKind, Preset, Reply, Row, Shaping, Tool,
    ToolError, line_name,
};

use crate::words::{hint, occurrences, renamed, said, without_argument};

/// The dialect of molf.
pub const MOLF: Dialect = Dialect {
    name: "molf",
    tools,
    settings,
    approval_timeout_ms: 300_000,
    conventions: CONVENTIONS,
};

const CONVENTIONS: Conventions = Conventions {
    foreign_names: ForeignNames {
        separator: "_",
        labelled: true,
        closed_schemas: true,
        ..ForeignNames::DEFAULT
    },
    notes_apart: true,
    joined_paths: true,
    outputs: Some(Outputs { directory: ".molf", title_lines: 1, words: cut }),
    envelope: Some(envelope),
    ..Conventions::DEFAULT
};

fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        SHELL_EXEC.tool(),
        READ_FILE.tool(),
        WRITE_FILE.tool(),
        EDIT_FILE.tool(),
        GLOB.tool(),
        GREP.tool(),
        SKILL.tool(),
    ]
}

/// The most files of glob and lines of grep.
const MAX_FOUND: usize = 100;

fn settings() -> FileSettings {
    FileSettings {
        outside: OutsidePaths::Deny,
        glob_limit: MAX_FOUND,
        grep_limit: MAX_FOUND,
        read_reply_bytes: MAX_COPIED,
        ..FileSettings::default()
    }
}

/// The most bytes of a file that one read takes, so that the copy of its output holds all of it.
const MAX_COPIED: usize = 1 << 20;

/// The most output bytes and lines in a reply.
const MAX_BYTES: usize = 50 * 1024;
const MAX_LINES: usize = 2_000;
/// The hint after truncated output.
const GO_ON: &str =
    "Use read_file with startLine and endLine to view a section of it, or grep to search it.";

const SHELL_EXEC: Row<bash::Bash> = Row {
    name: "shell_exec",
    description: "Execute a shell command and return combined stdout/stderr and exit code.",
    params: &[
        Param::required("command", "command", ParamKind::String, "Shell command to execute"),
        Param::optional("cwd", "cwd", ParamKind::String, "Working directory for the command")
            .absent_if_empty(),
        Param::optional(
            "timeout",
            "timeout_ms",
            ParamKind::Number { min: 1, cap: Some(bash::LONGEST_TIMEOUT_MS) },
            "Timeout in milliseconds",
        )
        .or(Preset::Int(120_000)),
    ],
    presets: &[("merged", Preset::Bool(true))],
    ..Row::<bash::Bash>::shaped(|args, out, _| bash::shaped(args, out, shell_exec))
};

const PATH: Param =
    Param::required("path", "path", ParamKind::String, "Absolute or relative path to the file");
const LINE: ParamKind = ParamKind::Number { min: 1, cap: None };

const READ_FILE: Row<read::Read> = Row {
    name: "read_file",
    description: "Read the contents of a file: text, or a picture, sound or PDF as attachment.",
    params: &[
        PATH,
        Param::optional("startLine", "offset", LINE, "First line, from 1"),
        Param::optional("endLine", "last", LINE, "Last line, from 1, inclusive"),
    ],
    presets: &[
        ("limit", Preset::Int(i64::MAX)),
        ("counts_lines", Preset::Bool(true)),
        ("media", Preset::Str("known")),
    ],
    fail: |error, path| fail(error, path, "Failed to read file"),
    ..Row::shaped(read_file)
};

const WRITE_FILE: Row<write::Write> = Row {
    name: "write_file",
    description: "Write content to a file, which is created or overwritten.",
    params: &[
        PATH,
        Param::required("content", "content", ParamKind::String, "Content to write"),
        Param::optional(
            "createDirectories",
            "parents",
            ParamKind::Boolean,
            "Create parent directories if they do not exist",
        )
        .or(Preset::Bool(false)),
    ],
    presets: &[("follow_links", Preset::Bool(true))],
    fail: |error, _| match error.kind {
        Kind::FileNotFound => said(
            error,
            format!("Failed to write file: {}", without_argument(&error.message)),
            Some(String::from("createDirectories creates it")),
        ),
        _ => fail(error, None, "Failed to write file"),
    },
    ..Row::<write::Write>::shaped(|_, out, _| {
        Reply::text(format!("Wrote {} bytes to {}", out.bytes_written, line_name(&out.path)))
    })
};

const EDIT_FILE: Row<edit::Edit> = Row {
    name: "edit_file",
    description: "Replace an exact text in a file; it must be there once unless replaceAll is set.",
    params: &[
        PATH,
        Param::required("oldString", "old_string", ParamKind::String, "Exact text to find"),
        Param::required("newString", "new_string", ParamKind::String, "Replacement text"),
        Param::optional("replaceAll", "replace_all", ParamKind::Boolean, "Replace all occurrences")
            .or(Preset::Bool(false)),
    ],
    presets: &[("follow_links", Preset::Bool(true))],
    fail: fail_edit,
    ..Row::<edit::Edit>::shaped(|_, out, _| {
        let (n, path) = (out.replacements, line_name(&out.path));
        Reply::text(format!("Replaced {n} occurrence(s) in {path}"))
    })
};

const GLOB: Row<glob::Glob> = Row {
    name: "glob",
    description: "Find files matching a glob pattern, newest first.",
    params: &[
        Param::required("pattern", "pattern", ParamKind::String, "Such as **/*.ts, src/**/*.js"),
        Param::optional("path", "path", ParamKind::String, "Directory to search in")
            .absent_if_empty(),
    ],
    presets: &[("all_files", Preset::Bool(true)), ("skip_hidden", Preset::Bool(true))],
    fail: |error, path| match (error.kind, path) {
        (Kind::FileNotFound, Some(path)) => {
            said(error, format!("Directory not found: {path}"), None)
        }
        (Kind::NotRegularFile, Some(path)) => said(error, format!("Not a directory: {path}"), None),
        _ => fail(error, path, "Glob search failed"),
    },
    ..Row::<glob::Glob>::shaped(|_, out, _| {
        let rows = out.files.iter().map(|file| row_name(&out.root, &file.path));
        let mut reply = found(rows.collect(), "No files found");
        reply.meta.truncated = out.truncated();
        reply.meta.skipped = (!out.skipped.is_empty()).then_some(out.skipped);
        reply
    })
};

const GREP: Row<grep::Grep> = Row {
    name: "grep",
    description: "Search file contents with a regular expression, newest file first.",
    params: &[
        Param::required("pattern", "pattern", ParamKind::String, "Regex pattern to search for"),
        Param::optional("path", "path", ParamKind::String, "File or directory to search in")
            .absent_if_empty(),
        Param::optional("include", "glob", ParamKind::String, "Such as *.ts, *.{js,jsx}")
            .absent_if_empty(),
    ],
    presets: &[("mode", Preset::Str("content")), ("order", Preset::Str("newest"))],
    fail: |error, path| match (error.kind, path) {
        (Kind::FileNotFound, Some(path)) => said(error, format!("Path not found: {path}"), None),
        _ => fail(error, path, "Grep search failed"),
    },
    ..Row::<grep::Grep>::shaped(|_, out, _| {
        let rows = out.files.iter().flat_map(|file| {
            let path = row_name(Path::new(""), &file.path);
            file.hits.iter().map(move |hit| format!("{path}:{}: {}", hit.number, hit.text))
        });
        let mut reply = found(rows.collect(), "No matches found");
        reply.meta.truncated = out.truncated;
        reply.meta.skipped = (!out.skipped.is_empty()).then_some(out.skipped);
        reply
    })
};

const SKILL: Row<skill::Skill> = Row {
    name: "skill",
    description: "Load the instructions of a skill for the task at hand.",
    params: &[Param::required("name", "skill", ParamKind::String, "The skill to load")],
    bound: Bound::HARD,
    skill_argument: Some("name"),
    ..Row::<skill::Skill>::shaped(|_, out, _| skill::shaped(out, false))
};

fn read_file(args: &read::ReadArgs, out: read::ReadOut, shaping: &Shaping<'_>) -> Reply {
    let path = line_name(shaping.path(0));
    let failed = |kind, message: String| Reply::failure(&ToolError::new(kind, message));
    match out {
        read::ReadOut::Text(lines) => read_text(args, &lines, &path),
        read::ReadOut::Media { bytes, mime, base64 } => {
            let mime_type = mime.unwrap_or("application/octet-stream").to_owned();
            let mut reply =
                Reply::text(format!("[Binary file: {path}, {mime_type}, {bytes} bytes]"));
            reply.content.push(Block::of_file(shaping.path(0), mime_type, base64));
            reply
        }
        read::ReadOut::Binary { bytes, .. } => {
            let ending = shaping.path(0).extension();
            let ending = ending
                .map_or(String::from("unknown"), |ending| format!(".{}", ending.to_string_lossy()));
            let message = format!("Cannot read binary file: {path} ({ending}, {bytes} bytes)");
            failed(Kind::Binary, message)
        }
        read::ReadOut::NotFound => failed(Kind::FileNotFound, format!("File not found: {path}")),
        read::ReadOut::PermissionDenied => failed(
            Kind::PermissionDenied,
            format!("Failed to read file: the system denies access: {path}"),
        ),
        read::ReadOut::TooLarge { bytes, max_bytes } => failed(
            Kind::TooLarge,
            format!("File too large for binary read: {bytes} bytes (max {max_bytes})"),
        ),
        read::ReadOut::NotRegularFile { kind } => {
            let hint = match kind {
                FileKind::Directory => "glob shows what is in it",
                FileKind::File | FileKind::Symlink | FileKind::Special => {
                    "only regular files are read"
                }
            };
            let message = format!("Failed to read file: not a file but {}: {path}", kind.words());
            Reply::failure(&ToolError::new(Kind::NotRegularFile, message).hint(hint))
        }
    }
}

/// Returns file content with its line count. Text after the last line feed counts as a line, even if empty. Of content
/// that exceeds one read, only the beginning is shown.
fn read_text(args: &read::ReadArgs, lines: &sinew_ops::LineWindow, path: &str) -> Reply {
    let known = lines.total_lines.unwrap_or(lines.start_line + lines.rendered_lines - 1);
    let n_all = known + u64::from(lines.ends_line == Some(true) || known == 0);
    let last = args.last.unwrap_or(n_all).min(n_all);
    let mut content = lines.plain();
    if lines.start_line + lines.rendered_lines == last + 1 && content.ends_with('\n') {
        content.pop();
    }
    let mut output = format!("Content of {path} ({n_all} lines):\n{content}");
    let n_wanted = 1 + (last + 1).saturating_sub(lines.start_line);
    let is_all = last.min(known) < lines.start_line + lines.rendered_lines && !lines.cuts_lines();
    if is_all {
        return Reply::text(output);
    }
    let kept = first_lines(&output);
    let n_left_out = n_wanted.saturating_sub(kept.1);
    output.truncate(kept.0);
    output.push_str(&format!(
        "\n\n...{n_left_out} lines truncated...\n\nOutput was truncated. The full text is in the file \
         itself: {path}\n{GO_ON}"
    ));
    let mut reply = Reply::text(output);
    reply.meta.truncated = true;
    reply.bounded = true;
    reply
}

/// Returns molf's lines behind a cut output.
fn cut(text: &CutText<'_>) -> String {
    let n_left_out = text.n_left_out;
    let kept = match text.stored {
        Ok(path) => format!("Full output saved to: {path}\n{GO_ON}"),
        Err(why) => format!("The full output is not saved: {why}"),
    };
    format!("\n...{n_left_out} lines truncated...\n\nOutput was truncated. {kept}")
}

/// Returns the envelope of a reply: `output`, and where there are any `error`, `meta` and `attachments`.
fn envelope(reply: &Reply, path: Option<&str>) -> Value {
    let texts = reply.content.iter().filter_map(Block::as_text);
    let mut output = texts.collect::<Vec<_>>().join("\n");
    let error = reply.error.as_ref().map(|error| match &error.hint {
        Some(hint) => format!("{}\n\n{hint}", error.message),
        None => error.message.clone(),
    });
    // The text ends with the error, which has a field of its own.
    if let Some(before) = error.as_deref().and_then(|error| output.strip_suffix(error)) {
        output.truncate(before.trim_end_matches('\n').len());
    }
    let mut envelope = Map::new();
    envelope.insert(String::from("output"), Value::from(output));
    if let Some(error) = error {
        envelope.insert(String::from("error"), Value::from(error));
    }
    let meta = meta(reply);
    if !meta.is_empty() {
        envelope.insert(String::from("meta"), Value::Object(meta));
    }
    let attachments: Vec<Value> = reply
        .content
        .iter()
        .filter_map(Block::media)
        .map(|(data, mime_type)| {
            let path = path.unwrap_or_default();
            json!({ "mimeType": mime_type, "data": data, "path": path, "size": decoded_bytes(data) })
        })
        .collect();
    if !attachments.is_empty() {
        envelope.insert(String::from("attachments"), Value::from(attachments));
    }
    Value::Object(envelope)
}

/// Returns the `meta` of an envelope. A command always says whether it was cut.
fn meta(reply: &Reply) -> Map<String, Value> {
    let mut meta = Map::new();
    let exit_code = reply.meta.more.get("exitCode");
    if reply.meta.truncated || exit_code.is_some() {
        meta.insert(String::from("truncated"), Value::Bool(reply.meta.truncated));
    }
    if let Some(stored) = &reply.meta.output_path {
        let id = Path::new(stored).file_stem().map(|id| id.to_string_lossy());
        meta.insert(String::from("outputId"), json!(id));
    }
    if let Some(code) = exit_code {
        meta.insert(String::from("exitCode"), code.clone());
    }
    if let Some(stored) = &reply.meta.output_path {
        meta.insert(String::from("outputPath"), Value::from(stored.as_str()));
    }
    meta
}

/// Returns how many bytes a text in base64 encodes.
fn decoded_bytes(base64: &str) -> usize {
    let n_padding = base64.bytes().rev().take_while(|byte| *byte == b'=').count();
    (base64.len() / 4 * 3).saturating_sub(n_padding)
}

/// Returns the bytes and lines of an output that fit, without the last line feed; cuts a long first line.
fn first_lines(output: &str) -> (usize, u64) {
    let (mut n_bytes, mut n_lines) = (0, 0);
    for line in output.split_inclusive('\n').take(MAX_LINES) {
        if MAX_BYTES < n_bytes + line.len() {
            break;
        }
        n_bytes += line.len();
        n_lines += 1;
    }
    // At least part of the first line follows the line with the file name.
    if n_lines <= 1 && n_bytes < output.len() {
        n_bytes = output.floor_char_boundary(MAX_BYTES);
    }
    match output.get(..n_bytes) {
        Some(kept) if n_bytes < output.len() => {
            (kept.strip_suffix('\n').unwrap_or(kept).len(), n_lines)
        }
        _ => (output.len(), n_lines),
    }
}

/// Returns the reply of a search, also without matches.
fn found(rows: Vec<String>, without: &str) -> Reply {
    match rows.is_empty() {
        true => Reply::text(without),
        false => Reply::text(rows.join("\n")),
    }
}

/// Shapes the refusal of an edit in molf's words, with the most similar text.
fn fail_edit(error: &ToolError, path: Option<&str>) -> Reply {
    let hint = renamed(error.hint.as_ref().map(ToString::to_string), "oldString", "newString");
    let words = match error.kind {
        Kind::NoMatch => String::from("oldString not found in file"),
        Kind::NotUnique => match occurrences(&error.message) {
            Some((n, lines)) => {
                let words = format!(
                    "oldString found {n} times in file. Use replaceAll to replace all occurrences, or \
                     provide more context to match a unique location."
                );
                return said(error, words, Some(lines));
            }
            None => return Reply::failure(error),
        },
        Kind::InvalidArgs if error.message.contains("`old_string` is empty") => {
            return said(error, String::from("oldString must not be empty"), None);
        }
        Kind::InvalidArgs if error.message.contains("`new_string` is the same") => {
            String::from("oldString and newString are identical; no change needed")
        }
        _ => return fail(error, path, "Failed to edit file"),
    };
    said(error, words, hint)
}

/// Shapes a refusal: the action and the reason.
fn fail(error: &ToolError, path: Option<&str>, what: &str) -> Reply {
    let message = match (error.kind, path) {
        (Kind::FileNotFound, Some(path)) => format!("File not found: {path}"),
        (Kind::FileNotFound | Kind::NotRegularFile | Kind::ExecutionFailed | Kind::Binary, _)
        | (Kind::TooLarge | Kind::PermissionDenied | Kind::Stale | Kind::LimitReached, _)
        | (Kind::InvalidPath, _) => format!("{what}: {}", without_argument(&error.message)),
        _ => error.message.to_string(),
    };
    said(error, message, hint(error))
}

fn shell_exec(args: &bash::BashArgs, finished: &Finished) -> Reply {
    let first = end::first_lines(finished, MAX_BYTES, MAX_LINES);
    let mut text = first.text;
    if let Some(n_lines) = first.left_out {
        let stored = finished.stored.as_deref();
        text.push('\n');
        text.push_str(&cut(&CutText {
            n_left_out: usize::try_from(n_lines).unwrap_or(usize::MAX),
            stored: stored.ok_or(".molf/tool-output/ cannot be written, or is full"),
        }));
    }
    for line in end::refused(&finished.findings) {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&line);
    }
    let mut reply = match &finished.exit {
        Exit::Code(code) => ended(text, *code),
        Exit::Signal(_) | Exit::Lost => ended(text, 1),
        Exit::TimedOut => {
            let message =
                format!("Command execution failed: Command timed out after {}ms", args.timeout_ms);
            let gap = if text.is_empty() { "" } else { "\n\n" };
            end::failed(Reply::text(format!("{text}{gap}{message}")), Kind::Timeout, message)
        }
        Exit::Cancelled | Exit::NotStarted { .. } => return end::not_run(args, finished),
    };
    reply.meta.truncated = first.left_out.is_some();
    end::consequences(&finished.findings).into_iter().for_each(|line| reply.note(line));
    end::ended(reply, args, finished, Vec::new())
}

fn ended(text: String, code: i32) -> Reply {
    let mut reply = Reply::text(format!("{text}\n\nexit code: {code}"));
    reply.meta.more.insert("exitCode", code);
    reply
}
