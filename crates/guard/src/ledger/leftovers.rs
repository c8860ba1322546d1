//! Removing the temporary files of changes whose process died.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::{Connection, params};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};

use sinew_tool::Clock;

use super::process::ProcessMark;
use crate::clear::is_temporary;
use crate::clock::SystemClock;

/// After this time a change of a process in another namespace, of which nothing can be known, counts
/// as given up.
const GIVEN_UP_MS: i64 = 60 * 60 * 1_000;

/// Removes what dead processes left behind, and marks their intents as settled.
pub(super) fn remove(connection: &Connection) -> rusqlite::Result<()> {
    let mut open = connection.prepare(
        "SELECT seq, pid, pid_started, temporaries, pid_namespace, at_ms FROM record
         WHERE phase = 'intent' AND settled = 0",
    )?;
    let rows = open
        .query_map([], |row| {
            let mark =
                ProcessMark { pid: row.get(1)?, started: row.get(2)?, namespace: row.get(4)? };
            Ok((row.get::<_, i64>(0)?, mark, row.get::<_, Vec<u8>>(3)?, row.get::<_, i64>(5)?))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let own = ProcessMark::own().namespace;
    let now = SystemClock.wall_ms() as i64;
    for (seq, mark, temporaries, at_ms) in rows {
        if !mark.may_be_alive() || at_ms + GIVEN_UP_MS < now && mark.namespace != own {
            temporaries
                .split(|byte| *byte == 0)
                .for_each(|path| remove_file(Path::new(OsStr::from_bytes(path))));
            connection.execute("UPDATE record SET settled = 1 WHERE seq = ?1", params![seq])?;
        }
    }
    Ok(())
}

/// Removes one temporary file: only a regular file, only under a name that we give, and through no
/// link.
fn remove_file(path: &Path) {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
    if !is_temporary(name.as_bytes()) {
        return;
    }
    let Ok(parent) = rustix::fs::openat2(
        rustix::fs::CWD,
        parent,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    ) else {
        return;
    };
    let regular = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
    if regular {
        let _ = rustix::fs::unlinkat(&parent, name, AtFlags::empty());
    }
}
