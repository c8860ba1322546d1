//! What a run changed: the files of its checkpoints, with added and removed lines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use similar::DiffTag;
use sinew_guard::checkpoints::{Checkpoints, PathState, Query};
use sinew_guard::{CheckpointError, CheckpointId};
use sinew_ops::line_ops;
use sinew_tool::shown_path;

use crate::config;

/// Larger files are not compared line by line.
const MAX_COMPARED: u64 = 1 << 20;
/// How many checkpoints are read at once.
const PAGE: usize = 200;

/// What was changed.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Changes {
    /// The first checkpoint, which a restore begins with.
    pub(crate) first: Option<String>,
    /// The files, by path.
    pub(crate) files: Vec<ChangedFile>,
}

/// A file that differs from what it was.
#[derive(Debug, Serialize)]
pub(crate) struct ChangedFile {
    /// The path, relative to the first root.
    pub(crate) path: String,
    /// `new`, `changed` or `deleted`.
    pub(crate) change: &'static str,
    /// Lines that were added, where both contents are text.
    pub(crate) added: Option<usize>,
    /// Lines that were removed.
    pub(crate) removed: Option<usize>,
}

/// Returns the newest checkpoint of a session.
pub(crate) fn newest(
    checkpoints: &Checkpoints,
    session: &str,
) -> Result<Option<CheckpointId>, CheckpointError> {
    let query = Query { session: Some(session), turn: None, id: None, before: None, limit: 1 };
    Ok(checkpoints.list(&query)?.first().map(|listed| listed.id))
}

/// Returns what a session changed after a checkpoint.
pub(crate) fn since(
    checkpoints: &Checkpoints,
    session: &str,
    after: Option<CheckpointId>,
    root: &Path,
) -> Result<Changes, CheckpointError> {
    // The state of each path before the first change, and after the last.
    let mut paths: BTreeMap<PathBuf, (PathState, Option<PathState>)> = BTreeMap::new();
    let mut before = None;
    let mut first = None;
    'pages: loop {
        let query = Query { session: Some(session), turn: None, id: None, before, limit: PAGE };
        let page = checkpoints.list(&query)?;
        let n = page.len();
        for listed in page {
            if after.is_some_and(|after| listed.id <= after) {
                break 'pages;
            }
            (first, before) = (Some(listed.id), Some(listed.id));
            for entry in checkpoints.entries(listed.id)? {
                match paths.get_mut(&entry.path) {
                    Some((earliest, _)) => *earliest = entry.before,
                    None => {
                        paths.insert(entry.path, (entry.before, entry.after));
                    }
                }
            }
        }
        if n < PAGE {
            break;
        }
    }
    let files = paths.into_iter().filter_map(|(path, (before, after))| {
        file(checkpoints, &path, &before, after.as_ref(), root)
    });
    Ok(Changes { first: first.map(|id| id.to_string()), files: files.collect() })
}

/// Returns a file that differs from what it was.
fn file(
    checkpoints: &Checkpoints,
    path: &Path,
    before: &PathState,
    after: Option<&PathState>,
    root: &Path,
) -> Option<ChangedFile> {
    if Some(before) == after {
        return None;
    }
    let change = match (before, after) {
        (PathState::Absent, _) => "new",
        (_, Some(PathState::Absent)) => "deleted",
        _ => "changed",
    };
    let old = match before {
        PathState::Absent => Some(String::new()),
        PathState::File { size, .. } if *size <= MAX_COMPARED => {
            let kept = checkpoints.content(path, before).and_then(|content| content.read_all());
            kept.ok().and_then(|kept| String::from_utf8(kept).ok())
        }
        _ => None,
    };
    let new = match after {
        Some(PathState::Absent) => Some(String::new()),
        Some(PathState::File { size, .. }) if *size <= MAX_COMPARED => config::read_text(path).ok(),
        _ => None,
    };
    let counts = old.zip(new).map(|(old, new)| {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let new: Vec<&str> = new.split_inclusive('\n').collect();
        let ops = line_ops(&old, &new, None);
        let changed = || ops.iter().filter(|op| op.tag() != DiffTag::Equal);
        let added: usize = changed().map(|op| op.new_range().len()).sum();
        (added, changed().map(|op| op.old_range().len()).sum())
    });
    let shown = path.strip_prefix(root).unwrap_or(path);
    Some(ChangedFile {
        path: shown_path(shown),
        change,
        added: counts.map(|(added, _)| added),
        removed: counts.map(|(_, removed)| removed),
    })
}

impl ChangedFile {
    /// Returns the file in words, such as `src/main.rs (+3 -1)`.
    pub(crate) fn words(&self) -> String {
        let counts = match (self.added, self.removed) {
            (Some(added), Some(removed)) => format!("+{added} -{removed}"),
            _ => String::from("not text"),
        };
        match self.change {
            "changed" => format!("{} ({counts})", self.path),
            change => format!("{} ({change}, {counts})", self.path),
        }
    }
}
