//! Circuit breaker of hook programs: consecutive failures pause a hook, one success resets the count.

use sinew_tool::sync::lock;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Breaker {
    max_failures: u32,
    rest: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    n_failures: u32,
    rests_until: Option<Instant>,
}

impl Breaker {
    pub(super) fn new(max_failures: u32, rest: Duration) -> Self {
        Self { max_failures, rest, state: Mutex::default() }
    }

    /// Lets the hook run, or returns the rest of its pause. After a pause one run at a time tests it;
    /// others find it paused until a run succeeds.
    pub(super) fn enter(&self, now: Instant) -> Result<Entered<'_>, Duration> {
        let mut state = self.state();
        let left =
            |until: Instant| until.checked_duration_since(now).filter(|left| !left.is_zero());
        if let Some(left) = state.rests_until.and_then(left) {
            return Err(left);
        }
        let rested = state.rests_until;
        if rested.is_some() {
            state.rests_until = Some(now + self.rest);
        }
        Ok(Entered { breaker: self, rested })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// A run of the hook. Dropped without [`Entered::ended`], it does not count.
pub(super) struct Entered<'b> {
    breaker: &'b Breaker,
    /// The end of the previous pause, if any.
    rested: Option<Instant>,
}

impl Entered<'_> {
    /// Records how the run ended. After a pause one failure starts the next pause.
    pub(super) fn ended(mut self, is_failure: bool, now: Instant) {
        self.rested = None;
        let mut state = self.breaker.state();
        if !is_failure {
            *state = State::default();
            return;
        }
        state.n_failures = state.n_failures.saturating_add(1);
        if self.breaker.max_failures <= state.n_failures {
            state.rests_until = Some(now + self.breaker.rest);
        }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Some(rested) = self.rested {
            self.breaker.state().rests_until = Some(rested);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_lead_to_a_rest() {
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        let breaker = Breaker::new(3, Duration::from_secs(60));
        let rests = |s: u64| breaker.enter(at(s)).err().map(|left| left.as_secs());
        for (second, is_failure, expected) in [
            (0, true, None),
            (1, true, None),
            (2, false, None),
            (3, true, None),
            (4, true, None),
            (5, true, Some(60)),
            // The first failure after a pause starts the next one.
            (70, true, Some(60)),
            (140, false, None),
            (141, true, None),
        ] {
            breaker.enter(at(second)).expect("it runs").ended(is_failure, at(second));
            assert_eq!(rests(second), expected, "{second}");
        }
        let breaker = Breaker::new(1, Duration::from_secs(60));
        let enter = |s: u64| breaker.enter(at(s)).map_err(|left| left.as_secs());
        enter(0).expect("it runs").ended(true, at(0));
        assert_eq!(enter(59).err(), Some(1));
        // Concurrent callers after a pause.
        let first = enter(60);
        assert!(first.is_ok());
        assert_eq!(enter(60).err(), Some(60));
        // An abandoned run does not count.
        drop(first);
        assert!(enter(61).is_ok());
    }
}
