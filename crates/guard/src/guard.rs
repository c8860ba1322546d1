//! [`Guard`] owns all authority over files: the roots, rules and settings of one runtime.
//!
//! It contains a call first ([`contain`](crate::contain)): the result can be inspected and judged but gives no
//! access; only a clearance makes it a World of just those handles ([`clear`](crate::clear)).

use std::collections::HashMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;
use std::time::Duration;

use sinew_tool::{
    Access, Analysis, Background, Claim, CommandLine, FileSettings, Kind, LazyCommandList, Ledger,
    Links, SearchSettings, ToolError, Verdict,
};

use crate::approval_fingerprint::{CONTAINMENT, state_at};
use crate::change::locks::Locks;
use crate::command_undo::CommandCheckpoints;
use crate::commit::{self, JournalSettings};
use crate::host_files::HostFiles;
use crate::messages::{MessageCenter, MessageSettings};
use sinew_fs::deferred_close::DeferredClose;
use sinew_fs::dir_lock::DirLocking;
use sinew_fs::ignore_rules::{GlobalIgnore, IgnoreCache};
use sinew_fs::resolve::Resolver;
use sinew_fs::roots::{RootError, Roots};
use sinew_fs::store::Store;
use sinew_policy::globs::RuleError;
use sinew_policy::hosts::HostPattern;
use sinew_policy::judge::{Case, Rules, judge};
use sinew_policy::named;
use sinew_policy::proxies::Proxies;
use sinew_policy::rule::{Beneath, Judge, Rule};
use sinew_policy::rules::{self, PathGlobs, PathRules};
use sinew_records::checkpoints::Checkpoints;
use sinew_records::knowledge::KnowledgeBase;
use sinew_sandbox::{
    CommandSettings, Commands, Helper, SandboxLevel, ServerProcess, ServerProgram, Shortfall,
    no_helper, real_or_same,
};
use sinew_shell::{Scene, Seen};

/// Settings to open a guard.
#[derive(Debug, Clone)]
pub struct GuardSettings {
    /// The directories that tools may reach; the first is the working directory.
    pub roots: Vec<PathBuf>,
    /// How paths are resolved.
    pub resolver: Resolver,
    /// Settings of the file tools: path globs, sync, hard links.
    pub files: Arc<FileSettings>,
    /// Real absolute directories that no call may touch, such as the state directory.
    pub denied: Vec<PathBuf>,
    /// The user's global ignore file, if any.
    pub global_ignore: GlobalIgnore,
    /// How changes by several processes are serialized.
    pub dir_locking: DirLocking,
    /// How commands are run; `None` runs none.
    pub commands: Option<CommandSettings>,
    /// Knowledge of callers about files.
    pub knowledge: Arc<KnowledgeBase>,
    /// Where journals of change sets are kept. Without it, a crash can leave a set partly made.
    pub journals: Option<JournalSettings>,
    /// The checkpoints of changes, if the settings of the file tools ask for them.
    pub checkpoints: Option<Arc<Checkpoints>>,
    /// The real path of the state directory, in which the user's memory file is; `None` has no such file.
    pub user_state: Option<PathBuf>,
    /// How pages are fetched; `None` fetches none.
    pub web: Option<WebSettings>,
    /// How messages are sent; `None` sends and reads none.
    pub messages: Option<MessageSettings>,
}

/// How pages are fetched, and who is asked by searches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebSettings {
    /// Hosts that need not be public, each with its port.
    pub allow_hosts: Vec<HostPattern>,
    /// The proxies through which public hosts are reached.
    pub proxies: Proxies,
    /// The most redirects that are followed.
    pub max_redirects: usize,
    /// How long a page may take in all.
    pub timeout: Duration,
    /// How long a server may send nothing.
    pub idle_timeout: Duration,
    /// How long an answer is reused; zero reuses none.
    pub cache: Duration,
    /// The program whose worker converts pages; without one they are shown as they are.
    pub helper: Option<Helper>,
    /// Who is asked by searches.
    pub search: SearchSettings,
}

impl GuardSettings {
    /// Returns default settings with these roots.
    pub fn new(roots: Vec<PathBuf>) -> Self {
        Self {
            roots,
            resolver: Resolver::Auto,
            files: Arc::new(FileSettings::default()),
            denied: Vec::new(),
            global_ignore: GlobalIgnore::None,
            dir_locking: DirLocking::Auto,
            commands: None,
            knowledge: Arc::default(),
            journals: None,
            checkpoints: None,
            user_state: None,
            web: None,
            messages: None,
        }
    }
}

/// Why a guard cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// A root cannot be opened.
    #[error(transparent)]
    Root(RootError),
    /// A path glob cannot be read.
    #[error(transparent)]
    Rule(RuleError),
}

/// Path rules and settings of one vocabulary, with the state that all vocabularies share.
#[derive(Debug)]
pub struct Guard {
    pub(crate) shared: Arc<Shared>,
    pub(crate) files: Arc<FileSettings>,
    pub(crate) rules: PathRules,
    /// The globs of the rules, for commands.
    pub(crate) globs: Arc<PathGlobs>,
}

/// State that the guards of all vocabularies over the same roots share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) roots: Arc<Roots>,
    pub(crate) locks: Arc<Locks>,
    pub(crate) ignores: Arc<IgnoreCache>,
    pub(crate) dir_locking: DirLocking,
    pub(crate) commands: Option<Arc<Commands>>,
    pub(crate) knowledge: Arc<KnowledgeBase>,
    pub(crate) journals: Option<JournalSettings>,
    pub(crate) checkpoints: Option<Arc<Checkpoints>>,
    pub(crate) user_state: Option<PathBuf>,
    #[cfg(feature = "web")]
    pub(crate) web: Option<Arc<crate::net::Web>>,
    pub(crate) messages: Option<Arc<MessageCenter>>,
    pub(crate) deferred_close: Arc<DeferredClose>,
    denied: Vec<PathBuf>,
    /// Real paths in the roots that are hidden from commands and file tools, each with its path in the settings.
    hidden: HashMap<PathBuf, PathBuf>,
    n_threads: OnceLock<usize>,
}

impl Guard {
    /// Opens the roots, recovers changes that a crash interrupted, and compiles the rules.
    pub fn open(settings: GuardSettings) -> Result<Arc<Self>, GuardError> {
        let roots =
            Roots::open_with(&settings.roots, settings.resolver).map_err(GuardError::Root)?;
        settings
            .journals
            .iter()
            .for_each(|journals| commit::recover(journals, settings.dir_locking));
        let hidden = hidden(settings.commands.as_ref(), &roots);
        let writable = roots.paths().map(PathBuf::from).collect();
        let commands = settings.commands;
        let keeper = settings.checkpoints.clone().filter(|kept| kept.keeps_commands());
        let keeper = keeper.map(|checkpoints| Arc::new(CommandCheckpoints(checkpoints)) as Arc<_>);
        #[cfg(feature = "web")]
        let web = settings.web.map(|settings| Arc::new(crate::net::Web::new(settings)));
        let messages = settings.messages.map(|messages| {
            let knowledge = Arc::clone(&settings.knowledge);
            let center = MessageCenter::new(messages, knowledge, roots.paths().next());
            #[cfg(feature = "web")]
            let center = center.noting(web.as_ref().map(|web| Arc::clone(&web.sessions)));
            Arc::new(center)
        });
        let shared = Shared {
            roots: Arc::new(roots),
            locks: Arc::default(),
            ignores: Arc::new(IgnoreCache::new(settings.global_ignore)),
            dir_locking: settings.dir_locking,
            commands: commands.map(|commands| Arc::new(Commands::new(commands, writable, keeper))),
            knowledge: settings.knowledge,
            journals: settings.journals,
            checkpoints: settings.checkpoints,
            user_state: settings.user_state,
            #[cfg(feature = "web")]
            web,
            messages,
            deferred_close: Arc::default(),
            denied: settings.denied,
            hidden,
            n_threads: OnceLock::new(),
        };
        Self::over(Arc::new(shared), settings.files)
    }

    /// Returns a guard over the same open roots with the settings of another vocabulary.
    pub fn with_files(&self, files: Arc<FileSettings>) -> Result<Arc<Self>, GuardError> {
        Self::over(Arc::clone(&self.shared), files)
    }

    fn over(shared: Arc<Shared>, files: Arc<FileSettings>) -> Result<Arc<Self>, GuardError> {
        let globs = globs(&files, &shared.roots).map_err(GuardError::Rule)?;
        let rules = PathRules::compile(&globs, &shared.denied).map_err(GuardError::Rule)?;
        let rules = rules.hiding(shared.hidden.clone());
        Ok(Arc::new(Self { shared, files, rules, globs: Arc::new(globs) }))
    }

    /// Anchors the relative globs of rules at these roots.
    pub fn anchored(&self, mut rules: Rules) -> Result<Rules, GuardError> {
        for rule in &mut rules.rules {
            self.anchor(Arc::make_mut(rule))?;
        }
        Ok(rules)
    }

    /// Anchors the relative globs of a rule at these roots.
    pub fn anchor(&self, rule: &mut Rule) -> Result<(), GuardError> {
        rule.anchor(&self.shared.roots).map_err(GuardError::Rule)
    }

    /// Returns the analysis of a command that would start in a directory, by its real path.
    pub fn analysed(&self, line: &CommandLine, cwd: &Path) -> Analysis {
        self.analysed_without(line, cwd, None)
    }

    /// Like [`Guard::analysed`], but plain commands must not read `kept_out`.
    pub(crate) fn analysed_without(
        &self,
        line: &CommandLine,
        cwd: &Path,
        kept_out: Option<&Beneath>,
    ) -> Analysis {
        let roots: Vec<PathBuf> = self.shared.roots.paths().map(PathBuf::from).collect();
        let program =
            |name: &str| self.shared.commands.as_ref().and_then(|commands| commands.find(name));
        let may_read = |real: &Path| {
            self.rules.check(real).is_ok() && !kept_out.is_some_and(|out| out.hides(real, false))
        };
        let may_walk = |dir: &Path| !kept_out.is_some_and(|out| out.may_lie_beneath(dir));
        let scene = Scene {
            cwd,
            roots: &roots,
            find_program: &program,
            files: &HostFiles,
            may_read: &may_read,
            may_walk: &may_walk,
            is_narrowed: !self.globs.is_empty() || kept_out.is_some(),
            seen: Seen::default(),
        };
        match line {
            CommandLine::Shell(_, text) => sinew_shell::analyse(text, &scene),
            CommandLine::Argv(argv) => sinew_shell::analyse_argv(argv, &scene),
        }
    }

    /// Returns the protected names that a command says it changes, apart from `granted` ones.
    pub(crate) fn named_in(
        &self,
        line: &CommandLine,
        commands: &LazyCommandList,
        cwd: &Path,
        granted: &[String],
    ) -> Vec<&'static str> {
        let may_name = match line {
            CommandLine::Shell(_, text) => named::may_name(text),
            CommandLine::Argv(argv) => argv.iter().any(|word| named::may_name(word)),
        };
        if !may_name && !named::may_name(&cwd.to_string_lossy()) {
            return Vec::new();
        }
        let roots: Vec<&Path> = self.shared.roots.paths().collect();
        named::named(commands, &named::Scene { cwd, roots: &roots, granted, files: &HostFiles })
    }

    /// Returns environment and sandbox of a session's command that would start in a directory.
    pub(crate) fn surroundings(&self, cwd: &Path, session: Option<&str>) -> Vec<(String, String)> {
        let Some(commands) = &self.shared.commands else { return Vec::new() };
        let venv = commands.venv(cwd).map(|venv| venv.display().to_string());
        let probed = session.map(|session| commands.probe(session, &self.globs));
        let level = probed.and_then(Result::ok).map(|(level, missing)| {
            let missing: Vec<String> = missing.into_iter().map(|one| one.what).collect();
            contained_words(level, &missing)
        });
        let mut all = vec![
            (String::from("the virtual environment"), venv.unwrap_or_default()),
            (CONTAINMENT.to_owned(), level.unwrap_or_default()),
        ];
        let read = commands.environment_files(cwd);
        all.extend(read.map(|path| (format!("the file {}", path.display()), state_at(&path))));
        all
    }

    /// Returns the program that a bare name resolves to for a command that starts in a directory.
    pub(crate) fn program(&self, name: &str, cwd: &Path) -> Option<PathBuf> {
        self.shared.commands.as_ref()?.means(name, cwd)
    }

    /// Returns the sandbox of a session's commands in words; `None` if there is none.
    pub fn containment(&self, session: &str) -> Option<String> {
        let probed = self.shared.commands.as_ref()?.probe(session, &self.globs);
        let (level, missing) = probed.ok()?;
        let missing: Vec<String> = missing.into_iter().map(|one| one.what).collect();
        Some(contained_words(level, &missing))
    }

    /// Returns the session's directory or its nearest existing ancestor; `None` for the first root.
    pub fn cwd_of(&self, session: &str) -> Option<PathBuf> {
        let can_enter = |dir: &Path| self.working_directory(Some(dir), None).is_ok();
        self.shared.commands.as_ref()?.cwd_of(session, can_enter)
    }

    /// Takes the background commands of a session that ended since the last report.
    pub fn endings(&self, session: &str) -> Vec<Background> {
        self.shared.commands.as_ref().map(|commands| commands.endings(session)).unwrap_or_default()
    }

    /// Records in a ledger what background commands changed that acts later.
    pub fn record_to(&self, ledger: &Arc<dyn Ledger>) {
        self.shared.commands.iter().for_each(|commands| commands.record_to(ledger));
    }

    /// Kills every background command and waits until its end is recorded, for at most `within`.
    pub fn end_background(&self, within: Duration) {
        self.shared.commands.iter().for_each(|commands| commands.end_background(within));
    }

    /// Kills the commands of one agent, by its address.
    pub fn kill_commands_of(&self, address: &str) {
        self.shared.commands.iter().for_each(|commands| commands.kill_commands_of(address));
    }

    /// Ends every running command.
    pub fn close_commands(&self) {
        self.shared.commands.iter().for_each(|commands| commands.close());
    }

    /// Starts a server, such as an MCP server, in a sandbox of its own. It may change the roots as commands may.
    pub async fn start_server(&self, program: ServerProgram) -> Result<ServerProcess, ToolError> {
        let commands = self.shared.commands.as_ref().ok_or_else(no_helper)?;
        commands.start_server(program, &self.globs).await
    }

    /// Returns the sandbox of a session's commands, opening the session if needed; `None` without commands.
    pub fn probe_commands(
        &self,
        session: &str,
    ) -> Option<Result<(SandboxLevel, Vec<Shortfall>), ToolError>> {
        self.shared.commands.as_ref().map(|commands| commands.probe(session, &self.globs))
    }

    /// Returns the real paths of the roots; the first is the working directory.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        self.shared.roots.paths()
    }

    /// Closes originals whose closing was deferred.
    pub fn close_deferred(&self) {
        self.shared.deferred_close.close();
    }

    /// Returns whether a call with these roots may name a real path, to inspect it.
    pub(crate) fn may_name(&self, roots: &Roots, real: &Path) -> bool {
        let named = self.shared.roots.named(real);
        let is_in_roots = roots.holding(real).is_some()
            && rules::check_own(named, Access::Inspect).is_ok()
            && self.rules.check(real).is_ok();
        is_in_roots || self.may_name_memory(roots, real)
    }

    /// Returns a judge of names by the path rules alone.
    pub(crate) fn names(&self) -> Judge<'_> {
        Judge { roots: &self.shared.roots, rules: &self.rules, beneath: None }
    }

    /// Returns the path globs of the file tools.
    pub(crate) fn path_globs(&self) -> &PathGlobs {
        &self.globs
    }

    /// Returns the checkpoints, if changes are recorded.
    pub(crate) fn kept(&self) -> Option<Arc<Checkpoints>> {
        self.shared.checkpoints.clone().filter(|_| self.files.checkpoint_before_mutation)
    }

    /// Returns how many threads this process may use.
    pub(crate) fn n_threads(&self) -> usize {
        *self.shared.n_threads.get_or_init(|| available_parallelism().map_or(1, NonZero::get))
    }

    /// Returns the store of full outputs in the first root.
    pub fn store(&self) -> Store {
        Store::new(Arc::clone(&self.shared.roots))
    }

    /// Returns the bounded store of full outputs in another directory of the first root, given by one name;
    /// `None` where the path rules or rules deny every changing tool of a vocabulary to write there.
    ///
    /// It is [`Store::bounded`]: beneath the handle of the root, without links, and never over a file.
    pub fn store_in(
        self: &Arc<Self>,
        directory: &'static str,
        changing: &[Case<'_>],
        rules: &Rules,
    ) -> Option<Store> {
        let store = Store::bounded(Arc::clone(&self.shared.roots), directory);
        let claim = Claim::new(
            "",
            Some(format!("{}output.txt", store.outputs())),
            Access::Write { parents: true, links: Links::Refuse },
        );
        match self.contain(&[claim], None, None) {
            Ok(contained) => {
                let may_write = |case: &Case<'_>| {
                    judge(case, contained.targets(), rules).verdict != Verdict::Deny
                };
                (changing.is_empty() || changing.iter().any(may_write)).then_some(store)
            }
            Err(error) => (error.kind != Kind::PathDenied).then_some(store),
        }
    }

    /// Returns the settings of the file tools.
    pub fn settings(&self) -> &Arc<FileSettings> {
        &self.files
    }
}

/// Returns a sandbox level and its shortfalls in words.
fn contained_words(level: SandboxLevel, missing: &[String]) -> String {
    match missing {
        [] => level.to_string(),
        missing => format!("{level}, without {}", missing.join(", ")),
    }
}

/// Returns the real paths in the roots that commands do not see, each with its path in the settings.
fn hidden(commands: Option<&CommandSettings>, roots: &Roots) -> HashMap<PathBuf, PathBuf> {
    let all = commands.map(|commands| commands.hidden.as_slice()).unwrap_or_default();
    let in_root = |path: &PathBuf| roots.paths().any(|root| path.starts_with(root));
    // Most are in the same few directories, outside the roots.
    let mut dirs: HashMap<&Path, PathBuf> = HashMap::new();
    let there = all.iter().filter_map(|path| {
        let (dir, name) = (path.parent()?, path.file_name()?);
        Some((dirs.entry(dir).or_insert_with(|| real_or_same(dir)).join(name), path))
    });
    let there = there.filter(|(path, _)| in_root(path));
    there.map(|(path, written)| (real_or_same(&path), written.clone())).collect()
}

fn globs(files: &FileSettings, roots: &Roots) -> Result<PathGlobs, RuleError> {
    PathGlobs::new(&files.allow_paths, &files.deny_paths, roots)
}
