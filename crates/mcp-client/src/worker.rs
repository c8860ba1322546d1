//! The thread that follows all servers.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sinew_tool::{Kind, ToolError};
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// The thread, which ends when this is dropped.
pub(crate) struct Worker {
    pub(crate) handle: Handle,
    ends: Arc<Notify>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Worker {
    pub(crate) fn start() -> Result<Self, ToolError> {
        let failed = |error| {
            ToolError::new(Kind::Unavailable, "no thread for the servers can be started")
                .source(error)
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let handle = runtime.handle().clone();
        let ends = Arc::new(Notify::new());
        let until = Arc::clone(&ends);
        let run = move || {
            runtime.block_on(until.notified());
            runtime.shutdown_timeout(Duration::ZERO);
        };
        let thread = thread::Builder::new().name(String::from("mcp-servers")).spawn(run);
        Ok(Self { handle, ends, thread: Some(thread.map_err(failed)?) })
    }

    /// Returns whether this is the thread of the servers, which must not wait for itself.
    pub(crate) fn is_this_thread(&self) -> bool {
        self.thread.as_ref().is_some_and(|one| one.thread().id() == thread::current().id())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.ends.notify_one();
        if !self.is_this_thread()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

/// Ends a task when it is dropped.
pub(crate) struct AbortOnDrop(pub(crate) tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
