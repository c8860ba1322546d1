//! The key of the chain: 32 random bytes in the state directory, made once.
//!
//! Whoever has no key cannot make a hash that fits, and so cannot change a record and hide it. The key
//! lies beside the database, for the same user: it keeps from forging whoever gets at the database alone,
//! such as a restored copy or a program that was handed the file, and not that user or root.

use std::path::Path;

use rusqlite::{Connection, Row};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, fsync, linkat, openat, unlinkat};
use rustix::io::Errno;

use super::record::Link;
use crate::database::Failed;

/// The name of its file.
pub(super) const NAME: &str = "ledger.key";
const LENGTH: usize = 32;

/// The key of a ledger. Each use has a key of its own that is made of it.
#[derive(Clone)]
pub struct Key {
    records: [u8; 32],
    links: [u8; 32],
    id: [u8; 32],
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    fn of(bytes: &[u8; LENGTH]) -> Self {
        Self {
            records: blake3::derive_key("sinew ledger 2026 records", bytes),
            links: blake3::derive_key("sinew ledger 2026 links", bytes),
            id: blake3::derive_key("sinew ledger 2026 id", bytes),
        }
    }

    /// Returns a key that fits nothing.
    pub(super) fn nobodys() -> Self {
        Self::of(&[0; LENGTH])
    }

    /// Reads the key of a state directory, if there is one.
    pub(super) fn read(state: &Path) -> Result<Option<Self>, Failed> {
        let path = state.join(NAME);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let broken = |why: &str| {
            Failed::new(format!(
                "the key of the ledger cannot be used: {why}; bring {} back, or move it and \
                 `sinew.db` away to begin a new ledger",
                path.display()
            ))
        };
        let file = match openat(CWD, &path, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(broken(&errno.to_string())),
        };
        let mut bytes = [0; LENGTH + 1];
        let stat = fstat(&file).map_err(|errno| broken(&errno.to_string()))?;
        let n_read = rustix::io::read(&file, &mut bytes).map_err(|e| broken(&e.to_string()))?;
        if stat.st_mode & 0o077 != 0 {
            return Err(broken("other users may read it"));
        }
        match bytes.first_chunk() {
            Some(key) if n_read == LENGTH => Ok(Some(Self::of(key))),
            _ => Err(broken("it does not have 32 bytes")),
        }
    }

    /// Makes a key, for its owner alone, and never in the place of one that is there.
    pub(super) fn create(state: &Path) -> Result<Self, Failed> {
        let failed =
            |errno: Errno| Failed::new(format!("no key of the ledger can be made: {errno}"));
        let mut bytes = [0; LENGTH];
        getrandom::fill(&mut bytes)
            .map_err(|error| Failed::new(format!("there are no random numbers: {error}")))?;
        // Others must not find half a key, so it gets its name when it is whole.
        let draft = state.join(format!("{NAME}.{}", std::process::id()));
        let _ = unlinkat(CWD, &draft, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(CWD, &draft, flags, Mode::from_raw_mode(0o600)).map_err(failed)?;
        let written = rustix::io::write(&file, &bytes).and_then(|n| {
            if n != LENGTH {
                return Err(Errno::NOSPC);
            }
            fsync(&file)?;
            linkat(CWD, &draft, CWD, state.join(NAME), AtFlags::empty())
        });
        let _ = unlinkat(CWD, &draft, AtFlags::empty());
        written.map_err(failed)?;
        Ok(Self::of(&bytes))
    }

    pub(super) fn of_records(&self) -> &[u8; 32] {
        &self.records
    }

    /// Returns what tells this key from others, without telling the key.
    pub(super) fn id(&self) -> &[u8; 32] {
        &self.id
    }

    /// Returns what proves that a link was noted by whoever has the key, for a use.
    pub(super) fn seal(&self, used: &str, link: &Link) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.links);
        hasher.update(used.as_bytes()).update(&link.seq.to_le_bytes()).update(&link.hash);
        hasher.finalize().into()
    }
}

/// The use of a seal: the last record that retention removed.
pub(super) const ANCHOR: &str = "anchor";

/// Returns the last record that retention removed, and whether a holder of the key noted it.
pub(super) fn anchor(connection: &Connection, key: &Key) -> rusqlite::Result<(Link, bool)> {
    connection.prepare_cached("SELECT anchor_seq, anchor_hash, anchor_seal FROM chain")?.query_row(
        [],
        |row: &Row<'_>| {
            let link = Link { seq: row.get(0)?, hash: row.get(1)? };
            let seal: [u8; 32] = row.get(2)?;
            let is_ours = blake3::Hash::from(seal) == blake3::Hash::from(key.seal(ANCHOR, &link));
            Ok((link, is_ours))
        },
    )
}
