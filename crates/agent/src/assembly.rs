//! Assembles the parts of a message from the pieces of a stream.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::message::{Part, Sealed, ToolCall};
use crate::model::{ModelError, ModelErrorKind, StreamEvent};
use crate::wire::Wire;

/// The most bytes of one message.
pub(crate) const MAX_MESSAGE: usize = 16 << 20;
/// The most parts of one message.
const MAX_PARTS: usize = 1_000;

/// The parts of a message under way, by their position.
pub(crate) struct Assembly {
    wire: Wire,
    parts: BTreeMap<u64, Part>,
    n_bytes: usize,
}

/// Receives events while a message is assembled.
pub(crate) type Listener<'a> = &'a mut (dyn FnMut(StreamEvent) + Send);

impl Assembly {
    pub(crate) fn new(wire: Wire) -> Self {
        Self { wire, parts: BTreeMap::new(), n_bytes: 0 }
    }

    /// Appends text to the part at this position.
    pub(crate) fn text(
        &mut self,
        at: u64,
        piece: &str,
        listener: Listener<'_>,
    ) -> Result<(), ModelError> {
        if let Part::Text { text } = self.part(at, piece.len(), empty_text)? {
            text.push_str(piece);
            if !piece.is_empty() {
                listener(StreamEvent::Text(piece.to_owned()));
            }
        }
        Ok(())
    }

    /// Appends reasoning to the part at this position.
    pub(crate) fn thinking(
        &mut self,
        at: u64,
        piece: &str,
        listener: Listener<'_>,
    ) -> Result<(), ModelError> {
        if let Part::Thinking { text, .. } = self.part(at, piece.len(), empty_thinking)? {
            text.push_str(piece);
            if !piece.is_empty() {
                listener(StreamEvent::Thinking(piece.to_owned()));
            }
        }
        Ok(())
    }

    /// Seals the reasoning at this position with the item that the provider wants back.
    pub(crate) fn seal(&mut self, at: u64, item: Value) -> Result<(), ModelError> {
        let wire = self.wire;
        if let Part::Thinking { sealed, .. } = self.part(at, 0, empty_thinking)? {
            *sealed = Some(Sealed { wire, item });
        }
        Ok(())
    }

    /// Changes the call at this position, which begins with this.
    pub(crate) fn call(
        &mut self,
        at: u64,
        n_bytes: usize,
        listener: Listener<'_>,
        change: impl FnOnce(&mut ToolCall),
    ) -> Result<(), ModelError> {
        if let Part::Call(call) = self.part(at, n_bytes, empty_call)? {
            let was_named = !call.name.is_empty();
            change(call);
            if !was_named && !call.name.is_empty() {
                listener(StreamEvent::CallBegins(call.name.clone()));
            }
            if 0 < n_bytes {
                listener(StreamEvent::Arguments(n_bytes));
            }
        }
        Ok(())
    }

    /// Returns the text of the reasoning at this position.
    pub(crate) fn thinking_at(&self, at: u64) -> &str {
        match self.parts.get(&at) {
            Some(Part::Thinking { text, .. }) => text,
            _ => "",
        }
    }

    /// Returns whether there is a call.
    pub(crate) fn has_calls(&self) -> bool {
        self.parts.values().any(|part| matches!(part, Part::Call(_)))
    }

    /// Returns the parts without empty ones. Calls without an id get one, since results need it.
    pub(crate) fn finish(self) -> Result<Vec<Part>, ModelError> {
        let mut parts = Vec::with_capacity(self.parts.len());
        for (number, (_, mut part)) in self.parts.into_iter().enumerate() {
            match &mut part {
                Part::Text { text } if text.is_empty() => continue,
                Part::Thinking { text, sealed: None } if text.is_empty() => continue,
                Part::Call(call) if call.name.is_empty() => {
                    return Err(malformed("a tool call has no name"));
                }
                Part::Call(call) if call.id.is_empty() => call.id = format!("call_{number}"),
                _ => {}
            }
            parts.push(part);
        }
        Ok(parts)
    }

    fn part(
        &mut self,
        at: u64,
        n_bytes: usize,
        empty: fn() -> Part,
    ) -> Result<&mut Part, ModelError> {
        self.n_bytes += n_bytes;
        let is_new = !self.parts.contains_key(&at);
        if MAX_MESSAGE < self.n_bytes || (is_new && MAX_PARTS <= self.parts.len()) {
            return Err(too_large());
        }
        Ok(self.parts.entry(at).or_insert_with(empty))
    }
}

/// Returns the error of a stream that is not of its API.
pub(crate) fn malformed(why: impl std::fmt::Display) -> ModelError {
    ModelError::new(ModelErrorKind::Malformed, format!("the model's stream is malformed: {why}"))
}

/// Returns the error of a message without an end.
pub(crate) fn too_large() -> ModelError {
    let words =
        format!("the model's message has more than {} MiB or {MAX_PARTS} parts", MAX_MESSAGE >> 20);
    ModelError::new(ModelErrorKind::TooLarge, words)
}

/// Returns the error of a stream that ended too early.
pub(crate) fn cut(why: &str) -> ModelError {
    let words = format!("the model's stream ended before its message did{why}");
    ModelError::new(ModelErrorKind::Cut, words)
}

fn empty_text() -> Part {
    Part::Text { text: String::new() }
}

fn empty_thinking() -> Part {
    Part::Thinking { text: String::new(), sealed: None }
}

fn empty_call() -> Part {
    Part::Call(ToolCall {
        id: String::new(),
        name: String::new(),
        namespace: None,
        arguments: String::new(),
    })
}
