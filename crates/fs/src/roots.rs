//! The directories that tools may reach, held open from the start of the session.
//!
//! Every path is resolved beneath one of these handles. The text of a path only chooses the handle to start
//! from. Roots come from the user who starts sinew, never from a call.

use std::ffi::{CStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use sinew_tool::{FileError, Links};

use crate::literal::escaped;
use crate::resolve::{self, Resolver, Spot};

/// An open directory that several places share.
pub type Dir = Arc<OwnedFd>;

/// One directory that tools may reach.
#[derive(Debug, Clone)]
pub struct Root {
    /// The directory, open.
    pub handle: Dir,
    /// Its real path, symlinks resolved.
    pub real: PathBuf,
    /// Its path as the user gave it, made absolute.
    pub given: PathBuf,
}

/// The directories that tools may reach; the first is the working directory.
#[derive(Debug)]
pub struct Roots {
    roots: Vec<Root>,
    resolver: Resolver,
    /// Whether the kernel reported that it has no `openat2`.
    walks: AtomicBool,
}

/// Why a root cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// No root was given.
    #[error("no root was given")]
    None,
    /// The directory is not there.
    #[error("the root does not exist: {}", .0.display())]
    Missing(PathBuf),
    /// The path leads to another kind of file.
    #[error("the root is not a directory: {}", .0.display())]
    NotDirectory(PathBuf),
    /// The operating system refused.
    #[error("the root cannot be opened: {}", .0.display())]
    Refused(PathBuf),
}

impl Roots {
    /// Opens the roots. They may contain one another.
    pub fn open(paths: &[PathBuf]) -> Result<Self, RootError> {
        Self::open_with(paths, Resolver::Auto)
    }

    /// Opens the roots with a resolver for the paths beneath them.
    pub fn open_with(paths: &[PathBuf], resolver: Resolver) -> Result<Self, RootError> {
        if paths.is_empty() {
            return Err(RootError::None);
        }
        let system = Self::system().map_err(|_| RootError::Refused(PathBuf::from("/")))?;
        let roots = paths.iter().map(|path| open_root(&system, path)).collect::<Result<_, _>>()?;
        Ok(Self { roots, resolver, walks: AtomicBool::new(false) })
    }

    /// Returns `/` as a root, for paths that no call names: the given roots, and files of earlier processes.
    /// It is always walked, so that every kernel behaves the same.
    pub fn system() -> Result<Self, Errno> {
        let handle = openat(CWD, c"/", DIRECTORY_PATH, Mode::empty())?;
        let root =
            Root { handle: Arc::new(handle), real: PathBuf::from("/"), given: PathBuf::from("/") };
        Ok(Self::narrowed(vec![root], Resolver::Walk))
    }

    /// Returns roots from places that were resolved beneath others.
    pub fn narrowed(roots: Vec<Root>, resolver: Resolver) -> Self {
        Self { roots, resolver, walks: AtomicBool::new(false) }
    }

    /// Returns the real paths.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.real.as_path())
    }

    /// Returns the first root: the working directory.
    pub fn first(&self) -> Option<&Root> {
        self.roots.first()
    }

    /// Returns a root by its index.
    pub fn get(&self, at: usize) -> Option<&Root> {
        self.roots.get(at)
    }

    /// Returns how paths are resolved.
    pub fn resolver(&self) -> Resolver {
        self.resolver
    }

    /// Returns whether `openat2` resolves the paths.
    pub fn kernel_resolves(&self) -> bool {
        self.resolver == Resolver::Auto && !self.walks.load(Ordering::Relaxed)
    }

    /// Remembers that the kernel has no `openat2`.
    pub(crate) fn walk_from_now_on(&self) {
        self.walks.store(true, Ordering::Relaxed);
    }

    /// Returns the root with the longest matching spelling, and the rest of the path.
    pub fn locate<'p>(&self, path: &'p Path) -> Option<(usize, &'p Path)> {
        let mut best: Option<(usize, usize, &'p Path)> = None;
        for (at, root) in self.roots.iter().enumerate() {
            for spelling in [&root.real, &root.given] {
                if let Ok(rest) = path.strip_prefix(spelling) {
                    let length = spelling.as_os_str().len();
                    if best.is_none_or(|(_, longest, _)| longest < length) {
                        best = Some((at, length, rest));
                    }
                }
            }
        }
        best.map(|(at, _, rest)| (at, rest))
    }

    /// Returns the longest root that holds a real path.
    pub fn holding(&self, real: &Path) -> Option<&Root> {
        self.roots
            .iter()
            .filter(|root| real.starts_with(&root.real))
            .max_by_key(|root| root.real.as_os_str().len())
    }

    /// Returns a real path from the name of its root on, as rules about names judge it.
    pub fn named<'p>(&self, real: &'p Path) -> &'p Path {
        let above = self.holding(real).and_then(|root| root.real.parent());
        above.and_then(|above| real.strip_prefix(above).ok()).unwrap_or(real)
    }

    /// Returns the index of the root with this real path.
    pub fn at(&self, real: &Path) -> Option<usize> {
        self.roots.iter().position(|root| root.real == real)
    }

    /// Returns whether a root lies at or beneath a real path.
    pub fn leads_to(&self, real: &Path) -> bool {
        self.roots.iter().any(|root| root.real.starts_with(real))
    }

    /// Returns a glob with the real path of each root in place of a given path that differs.
    pub fn real_spellings(&self, glob: &str) -> Result<Vec<String>, String> {
        let mut all = Vec::new();
        for root in self.roots.iter().filter(|root| root.given != root.real) {
            let rest = root.given.to_str().and_then(|given| glob.strip_prefix(given));
            if let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) {
                all.push(format!("{}{rest}", escaped(&root.real)?));
            }
        }
        Ok(all)
    }

    /// Returns the real paths of the roots, separated by commas.
    pub fn words(&self) -> String {
        let paths: Vec<_> = self.paths().map(|path| path.display().to_string()).collect();
        paths.join(", ")
    }
}

/// Opens one root; its real path comes from the handles on the way.
fn open_root(system: &Roots, path: &Path) -> Result<Root, RootError> {
    let refused = || RootError::Refused(path.to_owned());
    resolve::check_spelling(path).map_err(|_| refused())?;
    let given = absolute(path).ok_or_else(refused)?;
    let place = resolve::resolve(system, &given, Links::Follow).map_err(|error| match error {
        FileError::Missing => RootError::Missing(path.to_owned()),
        FileError::NotDirectory => RootError::NotDirectory(path.to_owned()),
        _ => refused(),
    })?;
    match place.spot {
        Spot::Found(_) => {}
        Spot::Missing | Spot::MissingParents(_) | Spot::Gone => {
            return Err(RootError::Missing(path.to_owned()));
        }
    }
    let handle = place.open_directory(DIRECTORY_PATH).map_err(|error| match error {
        FileError::NotDirectory => RootError::NotDirectory(path.to_owned()),
        _ => refused(),
    })?;
    Ok(Root { handle: Arc::new(handle), real: place.real, given: plain(&given) })
}

/// Returns an absolute path; a relative one starts at the current directory.
fn absolute(path: &Path) -> Option<PathBuf> {
    if path.is_absolute() {
        return Some(path.to_owned());
    }
    let here = rustix::process::getcwd(Vec::new()).ok()?;
    Some(PathBuf::from(OsString::from_vec(here.into_bytes())).join(path))
}

/// Returns a path without `.` components and doubled slashes.
fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Flags to hold a directory for opening beneath it, regardless of its permissions.
pub const DIRECTORY_PATH: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Flags to read the entries of a directory.
pub const DIRECTORY_READ: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Flags to read a file: follows no symlink, never blocks, takes no terminal.
pub const FILE_READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Opens one name of a directory; retries after a signal.
pub fn open_name(dir: BorrowedFd<'_>, name: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    loop {
        match openat(dir.as_fd(), name, flags, Mode::empty()) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}
