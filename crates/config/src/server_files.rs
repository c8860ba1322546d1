//! The files of the state directory for each MCP server: its pin, and the tokens of a sign-in.
#![expect(clippy::disallowed_methods, reason = "this is the one place that keeps pins and tokens")]

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sinew_guard::StateDir;

use super::files;

/// How long a process waits for another one that refreshes the tokens of a server.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// How long it waits between two looks at the lock.
const LOOKS_AGAIN: Duration = Duration::from_millis(20);

/// Texts by the names of servers, one file each, for the user alone.
#[derive(Debug, Clone)]
pub struct ServerFiles {
    state: PathBuf,
    /// Their directory in the state directory.
    directory: &'static str,
    /// The size limit of a file.
    max_bytes: u64,
}

impl ServerFiles {
    /// Returns the pins of a state directory, each of at most all definitions that a server may have.
    pub fn pins(state: &Path) -> Self {
        Self { state: state.to_owned(), directory: "mcp-servers", max_bytes: 128 << 20 }
    }

    /// Returns the tokens of a state directory.
    pub fn tokens(state: &Path) -> Self {
        Self { state: state.to_owned(), directory: "mcp-credentials", max_bytes: 1 << 20 }
    }

    /// Returns the path of the file of a server.
    pub fn path(&self, server: &str) -> PathBuf {
        self.state.join(self.directory).join(format!("{server}.json"))
    }

    /// Returns the stored text of a server.
    pub fn load(&self, server: &str) -> io::Result<Option<String>> {
        match files::read_up_to(&self.path(server), self.max_bytes) {
            Ok(text) => Ok(Some(text)),
            Err(error) if files::is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the stored text of a server.
    pub fn save(&self, server: &str, text: &str) -> io::Result<()> {
        self.make_directory()?;
        files::write_private(&self.path(server), text)
    }

    /// Removes it; returns whether there was some.
    pub fn remove(&self, server: &str) -> io::Result<bool> {
        match fs::remove_file(self.path(server)) {
            Ok(()) => Ok(true),
            Err(error) if files::is_absent(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until no other process holds the lock of a server, for a minute at most; it is held until the returned file is
    /// closed.
    pub fn lock(&self, server: &str) -> io::Result<File> {
        self.make_directory()?;
        let path = self.path(server).with_extension("lock");
        let file = File::options().write(true).create(true).truncate(false).open(path)?;
        let until = Instant::now() + MAX_WAIT;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(Errno::WOULDBLOCK) if Instant::now() < until => sleep(LOOKS_AGAIN),
                Err(Errno::WOULDBLOCK) => {
                    let words = format!(
                        "another process has held the lock of the server `{server}` for {} s",
                        MAX_WAIT.as_secs()
                    );
                    return Err(io::Error::new(io::ErrorKind::TimedOut, words));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn make_directory(&self) -> io::Result<()> {
        StateDir::open(&self.state)?;
        fs::create_dir_all(self.state.join(self.directory))
    }
}
