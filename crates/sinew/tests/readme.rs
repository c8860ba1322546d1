//! The configurations of clients in README and docs/clients.md: each is read as its client reads it, and what it starts serves
//! tools. The files that the README links exist.

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

fn is_sinew(command: &str) -> bool {
    ["sinew", "/path/to/sinew"].contains(&command)
}

/// Returns the arguments of every `sinew` that a configuration starts.
fn started(value: &Value) -> Vec<Vec<String>> {
    let words = |value: &Value| -> Option<Vec<String>> {
        value.as_array()?.iter().map(|word| Some(word.as_str()?.to_owned())).collect()
    };
    let own = match (&value["command"], &value["args"]) {
        (Value::String(command), args) if is_sinew(command) => words(args),
        (Value::Array(all), _) if all[0].as_str().is_some_and(is_sinew) => {
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
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = ["README.md", "docs/clients.md"];
    let text: String =
        pages.iter().map(|page| fs::read_to_string(top.join(page)).unwrap()).collect();
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

#[test]
fn every_linked_page_is_there() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = fs::read_dir(top.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|kind| kind == "md"));
    let pages: Vec<_> = pages.chain([top.join("README.md")]).collect();
    let mut n_links = 0;
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        for link in text.split("](").skip(1).map(|rest| rest.split([')', '#']).next().unwrap()) {
            if link.is_empty() || link.contains("://") || link.contains(' ') {
                continue;
            }
            n_links += 1;
            let file = page.parent().unwrap().join(link);
            assert!(file.exists(), "{}: {link}", page.display());
        }
    }
    assert!(50 < n_links, "{n_links}");
    // Each page is reached from the README.
    let readme = fs::read_to_string(top.join("README.md")).unwrap();
    for page in pages.iter().filter(|page| !page.ends_with("README.md")) {
        let name = format!("docs/{}", page.file_name().unwrap().to_string_lossy());
        assert!(readme.contains(&name), "{name}");
    }
}
