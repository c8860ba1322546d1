//! Counts and times calls, and exports Prometheus text.
//!
//! One recorder feeds every metric family as a call ends, so all families count the same calls; two gauges say how
//! many run. Families of other runtimes are served for every dialect, so existing dashboards work.
//! Labels are tool names or closed word lists, never a path, a session or other text from a caller.

#[cfg(feature = "cli")]
pub(crate) mod file;
#[cfg(feature = "cli")]
mod text;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::{self, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use sinew_tool::sync::lock;
use sinew_tool::{Closing, Recorder};

/// The label value of an unknown tool or dialect.
const UNKNOWN: &str = "unknown";

/// Histogram bounds in milliseconds: reads take fractions of one, and a person takes minutes.
const BOUNDS_MS: [f64; 21] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0,
    5_000.0, 10_000.0, 30_000.0, 60_000.0, 120_000.0, 300_000.0, 600_000.0,
];

/// The metric families: name, help text, and for a histogram the milliseconds of its unit.
const FAMILIES: &[(&str, &str, Option<f64>)] = &[
    (
        "function_call_duration_ms",
        "How long calls took in milliseconds, under the name of agentos.",
        Some(1.0),
    ),
    (
        "moltis_tool_execution_duration_seconds",
        "How long calls took in seconds, under the name of Moltis.",
        Some(1e3),
    ),
    ("moltis_tool_execution_errors_total", "Calls that failed, under the name of Moltis.", None),
    ("moltis_tool_executions_total", "Calls under the name of Moltis.", None),
    (
        "sinew_approval_wait_ms",
        "How long questions waited for their answer in milliseconds.",
        Some(1.0),
    ),
    ("sinew_approvals_total", "Questions that ended, by the answer.", None),
    (
        "sinew_call_duration_ms",
        "How long calls took in milliseconds, waiting for an answer included.",
        Some(1.0),
    ),
    ("sinew_calls_total", "Calls that ended, by how they did.", None),
    (
        "sinew_changed_bytes_total",
        "Bytes of what calls wrote: the new contents of the files they changed.",
        None,
    ),
    ("sinew_changed_files_total", "Files that calls changed.", None),
    ("sinew_reply_bytes_total", "Bytes of text in replies.", None),
    ("tool_execution_total", "Calls under the name of agentos.", None),
];

/// The gauges of running calls: name and help text.
const RUNNING: [(&str, &str); 2] = [
    ("moltis_tool_executions_in_flight", "Calls that run, under the name of Moltis."),
    ("sinew_calls_in_flight", "Calls that run, those that wait for an answer included."),
];

/// The error of gathering metrics, which never occurs.
pub type MetricsError = Infallible;

/// Counts and times every call: a recorder for [`Builder::recorder`](crate::Builder::recorder).
///
/// ```
/// use std::sync::Arc;
/// use sinew::ledger::Metrics;
/// use sinew::{CallOptions, Request, Runtime};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let project = dir.path();
/// let metrics = Arc::new(Metrics::new()?);
/// let runtime = Runtime::builder(sinew::dialects::NATIVE)
///     .root(project)
///     .recorder(metrics.clone())
///     .build()?;
/// # let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # tokio.block_on(async {
/// runtime.call(Request::new("call-1", "List", Default::default()), CallOptions::default()).await;
/// # });
/// let line = "sinew_calls_total{dialect=\"native\",outcome=\"ok\",tool=\"List\"} 1";
/// assert!(metrics.prometheus()?.lines().any(|there| there == line));
/// # Ok(())
/// # }
/// ```
pub struct Metrics {
    families: Mutex<Families>,
    n_running: AtomicU64,
}

/// The series of each family, by their labels as text.
type Families = BTreeMap<&'static str, BTreeMap<String, Series>>;

/// The sums of one label set in one family.
#[derive(Default)]
struct Series {
    sum: f64,
    n_values: u64,
    /// The cumulative histogram buckets.
    buckets: [u64; BOUNDS_MS.len()],
}

/// Labels in alphabetical order.
type Labels<'a> = &'a [(&'a str, &'a str)];

impl Metrics {
    /// Returns an empty recorder.
    pub fn new() -> Result<Self, MetricsError> {
        Ok(Self { families: Mutex::default(), n_running: AtomicU64::new(0) })
    }

    /// Returns all metrics in the Prometheus text format.
    pub fn prometheus(&self) -> Result<String, MetricsError> {
        let mut text = self.sums();
        let n = self.n_running.load(Ordering::Relaxed);
        for (name, help) in RUNNING {
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {n}");
        }
        Ok(text)
    }

    /// Returns all metrics but the gauges: what several processes count can be added up.
    fn sums(&self) -> String {
        let families = lock(&self.families);
        let mut text = String::new();
        for (name, help, unit_ms) in FAMILIES {
            let Some(all) = families.get(name) else { continue };
            let kind = if unit_ms.is_some() { "histogram" } else { "counter" };
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, series) in all {
                let _ = match unit_ms {
                    None => writeln!(text, "{name}{} {}", braced(labels), series.sum),
                    Some(unit_ms) => series.write_times(&mut text, name, labels, *unit_ms),
                };
            }
        }
        text
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Series {
    fn write_times(
        &self,
        text: &mut String,
        name: &str,
        labels: &str,
        unit_ms: f64,
    ) -> fmt::Result {
        let comma = if labels.is_empty() { "" } else { "," };
        for (bound, n) in BOUNDS_MS.iter().zip(self.buckets) {
            let bound = bound / unit_ms;
            writeln!(text, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {n}")?;
        }
        let n = self.n_values;
        writeln!(text, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {n}")?;
        let labels = braced(labels);
        writeln!(text, "{name}_sum{labels} {}", self.sum / unit_ms)?;
        writeln!(text, "{name}_count{labels} {n}")
    }
}

fn braced(labels: &str) -> String {
    if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
}

/// Adds a count, or a time in milliseconds, to one series.
fn add(families: &mut Families, name: &'static str, labels: Labels<'_>, value: f64) {
    let mut key = String::new();
    for (label, value) in labels {
        let comma = if key.is_empty() { "" } else { "," };
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(key, "{comma}{label}=\"{value}\"");
    }
    let series = families.entry(name).or_default().entry(key).or_default();
    series.sum += value;
    series.n_values += 1;
    for (bound, n) in BOUNDS_MS.iter().zip(&mut series.buckets) {
        *n += u64::from(value <= *bound);
    }
}

impl Recorder for Metrics {
    fn begins(&self) {
        self.n_running.fetch_add(1, Ordering::Relaxed);
    }

    fn call(&self, closing: &Closing) {
        // A recorder around this one may pass on ends alone.
        let less = |n: u64| Some(n.saturating_sub(1));
        let _ = self.n_running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        let opening = &closing.opening;
        // A caller can invent tool names, so unknown tools share one label value.
        let tool = if closing.found { opening.tool.as_str() } else { UNKNOWN };
        let served = closing.found || sinew_dialects::dialect(&opening.dialect).is_some();
        let dialect = if served { &*opening.dialect } else { UNKNOWN };
        let ok = closing.error.is_none();
        let of = |yes, no| if ok { yes } else { no };
        let outcome = closing.error.map_or("ok", |kind| kind.as_str());
        let by_tool = &[("dialect", dialect), ("tool", tool)];
        let mut families = lock(&self.families);
        let mut add = |name, labels: Labels<'_>, value| add(&mut families, name, labels, value);
        add(
            "sinew_calls_total",
            &[("dialect", dialect), ("outcome", outcome), ("tool", tool)],
            1.0,
        );
        add("sinew_call_duration_ms", by_tool, closing.duration_ms);
        add("sinew_reply_bytes_total", by_tool, closing.reply_bytes as f64);
        if !closing.changes.is_empty() {
            add("sinew_changed_files_total", by_tool, closing.changes.len() as f64);
            let n_bytes: u64 = closing.changes.iter().map(|change| change.bytes).sum();
            add("sinew_changed_bytes_total", by_tool, n_bytes as f64);
        }
        if let Some(answer) = closing.answer {
            add("sinew_approvals_total", &[("answer", answer)], 1.0);
        }
        if let Some(waited_ms) = closing.waited_ms {
            add("sinew_approval_wait_ms", &[], waited_ms);
        }
        let success = [("success", of("true", "false")), ("tool", tool)];
        add("moltis_tool_executions_total", &success, 1.0);
        if !ok {
            add("moltis_tool_execution_errors_total", &[("tool", tool)], 1.0);
        }
        add("moltis_tool_execution_duration_seconds", &[("tool", tool)], closing.duration_ms);
        let status = [("status", of("success", "failure")), ("toolId", tool)];
        add("tool_execution_total", &status, 1.0);
        let status = [("functionId", tool), ("status", of("success", "error"))];
        add("function_call_duration_ms", &status, closing.duration_ms);
    }
}

#[cfg(test)]
mod tests;
