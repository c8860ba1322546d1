//! Runs commands in a sandbox and kills every process that they start. A small helper process forks them, so
//! no fork copies the memory of sinew.
//!
//! The **fork server**, the helper of a session, enters the sandbox once and forks the **supervisors**. Each
//! has an **exec child**, which waits for a spawn request and becomes the command. The supervisor kills what
//! that leaves behind and reports its exit. All exit when sinew does, also by SIGKILL. A task reads the
//! output pipes, or a thread if there is much output.
//!
//! The helper is the same executable: a program that embeds sinew calls [`helper_main`] first in its `main`.

mod activate;
mod asking;
mod background;
mod bubblewrap;
mod cache_store;
mod capture;
mod cgroup;
mod environment;
mod exec_child;
mod extended;
mod fork_server;
mod input_queue;
mod kept;
mod kill_scope;
mod lockfiles;
pub mod memory;
mod notify_handler;
mod ongoing;
mod own;
mod private;
mod process_tree;
mod programs;
mod rebuilt_dirs;
mod refusal;
mod run;
mod sandbox;
mod sandbox_level;
mod seen_of_home;
mod server;
mod session;
mod session_cwd;
mod settings;
mod spawn;
mod spool;
mod standard;
pub mod streams;
mod supervisor;
mod terminal;
mod unasked;
mod undo;
mod unseen;
mod urgency;
mod usage;
mod wire;

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use sinew_tool::sync::lock;
use sinew_tool::{
    Caller, CommandChanges, Contained, ExtraAccess, Kind, Ledger, Need, SandboxFindings, Size,
    ToolError, line_name,
};

use background::{EndLedger, InBackground};
use cache_store::CacheStore;
use capture::{Became, Captured, RequestedCommand};
use extended::{Extended, SSH_AGENT};
use private::PrivateView;
use session::{NoSession, Session};
use session_cwd::SessionCwds;
use sinew_policy::command_rules::CommandRules;
use sinew_policy::protected::{executed_member, protected_at};
use sinew_policy::rules::{PathGlobs, own_at};
use terminal::{Pty, Tty};
use wire::{End, Join, Policy, SpawnRequest, Unkept};

pub use activate::Activate;
pub use environment::environment;
pub use own::{
    MAX_OWN_OUTPUT, OwnEnd, OwnProgram, OwnProgramSettings, OwnPrograms, OwnRan, TrustedPrograms,
    Unrunnable,
};
pub use run::processes;
pub use sandbox_level::{SandboxLevel, Shortfall};
pub use server::{RunningServer, ServerProcess, ServerProgram};
pub use settings::{CommandSettings, ProcessLimits};
pub use spawn::bear_limits;
pub use standard::UserContext;
pub use unasked::{AskCommands, NotProven};
pub use undo::{AddsDirs, CommandUndo, KeepsChanges};
pub use usage::UsageLimits;

/// The argument that makes a program the helper.
const HELPER: &str = "--sinew-helper";

/// The program that is executed as the helper of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Helper(PathBuf);

impl Helper {
    /// Names a program that calls [`helper_main`] first in its `main`.
    pub fn program(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Returns the program.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Makes this process non-dumpable: where the system supports it, other programs of the user cannot read its
/// memory and environment, and core files omit both. Sandbox levels decide what commands see.
pub fn close_process() {
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Becomes the helper and exits, if this process was started as one. Otherwise returns this executable as a
/// helper. Called first in `main`, before any thread starts.
pub fn helper_main() -> Helper {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == HELPER) && args.next().is_none() {
        spawn::begin_afresh();
        let code = match rustix::stdio::stdin().try_clone_to_owned() {
            Ok(line) => i32::from(fork_server::serve(line).is_err()),
            Err(_) => 1,
        };
        std::process::exit(code);
    }
    Helper(PathBuf::from("/proc/self/exe"))
}

/// A fully specified command.
#[derive(Debug, Clone)]
pub struct Job {
    pub program: PathBuf,
    pub argv: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    pub(crate) cwd_identity: (u64, u64),
    pub(crate) stdin: Option<Vec<u8>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) merged: bool,
    pub(crate) keeps_cwd: bool,
    /// The size of its terminal, if it has one.
    pub terminal: Option<Size>,
    /// Protected names that it may change besides those of the settings.
    pub(crate) granted: Vec<String>,
    /// What becomes of changes that cannot be kept for undo.
    pub(crate) unkept: Unkept,
    /// Whether files outside the roots are asked about that it opens for writing.
    pub(crate) asks_outside: bool,
    pub globs: Arc<PathGlobs>,
    pub(crate) caller: Caller,
    /// What it gets beyond its sandbox.
    pub(crate) extra: ExtraAccess,
    /// Whether its call can ask for that.
    pub(crate) may_need: bool,
}

/// The commands of a guard, by session.
#[derive(Debug)]
pub struct Commands {
    settings: CommandSettings,
    writable: Vec<PathBuf>,
    keeper: Option<Arc<dyn KeepsChanges>>,
    /// The first root that is or contains a home directory.
    home_root: Option<PathBuf>,
    /// Looked at when the first session opens.
    private: OnceLock<PrivateView>,
    /// The directories of `PATH` for programs: absolute, in order, each once, outside the roots.
    program_dirs: Vec<PathBuf>,
    /// By session name and path globs: only vocabularies with the same globs share a session.
    sessions: Mutex<Sessions>,
    /// Those with extra access, each for one command.
    extended: Mutex<Extended>,
    session_cwds: SessionCwds,
    background: Mutex<HashMap<String, InBackground>>,
    /// The sub-agents that ended, by their addresses: none of their commands begins any more.
    ended: Mutex<HashSet<String>>,
    counted: Counted,
    warned: AtomicBool,
    end_ledger: EndLedger,
}

type Sessions = HashMap<(String, PathGlobs), Arc<Session>>;

/// Which needs a reply names.
#[derive(Debug, Clone, Copy)]
struct NeedHints {
    /// Whether the call could have named any.
    may_need: bool,
    /// Whether the command had the SSH agent.
    has_ssh_agent: bool,
}

/// A requested command, with the session that must outlive it.
struct Running {
    session: Arc<Session>,
    ordered: RequestedCommand,
    timeout: Option<Duration>,
    tty: Option<Tty>,
    hints: NeedHints,
    /// What keeps its changes, or why that failed; `None` if they are not to be kept.
    undo: Option<io::Result<Box<dyn CommandUndo>>>,
}

/// Makes the checkpoint of a command that has ended; says whether its log has all that it changed.
fn end_undo(undo: io::Result<Box<dyn CommandUndo>>, has_all: bool) -> CommandChanges {
    match undo {
        Ok(undo) => undo.end(has_all),
        // It ran all the same, as where no sandbox watches commands.
        Err(_) => CommandChanges { is_partial: true, ..CommandChanges::default() },
    }
}

/// The result of a request that must not wait.
enum AtOnce {
    Ordered(Result<Running, ToolError>),
    /// Its session must be opened first.
    Not(Box<Job>),
}

impl Commands {
    /// Returns the commands of the writable roots, whose changes may be kept. The first command starts the first
    /// process.
    pub fn new(
        settings: CommandSettings,
        writable: Vec<PathBuf>,
        keeper: Option<Arc<dyn KeepsChanges>>,
    ) -> Self {
        let homes: Vec<PathBuf> = settings.homes.iter().map(|home| real_or_same(home)).collect();
        let holds_home = |root: &&PathBuf| homes.iter().any(|home| home.starts_with(root));
        Self {
            program_dirs: programs::dirs(&settings.env, &writable),
            home_root: writable.iter().find(holds_home).cloned(),
            private: OnceLock::new(),
            settings,
            writable,
            keeper,
            sessions: Mutex::default(),
            extended: Mutex::default(),
            session_cwds: SessionCwds::default(),
            background: Mutex::default(),
            ended: Mutex::default(),
            counted: Counted::default(),
            warned: AtomicBool::new(false),
            end_ledger: EndLedger::default(),
        }
    }

    /// Records in a ledger what background commands changed that acts later, once they have ended. The first
    /// ledger stays.
    pub fn record_to(&self, ledger: &Arc<dyn Ledger>) {
        let _ = self.end_ledger.0.set(Arc::downgrade(ledger));
    }

    /// Returns where the next command of a session starts, if that differs from the first root. If the
    /// directory was removed, that is its nearest ancestor.
    pub fn cwd_of(&self, session: &str, can_enter: impl Fn(&Path) -> bool) -> Option<PathBuf> {
        self.session_cwds.of(session, can_enter)
    }

    /// Returns what commands see of private directories.
    fn private(&self) -> &PrivateView {
        self.private.get_or_init(|| PrivateView::new(&self.settings, &self.writable))
    }

    /// Returns the protected names that every command may change.
    pub fn unprotected(&self) -> &[String] {
        &self.settings.unprotected
    }

    /// Returns the sandbox level of a session and its missing features; opens the session if needed.
    pub fn probe(
        &self,
        session: &str,
        globs: &PathGlobs,
    ) -> Result<(SandboxLevel, Vec<Shortfall>), ToolError> {
        let session = self.session(session, globs)?;
        Ok((session.level, session.missing.clone()))
    }

    /// Returns the sandbox level of an open session.
    fn level(&self, session: &str, globs: &PathGlobs) -> Option<&'static str> {
        let opened = self.opened(&lock(&self.sessions), session, globs);
        opened.map(|session| session.level.as_str())
    }

    /// Requests a command of a session; opens the session if needed.
    fn order(&self, session: &str, job: Job) -> Result<Running, ToolError> {
        let opened = match job.extra.is_empty() {
            true => self.session(session, &job.globs),
            false => self.extended(session, &job.globs, &job.extra),
        };
        self.order_of(opened?, job)
    }

    /// Requests a command without waiting if its session is open; otherwise returns the job.
    fn order_at_once(&self, session: &str, job: Job) -> AtOnce {
        if !job.extra.is_empty() {
            return AtOnce::Not(Box::new(job));
        }
        // Another call may hold the lock while it opens one.
        let sessions = self.sessions.try_lock().ok();
        let is_busy = self.keeper.as_ref().is_some_and(|keeper| keeper.is_busy());
        let sessions = sessions.filter(|_| !is_busy);
        let opened = sessions.and_then(|sessions| self.opened(&sessions, session, &job.globs));
        match opened {
            Some(session) => AtOnce::Ordered(self.order_of(session, job)),
            None => AtOnce::Not(Box::new(job)),
        }
    }

    fn order_of(&self, session: Arc<Session>, job: Job) -> Result<Running, ToolError> {
        let mut env = job.env;
        session.set_temporary_directory(&mut env);
        if let Some(socket) = self.settings.ssh_agent.as_ref().filter(|_| job.extra.ssh_agent) {
            env.retain(|(name, _)| name != SSH_AGENT);
            env.push((SSH_AGENT.into(), real_or_same(socket).into()));
        }
        let mut order = SpawnRequest {
            program: job.program,
            argv: job.argv,
            env,
            cwd: job.cwd,
            cwd_identity: job.cwd_identity,
            keeps_cwd: job.keeps_cwd,
            has_terminal: job.terminal.is_some(),
            timeout_ms: job.timeout.map(in_ms),
            grace_ms: GRACE_MS,
            granted: job.granted,
            unkept: job.unkept,
            asks_outside: job.asks_outside,
            room: 0,
        };
        let stdin = job.stdin.as_deref().map(wire::in_memory).transpose().map_err(broken)?;
        let keeper = self.keeper.as_ref().filter(|_| session.keeps_changes);
        let beside = || job.extra.paths.iter().filter(|extra| extra.is_writable);
        let beside = || beside().map(|extra| extended::kept_at(&extra.path)).collect();
        let undo = keeper.map(|keeper| keeper.begin(&job.caller, &self.writable, beside()));
        let keeps = undo.as_ref().and_then(|undo| undo.as_deref().ok());
        order.room = keeps.map_or(0, CommandUndo::room);
        if job.unkept != Unkept::Made && keeps.is_none() {
            return Err(unasked::not_kept(undo.and_then(Result::err)));
        }
        let (ordered, tty) = match job.terminal {
            Some(size) => {
                let pty = Pty::open(size).map_err(no_terminal)?;
                let tty = pty.hold().map_err(no_terminal)?;
                (session.order_in_terminal(&order, pty, keeps), Some(tty))
            }
            None => (session.order(&order, stdin, job.merged, keeps), None),
        };
        let ordered = ordered.map_err(broken)?;
        let hints = NeedHints { may_need: job.may_need, has_ssh_agent: job.extra.ssh_agent };
        Ok(Running { session, ordered, timeout: job.timeout, tty, hints, undo })
    }

    fn containment(&self, session: &Session) -> Contained {
        Contained {
            level: session.level.as_str(),
            missing: session.missing.iter().map(|one| one.what.clone()).collect(),
            network: session.network,
        }
    }

    /// Takes the findings out of the captured output, in words: what a call may need is named if it can. That of a Unix
    /// datagram socket is reported only if the command failed: many programs go on without one.
    fn findings(
        &self,
        captured: &mut Captured,
        level: &str,
        NeedHints { may_need, has_ssh_agent }: NeedHints,
    ) -> SandboxFindings {
        let succeeded = matches!(captured.became, Became::Ended { end: End::Code(0), .. });
        let home = self.settings.env.iter().find(|(name, _)| name == "HOME");
        let home = home.map(|(_, home)| Path::new(home));
        let found = std::mem::take(&mut captured.findings);
        let wire::Findings { listed, n_more, changed, later, links, .. } = found;
        let tells = |refused: &wire::Refused| !succeeded || *refused != wire::Refused::Datagrams;
        let listed = listed.into_iter().filter(|(refused, _)| tells(refused));
        let mut listed: Vec<_> = listed.map(|refused| refusal::told(refused, home, self)).collect();
        if level != SandboxLevel::None.as_str() {
            let unseen = self.unseen_in(&captured.merged).into_iter();
            let is_new =
                |one: &sinew_tool::Refused| listed.iter().all(|known| known.what != one.what);
            let unseen: Vec<_> = unseen.filter(is_new).collect();
            listed.extend(unseen);
            if !succeeded {
                listed.extend(Self::unreached_agents(&captured.merged, has_ssh_agent));
            }
        }
        let is_offered = |need: &Need| may_need && self.may_be_needed(need);
        for refused in &mut listed {
            refused.need = refused.need.take().filter(is_offered);
        }
        let changed = changed.iter().map(|path| line_name(path).into_owned()).collect();
        let later = later.iter().map(|(named, n_files)| match (n_files, executed_member(named)) {
            (Some(n_files), _) => format!("{} ({n_files})", line_name(named)),
            (None, Some(member)) => format!("{} ({member})", line_name(named)),
            (None, None) => line_name(named).into_owned(),
        });
        let links = links.iter();
        let links = links.map(|(link, to)| format!("{} -> {}", line_name(link), line_name(to)));
        SandboxFindings {
            listed,
            n_more,
            changed,
            n_more_changed: found.n_more_changed,
            later: later.collect(),
            n_more_later: found.n_more_later,
            links: links.collect(),
            n_more_links: found.n_more_links,
            n_unseen_links: found.n_unseen_links,
            exhausted: found.exhausted.map(|exhausted| refusal::exhausted(&exhausted)),
            changes: None,
        }
    }

    /// Kills every command of every session.
    pub fn close(&self) {
        for (_, session) in lock(&self.sessions).drain() {
            session.end();
        }
        self.end_extended(None);
    }

    /// Returns an open session whose helper runs.
    fn opened(&self, sessions: &Sessions, name: &str, globs: &PathGlobs) -> Option<Arc<Session>> {
        let session = sessions.get(&(name.to_owned(), globs.clone()))?;
        session.is_alive().then(|| Arc::clone(session))
    }

    /// Returns a session; opens it if there is none or its helper died.
    fn session(&self, name: &str, globs: &PathGlobs) -> Result<Arc<Session>, ToolError> {
        let mut sessions = lock(&self.sessions);
        if let Some(session) = self.opened(&sessions, name, globs) {
            return Ok(session);
        }
        // Beneath the lock, so that one that ends now is closed with the others.
        if lock(&self.ended).contains(name) {
            return Err(ToolError::new(Kind::Unavailable, "the agent of this command ended"));
        }
        let helper = self.settings.helper.as_ref().ok_or_else(no_helper)?;
        let view = self.private();
        let network = self.settings.network;
        let stores = self.settings.cache_stores.as_deref();
        let store = stores.map(|stores| CacheStore::new(stores, &self.writable, &view.caches));
        let lasting = (self.keeper.as_ref(), store.as_ref());
        let session = Arc::new(self.open_session(
            helper,
            globs,
            (network, view),
            lasting,
            Some(self.settings.usage),
        )?);
        self.warn_of(&session);
        sessions.insert((name.to_owned(), globs.clone()), Arc::clone(&session));
        Ok(session)
    }

    /// Opens a session that may or may not reach the network, with a view of private directories. Fails where its commands could open what path globs deny.
    fn open_session(
        &self,
        helper: &Helper,
        globs: &PathGlobs,
        (network, view): (bool, &PrivateView),
        (keeper, store): (Option<&Arc<dyn KeepsChanges>>, Option<&CacheStore>),
        usage: Option<UsageLimits>,
    ) -> Result<Session, ToolError> {
        let join = if keeper.is_some() { Join::Open } else { Join::Alone };
        let session = Session::open(
            helper,
            &self.settings.levels,
            (&self.settings.sessions, keeper.map(Arc::as_ref), store),
            self.find("bwrap").as_deref(),
            |level, scratch| {
                let policy = self.policy((level, scratch), globs, network, view);
                Policy { join, usage, ..policy }
            },
        );
        let session = session.map_err(no_session)?;
        if !globs.is_empty() && !session.is_watched() && !self.wants_no_containment() {
            return Err(not_judged(&session.missing));
        }
        Ok(session)
    }

    /// Returns whether commands reach the network.
    pub fn reach_network(&self) -> bool {
        self.settings.network || self.wants_no_containment()
    }

    /// Returns whether the settings allow no sandbox level but [`SandboxLevel::None`].
    pub fn wants_no_containment(&self) -> bool {
        self.settings.levels == [SandboxLevel::None]
    }

    /// Warns once of an uncontained session, unless the settings ask for one.
    fn warn_of(&self, session: &Session) {
        if session.level != SandboxLevel::None || self.wants_no_containment() {
            return;
        }
        if let Some(warn) = self.settings.warn
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            warn(
                "no sandbox works here, so commands can do whatever this user can; `sinew doctor` says \
                 what is missing, and with `--require-sandbox` none runs",
            );
        }
    }

    fn policy(
        &self,
        (level, scratch): (SandboxLevel, &Path),
        globs: &PathGlobs,
        network: bool,
        view: &PrivateView,
    ) -> Policy {
        let settings = &self.settings;
        // The view of these levels has other directories there.
        let has_own_view = SandboxLevel::Landlock < level;
        let is_covered =
            |dir: &Path| has_own_view && COVERED.iter().any(|place| dir.starts_with(place));
        Policy {
            level,
            writable: self.writable.clone(),
            // A root in a hidden directory was given on purpose.
            hidden: settings
                .hidden
                .iter()
                .map(|hidden| real_or_same(hidden))
                .filter(|hidden| !self.writable.iter().any(|root| root.starts_with(hidden)))
                .collect(),
            private: view.dirs.iter().filter(|dir| !is_covered(dir)).cloned().collect(),
            shown: view.shown.iter().filter(|path| !is_covered(path)).cloned().collect(),
            shown_links: view.links.iter().filter(|(link, _)| !is_covered(link)).cloned().collect(),
            fixed: self.writable.iter().filter_map(|root| own_at(root)).collect(),
            fixed_unless_judged: self
                .writable
                .iter()
                .flat_map(|root| protected_at(root, &settings.unprotected))
                .collect(),
            rules: CommandRules {
                roots: self.writable.clone(),
                read: Vec::new(),
                unprotected: settings.unprotected.clone(),
                globs: globs.clone(),
                network,
                hidden: settings.hidden.iter().map(|path| real_or_same(path)).collect(),
                in_view_of_machine: level <= SandboxLevel::Landlock,
                own: match level {
                    SandboxLevel::Namespaces | SandboxLevel::Bubblewrap => {
                        ["/tmp", "/var/tmp", "/run", "/dev/shm"].map(PathBuf::from).to_vec()
                    }
                    SandboxLevel::Landlock | SandboxLevel::None => {
                        ["tmp", "shm"].map(|own| scratch.join(own)).to_vec()
                    }
                },
            },
            caches: view.caches.clone(),
            scratch: scratch.to_owned(),
            shared_memory: (level == SandboxLevel::Landlock).then(|| scratch.join("shm")),
            network,
            limits: settings.limits.of_system(),
            max_processes: settings.max_processes,
            usage: Some(settings.usage),
            trusted: false,
            keeps_changes: false,
            kept_at: self.writable.clone(),
            tracked: match self.keeper {
                Some(_) => {
                    self.writable.iter().flat_map(|root| rebuilt_dirs::tracked(root)).collect()
                }
                None => Vec::new(),
            },
            socket: None,
            lendable: settings.ssh_agent.iter().map(|socket| real_or_same(socket)).collect(),
            join: Join::Alone,
            extra: Vec::new(),
        }
    }
}

/// Counts the commands that run under a limit.
#[derive(Debug, Clone, Default)]
struct Counted(Arc<AtomicU32>);

impl Counted {
    /// Takes one of `most` seats until it is dropped; fails if all are taken.
    fn enter(&self, most: u32) -> Result<Seat, ToolError> {
        let count = |n| (n < most).then_some(n + 1);
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, count) {
            Ok(_) => Ok(Seat(self.clone())),
            Err(_) => Err(ToolError::new(
                Kind::LimitReached,
                format!("{most} commands run already, and no more may run at once"),
            )
            .hint("repeat the call when one of them has ended")),
        }
    }
}

/// A seat among the commands that run under a limit.
#[derive(Debug)]
struct Seat(Counted);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Returns the real path, or the path itself if it cannot be resolved.
#[expect(clippy::disallowed_methods, reason = "the guard may look at the system")]
pub fn real_or_same(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Quotes a text as a configuration string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Directories of the machine that others cover where a session has a view of its own.
const COVERED: &[&str] = &["/run", "/var/run", "/tmp", "/var/tmp", "/dev"];
/// The time between SIGTERM and SIGKILL.
const GRACE_MS: u64 = 200;

/// Returns whole milliseconds, at most `u64::MAX`.
fn in_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub fn no_helper() -> ToolError {
    ToolError::new(Kind::Unavailable, "no command can be run here").hint(
        "a program that embeds sinew calls `sinew::helper_main` first in its `main`, and gives the \
         runtime what it returns",
    )
}

fn no_terminal(error: std::io::Error) -> ToolError {
    ToolError::new(Kind::Unavailable, "no terminal can be opened here")
        .hint("run the command without one")
        .source(error)
}

fn broken(error: std::io::Error) -> ToolError {
    ToolError::new(Kind::Unavailable, "the command could not be run: its helper process failed")
        .hint("repeat the call; `sinew doctor` says what works here")
        .source(error)
}

fn no_session(problem: NoSession) -> ToolError {
    match problem {
        NoSession::Helper(error) => broken(error),
        NoSession::Weak(missing) => {
            let remedy = missing.first().map_or("see `sinew doctor`", Shortfall::remedy);
            unavailable("no sandbox that is strong enough works here", &missing).hint(remedy)
        }
    }
}

/// Returns the error for commands on which path globs cannot be enforced.
fn not_judged(missing: &[Shortfall]) -> ToolError {
    let why = "they could open what `tools.fs.deny_paths` and `tools.fs.allow_paths` deny";
    unavailable(why, missing).hint(
        "use a kernel that can hand their calls over (`sinew doctor` says what is missing), or run them \
         all the same with `run.sandbox = \"none\"`",
    )
}

fn unavailable(why: &str, missing: &[Shortfall]) -> ToolError {
    let words: Vec<String> =
        missing.iter().map(|one| format!("{} ({})", one.what, one.why)).collect();
    ToolError::new(Kind::Unavailable, format!("no command runs, since {why}: {}", words.join("; ")))
}
