//! `sinew policy`: what the rules say of a command, without running it, and whether they do what their
//! examples say.

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sinew_guard::{Profile, Rules, RunRule, shown};
use sinew_tool::{CommandLine, Plain, Segment, Shell, ToolError};

use crate::cli::PolicyCommand;
use crate::config::RunRuleOptions;
use crate::config::run_rules::{self, PolicyFile};
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

/// By which rules a command is judged.
#[derive(Debug)]
enum By {
    /// Those that are configured.
    Configured,
    /// Those that are configured, under another profile.
    Profile(Profile),
    /// Those of a file.
    File(PolicyFile),
}

impl By {
    fn change(self, rules: &mut Rules) {
        match self {
            Self::Configured => {}
            Self::Profile(profile) => rules.profile = profile,
            Self::File(file) => {
                rules.profile = file.profile;
                rules.run = file.rules;
            }
        }
    }
}

/// Answers lines of standard input, explains one command, or tries examples.
pub(crate) fn run(loaded: &Loaded, command: &PolicyCommand) -> anyhow::Result<ExitCode> {
    super::warn(loaded);
    let wired = wiring::wire(loaded, "policy", &["all"], None)?;
    match command {
        PolicyCommand::Check => check(&wired),
        PolicyCommand::Test { files, json } => test(loaded, &wired, files, *json),
        PolicyCommand::Explain { command, policy, json } => {
            let line = CommandLine::Shell(Shell::User, command.clone());
            let answer = answer(&wired, line, by(policy.as_deref())?);
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

/// Returns the rules of a word; nothing leaves those that are configured.
fn by(word: Option<&str>) -> anyhow::Result<By> {
    let Some(word) = word else { return Ok(By::Configured) };
    match run_rules::profile(word) {
        Some(profile) => Ok(By::Profile(profile)),
        None if word.contains('/') || word.contains('.') => {
            Ok(By::File(run_rules::read_file(Path::new(word))?))
        }
        None => anyhow::bail!(
            "no such policy: {word}; use read-only, workspace, full or the path of a file"
        ),
    }
}

/// Rules with their examples.
type Examples = Vec<(RunRule, RunRuleOptions)>;

/// Tries every example. Exit 1 where one does not hold.
fn test(
    loaded: &Loaded,
    wired: &Wired,
    files: &[PathBuf],
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let mut rules = Examples::new();
    if files.is_empty() {
        let run = loaded.layered.options.run.clone().unwrap_or_default();
        let written = run.rules.unwrap_or_default();
        rules.extend(loaded.settings.rules.run.iter().cloned().zip(written));
    }
    for file in files {
        let file = run_rules::read_file(file)?;
        rules.extend(file.rules.into_iter().zip(file.written));
    }
    let mut failed = Vec::new();
    let mut n_examples = 0;
    for (rule, written) in &rules {
        let expected = written.matches.iter().map(|text| (text, true));
        for (text, fits) in expected.chain(written.not_match.iter().map(|text| (text, false))) {
            n_examples += 1;
            if !holds(wired, rule, text, fits) {
                let rule_shown = format!("{} {}", rule.verdict.as_str(), rule.command);
                failed.push(json!({
                    "origin": rule.origin, "rule": rule_shown, "command": text, "expected": fits,
                }));
            }
        }
    }
    let has_none = |rule: &&(RunRule, RunRuleOptions)| {
        rule.1.matches.is_empty() && rule.1.not_match.is_empty()
    };
    let n_without = rules.iter().filter(has_none).count();
    let mut out = io::stdout().lock();
    if as_json {
        let told = json!({
            "rules": rules.len(), "examples": n_examples, "without": n_without, "failed": failed,
        });
        writeln!(out, "{told}")?;
    } else {
        for one in &failed {
            let text = |key: &str| shown(one.get(key).and_then(Value::as_str).unwrap_or_default());
            let does = match one.get("expected") == Some(&Value::Bool(true)) {
                true => "does not fit",
                false => "fits or may fit",
            };
            let (origin, rule, command) = (text("origin"), text("rule"), text("command"));
            writeln!(out, "{origin}: `{command}` {does} the rule `{rule}`")?;
        }
        let (n_rules, n_failed) = (rules.len(), failed.len());
        writeln!(
            out,
            "{n_examples} examples of {n_rules} rules, {n_failed} of them do not hold; rules without \
             an example: {n_without}"
        )?;
    }
    Ok(ExitCode::from(u8::from(!failed.is_empty())))
}

/// Returns whether a command fits a rule, or surely does not. What no call could run is no example.
fn holds(wired: &Wired, rule: &RunRule, text: &str, fits: bool) -> bool {
    let line = CommandLine::Shell(Shell::User, text.to_owned());
    let judged = wired.runtime.judge_command(line.clone(), |_| {});
    judged.is_ok_and(|(target, _)| match fits {
        true => rule.matches(&line, &target.analysis),
        false => !rule.may_match(&line, &target.analysis),
    })
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
            Ok((command, by)) => {
                let answer = answer(wired, command, by);
                writeln!(out, "{}", serde_json::to_string(&answer)?)?;
            }
            Err(problem) => {
                is_bad = true;
                let problem = format!("{problem:#}");
                writeln!(out, "{}", json!({ "error": problem }))?;
            }
        }
        out.flush()?;
    }
}

fn asked(line: &[u8]) -> anyhow::Result<(CommandLine, By)> {
    let asked: Asked = serde_json::from_slice(line)?;
    let command = match (asked.command, asked.argv) {
        (Some(command), None) => CommandLine::Shell(Shell::User, command),
        (None, Some(argv)) => CommandLine::Argv(argv),
        _ => anyhow::bail!("a line has either `command` or `argv`"),
    };
    Ok((command, by(asked.policy.as_deref())?))
}

fn answer(wired: &Wired, line: CommandLine, by: By) -> Answer {
    let display = match &line {
        CommandLine::Shell(_, text) => shown(text),
        CommandLine::Argv(argv) => listed(argv),
    };
    match wired.runtime.judge_command(line, |rules| by.change(rules)) {
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

/// Returns words each in quotes, so that it is seen where one ends; what is no sign that is seen, a line
/// feed too, stands as an escape.
fn listed(argv: &[String]) -> String {
    let quoted = |word: &String| {
        let word = word.replace('\\', r"\\").replace('"', "\\\"");
        format!("\"{}\"", shown(&word).replace('\n', r"\n"))
    };
    argv.iter().map(quoted).collect::<Vec<_>>().join(" ")
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
                words.push_str(&indented(&listed(argv)));
            }
            None => {}
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_without_a_shell_are_told_apart() {
        let words = ["rm", "a b", "c\nd", "e\"f\\n", "g\u{202e}", ""].map(String::from);
        assert_eq!(listed(&words), r#""rm" "a b" "c\nd" "e\"f\\n" "g\u{202e}" """#);
    }
}
