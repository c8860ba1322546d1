//! What is kept of calls: the ledger of records in a hash chain, checkpoints of files, what callers know of files,
//! and the redaction of secrets.
//!
//! The ledger and the index of checkpoints are SQLite databases in the state directory; contents are compressed
//! files beside them.

#![forbid(unsafe_code)]

pub mod checkpoints;
mod database;
pub mod knowledge;
pub mod ledger;
pub mod redact;
