//! A dialect: one tool vocabulary.

use std::sync::Arc;

use crate::{FileSettings, Tool};

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
}
