//! The state directory: sinew's own files, out of reach of tools.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The directory of ledger and checkpoints, readable by its owner alone.
#[derive(Debug, Clone)]
pub struct StateDir(PathBuf);

impl StateDir {
    /// Opens a state directory; creates it with mode 0700 if missing.
    ///
    /// Rejects a directory of another user or with write permission for others: they could forge the ledger.
    #[expect(clippy::disallowed_methods, reason = "the guard may touch the system")]
    pub fn open(path: &Path) -> io::Result<Self> {
        let meta = match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => meta,
            _ => create(path)?,
        };
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("the state directory belongs to another user"));
        }
        if meta.permissions().mode() & 0o022 != 0 {
            return Err(io::Error::other("the state directory can be written by other users"));
        }
        Ok(Self(fs::canonicalize(path)?))
    }

    /// Returns the real path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Creates a directory in it that only the user can enter, unless it exists.
    pub fn make_directory(&self, name: &str) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(self.0.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    /// Returns the path of the ledger's database.
    pub fn database(&self) -> PathBuf {
        self.0.join("sinew.db")
    }

    /// Returns the path of the checkpoint index, a separate database.
    pub fn checkpoints_at(state: &Path) -> PathBuf {
        state.join("checkpoints.db")
    }

    /// Returns the path of the directory with checkpoint contents.
    pub fn contents_at(state: &Path) -> PathBuf {
        state.join("contents")
    }

    /// Returns the path of the directory where the changes of running commands are kept.
    pub fn before_images_at(state: &Path) -> PathBuf {
        state.join("before-images")
    }
}

#[expect(clippy::disallowed_methods, reason = "the guard may touch the system")]
fn create(path: &Path) -> io::Result<fs::Metadata> {
    let is_other = |above: &&Path| fs::metadata(above).is_ok_and(|meta| !meta.is_dir());
    if let Some(file) = path.ancestors().find(is_other) {
        let why = format!("{} is not a directory; move it away", file.display());
        return Err(io::Error::new(io::ErrorKind::NotADirectory, why));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    fs::metadata(path)
}
