//! Stages a new file beside the original: complete, under a temporary name, with its kept attributes.

use rustix::fs::{AtFlags, Gid, Mode, Uid, chownat, fchmod, fstat, statat, symlinkat};
use sinew_tool::{ContentHash, FileError, FileKind, FileMode, HardLinks};

use super::step::Trace;
use crate::change::kept;
use crate::change::original::{self, Content, Original};
use crate::change::temporary::{Temporary, TemporaryName};
use crate::change::{Failure, NameChange, Terms, length};
use sinew_fs::content_hash::content_hash;
use sinew_fs::resolve::Place;
use sinew_fs::roots::Dir;
use sinew_fs::stat::meta_of;
use sinew_records::checkpoints::PathState;

/// Rejects files with several hard links, unless the settings break links.
pub(super) fn check_links(old: &Original, terms: &Terms<'_>) -> Result<(), FileError> {
    let n_links = meta_of(&old.stat).links;
    match terms.settings.hard_links {
        _ if n_links <= 1 => Ok(()),
        HardLinks::Break => Ok(()),
        HardLinks::Refuse => Err(FileError::ManyLinks(n_links)),
        HardLinks::InPlace => Err(FileError::LinksInPlace(n_links)),
    }
}

/// A staged file or symlink.
pub(super) struct Laid {
    pub(super) name: TemporaryName,
    pub(super) trace: Trace,
    /// The hash of its content.
    pub(super) hash: ContentHash,
    /// Its state.
    pub(super) state: PathState,
}

/// Opens the file whose attributes a new one copies.
pub(super) fn open_like(place: &Place) -> Result<Original, Failure> {
    let name = place.name.as_ref().ok_or(FileError::NotRegular(FileKind::Directory))?;
    let dir = place.parent()?;
    let seen = original::look(&dir, name, place.itself)?.ok_or(Failure::Raced)?;
    Original::open_to_read(&dir, name, seen)
}

/// Stages a file from pieces.
pub(super) fn file(
    job: &NameChange<'_>,
    dir: &Dir,
    like: Option<&Original>,
    pieces: &[&[u8]],
    mode: FileMode,
) -> Result<Laid, Failure> {
    let like = like.filter(|like| matches!(like.content, Content::File(_)));
    let temporary =
        Temporary::create(dir, job.temporary, if like.is_some() { 0o600 } else { 0o666 })?;
    let hash = temporary.fill(pieces)?;
    if let Some(like) = like {
        temporary.take_after(like)?;
    }
    let bits = fstat(&temporary.file)?.st_mode & 0o1777;
    let wanted = match mode {
        FileMode::Kept => bits,
        FileMode::Executable(true) => bits | (bits & 0o444) >> 2,
        FileMode::Executable(false) => bits & !0o111,
        FileMode::Exact(exact) => exact & 0o1777,
    };
    if wanted != bits {
        fchmod(&temporary.file, Mode::from_raw_mode(wanted))?;
    }
    temporary.sync(job.terms.settings.sync)?;
    let stat = fstat(&temporary.file)?;
    let state = PathState::hashed(hash, length(pieces), stat.st_mode);
    Ok(Laid { name: temporary.name, trace: Trace::of(&stat), hash, state })
}

/// Stages a symlink, with the owner of the old one.
pub(super) fn link(
    job: &NameChange<'_>,
    dir: &Dir,
    old: Option<&Original>,
    target: &[u8],
) -> Result<Laid, Failure> {
    symlinkat(target, &**dir, job.temporary)?;
    let name = TemporaryName::new(dir, job.temporary);
    let stat = || statat(&**dir, job.temporary, AtFlags::SYMLINK_NOFOLLOW);
    let new = stat()?;
    if let Some(old) = old.map(|old| &old.stat)
        && (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid)
    {
        let (owner, group) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        chownat(&**dir, job.temporary, Some(owner), Some(group), flags)
            .map_err(|_| FileError::Owner)?;
    }
    let hash = content_hash(target);
    let state = PathState::Link(kept::path_of(target).to_owned());
    Ok(Laid { name, trace: Trace::of(&stat()?), hash, state })
}
