//! Formats listings, trees and diffs as the filesystem server does.

use std::cmp::{Ordering, Reverse};
use std::iter::Peekable;
use std::path::Path;
use std::slice;

use serde_json::{Value, json};
use sinew_ops::{find, list};
use sinew_tool::FileKind;

use crate::words::text;

pub(super) fn mark(kind: FileKind) -> &'static str {
    if kind == FileKind::Directory { "[DIR]" } else { "[FILE]" }
}

/// Returns a listing with sizes and their sum.
pub(super) fn sizes(rows: &[list::Item], by: list::SortBy) -> String {
    let size = |row: &list::Item| row.size.unwrap_or(0);
    let mut sorted: Vec<(String, &list::Item)> =
        rows.iter().map(|row| (text(&row.path), row)).collect();
    match by {
        list::SortBy::Size => sorted.sort_by_key(|(_, row)| Reverse(size(row))),
        list::SortBy::Name => sorted.sort_by(|(a, _), (b, _)| by_letters(a, b)),
    }
    let is_dir = |row: &list::Item| row.kind == FileKind::Directory;
    let mut lines: Vec<String> = sorted
        .iter()
        .map(|(name, row)| {
            let size =
                if is_dir(row) { String::new() } else { format!("{:>10}", words(size(row))) };
            format!("{} {name:<30} {size}", mark(row.kind))
        })
        .collect();
    let n_dirs = rows.iter().filter(|row| is_dir(row)).count();
    let sum: u64 = rows.iter().filter(|row| !is_dir(row)).map(size).sum();
    lines.push(String::new());
    lines.push(format!("Total: {} files, {n_dirs} directories", rows.len() - n_dirs));
    lines.push(format!("Combined size: {}", words(sum)));
    lines.join("\n")
}

/// Formats a size with two decimals and a fitting unit.
fn words(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let at = bytes.checked_ilog2().map_or(0, |log| (log / 10) as usize).min(UNITS.len() - 1);
    let unit = UNITS.get(at).copied().unwrap_or("B");
    match at {
        0 => format!("{bytes} {unit}"),
        at => format!("{:.2} {unit}", bytes as f64 / f64::powi(1_024.0, at as i32)),
    }
}

/// The sort order of punctuation, before digits and letters.
const MARKS: &str = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";

/// Compares names like a locale: first without case, then lower case first.
fn by_letters(a: &str, b: &str) -> Ordering {
    let folded = |name: &str| -> Vec<(usize, String)> {
        name.chars()
            .map(|c| match MARKS.find(c) {
                Some(at) => (at, String::new()),
                None if c.is_ascii_digit() => (MARKS.len(), c.to_string()),
                None => (MARKS.len() + 1, c.to_lowercase().collect()),
            })
            .collect()
    };
    let small_first = |name: &str| -> Vec<bool> { name.chars().map(char::is_uppercase).collect() };
    folded(a)
        .cmp(&folded(b))
        .then_with(|| small_first(a).cmp(&small_first(b)))
        .then_with(|| a.cmp(b))
}

/// Returns sorted names as nested JSON.
pub(super) fn tree(names: &[find::FoundName]) -> String {
    let children = children(&mut names.iter().peekable(), Path::new(""));
    serde_json::to_string_pretty(&children).unwrap_or_default()
}

fn children(names: &mut Peekable<slice::Iter<'_, find::FoundName>>, above: &Path) -> Value {
    let mut children = Vec::new();
    while let Some(name) = names.next_if(|name| name.path.parent() == Some(above)) {
        let shown = text(Path::new(name.path.file_name().unwrap_or_default()));
        children.push(match name.kind {
            FileKind::Directory => {
                let inner = self::children(names, &name.path);
                json!({ "name": shown, "type": "directory", "children": inner })
            }
            _ => json!({ "name": shown, "type": "file" }),
        });
    }
    Value::Array(children)
}

/// Returns a git-style diff in a code fence that it does not contain.
pub(super) fn diff(path: &str, hunks: &str) -> String {
    let bar = "=".repeat(67);
    // Line endings stay in the file and are not shown.
    let hunks = hunks.replace("\r\n", "\n");
    let diff = format!("Index: {path}\n{bar}\n--- {path}\toriginal\n+++ {path}\tmodified\n{hunks}");
    let mut fence = String::from("```");
    while diff.contains(&fence) {
        fence.push('`');
    }
    format!("{fence}diff\n{diff}{fence}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_unit_that_fits() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1.00 KB"),
            (1_536, "1.50 KB"),
            (10 << 20, "10.00 MB"),
            (3 << 40, "3.00 TB"),
            (2_048 << 40, "2048.00 TB"),
        ] {
            assert_eq!(words(bytes), expected);
        }
    }

    #[test]
    fn names_are_sorted_as_people_sort_them() {
        let mut names =
            ["b", "B", "a1", "a-b", "a", ".hidden", "Z", "_x", "10", "9", "ab", "README"];
        names.sort_by(|a, b| by_letters(a, b));
        let expected =
            ["_x", ".hidden", "10", "9", "a", "a-b", "a1", "ab", "b", "B", "README", "Z"];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_diff_stands_between_marks_of_its_own() {
        let shown = diff("/f", "@@ -1 +1 @@\n-```\n+````\n");
        assert!(
            shown.starts_with("`````diff\nIndex: /f\n=====") && shown.ends_with("+````\n`````\n\n")
        );
    }
}
