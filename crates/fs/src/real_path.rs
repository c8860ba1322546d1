//! Canonical paths of files that may not exist, so that two spellings of one place compare equal.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Returns the canonical path; of a missing file, its longest existing part is canonical.
#[expect(clippy::disallowed_methods, reason = "the guard may look at the system")]
pub fn real(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    let mut above = path;
    loop {
        if let Ok(mut real) = fs::canonicalize(above) {
            for part in rest.into_iter().rev() {
                match part {
                    Component::ParentDir => drop(real.pop()),
                    part => real.push(part),
                }
            }
            return real;
        }
        let Some(part) = above.components().next_back() else { return path.to_owned() };
        rest.push(part);
        let Some(parent) = above.parent() else { return path.to_owned() };
        above = parent;
    }
}
