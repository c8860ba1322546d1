//! Configuration: what was written in layers becomes what is meant.
//!
//! Layers, weakest first: built-in defaults, the system's file, the person's file, the project's
//! file, `--config`, environment, flags. Every value remembers where it came from. The project's
//! file comes with the repository, so it can only tighten: what would loosen is left out and named, until a
//! person [trusts](trust) what the project holds. The same goes for what a client starts the server with.

#![forbid(unsafe_code)]

pub mod clients;
mod context_window;
pub mod env_vars;
mod grants;
mod hook_files;
pub mod hooks;
pub mod import;
pub mod jsonc;
mod layers;
mod options;
mod reference;
pub mod rules;
mod serve;
mod settings;
pub mod trust;

pub use grants::Grants;
pub use layers::arguments::real;
pub use layers::read as read_text;
pub use layers::{Layered, Layers, LeftOut, Origin, SYSTEM_FILE, ToolList};
pub use options::{
    CallOptions, CommandPolicyOptions, ConditionOptions, ExampleOptions, FilesOptions, FsOptions,
    HookCommandOptions, HookOptions, HookRequiresOptions, HooksOptions, LedgerOptions,
    ManagedOptions, McpOptions, MetricsOptions, Options, PolicyOptions, RuleOptions, ToolsOptions,
    TraceOptions,
};
pub use reference::keys;
pub use reference::reference;
pub use serve::serves;
pub use settings::{
    LedgerMode, LedgerSettings, LogLevel, MetricsSettings, Settings, WebhookSettings,
};

/// A configuration that cannot be used: where, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);
