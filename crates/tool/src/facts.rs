//! What policy, approval, checkpoints, concurrency, metrics and annotations may know of a tool
//! without knowing its name.

use std::ops::BitOr;

/// The ways in which a tool can touch what is outside it: a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Effects(u8);

impl Effects {
    /// Looks and changes nothing.
    pub const OBSERVE: Self = Self(1);
    /// Changes files.
    pub const CHANGE: Self = Self(2);
    /// Runs programs.
    pub const EXECUTE: Self = Self(4);
    /// Reaches the network.
    pub const NETWORK: Self = Self(8);
    /// Hands work to another agent.
    pub const DELEGATE: Self = Self(16);
    /// Reaches what the session itself began and was allowed to: its processes and their terminals.
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

    /// Returns the effect of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|(_, known)| *known == name).map(|(effect, _)| effect)
    }

    /// Returns both sets as one.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether the set only looks.
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

/// How long a call may occupy the thread that runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// Bounded work of well under a few milliseconds: answered on the thread that read the call.
    Cheap,
    /// Work on files or processors that may take long: runs on a thread for blocking work.
    Long,
    /// Waits for something else: runs as a task.
    Waits,
}

/// What is known of a tool whatever its arguments are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The most the tool can do; one call may do less.
    pub effects: Effects,
    /// Whether a second identical call changes nothing more.
    pub idempotent: bool,
    /// Whether a change may remove or overwrite what was there.
    pub destructive: bool,
    /// Whether calls may run beside one another.
    pub parallel: bool,
}

impl Facts {
    /// Looks at files, changes nothing, may run beside anything.
    pub const OBSERVES: Self =
        Self { effects: Effects::OBSERVE, idempotent: true, destructive: false, parallel: true };

    /// Changes files and may overwrite what was there.
    pub const CHANGES: Self =
        Self { effects: Effects::CHANGE, idempotent: false, destructive: true, parallel: false };

    /// What is assumed of a tool that says nothing: everything, so that it always asks.
    pub const UNKNOWN: Self = Self {
        effects: Effects(Effects::CHANGE.0 | Effects::EXECUTE.0 | Effects::NETWORK.0),
        idempotent: false,
        destructive: true,
        parallel: false,
    };
}
