//! A client of one line at a time, and the tools it calls.

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use sinew_mcp::{Calls, McpServerShell, Options, Stream};
use sinew_runtime::{Approvals, Asking, MemoryLedger, Runtime, ToolProvider};
use sinew_tool::{
    Arguments, BoxFuture, Context, Conventions, Dialect, Facts, FileSettings, Kind, Reply, Tool,
    ToolError,
};

/// Answers its argument at once, fails, or waits for a time with progress.
struct Echo;

impl Tool for Echo {
    fn name(&self) -> &str {
        "Echo"
    }
    fn description(&self) -> &str {
        "Answers what it is given."
    }
    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "fail": {"type": "boolean"},
                "wait_ms": {"type": "integer"},
            },
            "required": ["text"],
            "additionalProperties": false,
        })
    }
    fn facts(&self) -> Facts {
        Facts::OBSERVES
    }
    fn execute<'a>(
        &'a self,
        args: Arguments,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<Reply, ToolError>> {
        Box::pin(async move {
            if let Some(wait) = args.get("wait_ms").and_then(Value::as_u64) {
                cx.progress.report(1, "naps begun");
                tokio::time::sleep(Duration::from_millis(wait)).await;
            }
            if args.get("fail").and_then(Value::as_bool).unwrap_or(false) {
                return Err(ToolError::new(Kind::ExecutionFailed, "as asked").hint("ask again"));
            }
            Ok(Reply::text(args["text"].as_str().unwrap_or_default()))
        })
    }
}

/// Panics.
struct Broken;

impl Tool for Broken {
    fn name(&self) -> &str {
        "Broken"
    }
    fn description(&self) -> &str {
        "Breaks."
    }
    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {}})
    }
    fn facts(&self) -> Facts {
        Facts::OBSERVES
    }
    fn execute<'a>(
        &'a self,
        _args: Arguments,
        _cx: &'a Context,
    ) -> BoxFuture<'a, Result<Reply, ToolError>> {
        panic!("on purpose")
    }
}

/// A tool that comes later.
pub(crate) struct Late;

impl Tool for Late {
    fn name(&self) -> &str {
        "Late"
    }
    fn description(&self) -> &str {
        "Came later."
    }
    fn parameters(&self) -> Value {
        json!({"type": "object"})
    }
}

fn tools() -> Vec<Arc<dyn Tool>> {
    vec![Arc::new(Echo), Arc::new(Broken)]
}

const DIALECT: Dialect = Dialect {
    name: "test",
    tools,
    settings: FileSettings::default,
    approval_timeout_ms: 1_000,
    conventions: Conventions::DEFAULT,
};

/// A server on a thread, and the client's ends of its pipes.
pub(crate) struct Client {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) ledger: Arc<MemoryLedger>,
    pub(crate) gone: Arc<AtomicBool>,
    pub(crate) input: Option<PipeWriter>,
    output: BufReader<PipeReader>,
    server: JoinHandle<std::io::Result<()>>,
    _root: tempfile::TempDir,
}

impl Client {
    pub(crate) fn start(inline: bool) -> Self {
        Self::start_with(inline, Vec::new())
    }

    /// Starts a server with the tools of providers.
    pub(crate) fn start_with(inline: bool, providers: Vec<Box<dyn ToolProvider>>) -> Self {
        let root = tempfile::tempdir().expect("a root");
        let ledger = Arc::new(MemoryLedger::default());
        let runtime = Runtime::builder(DIALECT)
            .root(root.path())
            .asking(Asking { approvals: Approvals::Allow, ..Asking::default() })
            .ledger(ledger.clone())
            .build()
            .expect("a runtime");
        let (server_input, input) = std::io::pipe().expect("a pipe");
        let (output, server_output) = std::io::pipe().expect("a pipe");
        let gone = Arc::new(AtomicBool::new(false));
        let has_gone = Arc::clone(&gone);
        let options = Options {
            dialect: None,
            session: String::from("s"),
            instructions: String::from("Be kind."),
            max_line_bytes: 4_096,
            inline,
            calls: Calls::default(),
            on_client: Box::new(|_| ()),
            on_ready: Box::new(|| ()),
        };
        let stream = Stream {
            input: Box::new(server_input),
            output: Box::new(server_output),
            gone: Box::new(move || has_gone.load(Ordering::Relaxed)),
        };
        let mut shell = McpServerShell::new(Arc::clone(&runtime));
        for provider in providers {
            shell.register_provider(provider).expect("its tools are added");
        }
        let server = std::thread::spawn(move || shell.serve(options, stream));
        let output = BufReader::new(output);
        Self { runtime, ledger, gone, input: Some(input), output, server, _root: root }
    }

    pub(crate) fn send(&mut self, line: &str) {
        let input = self.input.as_mut().expect("an open input");
        input.write_all(format!("{line}\n").as_bytes()).expect("the server reads");
    }

    pub(crate) fn receive(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the server writes");
        line.trim_end().to_owned()
    }

    /// Goes through the handshake.
    pub(crate) fn shake_hands(&mut self) {
        self.send(
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#,
        );
        assert!(self.receive().contains("\"protocolVersion\":\"2025-11-25\""));
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }

    /// Closes the input and waits until the server has ended.
    pub(crate) fn close(mut self) {
        drop(self.input.take());
        self.server.join().expect("no panic").expect("a clean end");
    }

    /// Closes the input and returns what the server still wrote.
    pub(crate) fn finish(mut self) -> Vec<String> {
        drop(self.input.take());
        let mut rest = Vec::new();
        loop {
            let line = self.receive();
            if line.is_empty() {
                break;
            }
            rest.push(line);
        }
        self.server.join().expect("no panic").expect("a clean end");
        rest
    }
}
