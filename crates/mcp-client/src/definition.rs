//! The definition of a tool as its server sent it: cleaned for the model, and hashed for its pin.
//!
//! A definition is text of others that a model reads as an instruction. So what a person does not see is left out of
//! its descriptions, sizes are limited, and the hash covers the definition as it was sent.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sinew_tool::visible::is_ignorable;
use sinew_tool::{ContentHash, shown, shown_line, visible_only};

/// The longest description for a model, in bytes.
pub const MAX_DESCRIPTION: usize = 4 * 1024;
/// The longest schema as JSON, in bytes.
pub const MAX_SCHEMA: usize = 256 * 1024;
/// How deep a schema may be nested.
pub const MAX_DEPTH: usize = 64;
/// The longest name of a tool at its server, in bytes.
const MAX_NAME: usize = 256;
/// Members of a schema whose text is for the reader alone.
const TEXTS: [&str; 3] = ["description", "title", "$comment"];

/// A tool as its server defined it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// The name at the server.
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description for the model.
    #[serde(default)]
    pub description: String,
    /// The JSON schema of the arguments.
    pub parameters: Value,
    /// The JSON schema of the structured result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// What the server says of the effects, which is a hint and no fact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
}

impl Definition {
    /// Returns the definition in one entry of `tools/list`, or why it is none.
    pub(crate) fn of(mut entry: Value) -> Result<Self, String> {
        let text = |value: Option<Value>| match value {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let mut take = |name: &str| entry.get_mut(name).map(Value::take);
        let name = text(take("name")).ok_or("a tool has no name")?;
        let is_object = |schema: &Value| schema.is_object();
        let parameters = take("inputSchema").filter(is_object);
        let parameters = parameters
            .ok_or_else(|| format!("the tool {} has no object as its schema", shown_line(&name)))?;
        Ok(Self {
            title: text(take("title")),
            description: text(take("description")).unwrap_or_default(),
            parameters,
            output_schema: take("outputSchema").filter(is_object),
            annotations: take("annotations").filter(is_object),
            name,
        })
    }

    /// Returns the BLAKE3 of the definition as it was sent, independent of the order of members.
    pub fn hash(&self) -> ContentHash {
        let value = serde_json::to_value(self).unwrap_or_default();
        let mut hasher = blake3::Hasher::new();
        hash_value(&mut hasher, &value);
        ContentHash::from(<[u8; 32]>::from(hasher.finalize()))
    }

    /// Returns the definition for the model, or why the tool cannot be offered.
    pub(crate) fn cleaned(&self) -> Result<Self, String> {
        if self.name.is_empty() || MAX_NAME < self.name.len() {
            return Err(format!(
                "its name has {} bytes; 1 to {MAX_NAME} are read",
                self.name.len()
            ));
        }
        let mut parameters = self.parameters.clone();
        let mut output_schema = self.output_schema.clone();
        for schema in [Some(&mut parameters), output_schema.as_mut()].into_iter().flatten() {
            let bytes = schema.to_string().len();
            if MAX_SCHEMA < bytes {
                return Err(format!("a schema has {bytes} bytes; {MAX_SCHEMA} are read"));
            }
            clean(schema, 0)?;
        }
        if let Value::Object(members) = &mut parameters {
            members.entry("type").or_insert_with(|| Value::from("object"));
        }
        Ok(Self {
            name: self.name.clone(),
            title: self.title.as_deref().map(|title| text(title, MAX_NAME)),
            description: text(&self.description, MAX_DESCRIPTION),
            parameters,
            output_schema,
            annotations: self.annotations.clone(),
        })
    }

    /// Returns the definition as JSON of several lines, with unseen characters escaped.
    pub fn pretty(&self) -> String {
        shown(&serde_json::to_string_pretty(self).unwrap_or_default())
    }
}

/// Returns visible text of at most so many bytes, with a note where it was cut.
fn text(text: &str, most: usize) -> String {
    let mut text = visible_only(text);
    if most < text.len() {
        text.truncate(text.floor_char_boundary(most));
        text.push_str(" [cut by sinew]");
    }
    text
}

/// Cleans the texts of a schema; fails where another part of it holds invisible characters.
fn clean(value: &mut Value, depth: usize) -> Result<(), String> {
    if MAX_DEPTH < depth {
        return Err(format!("a schema is nested deeper than {MAX_DEPTH} levels"));
    }
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                seen(name)?;
                match member {
                    Value::String(words) if TEXTS.contains(&name.as_str()) => {
                        *words = text(words, MAX_DESCRIPTION);
                    }
                    member => clean(member, depth + 1)?,
                }
            }
            Ok(())
        }
        Value::Array(values) => values.iter_mut().try_for_each(|value| clean(value, depth + 1)),
        Value::String(text) => seen(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn seen(text: &str) -> Result<(), String> {
    // A variation selector belongs to the sign before it.
    let is_unseen = |c: char| match c {
        '\n' | '\t' | '\r' | '\u{fe0f}' => false,
        c => c.is_control() || is_ignorable(c),
    };
    match text.chars().any(is_unseen) {
        true => Err(format!("its schema holds unseen characters: {}", shown_line(text))),
        false => Ok(()),
    }
}

/// Hashes a value with lengths, and members by name.
fn hash_value(hasher: &mut blake3::Hasher, value: &Value) {
    let sized = |hasher: &mut blake3::Hasher, tag: u8, n: usize| {
        hasher.update(&[tag]).update(&(n as u64).to_le_bytes());
    };
    match value {
        Value::Object(members) => {
            let mut names: Vec<_> = members.iter().collect();
            names.sort_unstable_by_key(|(name, _)| name.as_str());
            sized(hasher, b'{', names.len());
            for (name, value) in names {
                sized(hasher, b'k', name.len());
                hasher.update(name.as_bytes());
                hash_value(hasher, value);
            }
        }
        Value::Array(values) => {
            sized(hasher, b'[', values.len());
            values.iter().for_each(|value| hash_value(hasher, value));
        }
        Value::String(text) => {
            sized(hasher, b's', text.len());
            hasher.update(text.as_bytes());
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            let text = value.to_string();
            sized(hasher, b'v', text.len());
            hasher.update(text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(description: &str, parameters: Value) -> Definition {
        Definition {
            name: String::from("add"),
            title: None,
            description: description.to_owned(),
            parameters,
            output_schema: None,
            annotations: None,
        }
    }

    #[test]
    fn what_a_person_does_not_see_is_left_out() {
        let parameters = json!({"properties": {"a": {"description": "one\u{200b}\u{e0041}"}}});
        let cleaned =
            definition("Adds\u{202e} two\u{1b}[1m.", parameters).cleaned().expect("clean");
        assert_eq!(cleaned.description, "Adds two[1m.");
        assert_eq!(
            cleaned.parameters,
            json!({"properties": {"a": {"description": "one"}}, "type": "object"})
        );
    }

    #[test]
    fn what_cannot_be_offered_says_why() {
        let nested = (0..100).fold(json!({}), |inner, _| json!({ "items": inner }));
        let long = json!({"properties": {"a": {"enum": ["x".repeat(MAX_SCHEMA)]}}});
        for (parameters, why) in [
            (json!({"properties": {"a\u{200b}": {}}}), "unseen characters: a\\u{200b}"),
            (json!({"properties": {"a": {"enum": ["\u{e0041}"]}}}), "unseen characters"),
            (nested, "nested deeper than 64"),
            (long, "bytes; 262144 are read"),
        ] {
            let error = definition("", parameters).cleaned().expect_err("refused");
            assert!(error.contains(why), "{error}");
        }
        let long = definition(&"é".repeat(MAX_DESCRIPTION), json!({})).cleaned().expect("clean");
        assert!(long.description.ends_with("é [cut by sinew]"));
        assert!(long.description.len() < MAX_DESCRIPTION + 20);
    }

    #[test]
    fn every_part_counts_for_the_hash() {
        let one = definition("Adds.", json!({"type": "object", "properties": {"a": {}}}));
        let order = definition("Adds.", json!({"properties": {"a": {}}, "type": "object"}));
        assert_eq!(one.hash(), order.hash());
        let changed = [
            Definition { name: String::from("Add"), ..one.clone() },
            Definition { title: Some(String::new()), ..one.clone() },
            Definition { description: String::from("Adds.\u{200b}"), ..one.clone() },
            Definition { parameters: json!({"type": "object"}), ..one.clone() },
            Definition { output_schema: Some(json!({})), ..one.clone() },
            Definition { annotations: Some(json!({"readOnlyHint": true})), ..one.clone() },
        ];
        for other in changed {
            assert_ne!(one.hash(), other.hash(), "{other:?}");
            assert_ne!(one.pretty(), other.pretty());
        }
    }
}
