//! Reads this process's entry of the user database, `/etc/passwd`.
//!
//! A repository can set variables such as `HOME`, but not this entry. The file is parsed here: `getpwuid` of
//! a static C library loads system modules. Users of directory services (LDAP, systemd-homed) have no entry.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use rustix::fs::OFlags;

const USER_DATABASE: &str = "/etc/passwd";
/// The limit of the database, read in well under a second.
const MAX_BYTES: u64 = 256 << 20;
/// Longer lines are skipped.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// One entry of the user database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserEntry {
    /// The name of the user.
    pub name: String,
    /// The home directory, if the entry holds an absolute path.
    pub home: Option<PathBuf>,
}

impl UserEntry {
    /// Returns the entry of the user that runs this process. The database is read once. `None` if it or the entry is
    /// missing.
    ///
    /// # Errors
    ///
    /// Fails if the database is not a regular file, larger than 256 MiB without the entry, or unreadable.
    pub fn of_process() -> io::Result<Option<Self>> {
        static READ: OnceLock<Option<UserEntry>> = OnceLock::new();
        if let Some(entry) = READ.get() {
            return Ok(entry.clone());
        }
        let entry = Self::read()?;
        Ok(READ.get_or_init(|| entry).clone())
    }

    #[expect(clippy::disallowed_methods, reason = "the guard may look at the system")]
    fn read() -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let file: File = match options.open(USER_DATABASE) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        find(BufReader::new(file), rustix::process::getuid().as_raw(), MAX_BYTES)
    }
}

/// Returns the first entry of a UID, as the C library does.
fn find(mut database: impl BufRead, uid: u32, max_bytes: u64) -> io::Result<Option<UserEntry>> {
    let (mut line, mut n_bytes, mut begins_line) = (Vec::new(), 0, true);
    loop {
        line.clear();
        let n = database.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? as u64;
        if n == 0 {
            return Ok(None);
        }
        n_bytes += n;
        if max_bytes < n_bytes {
            return Err(io::Error::other(format!("larger than {max_bytes} bytes")));
        }
        let ends_line = line.ends_with(b"\n") || n < MAX_LINE_BYTES;
        if begins_line
            && ends_line
            && let Some(entry) = parse(&line, uid)
        {
            return Ok(Some(entry));
        }
        begins_line = ends_line;
    }
}

/// Parses one line; returns the entry if it has this UID.
fn parse(line: &[u8], uid: u32) -> Option<UserEntry> {
    let line = line.trim_ascii();
    // Comments, and NIS inclusions.
    if line.first().is_none_or(|first| b"#+-".contains(first)) {
        return None;
    }
    let mut fields = line.split(|byte| *byte == b':');
    let (name, user) = (fields.next()?, fields.nth(1)?);
    if std::str::from_utf8(user).ok()?.parse() != Ok(uid) {
        return None;
    }
    let home = fields.nth(2).map(|home| PathBuf::from(std::ffi::OsString::from_vec(home.to_vec())));
    Some(UserEntry {
        name: String::from_utf8_lossy(name).into_owned(),
        home: home.filter(|home| home.is_absolute()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home_of(database: &str, uid: u32) -> Option<String> {
        let entry = find(database.as_bytes(), uid, MAX_BYTES).expect("readable")?;
        Some(entry.home.map_or_else(|| String::from("-"), |home| home.display().to_string()))
    }

    #[test]
    fn first_entry_of_uid_wins() {
        let database = "# root:x:0:0::/comment:\n+nis:x:0:0::/nis:\n\nroot:x:0:0:root:/root:/bin/sh\n\
                        me:x:1000:1000::/home/me:/bin/sh\nodd:x:7:7::x:\nodd:x:7:7::/later:\n\
                        short:x:9\ntoor:x:0:0::/toor:\nlast:x:0012:1::/last:";
        for (uid, home) in [
            (0, Some("/root")),
            (1000, Some("/home/me")),
            (7, Some("-")),
            (9, Some("-")),
            (12, Some("/last")),
            (8, None),
        ] {
            assert_eq!(home_of(database, uid).as_deref(), home, "{uid}");
        }
    }

    #[test]
    fn large_database_is_searched_to_its_end() {
        let mut database = String::new();
        for n in 0..200_000 {
            database.push_str(&format!("user{n}:x:{}:100:a name:/home/user{n}:/bin/sh\n", n + 10));
        }
        // No part of an overlong line passes for an entry.
        database.push_str(&format!("{}:x:5:5::/forged:\n", "x".repeat(65_536)));
        database.push_str(&format!("{}\n", "y:x:5:5::/forged:".repeat(8_192)));
        assert_eq!(home_of(&database, 5), None);
        database.push_str("me:x:5:5::/home/me:/bin/sh\n");
        assert!(10_000_000 < database.len());
        assert_eq!(home_of(&database, 5).as_deref(), Some("/home/me"));
        let error = find(database.as_bytes(), 5, 1 << 20).expect_err("too large");
        assert_eq!(error.to_string(), "larger than 1048576 bytes");
    }
}
