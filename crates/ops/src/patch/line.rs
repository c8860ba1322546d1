//! Iterates over the lines of a patch; as the position is `Copy`, a reader can look ahead and return.

use memchr::memchr;

/// A place at the beginning of a line. The line's end is searched once, however often it is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines<'p> {
    text: &'p [u8],
    at: usize,
    /// Behind the line feed of this line.
    end: usize,
    number: u64,
}

impl<'p> Lines<'p> {
    pub(super) fn new(text: &'p [u8]) -> Self {
        Self { text, at: 0, end: end_of_line(text, 0), number: 1 }
    }

    /// Returns the number of the line at this place, counted from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the line at this place with its line feed.
    pub(super) fn peek(&self) -> Option<&'p [u8]> {
        self.text.get(self.at..self.end).filter(|line| !line.is_empty())
    }

    /// Returns the text between this place and a later one.
    pub(super) fn until(&self, end: &Self) -> &'p [u8] {
        self.text.get(self.at..end.at).unwrap_or_default()
    }

    /// Returns the lines from here up to a later place, as a text of their own.
    pub(super) fn only_until(&self, end: &Self) -> Self {
        let text = self.text.get(..end.at).unwrap_or(self.text);
        Self { text, end: self.end.min(text.len()), ..*self }
    }
}

impl<'p> Iterator for Lines<'p> {
    type Item = &'p [u8];

    fn next(&mut self) -> Option<&'p [u8]> {
        let line = self.peek()?;
        self.at = self.end;
        self.end = end_of_line(self.text, self.at);
        self.number += 1;
        Some(line)
    }
}

/// Returns where the line ends that begins at a place, its line feed included.
fn end_of_line(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    memchr(b'\n', rest).map_or(text.len(), |end| at + end + 1)
}

/// Returns a line without its ending.
pub(super) fn bare(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
