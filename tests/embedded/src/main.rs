//! Embeds the library without features: a call of a dialect runs, and an own tool that needs a schema check is refused.

use std::error::Error;
use std::sync::Arc;

use serde_json::{Value, json};
use sinew::{CallOptions, Request, Runtime};
use sinew::approval::{Approvals, Asking};
use sinew::tool::Tool;

struct Echo {
    checks_itself: bool,
}

impl Tool for Echo {
    fn name(&self) -> &str {
        "echo"
    }
    fn description(&self) -> &str {
        "Returns its text."
    }
    fn parameters(&self) -> Value {
        json!({ "type": "object" })
    }
    fn checked_by_schema(&self) -> bool {
        !self.checks_itself
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let built = |checks_itself| {
        Runtime::builder(sinew::dialects::NATIVE)
            .root(dir.path())
            .asking(Asking { approvals: Approvals::Allow, ..Asking::default() })
            .tool(Arc::new(Echo { checks_itself }))
            .build()
    };
    let error = built(false).err().ok_or("a tool that cannot be checked was added")?.to_string();
    assert!(error.contains("`json-schema`"), "{error}");
    let runtime = built(true)?;
    let error = runtime.add_tool(&(Arc::new(Echo { checks_itself: false }) as Arc<dyn Tool>));
    assert!(error.is_err());
    let arguments = json!({ "file_path": "notes.md", "content": "hello\n" });
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let call = runtime.call(Request::new("call-1", "Write", arguments), CallOptions::default());
    let reply = tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(call);
    assert!(reply.ok, "{reply:?}");
    assert_eq!(std::fs::read_to_string(dir.path().join("notes.md"))?, "hello\n");
    Ok(())
}
