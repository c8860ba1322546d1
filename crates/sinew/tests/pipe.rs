//! `sinew pipe` as an embedding program has it, and what an answer holds for.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::served::{Place, command};

/// How long a line may take to come.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running `sinew pipe`.
pub(crate) struct Piped {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
}

impl Piped {
    pub(crate) fn start(place: &Place, more: &[&str]) -> Self {
        let mut command = command(&place.home);
        command.arg("--root").arg(&place.root).args(more);
        if !more.contains(&"--approvals") {
            command.args(["--approvals", "ask"]);
        }
        command.arg("pipe");
        let path = std::env::var_os("PATH").unwrap();
        let mut child =
            command.env("PATH", path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let line = line.unwrap();
                let line =
                    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, input, lines }
    }

    pub(crate) fn send(&mut self, line: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn call(&mut self, id: u64, name: &str, arguments: Value) {
        self.send(&json!({ "type": "call", "id": id, "name": name, "arguments": arguments }));
    }

    fn bash(&mut self, id: u64, text: &str) {
        self.call(id, "Bash", json!({ "command": text }));
    }

    pub(crate) fn answer(&mut self, question: &Value, answer: &str) {
        self.send(&json!({ "type": "answer", "question": question["question"], "answer": answer }));
    }

    /// Returns the next line of a type; those of others are passed over.
    #[track_caller]
    pub(crate) fn next(&self, wanted: &str) -> Value {
        self.next_of(&[wanted])
    }

    /// Returns the next line of one of some types.
    #[track_caller]
    pub(crate) fn next_of(&self, wanted: &[&str]) -> Value {
        loop {
            let line =
                self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no {wanted:?}"));
            if wanted.iter().any(|wanted| line["type"] == *wanted) {
                return line;
            }
        }
    }

    /// Returns whether nothing of a type comes for a moment.
    pub(crate) fn is_quiet(&self, unwanted: &str) -> bool {
        loop {
            match self.lines.recv_timeout(Duration::from_millis(300)) {
                Ok(line) if line["type"] == unwanted => return false,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return true,
            }
        }
    }

    /// Kills it.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Closes the input and returns every line that still comes.
    pub(crate) fn end(mut self) -> Vec<Value> {
        drop(self.input.take());
        let rest: Vec<Value> = self.lines.iter().collect();
        assert!(self.child.wait().unwrap().success());
        rest
    }
}

pub(crate) fn text(reply: &Value) -> String {
    reply["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn calls_are_answered_as_they_finish() {
    let place = Place::new();
    fs::write(place.root.join("a.txt"), "one\n").unwrap();
    let mut pipe = Piped::start(&place, &["--approvals", "allow"]);
    pipe.bash(1, "sleep 1; echo late");
    pipe.call(2, "Read", json!({ "file_path": "a.txt" }));
    pipe.send(&json!({ "type": "call", "id": "x", "name": "Nothing" }));
    let ids: Vec<Value> = (0..3).map(|_| pipe.next("reply")["id"].clone()).collect();
    assert_eq!(ids, [json!(2), json!("x"), json!(1)]);
    for (line, kind, words) in [
        (
            json!({ "type": "call", "id": 3, "name": "Read", "more": 1 }),
            "invalid_args",
            "unknown field",
        ),
        (
            json!({ "type": "call", "id": 4, "name": "Read", "session": "a b" }),
            "invalid_args",
            "`session`",
        ),
        (json!({ "type": "what" }), "invalid_args", "unknown variant"),
        (json!([1]), "invalid_args", "not a line of this format"),
    ] {
        pipe.send(&line);
        let reply = pipe.next("reply");
        assert_eq!(reply["error"]["kind"], kind, "{reply}");
        assert!(text(&reply).contains(words), "{reply}");
    }
    pipe.bash(5, "sleep 30");
    pipe.bash(5, "true");
    assert!(text(&pipe.next("reply")).contains("a call of the id 5 runs still"));
    pipe.send(&json!({ "type": "cancel", "id": 5 }));
    assert_eq!(pipe.next("reply")["error"]["kind"], "cancelled");
    assert!(pipe.end().is_empty());
}

#[test]
fn questions_are_answered_by_whoever_holds_the_other_end() {
    let place = Place::new();
    let mut pipe = Piped::start(&place, &[]);
    let write = |text: &str| json!({ "file_path": "b.txt", "content": text });
    for (id, answer, reason, kind) in [
        (1, "yes", None, None),
        (2, "no", Some("use another name"), Some("approval_denied")),
        (3, "call", None, None),
    ] {
        pipe.call(id, "Write", write(&format!("{id}\n")));
        let question = pipe.next("question");
        assert_eq!((&question["tool"], &question["id"]), (&json!("Write"), &json!(id.to_string())));
        assert_eq!(question["n_asked"], id);
        let line = json!({
            "type": "answer", "question": question["question"], "answer": answer, "reason": reason,
        });
        pipe.send(&line);
        assert_eq!(pipe.next("settled")["question"], question["question"]);
        let reply = pipe.next("reply");
        assert_eq!(reply["error"]["kind"].as_str(), kind, "{reply}");
        reason.iter().for_each(|reason| assert!(text(&reply).contains(reason), "{reply}"));
        // A second answer counts for nothing.
        pipe.send(&line);
        assert_eq!(pipe.next("error")["message"], "no such question waits");
    }
    assert_eq!(fs::read_to_string(place.root.join("b.txt")).unwrap(), "3\n");
    pipe.bash(4, "touch z");
    let question = pipe.next("question");
    pipe.answer(&question, "perhaps");
    assert!(pipe.next("error")["message"].as_str().unwrap().contains("no such answer: perhaps"));
    // No approver is left once the input ends, and what could be undone does not run either.
    pipe.call(5, "Write", json!({ "file_path": "z.txt", "content": "" }));
    pipe.next("question");
    let rest = pipe.end();
    let replies: Vec<_> = rest.iter().filter(|line| line["type"] == "reply").collect();
    assert_eq!(replies.len(), 2, "{rest:?}");
    for reply in replies {
        assert_eq!(reply["error"]["kind"], "approval_denied");
        assert!(text(reply).contains("no approver answered"), "{reply}");
    }
    assert!(!place.root.join("z").exists() && !place.root.join("z.txt").exists());
}

#[test]
fn an_answer_covers_what_it_says_and_for_as_long() {
    let place = Place::new();
    let mut pipe = Piped::start(&place, &[]);
    pipe.bash(1, "touch a");
    pipe.bash(2, "touch b");
    pipe.bash(3, "mkdir c");
    let asked: Vec<Value> = (0..3).map(|_| pipe.next("question")).collect();
    let touch = asked.iter().find(|one| one["command"] == "touch a").unwrap();
    assert_eq!(
        touch["covers"][2],
        json!({
            "scope": "forever",
            "what": ["touch *"],
            "text": "always in this project: touch *, in any directory, even if the files it runs change",
        })
    );
    pipe.answer(touch, "forever");
    let ids: Vec<Value> = (0..2).map(|_| pipe.next("reply")["id"].clone()).collect();
    assert!(
        ids.contains(&json!(1)) && ids.contains(&json!(2)),
        "what waits is judged anew: {ids:?}"
    );
    pipe.bash(4, "touch d");
    assert_eq!(pipe.next("reply")["meta"]["ruling"], "allow (grant)");
    pipe.send(&json!({
        "type": "call", "id": 5, "name": "Bash", "session": "other", "arguments": { "command": "touch e" },
    }));
    assert_eq!(
        pipe.next("question")["session"],
        "other",
        "it counts elsewhere from the next start on"
    );
    pipe.end();
    assert!(["a", "b", "d"].iter().all(|name| place.root.join(name).exists()));
    assert!(!place.root.join("c").exists() && !place.root.join("e").exists());

    let mut next = Piped::start(&place, &[]);
    next.bash(1, "touch f");
    assert_eq!(next.next("reply")["meta"]["ruling"], "allow (rules)");
    next.bash(2, "touch f > g");
    assert_eq!(next.next("question")["command"], "touch f > g", "a pattern covers its words alone");
    next.end();
    let mut explain = command(&place.home);
    explain.arg("--root").arg(&place.root).args(["policy", "explain", "touch x"]);
    let said = String::from_utf8(explain.output().unwrap().stdout).unwrap();
    assert!(said.contains("decided by a rule of: user, ") && said.contains("/grants/"), "{said}");
    let mut audit = command(&place.home);
    audit.args(["audit", "export"]);
    let exported = String::from_utf8(audit.output().unwrap().stdout).unwrap();
    assert!(exported.contains("forever: touch *"), "{exported}");
    let elsewhere = place.home.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let mut place = place;
    place.root = elsewhere;
    let mut other = Piped::start(&place, &[]);
    other.bash(1, "touch f");
    assert_eq!(other.next("question")["command"], "touch f", "another root");
    other.end();
}

/// The command of a question, the files before it, a change by the user before the answer, and its file.
type Changed = (&'static str, fn(&Path), fn(&Path), &'static str);

const CHANGES: &[Changed] = &[
    (
        "./run.sh a",
        |root| script(&root.join("run.sh"), "echo before"),
        |root| script(&root.join("run.sh"), "echo after!"),
        "run.sh",
    ),
    (
        "cd sub && sh -e ./x.sh",
        |root| script(&root.join("sub/x.sh"), "echo before"),
        |root| script(&root.join("sub/x.sh"), "echo after!"),
        "sub/x.sh",
    ),
    ("sh new.sh", |_| (), |root| script(&root.join("new.sh"), "echo after"), "new.sh"),
    (
        "sh old.sh",
        |root| script(&root.join("old.sh"), "echo before"),
        |root| fs::remove_file(root.join("old.sh")).unwrap(),
        "old.sh",
    ),
    (
        "sh --rcfile=rc",
        |root| fs::write(root.join("rc"), "a").unwrap(),
        |root| fs::write(root.join("rc"), "b").unwrap(),
        "rc",
    ),
    (
        "make all",
        |root| fs::write(root.join("Makefile"), "all:\n\techo a\n").unwrap(),
        |root| fs::write(root.join("Makefile"), "all:\n\techo b\n").unwrap(),
        "Makefile",
    ),
    (
        "sh link.sh",
        |root| {
            script(&root.join("one.sh"), "echo same");
            script(&root.join("two.sh"), "echo same");
            std::os::unix::fs::symlink("one.sh", root.join("link.sh")).unwrap();
        },
        |root| {
            fs::remove_file(root.join("link.sh")).unwrap();
            std::os::unix::fs::symlink("two.sh", root.join("link.sh")).unwrap();
        },
        "link.sh",
    ),
    // Each of these names a script where a look at its words alone would not find it.
    ("sh z.sh %MANY%", |root| script(&root.join("z.sh"), "echo before"), after_z, "z.sh"),
    (
        "cd a && cd b && cd c && cd d && sh z.sh",
        |root| script(&root.join("a/b/c/d/z.sh"), "echo before"),
        |root| script(&root.join("a/b/c/d/z.sh"), "echo after!"),
        "a/b/c/d/z.sh",
    ),
    (
        "cd -- sub && sh z.sh",
        |root| script(&root.join("sub/z.sh"), "echo before"),
        |root| script(&root.join("sub/z.sh"), "echo after!"),
        "sub/z.sh",
    ),
    ("sh < z.sh", before_z, after_z, "z.sh"),
    ("sh <z.sh", before_z, after_z, "z.sh"),
    ("bash -c './z.sh a'", before_z, after_z, "z.sh"),
    ("eval \"sh z.sh\"", before_z, after_z, "z.sh"),
    ("X=z.sh; sh $X", before_z, after_z, "z.sh"),
    ("sh \"$PWD/z.sh\"", before_z, after_z, "z.sh"),
    ("sh {z,}.sh; sh z.sh", before_z, after_z, "z.sh"),
    (
        "make -fm.mk",
        |root| fs::write(root.join("m.mk"), "all:\n\techo a\n").unwrap(),
        |root| fs::write(root.join("m.mk"), "all:\n\techo b\n").unwrap(),
        "m.mk",
    ),
    (
        "make -C sub",
        |root| {
            fs::create_dir(root.join("sub")).unwrap();
            fs::write(root.join("sub/Makefile"), "all:\n\techo a\n").unwrap();
        },
        |root| fs::write(root.join("sub/Makefile"), "all:\n\techo b\n").unwrap(),
        "sub/Makefile",
    ),
    (
        "./tool",
        |root| std::os::unix::fs::symlink("/usr/bin/echo", root.join("tool")).unwrap(),
        |root| {
            fs::remove_file(root.join("tool")).unwrap();
            std::os::unix::fs::symlink("/usr/bin/dirname", root.join("tool")).unwrap();
        },
        "tool",
    ),
    (
        "sh new.sh",
        |_| (),
        |root| std::os::unix::fs::symlink("/etc/profile", root.join("new.sh")).unwrap(),
        "new.sh",
    ),
    (
        "mytool",
        |root| {
            fs::create_dir_all(root.join(".venv/bin")).unwrap();
            fs::write(root.join(".venv/pyvenv.cfg"), "home = /usr/bin\n").unwrap();
            script(&root.join(".venv/bin/mytool"), "echo before");
        },
        |root| script(&root.join(".venv/bin/mytool"), "echo after!"),
        "mytool",
    ),
    (
        "touch x",
        |_| (),
        |root| {
            fs::create_dir_all(root.join(".venv/bin")).unwrap();
            fs::write(root.join(".venv/pyvenv.cfg"), "home = /usr/bin\n").unwrap();
            script(&root.join(".venv/bin/touch"), "echo planted");
        },
        "the program touch",
    ),
];

fn before_z(root: &Path) {
    script(&root.join("z.sh"), "echo before");
}

fn after_z(root: &Path) {
    script(&root.join("z.sh"), "echo after!");
}

fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// One answer for the session went for every later change, although each was to ask.
#[test]
fn where_each_change_asks_no_answer_is_for_more_than_its_call() {
    let each = ["--set", "tools.fs.require_approval=true"];
    for options in [&each[..], &["--dialect", "moltis"]] {
        for answer in ["exact", "session", "forever"] {
            let place = Place::new();
            let mut pipe = Piped::start(&place, options);
            for (id, content) in [(1, "one\n"), (2, "two\n"), (3, "three\n")] {
                let file = place.root.join("new.txt");
                pipe.call(id, "Write", json!({ "file_path": file, "content": content }));
                let question = pipe.next("question");
                assert_eq!(question["rule"], "require_approval", "{options:?}: {question}");
                let covers = question["covers"].as_array().unwrap();
                assert_eq!(covers.len(), 1, "{options:?}: {question}");
                pipe.answer(&question, answer);
                assert_eq!(pipe.next("reply")["ok"], true, "{options:?} {answer}");
            }
            pipe.end();
        }
    }
}

#[test]
fn what_changed_since_the_question_refuses() {
    for (command, before, change, named) in CHANGES {
        // The control: what did not change runs, so that it is the change that refuses.
        for changes in [false, true] {
            let place = Place::new();
            before(&place.root);
            let mut pipe = Piped::start(&place, &["--set", "run.activate=[\"venv\"]"]);
            let many: Vec<String> = (0..300).map(|n| format!("a{n}")).collect();
            pipe.bash(1, &command.replace("%MANY%", &many.join(" ")));
            let question = pipe.next("question");
            if changes {
                change(&place.root);
            }
            pipe.answer(&question, "yes");
            let reply = pipe.next("reply");
            let is_stale = reply["error"]["kind"] == "stale";
            assert_eq!(is_stale, changes, "{command}: {reply}");
            let said = text(&reply);
            assert!(!changes || (said.contains(named) && said.contains("changed after")), "{said}");
            assert!(!said.contains("after!") && !said.contains("planted"), "{command}: {said}");
            pipe.end();
        }
    }
}

#[test]
fn a_directory_that_is_swapped_since_the_question_refuses() {
    let place = Place::new();
    fs::create_dir(place.root.join("sub")).unwrap();
    let mut pipe = Piped::start(&place, &[]);
    pipe.call(1, "Terminal", json!({ "command": "touch here", "cwd": "sub" }));
    let question = pipe.next("question");
    fs::rename(place.root.join("sub"), place.root.join("old")).unwrap();
    fs::create_dir(place.root.join("sub")).unwrap();
    pipe.answer(&question, "yes");
    let reply = pipe.next("reply");
    assert_eq!(reply["ok"], false, "{reply}");
    assert!(!place.root.join("sub/here").exists() && !place.root.join("old/here").exists());
    // A file that was shown as it was.
    fs::write(place.root.join("a.txt"), "one\n").unwrap();
    pipe.call(2, "Write", json!({ "file_path": "a.txt", "content": "two\n" }));
    let question = pipe.next("question");
    fs::write(place.root.join("a.txt"), "else\n").unwrap();
    pipe.answer(&question, "yes");
    assert_eq!(pipe.next("reply")["error"]["kind"], "stale");
    assert_eq!(fs::read_to_string(place.root.join("a.txt")).unwrap(), "else\n");
    assert!(pipe.is_quiet("question"));
    pipe.end();
}

#[test]
fn a_question_times_out_and_says_that_it_was_no_denial() {
    let place = Place::new();
    let mut pipe = Piped::start(&place, &["--set", "approval_timeout_s=1"]);
    pipe.bash(1, "touch x");
    let question = pipe.next("question");
    assert_eq!(question["timeout_s"], 1);
    let reply = pipe.next("reply");
    assert_eq!(reply["error"]["kind"], "approval_timeout");
    assert!(text(&reply).contains("it was not denied"), "{reply}");
    pipe.answer(&question, "yes");
    assert_eq!(pipe.next("error")["message"], "no such question waits");
    pipe.end();
    assert!(!place.root.join("x").exists());
}
