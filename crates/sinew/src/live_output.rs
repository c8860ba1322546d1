//! Shows the output of a running command at a terminal, line by line.
//!
//! A line that has not ended is held back: what overwrites it, such as a progress bar, decides what it shows.

use std::io::Write as _;
use std::sync::{Arc, Mutex};

use indicatif::ProgressBar;
use sinew_tool::sync::lock;
use sinew_tool::{Progress, shown_line};

use crate::screen;

/// A longer line is shown in parts.
const MAX_HELD: usize = 64 * 1024;
/// The lines that a progress line has beneath it, and their length in characters.
const TAIL_LINES: usize = 3;
const TAIL_CHARS: usize = 76;
/// The most output that waits while a question is shown, in bytes.
const MAX_WAITING: usize = 64 * 1024;

/// The output that waits while a question is shown: it could move the question out of view, or look like one.
static WAITING: Mutex<Option<Waiting>> = Mutex::new(None);

#[derive(Default)]
struct Waiting {
    text: String,
    n_left_out: usize,
}

impl Waiting {
    fn push(&mut self, text: &str) {
        let room = if self.n_left_out == 0 { MAX_WAITING - self.text.len() } else { 0 };
        let kept = text.get(..text.floor_char_boundary(room)).unwrap_or_default();
        self.text.push_str(kept);
        self.n_left_out += text.len() - kept.len();
    }

    fn write(&self) {
        write(&self.text);
        if self.n_left_out != 0 {
            let n = self.n_left_out;
            write(&format!("\n[{n} bytes of output were left out while a question was shown]\n"));
        }
    }
}

/// Lets live output wait until it is dropped.
pub(crate) struct Hold(());

impl Hold {
    pub(crate) fn begin() -> Self {
        lock(&WAITING).get_or_insert_default();
        Self(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(waiting) = lock(&WAITING).take() {
            waiting.write();
        }
    }
}

fn write(text: &str) {
    // A terminal that is gone ends nothing here.
    let mut out = screen::output();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// The lines of an output that comes in pieces.
#[derive(Default)]
struct HeldLine(Vec<u8>);

impl HeldLine {
    /// Takes a piece, and returns the lines that ended.
    fn push(&mut self, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        let end = self.0.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let n = if MAX_HELD < self.0.len() - end { self.0.len() } else { end };
        sinew_ops::cleaned(&self.0.drain(..n).collect::<Vec<u8>>())
    }

    fn take(&mut self) -> String {
        sinew_ops::cleaned(&std::mem::take(&mut self.0))
    }
}

/// Writes the output of a command to standard output.
pub(crate) struct LiveOutput(Mutex<Live>);

struct Live {
    held: HeldLine,
    is_shown: bool,
}

impl LiveOutput {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Live { held: HeldLine::default(), is_shown: false })))
    }

    /// Returns a progress that shows the output.
    pub(crate) fn progress(self: &Arc<Self>) -> Progress {
        let live = Arc::clone(self);
        Progress::default().with_output(move |bytes| {
            let mut live = lock(&live.0);
            let text = live.held.push(bytes);
            live.show(&text);
        })
    }

    /// Shows the last line and what waits, and returns whether anything was shown.
    pub(crate) fn end(&self) -> bool {
        let mut live = lock(&self.0);
        let mut text = live.held.take();
        if !text.is_empty() {
            text.push('\n');
        }
        live.show(&text);
        // The command has ended, so its question is over although it is still shown.
        if let Some(waiting) = lock(&WAITING).take() {
            write("\n");
            waiting.write();
        }
        live.is_shown
    }
}

impl Live {
    fn show(&mut self, text: &str) {
        if !text.is_empty() {
            self.is_shown = true;
            match &mut *lock(&WAITING) {
                Some(waiting) => waiting.push(text),
                None => write(text),
            }
        }
    }
}

/// Returns a progress that shows the last lines of the output beneath a progress line.
pub(crate) fn tail(spinner: ProgressBar) -> Progress {
    let state = Mutex::new((HeldLine::default(), Vec::<String>::new()));
    Progress::default().with_output(move |bytes| {
        let mut state = lock(&state);
        let (held, lines) = &mut *state;
        // The progress line of another call has none yet.
        if spinner.prefix().is_empty() {
            lines.clear();
            held.0.clear();
        }
        let text = held.push(bytes);
        if text.is_empty() {
            return;
        }
        lines.extend(text.lines().map(|line| shown_line(line).chars().take(TAIL_CHARS).collect()));
        lines.drain(..lines.len().saturating_sub(TAIL_LINES));
        spinner.set_prefix(lines.iter().map(|line| format!("\n  {line}")).collect::<String>());
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_held_until_they_end() {
        let mut held = HeldLine::default();
        for (piece, expected) in [
            (&b"one\ntw"[..], "one\n"),
            (b"o\n", "two\n"),
            (b"10%\r20%", ""),
            (b"\r\x1b[31m100%\x1b[0m\n\xc3", "100%\n"),
            (b"\xa9", ""),
        ] {
            assert_eq!(held.push(piece), expected);
        }
        assert_eq!(held.take(), "é");
        assert_eq!(held.push(&[b'x'; MAX_HELD]), "");
        assert_eq!(held.push(b"x").len(), MAX_HELD + 1);
    }

    #[test]
    fn progress_line_has_the_last_lines() {
        let spinner = ProgressBar::hidden();
        let tail = tail(spinner.clone());
        tail.output(b"1\n2\n3\n4\x1b[2J\nunfinished");
        assert_eq!(spinner.prefix(), "\n  2\n  3\n  4");
        spinner.set_prefix("");
        tail.output(b"next\n");
        assert_eq!(spinner.prefix(), "\n  next", "of another call, without what came before");
    }
}
