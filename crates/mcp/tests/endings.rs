//! Cancellation, progress, changes of the catalog, and how connections end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::Value;
use sinew_tool::{Kind, Tool};

use crate::connection::{Client, Late};

fn call(id: u32, wait_ms: u32, meta: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"Echo","arguments":{{"text":"t{id}","wait_ms":{wait_ms}}}{meta}}}}}"#
    )
}

fn id(line: &str) -> Value {
    serde_json::from_str::<Value>(line).expect("JSON")["id"].clone()
}

#[test]
fn a_cancelled_call_gets_no_answer_and_is_recorded() {
    for (inline, meta) in [(true, ""), (true, r#","_meta":{"progressToken":1}"#), (false, "")] {
        let mut client = Client::start(inline);
        client.shake_hands();
        client.send(&call(1, 60_000, meta));
        client.send(
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        );
        client.send(&call(2, 1, ""));
        loop {
            let line = client.receive();
            // Progress of the first call may have been under way.
            if !line.contains("notifications/progress") {
                assert_eq!(id(&line), 2, "{line}");
                break;
            }
        }
        let ledger = Arc::clone(&client.ledger);
        let began = Instant::now();
        assert!(client.finish().is_empty());
        assert!(began.elapsed() < Duration::from_secs(10), "the end does not wait for the nap");
        let ends: Vec<Option<Kind>> = ledger.take().iter().map(|(_, call)| call.error).collect();
        assert!(ends.contains(&Some(Kind::Cancelled)), "{inline} {meta}: {ends:?}");
    }
}

/// The second request took the place of the first, which could then not be cancelled any more.
#[test]
fn an_id_that_waits_for_its_answer_is_refused() {
    for inline in [true, false] {
        let mut client = Client::start(inline);
        client.shake_hands();
        client.send(&call(1, 60_000, ""));
        client.send(&call(1, 1, ""));
        client.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        for _ in 0..2 {
            let refused = client.receive();
            // An error with the id was taken for the answer of the first.
            assert_eq!(id(&refused), Value::Null);
            assert!(refused.contains("-32600") && refused.contains("its own: 1"), "{refused}");
        }
        client.send(
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        );
        // Once it is answered an id does no harm.
        for _ in 0..20 {
            client.send(&call(2, 1, ""));
            let answer = client.receive();
            assert!(id(&answer) == 2 && answer.contains("\"t2\""), "{answer}");
        }
        assert!(client.finish().is_empty());
    }
}

/// An id with escapes was never struck off, so that the end waited for its answer.
#[test]
fn an_id_counts_however_it_is_spelt() {
    for inline in [true, false] {
        let mut client = Client::start(inline);
        client.shake_hands();
        let spelt = |id: &str| {
            let call = call(1, 60_000, "");
            call.replace(r#""id":1"#, &format!(r#""id":{id}"#))
        };
        client.send(&spelt(r#""\u0061""#));
        client.send(&spelt(r#""a""#));
        let refused = client.receive();
        assert!(refused.contains("not answered yet"), "{refused}");
        client.send(
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#,
        );
        let began = Instant::now();
        assert!(client.finish().is_empty());
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn progress_is_told_to_clients_that_ask() {
    let mut client = Client::start(true);
    client.shake_hands();
    client.send(&call(1, 50, r#","_meta":{"progressToken":"p"}"#));
    let told = client.receive();
    assert!(told.contains("notifications/progress") && told.contains("\"p\""), "{told}");
    assert!(told.contains("1 naps begun"), "{told}");
    assert_eq!(id(&client.receive()), 1);
    assert!(client.finish().is_empty());
}

#[test]
fn a_change_of_the_tools_is_told_and_shown() {
    for inline in [true, false] {
        let mut client = Client::start(inline);
        client.shake_hands();
        client.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        assert!(!client.receive().contains("Late"));
        let late: Arc<dyn Tool> = Arc::new(Late);
        client.runtime.add_tool(&late).unwrap();
        assert!(client.receive().contains("notifications/tools/list_changed"));
        client.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
        assert!(client.receive().contains("Late"));
        assert!(client.runtime.remove_tool("Late"));
        assert!(client.receive().contains("notifications/tools/list_changed"));
        client.finish();
    }
}

#[test]
fn answers_that_are_due_come_before_the_end() {
    for inline in [true, false] {
        let mut client = Client::start(inline);
        client.shake_hands();
        for n in 1..=20 {
            client.send(&call(n, n % 3 * 20, ""));
        }
        let mut ids: Vec<u64> =
            client.finish().iter().filter_map(|line| id(line).as_u64()).collect();
        ids.sort_unstable();
        assert_eq!(ids, (1..=20).collect::<Vec<u64>>());
    }
}

#[test]
fn a_client_that_is_gone_is_not_waited_for() {
    let mut client = Client::start(true);
    client.shake_hands();
    client.send(&call(1, 600_000, ""));
    client.gone.store(true, Ordering::Relaxed);
    let began = Instant::now();
    client.finish();
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_line_that_is_too_long_names_its_request() {
    let mut client = Client::start(true);
    client.shake_hands();
    let text = "x".repeat(10_000);
    client.send(&format!(
        r#"{{"method":"tools/call","params":{{"name":"Echo","arguments":{{"text":"{text}"}}}},"jsonrpc":"2.0","id":7}}"#
    ));
    let line = client.receive();
    assert_eq!(id(&line), 7);
    assert!(line.contains("longer than 4096 bytes"), "{line}");
    client.send(r#"{"jsonrpc":"2.0","id":8,"method":"ping"}"#);
    assert_eq!(id(&client.receive()), 8);
    assert!(client.finish().is_empty());
}

/// The end waited a minute for the answer of a subscription, which only the client can end.
#[test]
fn a_subscription_does_not_hold_up_the_end() {
    for inline in [true, false] {
        let mut client = Client::start(inline);
        client.send(
            r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"toolsListChanged":true}}}"#,
        );
        let line = client.receive();
        assert!(line.contains("subscriptions/acknowledged"), "{line}");
        let began = Instant::now();
        client.close();
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    }
}
