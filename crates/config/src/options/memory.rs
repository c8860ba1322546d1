//! What was written of memory files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[tools.memory]`: `MEMORY.md`, in which sessions leave notes for later ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryOptions {
    /// The most bytes of a memory file, to read and to write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
}
