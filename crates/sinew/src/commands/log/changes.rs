//! What a logged call changed: by its checkpoint, or else by the hashes of its record.

use std::path::{Path, PathBuf};
use std::time::Instant;

use sinew_guard::checkpoints::{CheckpointReader, Entry, PathState};
use sinew_guard::{Field, content_hash};
use sinew_ops::{Side, call_difference};
use sinew_tool::{Was, shown_path};

use super::entry::LoggedCall;
use super::from_root;
use crate::agent::changes::{ChangedFile, Counted, content_of, current};

/// The most paths of a call whose contents are compared.
const MAX_COUNTED: usize = 100;

/// The change of a path by a call.
pub(super) struct CallChange {
    /// The absolute path.
    pub(super) path: PathBuf,
    /// The change as it is shown.
    pub(super) file: ChangedFile,
    /// The states and contents before and after, where they are known.
    sides: Option<[(Was, Counted); 2]>,
}

impl CallChange {
    /// Returns whether the call created the directory.
    pub(super) fn is_new_directory(&self) -> bool {
        matches!(&self.sides, Some([(Was::Absent, _), (Was::Directory { .. }, _)]))
    }

    /// Returns the change as a unified diff.
    pub(super) fn diff(&self, until: Instant) -> String {
        let Some([before, after]) = &self.sides else {
            let why = self.file.uncounted.unwrap_or("not known");
            return format!("{}: there is no diff: {why}\n", self.file.path);
        };
        let side = |(was, content): &'_ (Was, Counted)| (was.clone(), content.clone().ok());
        let ((before, old), (after, new)) = (side(before), side(after));
        let (before, after) =
            (Side { was: &before, content: old }, Side { was: &after, content: new });
        call_difference(&self.file.path, &before, &after, Some(until))
    }
}

/// Returns what a call changed, by path.
pub(super) fn of_call(
    reader: Option<&CheckpointReader>,
    call: &LoggedCall,
    roots: &[PathBuf],
    until: Instant,
) -> Vec<CallChange> {
    let Some((reader, checkpoint)) = reader.zip(call.checkpoint.as_ref()) else {
        return recorded(call, roots);
    };
    // A checkpoint that was collected meanwhile has no entries.
    let entries = reader.entries(checkpoint.id).unwrap_or_default();
    let change = |(at, entry): (usize, Entry)| kept(reader, entry, at < MAX_COUNTED, roots, until);
    entries.into_iter().enumerate().filter_map(change).collect()
}

/// Returns a change with its kept contents. The state after a call is kept where a later call changed it; else the path
/// may still have it.
fn kept(
    reader: &CheckpointReader,
    entry: Entry,
    is_counted: bool,
    roots: &[PathBuf],
    until: Instant,
) -> Option<CallChange> {
    let Entry { path, settled, before, after } = entry;
    let after = after.filter(|_| settled);
    let read =
        |state: &PathState| reader.content(&path, state).and_then(|kept| kept.read_all()).ok();
    let content = |state: Option<&PathState>, now: fn(&Path) -> Option<Vec<u8>>| match is_counted {
        true => content_of(state, || {
            let state = state?;
            read(state).or_else(|| now(&path).filter(|content| has_content(state, content)))
        }),
        false => Err("not counted"),
    };
    let (old, new) = (content(Some(&before), |_| None), content(after.as_ref(), current));
    let shown = from_root(&path, roots);
    let sides = (&before, after.as_ref());
    let file = ChangedFile::between(shown, sides, (&old, &new), Some(until))?;
    let known = after.as_ref().filter(|_| is_counted);
    let sides = known.map(|after| [(Was::from(&before), old), (Was::from(after), new)]);
    Some(CallChange { path, file, sides })
}

fn has_content(state: &PathState, bytes: &[u8]) -> bool {
    matches!(state, PathState::File { content, .. } if *content == content_hash(bytes))
}

/// Returns the changes that a record names.
fn recorded(call: &LoggedCall, roots: &[PathBuf]) -> Vec<CallChange> {
    let Some(record) = call.record.as_ref().filter(|_| call.has_recorded_changes()) else {
        return Vec::new();
    };
    let further = record.changes.iter().map(|fields| fields.as_slice());
    let all = std::iter::once(record.fields.as_slice()).chain(further);
    all.filter_map(|fields| {
        let field = |name| fields.iter().find(|(known, _)| *known == name).map(|(_, field)| field);
        let Some(Field::Text(path)) = field("file_path") else { return None };
        let change = match (field("before_hash"), field("after_hash")) {
            (None, Some(_)) => "new",
            (Some(_), None) => "deleted",
            _ => "changed",
        };
        let path = PathBuf::from(path.as_ref());
        let shown = shown_path(from_root(&path, roots));
        let uncounted = Some("not kept");
        let file = ChangedFile { path: shown, change, added: None, removed: None, uncounted };
        Some(CallChange { path, file, sides: None })
    })
    .collect()
}
