//! The corpora of commands: ways around a judge, and plain reads that nobody should be asked about.
//!
//! Both were written before there was anything to judge them. Here each row shows what it is: a way
//! around does harm where anything runs it, a plain read does none.

mod fixture;
mod oracle;

use std::collections::BTreeMap;

use oracle::{Ground, Oracle};
use serde::Deserialize;

use crate::tree::skipped;

/// The fewest rows of each class that must be shown to do harm on this machine.
const FEWEST: usize = 10;

/// One row of a corpus.
#[derive(Debug, Deserialize)]
struct Case {
    /// What the way around uses.
    #[serde(default)]
    class: String,
    command: Text,
}

/// A command, or its parts and how often each stands there.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Text {
    Whole(String),
    Parts(Vec<(String, usize)>),
}

impl Case {
    fn text(&self) -> String {
        match &self.command {
            Text::Whole(text) => text.clone(),
            Text::Parts(parts) => parts.iter().map(|(text, times)| text.repeat(*times)).collect(),
        }
    }

    /// Returns the command as it is shown, on one line and not too long.
    fn shown(&self) -> String {
        let shown: String = self.text().escape_debug().take(100).collect();
        format!("{}: {shown}", self.class)
    }
}

fn corpus(text: &str) -> Vec<Case> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn ways_around_do_harm() {
    let cases = corpus(include_str!("corpora/bypasses.jsonl"));
    let Some(oracle) = Oracle::new() else { return };
    let harm = |case: &Case| {
        let run = |ground| oracle.harm(ground, &case.text());
        match case.class.as_str() {
            "repository" => run(Ground::Trapped),
            "config" => run(Ground::Quiet).or_else(|| run(Ground::Trapped)),
            _ => run(Ground::Quiet),
        }
    };
    let harms: Vec<_> = cases.iter().map(harm).collect();
    let mut shown = BTreeMap::<&str, [usize; 2]>::new();
    let mut idle = Vec::new();
    for (case, harm) in cases.iter().zip(&harms) {
        let [n_shown, n_rows] = shown.entry(&case.class).or_default();
        *n_rows += 1;
        match harm {
            Some(_) => *n_shown += 1,
            None => idle.push(case.shown()),
        }
    }
    let lacking: Vec<_> = shown.iter().filter(|(_, [n_shown, _])| *n_shown < FEWEST).collect();
    assert!(lacking.is_empty(), "classes with too few rows that do harm: {lacking:?}: {idle:#?}");
    if !idle.is_empty() {
        let (n_idle, n_rows) = (idle.len(), cases.len());
        skipped(&format!("{n_idle} of {n_rows} ways around do no harm on this machine: {idle:#?}"));
    }
}

#[test]
fn plain_reads_do_none() {
    let cases = corpus(include_str!("corpora/plain.jsonl"));
    let Some(oracle) = Oracle::new() else { return };
    let harms = cases.iter().map(|case| oracle.harm(Ground::Quiet, &case.text()));
    let bad: Vec<_> = cases.iter().zip(harms).filter(|(_, harm)| harm.is_some()).collect();
    assert!(bad.is_empty(), "plain reads that do harm: {bad:#?}");
}
