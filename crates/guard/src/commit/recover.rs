//! Crash recovery: any sinew that starts with the same state directory settles journals of dead processes.
//!
//! All steps are checked before any name changes. Recovery goes forward, unless a staged file is missing:
//! then it rolls back. If that is impossible too, the journal is set aside and a warning names the missing file.
//! Temporary files are removed; a name that another process changed meanwhile stays.
//!
//! Directories are resolved from `/` without symlinks, compared by inode and changed under their locks. A
//! journal that cannot be settled stays for the next start; an unreadable one is set aside, never followed.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, flock, fstat, renameat, statat, unlinkat};
use rustix::io::Errno;
use sinew_tool::{Clock, FileError, Links};

use super::journal::{ASIDE, BACK, DONE, DirRecord, FORWARD, JournalSettings, NEW, Record};
use super::step::{Stand, Step, WAYS};
use crate::change::read_only_dir::{self, OWNER};
use crate::change::sync_directory;
use sinew_fs::clock::SystemClock;
use sinew_fs::dir_lock::{DirLock, DirLocking};
use sinew_fs::journal_files;
use sinew_fs::process_identity::{ProcessIdentity, is_running};
use sinew_fs::resolve;
use sinew_fs::roots::{DIRECTORY_PATH, Dir, FILE_READ, Roots, open_name};
use sinew_fs::stat::{error_of, identity_of};

/// Time after which changes in a missing directory are given up; its disk may come back earlier.
const GONE_MS: i64 = 30 * 24 * 60 * 60 * 1_000;

/// Settles journals of dead processes. Costs one failed system call if there never was a journal.
pub(crate) fn recover(settings: &JournalSettings, dir_locking: DirLocking) {
    let found = journal_files::open(&settings.state).and_then(|dir| match dir {
        Some(dir) => journal_files::names(&dir).map(|names| Some((dir, names))),
        None => Ok(None),
    });
    match found {
        Ok(Some((dir, names))) => {
            let own = ProcessIdentity::own();
            for name in names {
                for note in settle(&dir, &name, &own, dir_locking) {
                    (settings.warn)(&note);
                }
            }
        }
        Ok(None) => {}
        Err(error) => (settings.warn)(&format!(
            "changes that were cut off cannot be looked for in {}: {error}",
            settings.state.display()
        )),
    }
}

/// Settles one file in the directory of journals; returns warnings.
fn settle(
    dir: &OwnedFd,
    name: &CStr,
    own: &ProcessIdentity,
    dir_locking: DirLocking,
) -> Vec<String> {
    let ends = |ending: &str| name.to_bytes().ends_with(ending.as_bytes());
    if ends(NEW) {
        // No change happens before the journal has its name; a maker whose journal is gone fails.
        if !is_running_maker(name) {
            let _ = unlinkat(dir, name, AtFlags::empty());
        }
        return Vec::new();
    }
    let Some(course) = Course::of(name) else { return Vec::new() };
    let shown = name.to_string_lossy();
    match locked(dir, name) {
        Ok(None) => Vec::new(),
        Ok(Some(file)) => match read(dir, name, &file) {
            Ok(record) => follow(dir, name, &record, course, own, dir_locking),
            Err(note) => vec![note],
        },
        Err(error) => vec![format!("the journal {shown} of changes cannot be read: {error}")],
    }
}

/// Returns whether the process that a journal's name holds is running.
fn is_running_maker(name: &CStr) -> bool {
    let text = name.to_string_lossy();
    let mut parts = text.split('-').map(str::parse::<i64>);
    match (parts.next(), parts.next()) {
        (Some(Ok(pid)), Some(Ok(started))) => is_running(pid, started),
        _ => false,
    }
}

/// Opens and locks a journal; `None` if another process holds it or has settled it.
fn locked(dir: &OwnedFd, name: &CStr) -> io::Result<Option<File>> {
    let file = match open_name(dir.as_fd(), name, FILE_READ) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    // Without file locks, each step still checks the state of its names.
    if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Ok(None);
    }
    let is_there = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat.st_ino == fstat(&file)?.st_ino,
        Err(_) => false,
    };
    Ok(is_there.then(|| File::from(file)))
}

/// Reads a journal, and sets a damaged one aside; the error is the warning.
fn read(dir: &OwnedFd, name: &CStr, file: &File) -> Result<Record, String> {
    let shown = name.to_string_lossy();
    match journal_files::read(file).map(|bytes| Record::parse(&bytes)) {
        Ok(Some(record)) => Ok(record),
        Ok(None) => {
            put_aside(dir, name);
            Err(format!(
                "the journal {shown} of changes is damaged and was put aside; changes that were \
                 cut off may be half done, with the rest under names like `.sinew-*.tmp`"
            ))
        }
        Err(error) => Err(format!("the journal {shown} of changes cannot be read: {error}")),
    }
}

fn follow(
    dir: &OwnedFd,
    name: &CStr,
    record: &Record,
    course: Course,
    own: &ProcessIdentity,
    dir_locking: DirLocking,
) -> Vec<String> {
    let age_ms = SystemClock.wall_ms() as i64 - record.at_ms;
    if record.maker.may_be_at_it(own, age_ms) {
        return Vec::new();
    }
    let same_boot = record.maker.is_of_this_boot(own);
    let mut settling = Settling { record, same_boot, dir_locking, notes: Vec::new(), n_failed: 0 };
    let n = record.steps.len();
    let mut name = name.to_owned();
    let mut lost = Vec::new();
    if let Some(course) = settling.choose(course, &mut lost) {
        // After a partial rollback, no process may go forward.
        match turned(dir, &name, course) {
            Ok(now) => name = now,
            Err(errno) => {
                settling.n_failed += n;
                settling
                    .notes
                    .push(format!("the journal of {n} changes cannot be reversed: {errno}"));
            }
        }
        if settling.n_failed == 0 {
            settling.run(course, &mut lost);
        }
        if settling.n_failed == 0 && lost.is_empty() {
            settling.notes.push(match course {
                Course::Forward | Course::Done => {
                    format!("finished a change of {n} files that was cut off")
                }
                Course::Back => format!("took back a change of {n} files that was cut off"),
            });
            let _ = unlinkat(dir, &*name, AtFlags::empty());
        }
    }
    let Settling { mut notes, n_failed, .. } = settling;
    if n_failed == 0 && !lost.is_empty() {
        put_aside(dir, &name);
        let lost: Vec<_> = lost.iter().map(|path| path.display().to_string()).collect();
        notes.push(format!(
            "a change of {n} files was cut off and can neither be finished nor taken back whole: what \
             it needs is missing or changed at {}; its journal was put aside as {}{ASIDE}, and contents may be beside the files under names like `.sinew-*.tmp`",
            lost.join(", "),
            name.to_string_lossy()
        ));
    } else if GONE_MS < age_ms && n_failed != 0 {
        notes.push(format!("{n_failed} changes that were cut off are given up"));
        put_aside(dir, &name);
    }
    notes
}

/// The direction of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    /// To the new files.
    Forward,
    /// To the originals.
    Back,
    /// The new files are in place, and the originals are removed.
    Done,
}

impl Course {
    /// Returns the course that the suffix of a journal gives.
    fn of(name: &CStr) -> Option<Self> {
        [Self::Forward, Self::Back, Self::Done]
            .into_iter()
            .find(|course| name.to_bytes().ends_with(course.ending().as_bytes()))
    }

    fn ending(self) -> &'static str {
        match self {
            Self::Forward => FORWARD,
            Self::Back => BACK,
            Self::Done => DONE,
        }
    }
}

/// Renames a journal to a course; returns the new name.
fn turned(dir: &OwnedFd, name: &CStr, course: Course) -> Result<CString, Errno> {
    let bytes = name.to_bytes();
    if bytes.ends_with(course.ending().as_bytes()) {
        return Ok(name.to_owned());
    }
    let stem = bytes.strip_suffix(FORWARD.as_bytes()).unwrap_or(bytes);
    let new =
        CString::new([stem, course.ending().as_bytes()].concat()).map_err(|_| Errno::INVAL)?;
    renameat(dir, name, dir, &*new)?;
    Ok(new)
}

fn put_aside(dir: &OwnedFd, name: &CStr) {
    if let Ok(aside) = CString::new([name.to_bytes(), ASIDE.as_bytes()].concat()) {
        let _ = renameat(dir, name, dir, &*aside);
    }
}

/// A journal that is being followed.
struct Settling<'a> {
    record: &'a Record,
    same_boot: bool,
    dir_locking: DirLocking,
    notes: Vec<String>,
    n_failed: usize,
}

impl Settling<'_> {
    /// Checks every step; returns a course open to all. `None` leaves the steps that prevent one in `lost`.
    fn choose(&mut self, course: Course, lost: &mut Vec<PathBuf>) -> Option<Course> {
        if course != Course::Forward {
            return Some(course);
        }
        let mut missing = Vec::new();
        self.each(|_, dir, step, path| {
            let outlook = step.outlook(dir)?;
            if !outlook.forward {
                missing.push(path.clone());
            }
            if !outlook.back {
                lost.push(path);
            }
            Ok(())
        });
        if self.n_failed != 0 {
            return None;
        }
        let Some(first) = missing.first() else {
            lost.clear();
            return Some(Course::Forward);
        };
        if lost.is_empty() {
            self.notes.push(format!(
                "a change was cut off, and the new content of {} of its files is not there any more, \
                 such as of {}",
                missing.len(),
                first.display()
            ));
            return Some(Course::Back);
        }
        lost.extend(missing);
        None
    }

    /// Settles every step. Steps that cannot be rolled back are `lost`.
    fn run(&mut self, course: Course, lost: &mut Vec<PathBuf>) {
        self.each(|notes, dir, step, path| {
            let stand = match course {
                Course::Forward => step.forward(dir, WAYS)?,
                Course::Back => step.back(dir)?,
                Course::Done => Stand::Done,
            };
            match stand {
                Stand::Done => return step.clean(dir),
                Stand::Gone if course == Course::Back => {
                    lost.push(path);
                    return Ok(());
                }
                // A needed file disappeared after the check: the next start retries.
                Stand::Gone if !step.outlook(dir)?.forward => return Err(Errno::NOENT),
                // A removal, and the name is already free.
                Stand::Gone if step.new.is_none() => return step.clean(dir),
                Stand::Gone | Stand::Changed | Stand::Displaced => {}
            }
            if course == Course::Back && step.keeps_old(dir)? {
                lost.push(path);
                return Ok(());
            }
            notes.push(format!(
                "a change of {} was cut off, and another writer has changed the file since: it stays as it is now",
                path.display()
            ));
            step.clean(dir)
        });
    }

    /// Calls `deed` for each step, one directory at a time: there may be more than a process may open.
    fn each(
        &mut self,
        mut deed: impl FnMut(&mut Vec<String>, &Dir, &Step, PathBuf) -> Result<(), Errno>,
    ) {
        let record = self.record;
        for (at, found) in record.dirs.iter().enumerate() {
            let steps: Vec<_> = record.steps.iter().filter(|step| step.dir == at).collect();
            let opened = open_recorded(found, self.same_boot).and_then(|dir| {
                let turn = DirLock::of(&*dir, self.dir_locking).map_err(words)?;
                turn.take_at_start().map_err(words)?;
                Ok((dir, turn))
            });
            let (dir, turn) = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    self.n_failed += steps.len();
                    let path = found.path().display();
                    self.notes.push(format!(
                        "changes in {path} were cut off and cannot be finished now: {error}"
                    ));
                    continue;
                }
            };
            // A change that could not be taken back may have left it read-only.
            let read_only = read_only_dir::mode(&dir).ok().flatten();
            if let Some(mode) = read_only {
                let _ = read_only_dir::set_mode(&dir, mode | OWNER);
            }
            for step in steps {
                let name = Path::new(std::ffi::OsStr::from_bytes(step.name.to_bytes()));
                let path = found.path().join(name);
                if let Err(errno) = deed(&mut self.notes, &dir, step, path.clone()) {
                    self.n_failed += 1;
                    self.notes.push(format!(
                        "a change of {} was cut off and cannot be finished now: {errno}",
                        path.display()
                    ));
                }
            }
            if let Some(mode) = read_only {
                let _ = read_only_dir::close(&dir, mode);
            }
            let _ = sync_directory(&dir);
            drop(turn);
        }
    }
}

/// Returns why a directory cannot be changed now.
fn words(error: FileError) -> String {
    match error {
        FileError::Missing | FileError::NotDirectory => String::from("the directory is not there"),
        FileError::Link => String::from("a symbolic link took the place of the directory"),
        FileError::Busy => String::from("another process is changing the directory"),
        other => other.about("it").message.into_owned(),
    }
}

/// Opens a directory that a journal names, if it is still the same.
fn open_recorded(found: &DirRecord, same_boot: bool) -> Result<Dir, String> {
    let roots = Roots::system().map_err(|errno| words(error_of(errno)))?;
    let place = resolve::resolve(&roots, found.path(), Links::Refuse).map_err(words)?;
    let dir = place.open_directory(DIRECTORY_PATH).map_err(words)?;
    let identity = fstat(&dir).map(|stat| identity_of(&stat)).map_err(|e| words(error_of(e)))?;
    // Device numbers may change at a reboot.
    let same_device = !same_boot || identity.device == found.device;
    if place.real != found.path() || identity.inode != found.inode || !same_device {
        return Err(String::from("another directory has its place"));
    }
    Ok(Dir::new(dir))
}

#[cfg(test)]
mod tests;
