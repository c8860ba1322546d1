//! Commands that end as they are told to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sinew_tool::sync::lock;
use sinew_tool::{
    Background, BoxFuture, Contained, Exit, Finished, News, Output, Processes, RunOptions,
    SandboxFindings, Screen, Size, ToolError, Typed, Wait, Waited,
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
    written: Vec<u8>,
    asked: Mutex<Option<RunOptions>>,
    typed: Mutex<Vec<Typed>>,
    size: Mutex<Size>,
}

impl Scripted {
    /// Returns commands that all end in one way, while others go on.
    pub fn new(finished: Finished, background: Vec<Background>) -> Arc<Self> {
        Self::writing(finished, background, &[])
    }

    /// Returns the same; a look at one that still runs finds this output, which a terminal has on its screen.
    pub fn writing(finished: Finished, background: Vec<Background>, written: &[u8]) -> Arc<Self> {
        let written = written.to_vec();
        let (asked, typed) = (Mutex::default(), Mutex::default());
        let size = Mutex::new(Size { rows: 24, cols: 80 });
        Arc::new(Self { finished, background, written, asked, typed, size })
    }

    /// Returns the typed input.
    pub fn typed(&self) -> Vec<Typed> {
        std::mem::take(&mut lock(&self.typed))
    }

    fn one(&self, id: &str) -> Result<Background, ToolError> {
        let one = self.background.iter().find(|one| one.id == id);
        one.cloned().ok_or_else(|| ToolError::argument("id", "names no command"))
    }

    fn waited(&self, one: &Background, wait: &Wait) -> Waited {
        match &wait.until {
            Some(matches) if matches(&self.written) => Waited::Matched,
            _ if one.exit.is_some() => Waited::Ended,
            _ if wait.idle.is_some() => Waited::Idle,
            _ => Waited::OutOfTime,
        }
    }

    /// Returns how the last command was run, if one was.
    pub fn asked(&self) -> Option<RunOptions> {
        lock(&self.asked).take()
    }

    fn remember(&self, options: RunOptions) {
        *lock(&self.asked) = Some(options);
    }
}

impl Processes for Scripted {
    fn run(&self, options: RunOptions) -> BoxFuture<'static, Result<Finished, ToolError>> {
        self.remember(options);
        Box::pin(std::future::ready(Ok(self.finished.clone())))
    }

    fn begin(
        &self,
        options: RunOptions,
        terminal: Option<Size>,
    ) -> BoxFuture<'static, Result<String, ToolError>> {
        self.remember(options);
        let id = if terminal.is_some() { "t1" } else { "b1" };
        Box::pin(std::future::ready(Ok(String::from(id))))
    }

    fn news(
        &self,
        id: &str,
        wait: Wait,
        whole_lines: bool,
    ) -> BoxFuture<'static, Result<News, ToolError>> {
        let news = self.one(id).map(|background| {
            let mut bytes = self.written.clone();
            if whole_lines && background.exit.is_none() {
                bytes
                    .truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1));
            }
            let waited = self.waited(&background, &wait);
            News { background, bytes, n_lost: 0, waited }
        });
        Box::pin(std::future::ready(news))
    }

    fn end(&self, id: &str) -> BoxFuture<'static, Result<Background, ToolError>> {
        let ended = self.one(id).map(|one| Background { exit: Some(Exit::Signal(15)), ..one });
        Box::pin(std::future::ready(ended))
    }

    fn enter(&self, id: &str, typed: Vec<Typed>) -> BoxFuture<'static, Result<(), ToolError>> {
        let entered = self.one(id).map(|_| {
            lock(&self.typed).extend(typed);
        });
        Box::pin(std::future::ready(entered))
    }

    fn resize(&self, id: &str, rows: Option<u16>, cols: Option<u16>) -> Result<(), ToolError> {
        self.one(id)?;
        let mut size = lock(&self.size);
        size.rows = rows.unwrap_or(size.rows);
        size.cols = cols.unwrap_or(size.cols);
        Ok(())
    }

    fn screen(&self, id: &str, wait: Wait) -> BoxFuture<'static, Result<Screen, ToolError>> {
        let screen = self.one(id).map(|background| {
            let text = String::from_utf8_lossy(&self.written);
            let rows: Vec<String> = text.split('\n').map(str::to_owned).collect();
            let waited = self.waited(&background, &wait);
            Screen {
                background,
                size: *lock(&self.size),
                changed: rows.iter().map(|row| row.contains("new")).collect(),
                cursor: (u16::try_from(rows.len()).map_or(0, |n| n.saturating_sub(1)), 0),
                n_skipped: 0,
                hides_input: text.ends_with("Password: "),
                rows,
                waited,
            }
        });
        Box::pin(std::future::ready(screen))
    }

    fn running(&self) -> Vec<Background> {
        self.background.iter().filter(|one| one.exit.is_none()).cloned().collect()
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
        may_run_on: false,
        moved: None,
        went_back: None,
        contained: Contained { level: "namespaces", missing: Vec::new(), network: false },
        findings: SandboxFindings::default(),
    }
}

fn whole(bytes: &[u8]) -> Output {
    Output { head: bytes.to_vec(), tail: Vec::new(), total: bytes.len() as u64 }
}
