//! Tool runtime for LLM agents: executes the tool calls a model makes, contained,
//! judged and recorded, in the vocabulary the model was trained on.
//!
//! An embedding program picks a dialect and roots, and calls. Here a model runs a command:
//!
//! ```standalone_crate
//! use std::sync::Arc;
//! use sinew::{CallOptions, CheckpointSettings, Checkpoints, CommandSettings, Request, Runtime};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // First: sinew executes this program again to start commands.
//!     let helper = sinew::helper_main();
//! # let dir = tempfile::tempdir()?;
//! # let (project, state) = (&dir.path().join("project"), &dir.path().join("state"));
//! # std::fs::create_dir(project)?;
//! # std::fs::write(project.join("list"), "b\na\n")?;
//!     let commands = CommandSettings::standard(helper, [project], state, std::env::vars_os());
//!     let checkpoints = Arc::new(Checkpoints::at(state, CheckpointSettings::default()));
//!     let runtime = Runtime::builder(sinew::dialects::NATIVE)
//!         .root(project)
//!         .deny(state)
//!         .commands(commands)
//!         .checkpoints(checkpoints)
//!         .build()?;
//!
//!     let arguments = serde_json::from_value(serde_json::json!({"command": "sort list"}))?;
//!     let call = runtime.call(Request::new("call-1", "Bash", arguments), CallOptions::default());
//!     let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//!     let text = tokio.block_on(call).into_text()?;
//!     assert!(text.starts_with("a\nb"), "{text}");
//!     Ok(())
//! }
//! ```
//!
//! - [`Asking`] and [`Approver`] decide about calls that a rule asks about. By default a call runs unasked if it stays
//!   inside the roots and can be undone. Any other needs the answer of an approver.
//! - Own tools come from `tool_fn` (feature `tool-fn`) or implement [`Tool`], and are added with [`Builder::tool`]. A
//!   [`Tool`] needs the feature `json-schema`, which validates its arguments, unless it checks them itself.
//! - A [`Hook`] changes or blocks calls before they are judged.
//! - A [`Ledger`] records calls: [`MemoryLedger`] or [`SqliteLedger`]. [`Metrics`] is a [`Recorder`] that counts and times
//!   them.
//!
//! The default feature `cli` adds the command, its configuration files and MCP; embedding programs set
//! `default-features = false` and add `tool-fn`. The guide `docs/embedding.md` describes each part, and `examples/` has
//! programs to start from.

#![deny(missing_docs)]

#[cfg(feature = "cli")]
mod agent;
#[cfg(feature = "cli")]
mod by_caller;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
mod client_start;
#[cfg(feature = "cli")]
mod commands;
#[cfg(feature = "cli")]
mod hooks;
#[cfg(feature = "cli")]
mod mcp_servers;
mod metrics;
#[cfg(feature = "cli")]
mod output;
#[cfg(feature = "cli")]
mod screen;
#[cfg(feature = "cli")]
mod signals;
#[cfg(feature = "cli")]
mod skills;
#[cfg(feature = "cli")]
mod terminal;
#[cfg(feature = "tool-fn")]
mod tool_fn;
#[cfg(feature = "cli")]
mod trace;
#[cfg(feature = "cli")]
mod webhook;
#[cfg(feature = "cli")]
mod wiring;

/// The examples of the guide for embedding programs, compiled as tests.
#[cfg(all(doctest, feature = "tool-fn"))]
#[doc = include_str!("../../../docs/embedding.md")]
struct EmbeddingGuide;

/// The tool vocabularies.
pub mod dialects {
    pub use sinew_dialects::{
        AGENTOS, AIONRS, ALL, CLAWFT, CODEX, HOOK_FORMS, MCP_FILESYSTEM, MOLF, MOLTIS, NATIVE,
        dialect, hook_form,
    };
}

pub use metrics::{Metrics, MetricsError};
#[cfg(feature = "cli")]
pub use sinew_config as config;
pub use sinew_guard::{
    AskCommands, CheckpointSettings, Checkpoints, CommandSettings, GlobalIgnore, Helper,
    JournalSettings, KnowledgeBase, LedgerSync, OnFailure, OwnProgramSettings, OwnPrograms,
    ProcessLimits, Profile, Recorded, Redactor, Resolver, Retention, Rules, SandboxLevel,
    Shortfall, SqliteLedger, StateDir, TrustedPrograms, UsageLimits, UserContext, close_process,
    environment, helper_main,
};
#[cfg(feature = "cli")]
pub use sinew_mcp::{
    Calls as McpCalls, McpServerShell, Options as McpOptions, Stream as McpStream,
};
pub use sinew_runtime::{
    Approvals, Asking, BuildError, Builder, CallOptions, Catalog, CommandHook, CommandHookSettings,
    CompositeToolProvider, ForeignEntry, ForeignTool, HookCommand, HookTrial, MemoryLedger,
    NarrowedBy, Narrowing, NoLedger, Owner, Runtime, SessionGrant, SessionGrantStore, SubAgent,
    ToolDefinition, ToolInfo, ToolProvider, Visibility, WorkingAgent,
};
pub use sinew_tool::*;
#[cfg(feature = "tool-fn")]
pub use tool_fn::{FunctionTool, blocking_tool_fn, tool_fn};

/// Runs the command `sinew` with this process's arguments.
#[cfg(feature = "cli")]
pub fn main() -> std::process::ExitCode {
    let helper = helper_main();
    close_process();
    sinew_guard::bear_limits();
    let cli = cli::Cli::of_process();
    match run(&cli, helper) {
        Ok(code) => code,
        // EPIPE: the reader has closed its end, which is no failure.
        Err(error) if is_broken_pipe(&error) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            screen::say(&format!("{error:#}"));
            std::process::ExitCode::from(2)
        }
    }
}

#[cfg(feature = "cli")]
fn run(cli: &cli::Cli, helper: Helper) -> anyhow::Result<std::process::ExitCode> {
    use wiring::Project;

    let for_load = helper.clone();
    let load = || {
        let by_client = match cli.command {
            // The arguments may come from a repository.
            cli::Command::Mcp(cli::McpArgs { check }) => check || !terminal::is_attended(),
            _ => false,
        };
        let said = match by_client {
            true => wiring::CliInput::by_client(&cli.global)?,
            false => wiring::CliInput::by_person(&cli.global)?,
        };
        match cli.command {
            // `audit` and `log` work in any directory, and `doctor` reports broken parts.
            cli::Command::Audit { .. } | cli::Command::Log(_) => {
                wiring::load_anyway(said, for_load.clone(), Project::Optional)
            }
            cli::Command::Doctor { .. } => {
                wiring::load_anyway(said, for_load.clone(), Project::Needed)
            }
            _ => wiring::load(said, for_load.clone(), Project::Needed),
        }
    };
    match &cli.command {
        cli::Command::Setup(args) => commands::setup::run(args),
        cli::Command::Trust(args) => commands::trust::run(&cli.global, args),
        cli::Command::Import { form, file, out } => {
            commands::import::run(*form, file, out.as_deref())
        }
        cli::Command::Help(args) => commands::help::run(load, args),
        cli::Command::Completions { shell } => commands::manual::completions(*shell),
        cli::Command::Man { command, dir: Some(dir) } if command.is_empty() => {
            commands::manual::write(dir)
        }
        cli::Command::Man { command, .. } => commands::manual::page(command),
        cli::Command::Tools(args) => commands::tools::run(&load()?, args),
        cli::Command::Call(args) => commands::call::run(load()?, args),
        cli::Command::Mcp(args) => commands::mcp::run(&load()?, args.check),
        cli::Command::Pipe => commands::pipe::run(load()?),
        cli::Command::Run(args) => commands::run::run(load()?, args),
        cli::Command::Chat(args) => commands::chat::run(&load, args),
        cli::Command::Replay(args) => commands::replay::run(&cli.global, helper.clone(), args),
        cli::Command::Agents { command } => commands::agents::run(&load()?, command),
        cli::Command::Skills { command } => commands::skills::run(&load()?, command),
        cli::Command::Sessions { command } => commands::sessions::run(&load()?, command),
        cli::Command::Config { command: cli::ConfigCommand::Show { json } } => {
            commands::config::show(&load()?, *json)
        }
        cli::Command::Log(args) => commands::log::run(&load()?, args),
        cli::Command::Undo(args) => commands::undo::run(load()?, args),
        cli::Command::Checkpoint { command } => commands::checkpoint::run(load()?, command),
        cli::Command::Audit { command } => commands::audit::run(&load()?, command),
        cli::Command::Hook { command } => commands::hook::run(load()?, command),
        cli::Command::McpServers { command } => commands::mcp_servers::run(&load()?, command),
        cli::Command::Policy { command } => commands::policy::run(&load()?, command),
        cli::Command::Doctor { json } => match load() {
            Ok(loaded) => commands::doctor::run(&loaded, *json),
            // An error in doctor's own arguments is no finding.
            Err(error) if stops_without_arguments(helper) => {
                commands::doctor::stopped(&error, *json)
            }
            Err(error) => Err(error),
        },
    }
}

/// Returns whether the user's or system's configuration stops every command.
#[cfg(feature = "cli")]
fn stops_without_arguments(helper: Helper) -> bool {
    let said = wiring::CliInput::by_person(&cli::Global::default());
    said.and_then(|said| wiring::load(said, helper, wiring::Project::LeftOut)).is_err()
}

#[cfg(feature = "cli")]
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
