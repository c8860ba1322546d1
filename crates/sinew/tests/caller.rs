//! A short way to call a runtime: one thread, one call after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use sinew::{Block, CallOptions, Reply, Request, Runtime};

/// Who calls a runtime from one thread.
pub(crate) struct Caller {
    tokio: tokio::runtime::Runtime,
    runtime: Arc<Runtime>,
    /// How long the caller waits for a reply, if not for ever.
    pub(crate) patience: Option<Duration>,
}

impl Caller {
    pub(crate) fn new(runtime: &Arc<Runtime>) -> Self {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { tokio, runtime: Arc::clone(runtime), patience: None }
    }

    /// Calls a tool and waits for its reply.
    #[track_caller]
    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Reply {
        self.call_in(None, tool, arguments)
    }

    /// Ends the sessions, and what runs beside their calls.
    pub(crate) fn end(&self) {
        self.tokio.block_on(self.runtime.end_sessions(Duration::from_secs(20)));
    }

    /// Calls a tool of a dialect, or of the first one.
    #[track_caller]
    pub(crate) fn call_in(&self, dialect: Option<&str>, tool: &str, arguments: Value) -> Reply {
        let Value::Object(arguments) = arguments else { panic!("no object: {arguments}") };
        let mut request = Request::new("call", tool, arguments);
        request.dialect = dialect.map(str::to_owned);
        request.deadline = self.patience.map(|patience| Instant::now() + patience);
        self.tokio.block_on(self.runtime.call(request, CallOptions::default()))
    }
}

/// Returns the text of a reply.
pub(crate) fn text(reply: &Reply) -> &str {
    match reply.content.first() {
        Some(Block::Text { text }) => text,
        _ => "",
    }
}
