//! Words that name no actor or no deed, counted in comments and documents so that no count rises.
//!
//! `CONTRIBUTING.md` says what to write instead. The counts stand in [`WORDS`](super::WORDS), one for each crate and
//! one for the documents; a change that lowers a count lowers its line too.

use super::crates::Member;
use super::tree::Tree;
use super::{Finding, WORDS};

/// The line of the documents in the table.
const DOCUMENTS: &str = "documents";

/// The words, in lower case.
const COUNTED: &[&str] = &[
    "somebody", "nobody", "whoever", "someone", "whatever", "lies", "stands", "is told",
    "are told", "goes",
];

pub(super) fn check(tree: &Tree, members: &[Member], findings: &mut Vec<Finding>) {
    let mut check = |name: &str, path: &str, n: usize| {
        let most = WORDS.iter().find(|(of, _)| *of == name).map_or(0, |(_, most)| *most);
        let what = match n {
            n if most < n => format!(
                "{n} vague words in comments, {most} may be: name the actor and what it does ({})",
                COUNTED.join(", ")
            ),
            n if n < most => format!("lower the count of {name} in `WORDS` of tidy to {n}"),
            _ => return,
        };
        findings.push(Finding::new(path, 1, what));
    };
    for member in members {
        let prefix = format!("{}/", member.folder);
        let files = tree.rust().filter(|file| file.path.starts_with(&prefix));
        let n = files.map(|file| count(&comments(&file.text))).sum();
        check(&member.name, &member.manifest(), n);
    }
    let is_document = |path: &str| path.ends_with(".md") && !path.starts_with("crates/");
    let documents = tree.files().iter().filter(|file| is_document(&file.path));
    check(DOCUMENTS, "CONTRIBUTING.md", documents.map(|file| count(&file.text)).sum());
}

/// Returns the comments of a Rust file as one text.
fn comments(text: &str) -> String {
    let lines = text.lines().map(str::trim_start);
    let comments = lines.filter(|line| line.starts_with("//"));
    comments.map(|line| line.trim_start_matches(['/', '!'])).collect::<Vec<_>>().join(" ")
}

/// Returns how often the words occur in a text.
fn count(text: &str) -> usize {
    let words: Vec<String> =
        text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase).collect();
    let words: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
    let is_at = |at: usize, counted: &str| {
        let mut wanted = counted.split(' ').enumerate();
        wanted.all(|(n, word)| words.get(at + n) == Some(&word))
    };
    let at = |at: usize| COUNTED.iter().filter(|counted| is_at(at, counted)).count();
    (0..words.len()).map(at).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_in_comments_alone() {
        let text =
            "//! Nobody is told.\nlet somebody = 1; // what lies there\n    /// goes; Whoever's\n";
        assert_eq!(count(&comments(text)), 4);
        assert_eq!(count("What is\ntold, nobody-else stands"), 3);
    }
}
