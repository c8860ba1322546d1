//! Files as the guard sees them: open roots, paths resolved on handles, file identity and git's ignore rules.
//!
//! A path is resolved once, component by component, and no symlink leads out of the roots. Later steps use
//! the open handle, so that the file cannot change between check and use (TOCTOU).

#![forbid(unsafe_code)]

pub mod attributes;
pub mod clock;
pub mod content_hash;
pub mod deferred_close;
pub mod dir_lock;
pub mod git_index;
pub mod git_lock;
pub mod git_pack;
pub mod ignore_rules;
pub mod journal_files;
pub mod kernel;
pub mod literal;
pub mod process_identity;
pub mod real_path;
pub mod resolve;
pub mod roots;
pub mod stat;
pub mod state;
pub mod store;
pub mod temporary;
pub mod undo_log;
pub mod user_database;
pub mod worktree;
