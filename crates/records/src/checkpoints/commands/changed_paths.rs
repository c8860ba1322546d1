//! The states before and after a command of the paths that it changed.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2,
    readlinkat, renameat, statat,
};
use rustix::io::Errno;
use sinew_fs::git_index::is_index;
use sinew_fs::roots::{DIRECTORY_READ, FILE_READ};
use sinew_fs::stat::identity_of;
use sinew_fs::undo_log::{
    self, BeforeImage, FileBefore, Inode, OldState, UndoGroups, UndoRecord, is_git_object,
};
use sinew_tool::{CommandChanges, ContentHash};

use super::super::contents::{Failure, Held, Kept, errno_of};
use super::super::path_state::hash_of;
use super::super::{CheckpointError, PathState, SharedCheckpoints};
use crate::database::PATIENT;

/// The most bytes that are copied of what a command moved or whose mode it changed.
const MAX_COPIED: u64 = 256 << 20;
/// The most bytes of what a command left that are hashed. Of the rest, size and mode tell whether it changed.
const MAX_HASHED: u64 = 4 << 30;
/// How much later than its log a command may still write, in seconds.
const SLACK_S: i64 = 1;
/// The most paths in a directory that moved.
const MAX_LISTED: usize = 50_000;
/// The most paths that a reply names.
const MAX_NAMED: usize = 5;
/// The log of the before-images that are in the store.
pub(super) const ADOPTED: &str = "adopted";
/// The file of git that names the last fetched commits: it does not belong to the state of a repository.
const FETCH_HEAD: &str = ".git/FETCH_HEAD";

/// A root, for looks at what a command left.
struct Root {
    path: PathBuf,
    dir: OwnedFd,
}

impl Root {
    fn open(path: &Path) -> Option<Self> {
        let dir = openat(CWD, path, DIRECTORY_READ, Mode::empty()).ok()?;
        Some(Self { path: path.to_owned(), dir })
    }
}

/// The identity of the entry at a path, which every change of it changes: inode, size, and times of change in
/// nanoseconds.
type Stamp = (u64, i64, i64, u64, i64, u64);

fn stamp_of(stat: &Stat) -> Stamp {
    let (at, ns, changed, changed_ns) =
        (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec);
    (stat.st_ino, stat.st_size, at, ns, changed, changed_ns)
}

/// The states before and after of each path that differs; `None` if another change followed.
pub(super) type Entries = BTreeMap<PathBuf, (PathState, Option<PathState>)>;

/// The paths that a command changed, with a look at what it left there.
pub(super) struct ChangedPaths {
    shared: Arc<SharedCheckpoints>,
    /// The directory of the before-images.
    images: OwnedFd,
    /// The before-images that are in the store already.
    adopted: HashMap<u64, (ContentHash, u64)>,
    /// The log of these, which holds after a death too.
    adopted_log: File,
    /// Blocks collections.
    held: Held,
    roots: Vec<Root>,
    /// The bytes that the store got, and the most that it may get.
    pub(super) n_new: u64,
    n_room: u64,
    n_copied: u64,
    /// Inodes of files with several names, with their first mode, and their content once it is known.
    inodes: HashMap<Inode, (Option<u32>, Option<PathState>)>,
    /// What the command left at each path, if the states are worked out later.
    left: Option<HashMap<PathBuf, Option<Stamp>>>,
    /// The time in seconds from which on changes are those of others, if the end of the command was not seen.
    until: Option<i64>,
    is_cut: Cell<bool>,
    n_hashed: Cell<u64>,
    /// The directory that was opened last.
    last_dir: RefCell<Option<(PathBuf, OwnedFd)>>,
    pub(super) changes: CommandChanges,
}

/// The state of a path, and the open file if it is a regular one.
struct Look {
    state: PathState,
    file: Option<(File, u64)>,
    stamp: Option<Stamp>,
}

impl ChangedPaths {
    /// Gets ready to look at what a command changed in these directories.
    pub(super) fn of<'p>(
        shared: &Arc<SharedCheckpoints>,
        dir: &Path,
        roots: impl Iterator<Item = &'p PathBuf>,
        changes: CommandChanges,
    ) -> Result<Self, CheckpointError> {
        let held = shared.contents.hold(PATIENT)?;
        let roots = roots.filter_map(|path| Root::open(path)).collect();
        let images = openat(CWD, dir, DIRECTORY_READ, Mode::empty());
        let images = images.map_err(CheckpointError::of_store)?;
        let mut options = File::options();
        options.read(true).append(true).create(true);
        let mut adopted_log = options.open(dir.join(ADOPTED)).map_err(super::unusable)?;
        let mut text = String::new();
        adopted_log.read_to_string(&mut text).map_err(super::unusable)?;
        Ok(Self {
            shared: Arc::clone(shared),
            images,
            adopted: text.lines().filter_map(adopted).collect(),
            adopted_log,
            held,
            roots,
            n_new: 0,
            n_room: shared.room_of_command(),
            n_copied: 0,
            inodes: HashMap::new(),
            left: None,
            until: None,
            is_cut: Cell::default(),
            n_hashed: Cell::default(),
            last_dir: RefCell::default(),
            changes,
        })
    }

    /// Notes the inodes of files with several names that changed, and directories that are not recorded.
    pub(super) fn share<'r>(&mut self, records: impl Iterator<Item = &'r UndoRecord>) {
        for record in records {
            match record {
                UndoRecord::File(_, before, _) if 1 < before.n_links => {
                    self.inodes.entry(before.inode).or_default();
                }
                UndoRecord::Rebuilt(dir) => self.changes.rebuilt.push(dir.clone()),
                UndoRecord::Mode(_, mode, inode) if *inode != (0, 0) => {
                    self.inodes.entry(*inode).or_default().0.get_or_insert(*mode);
                }
                _ => {}
            }
        }
    }

    /// Leaves out the last change if it did not happen, and finishes it if it was half done.
    pub(super) fn finish_last(&self, groups: &mut UndoGroups) {
        let Some(last) = groups.last() else { return };
        let moved = last.iter().find_map(|record| match record {
            UndoRecord::Moved(from, to, _, inode) => Some((from, to, *inode)),
            _ => None,
        });
        let happened = last.iter().all(|record| match record {
            UndoRecord::Moved(from, _, _, inode) => self.inode(from) != Some(*inode),
            UndoRecord::Exchanged(one, _, _, inode) => self.inode(one) != Some(*inode),
            UndoRecord::File(path, before, BeforeImage::Moved(number))
                if !self.has_image(*number) =>
            {
                // It was replaced: the old file has the other name for a moment.
                let half =
                    moved.filter(|(_, to, inode)| *to == path && self.inode(to) == Some(*inode));
                match half {
                    Some((from, ..)) if self.inode(from) == Some(before.inode) => {
                        self.take(from, *number).is_ok()
                    }
                    _ => self.inode(path) != Some(before.inode),
                }
            }
            _ => true,
        });
        if !happened {
            groups.pop();
        }
    }

    /// Moves a file to a before-image.
    fn take(&self, path: &Path, number: u64) -> Result<(), Errno> {
        let image = undo_log::image_name(number);
        self.in_directory(path, |dir, name| {
            let dir = openat(dir, ".", DIRECTORY_READ, Mode::empty())?;
            renameat(&dir, name, &self.images, image)
        })
    }

    /// Notes when the log was written last. Changes that are later than that may be those of others.
    pub(super) fn written_until(&mut self, log: &Stat) {
        self.until = Some(log.st_mtime.saturating_add(SLACK_S));
    }

    /// Returns whether a directory had more names than were read.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.get()
    }

    fn has_image(&self, number: u64) -> bool {
        let name = undo_log::image_name(number);
        self.adopted.contains_key(&number)
            || statat(&self.images, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Opens the entry at a path, without following a symlink on the way.
    fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let roots = self.roots.iter().filter(|root| path.starts_with(&root.path));
        let root = roots.max_by_key(|root| root.path.as_os_str().len()).ok_or(Errno::NOENT)?;
        let rest = path.strip_prefix(&root.path).map_err(|_| Errno::NOENT)?;
        let rest = if rest == Path::new("") { Path::new(".") } else { rest };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        openat2(&root.dir, rest, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
    }

    /// Opens a name in its directory without following it.
    fn open_name(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.in_directory(path, |dir, name| {
            openat(dir, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
        })
    }

    /// Returns the status of the entry at a name.
    fn stat(&self, path: &Path) -> Result<Stat, Errno> {
        self.in_directory(path, |dir, name| statat(dir, name, AtFlags::SYMLINK_NOFOLLOW))
    }

    /// Looks at a name in its directory, which the next look may need too.
    fn in_directory<T>(
        &self,
        path: &Path,
        look: impl FnOnce(&OwnedFd, &OsStr) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let (above, name) = (path.parent().unwrap_or(path), path.file_name().ok_or(Errno::NOENT)?);
        let mut last = self.last_dir.borrow_mut();
        if last.as_ref().is_none_or(|(known, _)| known != above) {
            *last = Some((above.to_owned(), self.open(above, OFlags::PATH | OFlags::DIRECTORY)?));
        }
        let (_, dir) = last.as_ref().ok_or(Errno::NOENT)?;
        look(dir, name)
    }

    fn inode(&self, path: &Path) -> Option<Inode> {
        Some(identity_of(&self.stat(path).ok()?).of_file())
    }

    /// Returns all that is beneath a directory.
    pub(super) fn list(&self, dir: &Path) -> Vec<PathBuf> {
        let mut all = Vec::new();
        let mut next = vec![dir.to_owned()];
        while let Some(dir) = next.pop() {
            let Ok(open) = self.open(&dir, DIRECTORY_READ).and_then(Dir::new) else { continue };
            for entry in open.filter_map(Result::ok) {
                let name = entry.file_name().to_bytes();
                if matches!(name, b"." | b"..") {
                    continue;
                }
                if MAX_LISTED <= all.len() {
                    self.is_cut.set(true);
                    return all;
                }
                let path = dir.join(OsStr::from_bytes(name));
                if entry.file_type() == FileType::Directory {
                    next.push(path.clone());
                }
                all.push(path);
            }
        }
        all
    }

    /// Returns the state of a path now.
    fn look(&self, path: &Path) -> Look {
        let nothing = || Look { state: PathState::Absent, file: None, stamp: None };
        let Ok(stat) = self.stat(path) else { return nothing() };
        let (mode, stamp) = (stat.st_mode, Some(stamp_of(&stat)));
        let plain = |state| Look { state, file: None, stamp };
        match FileType::from_raw_mode(mode) {
            FileType::Directory => plain(PathState::directory(mode)),
            FileType::Symlink => {
                match self.in_directory(path, |dir, name| readlinkat(dir, name, Vec::new())) {
                    Ok(target) => {
                        let target = OsStr::from_bytes(target.to_bytes());
                        plain(PathState::Link(PathBuf::from(target)))
                    }
                    Err(_) => plain(PathState::Special),
                }
            }
            FileType::RegularFile => {
                let size = u64::try_from(stat.st_size).unwrap_or(0);
                let unkept = || plain(PathState::unkept(size, mode));
                let n_hashed = self.n_hashed.get().saturating_add(size);
                if self.shared.settings.max_file_bytes < size || MAX_HASHED < n_hashed {
                    return unkept();
                }
                self.n_hashed.set(n_hashed);
                let file = match self.open_name(path, FILE_READ) {
                    Ok(file) => File::from(file),
                    Err(_) => return unkept(),
                };
                // The opened file may be another one by now.
                let stamp = fstat(&file).ok().map(|stat| stamp_of(&stat));
                match hash_of(&file, size) {
                    Ok(content) => Look {
                        state: PathState::hashed(content, size, mode),
                        file: Some((file, size)),
                        stamp,
                    },
                    Err(_) => unkept(),
                }
            }
            _ => plain(PathState::Special),
        }
    }

    /// Returns whether a path has no entry.
    fn is_forgotten(&self, path: &Path, old: &OldState) -> bool {
        *old == OldState::Nothing && is_git_object(path)
            || path.ends_with(FETCH_HEAD)
            || !self.roots.iter().any(|root| path.starts_with(&root.path))
    }

    /// Counts the changed files and notes what the command left, so that the states can be worked out later.
    pub(super) fn outline(&mut self, old: &BTreeMap<PathBuf, OldState>) {
        let mut left = HashMap::with_capacity(old.len());
        for (path, state) in old {
            let stat = |path: &Path| self.stat(path).ok();
            let now = stat(path);
            left.insert(path.clone(), now.as_ref().map(stamp_of));
            if self.is_forgotten(path, state) {
                continue;
            }
            let is_file =
                |stat: &Stat| FileType::from_raw_mode(stat.st_mode) != FileType::Directory;
            let was_there = match state {
                OldState::Nothing | OldState::Directory(_) => false,
                OldState::File(..) | OldState::Link(_) | OldState::Special => true,
                OldState::At(at) => stat(at).as_ref().is_some_and(is_file),
            };
            let is_lost = match state {
                OldState::File(_, image) => matches!(image, BeforeImage::Lost(_)),
                other => *other == OldState::Special,
            };
            self.count(path, was_there, now.as_ref().is_some_and(is_file), is_lost);
        }
        self.left = Some(left);
    }

    /// Returns the state that the command left at a path; `None` if another change followed.
    fn after(&self, path: &Path) -> Option<PathState> {
        let Look { state, stamp, .. } = self.look(path);
        let left = self.left.as_ref().and_then(|left| left.get(path));
        let is_late =
            |(_, _, _, _, changed, _): Stamp| self.until.is_some_and(|until| until < changed);
        let is_its_own = left.is_none_or(|left| *left == stamp) && !stamp.is_some_and(is_late);
        is_its_own.then_some(state)
    }

    /// Returns the states before and after of all paths that differ.
    pub(super) fn entries(
        &mut self,
        old: BTreeMap<PathBuf, OldState>,
        modes: &HashMap<PathBuf, u32>,
    ) -> Result<Entries, CheckpointError> {
        let mut entries = BTreeMap::new();
        // Whether a directory that tools make anew was there before the command.
        let mut was_there: HashMap<PathBuf, bool> = HashMap::new();
        // Before what moved: another name of the same file may say what it was.
        let (moved, old): (BTreeMap<_, _>, BTreeMap<_, _>) =
            old.into_iter().partition(|(_, old)| matches!(old, OldState::At(_)));
        let named: HashSet<PathBuf> = old.keys().chain(moved.keys()).cloned().collect();
        for (path, old) in old.into_iter().chain(moved) {
            if self.is_forgotten(&path, &old) {
                continue;
            }
            let is_rebuilt = self.changes.rebuilt.contains(&path);
            if is_rebuilt {
                // An old entry that is no directory was no such directory, and comes back.
                let was_directory = match &old {
                    OldState::Nothing => Some(false),
                    OldState::Directory(_) => Some(true),
                    OldState::At(at) => self.is_directory(at).then_some(true),
                    OldState::File(..) | OldState::Link(_) | OldState::Special => None,
                };
                if let Some(was_directory) = was_directory {
                    was_there.insert(path, was_directory);
                    continue;
                }
            }
            // The current content may differ from the one that the command found, since changes in such a directory are
            // not recorded.
            let is_beneath = |dir: &PathBuf| path != *dir && path.starts_with(dir);
            if matches!(old, OldState::At(_)) && self.changes.rebuilt.iter().any(is_beneath) {
                continue;
            }
            let after = match is_rebuilt && self.is_directory(&path) {
                true => Some(PathState::Rebuilt),
                false => self.after(&path),
            };
            if is_index(&path) && after.is_some() {
                // A later look of git writes it anew, so a restore compares what both mean.
                self.content_at(&path, None)?;
            }
            let mode = modes.get(&path).copied();
            if let Some(before) = self.before(&path, old, mode, after.as_ref())? {
                self.add(&mut entries, path, before, after);
            }
        }
        for path in self.other_names(&named) {
            let after = self.after(&path);
            let inode = self.inode(&path).and_then(|inode| self.inodes.get(&inode));
            let before = match (inode, &after) {
                (Some((_, Some(state))), _) => state.clone(),
                (Some((Some(mode), None)), Some(PathState::File { .. })) => {
                    self.content_at(&path, Some(*mode))?
                }
                _ => continue,
            };
            self.add(&mut entries, path, before, after);
        }
        // A command that changed nothing else has no checkpoint: an undo would take it for the last change.
        let dirs = if entries.is_empty() { Vec::new() } else { self.changes.rebuilt.clone() };
        for dir in dirs {
            let was_there = was_there.get(&dir).copied().unwrap_or(true);
            let before = if was_there { PathState::Rebuilt } else { PathState::Absent };
            let is_there = self.is_directory(&dir);
            let after = if is_there { PathState::Rebuilt } else { PathState::Absent };
            if was_there || is_there {
                entries.entry(dir).or_insert((before, Some(after)));
            }
        }
        Ok(entries)
    }

    fn is_directory(&self, path: &Path) -> bool {
        let is_one = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        self.stat(path).is_ok_and(is_one)
    }

    fn add(
        &mut self,
        entries: &mut Entries,
        path: PathBuf,
        before: PathState,
        after: Option<PathState>,
    ) {
        if after.as_ref() == Some(&before) {
            return;
        }
        // An outline has counted it.
        if self.left.is_none() {
            let is_there = |state: &PathState| {
                !matches!(state, PathState::Absent | PathState::Directory { .. })
            };
            let is_lost = matches!(before, PathState::Unkept { .. } | PathState::Special);
            let is_left = after.as_ref().is_some_and(is_there);
            self.count(&path, is_there(&before), is_left, is_lost);
        }
        entries.insert(path, (before, after));
    }

    /// Returns the other names of files with several names that changed.
    fn other_names(&self, named: &HashSet<PathBuf>) -> Vec<PathBuf> {
        if self.inodes.is_empty() {
            return Vec::new();
        }
        let all = self.roots.iter().flat_map(|root| self.list(&root.path));
        let is_one = |path: &PathBuf| {
            !named.contains(path)
                && self.inode(path).is_some_and(|inode| self.inodes.contains_key(&inode))
        };
        all.filter(is_one).collect()
    }

    fn count(&mut self, path: &Path, was_there: bool, is_there: bool, is_lost: bool) {
        match (was_there, is_there) {
            _ if path.iter().any(|name| name == ".git") => self.changes.n_git += 1,
            (false, true) => self.changes.n_made += 1,
            (true, false) => self.changes.n_removed += 1,
            (true, true) => self.changes.n_changed += 1,
            (false, false) => {}
        }
        if is_lost {
            self.changes.n_not_kept += 1;
            if self.changes.not_kept.len() < MAX_NAMED {
                self.changes.not_kept.push(path.to_owned());
            }
        }
    }

    /// Returns the state of a path before the command, with its content kept; `None` if it is unknown.
    fn before(
        &mut self,
        path: &Path,
        old: OldState,
        mode: Option<u32>,
        after: Option<&PathState>,
    ) -> Result<Option<PathState>, CheckpointError> {
        Ok(Some(match old {
            OldState::Nothing => PathState::Absent,
            OldState::Link(target) => PathState::Link(target),
            OldState::Directory(now) => PathState::directory(mode.unwrap_or(now)),
            OldState::Special => PathState::Special,
            OldState::File(before, image) => {
                let mode = mode.unwrap_or(before.mode);
                let state = self.image(path, before, image, mode)?;
                if let Some((_, known)) = self.inodes.get_mut(&before.inode) {
                    known.get_or_insert_with(|| state.clone());
                }
                state
            }
            OldState::At(at) if at == path => match (mode, after) {
                (Some(mode), Some(PathState::File { .. })) => self.content_at(&at, Some(mode))?,
                (Some(mode), Some(PathState::Directory { .. })) => PathState::directory(mode),
                _ => return Ok(None),
            },
            OldState::At(at)
                if self.inode(&at).is_some_and(|inode| self.content_of(inode).is_some()) =>
            {
                let state = self.inode(&at).and_then(|inode| self.content_of(inode));
                return Ok(state.cloned());
            }
            OldState::At(at) => {
                // A look that costs another read, where others may have changed it since the command ended.
                let may_be_later = self.left.is_some() || self.until.is_some();
                let is_later = may_be_later && self.after(&at).is_none();
                match self.content_at(&at, mode)? {
                    PathState::Absent => return Ok(None),
                    PathState::File { size, mode, .. } if is_later => PathState::unkept(size, mode),
                    state => state,
                }
            }
        }))
    }

    /// Returns the content of a file with several names before the command, if it changed.
    fn content_of(&self, inode: Inode) -> Option<&PathState> {
        self.inodes.get(&inode)?.1.as_ref()
    }

    /// Returns the state of a file whose content a before-image has.
    fn image(
        &mut self,
        path: &Path,
        before: FileBefore,
        image: BeforeImage,
        mode: u32,
    ) -> Result<PathState, CheckpointError> {
        let number = match image {
            BeforeImage::Empty => return self.empty(mode),
            BeforeImage::Lost(_) => return Ok(PathState::unkept(before.size, mode)),
            BeforeImage::Moved(number) | BeforeImage::Copied(number) => number,
        };
        if let Some((content, size)) = self.adopted.get(&number) {
            return Ok(PathState::hashed(*content, *size, mode));
        }
        if self.n_room < self.n_new.saturating_add(before.size) {
            return Ok(PathState::unkept(before.size, mode));
        }
        let name = CString::new(undo_log::image_name(number)).unwrap_or_default();
        let mut log = &self.adopted_log;
        let note = |content: ContentHash, size: u64| {
            let line = format!("{number} {content} {size}\n");
            log.write_all(line.as_bytes()).map_err(|error| Failure::Store(errno_of(error)))
        };
        match self.held.adopt(&self.images, &name, note) {
            // A copy that was not finished.
            Ok((_, size)) if size != before.size => Ok(PathState::unkept(before.size, mode)),
            Ok((kept, size)) => {
                self.adopted.insert(number, (kept.content, size));
                Ok(self.kept(kept, size, mode))
            }
            Err(_) if !self.has_image(number) => Ok(PathState::unkept(before.size, mode)),
            // The others are kept all the same.
            Err(Failure::Changed | Failure::Unreadable(_)) => {
                Ok(PathState::unkept(before.size, mode))
            }
            Err(failure) => Err(failure.about(path)),
        }
    }

    fn kept(&mut self, kept: Kept, size: u64, mode: u32) -> PathState {
        self.n_new += kept.n_new;
        PathState::hashed(kept.content, size, mode)
    }

    fn empty(&mut self, mode: u32) -> Result<PathState, CheckpointError> {
        let nothing = File::open("/dev/null").map_err(super::unusable)?;
        let kept = self.held.keep(&nothing, 0).map_err(|failure| failure.about(Path::new("")))?;
        Ok(self.kept(kept, 0, mode))
    }

    /// Keeps the current content of a path, as the state of another path or with another mode.
    fn content_at(&mut self, at: &Path, mode: Option<u32>) -> Result<PathState, CheckpointError> {
        let Look { state, file, .. } = self.look(at);
        let now = match &state {
            PathState::File { mode, .. } | PathState::Directory { mode } => *mode,
            _ => 0,
        };
        let mode = mode.unwrap_or(now);
        let Some((file, size)) = file else {
            return Ok(match state {
                PathState::Directory { .. } => PathState::directory(mode),
                PathState::Unkept { size, .. } => PathState::unkept(size, mode),
                other => other,
            });
        };
        if MAX_COPIED < self.n_copied + size {
            return Ok(PathState::unkept(size, mode));
        }
        self.n_copied += size;
        match self.held.keep(&file, size) {
            Ok(kept) => Ok(self.kept(kept, size, mode)),
            Err(Failure::Changed | Failure::Unreadable(_)) => Ok(PathState::unkept(size, mode)),
            Err(failure) => Err(failure.about(at)),
        }
    }
}

/// Parses a line of the log of adopted before-images.
pub(super) fn adopted(line: &str) -> Option<(u64, (ContentHash, u64))> {
    let mut words = line.split(' ');
    let number = words.next()?.parse().ok()?;
    let content = ContentHash::from_hex(words.next()?.as_bytes())?;
    Some((number, (content, words.next()?.parse().ok()?)))
}
