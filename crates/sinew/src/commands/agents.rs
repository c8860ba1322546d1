//! `sinew agents`: lists and shows the templates of sub-agents.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::json;
use sinew_tool::shown_line;

use crate::cli::AgentsCommand;
use crate::config::agent_templates::{AgentTemplate, FoundTemplates};
use crate::screen::{self, say};
use crate::skills::SkillFinder;
use crate::wiring::Loaded;

/// Runs the command.
pub(crate) fn run(loaded: &Loaded, command: &AgentsCommand) -> anyhow::Result<ExitCode> {
    super::warn(loaded);
    let found = SkillFinder::new(loaded).find_templates();
    match command {
        AgentsCommand::List { json: true } => list_as_json(&found)?,
        AgentsCommand::List { json: false } => list(&found)?,
        AgentsCommand::Show { template } => {
            let known = found.templates.iter().find(|known| known.name == *template);
            let Some(known) = known else {
                let template = shown_line(template);
                bail!("there is no template `{template}`; `sinew agents list` lists them");
            };
            show(known)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(found: &FoundTemplates) -> anyhow::Result<()> {
    let mut out = screen::output();
    for AgentTemplate { name, source, description, .. } in &found.templates {
        writeln!(out, "{name:<24} {source:<8} {}", shown_line(description))?;
    }
    found.problems.iter().for_each(|problem| say(problem));
    Ok(())
}

fn list_as_json(found: &FoundTemplates) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for template in &found.templates {
        let AgentTemplate { name, source, path, description, tools, model, max_steps, .. } =
            template;
        let line = json!({
            "template": name, "source": source.as_str(), "path": path, "description": description,
            "tools": tools, "model": model, "max_steps": max_steps,
        });
        writeln!(out, "{line}")?;
    }
    for problem in &found.problems {
        writeln!(out, "{}", json!({ "problem": problem }))?;
    }
    Ok(())
}

fn show(template: &AgentTemplate) -> anyhow::Result<()> {
    let mut out = screen::output();
    let AgentTemplate { name, source, path, description, tools, model, max_steps, body } = template;
    match path {
        Some(path) => writeln!(out, "{name} ({source}), {}", shown_line(&path.to_string_lossy()))?,
        None => writeln!(out, "{name} ({source})")?,
    }
    writeln!(out, "{}", shown_line(description))?;
    if let Some(tools) = tools {
        writeln!(out, "tools: {}", shown_line(&tools.join(", ")))?;
    }
    if let Some(model) = model {
        writeln!(out, "model: {}", shown_line(model))?;
    }
    if let Some(max_steps) = max_steps {
        writeln!(out, "rounds of tool calls: {max_steps}")?;
    }
    writeln!(out, "\n{body}")?;
    Ok(())
}
