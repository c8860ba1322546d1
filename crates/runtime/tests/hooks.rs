//! Hooks that are code of the embedding program: what they see, what they change, and when.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use sinew_runtime::{Approvals, Asking, CallOptions};
use sinew_tool::{
    AgentEvent, AgentStart, Answer, Approval, Approver, BeforePrompt, BoxFuture, Cancel, Decision,
    Hook, HookEvent, Kind, Question, Reply, Request, Scope, SessionEnd, SessionStart, ToolCall,
    ToolError, TurnEnd,
};

use tokio::sync::Notify;

use crate::deeds::{Bench, text};

type Before = fn(&ToolCall<'_>) -> Result<Decision, ToolError>;
type After = fn(&mut Reply) -> Result<(), ToolError>;

/// A hook that does as it is told.
struct Told {
    name: &'static str,
    priority: i32,
    before: Before,
    after: After,
    persist: After,
}

const TOLD: Told = Told {
    name: "h",
    priority: 0,
    before: |_| Ok(Decision::Continue),
    after: |_| Ok(()),
    persist: |_| Ok(()),
};

impl Hook for Told {
    fn name(&self) -> &str {
        self.name
    }
    fn origin(&self) -> Option<&str> {
        Some("a/hooks.toml:3")
    }
    fn priority(&self) -> i32 {
        self.priority
    }
    fn before_tool_execute<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
    ) -> BoxFuture<'a, Result<Decision, ToolError>> {
        Box::pin(std::future::ready((self.before)(call)))
    }
    fn after_tool_execute<'a>(
        &'a self,
        _call: &'a ToolCall<'a>,
        _duration_ms: f64,
        reply: &'a mut Reply,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::ready((self.after)(reply)))
    }
    fn persist<'a>(
        &'a self,
        _call: &'a ToolCall<'a>,
        reply: &'a mut Reply,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::ready((self.persist)(reply)))
    }
}

fn changed(key: &str, value: &str) -> Result<Decision, ToolError> {
    let arguments = json!({ key: value });
    Ok(Decision::Modify(arguments.as_object().cloned().unwrap_or_default()))
}

#[tokio::test]
async fn hooks_change_in_order_of_priority_and_are_judged_after() {
    let low = Told {
        name: "low",
        priority: 1,
        before: |call| {
            // It sees what the stronger hook did.
            match call.arguments["text"].as_str() {
                Some("high") => changed("text", "both"),
                _ => changed("text", "low alone"),
            }
        },
        ..TOLD
    };
    let high = Told {
        name: "high",
        priority: 9,
        before: |_| changed("text", "high"),
        after: |reply| {
            reply.meta.more.insert("seen", true);
            Ok(())
        },
        ..TOLD
    };
    let bench = Bench::new(|builder| builder.hook(Arc::new(low)).hook(Arc::new(high)));
    let reply = bench.call("put", json!({"where": "a", "text": "model"})).await;
    assert_eq!(bench.content("a").as_deref(), Some("both"));
    assert_eq!(reply.meta.more.get("seen"), Some(&json!(true)));
    let note = |hook: &str| json!({ "hook": hook, "event": "before_tool_execute", "did": "changed arguments" });
    assert_eq!(reply.meta.more.get("hooks"), Some(&json!([note("high"), note("low")])));

    let escaping = Told { before: |_| changed("where", "/etc/x"), ..TOLD };
    let bench = Bench::new(|builder| builder.hook(Arc::new(escaping)));
    let reply = bench.call("put", json!({"where": "a", "text": "x"})).await;
    assert_eq!(reply.error.expect("an error").kind, Kind::PathDenied);
}

/// The decision of the hook, the content then, the error, words of the reply, and the note beside it.
type Row = (Before, Option<&'static str>, Option<Kind>, &'static str, Option<&'static str>);

#[tokio::test]
async fn what_a_hook_decides_becomes_of_the_call() {
    let rows: [Row; 7] = [
        (|_| Ok(Decision::Continue), Some("x"), None, "1 in a", None),
        (
            |_| Ok(Decision::Block(String::from("not today"))),
            None,
            Some(Kind::BlockedByHook),
            "blocked by the hook `h`: not today",
            Some("blocked"),
        ),
        (
            |_| Err(ToolError::new(Kind::Timeout, "it is slow").hint("mend it")),
            None,
            Some(Kind::BlockedByHook),
            "the hook `h` failed, so the call does not run: it is slow\n\nmend it",
            Some("failed and blocked"),
        ),
        (
            |_| Ok(Decision::Failed(String::from("broken"))),
            Some("x"),
            None,
            "1 in a",
            Some("failed: broken"),
        ),
        // The bench answers yes to everything.
        (|_| Ok(Decision::Ask(String::from("sure?"))), Some("x"), None, "1 in a", Some("asked")),
        // Replaced arguments keep none of the old ones.
        (
            |_| {
                Ok(Decision::Replace(json!({"text": "y"}).as_object().cloned().unwrap_or_default()))
            },
            None,
            Some(Kind::InvalidArgs),
            "argument `where` is missing",
            Some("changed arguments"),
        ),
        // What a hook adds is judged as the model's own would be.
        (
            |_| changed("surprise", "1"),
            None,
            Some(Kind::InvalidArgs),
            "argument `surprise` is unknown",
            Some("changed arguments"),
        ),
    ];
    for (before, content, error, words, did) in rows {
        let bench = Bench::new(|builder| builder.hook(Arc::new(Told { before, ..TOLD })));
        let reply = bench.call("put", json!({"where": "a", "text": "x"})).await;
        assert_eq!(reply.error.as_ref().map(|error| error.kind), error, "{words}");
        assert!(text(&reply).contains(words), "{}", text(&reply));
        assert_eq!(bench.content("a").as_deref(), content, "{words}");
        let note = reply.meta.more.get("hooks").and_then(|notes| notes.pointer("/0/did"));
        assert_eq!(note.and_then(Value::as_str), did, "{words}");
        let closing = &bench.records()[0].1;
        assert_eq!(closing.error, error, "{words}");
        let was_blocked = error == Some(Kind::BlockedByHook);
        let ruled = was_blocked || did == Some("asked");
        assert_eq!(closing.rule == Some("hook"), ruled, "{words}");
        // Of ten hooks the line did not say which, nor what the call was about.
        let told = was_blocked.then_some("h (a/hooks.toml:3)");
        assert_eq!(closing.origin.as_deref().filter(|_| was_blocked), told, "{words}");
        let path = closing.path.as_deref().filter(|_| was_blocked);
        assert_eq!(path.map(|path| path.ends_with("a")), was_blocked.then_some(true), "{words}");
    }
}

/// Approves once it is released, and remembers the reasons of the questions.
#[derive(Default)]
struct Slow {
    reasons: Mutex<Vec<String>>,
    released: Notify,
}

impl Approver for Slow {
    fn name(&self) -> &'static str {
        "person"
    }

    fn ask(&self, question: Question) -> BoxFuture<'_, Answer> {
        self.reasons.lock().expect("unpoisoned").push(question.why);
        Box::pin(async {
            self.released.notified().await;
            Answer::Yes(Scope::Call)
        })
    }
}

#[tokio::test]
async fn equal_calls_share_a_question() {
    static N_CALLS: AtomicUsize = AtomicUsize::new(0);
    let hook = Told {
        before: |_| {
            let n = N_CALLS.fetch_add(1, Ordering::Relaxed);
            Ok(Decision::Ask(String::from(if n < 3 { "sure?" } else { "really?" })))
        },
        ..TOLD
    };
    let person = Arc::new(Slow::default());
    let approvers: Vec<Arc<dyn Approver>> = vec![person.clone()];
    let asking = Asking { approvals: Approvals::Ask, approvers, ..Asking::default() };
    let bench = Bench::new(|builder| builder.hook(Arc::new(hook)).asking(asking));
    for reasons in [&["sure?"][..], &["sure?", "really?"]] {
        let mut calls = ["one", "two"].map(|id| bench.start(id, "odd", json!({"lines": 1})));
        // Both are polled until they wait for the answer.
        for _ in 0..100 {
            for call in &mut calls {
                assert!(futures_util::poll!(call.as_mut()).is_pending());
            }
            tokio::task::yield_now().await;
        }
        let answer = async {
            loop {
                person.released.notify_waiters();
                tokio::task::yield_now().await;
            }
        };
        let replies = tokio::select! {
            replies = futures_util::future::join_all(calls) => replies,
            () = answer => Vec::new(),
        };
        assert!(replies.iter().all(|reply| reply.ok), "{replies:?}");
        let asked = std::mem::take(&mut *person.reasons.lock().expect("unpoisoned"));
        let same = asked.iter().zip(reasons).all(|(why, reason)| why.contains(reason));
        assert!(same && asked.len() == reasons.len(), "{asked:?}");
    }
}

#[tokio::test]
async fn a_hook_that_fails_after_withholds_the_reply() {
    let failing: After = |_| Err(ToolError::new(Kind::ExecutionFailed, "no"));
    let panicking: After = |_| panic!("as the test says");
    let bench = Bench::new(|builder| builder.hook(Arc::new(Told { after: panicking, ..TOLD })));
    let reply = bench.call("odd", json!({})).await;
    assert!(text(&reply).starts_with("the hook `h` failed after the call ran"), "{}", text(&reply));
    assert_eq!(bench.records().len(), 1);
    for (told, tool, words) in [
        (Told { after: failing, ..TOLD }, "odd", "failed after the call ran, so its reply"),
        (Told { persist: failing, ..TOLD }, "odd", "failed after the call ran, so its reply"),
        // A call that never ran is not said to have run.
        (Told { persist: failing, ..TOLD }, "nope", "failed, so its reply"),
    ] {
        let bench = Bench::new(|builder| builder.hook(Arc::new(told)));
        let reply = bench.call(tool, json!({})).await;
        assert_eq!(text(&reply), format!("the hook `h` {words} is withheld: no"));
        assert!(!reply.ok);
    }
}

/// A reply that a hook makes longer is bounded like any other.
#[tokio::test]
async fn the_bound_comes_after_every_hook() {
    let longer: After = |reply| {
        *reply = Reply::text("line\n".repeat(3_000));
        Ok(())
    };
    for told in [Told { after: longer, ..TOLD }, Told { persist: longer, ..TOLD }] {
        let bench = Bench::new(|builder| builder.hook(Arc::new(told)));
        let reply = bench.call("odd", json!({})).await;
        assert!(reply.meta.truncated && text(&reply).lines().count() < 2_010);
    }
}

/// Writes down what it is told.
#[derive(Default)]
struct Seeing(Mutex<Vec<Value>>);

impl Seeing {
    fn see(&self, event: HookEvent, told: Value) {
        let mut told = told;
        told.as_object_mut().expect("keys").insert(String::from("event"), json!(event.as_str()));
        self.0.lock().expect("unpoisoned").push(told);
    }

    fn taken(&self) -> Vec<Value> {
        std::mem::take(&mut *self.0.lock().expect("unpoisoned"))
    }

    fn events(&self) -> Vec<String> {
        let events = self.taken().into_iter();
        let event = |told: Value| Some(told.get("event")?.as_str()?.to_owned());
        events.filter_map(event).collect()
    }
}

impl Hook for Seeing {
    fn name(&self) -> &str {
        "seeing"
    }
    fn before_tool_execute<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
    ) -> BoxFuture<'a, Result<Decision, ToolError>> {
        self.see(HookEvent::BeforeToolExecute, json!(call));
        Box::pin(async { Ok(Decision::Continue) })
    }
    fn after_tool_execute<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
        duration_ms: f64,
        reply: &'a mut Reply,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        assert!(0.0 < duration_ms);
        let told = json!({ "call": call, "ok": reply.ok });
        self.see(HookEvent::AfterToolExecute, told);
        Box::pin(async { Ok(()) })
    }
    fn persist<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
        reply: &'a mut Reply,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        self.see(HookEvent::Persist, json!({ "call": call, "ok": reply.ok }));
        Box::pin(async { Ok(()) })
    }
    fn approval<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Result<(), ToolError>> {
        self.see(HookEvent::Approval, json!(approval));
        // No hook listens to this.
        Box::pin(async { Err(ToolError::new(Kind::ExecutionFailed, "no")) })
    }
    fn session_start<'a>(
        &'a self,
        session: &'a SessionStart,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        self.see(HookEvent::SessionStart, json!(session));
        Box::pin(async {
            tokio::task::yield_now().await;
            Err(ToolError::new(Kind::ExecutionFailed, "no"))
        })
    }
    fn session_end<'a>(&'a self, session: &'a SessionEnd) -> BoxFuture<'a, Result<(), ToolError>> {
        self.see(HookEvent::SessionEnd, json!(session));
        Box::pin(async { Ok(()) })
    }
}

/// Says the same to every question.
struct Person(Answer);

impl Approver for Person {
    fn name(&self) -> &'static str {
        "person"
    }
    fn ask(&self, _question: Question) -> BoxFuture<'_, Answer> {
        let answer = self.0.clone();
        Box::pin(async move {
            tokio::task::yield_now().await;
            answer
        })
    }
}

const END: Duration = Duration::from_secs(5);

#[tokio::test]
async fn every_event_of_a_call_comes_in_its_order() {
    let seeing = Arc::new(Seeing::default());
    let asking = |answer: Answer| Asking {
        approvals: Approvals::Ask,
        approvers: vec![Arc::new(Person(answer))],
        grant_store: None,
        timeout: END,
    };
    let bench =
        Bench::new(|builder| builder.asking(asking(Answer::Yes(Scope::Call))).hook(seeing.clone()));
    assert!(bench.call("put", json!({"where": "a", "text": "x"})).await.ok);
    bench.runtime.end_sessions(END).await;
    let mut told = seeing.taken();
    // No call waits for hooks of questions, so these come at any time, in their own order.
    told[2..].sort_by_key(|told| told["event"] != "approval");
    let events: Vec<_> = told.iter().map(|told| told["event"].as_str().unwrap_or("")).collect();
    assert_eq!(
        events,
        [
            "session_start",
            "before_tool_execute",
            "approval",
            "approval",
            "after_tool_execute",
            "persist",
            "session_end"
        ]
    );
    let root = bench.path("").to_string_lossy().trim_end_matches('/').to_owned();
    assert_eq!(told[0]["roots"], json!([root]));
    assert_eq!((&told[0]["session"], &told[0]["dialect"]), (&json!("default"), &json!("test")));
    let call = json!({
        "session": "default", "agent": null, "turn": null, "call_id": "c", "dialect": "test",
        "tool": "put", "operation": "Put", "cwd": root,
        "arguments": {"where": "a", "text": "x"}, "paths": [format!("{root}/a")],
        "event": "before_tool_execute",
    });
    assert_eq!(told[1], call);
    let of_question = |at: usize, key: &str| told[at][key].clone();
    assert_eq!(of_question(2, "state"), json!("asked"));
    assert_eq!(
        (of_question(3, "state"), of_question(3, "answer")),
        (json!("answered"), json!("yes"))
    );
    assert_eq!(of_question(2, "paths"), json!([format!("{root}/a")]));
    assert_eq!(
        (of_question(2, "approver"), of_question(2, "rule")),
        (json!("person"), json!("change"))
    );
    let mut of_call = call;
    of_call.as_object_mut().expect("keys").shift_remove("event");
    assert_eq!((&told[4]["call"], &told[5]["call"]), (&of_call, &of_call));
    assert_eq!((&told[4]["ok"], &told[6]["n_calls"]), (&json!(true), &json!(1)));
    bench.runtime.end_sessions(END).await;
    assert!(seeing.taken().is_empty(), "a session ends once");

    // A call that does not run has no end that hooks of tools could follow.
    let no = Answer::No(Some(String::from("why")));
    let bench = Bench::new(|builder| builder.asking(asking(no)).hook(seeing.clone()));
    assert!(!bench.call("put", json!({"where": "a", "text": "x"})).await.ok);
    bench.runtime.end_sessions(END).await;
    let told = seeing.taken();
    assert_eq!(told.iter().filter(|told| told["event"] == "after_tool_execute").count(), 0);
    let answered = told.iter().find(|told| told["state"] == "answered").expect("an answer");
    assert_eq!((&answered["answer"], &answered["reason"]), (&json!("no"), &json!("why")));
    bench.call("nope", json!({"a": 1})).await;
    let told = seeing.taken();
    assert_eq!((told.len(), &told[1]["event"]), (2, &json!("persist")));
    assert_eq!(told[1]["call"]["arguments"], json!({"a": 1}));
    // Nothing is told of paths where the arguments do not fit.
    bench.call("put", json!({"where": "../../x", "text": "x"})).await;
    assert_eq!(seeing.taken()[0]["paths"], Value::Null);
}

#[tokio::test]
async fn a_session_begins_once_and_its_calls_wait_for_that() {
    let seeing = Arc::new(Seeing::default());
    let bench = Bench::new(|builder| builder.hook(seeing.clone()));
    assert!(!bench.runtime.has_sessions_to_end());
    let calls = (0..3).map(|_| bench.start("c", "odd", json!({})));
    futures_util::future::join_all(calls).await;
    let mut request = Request::new("c", "odd", serde_json::Map::new());
    request.session = String::from("other");
    bench.runtime.call(request, CallOptions::default()).await;
    let events = seeing.events();
    assert_eq!(events[0], "session_start");
    assert_eq!(events.iter().filter(|event| *event == "session_start").count(), 2);
    assert!(bench.runtime.has_sessions_to_end());
    bench.runtime.end_sessions(END).await;
    let mut ended = seeing.taken();
    ended.sort_by_key(|told| told["session"].to_string());
    let ended: Vec<_> = ended.iter().map(|told| (&told["session"], &told["n_calls"])).collect();
    assert_eq!(ended, [(&json!("default"), &json!(3)), (&json!("other"), &json!(1))]);
}

/// Never ends what it begins.
struct Stuck;

impl Hook for Stuck {
    fn name(&self) -> &str {
        "stuck"
    }
    fn before_tool_execute<'a>(
        &'a self,
        _call: &'a ToolCall<'a>,
    ) -> BoxFuture<'a, Result<Decision, ToolError>> {
        Box::pin(std::future::pending())
    }
    fn session_end<'a>(&'a self, _session: &'a SessionEnd) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::pending())
    }
    fn persist<'a>(
        &'a self,
        _call: &'a ToolCall<'a>,
        _reply: &'a mut Reply,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_hook_that_hangs_is_given_up_with_its_call_and_its_session() {
    let bench = Bench::new(|builder| builder.hook(Arc::new(Stuck)));
    let cancel = Cancel::default();
    let options = CallOptions { cancel: cancel.clone(), ..CallOptions::default() };
    let call = bench.start_with("c", "odd", json!({}), options);
    let (reply, ()) = futures_util::join!(call, async { cancel.cancel() });
    assert_eq!(reply.error.expect("an error").kind, Kind::Cancelled);
    let ending = bench.runtime.end_sessions(Duration::from_millis(20));
    tokio::time::timeout(END, ending).await.expect("it ends");
}

/// Changes prompts, blocks agents, and tries to block events that have happened already.
struct OfAgent(&'static str, i32);

impl Hook for OfAgent {
    fn name(&self) -> &str {
        self.0
    }
    fn priority(&self) -> i32 {
        self.1
    }
    fn agent<'a>(&'a self, moment: &'a AgentEvent) -> BoxFuture<'a, Result<Decision, ToolError>> {
        let decision = match moment {
            AgentEvent::BeforePrompt(prompt) if prompt.model == "wrong" => {
                json!({ "session": "other" }).as_object().cloned().map(Decision::Modify)
            }
            AgentEvent::BeforePrompt(prompt) => {
                let longer = format!("{} {}", prompt.system_prompt, self.0);
                json!({ "system_prompt": longer }).as_object().cloned().map(Decision::Modify)
            }
            _ => Some(Decision::Block(String::from("no agents"))),
        };
        Box::pin(async move { Ok(decision.unwrap_or(Decision::Continue)) })
    }
}

#[tokio::test]
async fn moments_of_an_agent_reach_hooks_through_the_library() {
    let bench = Bench::new(|builder| {
        builder.hook(Arc::new(OfAgent("second", 1))).hook(Arc::new(OfAgent("first", 2)))
    });
    let prompt = |model: &str| {
        AgentEvent::BeforePrompt(BeforePrompt {
            session: String::from("s"),
            model: model.to_owned(),
            system_prompt: String::from("brief"),
            messages: Vec::new(),
            tools: Vec::new(),
        })
    };
    let changed = bench.runtime.agent_event(prompt("m")).await.expect("it goes on");
    assert_eq!(changed.payload()["system_prompt"], json!("brief first second"));
    let error = bench.runtime.agent_event(prompt("wrong")).await.expect_err("a failure");
    assert!(error.message.contains("`session` cannot be changed"), "{error}");
    let text = |text: &str| text.to_owned();
    let start =
        AgentStart { session: text("s"), agent: text("a"), prompt: text("p"), model: text("m") };
    let error = bench.runtime.agent_event(AgentEvent::AgentStart(start)).await;
    assert_eq!(error.expect_err("blocked").message, "blocked by the hook `first`: no agents");
    let end = AgentEvent::TurnEnd(TurnEnd {
        session: text("s"),
        turn: text("t"),
        message: text("done"),
        n_tool_calls: 1,
        n_steps: 1,
        duration_ms: 1.0,
    });
    assert_eq!(bench.runtime.agent_event(end.clone()).await.expect("it goes on"), end);
}

/// The words of an error stood in the content and once more beside it, where hooks did not see them.
#[tokio::test]
async fn what_a_hook_takes_out_of_an_error_is_nowhere_else() {
    let masked: After = |reply| {
        reply.content = Reply::text("masked").content;
        Ok(())
    };
    let other: After = |reply| {
        *reply = Reply::failure(&ToolError::new(Kind::Timeout, "mine").hint("so"));
        Ok(())
    };
    let none: After = |reply| {
        reply.content = Vec::new();
        Ok(())
    };
    for (persist, message, hint) in [
        (TOLD.persist, "no tool of this name: nope", true),
        (masked, "masked", false),
        (none, "a hook took the words out", false),
        // One that writes an error of its own knows what it says.
        (other, "mine", true),
    ] {
        let bench = Bench::new(|builder| builder.hook(Arc::new(Told { persist, ..TOLD })));
        let error = bench.call("nope", json!({})).await.error.expect("an error");
        assert_eq!((error.message.as_str(), error.hint.is_some()), (message, hint));
    }
}

/// Panics wherever a call cannot be stopped, and never ends what it sees of questions.
struct Careless {
    panics: bool,
}

impl Careless {
    fn fails(&self) -> BoxFuture<'static, Result<(), ToolError>> {
        assert!(!self.panics, "as the test says");
        Box::pin(std::future::pending())
    }
}

impl Hook for Careless {
    fn name(&self) -> &str {
        "careless"
    }
    fn wants(&self, event: HookEvent) -> bool {
        event == HookEvent::Approval || self.panics
    }
    fn before_tool_execute<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
    ) -> BoxFuture<'a, Result<Decision, ToolError>> {
        assert_ne!(call.arguments["text"], "stop", "as the test says");
        Box::pin(async { Ok(Decision::Continue) })
    }
    fn approval<'a>(&'a self, _approval: &'a Approval) -> BoxFuture<'a, Result<(), ToolError>> {
        self.fails()
    }
    fn session_start<'a>(
        &'a self,
        _session: &'a SessionStart,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        self.fails()
    }
    fn session_end<'a>(&'a self, _session: &'a SessionEnd) -> BoxFuture<'a, Result<(), ToolError>> {
        self.fails()
    }
}

/// A panic in one that looks on failed every call of the session, and one that hung at the answer kept
/// the call, which could not be taken back meanwhile.
#[tokio::test]
async fn whoever_looks_on_keeps_no_call_back() {
    for panics in [true, false] {
        let asking = Asking {
            approvals: Approvals::Ask,
            approvers: vec![Arc::new(Person(Answer::Yes(Scope::Call)))],
            grant_store: None,
            timeout: END,
        };
        let bench =
            Bench::new(|builder| builder.asking(asking).hook(Arc::new(Careless { panics })));
        let call = bench.call("put", json!({"where": "a", "text": "x"}));
        let reply = tokio::time::timeout(END, call).await.expect("nobody waits");
        assert!(reply.ok, "{panics}: {}", text(&reply));
        bench.runtime.end_sessions(Duration::from_millis(50)).await;
        if panics {
            let reply = bench.call("put", json!({"where": "b", "text": "stop"})).await;
            assert!(
                text(&reply).starts_with("the hook `careless` failed, so the call does not run")
            );
        }
    }
}

/// Never answers.
struct Silent;

impl Approver for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }
    fn ask(&self, _question: Question) -> BoxFuture<'_, Answer> {
        Box::pin(std::future::pending())
    }
}

/// A question that was taken back was asked for ever.
#[tokio::test]
async fn a_question_that_is_taken_back_is_told_to_be_gone() {
    let seeing = Arc::new(Seeing::default());
    let asking = Asking {
        approvals: Approvals::Ask,
        approvers: vec![Arc::new(Silent)],
        grant_store: None,
        timeout: END,
    };
    let bench = Bench::new(|builder| builder.asking(asking).hook(seeing.clone()));
    let cancel = Cancel::default();
    let options = CallOptions { cancel: cancel.clone(), ..CallOptions::default() };
    let call = bench.start_with("c", "put", json!({"where": "a", "text": "x"}), options);
    let asked = async {
        while bench.runtime.n_asked("default") == 0 {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let (reply, ()) = futures_util::join!(call, asked);
    assert_eq!(reply.error.expect("an error").kind, Kind::Cancelled);
    bench.runtime.end_sessions(END).await;
    let told = seeing.taken();
    let approvals = told.iter().filter(|told| told["event"] == "approval");
    let states: Vec<_> = approvals.map(|told| (&told["state"], &told["answer"])).collect();
    assert_eq!(states, [(&json!("asked"), &Value::Null), (&json!("answered"), &json!("gone"))]);
}
