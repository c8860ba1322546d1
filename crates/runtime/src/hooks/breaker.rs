//! What keeps a program that fails time and again from being started: it rests after so many failures
//! in a row, and one success makes good for all of them.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Counts the failures of one hook.
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

    /// Returns how long the hook still rests.
    pub(super) fn rests(&self, now: Instant) -> Option<Duration> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let left = state.rests_until?.checked_duration_since(now)?;
        (!left.is_zero()).then_some(left)
    }

    /// Takes in how a run ended. After a rest one more failure is enough for the next.
    pub(super) fn ended(&self, is_failure: bool, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_failure {
            *state = State::default();
            return;
        }
        state.n_failures = state.n_failures.saturating_add(1);
        if self.max_failures <= state.n_failures {
            state.rests_until = Some(now + self.rest);
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
        let rests = |s: u64| breaker.rests(at(s)).map(|left| left.as_secs());
        for (second, is_failure, expected) in [
            (0, true, None),
            (1, true, None),
            // A success makes good.
            (2, false, None),
            (3, true, None),
            (4, true, None),
            (5, true, Some(60)),
            // It rested, and failed again at once.
            (70, true, Some(60)),
            (140, false, None),
            (141, true, None),
        ] {
            breaker.ended(is_failure, at(second));
            assert_eq!(rests(second), expected, "{second}");
        }
        let breaker = Breaker::new(1, Duration::from_secs(60));
        breaker.ended(true, at(0));
        assert_eq!(breaker.rests(at(59)).map(|left| left.as_secs()), Some(1));
        assert_eq!(breaker.rests(at(60)), None);
    }
}
