//! Reads checkpoints without changing anything, even on a file system mounted read-only.
//!
//! [`Checkpoints`](super::Checkpoints) creates and migrates its database, so that it can record; a log only looks.

use std::path::Path;

use sinew_fs::state::StateDir;
use sinew_tool::Was;

use super::contents::Contents;
use super::index::{self, TABLES};
use super::{CheckpointError, CheckpointId, Content, Entry, Listed, PathState, Query};
use crate::database::{self, PATIENT};
use crate::ledger::{LedgerSync, Reading, open_file};

/// The checkpoints of a state directory, opened for reading.
#[derive(Debug)]
pub struct CheckpointReader {
    reading: Reading,
    contents: Contents,
}

impl CheckpointReader {
    /// Opens the checkpoints of a state directory; `None` if it has none.
    pub fn open(state: &Path) -> Result<Option<Self>, CheckpointError> {
        let path = StateDir::checkpoints_at(state);
        if !database::is_file(&path) {
            return Ok(None);
        }
        let reading = open_file(&path, PATIENT)?;
        match database::version(&reading.connection)? {
            version if version == TABLES.version => {}
            0 if database::is_empty(&reading.connection)? => return Ok(None),
            version if Some(version) == TABLES.previous => {
                return Err(CheckpointError::Unusable(format!(
                    "{} is of an older sinew; `sinew checkpoint list` updates it",
                    path.display()
                )));
            }
            version => return Err(database::foreign(&path, version, TABLES.version).into()),
        }
        let contents = Contents::new(StateDir::contents_at(state), LedgerSync::Normal);
        Ok(Some(Self { reading, contents }))
    }

    /// Lists checkpoints, the newest first.
    pub fn list(&self, query: &Query<'_>) -> Result<Vec<Listed>, CheckpointError> {
        Ok(index::list(&self.reading.connection, query)?)
    }

    /// Returns the changes of a checkpoint's call, by path; none if the checkpoint was collected.
    pub fn entries(&self, id: CheckpointId) -> Result<Vec<Entry>, CheckpointError> {
        Ok(index::entries(&self.reading.connection, id)?)
    }

    /// Opens the kept content of a path for a state that it had.
    pub fn content(&self, path: &Path, state: &PathState) -> Result<Content, CheckpointError> {
        self.contents.open(path, state)
    }
}

impl From<&PathState> for Was {
    fn from(state: &PathState) -> Self {
        match state {
            PathState::Absent => Self::Absent,
            PathState::File { content, size, mode } => {
                Self::File { content: content.to_string(), size: *size, mode: *mode }
            }
            PathState::Unkept { .. } => Self::Unkept,
            PathState::Link(target) => Self::Link(target.clone()),
            PathState::Directory { mode } => Self::Directory { mode: *mode },
            PathState::Special => Self::Special,
            PathState::Rebuilt => Self::Rebuilt,
            PathState::SetAside(to) => Self::SetAside(to.clone()),
        }
    }
}
