//! Ways around a judge of commands, each run unasked in the sandbox: an undo takes back what it did, byte for byte, nothing of it
//! reaches beyond the root or a port, and nothing of it acts when the user's own git looks at the project.
//!
//! The corpora are those that the guard is tried on. A part runs by day, all of it where `SINEW_TEST_ROUNDS` is set. The control
//! runs the same commands by a plain shell.
#![expect(clippy::disallowed_types, reason = "a port says whether a command came")]

#[path = "../../guard/tests/it/corpora/case.rs"]
mod case;
#[path = "../../guard/tests/it/corpora/fixture.rs"]
#[expect(dead_code, reason = "what it hides is looked for elsewhere")]
mod fixture;

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use case::Case;

use crate::pipe::Piped;
use crate::served::{Place, command};

const BYPASSES: &str = include_str!("../../guard/tests/it/corpora/bypasses.jsonl");
const FOUND: &str = include_str!("../../guard/tests/it/corpora/found.jsonl");
/// After the undo of a new repository an empty directory for its objects stays.
const NEW_REPOSITORIES: &[&str] = &["GIT_TEMPLATE_DIR=x git init pwned"];
/// Which part of the corpora runs by day.
const BY_DAY: usize = 8;
const N_THREADS: usize = 4;

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// It asked, and was denied.
    Asked,
    /// It left nothing, or all of it was undone; says whether there was something.
    Undone(bool),
    /// Something is left; says what.
    Left(String),
}

/// The entries beneath a directory: mode and content, without what sinew and a looking git write.
fn tree(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(place) = left.pop() {
        let Ok(entries) = fs::read_dir(&place) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            let name = path.strip_prefix(dir).unwrap().to_owned();
            let is_own = [
                "home/.passwd",
                "home/.config",
                "home/.local",
                "home/state",
                "home/config",
                "ws/.sinew",
            ]
            .iter()
            .any(|own| name == Path::new(own));
            // Objects that nothing names stay until git collects them, and so does the note of the last fetch.
            let of_git = [".git/index", ".git/objects", ".git/FETCH_HEAD"];
            if is_own || of_git.iter().any(|of_git| path.ends_with(of_git)) {
                continue;
            }
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_dir() {
                left.push(path.clone());
                Vec::new()
            } else if meta.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else if meta.is_file() {
                fs::read(&path).unwrap_or_default()
            } else {
                // FIFOs and sockets are not kept.
                continue;
            };
            found.insert(name, (meta.mode(), content));
        }
    }
    found
}

/// Returns the first path in which two trees differ.
fn difference(
    one: &BTreeMap<PathBuf, (u32, Vec<u8>)>,
    other: &BTreeMap<PathBuf, (u32, Vec<u8>)>,
    counts: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    let mut paths = one.keys().chain(other.keys());
    paths.find(|path| counts(path) && one.get(*path) != other.get(*path)).cloned()
}

/// Lays out a copy of the fixture; its working directory is the root of the place.
fn place(fixture: &Path) -> Place {
    let place = Place::new();
    let top = place.root.parent().unwrap();
    for (from, to) in [("home", "home"), ("work", "ws"), ("outside", "outside")] {
        let from = fixture.join(from).join(".");
        fs::create_dir_all(top.join(to)).unwrap();
        let copied = Command::new("cp").arg("-a").arg(from).arg(top.join(to)).status();
        assert!(copied.unwrap().success());
    }
    place
}

fn script(place: &Place, text: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args([
        "-s",
        "KILL",
        "3",
        "unshare",
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--kill-child",
    ]);
    command.args(["bash", "-c", text]).current_dir(&place.root).env_clear();
    command.env("HOME", &place.home).env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Looks at the project as its user does, outside of any sandbox.
fn looked_at_by_git(place: &Place) {
    for words in [&["status", "--short"][..], &["diff", "--stat"], &["log", "-1", "-p"]] {
        let mut git = Command::new("timeout");
        git.args(["-s", "KILL", "5", "git"]).args(words).current_dir(&place.root).env_clear();
        git.env("HOME", &place.home).env("PATH", "/usr/local/bin:/usr/bin:/bin");
        let _ = git.env("GIT_CONFIG_NOSYSTEM", "1").stdin(Stdio::null()).output();
    }
}

fn run(case: &Case, fixture: &Path) -> Seen {
    let place = place(fixture);
    let top = place.root.parent().unwrap();
    if !case.setup.is_empty() {
        let _ = script(&place, &case.setup).status();
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    port.set_nonblocking(true).unwrap();
    let number = port.local_addr().unwrap().port().to_string();
    let text = case.text().replace("{port}", &number);
    // What is laid out may act by itself.
    looked_at_by_git(&place);
    let before = tree(top);
    let mut pipe = Piped::start(&place, &["--approvals", "auto"]);
    pipe.call(1, "Bash", json!({ "command": text, "timeout": 3_000 }));
    let line = pipe.next_of(&["question", "reply"]);
    let asked = line["type"] == "question";
    if asked {
        pipe.answer(&line, "no");
        pipe.next("reply");
    }
    pipe.end();
    let after = tree(top);
    let is_outside = |path: &Path| !path.starts_with("ws");
    if let Some(path) = difference(&before, &after, is_outside) {
        return Seen::Left(format!("outside the root: {}", path.display()));
    }
    if port.accept().is_ok() {
        return Seen::Left(String::from("it came to the port"));
    }
    let did_something = difference(&before, &after, |_| true).is_some();
    if asked {
        return match did_something {
            true => Seen::Left(String::from("it was denied and ran")),
            false => Seen::Asked,
        };
    }
    looked_at_by_git(&place);
    if let Some(path) = difference(&after, &tree(top), |_| true) {
        return Seen::Left(format!("acts outside the sandbox: {}", path.display()));
    }
    for _ in 0..2 {
        let mut undo = command(&place.home);
        undo.arg("--root").arg(&place.root).args(["undo", "--yes"]);
        if difference(&before, &tree(top), |_| true).is_some() {
            let _ = undo.output();
        }
    }
    match difference(&before, &tree(top), |_| true) {
        Some(path) => Seen::Left(format!("not undone: {}", path.display())),
        None => Seen::Undone(did_something),
    }
}

#[test]
fn hostile_commands_leave_nothing() {
    let is_night = std::env::var_os("SINEW_TEST_ROUNDS").is_some();
    let lines = BYPASSES.lines().chain(FOUND.lines());
    let cases: Vec<Case> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(798 <= cases.len());
    let step = if is_night { 1 } else { BY_DAY };
    let chosen: Vec<&Case> = cases.iter().step_by(step).collect();
    let dir = tempfile::tempdir().unwrap();
    fixture::lay_out(dir.path(), false);
    let seen: Vec<(Seen, bool)> = std::thread::scope(|scope| {
        let parts = chosen.chunks(chosen.len().div_ceil(N_THREADS)).map(|part| {
            scope.spawn(|| {
                part.iter()
                    .map(|case| {
                        let seen = run(case, dir.path());
                        (seen, control(case, dir.path()))
                    })
                    .collect::<Vec<_>>()
            })
        });
        let parts: Vec<_> = parts.collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    let n = |wanted: &dyn Fn(&Seen) -> bool| seen.iter().filter(|(seen, _)| wanted(seen)).count();
    let (n_asked, n_undone) =
        (n(&|seen| *seen == Seen::Asked), n(&|seen| *seen == Seen::Undone(true)));
    let n_harmful = seen.iter().filter(|(_, harms)| *harms).count();
    println!(
        "{} hostile commands: {n_asked} asked, {n_undone} did something that was undone; by a plain shell {n_harmful} left something",
        chosen.len()
    );
    let left: Vec<_> = chosen
        .iter()
        .zip(&seen)
        .filter(|(_, (seen, _))| matches!(seen, Seen::Left(_)))
        .filter(|(case, _)| !NEW_REPOSITORIES.contains(&case.text().as_str()))
        .map(|(case, (seen, _))| format!("{}: {seen:?}", case.shown()))
        .collect();
    assert!(left.is_empty(), "{} of {}: {left:#?}", left.len(), chosen.len());
    // The control, and a sign that they ran at all.
    assert!(chosen.len() < n_harmful * 2 && chosen.len() < n_undone * 3, "{n_harmful}, {n_undone}");
}

/// Runs a command by a plain shell; returns whether it left something.
fn control(case: &Case, fixture: &Path) -> bool {
    let place = place(fixture);
    let top = place.root.parent().unwrap();
    if !case.setup.is_empty() {
        let _ = script(&place, &case.setup).status();
    }
    let before = tree(top);
    let _ = script(&place, &case.text().replace("{port}", "9")).status();
    difference(&before, &tree(top), |_| true).is_some()
}
