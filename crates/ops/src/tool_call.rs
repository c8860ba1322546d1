//! ToolCall: calls a tool by its name, for clients that cannot call what they do not list.

use std::sync::Arc;

use serde_json::{Value, json};
use sinew_tool::{Arguments, Facts, FileSettings, Kind, Prepared, Tool, ToolError, function_call};

/// Calls another tool. The runtime puts the other call in its place, so that rules, questions and records are about
/// that one.
#[derive(Debug)]
pub struct ToolCall;

impl Tool for ToolCall {
    fn name(&self) -> &str {
        "ToolCall"
    }

    fn description(&self) -> &str {
        "Calls a tool that ToolSearch found, where it cannot be called by its own name."
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "description": "the tool" },
                "arguments": { "type": "object", "description": "its arguments, by its schema" },
            },
            "required": ["name"],
            "additionalProperties": false,
        })
    }

    fn facts(&self) -> Facts {
        Facts::UNKNOWN
    }

    fn checked_by_schema(&self) -> bool {
        false
    }

    fn for_deferred(&self) -> bool {
        true
    }

    fn prepare(
        self: Arc<Self>,
        args: Arguments,
        _settings: &Arc<FileSettings>,
    ) -> Result<Box<dyn Prepared>, ToolError> {
        forwarded(&args)?;
        Ok(function_call(self, args))
    }

    fn forwards(&self, args: &Arguments) -> Option<Result<(String, Arguments), ToolError>> {
        Some(forwarded(args))
    }
}

fn forwarded(args: &Arguments) -> Result<(String, Arguments), ToolError> {
    let unknown = args.keys().find(|name| !matches!(name.as_str(), "name" | "arguments"));
    if let Some(unknown) = unknown {
        return Err(ToolError::argument(
            "arguments",
            format!("`{unknown}` belongs in this object"),
        ));
    }
    let name = match args.get("name") {
        Some(Value::String(name)) => name.clone(),
        _ => return Err(ToolError::argument("name", "must be the name of a tool")),
    };
    let arguments = match args.get("arguments") {
        None | Some(Value::Null) => Arguments::new(),
        Some(Value::Object(arguments)) => arguments.clone(),
        // Some models write an object as text.
        Some(Value::String(text)) => serde_json::from_str(text).map_err(|error| {
            ToolError::argument("arguments", format!("must be a JSON object: {error}"))
        })?,
        Some(_) => return Err(ToolError::argument("arguments", "must be a JSON object")),
    };
    match name.as_str() {
        "ToolCall" => Err(ToolError::new(Kind::InvalidArgs, "ToolCall does not call itself")),
        _ => Ok((name, arguments)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(args: Value, expected: Result<(&str, Value), &str>) {
        let args = args.as_object().cloned().unwrap_or_default();
        let done = ToolCall.forwards(&args).expect("it forwards");
        match (done, expected) {
            (Ok((name, arguments)), Ok((wanted, given))) => {
                assert_eq!((name.as_str(), json!(arguments)), (wanted, given));
            }
            (Err(error), Err(words)) => assert!(error.message.contains(words), "{error}"),
            (done, expected) => panic!("{done:?}, not {expected:?}"),
        }
    }

    #[test]
    fn calls_are_unwrapped() {
        for (args, expected) in [
            (json!({"name": "a", "arguments": {"b": 1}}), Ok(("a", json!({"b": 1})))),
            (json!({"name": "a"}), Ok(("a", json!({})))),
            (json!({"name": "a", "arguments": "{\"b\": 1}"}), Ok(("a", json!({"b": 1})))),
            (json!({"name": "a", "arguments": [1]}), Err("must be a JSON object")),
            (json!({"name": "a", "arguments": "x"}), Err("must be a JSON object")),
            (json!({"arguments": {}}), Err("must be the name of a tool")),
            (json!({"name": "a", "b": 1}), Err("`b` belongs in this object")),
            (json!({"name": "ToolCall"}), Err("does not call itself")),
        ] {
            check(args, expected);
        }
    }
}
