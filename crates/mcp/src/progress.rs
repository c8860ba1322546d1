//! Progress notifications for calls of the reading thread.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use sinew_tool::Progress;

use crate::transport::Output;

/// The shortest interval between notifications.
pub(crate) const EVERY: Duration = Duration::from_millis(100);

/// Returns a progress that notifies the client from any thread. The token is JSON.
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
        // The reading thread detects a closed client.
        let _ = output.write(told.as_bytes());
    })
}

/// Rate limiter: the time of the last notification.
#[derive(Debug, Default)]
pub struct Pace(Mutex<Option<Instant>>);

impl Pace {
    /// Returns whether the next notification is due.
    pub fn is_due(&self) -> bool {
        let Ok(mut last) = self.0.lock() else { return false };
        if last.is_some_and(|at| at.elapsed() < EVERY) {
            return false;
        }
        *last = Some(Instant::now());
        true
    }
}
