//! The tool catalog as MCP lists it, serialised once.

use std::sync::Arc;

use rmcp::model::{ListToolsResult, ServerResult, Tool, ToolAnnotations};
use serde_json::Value;
use sinew_runtime::ToolInfo;
use sinew_tool::Effects;

/// The tools of a server and their serialised lists.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) tools: Vec<Tool>,
    handshake: Vec<u8>,
    stateless: Vec<u8>,
}

impl Shown {
    pub(crate) fn new(tools: Vec<ToolInfo>) -> Self {
        let tools: Vec<Tool> = tools.into_iter().map(tool).collect();
        let bytes = |stateless: bool| {
            let mut list = ServerResult::ListToolsResult(list(tools.clone()));
            if stateless {
                list.fill_missing_cache_hints();
            } else {
                list.strip_result_type_for_legacy_peer();
            }
            serde_json::to_vec(&list).unwrap_or_default()
        };
        Self { handshake: bytes(false), stateless: bytes(true), tools }
    }

    pub(crate) fn bytes(&self, stateless: bool) -> &[u8] {
        if stateless { &self.stateless } else { &self.handshake }
    }
}

pub(crate) fn list(tools: Vec<Tool>) -> ListToolsResult {
    ListToolsResult::with_all_items(tools)
}

fn tool(info: ToolInfo) -> Tool {
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
