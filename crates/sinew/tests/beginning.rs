//! How the calls of one client of `sinew mcp` run beside one another.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::served::{Place, command};

/// Sends every call before it reads an answer; returns the texts of the answers in the order of the calls.
fn together(args: &[&str], place: &Place, calls: &[(&str, Value)]) -> Vec<String> {
    let mut command = command(&place.home);
    command.arg("--root").arg(&place.root).args(args).args(["--approvals", "allow", "mcp"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let shake = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" } });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": shake });
    writeln!(input, "{hello}").unwrap();
    output.next().unwrap().unwrap();
    for (id, (name, arguments)) in calls.iter().enumerate() {
        let params = json!({ "name": name, "arguments": arguments });
        let call =
            json!({ "jsonrpc": "2.0", "id": id + 1, "method": "tools/call", "params": params });
        writeln!(input, "{call}").unwrap();
    }
    input.flush().unwrap();
    let mut texts = vec![String::new(); calls.len()];
    for _ in calls {
        let reply: Value = serde_json::from_str(&output.next().unwrap().unwrap()).unwrap();
        let id = usize::try_from(reply["id"].as_u64().unwrap()).unwrap();
        let text = &reply["result"]["content"][0]["text"];
        texts[id - 1] = text.as_str().unwrap_or_default().to_owned();
    }
    drop(input);
    assert!(child.wait().unwrap().success());
    texts
}

/// In aionrs what does more than read runs alone; all of these calls had run side by side.
#[test]
fn aionrs_calls_take_turns() {
    let calls = |file: &str| {
        [
            ("Bash", json!({ "command": "sleep 0.5; echo first > f" })),
            ("Read", json!({ "file_path": file })),
            ("Bash", json!({ "command": "cat f; sleep 0.2; echo second > f" })),
            ("Grep", json!({ "pattern": "second" })),
        ]
    };
    let place = Place::new();
    let file = place.root.join("f").display().to_string();
    let texts = together(&["--dialect", "aionrs"], &place, &calls(&file));
    assert!(texts[1].contains("first"), "{texts:?}");
    assert!(texts[2].contains("STDOUT:\nfirst"), "{texts:?}");
    assert!(texts[3].contains("second"), "{texts:?}");
}

/// Other vocabularies run calls side by side.
#[test]
fn calls_of_others_do_not_wait() {
    let place = Place::new();
    let calls = [
        ("exec", json!({ "command": "while ! test -e f; do sleep 0.05; done; echo seen" })),
        ("exec", json!({ "command": "touch f" })),
    ];
    let texts = together(&["--dialect", "moltis"], &place, &calls);
    assert!(texts[0].contains("seen"), "{texts:?}");
}
