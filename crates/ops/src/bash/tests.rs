use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use sinew_testkit::{MemoryWorld, Scripted, call};
use sinew_tool::{Block, MAX_STORED_OUTPUT, Moved, Processes, Refused, SandboxFindings};

use super::*;

fn finished(exit: Exit, output: &str) -> Finished {
    sinew_testkit::finished(exit, output, "")
}

fn begun(exit: Option<Exit>) -> Background {
    Background {
        id: String::from("b1"),
        command: String::from("serve\n--all"),
        is_terminal: false,
        n_stored: 4,
        n_written: 0,
        n_unread: 0,
        findings: sinew_tool::SandboxFindings::default(),
        duration: Duration::from_secs(3),
        stored: Some(String::from(".sinew/tool-output/c.txt")),
        exit,
    }
}

/// Runs a command that ends as it is told to.
fn run(finished: Finished, background: Vec<Background>, args: Value) -> (Reply, RunOptions) {
    let mut world = MemoryWorld::new();
    let scripted = Scripted::new(finished, background);
    world.processes = Arc::clone(&scripted) as Arc<dyn Processes>;
    let reply = call(&world, &NATIVE.tool(), args);
    (reply, scripted.asked().expect("it was run"))
}

fn text(reply: &Reply) -> &str {
    match reply.content.as_slice() {
        [Block::Text { text }] => text,
        other => panic!("{other:?}"),
    }
}

fn unreachable(times: u32) -> Refused {
    Refused {
        deed: "reach",
        fails: false,
        what: String::from("192.0.2.1:443"),
        why: String::from("the network is closed"),
        grant: String::from("run.network = true"),
        need: None,
        times,
    }
}

/// Models pipe through `tail`, whose exit code is 0 and which shows the end alone.
#[test]
fn refusals_come_first_whatever_the_exit_code() {
    let check = |findings: SandboxFindings, expected: &str| {
        for (code, end) in [(0, ""), (2, "\n[exit code 2]")] {
            let mut finished = finished(Exit::Code(code), "out\n");
            finished.findings = findings.clone();
            let (reply, _) = run(finished, Vec::new(), json!({ "command": "x" }));
            assert_eq!(text(&reply), format!("{expected}\nout{end}"));
        }
    };
    let listed = |times| vec![unreachable(times)];
    check(
        SandboxFindings { listed: listed(3), n_more: 2, ..SandboxFindings::default() },
        "[the sandbox refused to reach 192.0.2.1:443, 3 times: the network is closed; to allow it: \
         run.network = true]\n[the sandbox refused 2 more calls of the command]",
    );
    let exhausted = Some(String::from("the command was ended: it held 9 MiB"));
    check(
        SandboxFindings { n_more: 2, exhausted, ..SandboxFindings::default() },
        "[the command was ended: it held 9 MiB]\n\
         [the sandbox refused 2 more calls of the command]",
    );
    let long = Refused { what: "x".repeat(9_000), ..unreachable(4) };
    check(
        SandboxFindings { listed: vec![long], n_more: 0, ..SandboxFindings::default() },
        "[the sandbox refused 4 calls of the command]",
    );
    let long = Refused { what: "x".repeat(9_000), ..unreachable(1) };
    check(
        SandboxFindings {
            listed: vec![unreachable(1), long],
            n_more: 0,
            ..SandboxFindings::default()
        },
        "[the sandbox refused to reach 192.0.2.1:443: the network is closed; to allow it: \
         run.network = true]\n[the sandbox refused 1 more call of the command]",
    );
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
                finished.findings = SandboxFindings {
                    listed: vec![unreachable(1)],
                    n_more: 0,
                    ..SandboxFindings::default()
                };
            }),
            "[the sandbox refused to reach 192.0.2.1:443: the network is closed; to allow it: \
             run.network = true]\nout\n[exit code 1]",
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
                let sub = PathBuf::from(sinew_testkit::ROOT).join("sub");
                finished.moved = Some(Moved::To(sub));
            }),
            "out\n[working directory: sub]",
            None,
        ),
        (
            more(|finished| {
                let stays = PathBuf::from(sinew_testkit::ROOT).join("sub");
                finished.moved = Some(Moved::Not { outside: PathBuf::from("/etc"), stays });
            }),
            "out\n[working directory: still sub, for /etc is outside the roots]",
            None,
        ),
        (
            more(|finished| finished.exit = Exit::Lost),
            "out\n[the supervisor of the command ended or did not answer, so its exit is unknown]",
            Some(Kind::ExecutionFailed),
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
    let mut cut = finished(Exit::Code(0), &long);
    cut.stored = Some(String::from(".sinew/tool-output/c.txt"));
    let (reply, asked) = run(cut, Vec::new(), json!({"command": "x"}));
    let shown = text(&reply);
    assert!(shown.starts_with("0\n1\n") && shown.contains("\n[…]\n2000\n"), "{shown:.50}");
    assert!(shown.ends_with("; the whole output is in .sinew/tool-output/c.txt]"));
    assert!(reply.meta.truncated && reply.bounded);
    assert_eq!(reply.meta.output_path.as_deref(), Some(".sinew/tool-output/c.txt"));
    assert_eq!(asked.store_above, (51_200, 2_000));
    let mut endless = finished(Exit::Code(0), &long);
    endless.stored = Some(String::from(".sinew/tool-output/c.txt"));
    endless.merged.total = 2 * MAX_STORED_OUTPUT;
    let (reply, _) = run(endless, Vec::new(), json!({"command": "x"}));
    assert!(
        text(&reply).ends_with("; its first 1073741824 bytes are in .sinew/tool-output/c.txt]")
    );
}

#[test]
fn a_command_that_goes_on_is_named_and_listed() {
    let args = json!({"command": "serve", "run_in_background": true});
    let (reply, _) = run(finished(Exit::Code(0), ""), vec![begun(None)], args.clone());
    assert_eq!(
        text(&reply),
        "[b1 runs in the background and ends with the session; its output goes to \
         .sinew/tool-output/c.txt]"
    );
    assert!(reply.ok);
    let (reply, _) = run(finished(Exit::Code(0), ""), vec![begun(Some(Exit::Code(2)))], args);
    assert!(text(&reply).starts_with("[b1 has ended already: exit code 2"), "{}", text(&reply));
    assert!(!reply.ok);
    let listed = vec![begun(None), begun(Some(Exit::Signal(15)))];
    let (reply, _) = run(finished(Exit::Code(0), "out"), listed, json!({"command": "x"}));
    assert_eq!(text(&reply), "out\n[background b1: running for 3.0 s: serve --all]");
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
