//! The sub-agents that work now. Their calls have the session of the agent above them, and name it as their own.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use sinew_guard::Guard;
use sinew_tool::agents;
use sinew_tool::sync::lock;

use crate::narrowing::{Narrowing, NarrowingTable};

/// A sub-agent that begins to work.
#[derive(Debug, Clone)]
pub struct SubAgent {
    /// Its name.
    pub name: String,
    /// The only tools of its template, if it names some.
    pub tools: Option<Narrowing>,
    /// The session that it belongs to.
    pub session: String,
    /// The call that spawned it.
    pub spawned_by: String,
}

/// Which call of the session spawned each of them, at the top: its approvers are asked.
#[derive(Debug, Default)]
pub(crate) struct SubAgents(Mutex<HashMap<String, String>>);

impl SubAgents {
    /// Returns the call whose approvers are asked: that of the session's own agent.
    pub(crate) fn asked_for(&self, agent: Option<&str>, call_id: &str) -> String {
        let spawned_by = agent.and_then(|agent| lock(&self.0).get(agent).cloned());
        spawned_by.unwrap_or_else(|| call_id.to_owned())
    }
}

/// Lets a sub-agent make calls until it is dropped.
pub struct WorkingAgent {
    name: String,
    agents: Arc<SubAgents>,
    narrowings: Arc<NarrowingTable>,
    guard: Arc<Guard>,
}

impl WorkingAgent {
    /// Lets a sub-agent make calls.
    pub(crate) fn begin(
        agent: SubAgent,
        agents: &Arc<SubAgents>,
        narrowings: &Arc<NarrowingTable>,
        guard: &Arc<Guard>,
    ) -> Self {
        let SubAgent { name, tools, session, spawned_by } = agent;
        let above = agents::above(&session, &name);
        let top_call = agents.asked_for(above, &spawned_by);
        lock(&agents.0).insert(name.clone(), top_call);
        narrowings.begin_agent(&name, tools);
        let (agents, narrowings, guard) = (agents.clone(), narrowings.clone(), guard.clone());
        Self { name, agents, narrowings, guard }
    }
}

impl fmt::Debug for WorkingAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkingAgent").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Drop for WorkingAgent {
    fn drop(&mut self) {
        self.narrowings.end_agent(&self.name);
        lock(&self.agents.0).remove(&self.name);
        self.guard.kill_commands_of(&self.name);
    }
}
