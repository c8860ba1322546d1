//! Tool runtime for LLM agents: executes the tool calls a model makes, contained,
//! judged and recorded, in the vocabulary the model was trained on.
//!
//! An embedding program names a project and calls. Here a model runs a command:
//!
//! ```standalone_crate
//! use sinew::{CallOptions, Request};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // First: sinew executes this program again to start commands.
//!     let helper = sinew::helper_main();
//! # let dir = tempfile::tempdir()?;
//! # let (project, state) = (&dir.path().join("project"), &dir.path().join("state"));
//! # std::fs::create_dir(project)?;
//! # std::fs::write(project.join("list"), "b\na\n")?;
//!     let runtime = sinew::standard(helper, project, state).build()?;
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
//! - [`approval`]: [`Asking`](approval::Asking) and [`Approver`](approval::Approver) decide about calls that a rule asks
//!   about. By default a call runs unasked if it stays inside the roots and can be undone. Any other needs the answer of an
//!   approver.
//! - [`tool`]: own tools come from `tool_fn` (feature `tool-fn`) or implement [`Tool`](tool::Tool), and are added with
//!   [`Builder::tool`]. A `Tool` needs the feature `json-schema`, which validates its arguments, unless it checks them itself.
//! - [`hook`]: a [`Hook`](hook::Hook) changes or blocks calls before they are judged.
//! - [`ledger`]: a [`Ledger`](ledger::Ledger) records calls, in memory or in SQLite, and [`Metrics`](ledger::Metrics) counts
//!   and times them.
//! - [`checkpoint`], [`command`], [`file`], [`policy`], [`web`], [`message`], [`skill`] and [`sub_agent`] have the settings
//!   and types of these parts. The names at the top are those that most programs need.
//!
//! The default feature `cli` adds the command, its configuration files and MCP; embedding programs set
//! `default-features = false` and add `tool-fn`. The guide `docs/embedding.md` describes each part, and `examples/` has
//! programs to start from.

#![deny(missing_docs)]

use std::path::PathBuf;
use std::sync::Arc;

use checkpoint::CheckpointSettings;

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
mod json_form;
#[cfg(feature = "cli")]
mod live_output;
#[cfg(feature = "cli")]
mod mcp_servers;
mod metrics;
#[cfg(feature = "cli")]
mod output;
#[cfg(feature = "cli")]
mod screen;
#[cfg(feature = "cli")]
mod second_terminal;
#[cfg(feature = "cli")]
mod shown_question;
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

/// Who is asked about a call, and how the answer is given and remembered.
pub mod approval {
    pub use sinew_runtime::{
        Approvals, Asking, Attached, GrantStore, SessionGrant, SessionGrantStore,
    };
    pub use sinew_tool::{
        Answer, Approver, Cover, Filled, Form, Question, Ruled, Ruling, Scope, UndoCover, Verdict,
    };
}

/// The states before changes, which undo and redo restore.
pub mod checkpoint {
    pub use sinew_guard::checkpoints::{
        Collected, Content, Entry, History, Larger, Listed, PathState, Query, Scope, Usage,
    };
    pub use sinew_guard::{CheckpointError, CheckpointId, CheckpointSettings, Checkpoints};
    pub use sinew_tool::{
        CheckpointInfo, CheckpointQuery, LeftPath, NoCheckpoints, PathChange, Restore, RestoreAct,
        RestoreChoice, RestoreConflict, RestorePlan, RestoreStep, Was,
    };
}

/// Commands: their settings, sandbox levels and results.
pub mod command {
    pub use sinew_guard::{
        Activate, AskCommands, CommandSettings, OwnEnd, OwnProgram, OwnProgramSettings,
        OwnPrograms, OwnRan, ProcessLimits, RunningServer, SandboxLevel, ServerProcess,
        ServerProgram, Shortfall, TrustedPrograms, Unrunnable, UsageLimits, UserContext,
        environment,
    };
    pub use sinew_tool::{
        Analysis, Background, Command, CommandChanges, CommandLine, CommandList, CommandTarget,
        Contained, Exit, ExtraAccess, ExtraPath, Finished, Key, LazyCommandList, MAX_STORED_OUTPUT,
        Matcher, Moved, Need, Needs, News, NoProcesses, Output, Piece, Plain, Processes,
        RUNS_LATER, Refused, RunOptions, SandboxFindings, Screen, Segment, Shell, Size, Typed,
        Unclear, Used, Wait, Waited, WentBack,
    };
}

/// Files as tools see them, and the settings of access to them.
pub mod file {
    pub use sinew_guard::{GlobalIgnore, JournalSettings, KnowledgeBase, Resolver};
    pub use sinew_tool::{
        Becomes, BinaryPolicy, Change, Clock, CommitError, ContentHash, Entry, Expect, FileError,
        FileKind, FileMeta, FileMode, FileOp, FileSettings, Files, Flow, HardLinks, Identity, Info,
        Knowledge, Listed, Listing, NoKnowledge, Opened, OutsidePaths, ReadObservation, Seen,
        Stamp, Sync, Visitor, Visitors, WalkOptions, WalkReport, Writer, Written,
    };
}

/// Programs and functions that run around calls, and what they are given.
pub mod hook {
    pub use sinew_runtime::{CommandHook, CommandHookSettings, HookCommand, HookTrial};
    pub use sinew_tool::hook::{example, payload, schema, schemas};
    pub use sinew_tool::{
        AfterCompaction, AfterModelCall, AgentEnd, AgentEvent, AgentStart, Approval,
        BeforeCompaction, BeforeModelCall, BeforePrompt, Decision, Executed, FormEvent, Hook,
        HookAnswer, HookEnd, HookEvent, HookForm, HookReply, MessageReceived, MessageSending,
        MessageSent, NamedPaths, SINEW_HOOKS, SessionEnd, SessionStart, ToolCall, TurnEnd,
        TurnStart,
    };
}

/// The audit log of calls, and their metrics.
pub mod ledger {
    pub use crate::metrics::{Metrics, MetricsError};
    pub use sinew_guard::{LedgerSync, OnFailure, Recorded, Redactor, Retention, SqliteLedger};
    pub use sinew_runtime::{MemoryLedger, NoLedger};
    pub use sinew_tool::{Closing, Event, Ledger, Opening, Recorder, Ticket};
}

/// Messages between agents and people.
pub mod message {
    #[cfg(feature = "web")]
    pub use sinew_guard::Channel;
    pub use sinew_guard::{
        ChildLimits, MessageError, MessageLimits, MessageSettings, MessageStore, NewChildren,
    };
    pub use sinew_tool::{
        AGENT, ChannelKind, ChannelMessage, Inbox, InboxMessage, MessageClaim, MessageTarget,
        Messages, NoMessages, Receiver, ReceiverClaim, SentMessage, UncertainMessage, no_messages,
    };
}

/// Rules about calls.
pub mod policy {
    pub use sinew_guard::{
        CommandPattern, CommandPolicy, Condition, HostPattern, Layer, Object, Paths, Profile, Rule,
        RuleOrigin, Rules,
    };
}

/// Skills: instructions that a model loads when it needs them.
pub mod skill {
    pub use sinew_tool::{LoadedSkill, NoSkills, SkillCaller, SkillIndex, SkillInfo, SkillRequest};
}

/// Agents that an agent starts, and what they may use.
pub mod sub_agent {
    pub use sinew_runtime::{NarrowedBy, Narrowing, Owner, SubAgent, WorkingAgent};
    pub use sinew_tool::agents::{
        above, address, addresses, depth, is_sub_agent, is_template_name, lineage, name_beneath,
    };
    pub use sinew_tool::{
        AgentReport, AgentSpawner, AgentTask, NoAgents, SpawnLimit, TemplateInfo,
    };
}

/// Tools: how they are described, judged and run, and the catalog that holds them.
pub mod tool {
    pub use sinew_runtime::{
        Catalog, CompositeToolProvider, ForeignEntry, ForeignTool, PendingTools, ToolDefinition,
        ToolInfo, ToolProvider, Visibility,
    };
    pub use sinew_tool::{
        Access, Bound, Checkpoints, Claim, Context, Conventions, Cost, CutText, Dialect, Effects,
        Facts, FileState, FileTarget, ForeignNames, FoundTool, FoundTools, Links, Memo,
        MemoryScope, NoTools, Operation, Outputs, Param, ParamKind, Position, Prepared, Preset,
        Preview, Ran, Row, Scale, Shaping, Slot, Targets, Tool, ToolIndex, ToolOrigin,
        ToolSearcher, World, file_uri, function_call, line_name, name_matches, shown, shown_line,
        shown_path, tool_matches, visible_only, wire_name,
    };
}

/// What tools reach of the web.
pub mod web {
    pub use sinew_guard::{HostPattern, Proxies, ProxyAddress, WebSettings};
    pub use sinew_tool::{
        ApiKey, Net, NoNet, PageForm, ProviderChoice, ReadPage, SearchAnswer, SearchClaim,
        SearchProvider, SearchQuery, SearchResult, SearchSettings, SearchTarget, UrlClaim,
        UrlTarget, WebRequest, WebResponse, shown_url,
    };
}

/// MCP as a server, for programs that serve it themselves.
#[cfg(feature = "cli")]
pub mod mcp {
    pub use sinew_mcp::{Calls, McpServerShell, Options, Stream};
}

#[cfg(feature = "cli")]
pub use sinew_config as config;
pub use sinew_guard::{Helper, StateDir, close_process, helper_main};
pub use sinew_runtime::{BuildError, Builder, CallOptions, Runtime};
pub use sinew_tool::{
    Arguments, Block, BoxFuture, Caller, Cancel, CancelWait, ErrorBody, Host, Kind, Meta, More,
    Progress, Reply, Request, Resource, Skipped, ToolError, call_id,
};
#[cfg(feature = "tool-fn")]
pub use tool_fn::{FunctionTool, blocking_tool_fn, tool_fn};

/// Returns a builder with all standard parts: the native dialect, one root, commands in the sandbox and checkpoints.
///
/// `state` is a directory outside the root for what sinew keeps, which no tool reaches. Commands get the environment of this
/// process without secrets.
#[expect(clippy::disallowed_methods, reason = "an embedding program passes on its environment")]
pub fn standard(helper: Helper, project: impl Into<PathBuf>, state: impl Into<PathBuf>) -> Builder {
    let (project, state) = (project.into(), state.into());
    let variables = std::env::vars_os();
    let commands = command::CommandSettings::standard(helper, [&project], &state, variables);
    let checkpoints = checkpoint::Checkpoints::at(&state, CheckpointSettings::default());
    let builder = Runtime::builder(dialects::NATIVE).root(project).deny(state);
    builder.commands(commands).checkpoints(Arc::new(checkpoints))
}

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
        Err(error) => json_form::report(&error),
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
            // `approve`, `audit` and `log` work in any directory, and `doctor` reports broken parts.
            cli::Command::Approve | cli::Command::Audit { .. } | cli::Command::Log(_) => {
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
        cli::Command::Approve => commands::approve::run(&load()?),
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
