//! Recordings of sessions: a header and the entries, one JSON object a line; and the model that replays the recorded
//! messages.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sinew_tool::BoxFuture;
use sinew_tool::sync::lock;
use tokio::time::sleep;

use crate::message::{CallResult, Part, ToolCall, message_calls};
use crate::model::{
    Completion, CompletionRequest, Model, ModelError, ModelErrorKind, StopReason, StreamEvent,
    Usage,
};
use crate::repeats::Repeats;
use crate::session::Entry;

/// The version of the format.
const VERSION: u32 = 1;

/// The first line of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordingHeader {
    /// The version of the format.
    pub sinew_recording: u32,
    /// The dialect.
    pub dialect: String,
    /// The model.
    pub model: String,
    /// The first root, whose path results may name.
    pub root: String,
    /// How often the model may call tools in one turn.
    pub max_tool_iterations: u32,
    /// The files that were in the root, for a recording that brings them along.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

impl RecordingHeader {
    /// Returns the header of a new recording.
    pub fn new(dialect: &str, model: &str, root: &str, max_tool_iterations: u32) -> Self {
        Self {
            sinew_recording: VERSION,
            dialect: dialect.to_owned(),
            model: model.to_owned(),
            root: root.to_owned(),
            max_tool_iterations,
            files: BTreeMap::new(),
        }
    }
}

/// A recorded session.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// Its header.
    pub header: RecordingHeader,
    /// Its entries.
    pub entries: Vec<Entry>,
}

impl Recording {
    /// Reads a recording. The error names the invalid line and the reason.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let (_, first) = lines.next().ok_or("the recording is empty")?;
        let header: RecordingHeader = serde_json::from_str(first)
            .map_err(|error| format!("line 1 is not the header of a recording: {error}"))?;
        if header.sinew_recording != VERSION {
            return Err(format!(
                "the recording has version {}, and this sinew reads version {VERSION}",
                header.sinew_recording
            ));
        }
        let entry = |(at, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1))
        };
        Ok(Self { header, entries: lines.map(entry).collect::<Result<_, String>>()? })
    }

    /// Returns the messages of the user, in their order.
    pub fn prompts(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::TurnBegins { prompt, .. } => Some(prompt.as_str()),
            _ => None,
        })
    }

    /// Returns the calls with their results, without notes that the loop added.
    pub fn results(&self) -> Vec<(ToolCall, CallResult)> {
        let (mut calls, mut results) = (Vec::new(), Vec::new());
        for entry in &self.entries {
            match entry {
                Entry::Model { parts, .. } => calls = message_calls(parts).cloned().collect(),
                Entry::CallEnds { result } => {
                    let call = calls.iter().find(|call| call.id == result.id).cloned();
                    let text = Repeats::without_note(&result.text).to_owned();
                    results.extend(call.map(|call| (call, CallResult { text, ..result.clone() })));
                }
                _ => {}
            }
        }
        results
    }
}

/// A model that replays the recorded messages.
#[derive(Debug)]
pub struct RecordedModel {
    name: String,
    messages: Mutex<VecDeque<(Vec<Part>, Usage)>>,
    /// How long it waits before each piece of text.
    pause: Duration,
}

impl RecordedModel {
    /// Returns the model of a recording.
    pub fn new(recording: &Recording, pause: Duration) -> Self {
        let messages = recording.entries.iter().filter_map(|entry| match entry {
            Entry::Model { parts, usage, .. } => Some((parts.clone(), *usage)),
            _ => None,
        });
        let messages = Mutex::new(messages.collect());
        Self { name: recording.header.model.clone(), messages, pause }
    }

    /// Returns how many messages were not said yet.
    pub fn n_left(&self) -> usize {
        lock(&self.messages).len()
    }
}

impl Model for RecordedModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn complete<'a>(
        &'a self,
        _request: &'a CompletionRequest<'a>,
        listener: &'a mut (dyn FnMut(StreamEvent) + Send),
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        let next = lock(&self.messages).pop_front();
        Box::pin(async move {
            let Some((parts, usage)) = next else {
                let words = "the recording ends here, and the loop asks for another message";
                return Err(ModelError::new(ModelErrorKind::Invalid, words));
            };
            for part in &parts {
                match part {
                    Part::Text { text } => {
                        for piece in text.split_inclusive(' ') {
                            sleep(self.pause).await;
                            listener(StreamEvent::Text(piece.to_owned()));
                        }
                    }
                    Part::Thinking { text, .. } => listener(StreamEvent::Thinking(text.clone())),
                    Part::Call(call) => listener(StreamEvent::CallBegins(call.name.clone())),
                }
            }
            let stop = match message_calls(&parts).next() {
                Some(_) => StopReason::Calls,
                None => StopReason::End,
            };
            Ok(Completion { parts, stop, usage })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recording_that_cannot_be_read_says_why() {
        let header = serde_json::to_string(&RecordingHeader::new("native", "m", "/r", 20));
        let header = header.expect("JSON");
        let turn = r#"{"entry":"turn_begins","turn":"1","prompt":"do it","model":"m"}"#;
        for (text, problem) in [
            (format!("{header}\n{turn}\n"), None),
            (String::new(), Some("is empty")),
            (String::from("{}"), Some("line 1 is not the header")),
            (header.replace(":1,", ":2,"), Some("has version 2")),
            (format!("{header}\n{turn}\n{{\"entry\":\"x\"}}"), Some("line 3: unknown variant")),
        ] {
            match (Recording::parse(&text), problem) {
                (Ok(read), None) => assert_eq!(read.prompts().collect::<Vec<_>>(), ["do it"]),
                (Err(error), Some(problem)) => assert!(error.contains(problem), "{error}"),
                (read, _) => panic!("{text}: {read:?}"),
            }
        }
    }
}
