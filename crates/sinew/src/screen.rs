//! Everything that is printed for a person passes here, so no text of a repository moves the cursor, reorders
//! what stands beside it or hides.
//!
//! [`say`] writes a message to standard error, [`Visible`] filters a stream that a command writes to. Names get
//! [`shown_line`](sinew_tool::shown_line) where they are put into a text, since a line feed in a name begins a
//! line here. JSON is exact and does not pass here.

use std::io::{self, IsTerminal, Write};

use sinew_tool::shown;

/// Writes a message to standard error. Lines after the first are set in, where none can pass for a message.
pub(crate) fn say(text: &str) {
    // A terminal that hung up takes no more words.
    let _ = writeln!(io::stderr(), "sinew: {}", told(text));
}

/// Returns a message as [`say`] writes it.
pub(crate) fn told(text: &str) -> String {
    shown(text.trim_end()).replace('\n', "\n  ")
}

/// A stream on which only line feeds and tabs stay as they are, of all that a reader does not see.
pub(crate) struct Visible<W>(W);

impl<W: Write> Visible<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self(inner)
    }
}

/// Returns standard output for what is written for people.
pub(crate) fn output() -> Visible<io::StdoutLock<'static>> {
    Visible(io::stdout().lock())
}

/// Returns standard output for texts of tools: exact for files and pipes, visible at a terminal.
pub(crate) fn output_of_tools() -> Box<dyn Write> {
    match io::stdout().is_terminal() {
        true => Box::new(output()),
        false => Box::new(io::stdout().lock()),
    }
}

/// Returns standard error for what is written for people.
pub(crate) fn errors() -> Visible<io::Stderr> {
    Visible(io::stderr())
}

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            let parts: Vec<String> = chunk.valid().split('\t').map(shown).collect();
            text.push_str(&parts.join("\t"));
            chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
        }
        self.0.write_all(text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_passes_that_a_terminal_acts_on() {
        let mut out = Vec::new();
        let mut visible = Visible::new(&mut out);
        let hostile = "a\tb\n\u{1b}[2J\r\u{9b}\u{202e}\u{2069}\u{200f}\u{61c}\u{200b}\u{feff}";
        write!(visible, "{hostile}").expect("it is written");
        visible.write_all(b"\xff\x00").expect("it is written");
        let text = String::from_utf8(out).expect("text");
        let escapes =
            "a\tb\n\\u{1b}[2J\\u{d}\\u{9b}\\u{202e}\\u{2069}\\u{200f}\\u{61c}\\u{200b}\\u{feff}";
        assert_eq!(text, format!("{escapes}\\xff\\u{{0}}"));
    }

    #[test]
    fn no_line_of_a_message_begins_like_a_message() {
        assert_eq!(told("a\nsinew: b\r\n"), "a\n  sinew: b");
    }
}
