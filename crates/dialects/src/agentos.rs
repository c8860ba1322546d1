//! The dialect of agentos: `tool::file_read`, `tool::file_write`, `tool::file_list`,
//! `tool::apply_patch`, `tool::shell_exec`, `tool::web_fetch`, `tool::web_search`,
//! `tool::agent_spawn` and `tool::agent_send`.
//!
//! A program runs without a shell if it is on a list of forty. Every end is a result with an exit code: 127
//! for a missing program or directory, 126 if it is not executable, 124 after a timeout, 128 plus a signal
//! number. `stderr` then ends with the reason. File tools return the real path.
//!
//! The text of a reply is its JSON object alone. `stderr` also has what the sandbox refused and which processes
//! were ended; other notes are in `_meta` (`sinew/meta`, `notes`).
//!
//! Differences from the program:
//! - Limits and sizes count bytes, as in its page. Output over the limit is cut, not killed; a timeout shows
//!   the output so far. Failures are recorded like successes.
//! - A program given by path must be the one that its bare name resolves to.
//! - Binary content is refused; a file larger than a reply is cut, with its full `size`. Writes are atomic.
//! - `recursive` works: names become paths, and ignore files apply. A symlink is neither followed nor a
//!   directory. A name may start with two dots.
//! - A page is fetched from public hosts alone, each redirect and address judged; a file that is no text is stored,
//!   and `content` says where.
//! - `parentId` must be that of the caller. A template is a file of the user or of the project, or built in; a
//!   sub-agent has the rights of the agent above it, and asks as it asks.
//! - An agent is a session or a sub-agent. `agentId` must be that of the caller. Messages that were read free room in the queue of their
//!   target, and the limits hold among processes.
//! - A patch applies to `path`, whatever its headers say. One that removes every line leaves an empty file.
//!   One that does not fit, or has a second file, is refused.

use std::sync::Arc;

use serde_json::{Value, json};
use sinew_ops::bash::{self, end};
use sinew_ops::web_fetch::{self, WebContent};
use sinew_ops::web_search::{self, WebSearchOut};
use sinew_ops::{agent_send, apply_patch, iso_millis, list, read, spawn, write};
use sinew_tool::{
    AgentReport, Bound, Conventions, Dialect, Exit, FileError, FileKind, FileSettings, Finished,
    ForeignNames, Kind, OutsidePaths, Param, ParamKind, Preset, Reply, Row, Shaping, Tool,
    ToolError,
};

use crate::words::{hint, said, text, without_argument};

/// The dialect of agentos.
pub const AGENTOS: Dialect = Dialect {
    name: "agentos",
    tools,
    settings,
    approval_timeout_ms: 300_000,
    conventions: CONVENTIONS,
};

const CONVENTIONS: Conventions = Conventions {
    foreign_names: ForeignNames { prefix: "mcp_", separator: "_", ..ForeignNames::DEFAULT },
    notes_apart: true,
    ..Conventions::DEFAULT
};

fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        FILE_READ.tool(),
        FILE_WRITE.tool(),
        FILE_LIST.tool(),
        APPLY_PATCH.tool(),
        SHELL_EXEC.tool(),
        WEB_FETCH.tool(),
        WEB_SEARCH.tool(),
        AGENT_SPAWN.tool(),
        AGENT_SEND.tool(),
    ]
}

fn settings() -> FileSettings {
    FileSettings {
        outside: OutsidePaths::Deny,
        // Sized with room for line numbers, which this dialect omits.
        read_reply_bytes: 4 << 20,
        list_limit: 10_000,
        ..FileSettings::default()
    }
}

const FILE_READ: Row<read::Read> = Row {
    name: "tool::file_read",
    description: "Read file contents.",
    params: &[
        Param::required("path", "path", ParamKind::String, "File path relative to the root"),
        Param::optional(
            "maxBytes",
            "max_bytes",
            ParamKind::Number { min: 0, cap: None },
            "Maximum bytes to read",
        ),
    ],
    presets: &[("limit", Preset::Int(i64::MAX)), ("media", Preset::Str("plain"))],
    bound: Bound::HARD,
    fail: fail_file,
    ..Row::shaped(file_read)
};

const FILE_WRITE: Row<write::Write> = Row {
    name: "tool::file_write",
    description: "Write content to a file. Its directory must exist.",
    params: &[
        Param::required("path", "path", ParamKind::String, "File path relative to the root"),
        Param::required("content", "content", ParamKind::String, "Content to write"),
    ],
    presets: &[("follow_links", Preset::Bool(true))],
    bound: Bound::HARD,
    fail: fail_file,
    ..Row::<write::Write>::shaped(|_, out, _| {
        Reply::json(json!({ "written": true, "path": text(&out.path), "size": out.bytes_written }))
    })
};

const FILE_LIST: Row<list::List> = Row {
    name: "tool::file_list",
    description: "List directory contents: name, type, size and time of each entry.",
    params: &[
        Param::required("path", "path", ParamKind::String, "Directory path relative to the root"),
        Param::optional("recursive", "recursive", ParamKind::Boolean, "List subdirectories too")
            .or(Preset::Bool(false)),
    ],
    bound: Bound::HARD,
    fail: fail_file,
    ..Row::<list::List>::shaped(|_, out, _| file_list(&out))
};

const APPLY_PATCH: Row<apply_patch::ApplyPatch> = Row {
    name: "tool::apply_patch",
    description: "Apply a unified diff patch to a file.",
    params: &[
        Param::required("path", "path", ParamKind::String, "File path to apply the patch to"),
        Param::required("patch", "patch", ParamKind::String, "Unified diff format patch content"),
    ],
    presets: &[("follow_links", Preset::Bool(true)), ("content_only", Preset::Bool(true))],
    bound: Bound::HARD,
    fail: fail_patch,
    ..Row::<apply_patch::ApplyPatch>::shaped(|_, out, shaping| {
        let changed = out.files.last().map_or(shaping.path(0), |file| &file.path);
        Reply::json(json!({ "patched": true, "path": text(changed) }))
    })
};

/// The most bytes of `content` in a result of `tool::web_fetch`.
const MAX_CONTENT: usize = 100_000;

const WEB_FETCH: Row<web_fetch::WebFetch> = Row {
    name: "tool::web_fetch",
    description: "Fetch a URL of a public host; HTML is converted to text.",
    params: &[
        Param::required("url", "url", ParamKind::String, "URL to fetch"),
        Param::optional(
            "maxSize",
            "max_bytes",
            ParamKind::Number { min: 1, cap: Some(web_fetch::MAX_BYTES as i64) },
            "Maximum response size in bytes",
        )
        .or(Preset::Int(500_000)),
    ],
    presets: &[("format", Preset::Str("text"))],
    bound: Bound::HARD,
    ..Row::<web_fetch::WebFetch>::shaped(|args, out, _| web_fetched(args, out))
};

fn web_fetched(args: &web_fetch::WebFetchArgs, out: web_fetch::WebFetchOut) -> Reply {
    let whole = match &out.content {
        WebContent::Text { text, .. } => text.clone(),
        WebContent::Stored(Some(path)) => format!("[stored in {path}]"),
        WebContent::Stored(None) | WebContent::Picture(_) => String::from("[no text]"),
        WebContent::Nothing => String::new(),
    };
    let content = whole.get(..whole.floor_char_boundary(MAX_CONTENT)).unwrap_or_default();
    let truncated = out.response.is_cut || content.len() < whole.len();
    let mut reply = Reply::json(json!({
        "url": args.url,
        "status": out.response.status,
        "contentType": out.response.header("content-type").unwrap_or_default(),
        "content": content,
        "truncated": truncated,
    }));
    reply.meta.truncated = truncated;
    reply
}

const WEB_SEARCH: Row<web_search::WebSearch> = Row {
    name: "tool::web_search",
    description: "Search the web.",
    params: &[
        Param::required("query", "query", ParamKind::String, "Search query"),
        Param::optional(
            "provider",
            "provider",
            ParamKind::String,
            "Search provider: `tavily`, `brave`, or `duckduckgo`, which answers for one without a key",
        ),
        Param::optional(
            "maxResults",
            "max_results",
            ParamKind::Number { min: 1, cap: Some(web_search::MAX_RESULTS) },
            "Maximum number of results",
        )
        .or(Preset::Int(web_search::RESULTS)),
    ],
    presets: &[("choice", Preset::Str("fallback"))],
    bound: Bound::HARD,
    ..Row::<web_search::WebSearch>::shaped(|_, out, _| web_searched(out))
};

fn web_searched(out: WebSearchOut) -> Reply {
    let (results, provider) = match out {
        WebSearchOut::Answer(answer) => (answer.results, answer.provider.as_str()),
        WebSearchOut::NoEndpoint => (Vec::new(), ""),
    };
    let results: Vec<Value> = results
        .iter()
        .map(|one| json!({ "title": one.title, "url": one.url, "content": one.content }))
        .collect();
    Reply::json(json!({ "results": results, "provider": provider }))
}

const AGENT_SPAWN: Row<spawn::Spawn> = Row {
    name: "tool::agent_spawn",
    description: "Spawn a sub-agent with depth limits and resource quotas. Templates:",
    params: &[
        Param::required(
            "template",
            "template",
            ParamKind::String,
            "Template identifier for the sub-agent type",
        ),
        Param::optional("parentId", "parent", ParamKind::String, "Parent agent ID: this agent"),
        Param::required(
            "message",
            "message",
            ParamKind::String,
            "Initial message to send to the spawned agent",
        ),
    ],
    bound: Bound::HARD,
    spawns: true,
    ..Row::<spawn::Spawn>::shaped(|args, reports, _| agent_spawned(args, &reports))
};

/// Returns the result object of the only sub-agent.
fn agent_spawned(args: &spawn::SpawnArgs, reports: &[AgentReport]) -> Reply {
    match reports {
        [report] if report.problem.is_none() => Reply::json(json!({
            "agentId": report.agent, "response": report.response, "depth": report.depth,
        })),
        _ => spawn::shaped(args, reports),
    }
}

const AGENT_SEND: Row<agent_send::AgentSend> = Row {
    name: "tool::agent_send",
    description: "Send a message to another agent.",
    params: &[
        Param::required("agentId", "sender", ParamKind::String, "Sending agent's ID: this session"),
        Param::required("targetAgentId", "target", ParamKind::String, "Receiving agent's ID"),
        Param::required("message", "message", ParamKind::String, "Message content (max 100KB)"),
    ],
    bound: Bound::HARD,
    ..Row::<agent_send::AgentSend>::shaped(|args, _, _| {
        Reply::json(json!({ "sent": true, "targetAgentId": args.target }))
    })
};

fn file_read(args: &read::ReadArgs, out: read::ReadOut, shaping: &Shaping<'_>) -> Reply {
    let path = text(shaping.path(0));
    let failed = |error: ToolError| fail_file(&error, Some(&args.path));
    match out {
        read::ReadOut::Text(lines) => {
            let content = lines.plain();
            let size = lines.bytes;
            let result = |content: &str| json!({ "content": content, "path": path, "size": size });
            let most = args.max_bytes.and_then(|max| usize::try_from(max).ok());
            let most = most.unwrap_or(usize::MAX).min(content.len());
            let asked = content.get(..content.floor_char_boundary(most)).unwrap_or_default();
            let room = Bound::HARD.max_bytes.saturating_sub(result("").to_string().len());
            let shown = end::within_json(asked, room);
            let mut reply = Reply::json(result(shown));
            reply.meta.truncated =
                shown.len() < content.len() || lines.truncated || lines.cuts_lines();
            reply.bounded = true;
            reply
        }
        read::ReadOut::Binary { bytes, .. } | read::ReadOut::Media { bytes, .. } => failed(
            ToolError::new(Kind::Binary, format!("binary content of {bytes} bytes: {}", args.path)),
        ),
        read::ReadOut::NotFound => failed(shaping.about(0, FileError::Missing)),
        read::ReadOut::PermissionDenied => failed(shaping.about(0, FileError::Permission)),
        read::ReadOut::NotRegularFile { kind } => {
            failed(shaping.about(0, FileError::NotRegular(kind)))
        }
        read::ReadOut::TooLarge { bytes, max_bytes } => failed(ToolError::new(
            Kind::TooLarge,
            format!("the file has {bytes} bytes, more than {max_bytes}: {}", args.path),
        )),
    }
}

fn file_list(out: &list::ListOut) -> Reply {
    let entries: Vec<Value> = out
        .rows
        .iter()
        .map(|row| {
            let kind = if row.kind == FileKind::Directory { "directory" } else { "file" };
            json!({
                "name": text(&row.path),
                "type": kind,
                "size": row.size.unwrap_or(0),
                "modified": row.modified.map(iso_millis),
            })
        })
        .collect();
    let is_cut = (entries.len() as u64) < out.total || out.timed_out;
    let mut reply = Reply::json(json!({ "path": text(&out.root), "entries": entries }));
    reply.meta.truncated = is_cut;
    reply.meta.skipped = (!out.skipped.is_empty()).then_some(out.skipped);
    reply
}

fn fail_file(error: &ToolError, path: Option<&str>) -> Reply {
    match (error.kind, path) {
        (Kind::PathDenied, Some(path)) => {
            said(error, format!("path traversal denied: {path}"), hint(error))
        }
        _ => said(error, without_argument(&error.message).to_owned(), hint(error)),
    }
}

/// Shapes the refusal of a patch, always for `path`.
fn fail_patch(error: &ToolError, path: Option<&str>) -> Reply {
    let is_about_names = error.message.starts_with("argument `path` is ");
    match is_about_names {
        true => said(error, error.message.to_string(), Some("send one patch for each file".into())),
        false => fail_file(error, path),
    }
}

/// The allowed programs.
const PROGRAMS: &[&str] = &[
    "git", "node", "npm", "npx", "bun", "deno", "python3", "python", "pip", "ls", "cat", "grep",
    "find", "echo", "mkdir", "touch", "cp", "mv", "head", "tail", "wc", "sort", "uniq", "diff",
    "curl", "wget", "tar", "zip", "unzip", "jq", "sed", "awk", "which", "env", "date", "cargo",
    "rustc", "go", "make", "cmake",
];
/// The variables that programs get.
const VARIABLES: &[&str] = &["PATH", "HOME", "USER", "LANG", "TERM", "NODE_ENV"];
const MAX_STDOUT: usize = 100_000;
const MAX_STDERR: usize = 50_000;

const SHELL_EXEC: Row<bash::Bash> = Row {
    name: "tool::shell_exec",
    description: "Execute an allowlisted program directly, without a shell.",
    params: &[
        Param::required("argv", "argv", ParamKind::Strings { min: 0 }, "Program and its arguments"),
        Param::optional("cwd", "cwd", ParamKind::String, "Working directory, relative to the root"),
        Param::optional(
            "timeout",
            "timeout_ms",
            ParamKind::Number { min: 1, cap: Some(bash::LONGEST_TIMEOUT_MS) },
            "Timeout in milliseconds",
        )
        .or(Preset::Int(120_000)),
    ],
    presets: &[
        ("programs", Preset::Strings(PROGRAMS)),
        ("variables", Preset::Strings(VARIABLES)),
        // A byte that is not text is shown as up to three.
        ("store_above_bytes", Preset::Int(MAX_STDERR as i64 / 3)),
    ],
    bound: Bound::HARD,
    fail,
    ..Row::<bash::Bash>::shaped(|args, out, _| bash::shaped(args, out, shell_exec))
};

fn shell_exec(args: &bash::BashArgs, finished: &Finished) -> Reply {
    let code = match &finished.exit {
        Exit::Code(code) => *code,
        Exit::Signal(signal) => 128 + signal,
        Exit::Lost => 128 + 9,
        Exit::TimedOut => 124,
        Exit::NotStarted { is_missing: true, .. } => 127,
        Exit::NotStarted { is_missing: false, .. } => 126,
        Exit::Cancelled => return end::not_run(args, finished),
    };
    let reason = match (&finished.exit, end::failure(args, finished)) {
        (Exit::Code(_), _) | (_, None) => None,
        (_, Some((_, words))) => Some(words),
    };
    let n_reason = reason.as_ref().map_or(0, |words| words.len() + 1);
    let room = end::Room {
        stdout: MAX_STDOUT,
        stderr: MAX_STDERR.saturating_sub(n_reason),
        json: Bound::HARD.max_bytes,
    };
    let (stdout, mut stderr) = end::streams(finished, room);
    if let Some(words) = reason {
        if !stderr.text.is_empty() && !stderr.text.ends_with('\n') {
            stderr.text.push('\n');
        }
        stderr.text.push_str(&words);
    }
    let left_out = stdout.left_out.into_iter().chain(stderr.left_out).collect();
    end::apart(result(&stdout.text, &stderr.text, code), args, finished, left_out)
}

fn result(stdout: &str, stderr: &str, code: i32) -> Reply {
    Reply::json(json!({ "stdout": stdout, "stderr": stderr, "exitCode": code }))
}

/// Shapes a refusal: a program that cannot start is a result.
fn fail(error: &ToolError, _: Option<&str>) -> Reply {
    let code = match error.kind {
        Kind::FileNotFound => 127,
        Kind::PermissionDenied | Kind::NotRegularFile => 126,
        _ => return Reply::failure(error),
    };
    let mut reply = result("", &error.message, code);
    reply.outcome = Some(error.kind);
    reply.bounded = true;
    reply
}
