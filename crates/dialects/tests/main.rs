//! What the dialects promise: catalogs as the published pages give them, and replies word by word.

mod calls;
mod scoreboard;
mod table;
