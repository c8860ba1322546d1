//! Undo through the whole runtime: scripts of changes, restored to every checkpoint, and everything
//! that must stand against a restore.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use sinew::approval::{Approvals, Asking};
use sinew::checkpoint::{CheckpointSettings, Checkpoints};
use sinew::dialects::{MCP_FILESYSTEM, MOLTIS, NATIVE};
use sinew::file::JournalSettings;
use sinew::tool::Dialect;
use sinew::{Reply, Runtime, StateDir};

use crate::caller::{Caller, text};
use crate::database;
use crate::served::{self, Place};

/// Everything beneath a directory: kind, permission bits, content.
type Picture = BTreeMap<PathBuf, (char, u32, Vec<u8>)>;

fn picture(root: &Path) -> Picture {
    let mut picture = Picture::new();
    let mut left = vec![root.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(root).unwrap().to_owned();
            let row = if meta.is_dir() {
                left.push(path);
                ('d', meta.mode() & 0o7777, Vec::new())
            } else if meta.is_symlink() {
                ('l', 0, fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes())
            } else {
                ('f', meta.mode() & 0o7777, fs::read(&path).unwrap())
            };
            picture.insert(name, row);
        }
    }
    picture
}

/// A deed of a user outside of the runtime.
type FileOp<T> = fn(&T);

/// A root, a state directory beside it, and a runtime over both.
struct Bench {
    _dir: tempfile::TempDir,
    root: PathBuf,
    state: PathBuf,
    caller: Caller,
}

impl Bench {
    fn new() -> Self {
        Self::over(NATIVE, CheckpointSettings::default())
    }

    fn over(dialect: Dialect, settings: CheckpointSettings) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let (root, state) = (top.join("ws"), top.join("state"));
        fs::create_dir(&root).unwrap();
        let caller = Caller::new(&runtime(dialect, &root, &state, settings));
        Self { _dir: dir, root, state, caller }
    }

    fn put(&self, path: &str, content: &str) {
        fs::write(self.root.join(path), content).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    /// Makes a change and returns its checkpoint, where it has one.
    #[track_caller]
    fn change(&self, tool: &str, arguments: Value) -> Option<String> {
        let is_native = tool.starts_with(char::is_uppercase);
        let dialect = if is_native { None } else { Some("mcp-filesystem") };
        let reply = self.caller.call_in(dialect, tool, arguments);
        assert!(reply.ok || reply.meta.checkpoint_id.is_none(), "{reply:?}");
        reply.meta.checkpoint_id
    }

    /// Writes a file and returns the checkpoint.
    #[track_caller]
    fn write(&self, path: &str, content: &str) -> String {
        let path = self.root.join(path);
        let reply = self.caller.call("Write", json!({ "file_path": path, "content": content }));
        assert!(reply.ok, "{reply:?}");
        reply.meta.checkpoint_id.unwrap()
    }

    fn restore(&self, id: &str, more: Value) -> Reply {
        let mut arguments = json!({ "id": id });
        for (key, value) in more.as_object().unwrap() {
            arguments[key] = value.clone();
        }
        self.caller.call("CheckpointRestore", arguments)
    }
}

fn runtime(
    dialect: Dialect,
    root: &Path,
    state: &Path,
    settings: CheckpointSettings,
) -> Arc<Runtime> {
    let checkpoints = Checkpoints::new(&StateDir::open(state).unwrap(), settings);
    Runtime::builder(dialect)
        .dialect(MCP_FILESYSTEM)
        .root(root)
        .deny(state)
        .asking(Asking { approvals: Approvals::Allow, ..Asking::default() })
        .settings(|settings| settings.checkpoint_before_mutation = true)
        .checkpoints(Arc::new(checkpoints))
        .journals(JournalSettings { state: state.to_owned(), warn: |text| eprintln!("{text}") })
        .without_store()
        .build()
        .unwrap()
}

/// Some are directories of others, at other times.
const FILES: &[&str] = &["a.txt", "b.txt", "d/c.txt", "d/e/f.txt", "g/h.txt", "i.txt", "g", "d/e"];
const LINKS: &[&str] = &["l", "d/m"];
const DIRECTORIES: &[&str] = &["d", "d/e", "g", "k", "k/n"];

/// One call of a script.
#[derive(Debug, Clone)]
enum Step {
    Write(usize, String),
    Edit(usize, String),
    MultiEdit(usize, String),
    Executable(usize, bool),
    Rename(usize, usize),
    Link(usize, String),
    Unlink(usize),
    MakeDirectory(usize),
    MoveDirectory(usize, usize),
    /// Adds, updates and deletes in one call.
    Set(usize, usize, usize, String),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let file = 0..FILES.len();
    let directory = 0..DIRECTORIES.len();
    let word = "[a-z]{1,9}";
    let step = prop_oneof![
        4 => (file.clone(), word).prop_map(|(at, word)| Step::Write(at, word)),
        3 => (file.clone(), word).prop_map(|(at, word)| Step::Edit(at, word)),
        2 => (file.clone(), word).prop_map(|(at, word)| Step::MultiEdit(at, word)),
        2 => (file.clone(), any::<bool>()).prop_map(|(at, may)| Step::Executable(at, may)),
        3 => (file.clone(), file.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => (0..LINKS.len(), word).prop_map(|(at, word)| Step::Link(at, word)),
        1 => (0..LINKS.len()).prop_map(Step::Unlink),
        1 => directory.clone().prop_map(Step::MakeDirectory),
        2 => (directory.clone(), directory).prop_map(|(from, to)| Step::MoveDirectory(from, to)),
        3 => (file.clone(), file.clone(), file, word)
            .prop_map(|(add, change, delete, word)| Step::Set(add, change, delete, word)),
    ];
    proptest::collection::vec(step, 100)
}

impl Step {
    /// Returns the call. What does not fit the tree is refused and changes nothing.
    fn call(&self, bench: &Bench) -> (&'static str, Value) {
        let path = |at: usize| bench.root.join(FILES[at]);
        let content = |at: usize| fs::read_to_string(path(at)).unwrap_or_default();
        let first = |at: usize| content(at).lines().next().unwrap_or("none").to_owned();
        let patch = |patch: String| ("ApplyPatch", json!({ "patch": patch }));
        match self {
            Self::Write(at, word) => {
                let content = format!("{word}\nsecond\n{}", word.repeat(40));
                ("Write", json!({ "file_path": path(*at), "content": content }))
            }
            Self::Edit(at, word) => (
                "Edit",
                json!({ "file_path": path(*at), "old_string": first(*at), "new_string": word }),
            ),
            Self::MultiEdit(at, word) => {
                let edits = json!([
                    { "old_string": first(*at), "new_string": format!("{word} one") },
                    { "old_string": format!("{word} one"), "new_string": format!("{word} two") },
                ]);
                ("MultiEdit", json!({ "file_path": path(*at), "edits": edits }))
            }
            Self::Executable(at, may) => {
                let (old, new) = if *may { (644, 755) } else { (755, 644) };
                let name = FILES[*at];
                patch(format!(
                    "diff --git a/{name} b/{name}\nold mode 100{old}\nnew mode 100{new}\n"
                ))
            }
            Self::Rename(from, to) => {
                let (from, to) = (FILES[*from], FILES[*to]);
                patch(format!("diff --git a/{from} b/{to}\nrename from {from}\nrename to {to}\n"))
            }
            Self::MakeDirectory(at) => {
                ("create_directory", json!({ "path": bench.root.join(DIRECTORIES[*at]) }))
            }
            Self::MoveDirectory(from, to) => {
                let path = |at: &usize| bench.root.join(DIRECTORIES[*at]);
                ("move_file", json!({ "source": path(from), "destination": path(to) }))
            }
            Self::Link(at, word) => {
                let name = LINKS[*at];
                patch(format!(
                    "diff --git a/{name} b/{name}\nnew file mode 120000\n--- /dev/null\n\
                     +++ b/{name}\n@@ -0,0 +1 @@\n+{word}\n\\ No newline at end of file\n"
                ))
            }
            Self::Unlink(at) => {
                let name = LINKS[*at];
                let to = fs::read_link(bench.root.join(name)).unwrap_or_default();
                patch(format!(
                    "diff --git a/{name} b/{name}\ndeleted file mode 120000\n--- a/{name}\n\
                     +++ /dev/null\n@@ -1 +0,0 @@\n-{}\n\\ No newline at end of file\n",
                    to.display()
                ))
            }
            Self::Set(add, change, delete, word) => {
                let mut text = String::from("*** Begin Patch\n");
                if !path(*add).exists() {
                    text.push_str(&format!("*** Add File: {}\n+{word}\n", FILES[*add]));
                }
                if path(*change).exists() && change != delete && change != add {
                    let old = first(*change);
                    text.push_str(&format!(
                        "*** Update File: {}\n@@\n-{old}\n+{word}\n",
                        FILES[*change]
                    ));
                }
                if path(*delete).exists() && delete != add {
                    text.push_str(&format!("*** Delete File: {}\n", FILES[*delete]));
                }
                patch(text + "*** End Patch\n")
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, max_shrink_iters: 30, ..ProptestConfig::default() })]

    #[test]
    fn every_checkpoint_is_restored_exactly(
        steps in steps(),
        picks in proptest::collection::vec(any::<proptest::sample::Index>(), 25),
    ) {
        let bench = Bench::new();
        bench.put("a.txt", "first\nsecond\n");
        bench.put("i.txt", "kept\n");
        fs::set_permissions(bench.root.join("i.txt"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir_all(bench.root.join("g/own")).unwrap();
        fs::set_permissions(bench.root.join("g/own"), fs::Permissions::from_mode(0o750)).unwrap();
        let mut known: Vec<(String, Picture)> = Vec::new();
        for step in &steps {
            let before = picture(&bench.root);
            let (tool, arguments) = step.call(&bench);
            match bench.change(tool, arguments) {
                Some(id) => known.push((id, before)),
                None => prop_assert_eq!(before, picture(&bench.root), "{:?} changed something", step),
            }
        }
        prop_assert!(20 < known.len(), "only {} changes of {:?}", known.len(), steps);
        // Back step by step, then from anywhere to anywhere; restores are changes too.
        let n_script = known.len();
        let back: Vec<usize> = (0..n_script).rev().collect();
        for turn in 0..back.len() + picks.len() {
            let at = match back.get(turn) {
                Some(at) => *at,
                None => picks[turn - back.len()].index(known.len()),
            };
            let (id, wanted) = known[at].clone();
            let before = picture(&bench.root);
            let reply = bench.restore(&id, json!({}));
            prop_assert!(reply.ok, "{}: {:?}", id, reply);
            prop_assert_eq!(&wanted, &picture(&bench.root), "{} of {:?}", id, steps);
            if let Some(id) = reply.meta.checkpoint_id {
                known.push((id, before));
            }
        }
    }
}

#[test]
fn what_somebody_else_changed_is_refused_unless_forced() {
    let others: &[(&str, FileOp<Bench>)] = &[
        ("another content", |bench| bench.put("a.txt", "by a person\n")),
        ("gone", |bench| fs::remove_file(bench.root.join("a.txt")).unwrap()),
        ("another mode", |bench| {
            let mode = fs::Permissions::from_mode(0o711);
            fs::set_permissions(bench.root.join("a.txt"), mode).unwrap();
        }),
    ];
    for (name, other) in others {
        let bench = Bench::new();
        bench.put("a.txt", "old\n");
        let wanted = picture(&bench.root);
        let id = bench.write("a.txt", "new\n");
        other(&bench);
        let there = picture(&bench.root);
        let refused = bench.restore(&id, json!({}));
        let error = refused.error.as_ref().unwrap();
        assert_eq!(error.kind.as_str(), "stale", "{name}: {refused:?}");
        assert!(error.message.contains("changed it after") && error.hint.is_some(), "{name}");
        assert_eq!(there, picture(&bench.root), "{name}");
        let shown = bench.restore(&id, json!({ "dry_run": true, "force": true }));
        assert!(shown.ok && text(&shown).contains("would change 1"), "{name}: {shown:?}");
        assert_eq!(there, picture(&bench.root), "{name}");
        let forced = bench.restore(&id, json!({ "force": true }));
        assert!(forced.ok, "{name}: {forced:?}");
        assert_eq!(wanted, picture(&bench.root), "{name}");
        // A state that force replaced comes back too.
        let again = bench.restore(&forced.meta.checkpoint_id.unwrap(), json!({}));
        assert!(again.ok, "{name}: {again:?}");
        assert_eq!(there, picture(&bench.root), "{name}");
    }
}

#[test]
fn nothing_goes_that_no_change_has_made() {
    let bench = Bench::new();
    let id = bench.write("made/deep/a.txt", "new\n");
    bench.put("made/mine.txt", "a person's\n");
    assert!(bench.restore(&id, json!({})).ok);
    assert!(!bench.root.join("made/deep").exists());
    assert_eq!(bench.read("made/mine.txt"), "a person's\n");
    // A link that took the place of a file is not removed, also where it is forced.
    let id = bench.write("b.txt", "new\n");
    fs::remove_file(bench.root.join("b.txt")).unwrap();
    symlink("made", bench.root.join("b.txt")).unwrap();
    assert!(!bench.restore(&id, json!({ "force": true })).ok);
    assert!(bench.root.join("b.txt").is_symlink());
    // One on the way leads a restore nowhere.
    let id = bench.write("way/c.txt", "new\n");
    fs::rename(bench.root.join("way"), bench.root.join("away")).unwrap();
    symlink("away", bench.root.join("way")).unwrap();
    assert!(!bench.restore(&id, json!({ "force": true })).ok);
    assert_eq!(bench.read("away/c.txt"), "new\n");
}

#[test]
fn what_a_person_put_in_the_place_of_a_new_file_stays() {
    let bench = Bench::new();
    let id = bench.write("n.txt", "new\n");
    fs::remove_file(bench.root.join("n.txt")).unwrap();
    bench.put("n.txt", "a person's\n");
    let reply = bench.restore(&id, json!({ "force": true }));
    assert!(reply.error.unwrap().message.contains("was not made by the session"));
    assert_eq!(bench.read("n.txt"), "a person's\n");
}

/// Who makes a file executable, or a command that does, does not put another file there.
#[test]
fn a_new_file_of_another_mode_can_be_undone() {
    let bench = Bench::new();
    let id = bench.write("run.sh", "new\n");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(bench.root.join("run.sh"), mode).unwrap();
    assert!(!bench.restore(&id, json!({})).ok);
    assert!(bench.restore(&id, json!({ "force": true })).ok);
    assert!(!bench.root.join("run.sh").exists());
}

/// Contents kept for a refused change had stayed, uncounted.
#[test]
fn refused_changes_do_not_fill_the_store() {
    let small = CheckpointSettings {
        max_bytes: 200_000,
        holds_for: std::time::Duration::ZERO,
        ..CheckpointSettings::default()
    };
    let bench = Bench::over(NATIVE, small);
    let stored = || -> u64 {
        let contents = fs::read_dir(bench.state.join("contents"));
        contents.map_or(0, |all| all.map(|one| one.unwrap().metadata().unwrap().len()).sum())
    };
    for n in 0..8_u64 {
        let dir = bench.root.join(format!("d{n}"));
        fs::create_dir(&dir).unwrap();
        for part in 0..4_u64 {
            let mut state = 1 + 4 * n + part;
            let noise: Vec<u8> = (0..60_000)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    state as u8
                })
                .collect();
            fs::write(dir.join(part.to_string()), noise).unwrap();
        }
        let arguments = json!({ "source": dir, "destination": bench.root.join("to") });
        let reply = bench.caller.call_in(Some("mcp-filesystem"), "move_file", arguments);
        assert!(!reply.ok && dir.exists(), "{reply:?}");
    }
    let due = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while 500_000 < stored() {
        assert!(std::time::Instant::now() < due, "{} bytes are there", stored());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn directories_come_back_with_their_mode() {
    let bench = Bench::new();
    let first = bench.write("d/f.txt", "new\n");
    fs::set_permissions(bench.root.join("d"), fs::Permissions::from_mode(0o1700)).unwrap();
    let wanted = picture(&bench.root);
    let gone = bench.restore(&first, json!({})).meta.checkpoint_id.unwrap();
    assert!(!bench.root.join("d").exists());
    assert!(bench.restore(&gone, json!({})).ok);
    assert_eq!(wanted, picture(&bench.root));
}

/// A move is undone whatever it takes along, and however large a file is.
#[test]
fn what_was_moved_comes_back() {
    let bench = Bench::new();
    fs::create_dir_all(bench.root.join("from/deep/empty")).unwrap();
    fs::set_permissions(bench.root.join("from/deep"), fs::Permissions::from_mode(0o710)).unwrap();
    bench.put("from/deep/a.txt", "one\n");
    symlink("deep/a.txt", bench.root.join("from/l")).unwrap();
    fs::File::create(bench.root.join("from/large")).unwrap().set_len(70 << 20).unwrap();
    let wanted = picture(&bench.root);
    let path = |name: &str| bench.root.join(name);
    let moved = |from: &str, to: &str| {
        let arguments = json!({ "source": path(from), "destination": path(to) });
        bench.change("move_file", arguments).unwrap()
    };
    let first = moved("from", "to");
    assert!(!path("from").exists() && path("to/deep/empty").exists());
    moved("to/large", "huge");
    bench.write("to/deep/a.txt", "two\n");
    let there = picture(&bench.root);
    let back = bench.restore(&first, json!({}));
    assert!(back.ok, "{back:?}");
    assert_eq!(wanted, picture(&bench.root));
    assert!(bench.restore(&back.meta.checkpoint_id.unwrap(), json!({})).ok);
    assert_eq!(there, picture(&bench.root));
    // What cannot be kept is not moved.
    assert!(Command::new("mkfifo").arg(path("to/fifo")).status().unwrap().success());
    let arguments = json!({ "source": path("to"), "destination": path("other") });
    let reply = bench.caller.call_in(Some("mcp-filesystem"), "move_file", arguments);
    assert!(!reply.ok && text(&reply).contains("cannot be kept"), "{reply:?}");
    assert!(path("to/fifo").exists() && !path("other").exists());
    fs::remove_file(path("to/fifo")).unwrap();
    fs::write(path("to").join(OsStr::from_bytes(b"\xff")), "x").unwrap();
    let arguments = json!({ "source": path("to"), "destination": path("other") });
    let reply = bench.caller.call_in(Some("mcp-filesystem"), "move_file", arguments);
    assert!(!reply.ok && text(&reply).contains("not UTF-8"), "{reply:?}");
    assert!(path("to").exists() && !path("other").exists());
}

#[test]
fn a_file_comes_back_where_a_directory_is() {
    let bench = Bench::new();
    bench.put("x", "a file\n");
    let wanted = picture(&bench.root);
    let gone = bench.change(
        "ApplyPatch",
        json!({ "patch": "*** Begin Patch\n*** Delete File: x\n*** End Patch\n" }),
    );
    bench.write("x/y.txt", "deeper\n");
    let reply = bench.restore(&gone.unwrap(), json!({}));
    assert!(reply.ok, "{reply:?}");
    assert_eq!(wanted, picture(&bench.root));
}

#[test]
fn a_directory_comes_back_where_a_file_is() {
    let bench = Bench::new();
    let first = bench.write("x/y/z.txt", "deeper\n");
    let wanted = picture(&bench.root);
    let gone = bench.restore(&first, json!({})).meta.checkpoint_id.unwrap();
    bench.write("x", "a file\n");
    let reply = bench.restore(&gone, json!({}));
    assert!(reply.ok, "{reply:?}");
    assert_eq!(wanted, picture(&bench.root));
    let reply = bench.restore(&reply.meta.checkpoint_id.unwrap(), json!({}));
    assert!(reply.ok && bench.read("x") == "a file\n", "{reply:?}");
    // What others put into a directory keeps it.
    bench.restore(&gone, json!({}));
    bench.put("x/mine.txt", "a person's\n");
    let there = picture(&bench.root);
    let reply = bench.restore(&first, json!({ "force": true }));
    assert!(reply.ok, "{reply:?}");
    assert_eq!(bench.read("x/mine.txt"), "a person's\n");
    assert_ne!(there, picture(&bench.root));
}

#[test]
fn single_paths_and_single_checkpoints_are_restored() {
    let bench = Bench::new();
    let first = bench.write("a.txt", "one\n");
    let second = bench.write("b.txt", "one\n");
    bench.write("a.txt", "two\n");
    let reply = bench.restore(&first, json!({ "path": "b.txt" }));
    assert!(reply.ok && !bench.root.join("b.txt").exists(), "{reply:?}");
    assert_eq!(bench.read("a.txt"), "two\n");
    bench.write("b.txt", "three\n");
    let reply = bench.restore(&second, json!({ "only": true }));
    assert!(reply.ok && !bench.root.join("b.txt").exists(), "{reply:?}");
    assert_eq!(bench.read("a.txt"), "two\n");
    let reply = bench.restore(&first, json!({ "path": "none.txt" }));
    assert_eq!(reply.error.unwrap().kind.as_str(), "not_found");
}

#[test]
fn a_store_that_is_damaged_changes_nothing() {
    let contents = |bench: &Bench| -> Vec<PathBuf> {
        let dir = fs::read_dir(bench.state.join("contents")).unwrap();
        dir.map(|entry| entry.unwrap().path()).collect()
    };
    let damages: &[(&str, FileOp<Path>)] = &[
        ("gone", |path| fs::remove_file(path).unwrap()),
        ("other bytes", |path| fs::write(path, "damaged, and of another length").unwrap()),
        ("empty", |path| fs::write(path, "").unwrap()),
    ];
    for (name, damage) in damages {
        let bench = Bench::new();
        bench.put("a.txt", "old\n");
        bench.put("b.txt", "old too\n");
        let id = bench.write("a.txt", "new\n");
        bench.write("b.txt", "new\n");
        let there = picture(&bench.root);
        let hash = blake3_name(b"old\n");
        let of_a = contents(&bench).into_iter().find(|path| path.ends_with(&hash)).unwrap();
        damage(&of_a);
        let reply = bench.restore(&id, json!({}));
        let error = reply.error.unwrap();
        assert_eq!(error.kind.as_str(), "unavailable", "{name}: {error:?}");
        let hint = error.hint.unwrap();
        assert_eq!(hint, "restore the other paths one by one with `path`", "{name}");
        assert_eq!(there, picture(&bench.root), "{name}");
        // A look had promised that it would come back.
        let reply = bench.restore(&id, json!({ "dry_run": true }));
        let said = text(&reply);
        assert!(said.starts_with(&format!("restoring {id} would fail")), "{name}: {said}");
        assert!(said.contains("  restore  a.txt  (cannot be done: the kept content is "), "{said}");
        assert!(said.contains("  restore  b.txt\n"), "{name}: {said}");
        let structured = reply.structured.unwrap();
        let steps = structured["steps"].as_array().unwrap();
        let problems: Vec<bool> = steps.iter().map(|step| step["problem"].is_string()).collect();
        assert_eq!(problems, [true, false], "{name}: {structured}");
        assert!(structured["refused"].is_string(), "{name}: {structured}");
        // The other file comes back all the same.
        assert!(bench.restore(&id, json!({ "path": "b.txt" })).ok, "{name}");
        assert_eq!(bench.read("b.txt"), "old too\n");
    }
}

fn blake3_name(content: &[u8]) -> String {
    sinew_guard::content_hash(content).to_string()
}

#[test]
fn a_change_that_cannot_be_kept_does_not_happen() {
    let small = CheckpointSettings { max_file_bytes: 3, ..CheckpointSettings::default() };
    let bench = Bench::over(NATIVE, small);
    bench.put("a.txt", "too large\n");
    let there = picture(&bench.root);
    let path = bench.root.join("a.txt");
    for (tool, arguments) in [
        ("Write", json!({ "file_path": path, "content": "x" })),
        ("Edit", json!({ "file_path": path, "old_string": "too", "new_string": "x" })),
        (
            "ApplyPatch",
            json!({ "patch": "*** Begin Patch\n*** Add File: n/new\n+x\n*** Delete File: a.txt\n*** End Patch\n" }),
        ),
    ] {
        let reply = bench.caller.call(tool, arguments);
        assert_eq!(reply.error.unwrap().kind.as_str(), "limit_reached", "{tool}");
        assert_eq!(there, picture(&bench.root), "{tool}");
    }
    // A place that cannot be written stops changes too.
    let bench = Bench::new();
    bench.put("a.txt", "old\n");
    fs::write(bench.state.join("contents"), "no directory").unwrap();
    let there = picture(&bench.root);
    let arguments = json!({ "file_path": bench.root.join("a.txt"), "content": "x" });
    let reply = bench.caller.call("Write", arguments);
    assert_eq!(reply.error.unwrap().kind.as_str(), "unavailable");
    assert_eq!(there, picture(&bench.root));
}

#[test]
fn moltis_says_which_checkpoint_and_restores_it() {
    let bench = Bench::over(MOLTIS, CheckpointSettings::default());
    bench.put("a.txt", "old\n");
    let path = bench.root.join("a.txt");
    let reply = bench.caller.call("Write", json!({ "file_path": path, "content": "new\n" }));
    let id = reply.structured.unwrap()["checkpoint_id"].as_str().unwrap().to_owned();
    let reply = bench.caller.call("checkpoint_restore", json!({ "id": id }));
    let result = reply.structured.unwrap();
    assert_eq!((&result["restored"], &result["checkpoint"]["id"]), (&json!(true), &json!(id)));
    assert_eq!(result["checkpoint"]["sourcePath"], json!(path));
    assert_eq!(result["checkpoint"]["existed"], json!(true));
    assert_eq!(bench.read("a.txt"), "old\n");
}

/// A refusal had named arguments that the tool does not have, and its path neither whole nor beside the
/// message.
#[test]
fn moltis_says_what_a_person_can_do() {
    let others: &[(&str, FileOp<Bench>, &str, &str)] = &[
        (
            "changed",
            |bench| bench.put("a.txt", "by a person\n"),
            "file_modified_since_read",
            "ask the user to run `sinew checkpoint restore c1 --force --only`, which restores it all \
             the same",
        ),
        (
            "a directory",
            |bench| {
                fs::remove_file(bench.root.join("a.txt")).unwrap();
                fs::create_dir(bench.root.join("a.txt")).unwrap();
            },
            "file_modified_since_read",
            "ask the user to restore the other paths one by one with `sinew checkpoint restore c1 \
             --path PATH --only`",
        ),
    ];
    for (name, other, kind, detail) in others {
        let bench = Bench::over(MOLTIS, CheckpointSettings::default());
        bench.put("a.txt", "old\n");
        let path = bench.root.join("a.txt");
        let reply = bench.caller.call("Write", json!({ "file_path": path, "content": "new\n" }));
        let id = reply.structured.unwrap()["checkpoint_id"].as_str().unwrap().to_owned();
        other(&bench);
        let there = picture(&bench.root);
        let reply = bench.caller.call("checkpoint_restore", json!({ "id": id }));
        let result = reply.structured.unwrap();
        assert_eq!((&result["kind"], &result["detail"]), (&json!(kind), &json!(detail)), "{name}");
        assert_eq!(result["file_path"], json!(path), "{name}");
        let error = result["error"].as_str().unwrap();
        assert!(error.ends_with(&format!(": {}", path.display())), "{name}: {error}");
        assert_eq!(there, picture(&bench.root), "{name}");
    }
}

/// A project as a person has one.
pub(crate) fn project() -> Place {
    let place = Place::new();
    fs::create_dir_all(place.root.join(".git/hooks")).unwrap();
    fs::write(place.root.join("a.txt"), "one\n").unwrap();
    fs::create_dir(place.root.join("d")).unwrap();
    place
}

impl Place {
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = served::command(&self.home);
        command.current_dir(&self.root).args(args).stdin(Stdio::null());
        command
    }

    /// Runs the command; returns its code and what it said.
    pub(crate) fn run(&self, args: &[&str]) -> (i32, String) {
        let ran = self.command(args).output().unwrap();
        let said = [ran.stdout, ran.stderr].concat();
        (ran.status.code().unwrap(), String::from_utf8(said).unwrap())
    }

    /// Returns whether the index has a checkpoint of a session.
    fn has_checkpoint(&self, session: &str) -> bool {
        let path = self.home.join("state/sinew/checkpoints.db");
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let index = rusqlite::Connection::open_with_flags(path, flags);
        let sql = "SELECT count(*) FROM checkpoint WHERE session = ?1";
        let n = index.and_then(|index| index.query_row(sql, [session], |row| row.get(0)));
        n.is_ok_and(|n: i64| 0 < n)
    }

    #[track_caller]
    pub(crate) fn says(&self, args: &[&str], code: i32, words: &[&str]) {
        let (found, said) = self.run(args);
        assert_eq!(found, code, "{args:?}: {said}");
        for word in words {
            assert!(said.contains(word), "{args:?}: {word:?} is not in {said}");
        }
    }
}

const WRITE: &str = r#"{"file_path": "a.txt", "content": "two\n"}"#;
const WRITE_HOOK: &str = r#"{"file_path": ".git/hooks/pre-commit", "content": "x"}"#;

#[test]
fn a_person_lists_compares_and_restores() {
    let place = project();
    place.says(&["checkpoint", "list"], 0, &["no checkpoints"]);
    place.says(&["--session", "s", "call", "Write", WRITE], 0, &["wrote"]);
    place.says(
        &["--session", "t", "call", "Write", r#"{"file_path": "d/b", "content": "x"}"#],
        0,
        &[],
    );
    place.says(&["checkpoint", "list"], 0, &["c2", "created  d/b", "c1", "changed  a.txt"]);
    let (_, said) = place.run(&["--session", "s", "checkpoint", "list", "--json"]);
    let listed: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(listed["checkpoint"], "c1", "{listed}");
    assert_eq!(listed["changes"][0]["change"], "changed", "{listed}");
    let (_, said) = place.run(&["checkpoint", "list", "--path", "d"]);
    assert!(said.contains("c2") && !said.contains("c1"), "{said}");
    let (_, said) = place.run(&["checkpoint", "list", "--limit", "1"]);
    assert!(said.contains("c2") && !said.contains("c1"), "{said}");
    place.says(&["checkpoint", "diff", "c1"], 0, &["-one\n+two\n"]);
    fs::write(place.root.join("a.txt"), "three\n").unwrap();
    place.says(&["checkpoint", "diff", "c1", "--now"], 0, &["-one\n+three\n"]);
    place.says(
        &["checkpoint", "restore", "c1", "--yes"],
        1,
        &["is refused", "changed it after c1", "`--dry-run` shows", "`--force` restores"],
    );
    place.says(&["checkpoint", "restore", "c1", "--dry-run"], 0, &["-three\n+one\n"]);
    place.says(&["checkpoint", "restore", "c1"], 3, &["--yes"]);
    assert_eq!(fs::read_to_string(place.root.join("a.txt")).unwrap(), "three\n");
    place.says(
        &["checkpoint", "restore", "c1", "--yes", "--force"],
        0,
        &["restored c1", "c3 undoes"],
    );
    assert_eq!(fs::read_to_string(place.root.join("a.txt")).unwrap(), "one\n");
    place.says(&["checkpoint", "restore", "c3", "--yes"], 0, &["restored c3"]);
    assert_eq!(fs::read_to_string(place.root.join("a.txt")).unwrap(), "three\n");
    place.says(&["checkpoint", "restore", "c77", "--yes"], 2, &["no such checkpoint: c77"]);
    place.says(&["checkpoint", "restore", "seven", "--yes"], 2, &["is `c` and a number"]);
    place.says(&["--read-only", "checkpoint", "list"], 0, &["c2", "c1"]);
    place.says(&["--read-only", "checkpoint", "diff", "c1", "--now"], 0, &["-one\n+three\n"]);
    place.says(&["--read-only", "checkpoint", "restore", "c1", "--yes"], 3, &["read-only"]);
    // Of another root nothing is told, not even that there is something.
    let elsewhere = tempfile::tempdir().unwrap();
    let root = elsewhere.path().to_str().unwrap();
    place.says(&["--root", root, "checkpoint", "list"], 0, &["no checkpoints"]);
    place.says(
        &["--root", root, "checkpoint", "restore", "c1", "--dry-run"],
        2,
        &["no such checkpoint: c1"],
    );
    place.says(&["doctor"], 0, &["ok       undo", "4 checkpoints"]);
}

/// A caller who counts turns can list one and undo it whole.
#[test]
fn a_turn_is_listed_and_undone() {
    let place = project();
    let line = |turn: &str, content: &str| {
        let arguments = json!({ "file_path": "a.txt", "content": content });
        json!({ "turn": turn, "name": "Write", "arguments": arguments }).to_string()
    };
    // A name of a turn that comes again is another turn.
    let calls = [("t2", "0"), ("t1", "1"), ("t2", "2"), ("t2", "3")];
    let calls = calls.map(|(turn, content)| line(turn, &format!("{content}\n"))).join("\n");
    fs::write(place.root.join("calls"), calls).unwrap();
    let input = fs::File::open(place.root.join("calls")).unwrap();
    let ran = place.command(&["call", "--batch"]).stdin(input).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let (_, said) = place.run(&["checkpoint", "list", "--turn", "t2"]);
    // Not by search of the whole text: an identifier of a session can end in `c2` too.
    let listed = |id: &str| said.lines().any(|line| line.starts_with(&format!("{id}  ")));
    assert!(listed("c4") && !listed("c2") && said.contains("turn t2"), "{said}");
    let args = ["checkpoint", "restore", "c4", "--turn", "--yes"];
    place.says(&args, 0, &["restored c3", "undone: c3, c4"]);
    assert_eq!(fs::read_to_string(place.root.join("a.txt")).unwrap(), "1\n");
    place.says(&["call", "Write", WRITE], 0, &[]);
    place.says(&["checkpoint", "restore", "c6", "--turn", "--yes"], 2, &["belongs to a turn"]);
}

/// Lost contents had been shown as if they would come back, and no reply said how to restore the rest.
#[test]
fn a_person_is_told_what_is_lost() {
    let place = project();
    place.says(&["call", "Write", WRITE], 0, &["wrote"]);
    let kept = place.home.join("state/sinew/contents").join(blake3_name(b"one\n"));
    fs::remove_file(kept).unwrap();
    for (args, code, words) in [
        (
            &["checkpoint", "diff", "c1"][..],
            0,
            "a.txt: what was there before cannot be restored: the kept content is gone",
        ),
        (&["checkpoint", "restore", "c1", "--dry-run"], 0, "restoring c1 would fail"),
        (&["checkpoint", "restore", "c1", "--yes"], 1, "one by one with `--path`"),
        (&["checkpoint", "restore", "c1", "--yes", "--path", "none"], 2, "`sinew checkpoint list`"),
    ] {
        place.says(args, code, &[words]);
    }
    assert_eq!(fs::read_to_string(place.root.join("a.txt")).unwrap(), "two\n");
}

/// A look had said that everything was as before, where it was not and could not be.
#[test]
fn a_look_tells_what_was_never_kept() {
    let place = project();
    let unkept = ["--set", "checkpoints.larger=unkept", "--set", "checkpoints.max_file_bytes=1"];
    let call = ["--approvals", "allow", "call", "Write", WRITE];
    place.says(&[&unkept[..], &call].concat(), 0, &["wrote"]);
    let words = ["restoring c1 would fail", "its content is not kept: a.txt"];
    place.says(&["checkpoint", "restore", "c1", "--dry-run"], 0, &words);
}

/// A name with a line feed had made a line of its own, which looked like another checkpoint.
#[test]
fn a_name_cannot_look_like_a_line() {
    let place = project();
    let name = "a\nc99  2020-01-01T00:00:00Z  Write  session evil\x1b[2J";
    let quoted = r#""a\nc99  2020-01-01T00:00:00Z  Write  session evil\033[2J""#;
    let write = |content: &str| json!({ "file_path": name, "content": content }).to_string();
    place.says(&["call", "Write", &write("one\n")], 0, &[&format!("created {quoted}: 4 bytes")]);
    place.says(&["call", "Write", &write("two\n")], 0, &[&format!("wrote {quoted}: 4 bytes")]);
    for (args, line) in [
        (&["checkpoint", "list"][..], format!("  created  {quoted}\n")),
        (&["checkpoint", "diff", "c1"], format!("+++ {quoted}\n")),
        (&["checkpoint", "restore", "c1", "--dry-run"], format!("  remove  {quoted}\n")),
        (&["checkpoint", "restore", "c2", "--yes"], format!("  restore  {quoted}\n")),
    ] {
        place.says(args, 0, &[&line]);
        let (_, said) = place.run(args);
        assert!(!said.contains("\nc99") && !said.contains('\x1b'), "{args:?}: {said}");
    }
    fs::write(place.root.join(name), "three\n").unwrap();
    place.says(&["checkpoint", "restore", "c1", "--yes"], 1, &["is refused", quoted]);
}

/// Whether a change runs without an approver: it does if a checkpoint covers it.
#[test]
fn what_can_be_undone_runs_where_nobody_can_answer() {
    let off = "tools.fs.checkpoint_before_mutation=false";
    let small = ["--set", "checkpoints.larger=unkept", "--set", "checkpoints.max_file_bytes=1"];
    let moltis = r#"{"file_path": "{root}/a.txt", "content": "two\n"}"#;
    let files = ["--dialect", "mcp-filesystem"];
    // A call that keeps so much that it pushes out earlier contents cannot rely on it.
    let few = ["--set", "checkpoints.max_count=1"];
    for (args, tool, arguments, code) in [
        (&[][..], "Write", WRITE, 0),
        (&["--approvals", "ask"], "Write", WRITE, 3),
        (&["--approvals", "deny"], "Write", WRITE, 3),
        (&["--read-only"], "Write", WRITE, 3),
        (&["--set", off], "Write", WRITE, 3),
        (&small, "Write", WRITE, 3),
        (&few, "Write", WRITE, 3),
        (&[], "Write", WRITE_HOOK, 3),
        (&files, "move_file", r#"{"source": "{root}/a.txt", "destination": "{root}/b.txt"}"#, 0),
        (&files, "move_file", r#"{"source": "{root}/.git", "destination": "{root}/g"}"#, 3),
        (&files, "move_file", r#"{"source": "{root}/d", "destination": "{root}/e"}"#, 3),
        (&files, "create_directory", r#"{"path": "{root}/n/m"}"#, 0),
        (&[], "Bash", r#"{"command": "rm a.txt"}"#, 0),
        (&["--set", "run.ask=always"], "Bash", r#"{"command": "rm a.txt"}"#, 3),
        (&["--set", "run.network=true"], "Bash", r#"{"command": "rm a.txt"}"#, 3),
        (&["--set", "run.sandbox=none"], "Bash", r#"{"command": "rm a.txt"}"#, 3),
        (&["--set", "checkpoints.commands=false"], "Bash", r#"{"command": "rm a.txt"}"#, 3),
        (&few, "Bash", r#"{"command": "rm a.txt"}"#, 3),
        (&["--dialect", "moltis"], "Write", moltis, 3),
        (
            &["--dialect", "moltis", "--set", "tools.fs.checkpoint_before_mutation=true"],
            "Write",
            moltis,
            3,
        ),
        (&["--set", "tools.fs.require_approval=true"], "Write", WRITE, 3),
    ] {
        let place = project();
        let arguments = arguments.replace("{root}", place.root.to_str().unwrap());
        let (found, said) = place.run(&[args, &["call", tool, &arguments]].concat());
        assert_eq!(found, code, "{args:?} {tool} {arguments}: {said}");
        let there = fs::read_to_string(place.root.join("a.txt"));
        let is_changed = there.ok().as_deref() != Some("one\n") || place.root.join("n").exists();
        assert_eq!(is_changed, code == 0, "{args:?} {tool}");
        assert!(!place.root.join(".git/hooks/pre-commit").exists());
    }
    // Where there is no state directory there is nothing to undo with.
    let place = project();
    let mut command = database::with_database("", &place.home, database::SINEW);
    command.args(["--set", "ledger.mode=\"off\"", "call", "Write", WRITE]).env_clear();
    let ran = command.current_dir(&place.root).stdin(Stdio::null()).output().unwrap();
    assert_eq!(ran.status.code(), Some(3), "{ran:?}");
}

/// A user may keep notes in `build`, which an ignore file names; nothing asked before they went.
#[test]
fn unasked_command_keeps_own_files_of_build_directories() {
    for (dir, approvals, comes_back) in
        [("build", "auto", true), ("build", "allow", false), ("node_modules", "auto", false)]
    {
        let place = project();
        fs::create_dir(place.root.join(dir)).unwrap();
        fs::write(place.root.join(dir).join("notes"), "mine\n").unwrap();
        fs::write(place.root.join(".gitignore"), format!("{dir}/\n")).unwrap();
        let mut git = std::process::Command::new("git");
        assert!(git.args(["init", "-q"]).current_dir(&place.root).status().unwrap().success());
        // Ignore files count from before the session.
        std::thread::sleep(std::time::Duration::from_millis(1_100));
        let arguments = serde_json::json!({ "command": format!("rm -rf {dir}; touch x") });
        let arguments = arguments.to_string();
        let (code, said) = place.run(&["--approvals", approvals, "call", "Bash", &arguments]);
        assert_eq!((code, place.root.join(dir).exists()), (0, false), "{said}");
        let (_, said) = place.run(&["undo", "--yes"]);
        let there = fs::read_to_string(place.root.join(dir).join("notes")).ok();
        assert_eq!(there.is_some(), comes_back, "{dir} {approvals}: {said}");
    }
}

/// A command runs unasked because it can be undone, so what cannot be kept stays as it is.
#[test]
fn unasked_command_changes_only_what_undo_covers() {
    const LARGE: u64 = 65 << 20;
    for (size, command) in [
        (LARGE, "echo x >>big"),
        (LARGE, "echo x >big"),
        (LARGE, "chmod 600 a.txt; truncate -s 1 big"),
        (LARGE, "ln big other; rm big; echo x >other"),
        (3 << 30, "rm -f big"),
        // More than half of what all checkpoints may take.
        (600 << 20, "rm -f big"),
        (3 << 30, "mv a.txt big"),
    ] {
        for (approvals, is_kept) in [("auto", true), ("allow", false)] {
            let place = project();
            let big = place.root.join("big");
            fs::File::create(&big).unwrap().set_len(size).unwrap();
            let arguments = serde_json::json!({ "command": command }).to_string();
            let (code, said) = place.run(&["--approvals", approvals, "call", "Bash", &arguments]);
            let names = fs::read_dir(&place.root).unwrap().map(|entry| entry.unwrap().path());
            let sizes: Vec<u64> =
                names.filter_map(|path| fs::metadata(path).ok()).map(|meta| meta.len()).collect();
            assert_eq!(sizes.contains(&size), is_kept, "{approvals} {command}: {said}");
            let told = "it ran unasked, and the old content is too large to keep for undo";
            assert_eq!(said.contains(told), is_kept, "{approvals} {command}: {said}");
            assert!(code != 0 || !is_kept, "{approvals} {command}: {said}");
        }
    }
}

/// Who may not write wrote by a restore all the same, without an approver.
#[test]
fn restore_stops_where_its_operations_stop() {
    let path = |verdict: &str, tools: &str, paths: &str| {
        format!("rules=[{{verdict=\"{verdict}\",tools={tools},paths=[\"{paths}\"]}}]")
    };
    let tool =
        |verdict: &str, tools: &str| format!("rules=[{{verdict=\"{verdict}\",tools={tools}}}]");
    let create = r#"{"file_path": "new/b.txt", "content": "two\n"}"#;
    for (call, rule, stops) in [
        (WRITE, String::new(), None),
        (WRITE, tool("deny", r#"["Write"]"#), Some("acts as Write")),
        (WRITE, tool("deny", r#"["Edit"]"#), Some("acts as Edit")),
        (WRITE, tool("deny", r#"["write_file"]"#), Some("acts as Write")),
        (WRITE, path("deny", r#"["Write", "Read"]"#, "a.txt"), Some("denied by the rule")),
        (WRITE, path("deny", r#"["Write"]"#, "a.txt"), Some("acts as Write")),
        (WRITE, path("deny", r#"["Write"]"#, "d/**"), None),
        (WRITE, tool("deny", r#"["ApplyPatch"]"#), Some("acts as ApplyPatch")),
        (WRITE, tool("deny", r#"["apply_patch"]"#), Some("acts as ApplyPatch")),
        (WRITE, tool("deny", r#"["MultiEdit"]"#), Some("acts as MultiEdit")),
        (WRITE, tool("ask", r#"["Edit"]"#), Some("by a person")),
        (WRITE, path("ask", r#"["Write"]"#, "*.txt"), Some("by a person")),
        (WRITE, path("ask", r#"["Write"]"#, "*.md"), None),
        (WRITE, String::from("tools.policy.deny=[\"Write\"]"), Some("acts as Write")),
        (WRITE, String::from("tools.policy.allow=[\"CheckpointRestore\"]"), Some("acts as Write")),
        (WRITE, tool("deny", r#"["MakeDirectory", "Bash"]"#), None),
        // What it made goes, and with it the directory.
        (create, tool("deny", r#"["ApplyPatch"]"#), Some("acts as ApplyPatch")),
        (create, path("deny", r#"["Edit"]"#, "new/b.txt"), Some("acts as ApplyPatch")),
        (create, path("deny", r#"["Write"]"#, "a.txt"), None),
    ] {
        let place = project();
        place.says(&["--session", "s", "call", "Write", call], 0, &[]);
        let made = picture(&place.root);
        let rules = if rule.is_empty() { Vec::new() } else { vec!["--set", &rule] };
        let restore = ["call", "CheckpointRestore", r#"{"id": "c1"}"#];
        let code = if stops.is_some() { 3 } else { 0 };
        place.says(&[&rules, &restore[..]].concat(), code, stops.as_slice());
        assert_eq!(picture(&place.root) == made, stops.is_some(), "{call} {rule}");
        let denies = rule.contains("\"Read\"") || rule.contains("policy.allow=");
        if stops.is_some() && !denies {
            // A look carries nothing out.
            let look = ["call", "CheckpointRestore", r#"{"id": "c1", "dry_run": true}"#];
            place.says(&[&rules, &look[..]].concat(), 0, &[]);
        }
    }
}

/// A hook on Write stopped no restore, which wrote the same file.
#[test]
fn restore_stops_where_hooks_of_operations_block() {
    for (tools, blocks) in [
        (r#"["Write"]"#, true),
        (r#"["Edit", "Bash"]"#, true),
        (r#"["write_file"]"#, true),
        (r#"["MultiEdit"]"#, true),
        (r#"["ApplyPatch"]"#, true),
        (r#"["Bash", "Read"]"#, false),
    ] {
        const RESTORE: (&str, &str) = ("CheckpointRestore", r#"{"id": "c1"}"#);
        const IN: &str = "paths = [\"**/a.txt\"]\n";
        for (paths, (tool, arguments)) in
            [("", RESTORE), (IN, RESTORE), ("", ("Undo", "{}")), (IN, ("Undo", "{}"))]
        {
            let place = project();
            place.says(&["--session", "s", "call", "Write", WRITE], 0, &[]);
            let made = picture(&place.root);
            let hook = format!(
                "[[hooks]]\nevent = \"before_tool_call\"\ntools = {tools}\n{paths}\
                 command = [\"/bin/sh\", \"-c\", \"exit 2\"]\n"
            );
            let config = place.root.join("../hooks.toml");
            fs::write(&config, hook).unwrap();
            let config = config.to_str().unwrap();
            let args = ["--config", config, "--session", "s", "call", tool, arguments];
            let (code, said) = place.run(&args);
            assert_eq!(code == 0, !blocks, "{tools} {paths} {tool}: {said}");
            assert_eq!(picture(&place.root) == made, blocks, "{tools} {paths} {tool}: {said}");
            assert_eq!(said.contains("hook"), blocks, "{tools} {paths} {tool}: {said}");
        }
    }
}

/// A process that dies between keeping and changing leaves a checkpoint that says so.
#[test]
fn a_killed_change_leaves_a_checkpoint_that_can_be_restored() {
    let place = project();
    let big = "y".repeat(4 << 20);
    let call = json!({ "name": "Write", "arguments": { "file_path": "a.txt", "content": big } });
    let mut n_unfinished = 0;
    for n in 0..40_u64 {
        if 3 <= n_unfinished {
            break;
        }
        fs::write(place.root.join("a.txt"), "one\n").unwrap();
        let session = format!("k{n}");
        let args = ["--session", &session, "--set", "files.sync=full", "call", "--batch"];
        let mut command = place.command(&args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        writeln!(child.stdin.take().unwrap(), "{call}").unwrap();
        while !place.has_checkpoint(&session) && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let (_, said) = place.run(&["--session", &session, "checkpoint", "list", "--json"]);
        let Some(one) = said.lines().next() else { continue };
        let one: Value = serde_json::from_str(one).unwrap();
        let (_, text) = place.run(&["--session", &session, "checkpoint", "list"]);
        let is_unfinished = one["changes"][0]["finished"] == false;
        assert_eq!(is_unfinished, text.contains("unfinished"), "{text}");
        n_unfinished += u32::from(is_unfinished);
        let there = fs::read(place.root.join("a.txt")).unwrap();
        assert!(there == b"one\n" || there == big.as_bytes(), "a mixture after {n}");
        let id = one["checkpoint"].as_str().unwrap();
        place.says(&["checkpoint", "restore", id, "--yes"], 0, &[id]);
        assert_eq!(fs::read_to_string(place.root.join("a.txt")).unwrap(), "one\n");
    }
    assert_ne!(n_unfinished, 0, "no process died between keeping and changing");
}
