//! Commands without a sandbox that a person at a terminal allows for more than one call, and whose answers hold for one.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::live::{read, terminal};
use crate::pipe::Piped;
use crate::served::{Place, command};

/// It names nothing in the root.
const LINE: &str = "../home/deploy.sh one";

/// Makes a place with a script that changes the home directory.
fn place() -> Place {
    let place = Place::new();
    fs::create_dir(place.root.join("sub")).unwrap();
    for dir in ["../home", "home", "."] {
        let script = place.root.join(dir).join("deploy.sh");
        fs::create_dir_all(script.parent().unwrap()).unwrap();
        let ran = place.home.join("ran");
        fs::write(&script, format!("#!/bin/sh\necho ran >>{}\n", ran.display())).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    }
    place
}

pub(crate) fn unsandboxed(line: &str, needs: &[&str]) -> Value {
    json!({ "command": line, "needs": needs, "why": "to deploy" })
}

/// A program at a terminal of its own.
pub(crate) struct AtTerminal {
    pub(crate) child: Child,
    pub(crate) screen: File,
    pub(crate) shown: String,
}

impl AtTerminal {
    /// Starts a program whose results are not shown.
    fn start(command: &mut Command) -> Self {
        Self::start_with(command, |_| Stdio::null())
    }

    /// Starts a program whose standard output is of this form, made from a handle of the terminal.
    pub(crate) fn start_with(command: &mut Command, stdout: fn(File) -> Stdio) -> Self {
        let (screen, end) = terminal();
        rustix::io::ioctl_fionbio(&screen, true).unwrap();
        command.stdout(stdout(end.try_clone().unwrap()));
        command.stdin(end.try_clone().unwrap()).stderr(end);
        Self { child: command.spawn().unwrap(), screen, shown: String::new() }
    }

    /// Waits until a text is shown. Returns false if the program ended before.
    pub(crate) fn shows(&mut self, part: &str) -> bool {
        let until = Instant::now() + Duration::from_secs(60);
        while !self.shown.contains(part) {
            assert!(Instant::now() < until, "no {part:?}: {}", self.shown);
            std::thread::sleep(Duration::from_millis(20));
            read(&mut self.screen, &mut self.shown);
            if !self.shown.contains(part) && self.child.try_wait().unwrap().is_some() {
                return false;
            }
        }
        true
    }

    /// Presses a key, once the question was shown for a while.
    fn press(&mut self, key: &str) {
        std::thread::sleep(Duration::from_millis(1_200));
        self.screen.write_all(key.as_bytes()).unwrap();
    }
}

/// Calls Bash at a terminal and presses a key if it asks. Returns what was shown; nothing if it did not ask.
pub(crate) fn called_at_terminal(
    home: &Path,
    root: &Path,
    arguments: &Value,
    key: &str,
) -> Option<String> {
    let mut call = command(home);
    call.current_dir(root)
        .arg("--root")
        .arg(root)
        .args(["call", "Bash"])
        .arg(arguments.to_string());
    call.env("PATH", std::env::var_os("PATH").unwrap());
    let mut call = AtTerminal::start(&mut call);
    let asks = call.shows("Run it?");
    if asks {
        call.press(key);
    }
    call.child.wait().unwrap();
    read(&mut call.screen, &mut call.shown);
    asks.then_some(call.shown)
}

fn n_ran(place: &Place) -> usize {
    fs::read_to_string(place.home.join("ran")).unwrap_or_default().lines().count()
}

/// A later call that no terminal sees: the options, its line, needs and directory, and the kind of its error.
type Later<'a> = (&'a [&'a str], &'a str, &'a [&'a str], &'a str, Option<&'a str>);

const OUT: &[&str] = &["unsandboxed"];
const DENIED: Option<&str> = Some("approval_denied");
const FORBIDDEN: Option<&str> = Some("policy_denied");

/// Makes a later call; a question is answered by no.
fn check(place: &Place, (more, line, needs, cwd, error): Later<'_>) {
    let n_before = n_ran(place);
    let mut pipe = Piped::start(place, more);
    let mut call = json!({ "type": "call", "id": 1, "name": "Bash", "cwd": cwd });
    call["arguments"] = unsandboxed(line, needs);
    pipe.send(&call);
    let mut next = pipe.next_of(&["question", "reply"]);
    if next["type"] == "question" {
        pipe.answer(&next, "no");
        next = pipe.next("reply");
    }
    pipe.end();
    assert_eq!(next["error"]["kind"].as_str(), error, "{more:?} {line} in {cwd}: {next}");
    assert_eq!(n_ran(place) - n_before, usize::from(error.is_none()), "{more:?} {line}");
}

#[test]
fn always_holds_for_one_text_in_one_directory() {
    let place = place();
    let root = place.root.display().to_string();
    let asked = unsandboxed(LINE, OUT);
    let shown = called_at_terminal(&place.home, &place.root, &asked, "a").unwrap();
    let what =
        format!("{LINE:?} in {root} with needs unsandboxed, even if the files it runs change");
    for line in
        [format!("  s  for this session: {what}"), format!("  a  always in this project: {what}")]
    {
        assert!(shown.contains(&line), "{shown}");
    }
    assert_eq!(n_ran(&place), 1, "{shown}");
    assert_eq!(called_at_terminal(&place.home, &place.root, &asked, "n"), None);
    assert_eq!(n_ran(&place), 2);
    let rules = |name: &str, rule: &str| {
        let path = place.home.join(name);
        fs::write(&path, format!("[[rules]]\ncommand = \"../home/deploy.sh *\"\n{rule}\n"))
            .unwrap();
        path.display().to_string()
    };
    let asks = rules("asks.toml", "verdict = \"ask\"");
    let denies = rules("denies.toml", "verdict = \"deny\"");
    let ask: &[&str] = &["--approvals", "ask"];
    for later in [
        (ask, LINE, OUT, root.as_str(), None),
        (&["--approvals", "auto"], LINE, OUT, &root, None),
        (ask, "../home/deploy.sh one two", OUT, &root, DENIED),
        (ask, "../home/deploy.sh", OUT, &root, DENIED),
        (ask, LINE, OUT, &format!("{root}/sub"), DENIED),
        (ask, LINE, &["unsandboxed", "network"], &root, DENIED),
        (ask, LINE, &["network"], &root, DENIED),
        (&["--config", &asks], LINE, OUT, &root, DENIED),
        (&["--config", &denies], LINE, OUT, &root, FORBIDDEN),
        (&["--set", "run.unsandboxed=deny"], LINE, OUT, &root, FORBIDDEN),
        (&["--require-sandbox=landlock"], LINE, OUT, &root, FORBIDDEN),
        (&["--set", "tools.fs.deny_paths=[\"**/x\"]"], LINE, OUT, &root, FORBIDDEN),
        (&["--read-only"], LINE, OUT, &root, FORBIDDEN),
    ] {
        check(&place, later);
    }
    // Another project has answers of its own.
    let other = place.beside();
    let script = other.root.parent().unwrap().join("home/deploy.sh");
    fs::copy(place.home.join("deploy.sh"), script).unwrap();
    check(&other, (ask, LINE, OUT, &other.root.display().to_string(), DENIED));
    let mut explain = command(&place.home);
    explain.arg("--root").arg(&place.root).args(["policy", "explain", "--tool", "Bash"]);
    let explained = explain.arg(asked.to_string()).output().unwrap();
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(
        explained.starts_with("allow (rules): the rule `\"../home/deploy.sh one\" in "),
        "{explained}"
    );
    assert!(explained.contains("/grants/") && explained.contains(".toml:"), "{explained}");
    // Who takes the table away is asked again.
    let grants = fs::read_dir(place.home.join("state/sinew/grants")).unwrap();
    grants.map(|file| file.unwrap().path()).for_each(|path| fs::write(path, "").unwrap());
    check(&place, (ask, LINE, OUT, &root, DENIED));
}

/// Other calls change files of the project unasked, so what names one is answered each time.
#[test]
fn what_other_calls_may_change_is_not_remembered() {
    let place = place();
    fs::write(place.root.join("Makefile"), "all:\n\t@echo ran\n").unwrap();
    for line in ["./deploy.sh one", "sh deploy.sh", "make", "cat <deploy.sh"] {
        let asked = unsandboxed(line, OUT);
        for _ in 0..2 {
            let shown = called_at_terminal(&place.home, &place.root, &asked, "a");
            let shown = shown.unwrap_or_else(|| panic!("{line} ran unasked"));
            assert!(!shown.contains("always in this project"), "{line}: {shown}");
        }
    }
}

/// A program that answers is no terminal, by any of its words.
#[test]
fn others_answer_for_one_call() {
    let place = place();
    for (n, answer) in [(1, "session"), (2, "always"), (3, "exact")] {
        let mut pipe = Piped::start(&place, &["--approvals", "auto"]);
        pipe.call(1, "Bash", unsandboxed(LINE, OUT));
        let question = pipe.next("question");
        let covers = question["covers"].as_array().unwrap();
        assert_eq!(covers.len(), 1, "{question}");
        pipe.answer(&question, answer);
        assert_eq!(pipe.next("reply")["ok"], json!(true));
        assert_eq!(n_ran(&place), n);
        pipe.call(2, "Bash", unsandboxed(LINE, OUT));
        let question = pipe.next("question");
        pipe.answer(&question, "no");
        assert_eq!(pipe.next("reply")["error"]["kind"].as_str(), DENIED, "{answer}");
        pipe.end();
    }
}

/// At a second terminal, beside a program that is asked the same.
#[test]
fn second_terminal_lets_it_run_for_the_session() {
    let place = place();
    let sinew = command(&place.home);
    let mut approve = Command::new("setsid");
    approve
        .arg("--ctty")
        .arg(sinew.get_program())
        .args(sinew.get_args())
        .arg("approve")
        .env_clear();
    approve.envs(sinew.get_envs().filter_map(|(name, value)| Some((name, value?))));
    approve.env("PATH", std::env::var_os("PATH").unwrap()).current_dir(&place.home);
    let mut approve = AtTerminal::start(&mut approve);
    assert!(approve.shows("appear here"), "{}", approve.shown);
    let mut pipe = Piped::start(&place, &["--approvals", "auto"]);
    pipe.call(1, "Bash", unsandboxed(LINE, OUT));
    let question = pipe.next("question");
    assert_eq!(question["covers"].as_array().unwrap().len(), 1, "{question}");
    assert!(approve.shows("Run it? [y/s/a/?/N]"), "{}", approve.shown);
    approve.press("s");
    assert_eq!(pipe.next("reply")["ok"], json!(true));
    for (id, line, asks) in
        [(2, LINE, false), (3, "../home/deploy.sh one two", true), (4, LINE, false)]
    {
        pipe.call(id, "Bash", unsandboxed(line, OUT));
        let mut next = pipe.next_of(&["question", "reply"]);
        assert_eq!(next["type"] == "question", asks, "{line}: {next}");
        if asks {
            pipe.answer(&next, "no");
            next = pipe.next("reply");
        }
        assert_eq!(next["ok"], json!(!asks), "{next}");
    }
    pipe.end();
    assert_eq!(n_ran(&place), 3);
    approve.child.kill().unwrap();
    approve.child.wait().unwrap();
}
