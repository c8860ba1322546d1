//! Progress reports of long work.

use std::sync::Arc;

/// Reports progress to a listener, or nowhere by default.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<Listener>>);

type Listener = dyn Fn(u64, &str) + Send + Sync;

impl Progress {
    /// Returns a progress that passes a growing count and its unit to a listener, which must not block.
    pub fn to(listener: impl Fn(u64, &str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    /// Reports progress, such as `1200` and `files searched`.
    pub fn report(&self, done: u64, what: &str) {
        if let Some(listener) = &self.0 {
            listener(done, what);
        }
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Progress")
    }
}
