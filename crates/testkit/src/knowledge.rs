//! What the one caller of a World in memory knows of its files.
//!
//! It answers as the knowledge of the guard does: the content decides where it is known, else the
//! state; own writes are known; a missing file may be written anew. No other caller has a name
//! here, so every other writer is another program.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use sinew_tool::sync::lock;
use sinew_tool::{
    Change, ContentHash, FileError, FileSettings, Identity, Knowledge, ReadObservation, Slot,
    Targets,
};

/// What the caller knows, over all its calls.
#[derive(Clone, Default)]
pub(crate) struct MemoryKnowledge(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    files: HashMap<PathBuf, OfFile>,
    last: Option<(PathBuf, ReadObservation, u32)>,
}

#[derive(Clone, Copy)]
struct OfFile {
    content: Option<ContentHash>,
    state: Option<Identity>,
}

impl MemoryKnowledge {
    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.0)
    }

    /// Refuses a change of what the caller knows otherwise, or not at all where it must.
    pub(crate) fn check(
        &self,
        settings: &FileSettings,
        path: &Path,
        state: &Identity,
        content: &[u8],
    ) -> Result<(), FileError> {
        let now = ContentHash::from(*blake3::hash(content).as_bytes());
        match self.known().files.get(path).filter(|_| settings.track_reads) {
            None if settings.must_read_before_write => Err(FileError::Unread),
            None => Ok(()),
            Some(OfFile { content: Some(known), .. }) if *known == now => Ok(()),
            Some(OfFile { content: None, state: known }) if *known == Some(*state) => Ok(()),
            Some(_) => Err(FileError::Stale(None)),
        }
    }

    /// Notes a change that the caller made.
    pub(crate) fn changed(&self, change: &Change) {
        if let Some(after) = change.after {
            let mut known = self.known();
            let file = OfFile { content: Some(after), state: None };
            known.last = None;
            known.files.insert(change.path.clone(), file);
        }
    }
}

/// What the caller knows, for one call.
pub(crate) struct CallKnowledge {
    pub(crate) knowledge: MemoryKnowledge,
    pub(crate) settings: Arc<FileSettings>,
    pub(crate) targets: Arc<Targets>,
}

impl CallKnowledge {
    fn path(&self, slot: Slot) -> Option<&Path> {
        self.targets.files.get(slot.0).map(|target| target.path.as_path())
    }
}

impl Knowledge for CallKnowledge {
    fn minds(&self, slot: Slot) -> bool {
        let is_known = |path| self.knowledge.known().files.contains_key(path);
        let must_know = self.settings.must_read_before_write;
        self.settings.track_reads && (must_know || self.path(slot).is_some_and(is_known))
    }

    fn check(
        &self,
        slot: Slot,
        state: &Identity,
        content: &[u8],
    ) -> Result<Option<ContentHash>, FileError> {
        let checked = |path| self.knowledge.check(&self.settings, path, state, content);
        self.path(slot).map_or(Ok(()), checked).map(|()| None)
    }

    fn saw(&self, slot: Slot, observation: &ReadObservation) -> u32 {
        let Some(path) = self.path(slot) else { return 1 };
        let mut known = self.knowledge.known();
        let of = known.files.get(path).copied();
        let content = match (observation.content, of) {
            (None, Some(of)) if of.state == Some(observation.state) => of.content,
            (content, _) => content,
        };
        known.files.insert(path.to_owned(), OfFile { content, state: Some(observation.state) });
        let n_before = match &known.last {
            Some((last, seen, n)) if last == path && is_same(seen, observation) => *n,
            _ => 0,
        };
        known.last = Some((path.to_owned(), *observation, n_before + 1));
        n_before + 1
    }
}

fn is_same(one: &ReadObservation, other: &ReadObservation) -> bool {
    let is_same_content = match (one.content, other.content) {
        (Some(one), Some(other)) => one == other,
        _ => one.state == other.state,
    };
    is_same_content && one.part == other.part
}
