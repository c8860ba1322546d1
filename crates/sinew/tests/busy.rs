//! A server over MCP beside a process that holds what a change needs: its ledger, or the lock on the
//! directory.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use crate::served::command;

/// A running `sinew mcp` after the handshake.
struct Server {
    home: tempfile::TempDir,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("root");
        fs::create_dir(&root).unwrap();
        let mut command = command(home.path());
        command.args(["--approvals", "trust-client", "mcp"]).current_dir(&root);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut server = Self { home, child, input, output };
        let client = json!({ "name": "test", "version": "0" });
        let shake =
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        server.send(1, "initialize", &shake);
        assert_eq!(server.receive()["id"], 1);
        server
    }

    fn root(&self) -> PathBuf {
        self.home.path().join("root")
    }

    fn send(&mut self, id: u64, method: &str, params: &Value) {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(self.input, "{request}").unwrap();
    }

    fn call(&mut self, id: u64, tool: &str, arguments: &Value) {
        self.send(id, "tools/call", &json!({ "name": tool, "arguments": arguments }));
    }

    fn edit(&mut self, id: u64, old: &str, new: &str) {
        let arguments = json!({ "file_path": "a.txt", "old_string": old, "new_string": new });
        self.call(id, "Edit", &arguments);
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    }

    /// Ends the server and returns its ledger.
    fn end(self) -> (Ledger, tempfile::TempDir) {
        let Self { home, mut child, input, .. } = self;
        drop(input);
        assert!(child.wait().unwrap().success());
        (Ledger::open(home.path()), home)
    }
}

/// The database of a server.
struct Ledger(Connection);

impl Ledger {
    fn open(home: &Path) -> Self {
        Self(Connection::open(home.join("state/sinew/sinew.db")).unwrap())
    }

    fn count(&self, which: &str) -> i64 {
        let count = format!("SELECT count(*) FROM record WHERE {which}");
        self.0.query_row(&count, [], |row| row.get(0)).unwrap()
    }
}

/// A change stopped the reading of messages until the database was free, five seconds at most.
#[test]
fn a_busy_ledger_lets_a_change_wait_and_nothing_else() {
    let mut server = Server::start();
    let write = |name: &str| json!({ "file_path": name, "content": "x" });
    server.call(2, "Write", &write("first.txt"));
    assert_eq!(server.receive()["id"], 2);

    let other = Ledger::open(server.home.path());
    other.0.execute_batch("BEGIN IMMEDIATE").unwrap();
    let began = Instant::now();
    server.call(3, "Write", &write("second.txt"));
    server.call(4, "List", &json!({}));
    server.send(5, "tools/list", &json!({}));
    // What came after the change is answered before it, which can only be while it waits.
    assert_eq!([server.receive()["id"].clone(), server.receive()["id"].clone()], [4, 5]);
    let waited = began.elapsed();
    assert!(waited < Duration::from_secs(2), "{waited:?}");
    let second = server.root().join("second.txt");
    assert!(!second.exists(), "no change without its intent");

    other.0.execute_batch("ROLLBACK").unwrap();
    let reply = server.receive();
    assert_eq!((&reply["id"], &reply["result"]["isError"]), (&json!(3), &json!(false)), "{reply}");
    assert!(second.exists());
    let (ledger, _home) = server.end();
    assert_eq!(ledger.count("seq IN (SELECT seq FROM unsettled)"), 0);
    assert_eq!(ledger.count("phase <> 'event'"), 5);
}

/// Each change stopped the reading of messages for two seconds while another process held the lock.
#[test]
fn a_locked_directory_lets_a_change_wait_and_nothing_else() {
    let mut server = Server::start();
    let file = server.root().join("a.txt");
    fs::write(&file, "one two").unwrap();
    let lock = fs::File::open(server.root()).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();

    // The lock is never given back: the wait ends by itself.
    let began = Instant::now();
    server.edit(2, "one", "1");
    server.send(3, "ping", &json!({}));
    assert_eq!(server.receive()["id"], 3, "the ping does not wait");
    let waited = began.elapsed();
    assert!(waited < Duration::from_secs(1), "{waited:?}");
    let reply = server.receive();
    assert_eq!((&reply["id"], &reply["result"]["isError"]), (&json!(2), &json!(true)), "{reply}");
    let said = reply["result"].to_string();
    assert!(said.contains("timeout") && said.contains("repeat the call"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(fs::read_to_string(&file).unwrap(), "one two");

    // The caller takes the call back: it gets no answer, and the wait is over.
    let began = Instant::now();
    server.edit(4, "one", "1");
    server.send(5, "ping", &json!({}));
    assert_eq!(server.receive()["id"], 5);
    let taken_back = json!({
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": { "requestId": 4 },
    });
    writeln!(server.input, "{taken_back}").unwrap();
    while Ledger::open(server.home.path()).count("outcome = 'cancelled'") < 1 {
        assert!(began.elapsed() < Duration::from_secs(10), "the call goes on");
        std::thread::yield_now();
    }
    let waited = began.elapsed();
    assert!(waited < Duration::from_millis(1_900), "it ended by itself: {waited:?}");

    // The lock is given back: the change goes on.
    server.edit(6, "two", "2");
    server.send(7, "ping", &json!({}));
    assert_eq!(server.receive()["id"], 7);
    drop(lock);
    let reply = server.receive();
    assert_eq!((&reply["id"], &reply["result"]["isError"]), (&json!(6), &json!(false)), "{reply}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "one 2");
    let (ledger, _home) = server.end();
    assert_eq!(ledger.count("seq IN (SELECT seq FROM unsettled)"), 0);
}
