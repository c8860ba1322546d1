//! Work-stealing queues: each thread takes its newest work, else the oldest of another thread.

use sinew_tool::sync::lock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// The longest sleep before a thread checks whether to stop.
const NAP: Duration = Duration::from_millis(5);

/// The queues of all threads.
pub(super) struct Queues<T> {
    queues: Vec<Mutex<VecDeque<T>>>,
    /// Work that is queued or in progress.
    n_open: AtomicUsize,
    /// Threads that wait for work.
    n_idle: AtomicUsize,
    ended: AtomicBool,
    bed: Mutex<()>,
    bell: Condvar,
}

impl<T> Queues<T> {
    pub(super) fn new(n_threads: usize) -> Self {
        Self {
            queues: (0..n_threads.max(1)).map(|_| Mutex::default()).collect(),
            n_open: AtomicUsize::new(0),
            n_idle: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            bed: Mutex::new(()),
            bell: Condvar::new(),
        }
    }

    /// Adds work to the queue of a thread.
    pub(super) fn push(&self, at: usize, work: T) {
        let Some(queue) = self.queues.get(at) else { return };
        self.n_open.fetch_add(1, Ordering::Relaxed);
        lock(queue).push_back(work);
        if self.is_hungry() {
            drop(lock(&self.bed));
            self.bell.notify_one();
        }
    }

    /// Waits for work; `None` if none is left or the walk ended early.
    pub(super) fn next(&self, at: usize, stop: &AtomicBool) -> Option<T> {
        loop {
            if stop.load(Ordering::Relaxed) && self.n_open.load(Ordering::Acquire) != 0 {
                self.end();
            }
            if self.is_ended() {
                return None;
            }
            if let Some(work) = self.take(at) {
                return Some(work);
            }
            let bed = lock(&self.bed);
            self.n_idle.fetch_add(1, Ordering::SeqCst);
            let nothing = self.queues.iter().all(|queue| lock(queue).is_empty());
            let finished = self.n_open.load(Ordering::Acquire) == 0;
            if nothing && !finished {
                drop(self.bell.wait_timeout(bed, NAP));
            } else {
                drop(bed);
            }
            self.n_idle.fetch_sub(1, Ordering::SeqCst);
            if finished {
                return None;
            }
        }
    }

    /// Takes the newest work of a thread, else the oldest of another.
    fn take(&self, at: usize) -> Option<T> {
        let own = self.queues.get(at).and_then(|queue| lock(queue).pop_back());
        own.or_else(|| {
            let others = (1..self.queues.len()).map(|step| (at + step) % self.queues.len());
            others.filter_map(|at| self.queues.get(at)).find_map(|queue| lock(queue).pop_front())
        })
    }

    /// Marks a piece of work as done.
    pub(super) fn done(&self) {
        if self.n_open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.wake_all();
        }
    }

    /// Ends the walk early.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.wake_all();
    }

    /// Returns whether the walk ended early.
    pub(super) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Returns whether a thread waits for work.
    pub(super) fn is_hungry(&self) -> bool {
        self.n_idle.load(Ordering::SeqCst) != 0
    }

    fn wake_all(&self) {
        drop(lock(&self.bed));
        self.bell.notify_all();
    }
}
