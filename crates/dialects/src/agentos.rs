//! The dialect of agentos: so far `tool::shell_exec`.
//!
//! A program runs without a shell, if its name is one of forty. Whatever becomes of it is a result with
//! a whole number as exit code: 127 where there is no such program or directory, 126 where it cannot be executed,
//! 124 where its time ran out, 128 and the number of a signal that ended it; `stderr` then ends with
//! the reason. What differs from the program: limits count bytes, a program that is named by its path
//! must be the one that its bare name means, a flood of output is cut and not killed, what was written
//! before the time ran out is shown, and failures are recorded as successes are.

use std::sync::Arc;

use serde_json::json;
use sinew_ops::bash::{self, end};
use sinew_tool::{
    Bound, Dialect, Exit, FileSettings, Finished, Kind, Param, ParamKind, Preset, Reply, Row, Tool,
    ToolError,
};

/// The dialect of agentos.
pub const AGENTOS: Dialect = Dialect {
    name: "agentos",
    tools,
    settings: FileSettings::default,
    approval_timeout_ms: 300_000,
};

fn tools() -> Vec<Arc<dyn Tool>> {
    vec![SHELL_EXEC.tool()]
}

/// The programs that may be run.
const PROGRAMS: &[&str] = &[
    "git", "node", "npm", "npx", "bun", "deno", "python3", "python", "pip", "ls", "cat", "grep",
    "find", "echo", "mkdir", "touch", "cp", "mv", "head", "tail", "wc", "sort", "uniq", "diff",
    "curl", "wget", "tar", "zip", "unzip", "jq", "sed", "awk", "which", "env", "date", "cargo",
    "rustc", "go", "make", "cmake",
];
/// The variables that they get.
const VARIABLES: &[&str] = &["PATH", "HOME", "USER", "LANG", "TERM", "NODE_ENV"];
const MAX_STDOUT: usize = 100_000;
const MAX_STDERR: usize = 50_000;

const SHELL_EXEC: Row<bash::Bash> = Row {
    name: "tool::shell_exec",
    description: "Execute an allowlisted program directly, without a shell.",
    params: &[
        Param::required("argv", "argv", ParamKind::Strings, "Program and its arguments"),
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
        // Bytes that are no text take up to three where they are shown.
        ("store_above_bytes", Preset::Int(MAX_STDERR as i64 / 3)),
    ],
    absolute_paths: false,
    bound: Bound::HARD,
    core: true,
    shape: |args, out, _| bash::shaped(args, out, shell_exec),
    fail,
};

fn shell_exec(args: &bash::Args, finished: &Finished) -> Reply {
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
    end::told(result(&stdout.text, &stderr.text, code), args, finished, left_out)
}

fn result(stdout: &str, stderr: &str, code: i32) -> Reply {
    Reply::json(json!({ "stdout": stdout, "stderr": stderr, "exitCode": code }))
}

/// Shapes a refusal: a program that cannot be started is a result.
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
