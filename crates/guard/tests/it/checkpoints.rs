//! Checkpoints of changes to real trees. The harness makes changes as a call does: it keeps, records,
//! changes and settles. It carries out plans in the same way.

mod contents;
mod limit;
mod restore;
mod script;
mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sinew_guard::checkpoints::{
    Act, Before, CallContext, CheckpointDraft, PathState, Plan, PlannedStep, Query, Scope,
};
use sinew_guard::{CheckpointError, CheckpointId, CheckpointSettings, Checkpoints, StateDir};
use sinew_tool::{FileKind, FileMeta, Identity, Stamp};

use crate::tree::Tree;

/// How long a test waits for a database.
const LONG: Duration = Duration::from_secs(5);

/// One change of one path.
#[derive(Debug, Clone)]
enum TestedOp {
    /// A file with this content and mode is there, with the directories above it.
    Put(OsString, Vec<u8>, u32),
    /// A link to this path is there.
    Link(OsString, &'static str),
    /// Nothing is there.
    Remove(OsString),
}

impl TestedOp {
    fn path(&self) -> &OsStr {
        let (Self::Put(path, ..) | Self::Link(path, _) | Self::Remove(path)) = self;
        path
    }

    /// What it leaves.
    fn after(&self) -> PathState {
        match self {
            Self::Put(_, content, mode) => PathState::file(content, *mode),
            Self::Link(_, target) => PathState::Link(PathBuf::from(target)),
            Self::Remove(_) => PathState::Absent,
        }
    }
}

fn put(path: &str, content: &str) -> TestedOp {
    TestedOp::Put(path.into(), content.into(), 0o644)
}

fn link(path: &str, target: &'static str) -> TestedOp {
    TestedOp::Link(path.into(), target)
}

fn remove(path: &str) -> TestedOp {
    TestedOp::Remove(path.into())
}

/// A tree and its checkpoints.
struct Bench {
    tree: Tree,
    checkpoints: Checkpoints,
}

impl Bench {
    fn new() -> Self {
        Self::with(CheckpointSettings::default())
    }

    fn with(settings: CheckpointSettings) -> Self {
        let tree = Tree::new();
        let checkpoints = checkpoints(&tree, settings);
        Self { tree, checkpoints }
    }

    /// Where contents are stored.
    fn store(&self) -> PathBuf {
        self.tree.top.join("state/contents")
    }

    fn begin(&self, session: &str) -> CheckpointDraft {
        self.checkpoints.begin(mark(session))
    }

    /// Makes a call of a session that does all of this.
    fn call(&self, session: &str, deeds: &[TestedOp]) -> CheckpointId {
        let mut draft = self.begin(session);
        let paths = self.keep_all(&mut draft, deeds);
        let id = draft.record(LONG).unwrap();
        deeds.iter().for_each(|deed| do_it(&self.tree.root, deed));
        self.settle_all(&mut draft, paths);
        id
    }

    /// Keeps everything that deeds will change, with the directories that they will create.
    fn keep_all(&self, draft: &mut CheckpointDraft, deeds: &[TestedOp]) -> BTreeSet<PathBuf> {
        let mut paths = BTreeSet::new();
        for deed in deeds {
            let path = self.tree.root.join(deed.path());
            for above in path.ancestors().skip(1).take_while(|above| *above != self.tree.root) {
                let is_directory = fs::symlink_metadata(above).is_ok_and(|meta| meta.is_dir());
                if !is_directory && paths.insert(above.to_owned()) {
                    keep(draft, above, Some(PathState::directory(0o755)));
                }
            }
            keep(draft, &path, Some(deed.after()));
            paths.insert(path);
        }
        paths
    }

    fn settle_all(&self, draft: &mut CheckpointDraft, paths: impl IntoIterator<Item = PathBuf>) {
        paths.into_iter().for_each(|path| draft.settle(&path, look(&path)));
    }

    fn plan(&self, id: CheckpointId, scope: Scope) -> Plan {
        let history = self.checkpoints.history(id, scope).unwrap();
        history.plan(|path| Ok::<_, std::convert::Infallible>(look(path))).unwrap()
    }

    /// Restores the state before a checkpoint, with a checkpoint of its own.
    fn restore(&self, id: CheckpointId, scope: Scope, forced: bool) -> Option<CheckpointId> {
        let plan = self.plan(id, scope);
        assert_eq!(plan.refused(forced).collect::<Vec<_>>(), Vec::<&PlannedStep>::new());
        let paths: BTreeSet<PathBuf> = plan.changes().map(|step| step.path.clone()).collect();
        if paths.is_empty() {
            return None;
        }
        let mut draft = self.begin(&plan.session);
        paths.iter().for_each(|path| keep(&mut draft, path, None));
        let own = draft.record(LONG).unwrap();
        for step in plan.changes() {
            self.carry_out(step);
        }
        self.settle_all(&mut draft, paths);
        Some(own)
    }

    fn carry_out(&self, step: &PlannedStep) {
        let path = &step.path;
        match (step.act, &step.wanted) {
            (Act::Remove, _) => fs::remove_file(path).unwrap(),
            // Something may be in it.
            (Act::RemoveDirectory, _) => drop(fs::remove_dir(path)),
            (Act::MakeDirectory, PathState::Directory { mode }) => {
                fs::create_dir(path).unwrap();
                fs::set_permissions(path, fs::Permissions::from_mode(*mode)).unwrap();
            }
            (Act::SetMode, PathState::File { mode, .. }) => {
                fs::set_permissions(path, fs::Permissions::from_mode(*mode)).unwrap();
            }
            (Act::Write, PathState::File { mode, .. }) => {
                let content = self.checkpoints.content(path, &step.wanted).unwrap();
                replace(path, &content.read_all().unwrap(), *mode);
            }
            (Act::MakeLink, PathState::Link(target)) => {
                drop(fs::remove_file(path));
                symlink(target, path).unwrap();
            }
            (act, wanted) => assert_eq!(act, Act::Nothing, "it cannot make {wanted:?}"),
        }
    }

    /// Everything beneath the root: what it is, with its mode, content or target.
    fn snapshot(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut all = BTreeMap::new();
        let mut left = vec![self.tree.root.clone()];
        while let Some(dir) = left.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let meta = fs::symlink_metadata(&path).unwrap();
                let content = match meta.file_type() {
                    kind if kind.is_symlink() => {
                        fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
                    }
                    kind if kind.is_dir() => {
                        left.push(path.clone());
                        Vec::new()
                    }
                    kind if kind.is_file() => fs::read(&path).unwrap(),
                    // A FIFO would wait.
                    _ => Vec::new(),
                };
                all.insert(path, (meta.permissions().mode(), content));
            }
        }
        all
    }

    /// The ids of a session, or of all, the newest first.
    fn ids(&self, session: Option<&str>) -> Vec<CheckpointId> {
        let query = Query { session, turn: None, id: None, before: None, limit: usize::MAX };
        self.checkpoints.list(&query).unwrap().into_iter().map(|listed| listed.id).collect()
    }

    /// How many files are in the store.
    fn n_stored(&self) -> usize {
        fs::read_dir(self.store()).map_or(0, Iterator::count)
    }
}

fn checkpoints(tree: &Tree, settings: CheckpointSettings) -> Checkpoints {
    let state = StateDir::open(&tree.top.join("state")).unwrap();
    Checkpoints::new(&state, settings)
}

fn mark(session: &str) -> CallContext {
    CallContext {
        session: session.to_owned(),
        agent: None,
        turn: Some(String::from("t1")),
        call_id: String::from("toolu_1"),
        dialect: String::from("native"),
        tool: String::from("Write"),
        roots: vec![PathBuf::from("/w"), PathBuf::from("/v")],
        restores: None,
    }
}

/// Keeps the state of a path.
fn keep(draft: &mut CheckpointDraft, path: &Path, after: Option<PathState>) {
    keep_it(draft, path, after).unwrap();
}

fn keep_it(
    draft: &mut CheckpointDraft,
    path: &Path,
    after: Option<PathState>,
) -> Result<PathState, CheckpointError> {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return draft.keep(path, Before::Absent, after);
    };
    if meta.is_symlink() {
        let target = fs::read_link(path).unwrap();
        return draft.keep(path, Before::Link(&target), after);
    }
    if meta.is_dir() {
        return draft.keep(path, Before::Directory(meta.permissions().mode()), after);
    }
    let file = fs::File::open(path).unwrap();
    draft.keep(path, Before::File(&file, &meta_of(&file)), after)
}

/// What the guard knows of an open file.
fn meta_of(file: &fs::File) -> FileMeta {
    use std::os::unix::fs::MetadataExt;

    let meta = file.metadata().unwrap();
    let stamp = |seconds, nanos| Stamp { seconds, nanos: u32::try_from(nanos).unwrap() };
    FileMeta {
        kind: if meta.is_file() { FileKind::File } else { FileKind::Special },
        identity: Identity {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: stamp(meta.mtime(), meta.mtime_nsec()),
            changed: stamp(meta.ctime(), meta.ctime_nsec()),
        },
        mode: meta.mode() & 0o7777,
        links: meta.nlink(),
    }
}

/// Returns the state of a path.
fn look(path: &Path) -> PathState {
    let Ok(meta) = fs::symlink_metadata(path) else { return PathState::Absent };
    let mode = meta.permissions().mode();
    match meta.file_type() {
        kind if kind.is_symlink() => PathState::Link(fs::read_link(path).unwrap()),
        kind if kind.is_dir() => PathState::directory(mode),
        kind if kind.is_file() => {
            let file = fs::File::open(path).unwrap();
            PathState::of_file(&file, &meta_of(&file)).unwrap()
        }
        _ => PathState::Special,
    }
}

/// Does a deed as a person would.
fn do_it(root: &Path, deed: &TestedOp) {
    let path = root.join(deed.path());
    match deed {
        TestedOp::Put(_, content, mode) => {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            replace(&path, content, *mode);
        }
        TestedOp::Link(_, target) => {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            drop(fs::remove_file(&path));
            symlink(target, &path).unwrap();
        }
        TestedOp::Remove(_) => fs::remove_file(&path).unwrap(),
    }
}

/// Puts a new file in the place of a file, a link or nothing.
fn replace(path: &Path, content: &[u8], mode: u32) {
    let temporary = path.with_file_name("being-written");
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(&temporary).unwrap();
    std::io::Write::write_all(&mut file, content).unwrap();
    file.set_permissions(fs::Permissions::from_mode(mode)).unwrap();
    fs::rename(&temporary, path).unwrap();
}
