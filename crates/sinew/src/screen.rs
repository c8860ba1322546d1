//! Escapes all text for the terminal, so no repository text moves the cursor, reorders text or hides.
//!
//! [`say`] writes a message to standard error, [`Visible`] filters a command's output stream. Names also need
//! [`shown_line`](sinew_tool::shown_line), since line feeds pass here. JSON bypasses this module.

use std::io::{self, IsTerminal, Write};

use sinew_config as config;
use sinew_tool::{Kind, shown};

/// Writes a message to standard error. Later lines are indented, so that none looks like a message.
pub(crate) fn say(text: &str) {
    message(YELLOW, text);
}

/// Writes why a command failed to standard error.
pub(crate) fn say_error(text: &str) {
    message(BOLD_RED, text);
}

fn message(color: &str, text: &str) {
    let mark = painted(has_colors(&io::stderr()), color, "sinew:");
    // Writing to a closed terminal fails.
    let _ = writeln!(io::stderr(), "{mark} {}", told(text));
}

/// Returns a word before an error on standard error.
pub(crate) fn error_mark(word: &str) -> String {
    painted(has_colors(&io::stderr()), BOLD_RED, word)
}

/// Returns a word for standard output, which is colored by its meaning and has at least this width.
pub(crate) fn mark(word: &str, width: usize) -> String {
    mark_as(word, &format!("{word:<width$}"))
}

/// Returns a text for standard output in the color of a word.
pub(crate) fn mark_as(word: &str, text: &str) -> String {
    match color_of(word) {
        Some(color) => painted(has_colors(&io::stdout()), color, text),
        None => text.to_owned(),
    }
}

fn painted(has_colors: bool, color: &str, text: &str) -> String {
    match has_colors {
        true => format!("{color}{text}{RESET}"),
        false => text.to_owned(),
    }
}

/// Returns the color of a ruling, of what a check found, or of how a call ended.
fn color_of(word: &str) -> Option<&'static str> {
    let first = word.split(':').next().unwrap_or_default();
    match first {
        "ok" | "OK" | "allow" => Some(GREEN),
        "ask" | "note" | "running" | "not ended" | "undone" | "taken back" => Some(YELLOW),
        "deny" | "invalid" | "MISSING" | "BROKEN" | "never ended" | "denied" | "failed" => {
            Some(RED)
        }
        _ => Kind::from_word(first).map(|_| RED),
    }
}

/// Formats a message as [`say`] writes it.
pub(crate) fn told(text: &str) -> String {
    shown(text.trim_end()).replace('\n', "\n  ")
}

/// Returns whether a stream gets colors: a terminal does, unless `NO_COLOR` is set or `TERM` is `dumb`.
fn has_colors(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && config::env_vars::allow_colors()
}

/// A stream that escapes invisible characters other than line feeds and tabs. At a terminal diffs are colored.
pub(crate) struct Visible<W: Write> {
    inner: W,
    colors: Option<DiffColors>,
}

impl<W: Write> Visible<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, colors: None }
    }

    fn colored(inner: W, is_colored: bool) -> Self {
        Self { inner, colors: is_colored.then(DiffColors::default) }
    }
}

/// Returns escaped standard output.
pub(crate) fn output() -> Visible<io::StdoutLock<'static>> {
    let stdout = io::stdout();
    let is_colored = has_colors(&stdout);
    Visible::colored(stdout.lock(), is_colored)
}

/// Returns standard output for tool results: exact for files and pipes, escaped at a terminal.
pub(crate) fn output_of_tools() -> Box<dyn Write> {
    match io::stdout().is_terminal() {
        true => Box::new(output()),
        false => Box::new(io::stdout().lock()),
    }
}

/// Returns escaped standard error.
pub(crate) fn errors() -> Visible<io::Stderr> {
    let stderr = io::stderr();
    let is_colored = has_colors(&stderr);
    Visible::colored(stderr, is_colored)
}

impl<W: Write> Visible<W> {
    /// Writes a word that is colored by its meaning.
    pub(crate) fn mark(&mut self, word: &str) -> io::Result<()> {
        let color = color_of(word).filter(|_| self.colors.is_some());
        self.inner.write_all(color.unwrap_or_default().as_bytes())?;
        self.write_all(word.as_bytes())?;
        self.inner.write_all(color.map_or("", |_| RESET).as_bytes())
    }
}

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            let parts: Vec<String> = chunk.valid().split('\t').map(shown).collect();
            text.push_str(&parts.join("\t"));
            chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
        }
        if let Some(colors) = &mut self.colors {
            text = colors.paint(&text);
        }
        self.inner.write_all(text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W: Write> Drop for Visible<W> {
    fn drop(&mut self) {
        if self.colors.as_ref().is_some_and(|colors| colors.is_open) {
            let _ = self.inner.write_all(RESET.as_bytes());
        }
    }
}

const RED: &str = "\u{1b}[31m";
const BOLD_RED: &str = "\u{1b}[1;31m";
const YELLOW: &str = "\u{1b}[33m";
const GREEN: &str = "\u{1b}[32m";
const CYAN: &str = "\u{1b}[36m";
const RESET: &str = "\u{1b}[0m";

/// Colors the lines of unified diffs in a text that comes in pieces. The header of a hunk says how many lines it has, so no
/// other line is colored.
#[derive(Default)]
struct DiffColors {
    /// The beginning of the line that is being written.
    line: String,
    /// The lines of the old and of the new file that the hunk still has.
    left: (usize, usize),
    /// Whether the line has a color.
    is_open: bool,
}

impl DiffColors {
    /// The longest beginning of a line that counts as a header, in bytes.
    const MAX_HEADER: usize = 200;

    fn paint(&mut self, text: &str) -> String {
        let mut painted = String::with_capacity(text.len());
        for piece in text.split_inclusive('\n') {
            let (content, is_end) = match piece.strip_suffix('\n') {
                Some(content) => (content, true),
                None => (piece, false),
            };
            if self.line.is_empty()
                && let Some(color) = self.color(content)
            {
                painted.push_str(color);
                self.is_open = true;
            }
            painted.push_str(content);
            if self.line.len() < Self::MAX_HEADER {
                self.line.push_str(content);
            }
            if is_end {
                if std::mem::take(&mut self.is_open) {
                    painted.push_str(RESET);
                }
                painted.push('\n');
                self.end_line();
            }
        }
        painted
    }

    /// Returns the color of a line by its beginning.
    fn color(&self, content: &str) -> Option<&'static str> {
        match content.as_bytes().first() {
            Some(b'+') if 0 < self.left.1 => Some(GREEN),
            Some(b'-') if 0 < self.left.0 => Some(RED),
            Some(b'@') if self.left == (0, 0) && hunk(content).is_some() => Some(CYAN),
            _ => None,
        }
    }

    /// Counts a line that is complete.
    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let (old, new) = self.left;
        if self.left == (0, 0) {
            self.left = hunk(&line).unwrap_or_default();
            return;
        }
        self.left = match line.as_bytes().first() {
            Some(b'+') => (old, new.saturating_sub(1)),
            Some(b'-') => (old.saturating_sub(1), new),
            Some(b'\\') => (old, new),
            Some(b' ') | None => (old.saturating_sub(1), new.saturating_sub(1)),
            // It was no hunk.
            Some(_) => (0, 0),
        };
    }
}

/// Returns the numbers of old and new lines that the header of a hunk names.
fn hunk(line: &str) -> Option<(usize, usize)> {
    let (ranges, _) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let n = |range: &str| match range.split_once(',') {
        Some((_, n)) => n.parse().ok(),
        None => Some(1),
    };
    Some((n(old)?, n(new)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diffs_are_colored_and_nothing_else() {
        let text =
            "- a list\n+1 -0\n@@ -1,2 +1,2 @@ f\n same\n-old\n+new\n\\ No newline\n- after\n@@ x\n";
        let expected = "- a list\n+1 -0\n\u{1b}[36m@@ -1,2 +1,2 @@ f\u{1b}[0m\n same\n\u{1b}[31m-old\u{1b}[0m\n\u{1b}[32m+new\u{1b}[0m\n\\ No newline\n- after\n@@ x\n";
        for n in [1, 3, text.len()] {
            let mut out = Vec::new();
            let mut visible = Visible::colored(&mut out, true);
            text.as_bytes().chunks(n).for_each(|piece| visible.write_all(piece).expect("written"));
            drop(visible);
            let out = String::from_utf8(out).expect("text");
            // A header that comes in pieces has no color, but counts.
            let expected = match n == text.len() {
                true => expected.to_owned(),
                false => {
                    expected.replace("\u{1b}[36m@@ -1,2 +1,2 @@ f\u{1b}[0m", "@@ -1,2 +1,2 @@ f")
                }
            };
            assert_eq!(out, expected, "{n}");
        }
        let mut out = Vec::new();
        let mut visible = Visible::colored(&mut out, true);
        visible.write_all("@@ -1 +1 @@\n-o\u{1b}[0m".as_bytes()).expect("written");
        drop(visible);
        assert!(
            out.ends_with("\u{1b}[31m-o\\u{1b}[0m\u{1b}[0m".as_bytes()),
            "{}",
            out.escape_ascii()
        );
    }

    #[test]
    fn nothing_passes_that_a_terminal_acts_on() {
        let mut out = Vec::new();
        let mut visible = Visible::new(&mut out);
        let hostile = "a\tb\n\u{1b}[2J\r\u{9b}\u{202e}\u{2069}\u{200f}\u{61c}\u{200b}\u{feff}";
        write!(visible, "{hostile}").expect("it is written");
        visible.write_all(b"\xff\x00").expect("it is written");
        drop(visible);
        let text = String::from_utf8(out).expect("text");
        let escapes =
            "a\tb\n\\u{1b}[2J\\u{d}\\u{9b}\\u{202e}\\u{2069}\\u{200f}\\u{61c}\\u{200b}\\u{feff}";
        assert_eq!(text, format!("{escapes}\\xff\\u{{0}}"));
    }

    #[test]
    fn words_have_the_color_of_their_meaning() {
        for (word, expected) in [
            ("ok", Some(GREEN)),
            ("ask", Some(YELLOW)),
            ("deny", Some(RED)),
            ("denied: path_denied", Some(RED)),
            ("file_not_found", Some(RED)),
            ("sandbox", None),
        ] {
            assert_eq!(color_of(word), expected, "{word}");
        }
        let mut out = Vec::new();
        Visible::colored(&mut out, true).mark("failed: \u{1b}").expect("written");
        assert_eq!(out, b"\x1b[31mfailed: \\u{1b}\x1b[0m");
    }

    #[test]
    fn no_line_of_a_message_begins_like_a_message() {
        assert_eq!(told("a\nsinew: b\r\n"), "a\n  sinew: b");
    }
}
