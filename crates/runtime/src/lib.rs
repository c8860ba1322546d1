//! The tool registry and the call pipeline.
//!
//! A surface passes a [`Request`](sinew_tool::Request) and gets a [`Reply`](sinew_tool::Reply). The stages in
//! `call/` run in between. This crate handles `dyn Tool`, not operations or dialects by name; the guard
//! decides what a call may touch.

mod approvals;
mod broker;
mod build_error;
mod builder;
mod call;
mod catalog;
mod caught;
mod foreign_names;
mod grants;
mod hooks;
mod ledgers;
mod narrowing;
mod nearest;
mod owner;
mod path_queue;
mod provider;
pub mod question;
mod runtime;
mod schema_check;
mod session_turns;
mod span;
mod sub_agents;
mod tool_index;
mod tool_ranking;
mod visibility;

pub use approvals::{Approvals, Asking};
pub use build_error::BuildError;
pub use builder::Builder;
pub use catalog::{Catalog, ForeignEntry, ForeignTool, ToolInfo};
pub use grants::{GrantStore, SessionGrant, SessionGrantStore};
pub use hooks::{CommandHook, CommandHookSettings, HookCommand, HookTrial};
pub use ledgers::{MemoryLedger, NoLedger};
pub use narrowing::{NarrowedBy, Narrowing};
pub use nearest::nearest;
pub use owner::Owner;
pub use provider::{CompositeToolProvider, ToolDefinition, ToolProvider};
pub use runtime::{Attached, CallOptions, PendingTools, Runtime};
pub use sub_agents::{SubAgent, WorkingAgent};
pub use visibility::Visibility;
