//! Files of git in a restore: their locks are git's own, and an index that git wrote anew counts as unchanged.
//!
//! An editor asks git for changes every few seconds, and git writes its index then. So an index is bound to its entries, not to
//! its bytes, and from the comparison to the end of the restore its lock keeps git away.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use sinew_fs::git_index;
use sinew_fs::git_lock::{GitLock, lock_of};
use sinew_fs::resolve::{Place, Spot};
use sinew_fs::roots::{FILE_READ, open_name};
use sinew_fs::stat::error_of;
use sinew_tool::sync::lock;
use sinew_tool::{ContentHash, FileError, Identity, RestoreAct, RestorePlan};

/// The largest index of git that is compared by its entries, in bytes.
const MAX_INDEX: u64 = 64 << 20;

/// The files of git that one restore changes.
#[derive(Debug, Default)]
pub(crate) struct GitFiles {
    /// The meaning of each index when the plan was made.
    meanings: HashMap<PathBuf, ContentHash>,
    /// Files whose locks are taken.
    locked: HashSet<PathBuf>,
    taken: Mutex<HashMap<PathBuf, GitLock>>,
}

impl GitFiles {
    /// Returns the files of git that a plan changes. A directory that it removes gets no lock, which would keep it. A lock that
    /// it removes was left by a command that died, and keeps git away until then.
    pub(super) fn of(plan: &RestorePlan, meanings: HashMap<PathBuf, ContentHash>) -> Self {
        let removed: HashSet<&Path> = plan
            .acting()
            .filter(|step| step.act == RestoreAct::RemoveDirectory)
            .map(|step| step.path.as_path())
            .collect();
        let stays = |path: &&Path| !path.ancestors().skip(1).any(|parent| removed.contains(parent));
        let acting: HashSet<&Path> = plan.acting().map(|step| step.path.as_path()).collect();
        let is_free =
            |path: &&Path| lock_of(path).is_some_and(|lock| !acting.contains(lock.as_path()));
        let locked = acting.iter().copied().filter(is_free).filter(stays);
        Self { meanings, locked: locked.map(Path::to_owned).collect(), taken: Mutex::default() }
    }

    /// Returns the paths of the locks that may be left if the process dies.
    pub(crate) fn locks(&self) -> impl Iterator<Item = PathBuf> {
        self.locked.iter().filter_map(|path| lock_of(path))
    }

    /// Takes the locks of places until the restore ends; takes none of them if git has one.
    pub(crate) fn take<'a>(
        &self,
        places: impl Iterator<Item = &'a Place>,
    ) -> Result<(), (&'a Place, FileError)> {
        let mut taken = lock(&self.taken);
        let mut new = HashMap::new();
        for place in places {
            let is_free = || !taken.contains_key(&place.real) && !new.contains_key(&place.real);
            // Where the directory is not there yet, git is not at work in it.
            if let (true, Some(name), Ok(dir)) =
                (self.locked.contains(&place.real) && is_free(), &place.name, place.parent())
            {
                let lock = GitLock::take(dir.as_fd(), name).map_err(|error| (place, error))?;
                new.insert(place.real.clone(), lock);
            }
        }
        taken.extend(new);
        Ok(())
    }

    /// Returns the identity of an index that git wrote anew since the plan, with the same entries.
    pub(crate) fn same_index(&self, place: &Place) -> Option<Identity> {
        let planned = self.meanings.get(&place.real)?;
        let identity = place.meta_now().ok()?.identity;
        let is_same = meaning(place).ok()?.as_ref() == Some(planned);
        // It was read between two looks.
        (is_same && place.meta_now().ok()?.identity == identity).then_some(identity)
    }
}

/// Returns what the index at a place means; `None` if there is no index.
pub(super) fn meaning(place: &Place) -> Result<Option<ContentHash>, FileError> {
    let (Spot::Found(_), Some(name)) = (&place.spot, &place.name) else { return Ok(None) };
    if !git_index::is_index(&place.real) {
        return Ok(None);
    }
    let file = open_name(place.parent()?.as_fd(), name, FILE_READ).map_err(error_of)?;
    meaning_of(&File::from(file))
}

/// Returns what an open index means; `None` if it is too large.
pub(super) fn meaning_of(file: &File) -> Result<Option<ContentHash>, FileError> {
    let mut index = Vec::new();
    file.take(MAX_INDEX + 1).read_to_end(&mut index).map_err(FileError::Io)?;
    let is_whole = index.len() as u64 <= MAX_INDEX;
    Ok(if is_whole { git_index::meaning(&index) } else { None })
}
