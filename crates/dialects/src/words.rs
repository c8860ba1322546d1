//! What several vocabularies need to say of files and of edits that were refused.

use std::path::Path;

use sinew_tool::{Kind, Reply, ToolError};

/// Returns a path as text.
pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Returns what a message says of a path without the name of its argument before it.
pub(crate) fn without_argument(message: &str) -> &str {
    match message.strip_prefix("argument `").and_then(|rest| rest.split_once('`')) {
        Some((_, rest)) => rest.strip_prefix(": ").unwrap_or(message),
        None => message,
    }
}

/// Returns how often a text occurs that an edit names, and where, as its refusal tells it.
pub(crate) fn occurrences(message: &str) -> Option<(u64, String)> {
    let (_, rest) = message.split_once(" occurs ")?;
    let (count, rest) = rest.split_once(" times")?;
    let (_, lines) = rest.rsplit_once(": lines ")?;
    Some((count.parse().ok()?, format!("it is in the lines {lines}")))
}

/// Returns a refusal in the words of a vocabulary.
pub(crate) fn said(error: &ToolError, message: String, hint: Option<String>) -> Reply {
    let said = ToolError::new(error.kind, message);
    Reply::failure(&match hint {
        Some(hint) => said.hint(hint),
        None => said,
    })
}

/// Returns the hint of a refusal, unless the words of the vocabulary are known to go without it.
pub(crate) fn hint(error: &ToolError) -> Option<String> {
    match error.kind {
        Kind::FileNotFound | Kind::NotRegularFile | Kind::Binary | Kind::Stale => None,
        _ => error.hint.as_ref().map(ToString::to_string),
    }
}

/// Returns a hint with the names of arguments as the vocabulary has them.
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
