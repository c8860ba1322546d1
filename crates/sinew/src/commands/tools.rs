//! `sinew tools`: lists the tools and exports their schemas.

use std::io::Write;
use std::process::ExitCode;

use serde_json::{Value, json};
use sinew_runtime::ToolInfo;
use sinew_tool::Effects;

use crate::cli::{Format, ToolsArgs};
use crate::screen;
use crate::wiring::{self, Loaded};

/// Lists the tools.
pub(crate) fn run(loaded: &Loaded, args: &ToolsArgs) -> anyhow::Result<ExitCode> {
    super::warn(loaded);
    let wired = wiring::wire(loaded, "tools", &["all"], None)?;
    if wired.servers.is_some() {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        tokio.block_on(wired.settle_tools(None));
    }
    let catalogs = wired.runtime.catalogs();
    let tools = catalogs.first().into_iter().flat_map(|catalog| catalog.tools());
    let format = args.format.or(args.json.then_some(Format::Mcp));
    let mut out = std::io::stdout().lock();
    match format {
        Some(format) => {
            let list = tools.map(|tool| shaped(tool, format)).collect();
            let list = wrapped(list, format);
            writeln!(out, "{}", serde_json::to_string_pretty(&list)?)?;
        }
        None => {
            let mut out = screen::Visible::new(out);
            for tool in tools {
                let first = tool.description.split_inclusive(". ").next().unwrap_or_default();
                writeln!(out, "{:<12} {}", tool.name, first.trim_end())?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats a tool for a protocol or model API. `::` in a name becomes `__`; calls may use either.
fn shaped(tool: ToolInfo, format: Format) -> Value {
    let name = tool.name.replace("::", "__");
    match format {
        Format::Mcp => mcp(tool),
        Format::Anthropic => json!({
            "name": name,
            "description": tool.description,
            "input_schema": tool.parameters,
        }),
        Format::Openai => json!({
            "type": "function",
            "function": {
                "name": name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }),
        Format::Gemini => json!({
            "name": name,
            "description": tool.description,
            "parametersJsonSchema": tool.parameters,
        }),
    }
}

fn mcp(tool: ToolInfo) -> Value {
    let looks = tool.facts.effects.only_observes();
    let mut annotations = json!({
        "readOnlyHint": looks,
        "openWorldHint": tool.facts.effects.contains(Effects::NETWORK),
    });
    if !looks && let Some(hints) = annotations.as_object_mut() {
        hints.insert(String::from("destructiveHint"), Value::Bool(tool.facts.destructive));
        hints.insert(String::from("idempotentHint"), Value::Bool(tool.facts.idempotent));
    }
    let mut shown = json!({
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.parameters,
        "annotations": annotations,
    });
    if let Some(object) = shown.as_object_mut() {
        if let Some(title) = tool.title {
            object.insert(String::from("title"), Value::from(title));
        }
        if let Some(schema) = tool.output_schema {
            object.insert(String::from("outputSchema"), schema);
        }
    }
    shown
}

/// Wraps the list for Gemini, which takes one object.
fn wrapped(list: Vec<Value>, format: Format) -> Value {
    match format {
        Format::Gemini => json!([{ "functionDeclarations": list }]),
        Format::Mcp | Format::Anthropic | Format::Openai => Value::Array(list),
    }
}
