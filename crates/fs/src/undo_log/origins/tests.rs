use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

/// An entry of the model: a directory, or the inode of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Directory,
    File(u64),
}

/// A tree in memory, and the contents of its files by inode.
#[derive(Debug, Clone, Default)]
struct Model {
    tree: BTreeMap<PathBuf, Node>,
    contents: HashMap<u64, u64>,
    n_inodes: u64,
    n_contents: u64,
    /// The contents that were kept, by the number of the image.
    images: Vec<u64>,
    origins: Origins,
    groups: Vec<Vec<UndoRecord>>,
}

impl Clone for Origins {
    fn clone(&self) -> Self {
        Self {
            old: self.old.clone(),
            modes: self.modes.clone(),
            now: self.now.clone(),
            earlier: self.earlier.clone(),
            moved: self.moved.clone(),
            linked: self.linked.clone(),
            is_full: self.is_full,
        }
    }
}

#[derive(Debug, Clone)]
enum Deed {
    Make(PathBuf),
    MakeDirectory(PathBuf),
    Write(PathBuf),
    Remove(PathBuf),
    Move(PathBuf, PathBuf),
    Exchange(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
}

impl Model {
    fn is_free(&self, path: &Path) -> bool {
        !self.tree.contains_key(path)
            && path.parent().is_some_and(|above| {
                above == Path::new("/r") || self.tree.get(above) == Some(&Node::Directory)
            })
    }

    fn is_empty(&self, dir: &Path) -> bool {
        !self.tree.keys().any(|path| path != dir && path.starts_with(dir))
    }

    fn make_file(&mut self, path: PathBuf) {
        self.n_inodes += 1;
        self.n_contents += 1;
        self.contents.insert(self.n_inodes, self.n_contents);
        self.tree.insert(path, Node::File(self.n_inodes));
    }

    fn record(&mut self, records: Vec<UndoRecord>) {
        records.iter().for_each(|record| self.origins.add(record.clone()));
        self.groups.push(records);
    }

    /// Returns the record of a file that is changed or removed, if its content must be kept.
    fn kept(&mut self, path: &Path, inode: u64, is_removed: bool) -> Option<UndoRecord> {
        let n_links = self.tree.values().filter(|node| **node == Node::File(inode)).count() as u64;
        let must = self.origins.must_keep(path)
            || !is_removed && self.origins.linked((1, inode)).is_some();
        if !must && !is_removed {
            return None;
        }
        let content = self.contents[&inode];
        self.images.push(content);
        let image = BeforeImage::Copied(self.images.len() as u64 - 1);
        let before = FileBefore { size: 1, mode: 0, inode: (1, inode), n_links };
        Some(UndoRecord::File(path.to_owned(), before, image))
    }

    fn removal(&mut self, path: &Path) -> UndoRecord {
        match self.tree[path] {
            Node::Directory => UndoRecord::Directory(path.to_owned(), 0),
            Node::File(inode) => self.kept(path, inode, true).expect("a record"),
        }
    }

    fn carry_out(&mut self, deed: Deed) {
        match deed {
            Deed::Make(path) if self.is_free(&path) => {
                self.record(vec![UndoRecord::Made(path.clone())]);
                self.make_file(path);
            }
            Deed::MakeDirectory(path) if self.is_free(&path) => {
                self.record(vec![UndoRecord::Made(path.clone())]);
                self.tree.insert(path, Node::Directory);
            }
            Deed::Write(path) => {
                let Some(Node::File(inode)) = self.tree.get(&path).copied() else { return };
                let kept: Vec<UndoRecord> = self.kept(&path, inode, false).into_iter().collect();
                self.record(kept);
                self.n_contents += 1;
                self.contents.insert(inode, self.n_contents);
            }
            Deed::Remove(path) if self.tree.contains_key(&path) && self.is_empty(&path) => {
                let removal = self.removal(&path);
                self.record(vec![removal]);
                self.tree.remove(&path);
            }
            Deed::Move(from, to) => self.rename(&from, &to),
            Deed::Exchange(one, other) => self.exchange(&one, &other),
            Deed::Link(from, to) if self.is_free(&to) => {
                let Some(Node::File(inode)) = self.tree.get(&from).copied() else { return };
                self.record(vec![UndoRecord::Linked(from, to.clone(), (1, inode))]);
                self.tree.insert(to, Node::File(inode));
            }
            _ => {}
        }
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        let Some(node) = self.tree.get(from).copied() else { return };
        if to.starts_with(from) || from.starts_with(to) {
            return;
        }
        let mut records = Vec::new();
        match self.tree.get(to).copied() {
            None if self.is_free(to) => {}
            None => return,
            Some(Node::Directory) if node == Node::Directory && self.is_empty(to) => {
                records.push(self.removal(to));
            }
            Some(Node::File(inode)) if matches!(node, Node::File(own) if own != inode) => {
                records.push(self.removal(to));
            }
            Some(_) => return,
        }
        let is_dir = node == Node::Directory;
        records.push(UndoRecord::Moved(from.to_owned(), to.to_owned(), is_dir, (1, 0)));
        self.record(records);
        self.tree.remove(to);
        self.take(from, to);
    }

    fn take(&mut self, from: &Path, to: &Path) {
        let all: Vec<PathBuf> =
            self.tree.keys().filter(|path| path.starts_with(from)).cloned().collect();
        for path in all {
            let node = self.tree.remove(&path).expect("a node");
            self.tree.insert(beneath(to, &path, from).expect("beneath"), node);
        }
    }

    fn exchange(&mut self, one: &Path, other: &Path) {
        let (Some(a), Some(b)) = (self.tree.get(one), self.tree.get(other)) else { return };
        if one.starts_with(other) || other.starts_with(one) {
            return;
        }
        let (a, b) = (*a == Node::Directory, *b == Node::Directory);
        self.record(vec![UndoRecord::Exchanged(one.to_owned(), other.to_owned(), (a, b), (1, 0))]);
        let aside = Path::new("/aside");
        self.take(one, aside);
        self.take(other, one);
        self.take(aside, other);
    }

    fn shown(&self) -> BTreeMap<PathBuf, Option<u64>> {
        let shown = |node: &Node| match node {
            Node::Directory => None,
            Node::File(inode) => Some(self.contents[inode]),
        };
        self.tree.iter().map(|(path, node)| (path.clone(), shown(node))).collect()
    }

    /// Returns the tree as the log says that it was.
    fn restored(self) -> BTreeMap<PathBuf, Option<u64>> {
        let now = self.shown();
        let mut origins = Origins::default();
        let mut bytes = Vec::new();
        self.groups.iter().for_each(|group| crate::undo_log::append(group, &mut bytes));
        crate::undo_log::read(&bytes).into_iter().flatten().for_each(|record| origins.add(record));
        let beneath = |dir: &Path| {
            let all = now.keys().filter(|path| path.starts_with(dir) && *path != dir);
            all.cloned().collect()
        };
        let (old, _) = origins.into_old(beneath);
        let mut was = now.clone();
        for (path, old) in old {
            match old {
                OldState::Nothing => {
                    was.remove(&path);
                }
                OldState::File(_, BeforeImage::Copied(number)) => {
                    was.insert(path, Some(self.images[number as usize]));
                }
                OldState::Directory(_) => {
                    was.insert(path, None);
                }
                OldState::At(at) => {
                    was.insert(path, now[&at]);
                }
                other => panic!("{other:?}"),
            }
        }
        was
    }
}

fn path() -> impl Strategy<Value = PathBuf> {
    let name = prop_oneof![Just("a"), Just("b"), Just("c")];
    proptest::collection::vec(name, 1..=3).prop_map(|names| {
        let mut path = PathBuf::from("/r");
        path.extend(names);
        path
    })
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        2 => path().prop_map(Deed::Make),
        1 => path().prop_map(Deed::MakeDirectory),
        2 => path().prop_map(Deed::Write),
        2 => path().prop_map(Deed::Remove),
        4 => (path(), path()).prop_map(|(from, to)| Deed::Move(from, to)),
        1 => (path(), path()).prop_map(|(one, other)| Deed::Exchange(one, other)),
        1 => (path(), path()).prop_map(|(from, to)| Deed::Link(from, to)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    /// After any makes, writes, removals, moves, exchanges and links the log gives the old tree.
    #[test]
    fn a_log_says_what_was_there(
        before in proptest::collection::vec((path(), any::<bool>()), 0..14),
        deeds in proptest::collection::vec(deed(), 0..24),
    ) {
        let mut model = Model::default();
        for (path, is_dir) in before {
            if model.is_free(&path) {
                match is_dir {
                    true => drop(model.tree.insert(path, Node::Directory)),
                    false => model.make_file(path),
                }
            }
        }
        let was = model.shown();
        deeds.into_iter().for_each(|deed| model.carry_out(deed));
        prop_assert_eq!(model.restored(), was);
    }
}
