//! What was written of one MCP server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// `[tools.mcp_servers.NAME]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpServerOptions {
    /// The program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Its own variables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// The directory in which it starts, relative to the first root. Default: the first root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Its address, where it has no `command`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Whether it may reach the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<bool>,
    /// Whether its tools are hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internal_only: Option<bool>,
    /// Whether its tools are found by a search first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deferred: Option<bool>,
    /// Whether it is used at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// How long it may take to start, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout_s: Option<u64>,
    /// How long it may take to list its tools, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list_timeout_s: Option<u64>,
    /// How long it may take to answer a call, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_timeout_s: Option<u64>,
}

impl McpServerOptions {
    /// The key of the table with a table for each server.
    pub const TABLE: &'static str = "tools.mcp_servers";
    /// Every key.
    pub const KEYS: [&'static str; 12] = [
        "command",
        "args",
        "env",
        "cwd",
        "url",
        "network",
        "internal_only",
        "deferred",
        "enabled",
        "connect_timeout_s",
        "list_timeout_s",
        "call_timeout_s",
    ];
}
