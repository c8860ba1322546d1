//! The tools that are left to an agent: by the skill that it loaded, by its template, and by those of all above it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use sinew_tool::sync::lock;
use sinew_tool::{Kind, Tool, ToolError, agents, shown_line, tool_matches};

use crate::visibility::Visibility;

/// The most agents with a skill.
const MAX_AGENTS: usize = 10_000;
/// The most patterns that an error names.
const MAX_NAMED: usize = 20;

/// What leaves an agent only some tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NarrowedBy {
    /// A loaded skill. It shows hidden tools too, and those that load skills stay, since one of them ends it.
    Skill(String),
    /// The template of a sub-agent, which holds as long as it works.
    Template(String),
}

/// The only tools of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Narrowing {
    /// The skill or the template.
    pub by: NarrowedBy,
    /// Names of tools or operations, with `*`.
    pub tools: Vec<String>,
}

impl Narrowing {
    /// Returns whether it leaves a tool.
    pub(crate) fn allows(&self, tool: &dyn Tool) -> bool {
        let is_named =
            |pattern: &String| tool_matches(pattern, tool.name()) || pattern == tool.operation();
        let stays = matches!(self.by, NarrowedBy::Skill(_)) && tool.skill_argument().is_some();
        stays || self.tools.iter().any(is_named)
    }

    /// Returns the refusal of another tool.
    fn refusal(&self, name: &str) -> ToolError {
        let mut names: Vec<String> =
            self.tools.iter().take(MAX_NAMED).map(|name| shown_line(name)).collect();
        if names.len() < self.tools.len() {
            names.push(format!("{} more", self.tools.len() - names.len()));
        }
        let allowed = if names.is_empty() { String::from("none") } else { names.join(", ") };
        let name = shown_line(name);
        let (message, hint) = match &self.by {
            NarrowedBy::Skill(skill) => (
                format!("the skill `{}` does not allow this tool: {name}", shown_line(skill)),
                format!("allowed until it is released: {allowed}"),
            ),
            NarrowedBy::Template(template) => (
                format!("the template `{template}` does not allow this tool: {name}"),
                format!("allowed: {allowed}"),
            ),
        };
        ToolError::new(Kind::PolicyDenied, message).hint(hint)
    }
}

/// All that narrows the tools of an agent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Narrowings(Vec<Arc<Narrowing>>);

impl Narrowings {
    /// Returns whether a skill shows hidden tools.
    pub(crate) fn show_hidden(&self) -> bool {
        self.0.iter().any(|narrowing| matches!(narrowing.by, NarrowedBy::Skill(_)))
    }

    /// Returns whether the agent's own template names a tool, other than by `*`.
    pub(crate) fn name_by_template(&self, tool: &dyn Tool) -> bool {
        let own = self.0.last().filter(|own| matches!(own.by, NarrowedBy::Template(_)));
        own.is_some_and(|own| {
            own.tools.iter().any(|pattern| pattern != "*" && tool_matches(pattern, tool.name()))
        })
    }

    /// Returns whether every one leaves a tool.
    pub(crate) fn allow(&self, tool: &dyn Tool) -> bool {
        self.0.iter().all(|narrowing| narrowing.allows(tool))
    }

    /// Returns whether the agent lists a tool that is hidden unless a skill shows it.
    pub(crate) fn list(&self, tool: &dyn Tool, visibility: Visibility) -> bool {
        visibility != Visibility::Disabled && self.allow(tool)
    }

    /// Returns the refusal of a tool that is not left.
    pub(crate) fn refusal(
        &self,
        tool: &dyn Tool,
        visibility: Visibility,
        name: &str,
    ) -> Option<ToolError> {
        let is_disabled = visibility == Visibility::Disabled;
        let narrowing = self.0.iter().find(|one| is_disabled || !one.allows(tool))?;
        Some(narrowing.refusal(name))
    }

    fn push(&mut self, narrowing: Option<&Arc<Narrowing>>) {
        self.0.extend(narrowing.cloned());
    }
}

/// The narrowings of all agents, by their addresses.
#[derive(Debug, Default)]
pub(crate) struct NarrowingTable {
    by_skill: Mutex<HashMap<String, Arc<Narrowing>>>,
    by_template: Mutex<HashMap<String, Option<Arc<Narrowing>>>>,
}

impl NarrowingTable {
    /// Returns what narrows an agent. Fails where it is a sub-agent that does not work here.
    pub(crate) fn of(
        &self,
        session: &str,
        agent: Option<&str>,
        without_skill: bool,
    ) -> Result<Narrowings, ToolError> {
        let mut found = Narrowings::default();
        let own = agents::address(session, agent);
        let by_skill = lock(&self.by_skill);
        for address in agents::addresses(session, agent) {
            if !(without_skill && address == own) {
                found.push(by_skill.get(address));
            }
        }
        drop(by_skill);
        if agents::is_sub_agent(agent) {
            let by_template = lock(&self.by_template);
            for address in agents::addresses(session, agent).skip(1) {
                let narrowing = by_template.get(address).ok_or_else(|| no_agent(address))?;
                found.push(narrowing.as_ref());
            }
        }
        Ok(found)
    }

    /// Replaces the skill of an agent.
    pub(crate) fn set_skill(&self, address: &str, narrowing: Narrowing) -> Result<(), ToolError> {
        let mut all = lock(&self.by_skill);
        if MAX_AGENTS <= all.len() && !all.contains_key(address) {
            let words = format!("{MAX_AGENTS} sessions have a skill already");
            return Err(ToolError::new(Kind::Unavailable, words).hint("release some"));
        }
        all.insert(address.to_owned(), Arc::new(narrowing));
        Ok(())
    }

    pub(crate) fn remove_skill(&self, address: &str) -> Option<Arc<Narrowing>> {
        lock(&self.by_skill).remove(address)
    }

    /// Lets a sub-agent make calls.
    pub(crate) fn begin_agent(&self, address: &str, narrowing: Option<Narrowing>) {
        lock(&self.by_template).insert(address.to_owned(), narrowing.map(Arc::new));
    }

    /// Refuses further calls of a sub-agent, and of all beneath it.
    pub(crate) fn end_agent(&self, address: &str) {
        lock(&self.by_template).remove(address);
        self.remove_skill(address);
    }
}

fn no_agent(address: &str) -> ToolError {
    let message = format!("no agent of this name works here: {}", shown_line(address));
    ToolError::new(Kind::PolicyDenied, message)
        .hint("calls of a sub-agent end with the call that spawned it")
}
