//! Ranks tools by the words of a query: BM25F over name, description and parameter names.
//!
//! A word of a name counts more than one of a description, and a word that few tools have more than a common one.
//! A tool whose whole name was asked for comes before one whose name says more: `create pull request` is not
//! `create_pull_request_review`. Words are compared by their stems, so that `issues` finds `create_issue`.
//! Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), has the formula.

use std::collections::HashMap;

use rust_stemmers::{Algorithm, Stemmer};
use serde_json::Value;

/// The fields of a tool: how much a word in them counts, and how much their length does.
const FIELDS: [(f64, f64); 3] = [(3.0, 0.5), (1.0, 0.75), (0.5, 0.75)];
/// How soon further occurrences of a word count no more.
const K1: f64 = 1.2;
/// How much of its score a tool gains if the query has every word of its name.
const WHOLE_NAME: f64 = 0.5;

/// A tool as it is ranked.
pub(crate) struct Document<'a> {
    pub(crate) name: &'a str,
    pub(crate) title: Option<&'a str>,
    pub(crate) description: &'a str,
    pub(crate) parameters: &'a Value,
}

/// An index over tools, by their position.
pub(crate) struct Ranking {
    stemmer: Stemmer,
    /// For each stem the tools that have it, with its weight there.
    postings: HashMap<String, Vec<(usize, f64)>>,
    /// The stems of the name of each tool, each once.
    names: Vec<Vec<String>>,
}

impl Ranking {
    pub(crate) fn new<'a>(documents: impl Iterator<Item = Document<'a>>) -> Self {
        let stemmer = Stemmer::create(Algorithm::English);
        let fields: Vec<[Vec<String>; 3]> =
            documents.map(|document| fields(&stemmer, &document)).collect();
        let n_tools = fields.len();
        let mean = |at: usize| {
            let all: usize = fields.iter().filter_map(|of_tool| Some(of_tool.get(at)?.len())).sum();
            (all as f64 / n_tools.max(1) as f64).max(1.0)
        };
        let means = [mean(0), mean(1), mean(2)];
        let mut postings: HashMap<String, Vec<(usize, f64)>> = HashMap::new();
        let mut names = Vec::with_capacity(n_tools);
        for (tool, of_tool) in fields.into_iter().enumerate() {
            let [name, ..] = &of_tool;
            let mut name = name.clone();
            name.sort_unstable();
            name.dedup();
            names.push(name);
            let mut weights: HashMap<String, f64> = HashMap::new();
            for ((words, (weight, b)), mean) in of_tool.into_iter().zip(FIELDS).zip(means) {
                let length = 1.0 - b + b * words.len() as f64 / mean;
                for word in words {
                    *weights.entry(word).or_default() += weight / length;
                }
            }
            for (word, weight) in weights {
                postings.entry(word).or_default().push((tool, weight));
            }
        }
        Self { stemmer, postings, names }
    }

    /// Returns how few tools have a word.
    fn rarity(&self, word: &str) -> f64 {
        let n_found = self.postings.get(word).map_or(0, Vec::len) as f64;
        (1.0 + (self.names.len() as f64 - n_found + 0.5) / (n_found + 0.5)).ln()
    }

    /// Returns how much of the name of a tool a query has, from 0 to 1.
    fn coverage(&self, tool: usize, query: &[&String]) -> f64 {
        let Some(name) = self.names.get(tool) else { return 0.0 };
        let (mut had, mut all) = (0.0, f64::EPSILON);
        for word in name {
            let rarity = self.rarity(word);
            all += rarity;
            if query.contains(&word) {
                had += rarity;
            }
        }
        had / all
    }

    /// Returns the tools that have one of the words and all that they must have, best first.
    pub(crate) fn ranked(&self, words: &[String], must: &[String]) -> Vec<usize> {
        let stems = |texts: &[String]| -> Vec<String> {
            texts.iter().flat_map(|text| stems(&self.stemmer, text)).collect()
        };
        let (words, must) = (stems(words), stems(must));
        let query: Vec<&String> = words.iter().chain(&must).collect();
        let mut scores: HashMap<usize, f64> = HashMap::new();
        for word in &query {
            let Some(found) = self.postings.get(*word) else { continue };
            let rarity = self.rarity(word);
            for (tool, weight) in found {
                *scores.entry(*tool).or_default() += rarity * weight / (K1 + weight);
            }
        }
        let has = |tool: usize, word: &String| {
            let found = self.postings.get(word);
            found.is_some_and(|found| found.iter().any(|(other, _)| *other == tool))
        };
        let mut ranked: Vec<(usize, f64)> = scores
            .into_iter()
            .filter(|(tool, _)| must.iter().all(|word| has(*tool, word)))
            .map(|(tool, score)| (tool, score * (1.0 + WHOLE_NAME * self.coverage(tool, &query))))
            .collect();
        // Equal ones in the order of the catalog.
        ranked.sort_by(|(one, score), (other, than)| than.total_cmp(score).then(one.cmp(other)));
        ranked.into_iter().map(|(tool, _)| tool).collect()
    }
}

fn fields(stemmer: &Stemmer, document: &Document<'_>) -> [Vec<String>; 3] {
    let mut name = stems(stemmer, document.name);
    name.extend(document.title.into_iter().flat_map(|title| stems(stemmer, title)));
    let parameters = document.parameters.get("properties").and_then(Value::as_object);
    let parameters = parameters.into_iter().flatten();
    let parameters = parameters.flat_map(|(name, _)| stems(stemmer, name)).collect();
    [name, stems(stemmer, document.description), parameters]
}

/// Returns the stems of the words of a text; `createIssue` and `create_issue` have two.
fn stems(stemmer: &Stemmer, text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut before = ' ';
    for c in text.chars() {
        let begins = c.is_uppercase() && before.is_lowercase();
        if (begins || !c.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    if !word.is_empty() {
        words.push(word);
    }
    words.iter().map(|word| stemmer.stem(word).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(query: &str, must: &str, expected: &[&str]) {
        let tools = [
            (
                "github__create_issue",
                "Create a new issue in a repository",
                json!({"properties": {"title": {}}}),
            ),
            ("github__list_issues", "List issues", json!({})),
            (
                "slack__postMessage",
                "Send a message to a channel",
                json!({"properties": {"channel_id": {}}}),
            ),
            ("mail__send", "Send an email message", json!({"properties": {"to": {}}})),
        ];
        let documents = tools.iter().map(|(name, description, parameters)| Document {
            name,
            title: None,
            description,
            parameters,
        });
        let ranking = Ranking::new(documents);
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let ranked = ranking.ranked(&words(query), &words(must));
        let names: Vec<&str> = ranked.iter().map(|at| tools[*at].0).collect();
        assert_eq!(names.get(..expected.len()), Some(expected), "{query}: {names:?}");
        if expected.is_empty() {
            assert!(names.is_empty(), "{query}: {names:?}");
        }
    }

    #[test]
    fn names_count_more_than_descriptions() {
        check("list github issues", "", &["github__list_issues", "github__create_issue"]);
        check("creating issues", "", &["github__create_issue", "github__list_issues"]);
        check("post message", "", &["slack__postMessage", "mail__send"]);
        check("channel", "", &["slack__postMessage"]);
        check("send message", "email", &["mail__send"]);
        check("message", "list", &["github__list_issues"]);
        check("nothing", "", &[]);
    }
}
