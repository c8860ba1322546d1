//! Quotes file names for lines of text, as git does.
//!
//! Quoted are names with control characters, bidirectional controls, zero-width blanks, a leading quote or
//! invalid UTF-8. The escapes are `\n`, `\t`, `\"`, `\\` and three octal digits for other bytes.

use std::borrow::Cow;
use std::path::Path;

/// Returns a path for a line of text; owned if quoted.
pub fn line_name(path: &Path) -> Cow<'_, str> {
    match path.to_str() {
        Some(name) if !name.starts_with('"') && !breaks_lines(name) => Cow::Borrowed(name),
        _ => Cow::Owned(quoted(path.as_os_str().as_encoded_bytes())),
    }
}

/// Returns whether a text leaves or reorders its line.
pub(crate) fn breaks_lines(text: &str) -> bool {
    text.chars().any(breaks_line)
}

fn breaks_line(c: char) -> bool {
    let is_bidirectional = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_invisible = matches!(c, '\u{200b}' | '\u{2060}' | '\u{feff}');
    c.is_control() || is_bidirectional || is_invisible || matches!(c, '\u{2028}' | '\u{2029}')
}

fn quoted(path: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\r' => text.push_str("\\r"),
                c if breaks_line(c) => {
                    octal(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                c => text.push(c),
            }
        }
        octal(&mut text, chunk.invalid());
    }
    text.push('"');
    text
}

fn octal(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        text.push_str(&format!("\\{byte:03o}"));
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn only_names_that_break_lines_are_quoted() {
        for (name, line) in [
            ("a/plain name.txt".as_bytes(), "a/plain name.txt"),
            ("é 'x' \"y\" \\n".as_bytes(), "é 'x' \"y\" \\n"),
            (b"", ""),
            (b"two\nlines", r#""two\nlines""#),
            (b"\"a\"", r#""\"a\"""#),
            (b"a\\b\tc\rd\x1b[2J", r#""a\\b\tc\rd\033[2J""#),
            ("a\u{2028}b\u{85}".as_bytes(), r#""a\342\200\250b\302\205""#),
            ("a\u{202e}b".as_bytes(), r#""a\342\200\256b""#),
            (b"caf\xe9.txt", r#""caf\351.txt""#),
        ] {
            assert_eq!(line_name(Path::new(OsStr::from_bytes(name))), line);
        }
    }
}
