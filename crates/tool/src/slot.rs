//! How an operation names what its call may reach.

/// The index of a target in the World of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot(pub usize);
