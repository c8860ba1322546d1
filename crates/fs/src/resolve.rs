//! From a path string to a place: a handle of the parent directory and one name in it.
//!
//! The kernel resolves what it can by itself (`openat2` beneath the handle of the root, without
//! links). Where a link or `..` is in the way, or where the kernel has no `openat2`, components are
//! opened one by one without following, on a stack of handles: `..` goes to the handle above, which
//! is what the kernel means by it; links are read from their own handle and their targets continue
//! from the handles, or from a root where they are absolute and lead into one. No path string is
//! ever checked and then opened.
//!
//! Later use is always one name on the handle of the place, opened without following. Outside the
//! roots nothing is opened, not even to look.

use std::collections::HashMap;
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
    /// By the kernel where it can, else component by component.
    #[default]
    Auto,
    /// Component by component, as on kernels and in containers without `openat2`.
    Walk,
}

/// The longest path that is taken.
const MAX_PATH: usize = 4_096;
/// The longest component of a path.
const MAX_NAME: usize = 255;
/// The most links on the way, as in the kernel.
const MAX_LINKS: u32 = 40;
/// How often the kernel is asked again when renames elsewhere disturb it.
const MAX_RETRIES: u32 = 64;

/// Where a path leads: a directory that is open, and one name in it.
#[derive(Debug, Clone)]
pub struct Place {
    /// The directory that holds the name, or the directory meant where there is no name. Where
    /// parents are missing, the deepest that exists.
    pub dir: Dir,
    /// The last component; `None` where the path means `dir` itself.
    pub name: Option<CString>,
    /// The real absolute path.
    pub real: PathBuf,
    /// What was found.
    pub spot: Spot,
    /// Whether the missing directories on the way may not be created.
    pub orphan: bool,
    /// Whether the name itself is meant, also where a symbolic link has it.
    pub itself: bool,
}

/// What was found at a place.
#[derive(Debug, Clone)]
pub enum Spot {
    /// Something that is no link, unless the link itself is meant.
    Found(FileMeta),
    /// Nothing, in a directory that exists.
    Missing,
    /// Nothing, and these directories on the way are missing too.
    MissingParents(Vec<CString>),
    /// Nothing, behind a dangling link or a missing directory that cannot be created.
    Gone,
}

impl Place {
    /// Takes the handle that an earlier place has of the same directory: a call may name more files
    /// than a process may hold handles.
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
            // A link that took the place of the directory answers ENOTDIR too.
            other => error_of(other),
        })
    }

    /// Returns the directory that holds the name, through parents that were missing and are not
    /// any more.
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

    /// Returns what is at the place now.
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

/// Resolves an absolute path beneath the roots. Its spelling was checked.
pub fn resolve(roots: &Roots, path: &Path, links: Links) -> Result<Place, FileError> {
    if roots.kernel_resolves()
        && let Some(place) = by_kernel(roots, path, links)?
    {
        return Ok(place);
    }
    Walk::new(roots, links).run(path)
}

/// Resolves a path of plain names beneath something that is cleared away before it is used, and whose
/// place a directory takes.
pub fn past(
    roots: &Roots,
    path: &Path,
    links: Links,
    cleared: &[PathBuf],
) -> Result<Place, FileError> {
    let above = path.ancestors().skip(1).find(|above| cleared.iter().any(|one| one == above));
    let above = above.ok_or(FileError::NotDirectory)?;
    let found = resolve(roots, above, Links::Itself)?;
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

/// Resolves a path that leads through something that is no directory, to what it would be called if that were
/// one. Nothing can be there.
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

/// Joins two paths in one piece of memory.
pub fn joined(dir: &Path, path: &Path) -> PathBuf {
    let mut whole = PathBuf::with_capacity(dir.as_os_str().len() + path.as_os_str().len() + 1);
    whole.push(dir);
    whole.push(path);
    whole
}

/// Refuses paths that no system can hold.
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

/// Returns the error of a path that leads out of the roots.
fn outside(roots: &Roots) -> FileError {
    FileError::Denied(format!(
        "it lies outside the roots: {}; start sinew with `--root DIR` to add one",
        roots.words()
    ))
}

/// Lets the kernel resolve the parent directory. `None` means that the way must be walked.
fn by_kernel(roots: &Roots, path: &Path, links: Links) -> Result<Option<Place>, FileError> {
    let Some((at, rest)) = roots.locate(path) else {
        // Only `..` can lead from outside the roots into one.
        let climbs = path.components().any(|part| part.as_os_str() == "..");
        return if climbs { Ok(None) } else { Err(outside(roots)) };
    };
    let Some(root) = roots.get(at) else { return Ok(None) };
    let text = rest.as_os_str().as_bytes();
    if text.split(|byte| *byte == b'/').any(|name| name == b"..") {
        return Ok(None);
    }
    // `rest` lost a trailing slash or dot; the spelling of the whole path has it.
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

/// Returns the place that a directory handle itself is.
fn here(dir: Dir, real: PathBuf) -> Result<Place, FileError> {
    let meta = fstat(&*dir).map(|stat| meta_of(&stat)).map_err(error_of)?;
    let spot = Spot::Found(meta);
    Ok(Place { dir, name: None, real, spot, orphan: false, itself: false })
}

/// Returns whether the spelling of a path can only mean a directory.
fn means_directory(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes.ends_with(b"/") || bytes.ends_with(b"/.")
}

/// Opens a directory beneath a root in one step, without links. `None` means that the way must be
/// walked, also to find out what is wrong with it.
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

/// Opens a path of plain names beneath a directory by the kernel's own containment.
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

/// One component of a path that waits to be walked.
struct Step {
    part: Part,
    /// Whether it comes out of a link, so that it is never created.
    from_link: bool,
}

enum Part {
    /// A name.
    Name(CString),
    /// `..`.
    Up,
    /// `.` or nothing after a slash at the end: what came before is a directory.
    Here,
}

/// Where a walk stands.
enum Position {
    /// Beneath a root, with the directories on the way.
    Inside { root: usize, stack: Vec<(Dir, CString)> },
    /// Above every root, on a real directory that leads to one.
    Above(PathBuf),
}

/// A path being walked component by component.
struct Walk<'r> {
    roots: &'r Roots,
    links: Links,
    n_links: u32,
    position: Position,
    /// What is left of the path, the next step last.
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

    /// Returns the place of the directory where the walk ended: its name in the one above it.
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

    /// Sets out for an absolute path: from the longest root that it names, else from above.
    fn start(&mut self, path: &Path, from_link: bool) -> Result<(), FileError> {
        match self.roots.locate(path) {
            Some((root, rest)) => {
                self.position = Position::Inside { root, stack: Vec::new() };
                // What the split cut off the end still means a directory.
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

    /// Puts the components of a path before what is left.
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

    /// Goes to the directory above, as the kernel does.
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
        // The directory above `/` is `/`.
        let above = above.parent().map(Path::to_owned).unwrap_or(above);
        self.stand(above);
    }

    /// Stands on a real directory outside the root that was left.
    fn stand(&mut self, real: PathBuf) {
        self.position = match self.roots.locate(&real) {
            // Still beneath another root: walk there from its handle before anything else.
            Some((root, rest)) if self.push(rest.as_os_str(), true).is_ok() => {
                Position::Inside { root, stack: Vec::new() }
            }
            _ => Position::Above(real),
        };
    }

    /// Takes a name. Returns the place once it is the last.
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
        // Links of procfs may lead to whatever a process has open, whatever their text says.
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

    /// Returns the place of a name that is not there.
    fn missing(&self, dir: Dir, name: CString, from_link: bool) -> Result<Place, FileError> {
        let mut real = self.real().join(OsStr::from_bytes(name.as_bytes()));
        let mut names = vec![name];
        let mut creatable = !from_link;
        for step in self.steps.iter().rev() {
            match &step.part {
                Part::Name(name) => {
                    real.push(OsStr::from_bytes(name.as_bytes()));
                    names.push(name.clone());
                }
                Part::Up | Part::Here => creatable = false,
            }
            creatable &= !step.from_link;
        }
        let name = names.pop();
        let spot = match (creatable, names.is_empty()) {
            (false, _) => Spot::Gone,
            (true, true) => Spot::Missing,
            (true, false) => Spot::MissingParents(names),
        };
        Ok(Place { dir, name, real, spot, orphan: false, itself: self.links == Links::Itself })
    }

    /// Returns the directory the walk stands in.
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

    /// Returns the real path of the directory the walk stands in.
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

/// How components are opened to see what they are: the link itself, no device, no permission.
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
