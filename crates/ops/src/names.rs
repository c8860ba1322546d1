//! Writes file paths into rows of text.
//!
//! [`line_name`] quotes a path that would break its row; one note below the rows explains the quotes.

use std::borrow::Cow;
use std::path::Path;

use sinew_tool::line_name;

/// Writes paths into rows, and remembers whether one was quoted.
#[derive(Debug, Default)]
pub(crate) struct PathWriter {
    quoted: bool,
    foreign: bool,
}

impl PathWriter {
    /// Returns a path for a row: relative where it lies beneath the directory.
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

    /// Adds the note on quotes, where there are any.
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

/// Returns a path for a row: relative beneath the directory, quoted where it would break it.
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
