//! A World in memory.
//!
//! It answers as the World of the guard does for somebody who owns every file and is not root:
//!
//! - Paths are resolved beneath one root, [`ROOT`], which is also the working directory. Links are
//!   followed, `..` included, but never out of the root. A missing file is a target without a state;
//!   whatever lies behind a dangling link can be neither read nor created.
//! - Opening hands out a real file descriptor with a copy of the content. Directories and special
//!   files are refused; a file that its owner may not read is denied.
//! - A replacement gives the file a new inode, keeps its mode and takes its time from the clock.
//!   `Write` creates missing parents only where its claim says so, `Edit` creates nothing, and a
//!   World for previews changes nothing. Changes that are made together are all made or none is.
//! - A walk visits in no useful order, with two visitors in turn on one thread. Links are shown and
//!   not followed. `.git`, `.sinew` and `.molf` count as hidden unless they are asked for; ignore
//!   files count by the rules of ripgrep. A directory that is left out counts once.
//! - A listing shows every name, state directories included, sorted by bytes.
//!
//! Absent: path rules of the configuration, protected names, hard links, owners, other file systems.

use std::ffi::OsStr;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::Value;
use sinew_tool::{
    Access, Arguments, Becomes, Cancel, Change, Claim, Clock, CommitError, Context, Deed, Entry,
    Expect, FileError, FileKind, FileMeta, FileMode, FileSettings, FileState, FileTarget, Files,
    Flow, Info, Kind, Links, Listed, Listing, Memo, NoCheckpoints, NoProcesses, Opened, Prepared,
    Preview, Processes, Progress, Reply, Shaping, Slot, Stamp, Targets, Tool, ToolError, Visitor,
    Visitors, WalkOptions, WalkReport, World, Written,
};

use crate::ignore_rules::IgnoreRules;
use crate::knowledge::{MemoryKnowledge, OfCall};
use crate::tree::{Node, Place, Tree, What, check_spelling};

/// The root and working directory of every memory world.
pub const ROOT: &str = "/root-of-test";

/// The seconds since 1970 at which files are made; each is one second younger than the one before.
const BORN: i64 = 1_700_000_000;

/// Directories that are not entered unless that is asked for.
const STATE: [&str; 3] = [".git", ".sinew", ".molf"];

/// A tree of files in memory, with what calls on it share.
#[derive(Clone)]
pub struct MemoryWorld {
    tree: Arc<Mutex<Tree>>,
    clock: Arc<MemoryClock>,
    memo: Arc<Memo>,
    knowledge: MemoryKnowledge,
    n_made: Arc<AtomicU64>,
    /// Settings of the file tools.
    pub settings: Arc<FileSettings>,
    /// What runs the command of every call.
    pub processes: Arc<dyn Processes>,
    /// The cancellation of every call.
    pub cancel: Cancel,
    /// The deadline of every call.
    pub deadline: Option<Instant>,
}

impl Default for MemoryWorld {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryWorld {
    /// Returns a world with an empty root.
    pub fn new() -> Self {
        Self::with_settings(FileSettings::default())
    }

    /// Returns a world with an empty root and settings of its own.
    pub fn with_settings(settings: FileSettings) -> Self {
        Self {
            tree: Arc::new(Mutex::new(Tree::new(Path::new(ROOT)))),
            clock: Arc::new(MemoryClock::new()),
            memo: Arc::default(),
            knowledge: MemoryKnowledge::default(),
            n_made: Arc::default(),
            settings: Arc::new(settings),
            processes: Arc::new(NoProcesses),
            cancel: Cancel::default(),
            deadline: None,
        }
    }

    /// Makes a file with its parents. Paths of this and the other makers are relative to the root.
    pub fn file(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        self.make(path, What::File(Arc::from(content.as_ref())), 0o644)
    }

    /// Makes a directory with its parents.
    pub fn directory(&self, path: &str) -> &Self {
        self.make(path, What::Directory, 0o755)
    }

    /// Makes a symbolic link.
    pub fn link(&self, path: &str, target: &str) -> &Self {
        self.make(path, What::Link(PathBuf::from(target)), 0o777)
    }

    /// Makes something that is neither file nor directory nor link.
    pub fn special(&self, path: &str) -> &Self {
        self.make(path, What::Special, 0o644)
    }

    /// Sets when the content of a file changed last, in seconds since 1970.
    pub fn modified(&self, path: &str, seconds: i64) -> &Self {
        if let Some(node) = self.tree().get_mut(&absolute(path)) {
            node.modified = Stamp { seconds, nanos: 0 };
        }
        self
    }

    /// Sets the permission bits of a file.
    pub fn mode(&self, path: &str, mode: u32) -> &Self {
        if let Some(node) = self.tree().get_mut(&absolute(path)) {
            node.mode = mode;
        }
        self
    }

    /// Removes a file, or a directory with all that is beneath it.
    pub fn remove(&self, path: &str) -> &Self {
        self.tree().remove(&absolute(path));
        self
    }

    /// Returns the content of a file.
    pub fn content(&self, path: &str) -> Option<Vec<u8>> {
        match &self.tree().get(&absolute(path))?.what {
            What::File(content) => Some(content.to_vec()),
            _ => None,
        }
    }

    /// Returns what is known of a path, links not followed.
    pub fn meta(&self, path: &str) -> Option<FileMeta> {
        self.tree().get(&absolute(path)).map(Node::meta)
    }

    /// Lets the clock go on by so much at each look at it.
    pub fn tick(&self, step: Duration) -> &Self {
        let step = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
        self.clock.step_ns.store(step, Ordering::Relaxed);
        self
    }

    /// Returns the time of the clock.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Contains claims as the guard does.
    pub fn contain(&self, claims: Vec<Claim>) -> Result<Targets, ToolError> {
        let files: Result<Vec<FileTarget>, ToolError> = claims
            .into_iter()
            .enumerate()
            .map(|(at, claim)| {
                let written = claim.path.clone();
                self.target(Slot(at), claim).map_err(|error| match written {
                    Some(written) => error.about(&written),
                    None => error.about("."),
                })
            })
            .collect();
        files.map(|files| Targets { files, command: None })
    }

    fn target(&self, slot: Slot, claim: Claim) -> Result<FileTarget, FileError> {
        let tree = self.tree();
        let place = self.place(&tree, &claim)?;
        let state = match tree.get(&place.real) {
            Some(node) => FileState::Found(node.meta()),
            None => FileState::Missing,
        };
        let root = PathBuf::from(ROOT);
        Ok(FileTarget { slot, claim, path: place.real, root, state, protected: None })
    }

    fn place(&self, tree: &Tree, claim: &Claim) -> Result<Place, FileError> {
        let links = claim.access.links();
        let written = claim.path.as_deref().unwrap_or(".");
        check_spelling(Path::new(written))?;
        tree.resolve(&Path::new(ROOT).join(written), links)
    }

    /// Returns the context of a call with these claims. One that may not change anything is for
    /// previews.
    pub fn context(&self, claims: Vec<Claim>, may_change: bool) -> Result<Context, ToolError> {
        let targets = Arc::new(self.contain(claims)?);
        let files = MemoryFiles {
            world: self.clone(),
            targets: Arc::clone(&targets),
            may_change,
            changes: Mutex::new(Vec::new()),
        };
        let knowledge = OfCall {
            knowledge: self.knowledge.clone(),
            settings: Arc::clone(&self.settings),
            targets: Arc::clone(&targets),
        };
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as Arc<dyn Clock>;
        Ok(Context {
            world: World {
                files: Arc::new(files),
                processes: Arc::clone(&self.processes),
                knowledge: Arc::new(knowledge),
                checkpoints: Arc::new(NoCheckpoints),
                clock,
            },
            targets,
            cwd: Arc::from(Path::new(ROOT)),
            settings: Arc::clone(&self.settings),
            memo: Arc::clone(&self.memo),
            cancel: self.cancel.clone(),
            progress: Progress::default(),
            deadline: self.deadline,
            sleep: |_| Box::pin(std::future::ready(())),
        })
    }

    /// Returns what a call would change.
    pub fn preview(&self, tool: &Arc<dyn Tool>, args: &Value) -> Result<Preview, ToolError> {
        let mut prepared = self.prepare(tool, args)?;
        let cx = self.context(prepared.claims(), false)?;
        Ok(prepared.preview(&cx))
    }

    fn prepare(&self, tool: &Arc<dyn Tool>, args: &Value) -> Result<Box<dyn Prepared>, ToolError> {
        let args: Arguments = args.as_object().cloned().unwrap_or_default();
        Arc::clone(tool).prepare(args, &self.settings)
    }

    fn make(&self, path: &str, what: What, mode: u32) -> &Self {
        let n_made = self.n_made.fetch_add(1, Ordering::Relaxed);
        let time = Stamp { seconds: BORN + n_made.cast_signed(), nanos: 0 };
        self.tree().put(&absolute(path), what, mode, time);
        self
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn absolute(path: &str) -> PathBuf {
    Path::new(ROOT).join(path)
}

/// Runs one call of a tool as the runtime does, without rules, hooks and ledger.
pub fn call(world: &MemoryWorld, tool: &Arc<dyn Tool>, args: Value) -> Reply {
    let path = args.as_object().and_then(|args| {
        ["file_path", "path"].iter().find_map(|name| args.get(*name)?.as_str().map(str::to_owned))
    });
    let reply = world.prepare(tool, &args).and_then(|prepared| run(world, prepared));
    reply.unwrap_or_else(|error| tool.fail(&error, path.as_deref()))
}

fn run(world: &MemoryWorld, mut prepared: Box<dyn Prepared>) -> Result<Reply, ToolError> {
    let cx = world.context(prepared.claims(), true)?;
    let targets = Arc::clone(&cx.targets);
    let cwd = Arc::clone(&cx.cwd);
    let mut future = pin!(prepared.run(cx));
    let mut waker = std::task::Context::from_waker(Waker::noop());
    match future.as_mut().poll(&mut waker) {
        Poll::Ready(ran) => {
            let settings = &world.settings;
            Ok(ran?.shape(&Shaping { targets: &targets, cwd: &cwd, settings, checkpoint: None }))
        }
        Poll::Pending => {
            Err(ToolError::new(Kind::ExecutionFailed, "the call waits, which nothing here wakes"))
        }
    }
}

/// A clock that goes on only when it is looked at.
struct MemoryClock {
    start: Instant,
    passed_ns: AtomicU64,
    step_ns: AtomicU64,
}

impl MemoryClock {
    fn new() -> Self {
        let (passed_ns, step_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { start: Instant::now(), passed_ns, step_ns }
    }
}

impl Clock for MemoryClock {
    fn now(&self) -> Instant {
        let step = self.step_ns.load(Ordering::Relaxed);
        let passed = self.passed_ns.fetch_add(step, Ordering::Relaxed);
        self.start + Duration::from_nanos(passed)
    }

    fn wall_ms(&self) -> u64 {
        1_800_000_000_000 + self.passed_ns.load(Ordering::Relaxed) / 1_000_000
    }
}

/// The files of one call.
struct MemoryFiles {
    world: MemoryWorld,
    targets: Arc<Targets>,
    may_change: bool,
    changes: Mutex<Vec<Change>>,
}

impl MemoryFiles {
    fn at(&self, slot: Slot) -> Result<&FileTarget, FileError> {
        self.targets.files.get(slot.0).ok_or(FileError::Missing)
    }

    /// Returns the target at a slot, where its claim asks for just this change.
    fn asked(&self, slot: Slot, access: Access) -> Result<&FileTarget, FileError> {
        let target = self.at(slot)?;
        match self.may_change && target.claim.access == access {
            true => Ok(target),
            false => Err(FileError::Denied(String::from("the call did not ask for this change"))),
        }
    }

    fn note(&self, changes: impl IntoIterator<Item = Change>) {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).extend(changes);
    }

    /// Returns the directory at a slot that may be looked into.
    fn directory(&self, tree: &Tree, slot: Slot) -> Result<PathBuf, FileError> {
        let target = self.at(slot)?;
        if !matches!(target.claim.access, Access::Read | Access::Search) {
            let why = String::from("the call did not ask to look beneath it");
            return Err(FileError::Denied(why));
        }
        match tree.get(&target.path).map(Node::kind) {
            None => Err(FileError::Missing),
            Some(FileKind::Directory) => Ok(target.path.clone()),
            Some(_) => Err(FileError::NotDirectory),
        }
    }
}

impl MemoryFiles {
    /// Makes or removes a directory, where that is the deed.
    fn change_directory(
        &self,
        tree: &mut Tree,
        deed: &Deed<'_>,
    ) -> Result<Option<Written>, FileError> {
        let target = self.at(deed.slot)?;
        let is_made = match deed.becomes {
            Becomes::Directory => true,
            Becomes::NoDirectory => false,
            Becomes::File { .. } | Becomes::Link(_) | Becomes::Nothing => return Ok(None),
        };
        let covers = (target.claim.access == Access::Remove) != is_made;
        if !self.may_change || !target.claim.access.changes() || !covers {
            return Err(FileError::Denied(String::from("the call did not ask for this change")));
        }
        let place = self.world.place(tree, &target.claim)?;
        let found = tree.get(&target.path).map(Node::kind);
        if target.path == Path::new(ROOT) {
            return Err(FileError::NotRegular(FileKind::Directory));
        }
        if found.is_none() && place.gone {
            return Err(FileError::Missing);
        }
        if found.is_none() && place.orphan && !is_made {
            return Err(FileError::NoParent);
        }
        match found {
            None if is_made => {
                let time = self.now();
                tree.put(&target.path, What::Directory, 0o755, time);
            }
            Some(kind) if is_made && kind != FileKind::Directory => {
                return Err(FileError::NotDirectory);
            }
            Some(FileKind::Directory)
                if !is_made && tree.children(&target.path).next().is_none() =>
            {
                tree.remove(&target.path);
            }
            _ => {}
        }
        Ok(Some(Written { bytes: 0, created: is_made && found.is_none() }))
    }

    /// Makes one change, or changes nothing. `like` are permission bits to take instead of those of
    /// the old file.
    fn change(
        &self,
        tree: &mut Tree,
        deed: &Deed<'_>,
        like: Option<u32>,
    ) -> Result<(Written, Change), FileError> {
        let target = self.at(deed.slot)?;
        let access = target.claim.access;
        let covers = match deed.becomes {
            Becomes::Nothing => access == Access::Remove,
            _ => matches!(access, Access::Write { .. } | Access::Edit { .. }),
        };
        if !self.may_change || !covers {
            return Err(FileError::Denied(String::from("the call did not ask for this change")));
        }
        let place = self.world.place(tree, &target.claim)?;
        let old = tree.get(&target.path).cloned();
        match (&old, access) {
            (None, _) if place.gone => return Err(FileError::Missing),
            (None, Access::Edit { .. } | Access::Remove) => return Err(FileError::Missing),
            (None, Access::Write { parents: false, .. }) if place.orphan => {
                return Err(FileError::NoParent);
            }
            _ => {}
        }
        let before = match old.as_ref().map(|node| &node.what) {
            None => None,
            Some(What::File(content)) => Some(Arc::clone(content)),
            Some(What::Link(to)) if access.links() == Links::Itself => {
                Some(Arc::from(to.as_os_str().as_bytes()))
            }
            Some(_) => {
                let kind = old.as_ref().map_or(FileKind::Special, Node::kind);
                return Err(FileError::NotRegular(kind));
            }
        };
        let identity = old.as_ref().map(|node| node.meta().identity);
        let is_expected = match deed.expect {
            Expect::Any => true,
            Expect::Nothing => old.is_none(),
            Expect::Same(wanted, content) => {
                identity == Some(wanted) && before.as_deref() == Some(content)
            }
        };
        if !is_expected {
            return Err(FileError::Changed);
        }
        if let (Some(identity), Some(content)) = (&identity, &before) {
            let settings = &self.world.settings;
            self.world.knowledge.check(settings, &target.path, identity, content)?;
        }
        let replaced = old.as_ref().filter(|node| node.kind() == FileKind::File);
        let bits = replaced.map_or(0o644, |node| node.mode);
        if bits & 0o200 == 0 {
            return Err(FileError::Permission);
        }
        let (content, mode) = match deed.becomes {
            Becomes::File { pieces, mode, .. } => {
                (Some(pieces.concat()), with_mode(like.unwrap_or(bits), mode))
            }
            Becomes::Link(to) => (Some(to.to_vec()), 0o777),
            Becomes::Nothing | Becomes::Directory | Becomes::NoDirectory => (None, 0),
        };
        let time = self.now();
        match (&content, deed.becomes) {
            (None, _) => tree.remove(&target.path),
            (Some(to), Becomes::Link(_)) => {
                let to = PathBuf::from(OsStr::from_bytes(to));
                tree.put(&target.path, What::Link(to), mode, time);
            }
            (Some(content), _) => {
                tree.put(&target.path, What::File(Arc::from(&**content)), mode, time);
            }
        }
        let bytes = content.as_ref().map_or(0, |content| content.len() as u64);
        let before = before.map(|content| hash(&content));
        let after = content.map(|content| hash(&content));
        let change = Change { path: target.path.clone(), before, after, bytes };
        Ok((Written { bytes, created: old.is_none() }, change))
    }

    /// Returns the time of a change, which no other change has.
    fn now(&self) -> Stamp {
        let wall_ms = self.world.clock.wall_ms();
        let nanos = self.world.n_made.fetch_add(1, Ordering::Relaxed) % 1_000_000_000;
        Stamp { seconds: (wall_ms / 1_000).cast_signed(), nanos: nanos as u32 }
    }
}

fn with_mode(bits: u32, mode: FileMode) -> u32 {
    match mode {
        FileMode::Kept => bits,
        FileMode::Executable(true) => bits | (bits & 0o444) >> 2,
        FileMode::Executable(false) => bits & !0o111,
        FileMode::Exact(exact) => exact & 0o1777,
    }
}

/// Returns an open file with the content of a node.
fn open(node: &Node) -> Result<File, FileError> {
    match &node.what {
        What::File(_) if node.mode & 0o400 == 0 => Err(FileError::Permission),
        What::File(content) => {
            let descriptor = memfd_create(c"memory-world", MemfdFlags::CLOEXEC)
                .map_err(|errno| FileError::Io(errno.into()))?;
            let mut file = File::from(descriptor);
            file.write_all(content).map_err(FileError::Io)?;
            file.seek(SeekFrom::Start(0)).map_err(FileError::Io)?;
            Ok(file)
        }
        _ => Err(FileError::NotRegular(node.kind())),
    }
}

fn hash(content: &[u8]) -> String {
    blake3::hash(content).to_hex().to_string()
}

impl Files for MemoryFiles {
    fn meta(&self, slot: Slot) -> Result<FileMeta, FileError> {
        let tree = self.world.tree();
        tree.get(&self.at(slot)?.path).map(Node::meta).ok_or(FileError::Missing)
    }

    fn info(&self, slot: Slot) -> Result<Info, FileError> {
        let meta = self.meta(slot)?;
        Ok(Info { created: Some(meta.modified()), accessed: meta.modified(), meta })
    }

    fn roots(&self) -> Vec<PathBuf> {
        vec![PathBuf::from(ROOT)]
    }

    fn make_directory(&self, slot: Slot) -> Result<bool, FileError> {
        let target = self.asked(slot, Access::Make)?;
        let mut tree = self.world.tree();
        let place = self.world.place(&tree, &target.claim)?;
        let made = tree.make_directory(&target.path, place.gone, self.now())?;
        if made {
            let path = target.path.clone();
            self.note([Change { path, before: None, after: None, bytes: 0 }]);
        }
        Ok(made)
    }

    fn rename(&self, from: Slot) -> Result<(), FileError> {
        let (old, new) = (self.asked(from, Access::Move)?, self.at(Slot(from.0 + 1))?);
        let mut tree = self.world.tree();
        let place = self.world.place(&tree, &new.claim)?;
        let node = tree.rename(&old.path, &new.path, place.orphan || place.gone)?;
        let (hash, bytes) = match &node.what {
            What::File(content) => (Some(hash(content)), content.len() as u64),
            What::Link(to) => (Some(hash(to.as_os_str().as_bytes())), node.meta().size()),
            What::Directory | What::Special => (None, 0),
        };
        let (path, before) = (old.path.clone(), hash.clone());
        self.note([
            Change { path, before, after: None, bytes: 0 },
            Change { path: new.path.clone(), before: None, after: hash, bytes },
        ]);
        Ok(())
    }

    fn open(&self, slot: Slot) -> Result<Opened, FileError> {
        let tree = self.world.tree();
        let node = tree.get(&self.at(slot)?.path).ok_or(FileError::Missing)?;
        Ok(Opened { file: open(node)?, meta: node.meta() })
    }

    fn link(&self, slot: Slot) -> Result<Vec<u8>, FileError> {
        let tree = self.world.tree();
        let node = tree.get(&self.at(slot)?.path).ok_or(FileError::Missing)?;
        match &node.what {
            What::Link(target) => Ok(target.as_os_str().as_bytes().to_vec()),
            _ => Err(FileError::NotRegular(node.kind())),
        }
    }

    fn replace(
        &self,
        slot: Slot,
        pieces: &[&[u8]],
        expect: Expect<'_>,
    ) -> Result<Written, FileError> {
        let target = self.at(slot)?;
        let mut tree = self.world.tree();
        let is_link = tree.get(&target.path).map(Node::kind) == Some(FileKind::Symlink);
        if is_link && self.may_change && target.claim.access != Access::Remove {
            return Err(FileError::NotRegular(FileKind::Symlink));
        }
        let becomes = Becomes::File { pieces, mode: FileMode::Kept, like: None };
        let (written, change) = self.change(&mut tree, &Deed { slot, expect, becomes }, None)?;
        self.world.knowledge.changed(&change);
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).push(change);
        Ok(written)
    }

    fn commit(&self, deeds: &[Deed<'_>]) -> Result<Vec<Written>, CommitError> {
        let mut tree = self.world.tree();
        // What cannot be done as a whole is done on a copy that nobody sees.
        let mut draft = tree.clone();
        // Directories are made before the other changes and removed after them.
        let turn = |deed: &Deed<'_>| match deed.becomes {
            Becomes::Directory => 0,
            Becomes::File { .. } | Becomes::Link(_) | Becomes::Nothing => 1,
            Becomes::NoDirectory => 2,
        };
        let mut order: Vec<&Deed<'_>> = deeds.iter().collect();
        order.sort_by_key(|deed| turn(deed));
        let (mut written, mut changes) = (Vec::new(), Vec::new());
        // What is there for one of them is what was there before all of them.
        for deed in deeds.iter().filter(|deed| turn(deed) != 1) {
            let about = |error| CommitError { slot: deed.slot, error };
            self.change_directory(&mut tree.clone(), deed).map_err(about)?;
        }
        for deed in deeds.iter().filter(|deed| turn(deed) == 1) {
            let about = |error| CommitError { slot: deed.slot, error };
            self.change(&mut tree.clone(), deed, None).map_err(about)?;
            let path = &self.at(deed.slot).map_err(about)?.path;
            let above = |other: &&Deed<'_>| {
                let target = self.at(other.slot);
                target.is_ok_and(|target| target.path != *path && path.starts_with(&target.path))
            };
            if deeds.iter().filter(|other| turn(other) == 1).any(|other| above(&other)) {
                return Err(about(FileError::NotDirectory));
            }
        }
        for deed in order {
            let about = |error| CommitError { slot: deed.slot, error };
            let path = &self.at(deed.slot).map_err(about)?.path;
            let is_twice = deeds
                .iter()
                .filter(|other| self.at(other.slot).is_ok_and(|other| other.path == *path))
                .nth(1)
                .is_some();
            if is_twice && turn(deed) != 1 {
                return Err(about(FileError::Invalid("is changed twice at once")));
            }
            if let Some(wrote) = self.change_directory(&mut draft, deed).map_err(about)? {
                written.push((deed.slot, wrote));
                continue;
            }
            if changes.iter().any(|change: &Change| change.path == *path) {
                return Err(about(FileError::Invalid("is changed twice at once")));
            }
            let like = match deed.becomes {
                Becomes::File { like: Some(like), .. } => {
                    let node = tree.get(&self.at(like).map_err(about)?.path);
                    node.filter(|node| node.kind() == FileKind::File).map(|node| node.mode)
                }
                _ => None,
            };
            let (wrote, change) = self.change(&mut draft, deed, like).map_err(about)?;
            written.push((deed.slot, wrote));
            changes.push(change);
        }
        *tree = draft;
        changes.iter().for_each(|change| self.world.knowledge.changed(change));
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).extend(changes);
        let place_of = |slot: Slot| deeds.iter().position(|deed| deed.slot == slot);
        written.sort_by_key(|(slot, _)| place_of(*slot));
        Ok(written.into_iter().map(|(_, wrote)| wrote).collect())
    }

    fn walk(
        &self,
        slot: Slot,
        options: &WalkOptions,
        visitors: &dyn Visitors,
        stop: &AtomicBool,
    ) -> Result<WalkReport, FileError> {
        let tree = self.world.tree();
        let start = self.directory(&tree, slot)?;
        let mut walk = Walk {
            tree: &tree,
            start: &start,
            options,
            stop,
            visitors: [visitors.visitor(), visitors.visitor()],
            rules: IgnoreRules::default(),
            report: WalkReport { complete: true, ..WalkReport::default() },
        };
        let flow = walk.directory(&start, 0);
        walk.report.complete = flow == Flow::Continue;
        Ok(walk.report)
    }

    fn list(&self, slot: Slot, limit: usize) -> Result<Listing, FileError> {
        let tree = self.world.tree();
        let directory = self.directory(&tree, slot)?;
        let mut rows: Vec<Listed> = tree
            .children(&directory)
            .map(|(path, node)| Listed {
                path: PathBuf::from(path.file_name().unwrap_or_default()),
                kind: node.kind(),
                meta: Some(node.meta()),
            })
            .collect();
        rows.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
        let total = rows.len() as u64;
        rows.truncate(limit);
        Ok(Listing { rows, total, ..Listing::default() })
    }

    fn changes(&self) -> Vec<Change> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Walk<'w> {
    tree: &'w Tree,
    start: &'w Path,
    options: &'w WalkOptions,
    stop: &'w AtomicBool,
    visitors: [Box<dyn Visitor + 'w>; 2],
    rules: IgnoreRules,
    report: WalkReport,
}

impl Walk<'_> {
    fn directory(&mut self, directory: &Path, depth: usize) -> Flow {
        let mut entries: Vec<(&Path, &Node)> = self.tree.children(directory).collect();
        // Any order will do, as long as nobody can rely on it.
        entries.sort_by_cached_key(|(path, _)| {
            let mut hasher = DefaultHasher::new();
            path.hash(&mut hasher);
            hasher.finish()
        });
        for (path, node) in entries {
            if self.stop.load(Ordering::Relaxed) || self.entry(path, node, depth) == Flow::Stop {
                return Flow::Stop;
            }
        }
        Flow::Continue
    }

    fn entry(&mut self, path: &Path, node: &Node, depth: usize) -> Flow {
        let beneath = path.strip_prefix(self.start).unwrap_or(path);
        let is_directory = node.kind() == FileKind::Directory;
        let name = path.file_name().unwrap_or_default();
        let state = is_directory && STATE.iter().any(|state| name == *state);
        if state && !self.options.enter_state {
            self.report.skipped.hidden += 1;
            return Flow::Continue;
        }
        let heeds = self.options.heed_ignore;
        if heeds && self.rules.leave_out(self.tree, path, is_directory) {
            self.report.skipped.ignored += 1;
            return Flow::Continue;
        }
        self.visitors.rotate_left(1);
        let [visitor, _] = &mut self.visitors;
        if !is_directory || self.options.directories {
            let seen = Seen { path: beneath, name, node };
            if visitor.visit(&seen) == Flow::Stop {
                return Flow::Stop;
            }
        }
        let deep = self.options.max_depth.is_none_or(|max| depth < max);
        if is_directory && deep && visitor.enter(beneath) {
            return self.directory(path, depth + 1);
        }
        Flow::Continue
    }
}

struct Seen<'s> {
    path: &'s Path,
    name: &'s OsStr,
    node: &'s Node,
}

impl Entry for Seen<'_> {
    fn path(&self) -> &Path {
        self.path
    }

    fn name(&self) -> &OsStr {
        self.name
    }

    fn kind(&self) -> FileKind {
        self.node.kind()
    }

    fn meta(&self) -> Result<FileMeta, FileError> {
        Ok(self.node.meta())
    }

    fn open(&self) -> Result<File, FileError> {
        open(self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world() -> MemoryWorld {
        let world = MemoryWorld::new();
        world
            .file("dir/file", "x")
            .link("to-dir", "dir")
            .link("absolute", &format!("{ROOT}/dir/file"))
            .link("dangling", "dir/none")
            .link("loop", "loop")
            .link("out", "../etc");
        world
    }

    fn claim(path: &str, access: Access) -> Vec<Claim> {
        vec![Claim { argument: "path", path: Some(path.to_owned()), access }]
    }

    /// Contains a path for reading and compares the real path, or the kind of the error.
    #[track_caller]
    fn check(path: &str, expected: Result<(&str, bool), Kind>) {
        let found = world().contain(claim(path, Access::Read)).map(|targets| {
            let target = &targets.files[0];
            let real = target.path.strip_prefix(ROOT).expect("beneath the root").to_owned();
            (real, target.state != FileState::Missing)
        });
        let expected = expected.map(|(path, there)| (PathBuf::from(path), there));
        assert_eq!(found.map_err(|error| error.kind), expected);
    }

    #[test]
    fn paths_are_followed_and_stay_inside() {
        check("dir/file", Ok(("dir/file", true)));
        check("to-dir/file", Ok(("dir/file", true)));
        check("absolute", Ok(("dir/file", true)));
        check("to-dir/../dir/./file", Ok(("dir/file", true)));
        check(&format!("{ROOT}/dir"), Ok(("dir", true)));
        check("none/at/all", Ok(("none/at/all", false)));
        check("dangling", Ok(("dir/none", false)));
        check("loop", Err(Kind::InvalidPath));
        check("a\0b", Err(Kind::InvalidPath));
        check("dir/file/x", Err(Kind::NotRegularFile));
        check("dir/file/", Err(Kind::NotRegularFile));
        check("out", Err(Kind::PathDenied));
        check("../x", Err(Kind::PathDenied));
        check("/etc/passwd", Err(Kind::PathDenied));
    }

    /// Replaces a path and compares the error.
    #[track_caller]
    fn check_replace(path: &str, access: Access, expected: Option<&str>) {
        let cx = world().context(claim(path, access), true).expect("a context");
        let done = cx.world.files.replace(Slot(0), &[b"new"], Expect::Any);
        let error = done.err().map(|error| error.about(path).message.into_owned());
        assert_eq!(error.as_deref(), expected);
    }

    #[test]
    fn replacements_need_what_their_claim_says() {
        let write = |parents| Access::Write { parents, links: Links::Follow };
        let edit = Access::Edit { links: Links::Follow };
        check_replace("new", write(false), None);
        check_replace("to-dir/new", write(false), None);
        check_replace("a/b", write(true), None);
        check_replace("a/b", write(false), Some("the parent directory does not exist: a/b"));
        check_replace("new", edit, Some("no such file: new"));
        check_replace("dangling", write(true), Some("no such file: dangling"));
        check_replace("dir", edit, Some("not a regular file but a directory: dir"));
        check_replace("dir/file", Access::Read, Some("path denied: dir/file"));
    }
}
