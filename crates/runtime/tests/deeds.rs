//! A small operation that writes, tools that misbehave, and a runtime over them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use sinew_runtime::{Approvals, Asking, Builder, CallOptions, MemoryLedger, Runtime};
use sinew_tool::{
    Access, Arguments, BoxFuture, Claim, Closing, Command, CommandLine, Context, Conventions, Cost,
    Dialect, Effects, Expect, Facts, FileSettings, Links, Operation, Param, ParamKind, Preview,
    Reply, Request, Row, Shell, Targets, Tool, ToolError,
};

/// Puts a text into a file.
pub(crate) struct Put;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutArgs {
    path: String,
    text: String,
}

impl Operation for Put {
    const NAME: &'static str = "Put";
    const FACTS: Facts = Facts::CHANGES;
    type Args = PutArgs;
    type Out = u64;

    fn claims(args: &PutArgs, _settings: &FileSettings) -> Vec<Claim> {
        let access = Access::Write { parents: false, links: Links::Follow };
        vec![Claim::new("path", Some(args.path.clone()), access)]
    }

    fn cost(args: &PutArgs, _targets: &Targets) -> Cost {
        if args.text.starts_with("long") { Cost::Long } else { Cost::Cheap }
    }

    fn preview(args: &PutArgs, _cx: &Context) -> Preview {
        match args.text.as_str() {
            "" => Preview::Nothing,
            text => Preview::Diff(format!("+{text}\n")),
        }
    }

    async fn run(args: &PutArgs, cx: &Context) -> Result<u64, ToolError> {
        if args.text == "panic" {
            panic!("as the argument says");
        }
        let target = cx.target(0)?;
        let pieces = [args.text.as_bytes()];
        Ok(cx.replace(target, &pieces, Expect::Any).await?.bytes)
    }
}

const PUT: Row<Put> = Row {
    name: "put",
    description: "Puts a text into a file.",
    params: &[
        Param::required("where", "path", ParamKind::String, ""),
        Param::required("text", "text", ParamKind::String, ""),
    ],
    ..Row::<Put>::shaped(|_, bytes, shaping| {
        Reply::text(format!("{bytes} in {}", shaping.shown(shaping.path(0))))
    })
};

/// Names a command, and runs nothing.
pub(crate) struct Begin;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BeginArgs {
    command: String,
}

impl Operation for Begin {
    const NAME: &'static str = "Begin";
    const FACTS: Facts = Facts { effects: Effects::EXECUTE, ..Facts::UNKNOWN };
    type Args = BeginArgs;
    type Out = ();

    fn claims(_args: &BeginArgs, _settings: &FileSettings) -> Vec<Claim> {
        vec![Claim::new("cwd", None, Access::Search)]
    }

    fn command(args: &BeginArgs) -> Option<Command> {
        let line = CommandLine::Shell(Shell::User, args.command.clone());
        Some(Command {
            argument: "command",
            line,
            keeps_cwd: false,
            has_terminal: false,
            programs: Vec::new(),
            needs: None,
        })
    }

    fn cost(_args: &BeginArgs, _targets: &Targets) -> Cost {
        Cost::Waits
    }

    async fn run(_args: &BeginArgs, _cx: &Context) -> Result<(), ToolError> {
        Ok(())
    }
}

const BEGIN: Row<Begin> = Row {
    name: "begin",
    description: "Names a command.",
    params: &[Param::required("command", "command", ParamKind::String, "")],
    ..Row::<Begin>::shaped(|_, (), _| Reply::text("named"))
};

/// A tool that only has a name.
struct Named(String);

impl Tool for Named {
    fn name(&self) -> &str {
        &self.0
    }
    fn description(&self) -> &str {
        "Does nothing."
    }
    fn parameters(&self) -> Value {
        json!({"type": "object"})
    }
    fn facts(&self) -> Facts {
        Facts::OBSERVES
    }
    fn execute<'a>(
        &'a self,
        _args: Arguments,
        _cx: &'a Context,
    ) -> BoxFuture<'a, Result<Reply, ToolError>> {
        Box::pin(async { Ok(Reply::text("nothing")) })
    }
}

pub(crate) fn named(name: &str) -> Arc<dyn Tool> {
    Arc::new(Named(name.to_owned()))
}

/// Answers many lines, waits for ever, or panics.
struct Odd;

impl Tool for Odd {
    fn name(&self) -> &str {
        "odd"
    }
    fn description(&self) -> &str {
        "Does odd things."
    }
    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {"lines": {"type": "integer"}, "wait": {"type": "boolean"}},
            "additionalProperties": false,
        })
    }
    fn facts(&self) -> Facts {
        Facts::OBSERVES
    }
    fn execute<'a>(
        &'a self,
        args: Arguments,
        _cx: &'a Context,
    ) -> BoxFuture<'a, Result<Reply, ToolError>> {
        Box::pin(async move {
            if args.contains_key("wait") {
                std::future::pending::<()>().await;
            }
            let n = args.get("lines").and_then(Value::as_u64).unwrap_or(1);
            let lines: Vec<String> = (1..=n).map(|n| format!("line {n}")).collect();
            Ok(Reply::text(lines.join("\n")))
        })
    }
}

/// Says nothing of what it does.
struct Unknown;

impl Tool for Unknown {
    fn name(&self) -> &str {
        "agent::unknown"
    }
    fn description(&self) -> &str {
        "Nobody knows."
    }
    fn parameters(&self) -> Value {
        json!({"type": "object"})
    }
    fn execute<'a>(
        &'a self,
        _args: Arguments,
        _cx: &'a Context,
    ) -> BoxFuture<'a, Result<Reply, ToolError>> {
        Box::pin(async { Ok(Reply::text("done")) })
    }
}

fn tools() -> Vec<Arc<dyn Tool>> {
    vec![PUT.tool(), BEGIN.tool(), Arc::new(Odd), Arc::new(Unknown)]
}

pub(crate) const DIALECT: Dialect = Dialect {
    name: "test",
    tools,
    settings: FileSettings::default,
    approval_timeout_ms: 1_000,
    conventions: Conventions::DEFAULT,
};

/// The same, whose calls take turns.
pub(crate) const TAKING_TURNS: Dialect =
    Dialect { conventions: Conventions { takes_turns: true, ..Conventions::DEFAULT }, ..DIALECT };

/// A runtime with its root and its ledger.
pub(crate) struct Bench {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) ledger: Arc<MemoryLedger>,
    root: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new(change: impl FnOnce(Builder) -> Builder) -> Self {
        Self::of(DIALECT, change)
    }

    pub(crate) fn of(dialect: Dialect, change: impl FnOnce(Builder) -> Builder) -> Self {
        crate::spans::keep_spans_on();
        let root = tempfile::tempdir().expect("a root");
        let ledger = Arc::new(MemoryLedger::default());
        let allow = Asking { approvals: Approvals::Allow, ..Asking::default() };
        let builder =
            Runtime::builder(dialect).root(root.path()).asking(allow).ledger(ledger.clone());
        Self { runtime: change(builder).build().expect("a runtime"), ledger, root }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize_for_test().join(name)
    }

    #[expect(clippy::disallowed_methods, reason = "the test looks at what really happened")]
    pub(crate) fn content(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.path(name)).ok()
    }

    pub(crate) fn start(&self, id: &str, name: &str, args: Value) -> BoxFuture<'static, Reply> {
        self.start_with(id, name, args, CallOptions::default())
    }

    pub(crate) fn start_with(
        &self,
        id: &str,
        name: &str,
        args: Value,
        options: CallOptions,
    ) -> BoxFuture<'static, Reply> {
        let args = args.as_object().cloned().unwrap_or_default();
        Box::pin(self.runtime.call(Request::new(id, name, args), options))
    }

    pub(crate) async fn call(&self, name: &str, args: Value) -> Reply {
        let call = self.start("c", name, args);
        tokio::time::timeout(Duration::from_secs(20), call).await.expect("an answer in time")
    }

    /// Returns the records so far: those with an intent first count as changes.
    pub(crate) fn records(&self) -> Vec<(bool, Closing)> {
        self.ledger
            .take()
            .into_iter()
            .map(|(ticket, closing)| (ticket.is_some(), closing))
            .collect()
    }
}

trait Canonical {
    fn canonicalize_for_test(&self) -> PathBuf;
}

impl Canonical for std::path::Path {
    #[expect(clippy::disallowed_methods, reason = "the test names its own temporary directory")]
    fn canonicalize_for_test(&self) -> PathBuf {
        self.canonicalize().expect("a directory that exists")
    }
}

pub(crate) fn text(reply: &Reply) -> String {
    reply
        .content
        .iter()
        .map(|block| match block {
            sinew_tool::Block::Text { text } => text.as_str(),
            _ => "",
        })
        .collect::<Vec<_>>()
        .join("\n")
}
