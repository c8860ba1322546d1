//! Tool vocabularies: tables of names, parameters, units, defaults, limits and reply shapes of operations.
//!
//! Each dialect is one file without state or I/O. It chooses shape, never containment, policy, atomicity or
//! truncation.

mod agentos;
mod aionrs;
mod clawft;
mod codex;
mod hooks;
mod mcp_filesystem;
mod molf;
mod moltis;
mod native;
mod rules;
mod words;

use std::sync::Arc;

use sinew_tool::{Dialect, Tool};

pub use agentos::AGENTOS;
pub use aionrs::AIONRS;
pub use clawft::{
    ALLOWED as CLAWFT_ALLOWED, CLAWFT, DANGEROUS as CLAWFT_DANGEROUS,
    MAX_TIMEOUT_S as CLAWFT_MAX_TIMEOUT_S,
};
pub use codex::CODEX;
pub use hooks::{HOOK_FORMS, hook_form};
pub use mcp_filesystem::MCP_FILESYSTEM;
pub use molf::MOLF;
pub use moltis::MOLTIS;
pub use native::NATIVE;
pub use rules::{forbidden, names, operations};

/// All dialects in help order.
pub const ALL: &[Dialect] = &[NATIVE, MOLTIS, MOLF, AGENTOS, AIONRS, CLAWFT, CODEX, MCP_FILESYSTEM];

/// Returns the tools of every dialect.
pub fn tools() -> impl Iterator<Item = Arc<dyn Tool>> {
    ALL.iter().flat_map(|dialect| (dialect.tools)())
}

/// Returns the dialect with a name.
pub fn dialect(name: &str) -> Option<&'static Dialect> {
    ALL.iter().find(|dialect| dialect.name == name)
}
