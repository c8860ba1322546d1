//! Sub-agents have no more rights than the agents above them, by any rules, templates and skills.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use sinew::approval::{SessionGrant, SessionGrantStore, Verdict};
use sinew::config::{RuleOptions, rules};
use sinew::dialects::NATIVE;
use sinew::ledger::MemoryLedger;
use sinew::policy::{Profile, Rules};
use sinew::sub_agent::{NarrowedBy, Narrowing, SubAgent};
use sinew::{Kind, Request, Runtime, sub_agent};

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// The agents of two lineages, the session's own first.
const OWNED: [Option<&str>; 3] =
    [Some("main"), Some("s@main/explore-1"), Some("s@main/explore-1/general.x-2")];
const LINEAGE: [Option<&str>; 4] = [
    None,
    Some("s/explore-1"),
    Some("s/explore-1/general-2"),
    Some("s/explore-1/general-2/lead-3"),
];
/// Calls of every kind of object.
fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("Read", json!({ "file_path": "a.txt" })),
        ("Read", json!({ "file_path": "b/b.txt" })),
        ("Write", json!({ "file_path": "new.txt", "content": "x" })),
        ("Write", json!({ "file_path": "b/new.txt", "content": "x" })),
        ("Edit", json!({ "file_path": "a.txt", "old_string": "one", "new_string": "two" })),
        ("Glob", json!({ "pattern": "**/*.txt" })),
        ("Bash", json!({ "command": "ls" })),
        ("Bash", json!({ "command": "touch b/x" })),
        ("Bash", json!({ "command": "cat b/b.txt" })),
        ("WebFetch", json!({ "url": "http://one.example/" })),
        ("WebFetch", json!({ "url": "http://two.example/" })),
        ("AgentSend", json!({ "target": "s", "message": "x" })),
        ("Spawn", json!({ "tasks": [{ "prompt": "x" }] })),
    ]
}

fn names() -> impl Strategy<Value = Vec<String>> {
    let name = prop_oneof![
        Just("explore"),
        Just("general"),
        Just("lead"),
        Just("gen*"),
        Just("*"),
        Just("main"),
    ];
    prop::collection::vec(name.prop_map(str::to_owned), 0..3)
}

fn tools() -> impl Strategy<Value = Vec<String>> {
    let name = prop_oneof![
        Just("Read"),
        Just("Write"),
        Just("Edit"),
        Just("Bash"),
        Just("WebFetch"),
        Just("G*"),
        Just("*"),
    ];
    prop::collection::vec(name.prop_map(str::to_owned), 0..3)
}

fn condition() -> impl Strategy<Value = Value> {
    let object = prop_oneof![
        4 => Just(None),
        1 => Just(Some(("paths", json!(["b/**"])))),
        1 => Just(Some(("paths", json!(["*.txt"])))),
        1 => Just(Some(("command", json!("touch *")))),
        1 => Just(Some(("hosts", json!(["one.example"])))),
    ];
    (tools(), names(), object).prop_map(|(tools, agents, object)| {
        let mut condition = serde_json::Map::new();
        if !tools.is_empty() {
            condition.insert(String::from("tools"), json!(tools));
        }
        if !agents.is_empty() {
            condition.insert(String::from("agents"), json!(agents));
        }
        if let Some((name, value)) = object {
            condition.insert(String::from(name), value);
        }
        Value::Object(condition)
    })
}

fn rule() -> impl Strategy<Value = RuleOptions> {
    let verdict = prop_oneof![Just("allow"), Just("ask"), Just("deny")];
    (verdict, condition(), prop::collection::vec(condition(), 0..2)).prop_map(
        |(verdict, mut when, unless)| {
            when["verdict"] = json!(verdict);
            if !unless.is_empty() {
                when["unless"] = json!(unless);
            }
            serde_json::from_value(when).expect("a rule")
        },
    )
}

fn profile() -> impl Strategy<Value = Profile> {
    prop_oneof![
        Just(Profile::ReadOnly),
        Just(Profile::Workspace),
        Just(Profile::Sandboxed),
        Just(Profile::Full),
    ]
}

/// Returns how much a verdict allows.
fn freedom(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Deny => 0,
        Verdict::Ask => 1,
        Verdict::Allow => 2,
    }
}

fn request(agent: Option<&str>, tool: &str, arguments: &Value) -> Request {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let session = String::from("s");
    let agent = agent.map(str::to_owned);
    Request { session, agent, ..Request::new("s-1", tool, arguments) }
}

fn project() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("directory");
    std::fs::create_dir(dir.path().join("b")).expect("directory");
    for path in ["a.txt", "b/b.txt"] {
        std::fs::write(dir.path().join(path), "one\n").expect("file");
    }
    dir
}

fn runtime(dir: &tempfile::TempDir, profile: Profile, written: &[RuleOptions]) -> Arc<Runtime> {
    // What no configuration may say is left out.
    let is_valid = |rule: &&RuleOptions| rules::read(std::slice::from_ref(*rule)).is_ok();
    let written: Vec<RuleOptions> = written.iter().filter(is_valid).cloned().collect();
    let read = rules::read(&written).expect("rules");
    let rules =
        Rules { profile, rules: read.into_iter().map(Arc::new).collect(), ..Rules::default() };
    Runtime::builder(NATIVE)
        .root(dir.path())
        .without_store()
        .rules(rules)
        .ledger(Arc::new(MemoryLedger::default()))
        .build()
        .expect("runtime")
}

/// Lets the sub-agents of the lineage work, with these tools each.
fn begin(
    runtime: &Arc<Runtime>,
    tools: &[Option<Vec<String>>],
) -> Vec<sinew::sub_agent::WorkingAgent> {
    let agents = LINEAGE.iter().skip(1).flatten().zip(tools);
    let begin = |(name, tools): (&&str, &Option<Vec<String>>)| {
        let narrowing = tools
            .clone()
            .map(|tools| Narrowing { by: NarrowedBy::Template(String::from("explore")), tools });
        let (name, session) = ((*name).to_owned(), String::from("s"));
        let spawned_by = String::from("s-0");
        runtime.begin_agent(SubAgent { name, tools: narrowing, session, spawned_by })
    };
    agents.map(begin).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rules_free_no_sub_agent(profile in profile(), rules in prop::collection::vec(rule(), 0..6)) {
        let dir = project();
        let runtime = runtime(&dir, profile, &rules);
        for (tool, arguments) in calls() {
            for lineage in [&LINEAGE[..], &OWNED] {
            let mut above = None;
            for agent in lineage.iter().copied() {
                let judged = runtime.judge_call(request(agent, tool, &arguments), |_| {});
                // What cannot be judged is refused.
                let free = judged.map_or(0, |(_, ruling)| freedom(ruling.verdict));
                if let Some(above) = above {
                    prop_assert!(free <= above, "{tool} {arguments} of {agent:?}: {free} > {above}");
                }
                above = Some(free);
            }
            }
        }
    }

    #[test]
    fn templates_and_skills_free_no_sub_agent(
        templates in prop::collection::vec(prop::option::of(tools()), 3),
        skills in prop::collection::vec(prop::option::of(tools()), 4),
    ) {
        let dir = project();
        let runtime = runtime(&dir, Profile::Full, &[]);
        let _working = begin(&runtime, &templates);
        for (agent, tools) in LINEAGE.iter().zip(&skills) {
            if let Some(tools) = tools {
                runtime.narrow_tools(sub_agent::address("s", *agent), "skill", tools.clone()).unwrap();
            }
        }
        let looks = [
            ("Read", json!({ "file_path": "a.txt" })),
            ("Glob", json!({ "pattern": "*" })),
            ("Grep", json!({ "pattern": "one" })),
            ("Write", json!({ "file_path": "w.txt", "content": "x" })),
        ];
        for (tool, arguments) in looks {
            let mut above = true;
            for agent in LINEAGE {
                let names: Vec<String> = runtime
                    .with_listed_tools(None, ("s", agent), |tools| tools.map(|tool| tool.name).collect());
                let reply = wait(runtime.call(request(agent, tool, &arguments), sinew::CallOptions::default()));
                let kind = reply.error.as_ref().map(|error| error.kind);
                let may_call = kind != Some(Kind::PolicyDenied);
                prop_assert_eq!(names.iter().any(|name| name == tool), may_call, "{} of {:?}", tool, agent);
                prop_assert!(above || !may_call, "{tool} of {agent:?}");
                above = may_call;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn grants_free_no_sub_agent(
        rules in prop::collection::vec(rule(), 0..4),
        grants in prop::collection::vec(rule(), 0..4),
    ) {
        let dir = project();
        let runtime = runtime(&dir, Profile::Workspace, &rules);
        let _working = begin(&runtime, &[None, None, None]);
        let is_valid = |rule: &RuleOptions| rules::read(std::slice::from_ref(rule)).ok();
        let granted = grants.iter().filter_map(is_valid).flatten();
        let granted = granted.filter(|rule| rule.verdict == Verdict::Allow);
        let granted: Vec<_> = granted.map(|rule| SessionGrant::Rule(Box::new(rule))).collect();
        runtime.resume_grants("s", granted, Arc::new(NoGrants));
        for path in ["new.txt", "b/new.txt"] {
            let write = json!({ "file_path": path, "content": "x" });
            let mut above = true;
            for agent in LINEAGE {
                let _ = std::fs::remove_file(dir.path().join(path));
                let call = runtime.call(request(agent, "Write", &write), sinew::CallOptions::default());
                let ran = wait(call).ok;
                prop_assert_eq!(dir.path().join(path).exists(), ran, "{} of {:?}", path, agent);
                prop_assert!(above || !ran, "{path} of {agent:?}");
                above = ran;
            }
        }
    }
}

/// Grants that are not stored.
struct NoGrants;

impl SessionGrantStore for NoGrants {
    fn keep(&self, _session: &str, _grants: &[SessionGrant]) {}
}

/// What names an agent itself frees it, and no sub-agent whose agents above are not named. The control is the agent of a
/// session that has the name of a template: for a reading that looks at the last name alone, the two are the same.
#[test]
fn rules_free_sub_agents_with_all_above_them() {
    let rules: Vec<RuleOptions> = serde_json::from_value(json!([
        { "verdict": "deny", "tools": ["Write"], "unless": [{ "agents": ["explore"] }] },
    ]))
    .expect("rules");
    let dir = project();
    let runtime = runtime(&dir, Profile::Full, &rules);
    let write = json!({ "file_path": "new.txt", "content": "x" });
    let verdict =
        |agent| runtime.judge_call(request(agent, "Write", &write), |_| {}).unwrap().1.verdict;
    assert_eq!(verdict(Some("explore")), Verdict::Allow, "an agent by its name alone");
    assert_eq!(verdict(Some("s/explore-1")), Verdict::Deny, "as a sub-agent");
    assert_eq!(verdict(Some("s@explore/explore-1")), Verdict::Allow, "all of the lineage");
    assert_eq!(verdict(Some("s@explore/general-1/explore-2")), Verdict::Deny, "one between");
    assert_eq!(verdict(None), Verdict::Deny);
}

#[test]
fn sub_agents_that_do_not_work_cannot_call() {
    let dir = project();
    let runtime = runtime(&dir, Profile::Full, &[]);
    let read = json!({ "file_path": "a.txt" });
    let call = |agent| {
        let reply =
            wait(runtime.call(request(agent, "Read", &read), sinew::CallOptions::default()));
        reply.error.map(|error| error.kind)
    };
    let working = begin(&runtime, &[None, None, None]);
    assert_eq!(call(LINEAGE[3]), None);
    assert_eq!(call(Some("s/explore-9")), Some(Kind::PolicyDenied));
    assert_eq!(call(Some("other/explore-1")), Some(Kind::PolicyDenied));
    // Those beneath one that ended have no rights either.
    let mut working = working.into_iter();
    drop(working.next());
    assert_eq!(call(LINEAGE[3]), Some(Kind::PolicyDenied));
    drop(working);
    assert_eq!(call(None), None);
}
