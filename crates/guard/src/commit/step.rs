//! One change among several, known by inodes alone, so that whoever comes by can go on with it or
//! take it back: the process that makes it, and the next one where that died.
//!
//! The new thing lies under a temporary name beside the old one. Going on exchanges the two by one
//! rename, and the old thing then lies under the temporary name until the last change of the set is
//! made. Each deed first looks at what is there, so that nothing is done twice, and nothing is done to
//! what somebody else has put there since.
//!
//! Where a file system cannot exchange two names, the old thing gets a second temporary name, by a
//! link or by a rename, before the new one takes its place.

use std::ffi::{CStr, CString};

use rustix::fs::{AtFlags, RenameFlags, linkat, renameat, renameat_with, statat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::change::temporary::take_free_name;
use sinew_fs::roots::Dir;
use sinew_fs::stat::identity_of;

/// What tells a thing from every other that may have its name now. The time of its attributes is no
/// part of it, since a rename changes that.
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
    /// The place of the directory in a list.
    pub(crate) dir: usize,
    /// The name.
    pub(crate) name: CString,
    /// The temporary name: of the new thing before, of the old one afterwards.
    pub(crate) temporary: CString,
    /// What has the name before; `None` where nothing does.
    pub(crate) old: Option<Trace>,
    /// What has it afterwards; `None` where nothing does.
    pub(crate) new: Option<Trace>,
}

/// How a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stand {
    /// It is done, or taken back.
    Done,
    /// What it needs is not there any more: it was done before, or others removed it.
    Gone,
    /// Somebody else has changed the name since, and it was left alone.
    Changed,
    /// Somebody else changed the name twice in the moment of the exchange, and what they put there
    /// lies under the temporary name.
    Displaced,
}

/// Which ways are open to a step: what it needs for them is there, or it went them already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outlook {
    /// It can be done.
    pub(crate) forward: bool,
    /// It can be taken back.
    pub(crate) back: bool,
}

/// How a new thing takes the place of an old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The two names are exchanged.
    Exchange,
    /// The old thing gets a second name, and the new one replaces it.
    Link,
    /// The old thing is moved away first: for a moment nothing has the name.
    Move,
    /// The new one replaces it, and nothing is left that could be put back.
    Over,
}

/// The ways of a change among several; the later ones are for file systems that do not know the
/// earlier ones.
pub(crate) const WAYS: &[Way] = &[Way::Exchange, Way::Link, Way::Move];
/// The ways of a change that is alone: nothing that fails after it would take it back, and no journal
/// would help where nothing has its name.
pub(crate) const ALONE: &[Way] = &[Way::Exchange, Way::Over];

impl Trace {
    /// Returns the trace of a thing with this status.
    pub(crate) fn of(stat: &rustix::fs::Stat) -> Self {
        let identity = identity_of(stat);
        let (inode, size, modified) = (identity.inode, identity.size, identity.modified);
        Self { inode, size, seconds: modified.seconds, nanos: modified.nanos }
    }
}

/// Returns the trace of what has a name.
fn look(dir: &Dir, name: &CStr) -> Result<Option<Trace>, Errno> {
    match statat(&**dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(Trace::of(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Returns whether two traces are of one thing, whatever was written into it since.
fn same(one: Option<Trace>, other: Trace) -> bool {
    one.is_some_and(|one| one.inode == other.inode)
}

impl Step {
    /// Makes the change, unless it is made already, in the first of these ways that the file system
    /// knows.
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
                    // Something else took the name between the look and the exchange.
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

    /// Puts back what an exchange took away from somebody else.
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
            // A link may have stood in for the rename, and its second half is missing.
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

    /// Takes the change back, unless it was not made.
    pub(crate) fn back(&self, dir: &Dir) -> Result<Stand, Errno> {
        let there = look(dir, &self.name)?;
        let aside = look(dir, &self.temporary)?;
        let Some(old) = self.old else {
            // Nothing was there, so what is there now goes, if it is what was put there.
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

    /// Returns whether the old thing lies under a temporary name.
    pub(crate) fn keeps_old(&self, dir: &Dir) -> Result<bool, Errno> {
        let Some(old) = self.old else { return Ok(false) };
        Ok(same(look(dir, &self.temporary)?, old) || same(look(dir, &self.spare()?)?, old))
    }

    /// Looks which ways are open. A name that somebody else changed closes none, since it stays.
    pub(crate) fn outlook(&self, dir: &Dir) -> Result<Outlook, Errno> {
        let there = look(dir, &self.name)?;
        let aside = look(dir, &self.temporary)?;
        let has_old = self.old.is_some_and(|old| same(there, old));
        let keeps_old = self.keeps_old(dir)?;
        let forward = match self.new {
            Some(new) => {
                let is_new = same(there, new);
                let is_theirs = there.is_some() && !is_new && !has_old;
                // Where the old thing is aside and nothing is ready, it was done before.
                let was_done = self.old.is_some_and(|old| same(aside, old));
                is_new || is_theirs || was_done || aside == Some(new)
            }
            None => true,
        };
        let is_theirs = there.is_some() && there != self.new;
        let back = self.old.is_none() || has_old || keeps_old || is_theirs;
        Ok(Outlook { forward, back })
    }

    /// Removes what lies under the temporary names, once nobody needs it any more.
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

    /// Returns the second temporary name, for the old thing where names cannot be exchanged.
    fn spare(&self) -> Result<CString, Errno> {
        let name = self.temporary.to_bytes();
        let (head, tail) = name.split_at_checked(name.len().saturating_sub(4)).unwrap_or_default();
        CString::new([head, b"0", tail].concat()).map_err(|_| Errno::INVAL)
    }
}

#[cfg(test)]
mod tests;
