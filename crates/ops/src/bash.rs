//! Bash: a command runs in a shell.
//!
//! The command gets no terminal and no input, and everything that it starts ends with it, unless it
//! was started to go on in the background. What it writes is shown as a person would see it at the
//! end: without colours, and of a line that was written over again and again the last state. What a
//! reply has no room for is stored whole.

use std::fmt::Write;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use sinew_tool::{
    Access, Background, Bound, Claim, Command, CommandLine, Context, Cost, Effects, ErrorBody,
    Exit, Facts, FileSettings, Finished, Kind, Operation, Param, ParamKind, Preset, Refused, Reply,
    Row, RunOptions, Shaping, Shell, Targets, ToolError,
};

use crate::screen;

/// How long a command may take unless the call says so, in milliseconds.
pub const DEFAULT_TIMEOUT_MS: i64 = 120_000;
/// How long it may take at most, in milliseconds.
pub const MAX_TIMEOUT_MS: i64 = 600_000;
/// How long a call waits to see whether a command that is to go on ends at once.
const FIRST_LOOK: Duration = Duration::from_millis(200);
/// What a reply shows of an output, in bytes and lines.
const SHOWN: (usize, usize) = (50 * 1024, 2_000);

/// Runs a command.
#[derive(Debug)]
pub struct Bash;

/// What Bash is asked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The text for the shell.
    pub command: String,
    /// Where it starts; without it, where the last command of the session ended.
    #[serde(default)]
    pub cwd: Option<String>,
    /// After this time it is ended.
    pub timeout_ms: u64,
    /// What it is for, for the person who reads.
    #[serde(default)]
    pub description: Option<String>,
    /// Whether it goes on after the call.
    #[serde(default)]
    pub background: bool,
    /// Whether its output is shown as it is.
    #[serde(default)]
    pub raw: bool,
    /// Whether `sh` runs it, whatever shell the user has.
    #[serde(default)]
    pub posix: bool,
    /// Whether it starts where the last command of the session ended.
    #[serde(default)]
    pub keeps_cwd: bool,
}

/// What Bash did.
#[derive(Debug, Clone, PartialEq)]
pub enum Out {
    /// The command ran to its end.
    Finished {
        /// What became of it.
        finished: Box<Finished>,
        /// The commands of the session that go on.
        background: Vec<Background>,
    },
    /// The command goes on.
    Begun(Background),
}

/// The native row.
pub const NATIVE: Row<Bash> = Row {
    name: "Bash",
    description: "Runs a command in a sandboxed shell: only the roots can be written, and the network is \
                  closed. The working directory stays from call to call. What a command starts ends \
                  with it, unless it runs in the background.",
    params: &[
        Param::required("command", "command", ParamKind::String, ""),
        Param::optional(
            "timeout",
            "timeout_ms",
            ParamKind::Integer { min: 1, cap: Some(MAX_TIMEOUT_MS) },
            "Milliseconds",
        )
        .or(Preset::Int(DEFAULT_TIMEOUT_MS)),
        Param::optional("description", "description", ParamKind::String, ""),
        Param::optional("run_in_background", "background", ParamKind::Boolean, ""),
        Param::optional("raw", "raw", ParamKind::Boolean, "Keep colours"),
    ],
    presets: &[("keeps_cwd", Preset::Bool(true))],
    absolute_paths: false,
    bound: Bound::HARD,
    core: true,
    shape,
    fail: |error, _| Reply::failure(error),
};

impl Operation for Bash {
    const NAME: &'static str = "Bash";
    const FACTS: Facts =
        Facts { effects: Effects::EXECUTE, idempotent: false, destructive: true, parallel: true };
    type Args = Args;
    type Out = Out;

    fn claims(args: &Args, _settings: &FileSettings) -> Vec<Claim> {
        vec![Claim { argument: "cwd", path: args.cwd.clone(), access: Access::Search }]
    }

    fn command(args: &Args) -> Option<Command> {
        let shell = if args.posix { Shell::Posix } else { Shell::User };
        Some(Command {
            argument: "command",
            line: CommandLine::Shell(shell, args.command.clone()),
            keeps_cwd: args.keeps_cwd,
            programs: Vec::new(),
        })
    }

    fn cost(_args: &Args, _targets: &Targets) -> Cost {
        Cost::Waits
    }

    async fn run(args: &Args, cx: &Context) -> Result<Out, ToolError> {
        let options = RunOptions {
            timeout: Duration::from_millis(args.timeout_ms),
            stdin: None,
            env: Vec::new(),
            variables: Vec::new(),
            max_at_once: None,
            store_above: (SHOWN.0 as u64, SHOWN.1 as u64),
            cancel: cx.cancel.clone(),
            progress: cx.progress.clone(),
        };
        let processes = &cx.world.processes;
        if !args.background {
            let finished = Box::new(processes.run(options).await?);
            return Ok(Out::Finished { finished, background: processes.background() });
        }
        let id = processes.begin(options).await?;
        (cx.sleep)(FIRST_LOOK).await;
        let begun = processes.background().into_iter().find(|one| one.id == id);
        begun.map(Out::Begun).ok_or_else(|| {
            ToolError::new(Kind::ExecutionFailed, "the command ended and nothing is known of it")
        })
    }
}

fn shape(args: &Args, out: Out, shaping: &Shaping<'_>) -> Reply {
    match out {
        Out::Finished { finished, background } => {
            finished_reply(args, &finished, &background, shaping)
        }
        Out::Begun(one) => begun_reply(&one),
    }
}

fn finished_reply(
    args: &Args,
    finished: &Finished,
    background: &[Background],
    shaping: &Shaping<'_>,
) -> Reply {
    let shown = screen::show(&finished.merged, args.raw, SHOWN);
    let mut text = shown.text;
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let mut note = |words: String| {
        let _ = writeln!(text, "[{words}]");
    };
    if let Some(left_out) = shown.left_out {
        note(match &finished.stored {
            Some(path) => format!("{left_out}; the whole output is in {path}"),
            None => left_out,
        });
    }
    let failure = failure(&finished.exit, args);
    if let Some((_, words)) = &failure {
        note(words.clone());
    }
    if failure.is_some() {
        for refused in &finished.refused {
            let Refused { deed, what, why, grant } = refused;
            note(format!("the sandbox refused to {deed} {what}: {why}; to allow it: {grant}"));
        }
    }
    if 0 < finished.n_left {
        let (processes, were) = match finished.n_left {
            1 => ("process", "was"),
            _ => ("processes", "were"),
        };
        note(format!(
            "{} {processes} that the command left running {were} ended; `run_in_background` keeps a \
             command running",
            finished.n_left
        ));
    }
    if let Some(cwd) = &finished.cwd {
        note(format!("working directory: {}", shaping.shown(cwd)));
    }
    for one in background {
        note(line_of(one));
    }
    if text.is_empty() {
        text.push_str("[no output]\n");
    }
    text.pop();
    let mut reply = Reply::text(text);
    reply.bounded = true;
    reply.meta.truncated = shown.is_cut;
    reply.meta.output_path.clone_from(&finished.stored);
    match &finished.exit {
        Exit::Code(code) => reply.meta.more.insert("exit_code", *code),
        Exit::Signal(signal) => reply.meta.more.insert("signal", *signal),
        Exit::TimedOut | Exit::Cancelled | Exit::NotStarted { .. } => {}
    }
    let contained = &finished.contained;
    reply.meta.more.insert(
        "sandbox",
        json!({"level": contained.rung, "missing": contained.missing, "network": contained.network}),
    );
    if let Some((kind, message)) = failure {
        reply.ok = false;
        reply.error = Some(ErrorBody { kind, message, hint: None });
    }
    reply
}

/// Returns why a command did not do what it was to do.
fn failure(exit: &Exit, args: &Args) -> Option<(Kind, String)> {
    match exit {
        Exit::Code(0) => None,
        Exit::Code(code) => Some((Kind::ExecutionFailed, format!("exit code {code}"))),
        Exit::Signal(signal) => {
            Some((Kind::ExecutionFailed, format!("ended by signal {}", signal_name(*signal))))
        }
        Exit::TimedOut => Some((
            Kind::Timeout,
            format!("timed out after {} ms, and everything it started was ended", args.timeout_ms),
        )),
        Exit::Cancelled => Some((Kind::Cancelled, String::from("the call was cancelled"))),
        Exit::NotStarted { why, .. } => {
            Some((Kind::ExecutionFailed, format!("the shell could not be started: {why}")))
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

fn begun_reply(one: &Background) -> Reply {
    let mut text = match &one.exit {
        None => format!("{} runs in the background and ends with the session", one.id),
        Some(exit) => format!("{} has ended already: {}", one.id, words_of(exit)),
    };
    if let Some(path) = &one.stored {
        let _ = write!(text, "; its output goes to {path}");
    }
    let message = text.clone();
    let mut reply = Reply::text(text);
    reply.meta.more.insert("background_id", one.id.clone());
    reply.meta.output_path.clone_from(&one.stored);
    if one.exit.as_ref().is_some_and(|exit| *exit != Exit::Code(0)) {
        reply.ok = false;
        reply.error = Some(ErrorBody { kind: Kind::ExecutionFailed, message, hint: None });
    }
    reply
}

/// Returns a line about a command that goes on.
fn line_of(one: &Background) -> String {
    let command: String = one.command.chars().take(60).collect();
    let state = match &one.exit {
        None => format!("running for {} s", one.duration.as_secs()),
        Some(exit) => words_of(exit),
    };
    format!("background {}: {state}: {}", one.id, command.replace('\n', " "))
}

fn words_of(exit: &Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("ended by signal {}", signal_name(*signal)),
        Exit::TimedOut => String::from("timed out"),
        Exit::Cancelled => String::from("cancelled"),
        Exit::NotStarted { why, .. } => format!("could not be started: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};
    use sinew_testkit::{MemoryWorld, call};
    use sinew_tool::{Block, BoxFuture, Contained, Output, Processes};

    use super::*;

    /// Answers every command in the same way, and remembers how it was run.
    struct Scripted {
        finished: Finished,
        background: Vec<Background>,
        asked: Mutex<Option<RunOptions>>,
    }

    impl Processes for Scripted {
        fn run(&self, options: RunOptions) -> BoxFuture<'static, Result<Finished, ToolError>> {
            *self.asked.lock().expect("unpoisoned") = Some(options);
            Box::pin(std::future::ready(Ok(self.finished.clone())))
        }

        fn begin(&self, options: RunOptions) -> BoxFuture<'static, Result<String, ToolError>> {
            *self.asked.lock().expect("unpoisoned") = Some(options);
            Box::pin(std::future::ready(Ok(String::from("b1"))))
        }

        fn background(&self) -> Vec<Background> {
            self.background.clone()
        }
    }

    fn finished(exit: Exit, output: &str) -> Finished {
        let output = Output {
            head: output.as_bytes().to_vec(),
            tail: Vec::new(),
            total: output.len() as u64,
        };
        Finished {
            exit,
            duration: Duration::from_millis(7),
            stdout: output.clone(),
            merged: output,
            stderr: Output::default(),
            n_lines: 0,
            stored: None,
            n_left: 0,
            cwd: None,
            contained: Contained { rung: "namespaces", missing: Vec::new(), network: false },
            refused: Vec::new(),
        }
    }

    fn begun(exit: Option<Exit>) -> Background {
        Background {
            id: String::from("b1"),
            command: String::from("serve\n--all"),
            duration: Duration::from_secs(3),
            stored: Some(String::from(".sinew/tool-output/c.txt")),
            exit,
        }
    }

    /// Runs a command that ends as it is told to.
    fn run(finished: Finished, background: Vec<Background>, args: Value) -> (Reply, RunOptions) {
        let mut world = MemoryWorld::new();
        let scripted = Arc::new(Scripted { finished, background, asked: Mutex::new(None) });
        world.processes = Arc::clone(&scripted) as Arc<dyn Processes>;
        let reply = call(&world, &NATIVE.tool(), args);
        let asked = scripted.asked.lock().expect("unpoisoned").take().expect("it was run");
        (reply, asked)
    }

    fn text(reply: &Reply) -> &str {
        match reply.content.as_slice() {
            [Block::Text { text }] => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_reply_says_what_was_written_and_how_it_ended() {
        let ended = |exit, output: &str| finished(exit, output);
        let more = |change: fn(&mut Finished)| {
            let mut finished = finished(Exit::Code(0), "out\n");
            change(&mut finished);
            finished
        };
        for (finished, expected, kind) in [
            (ended(Exit::Code(0), "out\n"), "out", None),
            (ended(Exit::Code(0), ""), "[no output]", None),
            (ended(Exit::Code(0), "\u{1b}[1mbold\u{1b}[0m"), "bold", None),
            (ended(Exit::Code(3), "out\n"), "out\n[exit code 3]", Some(Kind::ExecutionFailed)),
            (
                ended(Exit::Signal(9), "half"),
                "half\n[ended by signal 9 (SIGKILL)]",
                Some(Kind::ExecutionFailed),
            ),
            (
                ended(Exit::TimedOut, "so far\n"),
                "so far\n[timed out after 120000 ms, and everything it started was ended]",
                Some(Kind::Timeout),
            ),
            (
                more(|finished| {
                    finished.exit = Exit::Code(1);
                    finished.refused = vec![Refused {
                        deed: "reach",
                        what: String::from("192.0.2.1:443"),
                        why: String::from("the network is closed"),
                        grant: String::from("run.network = true"),
                    }];
                }),
                "out\n[exit code 1]\n[the sandbox refused to reach 192.0.2.1:443: the network is \
                 closed; to allow it: run.network = true]",
                Some(Kind::ExecutionFailed),
            ),
            (
                more(|finished| finished.n_left = 1),
                "out\n[1 process that the command left running was ended; `run_in_background` keeps \
                 a command running]",
                None,
            ),
            (
                more(|finished| {
                    finished.cwd = Some(PathBuf::from(sinew_testkit::ROOT).join("sub"))
                }),
                "out\n[working directory: sub]",
                None,
            ),
        ] {
            let (reply, _) = run(finished, Vec::new(), json!({"command": "x"}));
            assert_eq!(text(&reply), expected);
            assert_eq!(reply.error.map(|error| error.kind), kind, "{expected}");
            assert_eq!(reply.ok, kind.is_none());
            let sandbox = json!({"level": "namespaces", "missing": [], "network": false});
            assert_eq!(reply.meta.more.get("sandbox"), Some(&sandbox));
        }
    }

    #[test]
    fn what_has_no_room_is_said_to_be_stored() {
        let long: String = (0..3_000).map(|n| format!("{n}\n")).collect();
        let mut finished = finished(Exit::Code(0), &long);
        finished.stored = Some(String::from(".sinew/tool-output/c.txt"));
        let (reply, asked) = run(finished, Vec::new(), json!({"command": "x"}));
        let shown = text(&reply);
        assert!(shown.starts_with("0\n1\n") && shown.contains("\n[…]\n2000\n"), "{shown:.50}");
        assert!(shown.ends_with("; the whole output is in .sinew/tool-output/c.txt]"));
        assert!(reply.meta.truncated && reply.bounded);
        assert_eq!(reply.meta.output_path.as_deref(), Some(".sinew/tool-output/c.txt"));
        assert_eq!(asked.store_above, (51_200, 2_000));
    }

    #[test]
    fn a_command_that_goes_on_is_named_and_listed() {
        let args = json!({"command": "serve", "run_in_background": true});
        let (reply, _) = run(finished(Exit::Code(0), ""), vec![begun(None)], args.clone());
        assert_eq!(
            text(&reply),
            "b1 runs in the background and ends with the session; its output goes to \
             .sinew/tool-output/c.txt"
        );
        assert!(reply.ok);
        let (reply, _) = run(finished(Exit::Code(0), ""), vec![begun(Some(Exit::Code(2)))], args);
        assert!(text(&reply).starts_with("b1 has ended already: exit code 2"), "{}", text(&reply));
        assert!(!reply.ok);
        let listed = vec![begun(None), begun(Some(Exit::Signal(15)))];
        let (reply, _) = run(finished(Exit::Code(0), "out"), listed, json!({"command": "x"}));
        assert_eq!(
            text(&reply),
            "out\n[background b1: running for 3 s: serve --all]\n\
             [background b1: ended by signal 15 (SIGTERM): serve --all]"
        );
    }

    #[test]
    fn time_is_bounded_by_the_row() {
        for (args, expected) in [
            (json!({"command": "x"}), 120_000),
            (json!({"command": "x", "timeout": 50}), 50),
            (json!({"command": "x", "timeout": 9_000_000}), 600_000),
        ] {
            let (_, asked) = run(finished(Exit::Code(0), ""), Vec::new(), args);
            assert_eq!(asked.timeout, Duration::from_millis(expected));
        }
    }
}
