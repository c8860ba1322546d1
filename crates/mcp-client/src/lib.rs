//! The MCP client: tools of other servers under the same policy, sandbox and ledger as the built-in ones.
//!
//! Each server runs as a process of its own in a sandbox of its own ([`sinew_guard::ServerProgram`]). Its tools are
//! offered as they are pinned ([`pins`]); what a server says of itself is never a fact.

#![forbid(unsafe_code)]

mod connection;
mod definition;
mod features;
mod handler;
mod http;
mod link;
mod ongoing;
mod pins;
mod pipe;
mod servers;
mod settings;
mod sign_in;
mod tool;
mod wire;
mod worker;

pub use connection::MAX_TOOLS;
pub use definition::{Definition, MAX_DEPTH, MAX_DESCRIPTION, MAX_SCHEMA};
pub use pins::{Compared, PinStore, ServerPin, Waiting, compare};
pub use pipe::MAX_MESSAGE;
pub use servers::{ServerStatus, Servers, Tell};
pub use settings::{Endpoint, ServerSettings, Timeouts};
pub use sign_in::{CredentialFiles, SignIn, SignInSettings};
pub use tool::{MAX_ARGUMENT_DEPTH, MAX_ARGUMENTS};
