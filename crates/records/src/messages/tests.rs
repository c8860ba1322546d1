use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use sinew_tool::{ChannelMessage, SpawnLimit};

use super::*;

const ROOT: &str = "/r";

fn at(dir: &tempfile::TempDir, limits: MessageLimits) -> MessageStore {
    MessageStore::new(&dir.path().join("state"), limits, Redactor::default())
}

fn store(limits: MessageLimits) -> (tempfile::TempDir, MessageStore) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = at(&dir, limits);
    (dir, store)
}

fn few() -> MessageLimits {
    MessageLimits { max_bytes: 10, max_queued: 3, max_per_minute: 2, ..MessageLimits::default() }
}

fn texts(store: &MessageStore, owner: &str, max: usize) -> (Vec<String>, u64) {
    let (messages, n_left) = store.receive((owner, ROOT), max).expect("an inbox");
    let text = |message: InboxMessage| {
        format!("{}: {}", message.sender, message.content.expect("a content"))
    };
    (messages.into_iter().map(text).collect(), n_left)
}

/// Moves every time in the database into the past.
fn age(store: &MessageStore, by_ms: i64) {
    let done = store.with(|connection| {
        for statement in [
            "UPDATE recent SET at_ms = at_ms - ?1",
            "UPDATE message SET at_ms = at_ms - ?1",
            "UPDATE agent SET seen_ms = seen_ms - ?1",
            "UPDATE outbox SET at_ms = at_ms - ?1",
        ] {
            connection.execute(statement, [by_ms])?;
        }
        Ok(())
    });
    done.expect("aged");
}

fn n_rows(store: &MessageStore, table: &str) -> i64 {
    let count = format!("SELECT count(*) FROM {table}");
    store.with(|connection| Ok(connection.query_row(&count, [], |row| row.get(0))?)).expect("rows")
}

#[test]
fn messages_are_read_once_in_order() {
    let (_dir, store) = store(MessageLimits::default());
    for (sender, content) in [("a", "one"), ("b", "two"), ("a", "three")] {
        store.send((sender, ROOT), "t", content).expect("sent");
    }
    assert_eq!(texts(&store, "t", 2), (vec!["a: one".into(), "b: two".into()], 1));
    assert_eq!(texts(&store, "a", 2), (Vec::new(), 0));
    assert_eq!(texts(&store, "t", 2), (vec!["a: three".into()], 0));
    assert_eq!(texts(&store, "t", 2), (Vec::new(), 0));
}

#[test]
fn length_counts_bytes_up_to_the_limit() {
    let (_dir, store) = store(few());
    let too_large = |bytes| Err(MessageError::TooLarge { bytes, max: 10 });
    assert_eq!(store.send(("a", ROOT), "t", "ééééé"), Ok(()));
    assert_eq!(store.send(("a", ROOT), "t", "éééééx"), too_large(11));
    assert_eq!(MessageLimits::default().max_bytes, 102_400);
}

/// The depth of a queue counted only upwards once: a target stopped taking messages for ever.
#[test]
fn read_messages_free_their_room() {
    let (_dir, store) = store(MessageLimits { max_per_minute: 1_000, ..few() });
    for _ in 0..3 {
        for _ in 0..3 {
            store.send(("a", ROOT), "t", "x").expect("sent");
        }
        let full = MessageError::QueueFull { target: "t".into(), max: 3 };
        assert_eq!(store.send(("b", ROOT), "t", "x"), Err(full));
        assert_eq!(store.send(("b", ROOT), "other", "x"), Ok(()));
        assert_eq!(texts(&store, "other", 1).0.len(), 1);
        assert_eq!(texts(&store, "t", 1).0.len(), 1);
        assert_eq!(store.send(("b", ROOT), "t", "x"), Ok(()));
        assert_eq!(texts(&store, "t", 5).0.len(), 3);
    }
}

#[test]
fn rate_is_of_an_ordered_pair_in_a_sliding_window() {
    let (_dir, store) = store(few());
    store.send(("a", ROOT), "t", "1").expect("sent");
    age(&store, 40_000);
    store.send(("a", ROOT), "t", "2").expect("sent");
    let refused = store.send(("a", ROOT), "t", "3").expect_err("too often");
    let MessageError::TooOften { max: 2, retry_after, .. } = &refused else {
        panic!("{refused:?}")
    };
    assert!((18..=20).contains(&wait_s(retry_after)), "{refused}");
    store.send(("t", ROOT), "a", "back").expect("the other direction");
    store.send(("b", ROOT), "t", "other").expect("another sender");
    // The first one leaves the window, and the second one does not.
    age(&store, 20_000);
    assert_eq!(texts(&store, "t", 9).0.len(), 3);
    store.send(("a", ROOT), "t", "3").expect("sent");
    assert!(store.send(("a", ROOT), "t", "4").is_err());
}

#[test]
fn window_does_not_grow_for_ever() {
    let (_dir, store) = store(few());
    for n in 0..20 {
        store.send((&format!("s{n}"), ROOT), &format!("t{n}"), "x").expect("sent");
    }
    assert_eq!(n_rows(&store, "recent"), 20);
    age(&store, WINDOW_MS);
    store.send(("a", ROOT), "t", "x").expect("sent");
    assert_eq!(n_rows(&store, "recent"), 1);
    // A clock that is set back by hours blocks no sender.
    age(&store, -3_600_000);
    store.send(("a", ROOT), "t", "x").expect("sent");
    assert_eq!(n_rows(&store, "recent"), 1);
}

#[test]
fn unread_messages_and_inboxes_expire() {
    let (_dir, store) = store(MessageLimits::default());
    store.send(("a", ROOT), "t", "old").expect("sent");
    age(&store, 31 * 24 * 60 * 60 * 1_000);
    assert_eq!(texts(&store, "t", 1), (Vec::new(), 0));
    assert_eq!((n_rows(&store, "message"), n_rows(&store, "agent")), (0, 1));
}

/// Sends from several connections at once and returns how many passed.
fn raced(dir: &tempfile::TempDir, limits: &MessageLimits, sender: fn(usize) -> String) -> usize {
    let n_sent = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..10 {
            let (n_sent, store) = (&n_sent, at(dir, limits.clone()));
            scope.spawn(move || {
                for n in 0..10 {
                    match store.send((&sender(10 * thread + n), ROOT), "t", "x") {
                        Ok(()) => drop(n_sent.fetch_add(1, Ordering::Relaxed)),
                        Err(MessageError::Database { problem, .. }) => panic!("{problem}"),
                        Err(_) => {}
                    }
                }
            });
        }
    });
    n_sent.into_inner()
}

#[test]
fn limits_hold_under_races() {
    let dir = tempfile::tempdir().expect("a directory");
    let limits = MessageLimits { max_queued: 7, ..MessageLimits::default() };
    assert_eq!(raced(&dir, &limits, |n| format!("s{n}")), 7);
    let dir = tempfile::tempdir().expect("a directory");
    assert_eq!(raced(&dir, &MessageLimits::default(), |_| String::from("one")), 10);
}

#[test]
fn racing_readers_share_no_message() {
    let dir = tempfile::tempdir().expect("a directory");
    let limits = MessageLimits { max_per_minute: 1_000, ..MessageLimits::default() };
    let first = at(&dir, limits.clone());
    for n in 0..50 {
        first.send(("a", ROOT), "t", &n.to_string()).expect("sent");
    }
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let store = at(&dir, limits.clone());
            thread::spawn(move || {
                let mut read = Vec::new();
                loop {
                    let (texts, n_left) = texts(&store, "t", 3);
                    read.extend(texts);
                    if n_left == 0 {
                        return read;
                    }
                }
            })
        })
        .collect();
    let mut all: Vec<String> =
        readers.into_iter().flat_map(|reader| reader.join().expect("read")).collect();
    all.sort();
    let mut expected: Vec<String> = (0..50).map(|n| format!("a: {n}")).collect();
    expected.sort();
    assert_eq!(all, expected);
}

#[test]
fn agents_are_known_by_their_inbox_or_session() {
    let (dir, store) = store(MessageLimits::default());
    let knowledge = KnowledgeBase::default();
    let root = |id: &str| store.find(id, &knowledge).expect("found").map(|agent| agent.root);
    assert_eq!(root("a"), None);
    assert!(!is_file(&dir.path().join("state").join(NAME)), "a look creates nothing");
    store.send(("a", "/a"), "t", "x").expect("sent");
    store.receive(("b", "/b"), 1).expect("an inbox");
    let new = crate::sessions::NewSession {
        id: "c",
        title: "c",
        root: "/c",
        dialect: "native",
        model: "m",
    };
    let state = StateDir::open(&store.state).expect("a state directory");
    Sessions::new(&state, Redactor::default()).create(&new).expect("a session");
    for id in ["a", "b", "c"] {
        assert_eq!(root(id), Some(Some(format!("/{id}"))));
    }
    assert_eq!(root("t"), None, "who is written to is not known by that");
}

fn outgoing<'a>(call_id: &'a str, content: &'a str) -> ChannelMessage<'a> {
    ChannelMessage { session: "s", call_id, channel: "ops", chat: "1", content }
}

#[test]
fn a_call_sends_its_message_once() {
    let (_dir, store) = store(MessageLimits::default());
    let begin = |call_id, content| store.begin(&outgoing(call_id, content)).expect("an entry");
    assert_eq!(begin("c1", "hello"), OutboxEntry::New(Vec::new()));
    assert!(matches!(begin("c1", "hello"), OutboxEntry::Uncertain(_)), "it leaves now");
    store.confirm("s", "c1").expect("confirmed");
    assert!(matches!(begin("c1", "hello"), OutboxEntry::Sent(_)));
    // A process counts its calls anew, so the name of a call alone does not tell.
    assert_eq!(begin("c1", "another"), OutboxEntry::New(Vec::new()));
    store.refuse("s", "c1").expect("refused");
    assert_eq!(begin("c1", "another"), OutboxEntry::New(Vec::new()));
}

/// Every run of `sinew call --session s` names its call `s-1`.
#[test]
fn numbered_calls_of_other_processes_are_others() {
    let (_dir, store) = store(MessageLimits::default());
    let begin = || store.begin(&outgoing("s-1", "green")).expect("an entry");
    assert_eq!(begin(), OutboxEntry::New(Vec::new()));
    store.confirm("s", "s-1").expect("confirmed");
    assert!(matches!(begin(), OutboxEntry::Sent(_)), "the same process");
    end_process(&store);
    assert_eq!(begin(), OutboxEntry::New(Vec::new()));
    // A caller learns of one in doubt before the same message may go again.
    end_process(&store);
    assert!(matches!(begin(), OutboxEntry::Uncertain(_)));
    assert_eq!(begin(), OutboxEntry::New(Vec::new()));
}

/// Lets the outbox look as if its process had died.
fn end_process(store: &MessageStore) {
    let own = sinew_fs::process_identity::ProcessIdentity::own();
    let dead = sinew_fs::process_identity::ProcessIdentity { started: own.started + 1, ..own };
    let dead = serde_json::to_string(&dead).expect("JSON");
    store
        .with(|connection| Ok(connection.execute("UPDATE outbox SET process = ?1", [dead])?))
        .expect("a dead process");
}

#[test]
fn messages_of_dead_processes_are_uncertain_and_told_once() {
    let (_dir, store) = store(MessageLimits::default());
    store.begin(&outgoing("c1", "hello")).expect("an entry");
    end_process(&store);
    let told = |entry| match entry {
        OutboxEntry::New(uncertain) => uncertain.into_iter().map(|one| one.call_id).collect(),
        other => vec![format!("{other:?}")],
    };
    let begun = store.begin(&outgoing("c2", "next")).expect("an entry");
    assert_eq!(told(begun), ["c1"]);
    let begun = store.begin(&outgoing("c3", "next")).expect("an entry");
    assert_eq!(told(begun), Vec::<String>::new());
    let again = store.begin(&outgoing("c1", "hello")).expect("an entry");
    assert!(matches!(again, OutboxEntry::Uncertain(_)), "{again:?}");
    // The caller of a cancelled call hears of it later.
    store.doubt("s", "c2", false).expect("in doubt");
    let begun = store.begin(&outgoing("c4", "next")).expect("an entry");
    assert_eq!(told(begun), ["c2"]);
}

fn spawn(
    store: &MessageStore,
    agent: Option<&str>,
    n: usize,
    limits: ChildLimits,
) -> Result<Vec<String>, SpawnLimit> {
    let tasks = vec![("general", None); n];
    let new = NewChildren { session: "s", agent, root: "/", tasks: &tasks };
    store.begin_children(&new, limits).expect("the database works")
}

#[test]
fn sub_agents_are_limited_together() {
    let dir = tempfile::tempdir().expect("directory");
    let limits = ChildLimits { max_depth: 2, max_children: 4, max_running: 3, max_total: 6 };
    let store = at(&dir, MessageLimits::default());
    let first = spawn(&store, None, 3, limits).expect("within all limits");
    assert_eq!(first, ["s/general-1", "s/general-2", "s/general-3"]);
    // All of a call begins, or nothing.
    let many = SpawnLimit::TooManyRunning { max: 3, running: 3 };
    assert_eq!(spawn(&store, None, 1, limits), Err(many));
    first.iter().for_each(|name| store.end_child(name).expect("the database works"));
    let Err(SpawnLimit::TooMany { max: 4, retry_after: Some(wait) }) =
        spawn(&store, None, 2, limits)
    else {
        panic!("more than one agent may spawn")
    };
    assert!(Duration::from_secs(3_500) < wait && wait <= Duration::from_secs(3_600), "{wait:?}");
    assert_eq!(
        spawn(&store, None, 5, limits),
        Err(SpawnLimit::TooManyRunning { max: 3, running: 0 })
    );
    assert_eq!(spawn(&store, None, 1, limits), Ok(vec![String::from("s/general-4")]));
    let below = spawn(&store, Some("s/general-4"), 2, limits).expect("one level below");
    assert_eq!(below, ["s/general-4/general-5", "s/general-4/general-6"]);
    assert!(matches!(
        spawn(&store, Some("s/general-4"), 1, limits),
        Err(SpawnLimit::TooManyInSession { max: 6, .. })
    ));
    assert_eq!(
        spawn(&store, Some("s/general-4/general-5"), 1, limits),
        Err(SpawnLimit::TooDeep(2))
    );
    // They can get messages at once.
    let from = ("s", "/");
    store.send(from, "s/general-4", "go on").expect("a known agent");
    assert!(store.find("s/general-4/general-6", &KnowledgeBase::default()).unwrap().is_some());
}

#[test]
fn many_threads_spawn_no_more_than_one_may() {
    let dir = tempfile::tempdir().expect("directory");
    let limits = ChildLimits { max_running: 5, ..ChildLimits::default() };
    let (began, running, most) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let store = at(&dir, MessageLimits::default());
                for _ in 0..13 {
                    let Ok(names) = spawn(&store, None, 1, limits) else { continue };
                    began.fetch_add(1, Ordering::SeqCst);
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::yield_now();
                    running.fetch_sub(1, Ordering::SeqCst);
                    store.end_child(&names[0]).expect("the database works");
                }
            });
        }
    });
    let (began, most) = (began.into_inner(), most.into_inner());
    assert!((5..=20).contains(&began) && most <= 5, "{began} began, {most} at once");
}
