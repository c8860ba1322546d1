//! Reads and writes the configuration files of clients: symbolic links are followed, writes are atomic, and mode, owner, ACL
//! and extended attributes stay. A file with hard links is refused, since a rename would break them.
#![expect(
    clippy::disallowed_methods,
    reason = "the files of clients, which the user names by a client"
)]

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat};
use rustix::process::geteuid;
use sinew_guard::copy_attributes;
use sinew_tool::FileError;

use super::error::SetupError;

/// The largest file that is read.
const MAX_BYTES: u64 = 16 << 20;

/// A configuration file as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConfigFile {
    /// The path without links.
    pub(super) real: PathBuf,
    /// Its text; `None` where there is no file.
    pub(super) text: Option<String>,
    /// Whether the path is a symbolic link. Its target is changed and never removed.
    pub(super) is_link: bool,
}

impl ConfigFile {
    /// Reads a file, or finds that there is none.
    pub(super) fn read(path: &Path) -> Result<Self, SetupError> {
        let refused = |problem| SetupError::Refused { path: path.to_owned(), problem };
        let failed = |error| SetupError::Io { path: path.to_owned(), error };
        let is_link = match fs::symlink_metadata(path) {
            Ok(meta) => meta.file_type().is_symlink(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { real: path.to_owned(), text: None, is_link: false });
            }
            Err(error) => return Err(failed(error)),
        };
        let real = match fs::canonicalize(path) {
            Ok(real) => real,
            Err(error) if is_link && error.kind() == io::ErrorKind::NotFound => {
                return Err(refused(
                    "a link to a file that does not exist; make the file, or remove the link",
                ));
            }
            Err(error) => return Err(failed(error)),
        };
        // Before it is opened, since opening a FIFO waits.
        let meta = fs::metadata(&real).map_err(failed)?;
        if !meta.is_file() || MAX_BYTES < meta.len() {
            return Err(refused("not a regular file of at most 16 MiB"));
        }
        let file = File::open(&real).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        let text = String::from_utf8(bytes).map_err(|_| refused("not UTF-8; convert it first"))?;
        Ok(Self { real, text: Some(text), is_link })
    }

    /// Returns an error where a link leads out of the project of the file: a repository may hold the link.
    pub(super) fn check_within(&self, project: &Path) -> Result<(), SetupError> {
        let existing = self.real.ancestors().find_map(|path| fs::canonicalize(path).ok());
        let project = fs::canonicalize(project).unwrap_or_default();
        if existing.is_some_and(|path| path.starts_with(&project)) {
            return Ok(());
        }
        let problem = "a link leads out of the project; remove the link first";
        Err(SetupError::Refused { path: self.real.clone(), problem })
    }

    /// Returns an error where the file cannot be replaced or created.
    pub(super) fn check_writable(&self) -> Result<(), SetupError> {
        let refused = |path: &Path, problem| SetupError::Refused { path: path.to_owned(), problem };
        if self.text.is_some() && !is_writable(&self.real) {
            return Err(refused(&self.real, "the file is read-only; make it writable first"));
        }
        if self.text.is_some() && fs::metadata(&self.real).is_ok_and(|meta| 1 < meta.nlink()) {
            let problem = "the file has more than one hard link, and a change would separate them; make the others symbolic links \
                           first";
            return Err(refused(&self.real, problem));
        }
        let mut dir = self.real.parent();
        // A missing directory is made.
        while let Some(above) = dir.filter(|dir| !dir.exists()) {
            dir = above.parent();
        }
        match dir {
            Some(dir) if !dir.is_dir() => Err(refused(dir, "not a directory; move it away first")),
            Some(dir) if !is_writable(dir) => {
                Err(refused(dir, "the directory is read-only; make it writable first"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the directories above the file that do not exist, the deepest last.
    pub(super) fn missing_directories(&self) -> Vec<PathBuf> {
        let above = self.real.ancestors().skip(1);
        let mut missing: Vec<PathBuf> =
            above.take_while(|dir| !dir.exists()).map(Path::to_owned).collect();
        missing.reverse();
        missing
    }

    /// Writes another text, if the file is still as it was read.
    pub(super) fn write(&self, text: &str) -> Result<(), SetupError> {
        let failed = |error| SetupError::Io { path: self.real.clone(), error };
        for dir in self.missing_directories() {
            DirBuilder::new().mode(0o700).create(&dir).map_err(failed)?;
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = rustix::fs::open(&dir, flags, Mode::empty())
                .map_err(|errno| failed(errno.into()))?;
            take_owner_of(&made, dir.parent()).map_err(failed)?;
        }
        self.check_unchanged()?;
        replace(&self.real, text.as_bytes()).map_err(failed)
    }

    /// Removes the file, and the directories that a setup made and that are empty.
    pub(super) fn remove(&self, made: &[PathBuf]) -> Result<(), SetupError> {
        self.check_unchanged()?;
        fs::remove_file(&self.real)
            .map_err(|error| SetupError::Io { path: self.real.clone(), error })?;
        // The deepest is the last; one with other files in it stays.
        for dir in made.iter().rev() {
            if fs::remove_dir(dir).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn check_unchanged(&self) -> Result<(), SetupError> {
        let now = Self::read(&self.real)?;
        if (&now.real, &now.text) == (&self.real, &self.text) {
            return Ok(());
        }
        let problem = "another program changed it at this moment; run the command again";
        Err(SetupError::Refused { path: self.real.clone(), problem })
    }
}

/// Returns whether the mode and the file system permit writing. Root may write a read-only file, which its owner wants kept.
fn is_writable(path: &Path) -> bool {
    let has_bits = fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o222 != 0);
    has_bits && accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

/// Gives a new file or directory of root the owner of its directory, so that the user of a home can change it.
fn take_owner_of(made: impl AsFd, dir: Option<&Path>) -> io::Result<()> {
    let meta = fs::metadata(dir.unwrap_or(Path::new("/")))?;
    if geteuid().is_root() && meta.uid() != 0 {
        fchown(made, Some(meta.uid()), Some(meta.gid()))?;
    }
    Ok(())
}

/// Replaces a file by a new one beside it, with the mode, owner, ACL and extended attributes of the old one.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let old = match File::open(path) {
        Ok(old) => Some(old),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let dir = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut number = [0; 8];
    getrandom::fill(&mut number).map_err(io::Error::other)?;
    let temporary = dir.join(format!(".{name}.{:016x}", u64::from_ne_bytes(number)));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = file.write_all(bytes).and_then(|()| {
        if let Some(opened) = &old {
            let (old, new) = (opened.metadata()?, file.metadata()?);
            if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
                fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
            copy_attributes(opened, &file).map_err(|error| match error {
                FileError::Io(error) => error,
                _ => io::Error::other("its extended attributes cannot be kept"),
            })?;
            file.set_permissions(Permissions::from_mode(old.mode() & 0o7777))?;
        } else {
            take_owner_of(&file, Some(dir))?;
        }
        file.sync_all()?;
        fs::rename(&temporary, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}
