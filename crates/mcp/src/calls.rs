//! The running calls of a process, so that it can cancel them together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::{Either, pending, ready};
use sinew_tool::sync::lock;
use sinew_tool::{Cancel, Reply};

/// The running calls of one process.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    next: u64,
    running: HashMap<u64, Cancel>,
    closed: bool,
    /// Runs before the first call starts.
    first: Option<Box<dyn FnOnce(Calls) + Send>>,
}

/// The poll interval for the end of calls.
const STEP: Duration = Duration::from_millis(2);

impl Calls {
    /// Returns calls with a callback before the first one starts.
    pub fn with_first(first: impl FnOnce(Self) + Send + 'static) -> Self {
        let state = State { first: Some(Box::new(first)), ..State::default() };
        Self(Arc::new(Mutex::new(state)))
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Runs a call as one of these. After [`Calls::close`] the future never completes: the process is ending.
    pub fn run<F: Future<Output = Reply> + Send>(
        &self,
        cancel: Cancel,
        call: F,
    ) -> impl Future<Output = Reply> + Send + use<F> {
        // No async block: it would hold the call twice, and every call is moved.
        match self.enter(cancel) {
            Some(entered) => Either::Left(call.then(|reply| match entered.leave() {
                true => Either::Left(pending()),
                false => Either::Right(ready(reply)),
            })),
            None => Either::Right(pending()),
        }
    }

    fn enter(&self, cancel: Cancel) -> Option<Entered> {
        let mut state = self.locked();
        if let Some(first) = state.first.take() {
            drop(state);
            first(self.clone());
            state = self.locked();
        }
        if state.closed {
            return None;
        }
        state.next += 1;
        let n = state.next;
        state.running.insert(n, cancel);
        Some(Entered { calls: self.clone(), n })
    }

    pub fn is_busy(&self) -> bool {
        !self.locked().running.is_empty()
    }

    /// Cancels all calls and waits for their end, and so for their records, at most for `patience`.
    pub fn cancel_all(&self, patience: Duration) {
        self.locked().running.values().for_each(Cancel::cancel);
        let until = Instant::now() + patience;
        while self.is_busy() && Instant::now() < until {
            std::thread::sleep(STEP);
        }
    }

    /// Takes every call back for good: none starts after this.
    pub fn close(&self, patience: Duration) {
        self.locked().closed = true;
        self.cancel_all(patience);
    }
}

/// Removes a call when it ends or its future is dropped.
struct Entered {
    calls: Calls,
    n: u64,
}

impl Entered {
    /// Strikes the call off and returns whether the calls are closed.
    fn leave(self) -> bool {
        let calls = self.calls.clone();
        drop(self);
        calls.locked().closed
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.calls.locked().running.remove(&self.n);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll(call: impl Future<Output = Reply>) -> bool {
        let call = std::pin::pin!(call);
        matches!(call.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(_))
    }

    #[test]
    fn the_first_call_is_told_once() {
        let n = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&n);
        let calls = Calls::with_first(move |_| {
            seen.fetch_add(1, Ordering::Relaxed);
        });
        for _ in 0..3 {
            assert!(poll(calls.run(Cancel::default(), std::future::ready(Reply::text("x")))));
        }
        assert_eq!(n.load(Ordering::Relaxed), 1);
        assert!(!calls.is_busy());
    }

    #[test]
    fn call_is_held_once() {
        let call = std::future::ready(Reply::text("x"));
        let size = size_of_val(&call);
        let run = Calls::default().run(Cancel::default(), call);
        assert!(size_of_val(&run) < 2 * size, "{} of {size} bytes", size_of_val(&run));
    }

    #[test]
    fn closing_takes_back_what_runs_and_lets_nothing_start() {
        let calls = Calls::default();
        let cancel = Cancel::default();
        let running = calls.run(cancel.clone(), std::future::pending());
        assert!(calls.is_busy());
        calls.close(Duration::ZERO);
        assert!(cancel.is_cancelled());
        let late = async { panic!("it starts") };
        assert!(!poll(calls.run(Cancel::default(), late)), "nothing starts");
        drop(running);
        assert!(!calls.is_busy(), "a call whose future is dropped has ended");
    }
}
