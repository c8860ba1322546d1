//! Records of calls: the ledger in a hash chain, checkpoints of files, knowledge of files, sessions of agents, and
//! redaction of secrets.
//!
//! The ledger, the checkpoint index and the sessions are SQLite databases in the state directory. Checkpoint contents
//! are files beside them.

#![forbid(unsafe_code)]

pub mod checkpoints;
mod database;
pub mod knowledge;
pub mod ledger;
pub mod messages;
pub mod redact;
pub mod session_claim;
pub mod sessions;
