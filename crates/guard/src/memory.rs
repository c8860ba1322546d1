//! Memory files: `MEMORY.md` of the first root and of the user, which change by the memory tools alone.
//!
//! No path of a call reaches them to change them: `.sinew/` and the state directory are closed to file tools and
//! commands. A claim names such a file by its scope, and the guard makes its path. Symlinks are refused on the way
//! to it, since a repository can ship `.sinew/` as a link. From there on a memory file is a target like any other:
//! rules, checkpoints, the ledger and locks apply.

use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

use sinew_fs::resolve::{self, Place, Spot};
use sinew_fs::roots::Roots;
use sinew_fs::stat::error_of;
use sinew_fs::state::StateDir;
use sinew_fs::store;
use sinew_tool::{
    Access, Claim, FileError, FileKind, FileState, FileTarget, Links, MemoryScope, Position, Slot,
};

use crate::guard::Guard;

/// The memory file beneath the first root.
const OF_PROJECT: &str = ".sinew/MEMORY.md";
/// The directory of the user's memory file beneath the state directory: its own, since changes lock directories.
const MEMORY: &str = "memory";
/// The user's memory file there.
const OF_USER: &str = "MEMORY.md";

impl Guard {
    /// Resolves and judges a memory file.
    pub(crate) fn contain_memory(
        &self,
        roots: &Roots,
        claim: &Claim,
        scope: MemoryScope,
        slot: Slot,
    ) -> Result<(FileTarget, Place), FileError> {
        let path = self.memory_path(scope)?;
        let links = match claim.access.links() {
            Links::Follow => Links::Refuse,
            links => links,
        };
        let place = match scope {
            MemoryScope::Project => resolve::resolve(roots, &path, links),
            MemoryScope::User => {
                self.check_whole(roots)?;
                let system = Roots::system().map_err(error_of)?;
                resolve::resolve(&system, &path, links)
            }
        };
        let mut place = match place {
            Err(FileError::Link) => return Err(through_link()),
            other => other?,
        };
        let is_link = matches!(&place.spot, Spot::Found(meta) if meta.kind == FileKind::Symlink);
        if is_link || place.real != path {
            return Err(through_link());
        }
        match scope {
            MemoryScope::Project => self.rules.check(&path)?,
            // The globs of `allow_paths` are about the roots.
            MemoryScope::User => self.rules.check_globs(&path)?,
        }
        let may_create = matches!(claim.access, Access::Write { parents: true, .. });
        place.orphan |= !may_create && matches!(place.spot, Spot::MissingParents(_));
        let state = match &place.spot {
            Spot::Found(meta) => FileState::Found(meta.clone()),
            Spot::Missing | Spot::MissingParents(_) | Spot::Gone => FileState::Missing,
        };
        let root = match scope {
            MemoryScope::Project => self.shared.roots.first().map(|root| root.real.clone()),
            MemoryScope::User => path.parent().map(Path::to_owned),
        };
        let target = FileTarget {
            slot,
            claim: claim.clone(),
            path,
            root: root.unwrap_or_default(),
            position: Position::Inside,
            state,
            // No other program acts on it.
            protected: None,
            runs_later: false,
            later_beneath: Vec::new(),
        };
        Ok((target, place))
    }

    /// Returns the claim on a real path, by its scope if it is a memory file.
    pub(crate) fn claim_on(&self, argument: &'static str, path: String, access: Access) -> Claim {
        match self.memory_at(Path::new(&path)) {
            Some(scope) => Claim::on_memory(scope, access),
            None => Claim::new(argument, Some(path), access),
        }
    }

    /// Returns whether a call with these roots may name a real path because it is the user's memory file.
    pub(crate) fn may_name_memory(&self, roots: &Roots, real: &Path) -> bool {
        self.memory_at(real) == Some(MemoryScope::User)
            && self.check_whole(roots).is_ok()
            && self.rules.check_globs(real).is_ok()
    }

    /// Creates the directory of a memory file before a change: `.sinew/` with its `.gitignore`, or a directory that
    /// only the user can enter. No checkpoint has it, since other files of sinew may come there.
    pub(crate) fn prepare_memory(&self, scope: MemoryScope) -> Result<(), FileError> {
        match (scope, &self.shared.user_state) {
            (MemoryScope::Project, _) => {
                store::own_directory(&self.shared.roots).map(drop).map_err(error_of)
            }
            (MemoryScope::User, Some(state)) => {
                let state = StateDir::open(state).map_err(FileError::Io)?;
                state.make_directory(MEMORY).map_err(FileError::Io)
            }
            (MemoryScope::User, None) => Err(no_state()),
        }
    }

    fn memory_at(&self, real: &Path) -> Option<MemoryScope> {
        let is = |scope: &MemoryScope| self.memory_path(*scope).is_ok_and(|path| path == real);
        MemoryScope::ALL.into_iter().find(is)
    }

    fn memory_path(&self, scope: MemoryScope) -> Result<PathBuf, FileError> {
        match scope {
            MemoryScope::Project => {
                let root = self.shared.roots.first().ok_or(FileError::Missing)?;
                Ok(root.real.join(OF_PROJECT))
            }
            MemoryScope::User => {
                Ok(self.shared.user_state.as_ref().ok_or_else(no_state)?.join(MEMORY).join(OF_USER))
            }
        }
    }

    /// Rejects a call that is limited to some directories: the user's memory is in none of them.
    pub(crate) fn check_whole(&self, roots: &Roots) -> Result<(), FileError> {
        match ptr::eq(roots, Arc::as_ptr(&self.shared.roots)) {
            true => Ok(()),
            false => Err(FileError::Denied(String::from(
                "the call is limited to some directories, which do not hold it",
            ))),
        }
    }
}

fn through_link() -> FileError {
    FileError::Denied(String::from(
        "memory tools follow no symbolic link, and one is in its place or above it; ask the user to replace the link \
         by what it points to",
    ))
}

fn no_state() -> FileError {
    FileError::Denied(String::from(
        "this process has no state directory, where it would be; use the scope `project`",
    ))
}
