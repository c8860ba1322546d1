//! What was written of messages and their channels.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[messages]`: messages between agents, and to the channels of a person.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessagesOptions {
    /// The longest message between agents, in bytes of UTF-8: 1 to 1,048,576.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<usize>,
    /// The most messages that wait in the inbox of one agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_queued: Option<u64>,
    /// The most messages of one agent to another within a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_per_minute: Option<u64>,
    /// How long unread messages, unopened inboxes and the outbox are kept, in days: 1 to 3,650.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age_days: Option<u64>,
    /// How long the service of a channel may take to answer, in seconds: 1 to 600.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
    /// Channels, each a table `[messages.channels.NAME]` with `kind` (`webhook`, `telegram`, `slack` or `discord`; default
    /// NAME), `token_env` (the variable that holds the token; a webhook needs none), `url` (the base address of the API;
    /// default that of the service; a webhook needs one) and `plain_http` (whether `url` may be `http` of another machine,
    /// where what is sent can be read on the way; default false). The channel `console` is always there. A project's own
    /// file adds none until it is trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub channels: Option<BTreeMap<String, ChannelOptions>>,
}

/// `[messages.channels.NAME]`: a channel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelOptions {
    /// Its service. Default: NAME.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The variable that holds the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
    /// The base address of the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Whether `url` may be `http` of another machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plain_http: Option<bool>,
}

impl ChannelOptions {
    /// The table of all channels.
    pub const TABLE: &'static str = "messages.channels";
}
