//! Eight threads and two processes change one file, each after reading it: a change that was answered as done stays in
//! the file, and a refused writer learns who came first.
//!
//! The same harness without remembered reads first loses some of it: a race without a loser proves
//! nothing.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use sinew::approval::{Approvals, Asking};
use sinew::dialects::NATIVE;
use sinew::ledger::{Ledger, Recorded, SqliteLedger};
use sinew::{CallOptions, Request, Runtime, StateDir};

use crate::served::command;

const N_THREADS: usize = 8;
const N_PROCESSES: usize = 2;
const N_CHANGES: usize = 200;
/// How long a line of markers becomes: each call reads the whole file, so few long lines cost less than one for each.
const MAX_LINE: usize = 500;

/// How a marker gets into the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Before its last line.
    Edit,
    /// With the whole content.
    Write,
}

/// What a call came to.
struct Answer {
    ok: bool,
    text: String,
    kind: String,
}

/// Makes calls and waits for their replies.
trait Calls {
    fn call(&mut self, tool: &str, arguments: &Value) -> Answer;
}

/// Calls within this process, in a session of its own.
struct OfThread {
    tokio: tokio::runtime::Runtime,
    runtime: Arc<Runtime>,
    session: String,
}

impl Calls for OfThread {
    fn call(&mut self, tool: &str, arguments: &Value) -> Answer {
        let arguments = arguments.as_object().unwrap().clone();
        let mut request = Request::new("call", tool, arguments);
        request.session.clone_from(&self.session);
        let reply = self.tokio.block_on(self.runtime.call(request, CallOptions::default()));
        let kind = reply.error.as_ref().map(|error| error.kind.to_string()).unwrap_or_default();
        Answer { ok: reply.ok, text: crate::caller::text(&reply).to_owned(), kind }
    }
}

/// Calls of a process of its own.
struct OfProcess {
    child: Child,
    into: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl OfProcess {
    fn start(place: &Place, session: &str, track_reads: bool) -> Self {
        let mut child = command(&place.home)
            .args(["--session", session, "--approvals", "allow", "--root"])
            .arg(&place.root)
            .args(["--set", &format!("tools.fs.track_reads={track_reads}"), "call", "--batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let into = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        Self { child, into, from }
    }

    fn end(self) {
        let Self { mut child, into, .. } = self;
        drop(into);
        assert!(child.wait().unwrap().success());
    }
}

impl Calls for OfProcess {
    fn call(&mut self, tool: &str, arguments: &Value) -> Answer {
        writeln!(self.into, "{}", json!({ "name": tool, "arguments": arguments })).unwrap();
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        let reply: Value = serde_json::from_str(&line).unwrap();
        Answer {
            ok: reply["ok"] == true,
            text: reply["content"][0]["text"].as_str().unwrap_or_default().to_owned(),
            kind: reply["error"]["kind"].as_str().unwrap_or_default().to_owned(),
        }
    }
}

/// A root with a file of one line, and a home.
struct Place {
    _dir: tempfile::TempDir,
    root: PathBuf,
    home: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let (root, home) = (top.join("ws"), top.join("home"));
        fs::create_dir(&root).unwrap();
        fs::create_dir_all(home.join("state")).unwrap();
        fs::write(root.join("a.txt"), "end\n").unwrap();
        Self { _dir: dir, root, home }
    }
}

fn runtime(place: &Place, track_reads: bool) -> (Arc<Runtime>, Arc<SqliteLedger>) {
    let state = StateDir::open(&place.home.join("state/sinew")).unwrap();
    let recorded = Recorded::by("test");
    let ledger = Arc::new(SqliteLedger::new(&state, recorded));
    let runtime = Runtime::builder(NATIVE)
        .root(&place.root)
        .settings(|settings| settings.track_reads = track_reads)
        .knowledge(ledger.knowledge())
        .ledger(Arc::clone(&ledger) as Arc<dyn Ledger>)
        .asking(Asking { approvals: Approvals::Allow, ..Asking::default() })
        .without_store()
        .build()
        .unwrap();
    (runtime, ledger)
}

/// Returns the content of the file, out of what Read shows of it.
fn shown(text: &str) -> String {
    let lines = text.lines().filter_map(|line| line.split_once('→'));
    lines.map(|(_, line)| format!("{line}\n")).collect()
}

/// Puts markers into the file, each once it was read; returns how often that was refused as stale, and
/// how often a writer was named then.
fn mark(calls: &mut dyn Calls, name: &str, way: Way, n_changes: usize) -> (usize, usize) {
    let (mut n_stale, mut n_named) = (0, 0);
    for n in 0..n_changes {
        let marker = format!("{name}-{n}");
        loop {
            let read = calls.call("Read", &json!({ "file_path": "a.txt", "limit": 100_000 }));
            assert!(read.ok, "{}", read.text);
            let content = shown(&read.text);
            let beside = match way {
                Way::Edit => content.lines().last(),
                Way::Write => content.lines().next(),
            };
            let is_full = MAX_LINE < beside.map_or(0, str::len);
            let added = format!("{marker}{}", if is_full { '\n' } else { ' ' });
            let answer = match way {
                Way::Edit => {
                    let new = format!("{added}end");
                    let arguments =
                        json!({ "file_path": "a.txt", "old_string": "end", "new_string": new });
                    calls.call("Edit", &arguments)
                }
                Way::Write => {
                    let content = added + &content;
                    calls.call("Write", &json!({ "file_path": "a.txt", "content": content }))
                }
            };
            match answer.kind.as_str() {
                "" => break,
                "stale" => {
                    n_stale += 1;
                    n_named += usize::from(answer.text.contains("session "));
                }
                // Others were changing the file for too long.
                "timeout" => {}
                other => panic!("{other}: {}", answer.text),
            }
        }
    }
    (n_stale, n_named)
}

/// Lets everybody mark the file; returns how many of the markers that were answered are not in it.
fn n_lost(way: Way, track_reads: bool, n_changes: usize) -> usize {
    let place = Place::new();
    let (runtime, ledger) = runtime(&place, track_reads);
    let threads = (0..N_THREADS).map(|n| format!("thread{n}"));
    let processes = (0..N_PROCESSES).map(|n| format!("process{n}"));
    let (mut n_stale, mut n_named) = (0, 0);
    std::thread::scope(|scope| {
        let of_threads = threads.clone().map(|session| {
            let runtime = Arc::clone(&runtime);
            scope.spawn(move || {
                let mut builder = tokio::runtime::Builder::new_current_thread();
                let tokio = builder.enable_all().build().unwrap();
                let mut calls = OfThread { tokio, runtime, session: session.clone() };
                mark(&mut calls, &session, way, n_changes)
            })
        });
        let place = &place;
        let of_processes = processes.clone().map(|session| {
            scope.spawn(move || {
                let mut calls = OfProcess::start(place, &session, track_reads);
                let refused = mark(&mut calls, &session, way, n_changes);
                calls.end();
                refused
            })
        });
        let all: Vec<_> = of_threads.chain(of_processes).collect();
        for one in all {
            let (stale, named) = one.join().unwrap();
            n_stale += stale;
            n_named += named;
        }
    });
    ledger.flush().unwrap();
    let n_lost = n_missing(&place.root, threads.chain(processes), n_changes);
    println!(
        "{way:?}, reads remembered: {track_reads}: {n_stale} refused, {n_named} of them naming"
    );
    println!("who changed the file; {n_lost} markers lost");
    if track_reads {
        assert!(0 < n_named, "nobody was told who changed the file");
    }
    n_lost
}

fn n_missing(root: &Path, names: impl Iterator<Item = String>, n_changes: usize) -> usize {
    let content = fs::read_to_string(root.join("a.txt")).unwrap();
    let there: std::collections::BTreeSet<&str> = content.split_whitespace().collect();
    assert_eq!(there.len(), content.split_whitespace().count(), "a marker is there twice");
    let markers = names.flat_map(|name| (0..n_changes).map(move |n| format!("{name}-{n}")));
    markers.filter(|marker| !there.contains(marker.as_str())).count()
}

#[test]
fn whole_contents_overwrite_each_other_where_reads_are_not_remembered() {
    assert!(0 < n_lost(Way::Write, false, N_CHANGES / 4), "the harness does not race");
}

#[test]
fn no_change_is_lost_where_the_whole_content_is_written() {
    assert_eq!(n_lost(Way::Write, true, N_CHANGES), 0);
}

#[test]
fn no_change_is_lost_where_a_place_is_edited() {
    assert_eq!(n_lost(Way::Edit, true, N_CHANGES), 0);
}

/// Runs one call in a process of its own; returns its exit code and what it said.
fn run(place: &Place, session: &str, arguments: &[&str]) -> (i32, String) {
    let done = command(&place.home)
        .args(["--session", session, "--approvals", "allow", "--root"])
        .arg(&place.root)
        .args(arguments)
        .output()
        .unwrap();
    let said = [done.stdout, done.stderr].concat();
    (done.status.code().unwrap(), String::from_utf8(said).unwrap())
}

#[test]
fn a_session_knows_its_files_in_the_next_process() {
    let place = Place::new();
    let read = &["call", "Read", r#"{"file_path": "a.txt"}"#];
    let edit = |old: &str, new: &str| {
        json!({ "file_path": "a.txt", "old_string": old, "new_string": new }).to_string()
    };
    let check = |session: &str, arguments: &[&str], code: i32, words: &str| {
        let (found, said) = run(&place, session, arguments);
        assert!(found == code && said.contains(words), "{session} {arguments:?}: {found} {said}");
    };
    check("one", read, 0, "end");
    check("two", read, 0, "end");
    check("one", &["call", "Edit", &edit("end", "1")], 0, "edited");
    check("one", &["call", "Edit", &edit("1", "2")], 0, "edited");
    let stale = "a.txt changed since you last saw it: session one wrote it with Edit";
    check("two", &["call", "Edit", &edit("2", "3")], 1, stale);
    check("two", &["call", "Edit", &edit("not there", "3")], 1, stale);
    fs::write(place.root.join("a.txt"), "other\n").unwrap();
    let other = "a.txt changed since you last saw it: another program or a command changed it";
    check("one", &["call", "Edit", &edit("other", "3")], 1, other);
    check("one", &["call", "Write", r#"{"file_path": "a.txt", "content": "4"}"#], 1, other);
    check("one", read, 0, "other");
    check("one", &["call", "Write", r#"{"file_path": "a.txt", "content": "4"}"#], 0, "wrote");
    // Where nothing is recorded, a session is known to its process alone.
    let off = ["--set", "ledger.mode=\"off\"", "call", "Edit", &edit("4", "5")];
    check("two", &off, 0, "edited");
}
