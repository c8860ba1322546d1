//! A call in one line for people: its tool, what it is about, and how it ended.

use std::time::Duration;

use serde_json::{Map, Value};
use sinew_agent::{CallResult, ToolCall};
use sinew_tool::shown_line;

/// The arguments that say what a call is about, the most telling first.
const TELLING: &[&str] = &[
    "file_path",
    "filePath",
    "path",
    "paths",
    "command",
    "cmd",
    "argv",
    "pattern",
    "query",
    "url",
    "name",
];
/// The arguments with the tasks of sub-agents, and with the list of tasks of TodoWrite.
const TASKS: &str = "tasks";
const TODOS: &str = "todos";
/// The longest text about a task, in characters.
const MAX_TASK: usize = 30;
/// The longest text about a call, in characters.
const MAX_ABOUT: usize = 100;
/// From so long on the duration is shown in seconds.
const SECONDS: Duration = Duration::from_secs(10);

/// Returns the tool and what the call is about.
pub(crate) fn about(call: &ToolCall) -> String {
    let name = cut(&call.full_name());
    let about = match call.parsed_arguments() {
        Ok(arguments) if arguments.is_empty() => String::new(),
        Ok(arguments) if arguments.contains_key(TASKS) => tasks(&arguments),
        Ok(arguments) if arguments.contains_key(TODOS) => String::new(),
        Ok(arguments) => match TELLING.iter().find_map(|key| arguments.get(*key)) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(words)) => {
                let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                words.join(" ")
            }
            _ => Value::Object(arguments).to_string(),
        },
        Err(_) => call.arguments.clone(),
    };
    let line = format!("{name} {}", cut(about.trim()));
    line.trim_end().to_owned()
}

/// Returns whether the result of a call is a list that people see as it is.
pub(crate) fn is_list(call: &ToolCall) -> bool {
    call.parsed_arguments().is_ok_and(|arguments| arguments.contains_key(TODOS))
}

/// Returns the tasks of sub-agents: their names, or else how they begin, with their templates.
fn tasks(arguments: &Map<String, Value>) -> String {
    let all = arguments.get(TASKS).and_then(Value::as_array);
    let task = |task: &Value| {
        let text = |name: &str| task.get(name).and_then(Value::as_str);
        let named = text("name").or_else(|| text("prompt")).unwrap_or_default();
        let end = named.char_indices().nth(MAX_TASK).map_or(named.len(), |(at, _)| at);
        let named = named.get(..end).unwrap_or_default();
        match text("template") {
            Some(template) => format!("{named} ({template})"),
            None => named.to_owned(),
        }
    };
    all.into_iter().flatten().map(task).collect::<Vec<_>>().join(", ")
}

/// Returns how a call ended: its duration, and of a failure the first line.
pub(crate) fn ended(result: &CallResult, duration: Duration) -> String {
    let took = match duration {
        long if SECONDS <= long => format!("{:.0} s", long.as_secs_f64()),
        short => format!("{:.0} ms", short.as_secs_f64() * 1e3),
    };
    if !result.is_error {
        return took;
    }
    let first = result.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    format!("failed after {took}: {}", cut(first))
}

fn cut(text: &str) -> String {
    let line = shown_line(text);
    match line.char_indices().nth(MAX_ABOUT) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_says_what_a_call_is_about() {
        for (arguments, expected) in [
            ("{\"limit\": 3, \"file_path\": \"a.rs\"}", "T a.rs"),
            ("{\"command\": \"ls\\nrm x\"}", "T ls\\nrm x"),
            ("{\"argv\": [\"git\", \"log\"]}", "T git log"),
            ("{\"n\": 1}", "T {\"n\":1}"),
            (
                "{\"tasks\": [{\"name\": \"find\", \"prompt\": \"x\", \"template\": \"explore\"}, {\"prompt\": \"count\"}]}",
                "T find (explore), count",
            ),
            ("{\"todos\": []}", "T"),
            ("{}", "T"),
            ("{broken", "T {broken"),
            ("{\"path\": \"\u{202e}x\"}", "T \\u{202e}x"),
        ] {
            let call = ToolCall {
                id: String::new(),
                name: String::from("T"),
                namespace: None,
                arguments: arguments.to_owned(),
            };
            assert_eq!(about(&call), expected);
        }
        let long = cut(&"é".repeat(200));
        assert_eq!(long.chars().count(), MAX_ABOUT + 1);
    }
}
