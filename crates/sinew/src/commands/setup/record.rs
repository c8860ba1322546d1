//! The record of a setup in the state directory, from which `--undo` works.
#![expect(
    clippy::disallowed_methods,
    reason = "the record is in the state directory, out of reach of tools"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use sinew_guard::StateDir;

use super::base::Base;
use super::clients::ClientRow;
use super::config_file;
use super::error::SetupError;
use super::host::Host;
use super::item::{Edit, TextFormat};

/// The directory of records in the state directory.
const DIRECTORY: &str = "setup";

/// The values that a setup wrote.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The program that was registered.
    pub(super) program: String,
    pub(super) beside: bool,
    /// The entry that the client's own command wrote.
    pub(super) registered: Option<Registered>,
    pub(super) files: Vec<WrittenFile>,
}

/// An entry that the client's own command wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Registered {
    pub(super) file: PathBuf,
    pub(super) path: Vec<String>,
    pub(super) value: Value,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct WrittenFile {
    /// As the client names it, also where that is a link.
    pub(super) file: PathBuf,
    pub(super) format: TextFormat,
    pub(super) edit: Edit,
    /// Whether the setup made the file, from an empty one.
    pub(super) is_new: bool,
    /// The directories that it made, the deepest last.
    pub(super) directories: Vec<PathBuf>,
    /// The SHA-256 of the text that was written.
    pub(super) hash: String,
}

/// Returns the SHA-256 of a text.
pub(super) fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Record {
    /// Reads the record of a client.
    pub(super) fn read(host: &Host, client: &ClientRow) -> Result<Option<Self>, SetupError> {
        let path = place(host, client);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SetupError::Io { path, error }),
        };
        let read = serde_json::from_str(&text);
        read.map(Some).map_err(|error| SetupError::Record { path, problem: error.to_string() })
    }

    /// Writes the record of a client.
    pub(super) fn write(&self, host: &Host, client: &ClientRow) -> Result<(), SetupError> {
        let path = place(host, client);
        let failed = |error| SetupError::Io { path: path.clone(), error };
        let state = StateDir::open(&host.state).map_err(failed)?;
        state.make_directory(DIRECTORY).map_err(failed)?;
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        config_file::replace(&path, text.as_bytes()).map_err(failed)
    }

    /// Removes the record of a client.
    pub(super) fn remove(host: &Host, client: &ClientRow) -> Result<(), SetupError> {
        let path = place(host, client);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(SetupError::Io { path, error })
            }
            _ => {
                // It stays as long as another record is in it.
                let _ = path.parent().map(fs::remove_dir);
                Ok(())
            }
        }
    }
}

/// Returns the path of a record: one a client, and one a project for clients with files of a project.
fn place(host: &Host, client: &ClientRow) -> PathBuf {
    let file = client.files.iter().find(|file| file.0 == Base::Project);
    let name = match file.map(|file| host.path(*file)) {
        Some(path) => {
            let hash = hash(&path.to_string_lossy());
            format!("{}-{}.json", client.name, hash.get(..16).unwrap_or_default())
        }
        None => format!("{}.json", client.name),
    };
    Path::new(&host.state).join(DIRECTORY).join(name)
}
