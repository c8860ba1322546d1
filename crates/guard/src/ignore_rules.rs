//! Ignore files.

use std::path::PathBuf;

/// Compiled ignore files.
#[derive(Debug)]
pub(crate) struct IgnoreCache {
    global: Option<PathBuf>,
}

impl IgnoreCache {
    pub(crate) fn new(global: Option<PathBuf>) -> Self {
        Self { global }
    }
}
