//! The calls that run, so that all of them can be taken back together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use sinew_tool::sync::lock;
use sinew_tool::{Cancel, Reply};

/// The calls of one process that were started and did not end yet.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    next: u64,
    running: HashMap<u64, Cancel>,
    closed: bool,
    /// Run before the first call starts.
    first: Option<Box<dyn FnOnce(Calls) + Send>>,
}

/// How often is looked whether the calls have ended.
const STEP: Duration = Duration::from_millis(2);

impl Calls {
    /// Returns calls that tell somebody before the first of them starts.
    pub fn with_first(first: impl FnOnce(Self) + Send + 'static) -> Self {
        let state = State { first: Some(Box::new(first)), ..State::default() };
        Self(Arc::new(Mutex::new(state)))
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Makes a call one of these. Once they are closed nothing starts and nothing is answered any
    /// more: the process is ending, and the future waits for that.
    pub fn run<F: Future<Output = Reply> + Send>(
        &self,
        cancel: Cancel,
        call: F,
    ) -> impl Future<Output = Reply> + Send + use<F> {
        let entered = self.enter(cancel);
        async move {
            if let Some(entered) = entered {
                let reply = call.await;
                if !entered.leave() {
                    return reply;
                }
            }
            std::future::pending().await
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

    /// Returns whether a call runs.
    pub fn is_busy(&self) -> bool {
        !self.locked().running.is_empty()
    }

    /// Takes every call back and waits until they have ended, which their records then say; not
    /// longer than `patience`.
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

/// Strikes a call off when it ends, also when nobody waits for it any more.
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
