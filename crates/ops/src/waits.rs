//! Waits for background commands, and the texts about one.

use std::sync::Arc;
use std::time::Duration;

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use sinew_tool::{Background, Cancel, Context, Matcher, ToolError, Wait, Waited};

use crate::pattern::{RegexKey, regex};
use crate::screen;

/// The longest wait, in milliseconds.
pub(crate) const MAX_WAIT_MS: i64 = 600_000;
/// The longest wait where the call names only its event, in milliseconds.
const DEFAULT_WAIT_MS: u64 = 30_000;

/// The wait that a call asks for.
pub(crate) struct Until<'a> {
    pub(crate) until: Option<&'a str>,
    pub(crate) idle_ms: Option<u64>,
    pub(crate) timeout_ms: Option<u64>,
}

impl Until<'_> {
    /// Returns the wait; without a timeout or an event it is zero.
    pub(crate) fn wait(&self, cx: &Context) -> Result<Wait, ToolError> {
        let ends = self.until.is_some() || self.idle_ms.is_some();
        let at_most = self.timeout_ms.unwrap_or(if ends { DEFAULT_WAIT_MS } else { 0 });
        Ok(Wait {
            until: self.until.map(|pattern| matcher(cx, "until", pattern)).transpose()?,
            idle: self.idle_ms.map(Duration::from_millis),
            at_most: Duration::from_millis(at_most),
            cancel: cx.cancel.clone(),
        })
    }

    /// Returns a note on a wait that ended without its event.
    pub(crate) fn words(&self, waited: Waited) -> Option<String> {
        let asked = self.idle_ms.is_some() || self.timeout_ms.is_some();
        match (self.until, waited) {
            (_, Waited::Matched) | (None, Waited::MatchedBefore | Waited::Idle | Waited::Ended) => {
                None
            }
            (Some(pattern), Waited::MatchedBefore) => {
                Some(format!("`{pattern}` matches output that an earlier reply showed"))
            }
            (Some(pattern), Waited::OutOfTime) => {
                Some(format!("timed out: no output matched `{pattern}`"))
            }
            (Some(pattern), Waited::Idle) => {
                Some(format!("no output matched `{pattern}` before it fell silent"))
            }
            (Some(pattern), Waited::Ended) => {
                Some(format!("it ended, and no output matched `{pattern}`"))
            }
            (None, Waited::OutOfTime) => {
                asked.then(|| String::from("still going when the time to wait was over"))
            }
        }
    }
}

/// Returns a regular expression for the lines of an output.
pub(crate) fn line_regex(
    cx: &Context,
    argument: &str,
    pattern: &str,
) -> Result<RegexMatcher, ToolError> {
    let key = RegexKey { pattern: pattern.to_owned(), ignore_case: false, multiline: true };
    regex(cx, key).map_err(|error| {
        let message = error.message.replacen("`pattern`", &format!("`{argument}`"), 1);
        ToolError { message: message.into(), ..error }
    })
}

fn matcher(cx: &Context, argument: &str, pattern: &str) -> Result<Matcher, ToolError> {
    let regex = line_regex(cx, argument, pattern)?;
    Ok(Arc::new(move |bytes: &[u8]| {
        regex.is_match(screen::cleaned(bytes).as_bytes()).unwrap_or(false)
    }))
}

pub(crate) fn for_its_end(at_most: Duration, cancel: &Cancel) -> Wait {
    Wait { until: None, idle: None, at_most, cancel: cancel.clone() }
}

/// Returns the line of a background command.
pub(crate) fn line(one: &Background) -> String {
    format!("{}: {}: {}", one.id, one.state(), one.short_command())
}
