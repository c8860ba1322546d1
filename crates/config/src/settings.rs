//! Validates options and resolves them to [`Settings`].

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sinew_guard::checkpoints::Larger;
use sinew_guard::{
    Activate, AskCommands, CheckpointSettings, CommandPolicy, HttpAddress, LedgerSync, OnFailure,
    ProcessLimits, Profile, Resolver, Retention, Rules, SandboxLevel, UsageLimits, WebSettings,
    can_be_granted,
};
use sinew_runtime::{Approvals, CommandHookSettings};
use sinew_tool::{BinaryPolicy, Dialect, FileSettings, HardLinks, OutsidePaths, Sync, call_id};

use super::context_window::reply_bytes_for_context;
use super::messages::{self, MessageConfig};
use super::models::{self, AgentConfig};
use super::options::{CommandPolicyOptions, RunOptions};
use super::sub_agents::{self, SubAgentsConfig};
use super::{ConfigError, Options, hooks, rules, web};

/// The log level of standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Errors only.
    Error,
    /// Warnings too.
    Warn,
    /// Progress too.
    Info,
}

/// The ledger mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerMode {
    /// In the SQLite database of the state directory.
    Sqlite(LedgerSettings),
    /// No ledger.
    Off,
}

/// The settings of the ledger database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerSettings {
    /// Which crashes a committed intent survives.
    pub sync: LedgerSync,
    /// The behaviour while records cannot be written.
    pub on_failure: OnFailure,
    /// The retention of records.
    pub retention: Retention,
}

/// The settings of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSettings {
    /// The permitted sandbox levels, the strongest first.
    pub levels: Vec<SandboxLevel>,
    /// Which commands ask.
    pub ask: AskCommands,
    /// Whether commands may reach the network.
    pub network: bool,
    /// Whether no answer opens it to a command.
    pub forbids_network: bool,
    /// Whether no answer lets a command run without a sandbox.
    pub forbids_unsandboxed: bool,
    /// Whether downloads in caches last for later sessions where a lockfile names them.
    pub keeps_downloads: bool,
    /// Names of additional variables for commands.
    pub env: Vec<String>,
    /// Additional paths to hide from commands.
    pub hide: Vec<PathBuf>,
    /// Paths that commands see although their names suggest secrets.
    pub show: Vec<PathBuf>,
    /// Protected names that commands may change.
    pub unprotected: Vec<String>,
    /// The limit of background commands in a session.
    pub max_background: u32,
    /// The limit of processes of one command.
    pub max_processes: u64,
    /// The project environments to activate for commands.
    pub activate: Vec<Activate>,
    /// The resource limits of each process.
    pub limits: ProcessLimits,
    /// The limits of all processes of a command together.
    pub usage: UsageLimits,
}

/// The metrics file and its interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsSettings {
    /// The file.
    pub file: PathBuf,
    /// The minimum time between two writes.
    pub interval: Duration,
}

/// The configuration of one process.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The roots as written; empty means the current directory.
    pub roots: Vec<PathBuf>,
    /// The dialect.
    pub dialect: Dialect,
    /// The tools to serve, as written; `None` means the default of the surface.
    pub serve: Option<Vec<String>>,
    /// The file tools.
    pub files: FileSettings,
    /// The rules.
    pub rules: Rules,
    /// The approval mode.
    pub approvals: Approvals,
    /// The time-out of an approval.
    pub approval_timeout: Duration,
    /// The approval webhook, asked beside the other approvers.
    pub webhook: Option<WebhookSettings>,
    /// The session, if configured.
    pub session: Option<String>,
    /// The log level.
    pub log: LogLevel,
    /// The path resolver.
    pub resolver: Resolver,
    /// The settings of commands.
    pub run: RunSettings,
    /// How pages are fetched.
    pub web: WebSettings,
    /// The ledger mode.
    pub ledger: LedgerMode,
    /// The size, retention and sync settings of checkpoints.
    pub checkpoints: CheckpointSettings,
    /// The limit of an MCP message, in bytes.
    pub max_line_bytes: usize,
    /// The metrics file; `None` counts nothing.
    pub metrics: Option<MetricsSettings>,
    /// The trace file.
    pub trace: Option<PathBuf>,
    /// The command hooks, in configuration order.
    pub hooks: Vec<CommandHookSettings>,
    /// The agent and its models.
    pub agent: AgentConfig,
    /// How sub-agents work.
    pub sub_agents: SubAgentsConfig,
    /// How messages are sent.
    pub messages: MessageConfig,
}

/// The approval webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSettings {
    /// The address.
    pub address: HttpAddress,
    /// The absolute path of the secret file.
    pub secret_file: Option<PathBuf>,
}

/// The maximum time-out of an approval: a week.
const MAX_APPROVAL: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The length limit of a session name, in bytes.
const MAX_SESSION: usize = 128;
/// An MCP client's `initialize` message may need this much.
const MIN_LINE_BYTES: usize = 4_096;

fn word<T: Copy>(
    key: &str,
    written: Option<&String>,
    words: &[(&str, T)],
) -> Result<Option<T>, ConfigError> {
    let Some(written) = written else { return Ok(None) };
    match words.iter().find(|(word, _)| word == written) {
        Some((_, value)) => Ok(Some(*value)),
        None => {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            Err(ConfigError(format!(
                "`{key}` must be one of {}, not `{written}`",
                known.join(", ")
            )))
        }
    }
}

impl Settings {
    /// Resolves options.
    pub fn resolve(options: &Options) -> Result<Self, ConfigError> {
        let wanted = options.dialect.as_deref().unwrap_or("native");
        let dialect = *sinew_dialects::dialect(wanted).ok_or_else(|| {
            let known: Vec<&str> = sinew_dialects::ALL.iter().map(|d| d.name).collect();
            ConfigError(format!("`dialect` must be one of {}, not `{wanted}`", known.join(", ")))
        })?;
        let approvals = match options.approvals.as_deref() {
            None => Approvals::Auto,
            Some(written) => Approvals::from_word(written).ok_or_else(|| {
                ConfigError(format!(
                    "`approvals` must be one of auto, ask, trust-client, allow, deny, not \
                     `{written}`"
                ))
            })?,
        };
        let dialect_ms = dialect.approval_timeout_ms;
        let timeout = options.approval_timeout_s.map(Duration::from_secs);
        if timeout.is_some_and(|timeout| timeout.is_zero() || MAX_APPROVAL < timeout) {
            return Err(ConfigError(format!(
                "`approval_timeout_s` must be 1 to {}, not `{}`",
                MAX_APPROVAL.as_secs(),
                timeout.unwrap_or_default().as_secs()
            )));
        }
        let logs = [("error", LogLevel::Error), ("warn", LogLevel::Warn), ("info", LogLevel::Info)];
        let max_line_bytes = options.mcp.as_ref().and_then(|mcp| mcp.max_line_bytes);
        if let Some(small) = max_line_bytes.filter(|bytes| *bytes < MIN_LINE_BYTES) {
            return Err(ConfigError(format!(
                "`mcp.max_line_bytes` must be at least {MIN_LINE_BYTES}, not `{small}`"
            )));
        }
        let files = files(options, &dialect)?;
        let mut roots = options.roots.clone().unwrap_or_default();
        roots.extend(files.workspace_root.clone());
        Ok(Self {
            roots,
            serve: options.serve.clone(),
            rules: rules(options, &dialect)?,
            approvals,
            webhook: webhook(options)?,
            approval_timeout: timeout.unwrap_or(Duration::from_millis(dialect_ms)),
            session: session(options)?,
            log: word("log", options.log.as_ref(), &logs)?.unwrap_or(LogLevel::Warn),
            resolver: resolver(options)?,
            run: run(options)?,
            web: web::settings(options)?,
            ledger: ledger(options)?,
            checkpoints: checkpoints(options)?,
            max_line_bytes: max_line_bytes.unwrap_or(8 * 1024 * 1024),
            metrics: metrics(options)?,
            trace: trace(options)?,
            hooks: hooks::read(options.hooks.as_ref().map(|h| h.0.as_slice()).unwrap_or_default())?,
            agent: models::agent(options)?,
            sub_agents: sub_agents::settings(options)?,
            messages: messages::settings(options)?,
            dialect,
            files,
        })
    }
}

/// Call IDs start with the session name, so it has their characters and leaves room.
fn session(options: &Options) -> Result<Option<String>, ConfigError> {
    match &options.session {
        Some(name) if call_id(name).is_none_or(|name| MAX_SESSION < name.len()) => {
            Err(ConfigError(format!(
                "`session` must be 1 to {MAX_SESSION} letters, digits, `_` or `-`, not `{}`",
                name.escape_debug()
            )))
        }
        session => Ok(session.clone()),
    }
}

fn ledger(options: &Options) -> Result<LedgerMode, ConfigError> {
    let written = options.ledger.clone().unwrap_or_default();
    let syncs = [("normal", LedgerSync::Normal), ("full", LedgerSync::Full)];
    let failures = [("refuse", OnFailure::Refuse), ("continue", OnFailure::Continue)];
    let days = |days: u64| Duration::from_secs(days.saturating_mul(24 * 60 * 60));
    let default = Retention::default();
    let retention = Retention {
        max_age: match written.max_age_days {
            None => default.max_age,
            Some(0) => None,
            Some(age) => Some(days(age)),
        },
        max_records: match written.max_records {
            None => default.max_records,
            Some(0) => None,
            most => most,
        },
    };
    let settings = LedgerSettings {
        sync: word("ledger.sync", written.sync.as_ref(), &syncs)?.unwrap_or(LedgerSync::Normal),
        on_failure: word("ledger.on_failure", written.on_failure.as_ref(), &failures)?
            .unwrap_or(OnFailure::Refuse),
        retention,
    };
    let modes = [("sqlite", LedgerMode::Sqlite(settings)), ("off", LedgerMode::Off)];
    Ok(word("ledger.mode", written.mode.as_ref(), &modes)?.unwrap_or(LedgerMode::Sqlite(settings)))
}

/// The maximum interval, in seconds: a day.
const MAX_INTERVAL_S: u64 = 86_400;

fn metrics(options: &Options) -> Result<Option<MetricsSettings>, ConfigError> {
    let written = options.metrics.clone().unwrap_or_default();
    let seconds = written.interval_s.unwrap_or(15);
    if !(1..=MAX_INTERVAL_S).contains(&seconds) {
        return Err(ConfigError(format!(
            "`metrics.interval_s` must be 1 to {MAX_INTERVAL_S}, not `{seconds}`"
        )));
    }
    let Some(file) = absolute("metrics.file", written.file)? else { return Ok(None) };
    Ok(Some(MetricsSettings { file, interval: Duration::from_secs(seconds) }))
}

fn webhook(options: &Options) -> Result<Option<WebhookSettings>, ConfigError> {
    let written = options.webhook.clone().unwrap_or_default();
    let secret_file = absolute("webhook.secret_file", written.secret_file)?;
    let Some(url) = written.url else { return Ok(None) };
    let address = HttpAddress::parse(&url)
        .map_err(|problem| ConfigError(format!("`webhook.url` cannot be used: {problem}")))?;
    if !address.is_encrypted() && secret_file.is_none() {
        return Err(ConfigError(String::from(
            "`webhook.url` with `http` needs `webhook.secret_file`: any program on this machine could answer \
             in its place",
        )));
    }
    Ok(Some(WebhookSettings { address, secret_file }))
}

fn trace(options: &Options) -> Result<Option<PathBuf>, ConfigError> {
    absolute("trace.file", options.trace.as_ref().and_then(|trace| trace.file.clone()))
}

fn absolute(key: &str, written: Option<PathBuf>) -> Result<Option<PathBuf>, ConfigError> {
    match written {
        Some(path) if !path.is_absolute() || path.file_name().is_none() => Err(ConfigError(
            format!("`{key}` must be the absolute path of a file, not `{}`", path.display()),
        )),
        path => Ok(path),
    }
}

fn checkpoints(options: &Options) -> Result<CheckpointSettings, ConfigError> {
    let written = options.checkpoints.clone().unwrap_or_default();
    for (key, value) in [
        ("max_bytes", written.max_bytes),
        ("max_age_days", written.max_age_days),
        ("max_count", written.max_count),
        ("max_file_bytes", written.max_file_bytes),
    ] {
        if value == Some(0) {
            return Err(ConfigError(format!(
                "`checkpoints.{key}` must be at least 1, not `0`; \
                 `tools.fs.checkpoint_before_mutation = false` makes no checkpoints"
            )));
        }
    }
    let larger = [("refuse", Larger::Refuse), ("unkept", Larger::Unkept)];
    let syncs = [("normal", LedgerSync::Normal), ("full", LedgerSync::Full)];
    let default = CheckpointSettings::default();
    let days = |days: u64| Duration::from_secs(days.saturating_mul(24 * 60 * 60));
    Ok(CheckpointSettings {
        max_bytes: written.max_bytes.unwrap_or(default.max_bytes),
        max_age: written.max_age_days.map_or(default.max_age, days),
        max_count: written.max_count.unwrap_or(default.max_count),
        max_file_bytes: written.max_file_bytes.unwrap_or(default.max_file_bytes),
        larger: word("checkpoints.larger", written.larger.as_ref(), &larger)?
            .unwrap_or(default.larger),
        sync: word("checkpoints.sync", written.sync.as_ref(), &syncs)?.unwrap_or(default.sync),
        commands: written.commands.unwrap_or(default.commands),
        holds_for: default.holds_for,
    })
}

/// The kernel's minimum of `pid_max` in a PID namespace.
const MIN_PROCESSES: u64 = 301;

/// The default limit of file size: more than any build needs, and too little to fill a disk.
const MAX_FILE_MIB: u64 = 16 * 1024;

fn activate(run: &RunOptions) -> Result<Vec<Activate>, ConfigError> {
    let kinds = Activate::ALL.map(|kind| (kind.as_str(), kind));
    let named = run.activate.iter().flatten();
    named.filter_map(|name| word("run.activate", Some(name), &kinds).transpose()).collect()
}

fn mib(n: u64) -> u64 {
    n.saturating_mul(1 << 20)
}

fn usage(run: &RunOptions) -> UsageLimits {
    let standard = UsageLimits::default();
    UsageLimits {
        memory_bytes: run.max_command_memory_mib.map(mib).or(standard.memory_bytes),
        min_free_disk_bytes: run.min_free_disk_mib.map_or(standard.min_free_disk_bytes, mib),
    }
}

fn limits(run: &RunOptions) -> Result<ProcessLimits, ConfigError> {
    for (key, value) in [
        ("max_cpu_s", run.max_cpu_s),
        ("max_memory_mib", run.max_memory_mib),
        ("max_command_memory_mib", run.max_command_memory_mib),
        ("max_file_mib", run.max_file_mib),
        ("max_open_files", run.max_open_files),
    ] {
        if value == Some(0) {
            return Err(ConfigError(format!("`run.{key}` must be at least 1, not `0`")));
        }
    }
    Ok(ProcessLimits {
        cpu_s: run.max_cpu_s,
        memory_bytes: run.max_memory_mib.map(mib),
        file_bytes: Some(mib(run.max_file_mib.unwrap_or(MAX_FILE_MIB))),
        open_files: run.max_open_files,
    })
}

fn run(options: &Options) -> Result<RunSettings, ConfigError> {
    let run = options.run.clone().unwrap_or_default();
    let all = SandboxLevel::ALL.map(|level| (level.as_str(), Some(level)));
    let levels = [("auto", None)].into_iter().chain(all).collect::<Vec<_>>();
    let wanted = word("run.sandbox", run.sandbox.as_ref(), &levels)?.flatten();
    let weakest = word("run.require_sandbox", run.require_sandbox.as_ref(), &all)?.flatten();
    let weakest = weakest.unwrap_or(SandboxLevel::None);
    if wanted.is_some_and(|wanted| wanted < weakest) {
        return Err(ConfigError(format!(
            "`run.sandbox` is weaker than `run.require_sandbox`, which is `{weakest}`"
        )));
    }
    for (key, paths) in [("hide", &run.hide), ("show", &run.show)] {
        if let Some(path) = paths.iter().flatten().find(|path| !path.is_absolute()) {
            return Err(ConfigError(format!(
                "`run.{key}` must hold absolute paths, not `{}`",
                path.display()
            )));
        }
    }
    if let Some(name) = run.unprotected.iter().flatten().find(|name| !can_be_granted(name)) {
        return Err(ConfigError(format!(
            "`run.unprotected` must hold protected names, as SECURITY.md lists them, not `{name}`"
        )));
    }
    let max_processes = run.max_processes.unwrap_or(4_096);
    if max_processes < MIN_PROCESSES {
        return Err(ConfigError(format!(
            "`run.max_processes` must be at least {MIN_PROCESSES}, not `{max_processes}`"
        )));
    }
    let levels = match wanted {
        Some(wanted) => vec![wanted],
        None => SandboxLevel::OWN.into_iter().filter(|level| weakest <= *level).collect(),
    };
    let asks = AskCommands::ALL.map(|ask| (ask.as_str(), ask));
    let ask = word("run.ask", run.ask.as_ref(), &asks)?.unwrap_or_default();
    let unsandboxed = [("ask", false), ("deny", true)];
    let unsandboxed = word("run.unsandboxed", run.unsandboxed.as_ref(), &unsandboxed)?;
    let caches = word("run.caches", run.caches.as_ref(), &[("session", false), ("project", true)])?;
    let managed = options.managed.as_ref();
    let limits = limits(&run)?;
    let activate = activate(&run)?;
    let usage = usage(&run);
    Ok(RunSettings {
        levels,
        ask,
        network: run.network.unwrap_or(false),
        forbids_network: managed.is_some_and(|managed| managed.network == Some(false)),
        forbids_unsandboxed: unsandboxed.unwrap_or_default(),
        keeps_downloads: caches.unwrap_or_default(),
        env: run.env.unwrap_or_default(),
        hide: run.hide.unwrap_or_default(),
        show: run.show.unwrap_or_default(),
        unprotected: run.unprotected.unwrap_or_default(),
        max_background: run.max_background.unwrap_or(16),
        max_processes,
        limits,
        usage,
        activate,
    })
}

fn resolver(options: &Options) -> Result<Resolver, ConfigError> {
    let written = options.files.as_ref().and_then(|files| files.resolver.as_ref());
    let words = [("auto", Resolver::Auto), ("walk", Resolver::Walk)];
    Ok(word("files.resolver", written, &words)?.unwrap_or(Resolver::Auto))
}

/// Returns the command policy, which only one dialect has.
fn command_policy(
    options: &Options,
    dialect: &Dialect,
) -> Result<Option<CommandPolicy>, ConfigError> {
    let tools = options.tools.as_ref();
    let written = tools.and_then(|tools| tools.command_policy.clone()).unwrap_or_default();
    let modes = [("allowlist", true), ("denylist", false)];
    let mode = word("tools.commandPolicy.mode", written.mode.as_ref(), &modes)?;
    let (only_allowed, CommandPolicyOptions { allowlist, denylist, .. }) =
        (mode.unwrap_or(true), written);
    if dialect.name != sinew_dialects::CLAWFT.name {
        return Ok(None);
    }
    let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let allowed = allowlist.filter(|list| !list.is_empty());
    let allowed = allowed.unwrap_or_else(|| owned(sinew_dialects::CLAWFT_ALLOWED));
    Ok(Some(CommandPolicy {
        dangerous: owned(sinew_dialects::CLAWFT_DANGEROUS),
        allowed: only_allowed.then_some(allowed),
        denied: if only_allowed { Vec::new() } else { denylist.unwrap_or_default() },
    }))
}

/// Returns the configured time limit of commands in seconds.
fn command_timeout(options: &Options) -> Result<Option<i64>, ConfigError> {
    let exec = options.tools.as_ref().and_then(|tools| tools.exec.as_ref());
    let Some(timeout) = exec.and_then(|exec| exec.timeout) else { return Ok(None) };
    let max = sinew_dialects::CLAWFT_MAX_TIMEOUT_S;
    match i64::try_from(timeout) {
        Ok(seconds) if (1..=max).contains(&seconds) => Ok(Some(seconds)),
        _ => Err(ConfigError(format!(
            "`tools.exec.timeout` must be from 1 to {max} seconds, not `{timeout}`"
        ))),
    }
}

/// Returns the configured size limit of memory files.
fn memory_limit(options: &Options) -> Result<Option<u64>, ConfigError> {
    let memory = options.tools.as_ref().and_then(|tools| tools.memory.as_ref());
    match memory.and_then(|memory| memory.max_bytes) {
        Some(0) => {
            Err(ConfigError(String::from("`tools.memory.max_bytes` must be at least 1, not `0`")))
        }
        max_bytes => Ok(max_bytes),
    }
}

fn profile(options: &Options) -> Result<Profile, ConfigError> {
    let written = options.profile.as_deref();
    let profile = written.map(|word| {
        rules::profile(word).ok_or_else(|| {
            ConfigError(format!(
                "`profile` must be one of read-only, workspace, sandboxed, full, not `{word}`"
            ))
        })
    });
    match options.read_only {
        Some(true) => profile.transpose().map(|_| Profile::ReadOnly),
        _ => profile.unwrap_or(Ok(Profile::Workspace)),
    }
}

/// Returns the rules without those of lists, which each layer adds itself.
fn rules(options: &Options, dialect: &Dialect) -> Result<Rules, ConfigError> {
    let written = rules::read(options.rules.as_deref().unwrap_or_default())?;
    Ok(Rules {
        profile: profile(options)?,
        rules: written.into_iter().map(Arc::new).collect(),
        policy: command_policy(options, dialect)?,
        ..Rules::default()
    })
}

fn files(options: &Options, dialect: &Dialect) -> Result<FileSettings, ConfigError> {
    let files = options.files.clone().unwrap_or_default();
    let fs = options.tools.as_ref().and_then(|tools| tools.fs.clone()).unwrap_or_default();
    if fs.workspace_root.as_ref().is_some_and(|root| !root.is_absolute()) {
        return Err(ConfigError(String::from("`tools.fs.workspace_root` must be absolute")));
    }
    for (key, globs) in [("allow_paths", &fs.allow_paths), ("deny_paths", &fs.deny_paths)] {
        if let Some(relative) = globs.iter().flatten().find(|glob| !glob.starts_with(['/', '*'])) {
            return Err(ConfigError(format!(
                "`tools.fs.{key}` globs must be absolute (begin with `/` or `**`), not `{relative}`"
            )));
        }
    }
    let binary = [("reject", BinaryPolicy::Reject), ("base64", BinaryPolicy::Base64)];
    let syncs = [("off", Sync::Off), ("data", Sync::Data), ("full", Sync::Full)];
    let links = [
        ("refuse", HardLinks::Refuse),
        ("break", HardLinks::Break),
        ("in_place", HardLinks::InPlace),
    ];
    let limits = [
        ("glob_limit", files.glob_limit),
        ("grep_limit", files.grep_limit),
        ("list_limit", files.list_limit),
    ];
    if let Some((key, _)) = limits.iter().find(|(_, limit)| *limit == Some(0)) {
        return Err(ConfigError(format!("`files.{key}` must be at least 1, not `0`")));
    }
    let base = (dialect.settings)();
    let track_reads = fs.track_reads.unwrap_or(base.track_reads);
    let must_read_before_write = fs.must_read_before_write.unwrap_or(base.must_read_before_write);
    if must_read_before_write && !track_reads {
        return Err(ConfigError(String::from(
            "`tools.fs.must_read_before_write = true` needs `tools.fs.track_reads = true`, because \
             what was read is only known where reads are remembered; set both, or neither",
        )));
    }
    let outside = [("ask", OutsidePaths::Ask), ("deny", OutsidePaths::Deny)];
    let kept = fs.checkpoint_before_mutation;
    Ok(FileSettings {
        checkpoint_before_mutation: kept.unwrap_or(base.checkpoint_before_mutation),
        outside: word("files.outside", files.outside.as_ref(), &outside)?.unwrap_or(base.outside),
        track_reads,
        must_read_before_write,
        workspace_root: fs.workspace_root.or(base.workspace_root),
        allow_paths: fs.allow_paths.unwrap_or(base.allow_paths),
        deny_paths: fs.deny_paths.unwrap_or(base.deny_paths),
        require_approval: fs.require_approval.unwrap_or(base.require_approval),
        max_read_bytes: fs.max_read_bytes.or(base.max_read_bytes),
        read_reply_bytes: fs
            .context_window_tokens
            .map_or(base.read_reply_bytes, reply_bytes_for_context),
        binary_policy: word("tools.fs.binary_policy", fs.binary_policy.as_ref(), &binary)?
            .unwrap_or(base.binary_policy),
        respect_gitignore: fs.respect_gitignore.unwrap_or(base.respect_gitignore),
        sync: word("files.sync", files.sync.as_ref(), &syncs)?.unwrap_or(base.sync),
        hard_links: word("files.hard_links", files.hard_links.as_ref(), &links)?
            .unwrap_or(base.hard_links),
        glob_limit: files.glob_limit.unwrap_or(base.glob_limit),
        grep_limit: files.grep_limit.unwrap_or(base.grep_limit),
        list_limit: files.list_limit.unwrap_or(base.list_limit),
        search_timeout_ms: files.search_timeout_ms.unwrap_or(base.search_timeout_ms),
        max_memory_bytes: memory_limit(options)?.unwrap_or(base.max_memory_bytes),
        command_timeout_s: command_timeout(options)?.or(base.command_timeout_s),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(toml: &str) -> Result<Settings, ConfigError> {
        Settings::resolve(&toml_edit::de::from_str(toml).expect("options"))
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        for (toml, named) in [
            ("dialect = \"klingon\"", "`dialect`"),
            ("approvals = \"maybe\"", "`approvals`"),
            ("log = \"loud\"", "`log`"),
            ("approval_timeout_s = 0", "`approval_timeout_s`"),
            ("approval_timeout_s = 604801", "`approval_timeout_s`"),
            ("[webhook]\nurl = \"http://example.com\"", "`webhook.url`"),
            ("[webhook]\nurl = \"http://[::1]/\"", "`webhook.secret_file`"),
            ("[webhook]\nsecret_file = \"x\"", "`webhook.secret_file`"),
            ("session = \"\"", "`session`"),
            ("session = \"a b\"", "`session`"),
            ("session = \"../x\"", "`session`"),
            ("[files]\nsync = \"on\"", "`files.sync`"),
            ("[files]\nhard_links = \"keep\"", "`files.hard_links`"),
            ("[files]\nresolver = \"guess\"", "`files.resolver`"),
            ("[ledger]\nmode = \"paper\"", "`ledger.mode`"),
            ("[ledger]\nsync = \"half\"", "`ledger.sync`"),
            ("[ledger]\non_failure = \"ask\"", "`ledger.on_failure`"),
            ("[checkpoints]\nmax_count = 0", "`checkpoints.max_count`"),
            ("[checkpoints]\nlarger = \"ask\"", "`checkpoints.larger`"),
            ("[checkpoints]\nsync = \"off\"", "`checkpoints.sync`"),
            (
                "[tools.fs]\ntrack_reads = false\nmust_read_before_write = true",
                "`tools.fs.track_reads",
            ),
            (
                "dialect = \"moltis\"\n[tools.fs]\nmust_read_before_write = true",
                "`tools.fs.track_reads",
            ),
            ("dialect = \"aionrs\"\n[tools.fs]\ntrack_reads = false", "must_read_before_write"),
            ("[tools.fs]\nbinary_policy = \"hex\"", "`tools.fs.binary_policy`"),
            ("[tools.fs]\nworkspace_root = \"here\"", "`tools.fs.workspace_root`"),
            ("[tools.fs]\ndeny_paths = [\"x/**\"]", "`tools.fs.deny_paths`"),
            ("[mcp]\nmax_line_bytes = 0", "`mcp.max_line_bytes`"),
            ("[metrics]\nfile = \"x.prom\"", "`metrics.file` must be the absolute"),
            ("[metrics]\nfile = \"/x/..\"", "`metrics.file` must be the absolute"),
            ("[metrics]\ninterval_s = 0", "`metrics.interval_s`"),
            ("[metrics]\ninterval_s = 86401", "`metrics.interval_s`"),
            ("[trace]\nfile = \"x.jsonl\"", "`trace.file`"),
            ("[files]\nglob_limit = 0", "`files.glob_limit`"),
            ("[tools.memory]\nmax_bytes = 0", "`tools.memory.max_bytes`"),
            ("[sub_agents]\nmax_depth = 6", "`sub_agents.max_depth` must be from 0 to 5, not `6`"),
            ("[sub_agents]\nmax_running = 33", "`sub_agents.max_running`"),
            ("[sub_agents]\nmax_children = 0", "`sub_agents.max_children`"),
            ("[sub_agents]\nmax_total = 0", "`sub_agents.max_total`"),
            ("[sub_agents]\ntimeout_s = 0", "`sub_agents.timeout_s`"),
            ("[sub_agents]\nmax_tokens = 0", "`sub_agents.max_tokens`"),
            ("[sub_agents]\nmax_iterations = 1001", "`sub_agents.max_iterations`"),
            ("[run]\nsandbox = \"box\"", "`run.sandbox`"),
            ("[run]\nrequire_sandbox = \"auto\"", "`run.require_sandbox`"),
            ("[run]\nsandbox = \"none\"\nrequire_sandbox = \"landlock\"", "`run.sandbox`"),
            ("[run]\ncaches = \"always\"", "`run.caches`"),
            ("[run]\nhide = [\"x\"]", "`run.hide`"),
            ("[run]\nshow = [\"x\"]", "`run.show`"),
            ("[run]\nunprotected = [\"x\"]", "`run.unprotected`"),
            ("[run]\nunprotected = [\".sinew\"]", "`run.unprotected`"),
            ("[[rules]]\nverdict = \"no\"\ncommand = \"x\"", "`rules[0].verdict`"),
            ("[[rules]]\nverdict = \"ask\"\ncommand = \" \"", "`rules[0].command`"),
            ("[[rules]]\nverdict = \"ask\"\ncommand = \"| *\"", "`rules[0].command`"),
            ("profile = \"open\"", "`profile`"),
            ("[[rules]]\nverdict = \"allow\"", "`rules[0]` allows every call"),
            ("[[rules]]\nverdict = \"ask\"\ntools = []", "`rules[0].tools` is empty"),
            ("[[rules]]\nverdict = \"ask\"\neffects = [\"x\"]", "`rules[0].effects`"),
            ("[[rules]]\nverdict = \"ask\"\nhosts = [\"a b\"]", "`rules[0].hosts`"),
            (
                "[[rules]]\nverdict = \"ask\"\nhosts = [\"a\"]\npaths = [\"b\"]",
                "`rules[0]` has more than one",
            ),
            (
                "[[rules]]\nverdict = \"ask\"\ncommand = \"a\"\nunless = [{ paths = [\"b\"] }]",
                "`rules[0].unless[0]` must name what the rule names",
            ),
            ("[[rules]]\nverdict = \"ask\"\nunless = [{}]", "`rules[0].unless[0]` is empty"),
            ("[tools.commandPolicy]\nmode = \"x\"", "`tools.commandPolicy.mode`"),
            ("[tools.exec]\ntimeout = 0", "`tools.exec.timeout`"),
            ("[tools.exec]\ntimeout = 301", "`tools.exec.timeout`"),
            ("[run]\nmax_processes = 300", "`run.max_processes`"),
            ("[run]\nmax_memory_mib = 0", "`run.max_memory_mib`"),
            ("[run]\nmax_command_memory_mib = 0", "`run.max_command_memory_mib`"),
            ("[run]\nactivate = [\"conda\"]", "`run.activate`"),
            ("[[hooks]]\nevent = \"never\"\ncommand = [\"x\"]", "`hooks[0].event`"),
            ("[[hooks.stop]]\ncommand = \"\"", "`hooks[0].command`"),
        ] {
            let error = resolve(toml).expect_err(toml).to_string();
            assert!(error.contains(named), "{toml}: {error}");
        }
    }

    #[test]
    fn records_stay_as_long_as_is_said() {
        let days = |days: u64| Some(Duration::from_secs(days * 86_400));
        for (toml, max_age, max_records) in [
            ("", days(365), Some(1_000_000)),
            ("[ledger]\nmax_age_days = 7\nmax_records = 9", days(7), Some(9)),
            ("[ledger]\nmax_age_days = 0\nmax_records = 0", None, None),
        ] {
            let ledger = resolve(toml).expect(toml).ledger;
            let LedgerMode::Sqlite(LedgerSettings { retention, .. }) = ledger else {
                panic!("{toml}: {ledger:?}");
            };
            assert_eq!(retention, Retention { max_age, max_records }, "{toml}");
        }
    }

    #[test]
    fn what_callers_know_counts_as_the_dialect_or_the_configuration_says() {
        for (toml, expected) in [
            ("", (true, false)),
            ("dialect = \"aionrs\"", (true, true)),
            ("dialect = \"moltis\"", (false, false)),
            ("dialect = \"molf\"", (false, false)),
            ("dialect = \"agentos\"", (false, false)),
            ("dialect = \"clawft\"", (false, false)),
            ("[tools.fs]\ntrack_reads = false", (false, false)),
            ("[tools.fs]\nmust_read_before_write = true", (true, true)),
            ("dialect = \"aionrs\"\n[tools.fs]\nmust_read_before_write = false", (true, false)),
            (
                "dialect = \"moltis\"\n[tools.fs]\ntrack_reads = true\nmust_read_before_write = true",
                (true, true),
            ),
        ] {
            let files = resolve(toml).expect(toml).files;
            assert_eq!((files.track_reads, files.must_read_before_write), expected, "{toml}");
        }
    }

    #[test]
    fn dialects_bring_their_defaults() {
        let moltis = resolve("dialect = \"moltis\"").expect("settings");
        assert!(moltis.files.require_approval);
        assert_eq!(moltis.files.max_read_bytes, Some(10 * 1024 * 1024));
        assert_eq!(moltis.approval_timeout, Duration::from_secs(120));
        for (toml, seconds) in [
            ("dialect = \"clawft\"", 30),
            ("dialect = \"clawft\"\n[tools.exec]\ntimeout = 60", 60),
            ("dialect = \"clawft\"\n[tools.exec]\ntimeout = 300", 300),
        ] {
            let files = resolve(toml).expect(toml).files;
            assert_eq!(files.command_timeout_s, Some(seconds), "{toml}");
        }
        let native = resolve("").expect("settings");
        assert_eq!(native.files, FileSettings { track_reads: true, ..FileSettings::default() });
        assert_eq!(native.approval_timeout, Duration::from_secs(300));
    }
}
