//! What was written of sub-agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[sub_agents]`: sub-agents.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubAgentsOptions {
    /// How deep sub-agents may be nested: 0 to 5. With 0, there are no sub-agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u32>,
    /// How many sub-agents one agent may spawn within an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_children: Option<u64>,
    /// How many sub-agents of one agent may work at once: 1 to 32.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u64>,
    /// How many sub-agents may begin in one session within an hour, at all depths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_total: Option<u64>,
    /// How long one sub-agent may work, in seconds: 1 to 86,400. What it found until then is reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
    /// The most tokens of one sub-agent, in requests and answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// The most rounds of tool calls of a sub-agent: 1 to 1,000. Default: what its template says, else 20, and 10 in the
    /// dialect aionrs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
}
