//! Shortens a conversation that nears the context window: the oldest results first, then a summary by the model.
//!
//! Nothing is shortened without need, since fresh results that vanish make a model call again. A result that went says
//! where its full text is, or that the call can be made again.

use serde::{Deserialize, Serialize};

use crate::message::{CallResult, Message, Part};

/// Results of at most so many bytes stay: a note in their place would be as long.
const MIN_RESULT: usize = 400;
/// How many of the last messages stay whole.
pub(crate) const KEPT_MESSAGES: usize = 6;

/// How a conversation was shortened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// The calls whose results were removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cleared: Vec<String>,
    /// The summary in place of the first messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
}

/// A summary in place of the first messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// How many messages it replaces.
    pub n_messages: usize,
    /// The text.
    pub text: String,
}

/// Shortens a conversation.
pub(crate) fn apply(messages: &mut Vec<Message>, compaction: &Compaction) {
    for message in messages.iter_mut() {
        let Message::Results { results } = message else { continue };
        for result in results.iter_mut().filter(|result| compaction.cleared.contains(&result.id)) {
            result.text = note(result);
            result.images.clear();
        }
    }
    if let Some(Summary { n_messages, text }) = &compaction.summary {
        messages.drain(..(*n_messages).min(messages.len()));
        messages.insert(0, Message::User { text: text.clone() });
    }
}

/// Returns the text in place of a result that was removed.
fn note(result: &CallResult) -> String {
    let place = match &result.output {
        Some(path) => format!("its full output is in {path}"),
        None => String::from("make the call again if you need it"),
    };
    format!("[{} bytes were removed from the conversation; {place}]", result.text.len())
}

/// Returns the calls whose results go, the oldest first, until `excess` bytes are gone, and how many bytes go.
pub(crate) fn oldest_results(messages: &[Message], excess: usize) -> (Vec<String>, usize) {
    let n_old = messages.len().saturating_sub(KEPT_MESSAGES);
    let (mut ids, mut n_gone) = (Vec::new(), 0);
    let old = messages.iter().take(n_old).filter_map(|message| match message {
        Message::Results { results } => Some(results),
        _ => None,
    });
    for result in old.flatten() {
        if excess <= n_gone {
            break;
        }
        let n = result_weight(result);
        if MIN_RESULT < n {
            n_gone += n.saturating_sub(note(result).len());
            ids.push(result.id.clone());
        }
    }
    (ids, n_gone)
}

/// Returns how many of the first messages a summary can replace: those before the last turn, or before the last messages
/// of it. Calls and their results stay together.
pub(crate) fn n_summarized(messages: &[Message]) -> usize {
    let n_old = messages.len().saturating_sub(KEPT_MESSAGES);
    let starts_model = |at: &usize| {
        matches!(messages.get(*at), Some(Message::Model { .. } | Message::User { .. }))
    };
    (2..=n_old).rev().find(starts_model).unwrap_or(0)
}

/// Returns about how many bytes a message adds to a request.
pub(crate) fn weight(message: &Message) -> usize {
    /// Keys, quotes and braces around a part.
    const AROUND: usize = 40;
    match message {
        Message::User { text } => AROUND + text.len(),
        Message::Model { parts } => {
            let of = |part: &Part| match part {
                Part::Text { text } => text.len(),
                Part::Thinking { text, sealed } => {
                    sealed.as_ref().map_or(text.len(), |sealed| sealed.item.to_string().len())
                }
                Part::Call(call) => call.name.len() + call.arguments.len() + call.id.len(),
            };
            parts.iter().map(|part| AROUND + of(part)).sum()
        }
        Message::Results { results } => {
            results.iter().map(|result| AROUND + result_weight(result)).sum()
        }
    }
}

fn result_weight(result: &CallResult) -> usize {
    /// About what providers count for a picture, at four bytes a token.
    const IMAGE: usize = 6_000;
    result.text.len() + result.images.len() * IMAGE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ToolCall;

    fn conversation(n_calls: usize, size: usize) -> Vec<Message> {
        let mut messages = vec![Message::User { text: String::from("task") }];
        for n in 0..n_calls {
            let id = format!("c{n}");
            let (name, arguments) = (String::from("Read"), String::new());
            let call = ToolCall { id: id.clone(), name, namespace: None, arguments };
            messages.push(Message::Model { parts: vec![Part::Call(call)] });
            let text = "x".repeat(size);
            let output = (n == 0).then(|| String::from(".sinew/tool-output/1"));
            let result = CallResult { id, text, output, ..CallResult::default() };
            messages.push(Message::Results { results: vec![result] });
        }
        messages
    }

    #[test]
    fn oldest_results_go_first_and_only_as_needed() {
        let mut messages = conversation(10, 1_000);
        let (cleared, n_gone) = oldest_results(&messages, 1_500);
        assert_eq!(cleared, ["c0", "c1"]);
        let before: usize = messages.iter().map(weight).sum();
        apply(&mut messages, &Compaction { cleared, summary: None });
        let after: usize = messages.iter().map(weight).sum();
        assert_eq!(before - after, n_gone);
        let texts: Vec<&str> = messages
            .iter()
            .filter_map(|message| match message {
                Message::Results { results } => results.first().map(|result| result.text.as_str()),
                _ => None,
            })
            .collect();
        let [first, second, third, ..] = texts.as_slice() else { panic!("{texts:?}") };
        assert!(first.contains("in .sinew/tool-output/1"), "{first}");
        assert!(second.contains("make the call again"), "{second}");
        assert_eq!(third.len(), 1_000);
    }

    #[test]
    fn last_messages_and_short_results_stay() {
        assert_eq!(oldest_results(&conversation(3, 10_000), usize::MAX).0, ["c0"][..0]);
        assert_eq!(oldest_results(&conversation(10, 100), usize::MAX), (vec![], 0));
        let (ids, _) = oldest_results(&conversation(5, 10_000), usize::MAX);
        assert_eq!(ids, ["c0", "c1"]);
    }

    #[test]
    fn summary_parts_no_call_from_its_result() {
        for n_calls in 0..8 {
            let messages = conversation(n_calls, 10);
            let n = n_summarized(&messages);
            assert!(!matches!(messages.get(n), Some(Message::Results { .. })), "{n_calls}: {n}");
            assert!(n + KEPT_MESSAGES <= messages.len() || n == 0, "{n_calls}: {n}");
        }
        let mut messages = conversation(8, 10);
        let n_messages = n_summarized(&messages);
        let text = String::from("summary");
        let summary = Some(Summary { n_messages, text: text.clone() });
        apply(&mut messages, &Compaction { cleared: vec![], summary });
        assert_eq!(messages.first(), Some(&Message::User { text }));
        assert_eq!(messages.len(), 17 - n_messages + 1);
    }
}
