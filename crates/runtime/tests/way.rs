//! The stages of a call, seen from outside.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use sinew_guard::{Profile, Rules};
use sinew_runtime::CallOptions;
use sinew_tool::{BoxFuture, Cancel, Closing, Kind, Ledger, Recorder, Request, Ticket, ToolError};

use crate::deeds::{Bench, TAKING_TURNS, text};

#[tokio::test]
async fn a_change_is_made_recorded_and_ordered() {
    let bench = Bench::new(|builder| builder);
    let reply = bench.call("put", json!({"where": "a", "text": "one"})).await;
    assert_eq!((reply.ok, text(&reply).as_str()), (true, "3 in a"));
    assert_eq!(reply.meta.ruling.map(|ruled| ruled.to_string()).as_deref(), Some("ask (change)"));
    assert_eq!(bench.content("a").as_deref(), Some("one"));
    let records = bench.records();
    let [(true, closing)] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!(closing.error, None);
    assert_eq!((closing.verdict, closing.rule), (Some("ask"), Some("change")));
    assert_eq!(closing.approver.as_deref(), Some("allow"));
    assert_eq!(closing.path, Some(bench.path("a")));
    assert_eq!(closing.changes.len(), 1);

    let many = (0..40).map(|n| {
        let text = if n % 2 == 0 { format!("long {n}") } else { format!("cheap {n}") };
        bench.start("c", "put", json!({"where": "a", "text": text}))
    });
    let replies = futures_util::future::join_all(many).await;
    assert!(replies.iter().all(|reply| reply.ok), "{replies:?}");
}

#[tokio::test]
async fn refusals_say_what_to_do_and_are_recorded() {
    let bench = Bench::new(|builder| builder);
    let mut hashes = std::collections::HashMap::new();
    for (name, args, kind, words) in [
        ("nope", json!({}), Kind::NotFound, "known tools: put, begin, odd, agent::unknown"),
        ("putt", json!({}), Kind::NotFound, "did you mean: put"),
        ("put", json!({"where": "a"}), Kind::InvalidArgs, "argument `text` is missing"),
        (
            "put",
            json!({"where": 1, "text": ""}),
            Kind::InvalidArgs,
            "argument `where` must be a string",
        ),
        (
            "put",
            json!({"where": "a", "text": "", "x": 1}),
            Kind::InvalidArgs,
            "argument `x` is unknown",
        ),
        ("put", json!({"where": "../a", "text": "x"}), Kind::PathDenied, "`where`"),
        ("put", json!({"where": "/etc/x", "text": "x"}), Kind::PathDenied, "`where`"),
        ("put", json!({"where": "no/a", "text": "x"}), Kind::FileNotFound, "parent directory"),
        ("put", json!({"where": "a", "text": "panic"}), Kind::ExecutionFailed, "failed inside"),
        ("put", json!({"where": "", "text": "x"}), Kind::InvalidArgs, "argument `where` is empty"),
        ("odd", json!({"lines": "many"}), Kind::InvalidArgs, "argument `lines` does not fit"),
        ("odd", json!({"surprise": 1}), Kind::InvalidArgs, "surprise"),
    ] {
        let reply = bench.call(name, args.clone()).await;
        let error = reply.error.as_ref().unwrap_or_else(|| panic!("{name} {args} went through"));
        assert_eq!(error.kind, kind, "{name} {args}: {error:?}");
        assert!(text(&reply).contains(words), "{name} {args}: {}", text(&reply));
        assert!(!reply.ok);
        let records = bench.records();
        let [(_, closing)] = records.as_slice() else { panic!("{name} {args}: {records:?}") };
        assert_eq!(closing.error, Some(kind), "{name} {args}");
        // The record of every refusal has the arguments, and that of a path outside names the refused path.
        let same = hashes.insert(closing.opening.arguments, args.clone());
        assert!(same.is_none_or(|same| same == args), "{name} {args}");
        if kind == Kind::PathDenied {
            assert_eq!(closing.path, args["where"].as_str().map(Into::into));
            assert_eq!((closing.verdict, closing.rule), (Some("deny"), Some("containment")));
        }
    }
    assert_eq!(bench.content("a"), None, "nothing was written");
}

#[tokio::test]
async fn names_with_colons_are_found_by_either_spelling() {
    let bench = Bench::new(|builder| builder);
    for name in ["agent::unknown", "agent__unknown"] {
        assert!(bench.call(name, json!({})).await.ok, "{name}");
    }
}

#[tokio::test]
async fn a_dropped_call_is_recorded_as_cancelled() {
    let bench = Bench::new(|builder| builder);
    let mut call = bench.start("c", "odd", json!({"wait": true}));
    assert!(futures_util::poll!(call.as_mut()).is_pending());
    drop(call);
    assert_eq!(bench.records()[0].1.error, Some(Kind::Cancelled));
}

#[tokio::test]
async fn a_call_ends_when_it_is_taken_back_or_late() {
    let bench = Bench::new(|builder| builder);
    let cancel = Cancel::default();
    let options = CallOptions { cancel: cancel.clone(), ..CallOptions::default() };
    let call = bench.start_with("c", "odd", json!({"wait": true}), options);
    let (reply, ()) = futures_util::join!(call, async { cancel.cancel() });
    assert_eq!(reply.error.expect("an error").kind, Kind::Cancelled);

    let mut request = Request::new("c", "odd", json!({"wait": true}).as_object().cloned().unwrap());
    request.deadline = Some(std::time::Instant::now() + Duration::from_millis(20));
    let reply = bench.runtime.call(request, CallOptions::default()).await;
    assert_eq!(reply.error.expect("an error").kind, Kind::Timeout);
}

#[tokio::test]
async fn a_call_of_another_call_takes_no_turn() {
    let bench = Bench::of(TAKING_TURNS, |builder| builder);
    let mut outer = bench.start("outer", "odd", json!({"wait": true}));
    assert!(futures_util::poll!(outer.as_mut()).is_pending());
    let mut beside = bench.start("beside", "put", json!({"where": "a", "text": "one"}));
    let early = tokio::time::timeout(Duration::from_millis(50), beside.as_mut()).await;
    assert!(early.is_err(), "{early:?}");
    let args = json!({"where": "b", "text": "two"}).as_object().cloned().unwrap();
    let nested = Request { parent: Some("outer".into()), ..Request::new("inner", "put", args) };
    assert!(bench.runtime.call(nested, CallOptions::default()).await.ok);
    assert_eq!((bench.content("a"), bench.content("b").as_deref()), (None, Some("two")));
    drop(outer);
    assert!(beside.await.ok);
}

/// Never gets an intent to the disk.
struct Stuck {
    /// Whether no more records can wait.
    full: bool,
}

impl Ledger for Stuck {
    fn intend<'a>(
        &'a self,
        _so_far: &'a Closing,
        _paths: &'a [PathBuf],
        _temporaries: &'a [PathBuf],
    ) -> BoxFuture<'a, Result<Ticket, ToolError>> {
        Box::pin(std::future::pending())
    }
    fn close(&self, _intent: Option<Ticket>, _closing: Closing) {}
    fn flush(&self) -> Result<(), ToolError> {
        Ok(())
    }
    fn full(&self) -> bool {
        self.full
    }
}

#[tokio::test]
async fn nothing_runs_that_cannot_be_recorded_any_more() {
    let bench = Bench::new(|builder| builder.ledger(Arc::new(Stuck { full: true })));
    let reply = bench.call("odd", json!({"lines": 1})).await;
    assert_eq!(reply.error.map(|error| error.kind), Some(Kind::Unavailable));
}

#[tokio::test]
async fn a_change_that_waits_for_the_ledger_can_be_taken_back() {
    let bench = Bench::new(|builder| builder.ledger(Arc::new(Stuck { full: false })));
    let cancel = Cancel::default();
    let options = CallOptions { cancel: cancel.clone(), ..CallOptions::default() };
    let call = bench.start_with("c", "put", json!({"where": "a", "text": "x"}), options);
    let (reply, ()) = futures_util::join!(call, async { cancel.cancel() });
    assert_eq!(reply.error.expect("an error").kind, Kind::Cancelled);
    assert_eq!(bench.content("a"), None);
}

#[tokio::test]
async fn a_long_reply_is_cut_and_kept_whole() {
    let bench = Bench::new(|builder| builder);
    let reply = bench.call("odd", json!({"lines": 2_500})).await;
    let shown = text(&reply);
    assert!(shown.starts_with("line 1\n") && shown.contains("line 2000\n["), "{shown}");
    assert!(!shown.contains("line 2001\n"));
    assert!(reply.meta.truncated);
    let path = reply.meta.output_path.expect("a path");
    assert_eq!(path, ".sinew/tool-output/c.txt");
    assert!(shown.contains(&path));
    let kept = bench.content(&path).expect("the full text");
    assert_eq!(kept.lines().count(), 2_500);
    assert_eq!(bench.content(".sinew/.gitignore").as_deref(), Some("*\n"));

    let other = Bench::new(|builder| builder.without_store());
    let reply = other.call("odd", json!({"lines": 2_500})).await;
    assert_eq!(reply.meta.output_path, None);
    assert!(text(&reply).ends_with("[output cut after 2000 of 2500 lines]"));

    let looking = Rules { profile: Profile::ReadOnly, ..Rules::default() };
    let only = Bench::new(|builder| builder.rules(looking));
    let reply = only.call("odd", json!({"lines": 2_500})).await;
    assert_eq!(reply.meta.output_path, None, "to keep it is to write");
    assert_eq!(only.content(".sinew/.gitignore"), None);
}

#[tokio::test]
async fn a_recorder_sees_every_call() {
    #[derive(Default)]
    struct Count(AtomicUsize, AtomicUsize);
    impl Recorder for Count {
        fn call(&self, closing: &Closing) {
            let place = if closing.error.is_none() { &self.0 } else { &self.1 };
            place.fetch_add(1, Ordering::Relaxed);
        }
    }
    let count = Arc::new(Count::default());
    let counting = Arc::clone(&count);
    let bench = Bench::new(move |builder| builder.recorder(counting));
    bench.call("odd", json!({})).await;
    bench.call("nope", Value::Null).await;
    bench.call("put", json!({"where": "../x", "text": ""})).await;
    assert_eq!((count.0.load(Ordering::Relaxed), count.1.load(Ordering::Relaxed)), (1, 2));
}
