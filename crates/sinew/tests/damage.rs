//! A ledger that was damaged or taken away is noticed, wherever the damage is.
//!
//! Most pages of a database are read by no statement of a call, so each page is overwritten once, and everybody
//! who should notice looks at a copy of its own.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::served::{Place, command};

const PAGE: usize = 4_096;
/// Longer than a server must idle before it looks.
const LONG: Duration = Duration::from_secs(30);
/// How many homes are looked at side by side.
const N_AT_ONCE: usize = 16;

fn sinew(home: &Path, root: &Path, args: &[&str]) -> Output {
    let mut command = command(home);
    command.arg("--root").arg(root).args(["--approvals", "allow"]).args(args);
    command.current_dir(root).stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Records calls of several kinds, at least so many records.
fn record(place: &Place, n_records: usize) {
    let mut lines = String::new();
    let mut n = 1;
    while n < n_records {
        let content = format!("{n}\n");
        let calls = match n % 7 {
            0 => {
                let patch = format!(
                    "*** Begin Patch\n*** Add File: p{n}a.txt\n+a\n*** Add File: p{n}b.txt\n+b\n*** End Patch"
                );
                n += 2;
                vec![("ApplyPatch", json!({ "patch": patch }))]
            }
            1 | 2 => {
                n += 2;
                vec![("Write", json!({ "file_path": format!("w{n}.txt"), "content": content }))]
            }
            _ => {
                n += 1;
                vec![("Read", json!({ "file_path": format!("read-{}.txt", n % 40) }))]
            }
        };
        for (name, arguments) in calls {
            lines.push_str(&format!("{}\n", json!({ "name": name, "arguments": arguments })));
        }
    }
    for n in 0..40 {
        fs::write(place.root.join(format!("read-{n}.txt")), format!("{n}\n")).unwrap();
    }
    let mut command = command(&place.home);
    command.arg("--root").arg(&place.root).args(["--approvals", "allow", "call", "--batch"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    // Everything is in the database itself.
    assert!(!place.home.join("state/sinew/sinew.db-wal").exists());
}

/// Copies a home, with the state in it, to a new place.
fn copied(home: &Path, to: &Path) -> PathBuf {
    let done = Command::new("cp").arg("-a").arg(home).arg(to).status().unwrap();
    assert!(done.success());
    to.to_owned()
}

fn overwrite(home: &Path, page: usize, fill: u8) {
    let path = home.join("state/sinew/sinew.db");
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[fill; PAGE], (page * PAGE) as u64).unwrap();
}

/// A server, with what it says on standard error.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<std::process::ChildStdout>,
    said: mpsc::Receiver<String>,
}

impl Server {
    fn start(home: &Path, root: &Path) -> Self {
        let mut command = command(home);
        command.arg("--root").arg(root).args(["mcp", "--approvals", "allow"]);
        command.current_dir(root);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (tell, said) = mpsc::channel();
        let errors = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            errors.lines().map_while(Result::ok).for_each(|line| drop(tell.send(line)));
        });
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut server = Self { input: child.stdin.take(), child, output, said };
        server.ask(
            "initialize",
            &json!({"protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"}}),
        );
        server
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let line = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> String {
        let reply = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        reply["result"]["content"].to_string()
    }

    /// Returns the first line on standard error with a word, if one comes in time.
    fn says(&self, word: &str, within: Duration) -> Option<String> {
        let end = Instant::now() + within;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            match self.said.recv_timeout(left) {
                Ok(line) if line.contains(word) => return Some(line),
                Ok(_) => {}
                Err(_) => return None,
            }
        }
        None
    }

    fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
    }
}

/// Each page, with each of two fills, in a home of its own: who did not notice.
#[test]
fn no_overwritten_page_goes_on_silently() {
    let place = Place::new();
    record(&place, 1_000);
    let database = place.home.join("state/sinew/sinew.db");
    let n_pages = fs::metadata(&database).unwrap().len() as usize / PAGE;
    let n_records: i64 = Connection::open(&database)
        .unwrap()
        .query_row("SELECT count(*) FROM record", [], |row| row.get(0))
        .unwrap();
    assert!(1_000 <= n_records && 50 < n_pages, "{n_records} records on {n_pages} pages");

    // Nothing is wrong with the database as it is.
    let whole = copied(&place.home, &place.home.with_file_name("whole"));
    assert_eq!(sinew(&whole, &place.root, &["doctor"]).status.code(), Some(0));
    assert_eq!(sinew(&whole, &place.root, &["audit", "verify"]).status.code(), Some(0));
    let server = Server::start(&whole, &place.root);
    assert_eq!(server.says("the audit log", Duration::from_secs(6)), None);
    server.end();

    let jobs: Vec<(usize, u8)> = (0..n_pages).flat_map(|page| [(page, 0), (page, 0x5a)]).collect();
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let n_silent = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for worker in 0..N_AT_ONCE {
            let (place, jobs, next, missed, n_silent) = (&place, &jobs, &next, &missed, &n_silent);
            scope.spawn(move || {
                while let Some((page, fill)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let home = |name: &str| {
                        let to = place.home.with_file_name(format!("{name}-{worker}"));
                        let _ = fs::remove_dir_all(&to);
                        let home = copied(&place.home, &to);
                        overwrite(&home, *page, *fill);
                        home
                    };
                    let miss = |who: &str, said: String| {
                        missed
                            .lock()
                            .unwrap()
                            .push(format!("page {page} {fill:#x}: {who}: {said}"));
                    };
                    let idling = home("server");
                    let server = Server::start(&idling, &place.root);
                    let own = home("own");
                    let listed = sinew(&own, &place.root, &["audit", "list", "--limit", "1"]);
                    if listed.status.success() && listed.stderr.is_empty() {
                        n_silent.fetch_add(1, Ordering::Relaxed);
                    }
                    let verified = sinew(&own, &place.root, &["audit", "verify"]);
                    if verified.status.code() != Some(1) {
                        miss("verify", said(&verified));
                    }
                    let doctor = sinew(&own, &place.root, &["doctor"]);
                    if doctor.status.code() != Some(1) || !said(&doctor).contains("MISSING  ledger")
                    {
                        miss("doctor", said(&doctor));
                    }
                    match server.says("the audit log", LONG) {
                        Some(line)
                            if line.contains("damaged") || line.contains("does not match") => {}
                        other => miss("server", format!("{other:?}")),
                    }
                    server.end();
                }
            });
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "{} of {}: {missed:#?}", missed.len(), jobs.len());
    // The control: a reader of only what a call needs does not notice.
    let n_silent = n_silent.into_inner();
    assert!(jobs.len() / 2 < n_silent, "{n_silent} of {} were silent", jobs.len());
}

/// A page that no statement of a call reads: one in the middle of the records.
fn damage(home: &Path) {
    let database = Connection::open(home.join("state/sinew/sinew.db")).unwrap();
    let sql = "SELECT pageno FROM dbstat WHERE name = 'record' AND pagetype = 'leaf'
        ORDER BY pageno LIMIT 1 OFFSET 3";
    // Without that table the middle of the file is one, too.
    let page = database.query_row(sql, [], |row| row.get::<_, i64>(0)).ok();
    drop(database);
    overwrite(home, usize::try_from(page.unwrap_or(20)).unwrap() - 1, 0x5a);
}

fn kept_aside(home: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(home.join("state/sinew")).unwrap().map(|entry| entry.unwrap().path());
    let is_kept = |path: &PathBuf| {
        let name = path.to_str().unwrap();
        name.contains("sinew.db.corrupt-") && !name.ends_with("-wal") && !name.ends_with("-shm")
    };
    entries.filter(is_kept).collect()
}

/// What an idling server finds is kept, and said on the next reply and by the doctor until it is moved away.
#[test]
fn a_damaged_database_is_kept_aside_by_an_idling_server_and_told() {
    let place = Place::new();
    record(&place, 300);
    damage(&place.home);
    let damaged = fs::read(place.home.join("state/sinew/sinew.db")).unwrap();
    let mut server = Server::start(&place.home, &place.root);
    let line = server.says("the audit log", LONG).expect("it says so");
    assert!(line.contains("damaged") && line.contains("sinew.db.corrupt-"), "{line}");
    let reply = server.call("Read", &json!({"file_path": "read-1.txt"}));
    assert!(reply.contains("[the audit log: the database was damaged"), "{reply}");
    // Once.
    let reply = server.call("Read", &json!({"file_path": "read-1.txt"}));
    assert!(!reply.contains("the audit log"), "{reply}");
    server.end();
    let kept = kept_aside(&place.home);
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(fs::read(&kept[0]).unwrap(), damaged);
    let doctor = sinew(&place.home, &place.root, &["doctor"]);
    assert_eq!(doctor.status.code(), Some(1), "{}", said(&doctor));
    assert!(said(&doctor).contains("sinew.db.corrupt-"), "{}", said(&doctor));
    // Later calls are recorded in the new one.
    let listed = said(&sinew(&place.home, &place.root, &["audit", "list"]));
    assert_eq!(listed.matches("Read").count(), 2, "{listed}");
}

/// A record that another process changed leaves the database usable: it is told, and nothing is moved.
#[test]
fn a_changed_record_is_told_by_an_idling_server_and_the_doctor() {
    let place = Place::new();
    record(&place, 100);
    let database = Connection::open(place.home.join("state/sinew/sinew.db")).unwrap();
    database.execute("UPDATE record SET file_path = '/other' WHERE seq = 20", []).unwrap();
    drop(database);
    let server = Server::start(&place.home, &place.root);
    let line = server.says("the audit log", LONG).expect("it says so");
    assert!(line.contains("record 20 does not match its hash"), "{line}");
    server.end();
    assert_eq!(kept_aside(&place.home), [] as [PathBuf; 0]);
    let doctor = sinew(&place.home, &place.root, &["doctor"]);
    assert_eq!(doctor.status.code(), Some(1), "{}", said(&doctor));
    assert!(said(&doctor).contains("record 20 does not match"), "{}", said(&doctor));
    assert_eq!(kept_aside(&place.home), [] as [PathBuf; 0]);
}

/// Overwritten zeros at the end of a long path are sound for SQLite.
#[test]
fn zeros_at_the_end_of_a_long_value_are_found() {
    let place = Place::new();
    record(&place, 100);
    let path = place.home.join("state/sinew/sinew.db");
    let database = Connection::open(&path).unwrap();
    let long = "x".repeat(9_000);
    let sql = "INSERT INTO unsettled SELECT seq, CAST(?1 AS BLOB) FROM record
        WHERE phase = 'intent' ORDER BY seq LIMIT 1";
    database.execute(sql, [&long]).unwrap();
    drop(database);
    let bytes = fs::read(&path).unwrap();
    let ends = |page: &[u8]| page.starts_with(&[0, 0, 0, 0]) && page[4..8] == *b"xxxx";
    let page = bytes.chunks(PAGE).position(ends).expect("the last page of the value");
    let verified = sinew(&place.home, &place.root, &["audit", "verify"]);
    assert_eq!(verified.status.code(), Some(0), "the control: {}", said(&verified));
    overwrite(&place.home, page, 0);
    let sound: String = Connection::open(&path)
        .unwrap()
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(sound, "ok", "the control");
    let verified = sinew(&place.home, &place.root, &["audit", "verify"]);
    assert_eq!(verified.status.code(), Some(1), "{}", said(&verified));
    assert!(said(&verified).contains("damaged"), "{}", said(&verified));
}

/// Takes something out of a home.
type Take<'a> = &'a dyn Fn(&Path);

/// The database, or everything, was taken away.
#[test]
fn a_ledger_that_is_gone_is_an_error_of_the_doctor_and_of_verify() {
    let database = |home: &Path| {
        fs::remove_file(home.join("state/sinew/sinew.db")).unwrap();
    };
    let records = |home: &Path| {
        for name in ["sinew.db", "ledger.head", "ledger.key"] {
            fs::remove_file(home.join("state/sinew").join(name)).unwrap();
        }
    };
    let state = |home: &Path| fs::remove_dir_all(home.join("state")).unwrap();
    let cases: [(&str, Take<'_>, i32); 4] = [
        ("nothing", &|_: &Path| {}, 0),
        ("the database", &database, 1),
        // Without a key or a head nothing shows that there was a ledger.
        ("all of the ledger", &records, 0),
        ("the state", &state, 0),
    ];
    for (what, take, code) in cases {
        let place = Place::new();
        record(&place, 30);
        // An output that had no room in a reply, as a trace in the project.
        fs::create_dir_all(place.root.join(".sinew/tool-output")).unwrap();
        fs::write(place.root.join(".sinew/tool-output/c1.txt"), "x").unwrap();
        take(&place.home);
        // The doctor begins no ledger, so it says so as often as it is asked.
        for args in [&["audit", "verify"][..], &["doctor"], &["doctor"], &["audit", "verify"]] {
            let ran = sinew(&place.home, &place.root, args);
            assert_eq!(ran.status.code(), Some(code), "{what}: {args:?}: {}", said(&ran));
        }
        if code == 0 {
            continue;
        }
        let doctor = said(&sinew(&place.home, &place.root, &["doctor"]));
        assert!(doctor.contains("MISSING  ledger") && doctor.contains("gone"), "{what}: {doctor}");
    }
    // A call begins a new one, and says so.
    let place = Place::new();
    record(&place, 30);
    database(&place.home);
    let called = sinew(&place.home, &place.root, &["call", "List"]);
    assert!(said(&called).contains("was taken away"), "{}", said(&called));
    let doctor = sinew(&place.home, &place.root, &["doctor"]);
    assert_eq!(doctor.status.code(), Some(1), "{}", said(&doctor));
    // A project that was never worked on says nothing of a ledger.
    let place = Place::new();
    fs::create_dir_all(place.root.join(".sinew/tool-output")).unwrap();
    fs::write(place.root.join(".sinew/config.toml"), "").unwrap();
    for args in [&["audit", "verify"][..], &["doctor"], &["audit", "verify"]] {
        let ran = sinew(&place.home, &place.root, args);
        assert_eq!(ran.status.code(), Some(0), "{args:?}: {}", said(&ran));
    }
}

/// A project that another user worked in, or that was copied, passed for a lost ledger.
#[test]
fn foreign_outputs_are_a_note() {
    for is_foreign in [true, false] {
        let place = Place::new();
        if is_foreign {
            fs::create_dir_all(place.root.join(".sinew/tool-output")).unwrap();
            fs::write(place.root.join(".sinew/tool-output/c1.txt"), "x").unwrap();
        }
        for (args, note) in [
            (&["audit", "verify"][..], "another user or machine recorded them"),
            (&["audit", "verify", "--json"], "another user or machine recorded them"),
            (&["doctor"], "note     ledger     nothing is recorded yet, but"),
        ] {
            let ran = sinew(&place.home, &place.root, args);
            assert_eq!(ran.status.code(), Some(0), "{args:?}: {}", said(&ran));
            assert_eq!(said(&ran).contains(note), is_foreign, "{args:?}: {}", said(&ran));
        }
    }
}

/// The doctor reads all of the index of checkpoints, too.
#[test]
fn a_damaged_index_of_checkpoints_is_told_by_the_doctor() {
    let place = Place::new();
    record(&place, 300);
    let path = place.home.join("state/sinew/checkpoints.db");
    let page: i64 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'kept'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(sinew(&place.home, &place.root, &["doctor"]).status.code(), Some(0));
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[0x5a; PAGE], (page as u64 - 1) * PAGE as u64).unwrap();
    let doctor = sinew(&place.home, &place.root, &["doctor"]);
    assert_eq!(doctor.status.code(), Some(1), "{}", said(&doctor));
    assert!(said(&doctor).contains("MISSING  undo"), "{}", said(&doctor));
}

/// Every command names the file that is in the way, and keeps its content.
#[test]
fn a_state_directory_that_is_a_file_is_said() {
    let place = Place::new();
    fs::create_dir_all(place.home.join("state")).unwrap();
    fs::write(place.home.join("state/sinew"), "a file").unwrap();
    for (args, code) in [
        (&["doctor"][..], 1),
        (&["audit", "list"], 2),
        (&["audit", "verify"], 2),
        (&["call", "List"], 2),
        (&["mcp"], 2),
        (&["checkpoint", "list"], 2),
    ] {
        let ran = sinew(&place.home, &place.root, args);
        let said = said(&ran);
        assert_eq!(ran.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains("state/sinew"), "{args:?}: {said}");
        assert!(said.contains("is not a directory"), "{args:?}: {said}");
        assert_eq!(fs::read(place.home.join("state/sinew")).unwrap(), b"a file");
    }
}
