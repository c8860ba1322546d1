//! Why a runtime cannot be built.

use std::sync::Arc;

use sinew_guard::GuardError;
use sinew_tool::Tool;

use crate::schema_check;

/// Why a runtime could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No root was given.
    #[error("no root was given; add one with `root`")]
    NoRoot,
    /// The tool needs JSON schema checks, and the feature `json-schema` is off.
    #[error(
        "the tool `{0}` has its arguments checked by its JSON schema, which this build cannot; enable the feature \
         `json-schema`, or return false from `checked_by_schema` and check them in the tool"
    )]
    NoSchemaCheck(String),
    /// The guard refused the roots or the rules.
    #[error(transparent)]
    Guard(#[from] GuardError),
}

/// Rejects a tool whose arguments this build cannot check.
pub(crate) fn checkable(tool: &Arc<dyn Tool>) -> Result<(), BuildError> {
    match schema_check::is_available(&**tool) {
        true => Ok(()),
        false => Err(BuildError::NoSchemaCheck(tool.name().to_owned())),
    }
}
