//! Hooks that misbehave: they fail, which stops what they are about or does not, and nothing of them
//! is left.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Place, has, said};

/// What hooks do, and how the failure is told.
const HAZARDS: &[(&str, &str)] = &[
    ("sleep 300", "its time of 700 ms ran out"),
    ("trap '' TERM HUP INT; sleep 300 & wait; sleep 300", "its time of 700 ms ran out"),
    ("yes", "it wrote more than 1 MiB"),
    ("yes >&2", "it wrote more than 1 MiB"),
    ("head -c 1100000 /dev/zero | tr '\\0' ' '", "it wrote more than 1 MiB"),
    ("echo hello", "its output is not a JSON object"),
    ("echo '[1]'", "its output is not a JSON object"),
    ("echo '{\"arguments\":1}'", "its `arguments` are not an object"),
    ("echo '{\"session\":\"x\"}'", "the key `session`"),
    ("printf '\\377'", "its output is not UTF-8"),
    ("kill -9 $$", "signal 9 ended it"),
    ("exit 7", "it ended with exit code 7"),
];

#[test]
fn whoever_fails_stops_the_call_or_lets_it_go_on_as_configured() {
    for (script, words) in HAZARDS {
        for (more, code) in [("", 3), ("on_error = \"block\"", 3), ("on_error = \"continue\"", 0)] {
            let place = Place::new();
            // A flood is over long before the time is.
            let ms = if words.contains("700") { 700 } else { 20_000 };
            place.hook("before_tool_execute", script, &format!("timeout_ms = {ms}\n{more}"));
            let began = Instant::now();
            let (ended, result) = place.write("x");
            assert!(began.elapsed() < Duration::from_secs(15), "{script}");
            assert_eq!(ended, code, "{script} {more}: {result}");
            assert_eq!(place.content("a.txt").is_some(), code == 0, "{script} {more}");
            let told = match code {
                0 => result["meta"]["hooks"][0]["did"].to_string(),
                _ => said(&result),
            };
            has(&told, words.split('`').next().unwrap());
            has(&told, "failed");
        }
    }
}

#[test]
fn a_program_that_is_not_there_or_is_none_fails() {
    for (command, words) in [
        ("{home}/bin/missing", "there is no program"),
        ("no-such-program-here", "there is no program `no-such-program-here` in PATH"),
        ("{home}/bin/plain", "cannot be executed; check its mode"),
        ("{home}/bin", "cannot be executed; check its mode"),
        ("{home}/bin/odd", "it did not start"),
    ] {
        let place = Place::new();
        fs::write(place.at("bin/plain"), "text").unwrap();
        place.program("odd", "");
        fs::write(place.at("bin/odd"), b"\x7fELF broken").unwrap();
        place.config(&format!(
            "[[hooks]]\nname = \"h\"\nevent = \"before_tool_execute\"\ncommand = [\"{command}\"]\n"
        ));
        let arguments = json!({ "file_path": "a.txt", "content": "x" }).to_string();
        let ran = place.run(&["call", "Write", &arguments], "");
        assert_eq!(ran.code, 3, "{command}: {ran:?}");
        has(&ran.err, words);
        // Where it lies is the person's business, not the model's.
        let ran = place.run(&["--log", "error", "call", "--json", "Write", &arguments], "");
        has(&ran.out, "the hook `h` failed, so the call does not run: it did not start");
        assert!(!ran.out.contains(place.at("bin").to_str().unwrap()), "{}", ran.out);
        assert_eq!(place.content("a.txt"), None);
    }
}

/// Returns whether a process is there and has not ended.
fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[test]
fn nothing_outlives_a_hook() {
    let daemon = "(setsid sh -c 'echo $$ >{home}/pid; exec sleep 300' >/dev/null 2>&1 &)\n\
                  while ! [ -s {home}/pid ]; do sleep 0.01; done\n";
    for (end, code) in [("exit 0", 0), ("sleep 300", 3), ("kill -9 $$", 3), ("yes", 3)] {
        let place = Place::new();
        place.hook("before_tool_execute", &format!("{daemon}{end}"), "timeout_ms = 4000");
        // The process goes on after its call here, so that remaining processes are not ended with it.
        let line = "{\"name\":\"Write\",\"arguments\":{\"file_path\":\"a.txt\",\"content\":\"x\"}}";
        let mut child =
            crate::served::Served::start(&place.place.home, &[&place.place.root], &[], 1_024);
        let call: Value = serde_json::from_str(line).unwrap();
        let result = child.call("Write", &call["arguments"]);
        assert_eq!(result["ok"] == true, code == 0, "{end}: {result}");
        let pid = place.noted("pid").expect("it began");
        assert!(!lives(&pid), "{end}: {pid} is left");
    }
}

/// The caller goes away while a hook runs.
#[test]
fn a_hook_ends_with_the_process_that_started_it() {
    let place = Place::new();
    place.hook("before_tool_execute", "echo $$ >{home}/pid; exec sleep 300", "");
    let mut command = crate::served::command(&place.place.home);
    command.current_dir(&place.place.root).env("PATH", "/usr/bin:/bin");
    let mut child = command.args(["call", "List"]).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let wait_for = |what: &dyn Fn() -> bool| {
        while !what() {
            assert!(Instant::now() < until, "it takes too long");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    wait_for(&|| place.noted("pid").is_some_and(|pid| pid.ends_with('\n')));
    let pid = place.noted("pid").unwrap();
    assert!(lives(&pid));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for(&|| !lives(&pid));
}

#[test]
fn a_hook_that_fails_time_and_again_rests_and_one_that_blocks_does_not() {
    let line = "{\"name\":\"List\"}\n";
    for (script, on_error, n_runs, last) in [
        ("exit 7", "block", 5, "it failed 5 times in a row and is not started for another"),
        ("exit 7", "continue", 5, ""),
        // To block is to do its work.
        ("echo no >&2; exit 2", "block", 8, "blocked by the hook `h`: no"),
        ("exit 0", "block", 8, ""),
        // One success makes good for all failures before it.
        ("test $(wc -l <{home}/runs) = 4 || exit 7", "continue", 8, ""),
    ] {
        let place = Place::new();
        let script = format!("echo run >>{{home}}/runs\n{script}");
        place.hook("before_tool_execute", &script, &format!("on_error = \"{on_error}\""));
        let ran = place.run(&["call", "--batch"], &line.repeat(8));
        let results: Vec<Value> =
            ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(results.len(), 8);
        assert_eq!(place.noted("runs").unwrap().lines().count(), n_runs, "{script}");
        has(&said(&results[7]), last);
        assert_eq!(results[7]["ok"] == true, last.is_empty(), "{}", results[7]);
    }
}

/// What a caller or the place of a hook brings about lays no hook to rest: the sixth call went by it.
#[test]
fn no_caller_can_lay_a_hook_to_rest() {
    let junk = "{\"name\":\"a\\u0000b\"}\n";
    let list = "{\"name\":\"List\"}\n";
    for (event, keys, script, line, words) in [
        ("persist", "", "exit 0", junk, "no tool of this name"),
        (
            "ToolResultPersist",
            "payload = \"moltis\"",
            "echo why >&2; exit 1",
            list,
            "the call ran, and the hook `h` withheld its reply: why",
        ),
        (
            "persist",
            "",
            "echo why >&2; exit 2",
            list,
            "the call ran, and the hook `h` withheld its reply: why",
        ),
        ("after_tool_execute", "", "exit 2", list, ""),
    ] {
        let place = Place::new();
        let script = format!("echo run >>{{home}}/runs\n{script}");
        place.hook(event, &script, &format!("on_error = \"continue\"\n{keys}"));
        let ran = place.run(&["call", "--batch"], &line.repeat(8));
        let results: Vec<Value> =
            ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(place.noted("runs").unwrap().lines().count(), 8, "{event} {script}");
        for result in results {
            has(&said(&result), words);
        }
    }
}

/// A change that had happened was told in the words of one that had not, to the model and in the ledger.
#[test]
fn what_was_done_is_told_though_its_reply_is_withheld() {
    for (event, script, words) in [
        (
            "persist",
            "echo why >&2; exit 2",
            "the call ran, and the hook `h` withheld its reply: why",
        ),
        ("persist", "exit 3", "the hook `h` failed after the call ran, so its reply is withheld"),
    ] {
        let place = Place::new();
        place.hook(event, script, "on_error = \"block\"\n");
        let arguments = json!({ "file_path": "a.txt", "content": "x" }).to_string();
        let ran = place.run(&["call", "Write", &arguments], "");
        assert_eq!(ran.code, 3, "{ran:?}");
        has(&ran.err, words);
        assert!(place.place.root.join("a.txt").exists());
        let listed = place.run(&["audit", "list", "--outcome", "ok"], "").out;
        has(&listed, "Write");
    }
}

/// What a hook wrote reached the terminal as it was.
#[test]
fn what_a_hook_says_plays_no_tricks_on_a_terminal() {
    let place = Place::new();
    let script = "printf 'no\\033[2J \\007 \\342\\200\\256x' >&2; exit 2";
    place.hook("before_tool_execute", script, "");
    for args in [&["call", "List"][..], &["hook", "test", "before_tool_execute"]] {
        let ran = place.run(args, "");
        let all = ran.out + &ran.err;
        assert!(!all.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{all:?}");
        has(&all, "no\\u{1b}[2J \\u{7} \\u{202e}x");
    }
}
