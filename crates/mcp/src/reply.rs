//! Converts a reply to an MCP result.

use rmcp::model::{CallToolResult, ContentBlock, MetaObject, ResourceContents, ServerResult};
use sinew_tool::{Block, Meta, Reply};

use crate::escape::push_escaped;
use crate::frame;

/// From this length on the text that comes first in a reply is escaped by [`push_escaped`], in bytes.
const LONG_TEXT: usize = 1 << 10;

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
        let text = taken_text(&mut result);
        if serde_json::to_writer(&mut *out, &result).is_err() {
            out.truncate(start);
            out.extend_from_slice(b"{}");
        } else if let Some(text) = text {
            // Before the content there is nothing but the type of the result.
            const EMPTY: &[u8] = b"\"text\":\"\"";
            let written = out.get(start..).unwrap_or_default();
            let at = written.windows(EMPTY.len()).position(|found| found == EMPTY);
            let after = out.split_off(start + at.unwrap_or_default() + EMPTY.len() - 1);
            push_escaped(out, &text);
            out.extend_from_slice(&after);
        }
    });
}

/// Takes a long text out of the first block of a result.
fn taken_text(result: &mut ServerResult) -> Option<String> {
    let ServerResult::CallToolResult(result) = result else { return None };
    match result.content.first_mut()? {
        ContentBlock::Text(first) if LONG_TEXT <= first.text.len() => {
            Some(std::mem::take(&mut first.text))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn long_texts_are_written_as_short_ones_are() {
        let long = "a \"line\"\n\u{1}é".repeat(LONG_TEXT / 8);
        let text = |text: &str| Block::Text { text: text.to_owned() };
        let image = || Block::Image { data: String::from("eA=="), mime_type: String::from("a/b") };
        let odd = || Block::Mcp(json!({"type": "text", "text": "", "_meta": {"text": ""}}));
        for content in [
            vec![],
            vec![text("short")],
            vec![text(&long)],
            vec![text(&long), text(""), odd(), text(&long)],
            vec![odd(), text(&long)],
            vec![image(), text(&long)],
        ] {
            for stateless in [false, true] {
                let mut reply = Reply::text("");
                reply.content.clone_from(&content);
                reply.structured = Some(json!({"text": ""}));
                let result = result(reply);
                let mut expected = ServerResult::CallToolResult(result.clone());
                if !stateless {
                    expected.strip_result_type_for_legacy_peer();
                }
                let mut out = Vec::new();
                write(&mut out, "1", result, stateless);
                let expected = format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}}\n",
                    serde_json::to_string(&expected).expect("JSON")
                );
                assert_eq!(String::from_utf8(out).as_deref(), Ok(expected.as_str()));
                assert!(serde_json::from_str::<Value>(&expected).is_ok());
            }
        }
    }
}
