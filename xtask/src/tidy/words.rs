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

/// Words in the place of an actor, and the most of them in 1,000 words.
const NO_ACTOR: &[&str] = &["somebody", "nobody", "whoever"];
const MOST_NO_ACTOR: f64 = 0.1;
/// Beginnings of a clause in the place of a noun, and the most of them in 1,000 words.
const NO_NOUN: &[&str] = &["what is", "what was", "what has"];
const MOST_NO_NOUN: f64 = 0.2;

/// How often words stand in the place of an actor or a noun, in all comments and documents.
pub(crate) struct Rates {
    n_words: usize,
    n_no_actor: usize,
    n_no_noun: usize,
}

impl Rates {
    pub(super) fn of(tree: &Tree) -> Self {
        let mut rates = Self { n_words: 0, n_no_actor: 0, n_no_noun: 0 };
        let texts = tree.rust().map(|file| comments(&file.text));
        let documents = tree.files().iter().filter(|file| is_document(&file.path));
        for text in texts.chain(documents.map(|file| paragraphs(&file.text))) {
            rates.n_words += text.split_whitespace().count();
            rates.n_no_actor += count_of(&text, NO_ACTOR);
            rates.n_no_noun += n_clauses(&text);
        }
        rates
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of words are small")]
    fn in_thousand(&self, n: usize) -> f64 {
        n as f64 * 1_000.0 / self.n_words.max(1) as f64
    }

    fn check(&self, findings: &mut Vec<Finding>) {
        for (n, most, what) in
            [(self.n_no_actor, MOST_NO_ACTOR, NO_ACTOR), (self.n_no_noun, MOST_NO_NOUN, NO_NOUN)]
        {
            let rate = self.in_thousand(n);
            if most < rate {
                let words = what.join(", ");
                let what = format!("{rate:.2} in 1,000 words are {words}, {most} may be");
                findings.push(Finding::new("CONTRIBUTING.md", 1, what));
            }
        }
    }
}

impl std::fmt::Display for Rates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} words in comments and documents", self.n_words)?;
        for (n, most, what) in
            [(self.n_no_actor, MOST_NO_ACTOR, NO_ACTOR), (self.n_no_noun, MOST_NO_NOUN, NO_NOUN)]
        {
            let (rate, words) = (self.in_thousand(n), what.join(", "));
            writeln!(f, "{n:5}  {rate:.2} in 1,000 (at most {most})  {words}")?;
        }
        Ok(())
    }
}

fn is_document(path: &str) -> bool {
    path.ends_with(".md") && !path.starts_with("crates/")
}

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
    let documents = tree.files().iter().filter(|file| is_document(&file.path));
    check(DOCUMENTS, "CONTRIBUTING.md", documents.map(|file| count(&file.text)).sum());
    Rates::of(tree).check(findings);
}

/// Returns the comments of a Rust file, those in lines that follow one another as one line.
fn comments(text: &str) -> String {
    let lines = text.lines().map(str::trim_start);
    let words = lines.map(|line| match line.starts_with("//") {
        true => line.trim_start_matches(['/', '!']),
        false => "",
    });
    paragraphs(&words.collect::<Vec<_>>().join("\n"))
}

/// Joins the lines of each paragraph, list item and row of a table.
fn paragraphs(text: &str) -> String {
    let mut joined = String::new();
    for line in text.lines().map(str::trim) {
        let begins = line.is_empty() || line.starts_with(['-', '*', '|', '#', '>']);
        joined.push(if begins { '\n' } else { ' ' });
        joined.push_str(line);
    }
    joined
}

/// Returns how often the counted words occur in a text.
fn count(text: &str) -> usize {
    count_of(text, COUNTED)
}

fn count_of(text: &str, counted: &[&str]) -> usize {
    let words: Vec<String> =
        text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase).collect();
    let words: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
    let is_at = |at: usize, counted: &str| {
        let mut wanted = counted.split(' ').enumerate();
        wanted.all(|(n, word)| words.get(at + n) == Some(&word))
    };
    let at = |at: usize| counted.iter().filter(|counted| is_at(at, counted)).count();
    (0..words.len()).map(at).sum()
}

/// Returns how many clauses begin with words in the place of a noun: at the beginning of a paragraph or behind a sign
/// that ends a clause.
fn n_clauses(text: &str) -> usize {
    let text = text.to_lowercase();
    let begins = |at: usize| {
        let before = text.get(..at).unwrap_or_default().trim_end_matches([' ', '*', '_', '"', '(']);
        before.is_empty() || before.ends_with(['.', ':', ';', '\n', '|', '-', '#', '?', '!', '>'])
    };
    let is_word = |rest: &str| !rest.starts_with(char::is_alphanumeric);
    let of = |words: &&str| {
        let found = text.match_indices(*words);
        let found = found.filter(|(at, _)| {
            begins(*at) && is_word(text.get(at + words.len()..).unwrap_or_default())
        });
        found.count()
    };
    NO_NOUN.iter().map(of).sum()
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

    #[test]
    fn clauses_are_counted_where_they_begin() {
        for (text, n) in [
            ("/// What is there.\n/// More.", 1),
            ("/// Keeps\n/// what is there.", 0),
            ("// a: what was there; what has gone", 2),
            ("let x = 1; // what is there", 0),
            ("/// What island", 0),
        ] {
            assert_eq!(n_clauses(&comments(text)), n, "{text}");
        }
        assert_eq!(
            n_clauses(&paragraphs("| what is | a |\n- What was\n\n## What has\nwhat is")),
            3
        );
    }
}
