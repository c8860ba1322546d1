//! Removing what a change left behind when the process died in it.

use std::path::Path;

use rustix::fs::{AtFlags, unlinkat};
use sinew_tool::{FileError, FileKind, Links};

use crate::clear::is_temporary;
use crate::guard::Guard;
use crate::resolve::{self, Spot};
use crate::stat::error_of;

impl Guard {
    /// Removes a temporary file that an earlier process named before a change. Returns whether it
    /// was there.
    ///
    /// Only a regular file with a name of that pattern is removed, and only where its real path is
    /// the path given and lies beneath a root.
    pub fn remove_temporary(&self, path: &Path) -> Result<bool, FileError> {
        resolve::check_spelling(path)?;
        let place = resolve::resolve(&self.roots, path, Links::Refuse)?;
        let meta = match &place.spot {
            Spot::Found(meta) => meta,
            Spot::Missing | Spot::MissingParents(_) | Spot::Gone => return Ok(false),
        };
        let Some(name) = &place.name else {
            return Err(FileError::NotRegular(FileKind::Directory));
        };
        if place.real != path || !is_temporary(name.to_bytes()) {
            return Err(FileError::Denied(String::from("it is no temporary file of sinew")));
        }
        if meta.kind != FileKind::File {
            return Err(FileError::NotRegular(meta.kind));
        }
        unlinkat(&*place.dir, name, AtFlags::empty()).map(|()| true).map_err(error_of)
    }
}
