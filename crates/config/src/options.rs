//! What was written: every key optional, unknown keys refused.
//!
//! `tools` is both a list (which tools are served) and the name of two tables (`[tools.fs]`,
//! `[tools.policy]`); TOML cannot hold both under one name, so the list is `serve`.

mod agent;
mod mcp_server;
mod memory;
mod messages;
mod run;
mod sub_agents;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use agent::AgentOptions;
pub(crate) use agent::ModelOptions;
pub(crate) use mcp_server::McpServerOptions;
pub use mcp_server::OAuthOptions;
use memory::MemoryOptions;
pub(crate) use messages::ChannelOptions;
use messages::MessagesOptions;
pub(crate) use run::RunOptions;
use sub_agents::SubAgentsOptions;

/// The configuration as one layer writes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The directories that tools may touch; the first is the working directory. Default: the
    /// current directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roots: Option<Vec<PathBuf>>,
    /// The tool vocabulary to serve: `native`, `moltis`, `molf`, `agentos`, `aionrs`, `clawft`, `codex` or
    /// `mcp-filesystem`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<String>,
    /// The tools to serve: `core`, `all`, `read`, `edit`, `run`, `web`, `agents` (sub-agents and messages), or names with `*`. Default: `core` over
    /// MCP in the native dialect, else `all`. A word that names no tool gives a warning, and an error in a flag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serve: Option<Vec<String>>,
    /// Names of tools, and globs of paths, in rules and `[tools.policy]` that match nothing here on purpose, so that no
    /// start warns of them. `sinew import` writes those that it noted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent: Option<Vec<String>>,
    /// Whether only tools that read are served: the same as `profile = "read-only"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// How much runs without asking: `read-only` (reads, and nothing else runs), `workspace` (reads; where `approvals` is
    /// `auto`, also what stays in the sandbox and can be undone), `sandboxed` (changes of files, and commands in a sandbox
    /// that lacks nothing, also where they cannot be undone; protected names, a terminal and an open network ask) or `full`
    /// (all but protected names and what rules hold back).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Rules for calls, each a table `[[rules]]` with `verdict` (`deny`, `ask` or `allow`), the calls that it matches
    /// (`tools`, `effects`, `agents`, and one of `paths`, `command` and `hosts`; a missing key matches all), those that
    /// it does not (`unless`, a list of the same), `why`, and examples for `sinew policy
    /// test` (`match`, `not_match`: a text is a command, `{ tool = "Read", arguments = { file_path = "x" } }`
    /// a call). Deny beats ask beats allow, in any order and layer. What a project's own file allows is left out until
    /// it is trusted. Rules with `paths` bind the tools and what plain commands read; a command that was allowed
    /// reaches all paths that `tools.fs.deny_paths` and `run.hide` do not close.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<RuleOptions>>,
    /// What happens with calls that need approval: `auto` (what stays inside and can be undone runs unasked; where no
    /// approver can be asked, the rest is denied), `ask` (all of it asks), `trust-client` (over MCP the client's own
    /// confirmation counts; on the command line a file that says so means `auto`), `allow` or `deny`. Protected names
    /// and rules that ask need a person in `auto` and `trust-client`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvals: Option<String>,
    /// How long an approver may take to answer, in seconds: 1 to 604,800. Default: what the dialect says, else 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_timeout_s: Option<u64>,
    /// A server that is asked beside the other approvers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookOptions>,
    /// The name of the session in the audit log: 1 to 128 letters, digits, `_` or `-`. Default: a new one
    /// each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The least severe messages that are written to standard error: `error`, `warn` or `info`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// How files are reached and changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesOptions>,
    /// How commands are run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunOptions>,
    /// The file tools and the policy, under the names of their published page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolsOptions>,
    /// What was there before each change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<CheckpointOptions>,
    /// The record of every call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<LedgerOptions>,
    /// The MCP server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpOptions>,
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentOptions>,
    /// Models of the agent, each a table `[models.NAME]` with `wire` (`anthropic`, `responses`, `chat` or `ollama`), `url` (the
    /// base address of the API, such as `https://api.anthropic.com`, `https://api.openai.com/v1` or
    /// `http://127.0.0.1:8080/v1`), `name` (at the provider; default NAME), `key_env` (the variable that holds the key) or
    /// `key_command` (a program and its arguments that print the key, such as that of a keyring; 60 s), `plain_http`
    /// (whether `url` may be `http` of another machine, where what is sent can be read on the way; default false), `context` (the tokens of its window; default 128,000, for ollama 16,384), `max_output_tokens` (default a quarter
    /// of the window, at most 32,000), `temperature` (0 to 2; default 0 where the window has fewer than 16,000 tokens, else
    /// that of the server), and `input_price`, `cached_price` and `output_price` (dollars for a million
    /// tokens). A project's own file adds none until it is trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub models: Option<BTreeMap<String, ModelOptions>>,
    /// Sub-agents, which work on tasks for another agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_agents: Option<SubAgentsOptions>,
    /// Messages between agents, and to the channels of a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<MessagesOptions>,
    /// How often calls ran, how they ended and how long they took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricsOptions>,
    /// What each call did, while sinew runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceOptions>,
    /// What nothing below the system's file loosens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<ManagedOptions>,
    /// Programs that run before and after calls, each a table `[[hooks]]` with `event`, `command` (a list of words),
    /// `name`, `tools`, `paths`, `priority`, `timeout_ms`, `on_error`, `payload`, `env`, `cwd` and `in_root`; see
    /// the page on hooks. Layers add up. Those of a project's own file are left out until the project
    /// is trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<HookOptions>>")]
    pub hooks: Option<HooksOptions>,
}

/// `[[hooks]]`: a program that runs around calls. The front matter of a `HOOK.md` has the same keys.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HookOptions {
    /// The event, by the name of sinew or of another runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Several events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// The program and its arguments: a list of words, or for hooks of Moltis, aionrs and Claude Code a
    /// text for `/bin/sh -c`.
    pub command: HookCommandOptions,
    /// The name in messages. Default: that of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is for, in words for people, which `sinew hook list` shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A sign before these words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emoji: Option<String>,
    /// The tools it runs for, by name, with `*`; a name stands for its operation in every dialect.
    /// Default: all.
    #[serde(default, alias = "tool_match", skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Globs of the real paths that a call names, such as `*.rs` or `/home/ada/project/src/**`. Default: all
    /// calls, also those that name none.
    #[serde(default, alias = "file_match", skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// High runs first. Default: 0, for agentos 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// How long it may take, in milliseconds. Default: 30,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The same in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// What a failure does to what the hook is about: `block` or `continue`. Default: `block` where the
    /// event can be blocked and at `persist`, else `continue`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_error: Option<String>,
    /// The form of what it reads and answers: `sinew`, `molf`, `moltis`, `agentos`, `aionrs` or
    /// `claude-code`. Default: the first that has the name of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// Variables that it gets, with their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The directory where it starts, and from which a relative name of the program counts: an absolute path. Default:
    /// the
    /// first root, for a `HOOK.md` its folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Whether the program, or a file that it is given, may be in a root, where a model can write it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_root: Option<bool>,
    /// What the hook needs; without it, the hook is left out with a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires: Option<HookRequiresOptions>,
}

/// How the program of a hook is written.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum HookCommandOptions {
    /// The program and its arguments.
    Words(Vec<String>),
    /// A text for the shell.
    Text(String),
}

impl<'de> Deserialize<'de> for HookCommandOptions {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = HookCommandOptions;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of words, or a text")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(HookCommandOptions::Text(text.to_owned()))
            }

            // What is wrong with a word is told where it stands.
            fn visit_seq<A: SeqAccess<'de>>(self, words: A) -> Result<Self::Value, A::Error> {
                let words = Vec::deserialize(SeqAccessDeserializer::new(words))?;
                Ok(HookCommandOptions::Words(words))
            }
        }

        from.deserialize_any(Either)
    }
}

impl Default for HookCommandOptions {
    fn default() -> Self {
        Self::Words(Vec::new())
    }
}

/// `requires` of a hook.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HookRequiresOptions {
    /// Systems, one of which must be this: `linux` is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub os: Vec<String>,
    /// Programs that must be in `PATH`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<String>,
    /// Variables that must be set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Keys of the configuration of another runtime, which is never there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<String>,
}

/// `[[hooks]]`, and the tables that other runtimes write it in.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct HooksOptions(pub Vec<HookOptions>);

/// `[files]`: how files are reached and changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilesOptions {
    /// How safely a change is written before the reply: `off` (survives any death of
    /// the process), `data` (the content is synced) or `full` (the directory too).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<String>,
    /// What a change does to a file with several hard links: `refuse`, `break` (replaces this name)
    /// or `in_place` (writes into the shared file, not atomically).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard_links: Option<String>,
    /// What becomes of a path outside the roots that a tool reads or changes: `ask` (files of the system, such as `/usr` and
    /// `/etc`, and of toolchains are read unasked) or `deny`. Default: `ask`; `deny` in moltis, molf, agentos, aionrs, clawft and
    /// mcp-filesystem. Hidden paths (`run.hide`), removals and moves are denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside: Option<String>,
    /// How paths are resolved: `auto` (the kernel where it can) or `walk` (component by component).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolver: Option<String>,
    /// The most paths that Glob returns. Default: 100, in moltis 1,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glob_limit: Option<usize>,
    /// The default of Grep's `head_limit`. Default: 250, in moltis 1,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grep_limit: Option<usize>,
    /// The most entries that List returns. Default: 1,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list_limit: Option<usize>,
    /// After how many milliseconds a search stops and returns what it found. Default: 20,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_timeout_ms: Option<u64>,
}

/// `[[rules]]`: what becomes of calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleOptions {
    /// `deny`, `ask` or `allow`.
    pub verdict: String,
    /// Tools by name, with `*`; a name stands for its operation in every dialect, and where the rule denies
    /// or asks for what can do the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// `observe`, `change`, `execute`, `network`, `delegate` or `session`: a call that has one of them; where
    /// the rule allows, a call that has no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effects: Option<Vec<String>>,
    /// Agents by name, with `*`; sub-agents by their templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<String>>,
    /// Globs for the real paths that file tools name and find; relative ones are meant beneath each root,
    /// `*` does not cross `/`, `**` does, and what is denied or asked for is with all beneath it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// The words of a command; `*` in one stands for any run of characters, `a|b` for either, a last word
    /// `*` for any further words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Hosts by name; `*.` before a name stands for every name beneath it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// What commands may need beyond the sandbox, where the rule allows: `network`, `ssh-agent`, `read:/PATH` or
    /// `write:/PATH`. It covers a command that needs something only if it names all of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs: Option<Vec<String>>,
    /// Which of these calls are not meant, each by the same keys, `needs` apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unless: Vec<ConditionOptions>,
    /// Why, in words for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Commands, or calls as `{ tool, arguments }`, that are meant.
    #[serde(rename = "match", default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<ExampleOptions>,
    /// Commands or calls that are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_match: Vec<ExampleOptions>,
}

impl RuleOptions {
    /// Returns which calls are meant.
    pub fn when(&self) -> ConditionOptions {
        ConditionOptions {
            tools: self.tools.clone(),
            effects: self.effects.clone(),
            agents: self.agents.clone(),
            paths: self.paths.clone(),
            command: self.command.clone(),
            hosts: self.hosts.clone(),
        }
    }
}

/// Which calls are meant; what is left out means all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConditionOptions {
    /// Tools by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Effects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effects: Option<Vec<String>>,
    /// Agents by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<String>>,
    /// Globs for paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// The words of a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Hosts by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
}

/// An example of a rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ExampleOptions {
    /// A text for the shell.
    Command(String),
    /// A call.
    Call(CallOptions),
}

/// A call as an example of a rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallOptions {
    /// The wire name of the tool, in the dialect that is served.
    pub tool: String,
    /// Its arguments.
    #[serde(default)]
    pub arguments: serde_json::Map<String, serde_json::Value>,
    /// The agent that makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// `[managed]`: limits that no other file, variable or flag loosens. Only the system's file may hold them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ManagedOptions {
    /// The loosest mode of `approvals`. Where it is stricter than `allow`, rules of other layers allow nothing,
    /// the profiles `full` and `sandboxed` of other layers count as `workspace`, and no answer allows calls for always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvals: Option<String>,
    /// The loosest profile. Where it is stricter than `full`, rules of other layers allow nothing, and no answer allows
    /// calls for always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The weakest sandbox of commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_sandbox: Option<String>,
    /// Whether every command that is not a plain read asks; `true` keeps `run.ask` at `always`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands_ask: Option<bool>,
    /// Whether every command runs in a sandbox; `true` keeps `run.unsandboxed` at `deny`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only_sandboxed: Option<bool>,
    /// Whether commands may be given the network; `false` keeps it closed, so none runs without a sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<bool>,
    /// Every root must be one of these directories, or beneath one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roots: Option<Vec<PathBuf>>,
    /// Whether tools reach nothing outside the roots; `true` keeps `files.outside` at `deny`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only_roots: Option<bool>,
    /// The only hosts that fetches and searches may reach, as in rules: `docs.rs`, `*.example.com`,
    /// `wiki.example:8443`. An empty list allows none. Commands are limited by `network`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// Whether every call must be recorded; `true` keeps the audit log on, and `[ledger]` at least as strict as in the
    /// system's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<bool>,
    /// Whether people may trust projects and arguments; `false` forbids it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<bool>,
}

/// `[tools]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolsOptions {
    /// `[tools.fs]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fs: Option<FsOptions>,
    /// `[tools.memory]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryOptions>,
    /// `[tools.policy]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyOptions>,
    /// `[tools.commandPolicy]`.
    #[serde(rename = "commandPolicy", skip_serializing_if = "Option::is_none")]
    pub command_policy: Option<CommandPolicyOptions>,
    /// `[tools.urlPolicy]`.
    #[serde(rename = "urlPolicy", skip_serializing_if = "Option::is_none")]
    pub url_policy: Option<UrlPolicyOptions>,
    /// `[tools.exec]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecOptions>,
    /// `[tools.web_fetch]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_fetch: Option<WebFetchOptions>,
    /// `[tools.web_search]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_search: Option<WebSearchOptions>,
    /// External MCP servers, each a table `[tools.mcp_servers.NAME]` with `command` and `args` (a program that serves
    /// on its standard input and output), `env` (its own variables, in which `${NAME}` means one of sinew's environment
    /// and
    /// `${WORKDIR}` the first root; also in `command` and `args`), `cwd`, `network` (whether it may reach the
    /// network; default `false`); or with `url` (its address, `https`, or `http` to this machine), `headers` (of every
    /// request; variables as in `env`) and `oauth` (`client_id`, `client_secret`, `scopes`, `callback_port`: the OAuth
    /// client that signs in; default: sinew registers one); and `internal_only` (default `true`: its tools are hidden
    /// unless `tools.surface` names
    /// them), `deferred` (default `false`: whether they are not listed until `ToolSearch` finds them), `enabled`,
    /// `connect_timeout_s` (30),
    /// `list_timeout_s` (10) and `call_timeout_s` (60; each report of progress restarts it). Each program runs in a
    /// sandbox of its own. Layers add up; a server of a later one replaces that of the same name. Those of a project's own
    /// file are left out until it is trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub mcp_servers: Option<BTreeMap<String, McpServerOptions>>,
    /// Names of tools, with `*`, that are listed although their server is `internal_only`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surface: Option<Vec<String>>,
    /// Names of tools, with `*`, that are not listed until `ToolSearch` finds them: of any dialect and server. `sinew tools
    /// --cost` shows what each costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deferred: Option<Vec<String>>,
}

/// `[tools.web_fetch]`: how pages are fetched, in every dialect.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebFetchOptions {
    /// Hosts that are fetched although they are not public, each with its port, such as `127.0.0.1:8080` or
    /// `wiki.example:443`. Rules still judge them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_hosts: Option<Vec<String>>,
    /// The proxy through which public hosts are reached, by fetches and by searches: its address, such as
    /// `http://proxy.example:3128`, or `environment` for what `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`
    /// say. Default: none; the environment alone sets no proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// Whether the proxy alone resolves names, which are then not judged by their addresses. Default: `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_resolves: Option<bool>,
    /// How long a page may take in all, in seconds, from 1 to 600.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
    /// How long a server may send nothing, in seconds, from 1 to 600.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_s: Option<u64>,
    /// The most redirects that are followed, from 0 to 50.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_redirects: Option<u64>,
    /// How long an answer is reused, in seconds, at most 86400; 0 reuses none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_s: Option<u64>,
}

/// `[tools.web_search]`: the provider of searches. The keys of Tavily and Brave are read from the environment variables
/// `TAVILY_API_KEY` and `BRAVE_API_KEY`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebSearchOptions {
    /// The provider of a search that names none: `searxng`, `endpoint`, `tavily`, `brave` or `duckduckgo`. Without
    /// it, the first of them that has what it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The address of a SearXNG, such as `http://127.0.0.1:8888`; it need not be public. Its settings must list `json`
    /// in `search.formats`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub searxng: Option<String>,
    /// An address that takes `q` and `count` and answers JSON with a list of results; it need not be public. Searches
    /// of the dialect clawft ask it alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// How long a search may take in all, in seconds, from 1 to 600.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
}

/// `[tools.urlPolicy]`: which hosts are fetched in the dialect clawft, under the names of its configuration. Other
/// dialects read `blockedDomains` alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UrlPolicyOptions {
    /// Whether addresses are checked. They always are: `false` changes nothing and gives a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Whether hosts that are not public may be fetched. `true` changes nothing and gives a warning: they are allowed
    /// one by one.
    #[serde(rename = "allowPrivate", skip_serializing_if = "Option::is_none")]
    pub allow_private: Option<bool>,
    /// Hosts that need not be public, such as `wiki.example`, on the ports 80 and 443; other ports are those of
    /// `tools.web_fetch.allow_hosts`. Rules still judge them.
    #[serde(rename = "allowedDomains", skip_serializing_if = "Option::is_none")]
    pub allowed_domains: Option<Vec<String>>,
    /// Hosts that are denied, with all names beneath them.
    #[serde(rename = "blockedDomains", skip_serializing_if = "Option::is_none")]
    pub blocked_domains: Option<Vec<String>>,
}

/// `[tools.exec]`: how commands run in the dialect clawft, under the names of its configuration. Other dialects do
/// not read it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecOptions {
    /// The time limit in seconds of an `exec_shell` call that names none, from 1 to 300. Default: 30.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
}

/// `[tools.commandPolicy]`: which commands may run at all in the dialect clawft, under the names of its page.
/// Other dialects do not read it. In both modes, dangerous patterns such as `rm -rf /` are refused.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandPolicyOptions {
    /// `allowlist` (only the programs of `allowlist`) or `denylist` (all but what `denylist` holds).
    /// Default: `allowlist`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Programs by name. Default, and where it is empty: `echo`, `cat`, `ls`, `pwd`, `head`, `tail`, `wc`,
    /// `grep`, `find`, `sort`, `uniq`, `diff`, `date`, `env`, `true`, `false`, `test`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowlist: Option<Vec<String>>,
    /// Texts that no command may contain, in upper or lower case. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denylist: Option<Vec<String>>,
}

/// `[tools.fs]`: the keys of the published page of the file tools, with their names and meanings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FsOptions {
    /// Where searches start when no path is given. Absolute; it becomes a root too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_root: Option<PathBuf>,
    /// Absolute path globs that file tools may touch; empty allows everything beneath the roots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_paths: Option<Vec<String>>,
    /// Absolute path globs that file tools may not touch; stronger than `allow_paths`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny_paths: Option<Vec<String>>,
    /// Whether each session's reads are remembered, so that changes of a file that another writer
    /// changed since are refused. Default: false, in native and aionrs true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub track_reads: Option<bool>,
    /// Whether a file must be read before it is changed; needs `track_reads`. Default: false, in
    /// aionrs true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub must_read_before_write: Option<bool>,
    /// Whether each change must be approved, even one that rules allow. Default: false, in moltis true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_approval: Option<bool>,
    /// Read answers `too_large` above this many bytes. Default: none, in moltis 10 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_read_bytes: Option<u64>,
    /// What Read answers for binary content: `reject` or `base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binary_policy: Option<String>,
    /// Whether searches leave out ignored files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub respect_gitignore: Option<bool>,
    /// Whether the old content is kept before each change, so that the change can be undone. Default: true, in moltis
    /// false. Without a state directory nothing is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_before_mutation: Option<bool>,
    /// Bounds each Read to 20 % of a model's context of this many tokens, at least 50 KiB and at
    /// most 512 KiB. Default: 256 KiB whatever the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window_tokens: Option<u64>,
}

/// `[tools.policy]`: tools by name, with `*`; a name stands for its operation in every dialect. A name of no tool gives
/// a warning. The lists of all layers count.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyOptions {
    /// The tools that may be used; empty allows all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// The tools that may not be used; stronger than `allow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<Vec<String>>,
}

/// `[checkpoints]`: the old contents of files before each change, kept in the state directory. Beyond a limit of age,
/// size or number the oldest are removed; those that a running process made within a day may take twice as much.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckpointOptions {
    /// The most bytes that all kept contents may take, as they are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// How long checkpoints are kept, in days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age_days: Option<u64>,
    /// The most checkpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_count: Option<u64>,
    /// The largest file whose content is kept, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_file_bytes: Option<u64>,
    /// What happens to a change of a larger file: `refuse`, or `unkept` (it is made and cannot be undone).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub larger: Option<String>,
    /// What a checkpoint survives: `normal` (any death of the process) or `full` (power loss).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<String>,
    /// Whether commands have checkpoints too, where a sandbox watches them. Without it their changes cannot be
    /// undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<bool>,
}

/// `[ledger]`: the record of every call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerOptions {
    /// `sqlite`, or `off`: no call is recorded, and what a session has read is forgotten when its process ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// What a record survives once its call runs: `normal` (any death of the process) or `full` (power loss).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<String>,
    /// What happens with calls while no records can be written: `refuse` (changes do not run, and calls that only read
    /// run until 65,536 records wait) or `continue` (all run, and what is lost is counted).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<String>,
    /// How long records are kept, in days; 0 sets no limit. The oldest are removed in portions of a fiftieth of this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age_days: Option<u64>,
    /// The most records; 0 sets no limit. The oldest are removed once there are a fiftieth more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_records: Option<u64>,
}

/// `[mcp]`: the MCP server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpOptions {
    /// The longest message that is taken, in bytes; also the longest line of `sinew call --batch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_line_bytes: Option<usize>,
    /// Whether the arguments and variables that a client starts `sinew mcp` with may loosen the configuration. They may
    /// come out of a repository, so without this they loosen nothing until a person confirms them with `sinew trust`.
    /// It counts in your own configuration and the system's alone. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust_arguments: Option<bool>,
}

/// `[webhook]`: a server that gets the approval questions, beside the other approvers, and may answer them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookOptions {
    /// The address that questions are sent to: `https`, or `http` on this machine with a `secret_file`. Default:
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The absolute path of a file that only its owner may read, with `whsec_` and 24 to 64 bytes in base64. With
    /// it requests are signed as Standard Webhooks describe it, and answers must be. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<PathBuf>,
}

/// `[metrics]`: counts and times of calls as Prometheus text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricsOptions {
    /// The file that they are written to: an absolute path outside the roots, in a directory that exists. Every process
    /// that names the file adds to its counts. Default: none, and nothing is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The least time between two writes of a process, in seconds: 1 to 86,400. A process writes at its end as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<u64>,
}

/// `[trace]`: the span of each call as a line of JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceOptions {
    /// The file that lines are added to: an absolute path outside the roots, in a directory that exists. sinew
    /// sets no limit to its size. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}
