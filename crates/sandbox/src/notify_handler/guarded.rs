//! Lets commands change names that programs outside the sandbox act on, as far as the new content is harmless.
//!
//! Git writes most of these files beside their name and renames them. Then the handler reads the new content,
//! judges it and renames a copy of its own, since the command may still have the other one open. A file that
//! is written under its own name gets no name at first: once no process has it open for writing, the handler
//! judges its content and puts a copy there.
#![expect(clippy::disallowed_methods, reason = "the supervisor looks at the files of its command")]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{
    AtFlags, CWD, FileType, MemfdFlags, Mode, OFlags, RenameFlags, fchmod, fstat, linkat,
    memfd_create, openat, readlinkat, renameat, renameat_with, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::umask;
use sinew_policy::git_config;
use sinew_policy::guarded::{Guarded, MAX_POINTER_BYTES, Pointer};

use super::caller::Caller;
use super::path::{self, Place, kind_of, look};
use super::{CallHandler, git_objects, mode_of};
use crate::spawn::{self, SyscallAnswer};
use crate::wire::Refused;

/// The largest tracked file whose content is judged, in bytes.
const MAX_TRACKED_BYTES: usize = 4 * 1024 * 1024;
/// The most bytes of configurations that are remembered from the start of a session.
const MAX_REMEMBERED: u64 = 16 * 1024 * 1024;
/// The most files that wait to be judged.
const MAX_UNNAMED: usize = 64;

/// The configurations of repositories as they were when the session began: before its first change of them.
/// Beside them the ids of what it put at names that execute, which it may take away again.
/// All supervisors share the memfd, and add to it under the lock of the session.
#[derive(Debug)]
pub(crate) struct FirstConfigurations(File);

impl FirstConfigurations {
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self(memfd_create(c"configurations", MemfdFlags::CLOEXEC)?.into()))
    }

    /// Remembers that the session put this content at guarded names.
    fn add_put(&self, content: &[u8]) -> io::Result<()> {
        let id = git_objects::id(content, true);
        self.of(Path::new(OsStr::from_bytes(&id)), Vec::new()).map(drop)
    }

    /// Returns whether the session put this content at a guarded name.
    fn has_put(&self, content: &[u8]) -> bool {
        let id = git_objects::id(content, true);
        self.find(&id).is_ok_and(|(found, _)| found.is_some())
    }

    /// Returns the first configuration of a path. It is `now` if none is remembered.
    fn of(&self, real: &Path, now: Vec<u8>) -> io::Result<Vec<u8>> {
        let (found, n) = self.find(real.as_os_str().as_bytes())?;
        if let Some(found) = found {
            return Ok(found);
        }
        let mut added = Vec::new();
        for part in [real.as_os_str().as_bytes(), &now] {
            added.extend((part.len() as u64).to_ne_bytes());
            added.extend(part);
        }
        if MAX_REMEMBERED < n + added.len() as u64 {
            return Err(io::Error::other("too many configurations"));
        }
        self.0.write_all_at(&added, n)?;
        Ok(now)
    }

    /// Returns what is remembered of a key, and the size of all.
    fn find(&self, key: &[u8]) -> io::Result<(Option<Vec<u8>>, u64)> {
        let n = self.0.metadata()?.len();
        let mut all = vec![0; usize::try_from(n).unwrap_or(0)];
        self.0.read_exact_at(&mut all, 0)?;
        let mut rest = all.as_slice();
        let mut take = || {
            let (n, more) = rest.split_first_chunk::<8>()?;
            let (part, more) =
                more.split_at_checked(usize::try_from(u64::from_ne_bytes(*n)).ok()?)?;
            rest = more;
            Some(part.to_vec())
        };
        while let (Some(path), Some(content)) = (take(), take()) {
            if path == key {
                return Ok((Some(content), n));
            }
        }
        Ok((None, n))
    }
}

/// A file that is written under its own name, without the name so far.
pub(super) struct Unnamed {
    place: Place,
    real: PathBuf,
    guarded: Guarded,
    file: OwnedFd,
}

/// How a file may be opened for writing.
pub(super) enum Opening {
    Now,
    /// Without its name, until its content is judged.
    Judged(Guarded),
    /// The steps of a rebase, in place: once they are written, steps that execute are taken out.
    Watched,
}

impl CallHandler {
    fn guarded(&self, real: &Path) -> Option<Guarded> {
        self.means.judge.guarded(real, &exists)
    }

    fn hidden(&self, real: &Path) -> Result<(), Errno> {
        if let Some(named) = self.means.judge.runs_later(real) {
            self.refused.add_later(&named, real);
        }
        if let Some(objects) = git_objects::objects_of(real) {
            self.remember_objects(&objects);
        }
        self.means.judge.change(real).map_err(|forbidden| self.refuse(real, forbidden))
    }

    fn refuse_guarded(&self, real: &Path, guarded: Guarded) -> Errno {
        let (path, name) = (real.to_owned(), guarded.name().to_owned());
        self.refused.add(Refused::Protected { path, name });
        Errno::ACCESS
    }

    fn refuse_content(&self, real: &Path, guarded: Guarded, why: String) -> Errno {
        let (path, name) = (real.to_owned(), guarded.name().to_owned());
        self.refused.add(Refused::Content { path, name, why });
        Errno::ACCESS
    }

    /// Notes a change that the reply names.
    fn report(&self, real: &Path, guarded: Guarded) {
        if let Guarded::Elsewhere(_) | Guarded::Executes(_) = guarded {
            self.refused.add_changed(real);
        }
    }

    /// Judges a change of a name whose content is not known, such as by a second name or a socket.
    pub(super) fn may_change(&self, real: &Path) -> Result<(), Errno> {
        self.hidden(real)?;
        match self.guarded(real) {
            None | Some(Guarded::Hook { is_sample: true }) => Ok(()),
            Some(guarded @ Guarded::Elsewhere(_)) => {
                self.report(real, guarded);
                Ok(())
            }
            Some(guarded) => Err(self.refuse_guarded(real, guarded)),
        }
    }

    /// Judges a change of mode, owner, times or extended attributes.
    pub(super) fn may_describe(&self, real: &Path) -> Result<(), Errno> {
        self.hidden(real)?;
        match self.guarded(real) {
            Some(
                guarded @ (Guarded::Hook { is_sample: false }
                | Guarded::Executes(_)
                | Guarded::Closed(_)),
            ) => Err(self.refuse_guarded(real, guarded)),
            _ => Ok(()),
        }
    }

    /// Remembers the single objects of a repository before its first change in the session.
    fn remember_objects(&self, objects: &Path) {
        if self.remembered.borrow().contains(objects) {
            return;
        }
        self.remembered.borrow_mut().insert(objects.to_owned());
        // Another supervisor of the session may have done it.
        if self
            .means
            .configurations
            .find(objects.as_os_str().as_bytes())
            .is_ok_and(|(found, _)| found.is_none())
        {
            let _ = self.means.configurations.of(objects, Vec::new());
            self.means.old_objects.remember_single(objects, self.means.began);
        }
    }

    /// Judges a new directory. An empty one executes nothing.
    pub(super) fn may_make_directory(&self, real: &Path) -> Result<(), Errno> {
        self.hidden(real)?;
        match self.guarded(real) {
            None
            | Some(
                Guarded::Directory(_)
                | Guarded::Hook { .. }
                | Guarded::Executes(_)
                | Guarded::Elsewhere(_)
                | Guarded::Pointer(Pointer::Gitfile),
            ) => self.may_complete(real),
            Some(guarded) => Err(self.refuse_guarded(real, guarded)),
        }
    }

    /// Judges a new symlink. Git stores the target of a tracked one like the content of a file.
    pub(super) fn may_make_link(&self, real: &Path, target: &Path) -> Result<(), Errno> {
        self.hidden(real)?;
        let dir = real.parent().unwrap_or(real);
        match self.guarded(real) {
            // Git itself makes one that leads nowhere, to learn whether the file system has links.
            None if target != Path::new("testing")
                && self.means.judge.is_in_repository(dir, &exists) =>
            {
                Err(self.refuse_guarded(real, Guarded::Directory("modules")))
            }
            None => self.may_complete(real),
            Some(guarded @ (Guarded::Executes(_) | Guarded::Elsewhere(_)))
                if self.is_of_user(real, target.as_os_str().as_bytes())
                    || matches!(guarded, Guarded::Elsewhere(_)) =>
            {
                self.report(real, guarded);
                Ok(())
            }
            Some(guarded) => Err(self.refuse_guarded(real, guarded)),
        }
    }

    /// Judges how a file may be opened for writing.
    pub(super) fn may_write(&self, real: &Path, kind: Option<FileType>) -> Result<Opening, Errno> {
        self.hidden(real)?;
        let is_new = kind.is_none();
        match self.guarded(real) {
            None => {
                if is_new {
                    self.may_complete(real)?;
                }
                Ok(Opening::Now)
            }
            Some(Guarded::Hook { is_sample: true }) => Ok(Opening::Now),
            Some(guarded @ Guarded::Elsewhere(_)) => {
                self.report(real, guarded);
                Ok(Opening::Now)
            }
            // Git reads what an editor wrote before it makes another call, so the name stays.
            Some(Guarded::Pointer(Pointer::RebaseTodo)) if kind == Some(FileType::RegularFile) => {
                Ok(Opening::Watched)
            }
            Some(guarded @ (Guarded::Executes(_) | Guarded::Pointer(_)))
                if is_new || kind == Some(FileType::RegularFile) =>
            {
                Ok(Opening::Judged(guarded))
            }
            Some(guarded) => Err(self.refuse_guarded(real, guarded)),
        }
    }

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
            // The old content is judged with what is written over it or behind it.
            let readable = OFlags::RDONLY | OFlags::CLOEXEC;
            let old = openat(CWD, path::by_number(found), readable, Mode::empty())?;
            let (content, _) = self.read(old, &real, guarded)?;
            let own = File::from(own.try_clone().map_err(|_| Errno::NFILE)?);
            (&own).write_all(&content).map_err(|_| Errno::IO)?;
        }
        fchmod(&own, final_mode - super::deeds::SETS_RIGHTS)?;
        self.unnamed.borrow_mut().push(Unnamed {
            place: place.try_clone()?,
            real,
            guarded,
            file: held,
        });
        self.n_unnamed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(Some(SyscallAnswer::Handle(handle, flags.contains(OFlags::CLOEXEC))))
    }

    /// Notes the steps of a rebase that are opened for writing.
    pub(super) fn watch(&self, place: &Place, real: &Path) -> Result<(), Errno> {
        if place.name.is_empty() || MAX_UNNAMED <= self.watched.borrow().len() {
            return Err(self.refuse_guarded(real, Guarded::Pointer(Pointer::RebaseTodo)));
        }
        self.watched.borrow_mut().push((place.try_clone()?, real.to_owned()));
        self.n_unnamed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    /// Takes steps that execute out of the rebases whose steps were written.
    fn judge_watched(&self, is_over: bool) {
        let guarded = Guarded::Pointer(Pointer::RebaseTodo);
        for (place, real) in std::mem::take(&mut *self.watched.borrow_mut()) {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = openat(&place.dir, path::trimmed(&place.name), flags, Mode::empty());
            // A rebase that has ended has none.
            let Ok(file) = file else { continue };
            if !is_over && !spawn::has_no_writer(&file) {
                self.watched.borrow_mut().push((place, real));
                continue;
            }
            let Ok((content, mode)) = self.read(file, &real, guarded) else { continue };
            if self.means.judge.content(guarded, &real, &[], &content).is_ok() {
                continue;
            }
            let is_harmless =
                |line: &&[u8]| self.means.judge.content(guarded, &real, &[], line).is_ok();
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
        if self.n_unnamed.load(std::sync::atomic::Ordering::Relaxed) == 0 {
            return;
        }
        self.judge_watched(is_over);
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
        let n = self.unnamed.borrow().len() + self.watched.borrow().len();
        self.n_unnamed.store(n, std::sync::atomic::Ordering::Release);
    }

    /// Reads the new content of a guarded file, and its mode.
    fn read(&self, file: OwnedFd, real: &Path, guarded: Guarded) -> Result<(Vec<u8>, Mode), Errno> {
        let stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(self.refuse_guarded(real, guarded));
        }
        let most = match guarded {
            Guarded::Configuration(_) => git_config::MAX_BYTES,
            Guarded::Pointer(_) => MAX_POINTER_BYTES,
            _ => MAX_TRACKED_BYTES,
        };
        let mut content = Vec::new();
        let read = File::from(file).take(most as u64 + 1).read_to_end(&mut content);
        if read.is_err() || most < content.len() {
            let why = format!("more than {} KiB are not judged", most / 1024);
            return Err(self.refuse_content(real, guarded, why));
        }
        Ok((content, Mode::from_raw_mode(stat.st_mode)))
    }

    /// Judges the content of a guarded file, and puts a copy at its name.
    fn put(
        &self,
        place: &Place,
        real: &Path,
        guarded: Guarded,
        content: &[u8],
        mode: Mode,
        replaces: bool,
    ) -> Result<(), Errno> {
        self.judge_content(place, real, guarded, content)?;
        umask(Mode::empty());
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(&place.dir, c".", flags, mode - super::deeds::SETS_RIGHTS)?;
        fchmod(&file, mode - super::deeds::SETS_RIGHTS)?;
        let file = File::from(file);
        (&file).write_all(content).map_err(|_| Errno::IO)?;
        let file = OwnedFd::from(file);
        let name = path::trimmed(&place.name);
        let named = linkat(CWD, path::by_number(&file), &place.dir, name, AtFlags::SYMLINK_FOLLOW);
        match named {
            Err(Errno::EXIST) if replaces => {
                let beside = beside(name);
                let _ = unlinkat(&place.dir, &*beside, AtFlags::empty());
                let number = path::by_number(&file);
                linkat(CWD, number, &place.dir, &*beside, AtFlags::SYMLINK_FOLLOW)?;
                renameat(&place.dir, &*beside, &place.dir, name)?;
            }
            other => other.map_err(|errno| self.refused_by_the_system(real, errno))?,
        }
        if let Guarded::Executes(_) = guarded {
            let _ = self.means.configurations.add_put(content);
        }
        self.report(real, guarded);
        Ok(())
    }

    fn judge_content(
        &self,
        place: &Place,
        real: &Path,
        guarded: Guarded,
        content: &[u8],
    ) -> Result<(), Errno> {
        let before = match guarded {
            Guarded::Configuration(_) => self.first_configuration(place, real)?,
            _ => Vec::new(),
        };
        let judged = match guarded {
            Guarded::Executes(_) if !self.is_of_user(real, content) => Err(String::from(
                "programs here execute or obey it, and no commit holds this content",
            )),
            _ => self.means.judge.content(guarded, real, &before, content),
        };
        judged.map_err(|why| self.refuse_content(real, guarded, why))
    }

    /// Returns whether content of a tracked file was in its repository when the session began.
    fn is_of_user(&self, real: &Path, content: &[u8]) -> bool {
        let is_of_project = |dir: &Path| {
            std::fs::canonicalize(dir).is_ok_and(|real| self.means.judge.is_judged(&real))
        };
        git_objects::held_before(real, content, self.means.began, is_of_project, |id, all| {
            all.iter().for_each(|objects| self.remember_objects(objects));
            self.means.old_objects.contains(id)
        })
    }

    /// Returns a configuration as it was when the session began; of none it is empty.
    fn first_configuration(&self, place: &Place, real: &Path) -> Result<Vec<u8>, Errno> {
        let mut now = Vec::new();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        if let Ok(file) = openat(&place.dir, path::trimmed(&place.name), flags, Mode::empty()) {
            let most = git_config::MAX_BYTES as u64 + 1;
            File::from(file).take(most).read_to_end(&mut now).map_err(|_| Errno::IO)?;
        }
        self.means.configurations.of(real, now).map_err(|_| Errno::NOMEM)
    }

    /// Judges the removal of a name, or its move to another one.
    pub(super) fn may_remove(&self, place: &Place, real: &Path) -> Result<(), Errno> {
        self.hidden(real)?;
        let Some(guarded) = self.guarded(real) else {
            self.means.old_objects.remember_pack(real, self.means.began);
            return Ok(());
        };
        let found = look(place.dir.as_fd(), &place.name)?;
        let kind = kind_of(&found)?;
        match guarded {
            Guarded::Closed(_) | Guarded::Hook { is_sample: false }
                if kind != FileType::Directory =>
            {
                Err(self.refuse_guarded(real, guarded))
            }
            Guarded::Closed(_) => Err(self.refuse_guarded(real, guarded)),
            Guarded::Configuration(_) if kind == FileType::RegularFile => {
                self.judge_content(place, real, guarded, &[])
            }
            Guarded::Executes(_) if kind != FileType::Directory => {
                let content = match kind {
                    FileType::RegularFile => {
                        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
                        let file = openat(CWD, path::by_number(&found), flags, Mode::empty())?;
                        self.read(file, real, guarded)?.0
                    }
                    FileType::Symlink => readlinkat(&found, c"", Vec::new())?.into_bytes(),
                    _ => return Err(self.refuse_guarded(real, guarded)),
                };
                // Where the repository went before, nothing of its working tree executes for it any more.
                let may_go = self.means.configurations.has_put(&content)
                    || !git_objects::has_repository(real)
                    || self.is_of_user(real, &content);
                if !may_go {
                    return Err(self.refuse_guarded(real, guarded));
                }
                self.report(real, guarded);
                Ok(())
            }
            Guarded::Elsewhere(_) => {
                self.report(real, guarded);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a name may not be moved where names are not judged.
    pub(super) fn is_guarded(&self, real: &Path) -> bool {
        self.means.judge.change(real).is_err() || self.guarded(real).is_some()
    }

    /// Judges the old or new name of a directory that moves. `EXDEV` makes the caller copy it name by name.
    pub(super) fn may_move_directory(&self, real: &Path) -> Result<(), Errno> {
        self.hidden(real)?;
        match self.guarded(real) {
            // `.git` itself counts as a name that leads git elsewhere.
            None if self.means.judge.is_in_repository(real, &exists) => Err(Errno::XDEV),
            None => Ok(()),
            Some(guarded @ Guarded::Closed(_)) => Err(self.refuse_guarded(real, guarded)),
            Some(_) => Err(Errno::XDEV),
        }
    }

    /// Moves a file to a guarded name, by a judged copy. `None` if the new name is not guarded by content.
    pub(super) fn move_judged(
        &self,
        (old, new): (&Place, &Place),
        new_real: &Path,
        flags: RenameFlags,
    ) -> Result<Option<()>, Errno> {
        self.hidden(new_real)?;
        let guarded = match self.guarded(new_real) {
            None | Some(Guarded::Hook { is_sample: true }) => return Ok(None),
            Some(guarded @ Guarded::Elsewhere(_)) => {
                self.report(new_real, guarded);
                return Ok(None);
            }
            Some(
                guarded @ (Guarded::Configuration(_) | Guarded::Pointer(_) | Guarded::Executes(_)),
            ) if !flags.contains(RenameFlags::EXCHANGE) => guarded,
            Some(guarded) => return Err(self.refuse_guarded(new_real, guarded)),
        };
        let found = look(old.dir.as_fd(), &old.name)?;
        if kind_of(&found)? == FileType::Symlink {
            let target = readlinkat(&found, c"", Vec::new())?;
            let target = PathBuf::from(OsStr::from_bytes(target.to_bytes()));
            self.may_make_link(new_real, &target)?;
            let beside = beside(path::trimmed(&new.name));
            let _ = unlinkat(&new.dir, &*beside, AtFlags::empty());
            symlinkat(&target, &new.dir, &*beside)?;
            renameat_with(&new.dir, &*beside, &new.dir, path::trimmed(&new.name), flags)?;
        } else {
            let readable = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let file = openat(CWD, path::by_number(&found), readable, Mode::empty())?;
            let (content, mode) = self.read(file, new_real, guarded)?;
            let replaces = !flags.contains(RenameFlags::NOREPLACE);
            self.put(new, new_real, guarded, &content, mode, replaces)?;
        }
        unlinkat(&old.dir, path::trimmed(&old.name), AtFlags::empty())?;
        Ok(Some(()))
    }

    /// Judges a name that makes its directory a repository, which its configuration and hooks then belong to.
    pub(super) fn may_complete(&self, real: &Path) -> Result<(), Errno> {
        let Some(dir) = self.means.judge.completes(real, &exists) else { return Ok(()) };
        // What is judged whether it is a repository or not was judged when it came.
        if self.guarded(&dir.join("config")).is_some() {
            return Ok(());
        }
        let is_sample = |entry: io::Result<std::fs::DirEntry>| {
            entry.is_ok_and(|entry| entry.file_name().as_bytes().ends_with(b".sample"))
        };
        let hooks = dir.join("hooks");
        let has_hooks = match std::fs::symlink_metadata(&hooks) {
            Ok(meta) if meta.is_dir() => {
                !std::fs::read_dir(&hooks).is_ok_and(|mut entries| entries.all(is_sample))
            }
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        let guarded = Guarded::Hook { is_sample: false };
        if has_hooks {
            return Err(self.refuse_guarded(&dir.join("hooks"), guarded));
        }
        for leading in ["config.worktree", "commondir", "objects/info/alternates"] {
            let path = dir.join(leading);
            if exists(&path) {
                return Err(self.refuse_guarded(&path, guarded));
            }
        }
        let configuration = dir.join("config");
        let guarded = Guarded::Configuration(git_config::ConfigOf::Repository);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let (content, mode) = match openat(CWD, &configuration, flags, Mode::empty()) {
            Ok(file) => self.read(file, &configuration, guarded)?,
            Err(Errno::NOENT) => return Ok(()),
            Err(_) => return Err(self.refuse_guarded(&configuration, guarded)),
        };
        let judged = self.means.judge.new_repository(&content);
        judged.map_err(|why| self.refuse_content(&configuration, guarded, why))?;
        // The command may have the file open, or know it by another name.
        let held = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, &dir, held, Mode::empty())?;
        let place = Place { dir, name: OsString::from("config") };
        self.put(&place, &configuration, guarded, &content, mode, true)
    }
}

/// Returns a name that no other supervisor uses, since this one holds the lock of the session.
fn beside(name: &OsStr) -> OsString {
    let mut beside = OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}", std::process::id()));
    beside
}

fn exists(path: &Path) -> bool {
    rustix::fs::lstat(path).is_ok()
}

/// Returns the time before which files were there when a session began. A file's time may lag behind the
/// clock by a tick.
pub(crate) fn began_now() -> SystemTime {
    SystemTime::now() - std::time::Duration::from_millis(20)
}
