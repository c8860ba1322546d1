//! Translates file status and errors of the kernel into the contract's types.

#![expect(clippy::unnecessary_cast, reason = "the fields of a status differ between processors")]

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FileType, Stat, StatxFlags, StatxTimestamp, fstatfs, statx};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use sinew_tool::{FileError, FileKind, FileMeta, Identity, Info, Stamp};

use crate::kernel;
use crate::resolve::Place;

/// Returns kind, identity, mode and link count from a status.
pub fn meta_of(stat: &Stat) -> FileMeta {
    FileMeta {
        kind: kind_of(FileType::from_raw_mode(stat.st_mode)),
        identity: identity_of(stat),
        mode: stat.st_mode & 0o7777,
        links: stat.st_nlink as u64,
    }
}

/// Returns the identity of a file from its status.
pub fn identity_of(stat: &Stat) -> Identity {
    Identity {
        device: stat.st_dev as u64,
        inode: stat.st_ino as u64,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified: Stamp { seconds: stat.st_mtime as i64, nanos: stat.st_mtime_nsec as u32 },
        changed: Stamp { seconds: stat.st_ctime as i64, nanos: stat.st_ctime_nsec as u32 },
    }
}

/// Returns the current status of a place, with all its times.
pub fn info_of(place: &Place) -> Result<Info, FileError> {
    let meta = place.meta_now()?;
    let wanted = StatxFlags::ATIME | StatxFlags::BTIME;
    let all = match &place.name {
        Some(name) => statx(&*place.parent()?, name, AtFlags::SYMLINK_NOFOLLOW, wanted),
        None => statx(&*place.dir, c"", AtFlags::EMPTY_PATH, wanted),
    };
    let stamp = |time: StatxTimestamp| Stamp { seconds: time.tv_sec, nanos: time.tv_nsec };
    match all {
        Ok(all) => {
            let has_created = all.stx_mask & StatxFlags::BTIME.bits() != 0;
            let created = has_created.then(|| stamp(all.stx_btime));
            Ok(Info { meta, created, accessed: stamp(all.stx_atime) })
        }
        // A kernel without `statx` has no creation time.
        Err(Errno::NOSYS) => Ok(Info { created: None, accessed: meta.modified(), meta }),
        Err(errno) => Err(error_of(errno)),
    }
}

/// Returns whether each change after a look at a file's times gets its own timestamp: with [multigrain
/// timestamps], since Linux 6.13, on file systems that store fractions of seconds.
///
/// [multigrain timestamps]: https://docs.kernel.org/filesystems/multigrain-ts.html
pub fn tells_changes_apart(file: impl AsFd) -> bool {
    /// ext4, xfs, btrfs and tmpfs by their numbers in `linux/magic.h`.
    const WITH_FINE_TIMES: [i64; 4] = [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994];
    let kind = || fstatfs(file).is_ok_and(|found| WITH_FINE_TIMES.contains(&(found.f_type as i64)));
    kernel::is_since((6, 13)) && kind()
}

/// Returns the time of the clock for file timestamps.
pub fn now() -> Stamp {
    let now = clock_gettime(ClockId::Realtime);
    Stamp { seconds: now.tv_sec, nanos: now.tv_nsec as u32 }
}

/// Returns the file kind of a kernel file type.
pub fn kind_of(kind: FileType) -> FileKind {
    match kind {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Special,
    }
}

/// Returns the contract's error for an errno.
pub fn error_of(errno: Errno) -> FileError {
    match errno {
        Errno::NOENT => FileError::Missing,
        Errno::NOTDIR => FileError::NotDirectory,
        Errno::ISDIR => FileError::NotRegular(FileKind::Directory),
        Errno::NXIO => FileError::NotRegular(FileKind::Special),
        Errno::ACCESS | Errno::PERM => FileError::Permission,
        Errno::NAMETOOLONG => FileError::Invalid("is too long"),
        // The last component is never followed, so a symlink there is a change.
        Errno::LOOP => FileError::Changed,
        Errno::ROFS => FileError::ReadOnly,
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => FileError::Full(io::Error::from(errno)),
        Errno::MFILE => {
            FileError::OpenFiles(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
        }
        other => FileError::Io(io::Error::from(other)),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests look from outside")]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::Path;

    use rustix::fs::fstat;

    use super::*;

    #[track_caller]
    fn check(dir: &Path) {
        let path = dir.join("file");
        fs::write(&path, "").unwrap();
        let file = fs::File::open(&path).unwrap();
        if !tells_changes_apart(&file) {
            let words = format!("SKIPPED stat: no fine times in {}\n", dir.display());
            io::stderr().write_all(words.as_bytes()).unwrap();
            return;
        }
        let mut last = identity_of(&fstat(&file).unwrap()).changed;
        for n in 0..1_000 {
            fs::write(&path, "").unwrap();
            let changed = identity_of(&fstat(&file).unwrap()).changed;
            assert_ne!(changed, last, "change {n} in {}", dir.display());
            last = changed;
        }
    }

    #[test]
    fn a_change_that_was_looked_at_never_has_the_time_of_the_next() {
        check(tempfile::tempdir().unwrap().path());
        if let Ok(in_memory) = tempfile::tempdir_in("/dev/shm") {
            check(in_memory.path());
        }
    }
}
