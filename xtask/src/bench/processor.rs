//! Where the processes of a measurement run.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// As long as this lives, this thread and what it starts run on one processor.
///
/// A client and a server that call each other answer in 20 us on one processor and in 80 us on two that
/// fall asleep in between, and which of these it is the scheduler decides anew whenever a third thread runs.
/// On one processor a figure tells the work, that of every other thread of the server included.
pub(super) struct OneProcessor(CpuSet);

impl OneProcessor {
    /// Stays on the last processor that may be used.
    pub(super) fn hold() -> Result<Self> {
        let before = sched_getaffinity(None)?;
        let mut all = (0..CpuSet::MAX_CPU).rev();
        let last = all.find(|at| before.is_set(*at)).context("no processor may be used")?;
        let mut one = CpuSet::new();
        one.set(last);
        sched_setaffinity(None, &one)?;
        Ok(Self(before))
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        // Where this fails the rest is measured on one processor, and the figures show it.
        let _ = sched_setaffinity(None, &self.0);
    }
}
