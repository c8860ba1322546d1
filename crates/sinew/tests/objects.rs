//! Replies that are one object: their text, their structured result and `_meta`.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::served::{Place, command};

/// Serves a dialect over MCP and returns the result of each call, in order.
fn served(place: &Place, dialect: &str, calls: &[(&str, Value)]) -> Vec<Value> {
    let mut server = command(&place.home);
    server.args(["--dialect", dialect, "--approvals", "trust-client"]);
    let config = place.home.join("config/sinew/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(config, "[tools.commandPolicy]\nmode = \"denylist\"\n").unwrap();
    let server = server.arg("mcp").current_dir(&place.root);
    let mut child = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let client = json!({ "name": "test", "version": "0" });
    let shake =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let call =
        |(tool, args): &(&str, Value)| ("tools/call", json!({ "name": tool, "arguments": args }));
    let requests = [("initialize", shake)].into_iter().chain(calls.iter().map(call));
    for (id, (method, params)) in requests.enumerate() {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(input, "{request}").unwrap();
    }
    drop(input);
    let done = child.wait_with_output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let mut replies: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    replies.retain(|reply| reply["id"].as_u64().is_some_and(|id| id != 0));
    replies.sort_by_key(|reply| reply["id"].as_u64());
    assert_eq!(replies.len(), calls.len(), "{text}");
    replies.into_iter().map(|mut reply| reply["result"].take()).collect()
}

/// Returns the one text of a result.
#[track_caller]
fn text(result: &Value) -> &str {
    assert_eq!(result["content"].as_array().unwrap().len(), 1, "{result}");
    result["content"][0]["text"].as_str().unwrap()
}

/// Notes had stood behind the JSON of a result, so that no client could parse its text.
#[test]
fn clawft_text_is_its_object_alone() {
    let place = Place::new();
    fs::write(place.root.join("a.txt"), "one\n").unwrap();
    let calls = [
        ("exec_shell", json!({ "command": "cat a.txt", "timeout": 400 })),
        ("exec_shell", json!({ "command": "head -c 200000 /dev/zero | tr '\\0' x" })),
        ("exec_shell", json!({ "command": "echo x > Makefile; echo y" })),
        ("read_file", json!({ "path": "none" })),
    ];
    let results = served(&place, "clawft", &calls);
    for result in &results {
        let object: Value = serde_json::from_str(text(result)).unwrap();
        assert_eq!(object, result["structuredContent"], "{result}");
    }
    let notes = |at: usize| results[at]["_meta"]["sinew/meta"]["notes"].clone();
    assert_eq!(
        notes(0),
        json!([
            "[`timeout` was cut from 400 to the maximum of 300]",
            "[`read_file` does this too, without a shell]",
        ])
    );
    let cut = &results[1]["structuredContent"];
    let path = cut["output_path"].as_str().unwrap();
    assert_eq!(fs::read_to_string(place.root.join(path)).unwrap(), "x".repeat(200_000));
    assert_eq!((&cut["truncated"], &cut["original_bytes"]), (&json!(true), &json!(200_000)));
    let words = notes(1)[0].as_str().unwrap().to_owned();
    assert!(words.starts_with("[stdout was cut after ") && words.contains(path), "{words}");
    assert_eq!(notes(3), Value::Null);
}

#[test]
fn molf_text_is_its_output_alone() {
    let place = Place::new();
    fs::write(place.root.join("a.txt"), "one\n").unwrap();
    let calls = [
        ("shell_exec", json!({ "command": "cat a.txt", "timeout": 9_000_000 })),
        ("read_file", json!({ "path": "a.txt" })),
    ];
    let results = served(&place, "molf", &calls);
    for result in &results {
        assert_eq!(text(result), result["structuredContent"]["output"], "{result}");
    }
    assert_eq!(text(&results[0]), "one\n\n\nexit code: 0");
    assert_eq!(
        results[0]["_meta"]["sinew/meta"]["notes"],
        json!([
            "[`timeout` was cut from 9000000 to the maximum of 1800000]",
            "[`read_file` does this too, without a shell]",
        ])
    );
    assert_eq!(results[1]["_meta"], Value::Null);
}

#[test]
fn clawft_unknown_tool_is_its_error() {
    let place = Place::new();
    let calls = [("read_fle", json!({})), ("zzz", json!({}))];
    let results = served(&place, "clawft", &calls);
    for (result, expected) in results.iter().zip([
        "tool not found: read_fle; did you mean: read_file, write_file",
        "tool not found: zzz; known tools: read_file, write_file, edit_file, list_directory, \
         exec_shell, memory_read, memory_write, web_search, web_fetch, message, spawn",
    ]) {
        assert_eq!(result["isError"], true, "{result}");
        assert_eq!(result["structuredContent"], json!({ "error": expected }));
        assert_eq!(text(result), json!({ "error": expected }).to_string());
        assert_eq!(result["_meta"]["sinew/error"]["kind"], "not_found");
    }
}

/// Such a path had been answered as one that is missing.
#[test]
fn clawft_escape_through_missing_directory_is_invalid_path() {
    let place = Place::new();
    fs::write(place.home.join("x"), "outside").unwrap();
    fs::create_dir(place.root.join("sub")).unwrap();
    let mut calls = Vec::new();
    for path in ["none/../../home/x", "sub/none/../../../home/x", "none/../../nothing"] {
        calls.push(("read_file", json!({ "path": path }), path));
        calls.push(("write_file", json!({ "path": path, "content": "x" }), path));
        let edit = json!({ "path": path, "old_text": "outside", "new_text": "x" });
        calls.push(("edit_file", edit, path));
        calls.push(("list_directory", json!({ "path": path }), path));
    }
    let all: Vec<_> = calls.iter().map(|(tool, args, _)| (*tool, args.clone())).collect();
    for (result, (tool, _, path)) in served(&place, "clawft", &all).iter().zip(&calls) {
        let expected = format!("invalid path: path escapes workspace: {path}");
        assert_eq!(result["structuredContent"], json!({ "error": expected }), "{tool}");
        assert_eq!(result["isError"], true, "{tool}");
    }
    assert_eq!(fs::read_to_string(place.home.join("x")).unwrap(), "outside");
    assert!(!place.root.join("none").exists());
    // One that stays inside is missing.
    let missing = [("read_file", json!({ "path": "none/../sub/x" }))];
    let result = &served(&place, "clawft", &missing)[0];
    assert_eq!(result["structuredContent"], json!({ "error": "not found: none/../sub/x" }));
}

#[test]
fn clawft_configured_timeout_is_the_default() {
    let place = Place::new();
    let call = |more: &[&str], args: Value| {
        let mut command = command(&place.home);
        command.env("PATH", "/usr/bin:/bin").arg("--root").arg(&place.root).args(more);
        command.args(["--dialect", "clawft", "--approvals", "allow"]);
        command.args(["--set", "tools.commandPolicy.mode=denylist"]);
        let args = args.to_string();
        let done = command.args(["call", "--json", "exec_shell", &args]).output().unwrap();
        serde_json::from_slice::<Value>(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"))
    };
    let set = ["--set", "tools.exec.timeout=1"];
    let late = call(&set, json!({ "command": "sleep 20" }));
    assert_eq!(late["structured"]["error"], "timeout after 1s", "{late}");
    let named = call(&set, json!({ "command": "sleep 1.5; echo x", "timeout": 20 }));
    assert_eq!(named["structured"]["stdout"], "x\n", "{named}");
    let mut tools = command(&place.home);
    let tools = tools
        .arg("--root")
        .arg(&place.root)
        .args(["--dialect", "clawft"])
        .args(set)
        .args(["tools", "--format", "mcp"]);
    let listed: Value = serde_json::from_slice(&tools.output().unwrap().stdout).unwrap();
    let tools = listed["tools"].as_array().or(listed.as_array()).unwrap();
    let shell = tools.iter().find(|tool| tool["name"] == "exec_shell").unwrap();
    assert_eq!(shell["inputSchema"]["properties"]["timeout"]["default"], 1, "{shell}");
}
