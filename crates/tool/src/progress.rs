//! Progress reports of long work, and the output of running commands.

use std::sync::Arc;

/// Reports progress to a listener, or nowhere by default. Another listener may get the output of commands as it comes.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<Listeners>>);

/// One allocation, so that what holds a progress drops no more than one pointer.
struct Listeners {
    count: Option<Arc<Listener>>,
    output: Option<Arc<OutputListener>>,
}

type Listener = dyn Fn(u64, &str) + Send + Sync;
type OutputListener = dyn Fn(&[u8]) + Send + Sync;

impl Progress {
    /// Returns a progress that passes a growing count and its unit to a listener, which must not block.
    pub fn to(listener: impl Fn(u64, &str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(Listeners { count: Some(Arc::new(listener)), output: None })))
    }

    /// Passes the output of a command to a listener too, in pieces, as the command wrote it. A command waits for a
    /// listener that blocks.
    #[must_use]
    pub fn with_output(&self, listener: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        self.with(Some(Arc::new(listener)))
    }

    /// Returns this progress without the listener for output.
    #[must_use]
    pub fn without_output(&self) -> Self {
        match &self.0 {
            None => Self(None),
            Some(_) => self.with(None),
        }
    }

    fn with(&self, output: Option<Arc<OutputListener>>) -> Self {
        let count = self.0.as_ref().and_then(|listeners| listeners.count.clone());
        Self(Some(Arc::new(Listeners { count, output })))
    }

    /// Reports progress, such as `1200` and `files searched`.
    pub fn report(&self, done: u64, what: &str) {
        if let Some(listener) = self.0.as_ref().and_then(|listeners| listeners.count.as_ref()) {
            listener(done, what);
        }
    }

    /// Passes on a piece of a command's output.
    pub fn output(&self, bytes: &[u8]) {
        if let Some(listener) = self.0.as_ref().and_then(|listeners| listeners.output.as_ref()) {
            listener(bytes);
        }
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Progress")
    }
}
