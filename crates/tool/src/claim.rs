//! What a call says it will touch, and what containment made of it.

use std::path::PathBuf;

use crate::CommandTarget;
use crate::world::{FileKind, FileMeta, Slot};

/// What a call wants to do with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read one file.
    Read,
    /// Look at a directory and what is beneath it, or at one file.
    Search,
    /// Look at what a name itself stands for: a symbolic link is read, not followed.
    Inspect,
    /// Create or replace a file.
    Write {
        /// Whether missing parent directories are created.
        parents: bool,
        /// What a symbolic link as last component means.
        links: Links,
    },
    /// Replace a file that must exist.
    Edit {
        /// What a symbolic link as last component means.
        links: Links,
    },
    /// Remove a file or a symbolic link, never what a link points to.
    Remove,
    /// Make a directory, and those above it that are missing.
    Make,
    /// Give a file, a directory or a symbolic link itself another name: that of the next claim, which
    /// is one to write there.
    Move,
}

impl Access {
    /// Returns whether the access can change something.
    pub fn changes(self) -> bool {
        !matches!(self, Self::Read | Self::Search | Self::Inspect)
    }

    /// Returns what a symbolic link as last component means.
    pub fn links(self) -> Links {
        match self {
            Self::Write { links, .. } | Self::Edit { links } => links,
            Self::Read | Self::Search | Self::Make => Links::Follow,
            Self::Inspect | Self::Remove | Self::Move => Links::Itself,
        }
    }
}

/// What a symbolic link as last component of a path means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Its target is changed where it lies inside a root, and the link stays.
    Follow,
    /// The call is refused.
    Refuse,
    /// The link itself is meant.
    Itself,
}

/// One path as a call names it, before containment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The wire name of the argument, for messages.
    pub argument: &'static str,
    /// The path as written; `None` means the working directory.
    pub path: Option<String>,
    /// What the call wants to do with it.
    pub access: Access,
}

/// What was found at a path when it was contained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    /// Nothing, and its parent may be missing too.
    Missing,
    /// Something, with what was known of it then.
    Found(FileMeta),
}

impl FileState {
    /// Returns what kind of thing was found.
    pub fn kind(&self) -> Option<FileKind> {
        match self {
            Self::Missing => None,
            Self::Found(meta) => Some(meta.kind),
        }
    }
}

/// One path after containment: beneath a root, on open handles that only the guard can see.
#[derive(Debug, Clone)]
pub struct FileTarget {
    /// The place of the target in the World made for the call.
    pub slot: Slot,
    /// The claim it came from.
    pub claim: Claim,
    /// The real absolute path, links resolved.
    pub path: PathBuf,
    /// The root that holds it.
    pub root: PathBuf,
    /// What was there.
    pub state: FileState,
    /// The protected name that the path falls under, if any.
    pub protected: Option<&'static str>,
}

/// Everything one call really names.
#[derive(Debug, Clone, Default)]
pub struct Targets {
    /// Files and directories, in the order of the claims.
    pub files: Vec<FileTarget>,
    /// The command, which starts in the first of them.
    pub command: Option<CommandTarget>,
    /// The hosts that it reaches, in small letters.
    pub hosts: Vec<String>,
}
