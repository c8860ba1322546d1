//! Small things that tests of several crates need.

use std::sync::atomic::{AtomicBool, Ordering};

/// Returns an access list, as its attribute holds it, that also lets the user 12 read: the version,
/// then tag, rights and id of each entry.
pub fn access_list() -> Vec<u8> {
    let mut list = 2_u32.to_le_bytes().to_vec();
    let none = u32::MAX;
    for (tag, rights, id) in
        [(1_u16, 6_u16, none), (2, 4, 12), (4, 0, none), (16, 4, none), (32, 0, none)]
    {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

/// Raises a flag when it is dropped, also by a panic: the other thread of a test then ends.
#[derive(Debug)]
pub struct OnDrop<'a>(pub &'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
