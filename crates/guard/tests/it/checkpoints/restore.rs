//! What a plan does, what stands against it, and what it never takes away.

use sinew_guard::checkpoints::{Changer, Conflict, Entry};

use super::*;

/// Something that happens to a tree.
enum Event {
    /// A call of this session.
    Call(&'static str, Vec<TestedOp>),
    /// A person or another program.
    Person(Vec<TestedOp>),
    /// A call of this session whose process died before its change or after it, and that said what
    /// the change was to leave or not.
    Died { session: &'static str, deed: TestedOp, done: bool, said: bool },
    /// A person does something that is no deed.
    Otherwise(fn(&Path)),
}

use Event::{Call, Otherwise, Person};

/// Plays events on a tree with the files `a` and `b` and returns the plan to restore the state before the first call of
/// session `s`: a line for each step.
fn check(name: &str, scope: Scope, events: &[Event], expected: &[&str]) {
    let bench = Bench::new();
    let root = &bench.tree.root;
    do_it(root, &put("a", "a0"));
    do_it(root, &put("b", "b0"));
    for event in events {
        match event {
            Call(session, deeds) => drop(bench.call(session, deeds)),
            Person(deeds) => deeds.iter().for_each(|deed| do_it(root, deed)),
            Event::Died { session, deed, done, said } => {
                let mut draft = bench.begin(session);
                let path = root.join(deed.path());
                keep(&mut draft, &path, said.then(|| deed.after()));
                draft.record(LONG).unwrap();
                if *done {
                    do_it(root, deed);
                }
            }
            Otherwise(deed) => deed(root),
        }
    }
    let first = *bench.ids(Some("s")).last().unwrap();
    let plan = bench.plan(first, scope);
    let lines: Vec<String> = plan.steps.iter().map(|step| line(root, step)).collect();
    assert_eq!(lines, expected, "{name}");

    let before = bench.snapshot();
    let can_be_forced = plan.refused(true).next().is_none();
    if can_be_forced {
        bench.restore(first, scope, true);
        let again = bench.plan(first, scope);
        assert!(again.changes().all(|step| step.act == Act::RemoveDirectory), "{name}: {again:?}");
    }
    assert!(can_be_forced || before == bench.snapshot(), "{name}");
}

fn line(root: &Path, step: &PlannedStep) -> String {
    let path = step.path.strip_prefix(root).unwrap().display();
    match &step.conflict {
        None => format!("{:?} {path}", step.act),
        Some(Conflict::Changed { after, by }) => {
            let by = match by {
                Changer::Session { session, id } => {
                    format!("{session} {id}")
                }
                Changer::Unknown => String::from("somebody"),
            };
            format!("{:?} {path}: changed after {after} by {by}", step.act)
        }
        Some(other) => format!("{:?} {path}: {other:?}", step.act),
    }
}

fn mode(path: &str, content: &str, mode: u32) -> TestedOp {
    TestedOp::Put(path.into(), content.into(), mode)
}

#[test]
fn a_plan_does_what_is_needed_and_no_more() {
    let check = |name: &str, events: &[Event], expected: &[&str]| {
        check(name, Scope::Since, events, expected);
    };
    let s = |deeds| Call("s", deeds);
    check("an edit", &[s(vec![put("a", "a1")])], &["Write a"]);
    check("two edits", &[s(vec![put("a", "a1")]), s(vec![put("a", "a2")])], &["Write a"]);
    check("an edit and back", &[s(vec![put("a", "a1")]), s(vec![put("a", "a0")])], &["Nothing a"]);
    check(
        "an edit undone by hand",
        &[s(vec![put("a", "a1")]), Person(vec![put("a", "a0")])],
        &["Nothing a"],
    );
    check("a mode", &[s(vec![mode("a", "a0", 0o755)])], &["SetMode a"]);
    check("a mode and a content", &[s(vec![mode("a", "a1", 0o755)])], &["Write a"]);
    check("a new file", &[s(vec![put("n", "n1")])], &["Remove n"]);
    check(
        "a new file below new directories",
        &[s(vec![put("x/y/n", "n1")])],
        &["Remove x/y/n", "RemoveDirectory x/y", "RemoveDirectory x"],
    );
    check("a removed file", &[s(vec![remove("a")])], &["Write a"]);
    check(
        "a file removed and made again",
        &[s(vec![remove("a")]), s(vec![put("a", "a1")])],
        &["Write a"],
    );
    check("a rename", &[s(vec![remove("a"), put("n", "a0")])], &["Remove n", "Write a"]);
    check("a new link", &[s(vec![link("l", "a")])], &["Remove l"]);
    check("a link in the place of a file", &[s(vec![link("a", "b")])], &["Write a"]);
    check(
        "a file in the place of a link",
        &[Person(vec![link("l", "a")]), s(vec![put("l", "l1")])],
        &["MakeLink l"],
    );
    check(
        "a directory in the place of a file",
        &[s(vec![remove("a"), put("a/b", "1")])],
        &["Remove a/b", "RemoveDirectory a", "Write a"],
    );
    check(
        "another session beside",
        &[s(vec![put("a", "a1")]), Call("t", vec![put("b", "b1")])],
        &["Write a"],
    );
    check(
        "another session before",
        &[Call("t", vec![put("a", "t1")]), s(vec![put("a", "a1")])],
        &["Write a"],
    );
    check("set-id bits", &[s(vec![mode("a", "a1", 0o4755)])], &["Write a"]);
}

#[test]
fn what_others_changed_stands_against_it() {
    let check = |name: &str, events: &[Event], expected: &[&str]| {
        check(name, Scope::Since, events, expected);
    };
    let s = |deeds| Call("s", deeds);
    let edit = || s(vec![put("a", "a1")]);
    check(
        "a person after it",
        &[edit(), Person(vec![put("a", "p")])],
        &["Write a: changed after c1 by somebody"],
    );
    check(
        "a person's mode",
        &[edit(), Person(vec![mode("a", "a1", 0o600)])],
        &["Write a: changed after c1 by somebody"],
    );
    check(
        "a person removed it",
        &[edit(), Person(vec![remove("a")])],
        &["Write a: changed after c1 by somebody"],
    );
    check(
        "a person in between",
        &[edit(), Person(vec![put("a", "p")]), s(vec![put("a", "a2")])],
        &["Write a: changed after c1 by somebody"],
    );
    check(
        "a session after it",
        &[edit(), Call("t", vec![put("a", "t1")])],
        &["Write a: changed after c1 by t c2"],
    );
    check(
        "a session in between",
        &[
            edit(),
            Call("t", vec![put("a", "t1")]),
            Call("u", vec![put("b", "u1")]),
            s(vec![put("a", "a2")]),
        ],
        &["Write a: changed after c1 by t c2"],
    );
    check(
        "a session in between and a person after",
        &[
            edit(),
            s(vec![put("a", "a2")]),
            Call("t", vec![put("a", "t1")]),
            Person(vec![put("a", "p")]),
        ],
        &["Write a: changed after c2 by t c3"],
    );
    check(
        "a session that changed it back",
        &[edit(), Call("t", vec![put("a", "t1")]), Call("t", vec![put("a", "a1")])],
        &["Write a"],
    );
    check(
        "a person edits a new file",
        &[s(vec![put("n", "n1")]), Person(vec![put("n", "p")])],
        &["Nothing n: Foreign"],
    );
    check(
        "a person makes a removed file again",
        &[s(vec![remove("a")]), Person(vec![put("a", "p")])],
        &["Write a: changed after c1 by somebody"],
    );
}

#[test]
fn what_sinew_did_not_make_is_never_taken_away() {
    let check = |name: &str, events: &[Event], expected: &[&str]| {
        check(name, Scope::Since, events, expected);
    };
    let s = |deeds| Call("s", deeds);
    check(
        "a link appeared",
        &[s(vec![put("a", "a1")]), Person(vec![link("a", "b")])],
        &["Nothing a: Foreign"],
    );
    check(
        "a link for a new file",
        &[s(vec![put("n", "n1")]), Person(vec![link("n", "b")])],
        &["Nothing n: Foreign"],
    );
    check(
        "a file for a new link",
        &[s(vec![link("n", "b")]), Person(vec![put("n", "p")])],
        &["Nothing n: Foreign"],
    );
    check(
        "a file that was made and removed, and another",
        &[s(vec![link("n", "a")]), s(vec![remove("n")]), Person(vec![put("n", "p")])],
        &["Nothing n: Foreign"],
    );
    check(
        "a directory for a file",
        &[s(vec![put("a", "a1")]), Person(vec![remove("a"), put("a/p", "p")])],
        &["Nothing a: Foreign"],
    );
    check(
        "something in a new directory",
        &[s(vec![put("x/n", "n1")]), Person(vec![put("x/p", "p")])],
        &["Remove x/n", "RemoveDirectory x"],
    );
    check(
        "a FIFO",
        &[
            s(vec![put("n", "n1")]),
            Person(vec![remove("n")]),
            Otherwise(|root| {
                let status = std::process::Command::new("mkfifo").arg(root.join("n")).status();
                assert!(status.unwrap().success());
            }),
        ],
        &["Nothing n: Foreign"],
    );
}

#[test]
fn after_a_death_the_disk_tells_what_happened() {
    let died = |deed, done, said| Event::Died { session: "s", deed, done, said };
    for (name, event, expected) in [
        ("before", died(put("a", "a1"), false, true), "Nothing a"),
        ("after", died(put("a", "a1"), true, true), "Write a"),
        ("before, nothing said", died(put("a", "a1"), false, false), "Nothing a"),
        (
            "after, nothing said",
            died(put("a", "a1"), true, false),
            "Write a: changed after c1 by somebody",
        ),
        ("a new file", died(put("n", "n1"), true, true), "Remove n"),
        ("a new file, nothing said", died(put("n", "n1"), true, false), "Nothing n: Foreign"),
        ("a removal", died(remove("a"), true, true), "Write a"),
    ] {
        check(name, Scope::Since, &[event], &[expected]);
    }
    for done in [false, true] {
        let events = [died(put("a", "a1"), done, true), Call("s", vec![put("a", "a2")])];
        check("the next call goes on", Scope::Since, &events, &["Write a"]);
    }
}

#[test]
fn a_restore_of_one_call_leaves_other_paths() {
    let events = || {
        [
            Call("s", vec![put("a", "a1"), put("n", "n1")]),
            Call("s", vec![put("b", "b1")]),
            Call("s", vec![put("a", "a2")]),
        ]
    };
    check("one call", Scope::Only, &events(), &["Remove n", "Write a"]);
    check("all calls", Scope::Since, &events(), &["Remove n", "Write a", "Write b"]);
}

#[test]
fn a_checkpoint_says_whose_it_is_and_what_changed() {
    let bench = Bench::new();
    do_it(&bench.tree.root, &put("a", "a0"));
    let id = bench.call("s", &[put("a", "a1"), link("x/l", "a")]);
    let listed = bench.checkpoints.list(&Query {
        session: Some("s"),
        turn: None,
        id: Some(id),
        before: None,
        limit: 10,
    });
    let [listed] = listed.unwrap().try_into().unwrap();
    assert_eq!((listed.id, listed.n_paths, &listed.mark), (id, 3, &mark("s")));
    let root = &bench.tree.root;
    let entry = |path: &str, before: PathState, after: PathState| Entry {
        path: root.join(path),
        settled: true,
        before,
        after: Some(after),
    };
    let absent = || PathState::Absent;
    assert_eq!(
        bench.checkpoints.entries(id).unwrap(),
        [
            entry("a", PathState::file(b"a0", 0o644), PathState::file(b"a1", 0o644)),
            entry("x", absent(), PathState::directory(0o755)),
            entry("x/l", absent(), PathState::Link("a".into())),
        ]
    );

    let next = bench.call("s", &[put("a", "a2")]);
    let plan = bench.plan(id, Scope::Since);
    assert_eq!((plan.id, &*plan.session, &*plan.undone), (id, "s", &[id, next][..]));
    let [.., write] = plan.steps.as_slice() else { panic!("{plan:?}") };
    assert_eq!(
        *write,
        PlannedStep {
            path: root.join("a"),
            act: Act::Write,
            wanted: PathState::file(b"a0", 0o644),
            expected: Some(PathState::file(b"a2", 0o644)),
            now: PathState::file(b"a2", 0o644),
            conflict: None,
        }
    );
    let before = |before, limit| {
        let query = Query { session: None, turn: None, id: None, before, limit };
        let listed = bench.checkpoints.list(&query).unwrap();
        listed.into_iter().map(|listed| listed.id).collect::<Vec<_>>()
    };
    assert_eq!(before(None, 1), [next]);
    assert_eq!(before(Some(next), 9), [id]);
    assert!(bench.checkpoints.history("c99".parse().unwrap(), Scope::Since).is_err());
}

#[test]
fn what_a_call_changes_twice_or_not_at_all_is_told_once_or_not() {
    let bench = Bench::new();
    let (a, b) = (bench.tree.root.join("a"), bench.tree.root.join("b"));
    do_it(&bench.tree.root, &put("a", "a0"));
    let mut draft = bench.begin("s");
    keep(&mut draft, &a, None);
    keep(&mut draft, &b, None);
    // Another writer was quicker than the call, which begins again.
    do_it(&bench.tree.root, &put("a", "a1"));
    keep(&mut draft, &a, None);
    let id = draft.record(LONG).unwrap();
    for content in ["a2", "a3"] {
        do_it(&bench.tree.root, &put("a", content));
        draft.settle(&a, look(&a));
        keep(&mut draft, &a, None);
        assert_eq!(draft.record(LONG).unwrap(), id);
    }
    draft.withdraw(&a);
    draft.withdraw(&b);
    drop(draft);
    let [entry] = bench.checkpoints.entries(id).unwrap().try_into().unwrap();
    assert_eq!(
        entry,
        Entry {
            path: a.clone(),
            settled: true,
            before: PathState::file(b"a1", 0o644),
            after: Some(PathState::file(b"a3", 0o644)),
        }
    );

    let mut draft = bench.begin("s");
    keep(&mut draft, &a, None);
    draft.record(LONG).unwrap();
    draft.withdraw(&a);
    drop(draft);
    assert_eq!(bench.ids(None), [id], "a call that changed nothing has no checkpoint");

    let mut draft = bench.checkpoints.begin(CallContext { restores: Some(id), ..mark("s") });
    keep(&mut draft, &a, None);
    draft.record(LONG).unwrap();
    draft.withdraw(&a);
    drop(draft);
    assert_eq!(bench.ids(None), [id], "nor has a restore that changed nothing");
}
