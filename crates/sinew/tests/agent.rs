//! The agent loop over the real runtime, with a model that says what a test scripts.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sinew::approval::{Approvals, Asking};
use sinew::checkpoint::Checkpoints;
use sinew::dialects::{NATIVE, dialect};
use sinew::hook::{AgentEvent, Decision, Hook, HookEvent};
use sinew::sub_agent::SubAgent;
use sinew::{BoxFuture, Cancel, Runtime, StateDir, ToolError};
use sinew_agent::{
    Agent, AgentError, AgentSettings, Budget, Completion, CompletionRequest, Entry, Message, Model,
    ModelError, ModelErrorKind, Offer, OutputCompaction, Part, Session, StopReason, StreamEvent,
    SubAgentPlace, ToolCall, ToolSpec, Transcript, TurnEnd, TurnEvent, TurnStop, Usage,
};
use sinew_tool::sync::lock;

/// What the model does when it is asked.
#[derive(Clone)]
enum Says {
    Text(&'static str),
    Calls(Vec<(&'static str, Value)>),
    /// A call whose arguments are this text.
    Malformed(&'static str, &'static str),
    Fails(ModelErrorKind),
    /// Streams a text and never ends.
    Hangs(&'static str),
}

/// What the model was asked.
#[derive(Clone)]
struct Seen {
    messages: Vec<Message>,
    tools: Vec<ToolSpec>,
    may_call: bool,
}

#[derive(Default)]
struct Script {
    says: Mutex<VecDeque<Says>>,
    /// What it says when the script is over.
    always: Option<Says>,
    seen: Mutex<Vec<Seen>>,
}

impl Model for Script {
    fn name(&self) -> &str {
        "script"
    }

    fn complete<'a>(
        &'a self,
        request: &'a CompletionRequest<'a>,
        listener: &'a mut (dyn FnMut(StreamEvent) + Send),
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        lock(&self.seen).push(Seen {
            messages: request.messages.to_vec(),
            tools: request.tools.to_vec(),
            may_call: request.may_call,
        });
        let says = lock(&self.says).pop_front().or_else(|| self.always.clone());
        let bytes =
            json!(request.messages).to_string().len() + json!(request.tools).to_string().len();
        let usage = Usage { input: bytes as u64 / 4, cached: 0, output: 10 };
        Box::pin(async move {
            let parts = match says.unwrap_or(Says::Text("over")) {
                Says::Text(text) => vec![Part::Text { text: text.to_owned() }],
                Says::Calls(calls) => {
                    let call = |(name, arguments): (&str, Value)| call(name, arguments.to_string());
                    calls.into_iter().map(call).collect()
                }
                Says::Malformed(name, arguments) => vec![call(name, arguments.to_owned())],
                Says::Fails(kind) => return Err(ModelError::new(kind, "it fails")),
                Says::Hangs(text) => {
                    listener(StreamEvent::Text(text.to_owned()));
                    std::future::pending::<()>().await;
                    vec![]
                }
            };
            Ok(Completion { parts, stop: StopReason::End, usage })
        })
    }
}

/// A call without an id, as some models make it.
fn call(name: &str, arguments: String) -> Part {
    Part::Call(ToolCall { id: String::new(), name: name.to_owned(), namespace: None, arguments })
}

/// A transcript in memory.
#[derive(Default)]
struct Memory {
    entries: Mutex<Vec<Entry>>,
    /// From this entry on the disk is full.
    full_at: Option<usize>,
}

impl Transcript for Memory {
    fn append(&self, entry: &Entry) -> Result<(), String> {
        let mut entries = lock(&self.entries);
        if self.full_at.is_some_and(|full| full <= entries.len()) {
            return Err(String::from("no space left on device"));
        }
        // A stored entry is the same when it is read again.
        let json = serde_json::to_string(entry).unwrap();
        entries.push(serde_json::from_str(&json).unwrap());
        Ok(())
    }
}

struct Bench {
    _dir: tempfile::TempDir,
    root: PathBuf,
    runtime: Arc<Runtime>,
    script: Arc<Script>,
    transcript: Arc<Memory>,
    settings: AgentSettings,
    session: Session,
    /// What happened: `text`, `+Tool` where a call begins and `-Tool` where it ends.
    happened: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    fn new(says: Vec<Says>) -> Self {
        Self::with(says, None, |builder| builder)
    }

    fn with(
        says: Vec<Says>,
        always: Option<Says>,
        change: impl FnOnce(sinew::Builder) -> sinew::Builder,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let root = top.join("ws");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a.txt"), "one\n").unwrap();
        let state = StateDir::open(&top.join("state")).unwrap();
        let checkpoints =
            Arc::new(Checkpoints::new(&state, sinew::checkpoint::CheckpointSettings::default()));
        let asking = Asking { approvals: Approvals::Auto, ..Asking::default() };
        let builder = Runtime::builder(NATIVE).root(&root).checkpoints(checkpoints).asking(asking);
        let runtime = change(builder).build().unwrap();
        let settings = AgentSettings {
            spending: Arc::default(),
            sub_agent: None,
            session: String::from("s"),
            provider: String::from("test"),
            system: String::from("You help."),
            offer: Offer::default(),
            context: 100_000,
            max_output_tokens: 1_000,
            temperature: None,
            max_tool_iterations: 20,
            budget: None,
            prices: None,
            output_compaction: OutputCompaction::Safe,
        };
        let script = Script { says: Mutex::new(says.into()), always, ..Script::default() };
        Self {
            _dir: dir,
            root,
            runtime,
            script: Arc::new(script),
            transcript: Arc::default(),
            settings,
            session: Session::default(),
            happened: Arc::default(),
        }
    }

    fn agent(&self) -> Agent {
        Agent::new(
            Arc::clone(&self.runtime),
            Arc::clone(&self.script) as Arc<dyn Model>,
            self.settings.clone(),
            Arc::clone(&self.transcript) as Arc<dyn Transcript>,
            self.session.clone(),
        )
    }

    fn turn(&self, prompt: Option<&str>) -> Result<TurnEnd, AgentError> {
        self.turn_until(prompt, &Cancel::default(), |_| {})
    }

    fn turn_until(
        &self,
        prompt: Option<&str>,
        cancel: &Cancel,
        mut also: impl FnMut(&TurnEvent<'_>) + Send,
    ) -> Result<TurnEnd, AgentError> {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let happened = Arc::clone(&self.happened);
        let mut listener = |event: TurnEvent<'_>| {
            also(&event);
            match event {
                TurnEvent::CallBegins { call, .. } => {
                    lock(&happened).push(format!("+{}", call.name))
                }
                TurnEvent::CallEnds { call, .. } => lock(&happened).push(format!("-{}", call.name)),
                TurnEvent::Compacted { .. } => lock(&happened).push(String::from("compacted")),
                _ => {}
            }
        };
        let mut agent = self.agent();
        tokio.block_on(agent.turn(prompt.map(str::to_owned), cancel, &mut listener))
    }

    fn happened(&self) -> String {
        lock(&self.happened).join(" ")
    }

    /// Returns the results that the model was told, in order, as text with a mark for failures.
    fn results(&self) -> Vec<String> {
        let entries = lock(&self.transcript.entries);
        let session = Session::of_entries(entries.iter());
        let results = session.messages().iter().filter_map(|message| match message {
            Message::Results { results } => Some(results.clone()),
            _ => None,
        });
        let told = results.flatten();
        told.map(|result| format!("{}{}", if result.is_error { "! " } else { "" }, result.text))
            .collect()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.root.join(name)).unwrap_or_default()
    }

    fn seen(&self) -> Vec<Seen> {
        lock(&self.script.seen).clone()
    }
}

fn read(path: &str) -> (&'static str, Value) {
    ("Read", json!({ "file_path": path }))
}

fn edit(old: &str, new: &str) -> (&'static str, Value) {
    ("Edit", json!({ "file_path": "a.txt", "old_string": old, "new_string": new }))
}

#[test]
fn observing_calls_run_together_and_results_keep_order() {
    let bench = Bench::new(vec![
        Says::Calls(vec![
            ("Grep", json!({ "pattern": "one" })),
            read("a.txt"),
            edit("one", "two"),
            read("a.txt"),
            edit("two", "three"),
        ]),
        Says::Text("done"),
    ]);
    let end = bench.turn(Some("go")).unwrap();
    assert_eq!((end.stop, end.text.as_str(), end.n_calls), (TurnStop::Done, "done", 5));
    assert_eq!(bench.read("a.txt"), "three\n");
    let happened = bench.happened();
    assert!(happened.starts_with("+Grep +Read -"), "{happened}");
    assert!(happened.ends_with("+Edit -Edit +Read -Read +Edit -Edit"), "{happened}");
    let results = bench.results();
    assert!(results[1].contains("one") && results[3].contains("two"), "{results:?}");
    let seen = bench.seen();
    let [first, second] = seen.as_slice() else { panic!("{} requests", seen.len()) };
    assert!(first.may_call && second.may_call && first.tools == second.tools);
    assert_eq!(second.messages.get(..1), Some(first.messages.as_slice()), "a stable prefix");
}

#[test]
fn failed_and_malformed_calls_get_an_answer_each() {
    let bench = Bench::new(vec![
        Says::Calls(vec![
            read("a.txt"),
            read("none"),
            ("Raed", json!({})),
            ("Read", json!({ "file": 1 })),
        ]),
        Says::Malformed("Read", "{\"file_path\": \"a.t"),
        Says::Calls(vec![read("a.txt")]),
        Says::Text("done"),
    ]);
    assert_eq!(bench.turn(Some("go")).unwrap().stop, TurnStop::Done);
    let results = bench.results();
    assert!(results[0].contains("one"), "{results:?}");
    for (at, part) in [(1, "none"), (2, "Read"), (3, "file"), (4, "not valid JSON")] {
        assert!(results[at].starts_with("! ") && results[at].contains(part), "{at}: {results:?}");
    }
    assert!(results[5].contains("one"));
}

#[test]
fn arguments_as_text_are_understood() {
    let bench = Bench::new(vec![
        Says::Malformed("Read", r#""{\"file_path\": \"a.txt\"}""#),
        Says::Text("```json\n{\"name\": \"Read\", \"arguments\": {\"file_path\": \"a.txt\"}}\n```"),
        Says::Text("done"),
    ]);
    assert_eq!(bench.turn(Some("go")).unwrap().n_calls, 2);
    let results = bench.results();
    assert!(results.iter().all(|result| result.contains("one")), "{results:?}");
}

#[test]
fn last_answer_at_the_limit_has_no_calls() {
    let n = Mutex::new(0);
    let always = Says::Calls(vec![read("a.txt")]);
    let mut bench = Bench::with(vec![], Some(always), |builder| builder);
    bench.settings.max_tool_iterations = 3;
    let end = bench
        .turn_until(Some("go"), &Cancel::default(), |event| {
            if matches!(event, TurnEvent::Notice(_)) {
                *lock(&n) += 1;
            }
        })
        .unwrap();
    // The model calls although it may not: its call is left out.
    assert_eq!((end.stop, end.n_calls, end.n_iterations), (TurnStop::MaxTurns, 3, 4));
    assert_eq!(*lock(&n), 1);
    let may_call: Vec<bool> = bench.seen().iter().map(|seen| seen.may_call).collect();
    assert_eq!(may_call, [true, true, true, false]);
}

#[test]
fn identical_calls_are_noticed_and_stopped() {
    let bench = Bench::with(vec![], Some(Says::Calls(vec![read("a.txt")])), |builder| builder);
    let end = bench.turn(Some("go")).unwrap();
    assert_eq!((end.stop, end.n_calls), (TurnStop::Repeated, 4), "{:?}", bench.results());
    let results = bench.results();
    let noticed: Vec<bool> = results.iter().map(|text| text.contains("was made")).collect();
    assert_eq!(noticed, [false, false, true, true, false]);
    assert!(results[4].starts_with("! not run"), "{results:?}");
}

#[test]
fn budget_ends_a_turn_before_the_next_request() {
    let mut bench = Bench::with(vec![], Some(Says::Calls(vec![read("a.txt")])), |builder| builder);
    bench.settings.budget = Some(Budget::Tokens(1));
    let end = bench.turn(Some("go")).unwrap();
    assert_eq!((end.stop, bench.seen().len()), (TurnStop::Budget, 1));
}

#[test]
fn interrupted_turn_keeps_what_was_said_and_done() {
    let bench = Bench::new(vec![Says::Calls(vec![edit("one", "two")]), Says::Hangs("I was sayi")]);
    let cancel = Cancel::default();
    let raise = cancel.clone();
    let end = bench
        .turn_until(Some("go"), &cancel, |event| {
            if matches!(event, TurnEvent::Stream(StreamEvent::Text(_))) {
                raise.cancel();
            }
        })
        .unwrap();
    assert_eq!((end.stop, end.text.as_str()), (TurnStop::Interrupted, "I was sayi"));
    assert_eq!(bench.read("a.txt"), "two\n");
    // The rest of the turn begins with a word about the cut message.
    let session = Session::of_entries(lock(&bench.transcript.entries).iter());
    let bench = Bench { session, ..Bench::new(vec![Says::Text("ng this")]) };
    assert_eq!(bench.turn(None).unwrap().text, "ng this");
    let seen = bench.seen();
    let Some(Message::User { text }) = seen[0].messages.last() else { panic!("no notice") };
    assert!(text.contains("was cut"), "{text}");
    // While a command runs, and for the calls behind it.
    let bench =
        Bench::new(vec![Says::Calls(vec![read("a.txt"), edit("one", "two"), read("a.txt")])]);
    let cancel = Cancel::default();
    let raise = cancel.clone();
    let end = bench
        .turn_until(Some("go"), &cancel, |event| {
            if matches!(event, TurnEvent::CallEnds { call, .. } if call.name == "Read") {
                raise.cancel();
            }
        })
        .unwrap();
    assert_eq!((end.stop, bench.read("a.txt").as_str()), (TurnStop::Interrupted, "one\n"));
    let results = bench.results();
    assert!(results[1..].iter().all(|text| text.starts_with("! not run")), "{results:?}");
}

/// A process killed at any entry leaves a whole conversation, and nothing is changed twice.
#[test]
fn session_goes_on_from_every_entry() {
    let says = || {
        vec![
            Says::Calls(vec![read("a.txt"), edit("one", "one one"), read("a.txt")]),
            Says::Text("done"),
        ]
    };
    let whole = Bench::new(says());
    whole.turn(Some("go")).unwrap();
    let entries = lock(&whole.transcript.entries).clone();
    assert_eq!(entries.len(), 10, "{entries:?}");
    for n in 1..entries.len() {
        let mut bench = Bench::new(vec![Says::Text("went on")]);
        let before = entries.get(..n).unwrap();
        let was_changed = before
            .iter()
            .any(|entry| matches!(entry, Entry::CallEnds { result } if result.name == "Edit"));
        let text = if was_changed { "one one\n" } else { "one\n" };
        fs::write(bench.root.join("a.txt"), text).unwrap();
        bench.session = Session::of_entries(before);
        lock(&bench.transcript.entries).extend(before.iter().cloned());
        let ended = bench.turn(None).unwrap();
        // Where only the end was not stored, nothing is asked again.
        let is_answered = n == 9;
        let text_of_end = if is_answered { "done" } else { "went on" };
        assert_eq!((ended.stop, ended.text.as_str()), (TurnStop::Done, text_of_end), "{n}");
        assert_eq!(bench.read("a.txt"), text, "{n}");
        let seen = bench.seen();
        assert_eq!(seen.is_empty(), is_answered, "{n}");
        seen.iter().for_each(|seen| check_whole(&seen.messages, n));
        let open = before.iter().filter(|entry| matches!(entry, Entry::CallBegins { .. })).count()
            - before.iter().filter(|entry| matches!(entry, Entry::CallEnds { .. })).count();
        let lost =
            bench.results().iter().filter(|text| text.contains("its result is lost")).count();
        assert_eq!(lost, open, "{n}");
    }
    // One that is over needs a message.
    let mut bench = Bench::new(vec![]);
    bench.session = Session::of_entries(&entries);
    assert!(matches!(bench.turn(None), Err(AgentError::NothingToDo)));
    assert_eq!(bench.turn(Some("more")).unwrap().turn, "2");
}

/// Each message with calls is followed by one result for each, in order.
#[track_caller]
fn check_whole(messages: &[Message], n: usize) {
    for pair in messages.windows(2) {
        let [Message::Model { parts }, next] = pair else { continue };
        let calls: Vec<&str> = parts
            .iter()
            .filter_map(|part| match part {
                Part::Call(call) => Some(call.id.as_str()),
                _ => None,
            })
            .collect();
        let results: Vec<&str> = match next {
            Message::Results { results } => {
                results.iter().map(|result| result.id.as_str()).collect()
            }
            _ => vec![],
        };
        assert_eq!(calls, results, "{n}");
    }
}

#[test]
fn full_disk_stops_before_the_next_step() {
    for full_at in 0..8 {
        let mut bench = Bench::new(vec![Says::Calls(vec![edit("one", "two")]), Says::Text("done")]);
        bench.transcript = Arc::new(Memory { full_at: Some(full_at), ..Memory::default() });
        let ended = bench.turn(Some("go"));
        match full_at {
            0..=5 if ended.is_err() => {
                let error = ended.unwrap_err().to_string();
                assert!(error.contains("no space left"), "{error}");
            }
            _ => assert!(ended.is_ok() && 5 < full_at, "{full_at}"),
        }
        // A call whose beginning cannot be stored does not run.
        assert_eq!(bench.read("a.txt") == "two\n", 2 < full_at, "{full_at}");
    }
}

#[test]
fn long_conversation_is_shortened_oldest_results_first() {
    let calls = |n: usize| {
        let path: &'static str = Box::leak(format!("f{n}.txt").into_boxed_str());
        Says::Calls(vec![read(path)])
    };
    let mut says: Vec<Says> = (0..12).map(calls).collect();
    says.push(Says::Text("done"));
    let mut bench = Bench::new(says);
    bench.settings.context = 18_000;
    for n in 0..12 {
        fs::write(bench.root.join(format!("f{n}.txt")), format!("{n} x x x x\n").repeat(400))
            .unwrap();
    }
    let end = bench.turn(Some("go")).unwrap();
    assert_eq!((end.stop, end.n_calls), (TurnStop::Done, 12));
    assert!(bench.happened().contains("compacted"), "{}", bench.happened());
    let seen = bench.seen();
    let last = seen.last().unwrap();
    let texts: Vec<bool> = last
        .messages
        .iter()
        .filter_map(|message| match message {
            Message::Results { results } => Some(results[0].text.contains("were removed")),
            _ => None,
        })
        .collect();
    let n_removed = texts.iter().filter(|removed| **removed).count();
    assert!(0 < n_removed && n_removed < 10, "{texts:?}");
    assert!(texts.iter().take(n_removed).all(|removed| *removed), "the oldest first: {texts:?}");
    let entries = lock(&bench.transcript.entries);
    let stored = Session::of_entries(entries.iter());
    let [.., Message::Model { .. }] = stored.messages() else { panic!("no answer") };
    assert_eq!(stored.messages().len(), last.messages.len() + 1, "a resumed session has the same");
}

#[test]
fn refused_conversation_is_shortened_and_sent_again() {
    let part = |n: u64| ("Read", json!({ "file_path": "big.txt", "offset": n, "limit": 1_000 }));
    let mut says: Vec<Says> = (1..9).map(|n| Says::Calls(vec![part(n)])).collect();
    says.push(Says::Fails(ModelErrorKind::ContextOverflow));
    says.push(Says::Text("notes or answer"));
    says.push(Says::Text("done"));
    let bench = Bench::new(says);
    fs::write(bench.root.join("big.txt"), "y y y y\n".repeat(1_000)).unwrap();
    assert_eq!(bench.turn(Some("go")).unwrap().stop, TurnStop::Done);
    assert!(bench.happened().ends_with("compacted"), "{}", bench.happened());
    // Where nothing can be shortened the error stays.
    let bench = Bench::new(vec![Says::Fails(ModelErrorKind::ContextOverflow)]);
    let error = bench.turn(Some("go")).unwrap_err();
    assert!(
        matches!(error, AgentError::Model(error) if error.kind == ModelErrorKind::ContextOverflow)
    );
}

#[test]
fn turn_that_cannot_fit_is_refused_with_figures() {
    let mut bench = Bench::new(vec![]);
    bench.settings.context = 4_000;
    let error = bench.turn(Some("go")).unwrap_err().to_string();
    assert!(error.contains("of the 4000 of the model's context window"), "{error}");
    assert!(bench.seen().is_empty());
}

#[test]
fn commands_are_denied_at_once_where_nobody_answers() {
    let bench = Bench::new(vec![
        Says::Calls(vec![("Bash", json!({ "command": "touch made" })), read("/etc/hostname")]),
        Says::Text("done"),
    ]);
    assert_eq!(bench.turn(Some("go")).unwrap().stop, TurnStop::Done);
    let results = bench.results();
    assert!(results[0].starts_with("! ") && results[1].starts_with("! "), "{results:?}");
    assert!(!bench.root.join("made").exists());
}

#[test]
fn every_dialect_runs_in_the_loop() {
    for name in ["moltis", "molf", "agentos", "aionrs", "clawft", "codex", "mcp-filesystem"] {
        let dialect = dialect(name).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let runtime = Runtime::builder(*dialect).root(dir.path()).build().unwrap();
        let says = vec![Says::Text("done")];
        let mut bench = Bench::new(says);
        bench.runtime = runtime;
        assert_eq!(bench.turn(Some("go")).unwrap().stop, TurnStop::Done, "{name}");
        let seen = bench.seen();
        let fits = |name: &str| {
            name.len() <= 64
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
        };
        assert!(!seen[0].tools.is_empty(), "{name}");
        assert!(seen[0].tools.iter().all(|tool| fits(&tool.name)), "{name}");
    }
}

/// Notes each event of the agent, and changes the prompt.
struct Noting(Arc<Mutex<Vec<String>>>);

impl Hook for Noting {
    fn name(&self) -> &str {
        "noting"
    }

    fn wants(&self, event: HookEvent) -> bool {
        event.is_of_agent()
    }

    fn agent<'a>(&'a self, moment: &'a AgentEvent) -> BoxFuture<'a, Result<Decision, ToolError>> {
        lock(&self.0).push(moment.event().as_str().to_owned());
        let decision = match moment {
            AgentEvent::BeforePrompt(_) => changes(json!({ "tools": [] })),
            AgentEvent::AfterModelCall(call) if call.text.as_deref() == Some("secret") => {
                changes(json!({ "text": "[withheld]" }))
            }
            AgentEvent::BeforeModelCall(call) if call.iteration == 3 => {
                Decision::Block(String::from("enough"))
            }
            _ => Decision::Continue,
        };
        Box::pin(std::future::ready(Ok(decision)))
    }
}

fn changes(value: Value) -> Decision {
    match value {
        Value::Object(changes) => Decision::Modify(changes),
        _ => Decision::Continue,
    }
}

#[test]
fn hooks_see_and_change_what_the_agent_does() {
    let noted = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::new(Noting(Arc::clone(&noted)));
    let says = vec![Says::Calls(vec![read("a.txt")]), Says::Text("secret")];
    let bench = Bench::with(says, None, |builder| builder.hook(hook));
    let end = bench.turn(Some("go")).unwrap();
    assert_eq!(end.text, "[withheld]");
    let order = "agent_start turn_start before_prompt before_model_call after_model_call before_model_call \
                 after_model_call turn_end";
    assert_eq!(lock(&noted).join(" "), order);
    assert!(bench.seen()[0].tools.is_empty());
    let hook = Arc::new(Noting(Arc::default()));
    let says = Says::Calls(vec![("Glob", json!({ "pattern": "*" }))]);
    let bench = Bench::with(vec![], Some(says), |builder| builder.hook(hook));
    let error = bench.turn(Some("go")).unwrap_err().to_string();
    assert!(error.contains("blocked by the hook `noting`: enough"), "{error}");
}

/// What a skill leaves of the tools holds from its load to the end of the turn, in lists and in calls.
#[test]
fn skill_narrows_the_tools_of_its_turn() {
    let bench = Bench::new(vec![
        Says::Calls(vec![("Write", json!({"file_path": "new.txt", "content": "x"}))]),
        Says::Calls(vec![("Read", json!({"file_path": "a.txt"}))]),
        Says::Text("read it"),
        Says::Calls(vec![("Write", json!({"file_path": "new.txt", "content": "x"}))]),
        Says::Text("wrote it"),
    ]);
    let tools = vec![String::from("Read"), String::from("Gr*")];
    bench.runtime.narrow_tools("s", "look", tools).unwrap();
    bench.turn(Some("look")).unwrap();
    assert_eq!(bench.read("new.txt"), "");
    let results = bench.results();
    assert!(
        results[0].starts_with("! the skill `look` does not allow this tool: Write"),
        "{}",
        results[0]
    );
    assert!(results[1].contains("one"), "{}", results[1]);
    let names = |seen: &Seen| seen.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
    // The tool that loads skills is the way back.
    assert_eq!(names(&bench.seen()[0]), ["Read", "Grep", "Skill"]);
    bench.turn(Some("write")).unwrap();
    assert_eq!(bench.read("new.txt"), "x");
    assert!(5 < names(&bench.seen()[3]).len());
}

#[test]
fn sub_agent_keeps_roots_and_turn_of_the_call_that_spawned_it() {
    for (narrowed, expected) in [(true, "! "), (false, "1→one")] {
        let mut bench = Bench::new(Vec::new());
        fs::create_dir(bench.root.join("sub")).unwrap();
        let (old, new) = (bench.root.join("a.txt"), bench.root.join("sub/new.txt"));
        let write = Says::Calls(vec![("Write", json!({"file_path": new, "content": "x"}))]);
        let read = Says::Calls(vec![("Read", json!({"file_path": old}))]);
        *lock(&bench.script.says) = vec![read, write.clone(), Says::Text("over")].into();
        let name = String::from("s/general-7");
        let (session, spawned_by) = (String::from("s"), String::from("s-1"));
        let agent = SubAgent { name: name.clone(), tools: None, session, spawned_by };
        let working = bench.runtime.begin_agent(agent);
        bench.settings.sub_agent = Some(SubAgentPlace {
            name,
            number: String::from("7"),
            spawned_by: String::from("s-1"),
            turn: Some(String::from("4")),
            roots: narrowed.then(|| vec![bench.root.join("sub")]),
            dialect: "native",
            max_tokens: 1_000_000,
        });
        bench.turn(Some("look")).unwrap();
        let results = bench.results();
        assert!(results[0].contains(expected), "{results:?}");
        assert_eq!(bench.read("sub/new.txt"), "x", "{results:?}");
        drop(working);
        // Behind the call that spawned it nothing runs any more.
        fs::remove_file(bench.root.join("sub/new.txt")).unwrap();
        *lock(&bench.script.says) = vec![write, Says::Text("over")].into();
        bench.turn(Some("again")).unwrap();
        assert_eq!(bench.read("sub/new.txt"), "");
    }
}
