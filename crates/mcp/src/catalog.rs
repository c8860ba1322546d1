//! The tool catalog as MCP lists it.

use std::sync::Arc;

use rmcp::model::{ListToolsResult, ServerResult, Tool, ToolAnnotations};
use serde_json::Value;
use sinew_runtime::ToolInfo;
use sinew_tool::Effects;

/// The place of the tools in an empty list.
const EMPTY: &str = "\"tools\":[]";

/// Returns a list of tools, serialised one by one: their schemas would need several times its memory.
pub(crate) fn list_bytes(tools: impl Iterator<Item = ToolInfo>, stateless: bool) -> Vec<u8> {
    let mut empty = ServerResult::ListToolsResult(list(Vec::new()));
    if stateless {
        empty.fill_missing_cache_hints();
    } else {
        empty.strip_result_type_for_legacy_peer();
    }
    let empty = serde_json::to_string(&empty).unwrap_or_default();
    let Some((before, after)) = empty.split_once(EMPTY) else { return empty.into_bytes() };
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

/// Replaces `::`, which MCP names cannot contain; the runtime accepts both spellings.
pub fn wire_name(name: &str) -> String {
    name.replace("::", "__")
}
