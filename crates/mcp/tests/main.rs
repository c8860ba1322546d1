//! The server as a client sees it.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on says so by failing"
)]

mod connection;
mod endings;
mod shell;
mod transcripts;
