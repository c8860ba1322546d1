//! Commands as people and models run them, in the sandbox that this machine has.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{self, Answers};
use crate::served::{Served, command};

/// A home directory with a project in it.
struct Home {
    dir: TempDir,
    project: PathBuf,
}

impl Home {
    fn new() -> Self {
        Self::in_dir(tempfile::tempdir().unwrap())
    }

    /// Makes one where commands see the machine's own files: temporary files are the session's.
    fn seen() -> Self {
        let home = std::env::home_dir().unwrap();
        Self::in_dir(tempfile::tempdir_in(home).unwrap())
    }

    fn in_dir(dir: TempDir) -> Self {
        let project = fs::canonicalize(dir.path()).unwrap().join("project");
        fs::create_dir(&project).unwrap();
        Self { dir, project }
    }

    fn serve(&self, more: &[&str]) -> Served {
        Served::start(self.dir.path(), &[&self.project], more, 256)
    }

    /// Runs one call; returns its exit code and both outputs.
    fn run(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = command(self.dir.path());
        let done = command.arg("--root").arg(&self.project).args(args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (done.status.code().unwrap_or(-1), text(&done.stdout), text(&done.stderr))
    }
}

/// Every command asks that is not a plain read.
const ASK: &[&str] = &["--set", "run.ask=always"];

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

#[test]
fn a_command_answers_with_its_output_and_its_end() {
    let home = Home::new();
    for (command, code, out, err) in [
        ("echo one; echo two >&2", 0, "one\ntwo", ""),
        ("echo one; exit 3", 1, "", "one\n[exit code 3]"),
        ("true", 0, "[no output]", ""),
        ("kill -9 $$", 1, "", "[ended by signal 9 (SIGKILL)]"),
        ("sleep 600 & echo on", 0, "1 process that the command left running was ended", ""),
    ] {
        let arguments = json!({ "command": command }).to_string();
        let done = home.run(&["--approvals", "allow", "call", "Bash", &arguments]);
        assert_eq!(done.0, code, "{command}: {done:?}");
        assert!(done.1.contains(out) && done.2.contains(err), "{command}: {done:?}");
    }
}

#[test]
fn who_may_not_run_commands_is_told_why() {
    let home = Home::new();
    let arguments = json!({ "command": "touch made" }).to_string();
    for (more, code, words) in [
        (ASK, 3, "(`touch` is not known to be read-only; it cannot run unasked: `run.ask` is"),
        (&["--approvals", "deny"], 3, "this call needs approval"),
        (&["--approvals", "allow", "--read-only"], 3, "profile `read-only`"),
        (
            &["--approvals", "allow", "--set", "tools.policy.deny=[\"Bash\"]"],
            3,
            "the rule `Bash` of flag --set denies it",
        ),
        (&["--approvals", "allow", "--set", "run.sandbox=box"], 2, "`run.sandbox`"),
        (
            &["--approvals", "allow", "--require-sandbox=landlock", "--set", "run.sandbox=none"],
            2,
            "weaker than `run.require_sandbox`",
        ),
    ] {
        let args = [more, &["call", "Bash", &arguments]].concat();
        let done = home.run(&args);
        assert_eq!(done.0, code, "{more:?}: {done:?}");
        assert!(done.2.contains(words), "{more:?}: {done:?}");
    }
    assert!(!home.project.join("made").exists());
}

/// No approver can be asked here, so a command that is not plain does not run.
#[test]
fn what_only_reads_runs_unasked() {
    let home = Home::new();
    fs::create_dir_all(home.project.join(".venv/bin")).unwrap();
    fs::write(home.project.join(".venv/pyvenv.cfg"), "").unwrap();
    fs::write(home.project.join("a.txt"), "one\ntwo\n").unwrap();
    // A repository must not choose what a name means.
    let planted = home.project.join(".venv/bin/cat");
    fs::write(&planted, "#!/bin/sh\necho planted\n").unwrap();
    fs::set_permissions(&planted, fs::Permissions::from_mode(0o755)).unwrap();
    for (more, command, code, words) in [
        (ASK, "cat a.txt", 0, "one\ntwo"),
        (ASK, "cat a.* | head -n 1", 0, "one"),
        (ASK, "cat a.txt > b.txt", 3, "`>` opens or changes `b.txt`"),
        (ASK, "cat /etc/hostname", 3, "is not where plain reads may look"),
        (ASK, "cat $HOME/x", 3, "only known when it runs"),
        (&["--set", "run.sandbox=none"], "cat a.txt", 3, "commands run without a sandbox here"),
        (&["--approvals", "deny"], "cat a.txt", 0, "one"),
        (&["--read-only"], "cat a.txt", 3, "profile `read-only`"),
        (
            &["--set", "tools.policy.deny=[\"Bash\"]"],
            "cat a.txt",
            3,
            "the rule `Bash` of flag --set denies it",
        ),
    ] {
        let arguments = json!({ "command": command }).to_string();
        let args = [more, &["call", "Bash", &arguments]].concat();
        let done = home.run(&args);
        assert_eq!(done.0, code, "{more:?} {command}: {done:?}");
        assert!(done.1.contains(words) || done.2.contains(words), "{more:?} {command}: {done:?}");
    }
    assert!(!home.project.join("b.txt").exists());
}

#[test]
fn a_session_goes_on_from_call_to_call() {
    let home = Home::new();
    fs::create_dir(home.project.join("sub")).unwrap();
    let mut served = home.serve(&[]);
    let mut bash = |arguments: Value| served.call("Bash", &arguments);
    let moved = bash(json!({ "command": "cd sub" }));
    assert_eq!(text(&moved), "[working directory: sub]");
    assert_eq!(text(&bash(json!({ "command": "basename $PWD" }))), "sub");
    bash(json!({ "command": "echo kept >${TMPDIR:-/tmp}/kept; export LOST=1" }));
    let kept = bash(json!({ "command": "cat ${TMPDIR:-/tmp}/kept; echo [$LOST]" }));
    assert_eq!(text(&kept), "kept\n[]");
    let long = bash(json!({ "command": "seq 1 20000" }));
    let stored = long["meta"]["output_path"].as_str().unwrap().to_owned();
    assert!(text(&long).contains(&format!("; the whole output is in {stored}]")));
    let read = served.call("Read", &json!({ "file_path": stored, "offset": 15_000, "limit": 1 }));
    assert!(text(&read).contains("15000→15000"), "{read}");
}

#[test]
fn commands_come_after_what_a_person_waits_for() {
    let home = Home::new();
    let own = fs::read_to_string("/proc/self/oom_score_adj").unwrap();
    let own: i32 = own.trim().parse().unwrap();
    let nicer = std::process::Command::new("nice").output().unwrap().stdout;
    let nicer: i32 = String::from_utf8(nicer).unwrap().trim().parse().unwrap();
    let command = json!({ "command": "cat /proc/self/oom_score_adj; nice" }).to_string();
    let (code, out, err) = home.run(&["--approvals", "allow", "call", "Bash", &command]);
    let told: Vec<_> = out.lines().take(2).collect();
    let expected = [own.max(500).to_string(), (nicer + 5).min(19).to_string()];
    assert_eq!((code, told), (0, expected.iter().map(String::as_str).collect()), "{err}");
}

/// A removed working directory once kept every later command of the session from starting.
#[test]
fn removed_working_directory_gives_way_to_the_one_above() {
    let home = Home::new();
    let sub = home.project.join("sub");
    let went_back = |dir: &str, to: &std::path::Path| {
        let (dir, to) = (home.project.join(dir), to.display());
        let dir = dir.display();
        format!(
            "[working directory: {dir} is not there or cannot be entered; commands start in {to}]"
        )
    };
    for removes_itself in [true, false] {
        fs::create_dir_all(sub.join("build/deep")).unwrap();
        let mut served = home.serve(&[]);
        let mut bash = |command: &str| served.call("Bash", &json!({ "command": command }));
        let (told, expected) = if removes_itself {
            (bash("cd sub/build && rm -rf ../build"), went_back("sub/build", &sub))
        } else {
            bash("cd sub/build/deep");
            fs::remove_dir_all(sub.join("build")).unwrap();
            let expected = format!("sub\n{}", went_back("sub/build/deep", &sub));
            (bash("basename $PWD"), expected)
        };
        // The command that removed it has a checkpoint, which the reply names last.
        assert!(text(&told).starts_with(&expected), "{told}");
        assert_eq!(text(&bash("basename $PWD")), "sub");
        fs::remove_dir_all(&sub).unwrap();
        let above = bash("ls");
        assert!(text(&above).ends_with(&went_back("sub", &home.project)), "{above}");
        assert_eq!(text(&bash("basename $PWD")), "project");
    }
}

/// A directory that is there and closed to commands once stopped the session as well.
#[test]
fn closed_working_directory_gives_way_to_the_one_above() {
    let home = Home::new();
    let mut served = home.serve(&[]);
    let mut bash = |command: &str| served.call("Bash", &json!({ "command": command }));
    bash("mkdir -p sub/closed/deep; cd sub/closed/deep; chmod 000 ../../closed");
    let told: Vec<Value> = (0..3).map(|_| bash("basename $PWD")).collect();
    fs::set_permissions(home.project.join("sub/closed"), fs::Permissions::from_mode(0o755))
        .unwrap();
    let last = told.last().map(text).unwrap_or_default();
    assert!(last.starts_with("sub\n") || last == "sub", "{told:?}");
    assert!(told.iter().any(|one| text(one).contains("cannot be entered")), "{told:?}");
}

/// A wait for a line that the first reply had shown already once took its whole time.
#[test]
fn wait_for_a_line_that_was_shown_ends_at_once() {
    const SERVER: &str = "echo starting; echo listening on 80; read x; echo request";
    let home = Home::new();
    let mut served = home.serve(&[]);
    let fifo =
        json!({ "command": format!("mkfifo in; ({SERVER}) <>in"), "run_in_background": true });
    let begun = served.call("Bash", &fifo);
    let mut look = |until: &str, timeout: u64| {
        let arguments = json!({ "bash_id": "b1", "until": until, "timeout": timeout });
        let began = std::time::Instant::now();
        let reply = served.call("BashOutput", &arguments);
        (text(&reply).to_owned(), began.elapsed())
    };
    if !text(&begun).contains("listening") {
        look("listening", 20_000);
    }
    let (words, took) = look("listening on \\d+$", 20_000);
    assert!(took < std::time::Duration::from_secs(10), "{took:?}: {words}");
    assert!(words.contains("matches output that an earlier reply showed"), "{words}");
    let (words, _) = look("request", 300);
    assert!(words.contains("timed out: no output matched `request`"), "{words}");
    fs::write(home.project.join("in"), "go\n").unwrap();
    let (words, _) = look("request", 20_000);
    assert!(words.starts_with("request\n") && !words.contains("matched"), "{words}");
}

/// A command in the background tells what it was refused wherever its end is told.
#[test]
fn refusals_of_background_commands_come_first() {
    let home = Home::new();
    let mut served = home.serve(&["--tools", "all"]);
    let mut check = |tool: &str, arguments: &Value, first: &str| {
        let reply = served.call(tool, arguments);
        assert!(text(&reply).starts_with(first), "{tool}: {reply}");
    };
    let background = |command: &str| json!({ "command": command, "run_in_background": true });
    let refused = "[the sandbox refused to change ";
    check("Bash", &background("n=.env; echo x >${n}rc; true"), refused);
    check("Bash", &background("n=.env; touch ${n}rc 2>&-; sleep 2"), "[b2 runs");
    check("BashOutput", &json!({ "bash_id": "b2", "timeout": 20_000 }), refused);
    check("Bash", &background("n=.env; touch ${n}rc 2>&-; sleep 600"), "[b3 runs");
    check("KillShell", &json!({ "shell_id": "b3" }), refused);
    let terminal = json!({ "command": "n=.env; echo x >${n}rc; sleep 1", "timeout": 20_000 });
    check("Terminal", &terminal, refused);
}

/// No call waits for such a command, so its end records what it changed.
#[test]
fn background_changes_that_act_later_are_recorded() {
    let home = Home::seen();
    let mut served = home.serve(&[]);
    let command = "until test -e go; do sleep 0.02; done; echo all: >Makefile";
    served.call("Bash", &json!({ "command": command, "run_in_background": true }));
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let told = loop {
        let reply = served.call("Bash", &json!({ "command": "touch go" })).to_string();
        assert!(std::time::Instant::now() < until, "{reply}");
        if reply.contains("[b1 has ended: ") {
            break reply;
        }
    };
    assert!(told.contains("[b1 runs on your machine later: Makefile]"), "{told}");
    // Another one ends with the session, and no reply says so.
    let command = "echo all: >justfile; touch made; sleep 600";
    served.call("Bash", &json!({ "command": command, "run_in_background": true }));
    served.call("Bash", &json!({ "command": "until test -e made; do sleep 0.02; done" }));
    drop(served);
    let (_, log, _) = home.run(&["audit", "list"]);
    for end in
        ["runs on your machine later: Makefile; until", "later: justfile; echo all: >justfile"]
    {
        assert!(log.contains("background_end") && log.contains(end), "{end}: {log}");
    }
}

/// One command serves a page, another fetches it, and nothing of the machine is reached.
#[test]
fn commands_of_a_session_reach_one_another() {
    const SERVE: &str = r#"perl -MSocket -e '
        socket(S, PF_INET, SOCK_STREAM, 0); setsockopt(S, SOL_SOCKET, SO_REUSEADDR, 1);
        bind(S, sockaddr_in(8123, INADDR_LOOPBACK)) and listen(S, 5) or die $!;
        while (accept(C, S)) { sysread C, $_, 999; syswrite C, "HTTP/1.0 200 OK\r\n\r\nthe page\n"; close C }'"#;
    const FETCH: &str = r#"perl -MSocket -e '
        for (1 .. 50) {
            socket(S, PF_INET, SOCK_STREAM, 0);
            last if connect(S, sockaddr_in(8123, INADDR_LOOPBACK));
            select undef, undef, undef, 0.1;
        }
        syswrite S, "GET / HTTP/1.0\r\n\r\n"; print while <S>'"#;
    let home = Home::new();
    let mut served = home.serve(&[]);
    let level = served.call("Bash", &json!({ "command": "true" }));
    if level["meta"]["sandbox"]["level"] == "landlock" {
        println!("SKIPPED: commands have no sockets on the sandbox level landlock");
        return;
    }
    let begun = served.call("Bash", &json!({ "command": SERVE, "run_in_background": true }));
    assert!(text(&begun).starts_with("[b1 runs in the background"), "{begun}");
    let fetched = served.call("Bash", &json!({ "command": FETCH }));
    assert!(text(&fetched).contains("the page"), "{fetched}");
    assert!(text(&fetched).contains("[background b1: running for"), "{fetched}");
}

/// A change of a protected name that the text does not show, so that no question is about it.
const UNNAMED: &str = "n=.env; echo x >${n}rc";

#[test]
fn a_refusal_names_what_would_allow_it() {
    let home = Home::seen();
    fs::write(home.project.join("secret"), "canary").unwrap();
    fs::write(home.dir.path().join(".netrc"), "canary").unwrap();
    let deny = format!("tools.fs.deny_paths=[\"{}/secret\"]", home.project.display());
    for (command, words, grant) in [
        (UNNAMED, "refused to change {root}/.envrc: programs here", ".envrc\"]"),
        (
            "h=hooks; mkdir -p a/.git/$h; echo x >a/.git/$h/pre-commit",
            "/a/.git/hooks/pre-commit: `.git/hooks/`",
            "run.unprotected = ",
        ),
        ("echo x >/etc/sinew-test", "change /etc/sinew-test: it is outside", "--root /etc"),
        (
            "echo x >/opt/sinew-test",
            "change /opt/sinew-test: it is outside",
            "repeat the call with needs=[\"write:/opt\"] and why, or --root /opt",
        ),
        ("cat secret", "refused to open {root}/secret", "tools.fs.deny_paths"),
        ("cat ~/.netrc", "refused to read {home}/.netrc", "run.show = [\"{home}/.netrc\"]"),
        (
            "perl -MSocket -e 'socket(S, PF_INET, SOCK_STREAM, 0) or exit 2; \
             connect(S, sockaddr_in(443, inet_aton(\"192.0.2.1\"))) or exit 1'",
            "refused to reach 192.0.2.1:443: the network is closed",
            "repeat the call with needs=[\"network\"] and why, or run.network = true",
        ),
    ] {
        let filled = |text: &str| {
            text.replace("{root}", &home.project.display().to_string())
                .replace("{home}", &home.dir.path().display().to_string())
        };
        let arguments = json!({ "command": command }).to_string();
        let done = home.run(&["--approvals", "allow", "--set", &deny, "call", "Bash", &arguments]);
        if done.2.contains("exit code 2") {
            println!("SKIPPED: commands have no sockets here");
            continue;
        }
        let is_told = command == UNNAMED;
        assert_eq!(done.0, if is_told { 3 } else { 1 }, "{command}: {done:?}");
        let (words, grant) = (filled(words), filled(grant));
        assert!(done.2.contains(&words) && done.2.contains(&grant), "{command}: {done:?}");
        assert!(!done.2.contains("canary") && !done.1.contains("canary"), "{command}: {done:?}");
        // Once a command that ended with 0 kept this to itself.
        let piped = json!({ "command": format!("({command}) 2>&1 | tail -n 1; true") }).to_string();
        let done = home.run(&["--approvals", "allow", "--set", &deny, "call", "Bash", &piped]);
        // A refused change is a failure all the same.
        let fails = grant.contains(".envrc") || grant.starts_with("run.unprotected");
        assert_eq!(done.0, if fails { 3 } else { 0 }, "{command}: {done:?}");
        let said = if fails { &done.2 } else { &done.1 };
        let said = said.trim_start_matches("sinew: ");
        assert!(said.starts_with("[the sandbox refused to "), "{command}: {done:?}");
        assert!(said.contains(&words) && said.contains(&grant), "{command}: {done:?}");
    }
    let shown = format!("run.show=[\"{}/.netrc\"]", home.dir.path().display());
    let netrc = ["--set", &shown, "call", "Bash", r#"{"command": "cat ~/.netrc"}"#];
    let done = home.run(&[&["--approvals", "allow"], &netrc[..]].concat());
    assert!(done.1.contains("canary"), "{done:?}");
}

#[test]
fn what_direnv_was_allowed_is_in_the_environment() {
    let home = Home::seen();
    fs::write(home.project.join(".envrc"), "export FROM_ENVRC=allowed\n").unwrap();
    fs::create_dir(home.project.join("sub")).unwrap();
    let call = ["call", "Bash", r#"{"command": "cd sub; echo [$FROM_ENVRC] ${PWD##*/}"}"#];
    let run = || home.run(&[&["--approvals", "allow", "--set", ACTIVATE], &call[..]].concat());
    let path = std::env::var_os("PATH").unwrap();
    let allow = std::process::Command::new("direnv")
        .args(["allow", "."])
        .env_clear()
        .env("HOME", home.dir.path())
        .env("PATH", path)
        .current_dir(&home.project)
        .output();
    if allow.is_err() {
        println!("SKIPPED: there is no direnv here");
        return;
    }
    assert!(allow.unwrap().status.success());
    let done = run();
    assert!(done.1.contains("[allowed] sub"), "{done:?}");
    fs::write(home.project.join(".envrc"), "export FROM_ENVRC=changed\n").unwrap();
    let done = run();
    assert!(done.0 == 1 && done.2.contains("is blocked"), "{done:?}");
}

const ACTIVATE: &str = "run.activate=[\"direnv\"]";

#[test]
fn what_commands_do_not_see_file_tools_do_not_see() {
    let home = Home::seen();
    fs::create_dir(home.dir.path().join(".ssh")).unwrap();
    fs::write(home.dir.path().join(".ssh/id"), "canary").unwrap();
    let root = home.dir.path().display().to_string();
    for (show, seen) in
        [(String::from("run.show=[]"), false), (format!("run.show=[\"{root}/.ssh\"]"), true)]
    {
        for call in [
            ["Read", r#"{"file_path": ".ssh/id"}"#],
            ["Grep", r#"{"pattern": "canary", "output_mode": "content"}"#],
            ["Bash", r#"{"command": "cat .ssh/id"}"#],
        ] {
            let options = ["--root", &root, "--approvals", "allow", "--set", &show, "call"];
            let mut command = command(home.dir.path());
            let done = command.args(options).args(call).output().unwrap();
            let text = String::from_utf8_lossy(&done.stdout);
            assert_eq!(text.contains("canary"), seen, "{call:?} {show} {done:?}");
        }
    }
}

/// Everyday commands: the guide that shows one, whether it leaves the sandbox, and the command.
const EVERYDAY: &str = include_str!("everyday.tsv");

/// Commands of other shapes, in the same columns.
const PICKED: &str = include_str!("picked.tsv");

/// Returns the everyday commands that stay in the sandbox, or those that leave it.
fn everyday(leave: &str) -> Vec<String> {
    let rows = EVERYDAY.lines().chain(PICKED.lines()).filter(|line| !line.starts_with('#'));
    let rows = rows.map(|line| line.split('\t').collect::<Vec<_>>());
    rows.filter(|row| row[1] == leave).map(|row| row[2].replace("\\n", "\n")).collect()
}

/// Returns the commands that ask, each with its answer.
fn asks<T: AsRef<str>>(home: &Home, more: &[&str], commands: &[T]) -> Vec<String> {
    asks_with(home, more, commands, &json!({}))
}

/// Returns the commands that ask with further arguments.
fn asks_with<T: AsRef<str>>(
    home: &Home,
    more: &[&str],
    commands: &[T],
    arguments: &Value,
) -> Vec<String> {
    let mut command = command(home.dir.path());
    command.arg("--root").arg(&home.project).args(more).args(["policy", "check"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = commands.iter();
    let lines = lines.map(|text| {
        let mut arguments = arguments.clone();
        arguments["command"] = json!(text.as_ref());
        arguments.to_string() + "\n"
    });
    child.stdin.take().unwrap().write_all(lines.collect::<String>().as_bytes()).unwrap();
    let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let answers = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let asked = commands.iter().zip(answers).filter(|(_, answer)| answer["ruling"] != "allow");
    asked.map(|(text, answer)| format!("{}: {answer}", text.as_ref())).collect()
}

#[test]
fn what_stays_in_the_sandbox_asks_little() {
    let home = Home::seen();
    let (commands, leaving) = (everyday("stays"), everyday("leaves"));
    assert!(100 < commands.len() && 100 < leaving.len());
    let always = asks(&home, ASK, &commands);
    assert!(100 < always.len(), "the control asks for {}", always.len());
    for profile in ["workspace", "sandboxed"] {
        let profile = ["--profile", profile];
        let asked = asks(&home, &profile, &commands);
        assert_eq!(asked, Vec::<String>::new(), "{profile:?}");
        // As the guides show them, none says what it needs: it runs, and is refused what leaves.
        let asked = asks(&home, &profile, &leaving).len();
        assert!(asked * 20 <= commands.len() + leaving.len(), "{profile:?}: {asked}");
        println!("{profile:?}: {asked} of {} ask", commands.len() + leaving.len());
        // The table does not say what a command needs, so each that leaves names the network.
        let needs = json!({ "needs": ["network"], "why": "to try it" });
        let asked = asks_with(&home, &profile, &leaving, &needs).len();
        println!("{profile:?}: {asked} of {} ask with needs", commands.len() + leaving.len());
        assert_eq!(asked, leaving.len(), "{profile:?}");
        assert!(asked * 9 <= (commands.len() + leaving.len()) * 2, "{profile:?}: {asked}");
        // What leaves the sandbox asks.
        for more in [&["--set", "run.network=true"][..], &["--set", "run.sandbox=\"none\""], ASK] {
            let args = [&profile[..], more].concat();
            assert_eq!(asks(&home, &args, &["touch x"]).len(), 1, "{profile:?} {more:?}");
        }
    }
    let asked =
        asks(&home, &["--profile", "sandboxed", "--set", "approvals=\"ask\""], &["touch x"]);
    assert!(asked.is_empty(), "{asked:?}");
}

/// Each property that a command needs to run unasked, without it.
#[test]
fn missing_property_of_an_unasked_command_is_named() {
    let home = Home::seen();
    let root = home.dir.path().to_str().unwrap();
    for (more, missing) in [
        (ASK, "`run.ask` is `always`"),
        (&["--set", "run.network=true"], "the network is open to commands"),
        (&["--set", "checkpoints.commands=false"], "checkpoints of commands are off"),
        (
            &["--set", "checkpoints.max_count=1"],
            "what this process keeps for undo has reached half",
        ),
        (&["--root", root], "the root "),
    ] {
        let asked = asks(&home, more, &["touch x"]);
        let why = format!("it cannot run unasked: {missing}");
        assert!(asked.len() == 1 && asked[0].contains(&why), "{more:?}: {asked:?}");
    }
    assert_eq!(asks(&home, &[], &["touch x"]), Vec::<String>::new(), "the control");
}

#[test]
fn sandboxed_profile_runs_what_stays_inside() {
    let home = Home::seen();
    let args = |tool: &str, arguments: &Value| {
        let arguments = arguments.to_string();
        home.run(&["--profile", "sandboxed", "call", tool, &arguments])
    };
    let done = args("Bash", &json!({ "command": "echo one >made" }));
    assert_eq!(done.0, 0, "{done:?}");
    assert_eq!(fs::read_to_string(home.project.join("made")).unwrap(), "one\n");
    let file = home.project.join("written");
    let done = args("Write", &json!({ "file_path": file, "content": "x" }));
    assert_eq!(done.0, 0, "{done:?}");
    let envrc = home.project.join(".envrc");
    let done = args("Write", &json!({ "file_path": envrc, "content": "x" }));
    assert_eq!((done.0, envrc.exists()), (3, false), "{done:?}");
    let done = args("Bash", &json!({ "command": "echo x >.envrc" }));
    assert!(!envrc.exists() && done.0 != 0, "{done:?}");
    // Commands that nothing contains ask.
    let arguments = json!({ "command": "touch no" }).to_string();
    let more =
        ["--profile", "sandboxed", "--set", "run.sandbox=\"none\"", "call", "Bash", &arguments];
    assert_eq!((home.run(&more).0, home.project.join("no").exists()), (3, false));
}

#[test]
fn moved_directories_run_later() {
    let home = Home::seen();
    let lay_out = "mkdir -p app venv/bin plain; touch app/Makefile venv/bin/python plain/notes";
    let arguments = json!({ "command": lay_out }).to_string();
    assert_eq!(home.run(&["--approvals", "allow", "call", "Bash", &arguments]).0, 0);
    for (from, to, words) in [
        ("app", "apps", "[runs on your machine later: apps/Makefile]"),
        ("venv", "old", ""),
        ("old", "venv", "[runs on your machine later: venv/bin]"),
        ("plain", "more", ""),
    ] {
        let arguments = json!({ "source": from, "destination": to }).to_string();
        let of_server = ["--approvals", "allow", "--dialect", "mcp-filesystem"];
        let done = home.run(&[&of_server[..], &["call", "move_file", &arguments]].concat());
        assert_eq!(
            (done.0, done.1.contains("later: ")),
            (0, !words.is_empty()),
            "{from}: {done:?}"
        );
        assert!(done.1.contains(words), "{from}: {done:?}");
    }
}

#[test]
fn what_runs_later_is_reported() {
    let home = Home::seen();
    let scripts =
        |words: &str| format!(r#"echo '{{"scripts": {{"test": "{words}"}}}}' >package.json"#);
    let (one, two) = (scripts("one"), scripts("two"));
    let package = "[runs on your machine later: package.json (scripts)]";
    for (command, words) in [
        ("echo all: >Makefile; echo x >notes", "[runs on your machine later: Makefile]"),
        ("mkdir -p .venv/bin; touch .venv/bin/a .venv/bin/b", "later: .venv/bin (2)]"),
        ("touch .venv/bin/c; rm .venv/bin/c", ""),
        (&one, package),
        (&one, ""),
        (&two, package),
        (r#"sed -i 's/}$/, "version": "1"}/' package.json"#, ""),
        ("echo '{' >package.json", package),
        ("echo {} >package.json", package),
        (
            r#"echo '{"scripts": {}}' >PACKAGE.json"#,
            "[runs on your machine later: PACKAGE.json (scripts)]",
        ),
        (
            "touch vite.config.mts; touch vite.config webpack.configs.js",
            "[runs on your machine later: vite.config.mts]",
        ),
        ("mkdir sub; mv package.json sub", ""),
        ("touch conftest.py; rm conftest.py", ""),
        ("touch x.py; mv x.py conftest.py", "[runs on your machine later: conftest.py]"),
        ("cat Makefile", ""),
        ("mkdir -p node_modules/x; echo {} >node_modules/x/package.json", ""),
        ("mkdir -p .github/workflows; echo x >.github/workflows/a.yml", "[changed "),
        ("ln -s notes inside; ln -s /etc/hosts a; mv a b", "/b -> /etc/hosts]"),
        ("ln -s ../../x up; ln -s gone here; ln -s /etc c; rm c", "/up -> ../../x]"),
        ("mkdir -p node_modules; ln -s /etc node_modules/etc", ""),
        ("ln -s /tmp/made private", "/private -> /tmp/made]"),
        (
            "mkdir -p k/l; ln -s ../.. k/l/top; ln -s k/l/top/../gone by-way",
            "/by-way -> k/l/top/../gone]",
        ),
        // Files that no longer exist take no place in the list.
        (
            "mkdir d; for n in $(seq 1100); do touch d/Makefile; rm d/Makefile; ln -s x d/$n; rm d/$n; \
             mkdir d/$n; touch d/$n/Makefile; rm -r d/$n; done; touch GNUmakefile; ln -s /etc late",
            "[runs on your machine later: GNUmakefile]",
        ),
        ("for n in $(seq 20); do mkdir e$n; touch e$n/Makefile; done", "e16/Makefile and 4 more]"),
        ("mkdir t; touch t/Makefile; mv t app", "[runs on your machine later: app/Makefile]"),
        ("mkdir u; touch u/Makefile; ln -s /etc u/out; mv u w", "w/out -> /etc]"),
        ("mkdir -p env/bin; touch env/bin/python; mv env venv", "later: venv/bin (1)]"),
        ("rm -r venv/bin; mkdir bb; touch bb/x bb/y; mv bb venv/bin", "later: venv/bin (2)]"),
        ("rm -r .venv; mkdir -p .venv other; ln -s ../other .venv/bin", "later: .venv/bin]"),
        (
            "mkdir many; for n in $(seq 1500); do echo many/$n node_modules/$n; done | xargs -n1 ln -s x",
            "",
        ),
        ("rm -rf sub; echo {} >package.json; ln package.json twin", package),
    ] {
        let arguments = json!({ "command": command }).to_string();
        let done = home.run(&["--approvals", "allow", "call", "Bash", &arguments]);
        assert_eq!(done.0, 0, "{command}: {done:?}");
        let told = ["later: ", "[changed ", "links that lead outside"];
        let is_told = told.iter().any(|words| done.1.contains(words));
        assert!(done.1.contains(words) && is_told != words.is_empty(), "{command}: {done:?}");
        // A link that leads elsewhere is the only one.
        assert!(!done.1.contains("inside ->") && !done.1.contains("c ->"), "{done:?}");
    }
    for (name, is_told) in [("Makefile", true), ("notes", false)] {
        let arguments = json!({ "file_path": name, "content": "all:\n" }).to_string();
        let done = home.run(&["--approvals", "allow", "call", "Write", &arguments]);
        let line = format!("[runs on your machine later: {name}]");
        assert_eq!((done.0, done.1.contains(&line)), (0, is_told), "{done:?}");
    }
    let (_, log, _) = home.run(&["audit", "list"]);
    for what in ["[runs on your machine later: Makefile] echo all: >Makefile", "later: Makefile] /"]
    {
        assert!(log.contains(what), "{what}: {log}");
    }
}

/// A long object had been cut in the middle, with a line behind it.
#[test]
fn long_object_is_shortened_and_stays_json() {
    let home = Home::new();
    for n in 0..6_000 {
        fs::write(home.project.join(format!("{n:0200}")), "").unwrap();
    }
    let call = ["--dialect", "agentos", "call", "tool::file_list", r#"{"path":"."}"#];
    let (code, out, err) = home.run(&call);
    assert_eq!(code, 0, "{err}");
    let shown: Value = serde_json::from_str(&out).expect("JSON");
    let n_shown = shown["entries"].as_array().unwrap().len();
    assert!(0 < n_shown && n_shown < 6_000 && out.len() <= 1 << 20, "{n_shown}");
    assert!(
        err.contains("[the result was shortened; all of it is in .sinew/tool-output/"),
        "{err}"
    );
    let (_, path) = err.split_once("all of it is in ").unwrap();
    let path = home.project.join(path.split_once(']').unwrap().0);
    let whole: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(whole["entries"].as_array().unwrap().len(), 6_000);
}

/// Lines behind the object had made the text of a reply no JSON.
#[test]
fn objects_stay_json_beside_notes() {
    const SCRIPT: &str =
        "mkdir -p .github/workflows; touch .github/workflows/a.yml; ls; sleep 60 &";
    for (dialect, tool, arguments) in [
        ("moltis", "exec", json!({ "command": SCRIPT })),
        ("agentos", "tool::shell_exec", json!({ "argv": ["env", "sh", "-c", SCRIPT] })),
    ] {
        let home = Home::seen();
        let allowed = ["--dialect", dialect, "--approvals", "allow"];
        let text = arguments.to_string();
        let (code, out, err) = home.run(&[&allowed[..], &["call", tool, &text]].concat());
        assert_eq!(code, 0, "{out} {err}");
        let object: Value = serde_json::from_str(&out).expect(&out);
        let stderr = object["stderr"].as_str().unwrap();
        assert!(stderr.contains("left running was ended]"), "{object}");
        assert!(!stderr.contains("[changed "), "{object}");
        assert!(err.contains("[changed ") && err.contains(".github/workflows/a.yml]"), "{err}");
        let mut server = command(home.dir.path());
        server.args(["--dialect", dialect, "--approvals", "trust-client", "mcp"]);
        server.current_dir(&home.project);
        let served = client::serve(&mut server, Answers::Never, &[("c", tool, arguments)]);
        let result = &served.reply("c").unwrap()["result"];
        assert_eq!(result["content"].as_array().unwrap().len(), 1, "{result}");
        let shown: Value = serde_json::from_str(served.text("c")).expect("JSON");
        assert_eq!(shown, result["structuredContent"]);
        let notes = result.pointer("/_meta/sinew~1meta/notes").expect("notes").to_string();
        assert!(notes.contains(".github/workflows/a.yml"), "{notes}");
    }
}
