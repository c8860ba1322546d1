//! Working directory of each session, which its commands change as in a shell. If it is removed, the session
//! returns to the nearest ancestor that exists, and the next reply says so. Otherwise no command could start,
//! not even `cd`.
#![expect(clippy::disallowed_methods, reason = "the guard may look at the system")]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use sinew_tool::sync::lock;
use sinew_tool::{Moved, WentBack};

/// The working directories of sessions.
#[derive(Debug, Default)]
pub(crate) struct SessionCwds(Mutex<HashMap<String, SessionCwd>>);

#[derive(Debug)]
struct SessionCwd {
    path: PathBuf,
    /// Not yet reported by a reply.
    went_back: Option<WentBack>,
}

impl SessionCwds {
    /// Records where the last command of a session ended, if in a root; returns the next start if it has
    /// changed.
    pub(super) fn ended_in(&self, session: &str, cwd: PathBuf, roots: &[PathBuf]) -> Option<Moved> {
        let mut all = self.lock();
        let before = all.get(session).map(|cwd| &cwd.path).or(roots.first())?;
        if !roots.iter().any(|root| cwd.starts_with(root)) {
            return Some(Moved::Not { outside: cwd, stays: before.clone() });
        }
        let to = cwd.ancestors().find(|dir| fs::metadata(dir).is_ok_and(|meta| meta.is_dir()))?;
        if to != cwd {
            let to = if roots.iter().any(|root| to.starts_with(root)) { to } else { before };
            let went_back = WentBack { removed: cwd.clone(), to: to.to_owned() };
            let path = to.to_owned();
            all.insert(session.to_owned(), SessionCwd { path, went_back: Some(went_back) });
            return None;
        }
        let moved = (*before != cwd).then(|| Moved::To(cwd.clone()));
        let went_back = all.remove(session).and_then(|cwd| cwd.went_back);
        all.insert(session.to_owned(), SessionCwd { path: cwd, went_back });
        moved
    }

    /// Returns where the next command of a session starts: where the last one ended, or the nearest ancestor
    /// that can be entered.
    pub(crate) fn of(&self, session: &str, can_enter: impl Fn(&Path) -> bool) -> Option<PathBuf> {
        let mut all = self.lock();
        let cwd = all.get_mut(session)?;
        if can_enter(&cwd.path) {
            return Some(cwd.path.clone());
        }
        let to = cwd.path.ancestors().find(|dir| can_enter(dir))?.to_owned();
        let removed = std::mem::replace(&mut cwd.path, to.clone());
        let removed = cwd.went_back.take().map_or(removed, |earlier| earlier.removed);
        cwd.went_back = Some(WentBack { removed, to: to.clone() });
        Some(to)
    }

    /// Moves a session above a directory that a command could not enter; returns where it then starts.
    /// Commands have fewer rights than sinew, which may be able to enter.
    pub(super) fn leave(&self, session: &str, cwd: &Path, roots: &[PathBuf]) -> Option<PathBuf> {
        let mut all = self.lock();
        let at = all.get_mut(session).filter(|at| at.path == cwd)?;
        let to = cwd.parent().filter(|to| roots.iter().any(|root| to.starts_with(root)))?;
        let removed = at.went_back.take().map_or(cwd.to_owned(), |earlier| earlier.removed);
        at.path = to.to_owned();
        at.went_back = Some(WentBack { removed, to: to.to_owned() });
        Some(to.to_owned())
    }

    /// Forgets a session.
    pub(super) fn forget(&self, session: &str) {
        self.lock().remove(session);
    }

    /// Returns where a session went back to, unless a reply has reported it.
    pub(super) fn take_went_back(&self, session: &str) -> Option<WentBack> {
        self.lock().get_mut(session)?.went_back.take()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, SessionCwd>> {
        lock(&self.0)
    }
}
