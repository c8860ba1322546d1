//! A dialect: one tool vocabulary.

use std::sync::Arc;

use crate::{FileSettings, Reply, Tool, ToolError};

/// A stateless table of names, parameters, units, defaults, limits and reply shapes of operations.
#[derive(Debug, Clone, Copy)]
pub struct Dialect {
    /// The name on the command line.
    pub name: &'static str,
    /// Makes the tools, in the order of the catalog.
    pub tools: fn() -> Vec<Arc<dyn Tool>>,
    /// Returns the settings before configuration.
    pub settings: fn() -> FileSettings,
    /// The default time limit of an approval, in milliseconds.
    pub approval_timeout_ms: u64,
    /// What holds for all its replies.
    pub conventions: Conventions,
}

/// What holds for all replies of a dialect, beside the shapes of its rows.
#[derive(Debug, Clone, Copy)]
pub struct Conventions {
    /// Shapes an error of a call before its tool is known.
    pub fail: fn(&ToolError) -> Reply,
    /// Whether notes of sinew go to `meta.notes`, because the text of a reply is the result alone.
    pub notes_apart: bool,
}

impl Conventions {
    /// Plain errors, and notes behind the text.
    pub const DEFAULT: Self = Self { fail: Reply::failure, notes_apart: false };
}
