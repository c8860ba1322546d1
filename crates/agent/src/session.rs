//! A session of the agent: the entries of its transcript, and the conversation that they add up to.
//!
//! Each entry is stored before the next step of the loop, so that a session whose process was killed can be resumed: the entries
//! say which calls of the last message began, and which of them ended.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::compaction::{self, Compaction};
use crate::message::{CallResult, Message, Part, ToolCall};
use crate::model::Usage;

/// An entry of a transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// A turn begins with a message of the user.
    TurnBegins {
        /// The name of the turn.
        turn: String,
        /// The message.
        prompt: String,
        /// The model.
        model: String,
    },
    /// A message of the model.
    Model {
        /// Its text, thinking and calls.
        parts: Vec<Part>,
        /// What it cost.
        usage: Usage,
    },
    /// A call of the last message begins.
    CallBegins {
        /// Its id in the message.
        id: String,
        /// Its id in the ledger.
        call_id: String,
    },
    /// A call of the last message ended.
    CallEnds {
        /// Its result.
        result: CallResult,
    },
    /// The loop tells the model something.
    Notice {
        /// The text.
        text: String,
    },
    /// The conversation was shortened.
    Compaction(Compaction),
    /// The message of the user was refused before the model got it.
    TurnWithdrawn,
    /// The turn ended.
    TurnEnds {
        /// Why.
        stop: String,
    },
}

/// Stores the entries of one session.
pub trait Transcript: Send + Sync {
    /// Appends an entry. The error says in words why it is not stored.
    fn append(&self, entry: &Entry) -> Result<(), String>;
}

/// The conversation of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Session {
    messages: Vec<Message>,
    /// The results of the last message's calls, until all are there.
    results: Vec<CallResult>,
    /// The calls of the last message that began, by their ids in the message: their ids in the ledger.
    begun: HashMap<String, String>,
    n_turns: u64,
    n_calls: u64,
    is_in_turn: bool,
    /// The last text of the model in this turn.
    answer: String,
    /// Whether the last message of the model was cut.
    is_cut: bool,
    usage: Usage,
}

/// A call that has no result yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    /// The call.
    pub call: ToolCall,
    /// Its id in the ledger, if it began.
    pub call_id: Option<String>,
}

impl Session {
    /// Returns the session that these entries make.
    pub fn of_entries<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut session = Self::default();
        entries.into_iter().for_each(|entry| session.apply(entry));
        session
    }

    /// Adds an entry.
    pub fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::TurnBegins { prompt, .. } => {
                self.n_turns += 1;
                self.is_in_turn = true;
                self.answer.clear();
                self.messages.push(Message::User { text: prompt.clone() });
            }
            Entry::Model { parts, usage } => {
                self.results.clear();
                self.begun.clear();
                self.usage.add(usage);
                self.answer = text_of(parts);
                self.is_cut = *usage == Usage::default();
                self.messages.push(Message::Model { parts: parts.clone() });
            }
            Entry::CallBegins { id, call_id } => {
                self.n_calls += 1;
                self.begun.insert(id.clone(), call_id.clone());
            }
            Entry::CallEnds { result } => self.end_call(result),
            Entry::Notice { text } => self.messages.push(Message::User { text: text.clone() }),
            Entry::Compaction(compaction) => compaction::apply(&mut self.messages, compaction),
            Entry::TurnWithdrawn => {
                self.is_in_turn = false;
                if let Some(Message::User { .. }) = self.messages.last() {
                    self.messages.pop();
                }
            }
            // These can be continued.
            Entry::TurnEnds { stop } => {
                self.is_in_turn = ["interrupted", "budget"].contains(&stop.as_str());
            }
        }
    }

    /// Adds a result. Once all calls of the last message have one, they become a message, in the order of the calls.
    fn end_call(&mut self, result: &CallResult) {
        self.results.push(result.clone());
        let calls = self.last_calls();
        let place = |id: &str| calls.iter().position(|call| call.id == id);
        if calls.len() <= self.results.len() {
            let mut results = self.results.clone();
            results.sort_by_key(|result| place(&result.id));
            self.results.clear();
            self.messages.push(Message::Results { results });
        }
    }

    fn last_calls(&self) -> Vec<&ToolCall> {
        match self.messages.last() {
            Some(Message::Model { parts }) => calls_of(parts).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the calls of the last message that have no result, because the process ended before they did.
    pub fn open_calls(&self) -> Vec<OpenCall> {
        let is_open = |call: &&ToolCall| self.results.iter().all(|result| result.id != call.id);
        let open = self.last_calls().into_iter().filter(is_open);
        open.map(|call| OpenCall { call: call.clone(), call_id: self.begun.get(&call.id).cloned() })
            .collect()
    }

    /// Returns the conversation.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Replaces the conversation for this process; the transcript keeps its own.
    pub(crate) fn set_messages(&mut self, messages: Vec<Message>) {
        self.messages = messages;
    }

    /// Returns the ids of all calls in the conversation.
    pub(crate) fn call_ids(&self) -> impl Iterator<Item = &str> {
        let calls = self.messages.iter().flat_map(|message| match message {
            Message::Model { parts } => calls_of(parts).collect::<Vec<_>>(),
            _ => Vec::new(),
        });
        calls.map(|call| call.id.as_str())
    }

    /// Returns how many turns began.
    pub fn n_turns(&self) -> u64 {
        self.n_turns
    }

    /// Returns how many calls began.
    pub fn n_calls(&self) -> u64 {
        self.n_calls
    }

    /// Returns whether the last turn did not end.
    pub fn is_in_turn(&self) -> bool {
        self.is_in_turn
    }

    /// Returns what all messages cost.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the last text of the model in this turn; empty where it said nothing.
    pub fn answer(&self) -> &str {
        &self.answer
    }

    /// Returns whether the conversation ends with a message of the model without calls, and whether that was cut.
    pub(crate) fn ends_with_answer(&self) -> Option<bool> {
        match self.messages.last() {
            Some(Message::Model { .. }) if self.open_calls().is_empty() => Some(self.is_cut),
            _ => None,
        }
    }
}

/// Returns the calls of a message.
pub(crate) fn calls_of(parts: &[Part]) -> impl Iterator<Item = &ToolCall> {
    parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(call),
        _ => None,
    })
}

/// Returns the text of a message.
pub fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> Part {
        Part::Call(ToolCall {
            id: id.to_owned(),
            name: String::from("Read"),
            namespace: None,
            arguments: String::new(),
        })
    }

    fn result(id: &str) -> Entry {
        let result = CallResult { id: id.to_owned(), text: id.to_owned(), ..CallResult::default() };
        Entry::CallEnds { result }
    }

    fn begins(id: &str) -> Entry {
        Entry::CallBegins { id: id.to_owned(), call_id: format!("s-{id}") }
    }

    fn entries() -> Vec<Entry> {
        let turn = String::from("1");
        let (prompt, model) = (String::from("do it"), String::from("m"));
        let usage = Usage { input: 10, cached: 4, output: 2 };
        vec![
            Entry::TurnBegins { turn, prompt, model },
            Entry::Model { parts: vec![call("a"), call("b"), call("c")], usage },
            begins("a"),
            begins("b"),
            result("b"),
            result("a"),
        ]
    }

    #[test]
    fn killed_session_knows_its_open_calls() {
        let session = Session::of_entries(&entries());
        assert_eq!(session.messages().len(), 2);
        let open = session.open_calls();
        let open: Vec<_> =
            open.iter().map(|open| (open.call.id.as_str(), open.call_id.as_deref())).collect();
        assert_eq!(open, [("c", None)]);
        let mut before = entries();
        before.truncate(4);
        let open = Session::of_entries(&before).open_calls();
        let begun: Vec<_> = open.iter().map(|open| open.call_id.as_deref()).collect();
        assert_eq!(begun, [Some("s-a"), Some("s-b"), None]);
    }

    #[test]
    fn results_stand_in_the_order_of_their_calls() {
        let mut all = entries();
        all.extend([begins("c"), result("c")]);
        let mut session = Session::of_entries(&all);
        let Some(Message::Results { results }) = session.messages().last() else {
            panic!("no results")
        };
        let ids: Vec<_> = results.iter().map(|result| result.id.as_str()).collect();
        assert_eq!((ids, session.open_calls()), (vec!["a", "b", "c"], vec![]));
        assert!(session.is_in_turn() && session.n_calls() == 3 && session.usage().input == 10);
        session.apply(&Entry::TurnEnds { stop: String::from("done") });
        assert!(!session.is_in_turn());
    }

    #[test]
    fn entries_read_as_they_were_written() {
        for entry in entries() {
            let text = serde_json::to_string(&entry).expect("JSON");
            assert_eq!(serde_json::from_str::<Entry>(&text).expect(&text), entry);
        }
    }
}
