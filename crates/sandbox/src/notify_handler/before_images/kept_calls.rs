//! The calls that change names and files: what they change is kept first.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat, fstat, openat2, readlinkat,
    renameat_with, unlinkat,
};
use rustix::io::Errno;

use super::super::CallHandler;
use super::super::path::{Place, look, trimmed};
use super::{
    BeforeImages, MAX_COPIED, MAX_COPIED_FILE, MAX_MOVED, PERMISSIONS, before_of, has_writer,
    kind_of, n_links,
};
use crate::rebuilt_dirs;
use sinew_fs::stat::identity_of;
use sinew_fs::undo_log::{BeforeImage, UndoRecord, UnkeptReason};

impl CallHandler {
    /// Returns the images of the command, if changes of a path are kept.
    fn images(&self, real: &Path) -> Option<&BeforeImages> {
        self.recording(real).filter(|images| !self.is_rebuilt(images, real))
    }

    /// Returns the images of the command, if a path is in a root, or sinew opened it for the command.
    fn recording(&self, real: &Path) -> Option<&BeforeImages> {
        let images = self.images.as_ref()?;
        let is_kept = self.judge.is_beneath_a_root(real) || images.is_handed_out(real);
        (images.is_used() && is_kept).then_some(images)
    }

    /// Returns whether a path is in a directory that tools make anew; the first time, the log says so.
    fn is_rebuilt(&self, images: &BeforeImages, real: &Path) -> bool {
        let roots = self.means.roots.iter().filter(|root| real.starts_with(&root.path));
        let Some(root) = roots.max_by_key(|root| root.path.as_os_str().len()) else { return false };
        let Some(dir) = rebuilt_dirs::named(&root.path, real) else { return false };
        // A file may have the name of such a directory, and so may what the command moved there.
        let is_there = |path: &Path| {
            rustix::fs::lstat(path).is_ok_and(|stat| kind_of(&stat) == FileType::Directory)
        };
        if dir == real && !is_there(real)
            || images.moved.borrow().iter().any(|to| dir.starts_with(to))
        {
            return false;
        }
        let since = (self.means.began, self.means.tracked.as_slice());
        let (is_one, is_first) = images.rebuilt.borrow_mut().has(&root.path, &dir, since);
        if is_one && images.is_unasked && rebuilt_dirs::may_hold_own_files(&dir) {
            // Nothing asked the user, so what can be kept of it is.
            images.kept_in_part.borrow_mut().insert(dir);
            return false;
        }
        if is_one && is_first {
            images.append(&[UndoRecord::Rebuilt(dir)]);
        }
        is_one
    }

    /// Returns whether the real path of a regular file is that of a before-image. A command can hold one open, and open it
    /// again by its fd. Beyond the mount of its root the kernel names it `/`.
    pub(in crate::notify_handler) fn is_before_image(&self, real: &Path) -> bool {
        let images = self.images.as_ref();
        images.is_some_and(|images| real == Path::new("/") || real.starts_with(&images.above))
    }

    /// Makes something where nothing is.
    pub(in crate::notify_handler) fn making<T>(
        &self,
        real: &Path,
        deed: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match self.images(real) {
            Some(images) => images.carry_out(vec![UndoRecord::Made(real.to_owned())], deed),
            None => deed(),
        }
    }

    /// Opens a file for writing, or replaces its content.
    pub(in crate::notify_handler) fn writing<T>(
        &self,
        real: &Path,
        found: &OwnedFd,
        deed: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let Some(images) = self.recording(real) else { return deed() };
        let stat = fstat(found)?;
        if kind_of(&stat) != FileType::RegularFile || stat.st_nlink == 0 {
            return deed();
        }
        // Another name of the file may be kept.
        if stat.st_nlink == 1 && self.is_rebuilt(images, real) {
            return deed();
        }
        let inode = identity_of(&stat).of_file();
        let must_keep = images.must_keep(real)
            || 1 < n_links(&stat) && images.origins.borrow().linked(inode).is_some();
        if !must_keep {
            return deed();
        }
        images.carry_out(vec![images.copied(real, || Ok(found), &stat)], deed)
    }

    /// Changes the mode of a file or directory.
    pub(in crate::notify_handler) fn changing_mode<T>(
        &self,
        real: &Path,
        target: &OwnedFd,
        deed: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let Some(images) = self.recording(real) else { return deed() };
        let stat = fstat(target)?;
        let inode = identity_of(&stat).of_file();
        let has_one_name = stat.st_nlink == 1 || kind_of(&stat) != FileType::RegularFile;
        if stat.st_nlink == 0
            || has_one_name && self.is_rebuilt(images, real)
            || images.origins.borrow().has_mode(real, inode)
        {
            return deed();
        }
        let (mode, inode) = images.first_mode(&stat);
        images.carry_out(vec![UndoRecord::Mode(real.to_owned(), mode, inode)], deed)
    }

    /// Gives a file a second name.
    pub(in crate::notify_handler) fn linking<T>(
        &self,
        source: &Path,
        target: &OwnedFd,
        real: &Path,
        deed: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let source_images = self.images(source);
        let Some(images) = self.images(real).or(source_images) else { return deed() };
        if self.recording(real).is_none() {
            return deed();
        }
        let stat = fstat(target)?;
        let is_old = kind_of(&stat) == FileType::RegularFile
            && stat.st_nlink != 0
            && source_images.is_some();
        let record = match is_old {
            true => {
                let inode = identity_of(&stat).of_file();
                UndoRecord::Linked(source.to_owned(), real.to_owned(), inode)
            }
            false => UndoRecord::Made(real.to_owned()),
        };
        images.carry_out(vec![record], deed)
    }

    /// Returns the directory of a place as sinew sees it.
    fn outside(&self, images: &BeforeImages, place: &Place, real: &Path) -> Option<Arc<OwnedFd>> {
        let id = identity_of(&fstat(&place.dir).ok()?).of_file();
        let mut last = images.last_dir.borrow_mut();
        if last.as_ref().is_none_or(|(known, _)| *known != id) {
            let above = real.parent()?;
            let roots = self.means.roots.iter().filter(|root| above.starts_with(&root.path));
            let root = roots.max_by_key(|root| root.path.as_os_str().len())?;
            let rest = above.strip_prefix(&root.path).ok()?;
            let rest = if rest == Path::new("") { Path::new(".") } else { rest };
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            let dir = openat2(&root.dir, rest, flags, Mode::empty(), resolve).ok()?;
            // It may have been moved, or another one is mounted there.
            if identity_of(&fstat(&dir).ok()?).of_file() != id {
                return None;
            }
            *last = Some((id, Arc::new(dir)));
        }
        last.as_ref().map(|(_, dir)| Arc::clone(dir))
    }

    /// Returns the records of a path that is removed or replaced, and the number of its before-image if it is to be
    /// moved there.
    fn going(
        &self,
        images: &BeforeImages,
        place: &Place,
        real: &Path,
        stat: &Stat,
        may_move: bool,
    ) -> (Vec<UndoRecord>, Option<(u64, Arc<OwnedFd>)>) {
        if !images.must_keep(real) {
            return (Vec::new(), None);
        }
        let record = match kind_of(stat) {
            FileType::RegularFile => {
                let size = u64::try_from(stat.st_size).unwrap_or(0);
                // What another name of it was kept with is its old content.
                let is_known = images.inodes.borrow().contains_key(&identity_of(stat).of_file());
                let can_move = may_move
                    && size != 0
                    && stat.st_nlink == 1
                    && !is_known
                    && images.n_moved.get().saturating_add(size) <= MAX_MOVED
                    && images.has_room(real, size)
                    && !has_writer(place);
                let outside = if can_move { self.outside(images, place, real) } else { None };
                if let Some(outside) = outside {
                    let number = images.next_image();
                    let image = BeforeImage::Moved(number);
                    let record = UndoRecord::File(real.to_owned(), before_of(stat), image);
                    return (vec![record], Some((number, outside)));
                }
                images.copied(real, || look(place.dir.as_fd(), &place.name), stat)
            }
            FileType::Symlink => {
                let target = readlinkat(&place.dir, trimmed(&place.name), Vec::new());
                let target = target.map(|target| target.to_bytes().to_owned()).unwrap_or_default();
                UndoRecord::Link(real.to_owned(), PathBuf::from(OsStr::from_bytes(&target)))
            }
            FileType::Directory => {
                UndoRecord::Directory(real.to_owned(), stat.st_mode & PERMISSIONS)
            }
            _ => UndoRecord::Special(real.to_owned()),
        };
        (vec![record], None)
    }

    /// Removes a name.
    pub(in crate::notify_handler) fn removing(
        &self,
        place: &Place,
        real: &Path,
        flags: AtFlags,
    ) -> Result<(), Errno> {
        let plain = || unlinkat(&place.dir, &*place.name, flags);
        let Some(images) = self.images(real) else { return plain() };
        let found = images.found(look(place.dir.as_fd(), &place.name))?;
        let Some(found) = found else { return plain() };
        let stat = fstat(&found)?;
        drop(found);
        let is_dir = kind_of(&stat) == FileType::Directory;
        if is_dir != flags.contains(AtFlags::REMOVEDIR) || place.must_be_dir() && !is_dir {
            return plain();
        }
        let (records, moves) = self.going(images, place, real, &stat, true);
        let Some((number, outside)) = moves else { return images.carry_out(records, plain) };
        let moved =
            images.carry_out(records, || images.take(&outside, (place, real), &stat, number));
        match moved {
            // It can be neither moved nor copied.
            Err(Errno::XDEV) => {
                let image = BeforeImage::Lost(UnkeptReason::Large);
                let record = UndoRecord::File(real.to_owned(), before_of(&stat), image);
                images.carry_out(vec![record], plain)
            }
            other => other,
        }
    }

    /// Renames, and keeps the replaced entry.
    pub(in crate::notify_handler) fn renaming(
        &self,
        (old, old_real): (&Place, &Path),
        (new, new_real): (&Place, &Path),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let plain = || renameat_with(&old.dir, &*old.name, &new.dir, &*new.name, flags);
        let (from, to) = (self.images(old_real), self.images(new_real));
        let Some(images) = from.or(to) else { return plain() };
        let stat = fstat(&look(old.dir.as_fd(), &old.name)?)?;
        let is_dir = kind_of(&stat) == FileType::Directory;
        let there =
            images.found(look(new.dir.as_fd(), &new.name).and_then(|found| fstat(&found)))?;
        if from.is_none() || to.is_none() {
            // The entries of a directory would come or leave unseen. The caller copies it, name by name, except for a
            // directory that tools make anew, which stays where it is after an undo.
            let comes_rebuilt = is_dir && to.is_some() && self.recording(old_real).is_some();
            if is_dir && !comes_rebuilt || flags.contains(RenameFlags::EXCHANGE) {
                return Err(Errno::XDEV);
            }
        }
        let inode = identity_of(&stat).of_file();
        if flags.contains(RenameFlags::EXCHANGE) {
            let takes_dir =
                there.as_ref().is_some_and(|there| kind_of(there) == FileType::Directory);
            let (one, other) = (old_real.to_owned(), new_real.to_owned());
            let record = UndoRecord::Exchanged(one, other, (is_dir, takes_dir), inode);
            return images.carry_out(vec![record], plain);
        }
        // What leaves the roots is copied.
        let (mut records, _) = match (from, to) {
            (Some(_), None) => self.going(images, old, old_real, &stat, false),
            _ => (Vec::new(), None),
        };
        let is_replaced = there.as_ref().filter(|there| {
            to.is_some()
                && !flags.contains(RenameFlags::NOREPLACE)
                && identity_of(there).of_file() != identity_of(&stat).of_file()
                && is_dir == (kind_of(there) == FileType::Directory)
        });
        let moves_name = match (from, to) {
            (Some(_), Some(_)) => {
                UndoRecord::Moved(old_real.to_owned(), new_real.to_owned(), is_dir, inode)
            }
            (_, Some(_)) if is_dir => UndoRecord::Came(new_real.to_owned()),
            (_, Some(_)) => UndoRecord::Made(new_real.to_owned()),
            _ => return images.carry_out(records, plain),
        };
        let Some(there) = is_replaced else {
            let same = there
                .as_ref()
                .is_some_and(|there| identity_of(there).of_file() == identity_of(&stat).of_file());
            if same || there.is_some() {
                // It does nothing, or fails.
                return plain();
            }
            records.push(moves_name);
            return images.carry_out(records, plain);
        };
        // The replaced file has the old name for a moment, where a program outside may look for one that is judged.
        let may_move = from.is_some()
            && (flags - RenameFlags::NOREPLACE).is_empty()
            && self.is_plain(old_real)
            && self.outside(images, old, old_real).is_some();
        let (replaced, moves) = self.going(images, new, new_real, there, may_move);
        records.extend(replaced);
        records.push(moves_name);
        let Some((number, _)) = moves else { return images.carry_out(records, plain) };
        images.carry_out(records, || {
            self.exchanging((old, old_real), (new, new_real), there, (images, number), plain)
        })
    }

    /// Renames a file over another one, which it moves to an image: first they change places.
    fn exchanging(
        &self,
        (old, old_real): (&Place, &Path),
        (new, new_real): (&Place, &Path),
        there: &Stat,
        (images, number): (&BeforeImages, u64),
        plain: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let (from, to) = (trimmed(&old.name), trimmed(&new.name));
        let outside = self.outside(images, old, old_real);
        let exchange = || renameat_with(&old.dir, from, &new.dir, to, RenameFlags::EXCHANGE);
        let Some(outside) = outside else {
            return self.copy_aside(new, new_real, there, (images, number)).and_then(|()| plain());
        };
        match exchange() {
            Ok(()) => {}
            // The file system cannot.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                return self
                    .copy_aside(new, new_real, there, (images, number))
                    .and_then(|()| plain());
            }
            Err(errno) => return Err(errno),
        }
        match images.take(&outside, (old, new_real), there, number) {
            Ok(()) => Ok(()),
            // Too large to be copied, and on another file system.
            Err(_)
                if let Err(errno) = images.refuse(
                    new_real,
                    UnkeptReason::Large,
                    u64::try_from(there.st_size).ok(),
                ) =>
            {
                exchange().and(Err(errno))
            }
            Err(_) => unlinkat(&old.dir, from, AtFlags::empty()).inspect_err(|_| {
                let _ = exchange();
            }),
        }
    }

    /// Copies the replaced file to an image. One that is too large is lost, or fails if all must be kept.
    fn copy_aside(
        &self,
        place: &Place,
        real: &Path,
        stat: &Stat,
        (images, number): (&BeforeImages, u64),
    ) -> Result<(), Errno> {
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if MAX_COPIED_FILE < size
            || MAX_COPIED < images.n_copied.get() + size
            || !images.has_room(real, size)
        {
            return images.refuse(real, UnkeptReason::Large, Some(size));
        }
        let file = look(place.dir.as_fd(), &place.name)?;
        match images.try_copy(&file, number, size) {
            Ok(()) => images.add_copied(real, size),
            Err(_) => return images.refuse(real, UnkeptReason::Failed, Some(size)),
        }
        Ok(())
    }

    /// Puts a file of the supervisor's own at a name.
    pub(in crate::notify_handler) fn putting<T>(
        &self,
        place: &Place,
        real: &Path,
        deed: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let Some(images) = self.images(real) else { return deed() };
        let Some(found) = images.found(look(place.dir.as_fd(), &place.name))? else {
            return self.making(real, deed);
        };
        let stat = fstat(&found)?;
        let (records, _) = self.going(images, place, real, &stat, false);
        images.carry_out(records, deed)
    }
}
