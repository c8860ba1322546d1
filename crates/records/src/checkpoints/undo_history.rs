//! Which changes of a session are in force, for undo and redo.
//!
//! A restore brings back the state before a checkpoint. If that is a change, the restore is an undo: the changes before it stay
//! in force. If it is an undo, the restore is a redo: the changes before that undo are in force again. A new change
//! makes earlier undos final, as in an editor.

use std::collections::HashMap;

use super::{CheckpointId, Listed};

/// The changes of one session that are in force, and the undos that a redo can take back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoHistory {
    /// Each change with the one in force before it.
    changes: Links,
    /// Each undo with the one before it.
    undos: Links,
    now: Ends,
}

/// The last change in force and the last undo.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ends {
    change: Option<CheckpointId>,
    undo: Option<CheckpointId>,
}

/// Checkpoints, each with the one before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Links(HashMap<CheckpointId, Option<CheckpointId>>);

impl Links {
    fn from(&self, last: Option<CheckpointId>) -> impl Iterator<Item = CheckpointId> + '_ {
        std::iter::successors(last, |id| self.0.get(id).copied().flatten())
    }
}

impl UndoHistory {
    /// Returns the history of a session from its checkpoints, the newest first.
    pub fn of(listed: &[Listed]) -> Self {
        let mut history = Self::default();
        let mut before: HashMap<CheckpointId, Ends> = HashMap::new();
        for one in listed.iter().rev() {
            before.insert(one.id, history.now);
            // A checkpoint that is gone was before all others.
            let ends_at = |since| before.get(&since).copied().unwrap_or_default();
            match one.mark.restores {
                None => {
                    history.changes.0.insert(one.id, history.now.change);
                    history.now = Ends { change: Some(one.id), undo: None };
                }
                Some(since) if one.is_redo => history.now = ends_at(since),
                Some(since) => {
                    history.undos.0.insert(one.id, history.now.undo);
                    history.now = Ends { change: ends_at(since).change, undo: Some(one.id) };
                }
            }
        }
        history
    }

    /// Returns what an undo can take back, or a redo: the last one first.
    pub fn left(&self, redo: bool) -> Vec<CheckpointId> {
        if redo { self.undos().collect() } else { self.changes().collect() }
    }

    /// Returns the changes in force, the newest first.
    pub fn changes(&self) -> impl Iterator<Item = CheckpointId> + '_ {
        self.changes.from(self.now.change)
    }

    /// Returns the undos that a redo can take back, the last one first.
    pub fn undos(&self) -> impl Iterator<Item = CheckpointId> + '_ {
        self.undos.from(self.now.undo)
    }
}

#[cfg(test)]
mod tests {
    use super::super::CallContext;
    use super::*;

    fn listed(id: i64, since: i64) -> Listed {
        Listed {
            id: CheckpointId(id),
            at_ms: 0,
            n_paths: 1,
            is_redo: false,
            mark: CallContext {
                session: String::new(),
                agent: None,
                turn: None,
                call_id: String::new(),
                dialect: String::new(),
                tool: String::new(),
                roots: Vec::new(),
                restores: Some(CheckpointId(since)).filter(|id| id.0 != 0),
            },
        }
    }

    /// Checks the changes in force after checkpoints c1, c2, and so on: 0 for a change, else the one that is restored.
    #[track_caller]
    fn check(checkpoints: &[i64], changes: &[i64], undos: &[i64]) {
        let is_restore = |id: i64| usize::try_from(id - 1).is_ok_and(|at| checkpoints[at] != 0);
        let listed = |(at, since): (usize, &i64)| Listed {
            is_redo: is_restore(*since),
            ..listed(at as i64 + 1, *since)
        };
        let mut all: Vec<_> = checkpoints.iter().enumerate().map(listed).collect();
        all.reverse();
        let history = UndoHistory::of(&all);
        let ids = |ids: &[i64]| ids.iter().map(|id| CheckpointId(*id)).collect::<Vec<_>>();
        assert_eq!(history.changes().collect::<Vec<_>>(), ids(changes), "{checkpoints:?}");
        assert_eq!(history.undos().collect::<Vec<_>>(), ids(undos), "{checkpoints:?}");
    }

    #[test]
    fn what_was_collected_was_first() {
        let restore = |id, since, is_redo| Listed { is_redo, ..listed(id, since) };
        // c1 to c5 are gone.
        let after_undo = [listed(7, 0), restore(6, 4, false)];
        assert_eq!(UndoHistory::of(&after_undo).changes().collect::<Vec<_>>(), [CheckpointId(7)]);
        let after_redo = [restore(9, 7, false), listed(7, 0), restore(6, 5, true)];
        let history = UndoHistory::of(&after_redo);
        assert_eq!(history.changes().count(), 0);
        assert_eq!(history.undos().collect::<Vec<_>>(), [CheckpointId(9)]);
    }

    #[test]
    fn undo_goes_back_and_redo_forward() {
        check(&[], &[], &[]);
        check(&[0, 0], &[2, 1], &[]);
        // Two undos, then two redos.
        check(&[0, 0, 2], &[1], &[3]);
        check(&[0, 0, 2, 1], &[], &[4, 3]);
        check(&[0, 0, 2, 1, 4], &[1], &[3]);
        check(&[0, 0, 2, 1, 4, 3], &[2, 1], &[]);
        // An undo of two at once.
        check(&[0, 0, 1], &[], &[3]);
        check(&[0, 0, 1, 3], &[2, 1], &[]);
        // A change after an undo makes it final, and a redo can be undone.
        check(&[0, 0, 2, 0], &[4, 1], &[]);
        check(&[0, 0, 2, 0, 4], &[1], &[5]);
        check(&[0, 0, 2, 3, 2], &[1], &[5]);
    }
}
