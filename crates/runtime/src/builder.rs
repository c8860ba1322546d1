//! Builds a runtime: opens its roots and makes a catalog for each dialect.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use sinew_guard::{
    Checkpoints, CommandSettings, GlobalIgnore, Guard, GuardSettings, JournalSettings,
    KnowledgeBase, MessageSettings, Profile, Redactor, Resolver, Rules, SystemClock, WebSettings,
};
use sinew_tool::{Dialect, FileSettings, Hook, Ledger, Recorder, Tool};
use tokio::sync::{Semaphore, watch};

use crate::approvals::Asking;
use crate::broker::Broker;
use crate::build_error::{BuildError, checkable};
use crate::catalog::{Catalog, Shown};
use crate::grants::Grants;
use crate::hooks::Hooks;
use crate::hooks::session::Sessions;
use crate::hooks::telling::Telling;
use crate::ledgers::NoLedger;
use crate::path_queue::PathQueue;
use crate::runtime::Runtime;
use crate::session_turns::SessionTurns;
use crate::tool_index::ToolSearches;

/// Long calls use all processors and hold file descriptors.
const MAX_LONG: usize = 8;

/// Builds a [`Runtime`].
pub struct Builder {
    dialects: Vec<(Dialect, FileSettings)>,
    roots: Vec<PathBuf>,
    denied: Vec<PathBuf>,
    global_ignore: GlobalIgnore,
    resolver: Resolver,
    commands: Option<CommandSettings>,
    web: Option<WebSettings>,
    messages: Option<MessageSettings>,
    journals: Option<JournalSettings>,
    user_state: Option<PathBuf>,
    checkpoints: Option<Arc<Checkpoints>>,
    rules: Rules,
    asking: Asking,
    hooks: Vec<Arc<dyn Hook>>,
    ledger: Arc<dyn Ledger>,
    knowledge: Arc<KnowledgeBase>,
    recorder: Option<Arc<dyn Recorder>>,
    redactor: Redactor,
    tools: Vec<Arc<dyn Tool>>,
    shown: Arc<Shown>,
    deferred: Arc<[String]>,
    reserved: Arc<[String]>,
    store: bool,
}

impl Runtime {
    /// Returns a builder of a runtime over a dialect.
    pub fn builder(dialect: Dialect) -> Builder {
        Builder::new(dialect)
    }
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
            web: None,
            messages: None,
            journals: None,
            user_state: None,
            checkpoints: None,
            rules: Rules::default(),
            asking: Asking::default(),
            hooks: Vec::new(),
            ledger: Arc::new(NoLedger),
            knowledge: Arc::default(),
            recorder: None,
            redactor: Redactor::default(),
            tools: Vec::new(),
            shown: Arc::new(|_| true),
            deferred: Arc::default(),
            reserved: Arc::default(),
            store: true,
        }
    }

    /// Adds a directory that calls may touch; the first is the working directory.
    #[must_use]
    pub fn root(mut self, root: impl Into<PathBuf>) -> Self {
        self.roots.push(root.into());
        self
    }

    /// Denies a directory to all tools, even inside a root: the state directory.
    #[must_use]
    pub fn deny(mut self, path: impl Into<PathBuf>) -> Self {
        self.denied.push(path.into());
        self
    }

    /// Serves another dialect, which requests select by name.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialects.push((dialect, (dialect.settings)()));
        self
    }

    /// Changes the file settings of all dialects added so far.
    #[must_use]
    pub fn settings(mut self, change: impl Fn(&mut FileSettings)) -> Self {
        self.dialects.iter_mut().for_each(|(_, settings)| change(settings));
        self
    }

    /// Sets the path of the user's global ignore file.
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

    /// Sets how commands run; the default runs none.
    #[must_use]
    pub fn commands(mut self, settings: CommandSettings) -> Self {
        self.commands = Some(settings);
        self
    }

    /// Sets how pages are fetched; the default fetches none.
    #[must_use]
    pub fn web(mut self, settings: WebSettings) -> Self {
        self.web = Some(settings);
        self
    }

    /// Sets how messages are sent and read; the default sends none.
    #[must_use]
    pub fn messages(mut self, settings: MessageSettings) -> Self {
        self.messages = Some(settings);
        self
    }

    /// Sets the journals (write-ahead log) of multi-file changes; without them those are not crash-safe.
    /// `build` recovers the journals of dead processes, except in a read-only profile.
    #[must_use]
    pub fn journals(mut self, settings: JournalSettings) -> Self {
        self.journals = Some(settings);
        self
    }

    /// Sets the user's state directory, by its real path; it holds the memory file of the user. Without it there is
    /// none. [`Builder::deny`] keeps other tools out of the directory.
    #[must_use]
    pub fn user_state(mut self, path: impl Into<PathBuf>) -> Self {
        self.user_state = Some(path.into());
        self
    }

    /// Sets the checkpoint store for dialects that ask for it; without it nothing can be undone.
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

    /// Sets the ledger; the default records nothing.
    #[must_use]
    pub fn ledger(mut self, ledger: Arc<dyn Ledger>) -> Self {
        self.ledger = ledger;
        self
    }

    /// Sets the store of what callers know of files; the default is in memory.
    #[must_use]
    pub fn knowledge(mut self, knowledge: Arc<KnowledgeBase>) -> Self {
        self.knowledge = knowledge;
        self
    }

    /// Sets the recorder of metrics.
    #[must_use]
    pub fn recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Sets the redactor of spans; the default knows secrets by their pattern only.
    #[must_use]
    pub fn redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// Adds a custom tool to every dialect.
    #[must_use]
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Serves only the tools for which a predicate returns true; others are unknown.
    #[must_use]
    pub fn only(mut self, shown: impl Fn(&dyn Tool) -> bool + Send + Sync + 'static) -> Self {
        self.shown = Arc::new(shown);
        self
    }

    /// Defers the tools with these names, in which `*` means any characters: a search finds them before they are listed.
    #[must_use]
    pub fn deferred(mut self, names: impl Into<Arc<[String]>>) -> Self {
        self.deferred = names.into();
        self
    }

    /// Reserves names that no tool of another server gets, such as those of other dialects, which rules may name.
    #[must_use]
    pub fn reserved(mut self, names: impl Into<Arc<[String]>>) -> Self {
        self.reserved = names.into();
        self
    }

    /// Stores no full copy of a truncated reply.
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
        for (dialect, _) in &self.dialects {
            (dialect.tools)().iter().try_for_each(checkable)?;
        }
        // Storing an output writes beneath a root.
        let may_change = self.rules.profile != Profile::ReadOnly;
        let may_store = self.store && may_change;
        let guard = Guard::open(GuardSettings {
            journals: self.journals.filter(|_| may_change),
            user_state: self.user_state,
            checkpoints: self.checkpoints,
            denied: self.denied,
            resolver: self.resolver,
            global_ignore: self.global_ignore,
            commands: self.commands,
            web: self.web,
            messages: self.messages,
            knowledge: self.knowledge,
            ..GuardSettings::new(self.roots)
        })?;
        guard.record_to(&self.ledger);
        let rules = guard.anchored(self.rules)?;
        let mut catalogs = Vec::with_capacity(self.dialects.len());
        for (dialect, settings) in self.dialects {
            let settings = Arc::new(settings);
            let guard = guard.with_files(Arc::clone(&settings))?;
            let (tools, shown) = (&self.tools, (&self.shown, &self.deferred, &self.reserved));
            let guard = (guard, may_store);
            catalogs.push(Catalog::new(&dialect, settings, &rules, guard, tools, shown));
        }
        Ok(Arc::new(Runtime {
            catalogs: watch::Sender::new(Arc::new(catalogs)),
            pending: watch::Sender::new(0),
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
            session_turns: SessionTurns::default(),
            searches: ToolSearches::default(),
            narrowings: Arc::default(),
            sub_agents: Arc::default(),
            long: Arc::new(Semaphore::new(MAX_LONG)),
        }))
    }
}
