//! Starts the helper process of a session and sends it the spawn requests of sinew.
#![expect(
    clippy::disallowed_methods,
    reason = "the guard may start processes and keep files of its own"
)]

use sinew_tool::sync::lock;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, fstat, openat, statat};
use rustix::net::{Shutdown, shutdown};
use rustix::pipe::{PipeFlags, pipe_with};

use super::bubblewrap;
use super::cache_store::CacheStore;
use super::capture::RequestedCommand;
use super::sandbox_level::{REPLACED, SandboxLevel, Shortfall, WATCHED_NAMES};
use super::terminal::Pty;
use super::undo::{CommandUndo, KeepsChanges};
use super::wire::{self, Extra, Join, JoinHandles, Outside, Policy, Ready, SpawnRequest};
use super::{HELPER, Helper};
use sinew_fs::stat::identity_of;

/// How long the helper may take to start.
const READY: Duration = Duration::from_secs(20);
/// How often bubblewrap is tried.
const BUBBLEWRAP_TRIES: usize = 3;
/// The most of its error output that is read, in bytes.
const MAX_COMPLAINT: u64 = 4_096;
/// How long the helper may take to kill everything.
const END: Duration = Duration::from_secs(5);

/// The helper process of a session. Dropping it kills every process of the session.
#[derive(Debug)]
pub(super) struct Session {
    line: Option<OwnedFd>,
    helper: Mutex<Child>,
    pub(super) level: SandboxLevel,
    pub(super) missing: Vec<Shortfall>,
    /// Whether its supervisors keep what commands change.
    pub(super) keeps_changes: bool,
    /// Whether its commands reach the network.
    pub(super) network: bool,
    scratch: Scratch,
    /// By what another session can join its namespaces.
    joinable: Option<JoinHandles>,
    /// The session whose temporary files and caches its commands share.
    base: Option<Arc<Session>>,
    /// The empty standard input of commands.
    nothing: OwnedFd,
    /// Made for the next request while no call waits.
    ahead: Mutex<Option<Ends>>,
}

/// The socket to a supervisor and the output pipe of a command.
#[derive(Debug)]
struct Ends {
    line: (OwnedFd, OwnedFd),
    out: (OwnedFd, OwnedFd),
}

impl Ends {
    fn new() -> io::Result<Self> {
        Ok(Self { line: wire::line()?, out: pipe_with(PipeFlags::CLOEXEC)? })
    }
}

/// Why no session could be opened.
#[derive(Debug)]
pub(super) enum NoSession {
    /// No sandbox level that is strong enough works; says why for each.
    Weak(Vec<Shortfall>),
    /// The helper process cannot be used.
    Helper(io::Error),
}

impl Session {
    /// Starts a helper on the strongest of `levels` that works.
    pub(super) fn open(
        helper: &Helper,
        levels: &[SandboxLevel],
        (sessions, keeper, store): (&Path, Option<&dyn KeepsChanges>, Option<&CacheStore>),
        bubblewrap: Option<&Path>,
        policy: impl Fn(SandboxLevel, &Path) -> Policy,
    ) -> Result<Self, NoSession> {
        let scratch = Scratch::new(sessions, store).map_err(NoSession::Helper)?;
        let mut missing = Vec::new();
        for &level in levels {
            if level == SandboxLevel::Namespaces
                && let Some(store) = store
            {
                // Without it the caches are those of the user.
                let _ = store.prepare(scratch.path());
            }
            let mut policy = policy(level, scratch.path());
            let kept = keeper.filter(|_| level != SandboxLevel::None);
            let kept = kept.and_then(|keeper| keeper.directory().ok());
            policy.keeps_changes = kept.is_some();
            let tried = Self::on_level(helper, level, bubblewrap, (&policy, kept.as_ref(), None));
            match tried.map_err(NoSession::Helper)? {
                Ok(mut session) => {
                    missing.append(&mut session.missing);
                    session.missing = missing;
                    session.keeps_changes = policy.keeps_changes && session.is_watched();
                    session.scratch = scratch;
                    return Ok(session);
                }
                Err(shortfall) => missing.push(shortfall),
            }
        }
        Err(NoSession::Weak(missing))
    }

    /// Starts a helper on the level of an open session, with a policy that adds to its own. Commands of both share temporary
    /// files, and caches where one can join the namespaces of the other.
    pub(super) fn open_beside(
        base: &Arc<Self>,
        helper: &Helper,
        (sessions, keeper): (&Path, Option<&dyn KeepsChanges>),
        bubblewrap: Option<&Path>,
        policy: impl Fn(SandboxLevel, &Path) -> Policy,
    ) -> Result<Self, NoSession> {
        let level = base.level;
        let scratch = match level {
            SandboxLevel::Bubblewrap => Scratch::new(sessions, None).map_err(NoSession::Helper)?,
            _ => Scratch::none(),
        };
        let used = if level == SandboxLevel::Bubblewrap { scratch.path() } else { base.scratch() };
        let mut policy = policy(level, used);
        let kept = keeper.and_then(|keeper| keeper.directory().ok());
        policy.keeps_changes = kept.is_some();
        let joined = base.joinable.as_ref().filter(|_| level == SandboxLevel::Namespaces);
        policy.join = if joined.is_some() { Join::Other } else { Join::Alone };
        let tried = Self::on_level(helper, level, bubblewrap, (&policy, kept.as_ref(), joined));
        let mut session = tried
            .map_err(NoSession::Helper)?
            .map_err(|shortfall| NoSession::Weak(vec![shortfall]))?;
        session.keeps_changes = policy.keeps_changes && session.is_watched();
        session.scratch = scratch;
        session.base = (level != SandboxLevel::Bubblewrap).then(|| Arc::clone(base));
        Ok(session)
    }

    /// Starts a helper on one level, several times if bubblewrap fails: sockets that it must hide may vanish while it looks
    /// for them.
    fn on_level(
        helper: &Helper,
        level: SandboxLevel,
        bubblewrap: Option<&Path>,
        with: (&Policy, Option<&OwnedFd>, Option<&JoinHandles>),
    ) -> io::Result<Result<Self, Shortfall>> {
        let n_tries = if level == SandboxLevel::Bubblewrap { BUBBLEWRAP_TRIES } else { 1 };
        let mut tried = Self::try_level(helper, level, bubblewrap, with);
        for _ in 1..n_tries {
            if matches!(tried, Ok(Err(_))) {
                tried = Self::try_level(helper, level, bubblewrap, with);
            }
        }
        tried
    }

    /// Starts a helper on one level, or returns why that fails.
    fn try_level(
        helper: &Helper,
        level: SandboxLevel,
        bubblewrap: Option<&Path>,
        (policy, kept, joined): (&Policy, Option<&OwnedFd>, Option<&JoinHandles>),
    ) -> io::Result<Result<Self, Shortfall>> {
        let command = match (level, bubblewrap) {
            (SandboxLevel::Bubblewrap, None) => {
                return Ok(Err(Shortfall::new("bubblewrap", "there is no `bwrap` in PATH")));
            }
            (SandboxLevel::Bubblewrap, Some(path)) => bubblewrap::command(path, &helper.0, policy)?,
            _ => Command::new(&helper.0),
        };
        let (child, line) = start(command)?;
        let mut session = Self {
            line: Some(line),
            helper: Mutex::new(child),
            level,
            missing: Vec::new(),
            keeps_changes: false,
            network: policy.network || level == SandboxLevel::None,
            scratch: Scratch::none(),
            joinable: None,
            base: None,
            nothing: nothing()?,
            ahead: Mutex::default(),
        };
        let (missing, is_joinable) = match session.ask(policy, kept, joined) {
            // bubblewrap itself writes the reason.
            Err(_) if level == SandboxLevel::Bubblewrap => return Ok(Err(session.complaint())),
            ready => match ready? {
                Ok(ready) => ready,
                Err(shortfall) => return Ok(Err(shortfall)),
            },
        };
        session.missing = missing;
        if is_joinable {
            session.joinable = Some(JoinHandles::receive(session.line()?)?);
        }
        Ok(Ok(session))
    }

    fn ask(
        &self,
        policy: &Policy,
        kept: Option<&OwnedFd>,
        joined: Option<&JoinHandles>,
    ) -> io::Result<Ready> {
        let line = self.line()?;
        wire::send(line, policy, &[])?;
        if let Some(kept) = kept {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let open = |root: &PathBuf| openat(CWD, root, flags, Mode::empty());
            let roots: Vec<OwnedFd> = policy.kept_at.iter().map(open).collect::<Result<_, _>>()?;
            if let Some(replaced) = replaced(policy, &roots) {
                return Ok(Err(Shortfall::new(REPLACED, replaced.display())));
            }
            Outside { kept: kept.try_clone()?, roots }.send(line)?;
        }
        if let Some(joined) = joined {
            joined.send(line)?;
        }
        let mut watched = [PollFd::new(line, PollFlags::IN)];
        let time = Timespec::try_from(READY).ok();
        if rustix::io::retry_on_intr(|| poll(&mut watched, time.as_ref()))? == 0 {
            return Err(io::Error::other("the helper process does not answer"));
        }
        match wire::receive::<Ready>(line)? {
            Some((ready, _)) => Ok(ready),
            None => Err(io::Error::other("the helper process ended before it was ready")),
        }
    }

    /// Returns what bubblewrap complained of before it ended.
    fn complaint(&self) -> Shortfall {
        let mut helper = lock(&self.helper);
        let _ = helper.kill();
        let mut text = String::new();
        if let Some(errors) = helper.stderr.take() {
            let _ = errors.take(MAX_COMPLAINT).read_to_string(&mut text);
        }
        Shortfall::new("bubblewrap", text.lines().next().unwrap_or("it ended"))
    }

    /// Requests a command in a terminal, whose other end is returned as the stream of the command.
    pub(super) fn order_in_terminal(
        &self,
        order: &SpawnRequest,
        pty: Pty,
        undo: Option<&dyn CommandUndo>,
    ) -> io::Result<RequestedCommand> {
        let Pty { ours, theirs: terminal } = pty;
        let (line, theirs) = wire::line()?;
        let end = terminal.as_fd();
        let at = Instant::now();
        let mut handles = vec![theirs.as_fd(), end, end, end];
        handles.extend(undo.into_iter().flat_map(|undo| <[_; 2]>::from(undo.handles())));
        wire::send(self.line()?, order, &handles)?;
        Ok(RequestedCommand { at, line, stdout: ours, stderr: None })
    }

    /// Requests a command. Dropping the result kills it.
    pub(super) fn order(
        &self,
        order: &SpawnRequest,
        stdin: Option<OwnedFd>,
        merged: bool,
        undo: Option<&dyn CommandUndo>,
    ) -> io::Result<RequestedCommand> {
        let ahead = self.ahead().take();
        let Ends { line: (line, theirs), out: (stdout, out) } = ahead.map_or_else(Ends::new, Ok)?;
        let errors = if merged { None } else { Some(pipe_with(PipeFlags::CLOEXEC)?) };
        let err = errors.as_ref().map_or(&out, |(_, err)| err);
        let stdin = stdin.as_ref().unwrap_or(&self.nothing);
        let mut handles = vec![theirs.as_fd(), stdin.as_fd(), out.as_fd(), err.as_fd()];
        handles.extend(undo.into_iter().flat_map(|undo| <[_; 2]>::from(undo.handles())));
        let at = Instant::now();
        wire::send(self.line()?, order, &handles)?;
        Ok(RequestedCommand { at, line, stdout, stderr: errors.map(|(stderr, _)| stderr) })
    }

    /// Makes what the next request needs, unless it exists.
    pub(super) fn prepare(&self) {
        let mut ahead = self.ahead();
        if ahead.is_none() {
            *ahead = Ends::new().ok();
        }
    }

    fn ahead(&self) -> MutexGuard<'_, Option<Ends>> {
        lock(&self.ahead)
    }

    /// Returns whether calls of its commands are intercepted and judged.
    pub(super) fn is_watched(&self) -> bool {
        self.level != SandboxLevel::None && self.missing.iter().all(|one| one.what != WATCHED_NAMES)
    }

    /// Returns the directory of the session's own files.
    pub(super) fn scratch(&self) -> &Path {
        self.base.as_ref().map_or_else(|| self.scratch.path(), |base| base.scratch())
    }

    /// Points programs at the directory for temporary files of this session.
    pub(super) fn set_temporary_directory(&self, env: &mut Vec<(OsString, OsString)>) {
        let directory = match self.level {
            SandboxLevel::Namespaces | SandboxLevel::Bubblewrap => PathBuf::from("/tmp"),
            SandboxLevel::Landlock => self.scratch().join("tmp"),
            SandboxLevel::None => return,
        };
        env.retain(|(name, _)| name != "TMPDIR");
        env.push((OsString::from("TMPDIR"), directory.into()));
    }

    /// Kills every process of the session, even if another call still follows one.
    pub(super) fn end(&self) {
        if let Some(line) = &self.line {
            let _ = shutdown(line, Shutdown::Both);
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        let mut helper = lock(&self.helper);
        matches!(helper.try_wait(), Ok(None))
    }

    fn line(&self) -> io::Result<&OwnedFd> {
        self.line.as_ref().ok_or_else(|| io::Error::other("the session is closed"))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The helper exits after everything below it when its socket closes.
        self.line = None;
        let helper = self.helper.get_mut().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + END;
        while let Ok(None) = helper.try_wait() {
            if until <= Instant::now() {
                let _ = helper.kill();
                let _ = helper.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Starts a helper process; returns it with the socket to it.
fn start(mut command: Command) -> io::Result<(Child, OwnedFd)> {
    let (line, theirs) = wire::line()?;
    let child = command
        .arg0("sinew-helper")
        .arg(HELPER)
        // No process below sinew needs its keys and paths.
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    Ok((child, line))
}

/// Returns the first extra path that leads elsewhere than it did when the call was judged, by the directories in which changes
/// are kept.
fn replaced<'p>(policy: &'p Policy, kept_at: &[OwnedFd]) -> Option<&'p Path> {
    let writable = policy.extra.iter().filter(|extra| extra.is_writable);
    let dirs = kept_at.iter().skip(policy.writable.len());
    let is_other = |(extra, dir): &(&Extra, &OwnedFd)| {
        let stat = match (fstat(dir), extra.path.file_name()) {
            (Ok(stat), _) if identity_of(&stat).of_file() == extra.identity => return false,
            (_, Some(name)) => statat(dir, name, AtFlags::SYMLINK_NOFOLLOW),
            (stat, None) => stat,
        };
        stat.map(|stat| identity_of(&stat).of_file()) != Ok(extra.identity)
    };
    writable.zip(dirs).find(is_other).map(|(extra, _)| extra.path.as_path())
}

fn nothing() -> io::Result<OwnedFd> {
    Ok(File::open("/dev/null")?.into())
}

/// The directory of a session's own files, removed with it. Its lock shows that the session is in use.
#[derive(Debug)]
struct Scratch(Option<(PathBuf, File)>);

impl Scratch {
    fn none() -> Self {
        Self(None)
    }

    /// Makes the directory of a session, and removes those of sessions that died.
    fn new(sessions: &Path, store: Option<&CacheStore>) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(sessions)?;
        remove_dead(sessions, store);
        // Until its own lock shows that it is in use, no process removes dead ones.
        let making = File::open(sessions)?;
        rustix::io::retry_on_intr(|| flock(&making, FlockOperation::LockShared))?;
        let mut random = [0; 12];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        // Commands are judged by real paths.
        let path = fs::canonicalize(sessions)?.join(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        let lock = create(&path.join("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        drop(making);
        for shared in ["tmp", "shm"] {
            DirBuilder::new().mode(0o700).create(path.join(shared))?;
            fs::set_permissions(path.join(shared), Permissions::from_mode(0o1777))?;
        }
        DirBuilder::new().mode(0o000).create(path.join("empty"))?;
        drop(create(&path.join("empty.file"))?);
        fs::set_permissions(path.join("empty.file"), Permissions::from_mode(0o000))?;
        Ok(Self(Some((path, lock))))
    }

    fn path(&self) -> &Path {
        self.0.as_ref().map_or(Path::new(""), |(path, _)| path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some((path, _lock)) = self.0.take() {
            CacheStore::take(&path);
            remove(&path);
        }
    }
}

fn create(path: &Path) -> io::Result<File> {
    File::create_new(path)
}

/// Removes the directories of dead sessions, after the store took the downloads of its project out of them, unless one is
/// being made: it has no lock yet, as dead ones have none.
fn remove_dead(sessions: &Path, store: Option<&CacheStore>) {
    let Ok(looking) = File::open(sessions) else { return };
    if flock(&looking, FlockOperation::NonBlockingLockExclusive).is_err() {
        return;
    }
    let locked = |path: PathBuf| {
        let lock = File::open(path.join("lock")).ok()?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some((path, lock))
    };
    let entries = fs::read_dir(sessions).into_iter().flatten().filter_map(Result::ok);
    let dead: Vec<_> = entries.filter_map(|entry| locked(entry.path())).collect();
    // The locks of the dead hold while they are removed, so sessions may be made again.
    drop(looking);
    for (path, _lock) in dead {
        if store.is_some_and(|store| store.takes(&path)) {
            CacheStore::take(&path);
        }
        remove(&path);
    }
}

/// Removes the directory of a session that has ended and its contents, despite modes that commands set.
fn remove(path: &Path) {
    if fs::remove_dir_all(path).is_ok() {
        return;
    }
    open_up(path);
    let _ = fs::remove_dir_all(path);
}

/// Gives this user every permission on the directories below one.
fn open_up(dir: &Path) {
    let _ = fs::set_permissions(dir, Permissions::from_mode(0o700));
    for entry in fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Sessions that started at once took each other's directories for those of dead ones.
    #[test]
    fn sessions_that_start_at_once_keep_their_directories() {
        let dir = tempfile::tempdir().expect("a directory");
        let sessions = dir.path().join("sessions");
        let dead = sessions.join("dead");
        fs::create_dir_all(&dead).expect("a directory");
        drop(create(&dead.join("lock")).expect("a lock"));
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        let scratch = Scratch::new(&sessions, None).expect("a session's directory");
                        assert!(scratch.path().join("empty.file").exists());
                    }
                });
            }
        });
        // The first directory removed the dead one, and each session its own.
        drop(Scratch::new(&sessions, None).expect("a session's directory"));
        assert_eq!(fs::read_dir(&sessions).expect("a directory").count(), 0);
    }
}
