//! Directories whose changes are not kept, since a tool makes them anew: `target`, `node_modules` and others.
//!
//! One counts only if git ignored it and tracked nothing in it when the session began, so that no command can
//! make a directory of the user one of them. Ignore rules are read by a command's supervisor, so they count
//! only in their simplest form, and only from files that are older than the session.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use sinew_fs::git_index;

/// The names of such directories.
const NAMES: &[&str] = &[
    "target",
    "node_modules",
    ".venv",
    "venv",
    "__pycache__",
    ".tox",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".gradle",
    ".next",
    ".nuxt",
    "build",
    "dist",
];
/// Those that people also keep files of their own in.
const SHARED_NAMES: &[&str] = &["build", "dist"];
/// The most bytes of an ignore file or an index that are read.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Returns the outermost directory of such a name that holds a path beneath a root, or is it.
pub(crate) fn named(root: &Path, real: &Path) -> Option<PathBuf> {
    let rest = real.strip_prefix(root).ok()?;
    let n = rest.iter().position(is_named)?;
    Some(root.join(rest.iter().take(n + 1).collect::<PathBuf>()))
}

/// Returns whether a directory of this name is one that tools make anew.
pub(crate) fn is_named(name: &OsStr) -> bool {
    NAMES.iter().any(|known| name == *known)
}

/// Returns whether people may keep files of their own in a directory of such a name.
pub(crate) fn may_hold_own_files(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| SHARED_NAMES.iter().any(|shared| name == *shared))
}

/// Whether changes in each known directory of such a name are not kept.
#[derive(Debug, Default)]
pub(crate) struct RebuiltDirs(HashMap<PathBuf, bool>);

impl RebuiltDirs {
    /// Returns whether changes in a directory of such a name are not kept, and whether that is asked for the first time.
    pub(crate) fn has(
        &mut self,
        root: &Path,
        dir: &Path,
        (began, tracked): (SystemTime, &[PathBuf]),
    ) -> (bool, bool) {
        match self.0.get(dir) {
            Some(known) => (*known, false),
            None => {
                let is_one =
                    is_ignored(root, dir, began) && !tracked.iter().any(|one| dir.starts_with(one));
                self.0.insert(dir.to_owned(), is_one);
                (is_one, true)
            }
        }
    }
}

/// Returns whether git ignored a directory when the session began, as far as simple rules say.
fn is_ignored(root: &Path, dir: &Path, began: SystemTime) -> bool {
    // Above a root that is no repository of its own, other rules may hold.
    if rustix::fs::lstat(root.join(".git/HEAD")).is_err() {
        return false;
    }
    let (Some(above), Some(name)) = (dir.parent(), dir.file_name()) else { return false };
    // A clone of another repository, such as one for pages, is not made anew.
    if rustix::fs::lstat(dir.join(".git")).is_ok() {
        return false;
    }
    let mut is_ignored = false;
    let chain = above.ancestors().take_while(|one| one.starts_with(root));
    for one in chain {
        if one != root && rustix::fs::lstat(one.join(".git")).is_ok() {
            return false;
        }
        let text = match read_old(&one.join(".gitignore"), began) {
            Ok(text) => text,
            Err(Errno::NOENT) => continue,
            Err(_) => return false,
        };
        for line in text.split(|byte| *byte == b'\n') {
            let line = line.trim_ascii_end();
            if line.starts_with(b"!") {
                return false;
            }
            let line = line.strip_suffix(b"/").unwrap_or(line);
            let anywhere = line.strip_prefix(b"**/").unwrap_or(line);
            let here = line.strip_prefix(b"/").filter(|_| one == above);
            is_ignored |= anywhere == name.as_bytes() || here == Some(name.as_bytes());
        }
    }
    is_ignored
}

/// Reads a file that did not change since the session began.
fn read_old(path: &Path, began: SystemTime) -> Result<Vec<u8>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty())?;
    let stat = fstat(&file)?;
    let seconds = Duration::from_secs(u64::try_from(stat.st_ctime).unwrap_or(0));
    if began < SystemTime::UNIX_EPOCH + seconds + Duration::from_secs(1) {
        return Err(Errno::STALE);
    }
    let mut text = Vec::new();
    File::from(file).take(MAX_BYTES).read_to_end(&mut text).map_err(|_| Errno::IO)?;
    Ok(text)
}

/// Returns the directories of such names in which the repository of a root tracks files; the root itself if its index cannot
/// be read, so that all count as tracked.
pub(crate) fn tracked(root: &Path) -> Vec<PathBuf> {
    if rustix::fs::lstat(root.join(".git/HEAD")).is_err() {
        return vec![root.to_owned()];
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(CWD, root.join(".git/index"), flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::NOTDIR) => return Vec::new(),
        Err(_) => return vec![root.to_owned()],
    };
    let mut index = Vec::new();
    let is_read = File::from(file).take(MAX_BYTES).read_to_end(&mut index).is_ok();
    let Some(entries) = git_index::entries(&index).filter(|_| is_read) else {
        return vec![root.to_owned()];
    };
    let paths = entries.into_iter().map(|entry| root.join(OsStr::from_bytes(entry.path)));
    let mut found: Vec<_> = paths.filter_map(|path| named(root, &path)).collect();
    found.dedup();
    found
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay out real trees")]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    fn git(root: &Path, words: &[&str]) {
        let done = Command::new("git").args(words).current_dir(root).output().expect("git");
        assert!(done.status.success(), "{done:?}");
    }

    #[test]
    fn a_directory_counts_only_if_it_was_ignored_and_untracked() {
        let check = |ignores: &str, tracks: &[&str], dir: &str, changes: bool, expected: bool| {
            let root = tempfile::tempdir().expect("a directory");
            let root = fs::canonicalize(root.path()).expect("a path");
            fs::create_dir_all(&root).expect("a root");
            git(&root, &["init", "-q"]);
            for path in tracks {
                let path = root.join(path);
                fs::create_dir_all(path.parent().expect("a directory")).expect("made");
                fs::write(&path, "x").expect("written");
            }
            if !tracks.is_empty() {
                git(&root, &["add", "-A"]);
            }
            fs::write(root.join(".gitignore"), ignores).expect("written");
            let later = Duration::from_secs(if changes { 0 } else { 3_600 });
            let began = SystemTime::now() + later;
            let dir = named(&root, &root.join(dir)).expect("a directory of such a name");
            let known = RebuiltDirs::default().has(&root, &dir, (began, &tracked(&root)));
            assert_eq!(known, (expected, true), "{ignores:?} {tracks:?} {dir:?}");
        };
        check("/target\n", &["src/main.rs"], "target/debug/x", false, true);
        check("node_modules/\n*.log\n", &["a"], "web/node_modules/b/node_modules/c", false, true);
        check("**/build\r\n", &[], "a/build/x", false, true);
        check("target\n", &["target/kept"], "target/debug/x", false, false);
        check("target\n", &["a/target/kept", "b"], "a/target/x", false, false);
        check("target\n!target/kept\n", &["a"], "target/x", false, false);
        check("/target\n", &["a"], "sub/target/x", false, false);
        check("*.o\n", &["a"], "target/x", false, false);
        // What became ignored in the session does not count.
        check("target\n", &["a"], "target/x", true, false);
    }

    #[test]
    fn an_index_that_is_not_read_tracks_all() {
        let root = tempfile::tempdir().expect("a directory");
        git(root.path(), &["init", "-q"]);
        assert_eq!(tracked(root.path()), Vec::<PathBuf>::new());
        fs::write(root.path().join(".git/index"), "DIRC").expect("written");
        assert_eq!(tracked(root.path()), [root.path()]);
        for n in 0..200 {
            let name = format!("{}{n}", "long/".repeat(n % 9));
            fs::create_dir_all(root.path().join(&name).parent().expect("above")).expect("made");
            fs::write(root.path().join(&name), "x").expect("written");
        }
        fs::create_dir(root.path().join("dist")).expect("made");
        fs::write(root.path().join("dist/x"), "x").expect("written");
        fs::remove_file(root.path().join(".git/index")).expect("removed");
        git(root.path(), &["add", "-A"]);
        assert_eq!(tracked(root.path()), [root.path().join("dist")]);
    }
}
