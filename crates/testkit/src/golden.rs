//! Texts that are checked in and compared whole.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "golden files lie beside the tests, and a test that cannot write them fails"
)]

use std::fs;
use std::path::Path;

/// Checks that a file holds exactly this text. `UPDATE_GOLDEN=1` writes it instead.
#[track_caller]
pub fn golden(path: &Path, text: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("the directory of a golden file");
        }
        return fs::write(path, text).expect("a golden file can be written");
    }
    let kept = fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept == text,
        "{} is not current; UPDATE_GOLDEN=1 writes it\n--- kept\n{kept}\n--- now\n{text}",
        path.display()
    );
}
