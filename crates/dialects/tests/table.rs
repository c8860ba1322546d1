//! What must hold for every row of every dialect.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use sinew_dialects::ALL;
use sinew_tool::{Arguments, Kind};

/// Returns arguments that fit a schema: every required parameter with a plain value of its type.
fn example(schema: &Value) -> Arguments {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    required
        .iter()
        .filter_map(Value::as_str)
        .map(|name| (name.to_owned(), value(name, &schema["properties"][name])))
        .collect()
}

fn value(name: &str, property: &Value) -> Value {
    if let Some(first) = property["enum"].get(0) {
        return first.clone();
    }
    match property["type"].as_str().unwrap_or_default() {
        "integer" | "number" => json!(1),
        "boolean" => json!(true),
        "object" => json!({ "name": "value" }),
        "array" if name == "needs" => json!(["network"]),
        "array" if property["items"]["type"] == "string" => json!(["cat"]),
        "array" => json!([Value::Object(example(&property["items"]))]),
        _ if ["patch", "input"].contains(&name) => {
            json!("*** Begin Patch\n*** Add File: x\n+x\n*** End Patch\n")
        }
        _ if name.contains("path") => json!("/somewhere/file"),
        // Of another tool.
        _ if name == "arguments" => json!({}),
        // A method that may have a body.
        _ if name == "method" => json!("POST"),
        _ if name.ends_with("sha256") => json!("0".repeat(64)),
        _ if name.starts_with("old") => json!("old"),
        _ => json!("new"),
    }
}

#[test]
fn names_are_unique_and_carried_by_protocols() {
    for dialect in ALL {
        let tools = (dialect.tools)();
        let names: BTreeSet<String> =
            tools.iter().map(|tool| tool.name().replace("::", "__")).collect();
        assert_eq!(names.len(), tools.len(), "{}", dialect.name);
        for name in names {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            assert!(name.len() <= 64 && name.chars().all(fits), "{name}");
        }
    }
}

#[test]
fn every_row_decodes_its_required_arguments_and_refuses_unknown_ones() {
    for dialect in ALL {
        let mut settings = (dialect.settings)();
        settings.workspace_root = Some("/somewhere".into());
        let settings = Arc::new(settings);
        for tool in (dialect.tools)() {
            let named = format!("{} {}", dialect.name, tool.name());
            let args = example(&tool.parameters());
            let prepared = Arc::clone(&tool).prepare(args.clone(), &settings);
            assert!(prepared.is_ok(), "{named}: {:?}", prepared.err());

            let mut unknown = args.clone();
            unknown.insert(String::from("surprise"), json!(1));
            let error = Arc::clone(&tool).prepare(unknown, &settings).err().expect("a refusal");
            assert_eq!(error.kind, Kind::InvalidArgs, "{named}");
            assert!(error.message.contains("`surprise`"), "{named}: {error}");

            for name in args.keys() {
                let mut mistyped = args.clone();
                mistyped.insert(name.clone(), json!({}));
                let error = Arc::clone(&tool).prepare(mistyped, &settings).err().expect(&named);
                assert_eq!(error.kind, Kind::InvalidArgs, "{named}");
                assert!(error.message.contains(&format!("`{name}`")), "{named}: {error}");
            }
        }
    }
}

#[test]
fn every_parameter_reaches_its_operation() {
    for dialect in ALL {
        let settings = Arc::new((dialect.settings)());
        for tool in (dialect.tools)() {
            let schema = tool.parameters();
            let properties = schema["properties"].as_object().cloned().unwrap_or_default();
            let mut args = example(&schema);
            for (name, property) in &properties {
                let value = match property["enum"].as_array() {
                    Some(words) => words[0].clone(),
                    None => value(name, property),
                };
                args.entry(name.clone()).or_insert(value);
            }
            // An operation refuses fields that it does not know, so a parameter that leads nowhere
            // cannot decode.
            // The first lines and the last ones cannot be asked for at once.
            if args.contains_key("head") {
                args.shift_remove("tail");
            }
            // A skill is loaded or released.
            args.shift_remove("release");
            // A terminal is begun or goes on.
            if args.contains_key("keys") {
                ["command", "cwd"].iter().for_each(|name| drop(args.shift_remove(*name)));
                args.insert(String::from("keys"), json!(["Enter"]));
            }
            let named = format!("{} {}", dialect.name, tool.name());
            let prepared = tool.prepare(args, &settings);
            assert!(prepared.is_ok(), "{named}: {:?}", prepared.err());
        }
    }
}

#[test]
fn the_native_catalog_stays_small() {
    let native = sinew_dialects::dialect("native").expect("the native dialect");
    let tools = (native.tools)();
    let bytes: usize = tools
        .iter()
        .map(|tool| {
            tool.name().len() + tool.description().len() + tool.parameters().to_string().len()
        })
        .sum();
    // About four bytes of JSON are one token; the budget is 120 tokens a tool.
    assert!(bytes / tools.len() <= 480, "{bytes} bytes for {} tools", tools.len());
}
