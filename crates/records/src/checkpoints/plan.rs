//! The plan of a restore: what has to be done at each path so that it is again as it was before a
//! checkpoint, and what stands against it.
//!
//! A [`History`] is read from the index and names the paths. The caller looks at each of them, on
//! handles and under the rules of a call, and the plan is worked out from both without looking at
//! anything itself. Nothing here changes a file: a restore runs later as ordinary changes, with a
//! checkpoint of its own, and so can be undone like any other.
//!
//! A path stands against a restore where somebody else changed it: where it is not as the last change
//! of the session left it, or where a change of the session found it otherwise than the one before had
//! left it. Such a step is refused unless it is forced, and where it would remove or replace what no
//! change of the session can have put there, it is refused in any case.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::index::Change;
use super::{CheckpointId, Entry, PathState};

/// How much a restore undoes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// The checkpoint and all later ones of its session.
    #[default]
    Since,
    /// The paths of the checkpoint alone, with what later calls of its session did to them.
    Only,
}

/// What happened to the paths of a restore since its checkpoint.
#[derive(Debug, Clone)]
pub struct History {
    id: CheckpointId,
    session: String,
    /// The changes of each path by any session, the oldest first. The first of the session is there
    /// for each path.
    paths: BTreeMap<PathBuf, Vec<Change>>,
}

/// What has to be done so that everything is as it was before a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The checkpoint.
    pub id: CheckpointId,
    /// The session whose changes are undone.
    pub session: String,
    /// The checkpoints that are undone, the oldest first.
    pub undone: Vec<CheckpointId>,
    /// What is done, in the order in which it can be done: what is in the way goes first.
    pub steps: Vec<PlannedStep>,
}

/// One step of a restore, at one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStep {
    /// The real path, as it was when the change was made.
    pub path: PathBuf,
    /// What is done.
    pub act: Act,
    /// What is there after it, or after the last step at this path.
    pub wanted: PathState,
    /// What the last change of the session left there, or was to leave; `None` where nobody said.
    pub expected: Option<PathState>,
    /// What the plan found there. If something else is there before the first step at this path, no
    /// step at it is done.
    pub now: PathState,
    /// What stands against it.
    pub conflict: Option<Conflict>,
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// Removes a file or a link.
    Remove,
    /// Removes a directory if nothing is in it, and else leaves it.
    RemoveDirectory,
    /// Makes a directory.
    MakeDirectory,
    /// Writes the kept content, with its mode.
    Write,
    /// Sets the mode of a file whose content is right.
    SetMode,
    /// Makes a symbolic link.
    MakeLink,
    /// Nothing: it is as it was.
    Nothing,
}

/// Why a step is not done, or only where it is forced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conflict {
    /// Somebody else changed the path after a change of the session.
    Changed {
        /// The last change of the session before that.
        after: CheckpointId,
        /// Who it was.
        by: Changer,
    },
    /// Something is there that no change of the session can have put there, and that a restore would
    /// take away. It is never forced.
    Foreign,
    /// The content was not kept, because it was too large. Nothing can force it.
    NotKept,
}

/// Who changed a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changer {
    /// A call of another session, by its checkpoint.
    Session {
        /// The session.
        session: String,
        /// Its checkpoint.
        id: CheckpointId,
    },
    /// A person, another program, or a command.
    Unknown,
}

impl Conflict {
    /// Returns whether the step can be forced.
    pub fn can_be_forced(&self) -> bool {
        match self {
            Self::Changed { .. } => true,
            Self::Foreign | Self::NotKept => false,
        }
    }
}

impl Plan {
    /// Returns the steps that stand against the restore, where it is forced or not.
    pub fn refused(&self, forced: bool) -> impl Iterator<Item = &PlannedStep> {
        self.steps.iter().filter(move |step| match &step.conflict {
            Some(conflict) => !(forced && conflict.can_be_forced()),
            None => false,
        })
    }

    /// Returns the steps that do something.
    pub fn changes(&self) -> impl Iterator<Item = &PlannedStep> {
        self.steps.iter().filter(|step| step.act != Act::Nothing)
    }
}

impl History {
    /// Returns the history of a checkpoint of a session, without the changes.
    pub(super) fn new(id: CheckpointId, session: String) -> Self {
        Self { id, session, paths: BTreeMap::new() }
    }

    /// Adds the next change, if it is part of what a restore undoes or of what happened after that.
    pub(super) fn add(&mut self, change: Change, scope: Scope) {
        let own = change.session == self.session;
        let begins = own && (scope == Scope::Since || change.id == self.id);
        match self.paths.get_mut(&change.entry.path) {
            Some(known) => known.push(change),
            None if begins => {
                self.paths.insert(change.entry.path.clone(), vec![change]);
            }
            // What others did before the session came is no part of it.
            None => {}
        }
    }

    /// Returns the paths that have to be looked at.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.keys().map(PathBuf::as_path)
    }

    /// Leaves out the paths that are not wanted, for a restore of single ones.
    pub fn retain(&mut self, mut wanted: impl FnMut(&Path) -> bool) {
        self.paths.retain(|path, _| wanted(path));
    }

    /// Works out the plan. `look` tells what is at a path now.
    pub fn plan<E>(&self, mut look: impl FnMut(&Path) -> Result<PathState, E>) -> Result<Plan, E> {
        let mut steps = Vec::with_capacity(self.paths.len());
        let mut undone = BTreeSet::new();
        for (path, changes) in &self.paths {
            let chain = Chain::of(changes, &self.session);
            undone.extend(chain.own.iter().map(|change| change.id));
            let now = look(path)?;
            steps.extend(chain.steps(path, &now));
        }
        steps.sort_by(|one, other| one.rank().cmp(&other.rank()));
        let undone = undone.into_iter().collect();
        Ok(Plan { id: self.id, session: self.session.clone(), undone, steps })
    }
}

impl PlannedStep {
    /// What is in the way goes first, the deepest first; what is needed comes next, the deepest last.
    fn rank(&self) -> (Act, isize, &Path) {
        let depth = isize::try_from(self.path.components().count()).unwrap_or(isize::MAX);
        let depth = match self.act {
            Act::Remove | Act::RemoveDirectory => -depth,
            _ => depth,
        };
        (self.act, depth, &self.path)
    }
}

/// The changes of one path.
struct Chain<'a> {
    /// Those of the session, of which there is one at least.
    own: Vec<&'a Change>,
    others: Vec<&'a Change>,
}

impl<'a> Chain<'a> {
    fn of(changes: &'a [Change], session: &str) -> Self {
        let (own, others) = changes.iter().partition(|change| change.session == session);
        Self { own, others }
    }

    /// Returns what has to be done at the path.
    fn steps(&self, path: &Path, now: &PathState) -> Vec<PlannedStep> {
        let Some(wanted) = self.own.first().map(|first| &first.entry.before) else {
            return Vec::new();
        };
        let step = |act, conflict| PlannedStep {
            path: path.to_owned(),
            act,
            wanted: wanted.clone(),
            expected: self.own.last().and_then(|last| last.entry.after.clone()),
            now: now.clone(),
            conflict,
        };
        if wanted.is_same(now) {
            return vec![step(Act::Nothing, None)];
        }
        if matches!(wanted, PathState::Unkept { .. } | PathState::Special) {
            return vec![step(Act::Nothing, Some(Conflict::NotKept))];
        }
        let conflict = self.change_by_others(now);
        let put = match (wanted, now) {
            (PathState::Absent, _) => None,
            (PathState::Link(_), _) => Some(Act::MakeLink),
            (PathState::Directory { .. }, _) => Some(Act::MakeDirectory),
            (PathState::File { content, .. }, PathState::File { content: there, .. })
                if content == there =>
            {
                Some(Act::SetMode)
            }
            _ => Some(Act::Write),
        };
        let clear = match (now, put) {
            (PathState::Absent, _) => None,
            (PathState::Directory { .. }, _) => Some(Act::RemoveDirectory),
            (_, None | Some(Act::MakeDirectory)) => Some(Act::Remove),
            // A file or link takes the place of another in one step.
            _ => None,
        };
        if !self.may_take_away(now, wanted, clear) {
            return vec![step(Act::Nothing, Some(Conflict::Foreign))];
        }
        clear.into_iter().chain(put).map(|act| step(act, conflict.clone())).collect()
    }

    /// Returns whether a restore may take away what is there. What it removes is what a change left
    /// there, of this session or another, or may have left. What it replaces is of the kind that a
    /// change of the session left, or of the kind that comes back.
    fn may_take_away(&self, now: &PathState, wanted: &PathState, clear: Option<Act>) -> bool {
        let left = |change: &&Change, is: fn(&PathState, &PathState) -> bool| {
            left_by(&change.entry).any(|left| is(left, now))
        };
        match (now, clear) {
            (PathState::Absent, _) => true,
            (PathState::Special, _) => false,
            (_, Some(Act::Remove)) => self
                .own
                .iter()
                .chain(&self.others)
                .any(|change| left(change, PathState::is_same_content)),
            _ => {
                now.is_same_kind(wanted)
                    || self.own.iter().any(|change| left(change, PathState::is_same_kind))
            }
        }
    }

    /// Returns who changed the path after a change of the session, if anybody did.
    fn change_by_others(&self, now: &PathState) -> Option<Conflict> {
        let next = self.own.iter().skip(1).map(|next| (&next.entry.before, Some(next.id)));
        for (change, (found, until)) in self.own.iter().zip(next.chain([(now, None)])) {
            if left_by(&change.entry).any(|left| left.is_same(found)) {
                continue;
            }
            let after = change.id;
            let between =
                |other: &&&Change| after < other.id && until.is_none_or(|until| other.id < until);
            let by = match self.others.iter().rfind(between) {
                Some(other) => Changer::Session { session: other.session.clone(), id: other.id },
                None => Changer::Unknown,
            };
            return Some(Conflict::Changed { after, by });
        }
        None
    }
}

/// Returns what a change may have left: of one that is not settled, what was there before too.
fn left_by(entry: &Entry) -> impl Iterator<Item = &PathState> {
    let before = (!entry.settled).then_some(&entry.before);
    entry.after.iter().chain(before)
}
