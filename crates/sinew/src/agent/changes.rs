//! What a run or a call changed: the files of its checkpoints, with added and removed lines.

use std::collections::BTreeMap;
use std::fs::{Metadata, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::OFlags;
use serde::Serialize;
use similar::DiffTag;
use sinew_guard::checkpoints::{Checkpoints, PathState, Query};
use sinew_guard::{CheckpointError, CheckpointId};
use sinew_ops::line_ops;
use sinew_tool::shown_path;

/// Larger files are not compared line by line.
pub(crate) const MAX_COMPARED: u64 = 1 << 20;
/// How many checkpoints are read at once.
const PAGE: usize = 200;

/// The files that a session or turn changed.
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
    /// Why lines are not counted.
    #[serde(skip)]
    pub(crate) uncounted: Option<&'static str>,
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
    let kept = || checkpoints.content(path, before).and_then(|content| content.read_all()).ok();
    let old = content_of(Some(before), kept);
    let new = content_of(after, || current(path));
    let shown = path.strip_prefix(root).unwrap_or(path);
    ChangedFile::between(shown, (before, after), (&old, &new), None)
}

/// The content of a file, or why its lines are not counted.
pub(crate) type Counted = Result<Vec<u8>, &'static str>;

/// Returns the content that a state has, which `read` reads where it is a small file.
pub(crate) fn content_of(
    state: Option<&PathState>,
    read: impl FnOnce() -> Option<Vec<u8>>,
) -> Counted {
    match state {
        None => Err("unfinished"),
        Some(PathState::Absent) => Ok(Vec::new()),
        Some(PathState::File { size, .. }) if *size <= MAX_COMPARED => read().ok_or("not kept"),
        Some(PathState::File { .. } | PathState::Unkept { .. }) => Err("too large"),
        Some(PathState::Link(_)) => Err("symbolic link"),
        Some(PathState::Directory { .. }) => Err("directory"),
        Some(PathState::Special) => Err("special file"),
        Some(PathState::Rebuilt) => Err("directory"),
        Some(PathState::SetAside(_)) => Err("set aside"),
    }
}

/// Reads the small file at a path, without following a symlink.
#[expect(clippy::disallowed_methods, reason = "what a call changed is compared with what is there")]
pub(crate) fn current(path: &Path) -> Option<Vec<u8>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let is_small = |meta: &Metadata| meta.is_file() && meta.len() <= MAX_COMPARED;
    file.metadata().ok().filter(is_small)?;
    let mut content = Vec::new();
    file.take(MAX_COMPARED).read_to_end(&mut content).ok()?;
    Some(content)
}

impl ChangedFile {
    /// Returns the change of a path, by its states and contents before and after; `None` if nothing changed. The lines that are
    /// counted need not be the fewest after `until`.
    pub(crate) fn between(
        shown: &Path,
        (before, after): (&PathState, Option<&PathState>),
        (old, new): (&Counted, &Counted),
        until: Option<Instant>,
    ) -> Option<Self> {
        if Some(before) == after {
            return None;
        }
        let change = match (before, after) {
            (PathState::Absent, _) => "new",
            (_, Some(PathState::Absent)) => "deleted",
            _ => "changed",
        };
        let counts = match (old, new) {
            (Err(why), _) | (_, Err(why)) => Err(*why),
            (Ok(old), Ok(new)) if old.contains(&0) || new.contains(&0) => Err("binary"),
            (Ok(old), Ok(new)) => Ok(counts(old, new, until)),
        };
        Some(Self {
            path: shown_path(shown),
            change,
            added: counts.ok().map(|(added, _)| added),
            removed: counts.ok().map(|(_, removed)| removed),
            uncounted: counts.err(),
        })
    }

    /// Returns the file in words, such as `src/main.rs (+3 -1)`.
    pub(crate) fn words(&self) -> String {
        format!("{} ({})", self.path, self.counts())
    }

    /// Returns the change in words, such as `new, +3 -0`.
    pub(crate) fn counts(&self) -> String {
        let counts = match (self.added, self.removed) {
            (Some(added), Some(removed)) => Some(format!("+{added} -{removed}")),
            _ => self.uncounted.map(ToOwned::to_owned),
        };
        let change = Some(self.change.to_owned());
        let is_plain = self.change == "changed" && counts.is_some();
        let parts = change.filter(|_| !is_plain).into_iter().chain(counts);
        parts.collect::<Vec<_>>().join(", ")
    }
}

/// Returns how many lines were added and removed.
fn counts(old: &[u8], new: &[u8], until: Option<Instant>) -> (usize, usize) {
    let lines = |text| <[u8]>::split_inclusive(text, |byte| *byte == b'\n').collect();
    let (old, new): (Vec<&[u8]>, Vec<&[u8]>) = (lines(old), lines(new));
    let ops = line_ops(&old, &new, until);
    let changed = || ops.iter().filter(|op| op.tag() != DiffTag::Equal);
    let added = changed().map(|op| op.new_range().len()).sum();
    (added, changed().map(|op| op.old_range().len()).sum())
}
