//! Whole analyses, over files in memory.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use sinew_tool::{FileKind, Plain};

use super::file_system::{Entries, FileSystem};
use super::*;

/// Files by their absolute paths; a link holds where it leads.
#[derive(Default)]
struct MemoryFiles(BTreeMap<PathBuf, Node>);

enum Node {
    File(Vec<u8>),
    Directory,
    Link(PathBuf),
}

impl MemoryFiles {
    fn with(paths: &[(&str, &str)]) -> Self {
        let mut files = Self::default();
        for (path, content) in paths {
            let path = PathBuf::from(path);
            for dir in path.ancestors().skip(1) {
                files.0.insert(dir.to_owned(), Node::Directory);
            }
            let node = match content.strip_prefix("-> ") {
                Some(target) => Node::Link(PathBuf::from(target)),
                None => Node::File(content.as_bytes().to_vec()),
            };
            files.0.insert(path, node);
        }
        files
    }

    fn resolved(&self, path: &Path) -> PathBuf {
        let mut real = PathBuf::new();
        for part in path.components() {
            match part {
                Component::ParentDir => drop(real.pop()),
                Component::CurDir => {}
                part => real.push(part),
            }
            if let Some(Node::Link(target)) = self.0.get(&real) {
                real.pop();
                real = self.resolved(&real.join(target));
            }
        }
        real
    }

    fn kind(&self, path: &Path) -> Option<FileKind> {
        Some(match self.0.get(path)? {
            Node::File(_) => FileKind::File,
            Node::Directory => FileKind::Directory,
            Node::Link(_) => FileKind::Symlink,
        })
    }
}

impl FileSystem for MemoryFiles {
    fn lstat(&self, path: &Path) -> io::Result<Option<FileKind>> {
        let dir = path.parent().map(|dir| self.resolved(dir)).unwrap_or_default();
        Ok(self.kind(&dir.join(path.file_name().unwrap_or_default())))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<FileKind>> {
        Ok(self.kind(&self.resolved(path)))
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        let real = self.resolved(path);
        match self.0.contains_key(&real) {
            true => Ok(real),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn read_dir(&self, dir: &Path) -> io::Result<Entries<'_>> {
        let dir = self.resolved(dir);
        let within = self.0.keys().filter(move |path| path.parent() == Some(dir.as_path()));
        let entry = |path: &PathBuf| Some((path.file_name()?.to_owned(), self.kind(path)?));
        Ok(Box::new(within.filter_map(entry).map(Ok)))
    }

    fn read(&self, path: &Path, _: u64) -> io::Result<Vec<u8>> {
        match self.0.get(path) {
            Some(Node::File(bytes)) => Ok(bytes.clone()),
            Some(_) => Err(io::Error::other("not a regular file")),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// Checks that a text in `/r` becomes this script, or is not plain for this reason.
#[track_caller]
fn check(files: &MemoryFiles, text: &str, expected: Result<&str, &str>) {
    let scene = Scene {
        cwd: Path::new("/r"),
        roots: &[PathBuf::from("/r")],
        find_program: &|name| Some(Path::new("/usr/bin").join(name)),
        files,
        may_read: &|_| true,
        may_walk: &|_| true,
        is_narrowed: false,
        seen: Seen::default(),
    };
    match (analyse(text, &scene).plain, expected) {
        (Ok(Plain::Script(script)), Ok(expected)) => assert_eq!(script, expected, "{text}"),
        (Err(unclear), Err(expected)) => assert_eq!(unclear.rule, expected, "{text}"),
        (found, _) => panic!("{text}: {found:?}"),
    }
}

#[test]
fn analysis_reads_only_given_files() {
    let files = MemoryFiles::with(&[
        ("/usr/bin/cat", ""),
        ("/usr/bin/git", ""),
        ("/r/a.txt", ""),
        ("/r/b.txt", ""),
        ("/r/out", "-> /x"),
        ("/r/.env", ""),
        ("/x/secret", ""),
        ("/r/repo/.git/HEAD", ""),
        ("/r/repo/.git/objects/pack/p", ""),
        ("/r/repo/.git/refs/x", ""),
        ("/r/repo/.git/config", "[core]\n\tsshCommand = x\n"),
    ]);
    for (text, expected) in [
        ("cat a.txt", Ok("'/usr/bin/cat' 'a.txt'")),
        ("cat *.txt", Ok("'/usr/bin/cat' 'a.txt' 'b.txt'")),
        ("cat *.md", Ok("'/usr/bin/cat' '*.md'")),
        ("cat /x/secret", Err("shell.outside")),
        ("cat out/secret", Err("shell.outside")),
        ("cat .env", Err("shell.secret")),
        ("git -C repo log", Err("shell.repository")),
    ] {
        check(&files, text, expected);
    }
}
