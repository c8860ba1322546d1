//! The connection of one session to a server, and how long one that failed is left alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sinew_tool::sync::lock;

use crate::connection::Connection;

/// The most sessions that use one server, each with a process of its own.
pub(crate) const MAX_SESSIONS: usize = 32;

/// How long a server that failed is left alone at first; then half as long again each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause, and how long a connection must last to count as one that works.
pub(crate) const MAX_PAUSE: Duration = Duration::from_secs(30);
/// How often a server may end soon after its start before it is left alone too.
const MAX_SHORT: u32 = 3;

/// The connections of a server, by session.
#[derive(Default)]
pub(crate) struct Links(Mutex<HashMap<String, Used>>);

struct Used {
    link: Arc<tokio::sync::Mutex<Link>>,
    last: Instant,
}

impl Used {
    /// Returns whether no call runs in it and no connection opens. A call enters its connection before another one gets a
    /// link, since all of them are tasks of one thread.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.link) == 1
            && self
                .link
                .try_lock()
                .is_ok_and(|link| link.connection.as_ref().is_none_or(|(open, _)| open.is_idle()))
    }
}

impl Links {
    /// Returns the link of a session. Where too many sessions have one, the idle one that was used longest ago is closed;
    /// `None` where none is idle.
    pub(crate) fn of(&self, session: &str) -> Option<Arc<tokio::sync::Mutex<Link>>> {
        let mut links = lock(&self.0);
        if MAX_SESSIONS <= links.len() && !links.contains_key(session) {
            let idle = links.iter().filter(|(_, used)| used.is_idle());
            let oldest = idle.min_by_key(|(_, used)| used.last)?.0.clone();
            if let Some(Used { link, .. }) = links.remove(&oldest) {
                tokio::spawn(async move {
                    if let Some(connection) = link.lock().await.take() {
                        connection.close().await;
                    }
                });
            }
        }
        let now = Instant::now();
        let new = || Used { link: Arc::default(), last: now };
        let used = links.entry(session.to_owned()).or_insert_with(new);
        used.last = now;
        Some(Arc::clone(&used.link))
    }

    /// Takes all links out, to close them.
    pub(crate) fn take(&self) -> Vec<Arc<tokio::sync::Mutex<Link>>> {
        lock(&self.0).drain().map(|(_, used)| used.link).collect()
    }
}

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

    #[tokio::test]
    async fn the_idle_link_used_longest_ago_gives_way() {
        let links = Links::default();
        let held = links.of("0");
        for n in 1..MAX_SESSIONS {
            assert!(links.of(&n.to_string()).is_some());
        }
        let third = links.of("2");
        assert!(links.of("new").is_some());
        let has = |name: &str| lock(&links.0).contains_key(name);
        assert_eq!([has("0"), has("1"), has("2"), has("new")], [true, false, true, true]);
        drop((held, third));
        let all: Vec<_> = (0..MAX_SESSIONS).map(|n| links.of(&format!("busy{n}"))).collect();
        assert!(all.iter().all(Option::is_some));
        assert!(links.of("one more").is_none(), "all are in use");
    }

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
