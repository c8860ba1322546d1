//! Retries with exponential back-off and jitter.

use std::time::Duration;

use crate::model::ModelError;

/// The most attempts of one request.
pub(crate) const MAX_ATTEMPTS: u32 = 5;
/// The first pause; each further one doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause, also where the provider asks for a longer one: then the error is returned instead.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Returns the pause after this failed attempt (the first is 1), or `None` where no retry may succeed.
pub(crate) fn pause_after(attempt: u32, error: &ModelError) -> Option<Duration> {
    if MAX_ATTEMPTS <= attempt || !error.kind.is_transient() {
        return None;
    }
    match error.retry_after {
        Some(asked) if MAX_PAUSE < asked => None,
        Some(asked) => Some(asked),
        None => {
            let pause = FIRST_PAUSE * 2_u32.saturating_pow(attempt.saturating_sub(1));
            Some(pause.min(MAX_PAUSE).mul_f64(jitter()))
        }
    }
}

/// Returns a factor from 0.75 to 1.25, so that clients that failed together do not return together.
fn jitter() -> f64 {
    let mut random = [0];
    let _ = getrandom::fill(&mut random);
    let [random] = random;
    0.75 + f64::from(random) / f64::from(u8::MAX) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelErrorKind as Kind;

    #[test]
    fn pause_grows_until_attempts_are_over() {
        let error = ModelError::new(Kind::Overloaded, "");
        for (attempt, seconds) in [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0)] {
            let pause = pause_after(attempt, &error).expect("a pause").as_secs_f64();
            assert!((0.75 * seconds..=1.25 * seconds).contains(&pause), "{attempt}: {pause}");
        }
        assert_eq!(pause_after(5, &error), None);
    }

    #[test]
    fn providers_pause_is_kept_within_a_minute() {
        for (kind, asked, expected) in [
            (Kind::RateLimited, Some(7), Some(7)),
            (Kind::RateLimited, Some(0), Some(0)),
            (Kind::RateLimited, Some(61), None),
            (Kind::Auth, Some(1), None),
            (Kind::Invalid, None, None),
        ] {
            let retry_after = asked.map(Duration::from_secs);
            let error = ModelError { retry_after, ..ModelError::new(kind, "") };
            assert_eq!(pause_after(1, &error), expected.map(Duration::from_secs), "{kind}");
        }
    }
}
