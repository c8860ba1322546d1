//! Collects the names of a patch and what becomes of each, before any file is read.
//!
//! Each name gets one claim, for the least access that the whole patch needs: read for the source of a
//! copy, removal for a name gone at the end. A name whose content changes must exist.
//! The name of a header that the patch does not use gets a claim to read, so it must stay in the roots too.

use std::collections::{BTreeSet, HashMap, HashSet};

use sinew_tool::{Access, Claim, Kind, Links, ToolError};

use super::ApplyPatchArgs;
use crate::patch::{FilePatch, Patch, PatchMode, PatchOp};

/// The most files that a patch may name.
const MAX_NAMES: usize = 10_000;

/// The names of a patch, and those of each entry.
#[derive(Debug)]
pub(super) struct EntryNames {
    pub(super) names: Vec<EntryName>,
    /// In the order of the patch.
    pub(super) entries: Vec<Entry>,
    /// Names of headers that no entry uses, without empty parts and `.`. Empty with `path`.
    unused: Vec<String>,
}

#[derive(Debug)]
pub(super) struct EntryName {
    /// As written, without empty parts and `.`.
    pub(super) path: String,
    /// Whether a symbolic link at the name is not followed.
    itself: bool,
    /// Whether the file changes, rather than is only copied.
    pub(super) changes: bool,
    /// Whether it may be missing before the patch.
    may_create: bool,
    /// Whether the name exists after the patch; `None` until an entry decides it.
    there: Option<bool>,
    /// The number of later entries that remove or rename the file.
    n_takers: usize,
}

/// The names of one entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// Index of the file that is changed, removed, renamed or copied.
    pub(super) old: Option<usize>,
    /// Index of the file that is created.
    pub(super) new: Option<usize>,
    /// Whether the entry takes a name that a later one moves away: git diffs do not depend on order.
    pub(super) pushes_aside: bool,
    /// Whether the entry starts from a file that an earlier one pushed aside.
    pub(super) takes_aside: bool,
}

impl EntryNames {
    /// Returns the names of a patch. With `path` it is a patch of this one file.
    pub(super) fn of(patch: &Patch<'_>, path: Option<&str>) -> Result<Self, ToolError> {
        if let Some(path) = path {
            check_one(patch, path)?;
        }
        let entries = Vec::with_capacity(patch.files.len());
        let mut names = Self { names: Vec::new(), entries, unused: Vec::new() };
        let mut known = HashMap::new();
        for file in &patch.files {
            let (old, new) = match (path, file.deed) {
                (Some(path), PatchOp::Create) => (None, Some(path)),
                (Some(path), _) => (Some(path), None),
                (None, PatchOp::Create) => (None, file.path()),
                (None, PatchOp::Rename | PatchOp::Copy) => {
                    (file.old.as_deref(), file.new.as_deref())
                }
                (None, _) => (file.path(), None),
            };
            if old.is_none() && new.is_none() {
                return Err(ToolError::argument("path", "is missing").hint(format!(
                    "the hunks at line {} of the patch name no file; pass it as path",
                    file.line
                )));
            }
            let mut place = |written: Option<&str>| -> Result<Option<usize>, ToolError> {
                written.map(|written| names.place(&mut known, written, file.line)).transpose()
            };
            let (old, new) = (place(old)?, place(new)?);
            // A file that keeps its name only changes.
            let new = new.filter(|new| Some(*new) != old);
            names.entries.push(Entry { old, new, pushes_aside: false, takes_aside: false });
        }
        if path.is_none() {
            names.find_unused(patch);
        }
        let n = names.names.len() + names.unused.len();
        if MAX_NAMES < n {
            let message = format!("the patch names {n} files, and at most {MAX_NAMES} are changed");
            return Err(ToolError::new(Kind::LimitReached, message).hint("send it in parts"));
        }
        names.check_kinds()?;
        names.settle(patch);
        Ok(names)
    }

    /// Collects the names of headers that no entry uses. One beneath a used name is left out: no directory
    /// is there, and the used name is contained.
    fn find_unused(&mut self, patch: &Patch<'_>) {
        let used: HashSet<&str> = self.names.iter().map(|name| name.path.as_str()).collect();
        let is_beneath = |path: &str| {
            let mut above = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
            path.split('/').all(|part| part != "..") && above.any(|above| used.contains(above))
        };
        let names = patch.files.iter().filter_map(FilePatch::unused).map(plain);
        let unused: BTreeSet<String> =
            names.filter(|path| !used.contains(path.as_str()) && !is_beneath(path)).collect();
        self.unused = unused.into_iter().collect();
    }

    /// Rejects a name beneath another name of the patch: that one would be a file and a directory.
    fn check_kinds(&self) -> Result<(), ToolError> {
        let known: HashSet<&str> = self.names.iter().map(|name| name.path.as_str()).collect();
        for EntryName { path, .. } in &self.names {
            let slashes = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
            if let Some(file) = slashes.into_iter().find(|above| known.contains(above)) {
                let message =
                    format!("the patch names {file} as a file and, in {path}, as a directory");
                return Err(ToolError::new(Kind::InvalidArgs, message).hint(
                    "send two patches: one that takes the one away, and then one that makes the other",
                ));
            }
        }
        Ok(())
    }

    /// Returns the index of a name; adds a new one.
    fn place(
        &mut self,
        known: &mut HashMap<String, usize>,
        written: &str,
        line: u64,
    ) -> Result<usize, ToolError> {
        let path = plain(written);
        if path.is_empty() || path.ends_with('/') {
            let message =
                format!("a name at line {line} of the patch is not the name of a file: {written}");
            return Err(ToolError::new(Kind::InvalidPath, message));
        }
        if let Some(at) = known.get(&path) {
            return Ok(*at);
        }
        let at = self.names.len();
        known.insert(path.clone(), at);
        self.names.push(EntryName {
            path,
            itself: false,
            changes: false,
            may_create: false,
            there: None,
            n_takers: 0,
        });
        Ok(at)
    }

    /// Computes what becomes of each name.
    fn settle(&mut self, patch: &Patch<'_>) {
        for (file, entry) in patch.files.iter().zip(&self.entries) {
            if let Some(old) = entry.old.and_then(|at| self.names.get_mut(at)) {
                old.n_takers += usize::from(takes(file, entry));
            }
        }
        let mut aside = vec![false; self.names.len()];
        for (file, entry) in patch.files.iter().zip(&mut self.entries) {
            let is_link = [file.old_mode, file.new_mode].contains(&Some(PatchMode::Link));
            if let Some((at, old)) = entry.old.and_then(|at| Some((at, self.names.get_mut(at)?))) {
                let taken = takes(file, entry);
                let is_aside = aside.get_mut(at).filter(|aside| taken && **aside);
                old.n_takers -= usize::from(taken);
                old.itself |= is_link || taken || file.deed == PatchOp::Copy;
                match file.deed {
                    PatchOp::Copy => {}
                    _ if taken => {
                        old.changes = true;
                        match is_aside {
                            Some(aside) => (entry.takes_aside, *aside) = (true, false),
                            None => old.there = Some(false),
                        }
                    }
                    _ => {
                        old.may_create |= old.there.is_none() && file.may_create();
                        (old.changes, old.there) = (true, Some(true));
                    }
                }
            }
            if let Some((at, new)) = entry.new.and_then(|at| Some((at, self.names.get_mut(at)?))) {
                let moves = matches!(file.deed, PatchOp::Rename | PatchOp::Copy);
                // Only a file from before the patch is pushed aside, and so only once.
                if moves && 0 < new.n_takers && new.there.is_none() {
                    entry.pushes_aside = true;
                    aside.get_mut(at).into_iter().for_each(|aside| *aside = true);
                }
                (new.itself, new.changes, new.there) = (true, true, Some(true));
                new.may_create = true;
            }
        }
    }

    /// Returns one claim for each name, in order, then one for each unused name.
    pub(super) fn claims(&self, args: &ApplyPatchArgs) -> Vec<Claim> {
        let named = if args.path.is_some() { "path" } else { "patch" };
        let claim =
            |name: &EntryName| Claim::new(named, Some(name.path.clone()), name.access(args));
        let look = |path: &String| Claim::new(named, Some(path.clone()), Access::Read);
        self.names.iter().map(claim).chain(self.unused.iter().map(look)).collect()
    }
}

impl EntryName {
    fn access(&self, args: &ApplyPatchArgs) -> Access {
        let links = match (self.itself, args.follow_links) {
            (true, _) => Links::Itself,
            (false, true) => Links::Follow,
            (false, false) => Links::Refuse,
        };
        match (self.changes && !args.dry_run, self.there) {
            (false, _) if self.itself => Access::Inspect,
            (false, _) => Access::Read,
            (true, Some(false)) => Access::Remove,
            (true, _) if self.may_create => Access::Write { parents: true, links },
            (true, _) => Access::Edit { links },
        }
    }
}

/// Returns whether an entry removes or renames its old name.
fn takes(file: &FilePatch<'_>, entry: &Entry) -> bool {
    match file.deed {
        PatchOp::Delete | PatchOp::Drop => true,
        PatchOp::Rename => entry.new.is_some(),
        PatchOp::Change | PatchOp::Create | PatchOp::Copy => false,
    }
}

/// Rejects a patch of several files when `path` names one.
fn check_one(patch: &Patch<'_>, path: &str) -> Result<(), ToolError> {
    let mut named = patch.files.iter();
    let first = named.next().and_then(FilePatch::path);
    let other = named.find(|file| file.path() != first);
    let moved =
        patch.files.iter().find(|file| matches!(file.deed, PatchOp::Rename | PatchOp::Copy));
    let (line, what) = match (other, moved) {
        (Some(file), _) => (file.line, "is about a second file"),
        (None, Some(file)) => (file.line, "gives the file another name"),
        (None, None) => return Ok(()),
    };
    let problem = format!("is {path}, and line {line} of the patch {what}");
    Err(ToolError::argument("path", problem).hint("leave out path; the patch names its files"))
}

/// Returns a name without empty parts and `.`; containment resolves `..`.
fn plain(written: &str) -> String {
    let is_absolute = written.starts_with('/');
    let mut parts: Vec<&str> =
        written.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if is_absolute {
        parts.insert(0, "");
    }
    if written.ends_with('/') || written.ends_with("/.") {
        parts.push("");
    }
    parts.join("/")
}
