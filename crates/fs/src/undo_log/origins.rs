//! Tracks where the old contents of paths are while a command moves, replaces and removes them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::{BeforeImage, FileBefore, Inode, UndoRecord};

/// The state of a path before the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OldState {
    /// Nothing.
    Nothing,
    /// A regular file, with its content.
    File(FileBefore, BeforeImage),
    /// A symlink with this target.
    Link(PathBuf),
    /// A directory with this mode.
    Directory(u32),
    /// A FIFO, socket or device.
    Special,
    /// The content that is now at this path; its mode may differ.
    At(PathBuf),
}

/// The state of a path now.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CurrentState {
    /// Nothing that was there before the command.
    New,
    /// The content that was at this path before.
    From(PathBuf),
}

/// The old states of the paths that a command changed, and where the old contents are that it moved.
#[derive(Debug, Default)]
pub struct Origins {
    old: BTreeMap<PathBuf, OldState>,
    modes: HashMap<PathBuf, u32>,
    now: BTreeMap<PathBuf, CurrentState>,
    /// Paths whose directory was replaced since they changed.
    earlier: BTreeSet<PathBuf>,
    /// Directories that moved with their content: the path now, and the one before, if anything was there
    /// before. A path that a directory left has none. The last of two with the same path counts.
    moved: Vec<(PathBuf, Option<PathBuf>)>,
    /// Inodes of old files that got another name, with the paths of the files.
    linked: HashMap<Inode, PathBuf>,
    is_full: bool,
}

impl Origins {
    /// Returns the path before the command of the content that is at a path now; `None` if it was made since.
    pub fn origin(&self, path: &Path) -> Option<PathBuf> {
        match self.now.get(path) {
            Some(CurrentState::New) => return None,
            Some(CurrentState::From(origin)) => return Some(origin.clone()),
            None => {}
        }
        let holds = |(now, _): &&(PathBuf, Option<PathBuf>)| path.starts_with(now);
        let innermost =
            self.moved.iter().filter(holds).max_by_key(|(now, _)| now.as_os_str().len());
        match innermost {
            Some((now, before)) => beneath(before.as_deref()?, path, now),
            None => Some(path.to_owned()),
        }
    }

    /// Returns whether the content of a path existed before the command and is not kept yet.
    pub fn must_keep(&self, path: &Path) -> bool {
        self.origin(path).is_some_and(|origin| !self.old.contains_key(&origin))
    }

    /// Returns the path before the command of an old file that is not kept yet, by another name that it got since.
    pub fn linked(&self, inode: Inode) -> Option<&Path> {
        let origin = self.linked.get(&inode)?;
        (!self.old.contains_key(origin)).then_some(origin)
    }

    /// Returns whether the mode of an old path is kept, by the path or by its inode now.
    pub fn has_mode(&self, path: &Path, inode: Inode) -> bool {
        let origin = self.origin(path).or_else(|| self.linked.get(&inode).cloned());
        origin
            .is_none_or(|origin| self.modes.contains_key(&origin) || self.old.contains_key(&origin))
    }

    /// Returns the number of paths.
    pub fn n_paths(&self) -> usize {
        self.now.len().max(self.old.len())
    }

    /// Returns whether the command changed more than was recorded.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Adds what a change did.
    pub fn add(&mut self, record: UndoRecord) {
        match record {
            UndoRecord::Made(path) => self.leaves(path, OldState::Nothing),
            UndoRecord::File(path, before, image) => {
                // The name that it got since is not the one that it had.
                match self.linked(before.inode).map(Path::to_owned) {
                    Some(origin) if self.now.get(&path) == Some(&CurrentState::New) => {
                        self.old.entry(origin).or_insert(OldState::File(before, image));
                    }
                    _ => self.leaves(path, OldState::File(before, image)),
                }
            }
            UndoRecord::Link(path, target) => self.leaves(path, OldState::Link(target)),
            UndoRecord::Directory(path, mode) => self.leaves(path, OldState::Directory(mode)),
            UndoRecord::Special(path) => self.leaves(path, OldState::Special),
            UndoRecord::Mode(path, mode, inode) => {
                let origin = self.origin(&path).or_else(|| self.linked.get(&inode).cloned());
                if let Some(origin) = origin {
                    self.modes.entry(origin).or_insert(mode);
                }
            }
            UndoRecord::Moved(from, to, is_dir, _) => self.moves(&from, &to, is_dir),
            UndoRecord::Exchanged(one, other, (is_dir, other_is_dir), _) => {
                // No path has this name.
                let aside = Path::new("\0");
                self.moves(&one, aside, is_dir);
                self.moves(&other, &one, other_is_dir);
                self.moves(aside, &other, is_dir);
                self.now.retain(|path, _| !path.starts_with(aside));
                self.moved.retain(|(path, _)| !path.starts_with(aside));
            }
            UndoRecord::Linked(from, to, inode) => {
                if let Some(origin) = self.origin(&from) {
                    self.linked.entry(inode).or_insert(origin);
                }
                self.leaves(to, OldState::Nothing);
            }
            UndoRecord::Full => self.is_full = true,
            UndoRecord::Rebuilt(_) => {}
            UndoRecord::Came(path) => {
                self.leaves(path.clone(), OldState::Nothing);
                self.moved.push((path, None));
            }
        }
    }

    /// Notes that a path lost its content, of this old state.
    fn leaves(&mut self, path: PathBuf, old: OldState) {
        if let Some(origin) = self.origin(&path) {
            self.old.entry(origin).or_insert(old);
        }
        self.now.insert(path, CurrentState::New);
    }

    fn moves(&mut self, from: &Path, to: &Path, is_dir: bool) {
        let origin = self.origin(from);
        if is_dir {
            // Nothing is left of a directory that was there.
            let replaced = beneath_of(&self.now, to);
            replaced.iter().for_each(|path| drop(self.now.remove(path)));
            self.earlier.extend(replaced);
            self.moved.retain(|(path, _)| !path.starts_with(to));
            self.moves_along(from, to);
            self.moved.retain(|(path, _)| path != from && path != to);
            self.moved.push((from.to_owned(), None));
            self.moved.push((to.to_owned(), origin.clone()));
        }
        self.now.insert(from.to_owned(), CurrentState::New);
        self.now.insert(to.to_owned(), origin.map_or(CurrentState::New, CurrentState::From));
    }

    /// Moves the known states beneath a directory. The old names stay known as empty.
    fn moves_along(&mut self, from: &Path, to: &Path) {
        for path in beneath_of(&self.now, from) {
            if let Some(moved) = beneath(to, &path, from)
                && let Some(now) = self.now.insert(path, CurrentState::New)
            {
                self.now.insert(moved, now);
            }
        }
        for (now, _) in &mut self.moved {
            if let Some(moved) = beneath(to, now, from) {
                *now = moved;
            }
        }
    }

    /// Returns the old state of each path that changed, and the old modes of those whose mode did. `list` returns
    /// all that is beneath a directory now.
    pub fn into_old(
        mut self,
        mut list: impl FnMut(&Path) -> Vec<PathBuf>,
    ) -> (BTreeMap<PathBuf, OldState>, HashMap<PathBuf, u32>) {
        let mut stayed: Vec<(PathBuf, PathBuf)> = Vec::new();
        for (path, now) in &self.now {
            if let CurrentState::From(origin) = now
                && origin != path
            {
                stayed.push((origin.clone(), path.clone()));
            }
        }
        for (now, before) in &self.moved {
            for path in before.iter().flat_map(|_| list(now)) {
                // A path that was made there, or moved there by itself, is known.
                if !self.now.contains_key(&path)
                    && let Some(origin) = self.origin(&path).filter(|origin| *origin != path)
                {
                    stayed.push((origin, path));
                }
            }
        }
        for (origin, path) in &stayed {
            self.old.entry(origin.clone()).or_insert_with(|| OldState::At(path.clone()));
        }
        let taken = stayed.into_iter().map(|(_, path)| (path, CurrentState::New));
        let earlier = self.earlier.into_iter().map(|path| (path, CurrentState::New));
        for (path, now) in self.now.into_iter().chain(taken).chain(earlier) {
            // What moved away and came back is as it was.
            let is_back = now == CurrentState::From(path.clone());
            let old = if is_back { OldState::At(path.clone()) } else { OldState::Nothing };
            self.old.entry(path).or_insert(old);
        }
        for origin in self.modes.keys() {
            self.old.entry(origin.clone()).or_insert_with(|| OldState::At(origin.clone()));
        }
        (self.old, self.modes)
    }
}

/// Returns the known paths beneath a directory.
fn beneath_of(known: &BTreeMap<PathBuf, CurrentState>, dir: &Path) -> Vec<PathBuf> {
    let known = known.range(dir.to_owned()..).map(|(path, _)| path);
    let known = known.take_while(|path| path.starts_with(dir)).filter(|path| *path != dir);
    known.cloned().collect()
}

/// Returns the same path beneath another directory.
fn beneath(to: &Path, path: &Path, from: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix(from).ok()?;
    Some(if rest == Path::new("") { to.to_owned() } else { to.join(rest) })
}

#[cfg(test)]
mod tests;
