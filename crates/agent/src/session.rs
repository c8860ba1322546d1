//! A session of the agent: the entries of its transcript, and the conversation that they add up to.
//!
//! Each entry is stored before the next step of the loop, so that a session whose process was killed can be resumed: the entries
//! say which calls of the last message began, and which of them ended.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use sinew_tool::word_enum;

use crate::compaction::{self, Compaction, weight};
use crate::message::{CallResult, Message, Part, ToolCall, message_calls, message_text};
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
        /// The model, as `PROVIDER/MODEL`.
        model: String,
    },
    /// A message of the model.
    Model {
        /// Its text, thinking and calls.
        parts: Vec<Part>,
        /// What it cost.
        usage: Usage,
        /// Whether its stream ended before it did.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_cut: bool,
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
        stop: TurnStop,
    },
}

word_enum! {
    /// Why a turn ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum TurnStop {
        /// The model is done.
        Done = "done",
        /// The model called tools as often as it may; its answer is what it knew then.
        MaxTurns = "max_turns",
        /// The model made the same call again and again.
        Repeated = "repeated",
        /// The budget is used up.
        Budget = "budget",
        /// The user ended the turn.
        Interrupted = "interrupted",
        /// The answer reached the most output tokens.
        Length = "length",
        /// The provider or the model refused.
        Refusal = "refusal",
    }
}

impl TurnStop {
    /// Returns whether the turn can be continued without another message of the user.
    pub fn can_continue(self) -> bool {
        matches!(self, Self::Interrupted | Self::Budget)
    }
}

/// Stores the entries of one session.
pub trait Transcript: Send + Sync {
    /// Appends an entry. The error says in words why it is not stored.
    fn append(&self, entry: &Entry) -> Result<(), String>;
}

/// Stores nothing: the conversation of a sub-agent ends with its task.
#[derive(Debug, Clone, Copy)]
pub struct Unstored;

impl Transcript for Unstored {
    fn append(&self, _entry: &Entry) -> Result<(), String> {
        Ok(())
    }
}

/// The conversation of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Session {
    messages: Vec<Message>,
    /// About how many bytes they add to a request.
    n_bytes: usize,
    /// The results of the last message's calls, until all are there.
    results: Vec<CallResult>,
    /// The calls of the last message that began, by their ids in the message: their ids in the ledger.
    begun: HashMap<String, String>,
    n_turns: u64,
    n_calls: u64,
    is_in_turn: bool,
    /// The model of the last turn.
    model: String,
    /// The last text of the model in this turn.
    answer: String,
    /// Whether the last message of the model was cut.
    is_cut: bool,
    usage: Usage,
}

/// How far an answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastAnswer {
    Whole,
    Cut,
}

/// A call that has no result yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenCall {
    /// The call.
    pub(crate) call: ToolCall,
    /// Its id in the ledger, if it began.
    pub(crate) call_id: Option<String>,
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
            Entry::TurnBegins { prompt, model, .. } => {
                self.set_model_name(model);
                self.n_turns += 1;
                self.is_in_turn = true;
                self.answer.clear();
                self.push(Message::User { text: prompt.clone() });
            }
            Entry::Model { parts, usage, is_cut } => {
                self.results.clear();
                self.begun.clear();
                self.usage.add(usage);
                self.answer = message_text(parts);
                self.is_cut = *is_cut;
                self.push(Message::Model { parts: parts.clone() });
            }
            Entry::CallBegins { id, call_id } => {
                self.n_calls += 1;
                self.begun.insert(id.clone(), call_id.clone());
            }
            Entry::CallEnds { result } => self.end_call(result),
            Entry::Notice { text } => self.push(Message::User { text: text.clone() }),
            Entry::Compaction(compaction) => {
                compaction::apply(&mut self.messages, compaction);
                self.n_bytes = self.messages.iter().map(weight).sum();
            }
            Entry::TurnWithdrawn => {
                self.is_in_turn = false;
                if let Some(message) =
                    self.messages.pop_if(|last| matches!(last, Message::User { .. }))
                {
                    self.n_bytes -= weight(&message);
                }
            }
            Entry::TurnEnds { stop } => self.is_in_turn = stop.can_continue(),
        }
    }

    /// Notes which model continues. Another one cannot read what the last one sealed.
    pub(crate) fn set_model_name(&mut self, model: &str) {
        if self.model == model {
            return;
        }
        model.clone_into(&mut self.model);
        for message in &mut self.messages {
            let Message::Model { parts } = message else { continue };
            for part in parts {
                if let Part::Thinking { sealed, .. } = part {
                    *sealed = None;
                }
            }
        }
        self.n_bytes = self.messages.iter().map(weight).sum();
    }

    fn push(&mut self, message: Message) {
        self.n_bytes += weight(&message);
        self.messages.push(message);
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
            self.push(Message::Results { results });
        }
    }

    fn last_calls(&self) -> Vec<&ToolCall> {
        match self.messages.last() {
            Some(Message::Model { parts }) => message_calls(parts).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the calls of the last message that have no result, because the process ended before they did.
    pub(crate) fn open_calls(&self) -> Vec<OpenCall> {
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
        self.n_bytes = messages.iter().map(weight).sum();
        self.messages = messages;
    }

    /// Returns about how many bytes the conversation adds to a request.
    pub(crate) fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Returns the ids of all calls in the conversation.
    pub(crate) fn call_ids(&self) -> impl Iterator<Item = &str> {
        let calls = self.messages.iter().flat_map(|message| match message {
            Message::Model { parts } => message_calls(parts).collect::<Vec<_>>(),
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

    /// Returns the message of the model without calls that ends the conversation, if one does.
    pub(crate) fn ends_with_answer(&self) -> Option<LastAnswer> {
        match self.messages.last() {
            Some(Message::Model { .. }) if self.open_calls().is_empty() => {
                Some(if self.is_cut { LastAnswer::Cut } else { LastAnswer::Whole })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Sealed;
    use crate::wire::Wire;

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
            Entry::Model { parts: vec![call("a"), call("b"), call("c")], usage, is_cut: false },
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
    fn another_model_gets_no_sealed_items() {
        let turn = |model: &str| Entry::TurnBegins {
            turn: String::from("1"),
            prompt: String::from("do it"),
            model: model.to_owned(),
        };
        let item = serde_json::json!("sealed by the provider");
        let sealed = Some(Sealed { wire: Wire::Responses, item });
        let thinking = Part::Thinking { text: String::from("Hm"), sealed };
        let usage = Usage::default();
        let answer = Entry::Model { parts: vec![thinking], usage, is_cut: false };
        for (model, is_kept) in [("a/m", true), ("a/n", false), ("b/m", false)] {
            let session = Session::of_entries(&[turn("a/m"), answer.clone(), turn(model)]);
            let said = serde_json::to_string(session.messages()).expect("JSON");
            assert_eq!(said.contains("sealed by"), is_kept, "{model}");
            let n_bytes: usize = session.messages().iter().map(weight).sum();
            assert_eq!(session.n_bytes(), n_bytes, "{model}");
        }
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
        for stop in TurnStop::ALL {
            session.apply(&Entry::TurnEnds { stop });
            assert_eq!(session.is_in_turn(), stop.can_continue(), "{stop}");
            // The word of a line and of a stored entry is the same.
            assert_eq!(serde_json::to_value(stop).expect("JSON"), stop.as_str());
        }
    }

    #[test]
    fn entries_read_as_they_were_written() {
        for entry in entries() {
            let text = serde_json::to_string(&entry).expect("JSON");
            assert_eq!(serde_json::from_str::<Entry>(&text).expect(&text), entry);
        }
    }
}
