//! Files as the guard sees them: roots that are open, paths resolved beneath them on handles, what a file is, and
//! what git ignores.
//!
//! A path is resolved once, component by component without following links out of the roots; from then on the open
//! handle is used, so that nothing can be exchanged between the check and the use (TOCTOU).

#![forbid(unsafe_code)]

pub mod attributes;
pub mod clock;
pub mod content_hash;
pub mod deferred_close;
pub mod dir_lock;
pub mod ignore_rules;
pub mod journal_files;
pub mod kernel;
pub mod literal;
pub mod process_identity;
pub mod resolve;
pub mod roots;
pub mod stat;
pub mod state;
pub mod store;
pub mod temporary;
pub mod user_database;
pub mod worktree;
