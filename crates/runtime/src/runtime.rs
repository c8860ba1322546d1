//! The runtime: what every call shares.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use sinew_guard::{
    Case, Checkpoints, CommandSettings, GlobalIgnore, Guard, GuardError, GuardSettings,
    JournalSettings, KnowledgeBase, Profile, Redactor, Resolver, Rules, SandboxLevel, Shortfall,
    Store, SystemClock,
};
use sinew_tool::{
    Access, Approver, Cancel, Claim, Clock, Command, CommandLine, CommandTarget, Dialect,
    FileSettings, Hook, Kind, Ledger, Memo, Progress, Recorder, Ruling, Tool, ToolError,
};

use tokio::sync::{Semaphore, watch};

use crate::approvals::{Approvals, Asking};
use crate::broker::Broker;
use crate::catalog::Catalog;
use crate::grants::{GrantStore, Grants};
use crate::hooks::Hooks;
use crate::hooks::session::Sessions;
use crate::hooks::telling::Telling;
use crate::ledgers::NoLedger;
use crate::path_queue::PathQueue;
use crate::schema_check;

/// Executes calls: one for each set of roots, shared by every surface of a process.
pub struct Runtime {
    catalogs: watch::Sender<Arc<Vec<Catalog>>>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) approvals: Approvals,
    pub(crate) answer_within: Duration,
    pub(crate) grant_store: Option<Arc<dyn GrantStore>>,
    pub(crate) broker: Broker,
    pub(crate) grants: Grants,
    /// Which sessions were told of which operation.
    pub(crate) hinted: Mutex<HashSet<(String, &'static str)>>,
    pub(crate) hooks: Hooks,
    /// The sessions that hooks follow.
    pub(crate) sessions: Sessions,
    /// What hooks are told beside the calls.
    pub(crate) telling: Telling,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
    /// Takes secrets out of spans.
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) store: Option<Store>,
    pub(crate) memo: Arc<Memo>,
    pub(crate) order: PathQueue,
    /// How many long calls run at once; the others wait.
    pub(crate) long: Arc<Semaphore>,
}

/// Long calls use every processor themselves, and each holds descriptors.
const MAX_LONG: usize = 8;

/// What a surface says of one call beside the request.
#[derive(Debug, Clone, Default)]
pub struct CallOptions {
    /// Raised when the caller takes the call back. Dropping the future of the call raises it too.
    pub cancel: Cancel,
    /// Where long work says how far it is.
    pub progress: Progress,
}

impl Runtime {
    /// Returns a builder of a runtime over a dialect.
    pub fn builder(dialect: Dialect) -> Builder {
        Builder::new(dialect)
    }

    /// Does what no answer has to wait for: the old files of changes are closed. Worth calling when
    /// an answer is out; otherwise it is done when the next call comes.
    pub fn rest(&self) {
        self.guard.close_deferred();
    }

    /// Returns the catalogs that are served now, the first of which is meant by requests that name
    /// no dialect.
    pub fn catalogs(&self) -> Arc<Vec<Catalog>> {
        Arc::clone(&self.catalogs.borrow())
    }

    /// Returns a receiver that sees every change of the catalogs.
    pub fn watch_catalogs(&self) -> watch::Receiver<Arc<Vec<Catalog>>> {
        self.catalogs.subscribe()
    }

    /// Adds a tool to every catalog, in the place of one of the same name. Surfaces tell their
    /// clients that the list changed; calls in progress keep the catalog they began with.
    ///
    /// It fails where the tool wants its arguments checked by its schema and this build cannot check them.
    pub fn add_tool(&self, tool: &Arc<dyn Tool>) -> Result<(), BuildError> {
        checkable(tool)?;
        self.catalogs.send_modify(|catalogs| {
            Arc::make_mut(catalogs).iter_mut().for_each(|catalog| catalog.add(Arc::clone(tool)));
        });
        Ok(())
    }

    /// Takes a tool out of every catalog; returns whether it was in one.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.catalogs.send_if_modified(|catalogs| {
            let catalogs = Arc::make_mut(catalogs);
            0 < catalogs.iter_mut().filter_map(|c| c.remove(name).then_some(())).count()
        })
    }

    /// Adds somebody who can be asked, until what is returned is dropped.
    pub fn add_approver(self: &Arc<Self>, approver: Arc<dyn Approver>) -> Attached {
        Attached { runtime: Arc::downgrade(self), id: self.broker.add(approver) }
    }

    /// Returns the names of those who can be asked.
    pub fn approvers(&self) -> Vec<&'static str> {
        self.broker.names()
    }

    /// Returns how many questions a session has had.
    pub fn n_asked(&self, session: &str) -> u64 {
        self.broker.n_asked(session)
    }

    /// Returns the roots, the first of which is the working directory.
    pub fn roots(&self) -> Vec<PathBuf> {
        self.guard.roots().map(PathBuf::from).collect()
    }

    /// Returns how the commands of a session are contained, opening the session where it is not; `None`
    /// where no commands are run.
    pub fn probe_commands(
        &self,
        session: &str,
    ) -> Option<Result<(SandboxLevel, Vec<Shortfall>), ToolError>> {
        self.guard.probe_commands(session)
    }

    /// Returns what a command would run in the first root and what the rules of the first dialect say of it,
    /// once they are changed. Nothing runs and nothing is recorded.
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
        let command =
            Command { argument, line, keeps_cwd: false, has_terminal: false, programs: Vec::new() };
        let claim = Claim { argument: "cwd", path: None, access: Access::Search };
        let looks = catalogs.first().into_iter().flat_map(|catalog| catalog.lookers.iter());
        let looks = looks.map(|looker| looker.case(None));
        let lookers: Vec<_> = std::iter::once(Case::COMMAND).chain(looks).collect();
        let contained = guard.contain(&[claim], None, None)?;
        let contained = contained.with_command(command, &rules, &lookers)?;
        let judged = contained.judge(&Case::COMMAND, &rules);
        let target = judged.contained().targets().command.clone();
        let target = target.ok_or_else(|| {
            ToolError::new(Kind::ExecutionFailed, "the command names nothing to run")
        })?;
        Ok((target, judged.ruling().clone()))
    }

    /// Writes every record that waits, and what the recorder holds.
    pub fn flush(&self) -> Result<(), ToolError> {
        if let Some(recorder) = &self.recorder {
            recorder.flush();
        }
        self.ledger.flush()
    }
}

/// Somebody who can be asked as long as this lives.
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

/// Gives rules the meaning that they have beneath the roots.
pub(crate) fn anchored(guard: &Guard, rules: Rules) -> Result<Rules, ToolError> {
    guard.anchored(rules).map_err(|error| ToolError::new(Kind::InvalidArgs, error.to_string()))
}

/// Why a runtime could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No root was given.
    #[error("no root was given; add one with `root`")]
    NoRoot,
    /// A tool of this name wants its arguments checked by its schema, and the feature `json-schema` is off.
    #[error(
        "the tool `{0}` has its arguments checked by its JSON schema, which this build cannot; enable the feature \
         `json-schema`, or return false from `checked_by_schema` and check them in the tool"
    )]
    NoSchemaCheck(String),
    /// The guard refused the roots or the rules.
    #[error(transparent)]
    Guard(#[from] GuardError),
}

/// Refuses a tool whose arguments this build cannot check.
fn checkable(tool: &Arc<dyn Tool>) -> Result<(), BuildError> {
    match schema_check::is_available(&**tool) {
        true => Ok(()),
        false => Err(BuildError::NoSchemaCheck(tool.name().to_owned())),
    }
}

/// Whether a tool is served.
type Shown = dyn Fn(&dyn Tool) -> bool;

/// Gathers what a [`Runtime`] is made of.
pub struct Builder {
    dialects: Vec<(Dialect, FileSettings)>,
    roots: Vec<PathBuf>,
    denied: Vec<PathBuf>,
    global_ignore: GlobalIgnore,
    resolver: Resolver,
    commands: Option<CommandSettings>,
    journals: Option<JournalSettings>,
    checkpoints: Option<Arc<Checkpoints>>,
    rules: Rules,
    asking: Asking,
    hooks: Vec<Arc<dyn Hook>>,
    ledger: Arc<dyn Ledger>,
    knowledge: Arc<KnowledgeBase>,
    recorder: Option<Arc<dyn Recorder>>,
    redactor: Redactor,
    tools: Vec<Arc<dyn Tool>>,
    shown: Box<Shown>,
    store: bool,
}

impl Builder {
    fn new(dialect: Dialect) -> Self {
        Self {
            dialects: vec![(dialect, (dialect.settings)())],
            roots: Vec::new(),
            denied: Vec::new(),
            global_ignore: GlobalIgnore::None,
            resolver: Resolver::Auto,
            commands: None,
            journals: None,
            checkpoints: None,
            rules: Rules::default(),
            asking: Asking::default(),
            hooks: Vec::new(),
            ledger: Arc::new(NoLedger),
            knowledge: Arc::default(),
            recorder: None,
            redactor: Redactor::default(),
            tools: Vec::new(),
            shown: Box::new(|_| true),
            store: true,
        }
    }

    /// Adds a directory that calls may touch; the first is the working directory.
    #[must_use]
    pub fn root(mut self, root: impl Into<PathBuf>) -> Self {
        self.roots.push(root.into());
        self
    }

    /// Denies a directory to every tool, wherever the roots lie: the state directory.
    #[must_use]
    pub fn deny(mut self, path: impl Into<PathBuf>) -> Self {
        self.denied.push(path.into());
        self
    }

    /// Serves another dialect too; requests name it.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialects.push((dialect, (dialect.settings)()));
        self
    }

    /// Changes the file settings of every dialect added so far.
    #[must_use]
    pub fn settings(mut self, change: impl Fn(&mut FileSettings)) -> Self {
        self.dialects.iter_mut().for_each(|(_, settings)| change(settings));
        self
    }

    /// Sets where the person's own ignore file for every repository lies.
    #[must_use]
    pub fn global_ignore(mut self, at: GlobalIgnore) -> Self {
        self.global_ignore = at;
        self
    }

    /// Sets how paths are resolved.
    #[must_use]
    pub fn resolver(mut self, resolver: Resolver) -> Self {
        self.resolver = resolver;
        self
    }

    /// Sets how commands are run; without it none is.
    #[must_use]
    pub fn commands(mut self, settings: CommandSettings) -> Self {
        self.commands = Some(settings);
        self
    }

    /// Sets where the journals of changes that happen together are kept. Building the runtime finishes
    /// what a dead process began there; without it such changes are all made or none is only as long
    /// as the process lives. Where calls only look, nothing is finished.
    #[must_use]
    pub fn journals(mut self, settings: JournalSettings) -> Self {
        self.journals = Some(settings);
        self
    }

    /// Sets where it is kept what was there before each change, for dialects whose settings ask for
    /// it; without it nothing can be undone.
    #[must_use]
    pub fn checkpoints(mut self, checkpoints: Arc<Checkpoints>) -> Self {
        self.checkpoints = Some(checkpoints);
        self
    }

    /// Sets the rules that judge calls.
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Sets how the runtime asks.
    #[must_use]
    pub fn asking(mut self, asking: Asking) -> Self {
        self.asking = asking;
        self
    }

    /// Adds a hook.
    #[must_use]
    pub fn hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.hooks.push(hook);
        self
    }

    /// Sets where calls are recorded; without it they are not.
    #[must_use]
    pub fn ledger(mut self, ledger: Arc<dyn Ledger>) -> Self {
        self.ledger = ledger;
        self
    }

    /// Sets where it is kept what callers know of files; without it that ends with the process.
    #[must_use]
    pub fn knowledge(mut self, knowledge: Arc<KnowledgeBase>) -> Self {
        self.knowledge = knowledge;
        self
    }

    /// Sets where calls are counted and timed.
    #[must_use]
    pub fn recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Sets what takes secrets out of the spans of calls. Without it they are known by their looks alone.
    #[must_use]
    pub fn redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// Adds a tool of the embedding program to every dialect.
    #[must_use]
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Serves only the tools that a test lets through; the others are unknown to callers.
    #[must_use]
    pub fn only(mut self, shown: impl Fn(&dyn Tool) -> bool + 'static) -> Self {
        self.shown = Box::new(shown);
        self
    }

    /// Keeps no full copies of replies that were cut.
    #[must_use]
    pub fn without_store(mut self) -> Self {
        self.store = false;
        self
    }

    /// Opens the roots and returns the runtime.
    pub fn build(self) -> Result<Arc<Runtime>, BuildError> {
        if self.roots.is_empty() {
            return Err(BuildError::NoRoot);
        }
        self.tools.iter().try_for_each(checkable)?;
        // To keep an output is to write beneath a root.
        let may_change = self.rules.profile != Profile::ReadOnly;
        let may_store = self.store && may_change;
        let guard = Guard::open(GuardSettings {
            journals: self.journals.filter(|_| may_change),
            checkpoints: self.checkpoints,
            denied: self.denied,
            resolver: self.resolver,
            global_ignore: self.global_ignore,
            commands: self.commands,
            knowledge: self.knowledge,
            ..GuardSettings::new(self.roots)
        })?;
        let rules = guard.anchored(self.rules)?;
        let mut catalogs = Vec::with_capacity(self.dialects.len());
        for (dialect, settings) in self.dialects {
            let settings = Arc::new(settings);
            let guard = guard.with_files(Arc::clone(&settings))?;
            let (tools, shown) = (&self.tools, &*self.shown);
            catalogs.push(Catalog::new(&dialect, settings, &rules, guard, tools, shown));
        }
        Ok(Arc::new(Runtime {
            catalogs: watch::Sender::new(Arc::new(catalogs)),
            store: may_store.then(|| guard.store()),
            clock: Arc::new(SystemClock),
            guard,
            approvals: self.asking.approvals,
            answer_within: self.asking.timeout,
            grant_store: self.asking.grant_store,
            broker: Broker::new(self.asking.approvers),
            grants: Grants::default(),
            hinted: Mutex::default(),
            hooks: Hooks::new(self.hooks),
            sessions: Sessions::default(),
            telling: Telling::default(),
            ledger: self.ledger,
            recorder: self.recorder,
            redactor: Arc::new(self.redactor),
            memo: Arc::default(),
            order: PathQueue::default(),
            long: Arc::new(Semaphore::new(MAX_LONG)),
        }))
    }
}
