//! Decides which entries of a walk the ignore files leave out, by the rules of ripgrep.
//!
//! Precedence: `.rgignore`, `.ignore`, `.gitignore`, `.git/info/exclude`, then the user's global file. Within
//! one kind the deeper file wins. The last three count only inside a repository, and a nested repository cuts
//! off the outer `.gitignore` files. Files in directories above the start and above the root count too.
//!
//! Ignore files are read through handles: only regular files of at most 1 MiB, never a symlink, so that a
//! FIFO named `.gitignore` blocks nothing. Compiled files are cached by file identity. They match paths
//! relative to their directory. A linked worktree uses the exclude file of its repository (`worktree`).

use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use sinew_tool::sync::lock;
use sinew_tool::{FileKind, Identity};

use crate::roots::{DIRECTORY_PATH, FILE_READ, open_name};
use crate::stat::{identity_of, kind_of};
use crate::worktree;

/// The largest ignore file that is read.
const MAX_BYTES: u64 = 1024 * 1024;
/// The most compiled files in the cache.
const MAX_KEPT: usize = 4_096;
/// The most bytes of source text behind the cache.
const MAX_KEPT_BYTES: u64 = 8 * 1024 * 1024;
/// Younger files are not cached: a second change could have the same timestamp.
const YOUNG_SECONDS: i64 = 2;

/// The path of the user's global ignore file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum GlobalIgnore {
    /// No global ignore file.
    #[default]
    None,
    /// At this path.
    At(PathBuf),
    /// From git's configuration, read when the first walk needs it.
    FromGit,
}

/// The compiled ignore files of all walks.
#[derive(Debug)]
pub struct IgnoreCache {
    global: GlobalIgnore,
    from_git: OnceLock<Option<PathBuf>>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    files: HashMap<Identity, Arc<Gitignore>>,
    bytes: u64,
}

impl IgnoreCache {
    /// Returns an empty cache; `global` locates the user's global ignore file.
    pub fn new(global: GlobalIgnore) -> Self {
        Self { global, from_git: OnceLock::new(), kept: Mutex::default() }
    }

    /// Returns the rules of one file, or `None` without any. Follows no symlink.
    fn file(&self, dir: BorrowedFd<'_>, name: &CStr) -> Option<Arc<Gitignore>> {
        let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        self.rules(&stat, || open_name(dir, name, FILE_READ))
    }

    /// Returns the rules of the user's global file, which may be a symlink.
    fn global(&self) -> Option<Arc<Gitignore>> {
        let path = match &self.global {
            GlobalIgnore::None => return None,
            GlobalIgnore::At(path) => path,
            GlobalIgnore::FromGit => {
                self.from_git.get_or_init(ignore::gitignore::gitconfig_excludes_path).as_ref()?
            }
        };
        let stat = statat(CWD, path, AtFlags::empty()).ok()?;
        let flags = FILE_READ.difference(OFlags::NOFOLLOW);
        self.rules(&stat, || openat(CWD, path, flags, Mode::empty()))
    }

    /// Returns the rules of a file with this status; opens it if they are not cached.
    fn rules(
        &self,
        stat: &Stat,
        open: impl FnOnce() -> Result<OwnedFd, Errno>,
    ) -> Option<Arc<Gitignore>> {
        let is_regular =
            |stat: &Stat| kind_of(FileType::from_raw_mode(stat.st_mode)) == FileKind::File;
        if !is_regular(stat) {
            return None;
        }
        if let Some(rules) = self.kept().files.get(&identity_of(stat)) {
            return (!rules.is_empty()).then(|| Arc::clone(rules));
        }
        let file = open().ok()?;
        let stat = fstat(&file).ok()?;
        let identity = identity_of(&stat);
        if !is_regular(&stat) || MAX_BYTES < identity.size {
            return None;
        }
        let mut text = Vec::new();
        File::from(file).take(MAX_BYTES).read_to_end(&mut text).ok()?;
        let rules = Arc::new(compile(&text));
        self.keep(identity, &rules);
        (!rules.is_empty()).then_some(rules)
    }

    fn keep(&self, identity: Identity, rules: &Arc<Gitignore>) {
        if clock_gettime(ClockId::Realtime).tv_sec - identity.changed.seconds < YOUNG_SECONDS {
            return;
        }
        let mut kept = self.kept();
        if MAX_KEPT <= kept.files.len() || MAX_KEPT_BYTES < kept.bytes + identity.size {
            *kept = Kept::default();
        }
        kept.bytes += identity.size;
        kept.files.insert(identity, Arc::clone(rules));
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }
}

/// Compiles an ignore file. Skips malformed lines, and stops at a line that is not UTF-8.
fn compile(text: &[u8]) -> Gitignore {
    let mut builder = GitignoreBuilder::new("");
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    for line in text.split(|byte| *byte == b'\n') {
        let Ok(line) = std::str::from_utf8(line) else { break };
        let _ = builder.add_line(None, line.strip_suffix('\r').unwrap_or(line));
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// The entries of a directory that matter for ignore rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    rgignore: bool,
    ignore: bool,
    gitignore: bool,
    /// `.git` or `.jj`.
    repository: bool,
    git: Option<FileKind>,
}

impl Marks {
    /// Notes one entry.
    pub fn note(&mut self, name: &[u8], kind: FileKind) {
        match name {
            b".rgignore" => self.rgignore = true,
            b".ignore" => self.ignore = true,
            b".gitignore" => self.gitignore = true,
            b".jj" => self.repository = true,
            b".git" => {
                self.repository = true;
                self.git = Some(kind);
            }
            _ => {}
        }
    }

    /// Returns the marks of a directory whose entries are not read.
    fn look(dir: BorrowedFd<'_>) -> Self {
        let kind = |name: &CStr| {
            let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some(kind_of(FileType::from_raw_mode(stat.st_mode)))
        };
        let git = kind(c".git");
        Self {
            rgignore: true,
            ignore: true,
            gitignore: true,
            repository: git.is_some() || kind(c".jj").is_some(),
            git,
        }
    }
}

/// The rules of one ignore file, and the offset in an absolute path after its directory.
#[derive(Debug, Clone)]
struct Rule {
    base: usize,
    rules: Arc<Gitignore>,
}

/// The rules for the entries of one directory: by kind, the deepest file first.
#[derive(Debug, Default)]
pub struct Level {
    rgignore: Vec<Rule>,
    ignore: Vec<Rule>,
    gitignore: Vec<Rule>,
    exclude: Vec<Rule>,
    global: Option<Rule>,
    in_repository: bool,
}

impl Level {
    /// Returns the rules of all directories between this one and `/`.
    pub fn above(cache: &IgnoreCache, start: &OwnedFd, path: &Path) -> Arc<Self> {
        let base = base_of(path);
        let global = cache.global().map(|rules| Rule { base, rules });
        let mut level = Arc::new(Self { global, ..Self::default() });
        let mut above = Vec::new();
        let mut dir: Option<OwnedFd> = None;
        for ancestor in path.ancestors().skip(1) {
            let below = dir.as_ref().map_or(start.as_fd(), AsFd::as_fd);
            let Ok(handle) = open_name(below, c"..", DIRECTORY_PATH) else { break };
            let marks = Marks::look(handle.as_fd());
            let files = Files::load(cache, handle.as_fd(), marks);
            above.push((ancestor, marks, files));
            dir = Some(handle);
        }
        for (ancestor, marks, files) in above.into_iter().rev() {
            level = level.with(files, marks, base_of(ancestor));
        }
        level
    }

    /// Returns the rules for the entries of a directory beneath this level.
    pub fn enter(
        self: &Arc<Self>,
        cache: &IgnoreCache,
        dir: BorrowedFd<'_>,
        marks: Marks,
        base: usize,
    ) -> Arc<Self> {
        if marks == Marks::default() {
            return Arc::clone(self);
        }
        self.with(Files::load(cache, dir, marks), marks, base)
    }

    fn with(self: &Arc<Self>, files: Files, marks: Marks, base: usize) -> Arc<Self> {
        if files.is_empty() && !marks.repository {
            return Arc::clone(self);
        }
        let in_repository = self.in_repository || marks.repository;
        let put = |file: Option<Arc<Gitignore>>, below: &[Rule]| -> Vec<Rule> {
            file.map(|rules| Rule { base, rules })
                .into_iter()
                .chain(below.iter().cloned())
                .collect()
        };
        // A repository cuts off the rules of the outer one.
        let (outer_gitignore, outer_exclude): (&[Rule], &[Rule]) = match marks.repository {
            true => (&[], &[]),
            false => (&self.gitignore, &self.exclude),
        };
        let (gitignore, exclude) = match in_repository {
            true => (files.gitignore, files.exclude),
            false => (None, None),
        };
        Arc::new(Self {
            rgignore: put(files.rgignore, &self.rgignore),
            ignore: put(files.ignore, &self.ignore),
            gitignore: put(gitignore, outer_gitignore),
            exclude: put(exclude, outer_exclude),
            global: self.global.clone(),
            in_repository,
        })
    }

    /// Returns whether no entry can be left out.
    pub fn is_empty(&self) -> bool {
        self.rgignore.is_empty()
            && self.ignore.is_empty()
            && self.gitignore.is_empty()
            && self.exclude.is_empty()
            && (self.global.is_none() || !self.in_repository)
    }

    /// Returns whether an entry with this absolute path is left out.
    pub fn leaves_out(&self, path: &[u8], directory: bool) -> bool {
        for rules in [&self.rgignore, &self.ignore, &self.gitignore, &self.exclude] {
            for rule in rules {
                if let Some(verdict) = rule.verdict(path, directory) {
                    return verdict;
                }
            }
        }
        let global = self.global.as_ref().filter(|_| self.in_repository);
        global.and_then(|rule| rule.verdict(path, directory)).unwrap_or(false)
    }
}

impl Rule {
    /// Returns whether the file leaves a path out, or `None` without a matching rule.
    fn verdict(&self, path: &[u8], directory: bool) -> Option<bool> {
        let beneath = Path::new(OsStr::from_bytes(path.get(self.base..)?));
        match self.rules.matched(beneath, directory) {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        }
    }
}

/// Returns the offset at which the names of a directory begin in an absolute path.
fn base_of(dir: &Path) -> usize {
    match dir.as_os_str().len() {
        1 => 1,
        length => length + 1,
    }
}

#[derive(Default)]
struct Files {
    rgignore: Option<Arc<Gitignore>>,
    ignore: Option<Arc<Gitignore>>,
    gitignore: Option<Arc<Gitignore>>,
    exclude: Option<Arc<Gitignore>>,
}

impl Files {
    fn load(cache: &IgnoreCache, dir: BorrowedFd<'_>, marks: Marks) -> Self {
        let file = |there: bool, name: &CStr| there.then(|| cache.file(dir, name)).flatten();
        Self {
            rgignore: file(marks.rgignore, c".rgignore"),
            ignore: file(marks.ignore, c".ignore"),
            gitignore: file(marks.gitignore, c".gitignore"),
            exclude: marks.git.and_then(|kind| exclude(cache, dir, kind)),
        }
    }

    fn is_empty(&self) -> bool {
        self.rgignore.is_none()
            && self.ignore.is_none()
            && self.gitignore.is_none()
            && self.exclude.is_none()
    }
}

/// Returns the rules of `info/exclude` of the repository behind the directory's `.git`.
fn exclude(cache: &IgnoreCache, dir: BorrowedFd<'_>, git: FileKind) -> Option<Arc<Gitignore>> {
    let git = match git {
        FileKind::Directory => open_name(dir, c".git", DIRECTORY_PATH).ok()?,
        FileKind::File => worktree::shared_directory(dir)?,
        FileKind::Symlink | FileKind::Special => return None,
    };
    let info = open_name(git.as_fd(), c"info", DIRECTORY_PATH).ok()?;
    cache.file(info.as_fd(), c"exclude")
}
