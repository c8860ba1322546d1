//! OpenAI Responses: `POST /responses`, documented at platform.openai.com/docs/api-reference/responses.
//!
//! Nothing is stored at the provider (`store: false`), so each request carries the whole conversation, and reasoning
//! comes back encrypted.

use serde_json::{Value, json};

use crate::assembly::Listener;
use crate::decoder::{Decoder, number_of, text_of};
use crate::message::{CallResult, Message, Part, Sealed};
use crate::model::{CompletionRequest, ModelError, StopReason, ToolSpec};
use crate::provider_error::provider_error;
use crate::wire::Wire;

pub(super) fn body(model: &str, request: &CompletionRequest<'_>) -> Value {
    let tools = tools(request.tools);
    let mut input = Vec::new();
    for message in request.messages {
        match message {
            Message::User { text } => input.push(json!({
                "type": "message", "role": "user", "content": [{"type": "input_text", "text": text}],
            })),
            Message::Model { parts } => input.extend(items(parts)),
            Message::Results { results } => input.extend(results.iter().map(result)),
        }
    }
    let mut body = json!({
        "model": model, "stream": true, "store": false,
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": request.max_output_tokens, "instructions": request.system,
    });
    if let Value::Object(members) = &mut body {
        if !tools.is_empty() {
            members.insert(String::from("tools"), Value::Array(tools));
            if !request.may_call {
                members.insert(String::from("tool_choice"), json!("none"));
            }
        }
        if let Some(temperature) = request.temperature {
            members.insert(String::from("temperature"), json!(temperature));
        }
        members.insert(String::from("input"), Value::Array(input));
    }
    body
}

/// Returns the tools. Those of one namespace, which follow one another, become one entry.
fn tools(specs: &[ToolSpec]) -> Vec<Value> {
    let is_same = |one: &ToolSpec, other: &ToolSpec| {
        one.namespace.is_some() && one.namespace == other.namespace
    };
    let groups = specs.chunk_by(is_same);
    groups
        .flat_map(|group| {
            let functions: Vec<Value> = group.iter().map(function).collect();
            match group.first().and_then(|tool| tool.namespace.as_deref()) {
                Some(namespace) => vec![json!({
                    "type": "namespace", "name": namespace,
                    "description": format!("Tools of {namespace}"), "tools": functions,
                })],
                None => functions,
            }
        })
        .collect()
}

fn function(tool: &ToolSpec) -> Value {
    json!({
        "type": "function", "name": tool.name, "description": tool.description,
        "parameters": tool.parameters, "strict": false,
    })
}

/// Returns the items of a message. The API refuses reasoning that nothing follows, such as that of a cut message.
fn items(parts: &[Part]) -> impl Iterator<Item = Value> {
    let is_thinking = |part: &Part| matches!(part, Part::Thinking { .. });
    let n = parts.iter().rposition(|part| !is_thinking(part)).map_or(0, |at| at + 1);
    parts.iter().take(n).filter_map(part)
}

fn part(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text } => Some(json!({
            "type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": text}],
        })),
        Part::Thinking { sealed: Some(Sealed { wire: Wire::Responses, item }), .. } => {
            Some(item.clone())
        }
        Part::Thinking { .. } => None,
        Part::Call(call) => {
            let mut item = json!({
                "type": "function_call", "call_id": call.id, "name": call.name,
                "arguments": call.valid_arguments(),
            });
            if let (Some(namespace), Value::Object(members)) = (&call.namespace, &mut item) {
                members.insert(String::from("namespace"), json!(namespace));
            }
            Some(item)
        }
    }
}

fn result(result: &CallResult) -> Value {
    let images = result.images.iter().map(|image| {
        let url = format!("data:{};base64,{}", image.mime_type, image.data);
        json!({"type": "input_image", "image_url": url})
    });
    let output = match result.images.is_empty() {
        true => json!(result.text),
        false => std::iter::once(json!({"type": "input_text", "text": result.text}))
            .chain(images)
            .collect(),
    };
    json!({"type": "function_call_output", "call_id": result.id, "output": output})
}

pub(super) fn take(
    decoder: &mut Decoder,
    event: Value,
    listener: Listener<'_>,
) -> Result<(), ModelError> {
    let at = number_of(&event, "/output_index");
    let delta = text_of(&event, "delta");
    match text_of(&event, "type") {
        "response.output_item.added" => begins(decoder, at, &event, listener)?,
        "response.output_text.delta" | "response.refusal.delta" => {
            decoder.assembly.text(at, delta, listener)?;
        }
        "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
            decoder.assembly.thinking(at, delta, listener)?;
        }
        "response.function_call_arguments.delta" => {
            decoder.assembly.call(at, delta.len(), listener, |call| {
                call.arguments.push_str(delta);
            })?;
        }
        "response.output_item.done" => ends(decoder, at, &event, listener)?,
        "response.completed" => ended(decoder, &event, StopReason::End),
        "response.incomplete" => {
            let reason = event.pointer("/response/incomplete_details/reason");
            let stop = match reason.and_then(Value::as_str) {
                Some("content_filter") => StopReason::Refusal,
                _ => StopReason::Length,
            };
            ended(decoder, &event, stop);
        }
        "response.failed" => {
            let response = event.get("response").unwrap_or(&event);
            return Err(provider_error(200, response));
        }
        "error" => return Err(provider_error(200, &event)),
        _ => {}
    }
    Ok(())
}

fn begins(
    decoder: &mut Decoder,
    at: u64,
    event: &Value,
    listener: Listener<'_>,
) -> Result<(), ModelError> {
    let item = event.get("item").unwrap_or(&Value::Null);
    match text_of(item, "type") {
        "function_call" => decoder.assembly.call(at, 0, listener, |call| {
            call.id = text_of(item, "call_id").to_owned();
            call.name = text_of(item, "name").to_owned();
            call.namespace = item.get("namespace").and_then(Value::as_str).map(str::to_owned);
        }),
        _ => Ok(()),
    }
}

fn ends(
    decoder: &mut Decoder,
    at: u64,
    event: &Value,
    listener: Listener<'_>,
) -> Result<(), ModelError> {
    let item = event.get("item").cloned().unwrap_or_default();
    match text_of(&item, "type") {
        // The whole item counts where a server streams no pieces of it.
        "function_call" => decoder.assembly.call(at, 0, listener, |call| {
            let whole = text_of(&item, "arguments");
            if !whole.is_empty() {
                call.arguments = whole.to_owned();
            }
            if call.name.is_empty() {
                call.id = text_of(&item, "call_id").to_owned();
                call.name = text_of(&item, "name").to_owned();
            }
        }),
        "reasoning" => decoder.assembly.seal(at, item),
        _ => Ok(()),
    }
}

fn ended(decoder: &mut Decoder, event: &Value, stop: StopReason) {
    let of = |name: &str| number_of(event, &format!("/response/usage/{name}"));
    decoder.usage.input = of("input_tokens");
    decoder.usage.cached = of("input_tokens_details/cached_tokens");
    decoder.usage.output = of("output_tokens");
    decoder.stop = Some(stop);
    decoder.is_done = true;
}
