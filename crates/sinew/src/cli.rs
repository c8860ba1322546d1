//! The command line.

mod setup;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::config::env_vars;
use crate::config::import::Form;
use crate::json_form;

pub use self::setup::{SetupArgs, SetupClient};

/// Tool runtime for LLM agents: sandboxed file, search, edit and shell tools with approvals, audit log and undo.
#[derive(Debug, Parser)]
#[command(name = "sinew", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Reads the arguments of this process and its variables; a variable that is empty counts as
    /// one that is not set. What cannot be understood ends the process.
    pub fn of_process() -> Self {
        let words: Vec<OsString> = std::env::args_os().collect();
        let short = words.iter().any(|word| word == "mcp" || word == "call");
        let short = short.then(|| Self::of_short(&words)).flatten();
        short.unwrap_or_else(|| Self::of(&words))
    }

    /// Reads the arguments of a command that a program starts. Returns `None` for every other command line, also one with an
    /// error, which the whole parser explains.
    fn of_short(words: &[OsString]) -> Option<Self> {
        let matches = with_variables(Short::command()).try_get_matches_from(words).ok()?;
        let Short { global, command } = Short::from_arg_matches(&matches).ok()?;
        let command = match command {
            ShortCommand::Call(args) => Command::Call(args),
            ShortCommand::Mcp(args) => Command::Mcp(args),
        };
        Some(Self { global, command })
    }

    /// Reads these arguments and the variables of this process. What cannot be understood ends the process.
    pub(crate) fn of_words(words: &[String]) -> Self {
        let program = std::iter::once("sinew");
        let words: Vec<OsString> =
            program.chain(words.iter().map(String::as_str)).map(OsString::from).collect();
        Self::of(&words)
    }

    /// Returns the command line as its help shows it: the options of every command are in the help of `sinew` alone.
    pub(crate) fn for_help() -> clap::Command {
        fn shorten(command: clap::Command) -> clap::Command {
            let command =
                command.mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg });
            let more = "Options of every command: `sinew help`.";
            command.after_help(more).mut_subcommands(shorten)
        }
        let mut command = Self::command();
        command.build();
        command.mut_subcommands(shorten)
    }

    fn of(words: &[OsString]) -> Self {
        let matches = with_variables(Self::command()).try_get_matches_from(words);
        let read = matches.and_then(|matches| Self::from_arg_matches(&matches));
        read.unwrap_or_else(|error| {
            if error.kind() == ErrorKind::DisplayHelp {
                let _ = with_variables(Self::for_help()).get_matches_from(words);
            }
            if !error.use_stderr() {
                error.exit();
            }
            json_form::report_usage(&error.render().to_string());
            std::process::exit(error.exit_code())
        })
    }
}

/// Returns a command line whose empty variables count as not set.
fn with_variables(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| {
        let is_empty = arg.get_env().is_some_and(env_vars::is_empty);
        if is_empty { arg.env(None::<&str>) } else { arg }
    })
}

/// The commands that a program starts, again and again: without the options of all others they are understood
/// in a fifth of the time.
#[derive(Debug, Parser)]
#[command(name = "sinew", version, disable_help_flag = true, disable_version_flag = true)]
struct Short {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: ShortCommand,
}

#[derive(Debug, Subcommand)]
enum ShortCommand {
    #[command(disable_help_flag = true)]
    Call(CallArgs),
    #[command(disable_help_flag = true)]
    Mcp(McpArgs),
}

/// Options of `sinew mcp`.
#[derive(Debug, Args)]
pub struct McpArgs {
    /// Do everything that comes before the first message, then exit: for `sinew doctor`.
    #[arg(long, hide = true, overrides_with = "check")]
    pub check: bool,
}

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// A directory that tools may touch; repeatable, the first is their working directory
    /// [default: the current directory].
    #[arg(long, global = true, value_name = "DIR", env = env_vars::ROOT, value_delimiter = ':')]
    pub root: Vec<PathBuf>,
    /// The tool vocabulary: native, moltis, molf, agentos, aionrs, clawft, codex, mcp-filesystem.
    #[arg(long, global = true, value_name = "NAME", env = env_vars::DIALECT)]
    pub dialect: Option<String>,
    /// The tools to serve: core, all, read, edit, run, web, agents, or names with `*`; repeatable
    /// [default: core over MCP in the native dialect, else all].
    #[arg(long, global = true, value_name = "TOOLS", env = env_vars::TOOLS, value_delimiter = ',')]
    pub tools: Vec<String>,
    /// Serve only tools that read; nothing is changed and no command runs.
    #[arg(long, global = true, env = env_vars::READ_ONLY, value_parser = BoolishValueParser::new())]
    pub read_only: bool,
    /// A further configuration file, TOML or JSON; its values override those of the files that are always read.
    #[arg(long, global = true, value_name = "FILE", env = env_vars::CONFIG)]
    pub config: Option<PathBuf>,
    /// Set one key of the configuration; repeatable.
    #[arg(long, global = true, value_name = "KEY=VALUE", env = env_vars::SET)]
    pub set: Vec<String>,
    /// The name of the session in the audit log [default: a new one each time].
    #[arg(long, global = true, value_name = "NAME", env = env_vars::SESSION)]
    pub session: Option<String>,
    /// The least severe messages that are written to standard error: error, warn, info.
    #[arg(long, global = true, value_name = "LEVEL", env = env_vars::LOG)]
    pub log: Option<String>,
    /// The weakest sandbox that commands may run in: namespaces, bubblewrap, landlock, none; without a value:
    /// namespaces. Where only weaker ones work, no command runs.
    #[arg(
        long, global = true, value_name = "LEVEL", env = env_vars::REQUIRE_SANDBOX,
        num_args = 0..=1, require_equals = true, default_missing_value = "namespaces"
    )]
    pub require_sandbox: Option<String>,
    /// What happens with calls that need approval: auto, ask, trust-client (MCP only), allow, deny.
    #[arg(long, global = true, value_name = "MODE", env = env_vars::APPROVALS)]
    pub approvals: Option<String>,
    /// How much runs without asking: read-only, workspace, sandboxed, full.
    #[arg(long, global = true, value_name = "PROFILE", env = env_vars::PROFILE)]
    pub profile: Option<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the tools of a dialect.
    Tools(ToolsArgs),
    /// Call one tool, or many with --batch.
    Call(CallArgs),
    /// Serve the tools over MCP on standard input and output.
    Mcp(McpArgs),
    /// Register sinew with an MCP client, or list the clients on this machine; `--undo` takes that back.
    Setup(SetupArgs),
    /// Answer questions about the calls of any client at this terminal, until Ctrl-C: some clients show no questions.
    Approve,
    /// Take calls and answers to questions as JSON lines, and give replies, progress and questions as they
    /// come: {type: "call", id, name, arguments}, {type: "cancel", id}, {type: "answer", question, answer,
    /// reason?} in; {type: "reply", id, …}, {type: "progress", id, …}, {type: "question", question, id, …} and
    /// {type: "settled", question} out.
    Pipe,
    /// Run an agent on a task: a model that uses the tools.
    Run(RunArgs),
    /// Talk with an agent at the terminal.
    Chat(AgentArgs),
    /// Run a recorded session again with the recorded messages of the model, and show results that differ; exit 1 if
    /// any do.
    Replay(ReplayArgs),
    /// List and show the skills that agents can load.
    Skills {
        /// What to do.
        #[command(subcommand)]
        command: SkillsCommand,
    },
    /// List and show the templates of sub-agents.
    Agents {
        /// What to do.
        #[command(subcommand)]
        command: AgentsCommand,
    },
    /// List, show, copy and export the sessions of agents.
    Sessions {
        /// What to do.
        #[command(subcommand)]
        command: SessionsCommand,
    },
    /// Show the calls that changed files or ran commands in this directory, the newest first; `--session` shows one session.
    Log(LogArgs),
    /// Undo the last change of files in this directory, or several, after showing what that changes.
    Undo(UndoArgs),
    /// List the file contents that were kept before changes, compare them with the files, and restore them.
    Checkpoint {
        /// What to do.
        #[command(subcommand)]
        command: CheckpointCommand,
    },
    /// Read the record of every call, and verify that no record was changed or removed.
    Audit {
        /// What to do.
        #[command(subcommand)]
        command: AuditCommand,
    },
    /// Explain how the rules decide on a command or a call, without running it.
    Policy {
        /// What to do.
        #[command(subcommand)]
        command: PolicyCommand,
    },
    /// List the hooks, the programs that run before and after calls, and test them.
    Hook {
        /// What to do.
        #[command(subcommand)]
        command: HookCommand,
    },
    /// List, test and approve external MCP servers, and sign in to them.
    McpServers {
        /// What to do.
        #[command(subcommand)]
        command: McpServersCommand,
    },
    /// Review the permissions a project requests, and trust its files as they are now.
    #[command(args_conflicts_with_subcommands = true)]
    Trust(TrustArgs),
    /// Convert the permissions of another program to a configuration file, and list what could not be carried over.
    Import {
        /// The program that the permissions belong to.
        form: Form,
        /// The file with the permissions.
        file: PathBuf,
        /// Write to this file, which must not exist yet, instead of standard output.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Show the configuration.
    Config {
        /// What to show.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Explain a command, or a tool with its parameters and an example.
    Help(HelpArgs),
    /// Print the completions of a shell: `sinew completions bash >~/.local/share/bash-completion/completions/sinew`.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page of a command, or write all of them to a directory: `sinew man | man -l -`.
    Man {
        /// A command; none means `sinew` itself.
        command: Vec<String>,
        /// Write `sinew.1` and the page of each command to this directory, which must exist.
        #[arg(long, value_name = "DIR", conflicts_with = "command")]
        dir: Option<PathBuf>,
    },
    /// Check what works on this machine; exit 1 if a needed part is missing.
    Doctor {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// `sinew help`.
#[derive(Debug, Args)]
pub struct HelpArgs {
    /// A command, or a tool of the dialect.
    #[arg(value_name = "COMMAND|TOOL")]
    pub topic: Vec<String>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `sinew tools`.
#[derive(Debug, Args)]
pub struct ToolsArgs {
    /// Print one JSON object a line: {tool, title?, description, input_schema, output_schema?, annotations}.
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Print the list in the form of a model API.
    #[arg(long, value_name = "FORM")]
    pub format: Option<Format>,
    /// Print how many tokens each tool costs in a list, about, the largest first.
    #[arg(long, conflicts_with = "format")]
    pub cost: bool,
}

/// The forms that model APIs give to tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// MCP: the tools of `tools/list`.
    Mcp,
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    Openai,
    /// Gemini.
    Gemini,
}

/// `sinew call`.
#[derive(Debug, Args)]
pub struct CallArgs {
    /// The tool.
    #[arg(required_unless_present = "batch", conflicts_with = "batch")]
    pub tool: Option<String>,
    /// Its arguments: `NAME=TEXT` and `NAME:=JSON`, or one JSON object; `-` reads that from standard input.
    #[arg(conflicts_with = "batch")]
    pub arguments: Vec<String>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// Read calls from standard input, one JSON object {"id"?, "name", "arguments"} a line, and
    /// print one result a line in the same order. A line that is not a call ends the batch with exit 2, else exit 0.
    #[arg(long)]
    pub batch: bool,
}

/// `sinew run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The task; `-` reads standard input. With --resume it continues the session, and without a task an interrupted
    /// turn.
    #[arg(value_name = "TASK")]
    pub task: Vec<String>,
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// Print what happens as JSON lines.
    #[arg(long)]
    pub json: bool,
}

/// Options of an agent: `sinew run` and `sinew chat`.
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// The model: NAME of a table `[models.NAME]`, `anthropic/MODEL`, `openai/MODEL`, `openrouter/MODEL`, `ollama/MODEL`, or
    /// `local` for a server on this machine.
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// How often the model may call tools in one turn, before it must answer [default: `agent.max_tool_iterations`, 20].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub max_turns: Option<u32>,
    /// The most that the agent may use: tokens, such as 200k, or dollars, such as $2.50.
    #[arg(long, value_name = "BUDGET")]
    pub budget: Option<String>,
    /// Continue a session: its name, or `latest` for the last one of this root.
    #[arg(long, value_name = "SESSION")]
    pub resume: Option<String>,
    /// Record the session in this file, which must not exist yet, for `sinew replay`.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

/// `sinew replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The recording, or `demo` for one that comes with sinew.
    pub recording: PathBuf,
    /// Run the tools in this root instead of using their recorded results; `demo` always runs them, in a directory of
    /// its own.
    #[arg(long)]
    pub real: bool,
    /// Print what happens as JSON lines.
    #[arg(long)]
    pub json: bool,
}

/// `sinew skills`.
#[derive(Debug, Subcommand)]
pub enum SkillsCommand {
    /// List the skills of the project, of the user and of this machine; those that are left out are reported on
    /// standard error.
    List {
        /// Print one JSON object a line, and one a problem.
        #[arg(long)]
        json: bool,
    },
    /// Show the instructions of a skill, as they are written.
    Show {
        /// Its name.
        skill: String,
    },
}

/// `sinew agents`.
#[derive(Debug, Subcommand)]
pub enum AgentsCommand {
    /// List the templates of the project, of the user and of this machine, and the built-in ones; those that are left
    /// out are reported on standard error.
    List {
        /// Print one JSON object a line, and one a problem.
        #[arg(long)]
        json: bool,
    },
    /// Show a template.
    Show {
        /// Its name.
        template: String,
    },
}

/// `sinew sessions`.
#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// List the sessions of this root, the latest first.
    List {
        /// List the sessions of every root.
        #[arg(long)]
        all: bool,
        /// List at most this many.
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: u64,
        /// Print one JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// Show what was said and done in a session.
    Show {
        /// Its name, or `latest`.
        session: String,
    },
    /// Copy a session, so that both can be continued; prints the name of the copy.
    Fork {
        /// Its name, or `latest`.
        session: String,
    },
    /// Print the entries of a session as JSON lines.
    Export {
        /// Its name, or `latest`.
        session: String,
    },
}

/// The arguments of `sinew log`.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// Show at most this many calls.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// Show reads and other calls too.
    #[arg(long)]
    pub all: bool,
    /// Show what each call changed, as a unified diff.
    #[arg(short, long)]
    pub patch: bool,
    /// Print one JSON object a line: {checkpoint, at, seq, session, agent, call_id, dialect, tool, path, command, outcome,
    /// duration_ms, changes: [{path, change, added, removed, uncounted}], undone, restores, redo, diff?}.
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `sinew undo`.
#[derive(Debug, Clone, Default, Args)]
pub struct UndoArgs {
    /// How many changes to undo, of the session that changed files last [default: 1]; or a checkpoint, such as c12,
    /// to undo it and the later changes of its session.
    #[arg(value_name = "N", conflicts_with = "redo")]
    pub what: Option<String>,
    /// Take back the last undo.
    #[arg(long)]
    pub redo: bool,
    /// Overwrite what others changed since.
    #[arg(long)]
    pub force: bool,
    /// Skip files that others changed since, or that were too large to keep, and undo the rest.
    #[arg(long)]
    pub partial: bool,
    /// Undo without asking.
    #[arg(long)]
    pub yes: bool,
    /// Show what would change, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `sinew checkpoint`.
#[derive(Debug, Subcommand)]
pub enum CheckpointCommand {
    /// List checkpoints, the newest first; `--session` lists those of one session.
    List {
        /// Only those of this turn.
        #[arg(long, value_name = "TURN")]
        turn: Option<String>,
        /// Only those that changed this path or a path beneath it.
        #[arg(long, value_name = "PATH")]
        path: Option<String>,
        /// List at most this many [default: 20].
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
        /// Print one JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// Show what the call of a checkpoint changed.
    Diff {
        /// The checkpoint, such as c12.
        id: String,
        /// Compare the state before the call with the state now.
        #[arg(long)]
        now: bool,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Undo a checkpoint and the later ones of its session, after showing what that changes.
    Restore {
        /// The checkpoint, such as c12.
        id: String,
        /// Restore the paths of this checkpoint alone, with what later calls did to them.
        #[arg(long)]
        only: bool,
        /// Begin with the first checkpoint of the same turn.
        #[arg(long, conflicts_with = "only")]
        turn: bool,
        /// Restore this file or directory alone.
        #[arg(long, value_name = "PATH")]
        path: Option<String>,
        /// Overwrite what others changed since.
        #[arg(long)]
        force: bool,
        /// Skip files that others changed since, or that were too large to keep, and restore the rest.
        #[arg(long)]
        partial: bool,
        /// Show what would change, and change nothing.
        #[arg(long)]
        dry_run: bool,
        /// Restore without asking.
        #[arg(long)]
        yes: bool,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// `sinew audit`.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// List calls with their outcomes, unfinished calls and other events, the newest first; `--session` lists one
    /// session.
    List {
        /// Only this tool, by the name it was called with; a `*` at the end matches any rest.
        #[arg(long, value_name = "NAME")]
        tool: Option<String>,
        /// Only calls on this path or a path beneath it.
        #[arg(long, value_name = "PATH")]
        path: Option<PathBuf>,
        /// Only calls with this outcome: ok, the kind of an error, or denied for all that was refused
        /// (path_denied, policy_denied, approval_denied, approval_timeout and blocked_by_hook).
        #[arg(long, value_name = "KIND")]
        outcome: Option<String>,
        /// Only records since this time: 2026-01-31, 2026-01-31T12:00:00Z, or 90m, 24h, 7d ago.
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// List at most this many.
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u64,
        /// List calls beneath the calls that caused them, such as those of sub-agents beneath their spawn, the oldest first.
        #[arg(long, conflicts_with = "json")]
        tree: bool,
        /// Print one JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// Show everything that is recorded of a call, its intent and its end.
    Show {
        /// The number of a record, or the id of a call.
        id: String,
        /// Print one JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// Print the last record as SEQ:HASH, to keep elsewhere and verify against later.
    Head,
    /// Verify that no record was changed, removed or put in another order; exit 1 if one was.
    Verify {
        /// Compare with the output of an earlier `sinew audit head`.
        #[arg(long, value_name = "SEQ:HASH")]
        head: Option<String>,
        /// Verify a file that `sinew audit export` wrote, instead of the database.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Print every record as one JSON object a line, so that it can be verified elsewhere.
    Export {
        /// From this record on.
        #[arg(long, value_name = "SEQ")]
        since: Option<i64>,
    },
}

/// `sinew policy`.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Answer lines of standard input, {"command"}, {"argv"} or {"tool", "arguments", "agent"?} and "policy"?,
    /// each with one line {ruling, rule, origin?, segments, paths?, why, display, runs?}; a policy is
    /// read-only, workspace, sandboxed, full or a file.
    Check,
    /// Test the examples of the rules; exit 1 if one fails.
    Test {
        /// Files with rules in the form of the configuration [default: the rules that are configured].
        files: Vec<PathBuf>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Explain whether a shell command or a call would be allowed, asked about or denied, and why: the rule, its layer,
    /// file and line.
    Explain {
        /// The command; with --tool, the arguments as one JSON object.
        #[arg(value_name = "COMMAND | ARGUMENTS")]
        what: String,
        /// The tool that would be called.
        #[arg(long, value_name = "NAME")]
        tool: Option<String>,
        /// The agent that would call it.
        #[arg(long, value_name = "NAME", requires = "tool")]
        agent: Option<String>,
        /// Use these rules instead of the configured ones: read-only, workspace, sandboxed, full, or a TOML
        /// file with `profile` and `[[rules]]`.
        #[arg(long, value_name = "POLICY")]
        policy: Option<String>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// `sinew hook`.
#[derive(Debug, Subcommand)]
pub enum HookCommand {
    /// List the hooks in the order in which they run.
    List {
        /// Print one JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// Run the hooks of an event on an example of it, and print what each decides; exit 1 if one fails.
    Test {
        /// The event, by the name of sinew or of another runtime.
        event: String,
        /// The tool of the call.
        #[arg(long, value_name = "NAME")]
        tool: Option<String>,
        /// Its arguments as one JSON object.
        #[arg(long, value_name = "JSON")]
        arguments: Option<String>,
        /// Run this hook alone, even if its tools and paths do not match.
        #[arg(long, value_name = "NAME")]
        hook: Option<String>,
    },
    /// Print the JSON schema of the input of hooks.
    Schema {
        /// Of this event alone.
        event: Option<String>,
    },
}

/// `sinew mcp-servers`.
#[derive(Debug, Subcommand)]
pub enum McpServersCommand {
    /// List the servers with their pinned tools. Nothing is started.
    List {
        /// Print one JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// Start a server and list its tools; exit 1 if it does not answer, or breaks the protocol.
    Test {
        /// The server.
        name: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Sign in to a server that has an address (OAuth): open its page in a browser, and wait for the answer.
    Login {
        /// The server.
        name: String,
        /// Ask for this scope too; repeatable.
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<String>,
        /// Only print the address of the page. If the browser is on another machine, paste the address that it was
        /// redirected to at the terminal.
        #[arg(long)]
        no_browser: bool,
    },
    /// Sign out of a server: remove its tokens from this machine.
    Logout {
        /// The server.
        name: String,
    },
    /// Show which tools of a server changed or are new, and approve them as they are now.
    Approve {
        /// The server.
        name: String,
        /// Approve without asking.
        #[arg(long)]
        yes: bool,
        /// Print one JSON object, without asking.
        #[arg(long)]
        json: bool,
    },
}

/// `sinew trust`.
#[derive(Debug, Args)]
pub struct TrustArgs {
    /// What else can be done.
    #[command(subcommand)]
    pub command: Option<TrustCommand>,
    /// The project [default: the current directory].
    #[arg(conflicts_with = "line")]
    pub dir: Option<PathBuf>,
    /// Trust without asking.
    #[arg(long)]
    pub yes: bool,
    /// Print one JSON object, without asking.
    #[arg(long)]
    pub json: bool,
    /// Trust the permissions that these arguments, and the variables of this process, request in the current directory.
    #[arg(long, requires = "line")]
    pub arguments: bool,
    /// The arguments, as a client gives them to sinew.
    #[arg(last = true, requires = "arguments", value_name = "ARGUMENTS")]
    pub line: Vec<String>,
}

/// What else `sinew trust` can do.
#[derive(Debug, Subcommand)]
pub enum TrustCommand {
    /// List what is trusted.
    List {
        /// Print one JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// Withdraw trust from a project, and from arguments in it.
    Revoke {
        /// The project [default: the current directory].
        dir: Option<PathBuf>,
    },
}

/// `sinew config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print every value and where it came from.
    Show {
        /// Print one JSON object a line.
        #[arg(long)]
        json: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the short command line understands, the whole one understands alike.
    #[test]
    fn short_command_line_means_what_the_whole_one_means() {
        let read = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let whole = with_variables(Cli::command()).try_get_matches_from(&words);
            let whole = whole.and_then(|matches| Cli::from_arg_matches(&matches));
            (
                Cli::of_short(&words).map(|cli| format!("{cli:?}")),
                whole.map(|cli| format!("{cli:?}")),
            )
        };
        for words in [
            &["sinew", "mcp"][..],
            &["sinew", "--root", "a", "--root=b:c", "--dialect", "moltis", "mcp"],
            &["sinew", "mcp", "--approvals", "trust-client", "--require-sandbox", "--check"],
            &["sinew", "--root", "mcp", "mcp", "--tools", "read,edit", "--read-only"],
            &["sinew", "--set", "a=b", "call", "Grep", "{}", "--json"],
            &["sinew", "call", "--batch"],
            &["sinew", "call", "mcp", "-"],
        ] {
            let (short, whole) = read(words);
            assert_eq!(short, Some(whole.expect("a command line")), "{words:?}");
        }
        for words in [
            &["sinew", "--help", "mcp"][..],
            &["sinew", "mcp", "--help"],
            &["sinew", "call", "-h"],
            &["sinew", "--version", "mcp"],
            &["sinew", "mcp", "--nonsense"],
            &["sinew", "trust", "mcp"],
            &["sinew", "trust", "--arguments", "--", "mcp"],
            &["sinew", "call"],
            &["sinew"],
        ] {
            let (short, _) = read(words);
            assert_eq!(short, None, "{words:?}");
        }
    }
}
