//! The agent on the command line: its model, its session in the state directory, and what people see of it.

pub(crate) mod call_line;
pub(crate) mod changes;
pub(crate) mod instructions;
pub(crate) mod json_output;
mod markdown;
mod model_client;
mod model_key;
pub(crate) mod models;
pub(crate) mod report;
mod setup;
pub(crate) mod spawner;
pub(crate) mod text_output;
pub(crate) mod transcript;

pub(crate) use setup::{AgentParts, AgentWishes, choose_model, set_up, switch_model};
