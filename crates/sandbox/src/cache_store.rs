//! What of package managers' caches lasts from one session of a project to the next: downloads that a lockfile of its roots
//! names with their hash, and nothing else.
//!
//! Commands run unasked and may write anything into the caches of their session. So sinew asks the other way round: for each
//! hash in the lockfiles it opens the one path at which the package manager keeps that download, and copies it into the
//! **store** of the project if the bytes that it copied have that hash. No name and no directory listing of a command counts.
//! When a session begins, the store is compared with the lockfiles as they are then. What they still name is linked
//! into a directory of the session, which becomes the lowest layer of the cache's overlay: commands can read it and not change it,
//! and it never takes the place of a file of the user.
#![expect(clippy::disallowed_methods, reason = "the guard may keep files of its own")]

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Take, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, ResolveFlags, flock, openat};
use rustix::io::Errno;
use sha2::{Digest, Sha256, Sha512};

use super::lockfiles::{self, Locked};

/// The largest download that lasts, in bytes.
const MAX_FILE: u64 = 128 << 20;
/// The most bytes in the store of a project.
const MAX_BYTES: u64 = 1 << 30;
/// The most registries of a cache of cargo.
const MAX_REGISTRIES: usize = 16;
/// How long a store lasts that no session uses.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long a session waits for the store of another.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// The lock of a store. Its time is that of the last session.
const LOCK: &str = "lock";
/// The directory of the downloads in a store, by their hash.
const FILES: &str = "files";
/// The directory that takes its place, while the lockfiles are compared with it.
const NAMED: &str = "named";
/// The download that is being copied into a store.
const NEW: &str = "new";
/// In the directory of a session: the [`CacheStore`] that takes downloads of it.
const TAKES: &str = "takes";

/// Returns the directory of the changes that a session made in its `n`th cache.
pub(super) fn changes(scratch: &Path, n: usize) -> PathBuf {
    scratch.join(format!("cache-{n}/changes"))
}

/// Returns the directory of the downloads that an earlier session left for the `n`th cache, if it did.
pub(super) fn kept(scratch: &Path, n: usize) -> PathBuf {
    scratch.join(format!("cache-{n}/kept"))
}

/// The store of a project, with the roots whose lockfiles count and the caches of its sessions.
#[derive(Debug)]
pub(super) struct CacheStore {
    dir: PathBuf,
    roots: Vec<PathBuf>,
    caches: Vec<PathBuf>,
}

impl CacheStore {
    /// Returns the store of roots, given by real paths, in the directory of all stores.
    pub(super) fn new(stores: &Path, roots: &[PathBuf], caches: &[PathBuf]) -> Self {
        let mut roots = roots.to_vec();
        roots.sort();
        let name = hex(&Sha256::digest(joined(&roots)));
        Self { dir: stores.join(name), roots, caches: caches.to_vec() }
    }

    /// Links into the directory of a session what the lockfiles name now, and drops the rest.
    pub(super) fn prepare(&self, scratch: &Path) -> io::Result<()> {
        self.remove_unused();
        let _lock = self.lock()?;
        let (files, named) = (self.dir.join(FILES), self.dir.join(NAMED));
        // A process that was killed may have left them.
        let _ = fs::remove_dir_all(&named);
        let _ = fs::remove_file(self.dir.join(NEW));
        fs::create_dir(&named)?;
        let dir = open_dir(&files)?;
        for locked in lockfiles::of_roots(&self.roots) {
            let hash = Path::new(locked.hash());
            // A crash of the machine may have changed the copy.
            if !open(&dir, hash).is_some_and(|file| has_hash(file, &locked, None)) {
                continue;
            }
            let file = named.join(hash);
            fs::rename(files.join(hash), &file)?;
            for (n, cache) in self.caches.iter().enumerate() {
                for path in paths(cache, &locked) {
                    let path = kept(scratch, n).join(path);
                    path.parent().map_or(Ok(()), fs::create_dir_all)?;
                    fs::hard_link(&file, path)?;
                }
            }
        }
        fs::remove_dir_all(&files)?;
        fs::rename(named, files)?;
        let parts = [std::slice::from_ref(&self.dir), &self.roots, &self.caches].map(joined);
        fs::write(scratch.join(TAKES), parts.join(&0))
    }

    /// Copies what lockfiles name out of the caches of a session that has ended, if a store takes it.
    pub(super) fn take(scratch: &Path) {
        if let Some(store) = Self::of_session(scratch) {
            // What cannot be copied is downloaded again.
            let _ = store.take_from(scratch);
        }
    }

    /// Returns whether this store takes downloads of a session. The lockfiles of another project may not answer.
    pub(super) fn takes(&self, scratch: &Path) -> bool {
        Self::of_session(scratch).is_some_and(|store| store.dir == self.dir)
    }

    fn of_session(scratch: &Path) -> Option<Self> {
        let bytes = fs::read(scratch.join(TAKES)).ok()?;
        let mut parts = [const { Vec::new() }; 3];
        let mut paths =
            bytes.split(|byte| *byte == 0).map(|path| PathBuf::from(OsStr::from_bytes(path)));
        for part in &mut parts {
            part.extend(paths.by_ref().take_while(|path| !path.as_os_str().is_empty()));
        }
        let [dir, roots, caches] = parts;
        Some(Self { dir: dir.into_iter().next()?, roots, caches })
    }

    fn take_from(&self, scratch: &Path) -> io::Result<()> {
        let _lock = self.lock()?;
        let mut n_bytes = 0_u64;
        let (files, new) = (self.dir.join(FILES), self.dir.join(NEW));
        for entry in fs::read_dir(&files)? {
            n_bytes += entry?.metadata()?.len();
        }
        for locked in lockfiles::of_roots(&self.roots) {
            let stored = files.join(locked.hash());
            for (n, cache) in self.caches.iter().enumerate() {
                let Ok(dir) = open_dir(&changes(scratch, n)) else { continue };
                for path in paths(cache, &locked) {
                    if stored.exists() {
                        continue;
                    }
                    let Some(file) = open(&dir, &path) else { continue };
                    // Before it is read: a command may have planted many large files.
                    n_bytes = n_bytes.saturating_add(file.limit());
                    if MAX_BYTES < n_bytes {
                        return Ok(());
                    }
                    let mut copy = OpenOptions::new();
                    let copy = copy.write(true).create(true).truncate(true).mode(0o644);
                    if has_hash(file, &locked, Some(copy.open(&new)?)) {
                        fs::rename(&new, &stored)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the store as the only process that uses it; makes it if it is missing.
    fn lock(&self) -> io::Result<File> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.dir.join(FILES))?;
        let lock = File::create(self.dir.join(LOCK))?;
        // Another process may have stopped with it.
        let until = Instant::now() + MAX_WAIT;
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(lock),
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Removes the stores of other projects that no session has used for long.
    fn remove_unused(&self) {
        let stores = self.dir.parent().and_then(|stores| fs::read_dir(stores).ok());
        for store in stores.into_iter().flatten().filter_map(Result::ok) {
            let used = fs::metadata(store.path().join(LOCK)).and_then(|lock| lock.modified());
            let age = used.ok().and_then(|used| used.elapsed().ok());
            if store.path() != self.dir && age.is_some_and(|age| MAX_AGE < age) {
                let _ = fs::remove_dir_all(store.path());
            }
        }
    }
}

/// Returns paths as bytes with an end for each.
fn joined(paths: &[PathBuf]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for path in paths {
        bytes.extend_from_slice(path.as_os_str().as_bytes());
        bytes.push(0);
    }
    bytes
}

/// Returns the paths in a cache at which package managers keep a download.
fn paths(cache: &Path, locked: &Locked) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    match locked {
        Locked::Npm(hash) if cache.ends_with(".npm") || cache.join("_cacache").is_dir() => {
            let part = |range| hash.get(range).unwrap_or_default();
            let (first, second, rest) = (part(0..2), part(2..4), part(4..hash.len()));
            paths.push(format!("_cacache/content-v2/sha512/{first}/{second}/{rest}").into());
        }
        Locked::Npm(_) => {}
        Locked::Crate(_, file) => {
            // A command cannot add a registry: no lockfile has its index.
            let index = fs::read_dir(cache.join("registry/index"));
            let index = index.into_iter().flatten().filter_map(Result::ok);
            let names: Vec<_> = index.map(|entry| entry.file_name()).take(MAX_REGISTRIES).collect();
            // The only one is crates.io or its mirror.
            let is_alone = names.len() == 1;
            let is_known = |name: &OsString| name.as_bytes().starts_with(b"index.crates.io-");
            for name in names.into_iter().filter(|name| is_alone || is_known(name)) {
                paths.push(Path::new("registry/cache").join(name).join(file));
            }
        }
    }
    paths
}

/// Opens a regular file of a bounded size beneath a directory; no more is read than it has now.
fn open(dir: impl AsFd, path: &Path) -> Option<Take<File>> {
    let (file, n_bytes) = lockfiles::open(dir, path, ResolveFlags::BENEATH)?;
    (n_bytes <= MAX_FILE).then(|| file.take(n_bytes))
}

fn open_dir(path: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?.into())
}

/// Returns whether a file has the hash; copies the bytes that it looks at.
fn has_hash(mut file: Take<File>, locked: &Locked, mut to: Option<File>) -> bool {
    let (mut sha256, mut sha512) = (Sha256::new(), Sha512::new());
    let mut buffer = vec![0; 64 << 10];
    while let Ok(n) = file.read(&mut buffer) {
        let bytes = buffer.get(..n).unwrap_or_default();
        if bytes.is_empty() {
            let hash = match locked {
                Locked::Npm(_) => hex(&sha512.finalize()),
                Locked::Crate(..) => hex(&sha256.finalize()),
            };
            return hash == locked.hash();
        }
        match locked {
            Locked::Npm(_) => sha512.update(bytes),
            Locked::Crate(..) => sha256.update(bytes),
        }
        if to.as_mut().is_some_and(|to| to.write_all(bytes).is_err()) {
            break;
        }
    }
    false
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    const EMPTY: &str = "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce\
                         47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e";

    #[test]
    fn store_has_whole_files_of_used_projects() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = fs::canonicalize(dir.path()).expect("a directory");
        let (root, cache, stores) = (top.join("ws"), top.join(".npm"), top.join("caches"));
        fs::create_dir(&root).expect("a directory");
        let integrity = "z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==";
        let lockfile =
            format!("{{\"packages\": {{\"a\": {{\"integrity\": \"sha512-{integrity}\"}}}}}}");
        fs::write(root.join("package-lock.json"), lockfile).expect("a file");
        let store = CacheStore::new(&stores, std::slice::from_ref(&root), &[cache]);
        let path = format!("_cacache/content-v2/sha512/cf/83/{}", &EMPTY[4..]);
        let session = |name: &str| {
            let scratch = top.join(name);
            fs::create_dir(&scratch).expect("a directory");
            store.prepare(&scratch).expect("a store");
            scratch
        };
        let first = session("first");
        let fetched = changes(&first, 0).join(&path);
        fs::create_dir_all(fetched.parent().expect("a directory")).expect("a directory");
        fs::write(&fetched, "").expect("a file");
        CacheStore::take(&first);
        assert!(kept(&session("second"), 0).join(&path).exists());
        // A copy that a crash tore, another one that it left, and stores of other projects.
        fs::write(store.dir.join(FILES).join(EMPTY), "torn").expect("a file");
        fs::write(store.dir.join(NEW), "half").expect("a file");
        fs::create_dir(store.dir.join(NAMED)).expect("a directory");
        fs::write(store.dir.join(NAMED).join(EMPTY), "").expect("a file");
        for (name, is_old) in [("old", true), ("used", false)] {
            fs::create_dir(stores.join(name)).expect("a directory");
            let lock = File::create(stores.join(name).join(LOCK)).expect("a file");
            let now = lock.metadata().and_then(|lock| lock.modified()).expect("a time");
            lock.set_modified(now - if is_old { MAX_AGE * 2 } else { MAX_AGE / 2 })
                .expect("a time");
        }
        let own = File::create(store.dir.join(LOCK)).expect("a file");
        own.set_modified(SystemTime::UNIX_EPOCH).expect("a time");
        assert!(!kept(&session("third"), 0).join(&path).exists());
        let names = |dir: &Path| {
            let entries = fs::read_dir(dir).expect("a directory").filter_map(Result::ok);
            let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&store.dir), [FILES, LOCK]);
        assert!(names(&store.dir.join(FILES)).is_empty());
        assert!(!stores.join("old").exists() && stores.join("used").exists());
        // A session uses its own.
        let used = own.metadata().and_then(|lock| lock.modified()).expect("a time");
        assert_ne!(used, SystemTime::UNIX_EPOCH);
    }
}
