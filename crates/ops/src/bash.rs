//! Bash: runs a command in a shell.
//!
//! The command gets no terminal and no stdin. All its processes end with it, unless it was started in the
//! background. Its output is shown as a terminal would show it at the end: without colours, and with only
//! the last state of an overwritten line. Output beyond the limit of a reply is stored whole.
//!
//! Other dialects run commands the same way, in a shell or without one; [`end`] holds what they share.

pub mod end;

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use sinew_tool::{
    Access, Background, Bound, Claim, Command, CommandLine, Context, Cost, Effects, ErrorBody,
    Exit, Facts, FileSettings, Finished, Kind, Moved, Need, Needs, News, Operation, Output, Param,
    ParamKind, Preset, Reply, Row, RunOptions, Shaping, Shell, Targets, ToolError, WentBack,
    line_name,
};

use crate::{screen, waits};

/// The default timeout of a command, in milliseconds.
pub const DEFAULT_TIMEOUT_MS: i64 = 120_000;
/// The longest timeout, in milliseconds.
pub const MAX_TIMEOUT_MS: i64 = 600_000;
/// The longest timeout in a dialect that names none, in milliseconds.
pub const LONGEST_TIMEOUT_MS: i64 = 1_800_000;
/// How long a call waits for a background command that ends at once.
const FIRST_LOOK: Duration = Duration::from_millis(200);
/// The most entries of `needs`.
const MAX_NEEDS: usize = 16;
/// The limits of shown output, in bytes and lines.
const SHOWN: (usize, usize) = (50 * 1024, 2_000);

/// Runs a command.
#[derive(Debug)]
pub struct Bash;

/// Arguments of Bash.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BashArgs {
    /// The text for the shell.
    #[serde(default)]
    pub command: String,
    /// A program and its arguments, which run without a shell.
    #[serde(default)]
    pub argv: Option<Vec<String>>,
    /// A program that runs without a shell.
    #[serde(default)]
    pub program: Option<String>,
    /// The arguments of that program.
    #[serde(default)]
    pub args: Vec<String>,
    /// The start directory. Absent or empty: where the session's last command ended, or the first root.
    #[serde(default)]
    pub cwd: Option<String>,
    /// The command is killed after this time.
    pub timeout_ms: u64,
    /// The purpose, for the user.
    #[serde(default)]
    pub description: Option<String>,
    /// Whether it runs in the background, after the call.
    #[serde(default)]
    pub background: bool,
    /// Whether stdout and stderr are one stream.
    #[serde(default)]
    pub merged: bool,
    /// Whether its output is shown as it is.
    #[serde(default)]
    pub raw: bool,
    /// Whether `sh` runs it instead of the user's shell.
    #[serde(default)]
    pub posix: bool,
    /// Whether it starts where the last command of the session ended.
    #[serde(default)]
    pub keeps_cwd: bool,
    /// What the command needs beyond its sandbox; see [`Need`].
    #[serde(default)]
    pub needs: Vec<String>,
    /// What for.
    #[serde(default)]
    pub why: Option<String>,
    /// Whether the vocabulary has arguments for both.
    #[serde(default)]
    pub may_need: bool,
    /// The programs that may run without a shell; empty means any.
    #[serde(default)]
    pub programs: Vec<String>,
    /// The variables it gets of those that every command gets; empty means all.
    #[serde(default)]
    pub variables: Vec<String>,
    /// The most such commands that may run at once.
    #[serde(default)]
    pub max_at_once: Option<u32>,
    /// An output of more bytes is stored whole, however few its lines.
    #[serde(default)]
    pub store_above_bytes: Option<u64>,
}

impl BashArgs {
    /// Returns the command line, with the field that names it.
    fn line(&self) -> (&'static str, CommandLine) {
        if let Some(argv) = &self.argv {
            return ("argv", CommandLine::Argv(argv.clone()));
        }
        if let Some(program) = &self.program {
            let argv = [program].into_iter().chain(&self.args).cloned().collect();
            return ("program", CommandLine::Argv(argv));
        }
        let shell = if self.posix { Shell::Posix } else { Shell::User };
        ("command", CommandLine::Shell(shell, self.command.clone()))
    }

    /// Returns whether a shell runs it.
    fn has_shell(&self) -> bool {
        self.argv.is_none() && self.program.is_none()
    }

    /// Returns what it needs; entries that do not fit are refused before.
    fn needs(&self) -> Needs {
        let list = self.needs.iter().filter_map(|entry| Need::parse(entry).ok()).collect();
        Needs { list, why: self.why.clone().unwrap_or_default() }
    }

    fn store_above(&self) -> (u64, u64) {
        match self.store_above_bytes {
            Some(bytes) => (bytes, u64::MAX),
            None => (SHOWN.0 as u64, SHOWN.1 as u64),
        }
    }
}

/// Outcome of Bash.
#[derive(Debug, Clone, PartialEq)]
pub enum BashOut {
    /// The command ran to its end.
    Finished {
        /// The result of the command.
        finished: Box<Finished>,
        /// The background commands of the session.
        background: Vec<Background>,
    },
    /// The command runs in the background; its first output.
    Begun(Box<News>),
}

/// The native row.
pub const NATIVE: Row<Bash> = Row {
    name: "Bash",
    description: "Runs a command in a sandboxed shell: only roots can be written, the network is \
                  closed, the working directory stays from call to call. What it starts ends with it, \
                  unless in background.",
    params: &[
        Param::required("command", "command", ParamKind::String, ""),
        Param::optional(
            "timeout",
            "timeout_ms",
            ParamKind::Integer { min: 1, cap: Some(MAX_TIMEOUT_MS) },
            "Milliseconds",
        )
        .or(Preset::Int(DEFAULT_TIMEOUT_MS)),
        Param::optional("description", "description", ParamKind::String, ""),
        Param::optional("run_in_background", "background", ParamKind::Boolean, ""),
        Param::optional("raw", "raw", ParamKind::Boolean, "Keep colours"),
        Param::optional(
            "needs",
            "needs",
            ParamKind::Strings { min: 0 },
            "Ask the user for `network`, `read:/PATH`, `write:/PATH`, `ssh-agent` or `unsandboxed`",
        ),
        Param::optional("why", "why", ParamKind::String, "Reason for needs"),
    ],
    presets: &[
        ("keeps_cwd", Preset::Bool(true)),
        ("merged", Preset::Bool(true)),
        ("may_need", Preset::Bool(true)),
    ],
    bound: Bound::HARD,
    ..Row::shaped(shape)
};

impl Operation for Bash {
    const NAME: &'static str = "Bash";
    const FACTS: Facts =
        Facts { effects: Effects::EXECUTE, idempotent: false, destructive: true, parallel: true };
    type Args = BashArgs;
    type Out = BashOut;

    fn check(args: &BashArgs) -> Result<(), ToolError> {
        if MAX_NEEDS < args.needs.len() {
            let message = format!("holds {} entries; at most {MAX_NEEDS} count", args.needs.len());
            return Err(ToolError::argument("needs", message));
        }
        for entry in &args.needs {
            Need::parse(entry).map_err(|problem| {
                ToolError::argument("needs", format!("does not fit: {problem}"))
            })?;
        }
        let is_explained = args.why.as_ref().is_some_and(|why| !why.trim().is_empty());
        match args.needs.is_empty() || is_explained {
            true => Ok(()),
            false => Err(ToolError::argument("why", "is missing beside `needs`")
                .hint("say in a few words what the command needs them for; a person reads it")),
        }
    }

    fn claims(args: &BashArgs, _settings: &FileSettings) -> Vec<Claim> {
        let path = args.cwd.clone().filter(|cwd| !cwd.is_empty());
        let needs = args.needs().list;
        let lent = needs.iter().filter_map(|need| {
            let (path, is_writable) = need.path()?;
            let path = Some(path.to_string_lossy().into_owned());
            Some(Claim::new("needs", path, Access::Lend { is_writable }))
        });
        [Claim::new("cwd", path, Access::Search)].into_iter().chain(lent).collect()
    }

    fn command(args: &BashArgs) -> Option<Command> {
        let (argument, line) = args.line();
        let programs = args.programs.clone();
        let keeps_cwd = args.keeps_cwd;
        let needs = args.may_need.then(|| args.needs());
        Some(Command { argument, line, keeps_cwd, has_terminal: false, programs, needs })
    }

    fn cost(_args: &BashArgs, _targets: &Targets) -> Cost {
        Cost::Waits
    }

    async fn run(args: &BashArgs, cx: &Context) -> Result<BashOut, ToolError> {
        let options = RunOptions {
            merged: args.merged,
            timeout: Duration::from_millis(args.timeout_ms),
            stdin: None,
            env: Vec::new(),
            variables: args.variables.clone(),
            max_at_once: args.max_at_once,
            store_above: args.store_above(),
            cancel: cx.cancel.clone(),
            progress: cx.progress.clone(),
            midway: cx.midway.clone(),
        };
        let processes = &cx.world.processes;
        if !args.background {
            let finished = Box::new(processes.run(options).await?);
            return Ok(BashOut::Finished { finished, background: processes.running() });
        }
        let cancel = options.cancel.clone();
        let id = processes.begin(options, None).await?;
        let wait = waits::for_its_end(FIRST_LOOK, &cancel);
        Ok(BashOut::Begun(Box::new(processes.news(&id, wait, true).await?)))
    }
}

fn shape(args: &BashArgs, out: BashOut, shaping: &Shaping<'_>) -> Reply {
    match out {
        BashOut::Finished { finished, background } => {
            finished_reply(args, &finished, &background, shaping)
        }
        BashOut::Begun(news) => begun_reply(args, *news),
    }
}

/// Shapes an outcome in a vocabulary whose commands end with their calls.
pub fn shaped(args: &BashArgs, out: BashOut, words: fn(&BashArgs, &Finished) -> Reply) -> Reply {
    match out {
        BashOut::Finished { finished, .. } => words(args, &finished),
        BashOut::Begun(news) => begun_reply(args, *news),
    }
}

fn finished_reply(
    args: &BashArgs,
    finished: &Finished,
    background: &[Background],
    shaping: &Shaping<'_>,
) -> Reply {
    let shown = screen::show(&finished.merged, args.raw, SHOWN);
    // Refusals come first, since models read only the end of a long output.
    let mut text = end::refusal_lines(&finished.findings);
    let start = text.len();
    text.push_str(&shown.text);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let end = text.len();
    let mut note = |words: String| {
        let _ = writeln!(text, "[{words}]");
    };
    if let Some(left_out) = shown.left_out {
        note(match end::stored(finished) {
            Some(stored) => format!("{left_out}; {stored}"),
            None => left_out,
        });
    }
    let failure = end::failure(args, finished);
    if let Some((_, words)) = &failure {
        note(words.clone());
    }
    end::running_on(finished).into_iter().for_each(&mut note);
    if let Some(left) = end::left_running(finished) {
        note(format!("{left}; `run_in_background` keeps a command running"));
    }
    if let Some(WentBack { removed, to }) = &finished.went_back {
        let (removed, to) = (line_name(removed), line_name(to));
        note(format!(
            "working directory: {removed} is not there or cannot be entered; commands start in {to}"
        ));
    }
    match &finished.moved {
        None => {}
        Some(Moved::To(cwd)) => note(format!("working directory: {}", shaping.shown(cwd))),
        Some(Moved::Not { outside, stays }) => note(format!(
            "working directory: still {}, for {} is outside the roots",
            shaping.shown(stays),
            line_name(outside)
        )),
    }
    let named = |path: &Path| shaping.shown(path);
    let changes = finished.findings.changes.iter().flat_map(|changes| changes.lines(named));
    changes.for_each(&mut note);
    for one in background {
        note(format!("background {}", waits::line(one)));
    }
    if text.is_empty() {
        text.push_str("[no output]\n");
    }
    text.pop();
    // Without notes the last line feed is gone.
    let output_range = start..end.min(text.len());
    let mut reply = Reply::text(text);
    reply.meta.output_range = Some(output_range);
    reply.meta.truncated = shown.is_cut;
    end::describe(&mut reply, finished);
    if let Some((kind, message)) = failure {
        reply.ok = false;
        reply.error = Some(ErrorBody { kind, message, hint: None });
    }
    reply
}

fn begun_reply(args: &BashArgs, news: News) -> Reply {
    let News { background: one, bytes, .. } = news;
    let total = bytes.len() as u64;
    let output = Output { head: bytes, tail: Vec::new(), total };
    let shown = screen::show(&output, args.raw, SHOWN);
    let mut text = end::refusal_lines(&one.findings);
    text.push_str(&shown.text);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let mut state = match &one.exit {
        None => format!("{} runs in the background and ends with the session", one.id),
        Some(exit) => format!("{} has ended already: {exit}", one.id),
    };
    let message = state.clone();
    if let Some(path) = &one.stored {
        let _ = write!(state, "; its output goes to {path}");
    }
    if let Some(left_out) = &shown.left_out {
        let _ = writeln!(text, "[{left_out}]");
    }
    let _ = write!(text, "[{state}]");
    let mut reply = Reply::text(text);
    reply.meta.truncated = shown.is_cut;
    reply.meta.more.insert("background_id", one.id);
    reply.meta.output_path = one.stored;
    if one.exit.is_some_and(|exit| exit != Exit::Code(0)) {
        reply.ok = false;
        reply.error = Some(ErrorBody { kind: Kind::ExecutionFailed, message, hint: None });
    }
    reply
}

#[cfg(test)]
mod tests;
