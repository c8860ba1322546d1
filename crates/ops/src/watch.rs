//! When a search stops: its own limit of time, the caller's, or the caller's word.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sinew_tool::{Context, Kind, ToolError};

/// How many looks go by between two looks at the clock.
const EVERY: u32 = 64;

/// The limits of one search, shared by its threads.
pub(crate) struct Watch<'a> {
    cx: &'a Context,
    until: Instant,
    out_of_time: AtomicBool,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(cx: &'a Context) -> Self {
        let own = cx.world.clock.now() + Duration::from_millis(cx.settings.search_timeout_ms);
        let until = cx.deadline.map_or(own, |deadline| deadline.min(own));
        Self { cx, until, out_of_time: AtomicBool::new(false) }
    }

    /// Returns whether the search must stop.
    pub(crate) fn over(&self) -> bool {
        if self.cx.cancel.is_cancelled() || self.out_of_time() {
            return true;
        }
        let late = self.until <= self.cx.world.clock.now();
        if late {
            self.out_of_time.store(true, Ordering::Relaxed);
        }
        late
    }

    /// Returns the same for frequent questions; `count` is the asker's own.
    pub(crate) fn over_sometimes(&self, count: &mut u32) -> bool {
        *count += 1;
        (*count % EVERY == 1 && self.over()) || self.cx.cancel.is_cancelled()
    }

    /// Returns whether the time ran out.
    pub(crate) fn out_of_time(&self) -> bool {
        self.out_of_time.load(Ordering::Relaxed)
    }

    /// Fails when the caller took the call back: then nobody wants a part of the answer.
    pub(crate) fn not_cancelled(&self) -> Result<(), ToolError> {
        match self.cx.cancel.is_cancelled() {
            true => Err(ToolError::new(Kind::Cancelled, "the call was cancelled")),
            false => Ok(()),
        }
    }
}
