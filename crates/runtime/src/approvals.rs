//! Who answers when a rule asks.

use std::sync::Arc;
use std::time::Duration;

use sinew_tool::Approver;

use crate::grants::GrantStore;

sinew_tool::word_enum! {
    /// What happens with a call that a rule wants asked about.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Approvals {
        /// Ask where somebody can answer; else run what only changes files that a checkpoint keeps, and
        /// deny the rest at once.
        Auto = "auto",
        /// Ask where somebody can answer; else deny at once.
        Ask = "ask",
        /// The client's own confirmation counts as the answer.
        TrustClient = "trust-client",
        /// Everything that asks runs: for machines that may be lost.
        Allow = "allow",
        /// Everything that asks is denied.
        Deny = "deny",
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
