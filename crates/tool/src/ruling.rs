//! The ruling of the rules on a call.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

crate::word_enum! {
    /// Allow, ask or deny, by strength: deny beats ask beats allow.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Verdict {
        /// The call may run.
        Allow = "allow",
        /// The call needs approval.
        Ask = "ask",
        /// The call may not run.
        Deny = "deny",
    }
}

/// A verdict with the rule that decided and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// The verdict.
    pub verdict: Verdict,
    /// The name of the deciding rule.
    pub rule: &'static str,
    /// Why, in words for people.
    pub why: Cow<'static, str>,
    /// The layer and position of a configured rule: `user, config.toml:3`.
    pub origin: Option<Arc<str>>,
}

/// The ruling in a reply: `ask (change)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ruled {
    /// The verdict.
    pub verdict: Verdict,
    /// The name of the deciding rule.
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
