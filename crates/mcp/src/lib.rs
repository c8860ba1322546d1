//! MCP over stdio.
//!
//! One plain thread reads lines from whatever the input is — pipe, socket, file — with blocking
//! reads. It answers `ping`, `tools/list` and calls of cheap tools itself, into one buffer that is
//! written once a read. Every other line goes to the protocol library, `rmcp`, on a runtime that
//! starts with the first such line. Both ways give the same bytes; a test runs every transcript
//! through both.
//!
//! A client that stops reading is no longer read from: a blocked write blocks the reader. A client
//! that closes its end gets the answers that are still due, then the server ends.

mod calls;
mod catalog;
mod elicit;
mod engine;
mod frame;
mod handler;
mod line;
mod object;
mod params;
mod progress;
mod protocol;
mod reply;
mod server;
mod transport;

pub use calls::Calls;
pub use line::{Line, Lines};
pub use object::Object;
pub use progress::Pace;
pub use server::{Options, Stream, serve};

/// The newest revision with a handshake.
pub const WITH_HANDSHAKE: &str = "2025-11-25";
/// The revision without one: each request carries its version.
pub const STATELESS: &str = "2026-07-28";
