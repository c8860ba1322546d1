//! Commands, as far as an operation may run them: the one that its call names, and no other.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::{
    Analysis, Background, BoxFuture, Cancel, Kind, News, Progress, Screen, Size, ToolError, Typed,
    Wait,
};

/// What a call wants to run, before containment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The wire name of the argument, for messages.
    pub argument: &'static str,
    /// What is run.
    pub line: CommandLine,
    /// Whether it starts where the last command of the session ended, unless the call names a place.
    pub keeps_cwd: bool,
    /// Whether it runs in a terminal, so that what it does depends on what is typed later.
    pub has_terminal: bool,
    /// The programs that may be run without a shell, by name; empty means any.
    pub programs: Vec<String>,
}

/// A text for a shell, or a program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandLine {
    /// Text for a shell.
    Shell(Shell, String),
    /// A program and its arguments, without a shell in between.
    Argv(Vec<String>),
}

/// Which shell runs a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    /// The user's own, where it understands what models write; else `bash`, else `sh`.
    User,
    /// `sh`.
    Posix,
}

/// A command after containment: what will run, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandTarget {
    /// What the call named.
    pub command: Command,
    /// The program that is executed, by absolute path.
    pub program: PathBuf,
    /// Its arguments, the first of which is its name.
    pub argv: Vec<String>,
    /// The real path of the directory it starts in.
    pub cwd: PathBuf,
    /// What it was found to be.
    pub analysis: Analysis,
}

/// How a command is run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Whether both streams are one, so that what is written comes in its order; all of it then counts as
    /// standard output.
    pub merged: bool,
    /// After this time the command is ended.
    pub timeout: Duration,
    /// What it reads from its standard input; nothing means that there is nothing to read.
    pub stdin: Option<Vec<u8>>,
    /// Variables beside those that every command gets.
    pub env: Vec<(String, String)>,
    /// The only ones it gets of those that every command gets, by name; empty means all of them.
    /// What the configuration names stays.
    pub variables: Vec<String>,
    /// How many commands that have such a limit may run at once; above it the command is refused.
    pub max_at_once: Option<u32>,
    /// An output of more bytes or lines is stored whole.
    pub store_above: (u64, u64),
    /// Raised when the caller takes the call back.
    pub cancel: Cancel,
    /// Where it is told how much was written.
    pub progress: Progress,
}

/// The beginning and the end of an output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// The beginning.
    pub head: Vec<u8>,
    /// The end; empty where the beginning is the whole.
    pub tail: Vec<u8>,
    /// How long the whole is.
    pub total: u64,
}

impl Output {
    /// Returns how many bytes lie between beginning and end.
    pub fn n_left_out(&self) -> u64 {
        self.total.saturating_sub((self.head.len() + self.tail.len()) as u64)
    }
}

/// How a command came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// It returned a code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// Its time ran out, and it was ended.
    TimedOut,
    /// The caller took the call back, and it was ended.
    Cancelled,
    /// Its program cannot be executed.
    NotStarted {
        /// Whether there is no such program.
        is_missing: bool,
        /// Why, in words.
        why: String,
    },
    /// Its supervisor ended or did not answer, so nothing is known of its end.
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

/// Returns the number of a signal, with its name where models know it.
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

/// Where the next command of a session starts, once one went elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moved {
    /// Where that one ended.
    To(PathBuf),
    /// Where it was before, since that one ended outside the roots.
    Not {
        /// Where it ended.
        outside: PathBuf,
        /// Where the next one starts.
        stays: PathBuf,
    },
}

/// A working directory of a session that was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WentBack {
    /// The directory that is not there any more.
    pub removed: PathBuf,
    /// The nearest one above it that is: commands start there from now on.
    pub to: PathBuf,
}

/// How strongly a command was contained.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contained {
    /// The sandbox level: `namespaces`, `landlock` or `none`.
    pub level: &'static str,
    /// What is missing on this machine for more.
    pub missing: Vec<String>,
    /// Whether the network could be reached.
    pub network: bool,
}

/// The most that is stored of an output, in bytes: what comes later is shown where it is the end, and lost.
pub const MAX_STORED_OUTPUT: u64 = 1 << 30;

/// Something that a command tried and its sandbox did not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What it tried: `change`, `open`, `read`, `reach` or `make`.
    pub deed: &'static str,
    /// The path or address.
    pub what: String,
    /// Why it may not be.
    pub why: String,
    /// What a person would write to allow it: a line of configuration, or an option.
    pub grant: String,
    /// How often it tried.
    pub times: u32,
}

/// What the sandbox refused to a command, as far as that is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusals {
    /// The first of them, each once.
    pub listed: Vec<Refused>,
    /// How many others there were.
    pub n_more: u32,
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub exit: Exit,
    /// How long it ran.
    pub duration: Duration,
    /// Everything it wrote, in the order in which it came.
    pub merged: Output,
    /// What it wrote to its standard output.
    pub stdout: Output,
    /// What it wrote to its standard error.
    pub stderr: Output,
    /// How many ends of lines there are in everything it wrote.
    pub n_lines: u64,
    /// The stored whole, by path relative to the first root.
    pub stored: Option<String>,
    /// How many other processes were still running at its end, and were ended.
    pub n_left: u32,
    /// Whether processes of the command may still run, because they could not be ended in time.
    pub may_run_on: bool,
    /// Where the next command of the session starts, if this one went elsewhere.
    pub moved: Option<Moved>,
    /// Where the session went because its working directory was removed, before this command or by it.
    pub went_back: Option<WentBack>,
    /// How it was contained.
    pub contained: Contained,
    /// What the sandbox refused to it.
    pub refusals: Refusals,
}

/// What a call used of commands so far, for its record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Used {
    /// How its command was contained.
    pub sandbox_level: Option<&'static str>,
    /// The command of the session that it began or reached, by name.
    pub background: Option<String>,
}

/// The command of one call, and those of its session that go on.
pub trait Processes: Send + std::marker::Sync {
    /// Runs the command to its end. Dropping the future ends the command and everything it started.
    fn run(&self, options: RunOptions) -> BoxFuture<'static, Result<Finished, ToolError>>;

    /// Begins the command, in a terminal where a size is given, and lets it go on until it ends or its
    /// session does; returns its name.
    fn begin(
        &self,
        options: RunOptions,
        terminal: Option<Size>,
    ) -> BoxFuture<'static, Result<String, ToolError>>;

    /// Returns the commands of the session that were begun and run.
    fn running(&self) -> Vec<Background>;

    /// Returns the commands of the session that were begun and run, and the last that ended.
    fn background(&self) -> Vec<Background>;

    /// Waits, and returns what a command wrote since the last look: only whole lines while it runs, where
    /// that is asked.
    fn news(
        &self,
        id: &str,
        wait: Wait,
        whole_lines: bool,
    ) -> BoxFuture<'static, Result<News, ToolError>>;

    /// Ends a command and everything that it started.
    fn end(&self, id: &str) -> BoxFuture<'static, Result<Background, ToolError>>;

    /// Types into the terminal of a command. What a program asks for without showing it is refused.
    fn enter(&self, id: &str, typed: Vec<Typed>) -> BoxFuture<'static, Result<(), ToolError>>;

    /// Gives the terminal of a command so many lines and so many characters a line; what is not given stays.
    fn resize(&self, id: &str, rows: Option<u16>, cols: Option<u16>) -> Result<(), ToolError>;

    /// Waits, and returns what stands on the screen of a command.
    fn screen(&self, id: &str, wait: Wait) -> BoxFuture<'static, Result<Screen, ToolError>>;

    /// Returns what was used of this so far.
    fn used(&self) -> Used {
        Used::default()
    }
}

/// The processes of a World that has none.
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
