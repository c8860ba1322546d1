//! Requests and streams of each API. None needs a socket, so that recorded streams test them.
//!
//! In each body the conversation comes last and earlier bytes never change, so that prompt caches hit.

mod anthropic;
mod chat;
mod ollama;
mod responses;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::assembly::{Listener, malformed};
use crate::decoder::Decoder;
use crate::model::{CompletionRequest, ModelError};
use crate::wire::Wire;

/// Returns the body of a request.
pub(crate) fn body(
    wire: Wire,
    model: &str,
    context: u32,
    request: &CompletionRequest<'_>,
) -> Value {
    match wire {
        Wire::Anthropic => anthropic::body(model, request),
        Wire::Responses => responses::body(model, request),
        Wire::Chat => chat::body(model, request),
        Wire::Ollama => ollama::body(model, context, request),
    }
}

/// Decodes the data of an event, or a line.
pub(crate) fn take(
    decoder: &mut Decoder,
    data: &str,
    listener: Listener<'_>,
) -> Result<(), ModelError> {
    if data.trim().is_empty() {
        return Ok(());
    }
    if data.trim() == "[DONE]" {
        decoder.is_done = true;
        return Ok(());
    }
    let event: Value = serde_json::from_str(data).map_err(malformed)?;
    match decoder.wire {
        Wire::Anthropic => anthropic::take(decoder, event, listener),
        Wire::Responses => responses::take(decoder, event, listener),
        Wire::Chat => chat::take(decoder, event, listener),
        Wire::Ollama => ollama::take(decoder, event, listener),
    }
}
