//! Validates arguments of custom tools against their JSON schema: feature `json-schema`.
//!
//! Dialect tools decode arguments themselves. Without the feature, adding a tool that needs it fails.

use sinew_tool::{Arguments, Tool, ToolError};

/// The schema of a tool, compiled by its first call.
#[derive(Default)]
pub(crate) struct SchemaCheck {
    #[cfg(feature = "json-schema")]
    validator: std::sync::OnceLock<Result<jsonschema::Validator, String>>,
}

/// Returns whether this build can check the arguments of a tool.
pub(crate) fn is_available(tool: &dyn Tool) -> bool {
    cfg!(feature = "json-schema") || !tool.checked_by_schema()
}

#[cfg(not(feature = "json-schema"))]
impl SchemaCheck {
    #[expect(clippy::unused_self, reason = "the same signature as with the feature")]
    pub(crate) fn check(&self, tool: &dyn Tool, _: Arguments) -> Result<Arguments, ToolError> {
        let why = format!("the arguments of `{}` cannot be checked in this build", tool.name());
        Err(ToolError::new(sinew_tool::Kind::Unavailable, why))
    }
}

#[cfg(feature = "json-schema")]
impl SchemaCheck {
    /// Returns the arguments if they match the schema.
    pub(crate) fn check(&self, tool: &dyn Tool, args: Arguments) -> Result<Arguments, ToolError> {
        use serde_json::Value;
        use sinew_tool::Kind;

        let validator = self
            .validator
            .get_or_init(|| {
                jsonschema::validator_for(&tool.parameters()).map_err(|e| e.to_string())
            })
            .as_ref()
            .map_err(|error| {
                ToolError::new(Kind::Unavailable, "the schema of this tool is not valid")
                    .source(error.clone())
            })?;
        let args = Value::Object(args);
        if let Some(error) = validator.iter_errors(&args).next() {
            let at = error.instance_path().to_string();
            let at = at.trim_start_matches('/');
            let what = match at {
                "" => format!("arguments do not fit: {error}"),
                at => format!("argument `{at}` does not fit: {error}"),
            };
            return Err(ToolError::new(Kind::InvalidArgs, what));
        }
        match args {
            Value::Object(args) => Ok(args),
            _ => Ok(Arguments::new()),
        }
    }
}
