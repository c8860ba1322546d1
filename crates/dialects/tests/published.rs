//! The catalog of `mcp-filesystem` against the one that its server publishes.

use serde_json::{Map, Value, json};
use sinew_tool::{Effects, Facts};

/// Returns a schema without the parts that are not compared: words, bounds of numbers, that lists of objects are
/// not empty, and that other names are refused.
fn plain(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let left_out = ["description", "minimum", "additionalProperties"];
            let of_objects = schema["items"]["type"] == "object";
            let kept = fields.iter().filter(|(name, _)| {
                let is_bound = of_objects && *name == "minItems";
                !is_bound && !left_out.contains(&name.as_str())
            });
            Value::Object(kept.map(|(name, value)| (name.clone(), plain(value))).collect())
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}

/// Returns the annotations of MCP that facts stand for.
fn annotations(facts: &Facts) -> Value {
    let looks = facts.effects.only_observes();
    let mut all = Map::new();
    all.insert(String::from("readOnlyHint"), json!(looks));
    if !looks {
        all.insert(String::from("idempotentHint"), json!(facts.idempotent));
        all.insert(String::from("destructiveHint"), json!(facts.destructive));
    }
    all.insert(String::from("openWorldHint"), json!(facts.effects.contains(Effects::NETWORK)));
    Value::Object(all)
}

#[test]
fn the_filesystem_dialect_has_the_catalog_of_its_server() {
    let published: Vec<Value> =
        serde_json::from_str(include_str!("catalog/mcp-filesystem.json")).expect("a catalog");
    let dialect = sinew_dialects::dialect("mcp-filesystem").expect("the dialect");
    let served = (dialect.tools)();
    let names = |tools: &[Value]| tools.iter().map(|t| t["name"].clone()).collect::<Vec<_>>();
    let ours: Vec<Value> = served.iter().map(|tool| json!({ "name": tool.name() })).collect();
    assert_eq!(names(&ours), names(&published), "the same tools in the same order");
    for (tool, theirs) in served.iter().zip(&published) {
        let name = tool.name();
        assert_eq!(plain(&tool.parameters()), plain(&theirs["inputSchema"]), "{name}");
        assert_eq!(tool.output_schema().as_ref(), Some(&theirs["outputSchema"]), "{name}");
        assert_eq!(annotations(&tool.facts()), theirs["annotations"], "{name}");
        assert!(tool.title().is_some(), "{name}");
    }
}
