//! `sinew policy`: evaluates rules for a command or a call without running it, and tests their examples.

mod url;

use std::io::{self, BufRead, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sinew_guard::{Case, Layer, Profile, Rule, RuleOrigin, Rules};
use sinew_tool::{
    Arguments, CommandLine, Kind, Plain, Request, Ruling, Segment, Shell, Targets, ToolError,
    Verdict, shown, shown_line,
};

use crate::cli::PolicyCommand;
use crate::config::rules::{self, PolicyFile};
use crate::config::{CallOptions, ExampleOptions, RuleOptions};
use crate::wiring::{self, Loaded, Wired};
use crate::{json_form, screen};

/// The limit of an input line, in bytes.
const MAX_LINE: u64 = 1 << 20;

/// One input line of `check`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckInput {
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    argv: Option<Vec<String>>,
    #[serde(default)]
    tool: Option<String>,
    #[serde(default)]
    arguments: Option<Arguments>,
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    policy: Option<String>,
    #[serde(default)]
    url: Option<String>,
    /// What names mean, instead of asking name servers.
    #[serde(default)]
    dns: Option<url::Resolved>,
    /// Where the address redirects, in order.
    #[serde(default)]
    redirects: Vec<String>,
}

#[derive(Debug, Clone)]
enum Asks {
    Command(CommandLine),
    Call(CallOptions),
    Url(url::Fetched),
}

/// The verdict as JSON.
#[derive(Debug, Serialize)]
struct Answer {
    ruling: &'static str,
    rule: String,
    /// The rule's layer and place; `None` for a built-in rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    segments: Vec<Segment>,
    /// The canonical paths in the call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    paths: Vec<String>,
    why: String,
    display: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<Plain>,
    /// The address that a fetch would connect to, or the one that must not be.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
}

/// The rules to evaluate.
#[derive(Debug, Clone)]
enum By {
    Configured,
    /// The configured rules, under another profile.
    Profile(Profile),
    File(PolicyFile),
}

impl By {
    fn change(self, rules: &mut Rules) {
        match self {
            Self::Configured => {}
            Self::Profile(profile) => {
                rules.profile = profile;
                let place = String::from("this question");
                rules.profile_origin = Some(RuleOrigin { layer: Layer::Session, place });
            }
            Self::File(file) => {
                rules.profile = file.profile;
                rules.rules = file.rules.into_iter().map(Arc::new).collect();
            }
        }
    }
}

/// Answers lines of standard input, explains one command, or tests examples.
pub(crate) fn run(loaded: &Loaded, command: &PolicyCommand) -> anyhow::Result<ExitCode> {
    super::warn(loaded);
    let wired = wiring::wire(loaded, "policy", &["all"], None)?;
    match command {
        PolicyCommand::Check => check(loaded, &wired),
        PolicyCommand::Test { files, json } => test(loaded, &wired, files, *json),
        PolicyCommand::Explain { what, tool, agent, policy, json } => {
            let asks = match tool {
                None => Asks::Command(CommandLine::Shell(Shell::User, what.clone())),
                Some(tool) => Asks::Call(CallOptions {
                    tool: tool.clone(),
                    arguments: serde_json::from_str(what).with_context(|| {
                        format!("the arguments of {tool} must be one JSON object")
                    })?,
                    agent: agent.clone(),
                }),
            };
            let answer = answer(loaded, &wired, asks, by(policy.as_deref())?);
            let mut out = io::stdout().lock();
            if *json {
                writeln!(out, "{}", serde_json::to_string(&answer)?)?;
            } else {
                write!(out, "{}", screen::mark(answer.ruling, 0))?;
                screen::Visible::new(out).write_all(answer.words().as_bytes())?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Returns the rules that an argument means, by default the configured ones.
fn by(word: Option<&str>) -> anyhow::Result<By> {
    let Some(word) = word else { return Ok(By::Configured) };
    match rules::profile(word) {
        Some(profile) => Ok(By::Profile(profile)),
        None if word.contains('/') || word.contains('.') => {
            Ok(By::File(rules::read_file(Path::new(word))?))
        }
        None => anyhow::bail!(
            "no such policy: {word}; use read-only, workspace, sandboxed, full or the path of a file"
        ),
    }
}

type Examples = Vec<(Arc<Rule>, RuleOptions)>;

/// Tests every example. Exit 1 if one fails.
fn test(
    loaded: &Loaded,
    wired: &Wired,
    files: &[PathBuf],
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let mut rules = Examples::new();
    if files.is_empty() {
        let written = loaded.layered.options.rules.clone().unwrap_or_default();
        rules.extend(loaded.settings.rules.rules.iter().cloned().zip(written));
    }
    for file in files {
        let file = rules::read_file(file)?;
        rules.extend(file.rules.into_iter().map(Arc::new).zip(file.written));
    }
    let mut failed = Vec::new();
    let mut n_examples = 0;
    for (rule, written) in &rules {
        let expected = written.matches.iter().map(|example| (example, true));
        let not = written.not_match.iter().map(|example| (example, false));
        for (example, fits) in expected.chain(not) {
            n_examples += 1;
            if !holds(wired, rule, example, fits) {
                let rule_shown = format!("{} {rule}", rule.verdict.as_str());
                let example = match example {
                    ExampleOptions::Command(text) => text.clone(),
                    ExampleOptions::Call(call) => serde_json::to_string(call)?,
                };
                failed.push(json!({
                    "origin": rule.origin.place, "rule": rule_shown, "example": example,
                    "expected": fits,
                }));
            }
        }
    }
    let has_none =
        |rule: &&(Arc<Rule>, RuleOptions)| rule.1.matches.is_empty() && rule.1.not_match.is_empty();
    let n_without = rules.iter().filter(has_none).count();
    let mut out = io::stdout().lock();
    if as_json {
        let told = json!({
            "ok": failed.is_empty(), "n_rules": rules.len(), "n_examples": n_examples,
            "n_without_example": n_without, "failed": failed,
        });
        writeln!(out, "{told}")?;
    } else {
        for one in &failed {
            let text =
                |key: &str| shown_line(one.get(key).and_then(Value::as_str).unwrap_or_default());
            let does = match one.get("expected") == Some(&Value::Bool(true)) {
                true => "does not match",
                false => "matches or may match",
            };
            let (origin, rule, example) = (text("origin"), text("rule"), text("example"));
            writeln!(out, "{origin}: `{example}` {does} the rule `{rule}`")?;
        }
        let n_rules = rules.len();
        let word = if failed.is_empty() { "ok" } else { "failed" };
        let failures = screen::mark_as(word, &format!("{} failures", failed.len()));
        writeln!(
            out,
            "{n_rules} rules, {n_examples} examples, {failures}; rules without an example: {n_without}"
        )?;
    }
    Ok(ExitCode::from(u8::from(!failed.is_empty())))
}

/// Returns whether an example matches a rule, or certainly does not. An invalid call is never an example.
fn holds(wired: &Wired, rule: &Arc<Rule>, example: &ExampleOptions, fits: bool) -> bool {
    match example {
        ExampleOptions::Command(text) => {
            let line = CommandLine::Shell(Shell::User, text.clone());
            let judged = wired.runtime.judge_command(line.clone(), |_| {});
            judged.is_ok_and(|(target, _)| match fits {
                true => rule.matches(&Case::COMMAND, &target.analysis),
                false => !rule.may_match(&Case::COMMAND, &target.analysis),
            })
        }
        ExampleOptions::Call(call) => {
            // Alone, so that the ruling shows whether this rule decides.
            let alone = |rules: &mut Rules| {
                *rules = Rules { rules: vec![Arc::clone(rule)], ..Rules::default() }
            };
            let judged = wired.runtime.judge_call(request(call.clone()), alone);
            judged.is_ok_and(|(_, ruling)| match fits {
                true => ruling.origin.is_some() && ruling.verdict == rule.verdict,
                false => ruling.origin.is_none(),
            })
        }
    }
}

fn request(CallOptions { tool, arguments, agent }: CallOptions) -> Request {
    Request { agent, ..Request::new("policy", tool, arguments) }
}

/// Answers each line of standard input with one line. Exit 2 if a line is invalid.
fn check(loaded: &Loaded, wired: &Wired) -> anyhow::Result<ExitCode> {
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
            Ok((asks, by)) => {
                let answer = answer(loaded, wired, asks, by);
                writeln!(out, "{}", serde_json::to_string(&answer)?)?;
            }
            Err(problem) => {
                is_bad = true;
                let problem = format!("{problem:#}");
                writeln!(out, "{}", json_form::object(Kind::InvalidArgs.as_str(), &problem, None))?;
            }
        }
        out.flush()?;
    }
}

fn asked(line: &[u8]) -> anyhow::Result<(Asks, By)> {
    let CheckInput { command, argv, tool, arguments, agent, policy, url, dns, redirects } =
        serde_json::from_slice(line)?;
    if url.is_none() && (dns.is_some() || !redirects.is_empty()) {
        anyhow::bail!("`dns` and `redirects` go with `url`");
    }
    let asks = match (command, argv, tool, url) {
        (Some(command), None, None, None) => {
            Asks::Command(CommandLine::Shell(Shell::User, command))
        }
        (None, Some(argv), None, None) => Asks::Command(CommandLine::Argv(argv)),
        (None, None, Some(tool), None) => {
            let arguments = arguments.unwrap_or_default();
            Asks::Call(CallOptions { tool, arguments, agent })
        }
        (None, None, None, Some(url)) => Asks::Url(url::Fetched { url, dns, redirects, agent }),
        _ => anyhow::bail!("a line has one of `command`, `argv`, `tool` and `url`"),
    };
    Ok((asks, by(policy.as_deref())?))
}

fn answer(loaded: &Loaded, wired: &Wired, asks: Asks, by: By) -> Answer {
    let (display, judged) = match asks {
        Asks::Url(fetched) => return url::answer(loaded, wired, &fetched, by),
        Asks::Command(line) => {
            let display = match &line {
                CommandLine::Shell(_, text) => shown(text),
                CommandLine::Argv(argv) => listed(argv),
            };
            let judged = wired.runtime.judge_command(line, |rules| by.change(rules));
            let targets = |target| Targets { command: Some(target), ..Targets::default() };
            (display, judged.map(|(target, ruling)| (targets(target), ruling)))
        }
        Asks::Call(call) => {
            let arguments = Value::Object(call.arguments.clone());
            let display = shown(&format!("{} {arguments}", call.tool));
            let judged = wired.runtime.judge_call(request(call), |rules| by.change(rules));
            (display, judged.map(|(targets, ruling)| (targets.as_ref().clone(), ruling)))
        }
    };
    match judged {
        Ok((targets, Ruling { verdict, rule, why, origin })) => {
            let analysis = targets.command.map(|command| command.analysis);
            let paths = targets.files.iter().map(|file| file.path.to_string_lossy().into_owned());
            Answer {
                ruling: verdict.as_str(),
                rule: rule.to_owned(),
                origin: origin
                    .map(|origin| origin.to_string())
                    .or_else(|| setting(loaded, rule, &why)),
                paths: paths.collect(),
                why: why.into_owned(),
                display,
                runs: analysis.as_ref().and_then(|analysis| analysis.plain.clone().ok()),
                segments: analysis.map(|analysis| analysis.segments).unwrap_or_default(),
                address: None,
            }
        }
        // An invalid call is refused when it runs.
        Err(ToolError { kind, message, hint, .. }) => Answer {
            ruling: Verdict::Deny.as_str(),
            rule: kind.as_str().to_owned(),
            origin: setting(loaded, kind.as_str(), hint.as_deref().unwrap_or_default()),
            segments: Vec::new(),
            paths: Vec::new(),
            why: message.into_owned(),
            display,
            runs: None,
            address: None,
        },
    }
}

/// Returns the origin of the setting that decided, if a layer set it.
fn setting(loaded: &Loaded, rule: &str, why: &str) -> Option<String> {
    let key = match rule {
        // If both ask, only the setting makes it permanent.
        "change" | "require_approval" => "tools.fs.require_approval",
        "path_denied" if why.contains("`deny_paths`") => "tools.fs.deny_paths",
        "path_denied" if why.contains("`allow_paths`") => "tools.fs.allow_paths",
        "not_found" => "serve",
        _ => return None,
    };
    let (value, origin) = loaded.layered.origins.get(key)?;
    let layer = origin.layer();
    (layer != Layer::BuiltIn && *value != Value::Bool(false))
        .then(|| format!("{}, {origin} (`{key}`)", layer.as_str()))
}

/// Returns the words in quotes, which show where each ends. Invisible characters and line feeds are escaped.
fn listed(argv: &[String]) -> String {
    let quoted = |word: &String| {
        let word = word.replace('\\', r"\\").replace('"', "\\\"");
        format!("\"{}\"", shown_line(&word))
    };
    argv.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

impl Answer {
    /// Returns what comes behind the ruling.
    fn words(&self) -> String {
        let mut words = format!(" ({}): {}\n", self.rule, screen::told(&self.why));
        let origin = screen::told(self.origin.as_deref().unwrap_or("built-in"));
        words.push_str(&format!("decided by a rule of: {origin}\n"));
        words.push_str("the command or call, with invisible characters escaped:\n");
        let indented =
            |text: &str| -> String { text.lines().map(|line| format!("  {line}\n")).collect() };
        words.push_str(&indented(&self.display));
        if !self.paths.is_empty() {
            words.push_str("the real paths that it names:\n");
            words.extend(self.paths.iter().map(|path| indented(&shown_line(path))));
        }
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
