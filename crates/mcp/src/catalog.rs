//! The tool catalog as MCP lists it.

use std::sync::Arc;

use rmcp::model::{ListToolsResult, ServerResult, Tool, ToolAnnotations};
use serde_json::Value;
use sinew_runtime::ToolInfo;
use sinew_tool::Effects;
use sinew_tool::wire_name;

/// The place of the tools in an empty list.
const EMPTY: &str = "\"tools\":[]";

/// Returns a list of tools, serialised one by one: their schemas would need several times its memory.
pub(crate) fn list_bytes(tools: impl Iterator<Item = ToolInfo>, stateless: bool) -> Vec<u8> {
    let empty = serde_json::to_string(&shaped(Vec::new(), stateless)).unwrap_or_default();
    let Some((before, after)) = empty.split_once(EMPTY) else {
        // The library writes an empty list in another way.
        let all = shaped(tools.map(tool).collect(), stateless);
        return serde_json::to_vec(&all).unwrap_or_default();
    };
    let mut bytes = [before, EMPTY.trim_end_matches(']')].concat().into_bytes();
    for (n, info) in tools.enumerate() {
        if 0 < n {
            bytes.push(b',');
        }
        // A tool is made of texts and JSON, which always become JSON.
        let _ = serde_json::to_writer(&mut bytes, &tool(info));
    }
    bytes.push(b']');
    bytes.extend_from_slice(after.as_bytes());
    bytes.shrink_to_fit();
    bytes
}

/// Returns a list in the shape of a client with or without handshake.
fn shaped(tools: Vec<Tool>, stateless: bool) -> ServerResult {
    let mut result = ServerResult::ListToolsResult(list(tools));
    if stateless {
        result.fill_missing_cache_hints();
    } else {
        result.strip_result_type_for_legacy_peer();
    }
    result
}

pub(crate) fn list(tools: Vec<Tool>) -> ListToolsResult {
    ListToolsResult::with_all_items(tools)
}

/// Returns a tool as the protocol library has it.
pub(crate) fn tool(info: ToolInfo) -> Tool {
    let object = |schema: Value| match schema {
        Value::Object(object) => Arc::new(object),
        _ => Arc::default(),
    };
    let facts = info.facts;
    let looks = facts.effects.only_observes();
    let mut tool = Tool::new(wire_name(&info.name), info.description, object(info.parameters));
    tool.title = info.title;
    tool.output_schema = info.output_schema.map(object);
    tool.annotations = Some(ToolAnnotations::from_raw(
        None,
        Some(looks),
        (!looks).then_some(facts.destructive),
        (!looks).then_some(facts.idempotent),
        Some(facts.effects.contains(Effects::NETWORK)),
    ));
    tool
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sinew_runtime::{Owner, Visibility};
    use sinew_tool::Facts;

    use super::*;

    #[test]
    fn lists_are_those_of_the_library() {
        let one = |n: usize| ToolInfo {
            name: format!("a::{n}"),
            title: (n == 1).then(|| String::from("\"tools\":[]")),
            description: String::from("\"tools\":[] and é"),
            parameters: json!({"type": "object", "properties": {"tools": []}}),
            output_schema: (n == 2).then(|| json!({"type": "object"})),
            facts: Facts::UNKNOWN,
            core: false,
            owner: Owner::Program,
            visibility: Visibility::Shown,
        };
        for n in [0, 1, 3] {
            for stateless in [false, true] {
                let all = shaped((0..n).map(one).map(tool).collect(), stateless);
                let expected = serde_json::to_string(&all).expect("JSON");
                let bytes = list_bytes((0..n).map(one), stateless);
                assert_eq!(String::from_utf8(bytes).expect("text"), expected, "{n} {stateless}");
            }
        }
    }
}
