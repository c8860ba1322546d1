//! Sub-agents: agents that work on a task for another agent, with its rights at most.
//!
//! The name of a sub-agent says where it comes from: `SESSION/explore-1`, and beneath it `SESSION/explore-1/general-2`. Each
//! part is a template, a label if the task has one (`general.fix-tests-3`), and a number. No session has such a name, so it
//! is also the address of its inbox. If the session's own agent has a name, the first part is `SESSION@AGENT`.

use std::fmt::{self, Debug};
use std::time::Duration;

use crate::{BoxFuture, Context, Kind, ToolError};

/// Between an agent and those beneath it.
const BENEATH: char = '/';
/// Between a session and the name of its own agent.
const OWN: char = '@';
/// Between a template and the label of a task.
const LABEL: char = '.';
/// The longest label, in bytes.
const MAX_LABEL: usize = 32;

/// Returns whether an agent is a sub-agent, by its name.
pub fn is_sub_agent(agent: Option<&str>) -> bool {
    agent.is_some_and(|agent| agent.contains(BENEATH))
}

/// Returns the inbox of an agent, which is also where its commands run: its name if it is a sub-agent, else its session.
pub fn address<'a>(session: &'a str, agent: Option<&'a str>) -> &'a str {
    agent.filter(|_| is_sub_agent(agent)).unwrap_or(session)
}

/// Returns the addresses of an agent and of all above it, beginning with the session.
pub fn addresses<'a>(
    session: &'a str,
    agent: Option<&'a str>,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let name = agent.filter(|_| is_sub_agent(agent)).unwrap_or_default();
    let ends = name.match_indices(BENEATH).skip(1).map(|(at, _)| at);
    let above = ends.filter_map(|end| name.get(..end));
    let own = (!name.is_empty()).then_some(name);
    std::iter::once(session).chain(above).chain(own)
}

/// Returns the names by which rules know an agent and all above it: the session's own agent, if it has a name, and
/// templates.
pub fn lineage(agent: Option<&str>) -> impl Iterator<Item = Option<&str>> {
    let is_sub_agent = is_sub_agent(agent);
    let mut parts = agent.unwrap_or_default().split(BENEATH);
    let first = parts.next().unwrap_or_default();
    let own = match (is_sub_agent, first.split_once(OWN)) {
        (true, Some((_, own))) => Some(own),
        (true, None) => None,
        (false, _) => agent,
    };
    std::iter::once(own).chain(parts.map(|part| Some(template_of(part))))
}

/// Returns the depth of an agent: 0 for that of a session.
pub fn depth(agent: Option<&str>) -> u32 {
    agent.map_or(0, |agent| u32::try_from(agent.matches(BENEATH).count()).unwrap_or(u32::MAX))
}

/// Returns the agent above a sub-agent, as calls name it.
pub fn above<'a>(session: &str, agent: &'a str) -> Option<&'a str> {
    let (above, _) = agent.rsplit_once(BENEATH)?;
    match (above.contains(BENEATH), above.strip_prefix(session)) {
        (true, _) => Some(above),
        (false, own) => own.and_then(|own| own.strip_prefix(OWN)),
    }
}

/// Returns the name of a sub-agent of an agent.
pub fn name_beneath(
    session: &str,
    agent: Option<&str>,
    template: &str,
    label: Option<&str>,
    number: u64,
) -> String {
    let parent = match agent {
        Some(agent) if is_sub_agent(Some(agent)) => agent.to_owned(),
        Some(agent) => format!("{session}{OWN}{agent}"),
        None => session.to_owned(),
    };
    match label.map(slug).filter(|label| !label.is_empty()) {
        Some(label) => format!("{parent}{BENEATH}{template}{LABEL}{label}-{number}"),
        None => format!("{parent}{BENEATH}{template}-{number}"),
    }
}

/// Returns whether a template may have this name: 1 to 64 lower-case letters, digits, `-` and `_`.
pub fn is_template_name(name: &str) -> bool {
    let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'_';
    (1..=64).contains(&name.len()) && name.bytes().all(fits)
}

fn template_of(part: &str) -> &str {
    let named = part.rsplit_once('-').map_or(part, |(named, _)| named);
    named.split_once(LABEL).map_or(named, |(template, _)| template)
}

/// Returns a label as a part of a name has it.
fn slug(label: &str) -> String {
    let mut slug = String::new();
    for c in label.chars().flat_map(char::to_lowercase) {
        match c.is_ascii_alphanumeric() {
            true => slug.push(c),
            false if slug.is_empty() || slug.ends_with('-') => {}
            false => slug.push('-'),
        }
        if MAX_LABEL <= slug.len() {
            break;
        }
    }
    slug.trim_end_matches('-').to_owned()
}

/// What a sub-agent is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentTask {
    /// The template.
    pub template: String,
    /// What the task is called, if it has a name.
    pub label: Option<String>,
    /// What to do.
    pub prompt: String,
    /// How often it may call tools, unless configured.
    pub max_iterations: Option<u32>,
    /// The most tokens of one of its answers.
    pub max_output_tokens: Option<u32>,
}

/// What a sub-agent did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentReport {
    /// Its name.
    pub agent: String,
    /// How many agents are above it.
    pub depth: u32,
    /// Its last text.
    pub response: String,
    /// Why it did not finish, if it did not.
    pub problem: Option<String>,
    /// How often its model was asked.
    pub n_iterations: u32,
    /// How many calls it made.
    pub n_calls: u64,
    /// The tokens that its model read.
    pub tokens_read: u64,
    /// The tokens that its model wrote.
    pub tokens_written: u64,
}

/// Which limit of sub-agents was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpawnLimit {
    /// Too many agents are above them.
    TooDeep(u32),
    /// The agent spawned too many.
    TooMany {
        /// The limit.
        max: u64,
        /// When these may begin; `None` if never.
        retry_after: Option<Duration>,
    },
    /// Too many began beneath the session.
    TooManyInSession {
        /// The limit.
        max: u64,
        /// When these may begin; `None` if never.
        retry_after: Option<Duration>,
    },
    /// Too many work now.
    TooManyRunning {
        /// The limit.
        max: u64,
        /// How many work.
        running: u64,
    },
}

impl fmt::Display for SpawnLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let retry_after = match self {
            Self::TooDeep(max) => {
                return write!(f, "a sub-agent would have more than {max} agents above it");
            }
            Self::TooManyRunning { max, running } => {
                return write!(
                    f,
                    "{max} sub-agents of one agent may work at once, and {running} do"
                );
            }
            Self::TooMany { max, retry_after } => {
                write!(f, "an agent may spawn {max} within an hour")?;
                retry_after
            }
            Self::TooManyInSession { max, retry_after } => {
                write!(f, "{max} sub-agents may begin in one session within an hour")?;
                retry_after
            }
        };
        match retry_after {
            Some(wait) => write!(f, "; these may begin in {} s", wait.as_millis().div_ceil(1_000)),
            None => Ok(()),
        }
    }
}

/// A kind of sub-agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateInfo {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
}

/// Spawns sub-agents.
pub trait AgentSpawner: Debug + Send + Sync {
    /// Returns the templates, in the order of their names.
    fn templates(&self) -> Vec<TemplateInfo>;

    /// Lets sub-agents work on tasks side by side, and returns their reports in order. Either all of them begin or none.
    /// Dropping the future ends them.
    fn spawn<'a>(
        &'a self,
        cx: &'a Context,
        tasks: Vec<AgentTask>,
    ) -> BoxFuture<'a, Result<Vec<AgentReport>, ToolError>>;
}

/// No sub-agents.
#[derive(Debug, Clone, Copy)]
pub struct NoAgents;

impl AgentSpawner for NoAgents {
    fn templates(&self) -> Vec<TemplateInfo> {
        Vec::new()
    }

    fn spawn<'a>(
        &'a self,
        _cx: &'a Context,
        _tasks: Vec<AgentTask>,
    ) -> BoxFuture<'a, Result<Vec<AgentReport>, ToolError>> {
        Box::pin(async {
            Err(ToolError::new(Kind::Unavailable, "no model is configured for sub-agents")
                .hint("the user can set `agent.model`, and restart this server"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_where_an_agent_comes_from() {
        let first = name_beneath("s", None, "explore", None, 1);
        let second = name_beneath("s", Some(&first), "general", Some("Fix: the tests!"), 2);
        let owned = name_beneath("s", Some("main"), "explore", Some("…"), 3);
        for (agent, expected, address_is, known, above_is, depth_is) in [
            (None, vec!["s"], "s", vec![None], None, 0),
            (Some("main"), vec!["s"], "s", vec![Some("main")], None, 0),
            (
                Some(first.as_str()),
                vec!["s", "s/explore-1"],
                "s/explore-1",
                vec![None, Some("explore")],
                None,
                1,
            ),
            (
                Some(second.as_str()),
                vec!["s", "s/explore-1", "s/explore-1/general.fix-the-tests-2"],
                "s/explore-1/general.fix-the-tests-2",
                vec![None, Some("explore"), Some("general")],
                Some("s/explore-1"),
                2,
            ),
            (
                Some(owned.as_str()),
                vec!["s", "s@main/explore-3"],
                "s@main/explore-3",
                vec![Some("main"), Some("explore")],
                Some("main"),
                1,
            ),
        ] {
            assert_eq!(addresses("s", agent).collect::<Vec<_>>(), expected, "{agent:?}");
            assert_eq!(address("s", agent), address_is, "{agent:?}");
            assert_eq!(lineage(agent).collect::<Vec<_>>(), known, "{agent:?}");
            assert_eq!(agent.and_then(|agent| above("s", agent)), above_is, "{agent:?}");
            assert_eq!(depth(agent), depth_is, "{agent:?}");
        }
    }
}
