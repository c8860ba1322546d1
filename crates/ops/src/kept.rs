//! Keeps search results in their final order, up to the limit.
//!
//! Files arrive in no order, from several threads. The kept results are always a prefix of the sorted
//! results so far. Once the files at the front hold enough rows, later files cannot be part of the answer
//! and need no search. So the answer does not depend on the order of arrival.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sinew_tool::Stamp;

use crate::grep::{FileHits, RowOrder};

/// The most bytes of text that are kept for one search.
pub(crate) const MAX_BYTES: usize = 4 << 20;

/// The place of a file in the order of the results.
type Key = (Option<Reverse<Stamp>>, PathBuf);

pub(crate) struct Kept {
    order: RowOrder,
    max_rows: u64,
    files: BTreeMap<Key, FileHits>,
    n_rows: u64,
    n_bytes: usize,
}

impl Kept {
    pub(crate) fn new(order: RowOrder, max_rows: u64) -> Self {
        Self { order, max_rows, files: BTreeMap::new(), n_rows: 0, n_bytes: 0 }
    }

    /// Returns whether later files may be skipped.
    pub(crate) fn is_full(&self) -> bool {
        self.enough(self.n_rows, self.n_bytes)
    }

    /// Returns whether a file could be part of the answer.
    pub(crate) fn wants(&self, modified: Stamp, path: &Path) -> bool {
        if !self.is_full() {
            return true;
        }
        let newest = (self.order == RowOrder::Newest).then_some(Reverse(modified));
        self.files
            .last_key_value()
            .is_some_and(|((time, last), _)| newest.cmp(time).then_with(|| path.cmp(last)).is_lt())
    }

    pub(crate) fn add(&mut self, hits: FileHits) {
        let time = (self.order == RowOrder::Newest).then_some(Reverse(hits.modified));
        self.n_rows += hits.rows();
        self.n_bytes += hits.bytes();
        self.files.insert((time, hits.path.clone()), hits);
        while let Some(last) = self.files.last_entry() {
            let (rows, bytes) = (last.get().rows(), last.get().bytes());
            if !self.enough(self.n_rows - rows, self.n_bytes - bytes) {
                break;
            }
            self.n_rows -= rows;
            self.n_bytes -= bytes;
            self.files.pop_last();
        }
    }

    /// Returns whether results were left out because of their text, not their number.
    pub(crate) fn is_cut_by_text(&self) -> bool {
        MAX_BYTES <= self.n_bytes
    }

    pub(crate) fn into_files(self) -> impl Iterator<Item = FileHits> {
        self.files.into_values()
    }

    fn enough(&self, n_rows: u64, n_bytes: usize) -> bool {
        self.max_rows <= n_rows || MAX_BYTES <= n_bytes
    }
}
