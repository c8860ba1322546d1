//! Runs the user's own programs, such as hooks, which no model names. They run outside the sandbox with the
//! user's rights, because they are part of what judges commands.
//!
//! A supervisor starts each program and kills all that it started at its exit, its timeout or the exit of
//! sinew. A program in a root is refused unless the user allows it, because a model can write it.
#![expect(clippy::disallowed_methods, reason = "the guard may look at the system")]

mod named;

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{Access, access, stat};
use sinew_tool::Cancel;
use sinew_tool::sync::lock;

use super::capture::{Became, Captured, Keep, Spool};
use super::run::{follow_to_end, on_thread, words};
use super::sandbox_level::SandboxLevel;
use super::session::{NoSession, Session};
use super::wire::{self, Command, End, Join, Policy, SpawnRequest, Unkept};
use super::{GRACE_MS, Helper, in_ms, real_or_same};
use sinew_fs::stat::identity_of;
use sinew_policy::command_rules::CommandRules;
use sinew_policy::rules::PathGlobs;

/// The most that a program may write to each of its streams, in bytes.
pub const MAX_OWN_OUTPUT: usize = 1 << 20;
/// Keeps Python from importing modules from its working directory.
const SAFE_PATH: &str = "PYTHONSAFEPATH";
/// The most processes of one program: more than any program of the user needs.
const MAX_PROCESSES: u64 = 65_536;

/// How the user's own programs are run.
#[derive(Debug, Clone)]
pub struct OwnProgramSettings {
    /// The program that becomes the helper.
    pub helper: Helper,
    /// Where sessions keep their own files.
    pub sessions: PathBuf,
    /// The environment of every program.
    pub env: Vec<(OsString, OsString)>,
    /// The directories that models can write.
    pub roots: Vec<PathBuf>,
}

/// One program to run.
#[derive(Debug, Clone)]
pub struct OwnProgram {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The directory in which it starts, and from which relative program names are resolved.
    pub cwd: PathBuf,
    /// Whether it may be in a root.
    pub in_root: bool,
    /// Programs that may run although they are in a root.
    pub trusted: Option<TrustedPrograms>,
    /// Variables beside those of every program.
    pub env: Vec<(String, String)>,
    /// Variables that describe a call: it may look at the paths in them, but not run them.
    pub told: Vec<(String, String)>,
    /// Its standard input.
    pub stdin: Vec<u8>,
    /// How long it may take.
    pub timeout: Duration,
}

/// A directory of programs that the user has reviewed, valid while the contents are unchanged.
#[derive(Clone)]
pub struct TrustedPrograms {
    /// The directory.
    pub dir: PathBuf,
    /// Returns whether the contents are as reviewed.
    pub is_as_read: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl fmt::Debug for TrustedPrograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TrustedPrograms").field(&self.dir).finish()
    }
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnEnd {
    /// It returned a code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// Its time ran out, and it was killed with all that it started.
    TimedOut,
    /// It wrote more than it may, and was killed with all that it started.
    TooMuch,
    /// It did not start, for this reason.
    NotStarted(String),
    /// It was not started, because a model can write it or a file that it runs.
    InRoot(String),
    /// Unknown: its supervisor is gone, or processes could not be killed.
    Lost,
}

/// Why a program cannot be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unrunnable {
    /// It is missing or cannot be executed.
    NotThere(String),
    /// A model can write it.
    InRoot(String),
}

impl fmt::Display for Unrunnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NotThere(why) | Self::InRoot(why)) = self;
        f.write_str(why)
    }
}

/// The result of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnRan {
    /// How it ended.
    pub end: OwnEnd,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
    /// How long it took.
    pub duration: Duration,
}

/// The user's own programs. Dropping this kills all that still run.
#[derive(Debug)]
pub struct OwnPrograms {
    settings: OwnProgramSettings,
    session: Mutex<Option<Arc<Session>>>,
}

impl OwnPrograms {
    /// Returns programs with these settings, without the roots in their `PATH`.
    pub fn new(mut settings: OwnProgramSettings) -> Arc<Self> {
        let roots: Vec<PathBuf> = settings.roots.iter().map(|root| real_or_same(root)).collect();
        for (_, path) in settings.env.iter_mut().filter(|(name, _)| name == "PATH") {
            *path = outside(path, &roots);
        }
        settings.roots = roots;
        Arc::new(Self { settings, session: Mutex::default() })
    }

    /// Returns the directories that models can write, by real path.
    pub fn roots(&self) -> &[PathBuf] {
        &self.settings.roots
    }

    /// Returns the program that a name means, or why it cannot be run.
    pub fn find(&self, program: &OwnProgram) -> Result<PathBuf, Unrunnable> {
        let name = program.argv.first().map(String::as_str).unwrap_or_default();
        let found = if name.contains('/') {
            let path = program.cwd.join(name);
            match stat(&path) {
                Err(_) => return not_there(format!("there is no program {}", path.display())),
                Ok(_) if !is_program(&path) => {
                    let why = format!("{} cannot be executed; check its mode", path.display());
                    return not_there(why);
                }
                Ok(_) => path,
            }
        } else {
            let path = self.settings.env.iter().find(|(name, _)| name == "PATH");
            let path = path.map(|(_, path)| path.as_os_str()).unwrap_or_default();
            let found = std::env::split_paths(path).find_map(|dir| {
                let place = dir.join(name);
                is_program(&place).then_some(place)
            });
            match found {
                Some(found) => found,
                None => return not_there(format!("there is no program `{name}` in PATH")),
            }
        };
        if !program.in_root {
            self.outside_roots(program, &found)?;
        }
        Ok(found)
    }

    /// Refuses a program in a root, and one with a path in a root among its arguments, as an interpreter has.
    /// An absolute path in a root is refused even if no file exists there.
    fn outside_roots(&self, program: &OwnProgram, found: &Path) -> Result<(), Unrunnable> {
        let trusted = program.trusted.as_ref();
        let in_root = |why: String| {
            let instead = match trusted {
                Some(_) => {
                    "a project's hook may name no file of the project except those beneath `.sinew/hooks`"
                }
                None => "keep it elsewhere, or say `in_root = true` for this hook",
            };
            Err(Unrunnable::InRoot(format!("{why}; {instead}")))
        };
        if trusted.is_some_and(|trusted| !(trusted.is_as_read)()) {
            return Err(Unrunnable::NotThere(String::from(
                "what the project's hooks hold has changed since you trusted it; look at it and trust it \
                 anew with `sinew trust`",
            )));
        }
        let value = |name: &str| self.value(program, name);
        let mut paths = vec![found.to_owned()];
        for argument in program.argv.iter().skip(1) {
            match named::named(argument, &value) {
                Ok(named) => paths.extend(named),
                Err(word) => {
                    return in_root(format!("sinew cannot tell which file `{word}` names"));
                }
            }
        }
        for path in paths {
            let is_named = path.is_absolute();
            let path = program.cwd.join(path);
            if !is_named && !path.exists() {
                continue;
            }
            let is_trusted =
                trusted.is_some_and(|trusted| real_or_same(&path).starts_with(&trusted.dir));
            if let Some(root) = self.root_of(&path).filter(|_| !is_trusted) {
                return in_root(format!(
                    "{} is in the root {}, where a model can write it",
                    path.display(),
                    root.display()
                ));
            }
        }
        Ok(())
    }

    /// Returns a variable of a program. Variables that describe a call count as unset.
    fn value(&self, program: &OwnProgram, name: &str) -> Option<String> {
        let own = program.env.iter().find(|(known, _)| known == name);
        own.map(|(_, value)| value.clone()).or_else(|| {
            let of_all = self.settings.env.iter().find(|(known, _)| *known == *name);
            of_all.map(|(_, value)| value.to_string_lossy().into_owned())
        })
    }

    fn root_of(&self, path: &Path) -> Option<&PathBuf> {
        let real = real_or_same(path);
        self.settings.roots.iter().find(|root| real.starts_with(root))
    }

    /// Runs a program to its end. Dropping the future kills it with all that it started.
    pub async fn run(self: &Arc<Self>, program: OwnProgram) -> OwnRan {
        let began = Instant::now();
        let found = if program.trusted.is_some() {
            // `is_as_read` reads every file.
            let (own, looked) = (Arc::clone(self), program.clone());
            match on_thread(move || own.find(&looked)) {
                Ok(found) => found.await.unwrap_or_else(|error| not_there(error.to_string())),
                Err(error) => not_there(error.to_string()),
            }
        } else {
            self.find(&program)
        };
        let end = match found {
            Ok(path) => match self.ran(program, path).await {
                Ok(ran) => return ran,
                Err(why) => OwnEnd::NotStarted(why),
            },
            Err(Unrunnable::NotThere(why)) => OwnEnd::NotStarted(why),
            Err(Unrunnable::InRoot(why)) => OwnEnd::InRoot(why),
        };
        OwnRan { end, stdout: Vec::new(), stderr: Vec::new(), duration: began.elapsed() }
    }

    async fn ran(self: &Arc<Self>, program: OwnProgram, path: PathBuf) -> Result<OwnRan, String> {
        let broken = |error: io::Error| format!("its helper process failed: {error}");
        let session = match self.opened() {
            Some(session) => session,
            None => {
                let own = Arc::clone(self);
                let opening = on_thread(move || own.open()).map_err(|error| error.to_string())?;
                opening.await.map_err(|error| error.to_string())??
            }
        };
        let order = self.order(&program, path)?;
        let stdin = wire::in_memory(&program.stdin).map_err(broken)?;
        let ordered = session.order(&order, Some(stdin), false, None).map_err(broken)?;
        let limit = AtMost {
            left: 2 * MAX_OWN_OUTPUT,
            is_over: false,
            line: ordered.line.try_clone().map_err(broken)?,
        };
        let limits = (KEEP, Some(program.timeout));
        let followed =
            follow_to_end(ordered, limits, limit, |_| {}, None, &Cancel::default()).await;
        let (captured, ordered, limit) = followed.map_err(|error| match error.source {
            Some(cause) => format!("its helper process failed: {cause}"),
            None => error.message.into_owned(),
        })?;
        drop(ordered);
        session.prepare();
        Ok(ended(captured, limit.is_over))
    }

    fn order(&self, program: &OwnProgram, path: PathBuf) -> Result<SpawnRequest, String> {
        let cwd = real_or_same(&program.cwd);
        let identity = stat(&cwd).map_err(|error| {
            format!("it cannot start in {}: {}", cwd.display(), words(error.raw_os_error()))
        })?;
        let mut added: Vec<(OsString, OsString)> = Vec::new();
        if self.root_of(&cwd).is_some() && self.value(program, SAFE_PATH).is_none() {
            added.push((SAFE_PATH.into(), "1".into()));
        }
        for (name, value) in program.env.iter().chain(&program.told) {
            let value = match name.as_str() {
                "PATH" => outside(value.as_ref(), &self.settings.roots),
                _ => value.into(),
            };
            added.push((name.into(), value));
        }
        let own = |name: &OsString| added.iter().any(|(added, _)| name == added);
        let given = self.settings.env.iter().filter(|(name, _)| !own(name)).cloned();
        let env = given.collect::<Vec<_>>().into_iter().chain(added).collect();
        Ok(SpawnRequest {
            argv: program.argv.iter().map(OsString::from).collect(),
            env,
            program: path,
            cwd,
            cwd_identity: identity_of(&identity).of_file(),
            keeps_cwd: false,
            has_terminal: false,
            timeout_ms: Some(in_ms(program.timeout)),
            grace_ms: GRACE_MS,
            granted: Vec::new(),
            unkept: Unkept::Made,
            asks_outside: false,
            room: 0,
        })
    }

    fn opened(&self) -> Option<Arc<Session>> {
        // Another call may be opening it now.
        let session = self.session.try_lock().ok()?;
        session.as_ref().filter(|session| session.is_alive()).cloned()
    }

    /// Returns the session of the programs; opens it if there is none or its helper died.
    fn open(&self) -> Result<Arc<Session>, String> {
        let mut session = lock(&self.session);
        if let Some(open) = session.as_ref().filter(|session| session.is_alive()) {
            return Ok(Arc::clone(open));
        }
        let OwnProgramSettings { helper, sessions, .. } = &self.settings;
        let opened =
            Session::open(helper, &[SandboxLevel::None], (sessions, None, None), None, uncontained);
        let opened = opened.map_err(|problem| match problem {
            NoSession::Helper(error) => format!("its helper process failed: {error}"),
            NoSession::Weak(_) => String::from("its helper process failed"),
        })?;
        Ok(Arc::clone(session.insert(Arc::new(opened))))
    }
}

fn not_there(why: String) -> Result<PathBuf, Unrunnable> {
    Err(Unrunnable::NotThere(why))
}

/// Removes relative directories and roots from a `PATH`: a repository must not choose programs.
pub(super) fn outside(path: &OsStr, roots: &[PathBuf]) -> OsString {
    let trusted = std::env::split_paths(path).filter(|dir| {
        let real = real_or_same(dir);
        dir.is_absolute() && !roots.iter().any(|root| real.starts_with(root))
    });
    // Paths that were split from a `PATH` can be joined.
    std::env::join_paths(trusted).unwrap_or_default()
}

/// Returns the policy of uncontained programs.
fn uncontained(level: SandboxLevel, scratch: &Path) -> Policy {
    Policy {
        level,
        writable: Vec::new(),
        hidden: Vec::new(),
        private: Vec::new(),
        shown: Vec::new(),
        shown_links: Vec::new(),
        fixed: Vec::new(),
        fixed_unless_judged: Vec::new(),
        rules: CommandRules {
            roots: Vec::new(),
            read: Vec::new(),
            unprotected: Vec::new(),
            globs: PathGlobs::default(),
            network: true,
            hidden: HashSet::new(),
            in_view_of_machine: true,
            own: Vec::new(),
        },
        caches: Vec::new(),
        scratch: scratch.to_owned(),
        shared_memory: None,
        network: true,
        limits: vec![(libc::RLIMIT_CORE, 0)],
        max_processes: MAX_PROCESSES,
        usage: None,
        trusted: true,
        keeps_changes: false,
        kept_at: Vec::new(),
        tracked: Vec::new(),
        socket: None,
        lendable: Vec::new(),
        join: Join::Alone,
        extra: Vec::new(),
    }
}

/// The limits of the kept streams of a program.
const KEEP: Keep = Keep { merged: (0, 0), stream: (MAX_OWN_OUTPUT, 0) };

/// Kills a program that writes more than both of its streams may hold.
struct AtMost {
    left: usize,
    is_over: bool,
    line: OwnedFd,
}

impl Spool for AtMost {
    fn write(&mut self, bytes: &[u8]) {
        match self.left.checked_sub(bytes.len()) {
            Some(left) => self.left = left,
            None if self.is_over => {}
            None => {
                self.is_over = true;
                let _ = wire::send(&self.line, &Command::Kill, &[]);
            }
        }
    }
}

fn ended(captured: Captured, is_over: bool) -> OwnRan {
    let Captured { became, stdout, stderr, duration, .. } = captured;
    let (stdout, _, n_out) = stdout.into_parts();
    let (stderr, _, n_err) = stderr.into_parts();
    let most = MAX_OWN_OUTPUT as u64;
    let end = match became {
        _ if is_over || most < n_out || most < n_err => OwnEnd::TooMuch,
        Became::Ended { is_left: true, .. } => OwnEnd::Lost,
        Became::Ended { out_of_time: true, .. } => OwnEnd::TimedOut,
        Became::Ended { end: End::Code(code), .. } => OwnEnd::Code(code),
        Became::Ended { end: End::Signal(signal), .. } => OwnEnd::Signal(signal),
        Became::NotStarted(_, number) => OwnEnd::NotStarted(words(number)),
        Became::Lost => OwnEnd::Lost,
    };
    OwnRan { end, stdout, stderr, duration }
}

fn is_program(path: &Path) -> bool {
    access(path, Access::EXEC_OK).is_ok() && path.is_file()
}
