//! Runs external programs as hooks: JSON payload on standard input, decision from output and exit code.
//!
//! Model-chosen values reach the program in standard input or variables, never in the command line.
//! A failing program fails its hook only; the settings decide whether the call continues.
//! Repeated failures pause the hook (circuit breaker); a block does not count as a failure.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::{Value, json};
use sinew_guard::{OwnEnd, OwnProgram, OwnPrograms, OwnRan, TrustedPrograms, Unrunnable};
use sinew_tool::{
    AgentEvent, Approval, BoxFuture, Decision, Executed, Hook, HookAnswer, HookEnd, HookEvent,
    HookForm, HookReply, Kind, Reply, SessionEnd, SessionStart, ToolCall, ToolError, hook::payload,
    name_matches, tool_matches,
};

use super::answer::{change, check, part};
use super::breaker::Breaker;

/// How a program is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookCommand {
    /// The program and its arguments, executed without a shell.
    Argv(Vec<String>),
    /// A text that `/bin/sh -c` gets unchanged.
    Shell(String),
}

/// A hook that is a program.
#[derive(Debug, Clone)]
pub struct CommandHookSettings {
    /// Its name.
    pub name: String,
    /// The configuration file and line, for messages.
    pub origin: String,
    /// The purpose, in words for people.
    pub about: String,
    /// The events it runs at, each with the form's name for it.
    pub events: Vec<(HookEvent, &'static str)>,
    /// The protocol: payload, variables and answers.
    pub form: HookForm,
    /// The program.
    pub command: HookCommand,
    /// The working directory, and the base of a relative program path.
    pub folder: PathBuf,
    /// Whether the program may lie in a root, where a model can write it.
    pub in_root: bool,
    /// The allowlist of programs inside a root.
    pub trusted: Option<TrustedPrograms>,
    /// The tools it runs for: names of tools or operations, with `*`. Empty is all.
    pub tools: Vec<String>,
    /// Globs of the paths it runs for. Empty is all, also calls that name none.
    pub paths: Vec<String>,
    /// Hooks with a higher priority run first.
    pub priority: i32,
    /// The time limit of one run.
    pub timeout: Duration,
    /// Whether a failure stops the event; `None` uses the default of the event.
    pub blocks_on_error: Option<bool>,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// Consecutive failures until the hook pauses.
    pub max_failures: u32,
    /// The length of that pause.
    pub rest: Duration,
}

impl CommandHookSettings {
    /// Returns settings with the required values and defaults for the rest.
    pub fn new(
        name: impl Into<String>,
        form: HookForm,
        events: &[HookEvent],
        command: HookCommand,
        folder: impl Into<PathBuf>,
    ) -> Self {
        let named = |event: &HookEvent| Some((*event, form.name_of(*event)?));
        Self {
            name: name.into(),
            origin: String::from("the embedding program"),
            about: String::new(),
            events: events.iter().filter_map(named).collect(),
            priority: form.priority,
            form,
            command,
            folder: folder.into(),
            in_root: false,
            trusted: None,
            tools: Vec::new(),
            paths: Vec::new(),
            timeout: Duration::from_secs(30),
            blocks_on_error: None,
            env: Vec::new(),
            max_failures: 5,
            rest: Duration::from_secs(60),
        }
    }

    /// Returns why a path glob does not compile, if one does not.
    pub fn problem_with_paths(&self) -> Option<String> {
        globs(&self.paths).err()
    }

    fn argv(&self) -> Vec<String> {
        match &self.command {
            HookCommand::Argv(argv) => argv.clone(),
            HookCommand::Shell(text) => {
                ["/bin/sh", "-c", text].into_iter().map(String::from).collect()
            }
        }
    }
}

/// A hook that runs a program.
pub struct CommandHook {
    settings: CommandHookSettings,
    programs: Arc<OwnPrograms>,
    paths: GlobSet,
    breaker: Breaker,
    warn: Option<fn(&str)>,
}

/// Compiles path globs; a relative one matches in every directory.
fn globs(written: &[String]) -> Result<GlobSet, String> {
    let mut globs = GlobSetBuilder::new();
    for glob in written {
        let anywhere = !glob.starts_with('/') && !glob.starts_with("**/");
        let absolute = if anywhere { format!("**/{glob}") } else { glob.clone() };
        let read = GlobBuilder::new(&absolute).literal_separator(true).build();
        globs.add(read.map_err(|error| format!("`{glob}`: {}", error.kind()))?);
    }
    globs.build().map_err(|error| error.kind().to_string())
}

/// The result of one run of a hook program.
#[derive(Debug)]
pub struct HookTrial {
    /// The meaning of the answer, or why the run failed.
    pub answer: Result<HookAnswer, String>,
    /// The process result; `None` where a variable of the form cannot be set.
    pub ran: Option<OwnRan>,
    /// Whether the circuit breaker counts this run.
    counts: bool,
}

struct Failure {
    why: String,
    blocks: bool,
}

/// Why the answer is unusable, and whether the breaker counts it: callers must not be able to pause a hook.
struct Unanswered {
    why: String,
    counts: bool,
}

impl From<String> for Unanswered {
    fn from(why: String) -> Self {
        Self { why, counts: true }
    }
}

const RESTORES: [&str; 2] = ["CheckpointRestore", "Undo"];
/// The operations whose rules apply to the steps of a restore.
const RESTORED_AS: [&str; 5] = ["Write", "Edit", "MultiEdit", "ApplyPatch", "MakeDirectory"];

/// The prefix of start failures.
const NOT_STARTED: &str = "it did not start";

impl Failure {
    /// Returns the message for callers: it hides where the user's programs lie.
    fn told(&self) -> &str {
        if self.why.starts_with(NOT_STARTED) { NOT_STARTED } else { &self.why }
    }

    fn into_error(self, event: HookEvent) -> ToolError {
        ToolError::new(Kind::BlockedByHook, self.told().to_owned())
            .hint(format!(
                "the user can run `sinew hook test {event}`, correct the hook, or let it fail with \
                 `on_error = \"continue\"`"
            ))
            .source(self.why)
    }
}

impl CommandHook {
    /// Compiles the path globs and returns the hook. `warn` receives failures.
    pub fn new(
        settings: CommandHookSettings,
        programs: Arc<OwnPrograms>,
        warn: Option<fn(&str)>,
    ) -> Result<Self, String> {
        let paths = globs(&settings.paths)?;
        let breaker = Breaker::new(settings.max_failures, settings.rest);
        Ok(Self { settings, programs, paths, breaker, warn })
    }

    /// Returns the settings.
    pub fn settings(&self) -> &CommandHookSettings {
        &self.settings
    }

    /// Returns why its program cannot run, if so.
    pub fn problem(&self) -> Option<Unrunnable> {
        let root = self.programs.roots().first().map(|root| root.to_string_lossy().into_owned());
        let told = root.map(|root| (String::from(CWD), root)).into_iter().collect();
        self.programs.find(&self.program(Vec::new(), told)).err()
    }

    /// Returns whether a failure stops an event.
    pub fn blocks_on_error(&self, event: HookEvent) -> bool {
        let blocks = self.settings.blocks_on_error.unwrap_or_else(|| event.fails_closed());
        blocks && event.can_be_stopped()
    }

    /// Returns whether it runs for a call. `paths` returns `None` for unknown paths: the hook then runs.
    pub fn is_for(
        &self,
        tool: &str,
        operation: &str,
        paths: impl FnOnce() -> Option<Vec<String>>,
    ) -> bool {
        let named =
            |pattern: &String| tool_matches(pattern, tool) || name_matches(pattern, operation);
        let tools = &self.settings.tools;
        (tools.is_empty() || tools.iter().any(named)) && self.is_for_paths(paths)
    }

    /// Returns whether it runs before a restore: the steps are unknown then, so all [`RESTORED_AS`] count.
    fn is_for_restore(&self, operation: &str, paths: impl FnOnce() -> Option<Vec<String>>) -> bool {
        let named = |pattern: &String| {
            let means = |name: &&str| tool_matches(pattern, name) || name_matches(pattern, name);
            RESTORED_AS.iter().any(means)
        };
        RESTORES.contains(&operation)
            && self.settings.tools.iter().any(named)
            && self.is_for_paths(paths)
    }

    fn is_for_paths(&self, paths: impl FnOnce() -> Option<Vec<String>>) -> bool {
        self.settings.paths.is_empty()
            || paths().is_none_or(|paths| paths.iter().any(|path| self.paths.is_match(path)))
    }

    /// Runs the program once and returns its answer, regardless of the circuit breaker.
    pub async fn trial(&self, event: HookEvent, payload: &Value) -> HookTrial {
        let known = self.settings.events.iter().find(|(known, _)| *known == event);
        let name = known.map_or(event.as_str(), |(_, name)| name);
        let said = (self.settings.form.payload)(event, name, payload);
        let of_form = (self.settings.form.env)(event, payload);
        let of_form: Vec<_> =
            of_form.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        if let Some(why) = of_form.iter().find_map(|(name, value)| unfit(name, value)) {
            let answer = Err(format!("{NOT_STARTED}: {why}"));
            return HookTrial { answer, ran: None, counts: false };
        }
        // Standard input still contains values that do not fit a variable.
        let mut told = about(event, payload);
        told.retain(|(name, value)| unfit(name, value).is_none());
        told.extend(of_form);
        if let (Some(name), Some(root)) =
            (self.settings.form.root_variable, self.programs.roots().first())
        {
            told.push((name.to_owned(), root.to_string_lossy().into_owned()));
        }
        let ran = self.programs.run(self.program(said.to_string().into_bytes(), told)).await;
        let meant = self.meant(event, &ran);
        let counts = meant.as_ref().map_or_else(|failure| failure.counts, |_| true);
        HookTrial { answer: meant.map_err(|failure| failure.why), ran: Some(ran), counts }
    }

    fn program(&self, stdin: Vec<u8>, told: Vec<(String, String)>) -> OwnProgram {
        // The working directory is no secret: a program that starts there may name files in it.
        let (cwd, told): (Vec<_>, _) = told.into_iter().partition(|(name, _)| name == CWD);
        OwnProgram {
            argv: self.settings.argv(),
            cwd: self.settings.folder.clone(),
            in_root: self.settings.in_root,
            trusted: self.settings.trusted.clone(),
            env: self.settings.env.iter().cloned().chain(cwd).collect(),
            told,
            stdin,
            timeout: self.settings.timeout,
        }
    }

    fn meant(&self, event: HookEvent, ran: &OwnRan) -> Result<HookAnswer, Unanswered> {
        match self.said(event, ran)? {
            // The configuration chose this event, so the breaker does not count it.
            HookAnswer::Block(reason) if !event.can_block() && event != HookEvent::Persist => {
                let why = format!("it blocks, which {event} does not let it do: {reason}");
                Err(Unanswered { why, counts: false })
            }
            HookAnswer::Change(changes) | HookAnswer::Replace(changes) if changes.is_empty() => {
                Ok(HookAnswer::Continue)
            }
            answer => Ok(check(event, answer)?),
        }
    }

    fn said(&self, event: HookEvent, ran: &OwnRan) -> Result<HookAnswer, String> {
        let code = match &ran.end {
            OwnEnd::Code(code) => *code,
            OwnEnd::Signal(signal) => return Err(format!("signal {signal} ended it")),
            OwnEnd::TimedOut => {
                return Err(format!(
                    "its time of {} ms ran out",
                    self.settings.timeout.as_millis()
                ));
            }
            OwnEnd::TooMuch => return Err(String::from("it wrote more than 1 MiB")),
            OwnEnd::NotStarted(why) | OwnEnd::InRoot(why) => {
                return Err(format!("{NOT_STARTED}: {why}"));
            }
            OwnEnd::Lost => return Err(String::from("the process that followed it is gone")),
        };
        let stdout = std::str::from_utf8(&ran.stdout)
            .map_err(|_| String::from("its output is not UTF-8"))?;
        let stderr = String::from_utf8_lossy(&ran.stderr);
        (self.settings.form.answer)(event, &HookEnd { code, stdout, stderr: &stderr })
    }

    /// Runs the program unless it is paused; returns the answer or the failure.
    async fn ask(&self, event: HookEvent, payload: &Value) -> Result<HookAnswer, Failure> {
        let entered = self.breaker.enter(Instant::now()).map_err(|left| Failure {
            why: format!(
                "it failed {} times in a row and is not started for another {} s",
                self.settings.max_failures,
                left.as_secs() + 1
            ),
            blocks: self.blocks_on_error(event),
        })?;
        let HookTrial { answer, ran, counts } = self.trial(event, payload).await;
        // Otherwise a model could disable a hook by writing a file into a root.
        let is_in_root = ran.is_some_and(|ran| matches!(ran.end, OwnEnd::InRoot(_)));
        if counts && !is_in_root {
            entered.ended(answer.is_err(), Instant::now());
        }
        if let (Err(why), Some(warn)) = (&answer, self.warn) {
            let CommandHookSettings { name, origin, .. } = &self.settings;
            warn(&format!("{origin}: the hook `{name}` failed at {event}: {why}"));
        }
        let blocks = is_in_root || self.blocks_on_error(event);
        answer.map_err(|why| Failure { why, blocks })
    }

    async fn reply_at(
        &self,
        event: HookEvent,
        payload: Value,
        reply: &mut Reply,
    ) -> Result<(), ToolError> {
        let name = &self.settings.name;
        let answer = match self.ask(event, &payload).await {
            Ok(answer) => answer,
            Err(failure) if failure.blocks => {
                reply.meta.hook_did(name, event, "failed, so the reply is withheld");
                return Err(failure.into_error(event));
            }
            Err(failure) => {
                reply.meta.hook_did(name, event, &format!("failed: {}", failure.told()));
                return Ok(());
            }
        };
        let (changes, is_whole) = match answer {
            HookAnswer::Change(changes) => (changes, false),
            HookAnswer::Replace(changes) => (changes, true),
            HookAnswer::Continue | HookAnswer::Ask(_) => return Ok(()),
            HookAnswer::Add(text) => {
                reply.add_text(text);
                reply.bounded = false;
                reply.meta.hook_did(name, event, "added to the reply");
                return Ok(());
            }
            // The call already ran, so only its reply can be withheld.
            HookAnswer::Block(reason) => {
                let ended = if reply.error.is_none() { "ran" } else { "failed" };
                let words = format!("the call {ended}, and the hook `{name}` withheld its reply");
                let error = ToolError::new(Kind::BlockedByHook, format!("{words}: {reason}"));
                let mut withheld = Reply::failure(&error);
                withheld.meta = std::mem::take(&mut reply.meta);
                withheld.meta.hook_did(name, event, "blocked, so the reply is withheld");
                *reply = withheld;
                return Ok(());
            }
        };
        if let Some(Value::Object(changed)) = changes.get("reply") {
            change(reply, changed, is_whole);
            reply.meta.hook_did(name, event, "changed the reply");
        }
        Ok(())
    }

    async fn look_on(&self, event: HookEvent, payload: Value) -> Result<(), ToolError> {
        // `ask` reported the failure; observers cannot stop anything.
        let _ = self.ask(event, &payload).await;
        Ok(())
    }
}

const CWD: &str = "SINEW_CWD";

/// Returns the environment variables that every hook gets.
fn about(event: HookEvent, payload: &Value) -> Vec<(String, String)> {
    let mut env = vec![(String::from("SINEW_HOOK_EVENT"), event.as_str().to_owned())];
    for (name, key) in [
        ("SINEW_SESSION", "session"),
        ("SINEW_CALL_ID", "call_id"),
        ("SINEW_TOOL_NAME", "tool"),
        (CWD, "cwd"),
    ] {
        if let Some(value) = payload.get(key).and_then(Value::as_str) {
            env.push((name.to_owned(), value.to_owned()));
        }
    }
    env
}

/// The longest variable the kernel accepts, in bytes: `NAME=VALUE` without its NUL.
const MAX_VARIABLE: usize = 128 * 1024 - 1;

/// Returns why a value cannot be a variable. Truncation could hide the text that the hook looks for.
fn unfit(name: &str, value: &str) -> Option<String> {
    if value.contains('\0') {
        return Some(format!(
            "`{name}` holds a NUL byte, which no variable can; read standard input instead"
        ));
    }
    (MAX_VARIABLE <= name.len() + value.len() + 1).then(|| {
        format!(
            "`{name}` has {} bytes, more than a variable can hold; read standard input instead",
            value.len()
        )
    })
}

impl Hook for CommandHook {
    fn name(&self) -> &str {
        &self.settings.name
    }

    fn origin(&self) -> Option<&str> {
        Some(&self.settings.origin)
    }

    fn priority(&self) -> i32 {
        self.settings.priority
    }

    fn wants(&self, event: HookEvent) -> bool {
        self.settings.events.iter().any(|(known, _)| *known == event)
    }

    fn before_tool_execute<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
    ) -> BoxFuture<'a, Result<Decision, ToolError>> {
        let paths = || call.paths.get();
        if !self.is_for(call.tool, call.operation, paths)
            && !self.is_for_restore(call.operation, paths)
        {
            return Box::pin(std::future::ready(Ok(Decision::Continue)));
        }
        let event = HookEvent::BeforeToolExecute;
        let payload = payload(event, [json!(call)]);
        Box::pin(async move {
            Ok(match self.ask(event, &payload).await {
                Ok(HookAnswer::Continue) => Decision::Continue,
                Ok(HookAnswer::Block(reason)) => Decision::Block(reason),
                Ok(HookAnswer::Ask(reason)) => Decision::Ask(reason),
                Ok(HookAnswer::Add(_)) => Decision::Continue,
                Ok(HookAnswer::Change(changes)) => Decision::Modify(part(changes, "arguments")),
                Ok(HookAnswer::Replace(changes)) => Decision::Replace(part(changes, "arguments")),
                Err(failure) if failure.blocks => return Err(failure.into_error(event)),
                Err(failure) => Decision::Failed(failure.told().to_owned()),
            })
        })
    }

    fn after_tool_execute<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
        duration_ms: f64,
        reply: &'a mut Reply,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        if !self.is_for(call.tool, call.operation, || call.paths.get()) {
            return Box::pin(std::future::ready(Ok(())));
        }
        let event = HookEvent::AfterToolExecute;
        let executed = json!(Executed { reply: HookReply::from(&*reply), duration_ms });
        let payload = payload(event, [json!(call), executed]);
        Box::pin(self.reply_at(event, payload, reply))
    }

    fn persist<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
        reply: &'a mut Reply,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        if !self.is_for(call.tool, call.operation, || call.paths.get()) {
            return Box::pin(std::future::ready(Ok(())));
        }
        let event = HookEvent::Persist;
        let kept = json!({ "reply": HookReply::from(&*reply) });
        let payload = payload(event, [json!(call), kept]);
        Box::pin(self.reply_at(event, payload, reply))
    }

    fn approval<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Result<(), ToolError>> {
        let paths = || (!approval.finds_paths).then(|| approval.paths.clone());
        if !self.is_for(&approval.tool, &approval.operation, paths) {
            return Box::pin(std::future::ready(Ok(())));
        }
        let event = HookEvent::Approval;
        Box::pin(self.look_on(event, payload(event, [json!(approval)])))
    }

    fn session_start<'a>(
        &'a self,
        session: &'a SessionStart,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        let event = HookEvent::SessionStart;
        Box::pin(self.look_on(event, payload(event, [json!(session)])))
    }

    fn session_end<'a>(&'a self, session: &'a SessionEnd) -> BoxFuture<'a, Result<(), ToolError>> {
        let event = HookEvent::SessionEnd;
        Box::pin(self.look_on(event, payload(event, [json!(session)])))
    }

    fn agent<'a>(&'a self, moment: &'a AgentEvent) -> BoxFuture<'a, Result<Decision, ToolError>> {
        let event = moment.event();
        Box::pin(async move {
            Ok(match self.ask(event, &moment.payload()).await {
                Ok(HookAnswer::Continue) => Decision::Continue,
                Ok(HookAnswer::Block(reason)) => Decision::Block(reason),
                Ok(HookAnswer::Ask(reason)) => Decision::Ask(reason),
                Ok(HookAnswer::Add(_)) => Decision::Continue,
                Ok(HookAnswer::Change(changes)) => Decision::Modify(changes),
                Ok(HookAnswer::Replace(changes)) => Decision::Replace(changes),
                Err(failure) if failure.blocks => return Err(failure.into_error(event)),
                Err(failure) => Decision::Failed(failure.told().to_owned()),
            })
        })
    }
}

impl std::fmt::Debug for CommandHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandHook").field("settings", &self.settings).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_no_program_can_get_are_named() {
        let with = |value: &str| unfit("TOOL_INPUT", value);
        assert_eq!(with("x"), None);
        assert!(with("a\0b").expect("why").contains("NUL"));
        assert!(with(&"x".repeat(MAX_VARIABLE)).expect("why").contains("131071 bytes"));
    }
}
