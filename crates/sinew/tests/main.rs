//! The library and the command as their users have them, against real trees and real programs.

#![expect(clippy::disallowed_methods, reason = "tests lay out real trees and start programs")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly"
)]

mod agent;
mod audit;
mod beginning;
mod broken;
mod busy;
mod caches;
mod caller;
mod cli;
mod client;
mod colors;
mod consent;
mod damage;
mod database;
mod differential;
mod environment;
mod examples;
mod fidelity;
mod hooks;
mod hostile;
mod hostile_commands;
mod import;
mod json_form;
mod limits;
mod live;
mod log_command;
mod managed;
mod memory;
mod messages;
mod metrics;
mod molf;
mod names;
mod needs;
mod objects;
mod outside;
mod outside_open;
mod pipe;
mod policy;
mod race;
mod readme;
mod rows;
mod served;
mod setup;
mod shell;
mod signals;
mod snapshot;
mod sub_agents;
mod trust;
mod undo;
mod undo_command;
mod undo_tool;
mod unkept;
mod unkept_terminal;
mod unsandboxed;
mod writers;
