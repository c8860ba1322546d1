//! The first so many of many, without holding more than those.

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

    /// Returns whether an item would be kept; `is_before` compares it with one that is kept. For
    /// items that are costly to make.
    pub(crate) fn wants(&self, is_before: impl FnOnce(&T) -> bool) -> bool {
        self.heap.len() < self.limit || self.heap.peek().is_some_and(is_before)
    }

    pub(crate) fn push(&mut self, item: T) {
        self.heap.push(item);
        if self.limit < self.heap.len() {
            self.heap.pop();
        }
    }

    /// Takes over what another one kept.
    pub(crate) fn merge(&mut self, other: Self) {
        other.heap.into_iter().for_each(|item| self.push(item));
    }

    /// Returns what was kept, in order.
    pub(crate) fn into_sorted(self) -> Vec<T> {
        self.heap.into_sorted_vec()
    }
}
