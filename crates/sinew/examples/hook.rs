//! Changes and blocks calls before they are judged.
#![expect(clippy::disallowed_methods, reason = "an embedding program reads its own files")]

use std::error::Error;
use std::sync::Arc;

use serde_json::{Value, json};
use sinew::approval::{Approvals, Asking};
use sinew::hook::{Decision, Hook, HookEvent, ToolCall};
use sinew::{Arguments, BoxFuture, CallOptions, Kind, Request, Runtime, ToolError, dialects};

/// Keeps generated files as they are, and ends each written file with a line break.
struct HouseRules;

impl Hook for HouseRules {
    fn name(&self) -> &str {
        "house-rules"
    }

    fn wants(&self, event: HookEvent) -> bool {
        event == HookEvent::BeforeToolExecute
    }

    fn before_tool_execute<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
    ) -> BoxFuture<'a, Result<Decision, ToolError>> {
        let text = |name| call.arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        let (path, content) = (text("file_path"), text("content"));
        let decision = match call.operation {
            "Write" if path.ends_with(".lock") => Decision::Block(format!("{path} is generated")),
            "Write" if !content.ends_with('\n') => {
                let content = Value::from(format!("{content}\n"));
                Decision::Modify(Arguments::from_iter([(String::from("content"), content)]))
            }
            _ => Decision::Continue,
        };
        Box::pin(std::future::ready(Ok(decision)))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let asking = Asking { approvals: Approvals::Allow, ..Asking::default() };
    let runtime = Runtime::builder(dialects::NATIVE).root(dir.path()).asking(asking);
    let runtime = runtime.hook(Arc::new(HouseRules)).build()?;
    for (path, expected) in [("notes.md", None), ("app.lock", Some(Kind::BlockedByHook))] {
        let arguments = serde_json::from_value(json!({"file_path": path, "content": "hello"}))?;
        let reply = runtime.call(Request::new(path, "Write", arguments), CallOptions::default());
        let result = reply.await.into_text();
        println!("{path}: {result:?}");
        assert_eq!(result.err().map(|error| error.kind), expected);
    }
    assert_eq!(std::fs::read_to_string(dir.path().join("notes.md"))?, "hello\n");
    Ok(())
}
