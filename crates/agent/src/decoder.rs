//! State of a stream that is decoded, and how its events are read.

use serde_json::Value;

use crate::assembly::{Assembly, cut};
use crate::model::{Completion, ModelError, StopReason, Usage};
use crate::wire::Wire;

/// The message of a stream, as far as it was decoded.
pub(crate) struct Decoder {
    pub(crate) wire: Wire,
    pub(crate) assembly: Assembly,
    pub(crate) stop: Option<StopReason>,
    pub(crate) usage: Usage,
    /// Whether the message is complete, so that no more of the stream is needed.
    pub(crate) is_done: bool,
    /// How many whole calls arrived, where calls have no position.
    pub(crate) n_calls: u64,
}

impl Decoder {
    pub(crate) fn new(wire: Wire) -> Self {
        Self {
            wire,
            assembly: Assembly::new(wire),
            stop: None,
            usage: Usage::default(),
            is_done: false,
            n_calls: 0,
        }
    }

    /// Returns the message at the end of the stream.
    pub(crate) fn finish(self) -> Result<Completion, ModelError> {
        // Some servers end a stream of Chat Completions without `[DONE]`, but none without a reason.
        let Some(stop) = self.stop else { return Err(cut("")) };
        // Some servers say that they stopped though they call.
        let stop = match stop {
            StopReason::End if self.assembly.has_calls() => StopReason::Calls,
            stop => stop,
        };
        let parts = self.assembly.finish()?;
        Ok(Completion { parts, stop, usage: self.usage })
    }
}

/// Returns a member as text; empty where there is none.
pub(crate) fn text_of<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a member as a number; 0 where there is none.
pub(crate) fn number_of(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}
