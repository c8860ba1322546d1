//! Everything about a directory that a change could damage.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{lgetxattr, llistxattr};

/// The entry at each path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot(pub(crate) BTreeMap<String, Node>);

/// The entry at one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) kind: &'static str,
    /// The content of a file, the target of a link.
    pub(crate) content: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    /// How many names a file has.
    pub(crate) links: u64,
    pub(crate) attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Snapshot {
    /// Records everything beneath a directory.
    pub(crate) fn of(top: &Path) -> Self {
        let mut nodes = BTreeMap::new();
        let mut left = vec![top.to_owned()];
        while let Some(path) = left.pop() {
            let node = Node::of(&path);
            if node.kind == "directory" {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            let name = path.strip_prefix(top).unwrap().as_os_str().as_bytes();
            nodes.insert(name.escape_ascii().to_string(), node);
        }
        Self(nodes)
    }

    /// Returns the first difference from the expected snapshot.
    pub(crate) fn differs(&self, found: &Self) -> Option<String> {
        for (name, node) in &self.0 {
            match found.0.get(name) {
                None => return Some(format!("{} is gone", plain(name))),
                Some(other) => {
                    if let Some(what) = node.differs(other) {
                        return Some(format!("{what} of {}", plain(name)));
                    }
                }
            }
        }
        let new = found.0.keys().find(|name| !self.0.contains_key(*name))?;
        Some(format!("{} is new", plain(new)))
    }

    /// Returns the same without set-id bits.
    pub(crate) fn without_set_id(mut self) -> Self {
        self.0.values_mut().for_each(|node| node.mode &= !0o6000);
        self
    }
}

/// Names that differ from run to run stand for their kind.
fn plain(name: &str) -> &str {
    if name.ends_with(".tmp") { "a temporary file" } else { name }
}

impl Node {
    fn of(path: &Path) -> Self {
        let meta = fs::symlink_metadata(path).unwrap();
        let kind = meta.file_type();
        let (kind, content) = if kind.is_file() {
            ("file", fs::read(path).unwrap())
        } else if kind.is_symlink() {
            ("link", fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec())
        } else if kind.is_dir() {
            ("directory", Vec::new())
        } else if kind.is_fifo() {
            ("pipe", Vec::new())
        } else {
            ("special", Vec::new())
        };
        Self {
            kind,
            content,
            mode: meta.mode() & 0o7777,
            owner: (meta.uid(), meta.gid()),
            links: if kind == "directory" { 0 } else { meta.nlink() },
            attributes: attributes(path),
        }
    }

    fn differs(&self, found: &Self) -> Option<&'static str> {
        [
            (self.kind == found.kind, "the kind"),
            (self.content == found.content, "the content"),
            (self.mode == found.mode, "the mode"),
            (self.owner == found.owner, "the owner"),
            (self.links == found.links, "the number of names"),
            (self.attributes == found.attributes, "the extended attributes"),
        ]
        .into_iter()
        .find_map(|(same, what)| (!same).then_some(what))
    }
}

fn attributes(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut list = Vec::with_capacity(65_536);
    if llistxattr(path, rustix::buffer::spare_capacity(&mut list)).is_err() {
        return BTreeMap::new();
    }
    let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    // Labels are the system's own.
    let names = names.filter(|name| *name == CAPABILITY || !name.starts_with(b"security."));
    names
        .map(|name| {
            let mut value = Vec::with_capacity(65_536);
            lgetxattr(path, name, rustix::buffer::spare_capacity(&mut value)).unwrap();
            (name.to_vec(), value)
        })
        .collect()
}

/// The attribute that gives a program rights.
pub(crate) const CAPABILITY: &[u8] = b"security.capability";
