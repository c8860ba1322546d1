//! The files of the state directory that hold what sign-ins at MCP servers brought, one each, for the user alone.
#![expect(clippy::disallowed_methods, reason = "this is the one place that keeps tokens")]

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use sinew_guard::StateDir;

use super::files;

/// The directory of the files in the state directory.
const DIR: &str = "mcp-credentials";
/// The size limit of a file.
const MAX_BYTES: u64 = 1 << 20;

/// The tokens of MCP servers as texts, by the names of their pins.
#[derive(Debug, Clone)]
pub struct Credentials {
    state: PathBuf,
}

impl Credentials {
    /// Returns the tokens of a state directory.
    pub fn of(state: &Path) -> Self {
        Self { state: state.to_owned() }
    }

    /// Returns the path of the tokens of a server.
    pub fn path(&self, server: &str) -> PathBuf {
        self.state.join(DIR).join(format!("{server}.json"))
    }

    /// Returns what is stored for a server.
    pub fn load(&self, server: &str) -> io::Result<Option<String>> {
        match files::read_up_to(&self.path(server), MAX_BYTES) {
            Ok(text) => Ok(Some(text)),
            Err(error) if files::is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces what is stored for a server.
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

    /// Waits until no other process refreshes these tokens; none does until the returned file is closed.
    pub fn lock(&self, server: &str) -> io::Result<File> {
        self.make_directory()?;
        let path = self.path(server).with_extension("lock");
        let file = File::options().write(true).create(true).truncate(false).open(path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }

    fn make_directory(&self) -> io::Result<()> {
        StateDir::open(&self.state)?;
        fs::create_dir_all(self.state.join(DIR))
    }
}
