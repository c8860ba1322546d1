//! Recovers tool calls that a model wrote as text: small models, and servers without a parser for their model, end a
//! message with fenced JSON or `<tool_call>` elements instead of calls.

use serde_json::Value;

use crate::message::ToolCall;

/// The most places in a text where written calls may begin.
const MAX_PLACES: usize = 64;
/// Members that hold the arguments, by the models that write them.
const ARGUMENTS: [&str; 3] = ["arguments", "parameters", "input"];

/// Returns the calls at the end of a text, and the text before them. Every call must name a tool, and nothing may follow:
/// a JSON example within an answer is no call.
pub fn written_calls(text: &str, is_tool: impl Fn(&str) -> bool) -> Option<(&str, Vec<ToolCall>)> {
    let places = text.match_indices(['`', '<', '{', '[']).map(|(at, _)| at);
    let begins = |at: &usize| {
        let rest = text.get(*at..).unwrap_or_default();
        let is_first = text.get(..*at).unwrap_or_default().trim_end_matches([' ', '\t']);
        let is_line = is_first.is_empty() || is_first.ends_with('\n');
        rest.starts_with("<tool_call>") || (is_line && !rest.starts_with('<'))
    };
    places.filter(begins).take(MAX_PLACES).find_map(|at| {
        let (before, written) = text.split_at(at);
        let mut calls = Vec::new();
        let mut rest = written.trim();
        while !rest.is_empty() {
            let (block, after) = first_block(rest)?;
            for call in calls_of(&block)? {
                if !is_tool(&call.0) {
                    return None;
                }
                let id = format!("written_{}", calls.len() + 1);
                let (name, arguments) = call;
                calls.push(ToolCall { id, name, namespace: None, arguments });
            }
            rest = after.trim_start();
        }
        (!calls.is_empty()).then(|| (before.trim_end(), calls))
    })
}

/// Parses the block at the start of a text; returns its value and the text after it.
fn first_block(text: &str) -> Option<(Value, &str)> {
    if let Some(inside) = text.strip_prefix("<tool_call>") {
        let (inside, after) = inside.split_once("</tool_call>").unwrap_or((inside, ""));
        return Some((serde_json::from_str(inside.trim()).ok()?, after));
    }
    if let Some(fenced) = text.strip_prefix("```") {
        let (_, inside) = fenced.split_once('\n')?;
        let (inside, after) = inside.split_once("```").unwrap_or((inside, ""));
        return Some((serde_json::from_str(inside.trim()).ok()?, after));
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    Some((value, text.get(values.byte_offset()..)?))
}

/// Returns the names and arguments of the calls in a value; `None` where one of them is no call.
fn calls_of(value: &Value) -> Option<Vec<(String, String)>> {
    if let Value::Array(all) = value {
        return all.iter().map(call_of).collect();
    }
    Some(vec![call_of(value)?])
}

fn call_of(value: &Value) -> Option<(String, String)> {
    let call = value.get("function").filter(|function| function.is_object()).unwrap_or(value);
    let name = call.get("name")?.as_str()?.to_owned();
    let arguments = ARGUMENTS.iter().find_map(|member| call.get(member))?;
    let arguments = match arguments {
        Value::String(text) => text.clone(),
        Value::Object(_) => arguments.to_string(),
        _ => return None,
    };
    Some((name, arguments))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(&str, &[(&str, &str)])>) {
        let found = written_calls(text, |name| matches!(name, "Read" | "Bash"));
        let found = found.as_ref().map(|(before, calls)| {
            let calls = calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str()));
            (*before, calls.collect::<Vec<_>>())
        });
        assert_eq!(found, expected.map(|(before, calls)| (before, calls.to_vec())), "{text}");
    }

    #[test]
    fn calls_at_the_end_are_recovered() {
        let read = ("Read", "{\"file_path\":\"a\"}");
        let bash = ("Bash", "{\"command\":\"ls\"}");
        for (text, expected) in [
            (
                "```json\n{\"name\": \"Read\", \"arguments\": {\"file_path\": \"a\"}}\n```",
                Some(("", &[read][..])),
            ),
            (
                "I look.\n<tool_call>\n{\"name\": \"Read\", \"arguments\": {\"file_path\": \"a\"}}\n</tool_call>\n\
                 <tool_call>{\"name\": \"Bash\", \"parameters\": {\"command\": \"ls\"}}",
                Some(("I look.", &[read, bash][..])),
            ),
            ("{\"name\": \"Bash\", \"input\": {\"command\": \"ls\"}}", Some(("", &[bash][..]))),
            (
                "Both:\n[{\"name\": \"Bash\", \"arguments\": \"{\\\"command\\\":\\\"ls\\\"}\"}, \
                 {\"function\": {\"name\": \"Read\", \"arguments\": {\"file_path\": \"a\"}}}]",
                Some(("Both:", &[bash, read][..])),
            ),
            (
                "```rust\nfn main() {}\n```\nThen:\n```json\n{\"name\": \"Bash\", \"arguments\": {\"command\": \"ls\"}}\n```\n",
                Some(("```rust\nfn main() {}\n```\nThen:", &[bash][..])),
            ),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn text_that_is_no_call_stays() {
        for text in [
            "",
            "The answer is 4.",
            "```json\n{\"name\": \"Read\", \"arguments\": {}}\n```\nThis is how a call looks.",
            "```json\n{\"name\": \"Unknown\", \"arguments\": {}}\n```",
            "```json\n{\"name\": \"Read\"}\n```",
            "```json\n{\"name\": \"Read\", \"arguments\": [1]}\n```",
            "<tool_call>{\"name\": \"Read\", \"arguments\": {</tool_call>",
            "inline {\"name\": \"Read\", \"arguments\": {}}",
        ] {
            check(text, None);
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z`{}\\[\\]<>/_\":, \n]{0,200}") {
            let _ = written_calls(&text, |_| true);
        }
    }
}
