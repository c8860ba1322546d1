//! A reply as a result of MCP.

use rmcp::model::{CallToolResult, ContentBlock, MetaObject, ServerResult};
use sinew_tool::{Block, Meta, Reply};

/// Turns a reply into a result. What the model may use is in the content; what a program may use
/// beside it is in `_meta`.
pub(crate) fn result(reply: Reply) -> CallToolResult {
    let content = reply
        .content
        .into_iter()
        .map(|block| match block {
            Block::Text { text } => ContentBlock::text(text),
            Block::Image { data, mime_type } => ContentBlock::image(data, mime_type),
        })
        .collect();
    let mut result =
        if reply.ok { CallToolResult::success(content) } else { CallToolResult::error(content) };
    result.structured_content = reply.structured;
    let mut meta = MetaObject::new();
    if let Some(error) = &reply.error {
        meta.insert(String::from("sinew/error"), serde_json::json!(error));
    }
    // Durations and rulings differ from call to call; a client that wants them reads the ledger.
    let told = Meta { duration_ms: 0.0, ruling: None, ..reply.meta };
    if told != Meta::default()
        && let Ok(serde_json::Value::Object(mut told)) = serde_json::to_value(&told)
    {
        told.shift_remove("duration_ms");
        told.retain(|_, value| *value != serde_json::Value::Bool(false));
        meta.insert(String::from("sinew/meta"), serde_json::Value::Object(told));
    }
    result.meta = (!meta.is_empty()).then_some(meta);
    result
}

/// Returns the bytes of a result in the shape of a revision.
pub(crate) fn bytes(result: CallToolResult, stateless: bool) -> Vec<u8> {
    let mut result = ServerResult::CallToolResult(result);
    if !stateless {
        result.strip_result_type_for_legacy_peer();
    }
    serde_json::to_vec(&result).unwrap_or_else(|_| b"{}".to_vec())
}
