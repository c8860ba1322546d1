//! `sinew policy`: what the rules say of a command, without running it.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use sinew_guard::{Profile, shown};
use sinew_tool::{CommandLine, Plain, Segment, Shell, ToolError};

use crate::cli::PolicyCommand;
use crate::wiring::{self, Loaded, Wired};

/// The longest line that is read, in bytes.
const MAX_LINE: u64 = 1 << 20;

/// One line of `check`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    argv: Option<Vec<String>>,
    #[serde(default)]
    policy: Option<String>,
}

/// What is said of a command.
#[derive(Debug, Serialize)]
struct Answer {
    ruling: &'static str,
    rule: String,
    segments: Vec<Segment>,
    why: String,
    display: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<Plain>,
}

/// Answers lines of standard input, or explains one command.
pub(crate) fn run(loaded: &Loaded, command: &PolicyCommand) -> anyhow::Result<ExitCode> {
    super::warn(loaded);
    let wired = wiring::wire(loaded, "policy", &["all"], None)?;
    match command {
        PolicyCommand::Check => check(&wired),
        PolicyCommand::Explain { command, policy, json } => {
            let line = CommandLine::Shell(Shell::User, command.clone());
            let answer = answer(&wired, line, profile(policy.as_deref())?);
            let mut out = io::stdout().lock();
            if *json {
                writeln!(out, "{}", serde_json::to_string(&answer)?)?;
            } else {
                out.write_all(answer.words().as_bytes())?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Returns the profile of a word; nothing leaves the one that is configured.
fn profile(word: Option<&str>) -> anyhow::Result<Option<Profile>> {
    Ok(Some(match word {
        None => return Ok(None),
        Some("read-only") => Profile::ReadOnly,
        Some("workspace") => Profile::Workspace,
        Some("full") => Profile::Full,
        Some(other) => anyhow::bail!("no such policy: {other}; use read-only, workspace or full"),
    }))
}

/// Answers each line of standard input with one line. Exit 2 where a line could not be read.
fn check(wired: &Wired) -> anyhow::Result<ExitCode> {
    let mut input = io::stdin().lock();
    let mut out = io::stdout().lock();
    let mut is_bad = false;
    let mut line = Vec::new();
    loop {
        line.clear();
        let n = io::Read::take(&mut input, MAX_LINE).read_until(b'\n', &mut line)?;
        if n == 0 {
            return Ok(ExitCode::from(if is_bad { 2 } else { 0 }));
        }
        if !line.ends_with(b"\n") && n as u64 == MAX_LINE {
            anyhow::bail!("a line is longer than {MAX_LINE} bytes");
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        match asked(&line) {
            Ok((command, profile)) => {
                let answer = answer(wired, command, profile);
                writeln!(out, "{}", serde_json::to_string(&answer)?)?;
            }
            Err(problem) => {
                is_bad = true;
                let problem = format!("{problem:#}");
                writeln!(out, "{}", serde_json::json!({ "error": problem }))?;
            }
        }
        out.flush()?;
    }
}

fn asked(line: &[u8]) -> anyhow::Result<(CommandLine, Option<Profile>)> {
    let asked: Asked = serde_json::from_slice(line)?;
    let command = match (asked.command, asked.argv) {
        (Some(command), None) => CommandLine::Shell(Shell::User, command),
        (None, Some(argv)) => CommandLine::Argv(argv),
        _ => anyhow::bail!("a line has either `command` or `argv`"),
    };
    Ok((command, profile(asked.policy.as_deref())?))
}

fn answer(wired: &Wired, line: CommandLine, profile: Option<Profile>) -> Answer {
    let display = match &line {
        CommandLine::Shell(_, text) => shown(text),
        CommandLine::Argv(argv) => shown(&argv.join(" ")),
    };
    match wired.runtime.judge_command(line, profile) {
        Ok((target, ruling)) => Answer {
            ruling: ruling.verdict.as_str(),
            rule: ruling.rule.to_owned(),
            segments: target.analysis.segments,
            why: ruling.why.into_owned(),
            display,
            runs: target.analysis.plain.ok(),
        },
        // What cannot be run at all is refused when it is called.
        Err(ToolError { kind, message, .. }) => Answer {
            ruling: "deny",
            rule: kind.as_str().to_owned(),
            segments: Vec::new(),
            why: message.into_owned(),
            display,
            runs: None,
        },
    }
}

impl Answer {
    fn words(&self) -> String {
        let mut words = format!("{} ({}): {}\n", self.ruling, self.rule, self.why);
        words.push_str("the command, with what is not seen made visible:\n");
        let indented =
            |text: &str| -> String { text.lines().map(|line| format!("  {line}\n")).collect() };
        words.push_str(&indented(&self.display));
        if 1 < self.segments.len() {
            words.push_str("its parts:\n");
            words.extend(self.segments.iter().map(|part| indented(&shown(&part.text))));
        }
        match &self.runs {
            Some(Plain::Script(script)) => {
                words.push_str("what runs in its place:\n");
                words.push_str(&indented(script));
            }
            Some(Plain::Argv(argv)) => {
                words.push_str("what runs in its place:\n");
                words.push_str(&indented(&argv.join(" ")));
            }
            None => {}
        }
        words
    }
}
