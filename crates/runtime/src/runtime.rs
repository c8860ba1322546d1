//! The runtime: the state that all calls share.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use sinew_guard::{
    Case, Guard, Judged, Redactor, Rules, SandboxLevel, ServerProcess, ServerProgram, Shortfall,
};
use sinew_tool::{
    Access, AgentSpawner, Approver, Cancel, Claim, Clock, Command, CommandLine, CommandTarget,
    Filled, Form, Kind, Ledger, Memo, NoAgents, NoSkills, Progress, Recorder, Ruling, SkillIndex,
    Tool, ToolError,
};
use tokio::sync::{Semaphore, watch};

use crate::approvals::Approvals;
use crate::broker::Broker;
use crate::build_error::{BuildError, checkable};
use crate::catalog::{Catalog, ForeignEntry};
use crate::grants::{GrantStore, Grants, SessionGrant, SessionGrantStore};
use crate::hooks::Hooks;
use crate::hooks::session::Sessions;
use crate::hooks::telling::Telling;
use crate::narrowing::{NarrowedBy, Narrowing, NarrowingTable};
use crate::owner::Owner;
use crate::path_queue::PathQueue;
use crate::session_turns::SessionTurns;
use crate::sub_agents::{SubAgent, SubAgents, WorkingAgent};
use crate::tool_index::ToolSearches;

/// Executes calls: one for each set of roots, shared by every surface of a process.
pub struct Runtime {
    pub(crate) catalogs: watch::Sender<Arc<Vec<Catalog>>>,
    /// How many servers there are whose tools are not known yet.
    pub(crate) pending: watch::Sender<usize>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) approvals: Approvals,
    pub(crate) answer_within: Duration,
    pub(crate) grant_store: Option<Arc<dyn GrantStore>>,
    pub(crate) broker: Broker,
    pub(crate) grants: Grants,
    /// Sessions that already got the hint for an operation.
    pub(crate) hinted: Mutex<HashSet<(String, &'static str)>>,
    pub(crate) hooks: Hooks,
    /// The sessions that hooks follow.
    pub(crate) sessions: Sessions,
    /// The queue of hook events that run beside the calls.
    pub(crate) telling: Telling,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
    /// Removes secrets from spans.
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) memo: Arc<Memo>,
    pub(crate) order: PathQueue,
    pub(crate) session_turns: SessionTurns,
    pub(crate) searches: ToolSearches,
    pub(crate) narrowings: Arc<NarrowingTable>,
    pub(crate) sub_agents: Arc<SubAgents>,
    /// Limits concurrent long calls; further ones wait.
    pub(crate) long: Arc<Semaphore>,
}

/// How long the ends of background commands are waited for.
const ENDS: Duration = Duration::from_secs(1);

/// Options of one call that are not part of the request.
#[derive(Debug, Clone, Default)]
pub struct CallOptions {
    /// Cancels the call. Dropping its future cancels it too.
    pub cancel: Cancel,
    /// Receives the progress of long work.
    pub progress: Progress,
    /// Whether the call is part of loading a skill, so that what a skill left of the tools does not hold for it.
    pub loads_skill: bool,
}

impl Runtime {
    /// Closes the replaced files of earlier changes: after a reply is sent, or else in the next call.
    pub fn rest(&self) {
        self.guard.close_deferred();
    }

    /// Returns the current catalogs. The first one serves requests without a dialect.
    pub fn catalogs(&self) -> Arc<Vec<Catalog>> {
        Arc::clone(&self.catalogs.borrow())
    }

    /// Returns a receiver that sees each change of the catalogs.
    pub fn watch_catalogs(&self) -> watch::Receiver<Arc<Vec<Catalog>>> {
        self.catalogs.subscribe()
    }

    /// Replaces the skills.
    pub fn set_skills(&self, skills: &Arc<dyn SkillIndex>) {
        self.catalogs.send_modify(|catalogs| {
            for catalog in Arc::make_mut(catalogs) {
                catalog.skills = Arc::clone(skills);
            }
        });
    }

    /// Sets what spawns sub-agents. Tools that do so are listed from then on, where it has templates.
    pub fn set_agents(&self, agents: &Arc<dyn AgentSpawner>) {
        self.catalogs.send_modify(|catalogs| {
            for catalog in Arc::make_mut(catalogs) {
                catalog.agents = Arc::clone(agents);
            }
        });
    }

    /// Returns what spawns sub-agents.
    pub fn agents(&self) -> Arc<dyn AgentSpawner> {
        let catalogs = self.catalogs.borrow();
        catalogs.first().map_or_else(|| Arc::new(NoAgents) as _, |first| Arc::clone(&first.agents))
    }

    /// Lets a sub-agent make calls, until the returned guard is dropped. Then its commands are killed.
    pub fn begin_agent(&self, agent: SubAgent) -> WorkingAgent {
        WorkingAgent::begin(agent, &self.sub_agents, &self.narrowings, &self.guard)
    }

    /// Returns the skills.
    pub fn skills(&self) -> Arc<dyn SkillIndex> {
        let catalogs = self.catalogs.borrow();
        catalogs.first().map_or_else(|| Arc::new(NoSkills) as _, |first| Arc::clone(&first.skills))
    }

    /// Leaves an agent the tools of a skill alone, in place of those of an earlier one. `address` is its session, or its
    /// name if it is a sub-agent.
    pub fn narrow_tools(
        &self,
        address: &str,
        skill: &str,
        tools: Vec<String>,
    ) -> Result<(), ToolError> {
        let by = NarrowedBy::Skill(skill.to_owned());
        self.narrowings.set_skill(address, Narrowing { by, tools })?;
        self.tell_tools_changed();
        Ok(())
    }

    /// Gives an agent the tools again that a skill had taken; returns the skill.
    pub fn widen_tools(&self, address: &str) -> Option<String> {
        let narrowing = self.narrowings.remove_skill(address)?;
        self.tell_tools_changed();
        match &narrowing.by {
            NarrowedBy::Skill(name) | NarrowedBy::Template(name) => Some(name.clone()),
        }
    }

    /// Tells every surface that its list of tools is another one.
    pub fn tell_tools_changed(&self) {
        self.catalogs.send_modify(|_| {});
    }

    /// Adds a tool of the program to every catalog and replaces one of the same name. Surfaces notify their clients;
    /// calls in progress keep their catalog.
    ///
    /// Fails where the tool needs JSON schema checks and this build has none.
    pub fn add_tool(&self, tool: &Arc<dyn Tool>) -> Result<(), BuildError> {
        checkable(tool)?;
        self.catalogs.send_modify(|catalogs| {
            for catalog in Arc::make_mut(catalogs) {
                catalog.add(Arc::clone(tool), Owner::Program);
            }
        });
        Ok(())
    }

    /// Replaces the tools of another server in every catalog. Each catalog names them by the rules of its dialect, and
    /// none takes the name or the prefix of a tool of another owner.
    ///
    /// Returns which tools could not be added, in words.
    pub fn set_foreign_tools(&self, server: &str, tools: &[ForeignEntry]) -> Vec<String> {
        let mut problems = Vec::new();
        self.catalogs.send_modify(|catalogs| {
            for catalog in Arc::make_mut(catalogs) {
                for problem in catalog.set_foreign(server, tools) {
                    if !problems.contains(&problem) {
                        problems.push(problem);
                    }
                }
            }
        });
        problems
    }

    /// Says that tools will be added, until the returned guard is dropped: lists of tools may wait for them.
    pub fn pending_tools(self: &Arc<Self>) -> PendingTools {
        self.pending.send_modify(|n| *n += 1);
        PendingTools(Arc::downgrade(self))
    }

    /// Waits until no tools are pending, for at most so long. Returns at once where none are.
    pub async fn tools_settled(&self, at_most: Duration) {
        let mut pending = self.pending.subscribe();
        let settled = pending.wait_for(|n| *n == 0);
        let _ = tokio::time::timeout(at_most, settled).await;
    }

    /// Returns whether tools are pending.
    pub fn has_pending_tools(&self) -> bool {
        *self.pending.borrow() != 0
    }

    /// Starts a server, such as an MCP server, in a sandbox of its own. Paths that the settings of the first dialect deny
    /// are denied to it.
    pub async fn start_server(&self, program: ServerProgram) -> Result<ServerProcess, ToolError> {
        let guard = self.catalogs().first().map(|catalog| Arc::clone(&catalog.guard));
        guard.unwrap_or_else(|| Arc::clone(&self.guard)).start_server(program).await
    }

    /// Removes a tool from every catalog; returns whether one had it.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.catalogs.send_if_modified(|catalogs| {
            let catalogs = Arc::make_mut(catalogs);
            0 < catalogs.iter_mut().filter_map(|c| c.remove(name).then_some(())).count()
        })
    }

    /// Adds an approver until the returned guard is dropped.
    pub fn add_approver(self: &Arc<Self>, approver: Arc<dyn Approver>) -> Attached {
        Attached { runtime: Arc::downgrade(self), id: self.broker.add(approver) }
    }

    /// Returns the names of the approvers.
    pub fn approvers(&self) -> Vec<&'static str> {
        self.broker.names()
    }

    /// Shows a form to the approvers of its call, for as long as a question may wait.
    pub async fn fill(&self, form: &Form) -> Filled {
        self.broker.fill(form, self.answer_within).await
    }

    /// Returns whether an approver shows forms.
    pub fn shows_forms(&self) -> bool {
        self.broker.shows_forms()
    }

    /// Returns how many questions a session has had.
    pub fn n_asked(&self, session: &str) -> u64 {
        self.broker.n_asked(session)
    }

    /// Returns the roots, the first of which is the working directory.
    pub fn roots(&self) -> Vec<PathBuf> {
        self.guard.roots().map(PathBuf::from).collect()
    }

    /// Returns the sandbox of a session's commands and opens the session if needed; `None` without commands.
    pub fn probe_commands(
        &self,
        session: &str,
    ) -> Option<Result<(SandboxLevel, Vec<Shortfall>), ToolError>> {
        self.guard.probe_commands(session)
    }

    /// Returns what a command would run in the first root, and its ruling by the changed rules of the first
    /// dialect. It neither runs nor records anything.
    pub fn judge_command(
        &self,
        line: CommandLine,
        change: impl FnOnce(&mut Rules),
    ) -> Result<(CommandTarget, Ruling), ToolError> {
        let catalogs = self.catalogs();
        let rules = catalogs.first().map(|catalog| catalog.rules.as_ref().clone());
        let guard = catalogs.first().map_or(&self.guard, |catalog| &catalog.guard);
        let mut rules = rules.unwrap_or_default();
        change(&mut rules);
        let rules = anchored(guard, rules)?;
        let argument = match &line {
            CommandLine::Shell(..) => "command",
            CommandLine::Argv(_) => "argv",
        };
        let command = Command {
            argument,
            line,
            keeps_cwd: false,
            has_terminal: false,
            programs: Vec::new(),
            needs: None,
        };
        let claim = Claim::new("cwd", None, Access::Search);
        let looks = catalogs.first().into_iter().flat_map(|catalog| catalog.lookers.iter());
        let looks = looks.map(|looker| looker.case(None));
        let lookers: Vec<_> = std::iter::once(Case::COMMAND).chain(looks).collect();
        let contained = guard.contain(&[claim], None, None)?;
        let contained = contained.with_command(command, &rules, &lookers)?;
        let judged = self.undone_unasked(contained.judge(&Case::COMMAND, &rules));
        let target = judged.contained().targets().command.clone();
        let target = target.ok_or_else(|| {
            ToolError::new(Kind::ExecutionFailed, "the command names nothing to run")
        })?;
        Ok((target, judged.ruling().clone()))
    }

    /// Allows a call that asks if it stays inside and can be undone, where the approval mode lets it.
    pub(crate) fn undone_unasked(&self, call: Judged) -> Judged {
        match self.approvals {
            Approvals::Auto => call.undone_unasked(),
            Approvals::Ask | Approvals::TrustClient | Approvals::Allow | Approvals::Deny => call,
        }
    }

    /// Lets a session go on with the grants that it had, and stores those of later answers. Rules that the roots do not
    /// understand any more are left out.
    pub fn resume_grants(
        &self,
        session: &str,
        grants: Vec<SessionGrant>,
        store: Arc<dyn SessionGrantStore>,
    ) {
        self.grants.store_to(store);
        let mut grants = grants;
        grants.retain_mut(|grant| match grant {
            SessionGrant::Rule(rule) => self.guard.anchor(rule).is_ok(),
            SessionGrant::Call(_) => true,
        });
        self.grants.keep(session, grants);
    }

    /// Kills the background commands of every session and waits until their ends are recorded, for at most a second.
    ///
    /// A process does so before its last flush; a runtime that is dropped does so too.
    pub fn end_background(&self) {
        self.guard.end_background(ENDS);
    }

    /// Writes all pending records and flushes the recorder.
    pub fn flush(&self) -> Result<(), ToolError> {
        if let Some(recorder) = &self.recorder {
            recorder.flush();
        }
        self.ledger.flush()
    }
}

/// Says that tools will be added, until it is dropped.
#[derive(Debug)]
pub struct PendingTools(Weak<Runtime>);

impl Drop for PendingTools {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.upgrade() {
            runtime.pending.send_modify(|n| *n -= 1);
        }
    }
}

/// Keeps an approver attached until it is dropped.
#[derive(Debug)]
pub struct Attached {
    runtime: Weak<Runtime>,
    id: u64,
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.upgrade() {
            runtime.broker.remove(self.id);
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.end_background();
        self.guard.close_commands();
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("roots", &self.roots())
            .field("catalogs", &self.catalogs())
            .finish_non_exhaustive()
    }
}

/// Anchors rules at the roots.
pub(crate) fn anchored(guard: &Guard, rules: Rules) -> Result<Rules, ToolError> {
    guard.anchored(rules).map_err(|error| ToolError::new(Kind::InvalidArgs, error.to_string()))
}
