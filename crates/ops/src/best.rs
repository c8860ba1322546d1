//! Keeps the least items of many, in a heap of limited size.

use std::collections::BinaryHeap;

/// Keeps the least `limit` items of all that are pushed.
#[derive(Debug)]
pub(crate) struct Best<T> {
    limit: usize,
    heap: BinaryHeap<T>,
}

impl<T: Ord> Best<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, heap: BinaryHeap::new() }
    }

    /// Returns whether a costly item would be kept; `is_before` compares it with a kept one.
    pub(crate) fn wants(&self, is_before: impl FnOnce(&T) -> bool) -> bool {
        self.heap.len() < self.limit || self.heap.peek().is_some_and(is_before)
    }

    pub(crate) fn push(&mut self, item: T) {
        self.heap.push(item);
        if self.limit < self.heap.len() {
            self.heap.pop();
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        other.heap.into_iter().for_each(|item| self.push(item));
    }

    pub(crate) fn into_sorted(self) -> Vec<T> {
        self.heap.into_sorted_vec()
    }
}
