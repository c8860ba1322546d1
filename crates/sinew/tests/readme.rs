//! The configurations of clients in the README: each is read as its client reads it, and what it
//! starts serves tools.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::served;

/// Returns the blocks of a language.
fn blocks<'t>(text: &'t str, language: &str) -> Vec<&'t str> {
    let start = format!("```{language}\n");
    let parts = text.split(start.as_str()).skip(1);
    parts.map(|part| part.split("\n```").next().unwrap()).collect()
}

/// Returns the arguments of every `sinew` that a configuration starts.
fn started(value: &Value) -> Vec<Vec<String>> {
    let words = |value: &Value| -> Option<Vec<String>> {
        value.as_array()?.iter().map(|word| Some(word.as_str()?.to_owned())).collect()
    };
    let own = match (&value["command"], &value["args"]) {
        (Value::String(command), args) if command == "sinew" => words(args),
        (Value::Array(all), _) if all[0] == "sinew" => {
            words(&value["command"]).map(|all| all[1..].to_vec())
        }
        _ => None,
    };
    let below = match value {
        Value::Object(members) => members.values().flat_map(started).collect(),
        _ => Vec::new(),
    };
    own.into_iter().chain(below).collect()
}

/// Returns the tools that a server with these arguments lists.
fn tools(home: &Path, args: &[String]) -> Vec<String> {
    let project = home.join("project");
    let args = args.iter().map(|arg| arg.replace("/path/to/project", project.to_str().unwrap()));
    let mut command = served::command(home);
    command.current_dir(&project).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let client = json!({ "name": "test", "version": "1" });
    let hello =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let mut input = server.stdin.take().unwrap();
    for line in [
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }),
    ] {
        writeln!(input, "{line}").unwrap();
    }
    drop(input);
    let said = String::from_utf8(server.wait_with_output().unwrap().stdout).unwrap();
    let lists = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let list = lists.into_iter().find(|answer| answer["id"] == 1).unwrap();
    let tools = list["result"]["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_configuration_of_a_client_serves_tools() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = fs::read_to_string(readme).unwrap();
    let json = blocks(&text, "json").into_iter().map(|block| serde_json::from_str(block).unwrap());
    let toml =
        blocks(&text, "toml").into_iter().map(|block| toml_edit::de::from_str(block).unwrap());
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("project")).unwrap();
    let (mut n_instead, mut n_beside) = (0, 0);
    for value in json.chain(toml).collect::<Vec<Value>>() {
        for args in started(&value) {
            let tools = tools(dir.path(), &args);
            assert!(
                ["Read", "Write", "Bash"].iter().all(|tool| tools.contains(&(*tool).to_owned()))
            );
            n_instead += 1;
        }
        // The arguments beside a client's own tools stand alone.
        if let Value::Array(args) = &value {
            let args: Vec<String> = args.iter().map(|arg| arg.as_str().unwrap().into()).collect();
            let beside = ["MultiEdit", "ApplyPatch", "CheckpointList", "CheckpointRestore"];
            assert_eq!(tools(dir.path(), &args), beside);
            n_beside += 1;
        }
    }
    assert_eq!((n_instead, n_beside), (6, 1));
}

/// The guide is compiled as a test, and the README is not.
#[test]
fn example_in_rust_is_that_of_the_guide() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = fs::read_to_string(top.join("README.md")).unwrap();
    let guide = fs::read_to_string(top.join("docs/embedding.md")).unwrap();
    let examples = blocks(&readme, "rust");
    assert_eq!(examples.first(), blocks(&guide, "rust,no_run").first());
    assert_eq!(examples.len(), 1);
}
