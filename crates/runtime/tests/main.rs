//! The way of a call, on real roots, with tools made for the test.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on says so by failing"
)]

mod asking;
mod deeds;
mod hooks;
mod owners;
mod spans;
mod way;
