//! Lists calls beneath the calls that caused them: those of a sub-agent beneath its spawn, commands of a skill beneath its
//! load.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use sinew_guard::Record;

use super::{Shown, shown_line};
use crate::screen;

/// How deep calls are indented.
const MAX_INDENT: usize = 12;

/// Prints records as a tree, the oldest first.
pub(super) fn print(out: &mut impl Write, mut records: Vec<Record>) -> anyhow::Result<()> {
    records.sort_by_key(|record| record.link.seq);
    let mut by_id = HashMap::new();
    for (at, record) in records.iter().enumerate() {
        if let Some(id) = record.text("call_id").filter(|_| record.text("event").is_none()) {
            by_id.insert((record.text("session"), id), at);
        }
    }
    let mut beneath: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for (at, record) in records.iter().enumerate() {
        let parent = record.text("parent").and_then(|id| by_id.get(&(record.text("session"), id)));
        beneath.entry(parent.copied().filter(|parent| *parent != at)).or_default().push(at);
    }
    // A call is recorded when it ends, so its own record comes behind those beneath it.
    let first = |at: usize| first_beneath(&beneath, at, 0);
    let mut roots = beneath.get(&None).cloned().unwrap_or_default();
    roots.sort_by_key(|at| first(*at));
    writeln!(out, "{:>7}  {:<20}  {:>9}  {:<16}  CALL", "SEQ", "TIME", "MS", "OUTCOME")?;
    let mut open: Vec<(usize, usize)> = roots.into_iter().rev().map(|at| (at, 0)).collect();
    let mut agents: Vec<Option<&str>> = Vec::new();
    while let Some((at, depth)) = open.pop() {
        let Some(record) = records.get(at) else { continue };
        let shown = Shown::of(record);
        let indent = "  ".repeat(depth.min(MAX_INDENT));
        agents.truncate(depth);
        let above = agents.last().copied().flatten();
        let agent = record.text("agent");
        agents.push(agent);
        let whose = match agent.filter(|_| agent != above) {
            Some(agent) => format!("({}) ", shown_line(agent)),
            None => String::new(),
        };
        writeln!(
            out,
            "{:>7}  {:<20}  {:>9}  {}  {indent}{whose}{} {}",
            record.link.seq,
            shown.time,
            shown.ms,
            screen::mark(&shown.outcome, 16),
            shown.tool,
            shown.what
        )?;
        let children = beneath.get(&Some(at)).into_iter().flatten().rev();
        open.extend(children.map(|child| (*child, depth + 1)));
    }
    Ok(())
}

/// Returns the first record of a call and of all beneath it.
fn first_beneath(beneath: &BTreeMap<Option<usize>, Vec<usize>>, at: usize, depth: usize) -> usize {
    let children = beneath.get(&Some(at)).into_iter().flatten();
    // Deeper ones do not come before those in between by much.
    let below = children.filter(|_| depth < MAX_INDENT);
    below.map(|child| first_beneath(beneath, *child, depth + 1)).min().unwrap_or(at).min(at)
}
