//! A server over MCP whose ledger another process holds.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::served::command;

/// A change stopped the reading of messages until the database was free, five seconds at most.
#[test]
fn a_busy_ledger_lets_a_change_wait_and_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("root");
    fs::create_dir(&root).unwrap();
    let mut server = command(home.path());
    server.args(["--approvals", "trust-client", "mcp", "--root"]).arg(&root);
    let mut child = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut send = |id: u64, method: &str, params: Value| {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(input, "{request}").unwrap();
    };
    let mut receive = || {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    let client = json!({ "name": "test", "version": "0" });
    let shake =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    send(1, "initialize", shake);
    assert_eq!(receive()["id"], 1);
    let write =
        |name: &str| json!({ "name": "Write", "arguments": { "file_path": name, "content": "x" } });
    send(2, "tools/call", write("first.txt"));
    assert_eq!(receive()["id"], 2);

    let other = Connection::open(home.path().join("state/sinew/sinew.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let began = Instant::now();
    send(3, "tools/call", write("second.txt"));
    send(4, "tools/call", json!({ "name": "List", "arguments": {} }));
    send(5, "tools/list", json!({}));
    // What came after the change is answered before it, which can only be while it waits.
    assert_eq!([receive()["id"].clone(), receive()["id"].clone()], [4, 5]);
    let waited = began.elapsed();
    assert!(waited < Duration::from_secs(2), "{waited:?}");
    assert!(!root.join("second.txt").exists(), "no change without its intent");

    other.execute_batch("ROLLBACK").unwrap();
    let reply = receive();
    assert_eq!((&reply["id"], &reply["result"]["isError"]), (&json!(3), &json!(false)), "{reply}");
    assert!(root.join("second.txt").exists());
    drop(input);
    assert!(child.wait().unwrap().success());
    let n = "SELECT count(*) FROM record WHERE settled = 0 AND phase = 'intent'";
    assert_eq!(other.query_row(n, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    let all = "SELECT count(*) FROM record";
    assert_eq!(other.query_row(all, [], |row| row.get::<_, i64>(0)).unwrap(), 5);
}
