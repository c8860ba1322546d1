//! The lines of a patch, as a place in its text.
//!
//! A place is small and can be copied, so that whoever reads may look ahead and come back.

use memchr::memchr;

/// A place in a text, at the beginning of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines<'p> {
    text: &'p [u8],
    at: usize,
    number: u64,
}

impl<'p> Lines<'p> {
    pub(super) fn new(text: &'p [u8]) -> Self {
        Self { text, at: 0, number: 1 }
    }

    /// Returns the number of the line at this place, counted from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the line at this place with its line feed.
    pub(super) fn peek(&self) -> Option<&'p [u8]> {
        let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
        let end = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        rest.get(..end)
    }

    /// Returns the text between this place and a later one.
    pub(super) fn until(&self, end: &Self) -> &'p [u8] {
        self.text.get(self.at..end.at).unwrap_or_default()
    }

    /// Returns the lines from here up to a later place, as a text of their own.
    pub(super) fn only_until(&self, end: &Self) -> Self {
        Self { text: self.text.get(..end.at).unwrap_or(self.text), ..*self }
    }
}

impl<'p> Iterator for Lines<'p> {
    type Item = &'p [u8];

    fn next(&mut self) -> Option<&'p [u8]> {
        let line = self.peek()?;
        self.at += line.len();
        self.number += 1;
        Some(line)
    }
}

/// Returns a line without its ending.
pub(super) fn bare(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
