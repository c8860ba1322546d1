use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sinew_runtime::{Approvals, Asking, CallOptions, Runtime};
use sinew_tool::{
    Arguments, BoxFuture, Change, Context, Dialect, Facts, Kind, Opening, Reply, Request, Tool,
    ToolError,
};

use super::*;

/// What a sample is called: its name and its labels.
type Name = (String, Vec<(String, String)>);

/// The values of samples.
type Samples = BTreeMap<Name, f64>;

/// Reads a text by the rules of the format, and no other: each name has its help, its type and then its
/// samples, once; labels are quoted and escaped; the buckets of a histogram grow to its count.
fn samples(text: &str) -> Samples {
    let mut all = Samples::new();
    let mut seen = Vec::new();
    let mut lines = text.lines().peekable();
    assert!(text.is_empty() || text.ends_with('\n'), "the last line ends");
    while let Some(line) = lines.next() {
        let (name, help) = line.strip_prefix("# HELP ").unwrap().split_once(' ').unwrap();
        assert!(!help.is_empty() && !help.contains('\\'), "{line}");
        assert!(!seen.contains(&name), "{name} comes once");
        seen.push(name);
        let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {name} ")).unwrap();
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let (sample, labels, value) = sample(line);
            match kind {
                "counter" | "gauge" => assert_eq!(sample, name),
                "histogram" => {
                    let suffix = sample.strip_prefix(name).unwrap();
                    assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}");
                }
                _ => panic!("{kind}"),
            }
            assert_eq!(all.insert((sample, labels), value), None, "{line} comes once");
        }
        if kind == "histogram" {
            buckets_grow(name, &all);
        }
    }
    all
}

fn sample(line: &str) -> (String, Vec<(String, String)>, f64) {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = line.find(|c| !is_name(c)).unwrap();
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, after) = rest.split_once("=\"").unwrap();
            assert!(label.chars().all(is_name), "{line}");
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next().unwrap() {
                    (at, '"') => break at,
                    (_, '\\') => value.push(match chars.next().unwrap().1 {
                        'n' => '\n',
                        c @ ('\\' | '"') => c,
                        c => panic!("{line}: \\{c}"),
                    }),
                    (_, c) => value.push(c),
                }
            };
            labels.push((label.to_owned(), value));
            rest = &after[end + 1..];
            match rest.split_at(1) {
                (",", more) => rest = more,
                ("}", more) => {
                    rest = more;
                    break;
                }
                _ => panic!("{line}"),
            }
        }
    }
    (name.to_owned(), labels, rest.strip_prefix(' ').unwrap().parse().unwrap())
}

fn buckets_grow(name: &str, all: &Samples) {
    let counts = all.iter().filter(|((sample, _), _)| *sample == format!("{name}_count"));
    for ((_, labels), count) in counts {
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        for ((sample, of), n) in all {
            let bound = of.iter().find(|(label, _)| label == "le");
            let rest: Vec<_> = of.iter().filter(|(label, _)| label != "le").cloned().collect();
            if let (true, Some((_, bound))) = (*sample == format!("{name}_bucket"), bound)
                && rest == *labels
            {
                buckets.push((bound.replace("+Inf", "inf").parse().unwrap(), *n));
            }
        }
        buckets.sort_by(|one, other| one.partial_cmp(other).unwrap());
        assert!(buckets.is_sorted_by(|one, other| one.1 <= other.1), "{name}: {buckets:?}");
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, *count)), "{name}");
        assert_eq!(buckets.len(), BOUNDS_MS.len() + 1, "{name}");
    }
}

/// Returns the value of a sample; a missing one is zero.
fn value(samples: &Samples, name: &str, labels: &[(&str, &str)]) -> f64 {
    let mut wanted: Vec<(String, String)> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    wanted.sort();
    let is_it = |(sample, labels): &Name| {
        let mut labels = labels.clone();
        labels.sort();
        sample == name && labels == wanted
    };
    samples.iter().find(|(name, _)| is_it(name)).map_or(0.0, |(_, value)| *value)
}

/// Checks what every family says of one tool: so many calls of a dialect, and the outcome of each.
#[track_caller]
fn check(metrics: &Metrics, dialect: &str, tool: &str, outcomes: &[&str]) {
    let text = metrics.prometheus().unwrap();
    let samples = samples(&text);
    let n = |wanted: &dyn Fn(&str) -> bool| {
        outcomes.iter().filter(|outcome| wanted(outcome)).count() as f64
    };
    for outcome in outcomes {
        let labels = [("dialect", dialect), ("outcome", *outcome), ("tool", tool)];
        let counted = value(&samples, "sinew_calls_total", &labels);
        assert_eq!(counted, n(&|other| other == *outcome), "{dialect} {tool} {outcome}\n{text}");
    }
    let (ok, failed) = (n(&|outcome| outcome == "ok"), n(&|outcome| outcome != "ok"));
    for (name, labels, expected) in [
        ("sinew_call_duration_ms_count", vec![("dialect", dialect), ("tool", tool)], ok + failed),
        ("moltis_tool_executions_total", vec![("tool", tool), ("success", "true")], ok),
        ("moltis_tool_executions_total", vec![("tool", tool), ("success", "false")], failed),
        ("moltis_tool_execution_errors_total", vec![("tool", tool)], failed),
        ("moltis_tool_execution_duration_seconds_count", vec![("tool", tool)], ok + failed),
        ("tool_execution_total", vec![("toolId", tool), ("status", "success")], ok),
        ("tool_execution_total", vec![("toolId", tool), ("status", "failure")], failed),
        ("function_call_duration_ms_count", vec![("functionId", tool), ("status", "success")], ok),
        (
            "function_call_duration_ms_count",
            vec![("functionId", tool), ("status", "error")],
            failed,
        ),
    ] {
        assert_eq!(value(&samples, name, &labels), expected, "{name} {labels:?}\n{text}");
    }
}

/// Panics, waits, or does as it is told.
struct Odd;

impl Tool for Odd {
    fn name(&self) -> &str {
        "odd"
    }
    fn description(&self) -> &str {
        "Does odd things."
    }
    fn parameters(&self) -> Value {
        json!({ "type": "object" })
    }
    fn facts(&self) -> Facts {
        Facts::OBSERVES
    }
    fn execute<'a>(
        &'a self,
        args: Arguments,
        _cx: &'a Context,
    ) -> BoxFuture<'a, Result<Reply, ToolError>> {
        Box::pin(async move {
            assert!(!args.contains_key("panic"), "as the argument says");
            if args.contains_key("wait") {
                std::future::pending::<()>().await;
            }
            Ok(Reply::text("done"))
        })
    }
}

/// A runtime whose calls are counted.
struct Counted {
    metrics: Arc<Metrics>,
    runtime: Arc<Runtime>,
    _root: tempfile::TempDir,
}

impl Counted {
    fn new(dialect: Dialect, approvals: Approvals) -> Self {
        let metrics = Arc::new(Metrics::new().unwrap());
        let root = tempfile::tempdir().unwrap();
        let runtime = Runtime::builder(dialect)
            .root(root.path())
            .tool(Arc::new(Odd))
            .asking(Asking { approvals, ..Asking::default() })
            .recorder(Arc::clone(&metrics) as Arc<dyn Recorder>)
            .build()
            .unwrap();
        Self { metrics, runtime, _root: root }
    }

    async fn call(&self, dialect: Option<&str>, tool: &str, args: Value) -> Reply {
        let args = args.as_object().cloned().unwrap_or_default();
        let mut request = Request::new("c", tool, args);
        request.dialect = dialect.map(str::to_owned);
        if request.arguments.contains_key("late") {
            request.deadline = Some(Instant::now() + Duration::from_millis(20));
        }
        self.runtime.call(request, CallOptions::default()).await
    }
}

#[tokio::test]
async fn every_tool_of_every_dialect_is_counted_once_whatever_becomes_of_it() {
    for dialect in sinew_dialects::ALL {
        let counted = Counted::new(*dialect, Approvals::Deny);
        let tools: Vec<_> = counted.runtime.catalogs()[0].tools().collect();
        assert!(1 < tools.len(), "{}", dialect.name);
        for tool in &tools {
            let args = json!({ "no such argument": 1 });
            let is_odd = tool.name == "odd";
            let failed = counted.call(None, &tool.name, args).await;
            assert_eq!(failed.ok, is_odd, "{}", tool.name);
            let outcome = if is_odd { "ok" } else { "invalid_args" };
            counted.metrics.call(&closing(dialect.name, &tool.name, None));
            check(&counted.metrics, dialect.name, &tool.name, &[outcome, "ok"]);
        }
    }
}

#[tokio::test]
async fn every_end_of_a_call_is_counted_under_its_name() {
    let counted = Counted::new(sinew_dialects::NATIVE, Approvals::Deny);
    let write = json!({ "file_path": "a", "content": "x" });
    let of = |dialect: &'static str, tool: &'static str| (dialect, tool);
    for (dialect, tool, args, counts, outcome) in [
        (None, "List", json!({}), of("native", "List"), "ok"),
        (None, "Read", json!({ "file_path": "a" }), of("native", "Read"), "file_not_found"),
        (None, "Read", json!({ "file_path": "/etc/x" }), of("native", "Read"), "path_denied"),
        (None, "Write", write, of("native", "Write"), "approval_denied"),
        (None, "odd", json!({ "panic": 1 }), of("native", "odd"), "execution_failed"),
        (None, "odd", json!({ "wait": 1, "late": 1 }), of("native", "odd"), "timeout"),
        (None, "../../etc\n", json!({}), of("native", "unknown"), "not_found"),
        (Some("klingon"), "Read", json!({}), of("unknown", "unknown"), "not_found"),
    ] {
        let before = samples(&counted.metrics.prometheus().unwrap());
        counted.call(dialect, tool, args).await;
        let after = samples(&counted.metrics.prometheus().unwrap());
        let labels = [("dialect", counts.0), ("outcome", outcome), ("tool", counts.1)];
        let n = |samples| value(samples, "sinew_calls_total", &labels);
        assert_eq!(n(&after) - n(&before), 1.0, "{tool}: {labels:?} {after:?}");
        let total = |samples: &Samples| -> f64 {
            let of_name = samples.iter().filter(|((name, _), _)| name == "sinew_calls_total");
            of_name.map(|(_, n)| *n).sum()
        };
        assert_eq!(total(&after) - total(&before), 1.0, "{tool} is counted once");
    }
    // A call that its caller drops is one too.
    let request = Request::new("c", "odd", json!({ "wait": 1 }).as_object().cloned().unwrap());
    let mut call = Box::pin(counted.runtime.call(request, CallOptions::default()));
    std::future::poll_fn(|cx| {
        assert!(call.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    let running = |n: f64| {
        let samples = samples(&counted.metrics.prometheus().unwrap());
        for name in ["moltis_tool_executions_in_flight", "sinew_calls_in_flight"] {
            assert_eq!(samples.get(&(String::from(name), Vec::new())), Some(&n), "{name}");
        }
    };
    running(1.0);
    drop(call);
    running(0.0);
    check(&counted.metrics, "native", "odd", &["execution_failed", "timeout", "cancelled"]);
}

fn closing(dialect: &'static str, tool: &str, error: Option<Kind>) -> Closing {
    Closing {
        duration_ms: 1.5,
        found: true,
        path: Some(PathBuf::from("/w/a-path")),
        error,
        reply_bytes: 7,
        ..Closing::new(Opening::new("c", "a-session", dialect, tool), 1)
    }
}

#[test]
fn the_text_is_what_it_was() {
    let metrics = Metrics::new().unwrap();
    (0..3).for_each(|_| metrics.begins());
    let change =
        |bytes| Change { path: PathBuf::from("/w/a-path"), before: None, after: None, bytes };
    metrics.call(&Closing {
        changes: vec![change(3), change(4)],
        answer: Some("yes"),
        waited_ms: Some(2_000.0),
        duration_ms: 2_003.25,
        ..closing("native", "Write", None)
    });
    metrics.call(&closing("moltis", "Write", Some(Kind::PathDenied)));
    let text = metrics.prometheus().unwrap();
    for unbounded in ["a-session", "a-path", "target_info"] {
        assert!(!text.contains(unbounded), "{unbounded} in {text}");
    }
    samples(&text);
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/metrics.prom");
    sinew_testkit::golden(&kept, &text);
}

#[test]
fn labels_hold_any_name() {
    let name = "a \"quoted\" \\ name\nof { two } lines";
    let metrics = Metrics::new().unwrap();
    metrics.call(&closing("native", name, None));
    check(&metrics, "native", name, &["ok"]);
}
