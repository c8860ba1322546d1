//! PathWriter of files in rows of text.
//!
//! A path that would break its row stands in quotes, as [`line_name`] writes it. What the quotes mean is
//! said once, below the rows.

use std::borrow::Cow;
use std::path::Path;

use sinew_tool::line_name;

/// Writes paths into rows, and remembers what must be said of them.
#[derive(Debug, Default)]
pub(crate) struct PathWriter {
    quoted: bool,
    foreign: bool,
}

impl PathWriter {
    /// Returns a path as it stands in a row: relative where it lies beneath the directory.
    pub(crate) fn row(&mut self, directory: &Path, path: &Path) -> String {
        let path = path.strip_prefix(directory).unwrap_or(path);
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        match line_name(path) {
            Cow::Borrowed(name) => name.to_owned(),
            Cow::Owned(quoted) => {
                self.quoted = true;
                self.foreign |= path.to_str().is_none();
                quoted
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
    PathWriter::default().row(directory, path)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[track_caller]
    fn check(name: &[u8], row: &str, notes: usize) {
        let mut names = PathWriter::default();
        let path = Path::new("/w").join(OsStr::from_bytes(name));
        assert_eq!(names.row(Path::new("/w"), &path), row);
        let mut told = String::new();
        names.explain(&mut told);
        assert_eq!(told.lines().count(), notes, "{told}");
    }

    #[test]
    fn only_names_that_break_rows_are_quoted() {
        check(b"a/plain name.txt", "a/plain name.txt", 0);
        check(b"", ".", 0);
        check(b"two\nrows", r#""two\nrows""#, 1);
        check(b"caf\xe9.txt", r#""caf\351.txt""#, 2);
    }

    #[test]
    fn a_path_elsewhere_is_absolute() {
        assert_eq!(PathWriter::default().row(Path::new("/w"), Path::new("/x/a")), "/x/a");
    }
}
