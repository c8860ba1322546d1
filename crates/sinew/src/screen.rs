//! Escapes all text for the terminal, so no repository text moves the cursor, reorders text or hides.
//!
//! [`say`] writes a message to standard error, [`Visible`] filters a command's output stream. Names also need
//! [`shown_line`](sinew_tool::shown_line), since line feeds pass here. JSON bypasses this module.

use std::io::{self, IsTerminal, Write};

use sinew_tool::shown;

/// Writes a message to standard error. Later lines are indented, so that none looks like a message.
pub(crate) fn say(text: &str) {
    // Writing to a closed terminal fails.
    let _ = writeln!(io::stderr(), "sinew: {}", told(text));
}

/// Formats a message as [`say`] writes it.
pub(crate) fn told(text: &str) -> String {
    shown(text.trim_end()).replace('\n', "\n  ")
}

/// A stream that escapes invisible characters other than line feeds and tabs.
pub(crate) struct Visible<W>(W);

impl<W: Write> Visible<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self(inner)
    }
}

/// Returns escaped standard output.
pub(crate) fn output() -> Visible<io::StdoutLock<'static>> {
    Visible(io::stdout().lock())
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
