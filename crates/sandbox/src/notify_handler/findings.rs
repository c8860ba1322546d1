//! What is found about a command for its reply: refused calls, changed protected names, what the user's own
//! commands execute later, and symlinks that lead out of the roots.
//!
//! Only what holds at the end of the command is reported: a file that is gone executes nothing, and a changed
//! `package.json` with the same scripts executes what it did before.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{CWD, Mode, OFlags, lstat, openat, readlinkat};
use rustix::io::Errno;
use serde_json::Value;

use sinew_policy::command_rules::CommandJudge;
use sinew_tool::sync::lock;

use crate::wire::{Findings, Refused};

/// The most refusals of one command that are listed; the others are counted.
const MAX_REFUSED: usize = 8;
/// The most changed names of one command that are listed; the others are counted.
const MAX_CHANGED: usize = 16;
/// The most changed files of one directory of programs that are counted.
const MAX_LATER: usize = 1_000;
/// The most new symlinks that are looked at again.
const MAX_LINKS: usize = 1_000;
/// The largest `package.json` whose scripts are compared, in bytes.
const MAX_PACKAGE: u64 = 256 * 1024;
/// The file whose scripts alone are executed later.
const PACKAGE: &str = "package.json";

/// The findings about a command so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Found(Arc<Mutex<SoFar>>);

#[derive(Debug, Default)]
struct SoFar {
    findings: Findings,
    later: Vec<RunsLater>,
    links: Vec<PathBuf>,
}

/// A change of what the user's own commands execute later.
#[derive(Debug)]
struct RunsLater {
    /// The file or directory, relative to its root.
    named: PathBuf,
    /// The changed files.
    files: Vec<PathBuf>,
    /// The scripts before the change.
    scripts: Scripts,
}

/// The scripts of a `package.json`.
#[derive(Debug, PartialEq)]
enum Scripts {
    Known(Option<Value>),
    /// There is another file, or one that cannot be parsed.
    Unknown,
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

    /// Notes a change to come of what the user's own commands execute later.
    pub(super) fn add_later(&self, named: PathBuf, real: &Path) {
        let mut so_far = lock(&self.0);
        let SoFar { findings, later, .. } = &mut *so_far;
        let has_room = later.len() < MAX_CHANGED;
        match later.iter_mut().find(|known| known.named == named) {
            Some(RunsLater { files, .. }) => {
                if files.len() < MAX_LATER && !files.iter().any(|file| file == real) {
                    files.push(real.to_owned());
                }
            }
            None if has_room => {
                let scripts = scripts(&named, real);
                later.push(RunsLater { named, files: vec![real.to_owned()], scripts });
            }
            None => findings.n_more_changed = findings.n_more_changed.saturating_add(1),
        }
    }

    /// Notes a symlink that gets this name.
    pub(super) fn add_link(&self, real: &Path) {
        let mut so_far = lock(&self.0);
        if so_far.links.len() < MAX_LINKS && !so_far.links.iter().any(|known| known == real) {
            so_far.links.push(real.to_owned());
        }
    }

    /// Returns what holds at the end of the command.
    pub(super) fn at_end(&self, judge: &CommandJudge) -> Findings {
        let so_far = lock(&self.0);
        let mut findings = so_far.findings.clone();
        findings.later = so_far.later.iter().filter_map(RunsLater::at_end).collect();
        for link in &so_far.links {
            let Ok(target) = readlinkat(CWD, link, Vec::new()) else { continue };
            let target = PathBuf::from(OsStr::from_bytes(target.to_bytes()));
            if !judge.leads_out(link, &target) {
                continue;
            }
            if findings.links.len() < MAX_CHANGED {
                findings.links.push((link.clone(), target));
            } else {
                findings.n_more_changed = findings.n_more_changed.saturating_add(1);
            }
        }
        findings
    }
}

impl RunsLater {
    /// Returns the file, or the directory with the number of changed files, if something in it is new.
    fn at_end(&self) -> Option<(PathBuf, Option<u32>)> {
        let there = self.files.iter().filter(|file| lstat(*file).is_ok());
        let n_there = u32::try_from(there.count()).unwrap_or(u32::MAX);
        let first = self.files.first()?;
        let is_same =
            self.scripts != Scripts::Unknown && self.scripts == scripts(&self.named, first);
        let n_files = (!first.ends_with(&self.named)).then_some(n_there);
        (0 < n_there && !is_same).then(|| (self.named.clone(), n_files))
    }
}

/// Returns the scripts of a file if it is a `package.json`.
fn scripts(named: &Path, real: &Path) -> Scripts {
    if named.file_name() != Some(OsStr::new(PACKAGE)) {
        return Scripts::Unknown;
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(CWD, real, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Scripts::Known(None),
        Err(_) => return Scripts::Unknown,
    };
    let mut text = Vec::new();
    let is_whole =
        file.take(MAX_PACKAGE).read_to_end(&mut text).is_ok_and(|n| n < MAX_PACKAGE as usize);
    match serde_json::from_slice::<Value>(&text) {
        Ok(package) if is_whole => Scripts::Known(package.get("scripts").cloned()),
        _ => Scripts::Unknown,
    }
}
