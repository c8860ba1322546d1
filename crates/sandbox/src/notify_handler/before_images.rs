//! Keeps the old states of paths that a command changes (undo logging), so that a restore brings them back.
//!
//! Before each change the handler appends the old state to the undo log of the command. It moves the content of a removed
//! file to the directory of before-images, and copies that of a file that is opened for writing. The move needs directory
//! fds of the host's mounts: from the bind mounts of the sandbox it would fail with `EXDEV`.
//!
//! A path is kept once: files that the command itself made need no image.

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RenameFlags, ResolveFlags, Stat,
    copy_file_range, flock, fstat, ftruncate, ioctl_ficlone, openat, openat2, readlinkat, renameat,
    renameat_with, unlinkat,
};
use rustix::io::Errno;
use rustix::process::umask;

use super::CallHandler;
use super::path::{self, Place, look, trimmed};
use crate::rebuilt_dirs::{self, RebuiltDirs};
use crate::spawn;
use sinew_fs::stat::identity_of;
use sinew_fs::undo_log::{self, BeforeImage, FileBefore, Origins, UndoRecord, UnkeptReason};

/// The most paths of one command that are kept.
const MAX_PATHS: usize = 50_000;
/// The most bytes of a log.
const MAX_LOGGED: usize = 128 * 1024 * 1024;
/// The most bytes of one file that are copied, and of all files of one command.
const MAX_COPIED_FILE: u64 = 64 * 1024 * 1024;
const MAX_COPIED: u64 = 256 * 1024 * 1024;
/// The most bytes of one command that are moved.
const MAX_MOVED: u64 = 2 * 1024 * 1024 * 1024;
/// The permission bits of a mode.
const PERMISSIONS: u32 = 0o7777;

/// A root as sinew sees it, beside its real path.
#[derive(Debug)]
pub(crate) struct RootOutside {
    pub(crate) path: PathBuf,
    pub(crate) dir: OwnedFd,
}

/// The identity of a directory, and the directory as sinew sees it.
type KnownDir = ((u64, u64), Arc<OwnedFd>);

/// What was kept of a file with several names.
#[derive(Clone, Copy, Default)]
struct KeptInode {
    content: Option<(FileBefore, BeforeImage)>,
    mode: Option<u32>,
}

/// The before-images of one command.
pub(super) struct BeforeImages {
    dir: OwnedFd,
    log: File,
    origins: RefCell<Origins>,
    /// The real path of the directory that holds those of all commands.
    above: PathBuf,
    n_logged: Cell<usize>,
    n_images: Cell<u64>,
    n_copied: Cell<u64>,
    n_moved: Cell<u64>,
    /// What was kept of files with several names, by device and inode: another name has the same old content and mode.
    inodes: RefCell<HashMap<(u64, u64), KeptInode>>,
    /// The directory that was changed last, as sinew sees it, by its identity.
    last_dir: RefCell<Option<KnownDir>>,
    /// Whether no more is kept, since too much was changed or the log cannot be written.
    is_full: Cell<bool>,
    rebuilt: RefCell<RebuiltDirs>,
    /// The directories that the command moved, by their new paths.
    moved: RefCell<Vec<PathBuf>>,
    /// Whether the log has all, which the supervisor reports.
    has_all: Arc<AtomicBool>,
}

impl BeforeImages {
    pub(super) fn new(dir: OwnedFd, log: OwnedFd, has_all: &Arc<AtomicBool>) -> Self {
        // A lock of its own shows that the command still runs, if sinew dies.
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC;
        let own = openat(CWD, path::by_number(&log), flags, Mode::empty());
        let own =
            own.and_then(|own| flock(&own, FlockOperation::NonBlockingLockShared).map(|()| own));
        has_all.store(own.is_ok(), Ordering::Release);
        let is_full = Cell::new(own.is_err());
        let above = path::real_path(dir.as_fd()).unwrap_or_default();
        let above = above.parent().map(Path::to_owned).unwrap_or_default();
        Self {
            dir,
            log: own.unwrap_or(log).into(),
            origins: RefCell::default(),
            above,
            n_logged: Cell::default(),
            n_images: Cell::default(),
            n_copied: Cell::default(),
            n_moved: Cell::default(),
            inodes: RefCell::default(),
            last_dir: RefCell::default(),
            is_full,
            rebuilt: RefCell::default(),
            moved: RefCell::default(),
            has_all: Arc::clone(has_all),
        }
    }

    /// Appends records to the log.
    fn append(&self, records: &[UndoRecord]) -> bool {
        let mut bytes = Vec::new();
        undo_log::append(records, &mut bytes);
        self.write(&bytes)
    }

    fn write(&self, bytes: &[u8]) -> bool {
        self.n_logged.set(self.n_logged.get() + bytes.len());
        let written = (&self.log).write_all(bytes);
        if written.is_err() {
            self.has_all.store(false, Ordering::Release);
            self.is_full.set(true);
        }
        written.is_ok()
    }

    /// Does what the records say, once they are in the log.
    fn carry_out<T>(
        &self,
        records: Vec<UndoRecord>,
        deed: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if records.is_empty() || self.is_full.get() || !self.append(&records) {
            return deed();
        }
        let done = deed();
        if done.is_err() {
            let mut bytes = Vec::new();
            undo_log::append_failed(&mut bytes);
            self.write(&bytes);
            return done;
        }
        for record in &records {
            match record {
                UndoRecord::Moved(_, to, true, _) => self.moved.borrow_mut().push(to.clone()),
                UndoRecord::Exchanged(one, other, (is_dir, takes_dir), _) => {
                    let dirs = [(is_dir, other), (takes_dir, one)].into_iter();
                    let dirs = dirs.filter(|(is_dir, _)| **is_dir).map(|(_, to)| to.clone());
                    self.moved.borrow_mut().extend(dirs);
                }
                _ => {}
            }
        }
        let mut origins = self.origins.borrow_mut();
        records.into_iter().for_each(|record| origins.add(record));
        if MAX_PATHS <= origins.n_paths() || MAX_LOGGED <= self.n_logged.get() {
            self.append(&[UndoRecord::Full]);
            self.is_full.set(true);
        }
        done
    }

    fn must_keep(&self, real: &Path) -> bool {
        !self.is_full.get() && self.origins.borrow().must_keep(real)
    }

    fn next_image(&self) -> u64 {
        self.n_images.set(self.n_images.get() + 1);
        self.n_images.get()
    }

    /// Copies a file, and returns where it is kept.
    fn copy(&self, file: &OwnedFd, stat: &Stat) -> BeforeImage {
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if size == 0 {
            return BeforeImage::Empty;
        }
        if MAX_COPIED_FILE < size {
            return BeforeImage::Lost(UnkeptReason::Large);
        }
        if MAX_COPIED < self.n_copied.get() + size {
            return BeforeImage::Lost(UnkeptReason::Budget);
        }
        let number = self.next_image();
        match self.try_copy(file, number, size) {
            Ok(()) => {
                self.n_copied.set(self.n_copied.get() + size);
                BeforeImage::Copied(number)
            }
            Err(_) => BeforeImage::Lost(UnkeptReason::Failed),
        }
    }

    /// Returns the record of a file whose content is copied, or was by another of its names.
    fn copied<T: Borrow<OwnedFd>>(
        &self,
        real: &Path,
        file: impl FnOnce() -> Result<T, Errno>,
        stat: &Stat,
    ) -> UndoRecord {
        let new = || match file() {
            Ok(file) => self.copy(file.borrow(), stat),
            Err(_) => BeforeImage::Lost(UnkeptReason::Failed),
        };
        let key = identity_of(stat).of_file();
        if stat.st_nlink == 1 && !self.inodes.borrow().contains_key(&key) {
            return UndoRecord::File(real.to_owned(), before_of(stat), new());
        }
        let known = self.inodes.borrow().get(&key).copied().unwrap_or_default();
        let (mut before, image) = known.content.unwrap_or_else(|| (before_of(stat), new()));
        before.mode = known.mode.unwrap_or(before.mode);
        let known = KeptInode { content: Some((before, image)), mode: Some(before.mode) };
        self.inodes.borrow_mut().insert(key, known);
        UndoRecord::File(real.to_owned(), before, image)
    }

    /// Returns the mode of a file before the command, and its inode if it has several names.
    fn first_mode(&self, stat: &Stat) -> (u32, (u64, u64)) {
        let mode = stat.st_mode & PERMISSIONS;
        if stat.st_nlink == 1 || kind_of(stat) == FileType::Directory {
            return (mode, (0, 0));
        }
        let mut inodes = self.inodes.borrow_mut();
        let known = inodes.entry(identity_of(stat).of_file()).or_default();
        (*known.mode.get_or_insert(mode), identity_of(stat).of_file())
    }

    /// Copies this many bytes of a file: another process may append to it. A failure leaves no image.
    fn try_copy(&self, file: &OwnedFd, number: u64, size: u64) -> Result<(), Errno> {
        self.copy_to(file, number, size).inspect_err(|_| {
            let _ = unlinkat(&self.dir, undo_log::image_name(number), AtFlags::empty());
        })
    }

    fn copy_to(&self, file: &OwnedFd, number: u64, size: u64) -> Result<(), Errno> {
        let readable = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(CWD, path::by_number(file), readable, Mode::empty())?;
        let mask = umask(Mode::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let image = openat(&self.dir, undo_log::image_name(number), flags, mode);
        umask(mask);
        let image = image?;
        if ioctl_ficlone(&image, &file).is_ok() {
            return Ok(());
        }
        let mut n_copied = 0_u64;
        while n_copied < size {
            let n_left = usize::try_from(size - n_copied).unwrap_or(usize::MAX);
            match copy_file_range(&file, None, &image, None, n_left) {
                Ok(0) => break,
                Ok(n) => n_copied += n as u64,
                Err(Errno::INTR) => {}
                Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
                    if n_copied == 0 =>
                {
                    return read_and_write(&file, &image, size);
                }
                Err(errno) => return Err(errno),
            }
        }
        ftruncate(&image, n_copied)
    }

    /// Moves what is at a name to an image. Copies what cannot be moved.
    fn take(
        &self,
        outside: &OwnedFd,
        place: &Place,
        stat: &Stat,
        number: u64,
    ) -> Result<(), Errno> {
        let name = trimmed(&place.name);
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if renameat(outside, name, &self.dir, undo_log::image_name(number)).is_ok() {
            self.n_moved.set(self.n_moved.get() + size);
            return Ok(());
        }
        let file = look(place.dir.as_fd(), name)?;
        if MAX_COPIED_FILE < size || MAX_COPIED < self.n_copied.get() + size {
            return Err(Errno::XDEV);
        }
        self.try_copy(&file, number, size).map_err(|_| Errno::XDEV)?;
        self.n_copied.set(self.n_copied.get() + size);
        unlinkat(&place.dir, name, AtFlags::empty())
    }
}

fn read_and_write(file: &OwnedFd, image: &OwnedFd, size: u64) -> Result<(), Errno> {
    let mut buffer = vec![0; 128 * 1024];
    let mut n_left = size;
    loop {
        let n = rustix::io::retry_on_intr(|| rustix::io::read(file, &mut buffer))?;
        let n = n.min(usize::try_from(n_left).unwrap_or(usize::MAX));
        n_left -= n as u64;
        let mut rest = buffer.get(..n).unwrap_or_default();
        if rest.is_empty() {
            return Ok(());
        }
        while !rest.is_empty() {
            let n = rustix::io::retry_on_intr(|| rustix::io::write(image, rest))?;
            rest = rest.get(n..).unwrap_or_default();
        }
    }
}

fn kind_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn before_of(stat: &Stat) -> FileBefore {
    FileBefore {
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: stat.st_mode & PERMISSIONS,
        inode: identity_of(stat).of_file(),
        n_links: n_links(stat),
    }
}

#[expect(clippy::useless_conversion, reason = "its type differs among processors")]
fn n_links(stat: &Stat) -> u64 {
    stat.st_nlink.into()
}

/// Returns whether a process has the file at a place open for writing, so that its content may still change.
fn has_writer(place: &Place) -> bool {
    let readable = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(&place.dir, trimmed(&place.name), readable, Mode::empty());
    file.is_ok_and(|file| !spawn::has_no_writer(&file))
}

impl CallHandler {
    /// Returns the images of the command, if what is at a path is kept.
    fn images(&self, real: &Path) -> Option<&BeforeImages> {
        self.recording(real).filter(|images| !self.is_rebuilt(images, real))
    }

    /// Returns the images of the command, if a path is in a root.
    fn recording(&self, real: &Path) -> Option<&BeforeImages> {
        let images = self.images.as_ref()?;
        (!images.is_full.get() && self.judge.is_beneath_a_root(real)).then_some(images)
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
        if is_one && is_first {
            images.append(&[UndoRecord::Rebuilt(dir)]);
        }
        is_one
    }

    /// Returns whether the real path of a regular file is that of a before-image. A command can hold one open, and open it
    /// again by its fd. Beyond the mount of its root the kernel names it `/`.
    pub(super) fn is_before_image(&self, real: &Path) -> bool {
        let images = self.images.as_ref();
        images.is_some_and(|images| real == Path::new("/") || real.starts_with(&images.above))
    }

    /// Makes something where nothing is.
    pub(super) fn making<T>(
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
    pub(super) fn writing<T>(
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
    pub(super) fn changing_mode<T>(
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
    pub(super) fn linking<T>(
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
    pub(super) fn removing(&self, place: &Place, real: &Path, flags: AtFlags) -> Result<(), Errno> {
        let plain = || unlinkat(&place.dir, &*place.name, flags);
        let Some(images) = self.images(real) else { return plain() };
        let Ok(found) = look(place.dir.as_fd(), &place.name) else { return plain() };
        let stat = fstat(&found)?;
        drop(found);
        let is_dir = kind_of(&stat) == FileType::Directory;
        if is_dir != flags.contains(AtFlags::REMOVEDIR) || place.must_be_dir() && !is_dir {
            return plain();
        }
        let (records, moves) = self.going(images, place, real, &stat, true);
        let Some((number, outside)) = moves else { return images.carry_out(records, plain) };
        let moved = images.carry_out(records, || images.take(&outside, place, &stat, number));
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

    /// Renames, and keeps what is replaced.
    pub(super) fn renaming(
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
        let there = look(new.dir.as_fd(), &new.name).and_then(|found| fstat(&found)).ok();
        if from.is_none() || to.is_none() {
            // What is in a directory would come or go unseen. The caller copies it, name by name, except for what a tool
            // makes anew, which stays where it is after an undo.
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
            self.exchanging((old, old_real), new, there, (images, number), plain)
        })
    }

    /// Renames a file over another one, which it moves to an image: first they change places.
    fn exchanging(
        &self,
        (old, old_real): (&Place, &Path),
        new: &Place,
        there: &Stat,
        (images, number): (&BeforeImages, u64),
        plain: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let (from, to) = (trimmed(&old.name), trimmed(&new.name));
        let outside = self.outside(images, old, old_real);
        let exchange = || renameat_with(&old.dir, from, &new.dir, to, RenameFlags::EXCHANGE);
        let Some(outside) = outside else {
            return self.copy_aside(new, there, (images, number)).and_then(|()| plain());
        };
        match exchange() {
            Ok(()) => {}
            // The file system cannot.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                return self.copy_aside(new, there, (images, number)).and_then(|()| plain());
            }
            Err(errno) => return Err(errno),
        }
        match images.take(&outside, old, there, number) {
            Ok(()) => Ok(()),
            // Too large to be copied, and on another file system.
            Err(_) => unlinkat(&old.dir, from, AtFlags::empty()).inspect_err(|_| {
                let _ = exchange();
            }),
        }
    }

    /// Copies what is replaced to an image. What is too large is lost.
    fn copy_aside(
        &self,
        place: &Place,
        stat: &Stat,
        (images, number): (&BeforeImages, u64),
    ) -> Result<(), Errno> {
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if MAX_COPIED_FILE < size || MAX_COPIED < images.n_copied.get() + size {
            return Ok(());
        }
        let file = look(place.dir.as_fd(), &place.name)?;
        if images.try_copy(&file, number, size).is_ok() {
            images.n_copied.set(images.n_copied.get() + size);
        }
        Ok(())
    }

    /// Puts a file of the supervisor's own at a name.
    pub(super) fn putting<T>(
        &self,
        place: &Place,
        real: &Path,
        deed: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let Ok(found) = look(place.dir.as_fd(), &place.name) else {
            return self.making(real, deed);
        };
        let Some(images) = self.images(real) else { return deed() };
        let stat = fstat(&found)?;
        let (records, _) = self.going(images, place, real, &stat, false);
        images.carry_out(records, deed)
    }
}
