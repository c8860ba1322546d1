//! What a session remembers of the repositories that its commands change: their configurations when it began,
//! and what it put at names that execute.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

use super::git_objects;

/// The most bytes that a session remembers.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A list of keys and contents in a memfd, which all supervisors of the session share. They add to it under the
/// lock of the session. The last entry of a key counts.
#[derive(Debug)]
pub(crate) struct SessionMemory(File);

/// What an entry is about.
enum About<'a> {
    /// A configuration, by its real path: its content when the session began.
    Configuration(&'a Path),
    /// A configuration that a person allowed a command to change.
    Allowed(&'a Path),
    /// Content that the session put at a name that executes, by its id.
    Put(&'a [u8]),
    /// A directory of objects of git whose objects are remembered.
    Objects(&'a Path),
}

impl About<'_> {
    fn key(&self) -> Vec<u8> {
        let (kind, name) = match self {
            Self::Configuration(path) => (b'c', path.as_os_str().as_bytes()),
            Self::Allowed(path) => (b'a', path.as_os_str().as_bytes()),
            Self::Put(id) => (b'p', *id),
            Self::Objects(path) => (b'o', path.as_os_str().as_bytes()),
        };
        [&[kind], name].concat()
    }
}

impl SessionMemory {
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self(memfd_create(c"session_memory", MemfdFlags::CLOEXEC)?.into()))
    }

    /// Returns a configuration as it was when the session began. It is `now` if none is remembered.
    pub(super) fn first_configuration(&self, real: &Path, now: Vec<u8>) -> io::Result<Vec<u8>> {
        let about = About::Configuration(real);
        match self.find(&about)? {
            Some(first) => Ok(first),
            None => self.add(&about, &now).map(|()| now),
        }
    }

    /// Remembers a configuration that a person allowed a command to change, in place of the first one.
    pub(super) fn allow_configuration(&self, real: &Path, content: &[u8]) -> io::Result<()> {
        self.add(&About::Allowed(real), &[])?;
        self.add(&About::Configuration(real), content)
    }

    /// Returns whether a person allowed a command to change a configuration.
    pub(super) fn is_allowed(&self, real: &Path) -> bool {
        self.find(&About::Allowed(real)).is_ok_and(|found| found.is_some())
    }

    /// Remembers that the session put this content at a name that executes.
    pub(super) fn add_put(&self, content: &[u8]) -> io::Result<()> {
        self.add(&About::Put(&git_objects::id(content, true)), &[])
    }

    /// Returns whether the session put this content at a name that executes, so that it may take it away again.
    pub(super) fn has_put(&self, content: &[u8]) -> bool {
        self.find(&About::Put(&git_objects::id(content, true))).is_ok_and(|found| found.is_some())
    }

    /// Remembers a directory of objects; returns whether it is new.
    pub(super) fn add_objects(&self, objects: &Path) -> bool {
        let about = About::Objects(objects);
        let is_new = self.find(&about).is_ok_and(|found| found.is_none());
        is_new && self.add(&about, &[]).is_ok()
    }

    fn add(&self, about: &About<'_>, content: &[u8]) -> io::Result<()> {
        let mut added = Vec::new();
        for part in [about.key().as_slice(), content] {
            added.extend((part.len() as u64).to_ne_bytes());
            added.extend(part);
        }
        let n = self.0.metadata()?.len();
        if MAX_BYTES < n + added.len() as u64 {
            return Err(io::Error::other("the session has changed too many repositories"));
        }
        self.0.write_all_at(&added, n)
    }

    fn find(&self, about: &About<'_>) -> io::Result<Option<Vec<u8>>> {
        let n = self.0.metadata()?.len();
        let mut all = vec![0; usize::try_from(n).unwrap_or(0)];
        self.0.read_exact_at(&mut all, 0)?;
        let (mut rest, key) = (all.as_slice(), about.key());
        let mut found = None;
        while let Some((known, after)) = take(rest)
            && let Some((content, after)) = take(after)
        {
            if known == key {
                found = Some(content.to_vec());
            }
            rest = after;
        }
        Ok(found)
    }
}

/// Returns the first part of a list and the rest.
fn take(list: &[u8]) -> Option<(&[u8], &[u8])> {
    let (n, rest) = list.split_first_chunk::<8>()?;
    rest.split_at_checked(usize::try_from(u64::from_ne_bytes(*n)).ok()?)
}

/// Returns the time before which files were there when a session began. A file's time may lag behind the
/// clock by a tick.
#[expect(clippy::disallowed_methods, reason = "files have times of the system's clock")]
pub(crate) fn began_now() -> SystemTime {
    SystemTime::now() - std::time::Duration::from_millis(20)
}
