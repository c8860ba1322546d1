//! The catalogs of the five published pages against the served ones: `n of 42 tools exact`.
//!
//! A tool is exact when its name, its parameters in their order, their types, required marks and
//! defaults are those of the page. The number may only rise.

use serde_json::{Map, Value, json};

/// The pages, and the dialect that serves each, where there is one yet.
const PAGES: &[(&str, &str)] = &[
    ("molf", include_str!("catalog/molf.json")),
    ("moltis", include_str!("catalog/moltis.json")),
    ("agentos", include_str!("catalog/agentos.json")),
    ("aionrs", include_str!("catalog/aionrs.json")),
    ("clawft", include_str!("catalog/clawft.json")),
];

/// The tools that are exact now. Add every tool that becomes exact; never remove one.
const EXACT: &[(&str, &[&str])] = &[
    ("molf", &["shell_exec", "read_file", "write_file", "edit_file", "glob", "grep", "skill"]),
    ("moltis", &["Read", "Write", "Edit", "MultiEdit", "Glob", "Grep", "checkpoint_restore"]),
    (
        "agentos",
        &[
            "tool::file_read",
            "tool::file_write",
            "tool::file_list",
            "tool::apply_patch",
            "tool::shell_exec",
            "tool::web_fetch",
            "tool::web_search",
            "tool::agent_spawn",
            "tool::agent_send",
        ],
    ),
    ("aionrs", &["Read", "Write", "Edit", "Bash", "Grep", "Glob", "Spawn", "ToolSearch"]),
    (
        "clawft",
        &[
            "read_file",
            "write_file",
            "edit_file",
            "list_directory",
            "exec_shell",
            "memory_read",
            "memory_write",
            "web_search",
            "web_fetch",
            "message",
            "spawn",
        ],
    ),
];

/// Returns a tool's schema in the form of the catalogs.
fn plain(name: &str, schema: &Value) -> Value {
    json!({ "name": name, "parameters": parameters(schema) })
}

fn parameters(schema: &Value) -> Vec<Value> {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    properties
        .iter()
        .map(|(name, property)| {
            let mut parameter = Map::new();
            parameter.insert(String::from("name"), json!(name));
            let items = &property["items"];
            let kind = match (property["type"].as_str().unwrap_or_default(), &items["type"]) {
                ("array", Value::String(inner)) => format!("array<{inner}>"),
                (kind, _) => kind.to_owned(),
            };
            parameter.insert(String::from("type"), json!(kind));
            parameter.insert(String::from("required"), json!(required.contains(&name.as_str())));
            if items["properties"].is_object() {
                parameter.insert(String::from("items"), json!(parameters(items)));
            }
            for key in ["enum", "default"] {
                if let Some(value) = property.get(key) {
                    parameter.insert(key.to_owned(), value.clone());
                }
            }
            Value::Object(parameter)
        })
        .collect()
}

#[test]
fn tools_are_exact_and_the_number_only_rises() {
    let mut exact = Vec::new();
    let mut all = 0;
    for (page, catalog) in PAGES {
        let catalog: Vec<Value> = serde_json::from_str(catalog).expect("a catalog");
        let served = sinew_dialects::dialect(page).map(|d| (d.tools)()).unwrap_or_default();
        all += catalog.len();
        let mut names = Vec::new();
        for tool in &catalog {
            let name = tool["name"].as_str().expect("a name");
            let Some(ours) = served.iter().find(|ours| ours.name() == name) else { continue };
            let ours = plain(name, &ours.parameters());
            if &ours == tool {
                names.push(name.to_owned());
            } else {
                println!("{page} {name}:\n  page {tool}\n  ours {ours}");
            }
        }
        if !names.is_empty() {
            exact.push((*page, names));
        }
    }
    let n: usize = exact.iter().map(|(_, names)| names.len()).sum();
    println!("{n} of {all} tools exact");
    assert_eq!(all, 42, "the five pages have 42 tools");
    let exact: Vec<(&str, Vec<&str>)> = exact
        .iter()
        .map(|(page, names)| (*page, names.iter().map(String::as_str).collect()))
        .collect();
    let known: Vec<(&str, Vec<&str>)> =
        EXACT.iter().map(|(page, names)| (*page, names.to_vec())).collect();
    assert_eq!(exact, known, "raise EXACT when a tool became exact; mend the tool when it was");
}

const UNDO: &str = include_str!("../../sinew/tests/undo.rs");
const COMMANDS: &str = include_str!("commands.rs");

/// Tests with calls that golden texts do not hold: those that need a store, and those of commands.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("moltis", "checkpoint_restore", UNDO),
    ("molf", "shell_exec", COMMANDS),
    ("agentos", "tool::shell_exec", COMMANDS),
    ("aionrs", "Bash", COMMANDS),
    ("clawft", "exec_shell", COMMANDS),
    ("clawft", "spawn", COMMANDS),
];

/// The golden calls of the pages.
const CALLS: &[(&str, &str)] = &[
    ("molf", include_str!("calls/molf.txt")),
    ("moltis", include_str!("calls/moltis.txt")),
    ("agentos", include_str!("calls/agentos.txt")),
    ("aionrs", include_str!("calls/aionrs.txt")),
    ("clawft", include_str!("calls/clawft.txt")),
];

/// A tool counts as exact in calls when the reply to a call that succeeds and the reply to one that fails are golden.
#[test]
fn exact_tools_have_golden_calls() {
    let mut n_exact = 0;
    for (page, names) in EXACT {
        let calls = CALLS.iter().find(|(known, _)| known == page).expect("golden calls").1;
        for name in *names {
            let of_tool =
                calls.split("\n== ").filter(|call| call.starts_with(&format!("{name}: ")));
            let (done, failed): (Vec<&str>, Vec<&str>) =
                of_tool.partition(|call| call.contains("\n-- ok: true\n"));
            let elsewhere =
                ELSEWHERE.iter().find(|(dialect, tool, _)| (dialect, tool) == (page, name));
            let is_exact = match elsewhere {
                // A row of those that succeed and one of those that fail.
                Some((dialect, tool, COMMANDS)) => {
                    2 <= COMMANDS.matches(&format!("(\"{dialect}\", \"{tool}\")")).count()
                }
                Some((_, tool, test)) => test.contains(&format!("call(\"{tool}\"")),
                None => !done.is_empty() && !failed.is_empty(),
            };
            assert!(is_exact, "{page} {name}: {} and {}", done.len(), failed.len());
            n_exact += 1;
        }
    }
    assert_eq!(n_exact, 42, "of 42 tools");
}
