//! What the rows that run commands answer, and how they run them, over commands that end as told.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on says so by failing"
)]

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sinew_testkit::{COMMAND_ROWS as ROWS, MemoryWorld, Scripted, call, finished};
use sinew_tool::{
    Arguments, Block, Command, CommandLine, Exit, Finished, Kind, Output, Processes, Refused,
    Reply, RunOptions, SandboxFindings, Shell, Tool,
};

fn tool(dialect: &str, name: &str) -> Arc<dyn Tool> {
    let tools = (sinew_dialects::dialect(dialect).expect("a dialect").tools)();
    tools.into_iter().find(|tool| tool.name() == name).expect("a tool")
}

/// Returns the least that a row can be asked, and more.
fn args(name: &str, more: &Value) -> Value {
    let mut args = match name {
        "tool::shell_exec" => json!({ "argv": ["cat", "x"] }),
        "spawn" => json!({ "command": "cat", "args": ["x"] }),
        _ => json!({ "command": "cat x" }),
    };
    for (name, value) in more.as_object().into_iter().flatten() {
        args[name] = value.clone();
    }
    args
}

fn run(tool: &Arc<dyn Tool>, finished: Finished, more: &Value) -> (Reply, RunOptions) {
    let mut world = MemoryWorld::new();
    world.directory("sub");
    let scripted = Scripted::new(finished, Vec::new());
    world.processes = Arc::clone(&scripted) as Arc<dyn Processes>;
    let reply = call(&world, tool, args(tool.name(), more));
    (reply, scripted.asked().expect("it was run"))
}

fn texts(reply: &Reply) -> Vec<&str> {
    fn text(block: &Block) -> &str {
        match block {
            Block::Text { text } => text,
            other => panic!("{other:?}"),
        }
    }
    reply.content.iter().map(text).collect()
}

/// Returns the notes of a reply, each of which leaves an object, the only other text.
#[track_caller]
fn apart(reply: &Reply) -> String {
    let mut reply = reply.clone();
    reply.part_notes();
    let object = reply.structured.as_ref().expect("an object").to_string();
    assert_eq!(texts(&reply), [object]);
    reply.meta.notes.join("\n")
}

#[track_caller]
fn check(
    (dialect, name): (&str, &str),
    finished: Finished,
    text: &str,
    (ok, outcome): (bool, Option<Kind>),
) {
    let (reply, _) = run(&tool(dialect, name), finished, &json!({}));
    assert_eq!(texts(&reply), [text], "{dialect} {name}");
    assert_eq!(reply.ok, ok, "{dialect} {name}");
    let recorded = reply.error.as_ref().map(|error| error.kind).or(reply.outcome);
    assert_eq!(recorded, outcome, "{dialect} {name}");
    if let Some(structured) = &reply.structured {
        assert_eq!(structured.to_string(), text, "{dialect} {name}");
    }
}

#[test]
fn each_code_has_the_words_of_its_vocabulary() {
    let failed = Some(Kind::ExecutionFailed);
    let ended = |code| finished(Exit::Code(code), "out\n", "err\n");
    for (row, text) in [
        (("molf", "shell_exec"), "out\nerr\n\n\nexit code: 0"),
        (("agentos", "tool::shell_exec"), r#"{"stdout":"out\n","stderr":"err\n","exitCode":0}"#),
        (("aionrs", "Bash"), "Exit code: 0\nSTDOUT:\nout\n\nSTDERR:\nerr\n"),
        (
            ("clawft", "exec_shell"),
            r#"{"exit_code":0,"stdout":"out\n","stderr":"err\n","duration_ms":7}"#,
        ),
        (
            ("clawft", "spawn"),
            r#"{"exit_code":0,"stdout":"out\n","stderr":"err\n","command":"cat","description":"(no description)"}"#,
        ),
        (("moltis", "exec"), r#"{"stdout":"out\n","stderr":"err\n","exit_code":0}"#),
    ] {
        check(row, ended(0), text, (true, None));
        let ok = row.0 != "aionrs";
        let code =
            text.replace(": 0", ": 3").replace("e\":0", "e\":3").replace("Code\":0", "Code\":3");
        check(row, ended(3), &code, (ok, failed));
    }
}

#[test]
fn each_other_end_has_the_words_of_its_vocabulary() {
    let failed = Some(Kind::ExecutionFailed);
    let late = Some(Kind::Timeout);
    let ended = |exit| finished(exit, "out\n", "err\n");
    for (row, exit, text, end) in [
        (("molf", "shell_exec"), Exit::Signal(9), "out\nerr\n\n\nexit code: 1", (true, failed)),
        (
            ("molf", "shell_exec"),
            Exit::TimedOut,
            "out\nerr\n\n\nCommand execution failed: Command timed out after 120000ms",
            (false, late),
        ),
        (
            ("agentos", "tool::shell_exec"),
            Exit::Signal(9),
            r#"{"stdout":"out\n","stderr":"err\nended by signal 9 (SIGKILL)","exitCode":137}"#,
            (true, failed),
        ),
        (
            ("agentos", "tool::shell_exec"),
            Exit::TimedOut,
            r#"{"stdout":"out\n","stderr":"err\ntimed out after 120000 ms, and everything it started was ended","exitCode":124}"#,
            (true, late),
        ),
        (
            ("aionrs", "Bash"),
            Exit::Signal(9),
            "Exit code: -1\nSTDOUT:\nout\n\nSTDERR:\nerr\n",
            (false, failed),
        ),
        (
            ("aionrs", "Bash"),
            Exit::TimedOut,
            "Command timed out after 120000ms\nSTDOUT:\nout\n\nSTDERR:\nerr\n",
            (false, late),
        ),
        (
            ("clawft", "exec_shell"),
            Exit::Signal(9),
            r#"{"exit_code":-1,"stdout":"out\n","stderr":"err\n","duration_ms":7}"#,
            (true, failed),
        ),
        (
            ("clawft", "exec_shell"),
            Exit::TimedOut,
            r#"{"exit_code":-1,"stdout":"out\n","stderr":"err\n","duration_ms":7,"error":"timeout after 30s"}"#,
            (false, late),
        ),
        (
            ("clawft", "spawn"),
            Exit::TimedOut,
            r#"{"exit_code":-1,"stdout":"out\n","stderr":"err\n","command":"cat","description":"(no description)","error":"timeout after 60s"}"#,
            (false, late),
        ),
        (
            ("moltis", "exec"),
            Exit::Signal(9),
            r#"{"stdout":"out\n","stderr":"err\n","exit_code":-1}"#,
            (true, failed),
        ),
        (
            ("moltis", "exec"),
            Exit::TimedOut,
            r#"{"stdout":"out\n","stderr":"err\n","exit_code":-1,"error":"command timed out after 30s"}"#,
            (false, late),
        ),
    ] {
        check(row, ended(exit), text, end);
    }
}

/// A failure to start had been a code without a number in one vocabulary.
#[test]
fn a_program_that_cannot_be_started_is_told() {
    let failed = Some(Kind::ExecutionFailed);
    let not_started = |is_missing, why: &str| {
        finished(Exit::NotStarted { is_missing, why: String::from(why) }, "", "")
    };
    for (is_missing, why, code) in
        [(true, "no such file or directory", 127), (false, "exec format error", 126)]
    {
        let stderr = format!("the program could not be started: {why}");
        let text = json!({ "stdout": "", "stderr": stderr, "exitCode": code }).to_string();
        let row = ("agentos", "tool::shell_exec");
        check(row, not_started(is_missing, why), &text, (true, failed));
    }
    for row in [("molf", "shell_exec"), ("aionrs", "Bash"), ("moltis", "exec")] {
        let text = "the shell could not be started: permission denied";
        check(row, not_started(false, "permission denied"), text, (false, failed));
    }
    for row in ROWS.iter().filter(|(dialect, _)| *dialect == "clawft") {
        let (reply, _) = run(&tool(row.0, row.1), not_started(false, "x"), &json!({}));
        let structured = reply.structured.expect("an object");
        assert_eq!(structured["error"], "execution failed: x");
        assert!(!reply.ok, "{row:?}");
    }
}

fn command(tool: &Arc<dyn Tool>, more: &Value) -> Command {
    let args: Arguments = args(tool.name(), more).as_object().expect("an object").clone();
    let prepared = Arc::clone(tool).prepare(args, &Arc::default()).expect("it decodes");
    prepared.command().expect("a command")
}

#[test]
fn rows_run_what_their_pages_say() {
    let shell = |shell| CommandLine::Shell(shell, String::from("cat x"));
    let argv = || CommandLine::Argv(vec![String::from("cat"), String::from("x")]);
    for ((dialect, name), argument, line) in ROWS
        .iter()
        .zip([
            ("command", shell(Shell::User)),
            ("argv", argv()),
            ("command", shell(Shell::Posix)),
            ("command", shell(Shell::Posix)),
            ("command", argv()),
            ("command", shell(Shell::Posix)),
        ])
        .map(|(row, (argument, line))| (row, argument, line))
    {
        let command = command(&tool(dialect, name), &json!({}));
        assert_eq!(command.argument, argument, "{name}");
        assert_eq!(command.line, line, "{name}");
        assert!(!command.keeps_cwd, "{name}");
        let n_programs = if *dialect == "agentos" { 40 } else { 0 };
        assert_eq!(command.programs.len(), n_programs, "{name}");
        let (_, asked) = run(&tool(dialect, name), finished(Exit::Code(0), "", ""), &json!({}));
        let n_variables = if *dialect == "agentos" { 6 } else { 0 };
        assert_eq!(asked.variables.len(), n_variables, "{name}");
        assert_eq!(asked.max_at_once, (*name == "spawn").then_some(5), "{name}");
    }
}

#[test]
fn times_have_the_unit_the_default_and_the_limit_of_the_page() {
    for ((dialect, name), default, (given, given_ms), limit_ms) in [
        (ROWS[0], 120_000, (5, 5), 1_800_000),
        (ROWS[1], 120_000, (5, 5), 1_800_000),
        (ROWS[2], 120_000, (5, 5), 600_000),
        (ROWS[3], 30_000, (5, 5_000), 300_000),
        (ROWS[4], 60_000, (5, 5_000), 1_800_000),
        (ROWS[5], 30_000, (5, 5_000), 1_800_000),
    ] {
        for (more, expected) in [
            (json!({}), default),
            (json!({ "timeout": given }), given_ms),
            (json!({ "timeout": given.to_string() }), given_ms),
            (json!({ "timeout": 9_000_000_000_u64 }), limit_ms),
        ] {
            let done = finished(Exit::Code(0), "", "");
            let (_, asked) = run(&tool(dialect, name), done, &more);
            assert_eq!(asked.timeout, Duration::from_millis(expected), "{name} {more}");
        }
        for timeout in [json!(0), json!(-1), json!("0"), json!("5 s")] {
            let more = json!({ "timeout": timeout });
            let args = args(name, &more).as_object().expect("an object").clone();
            let error = tool(dialect, name).prepare(args, &Arc::default()).err().expect(name);
            assert_eq!(error.kind, Kind::InvalidArgs, "{name} {more}");
            assert!(error.message.starts_with("argument `timeout` must be"), "{name}: {error}");
        }
    }
}

/// Returns what became of a command that wrote more than anybody keeps.
fn flood(stdout: &[u8], stderr: &[u8]) -> Finished {
    let mut flood = finished(Exit::Code(0), stdout, stderr);
    flood.stored = Some(String::from(".sinew/tool-output/c.txt"));
    flood
}

#[test]
fn a_stream_is_cut_at_its_limit_and_between_characters() {
    for (row, stdout, stderr) in [(ROWS[1], 100_000, 50_000), (ROWS[5], 204_800, 204_800)] {
        let (dialect, name) = row;
        let long = |n: usize| format!("x{}", "é".repeat(n / 2));
        let flood = flood(long(stdout).as_bytes(), long(stderr).as_bytes());
        let (reply, _) = run(&tool(dialect, name), flood, &json!({}));
        let result = reply.structured.as_ref().expect("an object");
        let mark = if dialect == "moltis" { "\n... [output truncated]" } else { "" };
        for (key, limit) in [("stdout", stdout), ("stderr", stderr)] {
            let text = result[key].as_str().expect("a text");
            let text = text.strip_suffix(mark).expect("the mark");
            assert_eq!(text.len(), limit - 1, "{name} {key}");
            assert!(text.ends_with('é'), "{name} {key}");
        }
        assert!(reply.meta.truncated, "{name}");
        assert_eq!(
            apart(&reply),
            format!(
                "[stdout was cut after {} of {} bytes]\n[stderr was cut after {} of {} bytes]\n\
                 [the whole output is in .sinew/tool-output/c.txt]",
                stdout - 1,
                stdout + 1,
                stderr - 1,
                stderr + 1
            )
        );
    }
    for (exact, is_cut) in [(100_000, false), (100_001, true)] {
        let whole = finished(Exit::Code(0), "x".repeat(exact), "");
        let (reply, _) = run(&tool("agentos", "tool::shell_exec"), whole, &json!({}));
        assert_eq!(reply.meta.truncated, is_cut, "{exact}");
    }
}

#[test]
fn a_result_in_json_keeps_to_its_size() {
    for (row, max_bytes) in
        [(ROWS[1], 1 << 20), (ROWS[3], 65_536), (ROWS[4], 65_536), (ROWS[5], 1 << 20)]
    {
        for (out, err) in [(b"\n", b"x"), (b"\0", b"\0"), (b"x", b"\""), (b"\xff", b"x")] {
            for (n_out, n_err) in [(200_000, 0), (0, 200_000), (200_000, 200_000), (70_000, 100)] {
                let more = match row.1 {
                    "spawn" => {
                        json!({ "command": "c".repeat(70_000), "description": "\0".repeat(70_000) })
                    }
                    _ => json!({}),
                };
                let flood = flood(&out.repeat(n_out), &err.repeat(n_err));
                let (reply, _) = run(&tool(row.0, row.1), flood, &more);
                let text = texts(&reply)[0];
                assert!(text.len() <= max_bytes, "{row:?} {out:?} {n_out} {n_err}: {}", text.len());
                let result: Value = serde_json::from_str(text).expect("JSON");
                // What one stream leaves is there for the other.
                let bytes = |key: &str| result[key].as_str().map_or(0, str::len);
                let cut = reply.meta.truncated;
                assert!(!cut || 8_192 <= bytes("stdout") + bytes("stderr"), "{row:?}");
            }
        }
    }
}

#[test]
fn what_the_model_reads_is_shown_as_on_a_screen() {
    let colours = || finished(Exit::Code(0), "\u{1b}[31mred\u{1b}[0m\r\n", "");
    for (row, expected) in [
        (ROWS[0], "red\n\n\nexit code: 0"),
        (ROWS[1], r#"{"stdout":"\u001b[31mred\u001b[0m\r\n","stderr":"","exitCode":0}"#),
        (ROWS[2], "Exit code: 0\nSTDOUT:\nred\n\nSTDERR:\n"),
        (ROWS[5], r#"{"stdout":"\u001b[31mred\u001b[0m\r\n","stderr":"","exit_code":0}"#),
    ] {
        check(row, colours(), expected, (true, None));
    }
}

#[test]
fn the_first_lines_stand_before_the_way_to_the_rest() {
    let lines = |n: usize| (1..=n).map(|n| format!("{n}\n")).collect::<String>();
    let kept = |n: usize| lines(n).trim_end().to_owned();
    let rest = |n: usize| {
        format!(
            "\n\n...{n} lines truncated...\n\nOutput was truncated. Full output saved to: \
             .sinew/tool-output/c.txt\nUse read_file with startLine and endLine to view a section \
             of it, or grep to search it.\n\nexit code: 0"
        )
    };
    let wide = |n: usize| format!("{}\n", "é".repeat(25)).repeat(n);
    for (output, expected) in [
        (lines(2_000), format!("{}\n\nexit code: 0", lines(2_000))),
        (lines(2_001), format!("{}{}", kept(2_000), rest(1))),
        (format!("{}end", lines(2_002)), format!("{}{}", kept(2_000), rest(3))),
        (wide(1_500), format!("{}{}", wide(1_003).trim_end(), rest(497))),
        ("é".repeat(30_000), format!("{}{}", "é".repeat(25_600), rest(0))),
    ] {
        let (reply, _) =
            run(&tool("molf", "shell_exec"), flood(output.as_bytes(), b""), &json!({}));
        assert!(texts(&reply) == [expected.as_str()], "{:.200}", texts(&reply)[0]);
        let path = reply.meta.output_path.is_some();
        assert_eq!(path, expected.contains("truncated"));
        assert_eq!(reply.meta.truncated, path);
        assert_eq!(reply.meta.more.get("exitCode"), Some(&json!(0)));
    }
    let mut endless = flood(lines(10_000).as_bytes(), b"");
    endless.merged.head.truncate(20_000);
    endless.merged = Output { total: 20_000_000, tail: b"end\n".to_vec(), ..endless.merged };
    endless.n_lines = 3_000_000;
    let (reply, _) = run(&tool("molf", "shell_exec"), endless, &json!({}));
    assert!(texts(&reply)[0].contains("\n\n...2998000 lines truncated...\n"));
}

#[test]
fn both_ends_of_long_streams_are_shown() {
    let lines: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
    for (stdout, stderr, cut) in [
        (lines.as_str(), "", vec!["stdout"]),
        ("", lines.as_str(), vec!["stderr"]),
        (&lines, &lines, vec!["stdout", "stderr"]),
        ("out", "err", vec![]),
    ] {
        let flood = flood(stdout.as_bytes(), stderr.as_bytes());
        let (reply, _) = run(&tool("aionrs", "Bash"), flood, &json!({}));
        let texts = texts(&reply);
        assert!(texts[0].len() < 50_100, "{}", texts[0].len());
        assert_eq!(reply.meta.truncated, !cut.is_empty());
        assert_eq!(texts[0].matches("\n[…]\n").count(), cut.len());
        for name in cut {
            assert!(texts[1].contains(&format!("[{name}: ")), "{}", texts[1]);
            assert!(texts[1].contains("the whole output is in .sinew/tool-output/c.txt"));
        }
    }
}

/// Whatever the exit code is: around a text, and at the end of the standard error of an object. Notes behind
/// an object are moved before the reply leaves.
#[test]
fn refusals_and_left_processes_are_reported() {
    const REFUSED: &str = "[the sandbox refused to reach 192.0.2.1:443, 2 times: the network is closed; \
                           to allow it: run.network = true]";
    let told = |exit| {
        let mut told = finished(exit, "out", "err");
        told.n_left = 2;
        let refused = Refused {
            deed: "reach",
            fails: false,
            what: String::from("192.0.2.1:443"),
            why: String::from("the network is closed"),
            grant: String::from("run.network = true"),
            need: None,
            times: 2,
        };
        told.findings =
            SandboxFindings { listed: vec![refused], n_more: 0, ..SandboxFindings::default() };
        told
    };
    const LEFT: &str = "[2 processes that the command left running were ended]";
    for (dialect, name) in ROWS {
        for code in [0, 1] {
            let (reply, _) = run(&tool(dialect, name), told(Exit::Code(code)), &json!({}));
            match &reply.structured {
                Some(object) if *dialect == "clawft" => {
                    assert_eq!(object["stderr"], format!("err\n{REFUSED}\n"), "{name}");
                    assert_eq!(apart(&reply), LEFT, "{name}");
                }
                Some(object) => {
                    assert_eq!(object["stderr"], format!("err\n{REFUSED}\n{LEFT}\n"), "{name}");
                    assert_eq!(apart(&reply), "", "{name}");
                }
                None if *dialect == "molf" => {
                    let expected = format!("outerr\n{REFUSED}\n\nexit code: {code}");
                    assert_eq!(texts(&reply), [expected.as_str(), LEFT], "{name}");
                }
                None => {
                    assert_eq!(texts(&reply)[0], REFUSED, "{name}");
                    assert_eq!(texts(&reply).last(), Some(&LEFT), "{name}");
                }
            }
        }
    }
}

/// What a command changed had stood in the stderr of objects, which then was not what the command wrote.
#[test]
fn changes_stand_apart_from_what_the_command_wrote() {
    const CHANGED: &str = "[changed Makefile]\n[runs on your machine later: Makefile]";
    for (dialect, name) in ROWS {
        let mut done = finished(Exit::Code(0), "out\n", "err\n");
        done.findings.changed = vec![String::from("Makefile")];
        done.findings.later = vec![String::from("Makefile")];
        let (reply, _) = run(&tool(dialect, name), done, &json!({}));
        match &reply.structured {
            Some(object) => {
                assert_eq!(object["stderr"], "err\n", "{name}");
                assert_eq!(apart(&reply), CHANGED, "{name}");
            }
            None if *dialect == "molf" => {
                let parts = ["out\nerr\n\n\nexit code: 0", CHANGED];
                assert_eq!(texts(&reply).join("\n"), parts.join("\n"), "{name}");
                assert_eq!(reply.n_notes, 2, "{name}");
            }
            None => assert!(texts(&reply).join("\n").contains(CHANGED), "{name}"),
        }
    }
}

#[test]
fn an_empty_directory_counts_as_none() {
    for (dialect, name, parameter) in [
        ("molf", "shell_exec", "cwd"),
        ("agentos", "tool::shell_exec", "cwd"),
        ("moltis", "exec", "working_dir"),
    ] {
        for (given, path) in [("", None), ("sub", Some("sub"))] {
            let args = args(name, &json!({ parameter: given }));
            let args = args.as_object().expect("an object").clone();
            let mut prepared = tool(dialect, name).prepare(args, &Arc::default()).expect(name);
            let claims = prepared.claims();
            assert_eq!(claims[0].argument, parameter);
            assert_eq!(claims[0].path.as_deref(), path, "{name}");
        }
    }
}
