//! A window of lines of a file, as a model sees it.
//!
//! Lines end at LF; a CR before it belongs to the ending. Text is decoded as lossy UTF-8, a leading byte
//! order mark is hidden, and a line that is too long is cut without being held whole. Each line keeps its
//! ending, for dialects that show the content unchanged.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};

/// How a line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It is the last line and nothing follows it.
    None,
    /// A line feed.
    Lf,
    /// A carriage return and a line feed.
    CrLf,
}

impl Ending {
    /// Returns the characters of the ending.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Lf => "\n",
            Self::CrLf => "\r\n",
        }
    }
}

/// One line of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowLine<'a> {
    /// Its number, counted from 1.
    pub number: u64,
    /// The shown text, without its ending.
    pub text: &'a str,
    /// How many of its characters are not shown.
    pub cut_chars: u64,
    /// How it ends.
    pub ending: Ending,
}

/// A window of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineWindow {
    /// The number of the first requested line.
    pub start_line: u64,
    /// How many lines are shown.
    pub rendered_lines: u64,
    /// How many lines the file has, where that is known.
    pub total_lines: Option<u64>,
    /// Whether lines follow that are not shown.
    pub truncated: bool,
    /// The line to continue from, where lines follow.
    pub next_offset: Option<u64>,
    /// The size of the file in bytes, as stat returns it.
    pub bytes: u64,
    /// The number of identical reads in a row, where reads are recorded; else 1.
    pub n_times: u32,
    /// Whether the last byte of the file ends a line, where it was read.
    pub ends_line: Option<bool>,
    text: String,
    spans: Vec<Span>,
}

/// Where a line ends in the text of a window; it begins where the line before ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    end: usize,
    cut_chars: u64,
    ending: Ending,
}

impl LineWindow {
    /// Returns whether characters of a line are not shown.
    pub fn cuts_lines(&self) -> bool {
        self.spans.iter().any(|span| 0 < span.cut_chars)
    }

    /// Returns the lines in order.
    pub fn lines(&self) -> impl Iterator<Item = WindowLine<'_>> {
        let mut start = 0;
        self.spans.iter().zip(self.start_line..).map(move |(span, number)| {
            let text = self.text.get(start..span.end).unwrap_or_default();
            start = span.end;
            WindowLine { number, text, cut_chars: span.cut_chars, ending: span.ending }
        })
    }

    /// Returns lines with numbers right-aligned to 6 columns; `cut` words the note for hidden characters.
    pub fn numbered(&self, separator: &str, cut: fn(u64) -> String) -> String {
        let per_line = 8 + separator.len();
        let mut out = String::with_capacity(self.text.len() + self.spans.len() * per_line + 128);
        for line in self.lines() {
            push_number(&mut out, line.number);
            out.push_str(separator);
            out.push_str(line.text);
            if 0 < line.cut_chars {
                out.push_str(&cut(line.cut_chars));
            }
            out.push('\n');
        }
        out
    }

    /// Returns the lines as they are in the file, endings included, as far as they are shown.
    pub fn plain(&self) -> String {
        let mut out = String::with_capacity(self.text.len() + self.spans.len() * 2);
        for line in self.lines() {
            out.push_str(line.text);
            out.push_str(line.ending.as_str());
        }
        out
    }
}

/// Appends a number, right-aligned to 6 columns.
fn push_number(out: &mut String, number: u64) {
    let mut digits = [b' '; 20];
    let mut rest = number;
    let mut width = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        width += 1;
        if rest == 0 {
            break;
        }
    }
    let shown = digits.get(20 - usize::max(width, 6)..).unwrap_or_default();
    out.push_str(std::str::from_utf8(shown).unwrap_or_default());
}

/// The limits of a window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowLimits {
    pub(crate) max_lines: u64,
    /// The most bytes, numbers included. Only whole lines are shown, but always one.
    pub(crate) max_bytes: usize,
    /// The most characters of a line.
    pub(crate) max_chars: Option<usize>,
}

/// Gathers the lines of a window from the blocks of a file.
pub(crate) struct Collector {
    limits: WindowLimits,
    start_line: u64,
    text: String,
    spans: Vec<Span>,
    /// The beginning of a line whose end was not seen yet.
    pending: Vec<u8>,
    /// The number of characters of that line not kept.
    dropped_chars: u64,
    /// The last byte of that line.
    last_byte: u8,
    used: usize,
    full: bool,
    more: bool,
    nul: bool,
    broken: bool,
}

impl Collector {
    pub(crate) fn new(start_line: u64, limits: WindowLimits) -> Self {
        Self {
            limits,
            start_line,
            text: String::new(),
            spans: Vec::new(),
            pending: Vec::new(),
            dropped_chars: 0,
            last_byte: 0,
            used: 0,
            full: limits.max_lines == 0,
            more: false,
            nul: false,
            broken: false,
        }
    }

    /// Reserves memory for a file of this size, so that no growth copies it.
    pub(crate) fn with_room(mut self, size: u64) -> Self {
        let bytes = usize::try_from(size).unwrap_or(usize::MAX).min(self.limits.max_bytes);
        self.text.reserve(bytes);
        let lines = usize::try_from(self.limits.max_lines).unwrap_or(usize::MAX);
        self.spans.reserve(lines.min(bytes / 32));
        self
    }

    /// Takes the next bytes of the file.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.full {
                self.more = true;
                return;
            }
            let Some(at) = memchr(b'\n', bytes) else {
                self.hold(bytes);
                return;
            };
            let (line, rest) = bytes.split_at(at);
            if self.pending.is_empty() {
                self.push(line, 0, Ending::Lf);
            } else {
                self.hold(line);
                self.flush(Ending::Lf);
            }
            bytes = rest.get(1..).unwrap_or_default();
        }
    }

    /// Takes the end of the file.
    pub(crate) fn finish(&mut self) {
        if !self.pending.is_empty() {
            self.flush(Ending::None);
        }
    }

    /// Returns whether nothing more is taken and it is known whether lines follow.
    pub(crate) fn settled(&self) -> bool {
        self.full && self.more
    }

    /// Returns whether the shown lines hold a NUL.
    pub(crate) fn nul(&self) -> bool {
        self.nul
    }

    /// Returns whether the shown lines hold invalid UTF-8.
    pub(crate) fn broken(&self) -> bool {
        self.broken
    }

    /// Returns the window. `ended` says whether the file ended before the window was full.
    pub(crate) fn into_text(self, total_lines: Option<u64>, ended: bool, bytes: u64) -> LineWindow {
        let rendered_lines = self.spans.len() as u64;
        let next = self.start_line + rendered_lines;
        let known = (ended && !self.more && 0 < rendered_lines).then(|| next - 1);
        LineWindow {
            start_line: self.start_line,
            rendered_lines,
            total_lines: total_lines.or(known),
            truncated: self.more,
            next_offset: self.more.then_some(next),
            bytes,
            n_times: 1,
            ends_line: None,
            text: self.text,
            spans: self.spans,
        }
    }

    /// Keeps the beginning of a line and counts the rest of it.
    fn hold(&mut self, bytes: &[u8]) {
        let keep = self.limits.max_chars.map_or(self.limits.max_bytes, |chars| chars * 4) + 4;
        let (kept, dropped) =
            bytes.split_at(bytes.len().min(keep.saturating_sub(self.pending.len())));
        self.pending.extend_from_slice(kept);
        self.dropped_chars += n_chars(dropped);
        self.last_byte = bytes.last().copied().unwrap_or(self.last_byte);
    }

    fn flush(&mut self, ending: Ending) {
        let mut line = std::mem::take(&mut self.pending);
        let mut dropped = std::mem::take(&mut self.dropped_chars);
        if 0 < dropped && ending == Ending::Lf && self.last_byte == b'\r' {
            dropped -= 1;
            line.extend_from_slice(if dropped == 0 { b"\r" } else { b"" });
        }
        self.push(&line, dropped, ending);
        line.clear();
        self.pending = line;
    }

    fn push(&mut self, line: &[u8], dropped: u64, ending: Ending) {
        let (line, ending) = match (ending, line.strip_suffix(b"\r")) {
            (Ending::Lf, Some(line)) => (line, Ending::CrLf),
            _ => (line, ending),
        };
        let decoded = match std::str::from_utf8(line) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(line),
        };
        let (shown, cut) = match self.limits.max_chars {
            Some(max) => clip(&decoded, max),
            None => clip_bytes(&decoded, self.limits.max_bytes),
        };
        let number_width = digits(self.start_line + self.spans.len() as u64).max(6);
        let cost = shown.len() + number_width + 4 + if cut + dropped == 0 { 0 } else { 32 };
        if !self.spans.is_empty() && self.limits.max_bytes < self.used + cost {
            self.full = true;
            self.more = true;
            return;
        }
        self.nul |= memchr(0, line).is_some();
        self.broken |= matches!(decoded, Cow::Owned(_));
        self.used += cost;
        self.text.push_str(shown);
        self.spans.push(Span { end: self.text.len(), cut_chars: cut + dropped, ending });
        self.full = self.limits.max_lines <= self.spans.len() as u64;
    }
}

/// Returns the first `max` characters of a text and how many were left out.
pub(crate) fn clip(text: &str, max: usize) -> (&str, u64) {
    if text.len() <= max {
        return (text, 0);
    }
    match text.char_indices().nth(max) {
        Some((at, _)) => {
            let (shown, rest) = text.split_at(at);
            (shown, rest.chars().count() as u64)
        }
        None => (text, 0),
    }
}

fn clip_bytes(text: &str, max: usize) -> (&str, u64) {
    let (shown, rest) = text.split_at(text.floor_char_boundary(max));
    (shown, rest.chars().count() as u64)
}

/// Returns how many characters begin in some bytes.
fn n_chars(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count() as u64
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

pub(crate) fn n_line_ends(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}

/// Returns where the line with this number, from 1, begins, or `None` for too few line ends.
pub(crate) fn line_start(bytes: &[u8], number: u64) -> Option<usize> {
    match usize::try_from(number).ok()?.checked_sub(2) {
        None => Some(0),
        Some(nth) => memchr_iter(b'\n', bytes).nth(nth).map(|at| at + 1),
    }
}
