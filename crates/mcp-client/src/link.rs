//! The connection of one session to a server, and how long one that failed is left alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::connection::Connection;

/// How long a server that failed is left alone at first; then half as long again each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause, and how long a connection must last to count as one that works.
pub(crate) const MAX_PAUSE: Duration = Duration::from_secs(30);
/// How often a server may end soon after its start before it is left alone too.
const MAX_SHORT: u32 = 3;

/// The connection of one session to a server.
#[derive(Default)]
pub(crate) struct Link {
    connection: Option<(Arc<Connection>, Instant)>,
    n_failures: u32,
    /// How many connections in a row ended soon.
    n_short: u32,
    /// Until when it is left alone, and why.
    resting: Option<(Instant, String)>,
}

impl Link {
    /// Returns the connection, if the server can still be called. One that ended is closed.
    pub(crate) async fn open(&mut self) -> Option<Arc<Connection>> {
        let (connection, _) = self.connection.as_ref()?;
        if connection.is_open() {
            return Some(Arc::clone(connection));
        }
        let (connection, since) = self.connection.take()?;
        connection.close().await;
        self.ended_after(since.elapsed());
        None
    }

    fn ended_after(&mut self, lived: Duration) {
        self.n_short = if lived < MAX_PAUSE { self.n_short + 1 } else { 0 };
        if MAX_SHORT < self.n_short {
            self.rest(format!("it ended {} times soon after its start", self.n_short));
        }
    }

    /// Returns how long the server is still left alone, and why.
    pub(crate) fn resting(&self) -> Option<(Duration, &str)> {
        let (until, why) = self.resting.as_ref()?;
        Some((until.checked_duration_since(Instant::now())?, why))
    }

    /// Takes a connection that was opened.
    pub(crate) fn opened(&mut self, connection: Arc<Connection>) {
        self.connection = Some((connection, Instant::now()));
        self.resting = None;
        if self.n_short == 0 {
            self.n_failures = 0;
        }
    }

    /// Takes the connection out, to close it.
    pub(crate) fn take(&mut self) -> Option<Arc<Connection>> {
        self.connection.take().map(|(connection, _)| connection)
    }

    /// Leaves a server that failed alone for a while.
    pub(crate) fn rest(&mut self, why: String) {
        let pause = FIRST_PAUSE.mul_f64(1.5_f64.powi(self.n_failures.min(30).cast_signed()));
        self.n_failures += 1;
        self.resting = Some((Instant::now() + pause.min(MAX_PAUSE), why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_ends_again_and_again_is_left_alone() {
        let mut link = Link::default();
        for n in 1..=5 {
            link.ended_after(Duration::from_secs(1));
            assert_eq!(link.resting().is_some(), MAX_SHORT < n, "after {n}");
        }
        assert!(link.resting().is_some_and(|(left, _)| Duration::from_secs(1) < left));
        let mut link = Link::default();
        for lived in [1, 1, 1, 40, 1, 1, 1] {
            link.ended_after(Duration::from_secs(lived));
        }
        assert_eq!(link.resting(), None, "one that lasted starts anew");
    }
}
