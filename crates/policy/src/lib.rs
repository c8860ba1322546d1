//! Policy: rules on paths and commands, globs, and the ruling on a call.
//!
//! It changes nothing. A call is judged by its claims, its command, the layers of rules, and the profile.

#![forbid(unsafe_code)]

pub mod addresses;
pub mod command_policy;
pub mod command_rules;
pub mod git_config;
pub mod globs;
pub mod guarded;
pub mod hosts;
pub mod judge;
pub mod named;
pub mod path_bytes;
pub mod protected;
pub mod proxies;
pub mod publishing;
pub mod rule;
pub mod rules;
