//! What the rules say of a call.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

crate::word_enum! {
    /// Allow, ask or deny. The order is the order of strength: deny beats ask beats allow.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Verdict {
        /// The call may run.
        Allow = "allow",
        /// Somebody must say yes first.
        Ask = "ask",
        /// The call may not run.
        Deny = "deny",
    }
}

/// A verdict with the rule that decided and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// What was decided.
    pub verdict: Verdict,
    /// The name of the rule that decided.
    pub rule: &'static str,
    /// Why, in words for people.
    pub why: Cow<'static, str>,
    /// The layer of the rule, and where it stands, if somebody wrote it: `user, config.toml:3`.
    pub origin: Option<Arc<str>>,
}

/// What a reply tells of a ruling: `ask (change)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ruled {
    /// What was decided.
    pub verdict: Verdict,
    /// The name of the rule that decided.
    pub rule: &'static str,
}

impl fmt::Display for Ruled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.verdict.as_str(), self.rule)
    }
}

impl Serialize for Ruled {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}
