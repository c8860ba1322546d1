//! Worlds for tests.
//!
//! A [`MemoryWorld`] is a tree of files in memory that answers as the World of the guard does, so
//! that operations, dialects and the way of a call can be tested without a real tree. Its commands are
//! [`Scripted`].

mod agents;
mod commands;
mod golden;
mod ignore_rules;
mod knowledge;
mod mailbox;
mod memory;
mod pages;
mod shared;
mod skills;
mod tree;

pub use agents::{MemoryAgents, Spawned};
pub use commands::{COMMAND_ROWS, Scripted, finished};
pub use golden::golden;
pub use mailbox::Mailbox;
pub use memory::{MemoryWorld, ROOT, USER_MEMORY, call};
pub use pages::Pages;
pub use shared::{OnDrop, access_list};
pub use skills::MemorySkills;
