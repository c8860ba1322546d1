//! Which changes of a session are in force, for undo and redo.
//!
//! A restore brings back the state before a checkpoint. If that is a change, the restore is an undo: the changes before it stay
//! in force. If it is an undo, the restore is a redo: what was in force before that undo is in force again. A new change makes
//! earlier undos final, as in an editor.

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
            let since = one.mark.restores.map(|since| (since, before.get(&since).copied()));
            match since {
                None => {
                    history.changes.0.insert(one.id, history.now.change);
                    history.now = Ends { change: Some(one.id), undo: None };
                }
                Some((since, Some(ends))) if !history.changes.0.contains_key(&since) => {
                    history.now = ends;
                }
                Some((_, ends)) => {
                    history.undos.0.insert(one.id, history.now.undo);
                    // A checkpoint that is gone was before all others.
                    let change = ends.and_then(|ends| ends.change);
                    history.now = Ends { change, undo: Some(one.id) };
                }
            }
        }
        history
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

    /// Checks what is in force after checkpoints c1, c2, and so on: 0 for a change, else the one that is restored.
    #[track_caller]
    fn check(checkpoints: &[i64], changes: &[i64], undos: &[i64]) {
        let listed = |(at, since): (usize, &i64)| Listed {
            id: CheckpointId(at as i64 + 1),
            at_ms: 0,
            n_paths: 1,
            mark: CallContext {
                session: String::new(),
                agent: None,
                turn: None,
                call_id: String::new(),
                dialect: String::new(),
                tool: String::new(),
                roots: Vec::new(),
                restores: Some(CheckpointId(*since)).filter(|id| id.0 != 0),
            },
        };
        let mut all: Vec<_> = checkpoints.iter().enumerate().map(listed).collect();
        all.reverse();
        let history = UndoHistory::of(&all);
        let ids = |ids: &[i64]| ids.iter().map(|id| CheckpointId(*id)).collect::<Vec<_>>();
        assert_eq!(history.changes().collect::<Vec<_>>(), ids(changes), "{checkpoints:?}");
        assert_eq!(history.undos().collect::<Vec<_>>(), ids(undos), "{checkpoints:?}");
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
