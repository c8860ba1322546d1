//! Verifies a hash chain: walks over its records and reports the first mismatches.
//!
//! The walk needs only the key, so it verifies exported records too. After a mismatch it continues from the
//! stored hash, so that one change is one finding.

use std::collections::BTreeMap;

use super::key::Key;
use super::record::{Link, Record};
use sinew_fs::process_identity::{Life, ProcessIdentity};

/// The most reported findings; further ones are only counted.
const MAX_FINDINGS: usize = 100;
/// How many mismatching records are tried at one another's positions.
const MAX_COMPARED: usize = 16;

/// A fault of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The record, or the first of several.
    pub seq: i64,
    /// The kind: `changed`, `missing`, `reordered`, `cut`, `head`, `anchor`, `gone`, `key`, `unreadable`,
    /// `damaged` or `other`.
    pub what: &'static str,
    /// The fault in words.
    pub text: String,
}

impl Finding {
    pub(super) fn new(seq: i64, what: &'static str, text: impl Into<String>) -> Self {
        Self { seq, what, text: text.into() }
    }
}

/// A call with an intent and without an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The record number of the intent.
    pub seq: i64,
    /// The call.
    pub call_id: String,
    /// Its tool.
    pub tool: String,
    /// Whether its process is dead, if known.
    pub is_dead: Option<bool>,
}

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The faults in chain order; an intact chain has none.
    pub findings: Vec<Finding>,
    /// The number of further faults.
    pub n_more: u64,
    /// The number of examined records.
    pub n_records: u64,
    /// The number of the first record.
    pub first: Option<i64>,
    /// The last record.
    pub last: Link,
    /// The records after the noted head, as after a crash before the head was written.
    pub n_beyond_head: u64,
    /// The calls without an outcome.
    pub unfinished: Vec<Unfinished>,
    /// Events of the chain itself: a new start, retention, or lost records.
    pub notes: Vec<Finding>,
}

impl Verified {
    /// Returns whether no fault was found.
    pub fn is_whole(&self) -> bool {
        self.findings.is_empty()
    }
}

/// A mismatching record, with the previous hash.
struct Bad {
    finding: usize,
    previous: [u8; 32],
    record: Record,
}

/// The walk over the records in stored order.
pub struct Walk<'a> {
    key: &'a Key,
    /// The previous record, if known.
    previous: Option<Link>,
    bad: Vec<Bad>,
    unfinished: BTreeMap<i64, (String, String, Option<ProcessIdentity>)>,
    verified: Verified,
}

impl<'a> Walk<'a> {
    /// Starts after a record. Without one, the first record cannot be verified, which is a finding.
    pub fn after(key: &'a Key, previous: Option<Link>) -> Self {
        Self {
            key,
            previous,
            bad: Vec::new(),
            unfinished: BTreeMap::new(),
            verified: Verified {
                findings: Vec::new(),
                n_more: 0,
                n_records: 0,
                first: None,
                last: previous.unwrap_or(Link::START),
                n_beyond_head: 0,
                unfinished: Vec::new(),
                notes: Vec::new(),
            },
        }
    }

    /// Adds a finding.
    pub(super) fn find(&mut self, finding: Finding) {
        if self.verified.findings.len() < MAX_FINDINGS {
            self.verified.findings.push(finding);
        } else {
            self.verified.n_more += 1;
        }
    }

    pub(super) fn remark(&mut self, seq: i64, what: &'static str, text: impl Into<String>) {
        if self.verified.notes.len() < MAX_FINDINGS {
            self.verified.notes.push(Finding::new(seq, what, text));
        }
    }

    /// Returns the last record of the walk.
    pub(super) fn last(&self) -> Link {
        self.verified.last
    }

    /// Sets the number of records after the head.
    pub(super) fn beyond(&mut self, n_records: i64) {
        self.verified.n_beyond_head = u64::try_from(n_records).unwrap_or(0);
    }

    /// Reports a record that names another predecessor.
    pub fn names_other(&mut self, seq: i64, before: Link) {
        if self.previous.is_some_and(|previous| previous != before) {
            let text =
                format!("record {seq} names another record before it than the one that is there");
            self.find(Finding::new(seq, "changed", text));
        }
    }

    /// Returns the first mismatch of a record. Events about the past, such as a missing head, do not count.
    pub(super) fn first_misfit(&self) -> Option<&Finding> {
        let is_past = |finding: &&Finding| !matches!(finding.what, "cut" | "head" | "gone");
        self.verified.findings.iter().find(is_past)
    }

    /// Returns the first finding so far.
    pub(super) fn has_found(&self) -> Option<&Finding> {
        self.verified.findings.first()
    }

    /// Verifies the next record.
    pub fn record(&mut self, record: Record) {
        let Link { seq, hash } = record.link;
        self.verified.n_records += 1;
        self.verified.first.get_or_insert(seq);
        match self.previous {
            Some(Link { seq: last, hash: previous }) if Some(seq) == last.checked_add(1) => {
                self.look(record, &previous);
            }
            Some(Link { seq: last, .. }) if last < seq => {
                let (first, until) = (last.saturating_add(1), seq - 1);
                let text = match until.saturating_sub(last) {
                    1 => format!("record {first} is missing"),
                    n => format!("{n} records are missing, from {first} to {until}"),
                };
                self.find(Finding::new(first, "missing", text));
                // Without its predecessor the hash cannot be verified.
                self.heed(&record);
            }
            Some(Link { seq: last, .. }) => {
                let text = format!("record {seq} comes after record {last}");
                self.find(Finding::new(seq, "reordered", text));
                self.heed(&record);
            }
            None => {
                let text = format!(
                    "nothing says which record came before record {seq}, so it cannot be compared"
                );
                self.find(Finding::new(seq, "anchor", text));
                self.heed(&record);
            }
        }
        self.previous = Some(Link { seq, hash });
        self.verified.last = Link { seq, hash };
    }

    fn look(&mut self, record: Record, previous: &[u8; 32]) {
        let Link { seq, hash } = record.link;
        if blake3::Hash::from(record.hash_at(self.key, seq, previous)) == blake3::Hash::from(hash) {
            return self.heed(&record);
        }
        let at = self.verified.findings.len();
        let text = format!("record {seq} does not match its hash: it was changed or put here");
        self.find(Finding::new(seq, "changed", text));
        if self.bad.len() < MAX_COMPARED {
            self.bad.push(Bad { finding: at, previous: *previous, record });
        }
    }

    /// Notes intents and events of a record.
    fn heed(&mut self, record: &Record) {
        let seq = record.link.seq;
        let text = |name| record.text(name).unwrap_or_default().to_owned();
        match record.text("phase") {
            Some("intent") => {
                let of = (text("call_id"), text("tool"), mark(record));
                self.unfinished.insert(seq, of);
            }
            Some("event") => {
                match record.text("event").unwrap_or_default() {
                    "withdrawn" => {}
                    "cut" => self.find(Finding::new(seq, "cut", text("text"))),
                    "head" => self.find(Finding::new(seq, "head", text("text"))),
                    "gone" => self.find(Finding::new(seq, "gone", text("text"))),
                    "begin" => self.remark(seq, "begin", text("text")),
                    "pruned" => self.remark(seq, "pruned", text("text")),
                    "lost" => self.remark(seq, "lost", text("text")),
                    // Other events do not concern the chain.
                    _ => {}
                }
            }
            _ => {}
        }
        if let Some(intent) = record.number("intent") {
            self.unfinished.remove(&intent);
        }
    }

    /// Returns the result of the walk.
    pub fn end(mut self) -> Verified {
        self.place();
        let own = ProcessIdentity::own();
        let unfinished = self.unfinished.into_iter().map(|(seq, (call_id, tool, mark))| {
            Unfinished { seq, call_id, tool, is_dead: is_dead(mark.as_ref(), &own) }
        });
        self.verified.unfinished = unfinished.collect();
        self.verified.findings.sort_by_key(|finding| finding.seq);
        self.verified
    }

    /// Detects reordered records: tries each mismatch at the other positions.
    fn place(&mut self) {
        // Candidates for the previous hash: stored predecessors and other mismatching records.
        let previous: Vec<[u8; 32]> =
            self.bad.iter().flat_map(|bad| [bad.previous, bad.record.link.hash]).collect();
        let places: Vec<i64> = self.bad.iter().map(|bad| bad.record.link.seq).collect();
        for bad in &self.bad {
            let Link { seq, hash } = bad.record.link;
            let fits = |place: &&i64| {
                let at = |previous| bad.record.hash_at(self.key, **place, previous) == hash;
                previous.iter().any(at)
            };
            let Some(place) = places.iter().find(fits) else { continue };
            if let Some(finding) = self.verified.findings.get_mut(bad.finding) {
                finding.what = "reordered";
                finding.text = if *place == seq {
                    format!(
                        "record {seq} does not follow the one before it: their order was changed"
                    )
                } else {
                    format!("the record at the place of record {seq} is record {place}")
                };
            }
        }
    }
}

impl Record {
    /// Returns whether the record's process is dead, if known.
    pub fn is_of_dead_process(&self) -> Option<bool> {
        is_dead(mark(self).as_ref(), &ProcessIdentity::own())
    }
}

fn is_dead(mark: Option<&ProcessIdentity>, own: &ProcessIdentity) -> Option<bool> {
    match mark?.life(own) {
        Life::Alive => Some(false),
        Life::Dead => Some(true),
        Life::Unknown | Life::Elsewhere => None,
    }
}

fn mark(record: &Record) -> Option<ProcessIdentity> {
    Some(ProcessIdentity {
        machine: record.text("machine")?.to_owned(),
        boot: record.text("boot")?.to_owned(),
        namespace: record.number("pid_namespace")?,
        pid: record.number("pid")?,
        started: record.number("pid_started")?,
    })
}

#[cfg(test)]
mod tests;
