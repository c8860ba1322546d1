//! OpenAI Chat Completions: `POST /chat/completions`, documented at platform.openai.com/docs/api-reference/chat. llama.cpp,
//! vLLM, LM Studio, OpenRouter and others serve it too.

use serde_json::{Value, json};

use crate::assembly::Listener;
use crate::decoder::{Decoder, number_of, text_of};
use crate::message::{CallResult, Message, Part, message_text};
use crate::model::{CompletionRequest, ModelError, StopReason, ToolSpec};
use crate::provider_error::provider_error;

/// The positions of reasoning, text and the first call in a message, whose pieces have no position of their own.
const THINKING: u64 = 0;
const TEXT: u64 = 1;
const CALLS: u64 = 2;

pub(super) fn body(model: &str, request: &CompletionRequest<'_>) -> Value {
    let mut messages = vec![json!({"role": "system", "content": request.system})];
    for message in request.messages {
        match message {
            Message::User { text } => messages.push(json!({"role": "user", "content": text})),
            Message::Model { parts } => messages.push(said(parts)),
            Message::Results { results } => messages.extend(results.iter().map(result)),
        }
    }
    let mut body = json!({
        "model": model, "stream": true, "stream_options": {"include_usage": true},
        "max_tokens": request.max_output_tokens,
    });
    if let Value::Object(members) = &mut body {
        if !request.tools.is_empty() {
            members.insert(String::from("tools"), tools(request.tools));
            if !request.may_call {
                members.insert(String::from("tool_choice"), json!("none"));
            }
        }
        if let Some(temperature) = request.temperature {
            members.insert(String::from("temperature"), json!(temperature));
        }
        members.insert(String::from("messages"), Value::Array(messages));
    }
    body
}

pub(super) fn tools(tools: &[ToolSpec]) -> Value {
    tools
        .iter()
        .map(|tool| {
            json!({
                "type": "function",
                "function": {
                    "name": tool.full_name(), "description": tool.description,
                    "parameters": tool.parameters,
                },
            })
        })
        .collect()
}

fn said(parts: &[Part]) -> Value {
    let calls: Vec<Value> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Call(call) => Some(json!({
                "id": call.id, "type": "function",
                "function": {"name": call.full_name(), "arguments": call.valid_arguments()},
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

fn result(result: &CallResult) -> Value {
    json!({"role": "tool", "tool_call_id": result.id, "content": result.text})
}

pub(super) fn take(
    decoder: &mut Decoder,
    event: Value,
    listener: Listener<'_>,
) -> Result<(), ModelError> {
    if event.get("error").is_some_and(|error| !error.is_null()) {
        return Err(provider_error(200, &event));
    }
    if event.get("usage").is_some_and(Value::is_object) {
        decoder.usage.input = number_of(&event, "/usage/prompt_tokens");
        decoder.usage.output = number_of(&event, "/usage/completion_tokens");
        decoder.usage.cached = number_of(&event, "/usage/prompt_tokens_details/cached_tokens");
    }
    let Some(choice) = event.pointer("/choices/0") else { return Ok(()) };
    let delta = choice.get("delta").unwrap_or(&Value::Null);
    for name in ["reasoning_content", "reasoning"] {
        decoder.assembly.thinking(THINKING, text_of(delta, name), listener)?;
    }
    decoder.assembly.text(TEXT, text_of(delta, "content"), listener)?;
    for piece in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        let function = piece.get("function").unwrap_or(&Value::Null);
        let arguments = text_of(function, "arguments");
        let at = CALLS + number_of(piece, "/index");
        decoder.assembly.call(at, arguments.len(), listener, |call| {
            // Some servers repeat id and name in each piece.
            for (member, name) in
                [(&mut call.id, text_of(piece, "id")), (&mut call.name, text_of(function, "name"))]
            {
                if member.is_empty() {
                    member.push_str(name);
                }
            }
            call.arguments.push_str(arguments);
        })?;
    }
    if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
        decoder.stop = Some(match reason {
            "tool_calls" | "function_call" => StopReason::Calls,
            "length" => StopReason::Length,
            "content_filter" => StopReason::Refusal,
            _ => StopReason::End,
        });
    }
    Ok(())
}
