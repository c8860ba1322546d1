//! An intent that waits for the helper thread to write it.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use sinew_tool::Ticket;
use sinew_tool::sync::lock;

use crate::database::Failed;

/// What becomes of an intent, seen from both sides.
#[derive(Debug)]
enum State {
    /// It is not written yet; who waits is woken.
    Due(Option<Waker>),
    /// It is written, or cannot be.
    Settled(Result<(), Failed>),
    /// Nobody waits any more.
    Withdrawn,
}

/// The side of the helper thread.
#[derive(Debug)]
pub(super) struct Promise(Arc<Mutex<State>>);

/// The side of the change: a future that ends once the intent is written. Dropping it withdraws
/// the intent.
#[derive(Debug)]
pub(super) struct Waiting {
    state: Arc<Mutex<State>>,
    ticket: Ticket,
}

/// Returns the two sides of an intent.
pub(super) fn promise(ticket: Ticket) -> (Promise, Waiting) {
    let state = Arc::new(Mutex::new(State::Due(None)));
    (Promise(Arc::clone(&state)), Waiting { state, ticket })
}

impl Promise {
    /// Returns whether nobody waits any more.
    pub(super) fn is_withdrawn(&self) -> bool {
        matches!(*lock(&self.0), State::Withdrawn)
    }

    /// Tells what became of the intent; returns whether somebody still waits for it.
    pub(super) fn settle(&self, result: Result<(), Failed>) -> bool {
        let mut state = lock(&self.0);
        match std::mem::replace(&mut *state, State::Settled(result)) {
            State::Due(waker) => {
                drop(state);
                waker.into_iter().for_each(Waker::wake);
                true
            }
            State::Settled(_) | State::Withdrawn => false,
        }
    }
}

impl Future for Waiting {
    type Output = Result<Ticket, Failed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.state);
        match &*state {
            State::Settled(result) => Poll::Ready(result.clone().map(|()| self.ticket)),
            State::Due(_) | State::Withdrawn => {
                *state = State::Due(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        if let State::Due(_) = *state {
            *state = State::Withdrawn;
        }
    }
}
