//! The deeds one after the other, and against the programs that do the same.

#![expect(clippy::disallowed_methods, reason = "tests lay out real trees and start programs")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails loudly")]

mod knowledge;
mod patches;
