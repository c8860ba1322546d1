//! Going on with changes whose process died: at the next start of any sinew with the same state
//! directory.
//!
//! Whatever a journal names is looked at again. What is not done yet is done, what lies under
//! temporary names is removed, and a name that somebody else changed since is left as it is. The
//! directories are resolved from `/` without links and compared by inode before anything is touched.
//! A journal whose changes cannot be settled stays for the next start; one that cannot be read is put
//! aside and never followed.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use memchr::memmem;
use rustix::fs::{AtFlags, FlockOperation, flock, fstat, renameat, statat, unlinkat};
use rustix::io::Errno;
use sinew_tool::{Clock, FileError, Links};

use super::journal::{self, ASIDE, BACK, DirRecord, FORWARD, JournalSettings, NEW, Record};
use super::step::{Stand, WAYS};
use crate::change::sync_directory;
use crate::clear::{TEMPORARY_PREFIX, TEMPORARY_SUFFIX, is_temporary};
use crate::clock::SystemClock;
use crate::mark::{ProcessMark, is_running};
use crate::resolve;
use crate::roots::{DIRECTORY_PATH, Dir, FILE_READ, Roots, open_name};
use crate::stat::{error_of, identity_of};

/// A directory that is missing may be on a disk that comes back; after this time its changes are
/// given up.
const GONE_MS: i64 = 30 * 24 * 60 * 60 * 1_000;

/// Settles the journals of dead processes. Costs one failed system call where there never was one.
pub(crate) fn recover(settings: &JournalSettings) {
    let found = journal::open(&settings.state).and_then(|dir| match dir {
        Some(dir) => journal::names(&dir).map(|names| Some((dir, names))),
        None => Ok(None),
    });
    match found {
        Ok(Some((dir, names))) => {
            let own = ProcessMark::own();
            for name in names {
                for note in settle(&dir, &name, &own) {
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

/// Returns the names of the temporary files that journals still speak of, damaged ones too: the names
/// are looked for in their bytes.
pub(crate) fn needed(state: &Path) -> HashSet<Vec<u8>> {
    let mut needed = HashSet::new();
    let Ok(Some(dir)) = journal::open(state) else { return needed };
    let finder = memmem::Finder::new(TEMPORARY_PREFIX);
    for name in journal::names(&dir).unwrap_or_default() {
        let Ok(file) = open_name(dir.as_fd(), &name, FILE_READ) else { continue };
        let bytes = journal::read(File::from(file)).unwrap_or_default();
        for at in finder.find_iter(&bytes) {
            let tail = bytes.get(at..).unwrap_or_default();
            let tail = tail.get(..255).unwrap_or(tail);
            let end = memmem::find(tail, TEMPORARY_SUFFIX.as_bytes());
            let name = end.and_then(|end| tail.get(..end + TEMPORARY_SUFFIX.len()));
            needed.extend(name.filter(|name| is_temporary(name)).map(<[u8]>::to_vec));
        }
    }
    needed
}

/// Deals with one file in the directory of journals; returns what is to be said about it.
fn settle(dir: &OwnedFd, name: &CStr, own: &ProcessMark) -> Vec<String> {
    let ends = |ending: &str| name.to_bytes().ends_with(ending.as_bytes());
    if ends(NEW) {
        // Nothing is changed before a journal has its name, and whoever misses it refuses.
        if !is_running_maker(name) {
            let _ = unlinkat(dir, name, AtFlags::empty());
        }
        return Vec::new();
    }
    if !ends(FORWARD) && !ends(BACK) {
        return Vec::new();
    }
    let shown = name.to_string_lossy();
    match locked(dir, name) {
        Ok(None) => Vec::new(),
        Ok(Some(file)) => follow(dir, name, file, own),
        Err(error) => vec![format!("the journal {shown} of changes cannot be read: {error}")],
    }
}

/// Returns whether the process runs here that the name of a journal names.
fn is_running_maker(name: &CStr) -> bool {
    let text = name.to_string_lossy();
    let mut parts = text.split('-').map(str::parse::<i64>);
    match (parts.next(), parts.next()) {
        (Some(Ok(pid)), Some(Ok(started))) => is_running(pid, started),
        _ => false,
    }
}

/// Opens a journal and keeps others away from it; nothing where another process has it, or has
/// settled it.
fn locked(dir: &OwnedFd, name: &CStr) -> io::Result<Option<File>> {
    let file = match open_name(dir.as_fd(), name, FILE_READ) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    // Where the system has no locks, each step still looks at what it did.
    if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Ok(None);
    }
    let is_there = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat.st_ino == fstat(&file)?.st_ino,
        Err(_) => false,
    };
    Ok(is_there.then(|| File::from(file)))
}

fn follow(dir: &OwnedFd, name: &CStr, file: File, own: &ProcessMark) -> Vec<String> {
    let shown = name.to_string_lossy();
    let record = match journal::read(&file).map(|bytes| Record::parse(&bytes)) {
        Ok(Some(record)) => record,
        Ok(None) => {
            put_aside(dir, name);
            return vec![format!(
                "the journal {shown} of changes is damaged and was put aside; changes that were \
                 cut off may be half done, with the rest under names like `.sinew-*.tmp`"
            )];
        }
        Err(error) => {
            return vec![format!("the journal {shown} of changes cannot be read: {error}")];
        }
    };
    let age_ms = SystemClock.wall_ms() as i64 - record.at_ms;
    if record.maker.may_be_at_it(own, age_ms) {
        return Vec::new();
    }
    let is_back = name.to_bytes().ends_with(BACK.as_bytes());
    let mut settling = Settling { record: &record, is_back, notes: Vec::new(), n_failed: 0 };
    settling.run(record.maker.is_of_this_boot(own));
    let Settling { mut notes, n_failed, .. } = settling;
    if n_failed == 0 {
        let n = record.steps.len();
        let deed = if is_back { "took back" } else { "finished" };
        notes.push(format!("{deed} a change of {n} files that was cut off"));
        let _ = unlinkat(dir, name, AtFlags::empty());
    } else if GONE_MS < age_ms {
        notes.push(format!("{n_failed} changes that were cut off are given up"));
        put_aside(dir, name);
    }
    notes
}

fn put_aside(dir: &OwnedFd, name: &CStr) {
    if let Ok(aside) = CString::new([name.to_bytes(), ASIDE.as_bytes()].concat()) {
        let _ = renameat(dir, name, dir, &*aside);
    }
}

/// A journal that is being followed.
struct Settling<'a> {
    record: &'a Record,
    is_back: bool,
    notes: Vec<String>,
    n_failed: usize,
}

impl Settling<'_> {
    /// Settles every step, one directory after the other, since there may be more of them than this
    /// process may hold open.
    fn run(&mut self, same_boot: bool) {
        let record = self.record;
        for (at, found) in record.dirs.iter().enumerate() {
            let steps: Vec<_> = record.steps.iter().filter(|step| step.dir == at).collect();
            let dir = match open_recorded(found, same_boot) {
                Ok(dir) => dir,
                Err(error) => {
                    self.n_failed += steps.len();
                    let path = found.path().display();
                    self.notes.push(format!(
                        "changes in {path} were cut off and cannot be finished now: {error}"
                    ));
                    continue;
                }
            };
            for step in steps {
                let name = Path::new(std::ffi::OsStr::from_bytes(step.name.to_bytes()));
                let path = found.path().join(name);
                let stand = if self.is_back { step.back(&dir) } else { step.forward(&dir, WAYS) };
                match stand.and_then(|stand| step.clean(&dir).map(|()| stand)) {
                    Ok(Stand::Done | Stand::Gone) => {}
                    Ok(Stand::Changed) => self.notes.push(format!(
                        "a change of {} was cut off, and somebody else has changed the file since: \
                         it stays as it is now",
                        path.display()
                    )),
                    Err(errno) => {
                        self.n_failed += 1;
                        self.notes.push(format!(
                            "a change of {} was cut off and cannot be finished now: {errno}",
                            path.display()
                        ));
                    }
                }
            }
            let _ = sync_directory(&dir);
        }
    }
}

/// Opens a directory that a journal names, where it is still the same.
fn open_recorded(found: &DirRecord, same_boot: bool) -> Result<Dir, String> {
    let words = |error: FileError| match error {
        FileError::Missing | FileError::NotDirectory => String::from("the directory is not there"),
        FileError::Link => String::from("a symbolic link took the place of the directory"),
        other => other.about("it").message.into_owned(),
    };
    let roots = Roots::system().map_err(|errno| words(error_of(errno)))?;
    let place = resolve::resolve(&roots, found.path(), Links::Refuse).map_err(words)?;
    let dir = place.open_directory(DIRECTORY_PATH).map_err(words)?;
    let identity = fstat(&dir).map(|stat| identity_of(&stat)).map_err(|e| words(error_of(e)))?;
    // The number of a device may differ after a start of the machine.
    let same_device = !same_boot || identity.device == found.device;
    if place.real != found.path() || identity.inode != found.inode || !same_device {
        return Err(String::from("another directory has its place"));
    }
    Ok(Dir::new(dir))
}

#[cfg(test)]
mod tests;
