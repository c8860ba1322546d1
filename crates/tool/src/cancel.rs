//! Cancellation of calls.

use crate::sync::lock;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// A cancel flag that work checks between steps.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    raised: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Cancel {
    /// Raises the flag and wakes all waiters.
    pub fn cancel(&self) {
        self.0.raised.store(true, Ordering::Release);
        let wakers = std::mem::take(&mut *lock(&self.0.wakers));
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Returns whether the flag was raised.
    pub fn is_cancelled(&self) -> bool {
        self.0.raised.load(Ordering::Acquire)
    }

    /// Returns the atomic flag, for loops without this type.
    pub fn flag(&self) -> &AtomicBool {
        &self.0.raised
    }

    /// Waits until the flag is raised.
    pub fn cancelled(&self) -> CancelWait {
        CancelWait(self.clone())
    }
}

/// The future of [`Cancel::cancelled`].
#[derive(Debug)]
pub struct CancelWait(Cancel);

impl Future for CancelWait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let inner = &self.0.0;
        let mut wakers = lock(&inner.wakers);
        if inner.raised.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}
