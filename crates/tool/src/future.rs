//! The boxed future of this crate's traits.

use std::future::Future;
use std::pin::Pin;

/// A future that owns or borrows what it needs and can move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
