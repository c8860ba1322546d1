//! Calls that run unasked because all that they do can be undone, and how much an undo covers of the others.

use std::sync::Arc;

use sinew_policy::judge::{UNDO, asks_always};
use sinew_sandbox::{Commands, NotProven};
use sinew_tool::{Access, Effects, Ruling, UndoCover, Verdict};

use super::{Contained, Judged, is_directory};

impl Contained {
    /// Returns what keeps the command from running unasked, if anything does.
    fn proven(&self) -> Result<(), NotProven> {
        let shared = &self.guard.shared;
        let commands = shared.commands.as_ref().ok_or(NotProven::NoSandbox)?;
        commands.proven(self.address().unwrap_or_default(), &self.guard.globs)?;
        self.has_room().then_some(()).ok_or(NotProven::NoRoom)
    }

    /// Returns whether the caller cannot push out the checkpoint of the command.
    fn has_room(&self) -> bool {
        let checkpoints = self.guard.shared.checkpoints.as_ref();
        checkpoints.is_some_and(|checkpoints| checkpoints.has_room())
    }

    /// Returns whether what the command changes is recorded for undo, and it reaches no network.
    fn is_recorded(&self) -> bool {
        let address = self.address().unwrap_or_default();
        let records = |commands: &Arc<Commands>| commands.records(address, &self.guard.globs);
        self.guard.shared.commands.as_ref().is_some_and(records) && self.has_room()
    }
}

impl Judged {
    /// Allows a call that asks if all that it does stays inside and can be undone. The ruling of another command names
    /// the missing condition.
    #[must_use]
    pub fn undone_unasked(mut self) -> Self {
        if !self.may_run_undone || self.ruling.verdict != Verdict::Ask {
            return self;
        }
        let targets = &self.contained.targets;
        let is_command = targets.command.is_some();
        let undone = match is_command {
            true => self.contained.proven(),
            false if targets.files.iter().any(asks_always) => return self,
            false if self.can_be_undone() => Ok(()),
            false => return self,
        };
        match undone {
            Ok(()) => {
                let why = if is_command {
                    "it stays in the sandbox, undone by a checkpoint"
                } else {
                    "it can be undone by a checkpoint"
                };
                let verdict = Verdict::Allow;
                self.ruling = Ruling { verdict, rule: UNDO, why: why.into(), origin: None };
            }
            Err(missing) => {
                let why = &self.ruling.why;
                self.ruling.why = format!("{why}; it cannot run unasked: {missing}").into();
            }
        }
        self
    }

    /// Returns how much of what the call does a checkpoint undoes, if an answer lets it run.
    pub fn undo_cover(&self) -> UndoCover {
        match &self.contained.targets.command {
            // Once approved, it may change what is too large to keep.
            Some(command)
                if !command.command.has_terminal
                    && !command.extra.unsandboxed
                    && self.contained.is_recorded() =>
            {
                UndoCover::Most
            }
            None if self.can_be_undone() => UndoCover::All,
            Some(_) | None => UndoCover::None,
        }
    }

    /// Returns whether it runs only because its changes can be undone.
    pub fn must_undo(&self) -> bool {
        self.ruling.rule == UNDO
    }

    /// Returns whether a checkpoint can undo all that a call without a command does, and its caller cannot push the
    /// checkpoint out.
    fn can_be_undone(&self) -> bool {
        let Contained { guard, targets, caller, restoring, .. } = &self.contained;
        let kept = match restoring {
            None => guard.kept(),
            Some(_) => guard.shared.checkpoints.clone(),
        };
        let Some(checkpoints) = kept.filter(|_| caller.is_some()) else { return false };
        let mut changed =
            targets.files.iter().filter(|file| file.claim.access.changes()).peekable();
        // A tool that names no path changes something unknown.
        let names_some = changed.peek().is_some() || restoring.is_some();
        let only_changes = (Effects::OBSERVE | Effects::CHANGE).contains(self.effects);
        only_changes
            && names_some
            && checkpoints.has_room()
            && changed.all(|file| {
                // Only these changes are recorded. The descendants of a moved directory may be too many.
                let is_kept = match file.claim.access {
                    Access::Write { .. } | Access::Edit { .. } | Access::Make | Access::Remove => {
                        true
                    }
                    Access::Move => !is_directory(&file.state),
                    _ => false,
                };
                is_kept && checkpoints.keeps(&file.state)
            })
    }
}
