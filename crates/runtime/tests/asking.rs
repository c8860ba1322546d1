//! What asks, who answers, and what an answer holds for.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use sinew_guard::{Profile, Rules};
use sinew_runtime::{Approvals, Asking};
use sinew_tool::{Answer, Approver, BoxFuture, Kind, Question, Reply};

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
        assert_eq!(records[0].1.approver, approver, "{what}");
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
