//! Who answers when a rule asks.

use std::sync::Arc;
use std::time::Duration;

use sinew_tool::Approver;

use crate::grants::GrantStore;

/// What happens with a call that a rule wants asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approvals {
    /// Ask where somebody can answer; else run what only changes files that a checkpoint keeps, and
    /// deny the rest at once.
    Auto,
    /// Ask where somebody can answer; else deny at once.
    Ask,
    /// The client's own confirmation counts as the answer.
    TrustClient,
    /// Everything that asks runs: for machines that may be lost.
    Allow,
    /// Everything that asks is denied.
    Deny,
}

impl Approvals {
    /// Returns the mode of a word of the configuration.
    pub fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "auto" => Self::Auto,
            "ask" => Self::Ask,
            "trust-client" => Self::TrustClient,
            "allow" => Self::Allow,
            "deny" => Self::Deny,
            _ => return None,
        })
    }

    /// Returns the word of the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Ask => "ask",
            Self::TrustClient => "trust-client",
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// How the runtime asks.
#[derive(Clone)]
pub struct Asking {
    /// What happens with calls that ask.
    pub approvals: Approvals,
    /// Who is asked, all at once; the first answer counts.
    pub approvers: Vec<Arc<dyn Approver>>,
    /// Who keeps what is granted for ever; without it nothing is.
    pub grant_store: Option<Arc<dyn GrantStore>>,
    /// How long an answer may take; waiting is not execution time.
    pub timeout: Duration,
}

impl Default for Asking {
    fn default() -> Self {
        Self {
            approvals: Approvals::Auto,
            approvers: Vec::new(),
            grant_store: None,
            timeout: Duration::from_secs(300),
        }
    }
}

impl std::fmt::Debug for Asking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asking")
            .field("approvals", &self.approvals)
            .field("approvers", &self.approvers.iter().map(|one| one.name()).collect::<Vec<_>>())
            .field("timeout", &self.timeout)
            .finish()
    }
}
