//! Stores full outputs that do not fit into a reply: one file per call in `.sinew/tool-output/`.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use sinew_tool::{Kind, ToolError, call_id};

use crate::roots::{DIRECTORY_PATH, Roots, open_name};

/// The most outputs for one call ID: IDs of clients need not be unique.
const MAX_OF_ID: u32 = 10_000;

/// The longest call ID that serves as a file name unchanged.
const MAX_ID: usize = 200;

const OUTPUTS: &str = ".sinew/tool-output/";

/// The store of full outputs: `.sinew/tool-output/` in the first root.
#[derive(Debug, Clone)]
pub struct Store {
    roots: Arc<Roots>,
}

impl Store {
    /// Returns the store of the first root. Creates nothing yet.
    pub fn new(roots: Arc<Roots>) -> Self {
        Self { roots }
    }

    /// Stores the full output of a call; returns its path relative to the first root. Never overwrites.
    pub fn put(&self, id: &str, text: &str) -> Result<String, ToolError> {
        let id = call_id(id).ok_or_else(|| {
            ToolError::new(Kind::ExecutionFailed, "the call id cannot name a stored output")
        })?;
        let name = self.write(&stem(id), text.as_bytes()).map_err(|errno| {
            ToolError::new(Kind::ExecutionFailed, "the full output cannot be stored").source(errno)
        })?;
        Ok(format!("{OUTPUTS}{name}"))
    }

    /// Starts a file for an output that is still being written.
    pub fn begin(&self, id: &str) -> Result<Spooled, Errno> {
        let id = call_id(id).ok_or(Errno::INVAL)?;
        let (dir, name, file) = self.create(&stem(id))?;
        Ok(Spooled { dir, name, file })
    }

    /// Removes an output by its path. One that is still open is freed when closed.
    pub fn remove(&self, path: &str) {
        let Some(name) = path.strip_prefix(OUTPUTS).filter(|name| !name.contains('/')) else {
            return;
        };
        let Some(root) = self.roots.first() else { return };
        let removed = open_name(root.handle.as_fd(), c".sinew", DIRECTORY_PATH)
            .and_then(|own| open_name(own.as_fd(), c"tool-output", DIRECTORY_PATH))
            .and_then(|outputs| unlinkat(&outputs, name, AtFlags::empty()));
        // A missing file needs no removal.
        let _ = removed;
    }

    fn write(&self, stem: &str, bytes: &[u8]) -> Result<String, Errno> {
        let (outputs, name, file) = self.create(stem)?;
        write_all(&file, bytes).inspect_err(|_| {
            let _ = unlinkat(&outputs, name.as_str(), AtFlags::empty());
        })?;
        Ok(name)
    }

    /// Creates a file whose name begins with `stem`; returns directory, name and file.
    fn create(&self, stem: &str) -> Result<(OwnedFd, String, OwnedFd), Errno> {
        let root = self.roots.first().ok_or(Errno::NOENT)?;
        let own = own_directory(&root.handle)?;
        let outputs = directory(&own, c"tool-output")?;
        for n in 1..=MAX_OF_ID {
            let name = if n == 1 { format!("{stem}.txt") } else { format!("{stem}-{n}.txt") };
            let path = CString::new(name.as_str()).map_err(|_| Errno::INVAL)?;
            match create(&outputs, &path) {
                Err(Errno::EXIST) => {}
                other => return Ok((outputs, name, other?)),
            }
        }
        Err(Errno::EXIST)
    }
}

/// An output that is stored while it is written.
#[derive(Debug)]
pub struct Spooled {
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
        format!("{OUTPUTS}{}", self.name)
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

/// Opens `.sinew` in a root; creates it with a `.gitignore` for all of it.
fn own_directory(root: &OwnedFd) -> Result<OwnedFd, Errno> {
    let own = directory(root, c".sinew")?;
    match create(&own, c".gitignore") {
        Ok(file) => write_all(&file, b"*\n")?,
        Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    Ok(own)
}

/// Opens a directory; creates it if missing, and rejects a symlink.
fn directory(dir: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
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
