//! How much a process added to the store lately: its checkpoints stay for so long, so they take the room of later ones.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Usage;

/// Usage that was added within this time counts as added at once.
const STEP: Duration = Duration::from_secs(10 * 60);

/// What a process added, by time.
#[derive(Debug, Default)]
pub(super) struct HeldUsage(VecDeque<(Instant, Usage)>);

impl HeldUsage {
    /// Adds checkpoints and contents.
    pub(super) fn add(&mut self, added: Usage) {
        self.add_at(Instant::now(), added);
    }

    /// Returns the usage that was added within this time.
    pub(super) fn sum(&mut self, holds_for: Duration) -> Usage {
        self.sum_at(Instant::now(), holds_for)
    }

    fn add_at(&mut self, now: Instant, added: Usage) {
        match self.0.back_mut() {
            Some((since, usage)) if now.saturating_duration_since(*since) < STEP => {
                usage.n_checkpoints += added.n_checkpoints;
                usage.n_bytes += added.n_bytes;
            }
            _ => self.0.push_back((now, added)),
        }
    }

    fn sum_at(&mut self, now: Instant, holds_for: Duration) -> Usage {
        let is_over = |since: &Instant| holds_for + STEP <= now.saturating_duration_since(*since);
        while self.0.front().is_some_and(|(since, _)| is_over(since)) {
            self.0.pop_front();
        }
        self.0.iter().fold(Usage::default(), |sum, (_, usage)| Usage {
            n_checkpoints: sum.n_checkpoints + usage.n_checkpoints,
            n_bytes: sum.n_bytes + usage.n_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_counts_for_its_time() {
        let (start, hour) = (Instant::now(), Duration::from_secs(60 * 60));
        let mut held = HeldUsage::default();
        let mut check = |minutes: u64, n_bytes: u64, expected: u64| {
            let now = start + Duration::from_secs(60 * minutes);
            held.add_at(now, Usage { n_checkpoints: 1, n_bytes });
            assert_eq!(held.sum_at(now, hour).n_bytes, expected, "after {minutes} minutes");
            assert!(held.0.len() <= 8, "{held:?}");
        };
        check(0, 100, 100);
        check(5, 10, 110);
        check(30, 1, 111);
        check(69, 1, 112);
        // The first two count until ten minutes after the first one's hour.
        check(70, 0, 2);
        check(200, 5, 5);
    }
}
