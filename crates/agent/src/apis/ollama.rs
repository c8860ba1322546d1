//! Ollama: `POST /api/chat`, documented at github.com/ollama/ollama/blob/main/docs/api.md.
//!
//! Its Chat Completions take no context length and cut a long prompt without an error; here `num_ctx` sets it.

use serde_json::{Value, json};

use super::chat;
use crate::assembly::Listener;
use crate::decoder::{Decoder, number_of, text_of};
use crate::message::{Message, Part, message_text};
use crate::model::{CompletionRequest, ModelError, StopReason};
use crate::provider_error::provider_error;

/// The positions of reasoning, text and the first call in a message.
const THINKING: u64 = 0;
const TEXT: u64 = 1;
const CALLS: u64 = 2;

pub(super) fn body(model: &str, context: u32, request: &CompletionRequest<'_>) -> Value {
    let mut messages = vec![json!({"role": "system", "content": request.system})];
    for message in request.messages {
        match message {
            Message::User { text } => messages.push(json!({"role": "user", "content": text})),
            Message::Model { parts } => messages.push(said(parts)),
            Message::Results { results } => messages.extend(results.iter().map(
                |result| json!({"role": "tool", "tool_name": result.name, "content": result.text}),
            )),
        }
    }
    let mut options = json!({"num_ctx": context, "num_predict": request.max_output_tokens});
    if let (Some(temperature), Value::Object(members)) = (request.temperature, &mut options) {
        members.insert(String::from("temperature"), json!(temperature));
    }
    let mut body = json!({"model": model, "stream": true, "options": options});
    if let Value::Object(members) = &mut body {
        // There is no way to forbid calls but to leave the tools out.
        if request.may_call && !request.tools.is_empty() {
            members.insert(String::from("tools"), chat::tools(request.tools));
        }
        members.insert(String::from("messages"), Value::Array(messages));
    }
    body
}

fn said(parts: &[Part]) -> Value {
    let calls: Vec<Value> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Call(call) => Some(json!({
                "function": {
                    "name": call.full_name(), "arguments": call.parsed_arguments().unwrap_or_default(),
                },
            })),
            _ => None,
        })
        .collect();
    let mut said = json!({"role": "assistant", "content": message_text(parts)});
    if let (false, Value::Object(members)) = (calls.is_empty(), &mut said) {
        members.insert(String::from("tool_calls"), Value::Array(calls));
    }
    said
}

pub(super) fn take(
    decoder: &mut Decoder,
    event: Value,
    listener: Listener<'_>,
) -> Result<(), ModelError> {
    if event.get("error").is_some() {
        return Err(provider_error(200, &event));
    }
    let message = event.get("message").unwrap_or(&Value::Null);
    decoder.assembly.thinking(THINKING, text_of(message, "thinking"), listener)?;
    decoder.assembly.text(TEXT, text_of(message, "content"), listener)?;
    for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        let function = call.get("function").unwrap_or(&Value::Null);
        // Whole calls arrive one after another, often without an id.
        let at = CALLS + decoder.n_calls;
        decoder.n_calls += 1;
        let arguments = function.get("arguments").cloned().unwrap_or_default().to_string();
        decoder.assembly.call(at, arguments.len(), listener, |new| {
            new.id = text_of(call, "id").to_owned();
            new.name = text_of(function, "name").to_owned();
            new.arguments = arguments.clone();
        })?;
    }
    if event.get("done").and_then(Value::as_bool) == Some(true) {
        decoder.usage.input = number_of(&event, "/prompt_eval_count");
        decoder.usage.output = number_of(&event, "/eval_count");
        decoder.is_done = true;
        decoder.stop = Some(match text_of(&event, "done_reason") {
            "length" => StopReason::Length,
            _ => StopReason::End,
        });
    }
    Ok(())
}
