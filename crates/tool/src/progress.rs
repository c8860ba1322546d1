//! Progress of long work.

use std::sync::Arc;

/// Where long work says how far it is: nowhere, unless the caller asked to be told.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<Listener>>);

type Listener = dyn Fn(u64, &str) + Send + Sync;

impl Progress {
    /// Returns a progress that hands a growing count and what is counted to a listener, which must
    /// not block.
    pub fn to(listener: impl Fn(u64, &str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    /// Says how far the work is, such as `1200` and `files searched`.
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
