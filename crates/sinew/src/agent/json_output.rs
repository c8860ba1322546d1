//! Writes a turn as JSON lines, one event a line, documented in docs/agent.md.

use std::io::{self, Write};

use serde_json::{Value, json};
use sinew_agent::{StreamEvent, TurnEvent};

/// Writes a turn as JSON lines to standard output.
#[derive(Default)]
pub(crate) struct JsonOutput {
    /// The first failure to write; nothing is written after it.
    failed: Option<io::Error>,
}

impl JsonOutput {
    pub(crate) fn event(&mut self, event: &TurnEvent<'_>) {
        if let Some(line) = line(event) {
            self.write(&line);
        }
    }

    /// Writes a line.
    pub(crate) fn write(&mut self, line: &Value) {
        if self.failed.is_none() {
            let mut out = io::stdout().lock();
            let written = writeln!(out, "{line}").and_then(|()| out.flush());
            self.failed = written.err();
        }
    }

    /// Returns whether the reader closed its end.
    pub(crate) fn is_closed(&self) -> bool {
        self.failed.is_some()
    }
}

/// Returns the line of an event.
fn line(event: &TurnEvent<'_>) -> Option<Value> {
    Some(match event {
        TurnEvent::Asks { tokens } => json!({"type": "request", "tokens": tokens}),
        TurnEvent::Stream(StreamEvent::Text(text)) => json!({"type": "text", "text": text}),
        TurnEvent::Stream(StreamEvent::Thinking(text)) => json!({"type": "thinking", "text": text}),
        TurnEvent::Stream(StreamEvent::Retry { error, after }) => json!({
            "type": "retry", "error": error, "after_ms": after.as_millis() as u64,
        }),
        // The whole call follows.
        TurnEvent::Stream(StreamEvent::CallBegins(_) | StreamEvent::Arguments(_)) => return None,
        TurnEvent::Answered { usage } => json!({"type": "usage", "usage": usage}),
        TurnEvent::CallBegins { call, call_id } => {
            let arguments = match call.parsed_arguments() {
                Ok(arguments) => Value::Object(arguments),
                Err(_) => Value::from(call.arguments.clone()),
            };
            json!({
                "type": "call", "id": call.id, "call_id": call_id, "tool": call.full_name(),
                "arguments": arguments,
            })
        }
        TurnEvent::CallEnds { call, result, reply, duration } => json!({
            "type": "result", "id": call.id, "tool": call.full_name(), "ok": !result.is_error,
            "text": result.text, "n_images": result.images.len(),
            "error": reply.and_then(|reply| reply.error.as_ref()),
            "meta": reply.map(|reply| &reply.meta),
            "duration_ms": duration.as_secs_f64() * 1e3,
        }),
        TurnEvent::Compacted { before, after } => {
            json!({"type": "compacted", "before": before, "after": after})
        }
        TurnEvent::Notice(text) => json!({"type": "notice", "text": text}),
    })
}
