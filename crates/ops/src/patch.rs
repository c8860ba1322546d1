//! Patches: what a text of changes asks for, and what it makes of a content.
//!
//! Two steps, both from bytes to bytes. [`parse`] reads a unified or git diff, or an envelope
//! (`*** Begin Patch`), and says file by file what is asked. [`apply`] finds the hunks of one file in
//! its content and says which bytes become which; it changes all of a file or nothing.
//!
//! Patches come from programs and from models. What programs write is taken as `git apply` and GNU
//! `patch` take it. What models write is often right in its lines and wrong in its numbers, so the
//! lines decide: wrong counts, no numbers and other line endings are understood, and a hunk that
//! fits in more than one place is refused rather than guessed.
//!
//! Deliberately absent: files. Names are given as they are written, and nothing here says whether
//! they may be touched, whether they are there, or in which order they are written. Binary, combined,
//! context, normal and ed diffs are refused.

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

/// What a patch asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch<'p> {
    /// In the order of the patch, at least one. A file may be named more than once; later entries
    /// then mean what earlier ones left.
    pub files: Vec<FilePatch<'p>>,
}

/// What a patch asks of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePatch<'p> {
    /// What is done with the file.
    pub deed: PatchOp,
    /// The name before, leading parts stripped, not judged. `None` for `/dev/null`, and for hunks
    /// that name no file.
    pub old: Option<String>,
    /// The name after, in the same way.
    pub new: Option<String>,
    /// The mode before, where the patch tells it.
    pub old_mode: Option<PatchMode>,
    /// The mode after, where the patch tells it.
    pub new_mode: Option<PatchMode>,
    /// In the order of the patch.
    pub hunks: Vec<Hunk<'p>>,
    /// The line of the patch at which this file begins, counted from 1.
    pub line: u64,
}

/// What is done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchOp {
    /// The content, the mode or both change.
    Change,
    /// The file is made; it must be absent.
    Create,
    /// The file goes; its hunks remove all of its content.
    Delete,
    /// The file goes, whatever it holds.
    Drop,
    /// The file gets another name, and its hunks change it.
    Rename,
    /// A copy gets another name, and the hunks change the copy.
    Copy,
}

/// What a file is, as far as patches tell it.
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
    /// Returns the name of the file whose content the hunks are about: the one that must be there,
    /// or the one that is made.
    ///
    /// A plain diff may compare `x.orig` with `x`. As in GNU `patch` the name with fewer parts, with
    /// the shorter last part, and else the shorter one is meant.
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

    /// Returns whether the patch may also mean a file that is not there yet: a plain diff with
    /// nothing but added lines does not say.
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
/// `strip` is how many leading parts of the names of a diff are left out. `None` leaves out `a/` and
/// `b/` where both names have them, and what else git puts before the names of a git diff. The names
/// of an envelope are taken as they are.
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
