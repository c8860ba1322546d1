//! One tool vocabulary.

use std::sync::Arc;

use crate::{FileSettings, Tool};

/// A table that gives operations the names, parameters, units, defaults, limits and reply shapes of
/// one vocabulary. It holds no state.
#[derive(Debug, Clone, Copy)]
pub struct Dialect {
    /// The name on the command line.
    pub name: &'static str,
    /// Makes the tools, in the order of the catalog.
    pub tools: fn() -> Vec<Arc<dyn Tool>>,
    /// Returns the settings before configuration.
    pub settings: fn() -> FileSettings,
    /// How long somebody who is asked may take, in milliseconds, unless configured.
    pub approval_timeout_ms: u64,
}
