//! The server as a client sees it.

mod connection;
mod endings;
mod transcripts;
