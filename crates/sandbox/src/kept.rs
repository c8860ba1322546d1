//! Keeps the start and the end of an output of any length in memory.

use std::collections::VecDeque;

/// The start and the end of a byte stream, and its length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    max_head: usize,
    max_tail: usize,
    total: u64,
}

impl Kept {
    pub(super) fn new(max_head: usize, max_tail: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), max_head, max_tail, total: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.max_head - self.head.len();
        let (to_head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(to_head);
        let newest = rest.get(rest.len().saturating_sub(self.max_tail)..).unwrap_or_default();
        let excess = (self.tail.len() + newest.len()).saturating_sub(self.max_tail);
        self.tail.drain(..excess.min(self.tail.len()));
        self.tail.extend(newest);
    }

    /// Returns the kept start and end.
    pub(super) fn kept(&self) -> (&[u8], Vec<u8>) {
        (&self.head, self.tail.iter().copied().collect())
    }

    /// Returns the start, the end, and the length of the whole.
    pub(super) fn into_parts(self) -> (Vec<u8>, Vec<u8>, u64) {
        (self.head, self.tail.into(), self.total)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn beginning_and_end_are_those_of_the_whole(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..12),
            max_head in 0_usize..12,
            max_tail in 0_usize..12,
        ) {
            let whole = pieces.concat();
            let mut kept = Kept::new(max_head, max_tail);
            pieces.iter().for_each(|piece| kept.push(piece));
            let n_head = max_head.min(whole.len());
            let n_tail = max_tail.min(whole.len() - n_head);
            let (head, tail, total) = kept.into_parts();
            prop_assert_eq!(head, &whole[..n_head]);
            prop_assert_eq!(tail, &whole[whole.len() - n_tail..]);
            prop_assert_eq!(total, whole.len() as u64);
        }
    }
}
