//! Commands that end as they are told to.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sinew_tool::{
    Background, BoxFuture, Contained, Exit, Finished, Output, Processes, RunOptions, ToolError,
};

/// The rows of other vocabularies that run commands, each with its dialect.
pub const COMMAND_ROWS: &[(&str, &str)] = &[
    ("molf", "shell_exec"),
    ("agentos", "tool::shell_exec"),
    ("aionrs", "Bash"),
    ("clawft", "exec_shell"),
    ("clawft", "spawn"),
    ("moltis", "exec"),
];

/// Answers every command in the same way, and remembers how it was run.
pub struct Scripted {
    finished: Finished,
    background: Vec<Background>,
    asked: Mutex<Option<RunOptions>>,
}

impl Scripted {
    /// Returns commands that all end in one way, while others go on.
    pub fn new(finished: Finished, background: Vec<Background>) -> Arc<Self> {
        Arc::new(Self { finished, background, asked: Mutex::default() })
    }

    /// Returns how the last command was run, if one was.
    pub fn asked(&self) -> Option<RunOptions> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn remember(&self, options: RunOptions) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(options);
    }
}

impl Processes for Scripted {
    fn run(&self, options: RunOptions) -> BoxFuture<'static, Result<Finished, ToolError>> {
        self.remember(options);
        Box::pin(std::future::ready(Ok(self.finished.clone())))
    }

    fn begin(&self, options: RunOptions) -> BoxFuture<'static, Result<String, ToolError>> {
        self.remember(options);
        Box::pin(std::future::ready(Ok(String::from("b1"))))
    }

    fn background(&self) -> Vec<Background> {
        self.background.clone()
    }
}

/// Returns what became of a command that wrote this and ended so after seven milliseconds.
pub fn finished(exit: Exit, stdout: impl AsRef<[u8]>, stderr: impl AsRef<[u8]>) -> Finished {
    let (stdout, stderr) = (stdout.as_ref(), stderr.as_ref());
    let merged = [stdout, stderr].concat();
    Finished {
        exit,
        duration: Duration::from_millis(7),
        n_lines: merged.iter().filter(|byte| **byte == b'\n').count() as u64,
        merged: whole(&merged),
        stdout: whole(stdout),
        stderr: whole(stderr),
        stored: None,
        n_left: 0,
        moved: None,
        contained: Contained { rung: "namespaces", missing: Vec::new(), network: false },
        refused: Vec::new(),
    }
}

fn whole(bytes: &[u8]) -> Output {
    Output { head: bytes.to_vec(), tail: Vec::new(), total: bytes.len() as u64 }
}
