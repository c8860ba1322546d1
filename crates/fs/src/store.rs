//! Stores full outputs that do not fit into a reply: one file per call in a `tool-output/` of the first root.
//!
//! That is `.sinew/tool-output/`, unless a dialect has a directory of its own. Files are made beneath the handle
//! of the root, without following links, and never replace one. Outputs are not removed in time: a directory that
//! others may use too holds files that are not sinew's, so it is only kept from growing.

use std::ffi::{CStr, CString};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;
use sinew_tool::{Kind, ToolError, call_id};

use crate::roots::{DIRECTORY_PATH, DIRECTORY_READ, Root, Roots, open_name};

/// The most outputs for one call ID: IDs of clients need not be unique.
const MAX_OF_ID: u32 = 10_000;

/// The longest call ID that serves as a file name unchanged.
const MAX_ID: usize = 200;

/// The extension of texts.
const TEXT: &str = "txt";

/// The longest extension.
const MAX_EXTENSION: usize = 8;

/// The directory of sinew itself.
const OWN: &str = ".sinew";

/// The most entries of a bounded store; a full one takes no further output.
pub const MAX_STORED_FILES: usize = 1_000;
/// The bytes above which a bounded store takes no further output.
pub const MAX_STORED_BYTES: u64 = 1 << 30;

/// The store of full outputs: `tool-output/` in a directory of the first root.
#[derive(Debug, Clone)]
pub struct Store {
    roots: Arc<Roots>,
    directory: &'static str,
}

/// Why an output is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotStored {
    /// The bounded store is full.
    Full,
    /// The system refused.
    System(Errno),
}

impl From<Errno> for NotStored {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

impl fmt::Display for NotStored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => write!(
                f,
                "at most {MAX_STORED_FILES} entries and {MAX_STORED_BYTES} bytes are kept there, so remove some"
            ),
            // A link in the place of the directory gives these.
            Self::System(Errno::LOOP | Errno::NOTDIR) => f.write_str("it is not a directory"),
            Self::System(errno) => write!(f, "{errno}"),
        }
    }
}

impl Store {
    /// Returns the store in `.sinew/` of the first root. Creates nothing yet.
    pub fn new(roots: Arc<Roots>) -> Self {
        Self { roots, directory: OWN }
    }

    /// Returns the store in another directory of the first root, given by one name. It takes no further output
    /// above [`MAX_STORED_FILES`] or [`MAX_STORED_BYTES`]; calls at the same time may each add one more.
    pub fn bounded(roots: Arc<Roots>, directory: &'static str) -> Self {
        Self { roots, directory }
    }

    /// Returns the path of the outputs relative to the first root, with a slash at its end.
    pub fn outputs(&self) -> String {
        format!("{}/tool-output/", self.directory)
    }

    /// Stores the full output of a call; returns its path relative to the first root. Never overwrites.
    pub fn put(&self, id: &str, output: impl AsRef<[u8]>) -> Result<String, ToolError> {
        self.put_as(id, output, TEXT)
    }

    /// Stores the output under a name with this extension, such as `zip`. One that is not 1 to 8 letters and digits
    /// becomes `bin`.
    pub fn put_as(
        &self,
        id: &str,
        output: impl AsRef<[u8]>,
        extension: &str,
    ) -> Result<String, ToolError> {
        let is_plain = extension.bytes().all(|c| c.is_ascii_alphanumeric());
        let is_short = (1..=MAX_EXTENSION).contains(&extension.len());
        let extension = if is_plain && is_short { extension } else { "bin" };
        let id = call_id(id).ok_or_else(|| {
            ToolError::new(Kind::ExecutionFailed, "the call id cannot name a stored output")
        })?;
        let name = self.write(&stem(id), extension, output.as_ref()).map_err(|why| {
            let outputs = self.outputs();
            let message = format!("the full output cannot be stored in {outputs}: {why}");
            let error = ToolError::new(Kind::ExecutionFailed, message);
            match why {
                NotStored::Full => error,
                NotStored::System(errno) => error.source(errno),
            }
        })?;
        Ok(format!("{}{name}", self.outputs()))
    }

    /// Starts a file for an output that is still being written.
    pub fn begin(&self, id: &str) -> Result<Spooled, NotStored> {
        let id = call_id(id).ok_or(Errno::INVAL)?;
        let (dir, name, file) = self.create(&stem(id), TEXT)?;
        Ok(Spooled { path: format!("{}{name}", self.outputs()), dir, name, file })
    }

    /// Removes an output by its path. One that is still open is freed when closed.
    pub fn remove(&self, path: &str) {
        let outputs = self.outputs();
        let name = path.strip_prefix(outputs.as_str()).filter(|name| !name.contains('/'));
        let (Some(name), Some(root)) = (name, self.roots.first()) else { return };
        let removed = CString::new(self.directory)
            .map_err(|_| Errno::INVAL)
            .and_then(|directory| open_name(root.handle.as_fd(), &directory, DIRECTORY_PATH))
            .and_then(|own| open_name(own.as_fd(), c"tool-output", DIRECTORY_PATH))
            .and_then(|outputs| unlinkat(&outputs, name, AtFlags::empty()));
        // A missing file needs no removal.
        let _ = removed;
    }

    fn write(&self, stem: &str, extension: &str, bytes: &[u8]) -> Result<String, NotStored> {
        let (outputs, name, file) = self.create(stem, extension)?;
        write_all(&file, bytes).inspect_err(|_| {
            let _ = unlinkat(&outputs, name.as_str(), AtFlags::empty());
        })?;
        Ok(name)
    }

    /// Creates a file whose name begins with `stem`; returns directory, name and file.
    fn create(&self, stem: &str, extension: &str) -> Result<(OwnedFd, String, OwnedFd), NotStored> {
        let outputs = self.open_outputs()?;
        if self.directory != OWN && !has_room(&outputs)? {
            return Err(NotStored::Full);
        }
        for n in 1..=MAX_OF_ID {
            let name = match n {
                1 => format!("{stem}.{extension}"),
                _ => format!("{stem}-{n}.{extension}"),
            };
            let path = CString::new(name.as_str()).map_err(|_| Errno::INVAL)?;
            match create(&outputs, &path) {
                Err(Errno::EXIST) => {}
                other => return Ok((outputs, name, other?)),
            }
        }
        Err(NotStored::System(Errno::EXIST))
    }

    /// Opens the directory of the outputs; creates it with a `.gitignore` that keeps them out of git.
    fn open_outputs(&self) -> Result<OwnedFd, Errno> {
        if self.directory == OWN {
            return directory(&own_directory(&self.roots)?, c"tool-output");
        }
        let root = self.roots.first().ok_or(Errno::NOENT)?;
        let name = CString::new(self.directory).map_err(|_| Errno::INVAL)?;
        let outputs = directory(&directory(&root.handle, &name)?, c"tool-output")?;
        ignore_all(&outputs)?;
        Ok(outputs)
    }
}

/// Opens `.sinew/` of the first root; creates it with a `.gitignore` that keeps it out of git.
pub fn own_directory(roots: &Roots) -> Result<OwnedFd, Errno> {
    own_directory_of(roots.first().ok_or(Errno::NOENT)?)
}

/// Opens `.sinew/` of a root; creates it with a `.gitignore` that keeps it out of git.
pub fn own_directory_of(root: &Root) -> Result<OwnedFd, Errno> {
    let own = directory(&root.handle, c".sinew")?;
    ignore_all(&own)?;
    Ok(own)
}

/// Returns whether a bounded store takes another output.
fn has_room(outputs: &OwnedFd) -> Result<bool, Errno> {
    let readable = open_name(outputs.as_fd(), c".", DIRECTORY_READ)?;
    let (mut n_files, mut n_bytes) = (0, 0_u64);
    for entry in Dir::new(readable)? {
        let entry = entry?;
        if [c".", c"..", c".gitignore"].contains(&entry.file_name()) {
            continue;
        }
        // An entry that vanished meanwhile takes no room.
        if let Ok(stat) = statat(outputs, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            n_files += 1;
            n_bytes = n_bytes.saturating_add(u64::try_from(stat.st_size).unwrap_or_default());
        }
        if MAX_STORED_FILES <= n_files || MAX_STORED_BYTES <= n_bytes {
            return Ok(false);
        }
    }
    Ok(true)
}

/// An output that is stored while it is written.
#[derive(Debug)]
pub struct Spooled {
    path: String,
    dir: OwnedFd,
    name: String,
    file: OwnedFd,
}

impl Spooled {
    /// Appends bytes. On failure removes the file: a part would pass for the whole.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        write_all(&self.file, bytes).inspect_err(|_| {
            let _ = unlinkat(&self.dir, self.name.as_str(), AtFlags::empty());
        })
    }

    /// Returns its path relative to the first root.
    pub fn path(&self) -> String {
        self.path.clone()
    }
}

/// Returns the start of the file name for a call ID; long IDs are cut and get a hash.
fn stem(id: &str) -> String {
    match id.get(..MAX_ID).filter(|_| MAX_ID < id.len()) {
        Some(start) => {
            let hash = blake3::hash(id.as_bytes()).to_hex();
            format!("{start}-{}", hash.get(..32).unwrap_or_default())
        }
        None => id.to_owned(),
    }
}

/// Creates a `.gitignore` for all of a directory, unless it has one.
fn ignore_all(dir: &OwnedFd) -> Result<(), Errno> {
    match create(dir, c".gitignore") {
        Ok(file) => write_all(&file, b"*\n"),
        Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Opens a directory; creates it if missing, and rejects a symlink.
pub fn directory(dir: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    match mkdirat(dir, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => open_name(dir.as_fd(), name, DIRECTORY_PATH),
        Err(errno) => Err(errno),
    }
}

fn create(dir: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::CREATE
        .union(OFlags::EXCL)
        .union(OFlags::WRONLY)
        .union(OFlags::NOFOLLOW)
        .union(OFlags::CLOEXEC);
    openat(dir, name, flags, Mode::from_raw_mode(0o600))
}

fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
