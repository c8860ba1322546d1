//! The approval mode: how the runtime answers calls that a rule asks about.

use std::sync::Arc;
use std::time::Duration;

use sinew_tool::Approver;

use crate::grants::GrantStore;

sinew_tool::word_enum! {
    /// The answer mode for calls that a rule asks about.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Approvals {
        /// Runs what stays inside and can be undone. Asks for the rest if an approver exists, otherwise denies it.
        Auto = "auto",
        /// Asks if an approver exists; otherwise denies.
        Ask = "ask",
        /// The client's own confirmation counts as the answer.
        TrustClient = "trust-client",
        /// Allows every such call: for disposable machines.
        Allow = "allow",
        /// Denies every such call.
        Deny = "deny",
    }
}

/// How the runtime asks.
#[derive(Clone)]
pub struct Asking {
    /// The answer mode.
    pub approvals: Approvals,
    /// The approvers, asked all at once; the first answer counts.
    pub approvers: Vec<Arc<dyn Approver>>,
    /// Stores `forever` grants; without it none is stored.
    pub grant_store: Option<Arc<dyn GrantStore>>,
    /// The time limit of an answer, which does not count as execution time.
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
