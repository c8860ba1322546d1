use super::*;

fn report(agent: &str, response: &str, problem: Option<&str>) -> AgentReport {
    AgentReport {
        agent: agent.to_owned(),
        depth: 1,
        response: response.to_owned(),
        problem: problem.map(str::to_owned),
        n_iterations: 3,
        n_calls: 2,
        tokens_read: 100,
        tokens_written: 20,
    }
}

fn args(json: &str) -> SpawnArgs {
    serde_json::from_str(json).expect(json)
}

#[test]
fn reports_stand_in_the_order_of_their_tasks() {
    let args = args(r#"{"tasks":[{"name":"find","prompt":"x"},{"prompt":"y"}]}"#);
    let reports =
        [report("s/general.find-1", "found", None), report("s/general-2", "", Some("too long"))];
    let reply = shaped(&args, &reports);
    let text = reply.content.first().and_then(|block| block.as_text()).expect("text");
    assert_eq!(
        text,
        "## find: OK\n\nfound\n\n[s/general.find-1; turns: 3, calls: 2, tokens: 100 in, 20 out]\n\n---\n\n\
         ## s/general-2: ERROR\n\n\n[too long]\n\n[s/general-2; turns: 3, calls: 2, tokens: 100 in, 20 out]"
    );
    assert!(reply.ok);
    assert!(!shaped(&args, &reports[1..]).ok);
}

#[test]
fn tasks_are_checked() {
    for (json, expected) in [
        (r#"{"tasks":[{"prompt":"x"}]}"#, None),
        (r#"{"template":"explore","message":"x"}"#, None),
        (r#"{"tasks":[{"prompt":"x"},{"prompt":" "}]}"#, Some("tasks[1].prompt")),
        (r#"{"template":"explore","message":""}"#, Some("`message`")),
        (r#"{"tasks":[{"prompt":"x","template":"../x"}]}"#, Some("tasks[0].template")),
    ] {
        let found = Spawn::check(&args(json)).err().map(|error| error.message.into_owned());
        match (found, expected) {
            (None, None) => {}
            (Some(found), Some(expected)) => assert!(found.contains(expected), "{json}: {found}"),
            (found, _) => panic!("{json}: {found:?}"),
        }
    }
}
