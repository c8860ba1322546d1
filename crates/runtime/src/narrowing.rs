//! The tools that a loaded skill leaves a session: the only ones that it lists and can call, hidden ones too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use sinew_tool::sync::lock;
use sinew_tool::{Kind, Tool, ToolError, shown_line, tool_matches};

use crate::visibility::Visibility;

/// The most sessions with a skill.
const MAX_SESSIONS: usize = 10_000;
/// The most patterns that an error names.
const MAX_NAMED: usize = 20;

/// The only tools of a session, while a skill is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Narrowing {
    /// The skill.
    pub skill: String,
    /// Names of tools or operations, with `*`.
    pub tools: Vec<String>,
}

impl Narrowing {
    /// Returns whether the session can call a tool. Those that load skills stay, since one of them ends the narrowing.
    fn allows(&self, tool: &dyn Tool) -> bool {
        let is_named =
            |pattern: &String| tool_matches(pattern, tool.name()) || pattern == tool.operation();
        tool.skill_argument().is_some() || self.tools.iter().any(is_named)
    }

    /// Returns whether the session lists a tool, a hidden one too.
    pub(crate) fn lists(&self, tool: &dyn Tool, visibility: Visibility) -> bool {
        visibility != Visibility::Disabled && self.allows(tool)
    }

    /// Returns the refusal of another tool.
    pub(crate) fn refusal(&self, name: &str) -> ToolError {
        let skill = shown_line(&self.skill);
        let mut names: Vec<String> =
            self.tools.iter().take(MAX_NAMED).map(|name| shown_line(name)).collect();
        if names.len() < self.tools.len() {
            names.push(format!("{} more", self.tools.len() - names.len()));
        }
        let allowed = if names.is_empty() { String::from("none") } else { names.join(", ") };
        let name = shown_line(name);
        let message = format!("the skill `{skill}` does not allow this tool: {name}");
        ToolError::new(Kind::PolicyDenied, message)
            .hint(format!("allowed until it is released: {allowed}"))
    }
}

/// The narrowed sessions.
#[derive(Debug, Default)]
pub(crate) struct Narrowings(Mutex<HashMap<String, Arc<Narrowing>>>);

impl Narrowings {
    pub(crate) fn of(&self, session: &str) -> Option<Arc<Narrowing>> {
        lock(&self.0).get(session).cloned()
    }

    /// Replaces what a session has.
    pub(crate) fn set(&self, session: &str, narrowing: Narrowing) -> Result<(), ToolError> {
        let mut all = lock(&self.0);
        if MAX_SESSIONS <= all.len() && !all.contains_key(session) {
            let words = format!("{MAX_SESSIONS} sessions have a skill already");
            return Err(ToolError::new(Kind::Unavailable, words).hint("release some"));
        }
        all.insert(session.to_owned(), Arc::new(narrowing));
        Ok(())
    }

    pub(crate) fn remove(&self, session: &str) -> Option<Arc<Narrowing>> {
        lock(&self.0).remove(session)
    }
}
