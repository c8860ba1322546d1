//! Terminal: runs a program in a terminal of its own, types into it and reads its screen.
//!
//! It serves interactive programs: interpreters, editors, installers. A start is judged as a command; later
//! input goes to that allowed program in the same sandbox. No-echo input, as of passwords, is rejected.

mod keys;

use std::fmt::Write;
use std::time::Duration;

use serde::Deserialize;
use sinew_tool::{
    Access, Background, Bound, Claim, Command, CommandLine, Context, Cost, Effects, Facts,
    FileSettings, Operation, Param, ParamKind, Reply, Row, RunOptions, Screen, Shaping, Shell,
    Size, Targets, ToolError, Typed,
};

use crate::bash::end;
use crate::waits::{self, MAX_WAIT_MS, Until};

/// The default size of a terminal.
const DEFAULT_SIZE: Size = Size { rows: 24, cols: 80 };
/// The largest size: lines, and characters of a line.
const MAX_SIZE: (i64, i64) = (100, 250);
/// The silence after which a screen counts as finished, in milliseconds.
const IDLE_MS: u64 = 300;
/// The longest wait for that silence, in milliseconds.
const IDLE_WAIT_MS: u64 = 10_000;

/// Runs programs in terminals.
#[derive(Debug)]
pub struct Terminal;

/// Arguments of Terminal.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TerminalArgs {
    /// The command that begins.
    #[serde(default)]
    pub command: Option<String>,
    /// Where it begins.
    #[serde(default)]
    pub cwd: Option<String>,
    /// The ID of a running terminal.
    #[serde(default)]
    pub id: Option<String>,
    /// The text to type.
    #[serde(default)]
    pub text: Option<String>,
    /// The keys that are pressed after that, by name.
    #[serde(default)]
    pub keys: Vec<String>,
    /// A regular expression: the wait ends when it matches something new.
    #[serde(default)]
    pub until: Option<String>,
    /// The wait ends after this long without output, in milliseconds.
    #[serde(default)]
    pub idle_ms: Option<u64>,
    /// The longest wait.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Whether only lines changed since the last look are shown.
    #[serde(default)]
    pub changes: bool,
    /// The lines that the terminal has from now on.
    #[serde(default)]
    pub rows: Option<u16>,
    /// The characters of each line.
    #[serde(default)]
    pub cols: Option<u16>,
}

impl TerminalArgs {
    /// Returns whether the call names a wait.
    fn named_wait(&self) -> bool {
        self.until.is_some() || self.idle_ms.is_some() || self.timeout_ms.is_some()
    }

    /// Returns the wait that the call names, or that for a finished screen.
    fn until(&self) -> Until<'_> {
        let (idle_ms, timeout_ms) = match self.named_wait() {
            true => (self.idle_ms, self.timeout_ms),
            false => (Some(IDLE_MS), Some(IDLE_WAIT_MS)),
        };
        Until { until: self.until.as_deref(), idle_ms, timeout_ms }
    }

    fn size(&self) -> Size {
        let Size { rows, cols } = DEFAULT_SIZE;
        Size { rows: self.rows.unwrap_or(rows), cols: self.cols.unwrap_or(cols) }
    }

    fn typed(&self) -> Result<Vec<Typed>, ToolError> {
        let text = self.text.clone().map(Typed::Text);
        let keys: Vec<Vec<Typed>> =
            self.keys.iter().map(|name| keys::keys(name)).collect::<Result<_, _>>()?;
        Ok(text.into_iter().chain(keys.into_iter().flatten()).collect())
    }
}

/// Outcome of Terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalOut {
    /// The terminals of the session.
    List(Vec<Background>),
    /// The screen of one terminal.
    Screen(Box<Screen>),
}

/// The native row.
pub const NATIVE: Row<Terminal> = Row {
    name: "Terminal",
    description: "Interactive programs (REPLs, editors): `command` starts one in a sandboxed terminal, then \
                  `id` with `text` and `keys` types; each call returns the screen. Never type secrets.",
    params: &[
        Param::optional("command", "command", ParamKind::String, "Starts a terminal"),
        Param::optional("cwd", "cwd", ParamKind::String, "Default: where Bash is"),
        Param::optional("id", "id", ParamKind::String, "A started terminal"),
        Param::optional("text", "text", ParamKind::String, "Typed as is; \\n is Enter"),
        Param::optional(
            "keys",
            "keys",
            ParamKind::Strings { min: 1 },
            "After text: Enter, Tab, Escape, Up, F1, C-c, M-x …",
        ),
        Param::optional("until", "until", ParamKind::String, "Regex to wait for; sees the echo"),
        Param::optional(
            "idle",
            "idle_ms",
            ParamKind::Integer { min: 1, cap: Some(MAX_WAIT_MS) },
            "Wait for silence, ms; default 300",
        ),
        Param::optional(
            "timeout",
            "timeout_ms",
            ParamKind::Integer { min: 0, cap: Some(MAX_WAIT_MS) },
            "Max wait, ms; default 30000; alone, waits for exit",
        ),
        Param::optional("changes", "changes", ParamKind::Boolean, "Only changed lines"),
        Param::optional(
            "rows",
            "rows",
            ParamKind::Integer { min: 1, cap: Some(MAX_SIZE.0) },
            "24; resizes",
        ),
        Param::optional("cols", "cols", ParamKind::Integer { min: 1, cap: Some(MAX_SIZE.1) }, "80"),
    ],
    bound: Bound::HARD,
    core: false,
    ..Row::shaped(shape)
};

impl Operation for Terminal {
    const NAME: &'static str = "Terminal";
    const FACTS: Facts = Facts {
        effects: Effects::EXECUTE.or(Effects::SESSION),
        idempotent: false,
        destructive: true,
        parallel: true,
    };
    type Args = TerminalArgs;
    type Out = TerminalOut;

    fn check(args: &TerminalArgs) -> Result<(), ToolError> {
        let types = args.text.is_some() || !args.keys.is_empty();
        match (&args.command, &args.id) {
            (None, None) if types || args.named_wait() || args.rows.or(args.cols).is_some() => Err(ToolError::argument(
                "id",
                "is missing",
            )
            .hint(
                "`command` starts a terminal, `id` names one that was started; neither lists them",
            )),
            (Some(_), Some(_)) => Err(ToolError::argument("id", "cannot be given with `command`")
                .hint("start a terminal with `command` alone, then use its `id`")),
            (Some(_), None) if types => Err(ToolError::argument("text", "cannot be given with `command`")
                .hint("start the terminal first, then type into it by its `id`")),
            (None, Some(_)) if args.cwd.is_some() => {
                Err(ToolError::argument("cwd", "cannot be given with `id`")
                    .hint("a terminal that was started stays where it is"))
            }
            _ => args.typed().map(drop),
        }
    }

    fn effects(args: &TerminalArgs) -> Effects {
        if args.command.is_some() { Effects::EXECUTE } else { Effects::SESSION }
    }

    fn claims(args: &TerminalArgs, _settings: &FileSettings) -> Vec<Claim> {
        let path = args.cwd.clone().filter(|cwd| !cwd.is_empty());
        let starts = Claim::new("cwd", path, Access::Search);
        args.command.iter().map(|_| starts.clone()).collect()
    }

    fn command(args: &TerminalArgs) -> Option<Command> {
        let line = CommandLine::Shell(Shell::User, args.command.clone()?);
        Some(Command {
            argument: "command",
            line,
            keeps_cwd: true,
            has_terminal: true,
            programs: Vec::new(),
            needs: None,
        })
    }

    fn cost(_args: &TerminalArgs, _targets: &Targets) -> Cost {
        Cost::Waits
    }

    async fn run(args: &TerminalArgs, cx: &Context) -> Result<TerminalOut, ToolError> {
        let processes = &cx.world.processes;
        let wait = args.until().wait(cx)?;
        let id = match (&args.id, &args.command) {
            (None, None) => {
                let mut all = processes.background();
                all.retain(|one| one.is_terminal);
                return Ok(TerminalOut::List(all));
            }
            (Some(id), _) => {
                if args.rows.is_some() || args.cols.is_some() {
                    processes.resize(id, args.rows, args.cols)?;
                }
                let typed = args.typed()?;
                if !typed.is_empty() {
                    processes.enter(id, typed).await?;
                }
                id.clone()
            }
            (None, Some(_)) => processes.begin(options(cx), Some(args.size())).await?,
        };
        processes.screen(&id, wait).await.map(Box::new).map(TerminalOut::Screen)
    }
}

fn options(cx: &Context) -> RunOptions {
    RunOptions {
        merged: true,
        timeout: Duration::ZERO,
        stdin: None,
        env: Vec::new(),
        variables: Vec::new(),
        max_at_once: None,
        store_above: (0, 0),
        cancel: cx.cancel.clone(),
        progress: cx.progress.clone(),
        midway: None,
    }
}

fn shape(args: &TerminalArgs, out: TerminalOut, _shaping: &Shaping<'_>) -> Reply {
    match out {
        TerminalOut::List(all) if all.is_empty() => Reply::text("[no terminal was started]"),
        TerminalOut::List(all) => {
            let lines: Vec<String> = all.iter().map(waits::line).collect();
            Reply::text(lines.join("\n"))
        }
        TerminalOut::Screen(screen) => screen_reply(args, *screen),
    }
}

fn screen_reply(args: &TerminalArgs, screen: Screen) -> Reply {
    let Screen { background, size, rows, changed, cursor, n_skipped, hides_input, waited } = screen;
    let mut text = end::refusal_lines(&background.findings);
    if args.changes {
        let lines = rows.iter().zip(&changed).enumerate().filter(|(_, (_, changed))| **changed);
        for (at, (row, _)) in lines {
            let _ = writeln!(text, "{}: {row}", at + 1);
        }
    } else {
        let last = rows.iter().rposition(|row| !row.is_empty()).map_or(0, |at| at + 1);
        for row in rows.iter().take(last) {
            text.push_str(row);
            text.push('\n');
        }
    }
    let mut note = |words: String| {
        let _ = writeln!(text, "[{words}]");
    };
    let mut state = format!("{}: {}", background.id, background.state());
    if background.exit.is_none() {
        let (line, column) = (cursor.0 + 1, cursor.1 + 1);
        let Size { rows, cols } = size;
        state.push_str(&format!("; cursor in line {line} of {rows}, column {column} of {cols}"));
    }
    note(state);
    if 0 < n_skipped {
        note(format!(
            "{n_skipped} bytes came too fast to be drawn, so this may not be what it shows"
        ));
    }
    if hides_input {
        note(String::from(
            "it asks for something that it does not show, such as a password: only a person types that",
        ));
    }
    args.until().words(waited).into_iter().for_each(note);
    text.pop();
    let mut reply = Reply::text(text);
    reply.meta.output_path = background.stored;
    reply.meta.more.insert("background_id", background.id);
    reply
}

#[cfg(test)]
mod tests;
