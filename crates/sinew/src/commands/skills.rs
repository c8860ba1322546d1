//! `sinew skills`: lists and shows the skills that agents can load.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::json;
use sinew_tool::shown_line;

use crate::cli::SkillsCommand;
use crate::config::skills::{FoundSkills, SkillFile};
use crate::screen::{self, say};
use crate::skills::SkillFinder;
use crate::wiring::Loaded;

/// Runs the command.
pub(crate) fn run(loaded: &Loaded, command: &SkillsCommand) -> anyhow::Result<ExitCode> {
    super::warn(loaded);
    let found = SkillFinder::new(loaded).find();
    match command {
        SkillsCommand::List { json: true } => list_as_json(&found)?,
        SkillsCommand::List { json: false } => list(&found)?,
        SkillsCommand::Show { skill } => {
            let Some(skill) = found.skills.iter().find(|known| known.name == *skill) else {
                bail!("there is no skill `{}`; `sinew skills list` lists them", shown_line(skill));
            };
            show(skill)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(found: &FoundSkills) -> anyhow::Result<()> {
    let mut out = screen::output();
    for SkillFile { name, source, head, .. } in &found.skills {
        writeln!(out, "{name:<24} {source:<8} {}", shown_line(&head.description))?;
    }
    found.problems.iter().for_each(|problem| say(problem));
    Ok(())
}

fn list_as_json(found: &FoundSkills) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for SkillFile { name, source, dir, head, files, .. } in &found.skills {
        let variables: Vec<_> = head
            .variables
            .iter()
            .map(|variable| json!({"name": variable.name, "default": variable.default}))
            .collect();
        let line = json!({
            "skill": name, "source": source.as_str(), "path": dir,
            "description": head.description, "allowed_tools": head.allowed_tools,
            "variables": variables, "paths": head.paths, "files": files,
            "for_model": head.for_model, "for_user": head.for_user,
        });
        writeln!(out, "{line}")?;
    }
    for problem in &found.problems {
        writeln!(out, "{}", json!({ "problem": problem }))?;
    }
    Ok(())
}

fn show(skill: &SkillFile) -> anyhow::Result<()> {
    let mut out = screen::output();
    let SkillFile { name, source, dir, head, files, body, .. } = skill;
    writeln!(out, "{name} ({source}), {}", shown_line(&dir.to_string_lossy()))?;
    writeln!(out, "{}", shown_line(&head.description))?;
    if let Some(tools) = &head.allowed_tools {
        writeln!(out, "allowed tools: {}", shown_line(&tools.join(", ")))?;
    }
    if !files.is_empty() {
        writeln!(out, "other files: {}", shown_line(&files.join(", ")))?;
    }
    writeln!(out, "\n{}", body.trim())?;
    Ok(())
}
