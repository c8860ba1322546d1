//! Lets one process at a time continue a session.
//!
//! The claim is a lock on a file. The kernel ends it with its process, and the process removes the file with it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// The directory of the files, in the state directory.
const DIR: &str = "session-claims";

/// The right to add entries to a session.
#[derive(Debug)]
pub struct SessionClaim {
    /// Holds the lock.
    _file: File,
    path: PathBuf,
}

/// Why a session cannot be claimed.
#[derive(Debug)]
pub(crate) enum Unclaimed {
    /// Another process has it; its number, where it is known.
    Taken(Option<u32>),
    /// The file cannot be used.
    Failed(io::Error),
}

impl From<io::Error> for Unclaimed {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl SessionClaim {
    /// Claims a session.
    #[expect(clippy::disallowed_methods, reason = "the guard may touch the system")]
    pub(crate) fn take(state: &Path, id: &str) -> Result<Self, Unclaimed> {
        let dir = state.join(DIR);
        DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        let hash = blake3::hash(id.as_bytes()).to_hex();
        let path = dir.join(hash.get(..32).unwrap_or(&hash));
        loop {
            let mut options = OpenOptions::new();
            let mut file = options
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)?;
            let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
            if let Err(error) = locked {
                if error != Errno::WOULDBLOCK {
                    return Err(Unclaimed::Failed(error.into()));
                }
                let mut number = String::new();
                file.read_to_string(&mut number)?;
                return Err(Unclaimed::Taken(number.trim().parse().ok()));
            }
            // The last holder may have removed this file between the two steps.
            if fs::metadata(&path).is_ok_and(|there| is_same(&there, &file)) {
                file.set_len(0)?;
                write!(file, "{}", std::process::id())?;
                return Ok(Self { _file: file, path });
            }
        }
    }
}

fn is_same(there: &fs::Metadata, file: &File) -> bool {
    file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
}

impl Drop for SessionClaim {
    #[expect(clippy::disallowed_methods, reason = "the guard may touch the system")]
    fn drop(&mut self) {
        // The lock still holds, so no other process has this file.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_claim_at_a_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let claim = SessionClaim::take(dir.path(), "../s").expect("a claim");
        let other = SessionClaim::take(dir.path(), "t").expect("another session");
        match SessionClaim::take(dir.path(), "../s") {
            Err(Unclaimed::Taken(number)) => assert_eq!(number, Some(std::process::id())),
            unexpected => panic!("{unexpected:?}"),
        }
        drop(claim);
        drop(SessionClaim::take(dir.path(), "../s").expect("free again"));
        drop(other);
        #[expect(clippy::disallowed_methods, reason = "the test looks at what really happened")]
        let left = fs::read_dir(dir.path().join(DIR)).expect("a directory").count();
        assert_eq!(left, 0);
    }

    #[test]
    fn claims_that_race_have_one_holder() {
        let dir = tempfile::tempdir().expect("a directory");
        let held = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let Ok(claim) = SessionClaim::take(dir.path(), "s") else { continue };
                        assert_eq!(held.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        held.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        drop(claim);
                    }
                });
            }
        });
    }
}
