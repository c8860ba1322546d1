//! The states before and after a command of the paths that it changed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, readlinkat,
    statat,
};
use rustix::io::Errno;
use sinew_fs::roots::{DIRECTORY_READ, FILE_READ};
use sinew_fs::undo_log::{
    self, BeforeImage, FileBefore, OldState, UndoGroups, UndoRecord, is_git_object,
};
use sinew_tool::CommandChanges;

use super::super::contents::{Held, Kept};
use super::super::path_state::hash_of;
use super::super::{CheckpointError, PathState, SharedCheckpoints};
use crate::database::PATIENT;

/// The most bytes that are copied of what a command moved or whose mode it changed.
const MAX_COPIED: u64 = 256 << 20;
/// The most paths in a directory that moved.
const MAX_LISTED: usize = 50_000;
/// The most paths that a reply names.
const MAX_NAMED: usize = 5;
/// The file of git that says what was fetched last: it does not belong to the state of a repository.
const FETCH_HEAD: &str = "FETCH_HEAD";

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

/// The paths that a command changed, with a look at what it left there.
pub(super) struct ChangedPaths<'a> {
    shared: &'a SharedCheckpoints,
    /// The directory of the before-images.
    images: &'a OwnedFd,
    /// Blocks collections.
    held: Held,
    roots: Vec<Root>,
    /// The bytes that the store got.
    pub(super) n_new: u64,
    n_copied: u64,
    /// Inodes of files with several names, with their first mode, and their content once it is known.
    inodes: HashMap<u64, (Option<u32>, Option<PathState>)>,
    pub(super) changes: &'a mut CommandChanges,
}

/// What is at a path: its state, and the open file if it is a regular one.
struct Look {
    state: PathState,
    file: Option<(File, u64)>,
}

impl<'a> ChangedPaths<'a> {
    /// Gets ready to look at what a command changed in these roots.
    pub(super) fn of(
        shared: &'a SharedCheckpoints,
        images: &'a OwnedFd,
        roots: &[PathBuf],
        changes: &'a mut CommandChanges,
    ) -> Result<Self, CheckpointError> {
        let held = shared.contents.hold(PATIENT)?;
        let roots = roots.iter().filter_map(|path| Root::open(path)).collect();
        let inodes = HashMap::new();
        Ok(Self { shared, images, held, roots, n_new: 0, n_copied: 0, inodes, changes })
    }

    /// Notes the inodes of files with several names that changed.
    pub(super) fn share<'r>(&mut self, records: impl Iterator<Item = &'r UndoRecord>) {
        for record in records {
            match record {
                UndoRecord::File(_, before, _) if 1 < before.n_links => {
                    self.inodes.entry(before.inode).or_default();
                }
                UndoRecord::Mode(_, mode, inode) if *inode != 0 => {
                    self.inodes.entry(*inode).or_default().0.get_or_insert(*mode);
                }
                _ => {}
            }
        }
    }

    /// Leaves out the last change if it did not happen.
    pub(super) fn happened(&self, mut groups: UndoGroups) -> UndoGroups {
        let is_missing = |record: &UndoRecord| match record {
            UndoRecord::File(_, _, BeforeImage::Moved(number)) => !self.has_image(*number),
            UndoRecord::Moved(_, to, _, inode) => self.inode(to) != Some(*inode),
            _ => false,
        };
        if groups.last().is_some_and(|last| last.iter().any(is_missing)) {
            groups.pop();
        }
        groups
    }

    fn has_image(&self, number: u64) -> bool {
        let name = undo_log::image_name(number);
        statat(self.images, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Opens what is at a path, without following a symlink on the way.
    fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let roots = self.roots.iter().filter(|root| path.starts_with(&root.path));
        let root = roots.max_by_key(|root| root.path.as_os_str().len()).ok_or(Errno::NOENT)?;
        let rest = path.strip_prefix(&root.path).map_err(|_| Errno::NOENT)?;
        let rest = if rest == Path::new("") { Path::new(".") } else { rest };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        openat2(&root.dir, rest, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
    }

    /// Opens the name itself, which may be a symlink.
    fn hold(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let above = self.open(path.parent().unwrap_or(path), OFlags::PATH | OFlags::DIRECTORY)?;
        let name = path.file_name().ok_or(Errno::NOENT)?;
        openat(&above, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
    }

    fn inode(&self, path: &Path) -> Option<u64> {
        Some(fstat(self.hold(path).ok()?).ok()?.st_ino)
    }

    /// Returns all that is beneath a directory.
    pub(super) fn list(&self, dir: &Path) -> Vec<PathBuf> {
        let mut all = Vec::new();
        let mut next = vec![dir.to_owned()];
        while let Some(dir) = next.pop() {
            let Ok(open) = self.open(&dir, DIRECTORY_READ).and_then(Dir::new) else { continue };
            for entry in open.filter_map(Result::ok) {
                let name = entry.file_name().to_bytes();
                if matches!(name, b"." | b"..") || MAX_LISTED <= all.len() {
                    continue;
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

    /// Returns what is at a path now.
    fn look(&self, path: &Path) -> Look {
        let plain = |state| Look { state, file: None };
        let held = match self.hold(path) {
            Ok(held) => held,
            Err(_) => return plain(PathState::Absent),
        };
        let Ok(stat) = fstat(&held) else { return plain(PathState::Absent) };
        let mode = stat.st_mode;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => plain(PathState::directory(mode)),
            FileType::Symlink => match readlinkat(&held, "", Vec::new()) {
                Ok(target) => {
                    let target = OsStr::from_bytes(target.to_bytes());
                    plain(PathState::Link(PathBuf::from(target)))
                }
                Err(_) => plain(PathState::Special),
            },
            FileType::RegularFile => {
                let size = u64::try_from(stat.st_size).unwrap_or(0);
                let unkept = || plain(PathState::unkept(size, mode));
                if self.shared.settings.max_file_bytes < size {
                    return unkept();
                }
                let file = match self.open(path, FILE_READ) {
                    Ok(file) => File::from(file),
                    Err(_) => return unkept(),
                };
                match hash_of(&file, size) {
                    Ok(content) => Look {
                        state: PathState::hashed(content, size, mode),
                        file: Some((file, size)),
                    },
                    Err(_) => unkept(),
                }
            }
            _ => plain(PathState::Special),
        }
    }

    /// Returns the states before and after of all paths that differ.
    pub(super) fn entries(
        &mut self,
        old: BTreeMap<PathBuf, OldState>,
        modes: &HashMap<PathBuf, u32>,
    ) -> Result<BTreeMap<PathBuf, (PathState, PathState)>, CheckpointError> {
        let mut entries = BTreeMap::new();
        // Before what moved: another name of the same file may say what it was.
        let (moved, old): (BTreeMap<_, _>, BTreeMap<_, _>) =
            old.into_iter().partition(|(_, old)| matches!(old, OldState::At(_)));
        let named: HashSet<PathBuf> = old.keys().chain(moved.keys()).cloned().collect();
        for (path, old) in old.into_iter().chain(moved) {
            let is_forgotten = old == OldState::Nothing && is_git_object(&path)
                || path.file_name().is_some_and(|name| name == FETCH_HEAD);
            if is_forgotten || !self.roots.iter().any(|root| path.starts_with(&root.path)) {
                continue;
            }
            let after = self.look(&path).state;
            let Some(before) = self.before(&path, old, modes.get(&path).copied(), &after)? else {
                continue;
            };
            if before != after {
                self.count(&path, &before, &after);
                entries.insert(path, (before, after));
            }
        }
        for path in self.other_names(&named) {
            let after = self.look(&path).state;
            let inode = self.inode(&path).and_then(|inode| self.inodes.get(&inode));
            let before = match (inode, &after) {
                (Some((_, Some(state))), _) => state.clone(),
                (Some((Some(mode), None)), PathState::File { .. }) => {
                    self.content_at(&path, Some(*mode))?
                }
                _ => continue,
            };
            if before != after {
                self.count(&path, &before, &after);
                entries.insert(path, (before, after));
            }
        }
        Ok(entries)
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

    fn count(&mut self, path: &Path, before: &PathState, after: &PathState) {
        let is_dir = |state: &PathState| matches!(state, PathState::Directory { .. });
        let is_there = |state: &PathState| *state != PathState::Absent && !is_dir(state);
        match (is_there(before), is_there(after)) {
            (false, true) => self.changes.n_made += 1,
            (true, false) => self.changes.n_removed += 1,
            (true, true) => self.changes.n_changed += 1,
            (false, false) => {}
        }
        if matches!(before, PathState::Unkept { .. } | PathState::Special) {
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
        after: &PathState,
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
                (Some(mode), PathState::File { .. }) => self.content_at(&at, Some(mode))?,
                (Some(mode), PathState::Directory { .. }) => PathState::directory(mode),
                _ => return Ok(None),
            },
            OldState::At(at)
                if self.inode(&at).is_some_and(|inode| self.content_of(inode).is_some()) =>
            {
                let state = self.inode(&at).and_then(|inode| self.content_of(inode));
                return Ok(state.cloned());
            }
            OldState::At(at) => match self.content_at(&at, mode)? {
                PathState::Absent => return Ok(None),
                state => state,
            },
        }))
    }

    /// Returns the content of a file with several names before the command, if it changed.
    fn content_of(&self, inode: u64) -> Option<&PathState> {
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
        let name = CString::new(undo_log::image_name(number)).unwrap_or_default();
        match self.held.adopt(self.images, &name) {
            Ok((kept, size)) => Ok(self.kept(kept, size, mode)),
            Err(_) if !self.has_image(number) => Ok(PathState::unkept(before.size, mode)),
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

    /// Keeps the content of what is at a path now, as the state of another path or with another mode.
    fn content_at(&mut self, at: &Path, mode: Option<u32>) -> Result<PathState, CheckpointError> {
        let Look { state, file } = self.look(at);
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
        let kept = self.held.keep(&file, size).map_err(|failure| failure.about(at))?;
        Ok(self.kept(kept, size, mode))
    }
}
