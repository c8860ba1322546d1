//! What is allowed: rules about paths and commands, globs, and the ruling on a call.
//!
//! Everything here decides and changes nothing. A call is judged by what it names (its claims and its command), by
//! the layers of rules, and by the profile.

#![forbid(unsafe_code)]

pub mod command_policy;
pub mod command_rules;
pub mod globs;
pub mod judge;
pub mod rule;
pub mod rules;
