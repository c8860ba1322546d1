//! The registry of tools and the pipeline of a call.
//!
//! A surface hands in a [`Request`](sinew_tool::Request) and gets a [`Reply`](sinew_tool::Reply).
//! Between the two run the stages in `call/`, one file each; every stage takes what the stage before
//! returned. This crate sees `dyn Tool` and never the name of an operation or a dialect; what it lets
//! a call touch comes out of the guard.

mod approvals;
mod broker;
mod call;
mod catalog;
mod caught;
mod grants;
mod hooks;
mod ledgers;
mod nearest;
mod path_queue;
pub mod question;
mod runtime;
mod schema_check;
mod span;

pub use approvals::{Approvals, Asking};
pub use catalog::{Catalog, ToolInfo};
pub use grants::GrantStore;
pub use hooks::{CommandHook, CommandHookSettings, HookCommand, HookTrial};
pub use ledgers::{MemoryLedger, NoLedger};
pub use nearest::nearest;
pub use runtime::{Attached, BuildError, Builder, CallOptions, Runtime};
