//! Anthropic Messages: `POST /v1/messages`, documented at docs.anthropic.com/en/api/messages.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::assembly::Listener;
use crate::decoder::{Decoder, number_of, text_of};
use crate::message::{CallResult, Message, Part, Sealed, is_name_char};
use crate::model::{CompletionRequest, ModelError, StopReason};
use crate::provider_error::provider_error;
use crate::wire::Wire;

pub(super) fn body(model: &str, request: &CompletionRequest<'_>) -> Value {
    let tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            json!({"name": tool.full_name(), "description": tool.description, "input_schema": tool.parameters})
        })
        .collect();
    let mut messages: Vec<Value> = request.messages.iter().filter_map(message).collect();
    // The cache is by content: the marker on the newest message moves without a miss.
    if let Some(last) = messages.last_mut()
        && let Some(block) = last.pointer_mut("/content").and_then(Value::as_array_mut)
        && let Some(Value::Object(block)) = block.last_mut()
    {
        block.insert(String::from("cache_control"), json!({"type": "ephemeral"}));
    }
    let mut body = json!({
        "model": model, "max_tokens": request.max_output_tokens, "stream": true,
        "system": [{"type": "text", "text": request.system, "cache_control": {"type": "ephemeral"}}],
    });
    if let Value::Object(members) = &mut body {
        if !tools.is_empty() {
            members.insert(String::from("tools"), Value::Array(tools));
            if !request.may_call {
                members.insert(String::from("tool_choice"), json!({"type": "none"}));
            }
        }
        if let Some(temperature) = request.temperature {
            members.insert(String::from("temperature"), json!(temperature));
        }
        members.insert(String::from("messages"), Value::Array(messages));
    }
    body
}

/// Returns a message; `None` for one without content, which the API refuses. Other APIs leave such messages.
fn message(message: &Message) -> Option<Value> {
    let (role, content): (_, Vec<Value>) = match message {
        Message::User { text } => ("user", vec![json!({"type": "text", "text": text})]),
        Message::Model { parts } => ("assistant", parts.iter().filter_map(part).collect()),
        Message::Results { results } => ("user", results.iter().map(result).collect()),
    };
    (!content.is_empty()).then(|| json!({"role": role, "content": content}))
}

fn part(part: &Part) -> Option<Value> {
    match part {
        // The API refuses blank texts.
        Part::Text { text } if text.trim().is_empty() => None,
        Part::Text { text } => Some(json!({"type": "text", "text": text})),
        Part::Thinking { sealed: Some(Sealed { wire: Wire::Anthropic, item }), .. } => {
            Some(item.clone())
        }
        Part::Thinking { .. } => None,
        Part::Call(call) => Some(json!({
            "type": "tool_use", "id": id(&call.id), "name": call.full_name(),
            // The API takes objects only. The result names the error in other arguments.
            "input": call.parsed_arguments().unwrap_or_default(),
        })),
    }
}

/// Returns the id of a call in the characters that the API takes. Ids of other APIs have dots and colons.
fn id(id: &str) -> Cow<'_, str> {
    if id.chars().all(is_name_char) {
        return Cow::Borrowed(id);
    }
    let written = |char: char| match is_name_char(char) {
        true => char.to_string(),
        false => format!("_{:x}", u32::from(char)),
    };
    Cow::Owned(id.chars().map(written).collect())
}

fn result(result: &CallResult) -> Value {
    let text = (!result.text.is_empty()).then(|| json!({"type": "text", "text": result.text}));
    let images = result.images.iter().map(|image| {
        json!({
            "type": "image",
            "source": {"type": "base64", "media_type": image.mime_type, "data": image.data},
        })
    });
    let content: Vec<Value> = text.into_iter().chain(images).collect();
    json!({
        "type": "tool_result", "tool_use_id": id(&result.id), "content": content,
        "is_error": result.is_error,
    })
}

pub(super) fn take(
    decoder: &mut Decoder,
    event: Value,
    listener: Listener<'_>,
) -> Result<(), ModelError> {
    let at = number_of(&event, "/index");
    match text_of(&event, "type") {
        "message_start" => {
            let of = |name: &str| number_of(&event, &format!("/message/usage/{name}"));
            let cached = of("cache_read_input_tokens");
            decoder.usage.input = of("input_tokens") + of("cache_creation_input_tokens") + cached;
            decoder.usage.cached = cached;
        }
        "content_block_start" => {
            let block = event.get("content_block").cloned().unwrap_or_default();
            match text_of(&block, "type") {
                "text" => decoder.assembly.text(at, text_of(&block, "text"), listener)?,
                "thinking" => {
                    decoder.assembly.thinking(at, text_of(&block, "thinking"), listener)?;
                }
                "redacted_thinking" => decoder.assembly.seal(at, block)?,
                "tool_use" => decoder.assembly.call(at, 0, listener, |call| {
                    call.id = text_of(&block, "id").to_owned();
                    call.name = text_of(&block, "name").to_owned();
                })?,
                _ => {}
            }
        }
        "content_block_delta" => {
            let delta = event.get("delta").unwrap_or(&Value::Null);
            match text_of(delta, "type") {
                "text_delta" => decoder.assembly.text(at, text_of(delta, "text"), listener)?,
                "thinking_delta" => {
                    decoder.assembly.thinking(at, text_of(delta, "thinking"), listener)?;
                }
                "signature_delta" => {
                    let thinking = decoder.assembly.thinking_at(at);
                    let signature = text_of(delta, "signature");
                    let item = json!({
                        "type": "thinking", "thinking": thinking, "signature": signature,
                    });
                    decoder.assembly.seal(at, item)?;
                }
                "input_json_delta" => {
                    let piece = text_of(delta, "partial_json");
                    decoder.assembly.call(at, piece.len(), listener, |call| {
                        call.arguments.push_str(piece);
                    })?;
                }
                _ => {}
            }
        }
        "message_delta" => {
            decoder.usage.output = number_of(&event, "/usage/output_tokens");
            let reason = event.pointer("/delta/stop_reason").and_then(Value::as_str);
            if let Some(reason) = reason {
                decoder.stop = Some(match reason {
                    "tool_use" => StopReason::Calls,
                    "max_tokens" => StopReason::Length,
                    "model_context_window_exceeded" => StopReason::Context,
                    "refusal" => StopReason::Refusal,
                    _ => StopReason::End,
                });
            }
        }
        "message_stop" => decoder.is_done = true,
        "error" => return Err(provider_error(200, &event)),
        _ => {}
    }
    Ok(())
}
