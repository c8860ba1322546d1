//! Paths outside the roots: which are read unasked, which ask, and which never open.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::{Value, json};

use crate::database;
use crate::pipe::{Piped, text};
use crate::served::{Place, command};

/// Makes a place with files in the home directory, beside the root.
fn place() -> Place {
    with_files(Place::new())
}

fn with_files(place: Place) -> Place {
    for (name, content) in [
        ("notes/a.txt", "one\n"),
        ("notes/deep/b.txt", "needle\n"),
        ("near/.ssh-not/c", "c\n"),
        (".ssh/key", "secret\n"),
        (".aws/credentials", "secret\n"),
        (".netrc", "secret\n"),
        (".cargo/registry/src/lib.rs", "pub fn f() {}\n"),
    ] {
        let path = place.home.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    place
}

/// A call outside the roots.
struct Case {
    tool: &'static str,
    /// Its arguments, with `HOME` for the home directory.
    arguments: Value,
    /// The first line of the question, with the answer; `None` if nothing asks.
    asked: Option<(&'static str, &'static str)>,
    /// The kind of the error; `None` if it succeeds.
    error: Option<&'static str>,
    /// What its text contains.
    words: &'static str,
}

fn check(place: &Place, pipe: &mut Piped, id: u64, case: &Case) {
    let filled = |text: &str| text.replace("HOME", &place.home.display().to_string());
    let arguments: Value = serde_json::from_str(&filled(&case.arguments.to_string())).unwrap();
    pipe.call(id, case.tool, arguments);
    if let Some((line, answer)) = case.asked {
        let question = pipe.next("question");
        let shown = question["text"].as_str().unwrap();
        assert!(shown.starts_with(line), "{}: {shown}", case.arguments);
        pipe.answer(&question, answer);
    }
    let reply = pipe.next("reply");
    assert_eq!(reply["error"]["kind"].as_str(), case.error, "{}: {reply}", case.arguments);
    assert!(text(&reply).contains(&filled(case.words)), "{}: {reply}", case.arguments);
    assert!(!text(&reply).contains("secret\n"), "{reply}");
}

const DENIED: Option<&str> = Some("path_denied");

#[test]
fn what_lies_outside_asks_once_and_secrets_never() {
    let place = place();
    symlink(place.home.join("notes/a.txt"), place.root.join("link")).unwrap();
    symlink(place.home.join(".ssh/key"), place.root.join("key")).unwrap();
    let mut pipe = Piped::start(&place, &["--approvals", "auto"]);
    let read = |path: &str| json!({ "file_path": path });
    let notes = Some(("Read a.txt outside the project?\nHOME/notes/a.txt", "once"));
    let line = notes.map(|(line, _)| line.replace("HOME", &place.home.display().to_string()));
    let line: &'static str = line.unwrap().leak();
    for (id, case) in [
        ("Read", read("/usr/bin/env"), None, Some("binary"), ""),
        ("Read", read("HOME/.cargo/registry/src/lib.rs"), None, None, "pub fn f"),
        ("Read", read("HOME/notes/a.txt"), Some((line, "no")), Some("approval_denied"), ""),
        ("Read", read("HOME/notes/a.txt"), Some((line, "once")), None, "one"),
        // The question names what a link leads to.
        ("Read", read("link"), Some((line, "session")), None, "one"),
        ("Read", read("HOME/notes/a.txt"), None, None, "one"),
        (
            "Grep",
            json!({ "pattern": "needle", "path": "HOME/notes" }),
            Some(("Search notes outside the project?", "session")),
            None,
            "notes/deep/b.txt",
        ),
        ("Grep", json!({ "pattern": "needle", "path": "HOME/notes/deep" }), None, None, "b.txt"),
        (
            "Read",
            read("HOME/.ssh/key"),
            None,
            DENIED,
            "it holds secrets by its name; `run.show = [\"HOME/.ssh\"]` shows it all the same",
        ),
        ("Read", read("key"), None, DENIED, "it holds secrets by its name"),
        ("Read", read("HOME/.ssh/missing"), None, DENIED, "it holds secrets by its name"),
        ("Grep", json!({ "pattern": "x", "path": "HOME" }), None, DENIED, "name a directory in it"),
        ("Read", read("/etc/passwd"), None, None, "root:"),
        ("Grep", json!({ "pattern": "root", "path": "/etc/passwd" }), None, None, "/etc/passwd"),
        ("Read", read("/etc/shadow"), None, DENIED, "it holds secrets by its name"),
        ("Read", read("/etc/wireguard/none"), None, DENIED, "it holds secrets by its name"),
        ("Grep", json!({ "pattern": "x", "path": "/etc" }), None, DENIED, "name a directory in it"),
        (
            "Write",
            json!({ "file_path": "/etc/sinew-is-not-there", "content": "x" }),
            Some(("Create sinew-is-not-there outside the project?", "no")),
            Some("approval_denied"),
            "",
        ),
        ("Read", read("/proc/self/environ"), None, DENIED, "it lies outside the roots"),
        ("Read", read("/dev/null"), None, DENIED, "it lies outside the roots"),
        (
            "Write",
            json!({ "file_path": "HOME/.ssh/new", "content": "x" }),
            None,
            DENIED,
            "it holds secrets",
        ),
        ("Bash", json!({ "command": "true", "cwd": "HOME/notes" }), None, Some("invalid_args"), ""),
    ]
    .into_iter()
    .map(|(tool, arguments, asked, error, words)| Case { tool, arguments, asked, error, words })
    .enumerate()
    {
        check(&place, &mut pipe, id as u64, &case);
    }
    let rest = pipe.end();
    assert!(!rest.iter().any(|line| line["type"] == "question"), "{rest:?}");
}

/// Calls a tool, answers what it asks, and returns whether the reply shows the secret, and its text.
fn called(pipe: &mut Piped, tool: &str, arguments: Value) -> (bool, String) {
    pipe.call(1, tool, arguments);
    loop {
        let line = pipe.next_of(&["question", "reply"]);
        if line["type"] == "reply" {
            let text = text(&line).to_owned();
            return (text.lines().any(|line| line.ends_with("secret")), text);
        }
        pipe.answer(&line, "once");
    }
}

/// The hint of a file in a hidden directory named no path, or that of the file, which opens nothing.
#[test]
fn hint_of_a_hidden_path_opens_it() {
    let place = with_files(Place::seen_by_commands());
    let home = place.home.display().to_string();
    let hide = format!("run.hide=[\"{home}/.aws/credentials\"]");
    // A file, and whether it opens alone.
    for (file, is_alone) in [(".ssh/key", false), (".netrc", true), (".aws/credentials", false)] {
        let path = place.home.join(file);
        let calls = || {
            let cat = format!("cat {}", path.display());
            [("Read", json!({ "file_path": path })), ("Bash", json!({ "command": cat }))]
        };
        for more in [&[][..], &["--root", &home]] {
            let start = |show: &str| {
                let args = ["--approvals", "auto", "--set", &hide, "--set", show];
                Piped::start(&place, &[&args[..], more].concat())
            };
            let mut closed = start("run.show=[]");
            let mut hints: Vec<String> = Vec::new();
            for (tool, arguments) in calls() {
                let (is_seen, said) = called(&mut closed, tool, arguments);
                assert!(!is_seen, "{file} {tool}: {said}");
                let from = said.find("run.show = [").unwrap_or_else(|| panic!("{tool}: {said}"));
                let hint = said[from..].split_inclusive(']').next().unwrap();
                hints.push(hint.replacen(" = ", "=", 1));
            }
            closed.end();
            // The control: a file in a hidden directory opens nothing.
            let naive = format!("run.show={}", json!([path]));
            for (show, opens) in hints.iter().map(|hint| (hint, true)).chain([(&naive, is_alone)]) {
                let mut pipe = start(show);
                for (tool, arguments) in calls() {
                    let (is_seen, said) = called(&mut pipe, tool, arguments);
                    assert_eq!(is_seen, opens, "{tool} {show}: {said}");
                }
                pipe.end();
            }
        }
    }
}

/// The hint for sinew's own state named a setting that does not show it.
#[test]
fn no_setting_shows_the_state() {
    let place = Place::seen_by_commands();
    let state = place.home.join("state/sinew");
    let database = state.join("sinew.db");
    let shown = format!("run.show={}", json!([state, database]));
    for more in [&[][..], &["--root", place.home.to_str().unwrap()]] {
        let args = ["--approvals", "auto", "--set", &shown];
        let mut pipe = Piped::start(&place, &[&args[..], more].concat());
        let database = database.display();
        for (tool, arguments) in [
            ("Read", json!({ "file_path": database.to_string() })),
            ("Bash", json!({ "command": format!("cat {database}") })),
            ("Bash", json!({ "command": format!("echo x >>{database}") })),
            ("Bash", json!({ "command": format!("rmdir {}", state.display()) })),
        ] {
            let (_, said) = called(&mut pipe, tool, arguments.clone());
            let n_told = said.matches("no setting shows").count();
            assert_eq!(n_told, 1, "{more:?} {arguments}: {said}");
            assert!(!said.contains("to allow it"), "{more:?} {arguments}: {said}");
        }
        pipe.end();
    }
}

/// What file tools read of `/etc` is what commands see there, also for root, who may read all of it.
#[test]
fn etc_is_read_alike_by_tools_and_commands() {
    let can = Command::new("unshare").args(["--mount", "mount", "--bind", "/etc", "/etc"]).status();
    if !can.is_ok_and(|status| status.success()) {
        println!("SKIPPED: no view of the machine can be made here");
        return;
    }
    let place = place();
    let etc = place.home.join("etc");
    let copied = Command::new("cp").arg("-a").arg("/etc").arg(&etc).status().unwrap();
    assert!(copied.success());
    let script =
        "mount --bind \"$1\" /etc && mount --bind \"$2\" /etc/passwd && shift 2 && exec \"$@\"";
    let call = |tool: &str, arguments: Value| -> Value {
        let sinew = command(&place.home);
        let mut call = Command::new("unshare");
        call.args(["--mount", "sh", "-c", script, "sh"]).arg(&etc).arg(place.home.join("database"));
        call.arg(database::SINEW).arg("--root").arg(&place.root).args(["--approvals", "allow"]);
        call.args(["call", "--json", tool]).arg(arguments.to_string()).env_clear();
        call.envs(sinew.get_envs().filter_map(|(name, value)| Some((name, value?))));
        call.env("PATH", std::env::var_os("PATH").unwrap());
        let done = call.output().unwrap();
        serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"))
    };
    fs::write(place.home.join("database"), database::naming(&place.home)).unwrap();
    for (name, is_secret) in [
        ("app/app.conf", false),
        ("app/ssh/config", false),
        ("shadowed", false),
        ("wireguard.txt", false),
        ("apt/apt.conf.d/99x", false),
        ("sinew/other.toml", false),
        ("NetworkManager/NetworkManager.conf", false),
        ("shadow", true),
        ("shadow-", true),
        ("gshadow-", true),
        ("security/opasswd", true),
        ("sudoers", true),
        ("sudoers.d/me", true),
        ("ssh/ssh_host_ed25519_key", true),
        ("ssl/private/x.key", true),
        ("krb5.keytab", true),
        ("NetworkManager/system-connections/wifi", true),
        ("wireguard/wg0.conf", true),
        ("wpa_supplicant/wpa_supplicant.conf", true),
        ("ppp/chap-secrets", true),
        ("letsencrypt/live/a/privkey.pem", true),
        ("docker/key.json", true),
        ("kubernetes/admin.conf", true),
        ("rancher/k3s/k3s.yaml", true),
        ("apt/auth.conf.d/x", true),
    ] {
        let (file, path) = (etc.join(name), format!("/etc/{name}"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "it is seen\n").unwrap();
        let read = call("Read", json!({ "file_path": path }));
        let expected = is_secret.then_some("path_denied");
        assert_eq!(read["error"]["kind"].as_str(), expected, "{path}: {read}");
        let seen = call("Bash", json!({ "command": format!("cat {path}") }));
        // The path that is named, and none that it begins with.
        let n_told = text(&seen).matches("the sandbox refused to read").count();
        assert_eq!(n_told, usize::from(is_secret), "{seen}");
        for reply in [read, seen] {
            assert_eq!(text(&reply).contains("it is seen"), !is_secret, "{path}: {reply}");
        }
    }
}

#[test]
fn a_change_outside_can_be_undone_in_its_project_alone() {
    let place = place();
    let mut pipe = Piped::start(&place, &["--approvals", "auto", "--session", "s"]);
    let file = place.home.join("notes/new.txt");
    let write = json!({ "file_path": file, "content": "x\n" });
    pipe.call(1, "Write", write);
    let question = pipe.next("question");
    let shown = question["text"].as_str().unwrap();
    assert!(shown.starts_with("Create new.txt outside the project?"), "{shown}");
    assert!(shown.contains("undo covers it"), "{shown}");
    pipe.answer(&question, "once");
    assert_eq!(pipe.next("reply")["ok"], json!(true));
    // Another root knows nothing of it.
    let elsewhere = place.beside();
    let mut stranger = Piped::start(&elsewhere, &["--approvals", "allow", "--session", "s"]);
    stranger.call(1, "CheckpointList", json!({}));
    assert!(!text(&stranger.next("reply")).contains("new.txt"));
    stranger.call(2, "Undo", json!({}));
    assert_eq!(stranger.next("reply")["ok"], json!(false));
    stranger.end();
    assert!(file.exists());
    pipe.call(2, "CheckpointList", json!({}));
    assert!(text(&pipe.next("reply")).contains("new.txt"));
    pipe.call(3, "Undo", json!({}));
    let question = pipe.next("question");
    assert!(question["text"].as_str().unwrap().starts_with("Delete new.txt outside the project?"));
    pipe.answer(&question, "once");
    assert_eq!(pipe.next("reply")["ok"], json!(true));
    assert!(!file.exists());
    pipe.end();
    // At the command line too: the person who calls it answers.
    let mut pipe = Piped::start(&place, &["--approvals", "auto", "--session", "s"]);
    pipe.call(1, "Write", json!({ "file_path": file, "content": "x\n" }));
    let question = pipe.next("question");
    pipe.answer(&question, "once");
    assert_eq!(pipe.next("reply")["ok"], json!(true));
    pipe.end();
    for (place, is_undone) in [(&elsewhere, false), (&place, true)] {
        let mut undo = command(&place.home);
        undo.arg("--root").arg(&place.root).args(["undo", "--yes"]);
        assert_eq!(undo.output().unwrap().status.success(), is_undone);
        assert_eq!(!file.exists(), is_undone);
    }
}

/// What is swapped while a person reads the question.
#[test]
fn nothing_but_what_was_shown_is_changed_or_read() {
    for swaps in [false, true] {
        let place = place();
        let mut pipe = Piped::start(&place, &["--approvals", "auto"]);
        let file = place.home.join("notes/a.txt");
        pipe.call(1, "Read", json!({ "file_path": file }));
        let question = pipe.next("question");
        if swaps {
            fs::remove_file(&file).unwrap();
            symlink(place.home.join(".ssh/key"), &file).unwrap();
        }
        pipe.answer(&question, "once");
        let reply = pipe.next("reply");
        assert_eq!(reply["ok"], json!(!swaps), "{reply}");
        assert!(!text(&reply).contains("secret"), "{reply}");
        if swaps {
            fs::remove_file(&file).unwrap();
            fs::write(&file, "one\n").unwrap();
        }
        let edit = json!({ "file_path": file, "old_string": "one", "new_string": "two" });
        pipe.call(2, "Edit", edit);
        let question = pipe.next("question");
        let theirs = "one and more\n";
        if swaps {
            fs::write(&file, theirs).unwrap();
        }
        pipe.answer(&question, "once");
        assert_eq!(pipe.next("reply")["ok"], json!(!swaps));
        let left = fs::read_to_string(&file).unwrap();
        assert_eq!(left, if swaps { theirs } else { "two\n" });
        pipe.end();
    }
}

#[test]
fn vocabularies_with_pages_of_their_own_stay_beneath_their_roots() {
    let place = place();
    for (options, tool, path) in [
        (&["--dialect", "mcp-filesystem"][..], "read_text_file", "path"),
        (&["--dialect", "moltis"], "Read", "file_path"),
        (&["--set", "files.outside=deny"], "Read", "file_path"),
        (&["--approvals", "deny"], "Read", "file_path"),
        (&["--approvals", "allow"], "Read", "file_path"),
    ] {
        let mut options = options.to_vec();
        if !options.contains(&"--approvals") {
            options.extend(["--approvals", "auto"]);
        }
        let mut pipe = Piped::start(&place, &options);
        pipe.call(1, tool, json!({ path: place.home.join("notes/a.txt") }));
        let reply = pipe.next("reply");
        assert!(!text(&reply).contains("one\n"), "{options:?}: {reply}");
        let rest = pipe.end();
        assert!(!rest.iter().any(|line| line["type"] == "question"), "{options:?}");
    }
}

/// An error can quote what is in a file, so it comes after the answer too.
#[test]
fn no_error_tells_what_is_outside_before_the_answer() {
    let place = place();
    let file = place.home.join("notes/a.txt");
    let text_of = "the password of the base is hunter2\n";
    fs::write(&file, text_of).unwrap();
    for (answer, tells) in [("no", false), ("once", true)] {
        let mut pipe = Piped::start(&place, &["--approvals", "auto", "--session", "s"]);
        for (id, tool, arguments) in [
            (
                1,
                "Edit",
                json!({
                    "file_path": file, "new_string": "x",
                    "old_string": "the password of the base was hunter1\n",
                }),
            ),
            (
                2,
                "MultiEdit",
                json!({ "file_path": file, "edits": [
                    { "old_string": "the password of the base was hunter1", "new_string": "x" },
                ] }),
            ),
            (3, "Write", json!({ "file_path": place.home.join("notes"), "content": "x" })),
        ] {
            pipe.call(id, tool, arguments);
            let question = pipe.next("question");
            assert!(!question["text"].as_str().unwrap().contains("hunter2"), "{question}");
            pipe.answer(&question, answer);
            let reply = pipe.next("reply");
            assert_eq!(reply["ok"], json!(false), "{tool}: {reply}");
            let says = text(&reply).contains("hunter2") || text(&reply).contains("directory");
            assert_eq!(says, tells, "{tool}: {reply}");
        }
        pipe.end();
    }
}

#[test]
fn a_dry_run_of_a_restore_outside_asks_too() {
    let place = place();
    let file = place.home.join("notes/a.txt");
    let mut pipe = Piped::start(&place, &["--approvals", "auto", "--session", "s"]);
    pipe.call(1, "Edit", json!({ "file_path": file, "old_string": "one", "new_string": "two" }));
    let question = pipe.next("question");
    pipe.answer(&question, "once");
    assert_eq!(pipe.next("reply")["ok"], json!(true));
    fs::write(&file, "private afterwards\n").unwrap();
    pipe.call(2, "CheckpointRestore", json!({ "id": "c1", "dry_run": true, "force": true }));
    let question = pipe.next("question");
    pipe.answer(&question, "no");
    let reply = pipe.next("reply");
    assert_eq!(reply["error"]["kind"], "approval_denied", "{reply}");
    assert!(!text(&reply).contains("private afterwards"), "{reply}");
    pipe.end();
    // The person at the command line asked for it.
    let mut shown = command(&place.home);
    shown.arg("--root").arg(&place.root);
    let shown =
        shown.args(["checkpoint", "restore", "c1", "--dry-run", "--force"]).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("notes/a.txt"), "{shown:?}");
}

/// A yes to all that asks is none for paths outside, also where something else asks for them.
#[test]
fn allow_changes_nothing_outside() {
    let place = place();
    let outside = |name: &str| place.home.join(name);
    for (options, file) in [
        (&[][..], "notes/new"),
        (&[], ".bashrc"),
        (&["--set", "tools.fs.require_approval=true"], "notes/new"),
        (&["--set", "rules=[{verdict=\"ask\",tools=[\"Write\"]}]"], "notes/new"),
    ] {
        let options = [&["--approvals", "allow"], options].concat();
        let mut pipe = Piped::start(&place, &options);
        pipe.call(1, "Write", json!({ "file_path": outside(file), "content": "x" }));
        let reply = pipe.next("reply");
        assert_eq!(reply["error"]["kind"], "path_denied", "{options:?} {file}: {reply}");
        assert!(!outside(file).exists(), "{options:?} {file}");
        pipe.end();
    }
    // A rule that names the path is an answer.
    let rule = format!(
        "rules=[{{verdict=\"allow\",tools=[\"Write\"],paths=[\"{}/**\"]}}]",
        outside("notes").display()
    );
    let mut pipe = Piped::start(&place, &["--approvals", "allow", "--set", &rule]);
    pipe.call(1, "Write", json!({ "file_path": outside("notes/new"), "content": "x" }));
    assert_eq!(pipe.next("reply")["ok"], json!(true));
    pipe.end();
}
