//! What a row is, what it found, and how that is told: on the terminal and as JSON.
//!
//! The table of the rows is in [`rows`](super::rows). A bar stands in it with its gate, and a row
//! gives the value for the bar by the name of the bar, so a value without a gate or a gate without
//! a value is seen.

use std::fmt;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::Bench;
use super::stats::{Measured, Series};

/// One line of the table: its measurement and its gate.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) run_in: Suite,
    pub(super) bars: &'static [Bar],
    pub(super) run: fn(&Bench, &mut Sheet) -> Result<()>,
}

/// When a row is measured, and whether it decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Suite {
    /// In every run.
    Every,
    /// Where nightly rows are asked for: it takes minutes or gigabytes.
    Nightly,
    /// In every run, without a say in how the run ends.
    Information,
}

impl Suite {
    pub(super) fn is_nightly(self) -> bool {
        self == Self::Nightly
    }

    fn decides(self) -> bool {
        matches!(self, Self::Every | Self::Nightly)
    }
}

/// A value with its limits. The gate must hold; the stretch is the aim.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bar {
    name: &'static str,
    sense: Sense,
    gate: f64,
    stretch: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sense {
    AtMost,
    AtLeast,
}

impl Bar {
    pub(super) const fn at_most(name: &'static str, gate: f64, stretch: f64) -> Self {
        Self { name, sense: Sense::AtMost, gate, stretch: Some(stretch) }
    }

    pub(super) const fn at_least(name: &'static str, gate: f64, stretch: f64) -> Self {
        Self { name, sense: Sense::AtLeast, gate, stretch: Some(stretch) }
    }

    /// A bar with no aim beyond its gate.
    pub(super) const fn limit(name: &'static str, gate: f64) -> Self {
        Self { name, sense: Sense::AtMost, gate, stretch: None }
    }

    fn holds(&self, value: f64, limit: f64) -> bool {
        match self.sense {
            Sense::AtMost => value <= limit,
            Sense::AtLeast => limit <= value,
        }
    }

    fn sign(&self) -> &'static str {
        match self.sense {
            Sense::AtMost => "<=",
            Sense::AtLeast => ">=",
        }
    }
}

/// What the numbers of a figure are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Bytes,
    PerSecond,
    Count,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Bytes => "B",
            Self::PerSecond => "1/s",
            Self::Count => "",
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::Seconds if value < 1e-3 => format!("{:.1} us", value * 1e6),
            Self::Seconds if value < 1.0 => format!("{:.2} ms", value * 1e3),
            Self::Seconds => format!("{value:.2} s"),
            Self::Bytes if value < 1e6 => format!("{:.1} KB", value / 1e3),
            Self::Bytes => format!("{:.1} MB", value / 1e6),
            Self::PerSecond if 1e4 <= value => format!("{:.1} k/s", value / 1e3),
            Self::PerSecond => format!("{value:.0} /s"),
            Self::Count => format!("{value:.0}"),
        }
    }
}

/// What a row has found.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    figures: Vec<(String, Unit, Series)>,
    values: Vec<(&'static str, f64)>,
    notes: Vec<String>,
}

impl Sheet {
    pub(super) fn figures(&mut self, unit: Unit, measured: &Measured) {
        for (name, series) in measured.sides() {
            self.figures.push((name.to_owned(), unit, series.clone()));
        }
    }

    pub(super) fn times(&mut self, measured: &Measured) {
        self.figures(Unit::Seconds, measured);
    }

    pub(super) fn figure(&mut self, name: impl Into<String>, unit: Unit, value: f64) {
        let mut series = Series::default();
        series.push(value);
        self.figures.push((name.into(), unit, series));
    }

    /// Gives the value of a bar; `None` where a side of it is not there.
    pub(super) fn value(&mut self, bar: &'static str, value: Option<f64>) {
        if let Some(value) = value {
            self.values.push((bar, value));
        }
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Pass,
    Fail,
    Skip,
    /// Measured, and without a say.
    Info,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Skip => "SKIP",
            Self::Info => "INFO",
        })
    }
}

/// A row that was measured, judged by its bars.
pub(super) struct Judged {
    row: &'static Row,
    sheet: Sheet,
    error: Option<String>,
    n_measured: usize,
}

impl Judged {
    /// Measures a row, and a second time if it misses a gate: then the second time decides.
    pub(super) fn measure(bench: &Bench, row: &'static Row) -> Self {
        let first = Self::once(bench, row, 1);
        let missed = first.error.is_none() && first.status() == Status::Fail;
        if missed { Self::once(bench, row, 2) } else { first }
    }

    fn once(bench: &Bench, row: &'static Row, n_measured: usize) -> Self {
        let mut sheet = Sheet::default();
        let run = (row.run)(bench, &mut sheet).and_then(|()| known(row, &sheet));
        Self { row, sheet, error: run.err().map(|error| format!("{error:#}")), n_measured }
    }

    fn bars(&self) -> impl Iterator<Item = (&'static Bar, Option<f64>)> {
        self.row.bars.iter().map(|bar| {
            let value = self.sheet.values.iter().find(|(name, _)| *name == bar.name);
            (bar, value.map(|(_, value)| *value))
        })
    }

    pub(super) fn status(&self) -> Status {
        let mut measured = self.bars().filter_map(|(bar, value)| Some((bar, value?))).peekable();
        if !self.row.run_in.decides() {
            Status::Info
        } else if self.error.is_some() {
            Status::Fail
        } else if measured.peek().is_none() {
            Status::Skip
        } else if measured.all(|(bar, value)| bar.holds(value, bar.gate)) {
            Status::Pass
        } else {
            Status::Fail
        }
    }

    fn to_json(&self) -> Value {
        let figures: Vec<Value> = self
            .sheet
            .figures
            .iter()
            .map(|(side, unit, series)| {
                json!({
                    "side": side, "unit": unit.name(), "n": series.n(), "median": series.median(),
                    "min": series.min(), "max": series.max(), "p99": series.quantile(0.99),
                })
            })
            .collect();
        let bars: Vec<Value> = self
            .bars()
            .map(|(bar, value)| {
                json!({
                    "bar": bar.name, "value": value, "sense": bar.sign(), "gate": bar.gate,
                    "stretch": bar.stretch, "holds": value.map(|value| bar.holds(value, bar.gate)),
                })
            })
            .collect();
        json!({
            "row": self.row.name, "about": self.row.about, "status": self.status().to_string(),
            "times_measured": self.n_measured, "figures": figures, "bars": bars,
            "notes": self.sheet.notes, "error": self.error,
        })
    }
}

/// Refuses values that no bar asks for.
fn known(row: &Row, sheet: &Sheet) -> Result<()> {
    for (name, _) in &sheet.values {
        if !row.bars.iter().any(|bar| bar.name == *name) {
            bail!("the row has a value and no bar: `{name}`");
        }
    }
    Ok(())
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:<22} {}", self.status(), self.row.name, self.row.about)?;
        if 1 < self.n_measured {
            write!(f, " (measured twice)")?;
        }
        for (side, unit, series) in &self.sheet.figures {
            write!(f, "\n       {side:<22} {:>10}", unit.show(series.median()))?;
            if 1 < series.n() {
                let (min, max) = (unit.show(series.min()), unit.show(series.max()));
                write!(f, "   min {min:>10}   max {max:>10}   n {}", series.n())?;
            }
        }
        for (bar, value) in self.bars() {
            let Some(value) = value else {
                write!(f, "\n  skip {:<22}", bar.name)?;
                continue;
            };
            let holds = bar.holds(value, bar.gate);
            let mark = if holds { "  ok" } else { "MISS" };
            write!(
                f,
                "\n  {mark} {:<22} {value:>10.3}   gate {} {}",
                bar.name,
                bar.sign(),
                bar.gate
            )?;
            if let Some(stretch) = bar.stretch {
                let reached = if bar.holds(value, stretch) { "reached" } else { "not reached" };
                write!(f, "   stretch {stretch} {reached}")?;
            }
        }
        for note in &self.sheet.notes {
            write!(f, "\n       {note}")?;
        }
        if let Some(error) = &self.error {
            write!(f, "\n       error: {error}")?;
        }
        Ok(())
    }
}

/// All rows of a run.
#[derive(Default)]
pub(super) struct Report {
    rows: Vec<Judged>,
}

impl Report {
    pub(super) fn push(&mut self, judged: Judged) {
        self.rows.push(judged);
    }

    pub(super) fn n(&self, status: Status) -> usize {
        self.rows.iter().filter(|row| row.status() == status).count()
    }

    /// Returns the last line of a run.
    pub(super) fn total(&self) -> String {
        let [passed, failed, skipped] =
            [Status::Pass, Status::Fail, Status::Skip].map(|status| self.n(status));
        format!("{passed} passed, {failed} failed, {skipped} skipped")
    }

    pub(super) fn to_json(&self, conditions: &Value) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(Judged::to_json).collect();
        json!({
            "conditions": conditions,
            "passed": self.n(Status::Pass),
            "failed": self.n(Status::Fail),
            "skipped": self.n(Status::Skip),
            "information": self.n(Status::Info),
            "rows": rows,
        })
    }
}
