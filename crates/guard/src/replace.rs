//! Changing one file so that everybody sees the old content or the new, never a mixture.
//!
//! The new content goes into a temporary file beside the old one, gets its owner, mode, extended
//! attributes and access lists, and takes its name by one rename, all on the handle of the
//! directory. Just before the rename the old file is looked at again, and from this look to the rename
//! other processes wait for their turn. What cannot be kept is refused, and the old file is untouched;
//! set-id bits and capabilities are dropped, as the kernel does when a file is written.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, IoSlice, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{
    Access, AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid, accessat, fchmod, fchown,
    fdatasync, fstat, fsync, ftruncate, linkat, mkdirat, openat, renameat, renameat_with, statat,
    unlinkat,
};
use rustix::io::Errno;
use sinew_tool::{
    Change, Expect, FileError, FileKind, FileSettings, HardLinks, Identity, Stamp, Sync, Written,
};

use crate::attributes;
use crate::resolve::{Place, Spot};
use crate::roots::{DIRECTORY_PATH, DIRECTORY_READ, Dir, FILE_READ, open_name};
use crate::stat::{error_of, identity_of, kind_of, meta_of};
use crate::turn::{self, Turn, Turns};

/// The largest old content that is read only to be hashed.
const MAX_HASHED: u64 = 64 * 1024 * 1024;
/// How often a change starts anew when others change the same file.
const MAX_ATTEMPTS: u32 = 3;
/// The most pieces that one system call takes.
const MAX_SLICES: usize = 1_024;
/// The longest tick in which two changes of a file may get the same time.
const TICK_NS: i128 = 20_000_000;

/// One change to one file.
pub(crate) struct Replacement<'a> {
    /// Where the file is.
    pub(crate) place: &'a Place,
    /// Its name there.
    pub(crate) name: &'a CStr,
    /// The name of the temporary file.
    pub(crate) temporary: &'a CStr,
    /// The new content.
    pub(crate) pieces: &'a [&'a [u8]],
    /// What the caller knows of the old file.
    pub(crate) expect: Expect<'a>,
    /// What an approval was given for; `None` inside means that nothing was there.
    pub(crate) bound: Option<Option<Identity>>,
    /// Whether the file may be missing.
    pub(crate) may_create: bool,
    /// Settings of the file tools.
    pub(crate) settings: &'a FileSettings,
    /// Keeps changes of one file apart.
    pub(crate) locks: &'a Locks,
    /// Keeps changes of one file by several processes apart.
    pub(crate) turns: Turns,
    /// When the caller could read the old file first.
    pub(crate) since: Stamp,
}

/// A change that happened.
pub(crate) struct Done {
    pub(crate) written: Written,
    pub(crate) change: Change,
    /// What went wrong when it could not be taken back any more.
    pub(crate) late: Option<FileError>,
}

/// Why an attempt did not succeed.
enum Failure {
    /// Somebody else changed the file between two looks.
    Raced,
    /// Anything else.
    Error(FileError),
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::Error(error)
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Error(error_of(errno))
    }
}

/// Keeps changes of one file in this process apart, also where the system has no locks: the
/// directories and names that are being changed.
#[derive(Debug, Default)]
pub(crate) struct Locks(Mutex<HashSet<Changing>>);

/// The device and inode of a directory, and a name in it.
type Changing = (u64, u64, CString);

impl Locks {
    fn lock(&self, dir: &Stat, name: &CStr) -> Result<Held<'_>, FileError> {
        let identity = identity_of(dir);
        let key = (identity.device, identity.inode, name.to_owned());
        turn::ask_at_once(|| Ok(self.changing().insert(key.clone())))?;
        Ok(Held { locks: self, key })
    }

    fn changing(&self) -> MutexGuard<'_, HashSet<Changing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name that nobody else in this process changes until this is dropped.
struct Held<'a> {
    locks: &'a Locks,
    key: Changing,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.locks.changing().remove(&self.key);
    }
}

/// Replaces or creates a file.
pub(crate) fn replace(job: &Replacement<'_>) -> Result<Done, FileError> {
    let parents = Parents::create(job)?;
    let dir = parents.end();
    let held = fstat(&*dir).map_err(error_of).and_then(|stat| job.locks.lock(&stat, job.name));
    match held.and_then(|_held| attempts(job, &dir)) {
        Ok(mut done) => {
            let kept = parents.keep(job.settings.sync);
            done.late = done.late.or(kept.err());
            Ok(done)
        }
        Err(error) => {
            parents.remove();
            Err(error)
        }
    }
}

fn attempts(job: &Replacement<'_>, dir: &OwnedFd) -> Result<Done, FileError> {
    for _ in 0..MAX_ATTEMPTS {
        match attempt(job, dir) {
            Ok(done) => return Ok(done),
            Err(Failure::Error(error)) => return Err(error),
            // Where nothing was expected of the old file, the new one simply comes later.
            Err(Failure::Raced) if expects_nothing(job) => {}
            Err(Failure::Raced) => return Err(FileError::Changed),
        }
    }
    Err(FileError::Busy)
}

fn expects_nothing(job: &Replacement<'_>) -> bool {
    job.bound.is_none() && matches!(job.expect, Expect::Any)
}

fn attempt(job: &Replacement<'_>, dir: &OwnedFd) -> Result<Done, Failure> {
    match look(dir, job.name)? {
        Some(stat) => {
            let old = Old::open(job, dir, stat)?;
            check_expected(job, Some(identity_of(&old.stat)))?;
            overwrite(job, dir, &old)
        }
        None if job.may_create => {
            check_expected(job, None)?;
            create(job, dir)
        }
        None => Err(FileError::Missing.into()),
    }
}

/// Returns the status of a name, refusing what is no regular file.
fn look(dir: &OwnedFd, name: &CStr) -> Result<Option<Stat>, Failure> {
    let stat = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    match kind_of(FileType::from_raw_mode(stat.st_mode)) {
        FileKind::File => Ok(Some(stat)),
        FileKind::Symlink => Err(FileError::Changed.into()),
        other => Err(FileError::NotRegular(other).into()),
    }
}

/// Compares the old file with what the caller and the approval know of it.
fn check_expected(job: &Replacement<'_>, now: Option<Identity>) -> Result<(), FileError> {
    if job.bound.is_some_and(|bound| bound != now) {
        return Err(FileError::Changed);
    }
    match job.expect {
        Expect::Same(identity, _) if now != Some(identity) => Err(FileError::Changed),
        Expect::Same(..) | Expect::Any => Ok(()),
    }
}

/// The file that is replaced, open.
struct Old {
    file: File,
    stat: Stat,
}

impl Old {
    fn open(job: &Replacement<'_>, dir: &OwnedFd, seen: Stat) -> Result<Self, Failure> {
        // A rename needs no right to write the file; whoever may not write it may not replace it.
        let gone = |errno| match errno {
            Errno::NOENT => Failure::Raced,
            other => Failure::from(other),
        };
        accessat(dir, job.name, Access::WRITE_OK, AtFlags::empty()).map_err(gone)?;
        let file = open_name(dir.as_fd(), job.name, FILE_READ).map_err(gone)?;
        let stat = fstat(&file)?;
        if identity_of(&stat) != identity_of(&seen) {
            return Err(Failure::Raced);
        }
        Ok(Self { file: File::from(file), stat })
    }

    /// Returns the hash of the content, from what the caller has of it or by reading it.
    fn hash(&self, job: &Replacement<'_>) -> Result<Option<String>, FileError> {
        match job.expect {
            Expect::Same(_, content) => {
                if self.may_hide_a_change(job.since)
                    && !self.holds(content).map_err(FileError::Io)?
                {
                    return Err(FileError::Changed);
                }
                Ok(Some(blake3::hash(content).to_hex().to_string()))
            }
            Expect::Any if identity_of(&self.stat).size <= MAX_HASHED => {
                let mut hasher = blake3::Hasher::new();
                hasher.update_reader((&self.file).take(MAX_HASHED)).map_err(FileError::Io)?;
                Ok(Some(hasher.finalize().to_hex().to_string()))
            }
            Expect::Any => Ok(None),
        }
    }

    /// Returns whether the file was so young when it was read that a second change could carry the
    /// same time. How old it has become since says nothing.
    fn may_hide_a_change(&self, since: Stamp) -> bool {
        let changed = identity_of(&self.stat).changed;
        let ns = |at: Stamp| i128::from(at.seconds) * 1_000_000_000 + i128::from(at.nanos);
        let age = ns(since) - ns(changed);
        // Some file systems keep whole seconds, or two of them.
        let tick = if changed.nanos == 0 { 2_000_000_000 } else { TICK_NS };
        age < tick
    }

    /// Returns whether the file holds exactly this content.
    fn holds(&self, content: &[u8]) -> io::Result<bool> {
        let mut buffer = vec![0_u8; 256 * 1024];
        let mut left = content;
        loop {
            let n = (&self.file).read(&mut buffer)?;
            let Some(read) = buffer.get(..n).filter(|read| !read.is_empty()) else {
                return Ok(left.is_empty());
            };
            match left.strip_prefix(read) {
                Some(rest) => left = rest,
                None => return Ok(false),
            }
        }
    }
}

/// Creates a file that was not there.
fn create(job: &Replacement<'_>, dir: &OwnedFd) -> Result<Done, Failure> {
    let temporary = Temporary::create(dir, job.temporary, 0o666)?;
    let after = temporary.fill(job.pieces, job.settings.sync)?;
    match renameat_with(dir, job.temporary, dir, job.name, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(Failure::Raced),
        // Some file systems cannot rename like that; a link does not replace either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            match linkat(dir, job.temporary, dir, job.name, AtFlags::empty()) {
                Ok(()) => unlinkat(dir, job.temporary, AtFlags::empty())?,
                Err(Errno::EXIST) => return Err(Failure::Raced),
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(errno) => return Err(errno.into()),
    }
    temporary.became_the_file();
    Ok(finish(job, dir, None, Some(after), true))
}

/// Replaces a file that is there.
fn overwrite(job: &Replacement<'_>, dir: &OwnedFd, old: &Old) -> Result<Done, Failure> {
    let n_links = meta_of(&old.stat).links;
    if 1 < n_links {
        match job.settings.hard_links {
            HardLinks::Refuse => return Err(FileError::ManyLinks(n_links).into()),
            HardLinks::InPlace => return write_in_place(job, dir, old),
            HardLinks::Break => {}
        }
    }
    let turn = Turn::of(dir, job.turns)?;
    // Nothing is prepared in vain, and nobody waits for the preparation.
    turn.take_at_once()?;
    turn.give_back();
    let before = old.hash(job)?;
    let temporary = Temporary::create(dir, job.temporary, 0o600)?;
    let after = temporary.fill(job.pieces, Sync::Off)?;
    temporary.take_after(old)?;
    if job.settings.sync != Sync::Off {
        fdatasync(&temporary.file)?;
    }
    turn.take()?;
    match look(dir, job.name)? {
        Some(now) if identity_of(&now) == identity_of(&old.stat) => {}
        _ => return Err(Failure::Raced),
    }
    renameat(dir, job.temporary, dir, job.name)?;
    // Syncing the directory is nobody else's time.
    drop(turn);
    temporary.became_the_file();
    Ok(finish(job, dir, before, Some(after), false))
}

/// Writes into the file that all names share. Not atomic: readers can see a mixture. Its turn lasts
/// until everything is written.
fn write_in_place(job: &Replacement<'_>, dir: &OwnedFd, old: &Old) -> Result<Done, Failure> {
    let turn = Turn::of(dir, job.turns)?;
    turn.take_at_once()?;
    let flags = OFlags::WRONLY.union(FILE_READ.difference(OFlags::RDONLY));
    let file = open_name(dir.as_fd(), job.name, flags)?;
    turn::at_file(&file, job.turns)?;
    if identity_of(&fstat(&file)?) != identity_of(&old.stat) {
        return Err(Failure::Raced);
    }
    let before = old.hash(job)?;
    let written = write_pieces(&file, job.pieces).and_then(|after| {
        ftruncate(&file, length(job.pieces))?;
        if job.settings.sync != Sync::Off {
            fdatasync(&file)?;
        }
        Ok(after)
    });
    drop((file, turn));
    match written {
        Ok(after) => Ok(finish(job, dir, before, Some(after), false)),
        Err(errno) => {
            // Some of the new content may be there.
            let mut done = finish(job, dir, before, None, false);
            done.late = Some(error_of(errno));
            Ok(done)
        }
    }
}

/// Returns what happened, once the file has its name.
fn finish(
    job: &Replacement<'_>,
    dir: &OwnedFd,
    before: Option<String>,
    after: Option<String>,
    created: bool,
) -> Done {
    let synced = match job.settings.sync {
        Sync::Full => sync_directory(dir),
        Sync::Off | Sync::Data => Ok(()),
    };
    let bytes = length(job.pieces);
    let path = job.place.real.clone();
    Done {
        written: Written { bytes, created },
        change: Change { path, before, after, bytes },
        late: synced.err().map(error_of),
    }
}

fn length(pieces: &[&[u8]]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// Syncs a directory whose handle may be good for opening only.
fn sync_directory(dir: &OwnedFd) -> Result<(), Errno> {
    match fsync(open_name(dir.as_fd(), c".", DIRECTORY_READ)?) {
        // Some file systems have nothing to sync there.
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        other => other,
    }
}

/// A temporary file, removed unless it became the file.
struct Temporary<'a> {
    dir: &'a OwnedFd,
    name: &'a CStr,
    file: OwnedFd,
    remove: std::cell::Cell<bool>,
}

impl<'a> Temporary<'a> {
    fn create(dir: &'a OwnedFd, name: &'a CStr, mode: u32) -> Result<Self, Errno> {
        let flags = OFlags::CREATE
            .union(OFlags::EXCL)
            .union(OFlags::WRONLY)
            .union(OFlags::NOFOLLOW)
            .union(OFlags::CLOEXEC);
        let file = openat(dir, name, flags, Mode::from_raw_mode(mode))?;
        Ok(Self { dir, name, file, remove: std::cell::Cell::new(true) })
    }

    /// Writes the content and returns its hash.
    fn fill(&self, pieces: &[&[u8]], sync: Sync) -> Result<String, Errno> {
        let hash = write_pieces(&self.file, pieces)?;
        if sync != Sync::Off {
            fdatasync(&self.file)?;
        }
        Ok(hash)
    }

    /// Takes owner, attributes and mode of the old file.
    fn take_after(&self, old: &Old) -> Result<(), FileError> {
        let new = fstat(&self.file).map_err(error_of)?;
        if (new.st_uid, new.st_gid) != (old.stat.st_uid, old.stat.st_gid) {
            let owner = Some(Uid::from_raw(old.stat.st_uid));
            let group = Some(Gid::from_raw(old.stat.st_gid));
            // Only root may give files away, and only to own groups may others.
            fchown(&self.file, owner, group).map_err(|_| FileError::Owner)?;
        }
        attributes::copy(&old.file, &self.file)?;
        fchmod(&self.file, Mode::from_raw_mode(old.stat.st_mode & 0o1777)).map_err(error_of)
    }

    fn became_the_file(&self) {
        self.remove.set(false);
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if self.remove.get() {
            let _ = unlinkat(self.dir, self.name, AtFlags::empty());
        }
    }
}

/// Writes all pieces and returns the hash of the whole.
fn write_pieces(file: &OwnedFd, pieces: &[&[u8]]) -> Result<String, Errno> {
    let mut hasher = blake3::Hasher::new();
    for piece in pieces {
        hasher.update(piece);
    }
    let mut left: Vec<&[u8]> =
        pieces.iter().copied().filter(|piece| !piece.is_empty()).rev().collect();
    while !left.is_empty() {
        let slices: Vec<IoSlice<'_>> =
            left.iter().rev().take(MAX_SLICES).map(|piece| IoSlice::new(piece)).collect();
        match rustix::io::writev(file, &slices) {
            Ok(0) => return Err(Errno::IO),
            Ok(n) => advance(&mut left, n),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// Takes written bytes off pieces that are in reverse order.
fn advance(left: &mut Vec<&[u8]>, mut n: usize) {
    while let Some(piece) = left.pop() {
        if let Some(rest) = piece.get(n..).filter(|rest| !rest.is_empty()) {
            left.push(rest);
            return;
        }
        n -= piece.len().min(n);
        if n == 0 {
            return;
        }
    }
}

/// The parent directories that were created for a change.
struct Parents<'a> {
    base: &'a Dir,
    /// Each directory on the way, and whether this change created it.
    steps: Vec<(&'a CStr, Dir, bool)>,
}

impl<'a> Parents<'a> {
    fn create(job: &Replacement<'a>) -> Result<Self, FileError> {
        let mut parents = Self { base: &job.place.dir, steps: Vec::new() };
        let Spot::MissingParents(names) = &job.place.spot else { return Ok(parents) };
        for name in names {
            if let Err(errno) = parents.enter(name) {
                parents.remove();
                return Err(error_of(errno));
            }
        }
        Ok(parents)
    }

    fn enter(&mut self, name: &'a CStr) -> Result<(), Errno> {
        let dir = self.end();
        let created = match mkdirat(&*dir, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno),
        };
        match open_name(dir.as_fd(), name, DIRECTORY_PATH) {
            Ok(handle) => {
                self.steps.push((name, Dir::new(handle), created));
                Ok(())
            }
            Err(errno) => {
                if created {
                    let _ = unlinkat(&*dir, name, AtFlags::REMOVEDIR);
                }
                Err(errno)
            }
        }
    }

    /// Returns the directory that holds the file.
    fn end(&self) -> Dir {
        match self.steps.last() {
            Some((_, dir, _)) => Dir::clone(dir),
            None => Dir::clone(self.base),
        }
    }

    /// Syncs the directories that hold new ones, where that is asked for.
    fn keep(&self, sync: Sync) -> Result<(), FileError> {
        if sync != Sync::Full {
            return Ok(());
        }
        let mut above = self.base;
        for (_, dir, created) in &self.steps {
            if *created {
                sync_directory(above).map_err(error_of)?;
            }
            above = dir;
        }
        Ok(())
    }

    /// Removes what was created, the deepest first. What others have put there stays.
    fn remove(&self) {
        for (at, (name, _, created)) in self.steps.iter().enumerate().rev() {
            let above = match at.checked_sub(1).and_then(|at| self.steps.get(at)) {
                Some((_, dir, _)) => dir,
                None => self.base,
            };
            if *created {
                let _ = unlinkat(&**above, *name, AtFlags::REMOVEDIR);
            }
        }
    }
}
