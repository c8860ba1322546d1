//! The plan of a restore: the steps back to the states before a checkpoint, and their conflicts.
//!
//! A [`History`] from the index names the paths. The caller looks at each path on handles, under the rules of
//! a call, and the plan combines both. Ordinary changes carry it out, with a checkpoint that can be undone.
//!
//! A path conflicts if it is not as the session's last change left it, or changed between two of its changes.
//! Force overrides such a conflict. Nothing overrides [`Conflict::Foreign`]: the restore would remove or
//! replace a file that the session cannot have made.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::index::Change;
use super::{CheckpointId, Entry, PathState};
use sinew_fs::undo_log::is_git_object;

/// The extent of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// The checkpoint and all later ones of its session.
    #[default]
    Since,
    /// Only the paths of the checkpoint, with later changes of its session.
    Only,
}

/// The changes of a restore's paths since its checkpoint.
#[derive(Debug, Clone)]
pub struct History {
    id: CheckpointId,
    session: String,
    /// The changes of each path by all sessions, the oldest first. The session's first one is included.
    paths: BTreeMap<PathBuf, Vec<Change>>,
}

/// The steps that restore the states before a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The checkpoint.
    pub id: CheckpointId,
    /// The session whose changes are undone.
    pub session: String,
    /// The undone checkpoints, the oldest first.
    pub undone: Vec<CheckpointId>,
    /// The steps in order: entries in the way go first.
    pub steps: Vec<PlannedStep>,
}

/// One step of a restore, at one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStep {
    /// The real path at the time of the change.
    pub path: PathBuf,
    /// The action.
    pub act: Act,
    /// The state after the last step at this path.
    pub wanted: PathState,
    /// The state that the session's last change left or planned; `None` if unknown.
    pub expected: Option<PathState>,
    /// The state that the plan found. The steps at this path are skipped if it has changed since.
    pub now: PathState,
    /// The conflict, if any.
    pub conflict: Option<Conflict>,
}

/// The action of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// Moves a directory that tools make anew out of the way.
    SetAside,
    /// Removes a file or a symlink.
    Remove,
    /// Removes a directory if it is empty, else leaves it.
    RemoveDirectory,
    /// Makes a directory.
    MakeDirectory,
    /// Moves a directory that was set aside back.
    BringBack,
    /// Writes the kept content, with its mode.
    Write,
    /// Sets the mode of a file whose content matches, or of a directory.
    SetMode,
    /// Makes a symbolic link.
    MakeLink,
    /// Nothing: the path is as before.
    Nothing,
}

/// Why a step is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conflict {
    /// Another author changed the path after a change of the session.
    Changed {
        /// The session's last change before that.
        after: CheckpointId,
        /// The author of the change.
        by: Changer,
    },
    /// The restore would remove an entry that no change of the session can have made. Never forced.
    Foreign,
    /// The content was too large to keep. Never forced.
    NotKept,
}

/// The author of a foreign change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changer {
    /// A call of another session, by its checkpoint.
    Session {
        /// The session.
        session: String,
        /// Its checkpoint.
        id: CheckpointId,
    },
    /// The user, another program, or a command.
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
    /// Returns the steps that the restore refuses, with or without force.
    pub fn refused(&self, forced: bool) -> impl Iterator<Item = &PlannedStep> {
        self.steps.iter().filter(move |step| match &step.conflict {
            Some(conflict) => !(forced && conflict.can_be_forced()),
            None => false,
        })
    }

    /// Returns the steps that change a file.
    pub fn changes(&self) -> impl Iterator<Item = &PlannedStep> {
        self.steps.iter().filter(|step| step.act != Act::Nothing)
    }
}

impl History {
    /// Returns the history of a checkpoint without changes.
    pub(super) fn new(id: CheckpointId, session: String) -> Self {
        Self { id, session, paths: BTreeMap::new() }
    }

    /// Adds the next change, if the restore undoes it or it came later.
    pub(super) fn add(&mut self, change: Change, scope: Scope) {
        let own = change.session == self.session;
        let begins = own && (scope == Scope::Since || change.id == self.id);
        match self.paths.get_mut(&change.entry.path) {
            Some(known) => known.push(change),
            None if begins => {
                self.paths.insert(change.entry.path.clone(), vec![change]);
            }
            // Changes of other sessions before the first own one do not count.
            None => {}
        }
    }

    /// Returns the paths that the caller has to look at.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.keys().map(PathBuf::as_path)
    }

    /// Retains only the wanted paths, for a partial restore.
    pub fn retain(&mut self, mut wanted: impl FnMut(&Path) -> bool) {
        self.paths.retain(|path, _| wanted(path));
    }

    /// Returns the plan. `look` returns the current state of a path.
    pub fn plan<E>(&self, look: impl FnMut(&Path) -> Result<PathState, E>) -> Result<Plan, E> {
        self.plan_by(look, |_, _, _| false)
    }

    /// Returns the plan like [`History::plan`]. `means_same` returns whether two states of a path that differ are the
    /// same to its user.
    pub fn plan_by<E>(
        &self,
        mut look: impl FnMut(&Path) -> Result<PathState, E>,
        means_same: impl Fn(&Path, &PathState, &PathState) -> bool,
    ) -> Result<Plan, E> {
        let mut steps = Vec::with_capacity(self.paths.len());
        let mut undone = BTreeSet::new();
        // The directory that tools make anew that was met last, in the order of paths.
        let mut rebuilt: Option<(&Path, CheckpointId)> = None;
        for (path, changes) in &self.paths {
            let chain = Chain::of(changes, &self.session);
            let now = look(path)?;
            let first = chain.own.first().map(|first| first.id);
            let is_beneath = rebuilt.is_some_and(|(dir, _)| path.starts_with(dir));
            if is_beneath && rebuilt.is_some_and(|(_, since)| Some(since) <= first) {
                continue;
            }
            undone.extend(chain.own.iter().map(|change| change.id));
            if let Some(since) = chain.covers_since(&now).filter(|_| !is_beneath) {
                rebuilt = Some((path, since));
            }
            steps.extend(chain.steps(path, &now, &|one, other| means_same(path, one, other)));
        }
        steps.sort_by(|one, other| one.rank().cmp(&other.rank()));
        let undone = undone.into_iter().collect();
        Ok(Plan { id: self.id, session: self.session.clone(), undone, steps })
    }
}

impl PlannedStep {
    /// Sorts removals first, the deepest first; then creations, the deepest last.
    fn rank(&self) -> (Act, isize, &Path) {
        let depth = isize::try_from(self.path.components().count()).unwrap_or(isize::MAX);
        let depth = match self.act {
            Act::SetAside | Act::Remove | Act::RemoveDirectory => -depth,
            _ => depth,
        };
        (self.act, depth, &self.path)
    }
}

struct Chain<'a> {
    /// Changes of the session, at least one.
    own: Vec<&'a Change>,
    others: Vec<&'a Change>,
}

impl<'a> Chain<'a> {
    fn of(changes: &'a [Change], session: &str) -> Self {
        let (own, others) = changes.iter().partition(|change| change.session == session);
        Self { own, others }
    }

    /// Returns the steps for the path.
    fn steps(
        &self,
        path: &Path,
        now: &PathState,
        means_same: &dyn Fn(&PathState, &PathState) -> bool,
    ) -> Vec<PlannedStep> {
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
        let rebuilt = self.step_of_rebuilt(now);
        if let Some((act, seen)) = &rebuilt {
            let now = seen;
            let is_of_dir = |state: &PathState| {
                matches!(state, PathState::Absent | PathState::Rebuilt | PathState::SetAside(_))
            };
            // The entry of a restore that put a file in the place of the directory does not say where that moved.
            let first = self.own.first().and_then(|first| first.entry.after.as_ref());
            let is_lost = *wanted == PathState::Rebuilt
                && first.is_some_and(|left| !is_of_dir(left) && *left == *seen);
            if is_lost {
                return vec![step(Act::Nothing, Some(Conflict::NotKept))];
            }
            // The entry before the directory takes its place.
            if is_of_dir(wanted) || *act != Act::SetAside {
                let wanted =
                    if *act == Act::BringBack { PathState::Rebuilt } else { wanted.clone() };
                return vec![PlannedStep { wanted, now: now.clone(), ..step(*act, None) }];
            }
        }
        if wanted.is_same(now) {
            return match self.changes_mode(wanted, now) {
                true => vec![step(Act::SetMode, self.change_by_others(now, means_same))],
                false => vec![step(Act::Nothing, None)],
            };
        }
        if means_same(wanted, now) {
            return vec![step(Act::Nothing, None)];
        }
        if matches!(wanted, PathState::Unkept { .. } | PathState::Special) {
            return vec![step(Act::Nothing, Some(Conflict::NotKept))];
        }
        // Git makes and removes the directories of its objects at any time.
        let is_dir = |state: &PathState| matches!(state, PathState::Directory { .. });
        let is_of_objects = is_git_object(path) && (is_dir(wanted) || is_dir(now));
        let conflict = match rebuilt {
            None if !is_of_objects => self.change_by_others(now, means_same),
            _ => None,
        };
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
            _ if rebuilt.is_some() => Some(Act::SetAside),
            (PathState::Absent, _) => None,
            (PathState::Directory { .. }, _) => Some(Act::RemoveDirectory),
            (_, None | Some(Act::MakeDirectory)) => Some(Act::Remove),
            // A file or symlink replaces another in one step.
            _ => None,
        };
        if rebuilt.is_none() && !self.may_take_away(now, wanted, clear) {
            return vec![step(Act::Nothing, Some(Conflict::Foreign))];
        }
        clear.into_iter().chain(put).map(|act| step(act, conflict.clone())).collect()
    }

    /// Returns from which change on nothing beneath the path is restored by itself; `None` of a path that is no directory that
    /// tools make anew. Its content moves with it unchanged, and changes of commands there are not kept.
    fn covers_since(&self, now: &PathState) -> Option<CheckpointId> {
        let (act, _) = self.step_of_rebuilt(now)?;
        let is_away = |change: &&Change| matches!(change.entry.after, Some(PathState::SetAside(_)));
        let is_absent = *now == PathState::Absent;
        let moves = matches!(act, Act::SetAside | Act::BringBack)
            || is_absent && self.own.last().is_some_and(is_away);
        // One that was made anew after a restore moved it is that of others.
        let is_of_others = !is_absent && self.own.last().is_some_and(is_away);
        let first = self.own.iter().find(|change| is_rebuilt(&change.entry) && !is_of_others);
        if moves { Some(CheckpointId(0)) } else { first.map(|change| change.id) }
    }

    /// Returns the step of a directory that tools make anew, and its current state; `None` of any other path. Changes
    /// of commands in it are not kept, and may be executed: it moves out of the way. A directory whose content was kept
    /// before is none.
    fn step_of_rebuilt(&self, now: &PathState) -> Option<(Act, PathState)> {
        // Changes of its mode say nothing about its content.
        let is_mode = |entry: &Entry| {
            let is_dir = |state: &PathState| matches!(state, PathState::Directory { .. });
            is_dir(&entry.before) && entry.after.as_ref().is_some_and(is_dir)
        };
        let own: Vec<&Entry> =
            self.own.iter().map(|change| &change.entry).filter(|entry| !is_mode(entry)).collect();
        let (first, last) = (own.first()?, own.last()?);
        let is_kept = self
            .own
            .first()
            .is_some_and(|first| matches!(first.entry.before, PathState::Directory { .. }));
        if is_kept || !own.iter().any(|entry| is_rebuilt(entry)) {
            return None;
        }
        let is_dir = matches!(now, PathState::Directory { .. });
        let is_left = match &last.after {
            Some(PathState::Rebuilt) => true,
            // The process of the restore died before the move.
            Some(PathState::SetAside(_)) => !last.settled && 1 < own.len(),
            _ => false,
        };
        Some(match &first.after {
            Some(aside @ PathState::SetAside(_)) if *now == PathState::Absent => {
                (Act::BringBack, aside.clone())
            }
            _ if is_left && is_dir => (Act::SetAside, PathState::Rebuilt),
            _ => (Act::Nothing, now.clone()),
        })
    }

    /// Returns whether the session changed the mode of a directory, which is not as it was.
    fn changes_mode(&self, wanted: &PathState, now: &PathState) -> bool {
        let is_dir = |state: &PathState| matches!(state, PathState::Directory { .. });
        let changes = |change: &&Change| {
            let Entry { before, after, .. } = &change.entry;
            is_dir(before) && after.as_ref().is_some_and(|after| is_dir(after) && after != before)
        };
        is_dir(wanted) && wanted != now && self.own.iter().any(changes)
    }

    /// Returns whether a restore may remove or replace the current state:
    ///
    /// - It removes only a state that a change of any session left or may have left.
    /// - It replaces only the kind that the session left, or the kind that comes back.
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

    /// Returns the change by another author after a change of the session, if any.
    fn change_by_others(
        &self,
        now: &PathState,
        means_same: &dyn Fn(&PathState, &PathState) -> bool,
    ) -> Option<Conflict> {
        let next = self.own.iter().skip(1).map(|next| (&next.entry.before, Some(next.id)));
        for (change, (found, until)) in self.own.iter().zip(next.chain([(now, None)])) {
            let is_left = |left: &PathState| left.is_same(found) || means_same(left, found);
            if left_by(&change.entry).any(is_left) {
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

/// Returns whether a change is one of a directory that tools make anew.
fn is_rebuilt(entry: &Entry) -> bool {
    entry.before == PathState::Rebuilt
        || matches!(entry.after, Some(PathState::Rebuilt | PathState::SetAside(_)))
}

/// Returns the states that a change may have left; an unsettled one may have left `before`.
fn left_by(entry: &Entry) -> impl Iterator<Item = &PathState> {
    let before = (!entry.settled).then_some(&entry.before);
    entry.after.iter().chain(before)
}
