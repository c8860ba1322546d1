//! What callers know of files decides what they change, within a process and over several.

use std::fs::{self, File, FileTimes};
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use sinew_guard::{Guard, GuardSettings, KnowledgeBase, Recorded, SqliteLedger, StateDir};
use sinew_tool::{
    Access, Caller, Closing, Expect, FileError, FileSettings, Ledger, Opening, ReadObservation,
    Slot, World,
};

use crate::tree::{Tree, WRITE, allow, contain};

/// A process with its own memory, on a tree and perhaps a ledger.
struct Process {
    guard: Arc<Guard>,
    ledger: Option<SqliteLedger>,
}

impl Process {
    /// Returns a process that keeps what it knows to itself.
    fn alone(tree: &Tree) -> Self {
        Self { guard: guard(tree, Arc::default()), ledger: None }
    }

    /// Returns one of several that share a database.
    fn beside_others(tree: &Tree) -> Self {
        let state = StateDir::open(&tree.top.join("state")).unwrap();
        let recorded = Recorded::by("test");
        let ledger = SqliteLedger::new(&state, recorded);
        Self { guard: guard(tree, ledger.knowledge()), ledger: Some(ledger) }
    }

    fn world(&self, who: &str, path: &str, access: Access) -> World {
        let (session, agent) = match who.split_once('/') {
            Some((session, agent)) => (session, Some(agent.to_owned())),
            None => (who, None),
        };
        let caller = Caller {
            session: session.to_owned(),
            agent,
            turn: None,
            call_id: String::from("call"),
            tool: String::from("Edit"),
            dialect: "native".into(),
        };
        allow(contain(&self.guard, path, access).unwrap().by(caller, None)).world
    }

    /// Reads a file, whole or in part, and says so; returns how often in a row that was.
    fn read(&self, who: &str, path: &str, is_whole: bool) -> u32 {
        let world = self.world(who, path, Access::Read);
        let opened = world.files.open(Slot(0)).unwrap();
        let state = opened.meta.identity;
        let text = std::io::read_to_string(opened.file).unwrap();
        let content = is_whole.then(|| sinew_guard::content_hash(text.as_bytes()));
        world.knowledge.saw(Slot(0), &ReadObservation { state, content, part: (1, 9) })
    }

    /// Writes a file; returns in what words that was refused, if it was.
    fn write(&self, who: &str, path: &str, content: &str) -> String {
        let world = self.world(who, path, WRITE);
        match world.files.replace(Slot(0), &[content.as_bytes()], Expect::Any) {
            Ok(_) => String::from("done"),
            Err(FileError::Stale(writer)) => match writer {
                Some(writer) => writer.words(),
                None => String::from("another program"),
            },
            Err(FileError::Unread) => String::from("unread"),
            Err(error) => format!("{error:?}"),
        }
    }

    fn flush(&self) {
        self.ledger.as_ref().unwrap().flush().unwrap();
    }
}

fn guard(tree: &Tree, knowledge: Arc<KnowledgeBase>) -> Arc<Guard> {
    let files = FileSettings { track_reads: true, ..FileSettings::default() };
    Guard::open(GuardSettings {
        files: Arc::new(files),
        knowledge,
        ..GuardSettings::new(vec![tree.root.clone()])
    })
    .unwrap()
}

#[test]
fn each_caller_changes_what_it_knows() {
    let tree = Tree::new().with(&[("a", "1")]);
    let process = Process::alone(&tree);
    process.read("one", "a", true);
    process.read("two", "a", true);
    process.read("two/agent", "a", true);
    assert_eq!(process.write("one", "a", "2"), "done");
    assert_eq!(process.write("one", "a", "3"), "done", "own changes are known");
    let words = "session one wrote it with Edit just now";
    assert_eq!(process.write("two", "a", "4"), words);
    assert_eq!(process.write("two/agent", "a", "4"), words, "an agent knows its own files");
    assert_eq!(tree.read("a"), "3");
    process.read("two/agent", "a", true);
    assert_eq!(process.write("two", "a", "4"), words);
    assert_eq!(process.write("two/agent", "a", "4"), "done");
    assert_eq!(
        process.write("one", "a", "5"),
        "session two, agent agent, wrote it with Edit just now"
    );
    assert_eq!(process.write("three", "a", "6"), "done", "who never saw it need not know it");
    fs::write(tree.root.join("a"), "7").unwrap();
    assert_eq!(process.write("three", "a", "8"), "another program");
}

fn times(path: &Path) -> FileTimes {
    let meta = fs::metadata(path).unwrap();
    FileTimes::new().set_modified(meta.modified().unwrap()).set_accessed(meta.accessed().unwrap())
}

#[test]
fn neither_size_nor_time_hides_a_change_or_makes_one() {
    let tree = Tree::new().with(&[("a", "same size")]);
    let path = tree.root.join("a");
    let process = Process::alone(&tree);
    process.read("s", "a", true);
    let before = times(&path);
    fs::write(&path, "Same size").unwrap();
    File::options().write(true).open(&path).unwrap().set_times(before).unwrap();
    assert_eq!(process.write("s", "a", "new"), "another program");
    process.read("s", "a", true);
    File::options().write(true).open(&path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    fs::rename(&path, tree.root.join("b")).unwrap();
    fs::copy(tree.root.join("b"), &path).unwrap();
    assert_eq!(process.write("s", "a", "new"), "done", "the content is what was read");
    // A file that was read in part is known by its state alone.
    process.read("s", "b", false);
    assert_eq!(process.write("s", "b", "new"), "done");
    process.read("s", "b", false);
    fs::write(tree.root.join("b"), "old").unwrap();
    assert_eq!(process.write("s", "b", "new"), "another program");
}

#[test]
fn a_session_and_who_wrote_span_processes() {
    let tree = Tree::new().with(&[("a", "1"), ("b", "1"), ("c", "1")]);
    let first = Process::beside_others(&tree);
    first.read("s", "a", true);
    first.read("s", "b", false);
    first.read("s", "c", true);
    first.flush();
    let second = Process::beside_others(&tree);
    assert_eq!(second.write("t", "a", "2"), "done");
    second.flush();

    let third = Process::beside_others(&tree);
    assert_eq!(third.write("s", "a", "3"), "session t wrote it with Edit just now");
    fs::write(tree.root.join("b"), "2").unwrap();
    assert_eq!(third.write("s", "b", "3"), "another program");
    assert_eq!(third.write("s", "c", "3"), "done");
    third.flush();
    // The first process still remembers the old content, and its session knows the new one.
    assert_eq!(first.write("s", "c", "4"), "done");
    // A reader of its own write stays its writer.
    second.read("t", "a", true);
    second.flush();
    assert_eq!(first.write("s", "a", "3"), "session t wrote it with Edit just now");
}

#[test]
fn a_record_that_is_not_written_yet_is_known_by_its_intent() {
    let tree = Tree::new().with(&[("a", "1")]);
    let (one, two) = (Process::beside_others(&tree), Process::beside_others(&tree));
    one.read("one", "a", true);
    one.flush();
    assert_eq!(two.write("two", "a", "2"), "done");
    let opening = sinew_tool::Opening::new("c", "two", "native", "Edit");
    let so_far = sinew_tool::Closing::new(opening, 0);
    let paths = [tree.root.join("a")];
    let ledger = two.ledger.as_ref().unwrap();
    // What waits is written with the next intent; until then the intent alone tells.
    let before = one.write("one", "a", "3");
    assert_eq!(before, "another program");
    let intent = ledger.intend(&so_far, &paths, &[]);
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(intent).unwrap();
    fs::write(tree.root.join("a"), "not recorded").unwrap();
    let words = "session two began to change it with Edit just now";
    assert_eq!(one.write("one", "a", "3"), words);
}

#[test]
fn memory_is_bounded() {
    let tree = Tree::new();
    let process = Process::alone(&tree);
    for n in 0..4_200 {
        tree.write(&format!("d/{n}"), "1");
        process.read("s", &format!("d/{n}"), true);
    }
    let refused = |n: usize| {
        let path = format!("d/{n}");
        tree.write(&path, "2");
        process.write("s", &path, "3") != "done"
    };
    assert!(refused(4_199), "what was read last is remembered");
    assert!(!refused(0), "what was read first is forgotten");
}

#[test]
fn rows_of_long_ago_go() {
    let tree = Tree::new().with(&[("a", "1"), ("b", "1")]);
    let process = Process::beside_others(&tree);
    process.read("s", "a", true);
    process.flush();
    let database = tree.top.join("state/sinew.db");
    let connection = Connection::open(database).unwrap();
    let n_rows = || -> i64 {
        connection.query_row("SELECT count(*) FROM known", [], |row| row.get(0)).unwrap()
    };
    let month_ago = "UPDATE known SET at_ms = at_ms - 31 * 86400000";
    connection.execute(month_ago, []).unwrap();
    assert_eq!(n_rows(), 1);
    // Some process among so many looks.
    for _ in 0..64 {
        let process = Process::beside_others(&tree);
        process.read("t", "b", true);
        let opening = Opening::new("c", "t", "native", "Read");
        process.ledger.as_ref().unwrap().close(None, Closing::new(opening, 1));
    }
    assert_eq!(n_rows(), 1, "the row of `b` is left alone");
    let left: String =
        connection.query_row("SELECT session FROM known", [], |row| row.get(0)).unwrap();
    assert_eq!(left, "t");
}
