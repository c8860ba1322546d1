//! What asks, who answers, and what an answer holds for.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use sinew_guard::{CommandSettings, ProcessLimits, Profile, Rules, Rung};
use sinew_runtime::{Approvals, Asking, CallOptions};
use sinew_tool::{Answer, Approver, BoxFuture, Kind, Question, Reply, Request};

use crate::deeds::{Bench, text};

/// Answers as it is told and remembers what it was asked.
struct Person {
    answer: Option<Answer>,
    asked: Mutex<Vec<Question>>,
    /// A file that somebody else writes while the person thinks.
    meanwhile: Mutex<Option<std::path::PathBuf>>,
}

impl Person {
    fn new(answer: Option<Answer>) -> Arc<Self> {
        Arc::new(Self { answer, asked: Mutex::default(), meanwhile: Mutex::default() })
    }
}

impl Approver for Person {
    fn name(&self) -> &'static str {
        "person"
    }

    fn ask(&self, question: Question) -> BoxFuture<'_, Answer> {
        self.asked.lock().expect("unpoisoned").push(question);
        if let Some(path) = self.meanwhile.lock().expect("unpoisoned").take() {
            #[expect(clippy::disallowed_methods, reason = "somebody else writes, not sinew")]
            std::fs::write(path, "somebody else").expect("it can be written");
        }
        let answer = self.answer.clone();
        Box::pin(async move {
            match answer {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        })
    }
}

fn asking(approvals: Approvals, person: Option<Arc<Person>>) -> Asking {
    Asking {
        approvals,
        approver: person.map(|person| person as Arc<dyn Approver>),
        timeout: Duration::from_millis(50),
    }
}

async fn put(bench: &Bench) -> Reply {
    bench.call("put", json!({"where": "a", "text": "new"})).await
}

#[tokio::test]
async fn modes_and_answers_decide() {
    let no = || Person::new(Some(Answer::No(Some(String::from("too risky")))));
    for (approvals, person, error, words, approver) in [
        (Approvals::Auto, None, Some(Kind::ApprovalDenied), "--approvals trust-client", None),
        (Approvals::Ask, None, Some(Kind::ApprovalDenied), "nobody can be asked", None),
        (Approvals::Deny, None, Some(Kind::ApprovalDenied), "`--approvals deny`", None),
        (Approvals::TrustClient, None, None, "3 in a", Some("trust-client")),
        (Approvals::Allow, None, None, "3 in a", Some("allow")),
        (Approvals::Auto, Some(Person::new(Some(Answer::Yes))), None, "3 in a", Some("person")),
        (Approvals::Auto, Some(no()), Some(Kind::ApprovalDenied), "too risky", Some("person")),
        (
            Approvals::Deny,
            Some(Person::new(Some(Answer::Yes))),
            Some(Kind::ApprovalDenied),
            "",
            None,
        ),
        (
            Approvals::Ask,
            Some(Person::new(None)),
            Some(Kind::ApprovalTimeout),
            "it was not denied",
            Some("person"),
        ),
    ] {
        let bench = Bench::new(|builder| builder.asking(asking(approvals, person.clone())));
        let reply = put(&bench).await;
        let what = format!("{approvals:?}: {}", text(&reply));
        assert_eq!(reply.error.as_ref().map(|error| error.kind), error, "{what}");
        assert!(text(&reply).contains(words), "{what}");
        assert_eq!(bench.content("a").is_some(), error.is_none(), "{what}");
        let records = bench.records();
        assert_eq!(records[0].1.approver.as_deref(), approver, "{what}");
        let answer = match (approver, error) {
            (Some("person"), None) => Some("yes"),
            (Some("person"), Some(Kind::ApprovalTimeout)) => Some("timeout"),
            (Some("person"), Some(_)) => Some("no"),
            _ => None,
        };
        assert_eq!(records[0].1.answer, answer, "{what}");
        assert_eq!(records[0].1.waited_ms.is_some(), answer.is_some(), "{what}");
        assert_eq!(records[0].0, error.is_none(), "an intent only where it runs: {what}");
    }
}

#[tokio::test]
async fn the_question_shows_the_change_and_nobody_is_asked_for_nothing() {
    let person = Person::new(Some(Answer::Yes));
    let bench = Bench::new(|b| b.asking(asking(Approvals::Auto, Some(person.clone()))));
    put(&bench).await;
    {
        let asked = person.asked.lock().expect("unpoisoned");
        let [question] = asked.as_slice() else { panic!("{asked:?}") };
        assert_eq!(question.diff.as_deref(), Some("+new\n"));
        assert_eq!((question.tool.as_str(), question.rule), ("put", "change"));
        assert_eq!(question.effects, ["change"]);
        assert_eq!(question.targets.files[0].path, bench.path("a"));
    }
    // Its preview says that nothing would change, so it runs where nothing can be changed.
    let reply = bench.call("put", json!({"where": "a", "text": ""})).await;
    assert!(!reply.ok, "a World that only looks refuses to replace");
    assert_eq!(person.asked.lock().expect("unpoisoned").len(), 1);
    assert_eq!(bench.content("a").as_deref(), Some("new"));
}

#[tokio::test]
async fn an_answer_holds_for_the_file_that_was_shown() {
    let person = Person::new(Some(Answer::Yes));
    let bench = Bench::new(|b| b.asking(asking(Approvals::Auto, Some(person.clone()))));
    assert!(put(&bench).await.ok);
    *person.meanwhile.lock().expect("unpoisoned") = Some(bench.path("a"));
    let reply = put(&bench).await;
    assert_eq!(reply.error.expect("an error").kind, Kind::Stale);
    assert_eq!(bench.content("a").as_deref(), Some("somebody else"));
}

#[tokio::test]
async fn rules_deny_before_anybody_is_asked() {
    for (rules, tool, args, error) in [
        (
            Rules { profile: Profile::ReadOnly, ..Rules::default() },
            "put",
            json!({"where": "a", "text": "x"}),
            Some(Kind::PolicyDenied),
        ),
        (Rules { profile: Profile::ReadOnly, ..Rules::default() }, "odd", json!({}), None),
        (
            Rules { deny_tools: vec![String::from("Put")], ..Rules::default() },
            "put",
            json!({"where": "a", "text": "x"}),
            Some(Kind::PolicyDenied),
        ),
        (
            Rules { allow_tools: vec![String::from("o*")], ..Rules::default() },
            "put",
            json!({"where": "a", "text": "x"}),
            Some(Kind::PolicyDenied),
        ),
        (
            Rules { allow_tools: vec![String::from("o*")], ..Rules::default() },
            "odd",
            json!({}),
            None,
        ),
    ] {
        let person = Person::new(Some(Answer::Yes));
        let bench = Bench::new(|b| {
            b.rules(rules.clone()).asking(asking(Approvals::Auto, Some(person.clone())))
        });
        let reply = bench.call(tool, args).await;
        let kind = reply.error.as_ref().map(|error| error.kind);
        assert_eq!(kind, error, "{rules:?} {}", text(&reply));
        assert!(person.asked.lock().expect("unpoisoned").is_empty());
        assert_eq!(bench.content("a"), None);
        let shown = bench.runtime.catalogs()[0].tools();
        assert_eq!(shown.iter().any(|shown| shown.name == tool), error.is_none(), "{rules:?}");
    }
}

#[tokio::test]
async fn the_full_profile_still_asks_for_protected_names_and_required_approval() {
    let full = Rules { profile: Profile::Full, ..Rules::default() };
    let bench = Bench::new(|b| b.rules(full.clone()).asking(asking(Approvals::Auto, None)));
    assert!(put(&bench).await.ok);
    let reply = bench.call("put", json!({"where": ".mcp.json", "text": "x"})).await;
    assert_eq!(reply.error.expect("an error").kind, Kind::ApprovalDenied);

    let bench = Bench::new(|b| {
        b.rules(full)
            .asking(asking(Approvals::Auto, None))
            .settings(|settings| settings.require_approval = true)
    });
    assert_eq!(put(&bench).await.error.expect("an error").kind, Kind::ApprovalDenied);
}

#[tokio::test]
async fn a_tool_that_says_nothing_always_asks() {
    let bench = Bench::new(|b| b.asking(asking(Approvals::Auto, None)));
    let reply = bench.call("agent::unknown", json!({})).await;
    assert_eq!(reply.error.expect("an error").kind, Kind::ApprovalDenied);
}

/// Returns how commands are run that never are.
fn commands() -> CommandSettings {
    CommandSettings {
        helper: None,
        rungs: Rung::OWN.to_vec(),
        sessions: std::path::PathBuf::from("/nowhere"),
        hidden: Vec::new(),
        caches: Vec::new(),
        unprotected: Vec::new(),
        network: false,
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        activate: Vec::new(),
        shell: None,
        max_background: 4,
        max_processes: 512,
        limits: ProcessLimits::default(),
        warn: None,
    }
}

#[tokio::test]
async fn an_answer_for_the_session_holds_for_what_it_showed_and_for_no_other() {
    let person = Person::new(Some(Answer::Always));
    let bench = Bench::new(|builder| {
        builder.commands(commands()).asking(asking(Approvals::Auto, Some(person.clone())))
    });
    let mut n_asked = 0;
    for (session, command, always, ruling) in [
        ("s", "git commit -m x", Some("git commit *"), "ask (shell.option)"),
        ("s", "git commit -m y", None, "allow (grant)"),
        ("s", "git commit-tree y", Some("git commit-tree *"), "ask (shell.option)"),
        ("s", "git commit x; touch y", Some("git commit *, touch *"), "ask (shell.option)"),
        ("s", "touch a b && git commit x", None, "allow (grant)"),
        ("s", "git commit $(x)", Some(""), "ask (shell.syntax)"),
        ("other", "git commit -m y", Some("git commit *"), "ask (shell.option)"),
        ("s", "cat nothing", None, "allow (plain)"),
    ] {
        let args = json!({ "command": command }).as_object().cloned().unwrap_or_default();
        let mut request = Request::new("c", "begin", args);
        request.session = session.to_owned();
        let reply = bench.runtime.call(request, CallOptions::default()).await;
        assert_eq!(
            reply.meta.ruling.map(|ruled| ruled.to_string()).as_deref(),
            Some(ruling),
            "{command}"
        );
        let asked = person.asked.lock().expect("unpoisoned");
        match always {
            None => assert_eq!(asked.len(), n_asked, "{command}"),
            Some(always) => {
                n_asked += 1;
                assert_eq!(asked.len(), n_asked, "{command}");
                let shown = asked.last().and_then(|question| question.always.clone());
                assert_eq!(shown.unwrap_or_default().join(", "), always, "{command}");
            }
        }
        let records = bench.records();
        let record = records.last().expect("a record");
        let recorded =
            format!("{} ({})", record.1.verdict.unwrap_or(""), record.1.rule.unwrap_or(""));
        assert_eq!(recorded, ruling, "{command}");
    }
}
