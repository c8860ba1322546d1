//! Stops a search at its own time limit, the caller's, or on cancellation, and reports its progress.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sinew_tool::{Context, Kind, ToolError};

/// The number of calls between two reads of the clock.
const EVERY: u32 = 64;

/// The limits of one search, shared by its threads.
pub(crate) struct Watch<'a> {
    cx: &'a Context,
    until: Instant,
    out_of_time: AtomicBool,
    n_seen: AtomicU64,
    n_bytes: AtomicU64,
}

/// The bytes read between two progress reports.
const STEP: u64 = 1 << 20;

impl<'a> Watch<'a> {
    pub(crate) fn new(cx: &'a Context) -> Self {
        let own = cx.world.clock.now() + Duration::from_millis(cx.settings.search_timeout_ms);
        let until = cx.deadline.map_or(own, |deadline| deadline.min(own));
        Self {
            cx,
            until,
            out_of_time: AtomicBool::new(false),
            n_seen: AtomicU64::new(0),
            n_bytes: AtomicU64::new(0),
        }
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

    /// Returns the same for frequent calls; `count` is the caller's own.
    pub(crate) fn over_sometimes(&self, count: &mut u32) -> bool {
        *count = count.wrapping_add(1);
        if *count % EVERY != 1 {
            return self.cx.cancel.is_cancelled();
        }
        let every = u64::from(EVERY);
        let before = self.n_seen.fetch_add(every, Ordering::Relaxed);
        if 0 < before {
            self.tell();
        }
        self.over()
    }

    /// Counts bytes read: a large file is searched long after its entry was seen.
    pub(crate) fn read(&self, n: usize) {
        let n = n as u64;
        let before = self.n_bytes.fetch_add(n, Ordering::Relaxed);
        if before / STEP < (before + n) / STEP {
            self.tell();
        }
    }

    /// Reports progress, as one number for both kinds of work so that it only grows.
    fn tell(&self) {
        let every = u64::from(EVERY);
        let entries = self.n_seen.load(Ordering::Relaxed).saturating_sub(every);
        let mib = self.n_bytes.load(Ordering::Relaxed) / STEP;
        match mib {
            0 => self.cx.progress.report(entries, "entries looked at"),
            _ => {
                let what = format!("steps: {entries} entries looked at, {mib} MiB read");
                self.cx.progress.report(entries + mib, &what);
            }
        }
    }

    pub(crate) fn out_of_time(&self) -> bool {
        self.out_of_time.load(Ordering::Relaxed)
    }

    /// Fails when the call was cancelled: a partial answer is not needed then.
    pub(crate) fn not_cancelled(&self) -> Result<(), ToolError> {
        match self.cx.cancel.is_cancelled() {
            true => Err(ToolError::new(Kind::Cancelled, "the call was cancelled")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use sinew_testkit::MemoryWorld;
    use sinew_tool::Progress;

    use super::*;

    #[test]
    fn long_searches_say_how_far_they_are() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let listening = Arc::clone(&told);
        let mut cx = MemoryWorld::new().context(Vec::new(), false).expect("a context");
        cx.progress = Progress::to(move |done, what| {
            listening.lock().expect("unpoisoned").push(format!("{done} {what}"));
        });
        let watch = Watch::new(&cx);
        let mut count = 0;
        for _ in 0..200 {
            assert!(!watch.over_sometimes(&mut count));
        }
        assert_eq!(
            *told.lock().expect("unpoisoned"),
            ["64 entries looked at", "128 entries looked at", "192 entries looked at"]
        );
        // Regression: no progress was reported while found files were read.
        told.lock().expect("unpoisoned").clear();
        for _ in 0..40 {
            watch.read(64 * 1024);
        }
        assert_eq!(
            *told.lock().expect("unpoisoned"),
            [
                "193 steps: 192 entries looked at, 1 MiB read",
                "194 steps: 192 entries looked at, 2 MiB read"
            ]
        );
    }
}
