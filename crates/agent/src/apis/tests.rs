//! Streams of each API, decoded; and the bodies of requests.

use serde_json::{Value, json};

use super::*;
use crate::message::{CallResult, Message, Part, Sealed, ToolCall};
use crate::model::{Completion, ModelErrorKind, StopReason, StreamEvent, ToolSpec, Usage};
use crate::provider_error::provider_error;

/// Decodes the data of a stream; returns its message and the streamed text, with calls in brackets.
fn decode(wire: Wire, data: &[Value]) -> (Result<Completion, ModelError>, String) {
    let mut decoder = Decoder::new(wire);
    let mut shown = String::new();
    let mut listener = |event: StreamEvent| match event {
        StreamEvent::Text(text) => shown.push_str(&text),
        StreamEvent::Thinking(text) => shown.push_str(&format!("({text})")),
        StreamEvent::CallBegins(name) => shown.push_str(&format!("[{name}]")),
        StreamEvent::Arguments(_) | StreamEvent::Retry { .. } => {}
    };
    for event in data {
        if let Err(error) = take(&mut decoder, &event.to_string(), &mut listener) {
            return (Err(error), shown);
        }
    }
    (decoder.finish(), shown)
}

fn call(id: &str, name: &str, arguments: &str) -> Part {
    Part::Call(ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        namespace: None,
        arguments: arguments.to_owned(),
    })
}

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn thinking(text: &str, sealed: Option<(Wire, Value)>) -> Part {
    let sealed = sealed.map(|(wire, item)| Sealed { wire, item });
    Part::Thinking { text: text.to_owned(), sealed }
}

fn anthropic_stream() -> Vec<Value> {
    let delta =
        |at: u64, delta: Value| json!({"type": "content_block_delta", "index": at, "delta": delta});
    vec![
        json!({"type": "message_start", "message": {"usage": {
            "input_tokens": 5, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100, "output_tokens": 1,
        }}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
        delta(0, json!({"type": "thinking_delta", "thinking": "Hm"})),
        delta(0, json!({"type": "signature_delta", "signature": "s1"})),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "ping"}),
        delta(1, json!({"type": "text_delta", "text": "I "})),
        delta(1, json!({"type": "text_delta", "text": "read."})),
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "a", "name": "Read", "input": {}}}),
        json!({"type": "content_block_start", "index": 3, "content_block": {"type": "tool_use", "id": "b", "name": "Bash", "input": {}}}),
        delta(2, json!({"type": "input_json_delta", "partial_json": "{\"file_path\": "})),
        delta(3, json!({"type": "input_json_delta", "partial_json": "{\"command\": \"ls\"}"})),
        delta(2, json!({"type": "input_json_delta", "partial_json": "\"x\"}"})),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}}),
        json!({"type": "message_stop"}),
    ]
}

fn responses_stream() -> Vec<Value> {
    let reasoning =
        json!({"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "e"});
    vec![
        json!({"type": "response.created", "response": {}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning"}}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Hm"}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": reasoning}),
        json!({"type": "response.output_text.delta", "output_index": 1, "delta": "I read."}),
        json!({"type": "response.output_item.added", "output_index": 2, "item": {"type": "function_call", "call_id": "a", "name": "Read"}}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{\"file_path\": "}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "\"x\"}"}),
        json!({"type": "response.output_item.done", "output_index": 3, "item": {
            "type": "function_call", "call_id": "b", "name": "Bash", "arguments": "{\"command\": \"ls\"}",
        }}),
        json!({"type": "response.completed", "response": {"usage": {
            "input_tokens": 115, "input_tokens_details": {"cached_tokens": 100}, "output_tokens": 7,
        }}}),
    ]
}

fn chat_stream() -> Vec<Value> {
    let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    vec![
        delta(json!({"role": "assistant", "reasoning_content": "Hm"})),
        delta(json!({"content": "I "})),
        delta(json!({"content": "read."})),
        delta(
            json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "Read", "arguments": ""}}]}),
        ),
        delta(
            json!({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "Bash", "arguments": "{\"command\": "}}]}),
        ),
        delta(
            json!({"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": "{\"file_path\": \"x\"}"}}]}),
        ),
        delta(
            json!({"tool_calls": [{"index": 1, "function": {"name": "Bash", "arguments": "\"ls\"}"}}]}),
        ),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        json!({"choices": [], "usage": {
            "prompt_tokens": 115, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 100},
        }}),
    ]
}

fn ollama_stream() -> Vec<Value> {
    let call =
        |name: &str, arguments: Value| json!({"function": {"name": name, "arguments": arguments}});
    vec![
        json!({"message": {"role": "assistant", "content": "", "thinking": "Hm"}, "done": false}),
        json!({"message": {"content": "I "}, "done": false}),
        json!({"message": {"content": "read.", "tool_calls": [call("Read", json!({"file_path": "x"}))]}, "done": false}),
        json!({"message": {"content": "", "tool_calls": [call("Bash", json!({"command": "ls"}))]}, "done": false}),
        json!({"message": {"content": ""}, "done": true, "done_reason": "stop", "prompt_eval_count": 115, "eval_count": 7}),
    ]
}

#[test]
fn streams_with_parallel_calls_are_decoded() {
    let signed = json!({"type": "thinking", "thinking": "Hm", "signature": "s1"});
    let encrypted =
        json!({"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "e"});
    let spaced = ["{\"file_path\": \"x\"}", "{\"command\": \"ls\"}"];
    let compact = ["{\"file_path\":\"x\"}", "{\"command\":\"ls\"}"];
    for (wire, stream, sealed, ids, arguments, cached) in [
        (Wire::Anthropic, anthropic_stream(), Some(signed), ["a", "b"], spaced, 100),
        (Wire::Responses, responses_stream(), Some(encrypted), ["a", "b"], spaced, 100),
        (Wire::Chat, chat_stream(), None, ["a", "b"], spaced, 100),
        (Wire::Ollama, ollama_stream(), None, ["call_2", "call_3"], compact, 0),
    ] {
        let (completion, shown) = decode(wire, &stream);
        let expected = Completion {
            parts: vec![
                thinking("Hm", sealed.map(|item| (wire, item))),
                text("I read."),
                call(ids[0], "Read", arguments[0]),
                call(ids[1], "Bash", arguments[1]),
            ],
            stop: StopReason::Calls,
            usage: Usage { input: 115, cached, output: 7 },
        };
        assert_eq!(completion, Ok(expected), "{wire}");
        assert_eq!(shown, "(Hm)I read.[Read][Bash]", "{wire}");
    }
}

#[test]
fn streams_cut_anywhere_are_errors() {
    for (wire, stream) in [
        (Wire::Anthropic, anthropic_stream()),
        (Wire::Responses, responses_stream()),
        (Wire::Chat, chat_stream()),
        (Wire::Ollama, ollama_stream()),
    ] {
        // The reason is in the last event but one of two of them; no event before it completes a message.
        let last = stream.len() - if matches!(wire, Wire::Anthropic | Wire::Chat) { 2 } else { 1 };
        for n in 0..=last {
            let (completion, _) = decode(wire, &stream[..n]);
            assert_eq!(
                completion.map_err(|error| error.kind),
                Err(ModelErrorKind::Cut),
                "{wire} {n}"
            );
        }
    }
}

#[test]
fn endings_have_reasons() {
    let anthropic = |reason: &str| json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {}});
    let chat = |reason: &str| json!({"choices": [{"delta": {}, "finish_reason": reason}]});
    let incomplete = |reason: &str| json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": reason}}});
    for (wire, event, expected) in [
        (Wire::Anthropic, anthropic("end_turn"), StopReason::End),
        (Wire::Anthropic, anthropic("max_tokens"), StopReason::Length),
        (Wire::Anthropic, anthropic("model_context_window_exceeded"), StopReason::Context),
        (Wire::Anthropic, anthropic("refusal"), StopReason::Refusal),
        (Wire::Chat, chat("stop"), StopReason::End),
        (Wire::Chat, chat("length"), StopReason::Length),
        (Wire::Chat, chat("content_filter"), StopReason::Refusal),
        (Wire::Responses, incomplete("max_output_tokens"), StopReason::Length),
        (Wire::Responses, incomplete("content_filter"), StopReason::Refusal),
        (Wire::Ollama, json!({"done": true, "done_reason": "length"}), StopReason::Length),
    ] {
        let (completion, _) = decode(wire, std::slice::from_ref(&event));
        assert_eq!(completion.map(|completion| completion.stop), Ok(expected), "{wire} {event}");
    }
}

#[test]
fn errors_have_kinds() {
    use ModelErrorKind as Kind;
    for (status, body, expected) in [
        (
            401,
            json!({"error": {"type": "authentication_error", "message": "invalid x-api-key"}}),
            Kind::Auth,
        ),
        (404, json!({"error": {"message": "model `x` not found"}}), Kind::NotFound),
        (
            400,
            json!({"error": {"message": "prompt is too long: 200001 tokens"}}),
            Kind::ContextOverflow,
        ),
        (
            400,
            json!({"error": {"code": "context_length_exceeded", "message": "too much"}}),
            Kind::ContextOverflow,
        ),
        (400, json!({"error": {"message": "messages: roles must alternate"}}), Kind::Invalid),
        (
            429,
            json!({"error": {"type": "rate_limit_error", "message": "slow down"}}),
            Kind::RateLimited,
        ),
        (429, json!({"error": {"code": "insufficient_quota", "message": "pay"}}), Kind::Quota),
        (503, json!("<html>busy"), Kind::Overloaded),
        (
            529,
            json!({"error": {"type": "overloaded_error", "message": "Overloaded"}}),
            Kind::Overloaded,
        ),
        (
            200,
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
            Kind::Overloaded,
        ),
        (200, json!({"error": "an error that only Ollama knows"}), Kind::Invalid),
    ] {
        let error = provider_error(status, &body);
        assert_eq!(error.kind, expected, "{status} {body}");
        assert!(error.message.starts_with("the model's server answers"), "{}", error.message);
    }
    let busy =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let (completion, _) = decode(Wire::Anthropic, &[busy]);
    assert_eq!(completion.map_err(|error| error.kind), Err(Kind::Overloaded));
    let mut decoder = Decoder::new(Wire::Chat);
    let broken = take(&mut decoder, "{\"choices\": [", &mut |_| {}).map_err(|error| error.kind);
    assert_eq!(broken, Err(Kind::Malformed));
    let nameless = json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}, "finish_reason": "tool_calls"}]});
    let (completion, _) = decode(Wire::Chat, &[nameless]);
    assert_eq!(completion.map_err(|error| error.kind), Err(Kind::Malformed));
}

fn conversation() -> Vec<Message> {
    let signed = json!({"type": "thinking", "thinking": "Hm", "signature": "s1"});
    let encrypted = json!({"type": "reasoning", "id": "r", "encrypted_content": "e"});
    vec![
        Message::User { text: String::from("Read x.") },
        Message::Model {
            parts: vec![
                thinking("Hm", Some((Wire::Anthropic, signed))),
                thinking("Hm", Some((Wire::Responses, encrypted))),
                thinking("Hm", None),
                text("I read."),
                call("a", "Read", "{\"file_path\": \"x\"}"),
            ],
        },
        Message::Results {
            results: vec![CallResult {
                id: String::from("a"),
                name: String::from("Read"),
                text: String::from("hello"),
                ..CallResult::default()
            }],
        },
    ]
}

fn tools() -> [ToolSpec; 1] {
    [ToolSpec {
        namespace: None,
        name: String::from("Read"),
        description: String::from("Reads a file."),
        parameters: json!({"type": "object", "properties": {"file_path": {"type": "string"}}}),
    }]
}

fn body(wire: Wire, messages: &[Message], may_call: bool) -> Value {
    let tools = tools();
    let request = CompletionRequest {
        system: "You help.",
        tools: &tools,
        may_call,
        messages,
        max_output_tokens: 100,
        temperature: None,
    };
    super::body(wire, "m", 8_192, &request)
}

#[test]
fn bodies_are_those_of_each_api() {
    let all = conversation();
    let schema = &tools()[0].parameters;
    let ephemeral = json!({"type": "ephemeral"});
    let function = json!([{"type": "function", "function": {
        "name": "Read", "description": "Reads a file.", "parameters": schema,
    }}]);
    for (wire, expected) in [
        (
            Wire::Anthropic,
            json!({
                "model": "m", "max_tokens": 100, "stream": true,
                "system": [{"type": "text", "text": "You help.", "cache_control": ephemeral}],
                "tools": [{"name": "Read", "description": "Reads a file.", "input_schema": schema}],
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "Read x."}]},
                    {"role": "assistant", "content": [
                        {"type": "thinking", "thinking": "Hm", "signature": "s1"},
                        {"type": "text", "text": "I read."},
                        {"type": "tool_use", "id": "a", "name": "Read", "input": {"file_path": "x"}},
                    ]},
                    {"role": "user", "content": [{
                        "type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "hello"}],
                        "is_error": false, "cache_control": ephemeral,
                    }]},
                ],
            }),
        ),
        (
            Wire::Responses,
            json!({
                "model": "m", "stream": true, "store": false, "include": ["reasoning.encrypted_content"],
                "max_output_tokens": 100, "instructions": "You help.",
                "tools": [{
                    "type": "function", "name": "Read", "description": "Reads a file.", "parameters": schema,
                    "strict": false,
                }],
                "input": [
                    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Read x."}]},
                    {"type": "reasoning", "id": "r", "encrypted_content": "e"},
                    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I read."}]},
                    {"type": "function_call", "call_id": "a", "name": "Read", "arguments": "{\"file_path\": \"x\"}"},
                    {"type": "function_call_output", "call_id": "a", "output": "hello"},
                ],
            }),
        ),
        (
            Wire::Chat,
            json!({
                "model": "m", "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 100,
                "tools": function,
                "messages": [
                    {"role": "system", "content": "You help."},
                    {"role": "user", "content": "Read x."},
                    {"role": "assistant", "content": "I read.", "tool_calls": [{
                        "id": "a", "type": "function",
                        "function": {"name": "Read", "arguments": "{\"file_path\": \"x\"}"},
                    }]},
                    {"role": "tool", "tool_call_id": "a", "content": "hello"},
                ],
            }),
        ),
        (
            Wire::Ollama,
            json!({
                "model": "m", "stream": true, "options": {"num_ctx": 8192, "num_predict": 100},
                "tools": function,
                "messages": [
                    {"role": "system", "content": "You help."},
                    {"role": "user", "content": "Read x."},
                    {"role": "assistant", "content": "I read.", "tool_calls": [{
                        "function": {"name": "Read", "arguments": {"file_path": "x"}},
                    }]},
                    {"role": "tool", "tool_name": "Read", "content": "hello"},
                ],
            }),
        ),
    ] {
        assert_eq!(body(wire, &all, true), expected, "{wire}");
    }
}

#[test]
fn longer_conversations_extend_the_bytes() {
    let all = conversation();
    for wire in Wire::ALL {
        for n in 1..all.len() {
            let shorter = body(wire, &all[..n], true).to_string().replace(CACHE_MARK, "");
            let longer = body(wire, &all[..=n], true).to_string().replace(CACHE_MARK, "");
            let kept = shorter.trim_end_matches(['}', ']']);
            assert!(longer.starts_with(kept), "{wire} {n}:\n{shorter}\n{longer}");
        }
    }
}

#[test]
fn namespaces_group_tools_where_the_api_has_them() {
    let tool = |namespace: Option<&str>, name: &str| ToolSpec {
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
        description: String::new(),
        parameters: json!({"type": "object"}),
    };
    let fs = Some("mcp__fs");
    let tools = [tool(None, "Read"), tool(fs, "a"), tool(fs, "b"), tool(Some("mcp__git"), "log")];
    let called = ToolCall {
        id: String::from("1"),
        name: String::from("a"),
        namespace: fs.map(str::to_owned),
        arguments: String::from("{}"),
    };
    let messages = [Message::Model { parts: vec![Part::Call(called)] }];
    let body = |wire: Wire| {
        let request = CompletionRequest {
            system: "",
            tools: &tools,
            may_call: true,
            messages: &messages,
            max_output_tokens: 100,
            temperature: None,
        };
        super::body(wire, "m", 8_192, &request)
    };
    let responses = body(Wire::Responses);
    let names = |value: &Value, pointer: &str| -> Vec<String> {
        let all = value.pointer(pointer).and_then(Value::as_array);
        let name = |one: &Value| one["name"].as_str().unwrap_or_default().to_owned();
        all.into_iter().flatten().map(name).collect()
    };
    assert_eq!(names(&responses, "/tools"), ["Read", "mcp__fs", "mcp__git"]);
    assert_eq!(responses["tools"][1]["type"], "namespace");
    assert_eq!(names(&responses, "/tools/1/tools"), ["a", "b"]);
    assert_eq!(responses["input"][0]["namespace"], "mcp__fs");
    let anthropic = body(Wire::Anthropic);
    assert_eq!(names(&anthropic, "/tools"), ["Read", "mcp__fs__a", "mcp__fs__b", "mcp__git__log"]);
    assert_eq!(anthropic["messages"][0]["content"][0]["name"], "mcp__fs__a");
}

/// A session may continue at another API, after a message that one of them does not take.
#[test]
fn messages_that_an_api_refuses_are_left_out() {
    let encrypted = json!({"type": "reasoning", "id": "r", "encrypted_content": "e"});
    let messages = [
        Message::User { text: String::from("Hi") },
        Message::Model {
            parts: vec![thinking("Hm", Some((Wire::Responses, encrypted))), text("\n\n")],
        },
        Message::Model { parts: vec![thinking("Hm", None)] },
    ];
    let anthropic = body(Wire::Anthropic, &messages, true);
    assert_eq!(anthropic["messages"].as_array().map(Vec::len), Some(1), "{anthropic}");
    let cut = [Message::Model {
        parts: vec![thinking("Hm", Some((Wire::Responses, json!({"type": "reasoning"}))))],
    }];
    let responses = body(Wire::Responses, &cut, true);
    assert_eq!(responses["input"], json!([]), "{responses}");
}

/// The marker of Anthropic's cache, which moves with the newest message and is no content.
const CACHE_MARK: &str = ",\"cache_control\":{\"type\":\"ephemeral\"}";

#[test]
fn tools_stay_where_calls_are_forbidden() {
    for (wire, expected) in [
        (Wire::Anthropic, (true, json!({"type": "none"}))),
        (Wire::Responses, (true, json!("none"))),
        (Wire::Chat, (true, json!("none"))),
        (Wire::Ollama, (false, Value::Null)),
    ] {
        let body = body(wire, &conversation(), false);
        let choice = body.get("tool_choice").cloned().unwrap_or_default();
        assert_eq!((body.get("tools").is_some(), choice), expected, "{wire}");
    }
}
