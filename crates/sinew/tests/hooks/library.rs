//! Hooks that are programs, added by a program that embeds sinew.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sinew::approval::{Answer, Approvals, Approver, Asking, Question};
use sinew::command::{OwnProgramSettings, OwnPrograms};
use sinew::hook::payload;
use sinew::hook::{
    AgentEvent, BeforePrompt, CommandHook, CommandHookSettings, HookAnswer, HookCommand, HookEvent,
    SINEW_HOOKS,
};
use sinew::{BoxFuture, CallOptions, Helper, Request, Runtime};

use super::{Place, has};
use crate::caller::{Caller, text};

fn programs(place: &Place) -> Arc<OwnPrograms> {
    OwnPrograms::new(OwnProgramSettings {
        helper: Helper::program(env!("CARGO_BIN_EXE_sinew")),
        sessions: place.at("sessions"),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        roots: vec![place.place.root.clone()],
    })
}

fn hook(
    place: &Place,
    events: &[HookEvent],
    script: &str,
    change: impl FnOnce(&mut CommandHookSettings),
) -> Arc<CommandHook> {
    let command = HookCommand::Argv(vec![place.program("hook", script)]);
    let mut settings =
        CommandHookSettings::new("h", SINEW_HOOKS, events, command, &place.place.root);
    change(&mut settings);
    Arc::new(CommandHook::new(settings, programs(place), None).unwrap())
}

fn runtime(place: &Place, hook: &Arc<CommandHook>, asking: Asking) -> Arc<Runtime> {
    Runtime::builder(sinew::dialects::NATIVE)
        .root(&place.place.root)
        .asking(asking)
        .hook(Arc::clone(hook) as Arc<dyn sinew::hook::Hook>)
        .build()
        .unwrap()
}

fn allowing() -> Asking {
    Asking { approvals: Approvals::Allow, ..Asking::default() }
}

#[test]
fn a_program_is_a_hook_of_the_library_too() {
    let place = Place::new();
    let script = r#"echo '{"arguments":{"content":"changed"}}'"#;
    let hook = hook(&place, &[HookEvent::BeforeToolExecute], script, |_| {});
    let caller = Caller::new(&runtime(&place, &hook, allowing()));
    let reply = caller.call("Write", json!({ "file_path": "a.txt", "content": "x" }));
    assert!(reply.ok, "{}", text(&reply));
    assert_eq!(place.content("a.txt").as_deref(), Some("changed"));
}

#[test]
fn a_rest_is_over_in_time_and_a_success_ends_the_count() {
    let place = Place::new();
    let script = "echo run >>{home}/runs; test -e {home}/well";
    let hook = hook(&place, &[HookEvent::BeforeToolExecute], script, |settings| {
        settings.max_failures = 2;
        settings.rest = Duration::from_millis(1_500);
    });
    let caller = Caller::new(&runtime(&place, &hook, allowing()));
    let call = || text(&caller.call("List", json!({}))).to_owned();
    let n_runs = || place.noted("runs").map_or(0, |runs| runs.lines().count());
    has(&call(), "exit code 1");
    has(&call(), "exit code 1");
    has(&call(), "is not started for another ");
    assert_eq!(n_runs(), 2);
    std::fs::write(place.at("well"), "").unwrap();
    std::thread::sleep(Duration::from_millis(1_550));
    assert!(!call().contains("the hook"));
    std::fs::remove_file(place.at("well")).unwrap();
    has(&call(), "exit code 1");
    assert_eq!(n_runs(), 4);
}

/// Answers no.
struct No;

impl Approver for No {
    fn name(&self) -> &'static str {
        "nobody"
    }
    fn ask(&self, _question: Question) -> BoxFuture<'_, Answer> {
        Box::pin(async { Answer::No(Some(String::from("why"))) })
    }
}

#[test]
fn a_question_is_told_to_a_program_which_cannot_answer_it() {
    let place = Place::new();
    let script = r#"cat >>{home}/told; echo >>{home}/told; echo '{"decision":"continue"}'"#;
    let hook = hook(&place, &[HookEvent::Approval], script, |_| {});
    let approvers: Vec<Arc<dyn Approver>> = vec![Arc::new(No)];
    let asking = Asking { approvals: Approvals::Ask, approvers, ..Asking::default() };
    let caller = Caller::new(&runtime(&place, &hook, asking));
    let reply = caller.call("Write", json!({ "file_path": "a.txt", "content": "x" }));
    has(text(&reply), "denied: why");
    caller.end();
    let told = place.noted("told").unwrap();
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |key: &str| told.iter().map(|told| told[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("state"), [json!("asked"), json!("answered")]);
    assert_eq!(of("answer"), [Value::Null, json!("no")]);
    assert_eq!(of("tool"), [json!("Write"), json!("Write")]);
    for told in &told {
        fits(told);
    }
    has(&told[0]["diff"].to_string(), "+x");
}

/// A name of another vocabulary stands for its operation here too, and a command may touch any path.
#[test]
fn a_question_reaches_whoever_is_for_its_tool() {
    let molf = json!({ "path": "a.txt", "content": "x" });
    let native = json!({ "file_path": "a.txt", "content": "x" });
    for (dialect, tool, arguments, (tools, paths), runs) in [
        (sinew::dialects::MOLF, "write_file", &molf, ("Write", "*.txt"), true),
        (sinew::dialects::NATIVE, "Write", &native, ("Write", "*.md"), false),
        (sinew::dialects::NATIVE, "Write", &native, ("Edit", "*.txt"), false),
    ] {
        let place = Place::new();
        let hook = hook(&place, &[HookEvent::Approval], "cat >>{home}/told", |settings| {
            settings.tools = vec![String::from(tools)];
            settings.paths = vec![String::from(paths)];
        });
        let approvers: Vec<Arc<dyn Approver>> = vec![Arc::new(No)];
        let runtime = Runtime::builder(dialect)
            .root(&place.place.root)
            .asking(Asking { approvals: Approvals::Ask, approvers, ..Asking::default() })
            .hook(hook as Arc<dyn sinew::hook::Hook>)
            .build()
            .unwrap();
        let caller = Caller::new(&runtime);
        has(text(&caller.call(tool, arguments.clone())), "denied");
        caller.end();
        assert_eq!(place.noted("told").is_some(), runs, "{tool} {tools} {paths}");
    }
}

/// Says whether what a program was told is what the schema of its event says.
#[track_caller]
fn fits(told: &Value) {
    let event = HookEvent::from_word(told["event"].as_str().unwrap()).unwrap();
    let validator = jsonschema::validator_for(&sinew::hook::schema(event)).unwrap();
    assert!(validator.is_valid(told), "{event}: {told}");
}

#[test]
fn what_programs_are_told_fits_its_schema() {
    let place = Place::new();
    let events = HookEvent::ALL.into_iter().filter(|event| !event.is_of_agent());
    let events: Vec<HookEvent> = events.collect();
    let hook = hook(&place, &events, "cat >>{home}/told; echo >>{home}/told", |_| {});
    let caller = Caller::new(&runtime(&place, &hook, allowing()));
    caller.call("Write", json!({ "file_path": "a.txt", "content": "x" }));
    caller.call("Read", json!({ "file_path": "none" }));
    caller.end();
    let told = place.noted("told").unwrap();
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told.len(), 8);
    told.iter().for_each(fits);
}

#[test]
fn a_moment_of_an_agent_reaches_a_program() {
    let place = Place::new();
    let script = r#"cat >/dev/null; echo '{"system_prompt":"changed"}'"#;
    let hook = hook(&place, &[HookEvent::BeforePrompt], script, |_| {});
    let runtime = runtime(&place, &hook, allowing());
    let prompt = AgentEvent::BeforePrompt(BeforePrompt {
        session: String::from("s"),
        model: String::from("m"),
        system_prompt: String::from("x"),
        messages: Vec::new(),
        tools: Vec::new(),
    });
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let changed = tokio.block_on(runtime.agent_event(prompt)).unwrap();
    assert_eq!(changed.payload()["system_prompt"], "changed");
}

/// A program gets more than a pipe holds, and no variable holds a large payload.
#[test]
fn a_large_payload_arrives_whole() {
    let place = Place::new();
    let script = "wc -c >{home}/n";
    let events = [HookEvent::BeforeToolExecute];
    let hook = hook(&place, &events, script, |_| {});
    let call = json!({ "tool": "Write", "arguments": { "content": "x".repeat(3_000_000) } });
    let payload = payload(HookEvent::BeforeToolExecute, [call]);
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let trial = tokio.block_on(hook.trial(HookEvent::BeforeToolExecute, &payload));
    assert_eq!(trial.answer, Ok(HookAnswer::Continue));
    let n: usize = place.noted("n").unwrap().trim().parse().unwrap();
    assert_eq!(n, payload.to_string().len());
}

/// A call that is taken back does not wait for its hook.
#[test]
fn a_program_ends_with_a_call_that_is_taken_back() {
    let place = Place::new();
    let script = "echo $$ >{home}/pid; exec sleep 300";
    let hook = hook(&place, &[HookEvent::BeforeToolExecute], script, |_| {});
    let runtime = runtime(&place, &hook, allowing());
    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let request = Request::new("c", "List", serde_json::Map::new());
    let until = std::time::Instant::now() + Duration::from_secs(20);
    let reply = tokio.block_on(async {
        let call = runtime.call(request, options);
        let begun = async {
            // The shell makes the file before it writes the number.
            let is_noted = || place.noted("pid").is_some_and(|pid| pid.ends_with('\n'));
            while !is_noted() && std::time::Instant::now() < until {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            cancel.cancel();
        };
        tokio::join!(call, begun).0
    });
    assert_eq!(reply.error.unwrap().kind, sinew::Kind::Cancelled);
    let pid = place.noted("pid").unwrap();
    let lives = || std::path::Path::new("/proc").join(pid.trim()).exists();
    while lives() {
        assert!(std::time::Instant::now() < until, "it is left");
        std::thread::sleep(Duration::from_millis(5));
    }
}
