//! Names of files in rows of text.
//!
//! A name may hold anything but a slash and a NUL. One with a line feed would look like two rows, so
//! a path that cannot stand in a row as it is stands in double quotes with escapes, as git writes
//! it: `\n`, `\t`, `\"`, `\\`, and three octal digits for any other byte. So does one that begins
//! with a quote, and one that is not UTF-8. Every other path is written as it is.

use std::path::Path;

/// Writes paths into rows, and remembers what must be said of them.
#[derive(Debug, Default)]
pub(crate) struct Names {
    quoted: bool,
    foreign: bool,
}

impl Names {
    /// Returns a path as it stands in a row: relative where it lies beneath the directory.
    pub(crate) fn row(&mut self, directory: &Path, path: &Path) -> String {
        let path = path.strip_prefix(directory).unwrap_or(path);
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        match path.to_str() {
            Some(name) if !name.starts_with('"') && !name.chars().any(breaks_rows) => {
                name.to_owned()
            }
            name => {
                self.quoted = true;
                self.foreign |= name.is_none();
                quoted(path.as_os_str().as_encoded_bytes())
            }
        }
    }

    /// Adds what the quotes mean, where there are any.
    pub(crate) fn explain(&self, text: &mut String) {
        if self.quoted {
            text.push_str(
                "[names in double quotes have escapes: \\n is a line feed, \\351 a byte]\n",
            );
        }
        if self.foreign {
            text.push_str(
                "[a name that is not UTF-8 cannot be given to a tool: rename the file]\n",
            );
        }
    }
}

/// Returns a path as it stands in a row: relative where it lies beneath the directory, in quotes where
/// it would break the row.
pub fn row_name(directory: &Path, path: &Path) -> String {
    Names::default().row(directory, path)
}

/// Returns whether a character ends a row, or moves about in it.
fn breaks_rows(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
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
                c if breaks_rows(c) => {
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

    #[track_caller]
    fn check(name: &[u8], row: &str, notes: usize) {
        let mut names = Names::default();
        let path = Path::new("/w").join(OsStr::from_bytes(name));
        assert_eq!(names.row(Path::new("/w"), &path), row);
        let mut told = String::new();
        names.explain(&mut told);
        assert_eq!(told.lines().count(), notes, "{told}");
    }

    #[test]
    fn only_names_that_break_rows_are_quoted() {
        check(b"a/plain name.txt", "a/plain name.txt", 0);
        check("é 'x' \"y\" \\n".as_bytes(), "é 'x' \"y\" \\n", 0);
        check(b"", ".", 0);
        check(b"two\nrows", r#""two\nrows""#, 1);
        check(b"\"a\"", r#""\"a\"""#, 1);
        check(b"a\\b\tc\rd\x1b[2J", r#""a\\b\tc\rd\033[2J""#, 1);
        check("a\u{2028}b\u{85}".as_bytes(), r#""a\342\200\250b\302\205""#, 1);
        check(b"caf\xe9.txt", r#""caf\351.txt""#, 2);
    }

    #[test]
    fn a_path_elsewhere_is_absolute() {
        assert_eq!(Names::default().row(Path::new("/w"), Path::new("/x/a")), "/x/a");
    }
}
