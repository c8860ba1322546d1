//! Resolves paths as the process that passes them means them.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{
    CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, fcntl_setfl, fstat, fstatfs,
    openat, openat2, readlinkat,
};
use rustix::io::Errno;

use super::MAX_LINKS;
use super::caller::Caller;
use sinew_fs::stat::identity_of;

/// The inode number of the top directory of `/proc`.
const TOP_OF_PROC: u64 = 1;

/// A name in a directory.
pub(super) struct Place {
    pub(super) dir: OwnedFd,
    /// One name, or `.` for the directory itself; with `/` at its end where the path had one.
    pub(super) name: OsString,
    /// The real path of the directory when it was found; `None` in `/proc`. It counts for one call: another command of the
    /// session can move the directory before the next one.
    real: Option<PathBuf>,
}

/// The target of a symlink.
pub(super) enum Link {
    /// A path, relative to the directory that holds the symlink.
    To(PathBuf),
    /// A target without a path, or with another than it seems, as symlinks in `/proc` have.
    Itself(OwnedFd),
}

impl Place {
    /// Finds the directory of a path's last name, and the name.
    pub(super) fn find(
        caller: &Caller<'_>,
        start: Option<OwnedFd>,
        path: &Path,
    ) -> Result<Self, Errno> {
        let (above, name) = split(path);
        let (dir, DirFound { id, real }) = match (above, start) {
            (Some(above), start) => directory(caller, start.as_ref(), above)?,
            (None, Some(start)) => {
                let found = DirFound::of(&start)?;
                (start, found)
            }
            (None, None) => return Err(Errno::NOENT),
        };
        if real.is_none() {
            refuse_own(&dir, &name)?;
        }
        match caller.stand_in.filter(|stand_in| stand_in.is_instead_of(id)) {
            Some(stand_in) => Ok(Self { dir: stand_in.dir()?, name, real: None }),
            None => Ok(Self { dir, name, real }),
        }
    }

    /// Returns the place of a name in a directory.
    pub(super) fn beneath(dir: OwnedFd, name: OsString) -> Self {
        Self { dir, name, real: None }
    }

    /// Returns the place of an open file. Its name may change at any time, so it is opened by fd number.
    pub(super) fn at(target: OwnedFd) -> Result<Self, Errno> {
        refuse_own(&target, OsStr::new(""))?;
        Ok(Self { dir: target, name: OsString::new(), real: None })
    }

    /// Opens the name, which is no symlink.
    pub(super) fn open(&self, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        if self.name.is_empty() {
            let there = OFlags::NOFOLLOW | OFlags::CREATE | OFlags::EXCL;
            return openat(CWD, by_number(&self.dir), flags - there, mode);
        }
        openat(&self.dir, &*self.name, flags | OFlags::NOFOLLOW, mode)
    }

    /// Opens without blocking.
    pub(super) fn open_now(&self, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        // A file that must be new is no pipe, and has no lease.
        if flags.contains(OFlags::NONBLOCK) || flags.contains(OFlags::CREATE | OFlags::EXCL) {
            return self.open(flags, mode);
        }
        let handle = self.open(flags | OFlags::NONBLOCK, mode)?;
        fcntl_setfl(&handle, flags)?;
        Ok(handle)
    }

    /// Opens a FIFO as soon as it has another end, unless the caller stops waiting before. An open for a
    /// caller that is gone would become the other end of an unrelated process.
    pub(super) fn open_pipe(
        &self,
        flags: OFlags,
        waits: &dyn Fn() -> bool,
    ) -> Result<OwnedFd, Errno> {
        if flags & OFlags::RWMODE != OFlags::WRONLY {
            return self.open(flags, Mode::empty());
        }
        let mut pause = Duration::from_micros(200);
        while waits() {
            match self.open_now(flags, Mode::empty()) {
                Err(Errno::NXIO) => thread::sleep(pause),
                other => return other,
            }
            pause = (pause * 2).min(Duration::from_millis(10));
        }
        Err(Errno::SRCH)
    }

    pub(super) fn try_clone(&self) -> Result<Self, Errno> {
        let dir = self.dir.try_clone().map_err(|_| Errno::NFILE)?;
        Ok(Self { dir, name: self.name.clone(), real: None })
    }

    /// Returns whether the path requires a directory, so that a symlink is followed.
    pub(super) fn must_be_dir(&self) -> bool {
        self.name.as_bytes().ends_with(b"/")
    }

    /// Returns the real path of the name.
    pub(super) fn real(&self) -> Result<PathBuf, Errno> {
        let name = trimmed(&self.name);
        let is_dir = name.is_empty() || name == ".";
        Ok(match &self.real {
            Some(dir) if is_dir => dir.clone(),
            Some(dir) => dir.join(name),
            None if is_dir => real_path(self.dir.as_fd())?,
            None => real_path(self.dir.as_fd())?.join(name),
        })
    }

    /// Returns the target of the symlink at this place.
    pub(super) fn follow(&self, caller: &Caller<'_>, link: &OwnedFd) -> Result<Link, Errno> {
        if self.real.is_some() || !is_proc(self.dir.as_fd())? {
            return target(link).map(Link::To);
        }
        let name = trimmed(&self.name);
        if fstat(&self.dir)?.st_ino != TOP_OF_PROC {
            // A symlink of a process: only the kernel knows its target.
            let held = openat(&self.dir, name, HELD, Mode::empty())?;
            return Ok(Link::Itself(held));
        }
        Ok(Link::To(match name.as_bytes() {
            b"self" => PathBuf::from(caller.process()?.to_string()),
            b"thread-self" => {
                PathBuf::from(format!("{}/task/{}", caller.process()?, caller.thread()))
            }
            _ => target(link)?,
        }))
    }
}

const HELD: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Splits a path into the part before its last name, and the name.
fn split(path: &Path) -> (Option<&Path>, OsString) {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    let slash = end < bytes.len();
    let (named, _) = bytes.split_at(end);
    let start = named.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let (above, name) = named.split_at(start);
    let as_path = |bytes| Some(Path::new(OsStr::from_bytes(bytes))).filter(|p| *p != Path::new(""));
    match name {
        b"" => (Some(Path::new("/")), OsString::from(".")),
        b"." | b".." => (as_path(named), OsString::from(".")),
        name => {
            let mut name = name.to_vec();
            if slash {
                name.push(b'/');
            }
            (as_path(above), OsString::from_vec(name))
        }
    }
}

pub(super) fn trimmed(name: &OsStr) -> &OsStr {
    OsStr::from_bytes(name.as_bytes().strip_suffix(b"/").unwrap_or(name.as_bytes()))
}

/// Opens the directory at the end of a path.
fn directory(
    caller: &Caller<'_>,
    start: Option<&OwnedFd>,
    path: &Path,
) -> Result<(OwnedFd, DirFound), Errno> {
    let start = start.map_or(CWD, AsFd::as_fd);
    let flags = HELD | OFlags::DIRECTORY;
    loop {
        match openat2(start, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
            Ok(dir) => match DirFound::of(&dir)? {
                // In `/proc` the result depends on the process that looks.
                DirFound { real: None, .. } => break,
                found => return Ok((dir, found)),
            },
            Err(Errno::LOOP | Errno::NOSYS) => break,
            Err(Errno::AGAIN) => {}
            Err(errno) => return Err(errno),
        }
    }
    let dir = step_by_step(caller, start, path)?;
    let found = DirFound::of(&dir)?;
    Ok((dir, found))
}

/// What a directory is.
struct DirFound {
    /// The numbers of its device and its inode.
    id: (u64, u64),
    /// Its real path; `None` in `/proc`.
    real: Option<PathBuf>,
}

impl DirFound {
    fn of(dir: &OwnedFd) -> Result<Self, Errno> {
        let stat = fstat(dir)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        let real = if is_proc(dir.as_fd())? { None } else { Some(real_path(dir.as_fd())?) };
        Ok(Self { id: identity_of(&stat).of_file(), real })
    }
}

/// Follows a path name by name.
fn step_by_step(caller: &Caller<'_>, start: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let mut dir = openat(start, ".", HELD | OFlags::DIRECTORY, Mode::empty())?;
    let mut rest: Vec<OsString> = Vec::new();
    let mut n_links = 0;
    let push = |dir: &mut OwnedFd, rest: &mut Vec<OsString>, path: &Path| {
        if path.is_absolute() {
            *dir = openat(CWD, "/", HELD | OFlags::DIRECTORY, Mode::empty())?;
        }
        let names = path.components().rev().filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            _ => None,
        });
        rest.extend(names);
        Ok::<(), Errno>(())
    };
    push(&mut dir, &mut rest, path)?;
    while let Some(name) = rest.pop() {
        refuse_own(&dir, &name)?;
        let next = look(dir.as_fd(), &name)?;
        if kind_of(&next)? != FileType::Symlink {
            dir = openat(&dir, &*name, HELD | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
            continue;
        }
        n_links += 1;
        if MAX_LINKS < n_links {
            return Err(Errno::LOOP);
        }
        let place = Place::beneath(dir, name);
        match place.follow(caller, &next)? {
            Link::To(path) => {
                dir = place.dir;
                push(&mut dir, &mut rest, &path)?;
            }
            Link::Itself(target) => dir = target,
        }
    }
    Ok(dir)
}

/// Opens the target of a path with `O_PATH`.
pub(super) fn handle_of(
    caller: &Caller<'_>,
    start: Option<OwnedFd>,
    path: &Path,
    follow: bool,
) -> Result<OwnedFd, Errno> {
    let mut place = Place::find(caller, start, path)?;
    let must_be_dir = place.must_be_dir();
    for _ in 0..MAX_LINKS {
        let found = look(place.dir.as_fd(), &place.name)?;
        let kind = kind_of(&found)?;
        if kind != FileType::Symlink || !(follow || must_be_dir) {
            let is_it = !must_be_dir || kind == FileType::Directory;
            return if is_it { Ok(found) } else { Err(Errno::NOTDIR) };
        }
        match place.follow(caller, &found)? {
            Link::To(next) => place = Place::find(caller, Some(place.dir), &next)?,
            Link::Itself(target) => return Ok(target),
        }
    }
    Err(Errno::LOOP)
}

/// Opens a name, which may be a symlink, with `O_PATH`.
pub(super) fn look(dir: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    if name.is_empty() {
        return openat(CWD, by_number(&dir), HELD, Mode::empty());
    }
    openat(dir, trimmed(name), HELD | OFlags::NOFOLLOW, Mode::empty())
}

pub(super) fn kind_of(handle: &OwnedFd) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(fstat(handle)?.st_mode))
}

/// Returns the real path of an fd.
pub(super) fn real_path(handle: BorrowedFd<'_>) -> Result<PathBuf, Errno> {
    let path = readlinkat(CWD, by_number(&handle), Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(path.into_bytes())))
}

/// Returns the path in `/proc` that reopens an fd.
pub(super) fn by_number(handle: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd())
}

fn target(link: &OwnedFd) -> Result<PathBuf, Errno> {
    let text = readlinkat(link, "", Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(text.into_bytes())))
}

fn is_proc(handle: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(fstatfs(handle)?.f_type == PROC_SUPER_MAGIC)
}

/// Refuses the supervisor's own part of `/proc`, which is closed to its command.
fn refuse_own(dir: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    if !is_proc(dir.as_fd())? {
        return Ok(());
    }
    let path = real_path(dir.as_fd())?.join(trimmed(name));
    let number = path.components().find_map(|component| match component {
        Component::Normal(name) if name.as_bytes().iter().all(u8::is_ascii_digit) => Some(name),
        _ => None,
    });
    let is_own = |number: &OsStr| {
        let own = Path::new("/proc/self/task").join(number);
        rustix::fs::access(&own, rustix::fs::Access::EXISTS).is_ok()
    };
    if number.is_some_and(is_own) { Err(Errno::ACCESS) } else { Ok(()) }
}
