//! Remembers the real paths of directories that calls named lately.
//!
//! A directory is known by its mount and its inode, and has one path there. It is held open, so that no other directory gets its
//! inode number. A path counts for a moment alone, since the user may move the directory meanwhile. Commands cannot move one
//! where its names are judged in another way.

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, PROC_SUPER_MAGIC, Statx, StatxFlags, fstatfs, makedev, statx};
use rustix::io::Errno;

use super::path::real_path;

/// The most directories that are remembered, and held open.
const MAX_DIRS: usize = 16;
/// How long a path counts.
const PATH_AGE: Duration = Duration::from_millis(2);

/// The directories that are known.
#[derive(Debug, Default)]
pub(super) struct KnownDirs(RefCell<Vec<KnownDir>>);

#[derive(Debug)]
struct KnownDir {
    id: DirId,
    real: Arc<Path>,
    at: Instant,
    _held: OwnedFd,
}

/// A directory, and the mount through which it is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DirId {
    mount: u64,
    device: (u32, u32),
    inode: u64,
}

/// A directory that a call names.
#[derive(Debug, Clone)]
pub(super) enum Dir {
    /// One of `/proc`, where what a name means depends on the process that looks.
    OfProc,
    /// Another one, with its real path.
    Real(Arc<Path>),
}

impl KnownDirs {
    /// Returns what a directory is; fails with `ENOTDIR` if it is none.
    pub(super) fn find(&self, dir: &OwnedFd) -> Result<(DirId, Dir), Errno> {
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::MNT_ID;
        let stat = statx(dir, c"", AtFlags::EMPTY_PATH, wanted)?;
        if FileType::from_raw_mode(stat.stx_mode.into()) != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        let id = DirId::of(&stat);
        let now = Instant::now();
        let mut known = self.0.borrow_mut();
        let has_mount = stat.stx_mask & StatxFlags::MNT_ID.bits() != 0;
        if let Some(known) = known.iter().find(|known| has_mount && known.id == id)
            && now.saturating_duration_since(known.at) < PATH_AGE
        {
            return Ok((id, Dir::Real(Arc::clone(&known.real))));
        }
        if fstatfs(dir)?.f_type == PROC_SUPER_MAGIC {
            return Ok((id, Dir::OfProc));
        }
        let real: Arc<Path> = real_path(dir.as_fd())?.into();
        known.retain(|known| known.id != id);
        if known.len() == MAX_DIRS {
            known.remove(0);
        }
        if let Ok(held) = dir.try_clone() {
            known.push(KnownDir { id, real: Arc::clone(&real), at: now, _held: held });
        }
        Ok((id, Dir::Real(real)))
    }

    /// Forgets all paths, since a directory moved.
    pub(super) fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}

impl DirId {
    fn of(stat: &Statx) -> Self {
        Self {
            mount: stat.stx_mnt_id,
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
        }
    }

    /// Returns the numbers of the device and the inode.
    pub(super) fn file(&self) -> (u64, u64) {
        (makedev(self.device.0, self.device.1), self.inode)
    }
}
