//! Private directories, such as the home directory: commands see only the roots and what is shown of them.
//!
//! What is shown by default is found by names that commands cannot change: a path that passes a symlink in a root, or leads
//! to a whole private directory, is left out. Only the settings show such a directory.
#![expect(clippy::disallowed_methods, reason = "the guard may look at the system")]

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Component, Path, PathBuf};

use sinew_fs::worktree;

use super::{CommandSettings, Commands, real_or_same, rebuilt_dirs};

/// The private directories of commands, and what they see in them.
#[derive(Debug, Clone, Default)]
pub(super) struct PrivateView {
    /// The directories, by real path. None is in another, and no root contains one.
    pub(super) dirs: Vec<PathBuf>,
    /// Existing files and directories in them that commands may read, by real path. None is in another.
    pub(super) shown: Vec<PathBuf>,
    /// Symlinks in them on the way to what is shown, each with its target.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// Caches of tools that commands may change for themselves, by real path. None is in another or in a root, or holds one.
    pub(super) caches: Vec<PathBuf>,
}

impl PrivateView {
    /// Looks at the directories of the settings and at what is shown of them.
    pub(super) fn new(settings: &CommandSettings, roots: &[PathBuf]) -> Self {
        let named: Vec<PathBuf> = settings.shown_by_settings.iter().filter_map(real_path).collect();
        let private = settings.private.iter().chain(&settings.homes);
        let private: Vec<PathBuf> = private.filter_map(real_directory).collect();
        let is_seen = |dir: &PathBuf| roots.iter().chain(&named).any(|seen| dir.starts_with(seen));
        let is_whole = |dir: &PathBuf| !is_seen(dir) && dir.parent().is_some();
        let dirs = outermost(private.iter().filter(|dir| is_whole(dir)).cloned().collect());
        let is_private = |path: &Path| dirs.iter().any(|dir| path.starts_with(dir));
        let is_in_root = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        let holds_private = |path: &Path| private.iter().any(|dir| dir.starts_with(path));
        let mut links = Vec::new();
        let mut trusted = |path: &PathBuf| {
            let trace = Trace::of(path).filter(|trace| !trace.passes(path, roots))?;
            links.extend(trace.links);
            Some(trace.real)
        };
        let mut shown: Vec<PathBuf> = Vec::new();
        let by_default = settings.shown.iter().filter_map(&mut trusted);
        shown.extend(by_default.filter(|real| !holds_private(real)));
        let caches = settings.caches.iter().filter_map(&mut trusted);
        let caches = caches.filter(|real| real.is_dir() && !is_in_root(real));
        let caches = outermost(caches.filter(|real| !holds_private(real)).collect());
        shown.extend(caches.iter().cloned());
        // A command could move what is above the root there, so that rules by path would miss it.
        let holds_root = |cache: &PathBuf| roots.iter().any(|root| root.starts_with(cache));
        let caches = caches.into_iter().filter(|cache| !holds_root(cache)).collect();
        shown.extend(settings.shown_by_settings.iter().filter_map(&mut trusted));
        shown.extend(roots.iter().flat_map(|root| around(root)).filter(|dir| !holds_private(dir)));
        // Programs find their files by the home directory as it is written.
        settings.homes.iter().for_each(|home| drop(trusted(home)));
        let shown = outermost(shown.into_iter().filter(|path| is_private(path)).collect());
        links.retain(|(link, _)| {
            is_private(link) && !shown.iter().chain(roots).any(|seen| link.starts_with(seen))
        });
        links.sort();
        links.dedup();
        Self { dirs, shown, links, caches }
    }

    /// Returns a view without private directories.
    pub(super) fn without_directories(&self) -> Self {
        Self { caches: self.caches.clone(), ..Self::default() }
    }

    /// Returns whether commands do not see a path because it is private. Symlinks are not followed.
    pub(super) fn conceals(&self, path: &Path, roots: &[PathBuf]) -> bool {
        let within = |dirs: &[PathBuf]| dirs.iter().any(|dir| path.starts_with(dir));
        within(&self.dirs)
            && !within(&self.shown)
            && !within(roots)
            && !self.links.iter().any(|(link, _)| path.starts_with(link))
    }
}

/// A path that was followed.
struct Trace {
    real: PathBuf,
    /// The symlinks on the way, by the real path of their directory, each with its target.
    links: Vec<(PathBuf, PathBuf)>,
}

impl Trace {
    /// The most symlinks in one path, as in the kernel.
    const MAX_LINKS: usize = 40;

    /// Returns whether the way leads through a root, where commands could change it.
    fn passes(&self, written: &Path, roots: &[PathBuf]) -> bool {
        let is_in_root = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        is_in_root(written) || self.links.iter().any(|(link, _)| is_in_root(link))
    }

    /// Follows an absolute path; `None` if it leads nowhere.
    fn of(path: &Path) -> Option<Self> {
        let mut trace = Self { real: PathBuf::from("/"), links: Vec::new() };
        let names = |path: &Path| -> VecDeque<Option<OsString>> {
            let name = |component| match component {
                Component::Normal(name) => Some(Some(name.to_owned())),
                Component::ParentDir => Some(None),
                _ => None,
            };
            path.components().filter_map(name).collect()
        };
        let mut left = names(path);
        while let Some(name) = left.pop_front() {
            let Some(name) = name else {
                trace.real.pop();
                continue;
            };
            let next = trace.real.join(name);
            if !fs::symlink_metadata(&next).ok()?.is_symlink() {
                trace.real = next;
                continue;
            }
            let target = fs::read_link(&next).ok()?;
            if target.is_absolute() {
                trace.real = PathBuf::from("/");
            }
            let mut further = names(&target);
            further.append(&mut left);
            left = further;
            trace.links.push((next, target));
            if Self::MAX_LINKS < trace.links.len() {
                return None;
            }
        }
        Some(trace)
    }
}

/// Returns the real path of something that exists, if commands cannot choose what is there: it is outside the roots, and so is
/// the way.
pub(super) fn real_outside(path: &Path, roots: &[PathBuf]) -> Option<PathBuf> {
    let roots: Vec<PathBuf> = roots.iter().map(|root| real_or_same(root)).collect();
    let trace = Trace::of(path).filter(|trace| !trace.passes(path, &roots))?;
    (!roots.iter().any(|root| trace.real.starts_with(root))).then_some(trace.real)
}

/// Returns the repository around a root, and the directory that a linked worktree of git shares with its repository, both by
/// real path: tools look for files there.
fn around(root: &Path) -> Vec<PathBuf> {
    let top = root.ancestors().find(|dir| fs::symlink_metadata(dir.join(".git")).is_ok());
    let Some(top) = top else { return Vec::new() };
    let shared = File::open(top).ok().and_then(|dir| worktree::shared_directory(dir.as_fd()));
    let shared =
        shared.and_then(|dir| fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd())).ok());
    [top.to_owned()].into_iter().chain(shared).collect()
}

/// Directories of the system that hold programs, what they are made of, and its configuration.
const OF_SYSTEM: &[&str] = &[
    "/etc",
    "/usr",
    "/opt",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/gnu/store",
    "/snap",
];

/// Directories of toolchains and of the sources of packages in a home directory.
const OF_PACKAGES: &[&str] = &[
    ".cargo/registry/src",
    ".cargo/git/checkouts",
    ".rustup/toolchains",
    "go/pkg/mod",
    ".pyenv/versions",
    ".local/share/uv/python",
    ".local/share/pipx/venvs",
    ".local/lib",
    ".nvm/versions",
    ".volta/tools",
    ".bun/install/cache",
    ".local/share/pnpm/store",
    ".m2/repository",
    ".gradle/caches",
    ".nuget/packages",
    ".pub-cache/hosted",
    ".rbenv/versions",
    ".gem/ruby",
    ".julia/packages",
    ".sdkman/candidates",
];

/// Further directories of the system, with what its programs and services keep.
const OF_SERVICES: &[&str] = &[
    "/boot",
    "/efi",
    "/lost+found",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/var/mail",
    "/var/spool",
];

impl Commands {
    /// Returns whether a real path is or is beneath something hidden from commands (`true`), or contains some of that
    /// (`false`).
    pub fn hidden_at(&self, real: &Path) -> Option<bool> {
        let hidden = self.settings.hidden.iter();
        let hidden: Vec<PathBuf> = hidden.map(|path| with_real_ancestor(path)).collect();
        if hidden.iter().any(|hidden| real.starts_with(hidden)) {
            return Some(true);
        }
        hidden.iter().any(|hidden| hidden.starts_with(real)).then_some(false)
    }

    /// Returns whether a real path that is not hidden is among files of the system, toolchains and sources of packages.
    pub fn is_free_to_read(&self, real: &Path) -> bool {
        let within = |dir: &Path| real.starts_with(dir);
        let (homes, roots) = (&self.settings.homes, &self.writable);
        let is_private = self.private().dirs.iter().any(|dir| within(dir))
            || homes.iter().any(|home| within(home) || within(&real_or_same(home)));
        if !is_private {
            return OF_SYSTEM.iter().any(|dir| within(Path::new(dir)));
        }
        let named = homes.iter().flat_map(|home| OF_PACKAGES.iter().map(|name| home.join(name)));
        named.filter_map(|dir| real_outside(&dir, roots)).any(|dir| within(&dir))
    }

    /// Returns whether a real path outside the roots is among files of programs: those of the system, its services and toolchains, and those
    /// beneath a directory that tools make anew or one whose name begins with a dot. Directories above a root or a home directory
    /// do not count.
    pub fn is_of_programs(&self, real: &Path) -> bool {
        let (homes, roots) = (&self.settings.homes, &self.writable);
        let n_shared = |other: &Path| {
            real.iter().zip(other.iter()).take_while(|(one, other)| one == other).count()
        };
        let homes_too = homes.iter().map(|home| real_or_same(home));
        let n_above = homes_too.chain(roots.iter().cloned()).map(|dir| n_shared(&dir)).max();
        let is_of_tools = |name: &OsStr| {
            name.as_encoded_bytes().starts_with(b".") || rebuilt_dirs::is_named(name)
        };
        let mut shown = self.settings.shown.iter().filter_map(|path| real_outside(path, roots));
        self.is_free_to_read(real)
            || OF_SERVICES.iter().any(|dir| real.starts_with(dir))
            || real.iter().skip(n_above.unwrap_or(0)).any(is_of_tools)
            || shown.any(|dir| real.starts_with(dir))
    }
}

/// Returns the paths without those in another, sorted.
fn outermost(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths.dedup_by(|later, earlier| later.starts_with(earlier));
    paths
}

/// Resolves the deepest ancestor that is there, and keeps the rest.
fn with_real_ancestor(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)));
    let Some((above, real)) = found else { return path.to_owned() };
    match path.strip_prefix(above) {
        Ok(rest) if rest.as_os_str().is_empty() => real,
        Ok(rest) => real.join(rest),
        Err(_) => real,
    }
}

fn real_path(path: &PathBuf) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

fn real_directory(path: &PathBuf) -> Option<PathBuf> {
    real_path(path).filter(|path| path.is_dir())
}

#[cfg(test)]
mod tests;
