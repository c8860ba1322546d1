//! MCP over stdio.
//!
//! One thread does blocking reads of lines from a pipe, socket or file. It answers `ping`, `tools/list` and
//! cheap calls itself, with one write per read.
//!
//! Other lines go to the library `rmcp`, whose runtime starts with the first of them. Both ways give the same
//! bytes: a test runs every transcript through both.
//!
//! Backpressure: a blocked write blocks the reader. After end of input the client gets its pending answers.

mod calls;
mod catalog;
mod elicit;
mod engine;
mod escape;
mod frame;
mod handler;
mod line;
mod object;
mod params;
mod progress;
mod protocol;
mod reply;
mod server;
mod shell;
mod transport;

pub use calls::Calls;
pub use line::{Line, Lines};
pub use object::Object;
pub use progress::Pace;
pub use server::{Options, Stream, serve};
pub use shell::McpServerShell;

/// The newest protocol revision with a handshake.
pub const WITH_HANDSHAKE: &str = "2025-11-25";
/// The stateless protocol revision: each request carries its version.
pub const STATELESS: &str = "2026-07-28";
