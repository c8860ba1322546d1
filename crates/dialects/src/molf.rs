//! The dialect of molf: so far `shell_exec`.
//!
//! The command runs in the user's shell, and a code that is not 0 is a result. Where the published
//! page and the program differ, the page is followed for names, defaults and limits, but the exit code
//! stands after a blank line, as the program writes it. What else differs from the program: output of
//! a command whose time ran out is shown; a time above the longest is cut and the reply says so; the
//! directory lies beneath a root; the environment is the filtered one of every command; colours are
//! left out; the whole of a long output lies in the store of sinew, and the way to the rest of it is
//! told in the parameters that `read_file` has.

use std::sync::Arc;

use sinew_ops::bash::{self, end};
use sinew_tool::{
    Bound, Dialect, Exit, FileSettings, Finished, Kind, Param, ParamKind, Preset, Reply, Row, Tool,
};

/// The dialect of molf.
pub const MOLF: Dialect =
    Dialect { name: "molf", tools, settings: FileSettings::default, approval_timeout_ms: 300_000 };

fn tools() -> Vec<Arc<dyn Tool>> {
    vec![SHELL_EXEC.tool()]
}

/// The most that an output shows.
const MAX_BYTES: usize = 50 * 1024;
const MAX_LINES: usize = 2_000;

const SHELL_EXEC: Row<bash::Bash> = Row {
    name: "shell_exec",
    description: "Execute a shell command and return combined stdout/stderr and exit code.",
    params: &[
        Param::required("command", "command", ParamKind::String, "Shell command to execute"),
        Param::optional("cwd", "cwd", ParamKind::String, "Working directory for the command"),
        Param::optional(
            "timeout",
            "timeout_ms",
            ParamKind::Number { min: 1, cap: Some(bash::LONGEST_TIMEOUT_MS) },
            "Timeout in milliseconds",
        )
        .or(Preset::Int(120_000)),
    ],
    presets: &[("merged", Preset::Bool(true))],
    absolute_paths: false,
    bound: Bound::DEFAULT,
    core: true,
    shape: |args, out, _| bash::shaped(args, out, shell_exec),
    fail: |error, _| Reply::failure(error),
};

fn shell_exec(args: &bash::Args, finished: &Finished) -> Reply {
    let first = end::first_lines(finished, MAX_BYTES, MAX_LINES);
    let mut text = first.text;
    if let Some(n_lines) = first.left_out {
        text.push_str(&format!("\n\n...{n_lines} lines truncated..."));
        if let Some(path) = &finished.stored {
            text.push_str(&format!(
                "\n\nOutput was truncated. Full output saved to: {path}\nUse read_file with \
                 startLine and endLine to view a section of it, or grep to search it."
            ));
        }
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
    if let Some(path) = finished.stored.as_ref().filter(|_| reply.meta.truncated) {
        reply.meta.more.insert("outputPath", path.clone());
    }
    end::told(reply, args, finished, Vec::new())
}

fn ended(text: String, code: i32) -> Reply {
    let mut reply = Reply::text(format!("{text}\n\nexit code: {code}"));
    reply.meta.more.insert("exitCode", code);
    reply
}
