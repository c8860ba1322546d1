//! Who brought a tool. A server of others never takes the name of a tool that another owner brought.

use std::fmt;
use std::sync::Arc;

/// Who brought a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// A dialect.
    BuiltIn,
    /// The program that the runtime is part of.
    Program,
    /// A server of others, by its name in the configuration.
    Foreign(Arc<str>),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("sinew"),
            Self::Program => f.write_str("the program"),
            Self::Foreign(server) => write!(f, "the server `{server}`"),
        }
    }
}
