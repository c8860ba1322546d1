//! The dialect of aionrs: so far `Bash`.
//!
//! A command runs with `sh`, and one that does not return 0 is an error, as are its words to the model
//! then. What differs from the program: output of a command whose time ran out is shown, and everything
//! it started is ended; colours are left out; what a reply has no room for is named and stored whole.

use std::sync::Arc;

use sinew_ops::bash::{self, end};
use sinew_tool::{
    Bound, Dialect, Exit, FileSettings, Finished, Param, ParamKind, Preset, Reply, Row, Tool,
};

/// The dialect of aionrs.
pub const AIONRS: Dialect =
    Dialect { name: "aionrs", tools, settings, approval_timeout_ms: 300_000 };

fn settings() -> FileSettings {
    FileSettings { track_reads: true, must_read_before_write: true, ..FileSettings::default() }
}

fn tools() -> Vec<Arc<dyn Tool>> {
    vec![BASH.tool()]
}

/// The most that both streams show together.
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
    // Bytes that are no text take up to three where they are shown.
    presets: &[
        ("posix", Preset::Bool(true)),
        ("store_above_bytes", Preset::Int(MAX_BYTES as i64 / 3)),
    ],
    absolute_paths: false,
    bound: Bound::HARD,
    core: true,
    shape: |args, out, _| bash::shaped(args, out, bash),
    fail: |error, _| Reply::failure(error),
};

fn bash(args: &bash::Args, finished: &Finished) -> Reply {
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
