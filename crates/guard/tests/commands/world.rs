//! A directory with commands that run in it.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use sinew_guard::{
    Activate, AskCommands, Case, CheckpointSettings, Checkpoints, CommandSettings, Guard,
    GuardSettings, Helper, ProcessLimits, Profile, Rules, SandboxLevel, UsageLimits, environment,
};
use sinew_tool::sync::{lock, read, write};
use sinew_tool::{
    Access, Caller, Cancel, Claim, Command, CommandLine, FileSettings, Finished, Progress,
    RunOptions, Shell, ToolError, Verdict, World,
};
use tempfile::TempDir;

/// The directory beside the root that is a cache of tools.
pub(crate) const CACHE: &str = "cache";
/// The socket beside the root at which an SSH agent may listen.
pub(crate) const AGENT: &str = "agent.socket";

/// A root, beside a place that commands must not reach, and the guard of the root.
pub(crate) struct Place {
    pub(crate) root: PathBuf,
    pub(crate) outside: PathBuf,
    pub(crate) guard: Arc<Guard>,
    top: PathBuf,
    is_mounted: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = process::Command::new("umount").args(["-l", "--"]).arg(&self.root).status();
        }
    }
}

impl Place {
    /// Makes a root whose commands run on one sandbox level.
    pub(crate) fn new(helper: &Helper, level: SandboxLevel) -> Self {
        Self::with(helper, &[level], |_| FileSettings::default())
    }

    /// Makes a root whose commands have no checkpoints.
    pub(crate) fn keeping_nothing(helper: &Helper, level: SandboxLevel) -> Self {
        Self::made(helper, &[level], |_| FileSettings::default(), (false, UsageLimits::default()))
    }

    /// Makes the same with a path glob, so that every file is judged that commands open.
    pub(crate) fn judging_reads(helper: &Helper, level: SandboxLevel) -> Self {
        Self::with(helper, &[level], Self::denying)
    }

    /// Makes a root with a path glob that denies names beside the root too.
    pub(crate) fn denying_names(helper: &Helper, level: SandboxLevel) -> Self {
        Self::with(helper, &[level], |root| FileSettings {
            deny_paths: vec![format!("{}/**/*.denied", root.parent().unwrap_or(root).display())],
            ..FileSettings::default()
        })
    }

    /// Makes a root whose commands may use so much.
    pub(crate) fn limited(helper: &Helper, level: SandboxLevel, usage: UsageLimits) -> Self {
        Self::made(helper, &[level], |_| FileSettings::default(), (true, usage))
    }

    /// Makes a root on a disk of its own that holds so much; nothing where the user may mount none.
    pub(crate) fn small(
        helper: &Helper,
        level: SandboxLevel,
        size: &str,
        min_free_disk_bytes: u64,
    ) -> Option<Self> {
        let usage = UsageLimits { min_free_disk_bytes, ..UsageLimits::default() };
        let mounted = |root: &Path| {
            let options = format!("size={size},mode=0755");
            let mount = ["-t", "tmpfs", "-o", &options, "tmpfs"];
            process::Command::new("mount").args(mount).arg(root).stderr(Stdio::null()).status()
        };
        let is_mounted = Cell::new(false);
        let files = |root: &Path| {
            is_mounted.set(mounted(root).is_ok_and(|status| status.success()));
            FileSettings::default()
        };
        let mut place = Self::made(helper, &[level], files, (true, usage));
        place.is_mounted = is_mounted.get();
        place.is_mounted.then_some(place)
    }

    /// Makes a root with such globs where no sandbox level works that holds commands to them.
    pub(crate) fn unjudged(helper: &Helper) -> Self {
        // More was asked for than the lowest.
        Self::with(helper, &[SandboxLevel::None, SandboxLevel::None], Self::denying)
    }

    fn denying(root: &Path) -> FileSettings {
        FileSettings {
            deny_paths: ["denied/**", "deep/secrets/**"]
                .map(|glob| format!("{}/{glob}", root.display()))
                .to_vec(),
            ..FileSettings::default()
        }
    }

    fn with(
        helper: &Helper,
        levels: &[SandboxLevel],
        files: impl Fn(&Path) -> FileSettings,
    ) -> Self {
        Self::made(helper, levels, files, (true, UsageLimits::default()))
    }

    fn made(
        helper: &Helper,
        levels: &[SandboxLevel],
        files: impl Fn(&Path) -> FileSettings,
        (keeps_changes, usage): (bool, UsageLimits),
    ) -> Self {
        let top = new_directory().expect("a directory");
        let (root, outside) = (top.join("root"), top.join("outside"));
        fs::create_dir(&root).expect("a root");
        fs::create_dir(&outside).expect("a place outside");
        fs::create_dir(top.join(CACHE)).expect("a cache");
        let vars = [
            ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
            ("HOME", "/nonexistent"),
            ("LANG", "C.UTF-8"),
            ("SECRET_KEY", "environment-canary"),
        ];
        let vars = vars.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let commands = CommandSettings {
            helper: Some(helper.clone()),
            levels: levels.to_vec(),
            sessions: top.join("sessions"),
            hidden: vec![outside.join("hidden"), top.join("sessions"), top.join("state")],
            private: vec![outside.join("private")],
            shown: ["tools", "gone", "link", "conf"]
                .map(|name| outside.join("private").join(name))
                .to_vec(),
            shown_by_settings: Vec::new(),
            caches: vec![top.join(CACHE)],
            cache_stores: None,
            unprotected: vec![String::from(".npmrc")],
            network: false,
            forbids_network: false,
            forbids_unsandboxed: false,
            ssh_agent: Some(top.join(AGENT)),
            env: environment(vars, &[]),
            activate: Activate::ALL.to_vec(),
            shell: None,
            max_background: 4,
            max_processes: 512,
            limits: ProcessLimits { file_bytes: Some(64 << 20), ..ProcessLimits::default() },
            usage,
            ask: AskCommands::Always,
            homes: Vec::new(),
            warn: None,
        };
        let kept = CheckpointSettings { commands: keeps_changes, ..CheckpointSettings::default() };
        let settings = GuardSettings {
            commands: Some(commands),
            files: Arc::new(files(&root)),
            checkpoints: Some(Arc::new(Checkpoints::at(&top.join("state"), kept))),
            ..GuardSettings::new(vec![root.clone()])
        };
        let guard = Guard::open(settings).expect("a guard");
        Self { root, outside, guard, top, is_mounted: false }
    }

    /// Returns the directory that holds the root and everything beside it.
    pub(crate) fn top(&self) -> &Path {
        &self.top
    }

    /// Runs a text in a shell.
    pub(crate) fn sh(&self, text: &str) -> Finished {
        self.run(text, Duration::from_secs(20)).expect("it runs")
    }

    /// Runs a text in a shell, for so long at most.
    pub(crate) fn run(&self, text: &str, timeout: Duration) -> Result<Finished, ToolError> {
        let line = CommandLine::Shell(Shell::Posix, text.to_owned());
        let world = self.world(line, &self.root)?;
        block_on(world.processes.run(options(timeout)))
    }

    /// Runs a text that the shell alone reads, so that no answer covers the names in it.
    pub(crate) fn run_unseen(&self, text: &str, timeout: Duration) -> Result<Finished, ToolError> {
        let line = CommandLine::Shell(Shell::Posix, String::from("eval \"$UNSEEN\""));
        let env = vec![(String::from("UNSEEN"), text.to_owned())];
        let world = self.world(line, &self.root)?;
        block_on(world.processes.run(RunOptions { env, ..options(timeout) }))
    }

    /// Returns the World of a command.
    pub(crate) fn world(&self, line: CommandLine, cwd: &Path) -> Result<World, ToolError> {
        let command = Command {
            argument: "command",
            line,
            keeps_cwd: true,
            has_terminal: false,
            programs: vec![],
            needs: None,
        };
        self.world_of(command, cwd)
    }

    /// Returns the World of a command with all that a row says of it.
    pub(crate) fn world_of(&self, command: Command, cwd: &Path) -> Result<World, ToolError> {
        let text = |path: &Path| Some(path.to_string_lossy().into_owned());
        let needs = command.needs.iter().flat_map(|needs| &needs.list);
        let needed = needs.filter_map(|need| {
            let (path, is_writable) = need.path()?;
            Some(Claim::new("needs", text(path), Access::Lend { is_writable }))
        });
        let starts = Claim::new("cwd", text(cwd), Access::Search);
        let claims: Vec<_> = [starts].into_iter().chain(needed).collect();
        let caller = Caller {
            session: String::from("test"),
            agent: None,
            turn: None,
            call_id: String::from("call"),
            tool: String::from("Bash"),
            dialect: "native".into(),
        };
        let contained = self
            .guard
            .contain_command(&claims, None, None)?
            .by(caller, Some(self.guard.store()))
            .with_command(command, &sinew_guard::Rules::default(), &[])?;
        let rules = Rules { profile: Profile::Full, ..Rules::default() };
        let judged = contained.judge(&Case::COMMAND, &rules);
        // A command that says that it changes a protected name is allowed to.
        let clearance = match judged.ruling().verdict {
            Verdict::Ask => judged.by_standing_answer(),
            _ => judged.by_ruling(),
        };
        Ok(Guard::clear(clearance.expect("it is allowed"))?.world)
    }
}

static TURN: RwLock<()> = RwLock::new(());

/// Waits until no command runs that counts processes, and keeps such away.
pub(crate) fn beside_others() -> RwLockReadGuard<'static, ()> {
    read(&TURN)
}

/// Waits until no such command runs, and keeps them away.
pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    write(&TURN)
}

/// The directory that holds all places of this process. ext4 gives out an inode slowly where many were just deleted,
/// so all places are removed at the end.
static PLACES: Mutex<Option<TempDir>> = Mutex::new(None);

/// Makes a directory for one place; returns its real path.
fn new_directory() -> io::Result<PathBuf> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let mut all = lock(&PLACES);
    let all = match &mut *all {
        Some(all) => all,
        none => none.insert(tempfile::tempdir_in(whereabouts())?),
    };
    let place = fs::canonicalize(all.path())?.join(NEXT.fetch_add(1, Relaxed).to_string());
    fs::create_dir(&place)?;
    Ok(place)
}

/// Removes all places.
pub(crate) fn remove_places() {
    drop(lock(&PLACES).take());
}

/// Returns where places are made: not among the temporary files, which a session has of its own.
fn whereabouts() -> PathBuf {
    let given = std::env::var_os(WHEREABOUTS).map(PathBuf::from);
    let home = std::env::var_os("HOME").map(PathBuf::from);
    given.or_else(|| home.filter(|home| home.is_dir())).unwrap_or_else(std::env::temp_dir)
}

/// Names where places are made.
pub(crate) const WHEREABOUTS: &str = "SINEW_TEST_WHEREABOUTS";

/// Returns whether a user without rights runs these tests beside root, in a run that is not nightly.
pub(crate) fn is_nobody_by_day() -> bool {
    let is_set = |name| std::env::var_os(name).is_some();
    is_set(WHEREABOUTS) && !is_set("SINEW_TEST_ROUNDS")
}

/// Returns whether a sandbox level works on this machine; where it does not, says so. `SINEW_TEST_ALL` makes
/// that a failure.
pub(crate) fn works(helper: &Helper, level: SandboxLevel) -> bool {
    static WORKING: OnceLock<Vec<SandboxLevel>> = OnceLock::new();
    let working = WORKING.get_or_init(|| {
        let works = |level: &SandboxLevel| {
            let ran = Place::new(helper, *level).run("true", Duration::from_secs(20));
            ran.inspect_err(|error| {
                println!("the sandbox level {level} does not work: {}", error.message)
            })
            .is_ok()
        };
        SandboxLevel::ALL.into_iter().filter(works).collect()
    });
    let works = working.contains(&level);
    if !works {
        println!("SKIPPED: the sandbox level {level} does not work on this machine");
        assert!(std::env::var_os("SINEW_TEST_ALL").is_none(), "every sandbox level must work");
    }
    works
}

pub(crate) fn options(timeout: Duration) -> RunOptions {
    RunOptions {
        merged: true,
        timeout,
        stdin: None,
        env: Vec::new(),
        variables: Vec::new(),
        max_at_once: None,
        store_above: (50 << 10, 2_000),
        cancel: Cancel::default(),
        progress: Progress::default(),
        midway: None,
    }
}

/// Waits for a future on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio_runtime().block_on(future)
}

/// Returns a runtime that follows commands.
pub(crate) fn tokio_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}
