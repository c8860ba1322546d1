//! Words: what the shell makes of a piece of text before a program sees it.

use sinew_tool::Unclear;

/// A word whose text is known, but for the names that its patterns stand for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Word {
    /// The text, quotes and escapes taken away.
    pub(super) text: String,
    /// Where in the text characters stand that make it a pattern.
    pub(super) active: Vec<usize>,
}

impl Word {
    pub(super) fn literal(text: impl Into<String>) -> Self {
        Self { text: text.into(), active: Vec::new() }
    }

    /// Adds what stands unquoted.
    pub(super) fn push_bare(&mut self, raw: &str) -> Result<(), Unclear> {
        let is_first = self.text.is_empty() && self.active.is_empty();
        if is_first && raw.starts_with('~') {
            return Err(unclear("`~` stands for a directory"));
        }
        let mut chars = raw.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some('\n') => {}
                    Some(escaped) => self.text.push(escaped),
                    None => return Err(unclear("a backslash ends it")),
                },
                '*' | '?' | '[' => {
                    self.active.push(self.text.len());
                    self.text.push(c);
                }
                '$' | '`' => return Err(unclear("it is expanded when it runs")),
                '{' | '}' => return Err(unclear("braces may stand for several words")),
                '\'' | '"' | '(' | ')' | '<' | '>' | '|' | '&' | ';' => {
                    return Err(unclear("a sign of the shell stands inside a word"));
                }
                c if c.is_whitespace() => return Err(unclear("a blank stands inside a word")),
                c => self.text.push(c),
            }
        }
        Ok(())
    }

    /// Adds what stands between double quotes.
    pub(super) fn push_quoted(&mut self, inner: &str) -> Result<(), Unclear> {
        let mut chars = inner.chars();
        while let Some(c) = chars.next() {
            match c {
                '$' | '`' => return Err(unclear("it is expanded when it runs")),
                '"' => return Err(unclear("a quote stands inside quotes")),
                '\\' => match chars.next() {
                    Some('\n') => {}
                    Some(escaped @ ('$' | '`' | '"' | '\\')) => self.text.push(escaped),
                    Some(other) => self.text.extend(['\\', other]),
                    None => return Err(unclear("a backslash ends it")),
                },
                c => self.text.push(c),
            }
        }
        Ok(())
    }

    /// Returns whether names may take its place.
    pub(super) fn is_pattern(&self) -> bool {
        !self.active.is_empty()
    }
}

fn unclear(why: &str) -> Unclear {
    Unclear::new("shell.syntax", format!("what a word means is only known when it runs: {why}"))
}

/// Returns a word as the shell takes it literally.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Refuses characters that a reader does not see, or sees elsewhere than they stand.
pub(super) fn check_characters(text: &str) -> Result<(), Unclear> {
    match text.chars().find(|c| !is_shown(*c)) {
        None => Ok(()),
        Some(c) => Err(Unclear::new(
            "shell.characters",
            format!("it holds U+{:04X}, which nobody sees as it is", u32::from(c)),
        )),
    }
}

/// Returns a text in which everything that nobody sees as it is stands as an escape such as `\u{202e}`;
/// only blanks and line feeds stay.
pub fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => out.push_str("\\t"),
            c if is_shown(c) => out.push(c),
            c => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
        }
    }
    out
}

/// Returns whether a reader sees a character for what it is.
fn is_shown(c: char) -> bool {
    match c {
        '\n' | '\t' | ' ' => true,
        c if c.is_control() || c.is_whitespace() => false,
        c => !crate::rules::is_ignorable(c) && !is_private(c) && !is_unseen(c),
    }
}

/// Returns whether a character has no shape of its own: marks of notes and of how signs are joined, a
/// filler, and what no text should hold.
fn is_unseen(c: char) -> bool {
    let is_none = matches!(c, '\u{fdd0}'..='\u{fdef}') || u32::from(c) & 0xfffe == 0xfffe;
    is_none || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{13430}'..='\u{1345f}' | '\u{16fe4}')
}

fn is_private(c: char) -> bool {
    matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' | '\u{2800}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_not_shown() {
        for c in [
            '\u{fff9}',
            '\u{fffb}',
            '\u{13430}',
            '\u{1345f}',
            '\u{16fe4}',
            '\u{fdd0}',
            '\u{ffff}',
            '\u{1fffe}',
            '\u{10ffff}',
        ] {
            assert!(!is_shown(c), "{c:?}");
        }
        for c in ['a', '\u{e9}', '\u{fffd}', '\u{fffc}', '\u{1f600}', '\u{13429}'] {
            assert!(is_shown(c), "{c:?}");
        }
    }
}
