//! Sub-agents whose reports a test chooses.

use std::sync::Mutex;

use sinew_tool::sync::lock;
use sinew_tool::{
    AgentReport, AgentSpawner, AgentTask, BoxFuture, Context, TemplateInfo, ToolError,
};

/// What a spawn returns.
pub type Spawned = Result<Vec<AgentReport>, ToolError>;

/// Sub-agents that do nothing, and report what a test chose.
#[derive(Debug)]
pub struct MemoryAgents {
    spawned: Mutex<Option<Spawned>>,
    /// The tasks of the last call.
    pub tasks: Mutex<Vec<AgentTask>>,
}

impl MemoryAgents {
    /// Returns sub-agents that report this once.
    pub fn new(spawned: Spawned) -> Self {
        Self { spawned: Mutex::new(Some(spawned)), tasks: Mutex::default() }
    }
}

impl AgentSpawner for MemoryAgents {
    fn templates(&self) -> Vec<TemplateInfo> {
        let (name, description) = (String::from("general"), String::from("works on a task"));
        vec![TemplateInfo { name, description }]
    }

    fn spawn<'a>(
        &'a self,
        _cx: &'a Context,
        tasks: Vec<AgentTask>,
    ) -> BoxFuture<'a, Result<Vec<AgentReport>, ToolError>> {
        *lock(&self.tasks) = tasks;
        let spawned = lock(&self.spawned).take().unwrap_or_else(|| Ok(Vec::new()));
        Box::pin(async move { spawned })
    }
}
