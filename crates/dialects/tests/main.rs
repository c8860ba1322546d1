//! What the dialects promise: catalogs as the published pages give them, and replies word by word.
#![expect(clippy::indexing_slicing, reason = "a test that cannot go on says so by failing")]

mod calls;
mod commands;
mod knowledge;
mod limits;
mod published;
mod scoreboard;
mod table;
