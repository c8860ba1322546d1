//! The tree of files behind a [`MemoryWorld`](crate::MemoryWorld): names, links, resolution.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use sinew_tool::{FileError, FileKind, FileMeta, Identity, Links, Stamp};

/// The most links on the way to a file, as in the kernel.
const MAX_LINKS: u32 = 40;

/// What stands at a path.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) what: What,
    pub(crate) inode: u64,
    pub(crate) mode: u32,
    pub(crate) modified: Stamp,
    pub(crate) changed: Stamp,
}

/// The kind of a node, with its content.
#[derive(Debug, Clone)]
pub(crate) enum What {
    File(Arc<[u8]>),
    Directory,
    Link(PathBuf),
    Special,
}

impl Node {
    pub(crate) fn kind(&self) -> FileKind {
        match self.what {
            What::File(_) => FileKind::File,
            What::Directory => FileKind::Directory,
            What::Link(_) => FileKind::Symlink,
            What::Special => FileKind::Special,
        }
    }

    pub(crate) fn meta(&self) -> FileMeta {
        let size = match &self.what {
            What::File(content) => content.len() as u64,
            What::Link(target) => target.as_os_str().len() as u64,
            What::Directory | What::Special => 0,
        };
        FileMeta {
            kind: self.kind(),
            identity: Identity {
                device: 1,
                inode: self.inode,
                size,
                modified: self.modified,
                changed: self.changed,
            },
            mode: self.mode,
            links: 1,
        }
    }
}

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The real path, links resolved.
    pub(crate) real: PathBuf,
    /// Whether directories on the way are missing.
    pub(crate) orphan: bool,
    /// Whether nothing can be created there: behind a dangling link, or a directory by its
    /// spelling.
    pub(crate) gone: bool,
}

/// Every path beneath one root.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    root: PathBuf,
    nodes: BTreeMap<PathBuf, Node>,
    n_made: u64,
}

impl Tree {
    pub(crate) fn new(root: &Path) -> Self {
        let mut tree = Self { root: root.to_owned(), nodes: BTreeMap::new(), n_made: 0 };
        tree.put(root, What::Directory, 0o755, Stamp { seconds: 1_700_000_000, nanos: 0 });
        tree
    }

    pub(crate) fn get(&self, path: &Path) -> Option<&Node> {
        self.nodes.get(path)
    }

    pub(crate) fn get_mut(&mut self, path: &Path) -> Option<&mut Node> {
        self.nodes.get_mut(path)
    }

    pub(crate) fn remove(&mut self, path: &Path) {
        self.nodes.retain(|known, _| !known.starts_with(path));
    }

    /// Puts something at a path under a new inode, with its parents.
    pub(crate) fn put(&mut self, path: &Path, what: What, mode: u32, time: Stamp) {
        let missing: Vec<PathBuf> = path
            .ancestors()
            .skip(1)
            .filter(|parent| parent.starts_with(&self.root) && !self.nodes.contains_key(*parent))
            .map(Path::to_owned)
            .collect();
        for parent in missing {
            let node = self.node(What::Directory, 0o755, time);
            self.nodes.insert(parent, node);
        }
        let node = self.node(what, mode, time);
        self.nodes.insert(path.to_owned(), node);
    }

    /// Makes a directory with its parents; returns whether it was not there before. `gone` says that
    /// nothing can be made at the path.
    pub(crate) fn make_directory(
        &mut self,
        path: &Path,
        gone: bool,
        time: Stamp,
    ) -> Result<bool, FileError> {
        match self.nodes.get(path).map(Node::kind) {
            Some(FileKind::Directory) => return Ok(false),
            Some(_) => return Err(FileError::Exists),
            None if gone => return Err(FileError::Missing),
            None => {}
        }
        self.put(path, What::Directory, 0o755, time);
        Ok(true)
    }

    /// Gives an entry, with all beneath it, another path. `no_parent` says that nothing can
    /// be made there.
    pub(crate) fn rename(
        &mut self,
        from: &Path,
        to: &Path,
        no_parent: bool,
    ) -> Result<Node, FileError> {
        let node = self.nodes.get(from).cloned();
        let is_directory = node.as_ref().is_some_and(|node| node.kind() == FileKind::Directory);
        if is_directory && to.starts_with(from) {
            return Err(FileError::Invalid("cannot be moved into itself"));
        }
        if self.nodes.contains_key(to) {
            return Err(FileError::Exists);
        }
        if no_parent {
            return Err(FileError::NoParent);
        }
        let Some(node) = node else { return Err(FileError::Missing) };
        if node.kind() == FileKind::Special {
            return Err(FileError::NotRegular(FileKind::Special));
        }
        let taken: Vec<PathBuf> =
            self.nodes.keys().filter(|path| path.starts_with(from)).cloned().collect();
        for path in taken {
            let beneath = path.strip_prefix(from).unwrap_or(&path);
            let new = if beneath.as_os_str().is_empty() { to.to_owned() } else { to.join(beneath) };
            if let Some(node) = self.nodes.remove(&path) {
                self.nodes.insert(new, node);
            }
        }
        Ok(node)
    }

    fn node(&mut self, what: What, mode: u32, time: Stamp) -> Node {
        self.n_made += 1;
        Node { what, inode: self.n_made, mode, modified: time, changed: time }
    }

    /// Returns what a directory holds, by name.
    pub(crate) fn children<'t>(
        &'t self,
        directory: &'t Path,
    ) -> impl Iterator<Item = (&'t Path, &'t Node)> {
        self.nodes
            .range(directory.to_path_buf()..)
            .take_while(move |(path, _)| path.starts_with(directory))
            .filter(move |(path, _)| path.parent() == Some(directory))
            .map(|(path, node)| (path.as_path(), node))
    }

    /// Follows a path as the kernel does, but never out of the root. Its spelling was checked.
    pub(crate) fn resolve(&self, path: &Path, links: Links) -> Result<Place, FileError> {
        let directory = means_directory(path);
        // Each step knows whether it comes out of a link: a name that is missing there is never created.
        let mut steps: Vec<(String, bool)> = reversed(path, false);
        let mut real = PathBuf::from("/");
        let mut n_links = 0;
        let mut dangling = false;
        let mut missing = false;
        while let Some((step, from_link)) = steps.pop() {
            let last = steps.is_empty();
            match step.as_str() {
                ".." if missing => dangling = true,
                ".." => drop(real.pop()),
                name => real.push(name),
            }
            if self.root.starts_with(&real) && real != self.root {
                continue;
            }
            if !real.starts_with(&self.root) {
                return Err(FileError::Denied(format!(
                    "it lies outside the roots: {}",
                    self.root.display()
                )));
            }
            match self.nodes.get(&real).map(|node| &node.what) {
                None => {
                    dangling |= from_link;
                    missing = true;
                    if last {
                        break;
                    }
                }
                Some(What::Link(_)) if last && links == Links::Itself && !directory => {}
                Some(What::Link(target)) => {
                    if last && links == Links::Refuse && !directory {
                        return Err(FileError::Link);
                    }
                    n_links += 1;
                    if MAX_LINKS < n_links {
                        return Err(FileError::Invalid("is a loop of links"));
                    }
                    real.pop();
                    if target.is_absolute() {
                        real = PathBuf::from("/");
                    }
                    steps.extend(reversed(target, true));
                }
                Some(What::Directory) => {}
                Some(_) if last && !directory => {}
                Some(_) => return Err(FileError::NotDirectory),
            }
        }
        if !real.starts_with(&self.root) {
            return Err(FileError::Denied(String::from("it lies outside the roots")));
        }
        let there = self.nodes.contains_key(&real);
        let orphan = real.parent().is_some_and(|parent| !self.nodes.contains_key(parent));
        let gone = !there && (dangling || directory);
        Ok(Place { orphan: orphan && real != self.root, gone, real })
    }
}

/// Returns the names of a path, the first one last.
fn reversed(path: &Path, from_link: bool) -> Vec<(String, bool)> {
    let names = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        Component::ParentDir => Some(String::from("..")),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    names.map(|name| (name, from_link)).collect()
}

fn means_directory(path: &Path) -> bool {
    let text = path.as_os_str().as_encoded_bytes();
    text.ends_with(b"/") || text.ends_with(b"/.")
}

/// Refuses paths that no system can hold.
pub(crate) fn check_spelling(path: &Path) -> Result<(), FileError> {
    let text = path.as_os_str().as_encoded_bytes();
    if text.is_empty() {
        return Err(FileError::Invalid("is empty"));
    }
    if text.contains(&0) {
        return Err(FileError::Invalid("holds a NUL byte"));
    }
    if 4_096 <= text.len() {
        return Err(FileError::Invalid("is too long"));
    }
    if text.split(|byte| *byte == b'/').any(|name| 255 < name.len()) {
        return Err(FileError::Invalid("has a component that is too long"));
    }
    Ok(())
}
