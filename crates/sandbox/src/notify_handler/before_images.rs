//! Keeps the old states of paths that a command changes (undo logging), so that a restore brings them back.
//!
//! Before each change the handler appends the old state to the undo log of the command. It moves the content of a removed
//! file to the directory of before-images, and copies that of a file that is opened for writing. The move needs directory
//! fds of the host's mounts: from the bind mounts of the sandbox it would fail with `EXDEV`.
//!
//! A path is kept once: files that the command itself made need no image.

mod kept_calls;

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat, copy_file_range, flock, ftruncate,
    ioctl_ficlone, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::umask;

use super::findings::Found;
use super::path::{self, Place, look, trimmed};
use crate::asking::PendingQuestion;
use crate::rebuilt_dirs::RebuiltDirs;
use crate::spawn;
use crate::wire::{Asked, Refused, Unkept};
use sinew_fs::stat::identity_of;
use sinew_fs::undo_log::{self, BeforeImage, FileBefore, Origins, UndoRecord, UnkeptReason};
use sinew_tool::MidwayAnswer;

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

/// Where the changes of a command are kept.
pub(crate) struct UndoHandles {
    /// The directory of its before-images.
    pub(crate) dir: OwnedFd,
    /// Its undo log.
    pub(crate) log: OwnedFd,
    /// What becomes of changes that cannot be kept.
    pub(crate) unkept: Unkept,
    /// How many bytes of old contents can be kept.
    pub(crate) room: u64,
    /// The question about them, and about files outside the roots.
    pub(crate) question: Option<Arc<PendingQuestion>>,
    /// Whether files outside the roots are asked about that it opens for writing.
    pub(crate) asks_outside: bool,
}

/// The identity of a directory, and the directory as sinew sees it.
type KnownDir = ((u64, u64), Arc<OwnedFd>);

/// The kept content and mode of a file with several names.
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
    /// How many of these bytes are of directories that are kept in part.
    n_in_part: Cell<u64>,
    /// Kept contents and modes of files with several names, by device and inode: another name has the same ones.
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
    /// What becomes of changes that cannot be kept.
    unkept: Cell<Unkept>,
    /// Whether the command began unasked.
    is_unasked: bool,
    /// How many bytes of old contents can be kept.
    room: u64,
    /// The answer of an approver who was asked about what cannot.
    answer: RefCell<Option<MidwayAnswer>>,
    /// The change that the current call would make, if an approver is to be asked about it.
    asked: RefCell<Option<Asked>>,
    /// Notes the changes that fail because they cannot be kept.
    found: Found,
    /// Directories that tools make anew, of which only what can be kept is.
    kept_in_part: RefCell<HashSet<PathBuf>>,
    /// Files outside the roots that sinew opened for the command.
    handed_out: RefCell<HashSet<PathBuf>>,
}

impl BeforeImages {
    pub(super) fn new(undo: UndoHandles, found: &Found, has_all: &Arc<AtomicBool>) -> Self {
        let UndoHandles { dir, log, unkept, room, question: _, asks_outside: _ } = undo;
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
            n_in_part: Cell::default(),
            inodes: RefCell::default(),
            last_dir: RefCell::default(),
            is_full,
            rebuilt: RefCell::default(),
            moved: RefCell::default(),
            has_all: Arc::clone(has_all),
            unkept: Cell::new(unkept),
            is_unasked: unkept != Unkept::Made,
            room: room.min(MAX_MOVED),
            answer: RefCell::default(),
            asked: RefCell::default(),
            found: found.clone(),
            kept_in_part: RefCell::default(),
            handed_out: RefCell::default(),
        }
    }

    /// Keeps the changes of a file outside the roots from now on.
    pub(super) fn hand_out(&self, real: &Path) {
        self.handed_out.borrow_mut().insert(real.to_owned());
    }

    /// Returns whether sinew opened a file outside the roots for the command.
    pub(super) fn is_handed_out(&self, real: &Path) -> bool {
        self.handed_out.borrow().contains(real)
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
        if records.is_empty() {
            return deed();
        }
        self.check_kept(&records)?;
        if self.is_full.get() || !self.append(&records) {
            self.check_room(&records)?;
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
        self.is_used() && self.origins.borrow().must_keep(real)
    }

    /// Returns whether changes are kept, or fail because they cannot be.
    fn is_used(&self) -> bool {
        !self.is_full.get() || !self.makes_unkept()
    }

    /// Returns whether changes are made that cannot be kept.
    fn makes_unkept(&self) -> bool {
        self.unkept.get() == Unkept::Made
    }

    /// Fails for a content that is lost, if all must be kept.
    fn check_kept(&self, records: &[UndoRecord]) -> Result<(), Errno> {
        let lost = records.iter().find_map(|record| match record {
            UndoRecord::File(path, before, BeforeImage::Lost(reason)) => {
                Some((path, *reason, before.size))
            }
            _ => None,
        });
        lost.map_or(Ok(()), |(path, reason, size)| self.refuse(path, reason, Some(size)))
    }

    /// Fails for changes that are not in the log, if all must be kept.
    fn check_room(&self, records: &[UndoRecord]) -> Result<(), Errno> {
        let path = records.iter().find_map(|record| record.paths().next());
        path.map_or(Ok(()), |path| self.refuse(path, UnkeptReason::Budget, None))
    }

    /// Returns what is at a name, or `None` if nothing is. If all must be kept, other errors fail.
    fn found<T>(&self, looked: Result<T, Errno>) -> Result<Option<T>, Errno> {
        match looked {
            Ok(found) => Ok(Some(found)),
            Err(errno) if !self.makes_unkept() && errno != Errno::NOENT => Err(errno),
            Err(_) => Ok(None),
        }
    }

    /// Fails for a change that cannot be kept, unless it is made all the same.
    fn refuse(&self, path: &Path, reason: UnkeptReason, size: Option<u64>) -> Result<(), Errno> {
        if self.makes_unkept() || self.kept_in_part.borrow().iter().any(|dir| path.starts_with(dir))
        {
            return Ok(());
        }
        let asked = Asked { path: path.to_owned(), size, removes: false, reason };
        self.put_asked(asked);
        if self.unkept.get() == Unkept::Fails {
            self.note_refused();
        }
        Err(Errno::DQUOT)
    }

    /// Notes the change that failed last, if no approver is asked about it.
    pub(super) fn note_refused(&self) {
        if let Some(Asked { path, reason, .. }) = self.asked.take() {
            let answer = self.answer.borrow().clone();
            self.found.refuse(Refused::NotKept { path, reason, answer });
        }
    }

    /// Takes the change that failed last, if an approver is to be asked about it.
    pub(super) fn take_asked(&self, removes: bool) -> Option<Asked> {
        self.asked.take().map(|asked| Asked { removes, ..asked })
    }

    /// Remembers the change that failed last.
    pub(super) fn put_asked(&self, asked: Asked) {
        *self.asked.borrow_mut() = Some(asked);
    }

    /// Makes changes from now on that cannot be kept, or lets them fail.
    pub(super) fn settle(&self, answer: MidwayAnswer) {
        self.unkept.set(match answer {
            MidwayAnswer::Yes => Unkept::Made,
            MidwayAnswer::No(_) | MidwayAnswer::TimedOut | MidwayAnswer::Unanswered => {
                Unkept::Fails
            }
        });
        *self.answer.borrow_mut() = Some(answer);
    }

    /// Returns whether so many more bytes can be kept. What is made all the same is kept as long as there is room at the end.
    /// A directory that tools make anew leaves half of the room to what is not.
    fn has_room(&self, real: &Path, size: u64) -> bool {
        let n_kept = self.n_moved.get().saturating_add(self.n_copied.get());
        let is_in_part = self.is_kept_in_part(real);
        let fits = |n: u64, room: u64| n.saturating_add(size) <= room;
        self.makes_unkept()
            || fits(n_kept, self.room) && (!is_in_part || fits(self.n_in_part.get(), self.room / 2))
    }

    /// Returns whether a path is in a directory that tools make anew and of which only what can be kept is.
    fn is_kept_in_part(&self, real: &Path) -> bool {
        let dirs = self.kept_in_part.borrow();
        !dirs.is_empty() && real.ancestors().any(|dir| dirs.contains(dir))
    }

    fn add_copied(&self, real: &Path, size: u64) {
        self.n_copied.set(self.n_copied.get() + size);
        self.add_kept(real, size);
    }

    fn add_kept(&self, real: &Path, size: u64) {
        if self.is_kept_in_part(real) {
            self.n_in_part.set(self.n_in_part.get() + size);
        }
    }

    fn next_image(&self) -> u64 {
        self.n_images.set(self.n_images.get() + 1);
        self.n_images.get()
    }

    /// Copies a file, and returns where it is kept.
    fn copy(&self, real: &Path, file: &OwnedFd, stat: &Stat) -> BeforeImage {
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if size == 0 {
            return BeforeImage::Empty;
        }
        if !self.has_room(real, size) {
            let is_large = self.room < size;
            let reason = if is_large { UnkeptReason::Large } else { UnkeptReason::Budget };
            return BeforeImage::Lost(reason);
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
                self.add_copied(real, size);
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
            Ok(file) => self.copy(real, file.borrow(), stat),
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
        // A file outside the roots is open for reading already.
        let opened = openat(CWD, path::by_number(file), readable, Mode::empty());
        let file = opened.or_else(|errno| file.try_clone().map_err(|_| errno))?;
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

    /// Moves the file at a name to an image, or copies it if it cannot be moved.
    fn take(
        &self,
        outside: &OwnedFd,
        (place, real): (&Place, &Path),
        stat: &Stat,
        number: u64,
    ) -> Result<(), Errno> {
        let name = trimmed(&place.name);
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if renameat(outside, name, &self.dir, undo_log::image_name(number)).is_ok() {
            self.n_moved.set(self.n_moved.get() + size);
            self.add_kept(real, size);
            return Ok(());
        }
        let file = look(place.dir.as_fd(), name)?;
        if MAX_COPIED_FILE < size || MAX_COPIED < self.n_copied.get() + size {
            return Err(Errno::XDEV);
        }
        self.try_copy(&file, number, size).map_err(|_| Errno::XDEV)?;
        self.add_copied(real, size);
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
