//! Checkpoints of commands, made from their undo logs once they have ended.
//!
//! Each command has a directory with its log, the before-images that the log names, and the call that it
//! belongs to. It is removed once the checkpoint is recorded. If all processes die before, the next one
//! that looks for checkpoints makes it: a lock on the call shows whether a process will, and the lock of the
//! supervisor on the log whether the command has ended.
//!
//! What the command left is hashed when it has ended, so that a later change by others shows.

#![expect(clippy::disallowed_methods, reason = "the state directory is sinew's own")]

mod changed_paths;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, Mode, flock, fstat, openat};
use rustix::io::Errno;
use serde_json::{Value, json};
use sinew_fs::roots::DIRECTORY_READ;
use sinew_fs::state::StateDir;
use sinew_fs::undo_log::{self, LOG, OldState, Origins, UndoRecord};
use sinew_tool::sync::lock;
use sinew_tool::{CommandChanges, ContentHash};

use super::contents::errno_of;
use super::{
    CallContext, CheckpointError, CheckpointId, CheckpointSettings, Checkpoints, SharedCheckpoints,
    index,
};
use crate::database::PATIENT;
use changed_paths::{ADOPTED, ChangedPaths, Entries, adopted};

/// The file that says which call a directory belongs to.
const CALL: &str = "call";
/// How often a lock that another process may be about to give back is looked at, and the pause between.
const N_LOOKS: u32 = 30;
/// As often at one that another process looks at, since both may look at the same moment.
const N_LOOKS_AT_OTHERS: u32 = 5;
const LOOK_PAUSE: Duration = Duration::from_millis(10);
/// The most bytes of a log that are read.
const MAX_LOG: u64 = 256 << 20;
/// The most paths whose states are worked out before the reply.
const MAX_AT_ONCE: usize = 500;

/// Whether this process saw the end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Seen,
    /// The process of its call or its supervisor died: the last change may not have happened, and changes later than
    /// the log count as those of others.
    Unseen,
}

/// The paths of a log, their old states, and the old modes of those whose mode changed.
type Changed = (ChangedPaths, BTreeMap<PathBuf, OldState>, HashMap<PathBuf, u32>);

/// What a running command changes, until its end.
#[derive(Debug)]
pub struct CommandDraft {
    shared: Arc<SharedCheckpoints>,
    call: Arc<CommandCall>,
    path: PathBuf,
    dir: OwnedFd,
    log: File,
}

/// The call of a running command, in a file that is locked while a process is responsible for the directory.
#[derive(Debug)]
pub struct CommandCall {
    mark: CallContext,
    since_ms: i64,
    /// Directories beside the roots that the command may change.
    beside: Mutex<Vec<PathBuf>>,
    file: File,
}

impl CommandCall {
    /// Adds a directory that the command may change, also for the process that takes over if this one dies.
    pub fn may_change(&self, dir: &Path) -> io::Result<()> {
        let mut beside = lock(&self.beside);
        if beside.iter().any(|known| dir.starts_with(known)) {
            return Ok(());
        }
        let all: Vec<PathBuf> = beside.iter().cloned().chain([dir.to_owned()]).collect();
        let text = written(&self.mark, &all, self.since_ms).to_string();
        // It is longer than the one before.
        self.file.write_all_at(text.as_bytes(), 0)?;
        *beside = all;
        Ok(())
    }
}

impl Checkpoints {
    /// Returns whether a thread works out the states of a command that has ended.
    pub fn has_commands_under_way(&self) -> bool {
        match self.shared.under_way.try_lock() {
            Ok(threads) => threads.iter().any(|thread| !thread.is_finished()),
            Err(_) => true,
        }
    }

    /// Returns whether commands have checkpoints.
    pub fn keeps_commands(&self) -> bool {
        self.shared.settings.commands
    }

    /// Returns the paths that running commands changed so far, in any process, each with whether entries beneath may
    /// have changed too.
    pub fn paths_under_way(&self) -> HashMap<PathBuf, bool> {
        let dirs = fs::read_dir(StateDir::before_images_at(self.shared.state()));
        let dirs = dirs.into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
        let mut paths: HashMap<PathBuf, bool> = HashMap::new();
        for dir in dirs {
            let (Ok(call), Ok(log)) = (File::open(dir.join(CALL)), File::open(dir.join(LOG)))
            else {
                continue;
            };
            // Without its process, the supervisor of the command still holds the log.
            let is_held = |file: &File| flock(file, FlockOperation::NonBlockingLockShared).is_err();
            // The supervisor shares the lock of the log with others that only look.
            let is_shared =
                |file: &File| flock(file, FlockOperation::NonBlockingLockExclusive).is_err();
            let mut bytes = Vec::new();
            if (is_held(&call) || is_shared(&log))
                && log.take(MAX_LOG).read_to_end(&mut bytes).is_ok()
            {
                for record in undo_log::read(&bytes).iter().flatten() {
                    let reaches_beneath = !matches!(record, UndoRecord::Mode(..));
                    for path in record.paths() {
                        *paths.entry(path.to_owned()).or_default() |= reaches_beneath;
                    }
                }
            }
        }
        paths
    }

    /// Opens the directory where the changes of commands are kept; makes it if missing.
    pub fn before_images(&self) -> Result<OwnedFd, CheckpointError> {
        self.shared.before_images()
    }

    /// Begins the checkpoint of a command, which may change some directories beside the roots.
    pub fn begin_command(
        &self,
        mark: CallContext,
        beside: Vec<PathBuf>,
    ) -> Result<CommandDraft, CheckpointError> {
        self.shared.wait_for_commands();
        self.shared.recover_once();
        CommandDraft::begin(Arc::clone(&self.shared), mark, beside).map_err(unusable)
    }
}

fn unusable(error: io::Error) -> CheckpointError {
    CheckpointError::of_store(errno_of(error))
}

impl SharedCheckpoints {
    fn state(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    fn before_images(&self) -> Result<OwnedFd, CheckpointError> {
        let path = StateDir::before_images_at(self.state());
        let open = || openat(CWD, &path, DIRECTORY_READ, Mode::empty());
        let opened = match open() {
            Err(Errno::NOENT) => {
                super::make_state(&self.path)?;
                match DirBuilder::new().mode(0o700).create(&path) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(unusable(error));
                    }
                    _ => open(),
                }
            }
            other => other,
        };
        opened.map_err(CheckpointError::of_store)
    }

    /// Returns how many bytes the contents of one command may take: it leaves room for others, and what this process holds
    /// against collections takes room too.
    fn room_of_command(&self) -> u64 {
        let CheckpointSettings { max_bytes, holds_for, .. } = self.settings;
        let held = lock(&self.held).sum(holds_for).n_bytes;
        (max_bytes / 2).min(max_bytes.saturating_sub(held))
    }

    /// Waits for the checkpoints of commands that have ended: later changes, and looks at them, come after.
    pub(super) fn wait_for_commands(&self) {
        // The lock is held meanwhile, so that a second caller waits too.
        for thread in lock(&self.under_way).drain(..) {
            let _ = thread.join();
        }
    }

    /// Makes the checkpoints of commands whose processes died, before the first change of this process.
    pub(super) fn recover_once(self: &Arc<Self>) {
        self.has_recovered.get_or_init(|| self.recover_commands());
    }

    /// Makes the checkpoints of commands whose processes died.
    pub(super) fn recover_commands(self: &Arc<Self>) {
        let Ok(entries) = fs::read_dir(StateDir::before_images_at(self.state())) else { return };
        let mut paths: Vec<PathBuf> =
            entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
        for n_looks in 1..=N_LOOKS {
            paths.retain(|path| match CommandDraft::left(Arc::clone(self), path) {
                Ok(Left::Taken(draft)) => {
                    let _ = draft.finish(true, Ended::Unseen);
                    false
                }
                Ok(Left::LookedAt) => n_looks < N_LOOKS_AT_OTHERS,
                Ok(Left::Ending) => true,
                Ok(Left::Nothing) | Err(_) => false,
            });
            if paths.is_empty() || n_looks == N_LOOKS {
                break;
            }
            thread::sleep(LOOK_PAUSE);
        }
    }
}

/// The state of a command's directory.
enum Left {
    /// What this process took over.
    Taken(Box<CommandDraft>),
    /// What another process looks at.
    LookedAt,
    /// A command whose process died, and whose supervisor has not ended yet.
    Ending,
    /// A command whose process runs or that another process takes over, or nothing to make a checkpoint of.
    Nothing,
}

impl CommandDraft {
    /// Returns how many bytes of old contents can be kept.
    pub fn room(&self) -> u64 {
        self.shared.room_of_command()
    }

    fn begin(
        shared: Arc<SharedCheckpoints>,
        mark: CallContext,
        beside: Vec<PathBuf>,
    ) -> io::Result<Self> {
        let above = shared.before_images().map_err(io::Error::other)?;
        drop(above);
        let mut random = [0; 12];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = StateDir::before_images_at(shared.state()).join(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        let since_ms = index::now_ms();
        let new = || {
            let mut options = File::options();
            options.mode(0o600).create_new(true);
            options
        };
        let call = new().write(true).open(path.join(CALL))?;
        // Another process may just look whether it is locked.
        flock(&call, FlockOperation::LockExclusive)?;
        call.write_all_at(written(&mark, &beside, since_ms).to_string().as_bytes(), 0)?;
        let log = new().append(true).open(path.join(LOG))?;
        let dir = openat(CWD, &path, DIRECTORY_READ, Mode::empty())?;
        let call = CommandCall { mark, since_ms, beside: Mutex::new(beside), file: call };
        Ok(Self { shared, call: Arc::new(call), path, dir, log })
    }

    /// Takes over a directory whose process died and whose command has ended.
    fn left(shared: Arc<SharedCheckpoints>, path: &Path) -> io::Result<Left> {
        let mut call = File::open(path.join(CALL))?;
        if flock(&call, FlockOperation::NonBlockingLockShared).is_err() {
            return Ok(Left::Nothing);
        }
        if flock(&call, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(Left::LookedAt);
        }
        let mut text = String::new();
        call.read_to_string(&mut text)?;
        let log = match File::open(path.join(LOG)) {
            Ok(log) => log,
            // It died before its command began.
            Err(_) => {
                fs::remove_dir_all(path)?;
                return Ok(Left::Nothing);
            }
        };
        let Some((mark, beside, since_ms)) = read(&text) else {
            fs::remove_dir_all(path)?;
            return Ok(Left::Nothing);
        };
        // The supervisor of a process that was killed ends with it, and may be about to.
        if flock(&log, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(Left::Ending);
        }
        let dir = openat(CWD, path, DIRECTORY_READ, Mode::empty())?;
        let call = CommandCall { mark, since_ms, beside: Mutex::new(beside), file: call };
        let (call, path) = (Arc::new(call), path.to_owned());
        Ok(Left::Taken(Box::new(Self { shared, call, path, dir, log })))
    }

    /// Returns the directory for before-images.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Returns the undo log, to append to.
    pub fn log(&self) -> BorrowedFd<'_> {
        self.log.as_fd()
    }

    /// Returns the call of the command.
    pub fn call(&self) -> &Arc<CommandCall> {
        &self.call
    }

    /// Returns whether the command changed nothing so far.
    pub fn is_unchanged(&self) -> bool {
        self.log.metadata().is_ok_and(|meta| meta.len() == 0)
    }

    /// Records the checkpoint of a command that has ended; says whether its log has all that it changed. Of a command that
    /// changed many paths a thread works out the states.
    pub fn end(self, has_all: bool) -> Result<CommandChanges, CheckpointError> {
        // Without a report its supervisor may have died.
        self.finish(has_all, if has_all { Ended::Seen } else { Ended::Unseen })
    }

    fn finish(self, has_all: bool, ended: Ended) -> Result<CommandChanges, CheckpointError> {
        let changes = CommandChanges { is_partial: !has_all, ..CommandChanges::default() };
        if self.is_unchanged() {
            self.remove();
            return Ok(changes);
        }
        // A process that died may have recorded it.
        let known = match ended {
            Ended::Seen => None,
            Ended::Unseen => self.shared.read(|connection| {
                Ok(index::checkpoint_of(connection, &self.call.mark, self.call.since_ms)?)
            })?,
        };
        if known.is_some_and(|(_, has_entries)| has_entries) {
            self.remove();
            return Ok(changes);
        }
        let known = known.map(|(id, _)| id);
        let (mut paths, old, modes) = self.changed(changes, ended)?;
        if old.len() <= MAX_AT_ONCE || ended == Ended::Unseen {
            let id = self.record(&mut paths, (old, &modes), known)?;
            paths.changes.checkpoint = id.map(|id| id.to_string());
            paths.changes.is_partial |= paths.is_cut();
            self.remove();
            return Ok(paths.changes);
        }
        let id = self.insert(&Entries::new(), 0, known)?;
        paths.outline(&old);
        let mut changes = paths.changes.clone();
        changes.checkpoint = Some(id.to_string());
        let shared = Arc::clone(&self.shared);
        let work = move || {
            // What fails stays in the directory, and the next process tries again.
            if self.record(&mut paths, (old, &modes), Some(id)).is_ok() {
                self.remove();
            }
        };
        match thread::Builder::new().name(String::from("command_checkpoint")).spawn(work) {
            Ok(thread) => lock(&shared.under_way).push(thread),
            Err(error) => return Err(unusable(error)),
        }
        Ok(changes)
    }

    fn remove(&self) {
        // Else the next process removes it.
        let _ = fs::remove_dir_all(&self.path);
    }

    /// Reads the log.
    fn changed(&self, changes: CommandChanges, ended: Ended) -> Result<Changed, CheckpointError> {
        let file = File::open(self.path.join(LOG)).map_err(unusable)?;
        let written = fstat(&file).map_err(CheckpointError::of_store)?;
        let mut bytes = Vec::new();
        file.take(MAX_LOG).read_to_end(&mut bytes).map_err(unusable)?;
        let beside = lock(&self.call.beside);
        let dirs = self.call.mark.roots.iter().chain(beside.iter());
        let mut paths = ChangedPaths::of(&self.shared, &self.path, dirs, changes)?;
        let mut groups = undo_log::read(&bytes);
        if ended == Ended::Unseen {
            paths.finish_last(&mut groups);
            paths.written_until(&written);
        }
        paths.share(groups.iter().flatten());
        let mut origins = Origins::default();
        groups.into_iter().flatten().for_each(|record| origins.add(record));
        let is_full = origins.is_full();
        let (mut old, modes) = origins.into_old(|dir| paths.list(dir));
        if is_full {
            // Where the rest moved is not known.
            old.retain(|_, old| !matches!(old, OldState::At(_)));
        }
        paths.changes.is_partial |= is_full || paths.is_cut();
        Ok((paths, old, modes))
    }

    /// Records the entries, in a checkpoint that may be there already.
    fn record(
        &self,
        paths: &mut ChangedPaths,
        (old, modes): (BTreeMap<PathBuf, OldState>, &HashMap<PathBuf, u32>),
        id: Option<CheckpointId>,
    ) -> Result<Option<CheckpointId>, CheckpointError> {
        // The contents stay until they are named.
        let entries = paths.entries(old, modes)?;
        if !entries.is_empty() {
            return self.insert(&entries, paths.n_new, id).map(Some);
        }
        if let Some(id) = id {
            self.shared.write(PATIENT, |connection, _| Ok(index::remove(connection, id)?))?;
        }
        Ok(None)
    }

    fn insert(
        &self,
        entries: &Entries,
        n_new: u64,
        id: Option<CheckpointId>,
    ) -> Result<CheckpointId, CheckpointError> {
        let entries =
            entries.iter().map(|(path, (before, after))| (path.as_path(), before, after.as_ref()));
        self.shared.record(&self.call.mark, id, entries, (n_new, true), PATIENT)
    }
}

/// Returns the contents that before-images of commands became, and that no entry may name yet.
pub(super) fn adopted_contents(state: &Path) -> HashSet<ContentHash> {
    let dirs = fs::read_dir(StateDir::before_images_at(state)).into_iter().flatten();
    let logs = dirs.filter_map(|dir| fs::read_to_string(dir.ok()?.path().join(ADOPTED)).ok());
    let contents = |log: String| -> Vec<ContentHash> {
        log.lines().filter_map(adopted).map(|(_, (content, _))| content).collect()
    };
    logs.flat_map(contents).collect()
}

/// Returns the call of a directory as JSON.
fn written(mark: &CallContext, beside: &[PathBuf], since_ms: i64) -> Value {
    let bytes = |paths: &[PathBuf]| -> Vec<Vec<u8>> {
        paths.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect()
    };
    let (roots, beside) = (bytes(&mark.roots), bytes(beside));
    json!({
        "session": mark.session, "agent": mark.agent, "turn": mark.turn, "call_id": mark.call_id,
        "dialect": mark.dialect, "tool": mark.tool, "roots": roots, "beside": beside,
        "since_ms": since_ms,
    })
}

fn read(text: &str) -> Option<(CallContext, Vec<PathBuf>, i64)> {
    let call: Value = serde_json::from_str(text).ok()?;
    let text = |key: &str| call.get(key)?.as_str().map(str::to_owned);
    let path = |path: &Value| {
        let bytes = path.as_array()?.iter().map(|byte| u8::try_from(byte.as_u64()?).ok());
        Some(PathBuf::from(OsString::from_vec(bytes.collect::<Option<Vec<u8>>>()?)))
    };
    let paths = |key: &str| call.get(key)?.as_array()?.iter().map(path).collect::<Option<_>>();
    let mark = CallContext {
        session: text("session")?,
        agent: text("agent"),
        turn: text("turn"),
        call_id: text("call_id")?,
        dialect: text("dialect")?,
        tool: text("tool")?,
        roots: paths("roots")?,
        restores: None,
    };
    // Older versions wrote none.
    Some((mark, paths("beside").unwrap_or_default(), call.get("since_ms")?.as_i64()?))
}
