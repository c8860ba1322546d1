//! Escapes text and paths for globs.

use std::path::Path;

/// Returns the glob that matches exactly this text.
pub fn escape(text: &str) -> String {
    globset::escape(text).replace('\\', "[\\]")
}

/// Returns the glob that matches exactly this path.
pub fn escaped(path: &Path) -> Result<String, String> {
    let text = path.to_str().ok_or_else(|| {
        format!(
            "the name of {} is not UTF-8, so no glob can match beneath it; work in a directory with another name",
            path.display()
        )
    })?;
    Ok(escape(text))
}
