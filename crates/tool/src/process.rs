//! Commands, as far as an operation may run them: the one that its call names, and no other.

use std::path::PathBuf;
use std::time::Duration;

use crate::{Analysis, BoxFuture, Cancel, Kind, Progress, ToolError};

/// What a call wants to run, before containment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The wire name of the argument, for messages.
    pub argument: &'static str,
    /// What is run.
    pub line: CommandLine,
    /// Whether it starts where the last command of the session ended, unless the call names a place.
    pub keeps_cwd: bool,
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

/// A command that goes on after the call that began it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Background {
    /// Its name within the session.
    pub id: String,
    /// What was run, as it was named.
    pub command: String,
    /// How long it has been running, or ran.
    pub duration: Duration,
    /// Where its output is stored, by path relative to the first root.
    pub stored: Option<String>,
    /// How it ended, if it did.
    pub exit: Option<Exit>,
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
    /// The process that watched it was ended, and it with that.
    Lost,
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

/// How strongly a command was contained.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contained {
    /// The rung: `namespaces`, `landlock` or `none`.
    pub rung: &'static str,
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
    /// What it tried: `change`, `open`, `read` or `reach`.
    pub deed: &'static str,
    /// The path or address.
    pub what: String,
    /// Why it may not be.
    pub why: String,
    /// What a person would write to allow it: a line of configuration, or an option.
    pub grant: String,
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
    /// Where the next command of the session starts, if this one went elsewhere.
    pub moved: Option<Moved>,
    /// How it was contained.
    pub contained: Contained,
    /// What the sandbox did not allow it, as far as that is known.
    pub refused: Vec<Refused>,
}

/// The command of one call.
pub trait Processes: Send + std::marker::Sync {
    /// Runs the command to its end. Dropping the future ends the command and everything it started.
    fn run(&self, options: RunOptions) -> BoxFuture<'static, Result<Finished, ToolError>>;

    /// Begins the command and lets it go on until it ends or its session does; returns its name.
    fn begin(&self, options: RunOptions) -> BoxFuture<'static, Result<String, ToolError>>;

    /// Returns the commands of the session that go on, and those that ended since they were told.
    fn background(&self) -> Vec<Background>;
}

/// The processes of a World that has none.
#[derive(Debug)]
pub struct NoProcesses;

impl Processes for NoProcesses {
    fn run(&self, _options: RunOptions) -> BoxFuture<'static, Result<Finished, ToolError>> {
        Box::pin(std::future::ready(Err(none())))
    }

    fn begin(&self, _options: RunOptions) -> BoxFuture<'static, Result<String, ToolError>> {
        Box::pin(std::future::ready(Err(none())))
    }

    fn background(&self) -> Vec<Background> {
        Vec::new()
    }
}

fn none() -> ToolError {
    ToolError::new(Kind::Unavailable, "no command can be run here")
}
