//! Lets commands change names that programs outside the sandbox act on, as far as the new content is harmless.
//!
//! Git writes most of these files beside their name and renames them. Then the handler reads the new content,
//! judges it and renames a copy of its own, since the command may still have the other one open.
#![expect(clippy::disallowed_methods, reason = "the supervisor looks at the files of its command")]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, fchmod, fstat, linkat, openat, readlinkat,
    renameat, renameat_with, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::umask;
use sinew_policy::git_config;
use sinew_policy::guarded::{Guarded, MAX_POINTER_BYTES, Pointer};

use super::deeds::SETS_RIGHTS;
use super::path::{self, Place, kind_of, look};
use super::{CallHandler, git_objects};
use crate::wire::Refused;

/// The largest tracked file whose content is judged, in bytes.
const MAX_TRACKED_BYTES: usize = 4 * 1024 * 1024;

/// How a file may be opened for writing.
pub(super) enum Opening {
    Now,
    /// Without its name, until its content is judged.
    Judged(Guarded),
    /// Under its name, as the steps of a rebase: once they are written, steps that execute are taken out.
    InPlace,
}

impl CallHandler {
    fn guarded(&self, real: &Path) -> Option<Guarded> {
        let found = self.judge.guarded(real, &exists);
        if found.is_none()
            && !Arc::ptr_eq(&self.judge, &self.means.judge)
            && let Some(Guarded::Configuration(_)) = self.means.judge.guarded(real, &exists)
            && self.allowed.borrow_mut().insert(real.to_owned())
        {
            self.n_unnamed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        found
    }

    /// Lets the configurations that a person allowed to change count as the first ones of the session, so
    /// that later commands may leave them as they are.
    pub(super) fn remember_allowed(&self) {
        for real in self.allowed.borrow_mut().drain() {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let mut content = Vec::new();
            let read = openat(CWD, &real, flags, Mode::empty()).map(|file| {
                let most = git_config::MAX_BYTES as u64 + 1;
                File::from(file).take(most).read_to_end(&mut content)
            });
            if matches!(read, Ok(Ok(_)) | Err(Errno::NOENT)) {
                let _ = self.means.memory.allow_configuration(&real, &content);
            }
        }
    }

    fn hidden(&self, real: &Path) -> Result<(), Errno> {
        if self.judge.runs_later(real).is_some() {
            self.found.add_later(real);
        }
        if let Some(objects) = git_objects::objects_of(real) {
            self.remember_objects(&objects);
        }
        self.judge.change(real).map_err(|forbidden| self.refuse(real, forbidden))
    }

    /// Returns whether a new file of this name needs no judgement and no report.
    pub(super) fn is_plain(&self, real: &Path) -> bool {
        !self.is_guarded(real)
            && self.judge.runs_later(real).is_none()
            && self.judge.open(real, false).is_ok()
            && self.judge.name(real, false).is_ok()
            && self.judge.completes(real, &exists).is_none()
    }

    pub(super) fn refuse_guarded(&self, real: &Path, guarded: Guarded) -> Errno {
        let (path, name) = (real.to_owned(), guarded.name().to_owned());
        self.found.refuse(Refused::Protected { path, name });
        Errno::ACCESS
    }

    pub(super) fn refuse_content(&self, real: &Path, guarded: Guarded, why: String) -> Errno {
        let (path, name) = (real.to_owned(), guarded.name().to_owned());
        self.found.refuse(Refused::Content { path, name, why });
        Errno::ACCESS
    }

    /// Notes a change that the reply names.
    fn report(&self, real: &Path, guarded: Guarded) {
        if let Guarded::Elsewhere(_) | Guarded::Executes(_) = guarded {
            self.found.add_changed(real);
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

    /// Judges a new mode: git runs no hook of the user in a directory that the user cannot enter.
    pub(super) fn may_have_mode(&self, real: &Path, mode: Mode) -> Result<(), Errno> {
        match self.guarded(real) {
            Some(guarded @ Guarded::Directory(_)) if !mode.contains(Mode::RWXU) => {
                Err(self.refuse_guarded(real, guarded))
            }
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
        if self.means.memory.add_objects(objects) {
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
            None if target != Path::new("testing") && self.judge.is_in_repository(dir, &exists) => {
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
                Ok(Opening::InPlace)
            }
            Some(guarded @ (Guarded::Executes(_) | Guarded::Pointer(_)))
                if is_new || kind == Some(FileType::RegularFile) =>
            {
                Ok(Opening::Judged(guarded))
            }
            // libgit2 makes the first configuration of a repository under its own name, and a checkout makes `.gitmodules`.
            Some(guarded @ Guarded::Configuration(_))
                if is_new && (real.ends_with("config") || real.ends_with(".gitmodules")) =>
            {
                Ok(Opening::Judged(guarded))
            }
            Some(guarded) => Err(self.refuse_guarded(real, guarded)),
        }
    }

    /// Reads the new content of a guarded file, and its mode.
    pub(super) fn read(
        &self,
        file: OwnedFd,
        real: &Path,
        guarded: Guarded,
    ) -> Result<(Vec<u8>, Mode), Errno> {
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
    pub(super) fn put(
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
        let file = openat(&place.dir, c".", flags, mode - SETS_RIGHTS)?;
        fchmod(&file, mode - SETS_RIGHTS)?;
        let file = File::from(file);
        (&file).write_all(content).map_err(|_| Errno::IO)?;
        let file = OwnedFd::from(file);
        let name = path::trimmed(&place.name);
        let link = |name: &OsStr| {
            let number = path::by_number(&file);
            linkat(CWD, number, &place.dir, name, AtFlags::SYMLINK_FOLLOW)
        };
        self.putting(place, real, || match link(name) {
            Err(Errno::EXIST) if replaces => {
                let beside = beside(name);
                let _ = unlinkat(&place.dir, &*beside, AtFlags::empty());
                link(&beside)?;
                renameat(&place.dir, &*beside, &place.dir, name)
            }
            other => other.map_err(|errno| self.refused_by_the_system(real, errno)),
        })?;
        if let Guarded::Executes(_) = guarded {
            let _ = self.means.memory.add_put(content);
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
        let (before, now) = match guarded {
            Guarded::Configuration(_) => {
                let now = self.configuration_now(place)?;
                let first = self.means.memory.first_configuration(real, now.clone());
                (first.map_err(|_| Errno::NOMEM)?, now)
            }
            _ => (Vec::new(), Vec::new()),
        };
        let judged = match guarded {
            Guarded::Executes(_) if !self.is_of_user(real, content) => Err(String::from(
                "programs here execute or obey it, and no commit holds this content",
            )),
            // What one answer allowed, and was taken back since, is not brought back without another.
            Guarded::Configuration(_) if self.means.memory.is_allowed(real) => self
                .judge
                .content(guarded, real, &before, content)
                .and_then(|()| self.judge.content(guarded, real, &now, content)),
            _ => self.judge.content(guarded, real, &before, content),
        };
        judged.map_err(|why| self.refuse_content(real, guarded, why))
    }

    /// Returns whether content of a tracked file was in its repository when the session began.
    fn is_of_user(&self, real: &Path, content: &[u8]) -> bool {
        let is_of_project =
            |dir: &Path| std::fs::canonicalize(dir).is_ok_and(|real| self.judge.is_judged(&real));
        git_objects::held_before(real, content, self.means.began, is_of_project, |id, all| {
            all.iter().for_each(|objects| self.remember_objects(objects));
            self.means.old_objects.contains(id)
        })
    }

    /// Returns a configuration as it is; of none it is empty.
    fn configuration_now(&self, place: &Place) -> Result<Vec<u8>, Errno> {
        let mut now = Vec::new();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        if let Ok(file) = openat(&place.dir, path::trimmed(&place.name), flags, Mode::empty()) {
            let most = git_config::MAX_BYTES as u64 + 1;
            File::from(file).take(most).read_to_end(&mut now).map_err(|_| Errno::IO)?;
        }
        Ok(now)
    }

    /// Judges the removal of a name, or its move to another one.
    pub(super) fn may_remove(&self, place: &Place, real: &Path) -> Result<(), Errno> {
        // Of a missing name nothing is said but that it is missing.
        if self.judge.change(real).is_err() || self.judge.runs_later(real).is_some() {
            look(place.dir.as_fd(), &place.name)?;
        }
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
                let may_go = self.means.memory.has_put(&content)
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
        self.judge.change(real).is_err() || self.guarded(real).is_some()
    }

    /// Judges the old or new name of a directory that moves. `EXDEV` makes the caller copy it name by name.
    pub(super) fn may_move_directory(&self, real: &Path) -> Result<(), Errno> {
        self.hidden(real)?;
        match self.guarded(real) {
            // `.git` itself counts as a name that leads git elsewhere.
            None if self.judge.is_in_repository(real, &exists) => Err(Errno::XDEV),
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
            self.putting(new, new_real, || {
                let _ = unlinkat(&new.dir, &*beside, AtFlags::empty());
                symlinkat(&target, &new.dir, &*beside)?;
                renameat_with(&new.dir, &*beside, &new.dir, path::trimmed(&new.name), flags)
            })?;
        } else {
            let readable = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let file = openat(CWD, path::by_number(&found), readable, Mode::empty())?;
            let (content, mode) = self.read(file, new_real, guarded)?;
            let replaces = !flags.contains(RenameFlags::NOREPLACE);
            self.put(new, new_real, guarded, &content, mode, replaces)?;
        }
        self.removing(old, &old.real()?, AtFlags::empty())?;
        Ok(Some(()))
    }

    /// Judges a name that makes its directory a repository, which its configuration and hooks then belong to.
    pub(super) fn may_complete(&self, real: &Path) -> Result<(), Errno> {
        let Some(dir) = self.judge.completes(real, &exists) else { return Ok(()) };
        // Files that are judged even outside a repository were judged when they were made.
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
        let judged = self.judge.new_repository(&content);
        judged.map_err(|why| self.refuse_content(&configuration, guarded, why))?;
        // The command may have the file open, or know it by another name.
        let held = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, &dir, held, Mode::empty())?;
        let place = Place::beneath(dir, OsString::from("config"));
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
