//! Commands of a call: the one it names and no other, with options, results and sandbox refusals.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::{
    Analysis, AsksMidway, Background, BoxFuture, Cancel, ExtraAccess, Kind, Need, Needs, News,
    Progress, Screen, Size, ToolError, Typed, Wait,
};

/// The command that a call requests, before containment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The wire name of the argument, for messages.
    pub argument: &'static str,
    /// The shell text or program.
    pub line: CommandLine,
    /// Whether it starts in the last directory of the session, unless the call names one.
    pub keeps_cwd: bool,
    /// Whether it runs in a terminal, where later input decides what it does.
    pub has_terminal: bool,
    /// The allowlist of programs without a shell, by name; empty means any.
    pub programs: Vec<String>,
    /// What it needs beyond its sandbox; `None` if the tool has no argument for that.
    pub needs: Option<Needs>,
}

/// A text for a shell, or a program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandLine {
    /// Text for a shell.
    Shell(Shell, String),
    /// A program and its arguments, without a shell in between.
    Argv(Vec<String>),
}

/// The shell that runs a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    /// The user's own if it accepts the syntax of models, else `bash`, else `sh`.
    User,
    /// `sh`.
    Posix,
}

/// A command after containment: the program, arguments and directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandTarget {
    /// The requested command.
    pub command: Command,
    /// The program that is executed, by absolute path.
    pub program: PathBuf,
    /// Its arguments, starting with its name.
    pub argv: Vec<String>,
    /// The real path of its working directory.
    pub cwd: PathBuf,
    /// The static analysis of the command.
    pub analysis: Analysis,
    /// The protected names that its text says it changes. An answer that allows it allows these changes.
    pub named: Vec<&'static str>,
    /// What it gets beyond its sandbox, if an answer or a rule allows that.
    pub extra: ExtraAccess,
    /// Whether it may run what other calls can change, by its text. Known of a command without a sandbox.
    pub may_run_own_files: bool,
}

impl CommandTarget {
    /// Returns what its call says that it needs, if that counts.
    pub fn needs(&self) -> Option<&Needs> {
        self.command.needs.as_ref().filter(|_| !self.extra.is_empty())
    }
}

/// The options of a run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Whether both streams share one pipe, which keeps their order; all output then counts as stdout.
    pub merged: bool,
    /// The time limit, after which the command is killed.
    pub timeout: Duration,
    /// Its standard input; `None` means empty.
    pub stdin: Option<Vec<u8>>,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// The allowlist of default variables by name; empty means all. Configured variables stay.
    pub variables: Vec<String>,
    /// The limit of concurrent commands with such a limit; above it the command is refused.
    pub max_at_once: Option<u32>,
    /// Larger output, in bytes or lines, is stored in full.
    pub store_above: (u64, u64),
    /// Cancels the command.
    pub cancel: Cancel,
    /// Receives the amount of output.
    pub progress: Progress,
    /// Asks about files outside the roots, and about changes that undo cannot keep where the command runs only because it can
    /// be undone. Without it these fail. A background command is never asked about.
    pub midway: Option<Arc<dyn AsksMidway>>,
}

/// The head and tail of an output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// The head.
    pub head: Vec<u8>,
    /// The tail; empty if the head is complete.
    pub tail: Vec<u8>,
    /// The total size in bytes.
    pub total: u64,
}

impl Output {
    /// Returns the number of omitted bytes between head and tail.
    pub fn n_left_out(&self) -> u64 {
        self.total.saturating_sub((self.head.len() + self.tail.len()) as u64)
    }
}

/// The end of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// It exited with a code.
    Code(i32),
    /// It died of a signal.
    Signal(i32),
    /// It was killed after its time limit.
    TimedOut,
    /// It was killed after the call was cancelled.
    Cancelled,
    /// Its program could not be executed.
    NotStarted {
        /// Whether the program is missing.
        is_missing: bool,
        /// The reason, in words.
        why: String,
    },
    /// Its supervisor died or did not answer, so its end is unknown.
    Lost,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "ended by signal {}", signal_name(*signal)),
            Self::TimedOut => f.write_str("timed out"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::NotStarted { why, .. } => write!(f, "could not be started: {why}"),
            Self::Lost => f.write_str("unknown: its supervisor ended or did not answer"),
        }
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return signal.to_string(),
    };
    format!("{signal} ({name})")
}

/// The next working directory of a session after a command changed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moved {
    /// The directory where the command ended.
    To(PathBuf),
    /// The unchanged directory, since the command ended outside the roots.
    Not {
        /// Where the command ended.
        outside: PathBuf,
        /// Where the next one starts.
        stays: PathBuf,
    },
}

/// A session whose working directory was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WentBack {
    /// The removed directory.
    pub removed: PathBuf,
    /// Its nearest existing parent, where commands start from now on.
    pub to: PathBuf,
}

/// The containment of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contained {
    /// The sandbox level: `namespaces`, `landlock` or `none`.
    pub level: &'static str,
    /// Sandbox features that this machine lacks.
    pub missing: Vec<String>,
    /// Whether the network was reachable.
    pub network: bool,
}

/// The most output that is stored, in bytes; later output is shown only as the tail.
pub const MAX_STORED_OUTPUT: u64 = 1 << 30;

/// An action of a command that its sandbox denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The action: `change`, `open`, `read`, `reach` or `make`.
    pub deed: &'static str,
    /// The path or address.
    pub what: String,
    /// The reason.
    pub why: String,
    /// The configuration line or option that would allow it; empty if nothing does.
    pub grant: String,
    /// What a call may need to have it allowed for its command alone, if a call can.
    pub need: Option<Need>,
    /// The number of attempts.
    pub times: u32,
    /// Whether the reply is a failure, even with exit code 0: the command left something undone, and programs
    /// such as git end with 0 all the same.
    pub fails: bool,
}

/// What a command changed in the roots, as far as it is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandChanges {
    /// The checkpoint that undoes it; `None` if nothing changed.
    pub checkpoint: Option<String>,
    /// The files and links that it made.
    pub n_made: u64,
    /// The files and links that it removed.
    pub n_removed: u64,
    /// The files and links that it changed.
    pub n_changed: u64,
    /// The files in `.git` that it made, removed or changed, which the other numbers leave out.
    pub n_git: u64,
    /// The first files whose old content is not kept, by real path.
    pub not_kept: Vec<PathBuf>,
    /// The number of all such files.
    pub n_not_kept: u64,
    /// The directories that tools make anew, such as `node_modules`, in which it changed something: that is not kept.
    pub rebuilt: Vec<PathBuf>,
    /// Whether it changed more than is recorded.
    pub is_partial: bool,
}

/// The most directories that a reply names.
const MAX_REBUILT: usize = 3;

impl CommandChanges {
    /// Returns the checkpoint and the number of changed files in words, and what cannot be undone. `shown` shows a path.
    pub fn lines(&self, shown: impl Fn(&Path) -> String) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(id) = &self.checkpoint {
            let counts = [('+', self.n_made), ('-', self.n_removed), ('~', self.n_changed)];
            let counts = counts.into_iter().filter(|(_, n)| *n != 0);
            let counts = counts.map(|(sign, n)| format!("{sign}{n}"));
            let git = (self.n_git != 0).then(|| String::from(".git"));
            let counts: Vec<_> = counts.chain(git).collect();
            let counts =
                if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(" ")) };
            lines.push(format!("{id} undoes this{counts}"));
        }
        let names: Vec<_> = self.not_kept.iter().map(|path| shown(path)).collect();
        match self.n_not_kept.saturating_sub(names.len() as u64) {
            0 if names.is_empty() => {}
            0 => lines.push(format!("cannot be undone: {}", names.join(", "))),
            n => lines.push(format!("cannot be undone: {} and {n} more", names.join(", "))),
        }
        if !self.rebuilt.is_empty() {
            let names = self.rebuilt.iter().take(MAX_REBUILT).map(|dir| shown(dir));
            let names: Vec<_> = names.map(|name| format!("{name}/")).collect();
            let more = match self.rebuilt.len() - names.len() {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            lines.push(format!("not kept: {}{more}", names.join(", ")));
        }
        if self.is_partial {
            lines.push(String::from("it changed more than is kept, so an undo is not complete"));
        }
        lines
    }
}

/// What the sandbox found about a command: what it denied, and changes of names that act later.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxFindings {
    /// The first denials, each once.
    pub listed: Vec<Refused>,
    /// The number of others.
    pub n_more: u32,
    /// The protected names that it changed because that is harmless: what acts on other machines, and content
    /// of commits.
    pub changed: Vec<String>,
    /// The number of other such names.
    pub n_more_changed: u32,
    /// What it changed that the user's own commands execute later, such as `Makefile`; a directory of programs with
    /// the number of changed ones.
    pub later: Vec<String>,
    /// The number of other such changes.
    pub n_more_later: u32,
    /// New symlinks that lead out of the roots, as `NAME -> TARGET`.
    pub links: Vec<String>,
    /// The number of other such links.
    pub n_more_links: u32,
    /// The number of new symlinks that were too many to look at.
    pub n_unseen_links: u32,
    /// What all its processes together used too much of, and whether that ended it.
    pub exhausted: Option<String>,
    /// What it changed in the roots, where that is kept.
    pub changes: Option<CommandChanges>,
}

impl SandboxFindings {
    /// Returns the lines about the protected names that the command changed, what runs later, and which symlinks
    /// lead out.
    pub fn consequences(&self) -> Vec<String> {
        let line = |about: &str, names: &[String], n_more: u32| match (names, n_more) {
            ([], 0) => None,
            ([], n) => Some(format!("{about}{n} more")),
            (names, 0) => Some(format!("{about}{}", names.join(", "))),
            (names, n) => Some(format!("{about}{} and {n} more", names.join(", "))),
        };
        let changed = line("changed ", &self.changed, self.n_more_changed);
        let later = line(&format!("{RUNS_LATER}: "), &self.later, self.n_more_later);
        let links = line("links that lead outside now: ", &self.links, self.n_more_links);
        let unseen = match self.n_unseen_links {
            0 => None,
            n => Some(format!("{n} more new links were not checked")),
        };
        changed.into_iter().chain(later).chain(links).chain(unseen).collect()
    }
}

/// What a reply says before the names of what the user's own commands execute later.
pub const RUNS_LATER: &str = "runs on your machine later";

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub exit: Exit,
    /// How long it ran.
    pub duration: Duration,
    /// All output in order of arrival.
    pub merged: Output,
    /// Its standard output.
    pub stdout: Output,
    /// Its standard error.
    pub stderr: Output,
    /// The number of line feeds in all output.
    pub n_lines: u64,
    /// The stored full output, by path relative to the first root.
    pub stored: Option<String>,
    /// The number of other processes still alive at its end, which were killed.
    pub n_left: u32,
    /// Whether processes may still run, because killing them took too long.
    pub may_run_on: bool,
    /// The next working directory, if this command changed it.
    pub moved: Option<Moved>,
    /// The fallback directory, if the working directory was removed.
    pub went_back: Option<WentBack>,
    /// Its containment.
    pub contained: Contained,
    /// What its sandbox found.
    pub findings: SandboxFindings,
}

/// The use of commands by a call, for its record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Used {
    /// The sandbox level of its command.
    pub sandbox_level: Option<&'static str>,
    /// The background command that it started or accessed, by name.
    pub background: Option<String>,
    /// What its command changed that acts later, in words.
    pub consequences: Option<String>,
    /// The checkpoint that undoes its command.
    pub checkpoint: Option<String>,
}

/// The command of one call, and the background commands of its session.
pub trait Processes: Send + std::marker::Sync {
    /// Runs the command to its end. Dropping the future kills all its processes.
    fn run(&self, options: RunOptions) -> BoxFuture<'static, Result<Finished, ToolError>>;

    /// Starts a background command of the session, in a terminal if sized; returns its name. It ends with
    /// the session at the latest.
    fn begin(
        &self,
        options: RunOptions,
        terminal: Option<Size>,
    ) -> BoxFuture<'static, Result<String, ToolError>>;

    /// Returns the running background commands of the session.
    fn running(&self) -> Vec<Background>;

    /// Returns the running background commands of the session and the last ended ones.
    fn background(&self) -> Vec<Background>;

    /// Waits, and returns the output since the last look; on request whole lines only, while it runs.
    fn news(
        &self,
        id: &str,
        wait: Wait,
        whole_lines: bool,
    ) -> BoxFuture<'static, Result<News, ToolError>>;

    /// Kills a background command and all its processes.
    fn end(&self, id: &str) -> BoxFuture<'static, Result<Background, ToolError>>;

    /// Types into a terminal; refuses input that the program reads without echo.
    fn enter(&self, id: &str, typed: Vec<Typed>) -> BoxFuture<'static, Result<(), ToolError>>;

    /// Resizes a terminal in lines and characters; `None` keeps the old value.
    fn resize(&self, id: &str, rows: Option<u16>, cols: Option<u16>) -> Result<(), ToolError>;

    /// Waits, and returns the screen of a terminal.
    fn screen(&self, id: &str, wait: Wait) -> BoxFuture<'static, Result<Screen, ToolError>>;

    /// Returns the use of commands so far.
    fn used(&self) -> Used {
        Used::default()
    }
}

/// The `Processes` of a World without commands.
#[derive(Debug)]
pub struct NoProcesses;

impl Processes for NoProcesses {
    fn run(&self, _options: RunOptions) -> BoxFuture<'static, Result<Finished, ToolError>> {
        none()
    }

    fn begin(
        &self,
        _options: RunOptions,
        _terminal: Option<Size>,
    ) -> BoxFuture<'static, Result<String, ToolError>> {
        none()
    }

    fn running(&self) -> Vec<Background> {
        Vec::new()
    }

    fn background(&self) -> Vec<Background> {
        Vec::new()
    }

    fn news(
        &self,
        _id: &str,
        _wait: Wait,
        _whole_lines: bool,
    ) -> BoxFuture<'static, Result<News, ToolError>> {
        none()
    }

    fn end(&self, _id: &str) -> BoxFuture<'static, Result<Background, ToolError>> {
        none()
    }

    fn enter(&self, _id: &str, _typed: Vec<Typed>) -> BoxFuture<'static, Result<(), ToolError>> {
        none()
    }

    fn resize(&self, _id: &str, _rows: Option<u16>, _cols: Option<u16>) -> Result<(), ToolError> {
        Err(unavailable())
    }

    fn screen(&self, _id: &str, _wait: Wait) -> BoxFuture<'static, Result<Screen, ToolError>> {
        none()
    }
}

fn none<T: Send + 'static>() -> BoxFuture<'static, Result<T, ToolError>> {
    Box::pin(std::future::ready(Err(unavailable())))
}

fn unavailable() -> ToolError {
    ToolError::new(Kind::Unavailable, "no command can be run here")
}
