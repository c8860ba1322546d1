//! One step of a set, identified by inode, so that its maker or crash recovery can finish or undo it.
//!
//! The new file has a temporary name beside the original. One `RENAME_EXCHANGE` swaps them, and the original
//! keeps the temporary name until the last change of the set. Each operation first checks both names, so that
//! no step is done twice and files of other processes stay.
//!
//! On file systems without exchange, the original first gets a second temporary name, by link or rename.

use std::ffi::{CStr, CString};

use rustix::fs::{AtFlags, RenameFlags, linkat, renameat, renameat_with, statat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::change::temporary::take_free_name;
use sinew_fs::roots::Dir;
use sinew_fs::stat::identity_of;

/// Identity of the file at a name. The ctime is left out, since a rename changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trace {
    inode: u64,
    size: u64,
    seconds: i64,
    nanos: u32,
}

/// One change of a name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// Index of the directory in a list.
    pub(crate) dir: usize,
    /// The name.
    pub(crate) name: CString,
    /// The temporary name: of the new file before the change, of the original after it.
    pub(crate) temporary: CString,
    /// The file at the name before the change, if any.
    pub(crate) old: Option<Trace>,
    /// The file at the name after the change, if any.
    pub(crate) new: Option<Trace>,
}

/// State of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stand {
    /// Done, or rolled back.
    Done,
    /// A needed file is missing: the step was done before, or another process removed it.
    Gone,
    /// Another process changed the name, which stays as it is.
    Changed,
    /// Another process changed the name twice during the exchange; its file has the temporary name.
    Displaced,
}

/// Directions that are open: the needed files exist, or the step already went there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outlook {
    /// The step can be done.
    pub(crate) forward: bool,
    /// The step can be rolled back.
    pub(crate) back: bool,
}

/// How a new file replaces the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// `RENAME_EXCHANGE` swaps the names.
    Exchange,
    /// The original gets a second hard link, and the new file replaces it.
    Link,
    /// The original is renamed away first: for a moment the name is free.
    Move,
    /// The new file replaces it, without a way back.
    Over,
}

/// Ways of a change in a set; the later ones serve file systems without the earlier ones.
pub(crate) const WAYS: &[Way] = &[Way::Exchange, Way::Link, Way::Move];
/// Ways of a single change: no later failure rolls it back, and no journal covers a free name.
pub(crate) const ALONE: &[Way] = &[Way::Exchange, Way::Over];

impl Trace {
    /// Returns the trace of a status.
    pub(crate) fn of(stat: &rustix::fs::Stat) -> Self {
        let identity = identity_of(stat);
        let (inode, size, modified) = (identity.inode, identity.size, identity.modified);
        Self { inode, size, seconds: modified.seconds, nanos: modified.nanos }
    }
}

/// Returns the trace of the file at a name.
fn look(dir: &Dir, name: &CStr) -> Result<Option<Trace>, Errno> {
    match statat(&**dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(Trace::of(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Returns whether two traces have one inode, whatever was written since.
fn same(one: Option<Trace>, other: Trace) -> bool {
    one.is_some_and(|one| one.inode == other.inode)
}

impl Step {
    /// Makes the change in the first way that the file system supports, unless it is made already.
    pub(crate) fn forward(&self, dir: &Dir, ways: &[Way]) -> Result<Stand, Errno> {
        match (self.old, self.new) {
            (Some(old), Some(new)) => self.swap(dir, ways, old, new),
            (None, Some(new)) => self.create(dir, new),
            (Some(old), None) => self.remove(dir, old),
            (None, None) => Ok(Stand::Gone),
        }
    }

    fn swap(&self, dir: &Dir, ways: &[Way], old: Trace, new: Trace) -> Result<Stand, Errno> {
        let there = look(dir, &self.name)?;
        if same(there, new) {
            return Ok(Stand::Done);
        }
        let Some(prepared) = look(dir, &self.temporary)? else { return Ok(Stand::Gone) };
        match there {
            _ if prepared != new => Ok(Stand::Changed),
            Some(there) if there == old => self.put_over(dir, ways, old, new),
            None if same(look(dir, &self.spare()?)?, old) => {
                match take_free_name(dir, &self.temporary, &self.name) {
                    Err(Errno::EXIST) => Ok(Stand::Changed),
                    other => other.map(|()| Stand::Done),
                }
            }
            _ => Ok(Stand::Changed),
        }
    }

    fn put_over(&self, dir: &Dir, ways: &[Way], old: Trace, new: Trace) -> Result<Stand, Errno> {
        let spare = self.spare()?;
        for way in ways {
            match way {
                Way::Exchange => match self.exchange(dir) {
                    Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
                    Err(errno) => return Err(errno),
                    Ok(()) if same(look(dir, &self.temporary)?, old) => return Ok(Stand::Done),
                    // Another process took the name between the check and the exchange.
                    Ok(()) => return self.exchange_again(dir, new),
                },
                Way::Over => {
                    renameat(&**dir, &*self.temporary, &**dir, &*self.name)?;
                    return Ok(Stand::Done);
                }
                Way::Link | Way::Move if same(look(dir, &spare)?, old) => {
                    renameat(&**dir, &*self.temporary, &**dir, &*self.name)?;
                    return Ok(Stand::Done);
                }
                Way::Link => {
                    if linkat(&**dir, &*self.name, &**dir, &*spare, AtFlags::empty()).is_ok() {
                        renameat(&**dir, &*self.temporary, &**dir, &*self.name)?;
                        return Ok(Stand::Done);
                    }
                }
                Way::Move => {
                    take_free_name(dir, &self.name, &spare)?;
                    let moved = take_free_name(dir, &self.temporary, &self.name);
                    if moved.is_err() {
                        take_free_name(dir, &spare, &self.name)?;
                    }
                    return moved.map(|()| Stand::Done);
                }
            }
        }
        Err(Errno::NOTSUP)
    }

    /// Swaps back what an exchange took from another process.
    fn exchange_again(&self, dir: &Dir, new: Trace) -> Result<Stand, Errno> {
        self.exchange(dir)?;
        if same(look(dir, &self.temporary)?, new) {
            Ok(Stand::Changed)
        } else {
            Ok(Stand::Displaced)
        }
    }

    fn create(&self, dir: &Dir, new: Trace) -> Result<Stand, Errno> {
        let there = look(dir, &self.name)?;
        if same(there, new) {
            return Ok(Stand::Done);
        }
        match look(dir, &self.temporary)? {
            None => return Ok(Stand::Gone),
            Some(prepared) if prepared != new || there.is_some() => return Ok(Stand::Changed),
            Some(_) => {}
        }
        match take_free_name(dir, &self.temporary, &self.name) {
            Err(Errno::EXIST) => Ok(Stand::Changed),
            other => other.map(|()| Stand::Done),
        }
    }

    fn remove(&self, dir: &Dir, old: Trace) -> Result<Stand, Errno> {
        let there = look(dir, &self.name)?;
        if same(look(dir, &self.temporary)?, old) {
            // A hard link may have replaced the rename, without the unlink yet.
            return match same(there, old) {
                true => unlinkat(&**dir, &*self.name, AtFlags::empty()).map(|()| Stand::Done),
                false => Ok(Stand::Done),
            };
        }
        match there {
            None => return Ok(Stand::Gone),
            Some(there) if there != old => return Ok(Stand::Changed),
            Some(_) => take_free_name(dir, &self.name, &self.temporary)?,
        }
        if same(look(dir, &self.temporary)?, old) {
            return Ok(Stand::Done);
        }
        take_free_name(dir, &self.temporary, &self.name).map(|()| Stand::Changed)
    }

    /// Rolls the change back, if it was made.
    pub(crate) fn back(&self, dir: &Dir) -> Result<Stand, Errno> {
        let there = look(dir, &self.name)?;
        let aside = look(dir, &self.temporary)?;
        let Some(old) = self.old else {
            // There was no original: the new file is removed, if it is still there.
            return match there {
                Some(there) if Some(there) == self.new => {
                    unlinkat(&**dir, &*self.name, AtFlags::empty()).map(|()| Stand::Done)
                }
                Some(_) => Ok(Stand::Changed),
                None => Ok(Stand::Done),
            };
        };
        if same(there, old) {
            return Ok(Stand::Done);
        }
        let spare = self.spare()?;
        let is_spared = same(look(dir, &spare)?, old);
        if there.is_some() && there != self.new {
            return Ok(Stand::Changed);
        }
        match there {
            Some(_) if same(aside, old) => self.exchange(dir)?,
            Some(_) if is_spared => renameat(&**dir, &*spare, &**dir, &*self.name)?,
            None if same(aside, old) => take_free_name(dir, &self.temporary, &self.name)?,
            None if is_spared => take_free_name(dir, &spare, &self.name)?,
            _ => return Ok(Stand::Gone),
        }
        Ok(Stand::Done)
    }

    /// Returns whether a temporary name holds the original.
    pub(crate) fn keeps_old(&self, dir: &Dir) -> Result<bool, Errno> {
        let Some(old) = self.old else { return Ok(false) };
        Ok(same(look(dir, &self.temporary)?, old) || same(look(dir, &self.spare()?)?, old))
    }

    /// Returns the open directions. A name that another process changed closes none, since it stays.
    pub(crate) fn outlook(&self, dir: &Dir) -> Result<Outlook, Errno> {
        let there = look(dir, &self.name)?;
        let aside = look(dir, &self.temporary)?;
        let has_old = self.old.is_some_and(|old| same(there, old));
        let keeps_old = self.keeps_old(dir)?;
        let forward = match self.new {
            Some(new) => {
                let is_new = same(there, new);
                let is_theirs = there.is_some() && !is_new && !has_old;
                // The original has the temporary name and no file is staged: it was done before.
                let was_done = self.old.is_some_and(|old| same(aside, old));
                is_new || is_theirs || was_done || aside == Some(new)
            }
            None => true,
        };
        let is_theirs = there.is_some() && there != self.new;
        let back = self.old.is_none() || has_old || keeps_old || is_theirs;
        Ok(Outlook { forward, back })
    }

    /// Removes the files at the temporary names, once no step needs them.
    pub(crate) fn clean(&self, dir: &Dir) -> Result<(), Errno> {
        for name in [&self.temporary, &self.spare()?] {
            let found = look(dir, name)?;
            let is_ours = [self.old, self.new].into_iter().flatten().any(|ours| same(found, ours));
            if is_ours {
                match unlinkat(&**dir, &**name, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(errno) => return Err(errno),
                }
            }
        }
        Ok(())
    }

    fn exchange(&self, dir: &Dir) -> Result<(), Errno> {
        renameat_with(&**dir, &*self.temporary, &**dir, &*self.name, RenameFlags::EXCHANGE)
    }

    /// Returns the second temporary name, for the original on file systems without exchange.
    fn spare(&self) -> Result<CString, Errno> {
        let name = self.temporary.to_bytes();
        let (head, tail) = name.split_at_checked(name.len().saturating_sub(4)).unwrap_or_default();
        CString::new([head, b"0", tail].concat()).map_err(|_| Errno::INVAL)
    }
}

#[cfg(test)]
mod tests;
