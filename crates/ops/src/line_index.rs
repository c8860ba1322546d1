//! Sparse line index: the number of line ends before each 64 KiB block of a file.
//!
//! The second read far into a large file then costs one block. An index is cached under the file's
//! identity, for files unchanged for a while: within one clock tick a file system can hide a second change.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use sinew_tool::Identity;
use sinew_tool::sync::lock;

/// The bytes between two marks.
pub(crate) const BLOCK: usize = 64 * 1024;

/// The most files whose marks are kept.
const MAX_FILES: usize = 32;

/// The most marks that are kept for all files: 16 MiB of them, for 128 GiB of content.
const MAX_MARKS: usize = 2 << 20;

/// How long a file must have rested before its marks are kept, in milliseconds.
const REST_MS: i64 = 1_000;

/// The marks of one file, from its start as far as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LineIndex {
    /// How many line ends lie before each block; the first is 0.
    before: Vec<u64>,
    /// How many lines the file has, once its end was seen.
    pub(crate) total_lines: Option<u64>,
}

impl LineIndex {
    /// Returns the last marked block before the line end with this number, and the line ends before it.
    pub(crate) fn before(&self, line_end: u64) -> (usize, u64) {
        let block = self.before.partition_point(|n| *n < line_end).saturating_sub(1);
        (block, self.before.get(block).copied().unwrap_or(0))
    }

    /// Adds the mark of a block where it is the next one.
    pub(crate) fn add(&mut self, block: usize, line_ends: u64) {
        if self.before.len() == block {
            self.before.push(line_ends);
        }
    }

    fn len(&self) -> usize {
        self.before.len()
    }
}

/// The marks that are kept between calls; the file used last is at the back.
#[derive(Default)]
pub(crate) struct LineIndexStore(Mutex<VecDeque<(Identity, Arc<LineIndex>)>>);

impl LineIndexStore {
    /// Returns the marks of a file, or none yet.
    pub(crate) fn get(&self, identity: &Identity) -> Arc<LineIndex> {
        let mut kept = lock(&self.0);
        match kept.iter().position(|(known, _)| known == identity) {
            Some(at) => {
                let entry = kept.remove(at);
                let marks = entry.as_ref().map(|(_, marks)| Arc::clone(marks)).unwrap_or_default();
                kept.extend(entry);
                marks
            }
            None => Arc::default(),
        }
    }

    /// Keeps the marks of a file that has rested by `wall_ms`, where they reach further than before.
    pub(crate) fn put(&self, identity: Identity, marks: LineIndex, wall_ms: u64) {
        let changed_ms = identity.changed.seconds.max(identity.modified.seconds) * 1_000;
        let rested =
            changed_ms.saturating_add(REST_MS) < i64::try_from(wall_ms).unwrap_or(i64::MAX);
        if identity.size == 0 || !rested {
            return;
        }
        let mut kept = lock(&self.0);
        if let Some(at) = kept.iter().position(|(known, _)| *known == identity) {
            let longer = kept.get(at).is_some_and(|(_, old)| old.len() < marks.len());
            if !longer && marks.total_lines.is_none() {
                return;
            }
            kept.remove(at);
        }
        kept.push_back((identity, Arc::new(marks)));
        let mut total: usize = kept.iter().map(|(_, marks)| marks.len()).sum();
        while 1 < kept.len() && (MAX_FILES < kept.len() || MAX_MARKS < total) {
            total -= kept.pop_front().map_or(0, |(_, marks)| marks.len());
        }
    }
}
