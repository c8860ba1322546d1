//! The conversation: messages of the user, of the model, and results of tool calls. Independent of an API, and the form
//! in which sessions are stored.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::wire::Wire;

/// What parts a namespace and a name.
pub(crate) const NAMESPACE_END: &str = "__";

/// Returns a name with its namespace.
pub(crate) fn full_name<'a>(namespace: Option<&str>, name: &'a str) -> Cow<'a, str> {
    match namespace {
        Some(namespace) => Cow::Owned(format!("{namespace}{NAMESPACE_END}{name}")),
        None => Cow::Borrowed(name),
    }
}

/// Returns whether every API takes a character in names and ids.
pub(crate) fn is_name_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_' || char == '-'
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// From the user, or from the agent loop in the user's place.
    User {
        /// The text.
        text: String,
    },
    /// From the model.
    Model {
        /// Text, thinking and calls, in the order of the stream.
        parts: Vec<Part>,
    },
    /// The results of all calls of the model's last message, in the order of the calls.
    Results {
        /// One result per call.
        results: Vec<CallResult>,
    },
}

/// A part of a model's message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Text for the user.
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning before the answer.
    Thinking {
        /// The text, or a summary of it; may be empty where the provider shows none.
        text: String,
        /// The item that the provider wants back, unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sealed: Option<Sealed>,
    },
    /// A tool call.
    Call(ToolCall),
}

/// A signed or encrypted item of one API. It is sent back to the same API only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sealed {
    /// The API that made it.
    pub wire: Wire,
    /// The item as it was received.
    pub item: Value,
}

/// A tool call as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id under which the provider expects the result.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The namespace of the tool, where the Responses API names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The arguments as JSON, unchecked.
    pub arguments: String,
}

impl ToolCall {
    /// Returns the name with its namespace, as the catalog has it.
    pub fn full_name(&self) -> Cow<'_, str> {
        full_name(self.namespace.as_deref(), &self.name)
    }

    /// Returns the arguments as valid JSON, for servers that read the conversation again: an empty object where they are
    /// none, since the result names the error.
    pub(crate) fn valid_arguments(&self) -> Cow<'_, str> {
        match serde_json::from_str::<Map<String, Value>>(&self.arguments) {
            Ok(_) => Cow::Borrowed(&self.arguments),
            Err(_) => {
                Cow::Owned(Value::Object(self.parsed_arguments().unwrap_or_default()).to_string())
            }
        }
    }

    /// Parses the arguments. No arguments count as an empty object, and a JSON string that holds an object as that object:
    /// small models write both. The error tells the model why they are invalid.
    pub fn parsed_arguments(&self) -> Result<Map<String, Value>, String> {
        let written = self.arguments.trim();
        if written.is_empty() || written == "null" {
            return Ok(Map::new());
        }
        let parsed: Value = serde_json::from_str(written)
            .map_err(|error| format!("the arguments are not valid JSON: {error}"))?;
        let parsed = match parsed {
            Value::String(inner) => serde_json::from_str(&inner).unwrap_or(Value::String(inner)),
            parsed => parsed,
        };
        match parsed {
            Value::Object(members) => Ok(members),
            _ => Err(String::from("the arguments must be a JSON object")),
        }
    }
}

/// The result of a tool call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// The id of the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The text for the model.
    pub text: String,
    /// Images for the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Whether the call failed.
    #[serde(default)]
    pub is_error: bool,
    /// Where the full output is kept, relative to the first root, if the text was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// An image of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The content in base64.
    pub data: String,
    /// The media type, such as `image/png`.
    pub mime_type: String,
}

/// Returns the calls of a message.
pub(crate) fn message_calls(parts: &[Part]) -> impl Iterator<Item = &ToolCall> {
    parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(call),
        _ => None,
    })
}

/// Returns the text of a message.
pub(crate) fn message_text(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parsed_arguments_accepts_what_small_models_write() {
        for (written, expected) in [
            ("", Ok(json!({}))),
            (" null ", Ok(json!({}))),
            ("{\"a\": 1}", Ok(json!({"a": 1}))),
            ("\"{\\\"a\\\": 1}\"", Ok(json!({"a": 1}))),
            ("[1]", Err("must be a JSON object")),
            ("\"text\"", Err("must be a JSON object")),
            ("{\"a\": ", Err("not valid JSON")),
        ] {
            let call = ToolCall {
                id: String::new(),
                name: String::from("Read"),
                namespace: None,
                arguments: written.to_owned(),
            };
            let valid = serde_json::from_str::<Value>(&call.valid_arguments()).expect("JSON");
            assert!(valid.is_object(), "{written}: {valid}");
            match (call.parsed_arguments(), expected) {
                (Ok(parsed), Ok(expected)) => assert_eq!(Value::Object(parsed), expected),
                (Err(words), Err(part)) => assert!(words.contains(part), "{words}"),
                (parsed, _) => panic!("{written}: {parsed:?}"),
            }
        }
    }
}
