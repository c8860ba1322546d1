//! A program that swaps a directory and a file for links to the outside, as fast as it can, while
//! every tool works on them through the runtime.
//!
//! Whatever lies outside carries a word that no reply may hold, and must be the same afterwards. The
//! same harness first shows that the usual way, resolving a path and opening what came out, leaks: a
//! race without a loser proves nothing.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, openat, renameat, renameat_with};
use serde_json::{Value, json};
use sinew::approval::{Approvals, Asking};
use sinew::dialects::NATIVE;
use sinew::file::Resolver;
use sinew::{Reply, Runtime};
use sinew_testkit::OnDrop;

use crate::caller::{Caller, text};
use crate::snapshot::Snapshot;

/// Only what lies outside holds this word.
const CANARY: &str = "canary";

/// How many calls each tool makes with each resolver.
const N_CALLS: usize = 1_800;

/// How long the control may try to lose the race.
const PATIENCE: Duration = Duration::from_secs(30);

const RESOLVERS: [Resolver; 2] = [Resolver::Auto, Resolver::Walk];

/// A root where `swap` and `other`, and `last.txt` and `last-other.txt`, take each other's place:
/// one of each pair is a link to the outside, which holds the same names and more.
struct Arena {
    _dir: tempfile::TempDir,
    root: PathBuf,
    outside: PathBuf,
}

impl Arena {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let (root, outside) = (top.join("ws"), top.join("outside"));
        for (place, word) in [(root.join("swap"), "inside"), (outside.clone(), CANARY)] {
            fs::create_dir_all(place.join("deep")).unwrap();
            for n in 0..10 {
                let content = format!("the {word} text\n");
                fs::write(place.join(format!("deep/{n}.txt")), content).unwrap();
            }
        }
        fs::write(outside.join(format!("deep/{CANARY}.txt")), CANARY).unwrap();
        fs::write(root.join("last.txt"), "the inside text\n").unwrap();
        symlink(&outside, root.join("other")).unwrap();
        symlink(outside.join("deep/1.txt"), root.join("last-other.txt")).unwrap();
        Self { _dir: dir, root, outside }
    }

    /// Returns whether a reply holds anything from outside: contents, names, or where it lies.
    fn leaks(&self, reply: &Reply) -> bool {
        let error = reply.error.as_ref();
        let hint = error.and_then(|error| error.hint.as_deref()).unwrap_or_default();
        let message = error.map_or("", |error| error.message.as_str());
        let structured = reply.structured.as_ref().map(Value::to_string).unwrap_or_default();
        let meta = serde_json::to_string(&reply.meta).unwrap();
        let outside = self.outside.to_str().unwrap();
        [text(reply), hint, message, &structured, &meta]
            .iter()
            .any(|text| text.contains(CANARY) || text.contains(outside))
    }

    /// Does something while another thread swaps; returns how often it did.
    fn race(&self, calls: impl FnOnce()) -> u64 {
        let over = AtomicBool::new(false);
        let n_swaps = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let flags = OFlags::PATH | OFlags::DIRECTORY;
                let dir = openat(CWD, &self.root, flags, Mode::empty()).unwrap();
                while !over.load(Ordering::Relaxed) {
                    for (a, b) in [("swap", "other"), ("last.txt", "last-other.txt")] {
                        swap(&dir, a, b);
                    }
                    n_swaps.fetch_add(2, Ordering::Relaxed);
                }
            });
            let end = OnDrop(&over);
            calls();
            drop(end);
        });
        n_swaps.into_inner()
    }
}

fn swap(dir: &std::os::fd::OwnedFd, a: &str, b: &str) {
    if renameat_with(dir, a, dir, b, RenameFlags::EXCHANGE).is_err() {
        for (from, to) in [(a, "between"), (b, a), ("between", b)] {
            renameat(dir, from, dir, to).unwrap();
        }
    }
}

#[test]
fn resolving_a_path_and_opening_the_result_leaks_here() {
    let arena = Arena::new();
    let mut n_tries = 0;
    let mut leaked = false;
    arena.race(|| {
        let end = Instant::now() + PATIENCE;
        while !leaked && Instant::now() < end {
            n_tries += 1;
            let path = arena.root.join(["swap/deep/1.txt", "last.txt"][n_tries % 2]);
            let real = fs::canonicalize(&path).ok();
            let real = real.filter(|real| real.starts_with(&arena.root));
            let content = real.and_then(|real| fs::read_to_string(real).ok());
            leaked = content.is_some_and(|content| content.contains(CANARY));
        }
    });
    println!("the usual way leaked after {n_tries} tries");
    assert!(leaked, "the harness does not race: no leak in {n_tries} tries");
}

/// The calls of each tool, which take turns.
fn calls() -> Vec<(&'static str, Vec<Value>)> {
    let paths = ["swap/deep/1.txt", "last.txt", "other/deep/2.txt", "swap/../swap/deep/3.txt"];
    let on = |more: &Value| -> Vec<Value> {
        let with = |path: &&str| {
            let mut arguments = more.clone();
            arguments["file_path"] = json!(path);
            arguments
        };
        paths.iter().map(with).collect()
    };
    let mut edits = on(&json!({ "old_string": " text", "new_string": "  text" }));
    edits.extend(on(&json!({ "old_string": "  text", "new_string": " text" })));
    // Where a text is not found, the reply shows similar text.
    edits.extend(on(&json!({ "old_string": "the inside texts", "new_string": "x" })));
    let mut writes = on(&json!({ "content": "the inside text\n" }));
    writes.push(json!({ "file_path": "swap/new/file.txt", "content": "the inside text\n" }));
    vec![
        ("Read", on(&json!({}))),
        ("Write", writes),
        ("Edit", edits),
        (
            "Glob",
            vec![
                json!({ "pattern": "**" }),
                json!({ "pattern": "swap/**" }),
                json!({ "pattern": "*", "path": "swap/deep" }),
                json!({ "pattern": "**/*.txt", "path": "other" }),
            ],
        ),
        (
            "Grep",
            vec![
                json!({ "pattern": "text", "output_mode": "content" }),
                json!({ "pattern": "t", "path": "swap/deep", "output_mode": "content", "-C": 3 }),
                json!({ "pattern": "text", "path": "last.txt", "output_mode": "content" }),
                json!({ "pattern": ".", "path": "other" }),
            ],
        ),
        (
            "List",
            vec![
                json!({ "path": "swap/deep" }),
                json!({ "path": ".", "recursive": true }),
                json!({ "path": "other", "recursive": true }),
                json!({ "path": "other/deep" }),
            ],
        ),
    ]
}

#[test]
fn no_reply_ever_shows_the_outside() {
    let arena = Arena::new();
    let outside = Snapshot::of(&arena.outside);
    let began = Instant::now();
    let mut n_calls = 0;
    let mut n_swaps = 0;
    let mut ends: BTreeMap<(&str, String), u64> = BTreeMap::new();
    for resolver in RESOLVERS {
        let runtime = Runtime::builder(NATIVE)
            .root(&arena.root)
            .resolver(resolver)
            .asking(Asking { approvals: Approvals::Allow, ..Asking::default() })
            .without_store()
            .build()
            .unwrap();
        // Where nothing else runs a write can lose to the swaps for as long as it tries.
        let mut caller = Caller::new(&runtime);
        caller.patience = Some(Duration::from_millis(50));
        for (tool, arguments) in calls() {
            n_swaps += arena.race(|| {
                for n in 0..N_CALLS {
                    let arguments = &arguments[n % arguments.len()];
                    let reply = caller.call(tool, arguments.clone());
                    let leaks = arena.leaks(&reply);
                    assert!(!leaks, "{resolver:?} {tool} {arguments}: {reply:?}");
                    *ends.entry((tool, end(&reply))).or_default() += 1;
                    n_calls += 1;
                }
            });
            let now = Snapshot::of(&arena.outside);
            assert_eq!(outside.differs(&now), None, "{resolver:?} {tool}");
        }
    }
    println!("{n_calls} calls during {n_swaps} swaps in {:?}: {ends:?}", began.elapsed());
    assert!(20_000 <= n_calls);
    for (tool, _) in calls() {
        let met = |ok: bool| ends.keys().any(|(t, end)| *t == tool && (end == "ok") == ok);
        assert!(met(true) && met(false), "{tool} never met both sides: {ends:?}");
    }
}

fn end(reply: &Reply) -> String {
    reply.error.as_ref().map_or_else(|| String::from("ok"), |error| error.kind.to_string())
}
