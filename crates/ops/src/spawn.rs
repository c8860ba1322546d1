//! Spawn: lets sub-agents work on tasks side by side, and returns what they report.

use serde::Deserialize;
use sinew_tool::agents::is_template_name;
use sinew_tool::{
    AgentReport, AgentTask, Context, Cost, Effects, Facts, Kind, Operation, Param, ParamKind,
    Reply, Row, Targets, ToolError, shown_line,
};

/// The template of a task that names none.
pub const GENERAL: &str = "general";
/// The most tasks of one call, however many may work at once.
pub const MAX_TASKS: usize = 32;

/// Lets sub-agents work.
#[derive(Debug)]
pub struct Spawn;

/// One task.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpawnTask {
    /// What it is called.
    #[serde(default)]
    pub name: Option<String>,
    /// What to do.
    pub prompt: String,
    /// The kind of sub-agent.
    #[serde(default)]
    pub template: Option<String>,
}

/// Arguments of Spawn: tasks, or a template and a message.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpawnArgs {
    /// The tasks.
    #[serde(default)]
    pub tasks: Vec<SpawnTask>,
    /// The template of the only task.
    #[serde(default)]
    pub template: Option<String>,
    /// The only task.
    #[serde(default)]
    pub message: Option<String>,
    /// The agent that spawns, where a dialect names it: only the caller itself is accepted.
    #[serde(default)]
    pub parent: Option<String>,
    /// How often each may call tools, unless configured.
    #[serde(default)]
    pub max_iterations: Option<u32>,
    /// The most tokens of one answer of each.
    #[serde(default)]
    pub max_output_tokens: Option<u32>,
}

impl SpawnArgs {
    fn agent_tasks(&self) -> Vec<AgentTask> {
        let task = |template: Option<&String>, label: Option<&String>, prompt: &str| AgentTask {
            template: template.map_or(GENERAL, |template| template.trim()).to_owned(),
            label: label.cloned(),
            prompt: prompt.to_owned(),
            max_iterations: self.max_iterations,
            max_output_tokens: self.max_output_tokens,
        };
        match &self.message {
            Some(message) => vec![task(self.template.as_ref(), None, message)],
            None => {
                let tasks = self.tasks.iter();
                tasks
                    .map(|one| task(one.template.as_ref(), one.name.as_ref(), &one.prompt))
                    .collect()
            }
        }
    }
}

const TASKS: &[Param] = &[
    Param::optional("name", "name", ParamKind::String, ""),
    Param::required("prompt", "prompt", ParamKind::String, "all that it needs to know"),
    Param::optional("template", "template", ParamKind::String, "default general"),
];

/// The native row.
pub const NATIVE: Row<Spawn> = Row {
    name: "Spawn",
    description: "Lets sub-agents work side by side, each with a context of its own, and returns their reports. Give \
                  them, at most 5 at once, tasks that do not depend on each other. Templates:",
    params: &[Param::required("tasks", "tasks", ParamKind::Objects(TASKS), "")],
    core: false,
    spawns: true,
    ..Row::<Spawn>::shaped(|args, reports, _| shaped(args, &reports))
};

impl Operation for Spawn {
    const NAME: &'static str = "Spawn";
    const FACTS: Facts =
        Facts { effects: Effects::DELEGATE, idempotent: false, destructive: false, parallel: true };
    type Args = SpawnArgs;
    type Out = Vec<AgentReport>;

    fn check(args: &SpawnArgs) -> Result<(), ToolError> {
        if MAX_TASKS < args.tasks.len() {
            let problem = format!("has {} tasks; {MAX_TASKS} are the most", args.tasks.len());
            return Err(ToolError::argument("tasks", problem));
        }
        for (at, task) in args.agent_tasks().iter().enumerate() {
            let field = |name: &str| match &args.message {
                Some(_) => name.to_owned(),
                None => format!("tasks[{at}].{name}"),
            };
            if task.prompt.trim().is_empty() {
                let name = if args.message.is_some() { "message" } else { "prompt" };
                return Err(ToolError::argument(&field(name), "is empty; say what to do"));
            }
            if !is_template_name(&task.template) {
                let problem = "must be 1 to 64 lower-case letters, digits, `-` and `_`";
                return Err(ToolError::argument(&field("template"), problem));
            }
        }
        Ok(())
    }

    fn cost(_args: &SpawnArgs, _targets: &Targets) -> Cost {
        Cost::Waits
    }

    async fn run(args: &SpawnArgs, cx: &Context) -> Result<Vec<AgentReport>, ToolError> {
        if let Some(parent) = &args.parent
            && parent != cx.address()
        {
            let message = format!("argument `parentId` must be this agent: `{}`", cx.address());
            return Err(ToolError::new(Kind::PolicyDenied, message)
                .hint("an agent spawns in its own name alone; leave the argument out"));
        }
        cx.still_wanted()?;
        cx.agents.spawn(cx, args.agent_tasks()).await
    }
}

/// Returns the reports as one text; the reply failed where every sub-agent did.
pub fn shaped(args: &SpawnArgs, reports: &[AgentReport]) -> Reply {
    let mut parts = Vec::with_capacity(reports.len());
    for (at, report) in reports.iter().enumerate() {
        let name = args.tasks.get(at).and_then(|task| task.name.as_deref());
        let name = shown_line(name.unwrap_or(&report.agent));
        let state = if report.problem.is_some() { "ERROR" } else { "OK" };
        let mut part = format!("## {name}: {state}\n\n{}", report.response.trim_end());
        if let Some(problem) = &report.problem {
            part.push_str(&format!("\n[{}]", problem.trim_end()));
        }
        part.push_str(&format!("\n\n[{}]", figures(report)));
        parts.push(part);
    }
    let text = parts.join("\n\n---\n\n");
    match !reports.is_empty() && reports.iter().all(|report| report.problem.is_some()) {
        true => Reply::failure(&ToolError::new(Kind::ExecutionFailed, text)),
        false => Reply::text(text),
    }
}

/// Returns what a sub-agent cost, in words.
pub fn figures(report: &AgentReport) -> String {
    format!(
        "{}; turns: {}, calls: {}, tokens: {} in, {} out",
        report.agent,
        report.n_iterations,
        report.n_calls,
        report.tokens_read,
        report.tokens_written
    )
}

#[cfg(test)]
mod tests;
