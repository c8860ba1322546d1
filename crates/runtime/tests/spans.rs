//! The span of each call, as a subscriber sees it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};

use serde_json::{Value, json};
use sinew_guard::Redactor;
use sinew_runtime::CallOptions;
use sinew_tool::{Arguments, BoxFuture, Cancel, Context, Reply, Tool, ToolError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::deeds::Bench;

/// What a span said, in words.
type Fields = BTreeMap<&'static str, String>;

/// Keeps what the spans say, and in which of them something happened.
#[derive(Default)]
struct Seen {
    spans: Mutex<HashMap<u64, Fields>>,
    /// The spans in the order in which the last holder let go of them.
    closed: Mutex<Vec<Fields>>,
    holders: Mutex<HashMap<u64, usize>>,
    within: Mutex<Vec<u64>>,
    events: Mutex<Vec<Fields>>,
    last_id: AtomicU64,
}

impl Seen {
    fn span(&self, id: &Id) -> Fields {
        self.spans.lock().expect("unpoisoned").get(&id.into_u64()).cloned().unwrap_or_default()
    }

    /// Returns the spans that closed so far.
    fn closed(&self) -> Vec<Fields> {
        std::mem::take(&mut self.closed.lock().expect("unpoisoned"))
    }
}

struct Words<'a>(&'a mut Fields);

impl Visit for Words<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for Seen {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("sinew::call") || metadata.target() == module_path!()
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let mut fields = Fields::from([("name", attributes.metadata().name().to_owned())]);
        attributes.record(&mut Words(&mut fields));
        self.spans.lock().expect("unpoisoned").insert(id, fields);
        self.holders.lock().expect("unpoisoned").insert(id, 1);
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let mut spans = self.spans.lock().expect("unpoisoned");
        values.record(&mut Words(spans.get_mut(&id.into_u64()).expect("an open span")));
    }

    fn record_follows_from(&self, _id: &Id, _follows: &Id) {}

    fn event(&self, _event: &Event<'_>) {
        let within = self.within.lock().expect("unpoisoned").last().copied();
        let spans = self.spans.lock().expect("unpoisoned");
        let span = within.and_then(|id| spans.get(&id).cloned()).unwrap_or_default();
        self.events.lock().expect("unpoisoned").push(span);
    }

    fn enter(&self, id: &Id) {
        self.within.lock().expect("unpoisoned").push(id.into_u64());
    }

    fn exit(&self, id: &Id) {
        assert_eq!(self.within.lock().expect("unpoisoned").pop(), Some(id.into_u64()));
    }

    fn clone_span(&self, id: &Id) -> Id {
        *self.holders.lock().expect("unpoisoned").get_mut(&id.into_u64()).expect("open") += 1;
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut holders = self.holders.lock().expect("unpoisoned");
        let n_holders = holders.get_mut(&id.into_u64()).expect("an open span");
        *n_holders -= 1;
        if *n_holders == 0 {
            self.closed.lock().expect("unpoisoned").push(self.span(&id));
        }
        *n_holders == 0
    }
}

/// Wants every span and keeps none of them.
struct AlwaysOn;

impl Subscriber for AlwaysOn {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _attributes: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _id: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _id: &Id, _follows: &Id) {}
    fn event(&self, _event: &Event<'_>) {}
    fn enter(&self, _id: &Id) {}
    fn exit(&self, _id: &Id) {}
}

/// Installs a subscriber for the whole process, before the first call.
///
/// While only one subscriber exists, tracing asks the thread that first reaches a span whether the
/// span is wanted, and keeps that answer for all threads. A test without a subscriber would answer
/// no, and the test that installed the only subscriber on its own thread would see no span.
pub(crate) fn keep_spans_on() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        tracing::subscriber::set_global_default(AlwaysOn).expect("the only global subscriber");
    });
}

/// Says something while it runs.
struct Says;

impl Tool for Says {
    fn name(&self) -> &str {
        "says"
    }
    fn description(&self) -> &str {
        "Says something."
    }
    fn parameters(&self) -> Value {
        json!({"type": "object"})
    }
    fn execute<'a>(
        &'a self,
        _args: Arguments,
        _cx: &'a Context,
    ) -> BoxFuture<'a, Result<Reply, ToolError>> {
        Box::pin(async {
            tokio::task::yield_now().await;
            tracing::info!("said");
            Ok(Reply::text("done"))
        })
    }
}

fn bench() -> Bench {
    let vars = [("DEPLOY_TOKEN".into(), "canary-in-a-variable".into())];
    Bench::new(|builder| builder.tool(Arc::new(Says)).redactor(Redactor::knowing(vars)))
}

#[tokio::test]
async fn a_span_says_what_the_record_says() {
    let seen = Arc::new(Seen::default());
    let _held = tracing::subscriber::set_default(Arc::clone(&seen));
    let bench = bench();
    let path = |name: &str| bench.path(name).display().to_string();
    let put = json!({"where": "a", "text": "one"});
    for (tool, args, more) in [
        (
            "put",
            put,
            vec![
                ("effects", String::from("change")),
                ("file_path", path("a")),
                ("verdict", String::from("ask")),
                ("rule", String::from("change")),
                ("approver", String::from("allow")),
                ("outcome", String::from("ok")),
                ("n_changes", String::from("1")),
                ("bytes", String::from("3")),
                ("after_hash", blake3::hash(b"one").to_hex().to_string()),
                ("reply_bytes", String::from("6")),
            ],
        ),
        (
            "put",
            json!({"where": "../a", "text": "x"}),
            vec![
                ("effects", String::from("change")),
                ("file_path", String::from("../a")),
                ("verdict", String::from("deny")),
                ("rule", String::from("containment")),
                ("outcome", String::from("path_denied")),
            ],
        ),
        ("nope", json!({}), vec![("outcome", String::from("not_found"))]),
        (
            "put",
            json!({"where": "a", "text": "panic"}),
            vec![("file_path", path("a")), ("outcome", String::from("execution_failed"))],
        ),
        (
            "begin",
            json!({"command": "deploy --key canary-in-a-variable"}),
            vec![("command", String::from("deploy --key [redacted: variable]"))],
        ),
        ("canary-in-a-variable", json!({}), vec![("tool", String::from("[redacted: variable]"))]),
    ] {
        bench.call(tool, args).await;
        let spans = seen.closed();
        let [span] = spans.as_slice() else { panic!("{tool}: {spans:?}") };
        let [(_, closing)] = &bench.records()[..] else { panic!("{tool}: no record") };
        let mut expected = vec![
            ("name", String::from("call")),
            ("at_ms", closing.opened_at_ms.to_string()),
            ("call_id", String::from("c")),
            ("session", closing.opening.session.clone()),
            ("dialect", String::from("test")),
            ("arguments", blake3::Hash::from_bytes(closing.opening.arguments).to_hex().to_string()),
            ("duration_ms", format!("{:?}", closing.duration_ms)),
            ("reply_bytes", closing.reply_bytes.to_string()),
        ];
        if !more.iter().any(|(field, _)| *field == "tool") {
            expected.push(("tool", tool.to_owned()));
        }
        expected.extend(more);
        for (field, value) in expected {
            assert_eq!(span.get(field), Some(&value), "{tool}: {field} of {span:?}");
        }
        let said = format!("{span:?}");
        assert!(!said.contains("canary"), "{said}");
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_closes_its_span_as_cancelled() {
    let seen = Arc::new(Seen::default());
    let _held = tracing::subscriber::set_default(Arc::clone(&seen));
    let bench = bench();
    let options = CallOptions { cancel: Cancel::default(), ..CallOptions::default() };
    let mut call = bench.start_with("c", "odd", json!({"wait": true}), options);
    let polled = futures_util::poll!(&mut call);
    assert!(polled.is_pending());
    assert_eq!(seen.closed(), []);
    drop(call);
    let spans = seen.closed();
    let [span] = spans.as_slice() else { panic!("{spans:?}") };
    assert_eq!((&*span["tool"], &*span["outcome"]), ("odd", "cancelled"));
}

#[tokio::test]
async fn what_a_tool_says_is_said_within_the_span_of_its_call() {
    let seen = Arc::new(Seen::default());
    let _held = tracing::subscriber::set_default(Arc::clone(&seen));
    let bench = bench();
    bench.call("says", json!({})).await;
    let events = seen.events.lock().expect("unpoisoned").clone();
    let [event] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((&*event["tool"], &*event["call_id"]), ("says", "c"));
}
