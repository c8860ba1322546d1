//! Merges configuration layers into checked settings, and records the origin of each value.
//!
//! Layers, weakest first: defaults, system file, user file, project file, `--config`, environment, flags.
//! The project's file and a client's start line may come from a repository, so they can only tighten.
//! A value that would loosen is left out with a warning, until the user [trusts](trust) it.

#![forbid(unsafe_code)]

pub mod agent_templates;
pub mod clients;
mod context_window;
pub mod env_vars;
mod files;
mod front_matter;
mod grants;
mod hook_files;
pub mod hooks;
mod hosts;
pub mod import;
mod instructions;
pub mod jsonc;
mod layers;
mod lines;
mod mcp_servers;
mod messages;
mod models;
mod options;
mod reference;
pub mod rules;
mod serve;
mod server_entries;
mod server_files;
mod settings;
pub mod skills;
mod sub_agents;
pub mod trust;
mod url_policy;
mod web;

pub use files::{may_have_settings, read as read_text};
pub use grants::{Grants, grant_text, granted_rule};
pub use instructions::{FoundInstructions, instructions};
pub use layers::{Layered, Layers, LeftOut, Origin, SYSTEM_FILE, ToolList};
pub use mcp_servers::{McpServer, ServerPlace};
pub use messages::{ChannelConfig, MessageConfig};
pub use models::{AgentConfig, KeySource, ModelConfig};
pub use options::OAuthOptions;
pub use options::{
    CallOptions, CommandPolicyOptions, ConditionOptions, ExampleOptions, ExecOptions, FilesOptions,
    FsOptions, HookCommandOptions, HookOptions, HookRequiresOptions, HooksOptions, LedgerOptions,
    ManagedOptions, McpOptions, MetricsOptions, Options, PolicyOptions, RuleOptions, ToolsOptions,
    TraceOptions, UrlPolicyOptions, WebSearchOptions,
};
pub use reference::keys;
pub use reference::reference;
pub use serve::serves;
pub use server_files::ServerFiles;
pub use settings::{
    LedgerMode, LedgerSettings, LogLevel, MetricsSettings, Settings, WebhookSettings,
};
pub use sinew_guard::real;
pub use sub_agents::SubAgentsConfig;

/// An invalid configuration: the place, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);
