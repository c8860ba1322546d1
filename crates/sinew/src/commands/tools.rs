//! `sinew tools`: lists the tools and exports their schemas.

use std::io::Write;
use std::process::ExitCode;

use serde_json::{Value, json};
use sinew_runtime::{Catalog, ToolInfo, Visibility};
use sinew_tool::{Effects, wire_name};

use crate::agent::spawner::Spawner;
use crate::cli::{Format, ToolsArgs};
use crate::wiring::{self, Loaded, Wired};
use crate::{json_form, screen};

/// Returns a runtime that serves every tool, those of other servers too.
pub(super) fn wired(loaded: &Loaded, command: &'static str) -> anyhow::Result<Wired> {
    super::warn(loaded);
    let wired = wiring::wire(loaded, command, &["all"], None)?;
    Spawner::add(loaded, &wired);
    if wired.servers.is_some() {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        tokio.block_on(wired.settle_tools(None));
    }
    Ok(wired)
}

/// Lists the tools.
pub(crate) fn run(loaded: &Loaded, args: &ToolsArgs) -> anyhow::Result<ExitCode> {
    let wired = wired(loaded, "tools")?;
    let catalogs = wired.runtime.catalogs();
    if args.cost {
        return cost(catalogs.first(), args.json);
    }
    let tools = catalogs.first().into_iter().flat_map(|catalog| catalog.tools());
    if args.json {
        json_form::write_all(&mut tools.map(row))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = std::io::stdout().lock();
    match args.format {
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

/// How many bytes of compact JSON are about one token: the mean of the tokenizers of several models.
const BYTES_OF_TOKEN: f64 = 4.0;

/// Prints what each tool costs, and the sums of those that are listed and of those that are deferred.
fn cost(catalog: Option<&Catalog>, as_json: bool) -> anyhow::Result<ExitCode> {
    let tokens = |tool: &ToolInfo| {
        let bytes = shaped(tool.clone(), Format::Anthropic).to_string().len();
        (bytes as f64 / BYTES_OF_TOKEN).ceil() as u64
    };
    let listed: Vec<String> =
        catalog.into_iter().flat_map(Catalog::tools).map(|tool| tool.name).collect();
    let mut rows: Vec<(String, &'static str, u64)> = Vec::new();
    for tool in catalog.into_iter().flat_map(Catalog::all_tools) {
        let state = match tool.visibility {
            Visibility::Deferred => "deferred",
            _ if listed.contains(&tool.name) => "listed",
            _ => continue,
        };
        rows.push((tool.name.clone(), state, tokens(&tool)));
    }
    rows.sort_by_key(|(_, _, tokens)| std::cmp::Reverse(*tokens));
    let sum = |wanted: &str| -> u64 {
        rows.iter().filter(|(_, state, _)| *state == wanted).map(|(_, _, tokens)| tokens).sum()
    };
    let (n_listed, n_deferred) = (sum("listed"), sum("deferred"));
    if as_json {
        let tools = rows.iter();
        let tools =
            tools.map(|(name, state, n)| json!({"tool": name, "visibility": state, "tokens": n}));
        json_form::write(&json!({
            "tools": tools.collect::<Vec<_>>(), "n_listed": n_listed, "n_deferred": n_deferred,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = screen::Visible::new(std::io::stdout().lock());
    for (name, state, tokens) in &rows {
        writeln!(out, "{tokens:>7}  {state:<8}  {name}")?;
    }
    writeln!(out, "{n_listed:>7}  tokens in a list, about; deferred tools would add {n_deferred}")?;
    Ok(ExitCode::SUCCESS)
}

/// Formats a tool for a protocol or model API. `::` in a name becomes `__`; calls may use either.
fn shaped(tool: ToolInfo, format: Format) -> Value {
    let name = wire_name(&tool.name);
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

/// Returns a line of `--json`.
fn row(tool: ToolInfo) -> Value {
    let facts = &tool.facts;
    let annotations = json!({
        "read_only": facts.effects.only_observes(),
        "open_world": facts.effects.contains(Effects::NETWORK),
        "destructive": facts.destructive, "idempotent": facts.idempotent,
    });
    json!({
        "tool": tool.name, "title": tool.title, "description": tool.description,
        "input_schema": tool.parameters, "output_schema": tool.output_schema, "annotations": annotations,
    })
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
