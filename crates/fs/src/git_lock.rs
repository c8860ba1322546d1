//! Locks of git: while `index.lock` is in a directory, git does not replace the `index` beside it.
//!
//! A lock that the death of its process left has a known content, by which the next start knows and removes it.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, statat, unlinkat};
use rustix::io::{Errno, write};

use crate::stat::error_of;
use crate::stat::identity_of;
use sinew_tool::FileError;

/// What git appends to the name of a file that it replaces.
const SUFFIX: &str = ".lock";
/// The content of a lock of a restore.
pub const CONTENT: &[u8] = b"sinew restores the file beside this lock\n";

/// A lock of one file, which its drop removes.
#[derive(Debug)]
pub struct GitLock {
    dir: OwnedFd,
    name: CString,
    lock: OwnedFd,
}

/// Returns the path of the lock of a file that git replaces by way of one: an index, `HEAD`, or a reference.
pub fn lock_of(path: &Path) -> Option<PathBuf> {
    let mut names = path.iter().skip_while(|name| *name != ".git").skip(1);
    let name = path.file_name()?;
    let is_single = ["index", "HEAD", "packed-refs"].iter().any(|known| name == *known);
    let is_in_git = names.clone().next().is_some();
    let is_locked = is_in_git && (is_single || names.any(|name| name == "refs"));
    let mut locked = name.to_owned();
    locked.push(SUFFIX);
    is_locked.then(|| path.with_file_name(locked))
}

impl GitLock {
    /// Takes the lock of a name in a directory. Fails with [`FileError::GitAtWork`] if git has it.
    pub fn take(dir: BorrowedFd<'_>, name: &CStr) -> Result<Self, FileError> {
        let name = [name.to_bytes(), SUFFIX.as_bytes()].concat();
        let name = CString::new(name).map_err(|_| FileError::Invalid("holds a NUL"))?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let lock = openat(dir, &*name, flags, Mode::from_raw_mode(0o644));
        let lock = lock.map_err(|errno| match errno {
            Errno::EXIST => FileError::GitAtWork,
            errno => error_of(errno),
        })?;
        let dir = dir.try_clone_to_owned().map_err(FileError::Io)?;
        let taken = Self { dir, name, lock };
        write(&taken.lock, CONTENT).map_err(error_of)?;
        Ok(taken)
    }
}

impl Drop for GitLock {
    fn drop(&mut self) {
        let own = fstat(&self.lock).map(|stat| identity_of(&stat));
        let there = statat(&self.dir, &*self.name, AtFlags::SYMLINK_NOFOLLOW);
        let there = there.map(|stat| identity_of(&stat));
        if own.is_ok() && own == there {
            let _ = unlinkat(self.dir.as_fd(), &*self.name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay out real trees")]
mod tests {
    use std::fs::{self, File};
    use std::process::Command;

    use super::*;

    #[test]
    fn files_that_git_locks_are_known() {
        let check = |path: &str, expected: Option<&str>| {
            assert_eq!(lock_of(Path::new(path)).as_deref(), expected.map(Path::new), "{path}");
        };
        check("/p/.git/index", Some("/p/.git/index.lock"));
        check("/p/.git/HEAD", Some("/p/.git/HEAD.lock"));
        check("/p/.git/packed-refs", Some("/p/.git/packed-refs.lock"));
        check("/p/.git/refs/heads/a.b", Some("/p/.git/refs/heads/a.b.lock"));
        check("/p/.git/worktrees/w/index", Some("/p/.git/worktrees/w/index.lock"));
        check("/p/.git/objects/12/34", None);
        check("/p/.git/logs/HEAD2", None);
        check("/p/index", None);
        check("/p/refs/a", None);
        check("/p/.git", None);
    }

    /// The control: without the lock git writes the index.
    #[test]
    fn git_and_a_lock_keep_each_other_out() {
        let root = tempfile::tempdir().expect("a directory");
        let git = |words: &[&str]| {
            let done = Command::new("git").args(words).current_dir(root.path()).output();
            done.expect("git").status.success()
        };
        assert!(git(&["init", "-q"]));
        fs::write(root.path().join("a"), "a").expect("written");
        let at = root.path().join(".git");
        let dir = File::open(&at).expect("opened");
        let lock = GitLock::take(dir.as_fd(), c"index").expect("the lock");
        assert!(!git(&["add", "a"]), "git went past the lock");
        let second = GitLock::take(dir.as_fd(), c"index");
        assert!(matches!(second, Err(FileError::GitAtWork)), "{second:?}");
        drop(lock);
        assert!(git(&["add", "a"]));
        // What git took meanwhile stays.
        let lock = GitLock::take(dir.as_fd(), c"index").expect("the lock");
        fs::remove_file(at.join("index.lock")).expect("removed");
        fs::write(at.join("index.lock"), "of another").expect("written");
        drop(lock);
        assert!(at.join("index.lock").exists());
    }
}
