//! Reading what sinew's tools answer, to see that it is right.
//!
//! Searches answer one path, or one line of a file, a line. Lines in brackets are notes to the
//! model and no part of the answer.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

/// Returns a whole answer: one that was cut tells in a note where the whole of it is kept.
pub(super) fn whole(root: &Path, text: &str) -> Result<String> {
    let note = text.lines().find(|line| line.starts_with("[output cut after "));
    let Some(note) = note else { return Ok(text.to_owned()) };
    let path = note.split_once("the full text is in ").and_then(|(_, rest)| rest.split_once(": "));
    let (path, _) = path.with_context(|| format!("the note names no file: {note}"))?;
    fs::read_to_string(root.join(path)).with_context(|| path.to_owned())
}

/// Returns the lines of an answer that are no notes.
pub(super) fn lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.is_empty() && !is_note(line)).collect()
}

fn is_note(line: &str) -> bool {
    line.starts_with('[') && line.ends_with(']')
}

/// Returns the notes of an answer, which often tell why it is not what it should be.
fn notes(text: &str) -> String {
    text.lines().filter(|line| is_note(line)).collect::<Vec<_>>().join(" ")
}

/// Returns the lines of the answer of ripgrep.
pub(super) fn expected(text: &str) -> BTreeSet<&str> {
    text.lines().map(|line| line.strip_prefix("./").unwrap_or(line)).collect()
}

/// Holds an answer against the lines that it should have, in any order.
pub(super) fn same(text: &str, expected: &BTreeSet<&str>) -> Result<()> {
    let found: BTreeSet<&str> = lines(text).into_iter().collect();
    if expected.is_empty() {
        bail!("nothing is found by any side, so nothing is compared");
    }
    if found == *expected {
        return Ok(());
    }
    let missing = expected.difference(&found).next();
    let extra = found.difference(expected).next();
    bail!(
        "the answer is wrong: {} lines, expected {}; first missing {missing:?}, first extra {extra:?} {}",
        found.len(),
        expected.len(),
        notes(text)
    )
}

/// Holds an answer against paths in an order.
pub(super) fn same_order(text: &str, expected: &[&str]) -> Result<()> {
    let found = lines(text);
    if found == expected {
        return Ok(());
    }
    let at = found.iter().zip(expected).take_while(|(a, b)| a == b).count();
    bail!(
        "the answer is wrong: {} lines, expected {}; line {} is {:?}, expected {:?} {}",
        found.len(),
        expected.len(),
        at + 1,
        found.get(at),
        expected.get(at),
        notes(text)
    )
}

/// Returns the paths by their times of change, newest first.
pub(super) fn newest_first<'a>(
    root: &Path,
    paths: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<&'a str>> {
    let mut timed: Vec<(SystemTime, &str)> = Vec::new();
    for path in paths {
        let metadata = fs::metadata(root.join(path)).with_context(|| path.to_owned())?;
        timed.push((metadata.modified()?, path));
    }
    timed.sort_by(|a, b| b.cmp(a));
    Ok(timed.into_iter().map(|(_, path)| path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_no_answer() {
        assert_eq!(lines("b.rs\n\na.rs\n[2 files]\n"), ["b.rs", "a.rs"]);
    }

    #[test]
    fn wrong_answers_are_refused() {
        let right = expected("./a.rs\nb.rs\n");
        assert!(same("b.rs\na.rs\n[2 files]\n", &right).is_ok());
        assert!(same("b.rs\n", &right).is_err());
        assert!(same("b.rs\na.rs\nc.rs\n", &right).is_err());
        assert!(same("", &expected("")).is_err());
        assert!(same_order("b.rs\na.rs\n", &["b.rs", "a.rs"]).is_ok());
        assert!(same_order("a.rs\nb.rs\n", &["b.rs", "a.rs"]).is_err());
    }
}
