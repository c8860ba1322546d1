//! Converts a reply to an MCP result.

use rmcp::model::{CallToolResult, ContentBlock, MetaObject, ResourceContents, ServerResult};
use sinew_tool::{Block, Meta, Reply};

use crate::frame;

/// Converts a reply: content for the model, `_meta` for programs.
pub(crate) fn result(reply: Reply) -> CallToolResult {
    let content = reply
        .content
        .into_iter()
        .map(|block| match block {
            Block::Text { text } => ContentBlock::text(text),
            Block::Image { data, mime_type } => ContentBlock::image(data, mime_type),
            Block::Audio { data, mime_type } => ContentBlock::audio(data, mime_type),
            Block::Mcp(block) => serde_json::from_value(block)
                .unwrap_or_else(|_| ContentBlock::text("[a block of an unknown type]")),
            Block::Resource { resource } => ContentBlock::resource(
                ResourceContents::blob(resource.blob, resource.uri)
                    .with_mime_type(resource.mime_type),
            ),
        })
        .collect();
    let mut result =
        if reply.ok { CallToolResult::success(content) } else { CallToolResult::error(content) };
    result.structured_content = reply.structured;
    let mut meta = MetaObject::new();
    if let Some(error) = &reply.error {
        meta.insert(String::from("sinew/error"), serde_json::json!(error));
    }
    // Durations and rulings differ between calls, so only the ledger has them. Complete content needs
    // no `_meta` except for sandbox, checkpoint, hooks and notes.
    let told = Meta { duration_ms: 0.0, ruling: None, ..reply.meta };
    let left_out = told.truncated || told.skipped.is_some() || told.output_id.is_some();
    let is_kept = told.checkpoint_id.is_some() || !told.notes.is_empty();
    let is_more = ["sandbox", "hooks"].iter().any(|key| told.more.get(key).is_some());
    if (left_out || is_kept || is_more)
        && let Ok(serde_json::Value::Object(mut told)) = serde_json::to_value(&told)
    {
        told.shift_remove("duration_ms");
        told.retain(|_, value| *value != serde_json::Value::Bool(false));
        meta.insert(String::from("sinew/meta"), serde_json::Value::Object(told));
    }
    result.meta = (!meta.is_empty()).then_some(meta);
    result
}

/// Writes the response to a call in the shape of a protocol revision.
pub(crate) fn write(out: &mut Vec<u8>, id: &str, result: CallToolResult, stateless: bool) {
    let mut result = ServerResult::CallToolResult(result);
    if !stateless {
        result.strip_result_type_for_legacy_peer();
    }
    frame::write_result_with(out, id, |out| {
        let start = out.len();
        if serde_json::to_writer(&mut *out, &result).is_err() {
            out.truncate(start);
            out.extend_from_slice(b"{}");
        }
    });
}
