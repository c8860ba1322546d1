//! `sinew help`: the help of a command, or a tool with its parameters and an example.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::{Map, Value, json};
use sinew_runtime::ToolInfo;
use sinew_tool::wire_name;

use crate::cli::{Cli, HelpArgs};
use crate::screen;
use crate::wiring::Loaded;

/// Arguments of an example call of each native tool.
const EXAMPLES: &[(&str, &str)] = &[
    ("Read", "file_path=src/main.rs limit=20"),
    ("Write", "file_path=notes.txt content='one line'"),
    ("Edit", "file_path=src/main.rs old_string=colour new_string=color replace_all=true"),
    (
        "MultiEdit",
        r#"file_path=src/main.rs edits:='[{"old_string": "colour", "new_string": "color"}]'"#,
    ),
    ("ApplyPatch", "patch=\"$(cat fix.patch)\""),
    ("Glob", "pattern='**/*.rs'"),
    ("Grep", "pattern='fn main' glob='*.rs' output_mode=content"),
    ("List", "path=src depth=2"),
    ("Bash", "command='cargo test' timeout=600000"),
    ("BashOutput", "bash_id=b1 until='listening on'"),
    ("KillShell", "shell_id=b1"),
    ("Terminal", "command='python3 -i'"),
    ("WebFetch", "url=https://example.com/"),
    ("WebSearch", "query='rust seccomp user notification' max_results=3"),
    ("MemoryRead", "query=release"),
    ("MemoryWrite", "content='Releases are tagged from main.'"),
    ("AgentSend", "target=review message='The branch is ready.'"),
    ("AgentInbox", "limit=5"),
    ("Message", "channel=console chat_id=me content=done"),
    ("TodoWrite", r#"todos:='[{"content": "Run the tests", "status": "pending"}]'"#),
    ("Spawn", r#"tasks:='[{"prompt": "Find the callers of parse_args"}]'"#),
    ("Skill", "name=release"),
    ("ToolSearch", "query='issues of a repository'"),
    ("Undo", "dry_run=true"),
    ("CheckpointList", "limit=5"),
    ("CheckpointRestore", "id=c12 dry_run=true"),
];

/// Prints the help of all commands, of one, or of a tool.
pub(crate) fn run(
    load: impl FnOnce() -> anyhow::Result<Loaded>,
    args: &HelpArgs,
) -> anyhow::Result<ExitCode> {
    let mut cli = Cli::for_help();
    let mut found = &mut cli;
    let mut path = Vec::new();
    for word in &args.topic {
        if found.find_subcommand(word).is_none() {
            return match args.topic.as_slice() {
                [tool] => of_tool(&load()?, tool, args.json),
                _ => {
                    anyhow::bail!("`sinew {}` has no command `{word}`", path.join(" "))
                }
            };
        }
        found = found.find_subcommand_mut(word).context("a command that was found")?;
        path.push(word.as_str());
    }
    let path = path.join(" ");
    let name = format!("sinew {path}");
    let mut shown = found.clone().bin_name(name.trim_end().to_owned());
    let text = shown.render_long_help().to_string();
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", json!({ "command": path, "help": text }))?,
        false => out.write_all(text.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn of_tool(loaded: &Loaded, name: &str, as_json: bool) -> anyhow::Result<ExitCode> {
    let wired = super::tools::wired(loaded, "help")?;
    let catalogs = wired.runtime.catalogs();
    let tools = catalogs.first().into_iter().flat_map(|catalog| catalog.all_tools());
    let tools: Vec<ToolInfo> = tools.collect();
    let is_meant = |tool: &&ToolInfo| tool.name == name || wire_name(&tool.name) == name;
    let in_other_letters = |tool: &&ToolInfo| tool.name.eq_ignore_ascii_case(name);
    let found = tools.iter().find(is_meant).or_else(|| tools.iter().find(in_other_letters));
    let Some(tool) = found else {
        anyhow::bail!(
            "there is no command and no tool `{name}`; `sinew help` lists the commands, `sinew tools` the tools"
        );
    };
    let example = example(tool);
    let mut out = std::io::stdout().lock();
    match as_json {
        true => {
            let shown = json!({
                "tool": tool.name, "description": tool.description,
                "input_schema": tool.parameters, "example": example,
            });
            writeln!(out, "{shown}")?;
        }
        false => screen::Visible::new(out).write_all(words(tool, &example).as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a command line that calls the tool: that of the table, or one with its required parameters.
fn example(tool: &ToolInfo) -> String {
    let known = EXAMPLES.iter().find(|(name, _)| *name == tool.name).map(|(_, words)| *words);
    let placeholders = || {
        let names = required(&tool.parameters);
        let words = names.map(|name| match kind(property(&tool.parameters, name)).as_str() {
            "string" => format!(" {name}=TEXT"),
            "integer" | "number" => format!(" {name}=1"),
            "boolean" => format!(" {name}=true"),
            _ => format!(" {name}:=JSON"),
        });
        words.collect::<String>()
    };
    let words = known.map_or_else(placeholders, |words| format!(" {words}"));
    format!("sinew call {}{words}", wire_name(&tool.name))
}

/// Returns the tool in words: what it does, its parameters, and an example.
fn words(tool: &ToolInfo, example: &str) -> String {
    let mut text = format!("{}\n{}\n", wire_name(&tool.name), tool.description.trim_end());
    let names: Vec<&String> = properties(&tool.parameters).map(|(name, _)| name).collect();
    if names.is_empty() {
        text.push_str("\nIt takes no parameters.\n");
    } else {
        text.push_str("\nParameters:\n");
    }
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    for (name, schema) in properties(&tool.parameters) {
        let mut facts = vec![kind(Some(schema))];
        if required(&tool.parameters).any(|one| one == name) {
            facts.push(String::from("required"));
        }
        let number = |key: &str| schema.get(key).filter(|value| value.is_number());
        match (number("minimum"), number("maximum")) {
            (Some(least), Some(most)) => facts.push(format!("{least} to {most}")),
            (Some(least), None) => facts.push(format!("at least {least}")),
            (None, Some(most)) => facts.push(format!("at most {most}")),
            (None, None) => {}
        }
        facts.extend(schema.get("default").map(|value| format!("default {value}")));
        text.push_str(&format!("  {name:<width$}  {}\n", facts.join(", ")));
        let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        for line in about.lines() {
            text.push_str(&format!("  {:<width$}  {line}\n", ""));
        }
    }
    text.push_str(&format!("\nExample:\n  {example}\n"));
    text
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let all = schema.get("properties").and_then(Value::as_object);
    all.into_iter().flat_map(Map::iter)
}

fn property<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(name)
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    let all = schema.get("required").and_then(Value::as_array);
    all.into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the type of a parameter in a word or two.
fn kind(schema: Option<&Value>) -> String {
    let Some(schema) = schema else { return String::from("value") };
    let values = schema.get("enum").and_then(Value::as_array);
    if let Some(values) = values {
        let words = values.iter().map(|value| match value {
            Value::String(word) => word.clone(),
            value => value.to_string(),
        });
        return words.collect::<Vec<_>>().join(" | ");
    }
    match schema.get("type") {
        Some(Value::String(word)) if word == "array" => {
            format!("array of {}", kind(schema.get("items")))
        }
        Some(Value::String(word)) => word.clone(),
        Some(Value::Array(words)) => {
            let words = words.iter().filter_map(Value::as_str).filter(|word| *word != "null");
            words.collect::<Vec<_>>().join(" or ")
        }
        _ => String::from("value"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_of_a_parameter_in_words() {
        for (schema, expected) in [
            (json!({ "type": "string" }), "string"),
            (json!({ "type": ["integer", "null"] }), "integer"),
            (json!({ "type": "array", "items": { "type": "object" } }), "array of object"),
            (json!({ "type": "string", "enum": ["a", "b"] }), "a | b"),
            (json!({ "anyOf": [] }), "value"),
        ] {
            assert_eq!(kind(Some(&schema)), expected, "{schema}");
        }
    }
}
