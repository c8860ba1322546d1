//! A command waits when it opens a file outside the roots for writing; sinew opens that file once an answer allows it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::pipe::{Piped, text};
use crate::served::{Place, command};

const AUTO: &[&str] = &["--approvals", "auto"];

/// A place, with files beside its root and in its home directory.
fn place() -> Place {
    let place = Place::seen_by_commands();
    for name in ["near/old", "near/deep/old", "home/papers/old", "home/.tool", "home/.ssh/key"] {
        let path = top(&place).join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "old\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap();
    }
    place
}

fn top(place: &Place) -> &Path {
    place.root.parent().unwrap()
}

/// Returns a text with the directories of a place.
fn filled(place: &Place, text: &str) -> String {
    let at = |name: &str| top(place).join(name).display().to_string();
    text.replace("NEAR", &at("near")).replace("HOME", &at("home"))
}

/// Returns each file outside the root with its mode and content; the target of a link.
fn outside(place: &Place) -> Vec<(PathBuf, u32, String)> {
    let mut found = Vec::new();
    let mut dirs = ["near", "home/papers", "home/.ssh"].map(|name| top(place).join(name)).to_vec();
    dirs.push(top(place).join("home/.tool"));
    while let Some(path) = dirs.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let content = if meta.is_dir() {
            dirs.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            String::new()
        } else if meta.is_symlink() {
            fs::read_link(&path).unwrap().display().to_string()
        } else if meta.is_file() {
            fs::read_to_string(&path).unwrap()
        } else {
            String::from("special")
        };
        found.push((path, meta.permissions().mode(), content));
    }
    found.sort();
    found
}

/// Returns what sinew writes in the root.
fn sinew(place: &Place, args: &[&str]) -> String {
    let mut command = command(&place.home);
    command.arg("--root").arg(&place.root).args(args).current_dir(&place.root);
    let ran = command.env("PATH", std::env::var_os("PATH").unwrap()).output().unwrap();
    String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned()
}

fn bash(pipe: &mut Piped, id: u64, command: &str) {
    pipe.call(id, "Bash", json!({ "command": command, "timeout": 10_000 }));
}

#[test]
fn command_waits_before_a_file_outside_and_undo_brings_it_back() {
    for (line, what, waits_for, after) in [
        ("echo new >>NEAR/old", "old", "NEAR/old", "old\nnew\n"),
        ("echo new >NEAR/old", "old", "NEAR/old", "new\n"),
        (
            "python3 -c 'f = open(\"NEAR/old\", \"a+\"); f.write(\"new\")'",
            "old",
            "NEAR/old",
            "old\nnew",
        ),
        ("echo new >NEAR/new", "near", "NEAR/new", "new\n"),
        ("cp NEAR/old NEAR/new", "near", "NEAR/new", "old\n"),
        ("cp first NEAR/new", "near", "NEAR/new", "first\n"),
        ("echo new >NEAR/deep/new", "deep", "NEAR/deep/new", "new\n"),
        (
            "echo new >>NEAR/old || exit 1; chmod 600 NEAR/old 2>&-; true",
            "old",
            "NEAR/old",
            "old\nnew\n",
        ),
        // Commands do not see these.
        ("echo new >>HOME/papers/old", "old", "HOME/papers/old", "old\nnew\n"),
        ("echo new >HOME/papers/new", "papers", "HOME/papers/new", "new\n"),
    ] {
        for (answer, goes_on) in [("yes", true), ("no", false)] {
            let place = place();
            let before = outside(&place);
            // What is beside the home directory is seen.
            let show = filled(&place, "run.show=[\"NEAR\"]");
            let options = ["--approvals", "auto", "--set", &show];
            let mut pipe = Piped::start(&place, &options);
            let line = filled(&place, line);
            let path = filled(&place, waits_for);
            bash(&mut pipe, 1, &format!("echo first >first; {line}"));
            let question = pipe.next("question");
            let head = format!("Let a command change {what} outside the project?");
            assert_eq!(question["head"][0], head, "{question}");
            let why = format!("the command waits to open {path} for writing");
            assert!(question["head"][2].as_str().unwrap().starts_with(&why), "{question}");
            assert_eq!(question["is_running"], true);
            assert_eq!(outside(&place), before, "{line}");
            assert!(place.root.join("first").exists(), "what came before is done");
            pipe.answer(&question, answer);
            let reply = pipe.next("reply");
            assert_eq!(reply["ok"], goes_on, "{line} {answer}: {reply}");
            let there = fs::read_to_string(&path).ok();
            if goes_on {
                assert_eq!(there.as_deref(), Some(after), "{line}: {reply}");
            } else {
                assert_eq!(outside(&place), before, "{line}: {reply}");
                assert!(text(&reply).contains("and the answer was no"), "{line}: {reply}");
                assert!(text(&reply).contains("needs=[\"write:"), "{line}: {reply}");
            }
            pipe.end();
            let said = sinew(&place, &["undo", "--yes"]);
            assert_eq!(outside(&place), before, "{line} {answer}: {said}");
            assert!(!place.root.join("first").exists(), "{line} {answer}: {said}");
        }
    }
}

#[test]
fn each_sandbox_level_waits() {
    let find = |name: &str| {
        let path = std::env::var_os("PATH").unwrap();
        std::env::split_paths(&path).any(|dir| dir.join(name).exists())
    };
    for level in ["namespaces", "landlock", "bubblewrap"] {
        let place = place();
        let before = outside(&place);
        if level == "bubblewrap" && !find("bwrap") {
            eprintln!("skipped: {level}, for which bwrap is missing");
            continue;
        }
        let set = format!("run.sandbox={level}");
        let mut pipe = Piped::start(&place, &["--approvals", "auto", "--set", &set]);
        bash(&mut pipe, 1, &filled(&place, "echo new >NEAR/old; echo new >HOME/papers/new"));
        for what in ["old", "papers"] {
            let question = pipe.next("question");
            let head = format!("Let a command change {what} outside the project?");
            assert_eq!(question["head"][0], head, "{level}: {question}");
            pipe.answer(&question, "yes");
        }
        let reply = pipe.next("reply");
        let there = |name: &str| fs::read_to_string(top(&place).join(name)).unwrap();
        assert_eq!(there("near/old"), "new\n", "{level}: {reply}");
        assert_eq!(there("home/papers/new"), "new\n", "{level}: {reply}");
        pipe.end();
        let said = sinew(&place, &["undo", "--yes"]);
        assert_eq!(outside(&place), before, "{level}: {said}");
    }
}

/// A new file may have the mode that its command gave it.
#[test]
fn new_file_gets_its_mode() {
    let place = place();
    let mut pipe = Piped::start(&place, AUTO);
    bash(&mut pipe, 1, &filled(&place, "umask 027; echo x >NEAR/new; umask 0; echo x >NEAR/open"));
    let question = pipe.next("question");
    pipe.answer(&question, "yes");
    pipe.next("reply");
    let mode = |name: &str| {
        let meta = fs::metadata(top(&place).join("near").join(name)).unwrap();
        meta.permissions().mode() & 0o7777
    };
    assert_eq!((mode("new"), mode("open")), (0o640, 0o666));
    pipe.end();
}

/// Checks that a command is not asked about, and changes nothing outside.
#[track_caller]
fn fails_unasked(place: &Place, options: &[&str], line: &str) {
    let before = outside(place);
    let mut pipe = Piped::start(place, options);
    bash(&mut pipe, 1, &filled(place, line));
    let next = pipe.next_of(&["question", "reply"]);
    assert_eq!(next["type"], "reply", "{line}: {next}");
    pipe.end();
    assert_eq!(outside(place), before, "{line}: {next}");
}

#[test]
fn no_answer_opens_what_is_no_plain_file_of_the_user() {
    for line in [
        // Files of programs, and what keeps secrets.
        "echo x >>/etc/hostname",
        "echo x >/usr/lib/new",
        "echo x >>HOME/.tool",
        "echo x >HOME/.new",
        "echo x >HOME/.config/new",
        "echo x >>HOME/.ssh/key",
        "echo x >HOME/.ssh/authorized_keys",
        "echo x >NEAR/.cache/new",
        "echo x >NEAR/__pycache__/new.pyc",
        "echo x >NEAR/node_modules/new",
        // It would show the root, or all of the home directory.
        "echo x >HOME/new",
        "echo x >HOME/../new",
        // What programs execute or obey.
        "echo x >>NEAR/.git/hooks/post-commit",
        "echo x >NEAR/.git/config",
        "echo x >>NEAR/.bashrc",
        "echo x >NEAR/.vscode/tasks.json",
        "echo x >NEAR/.sinew/config.toml",
        "echo x >NEAR/package.json",
        // A directory of git may have any name.
        "echo x >>NEAR/bare/config",
        "echo x >NEAR/bare/hooks/pre-commit",
        "echo x >NEAR/bare/plain",
        "echo x >NEAR/bare/objects/info/alternates",
        "echo x >NEAR/almost/HEAD",
        // Another name of it may be anywhere.
        "echo x >>NEAR/hard",
        "echo x >>NEAR/link",
        "echo x >>NEAR/fifo & wait",
        "echo x >NEAR/linked/new",
        // Temporary files get their names by a rename, which fails there.
        "python3 -c 'import tempfile; tempfile.mkstemp(dir=\"NEAR\")'",
        "sed -i s/o/a/ NEAR/old",
        "python3 -c 'open(\"NEAR/old\", \"r+\").write(\"x\")'",
        "python3 -c 'import sqlite3; sqlite3.connect(\"NEAR/old\").execute(\"select 1\").fetchall()'; exit 1",
        // Only files are opened so.
        "mkdir NEAR/dir",
        "rm NEAR/old",
        "mv NEAR/old NEAR/moved",
        "ln -s x NEAR/made",
        "echo x >NEAR/missing/new",
        "echo x >HOME/missing/new",
        "truncate -s 0 NEAR/old </dev/null 2>&-; python3 -c 'import os; os.truncate(\"NEAR/old\", 0)'",
        "chmod 777 NEAR/old",
    ] {
        let place = place();
        let near = top(&place).join("near");
        for dir in [".git/hooks", ".vscode", ".sinew", ".cache", "__pycache__", "node_modules"] {
            fs::create_dir_all(near.join(dir)).unwrap();
        }
        fs::write(near.join(".git/hooks/post-commit"), "true\n").unwrap();
        for dir in ["bare/hooks", "bare/objects/info", "bare/refs", "almost/objects", "almost/refs"]
        {
            fs::create_dir_all(near.join(dir)).unwrap();
        }
        fs::write(near.join("bare/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(near.join("bare/config"), "[core]\n").unwrap();
        fs::write(near.join(".bashrc"), "true\n").unwrap();
        fs::write(near.join("package.json"), "{}\n").unwrap();
        fs::hard_link(near.join("deep/old"), near.join("hard")).unwrap();
        symlink(place.home.join(".ssh/key"), near.join("link")).unwrap();
        symlink(place.home.join(".ssh"), near.join("linked")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, near.join("fifo"), 0o600.into()).unwrap();
        if line.starts_with("truncate") {
            // `truncate` opens the file, which asks.
            let mut pipe = Piped::start(&place, AUTO);
            bash(&mut pipe, 1, &filled(&place, "truncate -s 0 NEAR/old"));
            let question = pipe.next("question");
            pipe.answer(&question, "no");
            pipe.end();
            fails_unasked(&place, AUTO, line.split("; ").nth(1).unwrap());
            continue;
        }
        fails_unasked(&place, AUTO, line);
    }
}

/// Where the settings close what is outside, or no person can answer, the command fails as before.
#[test]
fn settings_and_modes_bind() {
    for (options, more) in [
        (AUTO, &["--set", "files.outside=deny"][..]),
        (AUTO, &["--set", "tools.fs.deny_paths=[\"**/near/**\"]"]),
        (&["--approvals", "allow"], &[]),
        (&["--approvals", "deny"], &[]),
    ] {
        let place = place();
        fails_unasked(&place, &[options, more].concat(), "echo x >>NEAR/old");
    }
    let place = place();
    let before = outside(&place);
    let mut pipe = Piped::start(&place, AUTO);
    let line = filled(&place, "echo x >>NEAR/old");
    pipe.call(1, "Bash", json!({ "command": line, "run_in_background": true }));
    pipe.next("reply");
    assert!(pipe.is_quiet("question"));
    pipe.end();
    assert_eq!(outside(&place), before);
}

/// A yes holds for the directory of a new file, a no for each later file, and the third question is the last.
#[test]
fn answers_hold_until_the_command_ends() {
    for (line, answers, made) in [
        ("for n in 1 2 3; do echo $n >NEAR/$n; done", &["yes"][..], &["1", "2", "3"][..]),
        ("for n in 1 2 3; do (echo $n >NEAR/$n) & done; wait", &["yes"], &["1", "2", "3"]),
        ("for n in 1 2 3; do echo $n >NEAR/$n; done; true", &["no"], &[]),
        (
            "echo >>NEAR/old; echo >NEAR/1; echo >>HOME/papers/old; echo >HOME/papers/1; true",
            &["yes", "yes", "yes"],
            &["1"],
        ),
    ] {
        let place = place();
        let mut pipe = Piped::start(&place, AUTO);
        bash(&mut pipe, 1, &filled(&place, line));
        for answer in answers {
            let question = pipe.next("question");
            pipe.answer(&question, answer);
        }
        let next = pipe.next_of(&["question", "reply"]);
        assert_eq!(next["type"], "reply", "{line}: {next}");
        for name in ["1", "2", "3"] {
            let is_there = top(&place).join("near").join(name).exists();
            assert_eq!(is_there, made.contains(&name), "{line}: {name}: {next}");
        }
        assert!(!place.home.join("papers/1").exists());
        // The next command is asked about again.
        bash(&mut pipe, 2, &filled(&place, "echo x >NEAR/1"));
        let question = pipe.next("question");
        pipe.answer(&question, "no");
        pipe.next("reply");
        pipe.end();
    }
}

/// A standing answer covers the words of the command with the path that it needs.
#[test]
fn standing_answer_covers_the_command_alone() {
    let place = place();
    fs::write(place.root.join("w.py"), "import sys\nopen(sys.argv[1], 'a').write('x')\n").unwrap();
    let mut pipe = Piped::start(&place, AUTO);
    bash(&mut pipe, 1, &filled(&place, "python3 w.py NEAR/1"));
    let question = pipe.next("question");
    let covers = question["covers"].to_string();
    assert!(covers.contains(&filled(&place, "w.py * with needs write:NEAR")), "{covers}");
    pipe.answer(&question, "session");
    pipe.next("reply");
    bash(&mut pipe, 2, &filled(&place, "python3 w.py NEAR/2"));
    let next = pipe.next_of(&["question", "reply"]);
    assert_eq!((&next["type"], &next["ok"]), (&json!("reply"), &json!(true)), "{next}");
    for line in ["python3 -c 'open(\"NEAR/3\", \"w\")'", "python3 w.py HOME/papers/old"] {
        bash(&mut pipe, 3, &filled(&place, line));
        let question = pipe.next("question");
        pipe.answer(&question, "no");
        assert_eq!(pipe.next("reply")["ok"], false);
    }
    pipe.end();
    assert!(top(&place).join("near/2").exists() && !top(&place).join("near/3").exists());
}

/// What takes the place of a file or directory while the command waits is not changed by a yes. The control opens the path
/// after the swap, as a program without that care would: each swap leads it to what was not shown.
#[test]
fn swap_while_it_waits_changes_nothing_else() {
    type Swap = fn(&Path);
    let file: Swap = |near| {
        fs::rename(near.join("old"), near.join("aside")).unwrap();
        fs::write(near.join("old"), "another\n").unwrap();
    };
    let link: Swap = |near| {
        fs::rename(near.join("old"), near.join("aside")).unwrap();
        symlink("deep/old", near.join("old")).unwrap();
    };
    let content: Swap = |near| fs::write(near.join("old"), "mine\n").unwrap();
    let dir: Swap = |near| {
        fs::rename(near, near.with_file_name("aside")).unwrap();
        fs::create_dir(near).unwrap();
        fs::write(near.join("old"), "another\n").unwrap();
        fs::create_dir(near.join("deep")).unwrap();
    };
    let linked: Swap = |near| {
        fs::rename(near, near.with_file_name("aside")).unwrap();
        symlink(near.with_file_name("home").join(".ssh"), near).unwrap();
        fs::create_dir(near.with_file_name("unused")).unwrap();
    };
    let appears: Swap = |near| symlink("deep/old", near.join("new")).unwrap();
    for (line, path, swap) in [
        ("echo x >>NEAR/old", "near/old", file),
        ("echo x >>NEAR/old", "near/old", link),
        ("echo x >>NEAR/old", "near/old", content),
        ("echo x >>NEAR/old", "near/old", dir),
        ("echo x >NEAR/new", "near/new", dir),
        ("echo x >NEAR/new", "near/new", linked),
        ("echo x >NEAR/new", "near/new", appears),
    ] {
        for is_control in [false, true] {
            let place = place();
            let near = top(&place).join("near");
            let mut pipe = Piped::start(&place, AUTO);
            bash(&mut pipe, 1, &filled(&place, line));
            let question = pipe.next("question");
            swap(&near);
            let there = outside(&place);
            if is_control {
                fs::write(top(&place).join(path), "naive\n").unwrap();
                assert_ne!(outside(&place), there, "{line}: the control changes something");
                pipe.answer(&question, "no");
            } else {
                pipe.answer(&question, "yes");
            }
            let reply = pipe.next("reply");
            pipe.end();
            if !is_control {
                assert_eq!(outside(&place), there, "{line}: {reply}");
                assert_eq!(reply["ok"], false, "{line}: {reply}");
                let said = "it changed while the command waited for the answer";
                assert!(text(&reply).contains(said), "{line}: {reply}");
            }
        }
    }
}

/// Another open that waits kept the question, and its answer bound that one.
#[test]
fn question_about_a_process_that_is_gone_is_taken_back() {
    let place = place();
    let mut pipe = Piped::start(&place, AUTO);
    let line = "timeout -s KILL 0.3 sh -c 'echo x >NEAR/gone'; echo y >HOME/papers/new";
    bash(&mut pipe, 1, &filled(&place, line));
    let gone = pipe.next("question");
    assert_eq!(gone["head"][0], "Let a command change near outside the project?");
    pipe.next("settled");
    let question = pipe.next("question");
    assert_eq!(question["head"][0], "Let a command change papers outside the project?");
    pipe.answer(&gone, "no");
    pipe.answer(&question, "yes");
    pipe.next("reply");
    pipe.end();
    assert_eq!(fs::read_to_string(place.home.join("papers/new")).unwrap(), "y\n");
    assert!(!top(&place).join("near/gone").exists());
}

/// A no bound what an answer for the session covers.
#[test]
fn a_no_leaves_standing_answers() {
    let place = place();
    let script = "import sys\nfor path in sys.argv[1:]:\n try: open(path, 'a').write('x')\n except OSError: pass\n";
    fs::write(place.root.join("w.py"), script).unwrap();
    let mut pipe = Piped::start(&place, AUTO);
    for (id, line, answer) in
        [(1, "python3 w.py NEAR/1", "session"), (2, "python3 w.py HOME/papers/old NEAR/2", "no")]
    {
        bash(&mut pipe, id, &filled(&place, line));
        let question = pipe.next("question");
        pipe.answer(&question, answer);
        let next = pipe.next_of(&["question", "reply"]);
        assert_eq!(next["type"], "reply", "{next}");
    }
    pipe.end();
    assert_eq!(fs::read_to_string(place.home.join("papers/old")).unwrap(), "old\n");
    assert!(top(&place).join("near/2").exists());
}

/// No file is made for a question that was taken back.
#[test]
fn question_is_taken_back_with_its_command() {
    for (line, cancels) in [
        ("timeout -s KILL 0.3 sh -c 'echo x >NEAR/new'; sleep 1.2; true", false),
        ("echo x >NEAR/new", true),
    ] {
        let place = place();
        let before = outside(&place);
        let mut pipe = Piped::start(&place, AUTO);
        bash(&mut pipe, 1, &filled(&place, line));
        let question = pipe.next("question");
        if cancels {
            pipe.send(&json!({ "type": "cancel", "id": 1 }));
        } else {
            pipe.next("settled");
        }
        pipe.next("reply");
        pipe.answer(&question, "yes");
        pipe.end();
        assert_eq!(outside(&place), before, "{line}");
    }
}

/// Opens that are refused at once stopped the clock of the command.
#[test]
fn time_passes_where_no_person_is_asked() {
    let place = place();
    let mut pipe = Piped::start(&place, AUTO);
    let line = "for n in 1 2 3 4 5 6; do (while :; do echo >/usr/new; done 2>&-) & done; sleep 30";
    let began = Instant::now();
    pipe.call(1, "Bash", json!({ "command": line, "timeout": 1_500 }));
    let next = pipe.next_of(&["question", "reply"]);
    assert_eq!(next["error"]["kind"], "timeout", "{next}");
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    pipe.end();
}

/// While a person is asked no time passes, and after the answer it does.
#[test]
fn time_stops_while_a_person_is_asked() {
    let place = place();
    let mut pipe = Piped::start(&place, AUTO);
    let line = filled(&place, "echo x >>NEAR/old; sleep 30");
    pipe.call(1, "Bash", json!({ "command": line, "timeout": 1_500 }));
    let question = pipe.next("question");
    std::thread::sleep(Duration::from_secs(2));
    assert!(pipe.is_quiet("reply"));
    pipe.answer(&question, "yes");
    let reply = pipe.next("reply");
    assert_eq!(reply["error"]["kind"], "timeout", "{reply}");
    assert_eq!(fs::read_to_string(top(&place).join("near/old")).unwrap(), "old\nx\n");
    pipe.end();
}

/// The old content of a large file cannot be kept, which asks for itself.
#[test]
fn large_file_asks_twice() {
    for (second, length) in [("yes", 2), ("no", 65 << 20)] {
        let place = place();
        let big = top(&place).join("near/big");
        fs::File::create(&big).unwrap().set_len(65 << 20).unwrap();
        let mut pipe = Piped::start(&place, AUTO);
        bash(&mut pipe, 1, &filled(&place, "echo x >NEAR/big"));
        let question = pipe.next("question");
        assert_eq!(question["head"][0], "Let a command change big outside the project?");
        pipe.answer(&question, "yes");
        let question = pipe.next("question");
        assert!(
            question["head"][0].as_str().unwrap().starts_with("Change big (65.0 MiB) for good")
        );
        pipe.answer(&question, second);
        let reply = pipe.next("reply");
        assert_eq!(fs::metadata(&big).unwrap().len(), length, "{reply}");
        pipe.end();
    }
}
