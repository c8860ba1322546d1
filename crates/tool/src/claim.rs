//! Claims of a call on paths, and the targets after containment.

use std::path::PathBuf;

use crate::slot::Slot;
use crate::world::{FileKind, FileMeta};
use crate::{CommandTarget, Host, MessageTarget, SearchTarget, ToolError, UrlTarget};

/// The access that a call requests to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read one file.
    Read,
    /// Search a directory tree, or one file.
    Search,
    /// Inspect a name itself: a symlink is read, not followed.
    Inspect,
    /// Create or replace a file.
    Write {
        /// Whether missing parent directories are created.
        parents: bool,
        /// How a final symlink is treated.
        links: Links,
    },
    /// Replace a file that must exist.
    Edit {
        /// How a final symlink is treated.
        links: Links,
    },
    /// Remove a file or a symlink, never its target.
    Remove,
    /// Create a directory with its parents.
    Make,
    /// Rename a file, directory or symlink itself to the path of the next claim, which is a `Write`.
    Move,
    /// Have a command read a file, or all beneath a directory, outside the roots too.
    Lend {
        /// Whether the command may change it.
        is_writable: bool,
    },
}

impl Access {
    /// Returns whether the access can change a file.
    pub fn changes(self) -> bool {
        !matches!(
            self,
            Self::Read | Self::Search | Self::Inspect | Self::Lend { is_writable: false }
        )
    }

    /// Returns how a final symlink is treated.
    pub fn links(self) -> Links {
        match self {
            Self::Write { links, .. } | Self::Edit { links } => links,
            Self::Read | Self::Search | Self::Make | Self::Lend { .. } => Links::Follow,
            Self::Inspect | Self::Remove | Self::Move => Links::Itself,
        }
    }
}

/// How a symlink as last component of a path is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// The link's target is meant, if it lies inside a root.
    Follow,
    /// The call is refused.
    Refuse,
    /// The link itself is meant.
    Itself,
}

crate::word_enum! {
    /// Whose memory file (`MEMORY.md`) a call means.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub enum MemoryScope {
        /// That of the first root.
        #[default]
        Project = "project",
        /// That of the user, outside of the roots.
        User = "user",
    }
}

impl MemoryScope {
    /// Returns the file as messages name it: a path outside of the roots is not shown.
    pub fn shown(self) -> &'static str {
        match self {
            Self::Project => ".sinew/MEMORY.md",
            Self::User => "the user's MEMORY.md",
        }
    }
}

/// A path of a call before containment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The wire name of the argument, for messages.
    pub argument: &'static str,
    /// The path as written; `None` means the working directory.
    pub path: Option<String>,
    /// The requested access.
    pub access: Access,
    /// The memory file that the claim means instead of its path.
    pub memory: Option<MemoryScope>,
}

impl Claim {
    /// Returns a claim on a path beneath the roots.
    pub fn new(argument: &'static str, path: Option<String>, access: Access) -> Self {
        Self { argument, path, access, memory: None }
    }

    /// Returns a claim on a memory file, which no argument names by a path.
    pub fn on_memory(scope: MemoryScope, access: Access) -> Self {
        Self { argument: "", path: Some(scope.shown().to_owned()), access, memory: Some(scope) }
    }

    /// Returns the error of the claim for the model, with its argument if one names the path.
    pub fn about(&self, error: ToolError) -> ToolError {
        if self.memory.is_some() {
            return error;
        }
        let message = format!("argument `{}`: {}", self.argument, error.message);
        ToolError { message: message.into(), ..error }
    }
}

/// The state of a path at containment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    /// Absent; its parent may be missing too.
    Missing,
    /// Present, with its metadata.
    Found(FileMeta),
}

impl FileState {
    /// Returns the file type, if present.
    pub fn kind(&self) -> Option<FileKind> {
        match self {
            Self::Missing => None,
            Self::Found(meta) => Some(meta.kind),
        }
    }
}

/// The position of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Position {
    /// Beneath a root, or sinew's own.
    #[default]
    Inside,
    /// Outside the roots, among files of programs, toolchains and the system's configuration that are only read.
    Programs,
    /// Outside the roots.
    Outside,
}

/// A path after containment, on open file descriptors of the guard.
#[derive(Debug, Clone)]
pub struct FileTarget {
    /// The slot in the World of the call.
    pub slot: Slot,
    /// Its claim.
    pub claim: Claim,
    /// The real absolute path with symlinks resolved.
    pub path: PathBuf,
    /// The root that contains it, or the directory of a path outside all of them.
    pub root: PathBuf,
    /// Whether it is beneath a root.
    pub position: Position,
    /// Its state at containment.
    pub state: FileState,
    /// The protected name that matches the path, if any.
    pub protected: Option<&'static str>,
    /// Whether it would change what the user's own commands execute later, such as `Makefile`.
    pub runs_later: bool,
    /// What of a directory that moves here they execute then, relative to it; a directory of programs once.
    pub later_beneath: Vec<PathBuf>,
}

/// All resolved targets of a call.
#[derive(Debug, Clone, Default)]
pub struct Targets {
    /// Files and directories, in the order of the claims.
    pub files: Vec<FileTarget>,
    /// The command, which starts in the first file target.
    pub command: Option<CommandTarget>,
    /// The addresses (URLs) that it fetches.
    pub urls: Vec<UrlTarget>,
    /// The search of the web that it asks for.
    pub search: Option<SearchTarget>,
    /// The message that it sends.
    pub message: Option<MessageTarget>,
    /// The hosts that it reaches: those of its addresses and of its search, and others that it names.
    pub hosts: Vec<Host>,
    /// The first of them that a page may have named: the session read one before, and did not reach this host.
    pub unnamed_host: Option<Host>,
}
