//! Performs intercepted calls on directory fds.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, fstat, ftruncate, linkat, mkdirat,
    mknodat, openat, symlinkat,
};
use rustix::io::Errno;
use rustix::process::umask;

use super::caller::Caller;
use super::guarded::Opening;
use super::path::{self, Place, kind_of, look, real_path};
use super::{CallHandler, MAX_LINKS, here, mode_of};
use crate::spawn::SyscallAnswer;

/// The most names that are checked in a directory that moves.
const MAX_LOOKED_AT: usize = 4_096;
/// The most calls that may block at once.
const MAX_WAITING: usize = 64;

impl CallHandler {
    pub(super) fn open(
        &self,
        caller: &Caller<'_>,
        dir: u64,
        path: u64,
        flags: OFlags,
        mode: u64,
    ) -> Result<Option<SyscallAnswer>, Errno> {
        let mut path = caller.text(path)?;
        let mut start = caller.start(dir, &path)?;
        let unnamed = flags.contains(OFlags::TMPFILE);
        let own_link =
            flags.contains(OFlags::NOFOLLOW) || flags.contains(OFlags::CREATE | OFlags::EXCL);
        for _ in 0..MAX_LINKS {
            let mut place = match Place::find(caller, start, &path) {
                // It may be there on the machine.
                Err(Errno::NOENT) if may_wait(flags) && self.may_be_unseen(&path) => {
                    let mode = mode_of(mode) - SETS_RIGHTS - caller.umask()?;
                    return Err(self.want_outside(&path, (flags, mode), Errno::NOENT));
                }
                found => found?,
            };
            // A name that must be new is looked at only if its judgement depends on the existing entry.
            let must_be_new = flags.contains(OFlags::CREATE | OFlags::EXCL)
                && !unnamed
                && !place.must_be_dir()
                && self.is_plain(&place.real()?);
            let mut found = match must_be_new {
                true => Err(Errno::NOENT),
                false => look(place.dir.as_fd(), &place.name),
            };
            if flags.contains(OFlags::CREATE) && place.must_be_dir() {
                return Err(Errno::ISDIR);
            }
            let follows = !own_link || place.must_be_dir();
            if let Ok(handle) = &found
                && kind_of(handle)? == FileType::Symlink
                && follows
            {
                match place.follow(caller, handle)? {
                    path::Link::To(next) => {
                        start = Some(place.dir);
                        path = next;
                        continue;
                    }
                    path::Link::Itself(target) => {
                        place = Place::at(target)?;
                        found = look(place.dir.as_fd(), &place.name);
                    }
                }
            }
            self.check_waits(caller)?;
            let answer = self.open_at(caller, &place, found, (flags, mode, unnamed));
            match answer {
                // Another process made a symlink there meanwhile, or removed the file.
                Err(Errno::LOOP) if follows && !place.name.is_empty() => {
                    (start, path) = (Some(place.dir), PathBuf::from(place.name));
                }
                other => return other,
            }
        }
        Err(Errno::LOOP)
    }

    /// Opens a name that is no symlink, or is not to be followed.
    fn open_at(
        &self,
        caller: &Caller<'_>,
        place: &Place,
        found: Result<OwnedFd, Errno>,
        (flags, mode, unnamed): (OFlags, u64, bool),
    ) -> Result<Option<SyscallAnswer>, Errno> {
        let real = place.real()?;
        let kind = match &found {
            Ok(handle) => Some(kind_of(handle)?),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(self.refused_by_the_system(&real, *errno)),
        };
        let writes = flags & OFlags::RWMODE != OFlags::RDONLY || flags.contains(OFlags::TRUNC);
        let creates = kind.is_none() && flags.contains(OFlags::CREATE);
        let is_dir = kind == Some(FileType::Directory);
        match kind {
            None if !creates => return Err(Errno::NOENT),
            Some(kind) if place.must_be_dir() && kind != FileType::Directory => {
                return Err(Errno::NOTDIR);
            }
            _ => {}
        }
        let opened = self.judge.open(&real, is_dir);
        opened.map_err(|forbidden| self.refuse(&real, forbidden))?;
        if writes && kind == Some(FileType::RegularFile) && self.is_before_image(&real) {
            return Err(Errno::ACCESS);
        }
        if (creates || (writes && !is_dir)) && !unnamed {
            if kind.is_some() && flags.contains(OFlags::CREATE | OFlags::EXCL) {
                return Err(Errno::EXIST);
            }
            match self.may_write(&real, kind)? {
                Opening::Now => {}
                Opening::InPlace => self.add_todo(place, &real)?,
                Opening::Judged(guarded) => {
                    let existing = found.as_ref().ok();
                    return self.open_unnamed(
                        caller,
                        place,
                        real,
                        guarded,
                        (flags, mode),
                        existing,
                    );
                }
            }
        }
        if creates {
            self.may_be_named(&real, false)?;
        }
        let found = found.as_ref().ok();
        let open = || self.open_judged(caller, place, (found, kind), (flags, mode, unnamed));
        match found {
            _ if unnamed => open(),
            None => self.making(&real, open),
            Some(found) if writes => self.writing(&real, found, open),
            Some(_) => open(),
        }
    }

    /// Opens a name that the command may open so.
    fn open_judged(
        &self,
        caller: &Caller<'_>,
        place: &Place,
        (held, kind): (Option<&OwnedFd>, Option<FileType>),
        (flags, mode, unnamed): (OFlags, u64, bool),
    ) -> Result<Option<SyscallAnswer>, Errno> {
        // A terminal must not become that of the supervisor.
        let safe = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        let closed_on_exec = flags.contains(OFlags::CLOEXEC);
        if kind.is_none() || unnamed {
            umask(caller.umask()?);
        }
        let mode = mode_of(mode) - SETS_RIGHTS;
        let again = || {
            let held = held.ok_or(Errno::NOENT)?;
            Place::at(held.try_clone().map_err(|_| Errno::NFILE)?)
        };
        match kind {
            // By its number: the name may mean another file once it opens.
            Some(FileType::Fifo) if !flags.contains(OFlags::NONBLOCK) => {
                let place = again()?;
                self.later(caller, move |waits| {
                    let handle = place.open_pipe(safe, waits)?;
                    Ok(SyscallAnswer::Handle(handle, closed_on_exec))
                })
            }
            Some(FileType::CharacterDevice) if held.is_some_and(is_own_terminal) => {
                Ok(Some(SyscallAnswer::Handle(self.terminal_of(caller, safe)?, closed_on_exec)))
            }
            _ => match place.open_now(safe, mode) {
                Ok(handle) => Ok(Some(SyscallAnswer::Handle(handle, closed_on_exec))),
                // Another process holds a lease, and has time to release it.
                Err(Errno::AGAIN) if !flags.contains(OFlags::NONBLOCK) => {
                    let place = again()?;
                    self.later(caller, move |_| {
                        let there = OFlags::CREATE | OFlags::EXCL;
                        let handle = place.open(safe - there, Mode::empty())?;
                        Ok(SyscallAnswer::Handle(handle, closed_on_exec))
                    })
                }
                Err(errno) => {
                    let writes = flags & OFlags::RWMODE != OFlags::RDONLY;
                    let changes = writes || kind.is_none() || flags.contains(OFlags::TRUNC);
                    let is_file = matches!(kind, None | Some(FileType::RegularFile));
                    let real = place.real()?;
                    if may_wait(flags) && is_file && self.is_closed(&real, errno) {
                        let mode = mode - caller.umask()?;
                        return Err(self.want_outside(&real, (flags, mode), errno));
                    }
                    Err(self.refused_unless_read(&real, errno, changes))
                }
            },
        }
    }

    /// Opens the terminal of a process: the one that its command was given, or one that the command made.
    fn terminal_of(&self, caller: &Caller<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
        let (session, device) = caller.terminal()?;
        // Terminals that programs make inside have numbers of their own.
        if let Some((terminal, of)) = &self.terminal
            && *of == session
        {
            return terminal.try_clone().map_err(|_| Errno::NFILE);
        }
        let path = format!("/dev/pts/{}", rustix::fs::minor(device));
        openat(CWD, path, flags, Mode::empty())
    }

    /// Returns whether a missing path may be one that the sandbox hides: an absolute one outside the roots.
    fn may_be_unseen(&self, path: &Path) -> bool {
        let is_plain =
            |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        path.is_absolute()
            && path.components().all(is_plain)
            && !self.judge.is_beneath_a_root(path)
            && self.is_closed(path, Errno::ACCESS)
    }

    fn refused_unless_read(&self, real: &Path, errno: Errno, changes: bool) -> Errno {
        if changes { self.refused_by_the_system(real, errno) } else { errno }
    }

    /// Performs a call that may block, on a thread of its own.
    pub(super) fn later(
        &self,
        caller: &Caller<'_>,
        work: impl FnOnce(&dyn Fn() -> bool) -> Result<SyscallAnswer, Errno> + Send + 'static,
    ) -> Result<Option<SyscallAnswer>, Errno> {
        let waiting = Arc::clone(&self.waiting);
        if MAX_WAITING <= waiting.fetch_add(1, Ordering::Relaxed) {
            waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Errno::NFILE);
        }
        let calls = self.calls.try_clone().map_err(|_| Errno::NFILE)?;
        let call = caller.call;
        let answer = move || {
            calls.answer(&call, work(&|| calls.waits(&call)));
            waiting.fetch_sub(1, Ordering::Relaxed);
        };
        thread::Builder::new().stack_size(64 << 10).spawn(answer).map_err(|_| Errno::AGAIN)?;
        Ok(None)
    }

    pub(super) fn make(
        &self,
        caller: &Caller<'_>,
        at: (u64, u64),
        what: Make,
    ) -> Result<Option<SyscallAnswer>, Errno> {
        let place = self.place(caller, at)?;
        let real = place.real()?;
        // Programs rely on `EEXIST` for an existing name.
        if look(place.dir.as_fd(), &place.name).is_ok() {
            return Err(Errno::EXIST);
        }
        let made = match what {
            Make::Directory(mode) => {
                self.may_make_directory(&real)?;
                umask(caller.umask()?);
                let mode = mode - SETS_RIGHTS;
                self.making(&real, || mkdirat(&place.dir, &*place.name, mode))
            }
            Make::Node(mode, device) => {
                let mode = mode - SETS_RIGHTS;
                self.may_change(&real)?;
                self.may_be_named(&real, false)?;
                self.may_complete(&real)?;
                umask(caller.umask()?);
                let kind = FileType::from_raw_mode(mode.as_raw_mode());
                let kind = if kind == FileType::Unknown { FileType::RegularFile } else { kind };
                self.making(&real, || mknodat(&place.dir, &*place.name, kind, mode, device))
            }
            Make::Link(target) => {
                self.may_make_link(&real, &target)?;
                self.may_be_named(&real, true)?;
                self.making(&real, || symlinkat(&target, &place.dir, &*place.name))
            }
        };
        done(made.map_err(|errno| self.refused_by_the_system(&real, errno)))
    }

    /// Judges the name of a file that is no directory.
    pub(super) fn may_be_named(&self, real: &Path, is_link: bool) -> Result<(), Errno> {
        if is_link {
            self.found.add_link(real, &self.judge);
        }
        self.judge.name(real, is_link).map_err(|forbidden| self.refuse(real, forbidden))
    }

    pub(super) fn link(
        &self,
        caller: &Caller<'_>,
        (old_dir, old): (u64, u64),
        new: (u64, u64),
        flags: AtFlags,
    ) -> Result<Option<SyscallAnswer>, Errno> {
        let path = caller.text_or_empty(old)?;
        let target = if path.as_os_str().is_empty() && flags.contains(AtFlags::EMPTY_PATH) {
            caller.handle(old_dir)?
        } else {
            let start = caller.start(old_dir, &path)?;
            let follow = flags.contains(AtFlags::SYMLINK_FOLLOW);
            path::handle_of(caller, start, &path, follow)?
        };
        let place = self.place(caller, new)?;
        let real = place.real()?;
        // libgit2 tries a link before it renames. The kernel looks for the name first too.
        if !place.name.is_empty() && look(place.dir.as_fd(), &place.name).is_ok() {
            return Err(Errno::EXIST);
        }
        // With another name it could be changed.
        let source = real_path(target.as_fd())?;
        if kind_of(&target)? == FileType::RegularFile && self.is_before_image(&source) {
            return Err(Errno::ACCESS);
        }
        self.may_change(&source)?;
        let opened = self.judge.open(&source, false);
        opened.map_err(|forbidden| self.refuse(&source, forbidden))?;
        self.may_change(&real)?;
        self.may_complete(&real)?;
        self.may_be_named(&real, kind_of(&target)? == FileType::Symlink)?;
        let number = path::by_number(&target);
        let made = self.linking(&source, &target, &real, || {
            linkat(CWD, number, &place.dir, &*place.name, AtFlags::SYMLINK_FOLLOW)
        });
        done(made.map_err(|errno| self.refused_by_the_system(&real, errno)))
    }

    pub(super) fn unlink(
        &self,
        caller: &Caller<'_>,
        at: (u64, u64),
        flags: AtFlags,
    ) -> Result<Option<SyscallAnswer>, Errno> {
        let place = self.place(caller, at)?;
        let real = place.real()?;
        self.may_remove(&place, &real)?;
        let removed = self.removing(&place, &real, flags);
        done(removed.map_err(|errno| {
            // The kernel looks for a name only where it can be removed.
            let missing = match errno {
                Errno::ROFS => look(place.dir.as_fd(), &place.name).err(),
                _ => None,
            };
            missing.unwrap_or_else(|| self.refused_by_the_system(&real, errno))
        }))
    }

    pub(super) fn rename(
        &self,
        caller: &Caller<'_>,
        from: (u64, u64),
        to: (u64, u64),
        flags: u64,
    ) -> Result<Option<SyscallAnswer>, Errno> {
        let flags = u32::try_from(flags).map_or(RenameFlags::all(), RenameFlags::from_bits_retain);
        let (old, new) = (self.place(caller, from)?, self.place(caller, to)?);
        let (old_real, new_real) = (old.real()?, new.real()?);
        let kind = kind_of(&look(old.dir.as_fd(), &old.name)?)?;
        let is_dir = kind == FileType::Directory;
        let there = look(new.dir.as_fd(), &new.name).and_then(|there| kind_of(&there)).ok();
        let there = there.filter(|_| flags.contains(RenameFlags::EXCHANGE));
        let takes_dir = there == Some(FileType::Directory);
        for real in [&old_real, &new_real] {
            let opened = self.judge.open(real, false);
            opened.map_err(|forbidden| self.refuse(real, forbidden))?;
        }
        self.may_remove(&old, &old_real)?;
        if flags.contains(RenameFlags::EXCHANGE) {
            self.may_change(&old_real)?;
            self.may_change(&new_real)?;
            self.may_move_directory(&old_real)?;
            self.may_move_directory(&new_real)?;
        }
        if is_dir {
            self.may_move_directory(&old_real)?;
            self.may_move_directory(&new_real)?;
        } else if let Some(()) = self.move_judged((&old, &new), &new_real, flags)? {
            return Ok(Some(SyscallAnswer::Value(0)));
        }
        self.may_complete(&new_real)?;
        for (kind, goes_to) in [(Some(kind), &new_real), (there, &old_real)] {
            if let Some(kind) = kind.filter(|kind| *kind != FileType::Directory) {
                self.may_be_named(goes_to, kind == FileType::Symlink)?;
            }
        }
        // A moved directory takes along names that were never judged at their new place. `EXDEV` makes the
        // caller copy instead, name by name. No other command of the session changes a name meanwhile.
        let judge = &self.judge;
        let ways = [(is_dir, &old, &old_real, &new_real), (takes_dir, &new, &new_real, &old_real)];
        let must_be_copied =
            ways.into_iter().filter(|(is_dir, ..)| *is_dir).any(|(_, place, a, b)| {
                judge.must_be_copied(a, b)
                    || judge.globs_tell_apart(a, b)
                    || judge.goes_out(a, b) && !self.holds_nothing_protected(place, a)
            });
        if must_be_copied {
            return Err(Errno::XDEV);
        }
        let moved = self.renaming((&old, &old_real), (&new, &new_real), flags);
        if moved.is_ok() && (is_dir || takes_dir) {
            self.found.moved(&old_real, &new_real, flags.contains(RenameFlags::EXCHANGE));
            for dir in ways.iter().filter(|(is_dir, ..)| *is_dir).map(|(.., to)| to) {
                self.found.add_programs(&self.judge.program_dirs(dir));
            }
        }
        done(moved.map_err(|errno| {
            let at = if judge.is_beneath_a_root(&new_real) { &old_real } else { &new_real };
            self.refused_by_the_system(at, errno)
        }))
    }

    /// Returns whether a directory holds no protected name, as far as a short search shows.
    fn holds_nothing_protected(&self, place: &Place, real: &Path) -> bool {
        let mut next = match look(place.dir.as_fd(), &place.name) {
            Ok(dir) => vec![(dir, real.to_owned())],
            Err(_) => return false,
        };
        let mut n_left = MAX_LOOKED_AT;
        while let Some((dir, real)) = next.pop() {
            // An `O_PATH` fd cannot be read.
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let readable = openat(&dir, ".", flags, Mode::empty());
            let Ok(entries) = readable.and_then(Dir::new) else { return false };
            for entry in entries {
                let Ok(entry) = entry else { return false };
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if name == "." || name == ".." {
                    continue;
                }
                let path = real.join(name);
                n_left -= 1;
                if n_left == 0 || self.is_guarded(&path) {
                    return false;
                }
                let Ok(held) = look(dir.as_fd(), name) else { return false };
                if kind_of(&held) == Ok(FileType::Directory) {
                    next.push((held, path));
                }
            }
        }
        true
    }

    pub(super) fn truncate(
        &self,
        caller: &Caller<'_>,
        path: u64,
        length: u64,
    ) -> Result<Option<SyscallAnswer>, Errno> {
        if length.cast_signed() < 0 {
            return Err(Errno::INVAL);
        }
        let flags = OFlags::WRONLY | OFlags::NONBLOCK;
        let opened = self.open(caller, here(), path, flags, 0);
        match opened.inspect_err(|_| self.refuse_wanted())? {
            Some(SyscallAnswer::Handle(_, _)) if self.means.max_file_bytes < length => {
                Err(Errno::FBIG)
            }
            Some(SyscallAnswer::Handle(file, _)) => done(ftruncate(&file, length)),
            _ => Err(Errno::INVAL),
        }
    }
}

/// Returns whether a file outside the roots may be asked about that is opened so: to be written. What is opened for both is
/// perhaps a database that is only read, or a temporary file, which would get its name by a rename that fails there.
fn may_wait(flags: OFlags) -> bool {
    let is_written = match flags & OFlags::RWMODE {
        OFlags::WRONLY => true,
        OFlags::RDWR => flags.intersects(OFlags::TRUNC | OFlags::APPEND),
        _ => false,
    };
    is_written && !flags.contains(OFlags::TMPFILE)
}

/// What a call makes at a new name.
pub(super) enum Make {
    Directory(Mode),
    Node(Mode, u64),
    Link(PathBuf),
}

pub(super) fn done(result: Result<(), Errno>) -> Result<Option<SyscallAnswer>, Errno> {
    result.map(|()| Some(SyscallAnswer::Value(0)))
}

/// The setuid and setgid bits.
pub(super) const SETS_RIGHTS: Mode = Mode::SUID.union(Mode::SGID);

/// Returns whether a device is `/dev/tty`, the terminal of the process that opens it.
fn is_own_terminal(handle: &OwnedFd) -> bool {
    fstat(handle).is_ok_and(|stat| {
        (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)) == (5, 0)
    })
}
