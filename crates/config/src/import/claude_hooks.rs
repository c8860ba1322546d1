//! Imports the hooks of Claude Code's `settings.json`: lists by event, each with a `matcher` for names of tools.
//!
//! A hook that cannot be told apart as narrowly runs for more calls, never for fewer.

use serde_json::Value;

use super::claude_code::OWN;
use super::{Imported, is_known};
use crate::options::{HookCommandOptions, HookOptions, HooksOptions};

/// The form of these hooks.
const FORM: &str = "claude-code";
/// How long a hook may take in Claude Code unless it says so, in seconds.
const TIMEOUT_S: u64 = 60;

/// Imports the hooks of settings. `disabled`: the settings switch all of them off.
pub(super) fn read(imported: &mut Imported, hooks: &Value, disabled: bool) -> Result<(), String> {
    if disabled {
        imported.note("`hooks` are left out, since `disableAllHooks` switches them off");
        return Ok(());
    }
    let events = hooks.as_object().ok_or("`hooks` must be a table of events")?;
    let mut all = Vec::new();
    for (event, groups) in events {
        let known = sinew_dialects::hook_form(FORM).and_then(|form| form.event(event));
        if !matches!(known, Some(Some(_))) {
            imported
                .note(format!("the hooks of `{event}` are left out: there is no such event here"));
            continue;
        }
        let groups = groups.as_array().ok_or_else(|| format!("`hooks.{event}` must be a list"))?;
        for group in groups {
            let is_of_tools = event.ends_with("ToolUse");
            let matcher = group.get("matcher").and_then(Value::as_str).unwrap_or_default();
            let Some(tools) = (match is_of_tools {
                true => tools(imported, event, matcher),
                false => at_start(imported, event, matcher).then(Vec::new),
            }) else {
                continue;
            };
            let listed = group.get("hooks").and_then(Value::as_array);
            let listed =
                listed.ok_or_else(|| format!("a group of `hooks.{event}` has no `hooks`"))?;
            for hook in listed {
                all.extend(one(imported, event, &tools, hook)?);
            }
        }
    }
    if !all.is_empty() {
        imported.options.hooks = Some(HooksOptions(all));
    }
    Ok(())
}

fn one(
    imported: &mut Imported,
    event: &str,
    tools: &[String],
    hook: &Value,
) -> Result<Option<HookOptions>, String> {
    match hook.get("type").and_then(Value::as_str) {
        Some("command") => {}
        kind => {
            let kind = kind.unwrap_or("none");
            imported.note(format!(
                "a hook of `{event}` is left out: only programs run here, not the type `{kind}`"
            ));
            return Ok(None);
        }
    }
    let command = hook.get("command").and_then(Value::as_str);
    let command = command.ok_or_else(|| format!("a hook of `{event}` has no `command`"))?;
    let timeout = match hook.get("timeout") {
        None => TIMEOUT_S,
        Some(timeout) => timeout.as_u64().filter(|s| (1..=3_600).contains(s)).ok_or_else(|| {
            format!(
                "the `timeout` of a hook of `{event}` must be 1 to 3,600 seconds, not {timeout}"
            )
        })?,
    };
    // `~/.claude/` and other directories of the user are no part of the project.
    let is_relative = |at: usize| {
        let before = command.get(..at).unwrap_or_default();
        before.ends_with("./") && !before.ends_with("../") || !before.ends_with('/')
    };
    let is_in_project = command.contains("CLAUDE_PROJECT_DIR")
        || command.match_indices(".claude/").any(|(at, _)| is_relative(at));
    if is_in_project {
        imported.note(format!(
            "`{command}` is a program of the project, so `in_root` lets it run; commands and file tools ask \
             before they change `.claude/`, not other files that it reads"
        ));
    }
    Ok(Some(HookOptions {
        event: Some(event.to_owned()),
        payload: Some(FORM.to_owned()),
        command: HookCommandOptions::Text(command.to_owned()),
        tools: tools.to_vec(),
        timeout: Some(timeout),
        in_root: is_in_project.then_some(true),
        ..HookOptions::default()
    }))
}

/// Returns the tools that a matcher means, empty for all; `None` if it means none that is here.
fn tools(imported: &mut Imported, event: &str, matcher: &str) -> Option<Vec<String>> {
    if matches!(matcher, "" | "*" | ".*") {
        return Some(Vec::new());
    }
    let mut tools = Vec::new();
    for part in matcher.split('|') {
        let name = part.replace(".*", "*");
        let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "_-*".contains(sign);
        if !name.chars().all(is_plain) {
            imported.note(format!(
                "a hook of `{event}` runs for every tool: its matcher `{matcher}` cannot be said here"
            ));
            return Some(Vec::new());
        }
        let own = name.strip_prefix(OWN).unwrap_or(&name);
        // A pattern for servers means this one too.
        let own = match own.strip_prefix("mcp__").and_then(|rest| rest.rsplit_once("__")) {
            Some((server, tool)) if server.contains('*') => tool,
            _ => own,
        };
        // Every tool of every server is every tool here.
        if matches!(own, "" | "*" | "mcp__*" | "mcp__sinew*" | "mcp__sinew") {
            return Some(Vec::new());
        }
        match is_known(own) {
            true => tools.push(own.to_owned()),
            false => imported.note(format!(
                "`{part}` in the matcher of a hook of `{event}` names no tool that is here"
            )),
        }
    }
    let changes = |tool: &String| ["Edit", "Write", "MultiEdit"].contains(&tool.as_str());
    if tools.iter().any(changes) && !tools.iter().any(|tool| tool == "ApplyPatch") {
        imported.note(format!(
            "a hook of `{event}` for `{matcher}` does not see what `ApplyPatch` and commands write; deny `ApplyPatch` \
             or add it to `tools`"
        ));
    }
    (!tools.is_empty()).then_some(tools)
}

/// Returns whether a hook of another event runs here: a session only starts anew.
fn at_start(imported: &mut Imported, event: &str, matcher: &str) -> bool {
    let runs = event != "SessionStart"
        || matches!(matcher, "" | "*" | ".*")
        || matcher.split('|').any(|part| part == "startup");
    if !runs {
        imported.note(format!(
            "a hook of `{event}` for `{matcher}` is left out: sessions only start anew here"
        ));
    }
    runs
}
