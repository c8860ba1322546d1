//! The dialect of clawft: so far `exec_shell` and `spawn`.
//!
//! Results are JSON objects of at most 64 KiB, and errors are an object with `error` alone, which
//! begins with what kind of error it is. A code that is not 0 is a result. What differs from the
//! program: commands start in the root and nothing that they started outlives them; output of a command
//! whose time ran out stands beside its error; `spawn` is counted in one step, so that there are never
//! six, and takes a longest time. Which commands may run at all is asked of a person.

use std::sync::Arc;

use serde_json::{Value, json};
use sinew_ops::bash::{self, end};
use sinew_tool::{
    Bound, Dialect, Exit, FileSettings, Finished, Kind, Param, ParamKind, Preset, Reply, Row,
    Scale, Tool, ToolError,
};

/// The dialect of clawft.
pub const CLAWFT: Dialect = Dialect {
    name: "clawft",
    tools,
    settings: FileSettings::default,
    approval_timeout_ms: 300_000,
};

fn tools() -> Vec<Arc<dyn Tool>> {
    vec![EXEC_SHELL.tool(), SPAWN.tool()]
}

/// The most that a result holds.
const BOUND: Bound = Bound { max_lines: None, max_bytes: 64 * 1024 };
/// The most bytes of an argument that a result repeats.
const MAX_REPEATED: usize = 512;
/// An output that is surely shown whole: each of its bytes takes up to six in JSON.
const STORE_ABOVE: (&str, Preset) = ("store_above_bytes", Preset::Int(9 * 1024));

const EXEC_SHELL: Row<bash::Bash> = Row {
    name: "exec_shell",
    description: "Execute a shell command via sh -c in the workspace directory.",
    params: &[
        Param::required("command", "command", ParamKind::String, "Shell command to execute"),
        Param::optional(
            "timeout",
            "timeout_ms",
            ParamKind::Number { min: 1, cap: Some(300) },
            "Timeout in seconds, at most 300",
        )
        .or(Preset::Int(30))
        .scaled(Scale::Seconds),
    ],
    presets: &[("posix", Preset::Bool(true)), STORE_ABOVE],
    absolute_paths: false,
    bound: BOUND,
    core: true,
    shape: |args, out, _| bash::shaped(args, out, exec_shell),
    fail: |error, _| fail(error),
};

const SPAWN: Row<bash::Bash> = Row {
    name: "spawn",
    description: "Spawn a subprocess in the workspace directory; at most 5 run at once.",
    params: &[
        Param::required("command", "program", ParamKind::String, "Program to execute"),
        Param::optional("args", "args", ParamKind::Strings, "Its arguments"),
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
    absolute_paths: false,
    bound: BOUND,
    core: true,
    shape: |args, out, _| bash::shaped(args, out, spawn),
    fail: |error, _| fail(error),
};

fn exec_shell(args: &bash::Args, finished: &Finished) -> Reply {
    result(args, finished, |code, stdout, stderr| {
        json!({
            "exit_code": code,
            "stdout": stdout,
            "stderr": stderr,
            "duration_ms": finished.duration.as_millis() as u64,
        })
    })
}

fn spawn(args: &bash::Args, finished: &Finished) -> Reply {
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

/// Returns the result of a command: an object of its code and its streams, cut to what it may hold.
fn result(
    args: &bash::Args,
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
    let object = |stdout: &str, stderr: &str| {
        let mut object = object(code, stdout, stderr);
        if let (Some(error), Some(fields)) = (&error, object.as_object_mut()) {
            fields.insert(String::from("error"), Value::from(error.as_str()));
        }
        object
    };
    let json = BOUND.max_bytes.saturating_sub(object("", "").to_string().len());
    let (stdout, stderr) = end::streams(finished, end::Room { stdout: json, stderr: json, json });
    let mut reply = Reply::json(object(&stdout.text, &stderr.text));
    if let (Some(error), Some((kind, _))) = (error, end::failure(args, finished)) {
        reply = end::failed(reply, kind, error);
    }
    end::told(reply, args, finished, stdout.left_out.into_iter().chain(stderr.left_out).collect())
}

/// Shapes a refusal: the kind of the error in this vocabulary, and what happened.
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
    let text = format!("{kind}: {}{hint}", error.message);
    let shaped = Reply::json(json!({ "error": text }));
    Reply { content: shaped.content, structured: shaped.structured, ..Reply::failure(error) }
}
