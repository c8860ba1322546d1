//! Decides when a supervisor runs before all threads of the usual scheduling policy. A command that uses up
//! the processors must not keep its supervisor from killing it.
//!
//! A supervisor that runs first also takes the processor from sinew and its client between commands: 30 us of
//! 850 for `true`. So it waits for a sign of such a command: one that runs on or leaves processes behind.

use crate::spawn;

/// Whether this supervisor runs first.
#[derive(Debug)]
pub(super) enum Urgency {
    /// Always: it has no right to change that.
    Fixed,
    /// As any other process.
    Usual,
    /// Until its command has ended.
    Raised,
}

impl Urgency {
    /// Returns the urgency of this supervisor, before it drops its rights if it does.
    pub(super) fn new(drops_rights: bool) -> Self {
        if drops_rights {
            spawn::run_first();
            return Self::Fixed;
        }
        Self::Usual
    }

    /// Runs first from now on, if allowed.
    pub(super) fn raise(&mut self) {
        if matches!(self, Self::Usual) {
            spawn::run_first();
            *self = Self::Raised;
        }
    }

    /// Runs as any other process again.
    pub(super) fn lower(&mut self) {
        if matches!(self, Self::Raised) {
            spawn::run_as_usual();
            *self = Self::Usual;
        }
    }
}
