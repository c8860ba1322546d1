//! The record of a setup in the state directory, from which `--undo` works.
#![expect(
    clippy::disallowed_methods,
    reason = "the record is in the state directory, out of reach of tools"
)]

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use sinew_guard::StateDir;

use super::clients::ClientRow;
use super::config_file;
use super::error::SetupError;
use super::host::Host;
use super::item::{Edit, TextFormat};

/// The directory of records in the state directory.
const DIRECTORY: &str = "setup";

/// The version of the form that is written.
const VERSION: u32 = 1;

/// The values that a setup wrote.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The version of this form.
    #[serde(default)]
    version: u32,
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
    /// Returns a record without values.
    pub(super) fn of(program: &str, beside: bool) -> Self {
        Self { version: VERSION, program: program.to_owned(), beside, ..Self::default() }
    }

    /// Reads the record of a client.
    pub(super) fn read(host: &Host, client: &ClientRow) -> Result<Option<Self>, SetupError> {
        let path = place(host, client);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SetupError::Io { path, error }),
        };
        match serde_json::from_str::<Self>(&text) {
            Ok(record) if VERSION < record.version => {
                let problem = format!("a later sinew wrote it, in version {}", record.version);
                Err(SetupError::Record { path, problem })
            }
            Ok(record) => Ok(Some(record)),
            Err(error) => Err(SetupError::Record { path, problem: error.to_string() }),
        }
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

/// Returns the path of a record: one for each file that holds the server, since variables and the current directory choose
/// the file. It does not depend on which of a client's files exist.
fn place(host: &Host, client: &ClientRow) -> PathBuf {
    let file = client.files.last().map(|file| host.path(*file)).unwrap_or_default();
    let hash = hash(&file.to_string_lossy());
    let name = format!("{}-{}.json", client.name, hash.get(..16).unwrap_or_default());
    Path::new(&host.state).join(DIRECTORY).join(name)
}

/// The lock under which a setup or an undo plans and writes, so that two at once do not mix their records.
#[derive(Debug)]
pub(super) struct RecordLock {
    _directory: File,
}

impl RecordLock {
    /// Waits for the lock on the state directory. Without that directory there is no record, and an undo needs no lock.
    pub(super) fn take(host: &Host, is_undo: bool) -> Result<Option<Self>, SetupError> {
        let failed = |error| SetupError::Io { path: host.state.clone(), error };
        if is_undo && !host.state.is_dir() {
            return Ok(None);
        }
        let state = StateDir::open(&host.state).map_err(failed)?;
        let directory = File::open(state.path()).map_err(failed)?;
        retry_on_intr(|| flock(&directory, FlockOperation::LockExclusive))
            .map_err(|errno| failed(errno.into()))?;
        Ok(Some(Self { _directory: directory }))
    }
}
