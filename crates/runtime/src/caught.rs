//! Turns panics of tools and hooks into errors of one call.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use sinew_tool::{Kind, ToolError};

/// Runs a future; a panic in any poll becomes an error. No async function: it would hold the future twice.
pub(crate) fn caught<T>(
    future: impl Future<Output = Result<T, ToolError>>,
) -> impl Future<Output = Result<T, ToolError>> {
    let ended = AssertUnwindSafe(future).catch_unwind();
    ended.map(|ended| ended.unwrap_or_else(|panic| Err(panicked(&*panic))))
}

/// The error of a panic; only the log gets the panic message.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> ToolError {
    let words = panic
        .downcast_ref::<&str>()
        .map(|words| (*words).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    ToolError::new(Kind::ExecutionFailed, "the tool failed inside sinew; this is a defect of sinew")
        .hint("the call was recorded; other calls go on")
        .source(words)
}
