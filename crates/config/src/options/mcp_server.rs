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
    /// Headers of every request to its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// Who sinew is where the server wants a sign-in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuthOptions>,
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

/// `[tools.mcp_servers.NAME.oauth]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OAuthOptions {
    /// The client that was registered at the authorization server. Default: sinew registers one.
    #[serde(alias = "clientId", skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The secret of that client.
    #[serde(alias = "clientSecret", skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// The scopes that are asked for. Default: those that the server names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// The port of 127.0.0.1 to which the browser is led back. Default: a free one.
    #[serde(alias = "callbackPort", skip_serializing_if = "Option::is_none")]
    pub callback_port: Option<u16>,
}

impl McpServerOptions {
    /// The key of the table with a table for each server.
    pub const TABLE: &'static str = "tools.mcp_servers";
    /// Every key.
    pub const KEYS: [&'static str; 14] = [
        "command",
        "args",
        "env",
        "cwd",
        "url",
        "headers",
        "oauth",
        "network",
        "internal_only",
        "deferred",
        "enabled",
        "connect_timeout_s",
        "list_timeout_s",
        "call_timeout_s",
    ];
}
