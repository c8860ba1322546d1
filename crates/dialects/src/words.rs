//! Shared texts for files and refused edits.

use std::path::Path;

use sinew_tool::{Kind, Reply, ToolError};

/// Returns a path as text.
pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Returns a message about a path without its argument name.
pub(crate) fn without_argument(message: &str) -> &str {
    match message.strip_prefix("argument `").and_then(|rest| rest.split_once('`')) {
        Some((_, rest)) => rest.strip_prefix(": ").unwrap_or(message),
        None => message,
    }
}

/// Parses how often an edit text occurs, and where, from its refusal.
pub(crate) fn occurrences(message: &str) -> Option<(u64, String)> {
    let (_, rest) = message.split_once(" occurs ")?;
    let (count, rest) = rest.split_once(" times")?;
    let (_, lines) = rest.rsplit_once(": lines ")?;
    Some((count.parse().ok()?, format!("it is in the lines {lines}")))
}

/// Returns a refusal with a dialect's message.
pub(crate) fn said(error: &ToolError, message: String, hint: Option<String>) -> Reply {
    let said = ToolError::new(error.kind, message);
    Reply::failure(&match hint {
        Some(hint) => said.hint(hint),
        None => said,
    })
}

/// Returns the hint of a refusal, except for kinds whose dialect text needs none.
pub(crate) fn hint(error: &ToolError) -> Option<String> {
    match error.kind {
        Kind::FileNotFound | Kind::NotRegularFile | Kind::Binary | Kind::Stale => None,
        _ => error.hint.as_ref().map(ToString::to_string),
    }
}

/// Renames arguments in a hint to those of the dialect.
pub(crate) fn renamed(hint: Option<String>, old: &str, new: &str) -> Option<String> {
    hint.map(|hint| hint.replace("old_string", old).replace("new_string", new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_edit_tells_how_often_and_where() {
        for (message, expected) in [
            (
                "old_string occurs 3 times in a: lines 1, 2 …",
                Some((3, "it is in the lines 1, 2 …")),
            ),
            (
                "edit #1: edits[0].old_string occurs 2 times in x y: lines 4, 9",
                Some((2, "it is in the lines 4, 9")),
            ),
            ("old_string was not found in a", None),
        ] {
            let expected = expected.map(|(n, lines)| (n, lines.to_owned()));
            assert_eq!(occurrences(message), expected, "{message}");
        }
    }
}
