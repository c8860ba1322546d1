//! The files of the state directory that hold the pins of MCP servers, one each.
#![expect(clippy::disallowed_methods, reason = "this is the one place that keeps what is pinned")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sinew_guard::StateDir;

use super::files;

/// The directory of the pins in the state directory.
const DIR: &str = "mcp-servers";
/// The size limit of a pin: that of all definitions that a server may have.
const MAX_BYTES: u64 = 128 << 20;

/// The pins of MCP servers as texts, by the names of the servers.
#[derive(Debug, Clone)]
pub struct Pins {
    state: PathBuf,
}

impl Pins {
    /// Returns the pins of a state directory.
    pub fn of(state: &Path) -> Self {
        Self { state: state.to_owned() }
    }

    /// Returns the path of the pin of a server.
    pub fn path(&self, server: &str) -> PathBuf {
        self.state.join(DIR).join(format!("{server}.json"))
    }

    /// Returns the pin of a server, if it has one.
    pub fn load(&self, server: &str) -> io::Result<Option<String>> {
        match files::read_up_to(&self.path(server), MAX_BYTES) {
            Ok(text) => Ok(Some(text)),
            Err(error) if files::is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the pin of a server.
    pub fn save(&self, server: &str, text: &str) -> io::Result<()> {
        StateDir::open(&self.state)?;
        fs::create_dir_all(self.state.join(DIR))?;
        files::write_private(&self.path(server), text)
    }
}
