//! What asks, who answers, and what an answer holds for.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use sinew_guard::{AskCommands, CommandSettings, Layer, Profile, Rule, RuleOrigin, Rules};
use sinew_runtime::{Approvals, Asking, CallOptions};
use sinew_tool::{Answer, Approver, BoxFuture, CommandLine, Kind, Question, Reply, Request, Scope};

use crate::deeds::{Bench, TAKING_TURNS, text};

/// Answers as it is told and remembers what it was asked.
struct Person {
    answer: Option<Answer>,
    asked: Mutex<Vec<Question>>,
    /// A file that another program writes while the person thinks.
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
        approvers: person.map(|person| person as Arc<dyn Approver>).into_iter().collect(),
        grant_store: None,
        timeout: Duration::from_millis(50),
    }
}

#[tokio::test]
async fn change_during_wait_for_turn_refuses() {
    let person = Person::new(Some(Answer::Yes(Scope::Call)));
    let asking = asking(Approvals::Auto, Some(person.clone()));
    let bench = Bench::of(TAKING_TURNS, |builder| builder.asking(asking));
    let mut outer = bench.start("outer", "odd", json!({"wait": true}));
    assert!(futures_util::poll!(outer.as_mut()).is_pending());
    let mut waiting = bench.start("waiting", "put", json!({"where": "a", "text": "new"}));
    while person.asked.lock().expect("unpoisoned").is_empty() {
        let early = tokio::time::timeout(Duration::from_millis(10), waiting.as_mut()).await;
        assert!(early.is_err(), "{early:?}");
    }
    // It was approved, and waits for the turn.
    for _ in 0..10 {
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        tokio::task::yield_now().await;
    }
    #[expect(clippy::disallowed_methods, reason = "another program writes")]
    std::fs::write(bench.path("a"), "other").expect("it can be written");
    drop(outer);
    let reply = waiting.await;
    assert_eq!(reply.error.as_ref().map(|error| error.kind), Some(Kind::Stale));
    assert_eq!(bench.content("a").as_deref(), Some("other"));
}

async fn put(bench: &Bench) -> Reply {
    bench.call("put", json!({"where": "a", "text": "new"})).await
}

#[tokio::test]
async fn modes_and_answers_decide() {
    let no = || Person::new(Some(Answer::No(Some(String::from("too risky")))));
    for (approvals, person, error, words, approver) in [
        (Approvals::Auto, None, Some(Kind::ApprovalDenied), "--approvals trust-client", None),
        (Approvals::Ask, None, Some(Kind::ApprovalDenied), "no approver is connected", None),
        (Approvals::Deny, None, Some(Kind::ApprovalDenied), "`--approvals deny`", None),
        (Approvals::TrustClient, None, None, "3 in a", Some("trust-client")),
        (Approvals::Allow, None, None, "3 in a", Some("allow")),
        (
            Approvals::Auto,
            Some(Person::new(Some(Answer::Yes(Scope::Call)))),
            None,
            "3 in a",
            Some("person"),
        ),
        (Approvals::Auto, Some(no()), Some(Kind::ApprovalDenied), "too risky", Some("person")),
        (
            Approvals::Deny,
            Some(Person::new(Some(Answer::Yes(Scope::Call)))),
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
    let person = Person::new(Some(Answer::Yes(Scope::Call)));
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
    let person = Person::new(Some(Answer::Yes(Scope::Call)));
    let bench = Bench::new(|b| b.asking(asking(Approvals::Auto, Some(person.clone()))));
    assert!(put(&bench).await.ok);
    *person.meanwhile.lock().expect("unpoisoned") = Some(bench.path("a"));
    let reply = put(&bench).await;
    assert_eq!(reply.error.expect("an error").kind, Kind::Stale);
    assert_eq!(bench.content("a").as_deref(), Some("somebody else"));
}

#[tokio::test]
async fn rules_deny_before_anybody_is_asked() {
    let origin = || RuleOrigin { layer: Layer::Program, place: String::from("a test") };
    let with = |rule| Rules { rules: vec![Arc::new(rule)], ..Rules::default() };
    for (rules, tool, args, error) in [
        (
            Rules { profile: Profile::ReadOnly, ..Rules::default() },
            "put",
            json!({"where": "a", "text": "x"}),
            Some(Kind::PolicyDenied),
        ),
        (Rules { profile: Profile::ReadOnly, ..Rules::default() }, "odd", json!({}), None),
        (
            with(Rule::denying(vec![String::from("Put")], origin())),
            "put",
            json!({"where": "a", "text": "x"}),
            Some(Kind::PolicyDenied),
        ),
        (
            with(Rule::only(vec![String::from("o*")], origin())),
            "put",
            json!({"where": "a", "text": "x"}),
            Some(Kind::PolicyDenied),
        ),
        (with(Rule::only(vec![String::from("o*")], origin())), "odd", json!({}), None),
    ] {
        let person = Person::new(Some(Answer::Yes(Scope::Call)));
        let bench = Bench::new(|b| {
            b.rules(rules.clone()).asking(asking(Approvals::Auto, Some(person.clone())))
        });
        let reply = bench.call(tool, args).await;
        let kind = reply.error.as_ref().map(|error| error.kind);
        assert_eq!(kind, error, "{rules:?} {}", text(&reply));
        assert!(person.asked.lock().expect("unpoisoned").is_empty());
        assert_eq!(bench.content("a"), None);
        let catalogs = bench.runtime.catalogs();
        let is_shown = catalogs[0].tools().any(|shown| shown.name == tool);
        assert_eq!(is_shown, error.is_none(), "{rules:?}");
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
        sessions: std::path::PathBuf::from("/nowhere"),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        ask: AskCommands::Always,
        ..CommandSettings::default()
    }
}

#[tokio::test]
async fn an_answer_for_the_session_holds_for_what_it_showed_and_for_no_other() {
    let person = Person::new(Some(Answer::Yes(Scope::Session)));
    let bench = Bench::new(|builder| {
        builder.commands(commands()).asking(asking(Approvals::Auto, Some(person.clone())))
    });
    let mut n_asked = 0;
    for (session, command, always, ruling) in [
        ("s of=a", "mkdir x", Some("agent a mkdir *"), "ask (shell.program)"),
        ("s of=a", "mkdir y", None, "allow (grant)"),
        ("s of=b", "mkdir y", Some("agent b mkdir *"), "ask (shell.program)"),
        ("s of=*", "mkdir z", Some(""), "ask (shell.program)"),
        ("s", "mkdir y", Some("mkdir *"), "ask (shell.program)"),
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
        let (session, agent) = match session.split_once(" of=") {
            Some((session, agent)) => (session, Some(agent.to_owned())),
            None => (session, None),
        };
        (request.session, request.agent) = (session.to_owned(), agent);
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
                let question = asked.last().expect("a question");
                let shown = question.covers.iter().find(|cover| cover.scope == Scope::Session);
                let shown = shown.map(|cover| cover.what.join(", "));
                assert_eq!(shown.unwrap_or_default(), always, "{command}");
                assert_eq!(
                    question.n_asked,
                    asked.iter().filter(|one| one.session == session).count() as u64
                );
            }
        }
        let records = bench.records();
        let record = records.last().expect("a record");
        let recorded =
            format!("{} ({})", record.1.verdict.unwrap_or(""), record.1.rule.unwrap_or(""));
        assert_eq!(recorded, ruling, "{command}");
    }
}

/// Answers what it is asked by a function, after a while, and counts.
struct Racer {
    name: &'static str,
    answer: fn(&Question) -> Answer,
    wait: fn(&Question) -> Duration,
    n_answered: std::sync::atomic::AtomicUsize,
    asked: Mutex<Vec<Question>>,
    only: Option<&'static str>,
    may_grant: bool,
}

impl Racer {
    fn new(name: &'static str, answer: fn(&Question) -> Answer) -> Self {
        Self {
            name,
            answer,
            wait: |_| Duration::ZERO,
            n_answered: 0.into(),
            asked: Mutex::default(),
            only: None,
            may_grant: true,
        }
    }

    fn n_asked(&self) -> usize {
        self.asked.lock().expect("unpoisoned").len()
    }
}

impl Approver for Racer {
    fn name(&self) -> &'static str {
        self.name
    }

    fn ask(&self, question: Question) -> BoxFuture<'_, Answer> {
        self.asked.lock().expect("unpoisoned").push(question.clone());
        Box::pin(async move {
            tokio::time::sleep((self.wait)(&question)).await;
            self.n_answered.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            (self.answer)(&question)
        })
    }

    fn serves(&self, session: &str, _call_id: &str) -> bool {
        self.only.is_none_or(|only| only == session)
    }

    fn may_grant(&self) -> bool {
        self.may_grant
    }
}

fn among(racers: &[Arc<Racer>]) -> Asking {
    let approvers = racers.iter().map(|racer| Arc::clone(racer) as Arc<dyn Approver>).collect();
    Asking { approvers, timeout: Duration::from_secs(20), ..Asking::default() }
}

async fn put_at(bench: &Bench, session: &str, at: &str, text: &str) -> Reply {
    let args = json!({"where": at, "text": text}).as_object().cloned().unwrap_or_default();
    let mut request = Request::new(format!("c-{at}"), "put", args);
    request.session = session.to_owned();
    bench.runtime.call(request, CallOptions::default()).await
}

/// Fifty questions, five who answer each of them: the first answer counts.
#[tokio::test]
async fn racing_approvers_give_one_answer_each() {
    let racers: Vec<Arc<Racer>> = ["a", "b", "c", "d", "e"]
        .into_iter()
        .enumerate()
        .map(|(at, name)| {
            let yes: fn(&Question) -> Answer = |_| Answer::Yes(Scope::Call);
            let no: fn(&Question) -> Answer = |_| Answer::No(None);
            let wait: fn(&Question) -> Duration = |question| {
                let n: u64 = question.id.trim_start_matches('q').parse().unwrap_or_default();
                Duration::from_micros(n * 7_919 % 3_000)
            };
            Arc::new(Racer { wait, ..Racer::new(name, if at % 2 == 0 { yes } else { no }) })
        })
        .collect();
    let bench = Arc::new(Bench::new(|builder| builder.asking(among(&racers))));
    let calls = (0..50).map(|at| {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move { put_at(&bench, "s", &format!("f{at}"), "new").await.ok })
    });
    let mut n_ran = 0;
    for call in calls.collect::<Vec<_>>() {
        n_ran += usize::from(call.await.expect("it ends"));
    }
    let records = bench.records();
    assert_eq!(records.len(), 50, "each call has one record");
    for (_, closing) in &records {
        let by_yes = ["a", "c", "e"].contains(&closing.approver.as_deref().unwrap_or_default());
        assert_eq!(closing.error.is_none(), by_yes, "{closing:?}");
    }
    let changed = (0..50).filter(|at| bench.content(&format!("f{at}")).is_some()).count();
    assert_eq!(changed, n_ran);
    assert!(racers.iter().all(|racer| racer.n_asked() == 50), "each sees each question once");
    let n_answered =
        racers.iter().map(|racer| racer.n_answered.load(std::sync::atomic::Ordering::Relaxed));
    assert!(50 <= n_answered.sum::<usize>());
}

#[tokio::test]
async fn equal_questions_are_answered_in_one() {
    let wait: fn(&Question) -> Duration = |_| Duration::from_millis(30);
    let racer = Arc::new(Racer { wait, ..Racer::new("one", |_| Answer::Yes(Scope::Call)) });
    let bench = Bench::new(|builder| builder.asking(among(std::slice::from_ref(&racer))));
    let (a, b, other, session) = tokio::join!(
        put_at(&bench, "s", "a", "same"),
        put_at(&bench, "s", "a", "same"),
        put_at(&bench, "s", "b", "same"),
        put_at(&bench, "t", "a", "same"),
    );
    // The second of equal changes finds the file as the first one left it, which no question showed.
    let n_ran = [&a, &b, &session].iter().filter(|reply| reply.ok).count();
    assert!(1 <= n_ran && other.ok, "{a:?} {b:?}");
    assert_eq!(racer.n_asked(), 3, "the same of one session is asked once");
    assert_eq!((bench.runtime.n_asked("s"), bench.runtime.n_asked("t")), (2, 1));
}

/// The person was shown the file as it was, and what comes after is another question.
#[tokio::test]
async fn an_answer_holds_for_no_equal_call_that_meets_another_file() {
    let wait: fn(&Question) -> Duration = |_| Duration::from_millis(80);
    let racer = Arc::new(Racer { wait, ..Racer::new("one", |_| Answer::Yes(Scope::Call)) });
    let bench = Bench::new(|builder| builder.asking(among(std::slice::from_ref(&racer))));
    let later = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        #[expect(clippy::disallowed_methods, reason = "somebody else writes, not sinew")]
        std::fs::write(bench.path("a"), "somebody else").expect("it can be written");
        put_at(&bench, "s", "a", "same").await
    };
    let (first, second) = tokio::join!(put_at(&bench, "s", "a", "same"), later);
    assert_eq!(first.error.expect("an error").kind, Kind::Stale);
    assert!(second.ok, "{second:?}");
    assert_eq!(racer.n_asked(), 2, "the second was shown by itself");
}

/// A question without an answer runs nothing, not even what could be undone.
#[tokio::test]
async fn whoever_is_gone_has_not_said_yes() {
    for (answer, kind) in [
        (Answer::Gone, Kind::ApprovalDenied),
        // The time is not for an approver to say, and it is asked once.
        (Answer::TimedOut, Kind::ApprovalDenied),
        (Answer::No(None), Kind::ApprovalDenied),
    ] {
        let person = Person::new(Some(answer.clone()));
        let bench = Bench::new(|b| b.asking(asking(Approvals::Auto, Some(person.clone()))));
        let reply = tokio::time::timeout(Duration::from_secs(5), put(&bench)).await;
        let reply = reply.expect("it ends");
        assert_eq!(reply.error.map(|error| error.kind), Some(kind), "{answer:?}");
        assert_eq!(bench.content("a"), None, "{answer:?}");
        assert_eq!(person.asked.lock().expect("unpoisoned").len(), 1, "{answer:?}");
    }
}

/// A question that waits reaches an approver who arrives; the others are not asked twice.
#[tokio::test]
async fn waiting_question_reaches_later_approver() {
    let silent = Person::new(None);
    let asking = Asking {
        timeout: Duration::from_secs(20),
        ..asking(Approvals::Auto, Some(silent.clone()))
    };
    let bench = Bench::new(|b| b.asking(asking));
    for (answer, error) in
        [(Answer::No(None), Some(Kind::ApprovalDenied)), (Answer::Yes(Scope::Call), None)]
    {
        let late = Person::new(Some(answer));
        let arrives = async {
            while silent.asked.lock().expect("unpoisoned").is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            bench.runtime.add_approver(late.clone())
        };
        let (reply, attached) = tokio::join!(put(&bench), arrives);
        assert_eq!(reply.error.map(|error| error.kind), error);
        assert_eq!(late.asked.lock().expect("unpoisoned").len(), 1);
        assert_eq!(std::mem::take(&mut *silent.asked.lock().expect("unpoisoned")).len(), 1);
        drop(attached);
    }
}

#[tokio::test]
async fn a_call_that_is_taken_back_does_not_run_whatever_is_answered() {
    for _ in 0..5 {
        let wait: fn(&Question) -> Duration = |_| Duration::from_millis(300);
        let racer = Arc::new(Racer { wait, ..Racer::new("one", |_| Answer::Yes(Scope::Call)) });
        let bench = Bench::new(|builder| builder.asking(among(std::slice::from_ref(&racer))));
        let options = CallOptions::default();
        let cancel = options.cancel.clone();
        let args = json!({"where": "a", "text": "new"}).as_object().cloned().unwrap_or_default();
        let call = bench.runtime.call(Request::new("c", "put", args), options);
        let taken_back = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            cancel.cancel();
            // The answer is there before the call looks again.
            std::thread::sleep(Duration::from_millis(320));
        };
        let (reply, ()) = tokio::join!(call, taken_back);
        assert_eq!(reply.error.map(|error| error.kind), Some(Kind::Cancelled));
        assert_eq!(bench.content("a"), None);
        let records = bench.records();
        assert_eq!(records[0].1.approver.as_deref(), Some("one"));
        assert!(records[0].1.waited_ms.is_some() && records[0].1.answer.is_none());
    }
}

#[tokio::test]
async fn who_thinks_does_not_use_up_the_time_of_the_call() {
    let wait: fn(&Question) -> Duration = |_| Duration::from_millis(150);
    let racer = Arc::new(Racer { wait, ..Racer::new("one", |_| Answer::Yes(Scope::Call)) });
    let bench = Bench::new(|builder| {
        builder.commands(commands()).asking(among(std::slice::from_ref(&racer)))
    });
    for (text, kind) in [("touch x", None), ("touch y", None)] {
        let args = json!({ "command": text }).as_object().cloned().unwrap_or_default();
        let mut request = Request::new("c", "begin", args);
        request.deadline = Some(std::time::Instant::now() + Duration::from_millis(100));
        let reply = bench.runtime.call(request, CallOptions::default()).await;
        assert_eq!(reply.error.map(|error| error.kind), kind, "{text}");
    }
}

#[tokio::test]
async fn whoever_waits_for_a_question_that_is_taken_back_puts_it_again() {
    let wait: fn(&Question) -> Duration = |_| Duration::from_millis(60);
    let racer = Arc::new(Racer { wait, ..Racer::new("one", |_| Answer::Yes(Scope::Call)) });
    let bench = Bench::new(|builder| builder.asking(among(std::slice::from_ref(&racer))));
    let first = tokio::time::timeout(Duration::from_millis(20), put_at(&bench, "s", "a", "same"));
    let (first, second) = tokio::join!(first, put_at(&bench, "s", "a", "same"));
    assert!(first.is_err() && second.ok, "{second:?}");
    assert_eq!(racer.n_asked(), 2);
}

#[tokio::test]
async fn an_answer_for_more_settles_what_waits() {
    // The first question is answered for the session, and the others get no answer.
    let wait: fn(&Question) -> Duration = |question| {
        let command = question.targets.command.as_ref().map(|command| &command.command.line);
        match command {
            Some(CommandLine::Shell(_, text)) if text == "git commit -m a" => {
                Duration::from_millis(40)
            }
            _ => Duration::from_secs(60),
        }
    };
    let racer = Arc::new(Racer { wait, ..Racer::new("one", |_| Answer::Yes(Scope::Session)) });
    let bench = Bench::new(|builder| {
        builder.commands(commands()).asking(among(std::slice::from_ref(&racer)))
    });
    let begin = |command: &str| {
        let args = json!({ "command": command }).as_object().cloned().unwrap_or_default();
        bench.runtime.call(Request::new("c", "begin", args), CallOptions::default())
    };
    let (first, second, third) = tokio::join!(
        begin("git commit -m a"),
        begin("git commit -m b"),
        tokio::time::timeout(Duration::from_millis(300), begin("touch x")),
    );
    let ruling = |reply: &Reply| reply.meta.ruling.map(|ruled| ruled.to_string());
    assert_eq!(ruling(&first).as_deref(), Some("ask (shell.option)"));
    assert_eq!(ruling(&second).as_deref(), Some("ask (shell.option)"), "it had asked");
    assert!(third.is_err(), "what is not covered goes on waiting");
    let records = bench.records();
    let approvers: Vec<_> =
        records.iter().map(|(_, closing)| closing.approver.as_deref()).collect();
    assert_eq!(approvers[..2], [Some("one"), Some("grant")]);
}

#[tokio::test]
async fn changes_are_granted_by_file_and_calls_as_they_are() {
    let racer = Arc::new(Racer::new("one", |question| match question.tool.as_str() {
        "put" => Answer::Yes(Scope::Session),
        _ => Answer::Yes(Scope::Exact),
    }));
    let bench = Bench::new(|builder| builder.asking(among(std::slice::from_ref(&racer))));
    for (session, at, n_asked) in [
        ("s", "a", 1),
        ("s", "a", 1),
        ("s", "b", 2),
        ("t", "a", 3),
        ("s", ".mcp.json", 4),
        ("s", ".mcp.json", 5),
    ] {
        assert!(put_at(&bench, session, at, &format!("{session}{n_asked}{at}")).await.ok);
        assert_eq!(racer.n_asked(), n_asked, "{session} {at}");
    }
    let covers = racer.asked.lock().expect("unpoisoned")[0].covers.clone();
    let scopes: Vec<Scope> = covers.iter().map(|cover| cover.scope).collect();
    assert_eq!(scopes, [Scope::Exact, Scope::Session], "nobody keeps anything for ever here");
    assert!(
        covers[1].what[0].starts_with("Put ") && covers[1].what[0].ends_with("/a"),
        "{covers:?}"
    );
    assert!(racer.asked.lock().expect("unpoisoned")[3].covers.is_empty(), "a protected name");
    for (args, n_asked) in [(json!({"x": 1}), 6), (json!({"x": 1}), 6), (json!({"x": 2}), 7)] {
        bench.call("agent::unknown", args).await;
        assert_eq!(racer.n_asked(), n_asked);
    }
}

#[tokio::test]
async fn who_may_not_grant_answers_for_one_call() {
    let racer =
        Arc::new(Racer { may_grant: false, ..Racer::new("one", |_| Answer::Yes(Scope::Session)) });
    let bench = Bench::new(|builder| builder.asking(among(std::slice::from_ref(&racer))));
    for n_asked in 1..3 {
        assert!(put_at(&bench, "s", "a", &format!("{n_asked}")).await.ok);
        assert_eq!(racer.n_asked(), n_asked);
    }
    assert!(
        racer.asked.lock().expect("unpoisoned").iter().all(|question| question.covers.is_empty())
    );
}

#[tokio::test]
async fn who_is_gone_leaves_the_question_to_the_others() {
    let gone = Arc::new(Racer::new("gone", |_| Answer::Gone));
    let slow: fn(&Question) -> Duration = |_| Duration::from_millis(20);
    let there = Arc::new(Racer { wait: slow, ..Racer::new("there", |_| Answer::Yes(Scope::Call)) });
    let bench = Bench::new(|builder| builder.asking(among(&[gone.clone(), there])));
    assert!(put_at(&bench, "s", "a", "x").await.ok);
    let bench = Bench::new(|builder| builder.asking(among(&[gone])));
    let reply = put_at(&bench, "s", "a", "x").await;
    let error = reply.error.expect("an error");
    assert_eq!(error.kind, Kind::ApprovalDenied);
    assert!(error.message.contains("no approver answered"), "{}", error.message);
}

#[tokio::test]
async fn approvers_come_and_go_and_serve_their_sessions() {
    let bench = Bench::new(|builder| builder.asking(among(&[])));
    assert!(!put_at(&bench, "s", "a", "x").await.ok, "nobody is there");
    let racer =
        Arc::new(Racer { only: Some("s"), ..Racer::new("late", |_| Answer::Yes(Scope::Call)) });
    let attached = bench.runtime.add_approver(racer);
    assert_eq!(bench.runtime.approvers(), ["late"]);
    assert!(put_at(&bench, "s", "a", "x").await.ok);
    assert!(!put_at(&bench, "t", "b", "x").await.ok, "another session");
    drop(attached);
    assert!(!put_at(&bench, "s", "c", "x").await.ok, "it left");
}
