//! Resolves a path to a [`Place`]: a handle of the parent directory and one name in it.
//!
//! The kernel resolves paths without symlinks and `..` (`openat2` beneath the root's handle). Otherwise the
//! `Walk` opens component by component on a stack of handles, without following:
//!
//! - `..` goes to the handle above, as in the kernel.
//! - A symlink is read from its own handle. Its target continues there, or at a root if absolute.
//!
//! No path is checked as text and then opened (TOCTOU). Later use is one name on the handle, without
//! following. Outside the roots nothing is opened. A missing directory cannot hide that a path leads out:
//! what follows it is counted as text, and then refused or missing, never opened.

use std::collections::{HashMap, HashSet};
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, fstat, fstatfs, openat2,
    readlinkat, statat,
};
use rustix::io::Errno;
use sinew_tool::{FileError, FileKind, FileMeta, Links};

use crate::roots::{DIRECTORY_PATH, Dir, Root, Roots, open_name};
use crate::stat::{error_of, identity_of, meta_of};

/// How paths are resolved beneath a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resolver {
    /// By the kernel if it can, else component by component.
    #[default]
    Auto,
    /// Component by component, as on kernels and in containers without `openat2`.
    Walk,
}

/// The limit of a path in bytes.
const MAX_PATH: usize = 4_096;
/// The longest component in bytes.
const MAX_NAME: usize = 255;
/// The most symlinks in one path, as in the kernel.
const MAX_LINKS: u32 = 40;
/// Retries of `openat2` when concurrent renames disturb it.
const MAX_RETRIES: u32 = 64;

/// The result of a resolution: an open directory, and one name in it.
#[derive(Debug, Clone)]
pub struct Place {
    /// The directory that holds the name, or is itself meant. With missing parents, the deepest that exists.
    pub dir: Dir,
    /// The last component; `None` where the path means `dir` itself.
    pub name: Option<CString>,
    /// The real absolute path.
    pub real: PathBuf,
    /// The entry that was found.
    pub spot: Spot,
    /// Whether the missing parents may not be created.
    pub orphan: bool,
    /// Whether a symlink of this name is meant itself.
    pub itself: bool,
}

/// The entry at a place.
#[derive(Debug, Clone)]
pub enum Spot {
    /// An entry; a symlink only if it is meant itself.
    Found(FileMeta),
    /// Nothing, in a directory that exists.
    Missing,
    /// Nothing, and these parents are missing too.
    MissingParents(Vec<CString>),
    /// Nothing, behind a dangling link or a missing directory that cannot be created.
    Gone,
}

impl Place {
    /// Shares the handle of an earlier place in the same directory: handles are limited per process.
    pub fn share(&mut self, dirs: &mut HashMap<(u64, u64), Dir>) -> Result<(), FileError> {
        let stat = fstat(&*self.dir).map_err(error_of)?;
        let known = dirs.entry(identity_of(&stat).of_file());
        self.dir = Arc::clone(known.or_insert_with(|| Arc::clone(&self.dir)));
        Ok(())
    }

    /// Returns whether a directory was found.
    pub fn is_directory(&self) -> bool {
        matches!(&self.spot, Spot::Found(meta) if meta.kind == FileKind::Directory)
    }

    /// Opens the directory at the place.
    pub fn open_directory(&self, flags: OFlags) -> Result<OwnedFd, FileError> {
        let opened = match &self.name {
            Some(name) => open_name(self.parent()?.as_fd(), name, flags),
            None => open_name(self.dir.as_fd(), c".", flags),
        };
        opened.map_err(|errno| match errno {
            Errno::LOOP => FileError::Changed,
            // A symlink in place of the directory gives ENOTDIR too.
            other => error_of(other),
        })
    }

    /// Returns the directory that holds the name. Parents that were missing must exist by now.
    pub fn parent(&self) -> Result<Dir, FileError> {
        let names = match &self.spot {
            Spot::Found(_) | Spot::Missing => return Ok(Arc::clone(&self.dir)),
            Spot::Gone => return Err(FileError::Missing),
            Spot::MissingParents(names) => names,
        };
        let mut dir = Arc::clone(&self.dir);
        for name in names {
            dir = Arc::new(open_name(dir.as_fd(), name, DIRECTORY_PATH).map_err(error_of)?);
        }
        Ok(dir)
    }

    /// Returns the current status of the place.
    pub fn meta_now(&self) -> Result<FileMeta, FileError> {
        let Some(name) = &self.name else {
            return fstat(&*self.dir).map(|stat| meta_of(&stat)).map_err(error_of);
        };
        let dir = self.parent()?;
        let stat = statat(&*dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(error_of)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink if !self.itself => Err(FileError::Changed),
            _ => Ok(meta_of(&stat)),
        }
    }
}

/// Resolves an absolute path beneath the roots. The caller has checked its spelling.
pub fn resolve(roots: &Roots, path: &Path, links: Links) -> Result<Place, FileError> {
    if roots.kernel_resolves()
        && let Some(place) = by_kernel(roots, path, links)?
    {
        return Ok(place);
    }
    Walk::new(roots, links).run(path)
}

/// Returns whether a path is beneath an entry that is cleared.
pub fn is_past(path: &Path, cleared: &HashSet<PathBuf>) -> bool {
    !cleared.is_empty() && path.ancestors().skip(1).any(|above| cleared.contains(above))
}

/// Resolves a path of plain names beneath a cleared entry, in whose place a directory comes.
pub fn past(
    roots: &Roots,
    path: &Path,
    links: Links,
    cleared: &HashSet<PathBuf>,
) -> Result<Place, FileError> {
    // The outermost: what it leads to does not count.
    let above = path.ancestors().skip(1).filter(|above| cleared.contains(*above)).last();
    let above = above.ok_or(FileError::NotDirectory)?;
    let found = resolve(roots, above, Links::Itself)?;
    // Rules judge the path as it is written, so no symlink may lead there.
    if found.real != above {
        return Err(FileError::NotDirectory);
    }
    let mut names: Vec<CString> = found.name.into_iter().collect();
    for part in path.strip_prefix(above).map_err(|_| FileError::NotDirectory)?.components() {
        let Component::Normal(name) = part else { return Err(FileError::NotDirectory) };
        names.push(CString::new(name.as_bytes()).map_err(|_| FileError::NotDirectory)?);
    }
    Ok(Place {
        dir: found.dir,
        name: names.pop(),
        real: path.to_owned(),
        spot: Spot::MissingParents(names),
        orphan: false,
        itself: links == Links::Itself,
    })
}

/// Resolves a path through an entry that is no directory. The result is always [`Spot::Gone`].
pub fn behind(roots: &Roots, path: &Path, links: Links) -> Result<Place, FileError> {
    for above in path.ancestors().skip(1) {
        let found = match resolve(roots, above, Links::Follow) {
            Err(FileError::NotDirectory) => continue,
            other => other?,
        };
        let rest = path.strip_prefix(above).map_err(|_| FileError::NotDirectory)?;
        let names = rest.components().filter(|part| matches!(part, Component::Normal(_)));
        let mut real = found.real;
        real.extend(names);
        let itself = links == Links::Itself;
        return Ok(Place { real, spot: Spot::Gone, orphan: false, itself, ..found });
    }
    Err(FileError::NotDirectory)
}

/// Joins two paths in one allocation.
pub fn joined(dir: &Path, path: &Path) -> PathBuf {
    let mut whole = PathBuf::with_capacity(dir.as_os_str().len() + path.as_os_str().len() + 1);
    whole.push(dir);
    whole.push(path);
    whole
}

/// Rejects paths that no system can hold.
pub fn check_spelling(path: &Path) -> Result<(), FileError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() {
        return Err(FileError::Invalid("is empty"));
    }
    if bytes.contains(&0) {
        return Err(FileError::Invalid("holds a NUL byte"));
    }
    if MAX_PATH <= bytes.len() {
        return Err(FileError::Invalid("is too long"));
    }
    if bytes.split(|byte| *byte == b'/').any(|name| MAX_NAME < name.len()) {
        return Err(FileError::Invalid("has a component that is too long"));
    }
    Ok(())
}

/// Returns the refusal of a path outside the roots.
pub fn outside(roots: &Roots) -> FileError {
    outside_with(roots, "start sinew with `--root DIR` to add one")
}

/// Returns the refusal of a path outside the roots, with what opens it.
pub fn outside_with(roots: &Roots, opens: &str) -> FileError {
    FileError::Denied(format!("it lies outside the roots: {}; {opens}", roots.words()))
}

/// Lets the kernel resolve the parent directory. `None` means: walk instead.
fn by_kernel(roots: &Roots, path: &Path, links: Links) -> Result<Option<Place>, FileError> {
    let Some((at, rest)) = roots.locate(path) else {
        // Only `..` can lead from outside into a root.
        let climbs = path.components().any(|part| part.as_os_str() == "..");
        return if climbs { Ok(None) } else { Err(outside(roots)) };
    };
    let Some(root) = roots.get(at) else { return Ok(None) };
    let text = rest.as_os_str().as_bytes();
    if text.split(|byte| *byte == b'/').any(|name| name == b"..") {
        return Ok(None);
    }
    // `rest` has lost a trailing slash or dot; `path` has it.
    let directory = means_directory(path);
    let names: PathBuf = rest.components().collect();
    let (Some(name), Some(parent)) = (names.file_name(), names.parent()) else {
        return here(root.handle.clone(), root.real.clone()).map(Some);
    };
    let itself = links == Links::Itself;
    let Some(dir) = open_parent(roots, root, parent)? else { return Ok(None) };
    let Ok(name) = CString::new(name.as_bytes()) else { return Ok(None) };
    let spot = match statat(&*dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => match meta_of(&stat) {
            meta if meta.kind == FileKind::Symlink && (directory || !itself) => {
                return match links {
                    Links::Refuse if !directory => Err(FileError::Link),
                    Links::Refuse | Links::Follow | Links::Itself => Ok(None),
                };
            }
            meta if directory && meta.kind != FileKind::Directory => {
                return Err(FileError::NotDirectory);
            }
            meta => Spot::Found(meta),
        },
        Err(Errno::NOENT) if directory => Spot::Gone,
        Err(Errno::NOENT) => Spot::Missing,
        Err(errno) => return Err(error_of(errno)),
    };
    let real = joined(&root.real, &names);
    Ok(Some(Place { dir, name: Some(name), real, spot, orphan: false, itself }))
}

/// Returns the place of a directory handle itself.
fn here(dir: Dir, real: PathBuf) -> Result<Place, FileError> {
    let meta = fstat(&*dir).map(|stat| meta_of(&stat)).map_err(error_of)?;
    let spot = Spot::Found(meta);
    Ok(Place { dir, name: None, real, spot, orphan: false, itself: false })
}

/// Returns whether the spelling can only mean a directory.
fn means_directory(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes.ends_with(b"/") || bytes.ends_with(b"/.")
}

/// Opens a directory beneath a root in one step, without symlinks. `None` means: walk, also for errors.
fn open_parent(roots: &Roots, root: &Root, parent: &Path) -> Result<Option<Dir>, FileError> {
    if parent.as_os_str().is_empty() {
        return Ok(Some(Arc::clone(&root.handle)));
    }
    match open_beneath(root.handle.as_fd(), parent.as_os_str().as_bytes(), DIRECTORY_PATH) {
        Ok(dir) => Ok(Some(Arc::new(dir))),
        Err(Errno::NOSYS) => {
            roots.walk_from_now_on();
            Ok(None)
        }
        Err(_) => Ok(None),
    }
}

/// Opens a path of plain names beneath a directory by `openat2`.
pub fn open_beneath(
    dir: std::os::fd::BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    let mut retries = 0;
    loop {
        match openat2(dir, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) if retries < MAX_RETRIES => retries += 1,
            other => return other,
        }
    }
}

/// One component that waits to be walked.
struct Step {
    part: Part,
    /// Whether it comes from a symlink; then it is never created.
    from_link: bool,
}

enum Part {
    Name(CString),
    /// `..`.
    Up,
    /// `.` or a trailing slash: the path before it must be a directory.
    Here,
}

/// The current directory of a walk.
enum Position {
    /// Beneath a root, with the directories on the way.
    Inside { root: usize, stack: Vec<(Dir, CString)> },
    /// Above every root, in a real directory that leads to one.
    Above(PathBuf),
}

/// A path being walked component by component.
struct Walk<'r> {
    roots: &'r Roots,
    links: Links,
    n_links: u32,
    position: Position,
    /// The rest of the path, the next step last.
    steps: Vec<Step>,
}

impl<'r> Walk<'r> {
    fn new(roots: &'r Roots, links: Links) -> Self {
        let position = Position::Above(PathBuf::from("/"));
        Self { roots, links, n_links: 0, position, steps: Vec::new() }
    }

    fn run(mut self, path: &Path) -> Result<Place, FileError> {
        self.start(path, false)?;
        while let Some(step) = self.steps.pop() {
            match step.part {
                Part::Here => {}
                Part::Up => self.climb(),
                Part::Name(name) => {
                    if let Some(place) = self.enter(name, step.from_link)? {
                        return Ok(place);
                    }
                }
            }
        }
        self.stood()
    }

    /// Returns the place where the walk ended: a directory as a name in its parent.
    fn stood(&mut self) -> Result<Place, FileError> {
        let real = self.real();
        let Position::Inside { stack, .. } = &mut self.position else {
            return Err(outside(self.roots));
        };
        let Some((handle, name)) = stack.pop() else {
            return here(self.top()?, real);
        };
        let meta = fstat(&*handle).map(|stat| meta_of(&stat)).map_err(error_of)?;
        let itself = self.links == Links::Itself;
        let (name, spot) = (Some(name), Spot::Found(meta));
        Ok(Place { dir: self.top()?, name, real, spot, orphan: false, itself })
    }

    /// Starts an absolute path: at the longest root that it names, else above the roots.
    fn start(&mut self, path: &Path, from_link: bool) -> Result<(), FileError> {
        match self.roots.locate(path) {
            Some((root, rest)) => {
                self.position = Position::Inside { root, stack: Vec::new() };
                // `locate` cut off the end, which still means a directory.
                if means_directory(path) {
                    self.steps.push(Step { part: Part::Here, from_link });
                }
                self.push(rest.as_os_str(), from_link)
            }
            None => {
                self.position = Position::Above(PathBuf::from("/"));
                self.push(path.as_os_str(), from_link)
            }
        }
    }

    /// Puts the components of a path before the remaining steps.
    fn push(&mut self, path: &OsStr, from_link: bool) -> Result<(), FileError> {
        let bytes = path.as_bytes();
        if bytes.ends_with(b"/") || bytes.ends_with(b"/.") {
            self.steps.push(Step { part: Part::Here, from_link });
        }
        for name in bytes.split(|byte| *byte == b'/').rev() {
            let part = match name {
                b"" | b"." => continue,
                b".." => Part::Up,
                name if MAX_NAME < name.len() => {
                    return Err(FileError::Invalid("has a component that is too long"));
                }
                name => Part::Name(
                    CString::new(name).map_err(|_| FileError::Invalid("holds a NUL byte"))?,
                ),
            };
            self.steps.push(Step { part, from_link });
        }
        Ok(())
    }

    /// Goes to the parent directory, as the kernel does.
    fn climb(&mut self) {
        let above = match &mut self.position {
            Position::Inside { root, stack } => {
                if stack.pop().is_some() {
                    return;
                }
                self.roots.get(*root).map(|root| root.real.clone()).unwrap_or_default()
            }
            Position::Above(path) => std::mem::take(path),
        };
        let above = above.parent().map(Path::to_owned).unwrap_or(above);
        self.stand(above);
    }

    /// Goes to a real directory outside the root that the walk left.
    fn stand(&mut self, real: PathBuf) {
        self.position = match self.roots.locate(&real) {
            // Beneath another root: walks there from its handle first.
            Some((root, rest)) if self.push(rest.as_os_str(), true).is_ok() => {
                Position::Inside { root, stack: Vec::new() }
            }
            _ => Position::Above(real),
        };
    }

    /// Enters a name. Returns the place if it is the last.
    fn enter(&mut self, name: CString, from_link: bool) -> Result<Option<Place>, FileError> {
        if let Position::Above(path) = &mut self.position {
            path.push(OsStr::from_bytes(name.as_bytes()));
            let path = std::mem::take(path);
            if let Some(root) = self.roots.at(&path) {
                self.position = Position::Inside { root, stack: Vec::new() };
            } else if self.roots.leads_to(&path) {
                self.position = Position::Above(path);
            } else {
                return Err(outside(self.roots));
            }
            return Ok(None);
        }
        let dir = self.top()?;
        let opened = open_name(dir.as_fd(), &name, LOOK);
        let handle = match opened {
            Ok(handle) => handle,
            Err(Errno::NOENT) => return self.missing(dir, name, from_link).map(Some),
            Err(errno) => return Err(error_of(errno)),
        };
        let meta = meta_of(&fstat(&handle).map_err(error_of)?);
        let last = self.steps.is_empty();
        match meta.kind {
            FileKind::Symlink if last && self.links == Links::Refuse => Err(FileError::Link),
            FileKind::Symlink if !last || self.links == Links::Follow => {
                self.follow(&handle).map(|()| None)
            }
            FileKind::Directory if !last => {
                if let Position::Inside { stack, .. } = &mut self.position {
                    stack.push((Arc::new(handle), name));
                }
                Ok(None)
            }
            _ if !last => Err(FileError::NotDirectory),
            _ => {
                let real = self.real().join(OsStr::from_bytes(name.as_bytes()));
                Ok(Some(Place {
                    dir,
                    name: Some(name),
                    real,
                    spot: Spot::Found(meta),
                    orphan: false,
                    itself: self.links == Links::Itself,
                }))
            }
        }
    }

    /// Continues with the target of a link, read from the link's own handle.
    fn follow(&mut self, link: &OwnedFd) -> Result<(), FileError> {
        self.n_links += 1;
        if MAX_LINKS < self.n_links {
            return Err(FileError::Invalid("goes through too many links"));
        }
        // Links of procfs lead to open files of a process, regardless of their text.
        if fstatfs(link).map_err(error_of)?.f_type == PROC_SUPER_MAGIC {
            return Err(FileError::Denied(String::from("links of procfs are not followed")));
        }
        let target = readlinkat(link, c"", Vec::new()).map_err(error_of)?.into_bytes();
        let target = PathBuf::from(OsString::from_vec(target));
        if target.as_os_str().is_empty() {
            return Err(FileError::Missing);
        }
        if target.is_absolute() {
            self.start(&target, true)
        } else {
            self.push(target.as_os_str(), true)
        }
    }

    /// Returns the place of a missing name. Where its `..` lead out of every root, the path is denied.
    fn missing(&self, dir: Dir, name: CString, from_link: bool) -> Result<Place, FileError> {
        let mut real = self.real().join(OsStr::from_bytes(name.as_bytes()));
        let mut as_text = real.clone();
        let mut names = vec![name];
        let mut creatable = !from_link;
        for step in self.steps.iter().rev() {
            match &step.part {
                Part::Name(name) => {
                    real.push(OsStr::from_bytes(name.as_bytes()));
                    as_text.push(OsStr::from_bytes(name.as_bytes()));
                    names.push(name.clone());
                }
                Part::Up => {
                    as_text.pop();
                    creatable = false;
                }
                Part::Here => creatable = false,
            }
            creatable &= !step.from_link;
        }
        if self.roots.holding(&as_text).is_none() {
            return Err(outside(self.roots));
        }
        let name = names.pop();
        let spot = match (creatable, names.is_empty()) {
            (false, _) => Spot::Gone,
            (true, true) => Spot::Missing,
            (true, false) => Spot::MissingParents(names),
        };
        Ok(Place { dir, name, real, spot, orphan: false, itself: self.links == Links::Itself })
    }

    /// Returns the handle of the current directory.
    fn top(&self) -> Result<Dir, FileError> {
        let Position::Inside { root, stack } = &self.position else {
            return Err(outside(self.roots));
        };
        match (stack.last(), self.roots.get(*root)) {
            (Some((dir, _)), _) => Ok(Arc::clone(dir)),
            (None, Some(root)) => Ok(Arc::clone(&root.handle)),
            (None, None) => Err(outside(self.roots)),
        }
    }

    /// Returns the real path of the current directory.
    fn real(&self) -> PathBuf {
        match &self.position {
            Position::Inside { root, stack } => {
                let mut real =
                    self.roots.get(*root).map(|root| root.real.clone()).unwrap_or_default();
                real.extend(stack.iter().map(|(_, name)| OsStr::from_bytes(name.as_bytes())));
                real
            }
            Position::Above(path) => path.clone(),
        }
    }
}

/// Flags to look at a component: the symlink itself, no device, no permission.
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
