//! The ledger on real databases.
#![expect(clippy::disallowed_methods, reason = "the test looks at what really happened")]

use std::process::Command;
use std::task::Poll;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use sinew_tool::{Change, ContentHash, Effects, Opening};

use super::*;

pub(super) fn opening(call_id: &str) -> Opening {
    Opening { arguments: [7; 32], ..Opening::new(call_id, "s", "native", "Write") }
}

pub(super) fn closing(call_id: &str, error: Option<Kind>) -> Closing {
    Closing {
        opening: opening(call_id),
        opened_at_ms: 1,
        duration_ms: 0.5,
        found: true,
        effects: Some(Effects::CHANGE),
        path: Some(PathBuf::from("/w/a")),
        verdict: Some("ask"),
        rule: Some("change"),
        origin: Some("a/config.toml:3".into()),
        approver: Some("terminal".into()),
        answer: Some("yes"),
        waited_ms: Some(7.5),
        command: Some(String::from("make all")),
        sandbox_level: Some("namespaces"),
        background: Some(String::from("b1")),
        consequences: Some(String::from("runs on your machine later: Makefile")),
        tool_origin: None,
        error,
        changes: vec![Change {
            path: PathBuf::from("/w/a"),
            before: None,
            after: Some(ContentHash::from([0xff; 32])),
            bytes: 3,
        }],
        reply_bytes: 7,
    }
}

pub(super) fn ledger(dir: &std::path::Path) -> SqliteLedger {
    let state = StateDir::open(&dir.join("state")).expect("a state directory");
    SqliteLedger::new(&state, Recorded::by("test"))
}

pub(super) fn intend(ledger: &SqliteLedger, call_id: &str, temporaries: &[PathBuf]) -> Ticket {
    let so_far = closing(call_id, None);
    let intent = ledger.intend(&so_far, &[], temporaries);
    wait(intent).expect("the intent is recorded")
}

/// Wakes the thread that waits.
struct Unpark(std::thread::Thread);

impl std::task::Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread.
pub(super) fn wait<T>(mut future: BoxFuture<'_, T>) -> T {
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut cx = std::task::Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

pub(super) fn rows(dir: &std::path::Path, sql: &str) -> Vec<String> {
    let connection = Connection::open(dir.join("state/sinew.db")).expect("the database");
    let mut statement = connection.prepare(sql).expect("a statement");
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).expect("rows");
    rows.collect::<rusqlite::Result<_>>().expect("texts")
}

/// The calls in the order of their records.
const CALLS: &str = "SELECT call_id FROM record WHERE call_id <> '' ORDER BY seq";

/// Returns the calls whose intents are not settled.
fn open(dir: &std::path::Path) -> Vec<String> {
    rows(dir, "SELECT call_id FROM record JOIN unsettled USING (seq) ORDER BY seq")
}

#[test]
fn an_intent_is_on_disk_before_the_change_and_settled_after() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = ledger(dir.path());
    ledger.close(None, closing("read", None));
    let ticket = intend(&ledger, "write", &[]);
    assert_eq!(
        rows(
            dir.path(),
            "SELECT phase || ' ' || call_id FROM record WHERE call_id <> '' ORDER BY seq"
        ),
        ["outcome read", "intent write"],
        "what waited was written with the intent"
    );
    ledger.close(Some(ticket), closing("write", Some(Kind::Stale)));
    ledger.flush().expect("it writes");
    assert_eq!(
        rows(
            dir.path(),
            "SELECT outcome || ' ' || after_hash || ' ' || approver FROM record
             WHERE call_id = 'write' AND phase = 'outcome'"
        ),
        [format!("stale {} terminal", "ff".repeat(32))]
    );
    assert!(open(dir.path()).is_empty());
}

/// Of a call that was killed nothing said what it did, and no list showed it.
#[test]
fn an_intent_says_what_is_known_and_is_listed_until_the_call_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = ledger(dir.path());
    let so_far = Closing { changes: Vec::new(), ..closing("make", None) };
    let other = [PathBuf::from("/w/first"), PathBuf::from("/w/second")];
    let first = wait(ledger.intend(&so_far, &other, &[])).expect("it is recorded");
    let second = wait(ledger.intend(&so_far, &[], &[])).expect("it is recorded");
    let says = |column: &str| {
        let sql = format!("SELECT {column} FROM record WHERE phase = 'intent' ORDER BY seq");
        rows(dir.path(), &sql)
    };
    for (column, expected) in [
        ("effects", "change"),
        ("verdict", "ask"),
        ("rule", "change"),
        ("origin", "a/config.toml:3"),
        ("approver", "terminal"),
        ("answer", "yes"),
        ("CAST(waited_us AS TEXT)", "7500"),
        ("command", "make all"),
        ("rung", "namespaces"),
        ("background", "b1"),
    ] {
        assert_eq!(says(column), [expected; 2], "{column}");
    }
    assert_eq!(says("file_path"), ["/w/first", "/w/a"], "what changes, else what is named");
    let unset =
        "coalesce(outcome, CAST(duration_us AS TEXT), CAST(reply_bytes AS TEXT), 'nothing')";
    assert_eq!(says(unset), ["nothing"; 2], "how it ends is not known");
    let state = StateDir::open(&dir.path().join("state")).expect("it is there");
    let audit = Audit::open(&state).expect("a ledger");
    let listed = |path: &str| {
        let path = Some(String::from(path));
        let wanted = Wanted { path, without_ended_intents: true, ..Wanted::default() };
        let mut found = Vec::new();
        let take = |record: Record| {
            let phase = record.text("phase").unwrap_or_default().to_owned();
            found.push((phase, record.is_of_dead_process()));
            Ok::<_, AuditError>(())
        };
        audit.records(&wanted, take).expect("records");
        found
    };
    let (intent, outcome) =
        ((String::from("intent"), Some(false)), (String::from("outcome"), Some(false)));
    assert_eq!(listed("/w"), [intent.clone(), intent.clone()]);
    assert_eq!(listed("/w/first"), listed("/w")[..1]);
    ledger.close(Some(first), closing("make", None));
    ledger.flush().expect("it writes");
    assert_eq!(listed("/w"), [intent, outcome.clone()]);
    ledger.close(Some(second), closing("make", None));
    ledger.flush().expect("it writes");
    assert_eq!(listed("/w"), [outcome.clone(), outcome]);
    assert!(audit.verify(None, |_| {}).expect("it is read").is_whole());
}

#[test]
fn records_of_looks_are_written_within_the_batch_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = ledger(dir.path());
    for n in 0..10 {
        ledger.close(None, closing(&format!("c{n}"), None));
    }
    let limit = Instant::now() + Duration::from_secs(10);
    loop {
        let written = dir.path().join("state/sinew.db").exists()
            && Connection::open(dir.path().join("state/sinew.db"))
                .and_then(|c| {
                    c.query_row("SELECT count(call_id) FROM record", [], |row| row.get(0))
                })
                .is_ok_and(|n: i64| n == 10);
        if written {
            break;
        }
        assert!(Instant::now() < limit, "the helper never wrote the batch");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn dropping_the_ledger_writes_what_waits() {
    let dir = tempfile::tempdir().expect("a directory");
    ledger(dir.path()).close(None, closing("last", None));
    assert_eq!(rows(dir.path(), CALLS), ["last"]);
}

#[test]
fn the_next_opener_removes_what_a_dead_process_left() {
    let dir = tempfile::tempdir().expect("a directory");
    let temporary = dir.path().join(format!(".sinew-{}.tmp", "ab".repeat(16)));
    let other = dir.path().join("keep.tmp");
    std::fs::write(&temporary, "half").expect("a file");
    std::fs::write(&other, "mine").expect("a file");
    let first = ledger(dir.path());
    intend(&first, "killed", &[temporary.clone(), other.clone()]);
    first.flush().expect("it writes");

    intend(&ledger(dir.path()), "next", &[]);
    assert!(temporary.exists(), "the process that made it still runs");

    let mut child = Command::new("true").spawn().expect("a process");
    let pid = child.id();
    child.wait().expect("it ends");
    let connection = Connection::open(dir.path().join("state/sinew.db")).expect("the database");
    connection.execute("UPDATE process SET pid = ?1", [pid]).expect("an update");
    intend(&ledger(dir.path()), "later", &[]);
    assert!(!temporary.exists(), "the temporary file of a dead process goes");
    assert!(other.exists(), "a file under another name stays");
}

/// What a journal speaks of may be the only copy of a file, also where the journal is damaged.
#[test]
fn what_a_journal_needs_is_not_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let top = std::fs::canonicalize(dir.path()).expect("its real path");
    let name = format!(".sinew-{}.tmp", "ef".repeat(12));
    let temporary = top.join(&name);
    std::fs::write(&temporary, "the old content").expect("a file");
    intend(&ledger(&top), "killed", std::slice::from_ref(&temporary));
    let connection = Connection::open(top.join("state/sinew.db")).expect("the database");
    connection.execute("UPDATE process SET pid = 999999999", []).expect("an update");
    let journals = top.join("state/journals");
    std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
        .create(&journals)
        .expect("a directory");
    let journal = journals.join("1-1-0.journal.aside");
    std::fs::write(&journal, format!("damaged {name}\0and so on")).expect("a journal");
    intend(&ledger(&top), "next", &[]);
    assert!(temporary.exists());
    // Nothing is known of journals that cannot be looked for.
    let mode = std::os::unix::fs::PermissionsExt::from_mode;
    std::fs::set_permissions(&journals, mode(0o770)).expect("it is changed");
    intend(&ledger(&top), "unsafe", &[]);
    assert!(temporary.exists());
    std::fs::set_permissions(&journals, mode(0o700)).expect("it is changed");
    std::fs::remove_file(&journal).expect("it is removed");
    intend(&ledger(&top), "later", &[]);
    assert!(!temporary.exists());
}

/// An intent whose file could not be removed once counted as settled, and the file stayed for ever.
#[test]
fn what_could_not_be_removed_is_tried_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let top = std::fs::canonicalize(dir.path()).expect("its real path");
    let at = |dir: &str| top.join(dir).join(format!(".sinew-{}.tmp", "cd".repeat(12)));
    for dir in ["mounted", "away"] {
        std::fs::create_dir(top.join(dir)).expect("a directory");
        std::fs::write(at(dir), "half").expect("a file");
    }
    intend(&ledger(&top), "killed", &[at("mounted"), at("away")]);
    std::fs::rename(top.join("away"), top.join("elsewhere")).expect("a rename");
    let connection = Connection::open(top.join("state/sinew.db")).expect("the database");
    connection.execute("UPDATE process SET pid = 999999999", []).expect("an update");
    let open = || open(&top);
    let next = || ledger(&top).probe().expect("it opens");
    connection.execute_batch("CREATE TABLE kept AS SELECT * FROM unsettled").expect("a copy");

    next();
    assert!(!at("mounted").exists());
    assert_eq!(open(), ["killed"], "the directory may come back");
    std::fs::rename(top.join("elsewhere"), top.join("away")).expect("a rename");
    next();
    assert!(!at("away").exists());
    assert_eq!(open(), [""; 0]);

    connection
        .execute_batch("INSERT INTO unsettled SELECT seq, temporaries FROM kept")
        .expect("a row");
    std::fs::remove_dir(top.join("away")).expect("it goes");
    next();
    assert_eq!(open(), ["killed"]);
    connection.execute("UPDATE record SET at_ms = at_ms - 31 * 86400000", []).expect("an update");
    next();
    assert_eq!(open(), [""; 0], "after a month it counts as gone");
}

#[test]
fn a_ledger_that_cannot_write_refuses_changes_and_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = ledger(dir.path());
    std::fs::create_dir(dir.path().join("state/sinew.db")).expect("a directory in the way");
    let so_far = closing("x", None);
    let intent = ledger.intend(&so_far, &[], &[]);
    let error = wait(intent).expect_err("the intent cannot be recorded");
    assert_eq!(error.kind, Kind::Unavailable);
    assert!(ledger.broken().is_some());
}

#[test]
fn records_that_cannot_be_written_are_told_once_counted_and_bounded() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = ledger(dir.path());
    std::fs::create_dir(dir.path().join("state/sinew.db")).expect("a directory in the way");
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let into = Arc::clone(&told);
    ledger.on_failure(move |problem| lock(&into).push(problem.to_owned()));
    for n in 0..3 {
        ledger.close(None, closing(&n.to_string(), None));
    }
    for _ in 0..2 {
        let error = ledger.flush().expect_err("nothing can be written");
        assert!(error.message.starts_with("records could not be written (3 waiting): "), "{error}");
    }
    assert_eq!(lock(&told).len(), 1, "{told:?}");
    assert!(!ledger.full());
    for n in 0..MAX_KEPT {
        ledger.close(None, closing(&n.to_string(), None));
    }
    // While a batch is tried, its records are not in the queue.
    let until = Instant::now() + Duration::from_secs(10);
    while !ledger.full() {
        assert!(Instant::now() < until, "the queue has a bound");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_database_of_another_version_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(ledger(dir.path()));
    let path = dir.path().join("state/sinew.db");
    let other = Connection::open(&path).expect("a database");
    other.execute_batch("CREATE TABLE later (x); PRAGMA user_version = 7").expect("a later one");
    let ledger = ledger(dir.path());
    wait(ledger.intend(&closing("x", None), &[], &[])).expect_err("it cannot be recorded");
    let problem = ledger.broken().expect("a problem");
    assert!(problem.contains("version 7") && problem.contains("move it away"), "{problem}");
    let version: i64 = other.query_row("PRAGMA user_version", [], |row| row.get(0)).expect("one");
    assert_eq!(version, 7);
}

/// Of a call that changed several files only the first was recorded.
#[test]
fn every_change_of_a_call_is_recorded() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = ledger(dir.path());
    let mut closed = closing("patch", None);
    let gone = |path: &str| Change {
        path: PathBuf::from(path),
        before: Some(ContentHash::from([0xee; 32])),
        after: None,
        bytes: 0,
    };
    closed.changes.extend([gone("/w/b"), gone("/w/c")]);
    ledger.close(None, closed);
    ledger.flush().expect("it writes");
    let further = "SELECT call_id || ' ' || further_change.file_path || ' ' ||
        further_change.before_hash || ' ' || (further_change.after_hash IS NULL)
        FROM further_change JOIN record USING (seq) ORDER BY further_change.file_path";
    assert_eq!(
        rows(dir.path(), further),
        ["b", "c"].map(|name| format!("patch /w/{name} {} 1", "ee".repeat(32)))
    );
}

#[test]
fn two_processes_share_a_database() {
    let dir = tempfile::tempdir().expect("a directory");
    let (one, two) = (ledger(dir.path()), ledger(dir.path()));
    std::thread::scope(|scope| {
        for (name, ledger) in [("a", &one), ("b", &two)] {
            scope.spawn(move || {
                for n in 0..50 {
                    let id = format!("{name}{n}");
                    let ticket = intend(ledger, &id, &[]);
                    ledger.close(Some(ticket), closing(&id, None));
                }
            });
        }
    });
    drop((one, two));
    assert_eq!(rows(dir.path(), CALLS).len(), 200);
}

/// Holds the database of a directory as another process would.
fn held(dir: &std::path::Path) -> Connection {
    let connection = Connection::open(dir.join("state/sinew.db")).expect("the database");
    connection.execute_batch("BEGIN IMMEDIATE").expect("nobody writes");
    connection
}

/// A database that another process wrote blocked the thread that reads requests for five seconds.
#[test]
fn an_intent_waits_for_a_busy_database_without_blocking() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = ledger(dir.path());
    intend(&ledger, "first", &[]);
    let other = held(dir.path());
    let (one, two) = (closing("one", None), closing("two", None));
    let mut intents = [ledger.intend(&one, &[], &[]), ledger.intend(&two, &[], &[])];
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let before = Instant::now();
    for intent in &mut intents {
        assert!(intent.as_mut().poll(&mut cx).is_pending(), "it is not on disk");
    }
    ledger.close(None, closing("look", None));
    let blocked = before.elapsed();
    assert!(blocked < Duration::from_secs(1), "{blocked:?}");
    assert!(ledger.broken().is_none(), "to wait is no failure");
    drop(other);
    for intent in intents {
        wait(intent).expect("it is written in the end");
    }
    ledger.flush().expect("it writes");
    assert_eq!(
        rows(
            dir.path(),
            "SELECT phase || ' ' || call_id FROM record WHERE call_id <> '' ORDER BY call_id"
        ),
        ["intent first", "outcome look", "intent one", "intent two"],
        "nothing is lost and nothing is twice"
    );
}

#[test]
fn an_intent_that_is_withdrawn_leaves_nothing_open() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = ledger(dir.path());
    intend(&ledger, "first", &[]);
    let other = held(dir.path());
    let so_far = closing("withdrawn", None);
    let mut intent = ledger.intend(&so_far, &[], &[]);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(intent.as_mut().poll(&mut cx).is_pending());
    drop(intent);
    drop(other);
    intend(&ledger, "last", &[]);
    drop(ledger);
    // The helper may have been at it already: then it is recorded, and settled.
    assert_eq!(open(dir.path()), ["first", "last"]);
}

/// Returns whether any file of the state directory holds a text.
fn holds(dir: &std::path::Path, text: &str) -> bool {
    let entries = std::fs::read_dir(dir.join("state")).expect("entries");
    let mut files = entries.map(|entry| std::fs::read(entry.expect("an entry").path()));
    files.any(|file| memchr::memmem::find(&file.expect("a file"), text.as_bytes()).is_some())
}

/// Without a redactor that knows it the same secret is in the files: the look would find it.
#[test]
fn a_secret_in_any_text_of_a_call_reaches_no_file() {
    const CANARY: &str = "canary-canary-canary";
    type Put = fn(&mut Closing);
    let put: &[(&str, Put)] = &[
        ("call_id", |closing| closing.opening.call_id = String::from(CANARY)),
        ("session", |closing| closing.opening.session = String::from(CANARY)),
        ("agent", |closing| closing.opening.agent = Some(String::from(CANARY))),
        ("parent", |closing| closing.opening.parent = Some(String::from(CANARY))),
        ("dialect", |closing| closing.opening.dialect = CANARY.into()),
        ("tool", |closing| closing.opening.tool = String::from(CANARY)),
        ("path", |closing| {
            closing.changes.clear();
            closing.path = Some(PathBuf::from("/w").join(CANARY));
        }),
        ("origin", |closing| closing.origin = Some(CANARY.into())),
        ("approver", |closing| closing.approver = Some(CANARY.into())),
        ("command", |closing| closing.command = Some(format!("curl -u me:{CANARY} url"))),
        ("background", |closing| closing.background = Some(String::from(CANARY))),
        ("change", |closing| {
            let change = closing.changes.first_mut().expect("a change");
            change.path = PathBuf::from("/w").join(CANARY);
        }),
        ("further", |closing| {
            let mut further = closing.changes.first().expect("a change").clone();
            further.path = PathBuf::from("/w").join(CANARY);
            closing.changes.push(further);
        }),
    ];
    for knows in [true, false] {
        for (name, put) in put {
            let dir = tempfile::tempdir().expect("a directory");
            let state = StateDir::open(&dir.path().join("state")).expect("a state directory");
            let vars = knows.then(|| ("A_TOKEN".into(), CANARY.into()));
            let redactor = Redactor::knowing(vars);
            let ledger = SqliteLedger::new(&state, Recorded { redactor, ..Recorded::by("test") });
            let mut closed = closing("c", None);
            put(&mut closed);
            let temporary = PathBuf::from("/w").join(CANARY).join(".sinew-0.tmp");
            let (path, temporaries) = match *name {
                "path" => (vec![PathBuf::from("/w").join(CANARY)], vec![temporary]),
                _ => Default::default(),
            };
            let ticket = wait(ledger.intend(&closed, &path, &temporaries)).expect("it is recorded");
            ledger.close(Some(ticket), closed);
            drop(ledger);
            assert_eq!(holds(dir.path(), CANARY), !knows, "{name}");
        }
        let dir = tempfile::tempdir().expect("a directory");
        let state = StateDir::open(&dir.path().join("state")).expect("a state directory");
        let redactor = Redactor::knowing(knows.then(|| ("A_TOKEN".into(), CANARY.into())));
        let ledger = SqliteLedger::new(&state, Recorded { redactor, ..Recorded::by("test") });
        ledger.set_client(String::from(CANARY));
        let session = Some(String::from(CANARY));
        ledger.event(Event { kind: "granted", text: format!("x {CANARY}"), session });
        drop(ledger);
        assert_eq!(holds(dir.path(), CANARY), !knows, "the client and an event");
    }
}

#[test]
fn a_long_text_is_cut_and_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = ledger(dir.path());
    let mut closed = closing("c", None);
    closed.command = Some("ä".repeat(100_000));
    closed.opening.tool = "t".repeat(300);
    ledger.close(None, closed);
    drop(ledger);
    let texts = rows(dir.path(), "SELECT command || '|' || tool FROM record WHERE tool <> ''");
    let cut =
        format!("{} [cut: 200000 bytes]|{} [cut: 300 bytes]", "ä".repeat(2_048), "t".repeat(256));
    assert_eq!(texts, [cut]);
}

/// Nothing is recorded while a directory is in the way, and calls go on.
#[test]
fn a_ledger_that_may_fail_counts_what_it_could_not_record() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = StateDir::open(&dir.path().join("state")).expect("a state directory");
    let recorded = Recorded { on_failure: OnFailure::Continue, ..Recorded::by("test") };
    let ledger = SqliteLedger::new(&state, recorded);
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let into = Arc::clone(&told);
    ledger.on_failure(move |problem| lock(&into).push(problem.to_owned()));
    let in_the_way = state.database();
    std::fs::create_dir(&in_the_way).expect("a directory in the way");
    let ticket = intend(&ledger, "late", &[]);
    ledger.close(Some(ticket), closing("late", None));
    for n in 0..MAX_KEPT + 10 {
        ledger.close(None, closing(&n.to_string(), None));
    }
    assert!(!ledger.full(), "calls go on");
    ledger.flush().expect_err("nothing can be written");
    assert_eq!(lock(&told).len(), 1);
    std::fs::remove_dir(&in_the_way).expect("it is empty");
    ledger.flush().expect("it writes");
    drop(ledger);
    assert_eq!(
        rows(dir.path(), "SELECT text FROM record WHERE event = 'lost'"),
        [
            "while the audit log could not be written, 12 records were lost, and 1 changes happened before \
          their intent was written"
        ]
    );
    let calls = rows(dir.path(), "SELECT phase FROM record WHERE call_id = 'late' ORDER BY seq");
    assert_eq!(calls, ["intent", "outcome"]);
    assert_eq!(open(dir.path()), [""; 0]);
}
