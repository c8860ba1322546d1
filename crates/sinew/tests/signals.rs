//! Signals that end the command: answered and running calls have their closing records, and the
//! exit code says which signal it was.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::LocalModes;
use serde_json::{Value, json};

use crate::served::command;

/// The signals, and the exit codes that name them.
const SIGNALS: [(Signal, i32); 3] = [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)];

/// Returns a home and a root with a file in it.
fn place() -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("a.txt"), "one\n").unwrap();
    (home, root)
}

/// Returns the command with no signal ignored: a shell that runs the tests in the background ignores some.
fn heeding(home: &Path) -> Command {
    let plain = command(home);
    let mut heeding = Command::new("/usr/bin/env");
    heeding.arg("--default-signal=HUP,INT,TERM").arg(plain.get_program());
    heeding.args(plain.get_args()).env_clear();
    heeding.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    heeding.current_dir(home);
    heeding
}

#[track_caller]
fn end(child: &mut Child, (signal, code): (Signal, i32)) {
    kill_process(Pid::from_child(child), signal).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(code), "{signal:?}");
}

/// Returns the tool and the error of each closing record, in order.
fn ends(home: &Path) -> Vec<(String, String)> {
    let database = Connection::open(home.join("state/sinew/sinew.db")).unwrap();
    let open = "SELECT count(*) FROM unsettled";
    assert_eq!(database.query_row(open, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    let ends = "SELECT tool, outcome FROM record WHERE phase = 'outcome' ORDER BY seq";
    let mut ends = database.prepare(ends).unwrap();
    let rows = ends.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

fn done(tool: &str) -> (String, String) {
    (String::from(tool), String::from("ok"))
}

fn cancelled(tool: &str) -> (String, String) {
    (String::from(tool), String::from("cancelled"))
}

/// A server after its handshake.
struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start(home: &Path, root: &Path) -> Self {
        let mut server = heeding(home);
        server.args(["--approvals", "trust-client", "mcp"]).current_dir(root);
        let mut child = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut server = Self { child, input, output };
        let client = json!({ "name": "test", "version": "0" });
        let shake =
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        server.send("initialize", &shake);
        assert!(server.receive()["result"].is_object());
        server
    }

    fn send(&mut self, method: &str, params: &Value) {
        let request = json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params });
        writeln!(self.input, "{request}").unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn call(&mut self, tool: &str, arguments: &Value) {
        self.send("tools/call", &json!({ "name": tool, "arguments": arguments }));
        let reply = self.receive();
        assert_eq!(reply["result"]["isError"], false, "{reply}");
    }
}

/// The row of the Read and the outcome of the Edit were lost with the process.
#[test]
fn a_server_that_is_told_to_end_records_what_it_answered() {
    for signal in SIGNALS {
        let (home, root) = place();
        let mut server = Server::start(home.path(), &root);
        let edit = json!({ "file_path": "a.txt", "old_string": "one", "new_string": "two" });
        server.call("Read", &json!({ "file_path": "a.txt" }));
        server.call("Edit", &edit);
        end(&mut server.child, signal);
        assert_eq!(ends(home.path()), [done("Read"), done("Edit")]);
        assert_eq!(fs::read_dir(&root).unwrap().count(), 1, "nothing else is left");
    }
}

#[test]
fn a_call_that_runs_when_the_server_must_end_is_recorded_as_cancelled() {
    let (home, root) = place();
    let line = "lorem ipsum dolor sit amet, consetetur sadipscing elitr\n".repeat(40_000);
    for n in 0..40 {
        fs::write(root.join(format!("{n}.txt")), &line).unwrap();
    }
    let mut server = Server::start(home.path(), &root);
    let arguments = json!({ "pattern": r"(\w+[ ,]+){3,6}(\w{3}){5}\d$" });
    let meta = json!({ "progressToken": 1 });
    server.send("tools/call", &json!({ "name": "Grep", "arguments": arguments, "_meta": meta }));
    assert_eq!(server.receive()["method"], "notifications/progress");
    end(&mut server.child, SIGNALS[0]);
    assert_eq!(ends(home.path()), [cancelled("Grep")]);
}

#[test]
fn a_batch_that_is_told_to_end_records_what_it_answered() {
    let (home, root) = place();
    let mut batch = heeding(home.path());
    batch.args(["call", "--batch", "--root"]).arg(&root);
    let mut child = batch.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, r#"{{"name": "Read", "arguments": {{"file_path": "a.txt"}}}}"#).unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("\"ok\":true"), "{line}");
    end(&mut child, SIGNALS[0]);
    assert_eq!(ends(home.path()), [done("Read")]);
}

/// Ctrl-C at the question left no record at all.
#[test]
fn a_question_that_is_broken_off_is_recorded_and_changes_nothing() {
    let (home, root) = place();
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let side = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut terminal = File::from(terminal);
    let mut call = heeding(home.path());
    call.args(["--approvals", "ask", "call", "Write"]);
    call.args([r#"{"file_path": "new.txt", "content": "x"}"#, "--root"]);
    call.arg(&root).stdin(side.try_clone().unwrap()).stdout(Stdio::null()).stderr(side);
    let mut child = call.spawn().unwrap();
    let (mut shown, mut buffer) = (String::new(), [0; 4_096]);
    while !shown.contains("/N]") {
        let n = terminal.read(&mut buffer).unwrap();
        shown.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
    let in_question = rustix::termios::tcgetattr(&terminal).unwrap().local_modes;
    end(&mut child, SIGNALS[1]);
    let after = rustix::termios::tcgetattr(&terminal).unwrap().local_modes;
    let lines = LocalModes::ICANON | LocalModes::ECHO;
    assert!(!in_question.intersects(lines) && after.contains(lines), "{in_question:?} {after:?}");
    assert_eq!(ends(home.path()), [cancelled("Write")]);
    assert_eq!(fs::read_dir(&root).unwrap().count(), 1, "nothing is left");
}

/// `nohup` means that the process outlives its terminal.
#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    let (home, root) = place();
    let program = env!("CARGO_BIN_EXE_sinew");
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", "trap '' HUP; exec \"$@\"", "sh", program, "call", "--batch", "--root"]);
    shell.arg(&root).env_clear().env("HOME", home.path());
    shell.env("XDG_STATE_HOME", home.path().join("state"));
    let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..2 {
        writeln!(input, r#"{{"name": "Read", "arguments": {{"file_path": "a.txt"}}}}"#).unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(line.contains("\"ok\":true"), "{line}");
        kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    }
    drop(input);
    assert!(child.wait().unwrap().success());
    assert_eq!(ends(home.path()), [done("Read"), done("Read")]);
}
