//! Facts about tools for policy, approval, checkpoints, concurrency, metrics and annotations.

use std::ops::BitOr;

/// A set of effects of a tool on its environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Effects(u8);

impl Effects {
    /// Reads only.
    pub const OBSERVE: Self = Self(1);
    /// Changes files.
    pub const CHANGE: Self = Self(2);
    /// Runs programs.
    pub const EXECUTE: Self = Self(4);
    /// Reaches the network.
    pub const NETWORK: Self = Self(8);
    /// Hands work to another agent, or exchanges messages with agents and people.
    pub const DELEGATE: Self = Self(16);
    /// Accesses the session's own processes, terminals and inbox.
    pub const SESSION: Self = Self(32);

    /// Returns whether every effect of `other` is in this set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether an effect of `other` is in this set.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the set without the effects of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the effect with a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|(_, known)| *known == name).map(|(effect, _)| effect)
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether the set is read-only.
    pub fn only_observes(self) -> bool {
        self == Self::OBSERVE
    }

    /// Returns the names of the effects in the set, in a fixed order.
    pub fn names(self) -> Vec<&'static str> {
        let named = Self::NAMED.into_iter().filter(|(effect, _)| self.contains(*effect));
        named.map(|(_, name)| name).collect()
    }

    /// Every effect with its name, in a fixed order.
    pub const NAMED: [(Self, &'static str); 6] = [
        (Self::OBSERVE, "observe"),
        (Self::CHANGE, "change"),
        (Self::EXECUTE, "execute"),
        (Self::NETWORK, "network"),
        (Self::DELEGATE, "delegate"),
        (Self::SESSION, "session"),
    ];
}

impl BitOr for Effects {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.or(other)
    }
}

/// The use of threads by a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// Less than a few milliseconds: runs on the reading thread.
    Cheap,
    /// Long file or CPU work: runs on a blocking thread.
    Long,
    /// Waits for events: runs as a task.
    Waits,
}

/// The facts of a tool, independent of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// All possible effects; one call may have fewer.
    pub effects: Effects,
    /// Whether an identical second call changes nothing more.
    pub idempotent: bool,
    /// Whether a change may remove or overwrite content.
    pub destructive: bool,
    /// Whether calls may run in parallel.
    pub parallel: bool,
}

impl Facts {
    /// Reads files and may run in parallel.
    pub const OBSERVES: Self =
        Self { effects: Effects::OBSERVE, idempotent: true, destructive: false, parallel: true };

    /// Changes files and may overwrite content.
    pub const CHANGES: Self =
        Self { effects: Effects::CHANGE, idempotent: false, destructive: true, parallel: false };

    /// The default of unknown tools: all effects, so that they always ask.
    pub const UNKNOWN: Self = Self {
        effects: Effects(Effects::CHANGE.0 | Effects::EXECUTE.0 | Effects::NETWORK.0),
        idempotent: false,
        destructive: true,
        parallel: false,
    };
}
