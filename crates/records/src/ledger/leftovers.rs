//! Removes temporary files of dead processes.
//!
//! Their paths come from the ledger, not from a call, so they are resolved from `/`, component by component.
//! An intent is settled once each file is removed, missing or foreign. Errors remain for the next process.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::{Connection, params};
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;
use sinew_tool::{Clock, FileError, FileKind, Links};

use sinew_fs::clock::SystemClock;
use sinew_fs::git_lock;
use sinew_fs::journal_files;
use sinew_fs::process_identity::ProcessIdentity;
use sinew_fs::resolve::{self, Spot};
use sinew_fs::roots::{FILE_READ, Roots, open_name};
use sinew_fs::stat::error_of;
use sinew_fs::temporary::is_temporary;

/// A missing directory may be on a disk that returns; after this time it counts as gone.
const GONE_MS: i64 = 30 * 24 * 60 * 60 * 1_000;
/// The most intents per opening of the database, the newest first.
const MAX_INTENTS: i64 = 1_000;

/// The result for a temporary file.
#[derive(Debug, PartialEq, Eq)]
enum Leftover {
    /// It was removed.
    Removed,
    /// It is not in its directory.
    Missing,
    /// Its directory is missing.
    NoDirectory,
    /// The path is not one of sinew's temporary files; it was left alone.
    Foreign,
}

/// Removes temporary files of dead processes and settles their intents.
///
/// A file that a journal names stays: it may be the only copy. Journals are read after the liveness check,
/// because a process may write one just before its death.
pub(super) fn remove(connection: &Connection, state: &Path) -> rusqlite::Result<()> {
    let mut open = connection.prepare(
        "SELECT seq, pid, pid_started, temporaries, pid_namespace, at_ms, machine, boot
         FROM unsettled JOIN entry USING (seq) ORDER BY seq DESC LIMIT ?1",
    )?;
    let rows = open
        .query_map([MAX_INTENTS], |row| {
            let mark = ProcessIdentity {
                pid: row.get(1)?,
                started: row.get(2)?,
                namespace: row.get(4)?,
                machine: row.get(6)?,
                boot: row.get(7)?,
            };
            Ok((row.get::<_, i64>(0)?, mark, row.get::<_, Vec<u8>>(3)?, row.get::<_, i64>(5)?))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let own = ProcessIdentity::own();
    let now = SystemClock.wall_ms() as i64;
    let dead: Vec<_> = rows
        .into_iter()
        .filter(|(_, mark, _, at_ms)| !mark.may_be_at_it(&own, now - at_ms))
        .collect();
    if dead.is_empty() {
        return Ok(());
    }
    // Without the journals no file is removed.
    let Ok(needed) = journal_files::named_temporaries(state) else { return Ok(()) };
    for (seq, _, temporaries, at_ms) in dead {
        let stays = |path: &&[u8]| {
            let path = Path::new(OsStr::from_bytes(path));
            if path.file_name().is_some_and(|name| needed.contains(name.as_bytes())) {
                return true;
            }
            match remove_file(path) {
                Ok(Leftover::NoDirectory) => now <= at_ms + GONE_MS,
                Ok(Leftover::Removed | Leftover::Missing | Leftover::Foreign) => false,
                Err(_) => true,
            }
        };
        let paths = temporaries.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        let n_stay = paths.filter(stays).count();
        if n_stay == 0 {
            connection.execute("DELETE FROM unsettled WHERE seq = ?1", params![seq])?;
        }
    }
    Ok(())
}

/// Removes one regular file or symlink, if it has a temporary name and the path is its real path. Locks of git are known by
/// their content.
fn remove_file(path: &Path) -> Result<Leftover, FileError> {
    let is_temporary = path.file_name().is_some_and(|name| is_temporary(name.as_bytes()));
    let is_lock = !is_temporary && path.extension().is_some_and(|end| end == "lock");
    let ours =
        path.is_absolute() && (is_temporary || is_lock) && resolve::check_spelling(path).is_ok();
    if !ours {
        return Ok(Leftover::Foreign);
    }
    let roots = Roots::system().map_err(error_of)?;
    let place = match resolve::resolve(&roots, path, Links::Itself) {
        Ok(place) => place,
        Err(FileError::Link | FileError::Denied(_) | FileError::Invalid(_)) => {
            return Ok(Leftover::Foreign);
        }
        Err(FileError::NotDirectory) => return Ok(Leftover::NoDirectory),
        Err(error) => return Err(error),
    };
    match &place.spot {
        Spot::Missing => return Ok(Leftover::Missing),
        Spot::MissingParents(_) | Spot::Gone => return Ok(Leftover::NoDirectory),
        Spot::Found(meta) => match meta.kind {
            FileKind::File | FileKind::Symlink => {}
            FileKind::Directory | FileKind::Special => return Ok(Leftover::Foreign),
        },
    }
    let Some(name) = place.name.filter(|_| place.real == path) else {
        return Ok(Leftover::Foreign);
    };
    if is_lock && !is_git_lock(place.dir.as_fd(), &name).unwrap_or(false) {
        return Ok(Leftover::Foreign);
    }
    match unlinkat(&*place.dir, &name, AtFlags::empty()) {
        Ok(()) => Ok(Leftover::Removed),
        Err(Errno::NOENT) => Ok(Leftover::Missing),
        Err(errno) => Err(error_of(errno)),
    }
}

/// Returns whether a file is a lock that a restore took.
fn is_git_lock(dir: BorrowedFd<'_>, name: &CStr) -> Result<bool, FileError> {
    let file = open_name(dir, name, FILE_READ).map_err(error_of)?;
    let mut content = Vec::new();
    let limit = git_lock::CONTENT.len() as u64 + 1;
    File::from(file).take(limit).read_to_end(&mut content).map_err(FileError::Io)?;
    Ok(content == git_lock::CONTENT)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test lays out real files")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn nothing_but_a_temporary_file_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = fs::canonicalize(dir.path()).expect("its real path");
        let name = ".sinew-0123456789abcdef01234567.tmp";
        let short = ".sinew-0123.tmp";
        let upper = ".sinew-0123456789ABCDEF01234567.tmp";
        let link = ".sinew-1123456789abcdef01234567.tmp";
        fs::create_dir_all(top.join("real")).expect("a directory");
        fs::create_dir(top.join(name)).expect("a directory");
        for name in ["a.txt", name, short, upper] {
            fs::write(top.join("real").join(name), "kept").expect("a file");
        }
        std::os::unix::fs::symlink("real", top.join("linked")).expect("a link");
        std::os::unix::fs::symlink("a.txt", top.join("real").join(link)).expect("a link");
        for (path, expected) in [
            (top.join("real/a.txt"), Leftover::Foreign),
            (top.join(name), Leftover::Foreign),
            (top.join("linked").join(name), Leftover::Foreign),
            (top.join("real/../real").join(name), Leftover::Foreign),
            (top.join("real").join(short), Leftover::Foreign),
            (top.join("real").join(upper), Leftover::Foreign),
            (Path::new("real").join(name), Leftover::Foreign),
            (top.join("gone").join(name), Leftover::NoDirectory),
            (top.join("real/a.txt").join(name), Leftover::NoDirectory),
        ] {
            let before = fs::read_dir(top.join("real")).expect("entries").count();
            assert_eq!(remove_file(&path).expect("it is dealt with"), expected, "{path:?}");
            assert_eq!(fs::read_dir(top.join("real")).expect("entries").count(), before);
        }
        let file = top.join("real").join(name);
        assert_eq!(remove_file(&file).expect("it is removed"), Leftover::Removed);
        assert_eq!(remove_file(&file).expect("it is gone"), Leftover::Missing);
        // Removes only the symlink, not its target.
        let link = top.join("real").join(link);
        assert_eq!(remove_file(&link).expect("it is removed"), Leftover::Removed);
        assert_eq!(fs::read_to_string(top.join("real/a.txt")).expect("it is there"), "kept");
        assert!(top.join(name).is_dir());
        // Of locks, only those that a restore took.
        let lock = top.join("real/index.lock");
        let is_removed = [git_lock::CONTENT, b"", b"DIRC", &[git_lock::CONTENT, b"x"].concat()];
        for (content, expected) in is_removed.into_iter().zip([true, false, false, false]) {
            fs::write(&lock, content).expect("written");
            let done = remove_file(&lock).expect("it is dealt with");
            assert_eq!(done == Leftover::Removed, expected, "{content:?}");
            assert_eq!(lock.exists(), !expected, "{content:?}");
        }
    }
}
