//! The files of a memory world, as one call sees them.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustix::fs::{MemfdFlags, memfd_create};
use sinew_tool::sync::lock;
use sinew_tool::{
    Access, Becomes, Change, Clock, CommitError, ContentHash, Expect, FileError, FileKind,
    FileMeta, FileMode, FileOp, FileTarget, Files, Info, Links, Listed, Listing, Opened, Slot,
    Stamp, Targets, Visitors, WalkOptions, WalkReport, Written,
};

use super::{MemoryWorld, ROOT, walk};
use crate::tree::{Node, Place, Tree, What};

/// The files of one call.
pub(super) struct MemoryFiles {
    pub(super) world: MemoryWorld,
    pub(super) targets: Arc<Targets>,
    pub(super) may_change: bool,
    pub(super) changes: Mutex<Vec<Change>>,
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
        lock(&self.changes).extend(changes);
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
        deed: &FileOp<'_>,
        place: &Place,
    ) -> Result<Option<Written>, FileError> {
        let target = self.at(deed.slot)?;
        let is_made = match deed.becomes {
            Becomes::Directory { .. } => true,
            Becomes::NoDirectory => false,
            Becomes::SetAside | Becomes::BroughtBack(_) => {
                let problem = "no directory is set aside in memory";
                return Err(FileError::Denied(String::from(problem)));
            }
            Becomes::File { .. } | Becomes::Link(_) | Becomes::Nothing => return Ok(None),
        };
        let covers = (target.claim.access == Access::Remove) != is_made;
        if !self.may_change || !target.claim.access.changes() || !covers {
            return Err(FileError::Denied(String::from("the call did not ask for this change")));
        }
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
                let mode = match deed.becomes {
                    Becomes::Directory { mode: Some(mode) } => mode,
                    _ => 0o755,
                };
                tree.put(&target.path, What::Directory, mode, time);
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
        deed: &FileOp<'_>,
        place: &Place,
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
            Expect::Same(seen) => {
                identity == Some(seen.identity) && before.as_deref() == Some(seen.content)
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
            Becomes::Nothing
            | Becomes::Directory { .. }
            | Becomes::NoDirectory
            | Becomes::SetAside
            | Becomes::BroughtBack(_) => (None, 0),
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
pub(super) fn open(node: &Node) -> Result<File, FileError> {
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

pub(super) fn hash(content: &[u8]) -> ContentHash {
    ContentHash::from(*blake3::hash(content).as_bytes())
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
        let (path, before) = (old.path.clone(), hash);
        self.note([
            Change { path, before, after: None, bytes: 0 },
            Change { path: new.path.clone(), before: None, after: hash, bytes },
        ]);
        Ok(())
    }

    fn open(&self, slot: Slot) -> Result<Opened, FileError> {
        self.world.n_opened.fetch_add(1, Ordering::Relaxed);
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
        let place = self.world.place(&tree, &self.at(slot)?.claim)?;
        let deed = FileOp { slot, expect, becomes };
        let (written, change) = self.change(&mut tree, &deed, &place, None)?;
        self.world.knowledge.changed(&change);
        lock(&self.changes).push(change);
        Ok(written)
    }

    fn commit(&self, deeds: &[FileOp<'_>]) -> Result<Vec<Written>, CommitError> {
        let mut tree = self.world.tree();
        // What cannot be done as a whole is done on a copy that no test sees.
        let mut draft = tree.clone();
        // Directories are made before the other changes and removed after them.
        let turn = |deed: &FileOp<'_>| match deed.becomes {
            Becomes::Directory { .. } => 0,
            Becomes::File { .. } | Becomes::Link(_) | Becomes::Nothing => 1,
            Becomes::NoDirectory | Becomes::SetAside | Becomes::BroughtBack(_) => 2,
        };
        let place_of = |tree: &Tree, deed: &FileOp<'_>| {
            let place = self.at(deed.slot).and_then(|at| self.world.place(tree, &at.claim));
            place.map_err(|error| CommitError { slot: deed.slot, error })
        };
        let mut order: Vec<&FileOp<'_>> = deeds.iter().collect();
        order.sort_by_key(|deed| turn(deed));
        let (mut written, mut changes) = (Vec::new(), Vec::new());
        // Each change is checked against the tree before all of them.
        for deed in deeds.iter().filter(|deed| turn(deed) != 1) {
            let about = |error| CommitError { slot: deed.slot, error };
            let place = place_of(&tree, deed)?;
            self.change_directory(&mut tree.clone(), deed, &place).map_err(about)?;
        }
        for deed in deeds.iter().filter(|deed| turn(deed) == 1) {
            let about = |error| CommitError { slot: deed.slot, error };
            let place = place_of(&tree, deed)?;
            self.change(&mut tree.clone(), deed, &place, None).map_err(about)?;
            let path = &self.at(deed.slot).map_err(about)?.path;
            let above = |other: &&FileOp<'_>| {
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
            let place = place_of(&tree, deed)?;
            let made = self.change_directory(&mut draft, deed, &place).map_err(about)?;
            if let Some(Written { bytes, .. }) = made {
                let created = turn(deed) == 0 && tree.get(path).is_none();
                written.push((deed.slot, Written { bytes, created }));
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
            let (wrote, change) = self.change(&mut draft, deed, &place, like).map_err(about)?;
            written.push((deed.slot, wrote));
            changes.push(change);
        }
        *tree = draft;
        changes.iter().for_each(|change| self.world.knowledge.changed(change));
        lock(&self.changes).extend(changes);
        written.sort_by_key(|(slot, _)| deeds.iter().position(|deed| deed.slot == *slot));
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
        Ok(walk::run(&tree, &start, options, visitors, stop))
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
        lock(&self.changes).clone()
    }
}
