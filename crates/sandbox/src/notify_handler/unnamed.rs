//! Files that are written under a guarded name get it once their content is judged.
//!
//! Until then such a file has no name. Once no process has it open for writing, the handler judges its content
//! and puts a copy at the name. The steps of a rebase are written in place and judged afterwards, since git
//! reads what an editor wrote before it makes another call.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use rustix::fs::{CWD, Mode, OFlags, fchmod, fstat, openat};
use rustix::io::Errno;
use sinew_policy::guarded::{Guarded, Pointer};

use super::caller::Caller;
use super::deeds::SETS_RIGHTS;
use super::path::{self, Place};
use super::{CallHandler, mode_of};
use crate::spawn::{self, SyscallAnswer};

/// The most files that wait to be judged.
const MAX_UNNAMED: usize = 64;

/// A file that is written under its own name, without the name so far.
pub(super) struct Unnamed {
    place: Place,
    real: PathBuf,
    guarded: Guarded,
    file: OwnedFd,
}

impl CallHandler {
    /// Opens a file that gets its name once its content is judged.
    pub(super) fn open_unnamed(
        &self,
        caller: &Caller<'_>,
        place: &Place,
        real: PathBuf,
        guarded: Guarded,
        (flags, mode): (OFlags, u64),
        existing: Option<&OwnedFd>,
    ) -> Result<Option<SyscallAnswer>, Errno> {
        if place.name.is_empty() || MAX_UNNAMED <= self.unnamed.borrow().len() {
            return Err(self.refuse_guarded(&real, guarded));
        }
        let final_mode = match existing {
            Some(found) => Mode::from_raw_mode(fstat(found)?.st_mode),
            None => mode_of(mode) - caller.umask()?,
        };
        let access = (flags & OFlags::RWMODE) | (flags & (OFlags::APPEND | OFlags::NONBLOCK));
        let access = if access & OFlags::RWMODE == OFlags::RDONLY { OFlags::RDWR } else { access };
        let refused = |_| self.refuse_guarded(&real, guarded);
        // The mode may forbid reading, so both descriptors are opened before it is set.
        let unnamed = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let own = openat(&place.dir, c".", unnamed, Mode::RUSR | Mode::WUSR).map_err(refused)?;
        let again =
            |flags| openat(CWD, path::by_number(&own), flags | OFlags::CLOEXEC, Mode::empty());
        let (handle, held) = (again(access)?, again(OFlags::RDONLY)?);
        if let Some(found) = existing.filter(|_| !flags.contains(OFlags::TRUNC)) {
            // The old content is judged together with writes over it or behind it.
            let readable = OFlags::RDONLY | OFlags::CLOEXEC;
            let old = openat(CWD, path::by_number(found), readable, Mode::empty())?;
            let (content, _) = self.read(old, &real, guarded)?;
            let own = File::from(own.try_clone().map_err(|_| Errno::NFILE)?);
            (&own).write_all(&content).map_err(|_| Errno::IO)?;
        }
        fchmod(&own, final_mode - SETS_RIGHTS)?;
        self.unnamed.borrow_mut().push(Unnamed {
            place: place.try_clone()?,
            real,
            guarded,
            file: held,
        });
        self.n_unnamed.fetch_add(1, Ordering::Relaxed);
        Ok(Some(SyscallAnswer::Handle(handle, flags.contains(OFlags::CLOEXEC))))
    }

    /// Notes the steps of a rebase that are opened for writing.
    pub(super) fn add_todo(&self, place: &Place, real: &Path) -> Result<(), Errno> {
        if place.name.is_empty() || MAX_UNNAMED <= self.todos.borrow().len() {
            return Err(self.refuse_guarded(real, Guarded::Pointer(Pointer::RebaseTodo)));
        }
        self.todos.borrow_mut().push((place.try_clone()?, real.to_owned()));
        self.n_unnamed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Takes steps that execute out of the rebases whose steps were written.
    fn judge_todos(&self, is_over: bool) {
        let guarded = Guarded::Pointer(Pointer::RebaseTodo);
        for (place, real) in std::mem::take(&mut *self.todos.borrow_mut()) {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = openat(&place.dir, path::trimmed(&place.name), flags, Mode::empty());
            // A rebase that has ended has none.
            let Ok(file) = file else { continue };
            if !is_over && !spawn::has_no_writer(&file) {
                self.todos.borrow_mut().push((place, real));
                continue;
            }
            let Ok((content, mode)) = self.read(file, &real, guarded) else { continue };
            if self.judge.content(guarded, &real, &[], &content).is_ok() {
                continue;
            }
            let is_harmless = |line: &&[u8]| self.judge.content(guarded, &real, &[], line).is_ok();
            let lines = content.split_inclusive(|byte| *byte == b'\n');
            let harmless: Vec<u8> = lines.filter(is_harmless).flatten().copied().collect();
            let why = String::from("a step executes a command or stops, and was taken out");
            self.refuse_content(&real, guarded, why);
            let _ = self.put(&place, &real, guarded, &harmless, mode, true);
        }
    }

    /// Names the files that are written, and whose content is harmless. `is_over`: no process can write any
    /// more.
    pub(super) fn name_written(&self, is_over: bool) {
        if self.n_unnamed.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.judge_todos(is_over);
        let all = std::mem::take(&mut *self.unnamed.borrow_mut());
        for unnamed in all {
            if !is_over && !spawn::has_no_writer(&unnamed.file) {
                self.unnamed.borrow_mut().push(unnamed);
                continue;
            }
            let Unnamed { place, real, guarded, file } = unnamed;
            let put = self
                .read(file, &real, guarded)
                .and_then(|(content, mode)| self.put(&place, &real, guarded, &content, mode, true));
            // A refusal of the content was reported already.
            if put.is_err_and(|errno| errno != Errno::ACCESS) {
                self.refuse_guarded(&real, guarded);
            }
        }
        let n =
            self.unnamed.borrow().len() + self.todos.borrow().len() + self.allowed.borrow().len();
        self.n_unnamed.store(n, Ordering::Release);
    }
}
