//! Progress of calls that the reading thread started.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use sinew_tool::Progress;

use crate::transport::Output;

/// Progress is told at most this often.
pub(crate) const EVERY: Duration = Duration::from_millis(100);

/// Returns a progress that tells the client from whatever thread works. The token is JSON.
pub(crate) fn to(output: Output, token: String) -> Progress {
    let pace = Pace::default();
    Progress::to(move |done, what| {
        if !pace.is_due() {
            return;
        }
        let message = serde_json::Value::from(format!("{done} {what}"));
        let told = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":\
             {{\"progressToken\":{token},\"progress\":{done}.0,\"message\":{message}}}}}\n"
        );
        // A client that is gone is noticed by the reading thread.
        let _ = output.write(told.as_bytes());
    })
}

/// When something was told last.
#[derive(Debug, Default)]
pub struct Pace(Mutex<Option<Instant>>);

impl Pace {
    /// Returns whether it is time to tell something again.
    pub fn is_due(&self) -> bool {
        let Ok(mut last) = self.0.lock() else { return false };
        if last.is_some_and(|at| at.elapsed() < EVERY) {
            return false;
        }
        *last = Some(Instant::now());
        true
    }
}
