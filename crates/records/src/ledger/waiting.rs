//! An intent that waits for the helper thread, as promise and future.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use sinew_tool::Ticket;
use sinew_tool::sync::lock;

use crate::database::Failed;

/// The state that both sides share.
#[derive(Debug)]
enum State {
    /// Not written yet; the waker wakes the change.
    Due(Option<Waker>),
    /// Written, or failed.
    Settled(Result<(), Failed>),
    /// The change no longer waits.
    Withdrawn,
}

/// The side of the helper thread.
#[derive(Debug)]
pub(super) struct Promise(Arc<Mutex<State>>);

/// The side of the change: a future for the written intent. Dropping it withdraws the intent.
#[derive(Debug)]
pub(super) struct Waiting {
    state: Arc<Mutex<State>>,
    ticket: Ticket,
}

/// Returns both sides of an intent.
pub(super) fn promise(ticket: Ticket) -> (Promise, Waiting) {
    let state = Arc::new(Mutex::new(State::Due(None)));
    (Promise(Arc::clone(&state)), Waiting { state, ticket })
}

impl Promise {
    /// Returns whether the change no longer waits.
    pub(super) fn is_withdrawn(&self) -> bool {
        matches!(*lock(&self.0), State::Withdrawn)
    }

    /// Completes the future; returns whether the change still waits.
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
