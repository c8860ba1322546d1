//! The commands, one file each.

pub(crate) mod audit;
pub(crate) mod call;
pub(crate) mod checkpoint;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod mcp;
pub(crate) mod pipe;
pub(crate) mod policy;
pub(crate) mod tools;

use sinew_runtime::Runtime;

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

/// Writes the records that wait. Where that fails, the calls were made all the same, so their own
/// status stays and the failure is told beside it.
fn flush(runtime: &Runtime) {
    if let Err(error) = runtime.flush() {
        let hint = error.hint.as_deref().unwrap_or_default();
        eprintln!("sinew: {error}; {hint}");
    }
}
