//! Words after shell quoting and escapes, as a program gets them.

use sinew_tool::Unclear;

use sinew_tool::visible::is_shown;

/// A word with known text, except for the names that its patterns match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Word {
    /// The text without quotes and escapes.
    pub(super) text: String,
    /// Offsets of the characters that make it a pattern.
    pub(super) active: Vec<usize>,
}

impl Word {
    pub(super) fn literal(text: impl Into<String>) -> Self {
        Self { text: text.into(), active: Vec::new() }
    }

    /// Adds unquoted text.
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
                    return Err(unclear("a shell operator is inside a word"));
                }
                c if c.is_whitespace() => return Err(unclear("a blank is inside a word")),
                c => self.text.push(c),
            }
        }
        Ok(())
    }

    /// Adds text in double quotes.
    pub(super) fn push_quoted(&mut self, inner: &str) -> Result<(), Unclear> {
        let mut chars = inner.chars();
        while let Some(c) = chars.next() {
            match c {
                '$' | '`' => return Err(unclear("it is expanded when it runs")),
                '"' => return Err(unclear("a quote is inside quotes")),
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

    /// Returns whether file names may replace it.
    pub(super) fn is_pattern(&self) -> bool {
        !self.active.is_empty()
    }
}

fn unclear(why: &str) -> Unclear {
    Unclear::new("shell.syntax", format!("what a word means is only known when it runs: {why}"))
}

/// Quotes a word for the shell.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Rejects characters that are invisible, or shown elsewhere than they are.
pub(super) fn check_characters(text: &str) -> Result<(), Unclear> {
    match text.chars().find(|c| !is_shown(*c)) {
        None => Ok(()),
        Some(c) => Err(Unclear::new(
            "shell.characters",
            format!("it holds the invisible character U+{:04X}", u32::from(c)),
        )),
    }
}
