//! Shows Markdown at a terminal while it streams: each line as soon as it is complete.
//!
//! Everything that a terminal acts on is escaped first, so the only control sequences are those of styles.

use std::fmt::Write as _;

use console::Style;
use minimad::{Composite, CompositeStyle, Compound, Line, parse_line};
use sinew_tool::shown;

/// Lines of a stream, and whether they are within a code block.
#[derive(Debug, Default)]
pub(crate) struct MarkdownStream {
    rest: String,
    is_code: bool,
}

impl MarkdownStream {
    /// Takes text; returns its complete lines with styles.
    pub(crate) fn push(&mut self, text: &str) -> String {
        self.rest.push_str(text);
        let mut styled = String::new();
        while let Some(end) = self.rest.find('\n') {
            let line: String = self.rest.drain(..=end).collect();
            styled.push_str(&self.line(line.trim_end_matches(['\n', '\r'])));
            styled.push('\n');
        }
        styled
    }

    /// Returns the last line, which has no end.
    pub(crate) fn finish(&mut self) -> String {
        let line = std::mem::take(&mut self.rest);
        let styled = if line.is_empty() { String::new() } else { self.line(&line) + "\n" };
        self.is_code = false;
        styled
    }

    fn line(&mut self, line: &str) -> String {
        let line = line.split('\t').map(shown).collect::<Vec<_>>().join("    ");
        if line.trim_start().starts_with("```") {
            self.is_code = !self.is_code;
            return Style::new().dim().apply_to(line).to_string();
        }
        if self.is_code {
            return Style::new().cyan().apply_to(line).to_string();
        }
        match parse_line(&line) {
            Line::Normal(composite) => composed(&composite),
            Line::TableRow(row) => {
                let cells: Vec<String> = row.cells.iter().map(composed).collect();
                cells.join(" | ")
            }
            Line::HorizontalRule | Line::TableRule(_) | Line::CodeFence(_) => {
                Style::new().dim().apply_to(&line).to_string()
            }
        }
    }
}

fn composed(composite: &Composite<'_>) -> String {
    let mut line = String::new();
    let mut base = Style::new();
    match composite.style {
        CompositeStyle::Header(_) => base = base.bold().underlined(),
        CompositeStyle::ListItem(depth) => {
            let _ = write!(line, "{}• ", "  ".repeat(usize::from(depth)));
        }
        CompositeStyle::OrderedListItem { level, index } => {
            let _ = write!(line, "{}{index}. ", "  ".repeat(usize::from(level)));
        }
        CompositeStyle::Quote => line.push_str("| "),
        CompositeStyle::Code => base = base.cyan(),
        CompositeStyle::Paragraph => {}
    }
    for Compound { src, bold, italic, code, strikeout } in &composite.compounds {
        let mut style = base.clone();
        for (is_so, change) in [
            (bold, Style::bold as fn(Style) -> Style),
            (italic, Style::italic),
            (code, Style::cyan),
            (strikeout, Style::strikethrough),
        ] {
            if *is_so {
                style = change(style);
            }
        }
        let _ = write!(line, "{}", style.apply_to(src));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Streams a text in pieces, and returns it without styles.
    fn shown_plain(text: &str, size: usize) -> String {
        let mut stream = MarkdownStream::default();
        let chars: Vec<char> = text.chars().collect();
        let mut out = String::new();
        for piece in chars.chunks(size) {
            out.push_str(&stream.push(&piece.iter().collect::<String>()));
        }
        out.push_str(&stream.finish());
        console::strip_ansi_codes(&out).into_owned()
    }

    #[test]
    fn text_is_the_same_in_any_pieces() {
        for (text, expected) in [
            ("# Title\n\nSome **bold** `code`.", "Title\n\nSome bold code.\n"),
            ("* one\n* two\n1. three\n", "• one\n• two\n1. three\n"),
            ("```rust\nlet a = *b;\n```\nend", "```rust\nlet a = *b;\n```\nend\n"),
            ("a \u{1b}[2J b\u{202e}", "a \\u{1b}[2J b\\u{202e}\n"),
            ("", ""),
        ] {
            for size in [1, 3, 1_000] {
                assert_eq!(shown_plain(text, size), expected, "{text:?} {size}");
            }
        }
    }
}
