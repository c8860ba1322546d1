//! Files outside the roots that a running command opens for writing: what it needs for one, and how that is opened.
//!
//! The sandbox of a running process cannot be widened. So sinew opens the file itself, once an answer or a rule gives the
//! command what it needs, and sends it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, accessat, fchmod, fcntl_setfl, fstat, open,
    openat, openat2,
};
use rustix::io::Errno;
use sinew_fs::stat::identity_of;
use sinew_policy::command_rules::{CommandJudge, CommandRules};
use sinew_policy::protected::{self, Names};
use sinew_policy::rules;
use sinew_tool::{
    Access, ExtraPath, Need, OpensOutside, OutsideFile, OutsideOpen, OutsidePaths, Position,
};

use crate::clear::Clearance;
use crate::guard::Guard;

const HELD: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);
/// The flags of a command that count.
const TAKEN: OFlags = OFlags::RWMODE
    .union(OFlags::APPEND)
    .union(OFlags::NONBLOCK)
    .union(OFlags::DSYNC)
    .union(OFlags::SYNC);

/// Returns the error of a file that is not what was judged any more.
pub fn stale() -> io::Error {
    Errno::STALE.into()
}

impl Guard {
    /// Returns what a running command needs to open a file outside the roots for writing: that file, or the directory in
    /// which it would be made. `None` if no answer gives it, or the system does not.
    pub fn need_of_open(&self, path: &Path) -> Option<Need> {
        let commands = self.shared.commands.as_ref()?;
        let names = Names::new(path, self.shared.roots.named(path));
        let access = Access::Lend { is_writable: true };
        let is_open = self.files.outside == OutsidePaths::Ask
            && matches!(self.position_outside(path, access), Ok(Position::Outside))
            && !commands.is_of_programs(path)
            && rules::check_own(path, access).is_ok()
            && self.rules.check(path).is_ok()
            && protected::protected(&names).is_none()
            && protected::run_later(&names).is_none()
            && !is_of_repository(path);
        if !is_open {
            return None;
        }
        let needed = match openat2(CWD, path, HELD, Mode::empty(), NO_LINKS) {
            Ok(file) => check_file(&file).ok().map(|()| path)?,
            Err(Errno::NOENT) => {
                let dir = path.parent()?;
                let flags = HELD | OFlags::DIRECTORY;
                openat2(CWD, dir, flags, Mode::empty(), NO_LINKS).ok().map(|_| dir)?
            }
            Err(_) => return None,
        };
        may_write(needed).ok()?;
        Some(Need::Write(needed.to_owned()))
    }
}

impl Clearance {
    /// Returns the right to open files at one of the paths that the command gets, if it may change it.
    pub fn opens_at(&self, path: &Path) -> Option<OutsideGrant> {
        let command = self.contained().targets().command.as_ref()?;
        let holds = |extra: &&ExtraPath| extra.is_writable && extra.path == path;
        command.extra.paths.iter().find(holds).cloned().map(OutsideGrant)
    }
}

/// The right of a running command to open files at a path outside the roots, made only from the clearance of a call that
/// needs that path.
#[derive(Debug, Clone)]
pub struct OutsideGrant(ExtraPath);

impl OutsideGrant {
    /// Returns the right to open one file, if the path holds it.
    pub fn right(&self, wanted: &OutsideOpen) -> Option<Box<dyn OpensOutside>> {
        let OutsideOpen { path, flags, mode } = wanted;
        let dir = path.parent().filter(|_| path.starts_with(&self.0.path))?.to_owned();
        let right = OpenRight {
            granted: self.0.clone(),
            name: path.file_name()?.to_owned(),
            dir,
            flags: OFlags::from_bits_retain(*flags),
            mode: Mode::from_raw_mode(*mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO),
        };
        Some(Box::new(right))
    }
}

struct OpenRight {
    granted: ExtraPath,
    dir: PathBuf,
    name: OsString,
    flags: OFlags,
    mode: Mode,
}

impl OpensOutside for OpenRight {
    fn dir(&self) -> &Path {
        &self.dir
    }

    fn open(&self) -> io::Result<OutsideFile> {
        let granted = openat2(CWD, &self.granted.path, HELD, Mode::empty(), NO_LINKS)?;
        // Another file or directory may have the name by now.
        if identity_of(&fstat(&granted)?).of_file() != self.granted.identity {
            return Err(stale());
        }
        let Ok(rest) = self.dir.strip_prefix(&self.granted.path) else {
            // It is the file itself.
            return self.again(&granted);
        };
        let rest = if rest.as_os_str().is_empty() { Path::new(".") } else { rest };
        let within = NO_LINKS | ResolveFlags::BENEATH;
        let dir = openat2(&granted, rest, HELD | OFlags::DIRECTORY, Mode::empty(), within)?;
        match openat(&dir, &self.name, HELD | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(file) => self.again(&file),
            Err(Errno::NOENT) if self.flags.contains(OFlags::CREATE) => self.make(&dir),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl OpenRight {
    /// Opens a file that is held.
    fn again(&self, held: &OwnedFd) -> io::Result<OutsideFile> {
        if self.flags.contains(OFlags::CREATE | OFlags::EXCL) {
            return Err(Errno::EXIST.into());
        }
        check_file(held).map_err(|_| Errno::STALE)?;
        let by_number = format!("/proc/self/fd/{}", held.as_raw_fd());
        let plain = OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = open(&*by_number, (self.flags & TAKEN) | plain, Mode::empty())?;
        let before = open(&*by_number, OFlags::RDONLY | plain, Mode::empty())?;
        fcntl_setfl(&file, self.flags & TAKEN)?;
        Ok(OutsideFile { file, before: Some(before) })
    }

    /// Makes a file.
    fn make(&self, dir: &OwnedFd) -> io::Result<OutsideFile> {
        let new = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(dir, &self.name, (self.flags & TAKEN) | new, Mode::RUSR | Mode::WUSR)?;
        // The mask of this process is that of no command.
        fchmod(&file, self.mode)?;
        Ok(OutsideFile { file, before: None })
    }
}

/// Returns whether a path is in a directory of git of any name, would make its directory one, or is a name that programs
/// act on there.
fn is_of_repository(path: &Path) -> bool {
    let rules = CommandRules { roots: vec![PathBuf::from("/")], ..CommandRules::default() };
    let Ok(judge) = CommandJudge::new(rules) else { return true };
    let exists = |path: &Path| rustix::fs::lstat(path).is_ok();
    judge.is_in_repository(path, &exists)
        || judge.guarded(path, &exists).is_some()
        || judge.completes(path, &exists).is_some()
}

/// Fails unless it is a regular file with one name: another one may be that of a secret.
fn check_file(file: &OwnedFd) -> Result<(), Errno> {
    let stat = fstat(file)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if is_file && stat.st_nlink == 1 { Ok(()) } else { Err(Errno::ACCESS) }
}

/// Fails if this user may not write there.
fn may_write(path: &Path) -> Result<(), Errno> {
    accessat(CWD, path, rustix::fs::Access::WRITE_OK, AtFlags::EACCESS)
}
