//! The files among the targets of one call, on their open handles.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::fstat;
use sinew_tool::{
    Access, Change, Expect, FileError, FileKind, FileMeta, FileState, FileTarget, Files, Identity,
    Listing, Opened, Slot, Stamp, Targets, Visitors, WalkOptions, WalkReport, Written,
};

use crate::guard::Guard;
use crate::list;
use crate::replace::{self, Replacement};
use crate::resolve::{Place, Spot};
use crate::roots::{DIRECTORY_READ, FILE_READ, open_name};
use crate::stat::{error_of, meta_of, now};
use crate::walk;

/// What a target needs to be changed.
#[derive(Debug)]
pub(crate) struct Armed {
    /// The name of the temporary file.
    pub(crate) temporary: CString,
    /// What must be there for the change to go ahead, where an approval depends on it: `None`
    /// inside means nothing. Locked for the length of a change.
    bound: Mutex<Option<Option<Identity>>>,
}

impl Armed {
    pub(crate) fn new(temporary: CString, bound: Option<Option<Identity>>) -> Self {
        Self { temporary, bound: Mutex::new(bound) }
    }
}

/// The files of a call.
#[derive(Debug)]
pub(crate) struct GuardedFiles {
    guard: Arc<Guard>,
    targets: Arc<Targets>,
    places: Arc<[Place]>,
    /// What each target needs to be changed; `None` where it may not be.
    armed: Vec<Option<Armed>>,
    changes: Mutex<Vec<Change>>,
    /// When the call could read its first file.
    since: Stamp,
}

impl GuardedFiles {
    pub(crate) fn new(
        guard: Arc<Guard>,
        targets: Arc<Targets>,
        places: Arc<[Place]>,
        armed: Vec<Option<Armed>>,
    ) -> Self {
        Self { guard, targets, places, armed, changes: Mutex::new(Vec::new()), since: now() }
    }

    fn at(&self, slot: Slot) -> Result<(&FileTarget, &Place), FileError> {
        self.targets.files.get(slot.0).zip(self.places.get(slot.0)).ok_or(FileError::Missing)
    }

    /// Returns a target for walking and listing, which need the right to search.
    fn searched(&self, slot: Slot) -> Result<(&FileTarget, &Place), FileError> {
        let (target, place) = self.at(slot)?;
        match target.claim.access {
            Access::Search | Access::Read => Ok((target, place)),
            Access::Write { .. } | Access::Edit { .. } => {
                Err(FileError::Denied(String::from("the call did not ask to look beneath it")))
            }
        }
    }
}

impl Files for GuardedFiles {
    fn meta(&self, slot: Slot) -> Result<FileMeta, FileError> {
        self.at(slot)?.1.meta_now()
    }

    fn open(&self, slot: Slot) -> Result<Opened, FileError> {
        let (target, place) = self.at(slot)?;
        // Opening can have effects where the thing is no file; what was a file a moment ago can at
        // worst have become a FIFO, which does not block.
        let was_file =
            matches!(&target.state, FileState::Found(meta) if meta.kind == FileKind::File);
        if !was_file {
            let kind = place.meta_now()?.kind;
            if kind != FileKind::File {
                return Err(FileError::NotRegular(kind));
            }
        }
        let Some(name) = &place.name else {
            return Err(FileError::NotRegular(FileKind::Directory));
        };
        let file = open_name(place.parent()?.as_fd(), name, FILE_READ).map_err(error_of)?;
        let meta = meta_of(&fstat(&file).map_err(error_of)?);
        match meta.kind {
            FileKind::File => Ok(Opened { file: File::from(file), meta }),
            other => Err(FileError::NotRegular(other)),
        }
    }

    fn replace(
        &self,
        slot: Slot,
        pieces: &[&[u8]],
        expect: Expect<'_>,
    ) -> Result<Written, FileError> {
        let (target, place) = self.at(slot)?;
        let Some(armed) = self.armed.get(slot.0).and_then(Option::as_ref) else {
            return Err(FileError::Denied(String::from("the call was cleared to look only")));
        };
        let Some(name) = &place.name else {
            return Err(FileError::NotRegular(FileKind::Directory));
        };
        if matches!(place.spot, Spot::Gone) {
            return Err(FileError::Missing);
        }
        if place.orphan && place.parent().is_err() {
            return Err(FileError::NoParent);
        }
        let may_create = matches!(target.claim.access, Access::Write { .. });
        let mut bound = armed.bound.lock().unwrap_or_else(PoisonError::into_inner);
        let done = replace::replace(&Replacement {
            place,
            name,
            temporary: &armed.temporary,
            pieces,
            expect,
            bound: *bound,
            may_create,
            settings: &self.guard.files,
            locks: &self.guard.locks,
            turns: self.guard.turns,
            since: self.since,
        })?;
        if let Some(before) = bound.as_mut() {
            *before = place.meta_now().ok().map(|meta| meta.identity);
        }
        drop(bound);
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).push(done.change);
        done.late.map_or(Ok(done.written), Err)
    }

    fn walk(
        &self,
        slot: Slot,
        options: &WalkOptions,
        visitors: &dyn Visitors,
        stop: &AtomicBool,
    ) -> Result<WalkReport, FileError> {
        let (target, place) = self.searched(slot)?;
        let dir = place.open_directory(DIRECTORY_READ)?;
        walk::walk(&self.guard, target, dir, options, visitors, stop)
    }

    fn list(&self, slot: Slot, limit: usize) -> Result<Listing, FileError> {
        let (target, place) = self.searched(slot)?;
        let dir = place.open_directory(DIRECTORY_READ)?;
        list::list(&self.guard, target, &dir, limit)
    }

    fn changes(&self) -> Vec<Change> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
