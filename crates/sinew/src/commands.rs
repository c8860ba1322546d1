//! The commands, one file each.

pub(crate) mod call;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod mcp;
pub(crate) mod tools;

use crate::config::LogLevel;
use crate::wiring::Loaded;

/// Writes what was left out of the configuration to standard error.
fn warn(loaded: &Loaded) {
    if LogLevel::Warn <= loaded.settings.log {
        for warning in &loaded.layered.warnings {
            eprintln!("sinew: {warning}");
        }
    }
}
