//! The findings about a command for its reply: refused calls, changed protected names, what the user's own
//! commands execute later, and symlinks that lead out of the roots.
//!
//! Only what holds at the end of the command is reported: a file that is gone executes nothing, a changed
//! `package.json` with the same scripts executes the same commands as before, and the files of a moved directory have
//! new names.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{
    CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, readlinkat,
};
use rustix::io::Errno;
use serde_json::Value;

use sinew_fs::content_hash::content_hash;
use sinew_policy::command_rules::CommandJudge;
use sinew_policy::guarded::plainly;
use sinew_policy::protected::executed_member;
use sinew_tool::ContentHash;
use sinew_tool::sync::lock;

use super::path::real_path;
use crate::wire::{Findings, Refused};

/// The most refusals of one command that are listed; the others are counted.
const MAX_REFUSED: usize = 8;
/// The most changed names of one command that are listed; the others are counted.
const MAX_CHANGED: usize = 16;
/// The most changed files that run later, and the number of new symlinks from which on those that are gone are left out.
const MAX_NOTED: usize = 1_000;
/// The most new symlinks that are noted; the others are counted.
const MAX_LINKS: usize = 8_000;
/// The largest file of which a member alone is compared, in bytes.
const MAX_COMPARED: u64 = 256 * 1024;

/// The findings about a command so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Found(Arc<Mutex<SoFar>>);

#[derive(Debug, Default)]
struct SoFar {
    findings: Findings,
    /// Changed files that the user's own commands execute later, with what these executed before.
    later: Vec<(PathBuf, Executed)>,
    links: HashSet<PathBuf>,
    /// How many links there were when those that are gone were last left out.
    n_links_pruned: usize,
}

/// What the user's own commands execute of a file.
#[derive(Debug, PartialEq)]
enum Executed {
    /// The hash of a member's text; none where the file or its member is missing.
    Member(Option<ContentHash>),
    /// All of it, or its members are unknown.
    Whole,
}

impl Found {
    pub(super) fn refuse(&self, refused: Refused) {
        let mut so_far = lock(&self.0);
        let Findings { listed, n_more, .. } = &mut so_far.findings;
        if let Some((_, times)) = listed.iter_mut().find(|(known, _)| *known == refused) {
            *times = times.saturating_add(1);
        } else if listed.len() < MAX_REFUSED {
            listed.push((refused, 1));
        } else {
            *n_more = n_more.saturating_add(1);
        }
    }

    /// Notes a protected name that was changed, since that was harmless here.
    pub(super) fn add_changed(&self, real: &Path) {
        let mut so_far = lock(&self.0);
        let Findings { changed, n_more_changed, .. } = &mut so_far.findings;
        if changed.iter().any(|known| known == real) {
            return;
        }
        if changed.len() < MAX_CHANGED {
            changed.push(real.to_owned());
        } else {
            *n_more_changed = n_more_changed.saturating_add(1);
        }
    }

    /// Notes a change to come of a file that the user's own commands execute later.
    pub(super) fn add_later(&self, real: &Path) {
        let mut so_far = lock(&self.0);
        let SoFar { findings, later, .. } = &mut *so_far;
        if later.iter().any(|(known, _)| known == real) {
            return;
        }
        if later.len() == MAX_NOTED {
            // Files that no longer exist make room.
            later.retain(|(file, _)| look(file).is_some());
        }
        if later.len() < MAX_NOTED {
            later.push((real.to_owned(), executed(real)));
        } else {
            findings.n_more_later = findings.n_more_later.saturating_add(1);
        }
    }

    /// Notes what such directories hold after they were moved there.
    pub(super) fn add_programs(&self, dirs: &[PathBuf]) {
        for dir in dirs {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = openat2(CWD, dir, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
            let Ok(entries) = opened.and_then(Dir::new) else { continue };
            let names = entries.flatten().map(|entry| entry.file_name().to_owned());
            for name in
                names.filter(|name| !matches!(name.to_bytes(), b"." | b"..")).take(MAX_NOTED)
            {
                self.add_later(&dir.join(OsStr::from_bytes(name.to_bytes())));
            }
        }
    }

    /// Notes a symlink that gets this name, unless it is in a directory that tools fill.
    pub(super) fn add_link(&self, real: &Path, judge: &CommandJudge) {
        if !judge.program_dirs(real).is_empty() {
            self.add_later(real);
        }
        if !judge.is_judged(real) {
            return;
        }
        let mut so_far = lock(&self.0);
        let SoFar { findings, links, n_links_pruned, .. } = &mut *so_far;
        if links.contains(real) {
            return;
        }
        // Links that no longer exist make room. The check costs time, so it runs once the list has doubled since.
        if MAX_NOTED <= links.len() && *n_links_pruned * 2 <= links.len() {
            links.retain(|link| look(link).is_some());
            *n_links_pruned = links.len();
        }
        if links.len() < MAX_LINKS {
            links.insert(real.to_owned());
        } else {
            findings.n_unseen_links = findings.n_unseen_links.saturating_add(1);
        }
    }

    /// Follows a directory that was moved, with all that is noted beneath it, and one that came in its place.
    pub(super) fn moved(&self, from: &Path, to: &Path, is_exchange: bool) {
        let mut so_far = lock(&self.0);
        let SoFar { later, links, .. } = &mut *so_far;
        let new_name = |path: &Path| match (path.strip_prefix(from), path.strip_prefix(to)) {
            (Ok(rest), _) => Some(to.join(rest)),
            (_, Ok(rest)) if is_exchange => Some(from.join(rest)),
            _ => None,
        };
        for (file, _) in later {
            if let Some(now) = new_name(file) {
                *file = now;
            }
        }
        let moved: Vec<_> =
            links.iter().filter_map(|link| Some((link.clone(), new_name(link)?))).collect();
        for (link, _) in &moved {
            links.remove(link);
        }
        links.extend(moved.into_iter().map(|(_, now)| now));
    }

    /// Returns what holds at the end of the command.
    pub(super) fn at_end(&self, judge: &CommandJudge) -> Findings {
        let so_far = lock(&self.0);
        let mut findings = so_far.findings.clone();
        let mut later: Vec<(PathBuf, PathBuf, Option<u32>)> = Vec::new();
        for (file, before) in &so_far.later {
            if !is_new(file, before) {
                continue;
            }
            // It may have come to a place where nothing executes it.
            let Some(named) = judge.runs_later(file).or_else(|| linked_programs(file, judge))
            else {
                continue;
            };
            let is_file = file.ends_with(&named);
            let place = if is_file { file } else { file.parent().unwrap_or(file) };
            match later.iter_mut().find(|(known, ..)| known == place) {
                Some((_, _, Some(n_files))) => *n_files = n_files.saturating_add(1),
                Some(_) => {}
                None => later.push((place.to_owned(), named, (!is_file).then_some(1))),
            }
        }
        findings.n_more_later = findings.n_more_later.saturating_add(beyond(later.len()));
        let later = later.into_iter().take(MAX_CHANGED);
        findings.later = later.map(|(_, named, n_files)| (named, n_files)).collect();
        let target = |link: &PathBuf| {
            let target = readlinkat(look(link)?, c"", Vec::new()).ok()?;
            let target = PathBuf::from(OsStr::from_bytes(target.to_bytes()));
            judge.leads_out(link, &leads_to(link, &target)).then(|| (link.clone(), target))
        };
        let mut links: Vec<_> = so_far.links.iter().filter_map(target).collect();
        links.sort();
        findings.n_more_links = findings.n_more_links.saturating_add(beyond(links.len()));
        links.truncate(MAX_CHANGED);
        findings.links = links;
        findings
    }
}

/// Returns the name of a symlink that takes the place of a directory of programs, or of one above it.
fn linked_programs(link: &Path, judge: &CommandJudge) -> Option<PathBuf> {
    let is_link = fstat(look(link)?)
        .is_ok_and(|there| FileType::from_raw_mode(there.st_mode) == FileType::Symlink);
    let is_meant = is_link && !judge.program_dirs(link).is_empty();
    is_meant.then(|| judge.of_root(link).map(Path::to_owned)).flatten()
}

/// Returns how many of so many names are not listed.
fn beyond(n_names: usize) -> u32 {
    u32::try_from(n_names.saturating_sub(MAX_CHANGED)).unwrap_or(u32::MAX)
}

/// Opens a name without following it. No directory above may have become a symlink.
fn look(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).ok()
}

/// Returns the real path of what a symlink leads to: of a missing file that of its directory, and where that is
/// missing too, the target resolved by its text.
fn leads_to(link: &Path, target: &Path) -> PathBuf {
    let real = |path: &Path| {
        let found = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        real_path(found.as_fd())
    };
    let target = link.parent().unwrap_or(link).join(target);
    let in_directory = || Some(real(target.parent()?).ok()?.join(target.file_name()?));
    real(link).ok().or_else(in_directory).unwrap_or_else(|| plainly(&target))
}

/// Returns whether a noted file is there and executes something else than before. One with a second name can be
/// changed by that.
fn is_new(file: &Path, before: &Executed) -> bool {
    let Some(Ok(there)) = look(file).map(fstat) else { return false };
    let has_one_name = there.st_nlink == 1;
    *before == Executed::Whole || !has_one_name || *before != executed(file)
}

/// Returns what the user's own commands execute of a file as it is now.
fn executed(real: &Path) -> Executed {
    let Some(member) = executed_member(real) else { return Executed::Whole };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat2(CWD, real, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Executed::Member(None),
        Err(_) => return Executed::Whole,
    };
    let mut text = Vec::new();
    let is_whole = file.take(MAX_COMPARED).read_to_end(&mut text);
    let is_whole = is_whole.is_ok_and(|n| n < MAX_COMPARED as usize);
    match serde_json::from_slice::<Value>(&text) {
        Ok(object) if is_whole => {
            let member = object.get(member).map(Value::to_string);
            Executed::Member(member.map(|text| content_hash(text.as_bytes())))
        }
        _ => Executed::Whole,
    }
}
