//! Imports permissions of other programs as sinew options.
//!
//! Each form maps text to options and notes. Where no exact rule exists, an allow rule is left out and a
//! restriction becomes stricter; a note records either.

mod agentos;
mod aionrs;
mod claude_code;
mod claude_hooks;
mod clawft;
mod mcp;
mod molf;
mod pattern;

use std::path::Path;

use clap::ValueEnum;
use serde_json::Value;

use crate::jsonc;
use crate::{Options, RuleOptions};

/// The forms of permissions that can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// molf: `permissions.jsonc`, or an agent's `NAME.md`.
    Molf,
    /// clawft: its JSON configuration.
    Clawft,
    /// agentos: its approval policy.
    Agentos,
    /// aionrs: its TOML configuration.
    Aionrs,
    /// Claude Code: `settings.json`.
    ClaudeCode,
    /// MCP: `.mcp.json` and its like.
    Mcp,
}

/// The result of an import.
#[derive(Debug, Default, PartialEq)]
pub struct Imported {
    /// The imported options.
    pub options: Options,
    /// Notes on entries that were left out or became stricter.
    pub notes: Vec<String>,
}

impl Imported {
    fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Notes a name that the options keep although nothing here has it, so that no start warns of it.
    fn absent(&mut self, name: &str, note: impl Into<String>) {
        self.note(note);
        let absent = self.options.absent.get_or_insert_default();
        if !absent.iter().any(|known| known == name) {
            absent.push(name.to_owned());
        }
    }

    /// Notes absolute paths of rules, which mean something only where a root holds them.
    fn note_absolute_paths(&mut self) {
        let rules = self.options.rules.iter().flatten();
        let of_rule = |rule: &RuleOptions| {
            let but = rule.unless.iter().flat_map(|but| but.paths.iter().flatten());
            rule.paths.iter().flatten().chain(but).cloned().collect::<Vec<_>>()
        };
        let absolute: Vec<String> =
            rules.flat_map(of_rule).filter(|glob| glob.starts_with('/')).collect();
        for glob in absolute {
            self.absent(&glob, format!("`{glob}` counts only where a root holds such a path"));
        }
    }

    /// Adds a rule unless it is a duplicate.
    fn rule(&mut self, rule: RuleOptions) {
        let rules = self.options.rules.get_or_insert_default();
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
}

/// Parses permissions. The error names the place and the reason.
pub fn read(form: Form, file: &Path, text: &str, home: Option<&Path>) -> Result<Imported, String> {
    let mut imported = read_form(form, file, text, home)?;
    imported.note_absolute_paths();
    Ok(imported)
}

fn read_form(form: Form, file: &Path, text: &str, home: Option<&Path>) -> Result<Imported, String> {
    if form == Form::Mcp {
        return mcp::read(file, text);
    }
    if form == Form::Aionrs {
        return aionrs::read(text);
    }
    if form == Form::Molf && file.extension().is_some_and(|extension| extension == "md") {
        return molf::read_agent(text, home);
    }
    let tree = jsonc::read(text).map_err(|error| error.to_string())?;
    match form {
        Form::Molf => molf::read(&tree, home),
        Form::Clawft => clawft::read(&tree),
        Form::Agentos => agentos::read(&tree),
        Form::ClaudeCode => claude_code::read(&tree, home),
        Form::Aionrs | Form::Mcp => Err(String::from("this form is not JSON")),
    }
}

/// Returns the strings of a list, or `None` without a list. Any other element is an error.
fn texts(tree: &Value, key: &str) -> Result<Option<Vec<String>>, String> {
    let Some(list) = tree.get(key) else { return Ok(None) };
    let wrong = || format!("`{key}` must be a list of texts, not {list}");
    let list = list.as_array().ok_or_else(wrong)?;
    list.iter()
        .map(|one| one.as_str().map(str::to_owned).ok_or_else(wrong))
        .collect::<Result<_, _>>()
        .map(Some)
}

fn rule(verdict: &str, tools: &[&str]) -> RuleOptions {
    let tools = tools.iter().map(ToString::to_string).collect::<Vec<_>>();
    let tools = (!tools.is_empty()).then_some(tools);
    RuleOptions { verdict: verdict.to_owned(), tools, ..RuleOptions::default() }
}

/// Returns whether a tool of sinew matches a name, in which `*` is a wildcard.
fn is_known(name: &str) -> bool {
    sinew_dialects::names().iter().any(|known| sinew_tool::tool_matches(name, known))
}
