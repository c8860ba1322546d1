//! Opens the output files that the user names, outside of every root, so that no tool can replace them.
#![expect(clippy::disallowed_methods, reason = "the person names the file to be written")]

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rustix::fs::OFlags;

/// Returns the canonical path of the file that `key` names.
pub(crate) fn place(key: &str, path: &Path, roots: &[PathBuf]) -> anyhow::Result<PathBuf> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        bail!("`{key}` must be the absolute path of a file, not `{}`", path.display());
    };
    let dir = fs::canonicalize(dir)
        .with_context(|| format!("the directory of `{key}` must be there: `{}`", dir.display()))?;
    let real = |root: &PathBuf| fs::canonicalize(root).unwrap_or_else(|_| root.clone());
    if let Some(root) = roots.iter().map(real).find(|root| dir.starts_with(root)) {
        bail!(
            "`{key}` must be outside the roots, since tools may read and write within {}; move it: `{}`",
            root.display(),
            path.display()
        );
    }
    Ok(dir.join(name))
}

/// Creates an empty directory of this name among the temporary files, private to its owner.
pub(crate) fn temporary_dir(name: &str) -> io::Result<PathBuf> {
    let dir = std::env::temp_dir().join(name);
    DirBuilder::new().mode(0o700).create(&dir)?;
    fs::canonicalize(dir)
}

/// Writes a new file of a directory, with the directories above it.
pub(crate) fn lay_out(dir: &Path, name: &str, text: &str) -> io::Result<()> {
    let path = dir.join(name);
    if let Some(above) = path.parent() {
        fs::create_dir_all(above)?;
    }
    create(&path)?.write_all(text.as_bytes())
}

/// Creates a file that is not there yet, private to its owner.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Opens a file for appending, private to its owner. It must be a regular file, and no symlink.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut options = OpenOptions::new();
    let file = options.append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    // An existing file may be readable for others.
    if meta.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}
