//! The ledger as its readers have it: real processes write it, are killed while they do, and a user
//! changes what they wrote.
//!
//! Each look is shown to find something where there is something to find: writers that do not take turns
//! fork a chain, and a record that is taken away is missed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::database;
use crate::served::{Place, command};

/// What a run left.
#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn sinew(place: &Place, args: &[&str]) -> Command {
    let mut command = command(&place.home);
    command.arg("--root").arg(&place.root).args(["--approvals", "allow"]).args(args);
    command
}

fn run(place: &Place, args: &[&str], input: &str) -> Ran {
    let mut command = sinew(place, args);
    let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = streams.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let done = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: done.status.code().unwrap_or(-1), out: text(done.stdout), err: text(done.stderr) }
}

/// Returns lines of calls.
fn calls(all: &[(&str, Value)]) -> String {
    all.iter()
        .map(|(name, args)| format!("{}\n", json!({ "name": name, "arguments": args })))
        .collect()
}

fn write(name: &str) -> (&'static str, Value) {
    ("Write", json!({ "file_path": name, "content": name }))
}

fn read(name: &str) -> (&'static str, Value) {
    ("Read", json!({ "file_path": name }))
}

#[track_caller]
fn verified(place: &Place) -> Value {
    let ran = run(place, &["audit", "verify", "--json"], "");
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.json()
}

fn database(place: &Place) -> Connection {
    Connection::open(place.home.join("state/sinew/sinew.db")).unwrap()
}

#[test]
fn four_processes_write_one_chain() {
    let place = Place::new();
    fs::write(place.root.join("a.txt"), "a\n").unwrap();
    let mut all: Vec<Child> = Vec::new();
    for process in 0..4 {
        let mut lines = Vec::new();
        for n in 0..50 {
            lines.push(read("a.txt"));
            lines.push(write(&format!("{process}-{n}.txt")));
        }
        let mut child = sinew(&place, &["call", "--batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(calls(&lines).as_bytes()).unwrap();
        all.push(child);
    }
    for mut child in all {
        assert!(child.wait().unwrap().success());
    }
    let verified = verified(&place);
    // One begins the ledger; a change has two records.
    assert_eq!(verified["n_records"], 1 + 4 * 50 * 3, "{verified}");
    assert_eq!(verified["unfinished"], json!([]));
    assert_eq!(verified["n_beyond_head"], 0);
}

/// Where the last record is looked up before the transaction, some take the same place: the look at a chain
/// would find that.
#[test]
fn writers_that_take_no_turns_fork_a_chain() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("naive.db");
    let open = || {
        let database = Connection::open(&path).unwrap();
        database.busy_timeout(Duration::from_secs(10)).unwrap();
        database
    };
    open().execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE record (seq INTEGER)").unwrap();
    let (start, end) = (Barrier::new(4), Instant::now() + Duration::from_secs(30));
    let mut forked = false;
    while !forked && Instant::now() < end {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let database = open();
                    start.wait();
                    for _ in 0..20 {
                        let sql = "SELECT coalesce(max(seq), 0) FROM record";
                        let last: i64 = database.query_row(sql, [], |row| row.get(0)).unwrap();
                        database.execute("INSERT INTO record VALUES (?1)", [last + 1]).unwrap();
                    }
                });
            }
        });
        let sql = "SELECT count(*) - count(DISTINCT seq) FROM record";
        forked = 0 < open().query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    }
    assert!(forked, "the harness does not race");
}

/// What one process was told before it was killed.
struct Killed {
    session: String,
    /// Files whose change was answered.
    written: Vec<String>,
    /// When each read was answered.
    reads: Vec<Instant>,
    /// How many of them before the last change was.
    n_before_change: usize,
    killed_at: Instant,
}

/// In one round of so many nothing changes, so nothing but time gets the records to the disk.
const LOOKS_ALONE: usize = 5;

/// Lets a process make changes and looks, and kills it after a while.
fn kill_one(place: &Place, round: usize) -> Killed {
    let session = format!("round{round}");
    let mut child = sinew(place, &["--session", &session, "call", "--batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (mut written, mut reads, mut n_before_change) = (Vec::new(), Vec::new(), 0);
    let looks_alone = round.is_multiple_of(LOOKS_ALONE);
    let named = session.clone();
    let feeder = std::thread::spawn(move || {
        for n in 0.. {
            let (name, args) = match n % 8 {
                0 if !looks_alone => write(&format!("{named}-{n}.txt")),
                _ => read("a.txt"),
            };
            let line = json!({ "id": n, "name": name, "arguments": args });
            if writeln!(input, "{line}").is_err() {
                return;
            }
        }
    });
    let pid = rustix::process::Pid::from_child(&child);
    let killer = std::thread::spawn(move || {
        // A different moment each time, some of them within the opening of the database.
        let moment = 20 + (round as u64 * 37) % 400;
        std::thread::sleep(Duration::from_millis(moment + if looks_alone { 1_500 } else { 0 }));
        let killed_at = Instant::now();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        killed_at
    });
    for line in output.lines() {
        let Ok(reply) = line.map(|line| serde_json::from_str::<Value>(&line)) else { break };
        // The last line may be torn.
        let Ok(reply) = reply else { break };
        assert_eq!(reply["ok"], true, "{reply}");
        match reply["tool"].as_str() {
            Some("Write") => {
                n_before_change = reads.len();
                let id = reply["id"].to_string();
                written.push(format!("{session}-{}.txt", id.trim_matches('"')));
            }
            _ => reads.push(Instant::now()),
        }
    }
    let killed_at = killer.join().unwrap();
    child.wait().unwrap();
    feeder.join().unwrap();
    Killed { session, written, reads, n_before_change, killed_at }
}

/// Returns the files that changed without an intent in the ledger.
fn unrecorded(place: &Place) -> Vec<String> {
    let database = database(place);
    let mut intents =
        database.prepare("SELECT file_path FROM record WHERE phase = 'intent'").unwrap();
    let intents: BTreeSet<String> =
        intents.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let entries = fs::read_dir(&place.root).unwrap().map(Result::unwrap);
    entries
        .filter(|entry| entry.file_type().unwrap().is_file() && entry.file_name() != "a.txt")
        .map(|entry| entry.path().to_str().unwrap().to_owned())
        .filter(|path| path.ends_with(".txt") && !intents.contains(path))
        .collect()
}

#[test]
fn a_kill_loses_at_most_the_last_batch_and_no_change() {
    /// Records wait for 50 ms and this machine may be busy.
    const SLACK: Duration = Duration::from_secs(1);
    let rounds = std::env::var("SINEW_TEST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let place = Place::new();
    fs::write(place.root.join("a.txt"), "a\n").unwrap();
    let (mut n_lost, mut n_reads, mut n_writes) = (0, 0, 0);
    let mut last_written = String::new();
    for round in 0..rounds {
        let killed = kill_one(&place, round);
        let count = |which: &str| -> i64 {
            let sql = format!("SELECT count(*) FROM record WHERE session = ?1 AND {which}");
            // A process that is killed at once may not have made its database.
            if !place.home.join("state/sinew/sinew.db").exists() {
                return 0;
            }
            let database = database(&place);
            database.query_row(&sql, [&killed.session], |row| row.get(0)).unwrap_or(0)
        };
        let answered = killed.reads.len() as i64;
        let recorded = count("tool = 'Read' AND phase = 'outcome'");
        let old = |at: &&Instant| **at + SLACK < killed.killed_at;
        let n_old = killed.reads.iter().filter(old).count() as i64;
        assert!(n_old <= recorded, "round {round}: {n_old} of long ago, {recorded} recorded");
        // What waited was written with the intent of each change.
        assert!(killed.n_before_change as i64 <= recorded, "round {round}: {recorded} recorded");
        assert!(
            !round.is_multiple_of(LOOKS_ALONE) || 0 < n_old,
            "round {round}: nothing had to be there"
        );
        let lost = (answered - recorded).max(0);
        for path in &killed.written {
            assert!(place.root.join(path).is_file(), "round {round}: {path}");
        }
        let intents = count("phase = 'intent'");
        assert!(killed.written.len() as i64 <= intents, "round {round}: {intents} intents");
        n_lost += lost;
        n_reads += answered;
        n_writes += killed.written.len();
        last_written = killed.written.last().cloned().unwrap_or(last_written);
    }
    assert_eq!(unrecorded(&place), [""; 0], "each change has its intent");
    let verified = verified(&place);
    let open = verified["unfinished"].as_array().unwrap();
    assert!(open.iter().all(|open| open["dead"] == true), "{verified}");
    // One call after the other: the last change of each process, whose end was not written yet.
    assert!(open.len() <= rounds, "{verified}");
    println!(
        "{rounds} kills, {n_writes} changes, {n_reads} looks, {n_lost} of them lost, {} calls open, {} \
         records beyond the head",
        open.len(),
        verified["n_beyond_head"]
    );
    assert!(0 < n_writes && 0 < n_lost, "no kill came while anything waited");
    // The look for changes without an intent finds one that is taken away.
    let path = place.root.join(last_written).to_str().unwrap().to_owned();
    let sql = "DELETE FROM record WHERE phase = 'intent' AND file_path = ?1";
    assert_eq!(database(&place).execute(sql, [&path]).unwrap(), 1);
    assert_eq!(unrecorded(&place), [path], "a change is missed");
    let ran = run(&place, &["audit", "verify"], "");
    assert_eq!(ran.code, 1, "{ran:?}");
}

/// Nothing said which command a process ran when it was killed, and `list` did not show it.
#[test]
fn a_killed_command_is_listed_and_says_what_it_was() {
    let place = Place::new();
    let mut child = sinew(&place, &["--session", "s", "call", "--batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let line = json!({ "command": "PASSWORD=hunter22 sleep 60" });
    input.write_all(calls(&[("Bash", line)]).as_bytes()).unwrap();
    let list =
        |more: &[&str]| run(&place, &[&["audit", "list", "--tool", "Bash"][..], more].concat(), "");
    let end = Instant::now() + Duration::from_secs(60);
    while list(&["--json"]).out.is_empty() {
        assert!(Instant::now() < end && child.try_wait().unwrap().is_none(), "it does not run");
    }
    let states = |expected: &str| {
        let [line] = list(&["--json"]).lines().try_into().unwrap_or_else(|all| panic!("{all:?}"));
        assert_eq!(line["outcome"], expected, "{line}");
        let ran = list(&[]);
        assert!(ran.out.contains(&format!(" {expected} ")), "{ran:?}");
        line
    };
    states("running");
    child.kill().unwrap();
    child.wait().unwrap();
    let line = states("never ended");
    for (name, expected) in [
        ("phase", json!("intent")),
        ("command", json!("PASSWORD=[redacted: secret] sleep 60")),
        ("verdict", json!("ask")),
        ("rule", json!("shell.environment")),
        ("approver", json!("allow")),
    ] {
        assert_eq!(line[name], expected, "{name}: {line}");
    }
    let shown = run(&place, &["audit", "show", &line["seq"].to_string(), "--json"], "").lines();
    assert_eq!((shown.len(), &shown[0]["command"]), (1, &line["command"]));
    assert_eq!(shown[0]["outcome"], Value::Null, "the record of an intent has none");
    assert_eq!(list(&["--outcome", "ok", "--json"]).lines(), [Value::Null; 0]);
    assert_eq!(verified(&place)["unfinished"][0]["seq"], line["seq"]);
    let file = place.home.join("export.jsonl");
    fs::write(&file, run(&place, &["audit", "export"], "").out).unwrap();
    let ran = run(&place, &["audit", "verify", "--file", file.to_str().unwrap()], "");
    assert_eq!(ran.code, 0, "{ran:?}");
}

/// A place with a few records, one of them of a name that plays with the terminal.
fn recorded() -> Place {
    let place = Place::new();
    fs::write(place.root.join("a.txt"), "a\n").unwrap();
    let hostile = "no\n{\"tool\":\"x\"}\u{1b}[2J\u{202e}\u{200b}";
    let lines = calls(&[
        read("a.txt"),
        write("b.txt"),
        (hostile, json!({})),
        ("Read", json!({ "file_path": hostile })),
        ("Bash", json!({ "command": "echo 'x\n\u{1b}[2J' # \u{202e}" })),
        write("c.txt"),
    ]);
    run(&place, &["--session", "s1", "call", "--batch"], &lines);
    run(&place, &["--session", "s2", "call", "Read", r#"{"file_path": "a.txt"}"#], "");
    place
}

#[test]
fn what_is_read_of_the_ledger_shows_everything_and_nothing_raw() {
    let place = recorded();
    for args in [
        &["audit", "list"][..],
        &["audit", "list", "--json"],
        &["audit", "show", "2"],
        &["audit", "show", "7"],
        &["audit", "show", "7", "--json"],
        &["audit", "export"],
        &["audit", "verify"],
        &["audit", "verify", "--json"],
        &["audit", "head"],
    ] {
        let ran = run(&place, args, "");
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
        assert!(!ran.out.is_empty());
        let raw = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{200b}');
        assert!(!ran.out.contains(raw), "{args:?}: {}", ran.out);
        if args.contains(&"--json") || args.contains(&"export") {
            assert!(!ran.lines().is_empty());
        }
        assert!(
            !ran.out.lines().any(|line| line.starts_with("{\"tool\"")),
            "{args:?}: {}",
            ran.out
        );
    }
    let root = place.root.to_str().unwrap();
    for (args, expected) in [
        (&["--session", "s2"][..], vec!["Read"]),
        (&["--tool", "Wri*"], vec!["Write", "Write"]),
        (&["--path", "b.txt"], vec!["Write"]),
        (&["--tool", "Write", "--path", root], vec!["Write", "Write"]),
        (&["--tool", "Write", "--path", "."], vec!["Write", "Write"]),
        (&["--tool", "Write", "--path", "./d/../c.txt/"], vec!["Write"]),
        (&["--path", "d"], vec![]),
        (
            &["--outcome", "not_found", "--limit", "1"],
            vec!["no\n{\"tool\":\"x\"}\u{1b}[2J\u{202e}\u{200b}"],
        ),
        (&["--since", "1d", "--tool", "Bash"], vec!["Bash"]),
        (&["--since", "2999-01-01"], vec![]),
    ] {
        let list = [&["audit", "list", "--json"], args].concat();
        // The session is an option of every command.
        let ran = run(&place, &list, "");
        let tools: Vec<_> = ran.lines().iter().map(|line| line["tool"].clone()).collect();
        assert_eq!(tools, expected, "{args:?}: {ran:?}");
    }
    let ran = run(&place, &["audit", "list", "--since", "yesterday"], "");
    assert!(ran.code == 2 && ran.err.contains("2026-01-31"), "{ran:?}");
    let ran = run(&place, &["audit", "show", "nothing"], "");
    assert!(ran.code == 2 && ran.err.contains("audit list"), "{ran:?}");
    // By a number or by its id, a call is shown with its intent.
    let by_number = run(&place, &["audit", "show", "3", "--json"], "").lines();
    let id = by_number[0]["call_id"].as_str().unwrap();
    assert_eq!(run(&place, &["audit", "show", id, "--json"], "").lines(), by_number);
    let phases: Vec<_> = by_number.iter().map(|record| record["phase"].clone()).collect();
    assert_eq!(phases, ["intent", "outcome"]);
    assert_eq!(by_number[1]["intent"], by_number[0]["seq"]);
}

/// `denied`, of which the help spoke, found nothing, and neither did a word that is none.
#[test]
fn what_was_refused_is_found_by_one_word() {
    let place = Place::new();
    fs::write(place.root.join("a.txt"), "a\n").unwrap();
    run(&place, &["call", "--batch"], &calls(&[read("a.txt"), read("/etc/shadow"), read("none")]));
    let line = json!({ "command": "rm a.txt" }).to_string();
    let mut denied = command(&place.home);
    denied.arg("--root").arg(&place.root).args(["--approvals", "deny", "call", "Bash", &line]);
    assert_eq!(denied.output().unwrap().status.code(), Some(3));
    let list = |outcome: &str| run(&place, &["audit", "list", "--json", "--outcome", outcome], "");
    for (outcome, expected) in [
        ("denied", &["approval_denied", "path_denied"][..]),
        ("path_denied", &["path_denied"]),
        ("ok", &["ok"]),
        ("file_not_found", &["file_not_found"]),
        ("policy_denied", &[]),
    ] {
        let ran = list(outcome);
        let found: Vec<_> = ran.lines().iter().map(|line| line["outcome"].clone()).collect();
        assert_eq!((ran.code, found), (0, expected.iter().map(|one| json!(one)).collect()));
    }
    for unknown in ["nosuch", "Ok", ""] {
        let ran = list(unknown);
        assert!(ran.code == 2 && ran.out.contains("ok, denied, not_found, "), "{ran:?}");
    }
}

#[test]
fn a_record_says_who_did_what_where_and_how_it_ended() {
    let place = recorded();
    let of = |tool: &str| {
        let args = ["audit", "list", "--json", "--tool", tool, "--limit", "1"];
        run(&place, &args, "").lines().remove(0)
    };
    let written = of("Write");
    let path = place.root.join("c.txt");
    for (name, expected) in [
        ("phase", json!("outcome")),
        ("session", json!("s1")),
        ("dialect", json!("native")),
        ("effects", json!("change")),
        ("path", json!(path)),
        ("verdict", json!("ask")),
        ("rule", json!("change")),
        ("approver", json!("allow")),
        ("outcome", json!("ok")),
        ("bytes", json!(5)),
        ("surface", json!("call")),
        ("before_hash", Value::Null),
    ] {
        assert_eq!(written[name], expected, "{name}: {written}");
    }
    for name in ["duration_ms", "after_hash", "os_user", "pid", "machine", "arguments", "at"] {
        assert!(!written[name].is_null(), "{name}: {written}");
    }
    let ran = of("Bash");
    assert_eq!(ran["command"], "echo 'x\n\u{1b}[2J' # \u{202e}");
    assert!(ran["sandbox_level"].is_string(), "{ran}");
    // What goes on is named by the call that began it and by those that reach it.
    let lines = calls(&[
        ("Bash", json!({ "command": "sleep 60", "run_in_background": true })),
        ("BashOutput", json!({ "bash_id": "b1" })),
        ("KillShell", json!({ "shell_id": "b1" })),
    ]);
    run(&place, &["call", "--batch"], &lines);
    for tool in ["Bash", "BashOutput", "KillShell"] {
        assert_eq!(of(tool)["background"], "b1", "{tool}");
    }
    assert!(of("Bash")["sandbox_level"].is_string());
}

/// Returns an export whose first line is without a member.
fn without_member(export: &str, name: &str) -> String {
    let mut lines: Vec<Value> =
        export.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines[0].as_object_mut().unwrap().shift_remove(name).unwrap();
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Returns an export whose fourth record names another one before it.
fn with_other_previous(lines: &[&str]) -> String {
    let mut lines: Vec<Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines[3]["previous"] = lines[1]["hash"].clone();
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn what_was_changed_is_found_and_where() {
    let place = recorded();
    let kept = run(&place, &["audit", "head"], "").out.trim().to_owned();
    let exported = run(&place, &["audit", "export"], "").out;
    let ran = run(&place, &["audit", "verify", "--head", &kept], "");
    assert!(
        ran.code == 0 && ran.out.starts_with("OK: 11 records verified (1–11); head 11:"),
        "{ran:?}"
    );
    // An export is verified by the same walk.
    let file = place.home.join("export.jsonl");
    let lines: Vec<&str> = exported.lines().collect();
    let without = |n: usize| {
        let left = lines.iter().enumerate().filter(|(at, _)| *at != n);
        left.map(|(_, line)| format!("{line}\n")).collect::<String>()
    };
    let mut swapped = lines.clone();
    swapped.swap(3, 5);
    for (content, code, said) in [
        (exported.clone(), 0, "OK: "),
        (lines[4..].join("\n"), 0, "OK: "),
        (exported.replace("\"sandbox_level\"", "\"rung\""), 0, "exports say `sandbox_level` now"),
        (exported.replace("\"outcome\":\"ok\"", "\"outcome\":\"no\""), 1, "does not match"),
        (exported.replace("b.txt", "d.txt"), 1, "does not match"),
        (without(3), 1, "record 4 is missing"),
        (swapped.join("\n"), 1, "missing"),
        // A beginning that names nothing before it may be anything.
        (
            without_member(&exported, "previous"),
            1,
            "nothing says which record came before record 1",
        ),
        (
            without_member(&lines[4..].join("\n"), "previous").replacen(
                "\"os_user\":\"",
                "\"os_user\":\"x",
                1,
            ),
            1,
            "nothing says which record came before record 5",
        ),
        (exported.replacen("\"at\":\"20", "\"at\":\"19", 1), 2, "export.jsonl:1"),
        (with_other_previous(&lines), 1, "names another record before it"),
        (String::from("{}\n"), 2, "export.jsonl:1"),
        (String::new(), 2, "no record"),
    ] {
        fs::write(&file, &content).unwrap();
        let ran = run(&place, &["audit", "verify", "--file", file.to_str().unwrap()], "");
        assert_eq!(ran.code, code, "{said}: {ran:?}");
        assert!(ran.out.contains(said) || ran.err.contains(said), "{said}: {ran:?}");
    }
    for (sql, said) in [
        ("UPDATE record SET command = 'true' WHERE tool = 'Bash'", "does not match"),
        ("DELETE FROM record WHERE seq = 3", "record 3 is missing"),
        ("DELETE FROM record WHERE 10 < seq", "cut off"),
    ] {
        let place = recorded();
        database(&place).execute_batch(sql).unwrap();
        let ran = run(&place, &["audit", "verify"], "");
        assert!(
            ran.code == 1 && ran.out.starts_with("BROKEN") && ran.out.contains(said),
            "{ran:?}"
        );
        let object = run(&place, &["audit", "verify", "--json"], "").json();
        assert_eq!(object["ok"], false);
    }
    let ran = run(&place, &["audit", "verify", "--head", "1:ff"], "");
    assert!(ran.code == 2 && ran.err.contains("SEQ:HASH"), "{ran:?}");
    // A whole ledger of another time is not the one of which the head was kept.
    let other = recorded();
    let ran = run(&other, &["audit", "verify", "--head", &kept], "");
    assert!(ran.code == 1 && ran.out.contains("was kept"), "{ran:?}");
}

#[test]
fn nothing_recorded_is_nothing_wrong_and_a_ledger_that_is_gone_is() {
    let place = Place::new();
    for args in
        [&["audit", "list"][..], &["audit", "verify"], &["audit", "export"], &["audit", "head"]]
    {
        let ran = run(&place, args, "");
        assert!(ran.code == 0 && ran.err.contains("nothing is recorded"), "{args:?} {ran:?}");
    }
    // A program that verifies has an answer in every case.
    let verify = |place: &Place, more: &[&str]| {
        let ran = run(place, &[&["audit", "verify", "--json"], more].concat(), "");
        let object = ran.json();
        let error = object["error"]["message"].as_str().map(ToOwned::to_owned);
        (ran.code, object["ok"].as_bool().unwrap(), error.unwrap_or_default())
    };
    let head = format!("7:{}", "ab".repeat(32));
    assert_eq!(verify(&place, &[]), (0, true, String::new()));
    let (code, ok, error) = verify(&place, &["--head", &head]);
    assert!((code, ok) == (1, false) && error.contains("knows of records"), "{error}");
    let place = recorded();
    let (code, ok, error) = verify(&place, &["--file", "/nonexistent"]);
    assert!((code, ok) == (2, false) && error.contains("/nonexistent"), "{error}");
    let (code, ok, error) = verify(&place, &["--head", "x"]);
    assert!((code, ok) == (2, false) && error.contains("SEQ:HASH"), "{error}");
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(place.home.join(format!("state/sinew/sinew.db{end}")));
    }
    let ran = run(&place, &["audit", "verify"], "");
    assert!(ran.code == 1 && ran.err.contains("gone"), "{ran:?}");
    let (code, ok, error) = verify(&place, &[]);
    assert!((code, ok) == (1, false) && error.contains("gone"), "{error}");
    fs::write(place.home.join("state/sinew/sinew.db"), "no database").unwrap();
    let (code, ok, error) = verify(&place, &[]);
    assert!((code, ok) == (1, false) && error.contains("is damaged"), "{error}");
    fs::remove_file(place.home.join("state/sinew/sinew.db")).unwrap();
    run(&place, &["call", "List"], "");
    let ran = run(&place, &["audit", "verify"], "");
    assert!(ran.code == 1 && ran.out.contains("taken away"), "{ran:?}");
}

#[test]
fn a_damaged_database_is_kept_aside_and_told_by_everybody() {
    let place = recorded();
    let state = place.home.join("state/sinew");
    fs::write(state.join("sinew.db"), "garbage").unwrap();
    let ran = run(&place, &["call", "Write", r#"{"file_path": "d.txt", "content": "x"}"#], "");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("damaged") && ran.err.contains("sinew.db.corrupt-"), "{ran:?}");
    let ran = run(&place, &["doctor"], "");
    assert!(
        ran.code == 1
            && ran.out.contains("MISSING  ledger")
            && ran.out.contains("sinew.db.corrupt-"),
        "{ran:?}"
    );
    let verified = run(&place, &["audit", "verify", "--json"], "").json();
    let gone = verified["findings"][0]["text"].as_str().unwrap();
    assert!(gone.contains("sinew.db.corrupt-") && gone.contains("11 records"), "{verified}");
    let kept: Vec<_> = fs::read_dir(&state)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_name().to_str().unwrap().starts_with("sinew.db.corrupt-"))
        .filter(|entry| fs::read(entry.path()).unwrap() == b"garbage")
        .collect();
    assert_eq!(kept.len(), 1);
}

#[test]
fn secrets_of_commands_and_variables_are_not_kept() {
    let place = Place::new();
    let secret = "canary-of-this-test";
    let shaped = format!("ghp_{}", "a1B2c3".repeat(6));
    let command_line = format!("echo {secret} {shaped} >/dev/null; PASSWORD=hunter22 true");
    let arguments = json!({ "command": command_line }).to_string();
    let mut call = sinew(&place, &["call", "Bash", &arguments]);
    assert!(call.env("DEPLOY_TOKEN", secret).output().unwrap().status.success());
    let line = run(&place, &["audit", "list", "--json", "--tool", "Bash"], "").lines().remove(0);
    assert_eq!(
        line["command"],
        "echo [redacted: variable] [redacted: GitHub token] >/dev/null; PASSWORD=[redacted: secret] true"
    );
    for entry in fs::read_dir(place.home.join("state/sinew")).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            let content = fs::read(entry.path()).unwrap();
            for text in [secret, &shaped, "hunter22"] {
                let found = content.windows(text.len()).any(|part| part == text.as_bytes());
                assert!(!found, "{text} in {:?}", entry.path());
            }
        }
    }
    // Where no variable says that it is one, the same word is a word.
    let mut call = sinew(&place, &["call", "Bash", &arguments]);
    assert!(call.output().unwrap().status.success());
    let line = run(&place, &["audit", "list", "--json", "--tool", "Bash"], "").lines().remove(0);
    assert!(line["command"].as_str().unwrap().contains(secret), "{line}");
}

#[test]
fn records_stay_as_long_as_is_configured() {
    let place = Place::new();
    fs::write(place.root.join("a.txt"), "a\n").unwrap();
    let lines = calls(&vec![read("a.txt"); 60]);
    run(&place, &["call", "--batch"], &lines);
    assert_eq!(verified(&place)["n_records"], 61);
    for (set, n_records) in
        [("ledger.max_age_days=1", 62), ("ledger.max_records=0", 63), ("ledger.max_records=20", 21)]
    {
        run(&place, &["--set", set, "call", "List"], "");
        let verified = verified(&place);
        assert_eq!(verified["n_records"], n_records, "{set}: {verified}");
    }
    let verified = verified(&place);
    assert!(
        verified["notes"][0]["text"].as_str().unwrap().contains("removed by retention"),
        "{verified}"
    );
}

/// What lies in the way of the database keeps it from being opened.
#[test]
fn calls_without_a_ledger_do_what_is_configured() {
    for (mode, code) in [("refuse", 1), ("continue", 0)] {
        let place = Place::new();
        fs::create_dir_all(place.home.join("state/sinew/sinew.db")).unwrap();
        use std::os::unix::fs::PermissionsExt;
        let state = place.home.join("state/sinew");
        fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
        let set = format!("ledger.on_failure={mode}");
        let args = ["--set", &set, "call", "Write", r#"{"file_path": "a.txt", "content": "x"}"#];
        let ran = run(&place, &args, "");
        assert_eq!((ran.code, place.root.join("a.txt").exists()), (code, code == 0), "{ran:?}");
        assert!(ran.err.contains("cannot be recorded"), "{ran:?}");
        let ran = run(&place, &["--set", &set, "call", "List"], "");
        assert_eq!(ran.code, 0, "who only looks goes on: {ran:?}");
    }
}

/// A state directory on a disk of its own, which is filled and emptied again.
#[test]
fn a_full_disk_refuses_changes_or_lets_them_go_on() {
    let can_mount = Command::new("unshare")
        .args(["-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"])
        .output()
        .is_ok_and(|done| done.status.success());
    if !can_mount {
        assert!(std::env::var_os("SINEW_TEST_ALL").is_none(), "mounting must work here");
        std::io::stderr().write_all(b"SKIPPED a_full_disk: nobody can mount here\n").unwrap();
        return;
    }
    for (mode, code) in [("refuse", "1"), ("continue", "0")] {
        let place = Place::new();
        let script = r#"
            set -u
            mount --bind "$DATABASE" /etc/passwd || exit 99
            mount -t tmpfs -o size=1m,mode=0700 tmpfs "$STATE" || exit 99
            write() { "$SINEW" $OPTIONS call Write "{\"file_path\":\"$1\",\"content\":\"x\"}" >/dev/null; echo "$1 $?"; }
            write before
            cat /dev/zero >"$STATE/filler" 2>/dev/null
            write full
            "$SINEW" $OPTIONS call List >/dev/null 2>&1; echo "list $?"
            "$SINEW" $OPTIONS doctor 2>/dev/null | grep -c "MISSING  ledger"
            rm "$STATE/filler"
            write after
            "$SINEW" audit verify >/dev/null; echo "verify $?"
        "#;
        let root = place.root.to_str().unwrap();
        let options = format!(
            "--root {root} --approvals allow --set ledger.on_failure={mode} --set \
             tools.fs.checkpoint_before_mutation=false"
        );
        let command = command(&place.home);
        let database = place.home.join("database");
        fs::write(&database, database::naming(&place.home)).unwrap();
        let mut all = Command::new("unshare");
        all.args(["-rm", "sh", "-c", script]).env_clear();
        all.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        all.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        all.env("STATE", place.home.join("state")).env("SINEW", database::SINEW);
        all.env("OPTIONS", options).env("DATABASE", database);
        let done = all.current_dir(&place.root).output().unwrap();
        let (out, err) =
            (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
        let said: Vec<&str> = out.lines().collect();
        let full = format!("full {code}");
        assert_eq!(
            said,
            ["before 0", &full, "list 0", "1", "after 0", "verify 0"],
            "{mode}: {err}"
        );
        assert!(err.contains("calls cannot be recorded"), "{mode}: {err}");
        assert_eq!(place.root.join("full").exists(), code == "0", "{mode}");
    }
}

/// A limit of the size of files is an error like a full disk, and no end of the process.
#[test]
fn a_limit_of_files_is_told_and_ends_nothing() {
    for (mode, code) in [("refuse", 1), ("continue", 0)] {
        let place = recorded();
        let mut call = sinew(&place, &["--set", &format!("ledger.on_failure={mode}")]);
        call.args(["--set", "tools.fs.checkpoint_before_mutation=false"]);
        call.args(["call", "Write", r#"{"file_path":"limited","content":"x"}"#]);
        let words: Vec<_> = std::iter::once(call.get_program()).chain(call.get_args()).collect();
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -f 1; exec \"$@\"", "sh"]).args(&words).env_clear();
        limited.envs(call.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let done = limited.current_dir(&place.root).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{mode}: {said}");
        assert!(said.contains("cannot be recorded"), "{mode}: {said}");
        assert_eq!(place.root.join("limited").exists(), code == 0, "{mode}");
        assert_eq!(verified(&place)["ok"], true, "{mode}");
    }
}

#[test]
fn an_audit_works_beside_a_process_that_writes() {
    let place = recorded();
    let mut child = sinew(&place, &["call", "--batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for n in 0..20 {
        input.write_all(calls(&[write(&format!("{n}.txt"))]).as_bytes()).unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let verified = verified(&place);
        assert_eq!(verified["findings"], json!([]), "{verified}");
    }
    drop(input);
    assert!(child.wait().unwrap().success());
    let held = database(&place);
    held.execute_batch("BEGIN IMMEDIATE").unwrap();
    verified(&place);
}
