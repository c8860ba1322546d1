//! Looks for the content of a file among the objects of its repository. Content that was there when the session began
//! is the user's own: a checkout puts it into the working tree.
//!
//! A file's change time (ctime) cannot be set, so it says when an object came. But git sets the times of objects
//! that it would write again, and hard links change it too. So the single objects are listed before the first
//! change in their repository. The index of a pack never changes; a removed one is remembered by its ids.
#![expect(clippy::disallowed_methods, reason = "the supervisor looks at the files of its command")]

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use rustix::io::Errno;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use sinew_fs::git_pack;

/// The most packs and alternates that are looked into.
const MAX_PACKS: usize = 4_096;
const MAX_ALTERNATES: usize = 16;
/// The most single objects of a repository that are remembered.
const MAX_SINGLE: usize = 200_000;
/// The largest file of git that is read whole, in bytes.
const MAX_BYTES: u64 = 64 * 1024;
/// The size of the longest id, a SHA-256.
const LONGEST_ID: usize = 32;
/// The most bytes of ids that are remembered.
const MAX_REMEMBERED: u64 = 32 * 1024 * 1024;

/// The ids of objects that were there when the session began. All supervisors share the memfd, and add to it
/// under the lock of the session.
#[derive(Debug)]
pub(crate) struct OldObjects(File);

impl OldObjects {
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self(memfd_create(c"objects", MemfdFlags::CLOEXEC)?.into()))
    }

    /// Remembers the objects of a pack's index that a command removes.
    pub(super) fn remember_pack(&self, path: &Path, time: SystemTime) {
        let is_index = path.extension().is_some_and(|end| end == "idx");
        if is_index && is_older(path, time) {
            let ids = readable(path).and_then(|index| git_pack::listed(&index, MAX_REMEMBERED));
            self.add(ids.unwrap_or_default());
        }
    }

    /// Remembers the single objects of a repository.
    pub(super) fn remember_single(&self, objects: &Path, time: SystemTime) {
        let is_part = |entry: &fs::DirEntry| entry.file_name().len() == 2;
        let dirs =
            fs::read_dir(objects).into_iter().flatten().filter_map(Result::ok).filter(is_part);
        let files = dirs.flat_map(|dir| fs::read_dir(dir.path()).into_iter().flatten());
        let old = files.filter_map(Result::ok).map(|file| file.path());
        let old = old.filter(|path| is_older(path, time));
        self.add(old.filter_map(|path| id_of(&path)).take(MAX_SINGLE).collect());
    }

    fn add(&self, ids: Vec<Vec<u8>>) {
        let Ok(n) = self.0.metadata().map(|meta| meta.len()) else { return };
        let mut added = Vec::new();
        for mut id in ids {
            id.resize(LONGEST_ID, 0);
            added.extend(id);
        }
        if n + added.len() as u64 <= MAX_REMEMBERED {
            // Without it later checkouts of protected files are refused.
            let _ = self.0.write_all_at(&added, n);
        }
    }

    pub(super) fn contains(&self, id: &[u8]) -> bool {
        let mut all = Vec::new();
        let mut id = id.to_vec();
        id.resize(LONGEST_ID, 0);
        let n = self.0.metadata().map_or(0, |meta| meta.len());
        all.resize(usize::try_from(n).unwrap_or(0), 0);
        self.0.read_exact_at(&mut all, 0).is_ok()
            && all.chunks_exact(LONGEST_ID).any(|known| known == id)
    }
}

/// Returns the directory of the objects of the repository that holds a path, by the form of the path.
pub(super) fn objects_of(path: &Path) -> Option<PathBuf> {
    let is_named = |dir: &&Path, name: &str| dir.file_name().is_some_and(|found| found == name);
    // The nearest one: repositories of submodules are inside another one.
    let mut above = path.ancestors().skip(1);
    above.find_map(|dir| match () {
        () if is_named(&dir, "objects") => Some(dir.to_owned()),
        () if is_named(&dir, ".git") => Some(dir.join("objects")),
        () => None,
    })
}

/// Returns the id of a single object, by its path.
fn id_of(path: &Path) -> Option<Vec<u8>> {
    let mut names = path.iter().rev().filter_map(|name| name.to_str());
    let (name, dir) = (names.next()?, names.next()?);
    let hex = format!("{dir}{name}");
    let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    let id: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
    id.filter(|id| id.len() <= LONGEST_ID)
}

/// Returns whether the repository of a file held this content before a time, or the local one that it was
/// cloned from.
pub(super) fn held_before(
    path: &Path,
    content: &[u8],
    time: SystemTime,
    is_of_project: impl Fn(&Path) -> bool,
    is_remembered: impl Fn(&[u8], &[PathBuf]) -> bool,
) -> bool {
    let Some(git) = path.ancestors().skip(1).find_map(repository_of) else { return false };
    let configuration = text_of(&git.join("config")).unwrap_or_default();
    let objects = git.join("objects");
    let id = id(content, is_sha256(&configuration));
    let alternates = text_of(&objects.join("info/alternates")).unwrap_or_default();
    let others = alternates.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let others = others.take(MAX_ALTERNATES).map(|line| objects.join(line));
    let others = others.filter(|dir| is_of_project(dir));
    let top = git.parent().unwrap_or(&git).to_owned();
    let origins = configuration.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "url").then(|| top.join(value.trim()))
    });
    // A repository elsewhere may hold the work of anyone.
    let origins = origins.filter(|dir| is_of_project(dir));
    let origins = origins.take(MAX_ALTERNATES);
    let origins = origins.flat_map(|dir| [dir.join("objects"), dir.join(".git/objects")]);
    let all: Vec<PathBuf> = std::iter::once(objects.clone()).chain(others).chain(origins).collect();
    is_remembered(&id, &all) || all.iter().any(|objects| holds(objects, &id, time))
}

/// Returns whether a file is in the working tree of a repository.
pub(super) fn has_repository(path: &Path) -> bool {
    path.ancestors().skip(1).any(|dir| fs::symlink_metadata(dir.join(".git")).is_ok())
}

/// Returns the main directory of the repository with this working tree.
fn repository_of(dir: &Path) -> Option<PathBuf> {
    let git = dir.join(".git");
    let meta = fs::symlink_metadata(&git).ok()?;
    if meta.is_dir() {
        return Some(git);
    }
    let text = text_of(&git)?;
    let own = dir.join(text.strip_prefix("gitdir: ")?.trim_end());
    let common = text_of(&own.join("commondir"));
    Some(common.map_or(own.clone(), |common| own.join(common.trim_end())))
}

/// Opens a file for reading; a pipe there does not block.
fn readable(path: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok().map(File::from)
}

fn text_of(path: &Path) -> Option<String> {
    let mut text = String::new();
    readable(path)?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

fn is_sha256(configuration: &str) -> bool {
    configuration.to_ascii_lowercase().lines().any(|line| {
        line.split_once('=')
            .is_some_and(|(key, value)| key.trim() == "objectformat" && value.trim() == "sha256")
    })
}

/// Returns the id of a blob.
pub(super) fn id(content: &[u8], is_sha256: bool) -> Vec<u8> {
    let header = format!("blob {}\0", content.len());
    if is_sha256 {
        Sha256::new().chain_update(header).chain_update(content).finalize().to_vec()
    } else {
        Sha1::new().chain_update(header).chain_update(content).finalize().to_vec()
    }
}

/// Returns whether a pack that was there before a time holds an object.
fn holds(objects: &Path, id: &[u8], time: SystemTime) -> bool {
    let Ok(packs) = fs::read_dir(objects.join("pack")) else { return false };
    let packs = packs.filter_map(Result::ok).map(|entry| entry.path());
    let indexes = packs.filter(|path| path.extension().is_some_and(|end| end == "idx"));
    indexes.take(MAX_PACKS).any(|index| is_older(&index, time) && is_listed(&index, id))
}

/// Returns whether a file came to its name and content before a time.
fn is_older(path: &Path, time: SystemTime) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| {
        let at = Duration::new(
            u64::try_from(meta.ctime()).unwrap_or(u64::MAX / 2),
            u32::try_from(meta.ctime_nsec()).unwrap_or(0),
        );
        meta.is_file() && UNIX_EPOCH.checked_add(at).is_some_and(|at| at < time)
    })
}

fn is_listed(index: &Path, id: &[u8]) -> bool {
    readable(index).and_then(|index| git_pack::is_listed(&index, id)).unwrap_or(false)
}
