//! Counts and times of calls, as Prometheus text: feature `otel`.
//!
//! One recorder sees every call as it closes and feeds all instruments, so that none of them can know
//! of fewer calls than another. Beside sinew's own names it serves those of the runtimes whose
//! vocabularies sinew speaks, for calls of every dialect: a dashboard that was made for one of them
//! goes on. Labels hold names of tools and closed lists of words, never a path, a session or whatever
//! else a caller may make up. What runs at the moment is left out on purpose: a recorder sees a
//! call when it is over.

#[cfg(feature = "cli")]
pub(crate) mod file;
#[cfg(feature = "cli")]
mod text;

use std::fmt;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, MeterProvider as _};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Registry, TextEncoder};
use sinew_tool::{Closing, Recorder};

/// The label of a tool or dialect that there is not.
const UNKNOWN: &str = "unknown";

/// The bounds of durations, in milliseconds: calls that only look take fractions of one, and a person
/// takes minutes.
const BOUNDS_MS: &[f64] = &[
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0,
    5_000.0, 10_000.0, 30_000.0, 60_000.0, 120_000.0, 300_000.0, 600_000.0,
];

/// Why there are no metrics.
#[derive(Debug)]
pub struct MetricsError(String);

impl fmt::Display for MetricsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the metrics could not be gathered: {}", self.0)
    }
}

impl std::error::Error for MetricsError {}

/// Counts and times every call: a recorder for [`Builder::recorder`](crate::Builder::recorder).
///
/// ```
/// use std::sync::Arc;
/// use sinew::{CallOptions, Metrics, Request, Runtime};
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
    registry: Registry,
    /// Whoever drops it ends the instruments.
    _provider: SdkMeterProvider,
    own: Own,
    seeds: Seeds,
}

/// The instruments of sinew's own names.
struct Own {
    calls: Counter<u64>,
    duration: Histogram<f64>,
    reply_bytes: Counter<u64>,
    changed_files: Counter<u64>,
    changed_bytes: Counter<u64>,
    approvals: Counter<u64>,
    waited: Histogram<f64>,
}

/// The instruments of other runtimes' names: those of Moltis, then those of agentos.
struct Seeds {
    executions: Counter<u64>,
    errors: Counter<u64>,
    seconds: Histogram<f64>,
    total: Counter<u64>,
    function: Histogram<f64>,
}

impl Metrics {
    /// Returns a recorder with instruments of its own, at zero.
    pub fn new() -> Result<Self, MetricsError> {
        let registry = Registry::new();
        // The names stand below as they are served; nothing is added to them.
        let exporter = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .without_counter_suffixes()
            .without_units()
            .without_target_info()
            .scope_info_enabled(false)
            .build()
            .map_err(|error| MetricsError(error.to_string()))?;
        let provider = SdkMeterProvider::builder().with_reader(exporter).build();
        let meter = provider.meter("sinew");
        let (own, seeds) = (Own::new(&meter), Seeds::new(&meter));
        Ok(Self { registry, _provider: provider, own, seeds })
    }

    /// Returns everything so far in the text format of Prometheus.
    pub fn prometheus(&self) -> Result<String, MetricsError> {
        TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .map_err(|error| MetricsError(error.to_string()))
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Own {
    fn new(meter: &Meter) -> Self {
        let counter = |name, what| meter.u64_counter(name).with_description(what).build();
        let times = |name, what| times(meter, name, what, 1.0);
        Self {
            calls: counter("sinew_calls_total", "Calls that ended, by how they did."),
            duration: times(
                "sinew_call_duration_ms",
                "How long calls took in milliseconds, waiting for an answer included.",
            ),
            reply_bytes: counter("sinew_reply_bytes_total", "Bytes of text in replies."),
            changed_files: counter("sinew_changed_files_total", "Files that calls changed."),
            changed_bytes: counter(
                "sinew_changed_bytes_total",
                "Bytes of what calls wrote: the new contents of the files they changed.",
            ),
            approvals: counter("sinew_approvals_total", "Questions that ended, by the answer."),
            waited: times(
                "sinew_approval_wait_ms",
                "How long questions waited for their answer in milliseconds.",
            ),
        }
    }

    fn call(&self, closing: &Closing, tool: &KeyValue, dialect: &KeyValue) {
        let outcome = closing.error.map_or("ok", |kind| kind.as_str());
        let by_tool = [tool.clone(), dialect.clone()];
        let of_call = [tool.clone(), dialect.clone(), KeyValue::new("outcome", outcome)];
        self.calls.add(1, &of_call);
        self.duration.record(closing.duration_ms, &by_tool);
        self.reply_bytes.add(closing.reply_bytes, &by_tool);
        if !closing.changes.is_empty() {
            self.changed_files.add(closing.changes.len() as u64, &by_tool);
            let n_bytes = closing.changes.iter().map(|change| change.bytes).sum();
            self.changed_bytes.add(n_bytes, &by_tool);
        }
        if let Some(answer) = closing.answer {
            self.approvals.add(1, &[KeyValue::new("answer", answer)]);
        }
        if let Some(waited_ms) = closing.waited_ms {
            self.waited.record(waited_ms, &[]);
        }
    }
}

impl Seeds {
    fn new(meter: &Meter) -> Self {
        let counter = |name, what| meter.u64_counter(name).with_description(what).build();
        Self {
            executions: counter("moltis_tool_executions_total", "Calls under the name of Moltis."),
            errors: counter(
                "moltis_tool_execution_errors_total",
                "Calls that failed, under the name of Moltis.",
            ),
            seconds: times(
                meter,
                "moltis_tool_execution_duration_seconds",
                "How long calls took in seconds, under the name of Moltis.",
                1e3,
            ),
            total: counter("tool_execution_total", "Calls under the name of agentos."),
            function: times(
                meter,
                "function_call_duration_ms",
                "How long calls took in milliseconds, under the name of agentos.",
                1.0,
            ),
        }
    }

    fn call(&self, closing: &Closing, tool: &KeyValue) {
        let ok = closing.error.is_none();
        let named = |key: &'static str| KeyValue::new(key, tool.value.clone());
        self.executions.add(1, &[tool.clone(), KeyValue::new("success", ok.to_string())]);
        if !ok {
            self.errors.add(1, std::slice::from_ref(tool));
        }
        self.seconds.record(closing.duration_ms / 1e3, std::slice::from_ref(tool));
        let status = if ok { "success" } else { "failure" };
        self.total.add(1, &[named("toolId"), KeyValue::new("status", status)]);
        let status = if ok { "success" } else { "error" };
        let of_call = [named("functionId"), KeyValue::new("status", status)];
        self.function.record(closing.duration_ms, &of_call);
    }
}

/// Returns an instrument of times, whose unit has so many milliseconds.
fn times(meter: &Meter, name: &'static str, what: &'static str, unit_ms: f64) -> Histogram<f64> {
    let bounds = BOUNDS_MS.iter().map(|bound| bound / unit_ms).collect();
    meter.f64_histogram(name).with_description(what).with_boundaries(bounds).build()
}

impl Recorder for Metrics {
    fn call(&self, closing: &Closing) {
        let opening = &closing.opening;
        // What is not found is called whatever a caller likes: one label for all of it.
        let tool = if closing.found { opening.tool.clone() } else { String::from(UNKNOWN) };
        let served = sinew_dialects::dialect(&opening.dialect).is_some();
        let dialect = match closing.found || served {
            true => opening.dialect.to_string(),
            false => String::from(UNKNOWN),
        };
        let tool = KeyValue::new("tool", tool);
        self.own.call(closing, &tool, &KeyValue::new("dialect", dialect));
        self.seeds.call(closing, &tool);
    }
}

#[cfg(test)]
mod tests;
