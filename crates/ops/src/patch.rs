//! Patches: parses a text of changes and applies it to a content.
//!
//! Both steps work on bytes. [`parse`] reads a unified or git diff, or an envelope (`*** Begin Patch`), and
//! returns the changes file by file. [`apply()`] finds the hunks of one file in its content and returns the
//! replaced bytes, for the whole file or not at all.
//!
//! Patches from programs are read as `git apply` and GNU `patch` read them. Patches from models often have
//! right lines and wrong numbers, so the lines decide. Wrong counts, missing numbers and other line endings
//! are accepted. A hunk that fits in more than one place is rejected.
//!
//! Deliberately absent: file access. Names are returned as written, unchecked for permission, existence or
//! order. Binary, combined, context, normal and ed diffs are rejected.

mod apply;
mod envelope;
mod hunk;
mod line;
mod name;
mod place;
mod refusal;
mod section;
mod seek;
mod text;
mod unified;

pub use apply::{AppliedPatch, apply};
pub use hunk::Hunk;
pub use place::{How, Match};
pub use refusal::{Failure, PatchError, Rejected, Why};

use line::Lines;

/// The most files and hunks of a patch.
const MAX_PARTS: usize = 1_000_000;

/// The changes that a patch asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch<'p> {
    /// In patch order, at least one. A file may occur again: later entries start from the earlier result.
    pub files: Vec<FilePatch<'p>>,
}

/// The change that a patch asks of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePatch<'p> {
    /// The operation on the file.
    pub deed: PatchOp,
    /// The old name without stripped parts, unchecked. `None` for `/dev/null` and hunks without a name.
    pub old: Option<String>,
    /// The name after, in the same way.
    pub new: Option<String>,
    /// The header name that a creation or a deletion does not use, where it differs, unchecked.
    pub dropped: Option<String>,
    /// The mode before, where the patch has it.
    pub old_mode: Option<PatchMode>,
    /// The mode after, where the patch has it.
    pub new_mode: Option<PatchMode>,
    /// In the order of the patch.
    pub hunks: Vec<Hunk<'p>>,
    /// The line of the patch at which this file begins, counted from 1.
    pub line: u64,
}

/// The operation on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchOp {
    /// The content, the mode or both change.
    Change,
    /// The file is created; it must be absent.
    Create,
    /// The file is removed; its hunks remove all of its content.
    Delete,
    /// The file is removed, whatever its content.
    Drop,
    /// The file is renamed, and its hunks change it.
    Rename,
    /// The file is copied, and the hunks change the copy.
    Copy,
}

/// The file mode, as patches state it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchMode {
    /// A file: `100644`.
    Plain,
    /// A file that can be executed: `100755`.
    Executable,
    /// A symbolic link, whose content is its target: `120000`.
    Link,
}

impl FilePatch<'_> {
    /// Returns the name of the file that the hunks change or create.
    ///
    /// For `x.orig` and `x`, as in GNU `patch`, fewer parts win, then the shorter last part, then length.
    pub fn path(&self) -> Option<&str> {
        let (old, new) = (self.old.as_deref(), self.new.as_deref());
        match self.deed {
            PatchOp::Create => new.or(old),
            PatchOp::Delete | PatchOp::Drop | PatchOp::Rename | PatchOp::Copy => old.or(new),
            PatchOp::Change => {
                let rank = |name: &&str| {
                    let last = name.rsplit('/').next().unwrap_or_default();
                    (name.matches('/').count(), last.len(), name.len())
                };
                old.into_iter().chain(new).min_by_key(rank)
            }
        }
    }

    /// Returns the other name of the header, which the patch does not use: a rename and a copy use both.
    pub fn unused(&self) -> Option<&str> {
        match self.deed {
            PatchOp::Create | PatchOp::Delete | PatchOp::Drop => self.dropped.as_deref(),
            PatchOp::Rename | PatchOp::Copy => None,
            PatchOp::Change => {
                let used = self.path();
                [&self.old, &self.new]
                    .into_iter()
                    .flatten()
                    .map(String::as_str)
                    .find(|name| Some(*name) != used)
            }
        }
    }

    /// Returns whether the patch may create its file: a plain diff of only added lines does not say.
    pub fn may_create(&self) -> bool {
        match (self.deed, self.hunks.as_slice()) {
            (PatchOp::Create, _) => true,
            (PatchOp::Change, [hunk]) => !hunk.has_old(),
            _ => false,
        }
    }
}

/// Reads a patch.
///
/// `strip` is the number of leading name parts to drop. `None` drops `a/` and `b/` where both names have
/// them, and git's other prefixes in a git diff. Names of an envelope stay as they are.
pub fn parse(patch: &[u8], strip: Option<u32>) -> Result<Patch<'_>, PatchError> {
    let patch = patch.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(patch);
    let mut lines = Lines::new(patch);
    let is_envelope = loop {
        let Some(raw) = lines.peek() else { break false };
        if envelope::begins(raw) {
            break true;
        }
        if envelope::asks(raw) {
            let problem = "has no `*** Begin Patch` before it";
            return Err(PatchError::Envelope { line: lines.number(), problem });
        }
        if raw.starts_with(b"diff --git ") || raw.starts_with(b"@@") || section::is_names(lines) {
            break false;
        }
        lines.next();
    };
    let files =
        if is_envelope { envelope::parse(lines, strip)? } else { unified::parse(patch, strip)? };
    Ok(Patch { files })
}

#[cfg(test)]
mod tests;
