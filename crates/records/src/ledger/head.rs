//! The head file beside the database: the last record of the chain, with a MAC.
//!
//! A chain with a truncated end is still valid; the head reveals the loss. It is written after each commit,
//! in place and only forward. It is ahead of the database only after tampering or a damaging power loss.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, fstat, fsync, openat};
use rustix::io::Errno;
use sinew_tool::Event;

use super::key::Key;
use super::record::{self, Link};

/// The file name.
pub(super) const NAME: &str = "ledger.head";
/// A number of 20 digits, a hash and a MAC in hexadecimal, with blanks between and a line end.
const LENGTH: usize = 20 + 1 + 64 + 1 + 64 + 1;
const USE: &str = "head";
/// How long a reader or writer waits for the lock.
const MAX_WAIT: Duration = Duration::from_millis(10);
const PAUSE: Duration = Duration::from_micros(100);

/// The content of a head file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noted {
    /// The chain had reached this record.
    At(Link),
    /// The file is missing or empty.
    Nothing,
    /// The file was not written with this key.
    Damaged,
}

/// The open head file.
#[derive(Debug)]
pub(super) struct HeadFile {
    path: PathBuf,
    file: Option<OwnedFd>,
}

impl HeadFile {
    pub(super) fn new(state: &Path) -> Self {
        Self { path: state.join(NAME), file: None }
    }

    /// Returns the content of the file.
    pub(super) fn noted(&mut self, key: &Key) -> Noted {
        match self.open(OFlags::RDWR) {
            Some(file) => read_whole(file, key),
            None => Noted::Nothing,
        }
    }

    /// Notes the last record, unless a later one is noted and `even_back` is false. If the lock stays taken,
    /// the next record notes it.
    pub(super) fn note(
        &mut self,
        key: &Key,
        link: Link,
        even_back: bool,
    ) -> rustix::io::Result<()> {
        let is_new = self.open(OFlags::RDWR).is_none();
        let flags = OFlags::RDWR | OFlags::CREATE;
        let Some(file) = self.open(flags) else { return Err(Errno::ACCESS) };
        let alone = locked(file, FlockOperation::NonBlockingLockExclusive)?;
        let is_later = match read(file, key) {
            Noted::At(noted) => noted.seq <= link.seq,
            Noted::Nothing | Noted::Damaged => true,
        };
        let written = if is_later || even_back {
            rustix::io::pwrite(file, line(key, &link).as_bytes(), 0).map(|_| ())
        } else {
            Ok(())
        };
        if is_new {
            let _ = fsync(file);
        }
        drop(alone);
        written
    }

    /// Returns the open file; reopens it after an unlink.
    fn open(&mut self, flags: OFlags) -> Option<&OwnedFd> {
        let has_name = |file: &OwnedFd| fstat(file).is_ok_and(|stat| stat.st_nlink != 0);
        if !self.file.as_ref().is_some_and(has_name) {
            let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            self.file = openat(CWD, &self.path, flags, Mode::from_raw_mode(0o600)).ok();
        }
        self.file.as_ref()
    }
}

/// Returns the content of a state directory's head file without a change.
pub(super) fn noted(state: &Path, key: &Key) -> Noted {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match openat(CWD, state.join(NAME), flags, Mode::empty()) {
        Ok(file) => read_whole(&file, key),
        Err(_) => Noted::Nothing,
    }
}

/// Returns an event if the head does not match the end of the chain.
pub(super) fn wrong(
    connection: &Connection,
    noted: Noted,
    tail: Link,
) -> rusqlite::Result<Option<Event>> {
    let event = |kind, text: String| Ok(Some(Event { kind, text, session: None }));
    let noted = match noted {
        Noted::At(noted) if noted == tail || noted.seq == 0 => return Ok(None),
        Noted::At(noted) => noted,
        Noted::Nothing => {
            let text = "the head beside the database was gone here: records before may be too";
            return event("head", String::from(text));
        }
        Noted::Damaged => {
            let text =
                "the head beside the database was damaged here: records before may be cut off";
            return event("head", String::from(text));
        }
    };
    if tail.seq < noted.seq {
        let n_cut = noted.seq.saturating_sub(tail.seq);
        let text =
            format!("{n_cut} records were cut off here: the head knew of record {}", noted.seq);
        return event("cut", text);
    }
    match record::hash_of(connection, noted.seq)? {
        Some(hash) if hash != noted.hash => {
            let text = format!(
                "records were replaced before here: the head knew another record {}",
                noted.seq
            );
            event("cut", text)
        }
        // The head was late or its process died, and retention removed the record.
        Some(_) | None => Ok(None),
    }
}

/// Reads the file; retries damage under the lock, because a read beside a writer may be torn.
fn read_whole(file: &OwnedFd, key: &Key) -> Noted {
    match read(file, key) {
        Noted::Damaged => {
            let _alone = locked(file, FlockOperation::NonBlockingLockShared);
            read(file, key)
        }
        noted => noted,
    }
}

/// The file lock; dropping it unlocks.
struct Lock<'a>(&'a OwnedFd);

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

/// Locks the file, waiting a moment: a holder writes one line.
fn locked(file: &OwnedFd, operation: FlockOperation) -> rustix::io::Result<Lock<'_>> {
    let end = Instant::now() + MAX_WAIT;
    loop {
        match flock(file, operation) {
            Ok(()) => return Ok(Lock(file)),
            Err(Errno::WOULDBLOCK) if Instant::now() < end => std::thread::sleep(PAUSE),
            Err(errno) => return Err(errno),
        }
    }
}

fn read(file: &OwnedFd, key: &Key) -> Noted {
    let mut bytes = [0; LENGTH + 1];
    match rustix::io::pread(file, &mut bytes, 0) {
        Ok(0) => Noted::Nothing,
        Ok(LENGTH) => {
            link_of(bytes.get(..LENGTH).unwrap_or_default(), key).map_or(Noted::Damaged, Noted::At)
        }
        Ok(_) | Err(_) => Noted::Damaged,
    }
}

fn link_of(bytes: &[u8], key: &Key) -> Option<Link> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut words = text.split([' ', '\n']);
    let link = Link { seq: words.next()?.parse().ok()?, hash: from_hex(words.next()?)? };
    let seal = from_hex(words.next()?)?;
    // Compared in constant time, as MACs must be.
    (blake3::Hash::from(seal) == blake3::Hash::from(key.seal(USE, &link))).then_some(link)
}

fn line(key: &Key, link: &Link) -> String {
    let hex = |hash: [u8; 32]| blake3::Hash::from(hash).to_hex();
    format!("{:020} {} {}\n", link.seq, hex(link.hash), hex(key.seal(USE, link)))
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    blake3::Hash::from_hex(text).ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn link(seq: i64) -> Link {
        Link { seq, hash: [seq.to_le_bytes()[0]; 32] }
    }

    #[test]
    fn a_head_goes_forward_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let key = Key::nobodys();
        let mut file = HeadFile::new(dir.path());
        assert_eq!((file.noted(&key), noted(dir.path(), &key)), (Noted::Nothing, Noted::Nothing));
        for (seq, even_back, expected) in [
            (0, false, 0),
            (5, false, 5),
            (4, false, 5),
            (5, false, 5),
            (3, true, 3),
            (9, false, 9),
        ] {
            file.note(&key, link(seq), even_back).expect("it is written");
            assert_eq!(file.noted(&key), Noted::At(link(expected)), "{seq}");
            assert_eq!(noted(dir.path(), &key), Noted::At(link(expected)), "{seq}");
        }
    }

    /// A read beside a writer was half old and half new.
    #[test]
    fn a_head_is_read_whole_while_it_is_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let key = Key::nobodys();
        HeadFile::new(dir.path()).note(&key, link(0), false).expect("it is written");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut file = HeadFile::new(dir.path());
                for seq in 1..5_000 {
                    // Under constant reads the note may be left to the next record.
                    let _ = file.note(&key, link(seq), false);
                }
                is_over.store(true, Ordering::Relaxed);
            });
            while !is_over.load(Ordering::Relaxed) {
                assert!(matches!(noted(dir.path(), &key), Noted::At(_)));
            }
        });
    }
}
