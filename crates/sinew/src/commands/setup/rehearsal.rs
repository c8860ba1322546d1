//! The rehearsal after a setup: sinew writes, deletes, restores and refuses in a scratch directory.
//!
//! Each step is a process of this program, as a client or a shell starts it, so that it uses the real parts. Its state is in
//! the scratch directory too, and is removed with it.
#![expect(
    clippy::disallowed_methods,
    reason = "makes and removes its scratch directory, and starts this program"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use sinew_tool::shown_line;

use super::host::Host;
use crate::config::env_vars;
use crate::output;
use crate::wiring;

/// The file of the rehearsal and its content.
const FILE: &str = "notes.txt";
const CONTENT: &str = "worth keeping\n";
/// A file that no tool reads, whether it exists or not.
const SECRET: &str = ".ssh/id_ed25519";

/// A step and how it ended.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) end: End,
    pub(super) text: String,
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Done,
    /// This machine cannot do it.
    Skipped,
    Failed,
}

impl Step {
    pub(super) fn to_json(&self) -> Value {
        let end = match self.end {
            End::Done => "done",
            End::Skipped => "skipped",
            End::Failed => "failed",
        };
        json!({ "step": self.name, "outcome": end, "text": self.text })
    }
}

/// A scratch directory, which vanishes with its value.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Scratch {
    fn new() -> anyhow::Result<Self> {
        let name = format!("sinew-setup-{}", wiring::new_session()?);
        let scratch = Self(output::temporary_dir(&name)?);
        fs::create_dir(scratch.root())?;
        Ok(scratch)
    }

    fn root(&self) -> PathBuf {
        self.0.join("project")
    }
}

/// Runs the steps; the first that fails is the last.
pub(super) fn run(host: &Host, home: &Path, tell: &mut dyn FnMut(&Step)) -> Vec<Step> {
    let scratch = match Scratch::new() {
        Ok(scratch) => scratch,
        Err(error) => {
            let step = failed("scratch", &format!("no scratch directory can be made: {error:#}"));
            tell(&step);
            return vec![step];
        }
    };
    let (root, state) = (scratch.root(), scratch.0.join("state"));
    let stage = Stage { program: &host.program, root: &root, state, home };
    let mut steps: Vec<Step> = Vec::new();
    for step in [Stage::write, Stage::delete, Stage::undo, Stage::refuse] {
        let step = step(&stage, &steps);
        tell(&step);
        let is_failed = step.end == End::Failed;
        steps.push(step);
        if is_failed {
            break;
        }
    }
    steps
}

struct Stage<'a> {
    program: &'a str,
    root: &'a Path,
    state: PathBuf,
    home: &'a Path,
}

impl Stage<'_> {
    fn write(&self, _: &[Step]) -> Step {
        let name = "write";
        match self.call("Write", &json!({ "file_path": FILE, "content": CONTENT })) {
            Ok(_) if self.has_file() => done(name, format!("wrote {FILE}")),
            Ok(reply) => failed(name, &format!("{FILE} is not there: {reply}")),
            Err(problem) => failed(name, &problem.text),
        }
    }

    fn delete(&self, _: &[Step]) -> Step {
        let (name, command) = ("delete", format!("rm {FILE}"));
        match self.call("Bash", &json!({ "command": command })) {
            Ok(reply) if !self.has_file() => {
                let level = reply.pointer("/meta/sandbox/level").and_then(Value::as_str);
                done(
                    name,
                    format!(
                        "deleted {FILE} with `{command}` (sandbox: {})",
                        level.unwrap_or("none")
                    ),
                )
            }
            Ok(_) => failed(name, &format!("{FILE} is still there")),
            Err(problem) if problem.kind == "unavailable" => Step {
                name,
                end: End::Skipped,
                text: format!(
                    "no command runs here: {}; `sinew doctor` says what is missing",
                    problem.text
                ),
            },
            Err(problem) => failed(name, &problem.text),
        }
    }

    fn undo(&self, before: &[Step]) -> Step {
        let name = "undo";
        let was_deleted = before.iter().any(|step| step.name == "delete" && step.end == End::Done);
        if let Err(problem) = self.start(&["undo", "--yes", "--json"]) {
            return failed(name, &problem.text);
        }
        match (was_deleted, fs::read_to_string(self.root.join(FILE))) {
            (true, Ok(text)) if text == CONTENT => {
                done(name, format!("`sinew undo` brought {FILE} back, byte for byte"))
            }
            (false, Err(_)) => done(name, format!("`sinew undo` took {FILE} away again")),
            _ => failed(name, &format!("`sinew undo` left {FILE} otherwise than it was")),
        }
    }

    fn refuse(&self, _: &[Step]) -> Step {
        let name = "refuse";
        match self.call("Read", &json!({ "file_path": self.home.join(SECRET) })) {
            Err(problem) if problem.kind.ends_with("_denied") => {
                done(name, format!("reading ~/{SECRET}: refused"))
            }
            Err(problem) => failed(name, &problem.text),
            Ok(_) => failed(name, &format!("~/{SECRET} was read")),
        }
    }

    fn has_file(&self) -> bool {
        self.root.join(FILE).is_file()
    }

    fn call(&self, tool: &str, arguments: &Value) -> Result<Value, Problem> {
        self.start(&["call", "--json", tool, &arguments.to_string()])
    }

    /// Starts this program, and returns the object that it prints.
    fn start(&self, args: &[&str]) -> Result<Value, Problem> {
        let mut command = Command::new(self.program);
        for (variable, _) in env_vars::own() {
            command.env_remove(variable);
        }
        command.env(env_vars::XDG_STATE_HOME, &self.state).current_dir(self.root);
        command.arg("--root").arg(self.root).args(["--approvals", "allow"]).args(args);
        let output = command.stdin(Stdio::null()).output().map_err(|error| Problem::of(&error))?;
        let Ok(reply) = serde_json::from_slice::<Value>(&output.stdout) else {
            return Err(Problem::of(&String::from_utf8_lossy(&output.stderr).trim()));
        };
        let text = |pointer| reply.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        match reply.get("ok").and_then(Value::as_bool) {
            Some(true) => Ok(reply),
            _ => Err(Problem {
                kind: text("/error/kind").unwrap_or_default(),
                text: text("/error/message").unwrap_or_else(|| reply.to_string()),
            }),
        }
    }
}

/// Why a call failed.
struct Problem {
    kind: String,
    text: String,
}

impl Problem {
    fn of(text: &impl ToString) -> Self {
        Self { kind: String::new(), text: text.to_string() }
    }
}

fn done(name: &'static str, text: String) -> Step {
    Step { name, end: End::Done, text }
}

fn failed(name: &'static str, problem: &str) -> Step {
    Step { name, end: End::Failed, text: shown_line(problem) }
}
