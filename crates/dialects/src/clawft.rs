//! The dialect of clawft: its four file tools, `exec_shell`, `spawn`, the two of the web, the two of the memory and
//! `message`.
//!
//! Results are JSON objects of at most 64 KiB. An error is an object with `error` alone, whose text starts
//! with the error kind. An exit code other than 0 is a result.
//!
//! Differences from the program:
//! - Commands start in the root; their processes end with them. A timeout error contains the output so far.
//! - `spawn` has a time limit and counts atomically, so that never more than five run.
//! - The allowlist applies to every command of a text, to arguments, and behind wrapper programs. An allowed
//!   command that is not a plain read needs approval.
//! - A result that is too long keeps its keys: a text or list is cut, with `truncated` and the full count;
//!   for a command also with `output_path`, where its whole output is kept.
//! - The text of a reply is its JSON object alone. What the sandbox refused ends `stderr`; other notes are in
//!   `_meta` (`sinew/meta`, `notes`).
//! - The memory is `.sinew/MEMORY.md` of the project, not a file of the user. It has a size limit. A query
//!   matches paragraphs by its words, the best first, and beyond 20 of them only `count` has the others.
//! - Files in other encodings than UTF-8 keep theirs. An edit refuses an empty text; a failed match tries
//!   other line endings and shows the most similar text. Changes are atomic.
//! - A channel of the configuration gets a message; the reply waits for the answer of its service.
//! - No path leaves the roots, whether or not its target exists. Symlink entries are not followed.

use std::sync::Arc;

use serde_json::{Value, json};
use sinew_ops::bash::{self, end};
use sinew_ops::memory_read::{self, MemoryReadArgs, MemoryReadOut};
use sinew_ops::memory_write::{self, MemoryMode};
use sinew_ops::web_fetch::{self, WebContent};
use sinew_ops::web_search::{self, WebSearchArgs, WebSearchOut};
use sinew_ops::{edit, list, message as channel_message, read, write};
use sinew_tool::{
    Bound, Conventions, Dialect, Exit, FileKind, FileSettings, Finished, Kind, OutsidePaths, Param,
    ParamKind, Preset, Reply, Row, Scale, Tool, ToolError, visible_only,
};

use crate::words::{occurrences, renamed, text, without_argument};

/// The dialect of clawft.
pub const CLAWFT: Dialect = Dialect {
    name: "clawft",
    tools,
    settings,
    approval_timeout_ms: 300_000,
    conventions: CONVENTIONS,
};

const CONVENTIONS: Conventions = Conventions { fail, notes_apart: true, ..Conventions::DEFAULT };

fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        READ_FILE.tool(),
        WRITE_FILE.tool(),
        EDIT_FILE.tool(),
        LIST_DIRECTORY.tool(),
        EXEC_SHELL.tool(),
        MEMORY_READ.tool(),
        MEMORY_WRITE.tool(),
        WEB_SEARCH.tool(),
        WEB_FETCH.tool(),
        MESSAGE.tool(),
        SPAWN.tool(),
    ]
}

fn settings() -> FileSettings {
    FileSettings {
        outside: OutsidePaths::Deny,
        list_limit: MAX_ENTRIES,
        command_timeout_s: Some(TIMEOUT_S),
        ..FileSettings::default()
    }
}

/// The default allowlist of programs for commands.
pub const ALLOWED: &[&str] = &[
    "echo", "cat", "ls", "pwd", "head", "tail", "wc", "grep", "find", "sort", "uniq", "diff",
    "date", "env", "true", "false", "test",
];

/// Text that no command may contain, whatever is configured.
pub const DANGEROUS: &[&str] = &[
    "rm -rf /",
    "sudo ",
    "mkfs",
    "dd if=",
    ":(){ :|:& };:",
    "chmod 777 /",
    "> /dev/sd",
    "shutdown",
    "reboot",
    "poweroff",
    "format c:",
];

/// The size limit of a result.
const BOUND: Bound = Bound { max_lines: None, max_bytes: 64 * 1024 };
/// The most bytes of an argument in a result.
const MAX_REPEATED: usize = 512;
/// The time limit of an `exec_shell` call that names none, in seconds, unless configured.
const TIMEOUT_S: i64 = 30;
/// The longest time limit of `exec_shell`, in seconds.
pub const MAX_TIMEOUT_S: i64 = 300;
/// Output below this size is shown whole: each byte takes up to six in JSON.
const STORE_ABOVE: (&str, Preset) = ("store_above_bytes", Preset::Int(9 * 1024));

/// The message of a memory without content.
const NO_MEMORY: &str = "No memory yet";
/// More entries than fit in a result.
const MAX_ENTRIES: usize = 2_000;

const PATH: Param = Param::required(
    "path",
    "path",
    ParamKind::String,
    "Path of the file, relative to the workspace",
);

const READ_FILE: Row<read::Read> = Row {
    name: "read_file",
    description: "Read the contents of a file in the workspace.",
    params: &[PATH],
    presets: &[("limit", Preset::Int(i64::MAX)), ("media", Preset::Str("plain"))],
    bound: BOUND,
    fail: fail_at,
    ..Row::<read::Read>::shaped(|args, out, _| read_file(args, out))
};

const WRITE_FILE: Row<write::Write> = Row {
    name: "write_file",
    description: "Write content to a file, which is created with its parent directories if needed.",
    params: &[
        PATH,
        Param::required("content", "content", ParamKind::String, "The content to write"),
    ],
    presets: &[("parents", Preset::Bool(true)), ("follow_links", Preset::Bool(true))],
    bound: BOUND,
    fail: fail_at,
    ..Row::<write::Write>::shaped(|args, out, _| {
        let n = out.bytes_written;
        message(format!("Successfully wrote {n} bytes to {}", args.path))
    })
};

const EDIT_FILE: Row<edit::Edit> = Row {
    name: "edit_file",
    description: "Replace old_text, which must be in the file exactly once, by new_text.",
    params: &[
        PATH,
        Param::required("old_text", "old_string", ParamKind::String, "The exact text to find"),
        Param::required("new_text", "new_string", ParamKind::String, "The text to replace it with"),
    ],
    presets: &[("follow_links", Preset::Bool(true))],
    bound: BOUND,
    fail: fail_edit,
    ..Row::<edit::Edit>::shaped(|args, _, _| message(format!("Successfully edited {}", args.path)))
};

const LIST_DIRECTORY: Row<list::List> = Row {
    name: "list_directory",
    description: "List the contents of a directory: name, is_dir and size of each entry.",
    params: &[Param::required(
        "path",
        "path",
        ParamKind::String,
        "Path of the directory, relative to the workspace",
    )],
    bound: BOUND,
    fail: fail_at,
    ..Row::<list::List>::shaped(|_, out, _| list_directory(&out))
};

fn message(words: String) -> Reply {
    Reply::json(json!({ "message": words }))
}

fn read_file(args: &read::ReadArgs, out: read::ReadOut) -> Reply {
    let path = &args.path;
    let failed = |kind, words: String| fail(&ToolError::new(kind, words));
    match out {
        read::ReadOut::Text(lines) => read_text(&lines),
        read::ReadOut::Binary { .. } | read::ReadOut::Media { .. } => {
            let words = "read failed: stream did not contain valid UTF-8";
            failed(Kind::Binary, String::from(words))
        }
        read::ReadOut::NotFound => failed(Kind::FileNotFound, path.clone()),
        read::ReadOut::PermissionDenied => failed(
            Kind::ExecutionFailed,
            String::from("read failed: Permission denied (os error 13)"),
        ),
        read::ReadOut::NotRegularFile { kind: FileKind::Directory } => {
            failed(Kind::NotRegularFile, String::from("read failed: Is a directory (os error 21)"))
        }
        read::ReadOut::NotRegularFile { kind } => {
            failed(Kind::NotRegularFile, format!("read failed: it is no file but {}", kind.words()))
        }
        read::ReadOut::TooLarge { bytes, max_bytes } => {
            failed(Kind::TooLarge, format!("the file has {bytes} bytes, more than {max_bytes}"))
        }
    }
}

fn read_text(lines: &sinew_ops::LineWindow) -> Reply {
    let content = lines.plain();
    let is_whole = !lines.truncated && !lines.cuts_lines();
    content_within(&content, is_whole, lines.bytes)
}

/// Returns the result object of a text; one that is longer than a result may be, or is not whole, has what fits.
fn content_within(content: &str, is_whole: bool, n_bytes: u64) -> Reply {
    let whole = json!({ "content": content });
    if is_whole && whole.to_string().len() <= BOUND.max_bytes {
        return Reply::json(whole);
    }
    let cut =
        |content: &str| json!({ "content": content, "truncated": true, "original_bytes": n_bytes });
    let room = BOUND.max_bytes.saturating_sub(cut("").to_string().len());
    let mut reply = Reply::json(cut(end::within_json(content, room)));
    reply.meta.truncated = true;
    reply
}

fn list_directory(out: &list::ListOut) -> Reply {
    let entry = |row: &list::Item| {
        json!({
            "name": text(&row.path),
            "is_dir": row.kind == FileKind::Directory,
            "size": row.size.unwrap_or(0),
        })
    };
    // Reserves space for the keys around the entries.
    let mut left = BOUND.max_bytes - 128;
    let mut entries: Vec<Value> = Vec::new();
    for entry in out.rows.iter().map(entry) {
        match left.checked_sub(entry.to_string().len() + 1) {
            Some(rest) => left = rest,
            None => break,
        }
        entries.push(entry);
    }
    let is_cut = (entries.len() as u64) < out.total;
    let mut result = json!({ "entries": entries });
    if let (true, Some(fields)) = (is_cut, result.as_object_mut()) {
        fields.insert(String::from("truncated"), Value::Bool(true));
        fields.insert(String::from("total"), Value::from(out.total));
    }
    let mut reply = Reply::json(result);
    reply.meta.truncated = is_cut;
    reply
}

const EXEC_SHELL: Row<bash::Bash> = Row {
    name: "exec_shell",
    description: "Execute a shell command via sh -c in the workspace directory.",
    params: &[
        Param::required("command", "command", ParamKind::String, "Shell command to execute"),
        Param::optional(
            "timeout",
            "timeout_ms",
            ParamKind::Number { min: 1, cap: Some(MAX_TIMEOUT_S) },
            "Timeout in seconds, at most 300",
        )
        .or(Preset::Int(TIMEOUT_S))
        .or_configured(|settings| settings.command_timeout_s)
        .scaled(Scale::Seconds),
    ],
    presets: &[("posix", Preset::Bool(true)), STORE_ABOVE],
    bound: BOUND,
    fail: |error, _| fail(error),
    ..Row::<bash::Bash>::shaped(|args, out, _| bash::shaped(args, out, exec_shell))
};

const SPAWN: Row<bash::Bash> = Row {
    name: "spawn",
    description: "Spawn a subprocess in the workspace directory; at most 5 run at once.",
    params: &[
        Param::required("command", "program", ParamKind::String, "Program to execute"),
        Param::optional("args", "args", ParamKind::Strings { min: 0 }, "Its arguments"),
        Param::optional("description", "description", ParamKind::String, "What it is for"),
        Param::optional(
            "timeout",
            "timeout_ms",
            ParamKind::Number { min: 1, cap: Some(bash::LONGEST_TIMEOUT_MS / 1_000) },
            "Timeout in seconds",
        )
        .or(Preset::Int(60))
        .scaled(Scale::Seconds),
    ],
    presets: &[("max_at_once", Preset::Int(5)), STORE_ABOVE],
    bound: BOUND,
    fail: |error, _| fail(error),
    ..Row::<bash::Bash>::shaped(|args, out, _| bash::shaped(args, out, spawn))
};

const WEB_FETCH: Row<web_fetch::WebFetch> = Row {
    name: "web_fetch",
    description: "Fetch content from a URL of a public host.",
    params: &[
        Param::required("url", "url", ParamKind::String, "URL to fetch (http:// or https://)"),
        Param::optional("method", "method", ParamKind::String, "HTTP method")
            .or(Preset::Str("GET")),
        Param::optional("headers", "headers", ParamKind::Map, "HTTP headers as key-value pairs"),
    ],
    presets: &[("format", Preset::Str("raw"))],
    bound: BOUND,
    fail: |error, _| fail(error),
    ..Row::<web_fetch::WebFetch>::shaped(|_, out, _| web_fetched(&out))
};

/// Returns the result object of a fetch; its body is cut to the limit of results.
fn web_fetched(out: &web_fetch::WebFetchOut) -> Reply {
    let limit = web_fetch::MAX_BYTES;
    let (body, stored) = match &out.content {
        WebContent::Text { text, .. } => (text.as_str(), None),
        WebContent::Stored(path) => ("", path.as_deref()),
        WebContent::Picture(_) | WebContent::Nothing => ("", None),
    };
    let object = |body: &str, is_cut: bool| {
        let mut object = json!({
            "status": out.response.status,
            "content_type": out.response.header("content-type").unwrap_or_default(),
            "body": body,
            "url": out.response.url,
            "bytes": out.n_bytes,
        });
        if let Some(fields) = object.as_object_mut() {
            if is_cut || out.response.is_cut {
                fields.insert(String::from("truncated"), Value::Bool(true));
            }
            if out.response.is_cut {
                let warning = format!("Response body truncated at {limit} bytes");
                fields.insert(String::from("limit_bytes"), Value::from(limit));
                fields.insert(String::from("warning"), Value::from(warning));
            }
            if let Some(path) = stored {
                fields.insert(String::from("output_path"), Value::from(path));
            }
        }
        object
    };
    let room = BOUND.max_bytes.saturating_sub(object("", true).to_string().len());
    let shown = end::within_json(body, room);
    let is_cut = shown.len() < body.len();
    let mut reply = Reply::json(object(shown, is_cut));
    reply.meta.truncated = is_cut || out.response.is_cut;
    reply
}

const MEMORY_READ: Row<memory_read::MemoryRead> = Row {
    name: "memory_read",
    description: "Read from MEMORY.md with optional paragraph-level search.",
    params: &[Param::optional(
        "query",
        "query",
        ParamKind::String,
        "Search query to filter paragraphs",
    )],
    bound: BOUND,
    fail: |error, _| fail(error),
    ..Row::<memory_read::MemoryRead>::shaped(|args, out, _| memory_content(args, &out))
};

/// Returns the result object of `memory_read`; a text or list is cut to the limit of results.
fn memory_content(args: &MemoryReadArgs, out: &MemoryReadOut) -> Reply {
    match (out, args.words()) {
        (MemoryReadOut::Missing, Some(query)) => {
            Reply::json(json!({ "query": query, "matches": [], "count": 0, "message": NO_MEMORY }))
        }
        (MemoryReadOut::Missing, None) => {
            Reply::json(json!({ "content": "", "message": NO_MEMORY }))
        }
        (MemoryReadOut::Whole(content), _) => content_within(content, true, content.len() as u64),
        (MemoryReadOut::Found(found), query) => {
            let object = |n_shown: usize| {
                let shown = found.shown.get(..n_shown).unwrap_or_default();
                let mut object = json!({ "query": query, "matches": shown, "count": found.n_all });
                if let (true, Some(fields)) = (n_shown < found.n_all, object.as_object_mut()) {
                    fields.insert(String::from("truncated"), Value::Bool(true));
                }
                object
            };
            let fits = |n: &usize| object(*n).to_string().len() <= BOUND.max_bytes;
            let n_shown = (0..=found.shown.len()).rev().find(fits).unwrap_or(0);
            let mut reply = Reply::json(object(n_shown));
            reply.meta.truncated = n_shown < found.n_all;
            reply
        }
    }
}

const MEMORY_WRITE: Row<memory_write::MemoryWrite> = Row {
    name: "memory_write",
    description: "Write to MEMORY.md in append or overwrite mode.",
    params: &[
        Param::required("content", "content", ParamKind::String, "Content to write"),
        Param::optional(
            "mode",
            "mode",
            memory_write::MODES,
            "\"append\" (default) or \"overwrite\"",
        )
        .or(Preset::Str("append")),
    ],
    bound: BOUND,
    fail: |error, _| fail(error),
    ..Row::<memory_write::MemoryWrite>::shaped(|args, out, shaping| {
        let did = match args.mode {
            MemoryMode::Append => "Appended to",
            MemoryMode::Overwrite => "Overwrote",
        };
        let more = match out.has_unread {
            true => "; it has entries of others that you have not read",
            false => "",
        };
        Reply::json(json!({
            "message": format!("{did} MEMORY.md ({} bytes){more}", out.n_bytes),
            "path": shaping.shown(&out.path),
        }))
    })
};

const WEB_SEARCH: Row<web_search::WebSearch> = Row {
    name: "web_search",
    description: "Search the web using a configured search API endpoint.",
    params: &[
        Param::required("query", "query", ParamKind::String, "Search query"),
        Param::optional(
            "num_results",
            "max_results",
            ParamKind::Integer { min: 1, cap: Some(web_search::MAX_RESULTS) },
            "Max results",
        )
        .or(Preset::Int(web_search::RESULTS)),
    ],
    presets: &[("choice", Preset::Str("endpoint"))],
    bound: BOUND,
    fail: |error, _| fail(error),
    ..Row::<web_search::WebSearch>::shaped(|args, out, _| web_searched(args, out))
};

/// Returns the answer of the endpoint as it came; one that is larger than a result may be has the results that fit.
fn web_searched(args: &WebSearchArgs, out: WebSearchOut) -> Reply {
    let WebSearchOut::Answer(answer) = out else {
        return Reply::json(json!({
            "error": "web search not configured",
            "message": "No search endpoint is configured: the user can set `tools.web_search.endpoint`",
            "query": args.query,
        }));
    };
    let object = |results: Value| json!({ "query": args.query, "results": results });
    let whole = serde_json::from_slice(&answer.body).map_or(Value::Null, visible);
    let whole = object(whole);
    if whole.to_string().len() <= BOUND.max_bytes {
        return Reply::json(whole);
    }
    let mut rows: Vec<Value> = answer
        .results
        .iter()
        .map(|one| json!({ "title": one.title, "url": one.url, "content": one.content }))
        .collect();
    while BOUND.max_bytes < object(Value::from(rows.clone())).to_string().len() {
        rows.pop();
    }
    let mut reply = Reply::json(object(Value::from(rows)));
    reply.meta.truncated = true;
    reply
}

/// Leaves out of every text what a reader does not see.
fn visible(value: Value) -> Value {
    match value {
        Value::String(text) => Value::from(visible_only(&text)),
        Value::Array(values) => values.into_iter().map(visible).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (visible_only(&name), visible(value))).collect()
        }
        other => other,
    }
}

fn exec_shell(args: &bash::BashArgs, finished: &Finished) -> Reply {
    result(args, finished, |code, stdout, stderr| {
        json!({
            "exit_code": code,
            "stdout": stdout,
            "stderr": stderr,
            "duration_ms": finished.duration.as_millis() as u64,
        })
    })
}

fn spawn(args: &bash::BashArgs, finished: &Finished) -> Reply {
    let repeated = |text: &Option<String>, without: &str| {
        let text = text.as_deref().unwrap_or(without);
        text.get(..text.floor_char_boundary(MAX_REPEATED)).unwrap_or(text).to_owned()
    };
    let command = repeated(&args.program, "");
    let description = repeated(&args.description, "(no description)");
    result(args, finished, |code, stdout, stderr| {
        json!({
            "exit_code": code,
            "stdout": stdout,
            "stderr": stderr,
            "command": command,
            "description": description,
        })
    })
}

/// Returns the result object of a command: exit code and streams, cut to the limit.
fn result(
    args: &bash::BashArgs,
    finished: &Finished,
    object: impl Fn(i32, &str, &str) -> Value,
) -> Reply {
    let (code, error) = match &finished.exit {
        Exit::Code(code) => (*code, None),
        Exit::Signal(_) | Exit::Lost => (-1, None),
        Exit::TimedOut => (-1, Some(format!("timeout after {}s", args.timeout_ms / 1_000))),
        Exit::NotStarted { why, .. } => (-1, Some(format!("execution failed: {why}"))),
        Exit::Cancelled => (-1, Some(String::from("execution failed: the call was cancelled"))),
    };
    let object = |stdout: &str, stderr: &str, is_cut: bool| {
        let mut object = object(code, stdout, stderr);
        if let Some(fields) = object.as_object_mut() {
            if let Some(error) = &error {
                fields.insert(String::from("error"), Value::from(error.as_str()));
            }
            if is_cut {
                let n_bytes = finished.stdout.total + finished.stderr.total;
                fields.insert(String::from("truncated"), Value::Bool(true));
                fields.insert(String::from("original_bytes"), Value::from(n_bytes));
                fields.insert(String::from("output_path"), json!(finished.stored));
            }
        }
        object
    };
    let refused = end::refused(&finished.findings);
    let streams = |is_cut: bool| {
        let json = BOUND.max_bytes.saturating_sub(object("", "", is_cut).to_string().len());
        let room = end::Room { stdout: json, stderr: json, json };
        end::streams_before(finished, room, &refused)
    };
    let is_whole = |stream: &end::Stream| stream.left_out.is_none();
    let (mut stdout, mut stderr) = streams(false);
    let is_cut = !is_whole(&stdout) || !is_whole(&stderr);
    if is_cut {
        (stdout, stderr) = streams(true);
    }
    let mut reply = Reply::json(object(&stdout.text, &stderr.text, is_cut));
    end::consequences(&finished.findings).into_iter().for_each(|line| reply.note(line));
    if let (Some(error), Some((kind, _))) = (error, end::failure(args, finished)) {
        reply = end::failed(reply, kind, error);
    }
    end::ended(reply, args, finished, stdout.left_out.into_iter().chain(stderr.left_out).collect())
}

const MESSAGE: Row<channel_message::Message> = Row {
    name: "message",
    description: "Send a message to a chat of a configured channel.",
    params: &[
        Param::required("channel", "channel", ParamKind::String, "Target channel, e.g. `telegram`"),
        Param::required("chat_id", "chat_id", ParamKind::String, "Target chat ID"),
        Param::required("content", "content", ParamKind::String, "Message content"),
    ],
    bound: BOUND,
    fail: |error, _| fail(error),
    ..Row::<channel_message::Message>::shaped(|args, sent, _| {
        let channel_message::MessageArgs { channel, chat_id, content } = args;
        let mut reply = Reply::json(json!({
            "status": "sent", "channel": channel, "chat_id": chat_id,
            "content_length": content.len(),
        }));
        channel_message::note(&mut reply, &sent);
        reply
    })
};

/// Shapes a refusal: clawft's error kind and the message.
fn fail(error: &ToolError) -> Reply {
    let kind = match error.kind {
        Kind::NotFound => "tool not found",
        Kind::InvalidArgs => "invalid arguments",
        Kind::FileNotFound => "not found",
        Kind::InvalidPath | Kind::PathDenied => "invalid path",
        Kind::PermissionDenied
        | Kind::PolicyDenied
        | Kind::ApprovalDenied
        | Kind::ApprovalTimeout
        | Kind::BlockedByHook => "permission denied",
        Kind::Timeout => "timeout",
        Kind::NotRegularFile
        | Kind::Binary
        | Kind::TooLarge
        | Kind::NoMatch
        | Kind::NotUnique
        | Kind::MustReadFirst
        | Kind::Stale
        | Kind::Cancelled
        | Kind::LimitReached
        | Kind::Unavailable
        | Kind::ExecutionFailed => "execution failed",
    };
    let hint = error.hint.as_ref().map_or(String::new(), |hint| format!("; {hint}"));
    // The kind says it already.
    let message = error.message.strip_prefix("no tool of this name: ").unwrap_or(&error.message);
    let text = format!("{kind}: {message}{hint}");
    let shaped = Reply::json(json!({ "error": text }));
    Reply { content: shaped.content, structured: shaped.structured, ..Reply::failure(error) }
}

/// Shapes the refusal of a path as written.
fn fail_at(error: &ToolError, path: Option<&str>) -> Reply {
    let path = path.unwrap_or_default();
    let words = match error.kind {
        Kind::FileNotFound => path.to_owned(),
        Kind::PathDenied => format!("path escapes workspace: {path}"),
        _ => return fail(&plain(error)),
    };
    fail(&ToolError::new(error.kind, words))
}

/// Shapes the refusal of an edit with the most similar text.
fn fail_edit(error: &ToolError, path: Option<&str>) -> Reply {
    let hint = renamed(error.hint.as_ref().map(ToString::to_string), "old_text", "new_text");
    let (words, hint) = match (error.kind, occurrences(&error.message)) {
        (Kind::NoMatch, _) => (String::from("old_text not found in file"), hint),
        (Kind::NotUnique, Some((n, lines))) => {
            let words = format!(
                "old_text appears {n} times; provide more context to make it unique ({lines})"
            );
            (words, None)
        }
        (Kind::InvalidArgs, _) => {
            let words = error.message.replace("old_string", "old_text");
            let is_empty = words.ends_with("is empty");
            (words.replace("new_string", "new_text"), hint.filter(|_| !is_empty))
        }
        _ => return fail_at(error, path),
    };
    let refused = ToolError::new(Kind::InvalidArgs, words);
    let reply = fail(&match hint {
        Some(hint) => refused.hint(hint),
        None => refused,
    });
    // Programs and the ledger get the real kind.
    Reply { error: Reply::failure(error).error, ..reply }
}

/// Returns a refusal without argument name, and without hint for the kinds that have none in clawft.
fn plain(error: &ToolError) -> ToolError {
    let plain = ToolError::new(error.kind, without_argument(&error.message).to_owned());
    match crate::words::hint(error) {
        Some(hint) => plain.hint(hint),
        None => plain,
    }
}
