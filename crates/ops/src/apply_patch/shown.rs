//! The result of applying one entry of a patch to a content, and its diff.

use std::sync::Arc;

use crate::diff::{self, DiffLimits};
use crate::patch::{self, AppliedPatch, FilePatch, Rejected};
use crate::source::{self, ContentKind};

/// A content after the hunks of an entry.
#[derive(Debug, Clone)]
pub(super) struct Fit {
    pub(super) applied: AppliedPatch,
    /// The length of a byte order mark before the text that the patch does not have.
    pub(super) n_before: usize,
}

/// The diff of an entry.
pub(super) struct ShownEntry {
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
    /// The text before, in UTF-8 where hunks change it.
    pub(super) old: Arc<Vec<u8>>,
    /// Nothing where the content stays.
    pub(super) applied: Option<Fit>,
    pub(super) notes: Vec<&'static str>,
}

/// Fits an entry to a text. Models see no byte order mark: a patch without one fits the text after it.
pub(super) fn fit(
    file: &FilePatch<'_>,
    text: &[u8],
    is_wanted: impl Fn() -> bool,
) -> Result<Fit, Rejected> {
    let n_before = match text.strip_prefix(source::BOM) {
        Some(_) if !file.hunks.iter().any(|hunk| hunk.has_line(source::BOM)) => source::BOM.len(),
        _ => 0,
    };
    let applied = patch::apply(file, text.get(n_before..).unwrap_or_default(), is_wanted)?;
    Ok(Fit { applied, n_before })
}

impl ShownEntry {
    /// Returns the diff of the entry with its names.
    pub(super) fn diff(&self, limits: DiffLimits) -> String {
        let name =
            |name: &Option<String>| name.clone().unwrap_or_else(|| String::from("/dev/null"));
        let mut out = format!("--- {}\n+++ {}\n", name(&self.before), name(&self.after));
        for note in &self.notes {
            out.push_str(&format!("[{note}]\n"));
        }
        match &self.applied {
            None => {}
            Some(_) if source::sniff(&self.old) != ContentKind::Text && !limits.is_whole() => {
                out.push_str(&format!("[{} bytes of binary content change]\n", self.old.len()));
            }
            Some(Fit { applied, n_before }) => {
                let text = self.old.get(*n_before..).unwrap_or_default();
                out.push_str(&diff::of_changes(text, &applied.changes(), limits));
            }
        }
        out
    }
}
