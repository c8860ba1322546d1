//! The key of the hash chain: 32 random bytes in the state directory, created once.
//!
//! A matching hash cannot be forged without the key. It protects the database in other hands, such as a
//! restored copy. It does not protect against the same user or root, because it lies beside the database.

use std::path::Path;

use rusqlite::{Connection, Row};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, fsync, linkat, openat, unlinkat};
use rustix::io::Errno;

use super::record::Link;
use crate::database::Failed;

/// The file name.
pub(super) const NAME: &str = "ledger.key";
const LENGTH: usize = 32;

/// The key of a ledger; a subkey is derived for each use.
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

    /// Returns a key that matches no record.
    pub(super) fn nobodys() -> Self {
        Self::of(&[0; LENGTH])
    }

    /// Reads the key of a state directory, if it exists.
    pub(super) fn read(state: &Path) -> Result<Option<Self>, Failed> {
        let path = state.join(NAME);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let broken = |why: &str| {
            Failed::new(format!(
                "the key of the audit log cannot be used: {why}; bring {} back, or move it and \
                 `sinew.db` away to begin a new audit log",
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

    /// Creates a key for its owner alone; never overwrites one.
    pub(super) fn create(state: &Path) -> Result<Self, Failed> {
        let failed =
            |errno: Errno| Failed::new(format!("no key of the audit log can be made: {errno}"));
        let mut bytes = [0; LENGTH];
        getrandom::fill(&mut bytes)
            .map_err(|error| Failed::new(format!("there are no random numbers: {error}")))?;
        // Renamed when complete, so that no process reads a partial key.
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

    /// Returns an ID of the key that does not reveal it.
    pub(super) fn id(&self) -> &[u8; 32] {
        &self.id
    }

    /// Returns the MAC of a link for a use.
    pub(super) fn seal(&self, used: &str, link: &Link) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.links);
        hasher.update(used.as_bytes()).update(&link.seq.to_le_bytes()).update(&link.hash);
        hasher.finalize().into()
    }
}

/// The use of the MAC on the anchor, the last record that retention removed.
pub(super) const ANCHOR: &str = "anchor";

/// Returns the anchor, and whether its MAC matches the key.
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
