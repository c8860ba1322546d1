//! What a command needs beyond its sandbox: what the question says, what an answer holds for, and what no answer gives.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use crate::pipe::{Piped, text};
use crate::served::{Place, command};

fn place() -> Place {
    let place = Place::new();
    for (name, content) in [("data/a.txt", "one\n"), ("other/b.txt", "two\n"), (".ssh/key", "k\n")]
    {
        let path = place.home.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    place
}

/// Fills in the home directory for `HOME`.
fn filled(place: &Place, text: &str) -> String {
    let of = |text: &str, name: &str, path: &Path| text.replace(name, &path.display().to_string());
    of(&of(text, "HOME", &place.home), "ROOT", &place.root)
}

fn call(place: &Place, pipe: &mut Piped, id: u64, line: &str, needs: &[&str]) {
    let mut arguments = json!({ "command": filled(place, line) });
    if !needs.is_empty() {
        let needs: Vec<String> = needs.iter().map(|need| filled(place, need)).collect();
        arguments["needs"] = json!(needs);
        arguments["why"] = json!("to try it");
    }
    pipe.call(id, "Bash", arguments);
}

/// A call with what it needs.
struct Case {
    line: &'static str,
    needs: &'static [&'static str],
    /// Parts of the first three lines of the question, with the answer; `None` if nothing asks.
    asked: Option<(&'static [&'static str], &'static str)>,
    error: Option<&'static str>,
    /// What its text contains.
    words: &'static str,
}

fn check(place: &Place, pipe: &mut Piped, id: u64, case: &Case) -> Value {
    call(place, pipe, id, case.line, case.needs);
    if let Some((parts, answer)) = case.asked {
        let question = pipe.next("question");
        let head = question["head"].to_string();
        for part in parts {
            assert!(head.contains(&filled(place, part)), "{}: {part}: {head}", case.line);
        }
        pipe.answer(&question, answer);
    }
    let reply = pipe.next("reply");
    assert_eq!(reply["error"]["kind"].as_str(), case.error, "{}: {reply}", case.line);
    assert!(text(&reply).contains(&filled(place, case.words)), "{}: {reply}", case.line);
    reply
}

const WRITE: &[&str] = &["write:HOME/data"];
const READ: &[&str] = &["read:HOME/data"];
const DENIED: Option<&str> = Some("approval_denied");

#[test]
fn a_push_says_that_it_cannot_be_undone() {
    let place = place();
    let mut pipe = Piped::start(&place, &["--approvals", "auto"]);
    for (id, case) in [
        Case {
            line: "git --git-dir .git push origin main",
            needs: &["network"],
            asked: Some((
                &["Push to another repository? Cannot be undone", "$ git --git-dir"],
                "no",
            )),
            error: DENIED,
            words: "",
        },
        Case {
            line: "git -C . push --force && true",
            needs: &["network"],
            asked: Some((
                &["Run with the network open? Cannot be undone", "$ git -C . push"],
                "no",
            )),
            error: DENIED,
            words: "",
        },
        Case {
            line: "sh -c 'git push'",
            needs: &["network"],
            asked: Some((&["? Cannot be undone", "$ sh -c"], "no")),
            error: DENIED,
            words: "",
        },
        Case {
            line: "git push --dry-run",
            needs: &["network"],
            asked: Some((&["Run with the network open?\""], "no")),
            error: DENIED,
            words: "",
        },
        Case {
            line: "git log && echo git push",
            needs: &["network"],
            asked: Some((&["Run with the network open?\""], "no")),
            error: DENIED,
            words: "",
        },
    ]
    .into_iter()
    .enumerate()
    {
        check(&place, &mut pipe, id as u64, &case);
    }
    pipe.end();
}

#[test]
fn needs_are_asked_in_three_lines() {
    let place = place();
    let mut pipe = Piped::start(&place, &["--approvals", "auto"]);
    for (id, case) in [
        // Control: without a need nothing asks, and nothing is there.
        Case {
            line: "cat HOME/data/a.txt",
            needs: &[],
            asked: None,
            error: Some("execution_failed"),
            words: "repeat the call with needs=[\"read:HOME/data/a.txt\"] and why, or run.show",
        },
        Case {
            line: "cat HOME/data/a.txt; cat HOME/other/b.txt",
            needs: READ,
            asked: Some((
                &["Let a command read data outside the project?", "$ cat HOME", "it may read HOME/data", "the model says: \\\"to try it\\\""],
                "once",
            )),
            error: Some("execution_failed"),
            words: "one\ncat: HOME/other/b.txt: No such file",
        },
        Case {
            line: "echo more >>HOME/data/a.txt",
            needs: WRITE,
            asked: Some((&["Let a command change data outside the project?", "no network", "undo covers it, up to its limits"], "no")),
            error: DENIED,
            words: "",
        },
        Case {
            line: "echo more >>HOME/data/a.txt",
            needs: WRITE,
            asked: Some((&["Let a command change data outside the project?"], "once")),
            error: None,
            words: "undoes this (~1)",
        },
        // What is there for every command is not asked for.
        Case { line: "cat /etc/hostname", needs: &["read:/etc/hostname"], asked: None, error: None, words: "" },
        Case { line: "echo x >in", needs: &["write:ROOT"], asked: None, error: None, words: "" },
        Case {
            line: "true",
            needs: &["network"],
            asked: Some((&["Run with the network open?", "it can send project files anywhere", "undo covers files, not what it sends"], "once")),
            error: None,
            words: "",
        },
        Case {
            line: "true",
            needs: &["network", "read:HOME/data", "write:HOME/other"],
            asked: Some((&["Let a command with the network open change other and read data outside the project?"], "no")),
            error: DENIED,
            words: "",
        },
        Case {
            line: "cat HOME/data/a.txt && echo made >HOME/made",
            needs: &["unsandboxed"],
            asked: Some((&["Run WITHOUT a sandbox? Cannot be undone", "it can change anything you can"], "once")),
            error: None,
            words: "more",
        },
    ]
    .into_iter()
    .enumerate()
    .map(|(id, case)| (id as u64, case))
    {
        check(&place, &mut pipe, id, &case);
    }
    assert_eq!(fs::read_to_string(place.home.join("data/a.txt")).unwrap(), "one\nmore\n");
    assert!(place.home.join("made").exists());
    pipe.end();
}

#[test]
fn needs_that_do_not_fit_are_refused_unasked() {
    let place = place();
    let mut pipe = Piped::start(&place, &["--approvals", "auto"]);
    let args =
        |needs: Value, why: Value| json!({ "command": "echo >ran", "needs": needs, "why": why });
    for (arguments, kind, words) in [
        (args(json!(["disk"]), json!("x")), "invalid_args", "`disk` is not `network`"),
        (args(json!(["read:data"]), json!("x")), "invalid_args", "an absolute path"),
        (args(json!(["host:a.b"]), json!("x")), "invalid_args", "hosts cannot be named yet"),
        (args(json!("network"), json!("x")), "invalid_args", "a list"),
        (args(json!(vec!["network"; 17]), json!("x")), "invalid_args", "at most 16"),
        (args(json!(["network"]), json!(" ")), "invalid_args", "`why` is missing"),
        (args(json!(["network"]), Value::Null), "invalid_args", "`why` is missing"),
        (args(json!(["read:HOME/.ssh/key"]), json!("x")), "path_denied", "secrets"),
        (args(json!(["write:HOME"]), json!("x")), "path_denied", "secrets"),
        (args(json!(["write:/"]), json!("x")), "path_denied", "outside the roots"),
        (args(json!(["read:/proc/1/environ"]), json!("x")), "path_denied", "outside the roots"),
        (args(json!(["ssh-agent"]), json!("x")), "policy_denied", "no SSH agent is known here"),
    ] {
        let arguments = serde_json::from_str(&filled(&place, &arguments.to_string())).unwrap();
        pipe.call(1, "Bash", arguments);
        let reply = pipe.next("reply");
        assert_eq!(reply["error"]["kind"], kind, "{reply}");
        assert!(text(&reply).contains(words), "{words}: {reply}");
    }
    assert!(pipe.is_quiet("question"));
    assert!(!place.root.join("ran").exists());
    pipe.end();
    // Settings, and a person who is missing.
    for (more, needs, kind, words) in [
        (
            &["--set", "run.unsandboxed=deny"][..],
            "unsandboxed",
            "policy_denied",
            "`run.unsandboxed` is `deny`",
        ),
        (&["--require-sandbox=landlock"], "unsandboxed", "policy_denied", "`run.require_sandbox`"),
        (&["--set", "files.outside=deny"], "read:HOME/data", "path_denied", "outside the roots"),
        (&["--approvals", "allow"], "read:HOME/data", "approval_denied", "approval by a person"),
        (&["--approvals", "allow"], "unsandboxed", "approval_denied", "approval by a person"),
        (&["--approvals", "deny"], "network", "approval_denied", "`--approvals deny` is set"),
        (&[], "network", "approval_denied", "approval by a person"),
        (&["--read-only"], "network", "policy_denied", "read-only"),
    ] {
        let needs = filled(&place, needs);
        let mut call = command(&place.home);
        call.arg("--root").arg(&place.root).args(more).args(["call", "Bash", "--json"]);
        let done = call.arg(args(json!([needs]), json!("x")).to_string()).output().unwrap();
        let reply: Value =
            serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
        assert_eq!(reply["error"]["kind"], kind, "{more:?}: {reply}");
        assert!(text(&reply).contains(words), "{more:?} {words}: {reply}");
        assert!(!place.root.join("ran").exists());
    }
    // `allow` covers the network, which stays in the sandbox.
    let mut call = command(&place.home);
    call.arg("--root").arg(&place.root).args(["--approvals", "allow", "call", "Bash"]);
    assert!(call.arg(args(json!(["network"]), json!("x")).to_string()).status().unwrap().success());
}

#[test]
fn missing_program_is_reported_unasked() {
    let place = place();
    let mut pipe = Piped::start(&place, &["--approvals", "ask"]);
    for (line, is_asked) in [
        ("no-such-program install", false),
        ("  no-such-program", false),
        // Another command may define it.
        ("no-such-program() { :; }; no-such-program", true),
        ("no-such-program || touch x", true),
        ("$no_such_program", true),
        ("./no-such-program", true),
        ("touch x", true),
        ("export X=1", true),
    ] {
        call(&place, &mut pipe, 1, line, &[]);
        if is_asked {
            let question = pipe.next("question");
            pipe.answer(&question, "no");
        }
        let reply = pipe.next("reply");
        let kind = if is_asked { "approval_denied" } else { "file_not_found" };
        assert_eq!(reply["error"]["kind"], kind, "{line}: {reply}");
        assert!(is_asked || text(&reply).contains("no such program: no-such-program"), "{reply}");
    }
    pipe.end();
}

#[test]
fn answer_binds_to_command_and_needs() {
    let place = place();
    let mut pipe = Piped::start(&place, &["--approvals", "auto"]);
    let asked = Some((&[][..], "session"));
    let denied = Some((&[][..], "no"));
    for (id, (line, needs, asked)) in [
        ("touch HOME/data/x", WRITE, asked),
        ("touch HOME/data/y", WRITE, None),
        ("touch HOME/data/y", &["write:HOME/data", "network"][..], denied),
        ("touch HOME/other/y", &["write:HOME/other"], denied),
        ("rm HOME/data/y", WRITE, denied),
        ("touch HOME/data/x && rm HOME/data/y", WRITE, denied),
        // What may be changed may be read too.
        ("touch -r HOME/data/x here", READ, None),
        ("touch here", &["network"], asked),
        ("touch here", &["network"], None),
        // Both were granted, but not together.
        ("touch HOME/data/x", &["network", "write:HOME/data"], denied),
        // Plain commands would get the network too.
        ("touch here; ls -la", &["network"], denied),
        ("ls -la; touch here", &["network"], asked),
        ("touch here; ls -la", &["network"], None),
        ("true", &["unsandboxed"], asked),
        ("true", &["unsandboxed"], denied),
    ]
    .into_iter()
    .enumerate()
    {
        let error = asked.filter(|(_, answer)| *answer == "no").and(DENIED);
        let case = Case { line, needs, asked, error, words: "" };
        check(&place, &mut pipe, id as u64, &case);
    }
    pipe.end();
}

/// An answer for always to a push also covered `--force`, other branches and the same words in another repository.
#[test]
fn push_is_answered_each_time() {
    let place = place();
    let git = |args: &[&str]| {
        let done = std::process::Command::new("git").args(args).current_dir(&place.root).status();
        assert!(done.unwrap().success(), "{args:?}");
    };
    git(&["init", "--quiet", "--bare", "up.git"]);
    git(&["init", "--quiet", "--initial-branch=main"]);
    git(&["remote", "add", "origin", "up.git"]);
    let who = ["-c", "user.name=a", "-c", "user.email=a@b"];
    git(&[&who[..], &["commit", "--quiet", "--allow-empty", "-m", "one"]].concat());
    let asked = Some((&["Push to another repository?"][..], "always"));
    let no = Some((&["Push to another repository?"][..], "no"));
    let again = |line: &'static str, asked: Option<(&'static [&'static str], &'static str)>| {
        let mut pipe = Piped::start(&place, &["--approvals", "auto"]);
        let error = asked.filter(|(_, answer)| *answer == "no").and(DENIED);
        let case = Case { line, needs: &["network"], asked, error, words: "" };
        check(&place, &mut pipe, 1, &case);
        pipe.end();
    };
    again("git push origin main", asked);
    for line in [
        "git push origin main",
        "git push origin main --force",
        "git push origin main:other",
        "git push",
        "git push origin",
    ] {
        again(line, no);
    }
    // The control: the person's own rule has the pattern that it shows.
    let rule = "[[rules]]\nverdict = \"allow\"\ncommand = \"git push *\"\nneeds = [\"network\"]\n";
    fs::create_dir_all(place.home.join("config/sinew")).unwrap();
    fs::write(place.home.join("config/sinew/config.toml"), rule).unwrap();
    again("git push origin main --force", None);
}

#[test]
fn granted_for_always_and_by_rule() {
    let place = place();
    for asked in [Some((&[][..], "always")), None] {
        let mut pipe = Piped::start(&place, &["--approvals", "auto"]);
        let case = Case { line: "touch here", needs: &["network"], asked, error: None, words: "" };
        check(&place, &mut pipe, 1, &case);
        pipe.end();
    }
    let rule = |needs: &str| {
        format!("[[rules]]\nverdict = \"allow\"\ncommand = \"ls *\"\nneeds = [{needs}]\n")
    };
    let config = place.home.join("rules.toml");
    for (needs, error) in [
        ("\"network\"", DENIED),
        ("\"write:HOME/data\", \"network\"", None),
        ("\"read:HOME\"", None),
        ("\"read:HOME/other\"", DENIED),
    ] {
        fs::write(&config, filled(&place, &rule(needs))).unwrap();
        let mut call = command(&place.home);
        call.arg("--root").arg(&place.root).arg("--config").arg(&config);
        let arguments = json!({ "command": filled(&place, "ls HOME/data"), "needs": [filled(&place, "read:HOME/data")], "why": "x" });
        let done =
            call.args(["call", "Bash", "--json"]).arg(arguments.to_string()).output().unwrap();
        let reply: Value =
            serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
        assert_eq!(reply["error"]["kind"].as_str(), error, "{needs}: {reply}");
    }
    for (rule, words) in [
        (rule("\"unsandboxed\""), "cannot hold `unsandboxed`"),
        (rule("\"disk\""), "`disk` is not"),
        (
            rule("\"network\"").replace("command = \"ls *\"", "tools = [\"Bash\"]"),
            "beside the `command`",
        ),
        (rule(""), "is empty"),
        (rule("\"network\"").replace("allow", "deny"), "is for rules that allow"),
        (rule("\"network\"").replace("command = \"ls *\"", "paths = [\"a\"]"), "rules on commands"),
    ] {
        fs::write(&config, &rule).unwrap();
        let mut call = command(&place.home);
        call.arg("--root").arg(&place.root).arg("--config").arg(&config);
        let done = call.args(["call", "Bash", r#"{"command": "true"}"#]).output().unwrap();
        let shown = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(2) && shown.contains(words), "{words}: {shown}");
    }
}

#[test]
fn rules_that_deny_bind_needs() {
    let place = place();
    let config = place.home.join("rules.toml");
    for (rule, needs, error) in [
        ("effects = [\"network\"]", "network", Some("policy_denied")),
        ("effects = [\"network\"]", "unsandboxed", Some("policy_denied")),
        ("paths = [\"HOME/data/**\"]", "read:HOME/data", Some("policy_denied")),
        ("command = \"cat *\"", "network", Some("policy_denied")),
        ("command = \"ls *\"", "network", DENIED),
    ] {
        fs::write(&config, filled(&place, &format!("[[rules]]\nverdict = \"deny\"\n{rule}\n")))
            .unwrap();
        let mut call = command(&place.home);
        call.arg("--root").arg(&place.root).arg("--config").arg(&config);
        let arguments = json!({ "command": "cat x", "needs": [filled(&place, needs)], "why": "x" });
        let done =
            call.args(["call", "Bash", "--json"]).arg(arguments.to_string()).output().unwrap();
        let reply: Value =
            serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
        assert_eq!(reply["error"]["kind"].as_str(), error, "{rule} {needs}: {reply}");
    }
}

/// What is swapped while a person reads the question.
#[test]
fn swapped_path_is_not_given() {
    for swaps in [false, true] {
        let place = place();
        let mut pipe = Piped::start(&place, &["--approvals", "auto"]);
        call(&place, &mut pipe, 1, "cat HOME/data/*; echo x >HOME/data/made", WRITE);
        let question = pipe.next("question");
        if swaps {
            let data = place.home.join("data");
            fs::rename(&data, place.home.join("away")).unwrap();
            symlink(place.home.join("other"), &data).unwrap();
        }
        pipe.answer(&question, "once");
        let reply = pipe.next("reply");
        let error = reply["error"]["kind"].as_str();
        assert_eq!(error, swaps.then_some("stale"), "{reply}");
        assert!(!text(&reply).contains("two"), "{reply}");
        assert_eq!(place.home.join("data/made").exists(), !swaps);
        assert!(!place.home.join("other/made").exists());
        pipe.end();
    }
}

#[test]
fn changes_outside_are_undone_and_redone() {
    let place = place();
    let mut pipe = Piped::start(&place, &["--approvals", "auto"]);
    let line = "echo new >HOME/data/new; rm HOME/data/a.txt; echo in >in";
    let asked = Some((&[][..], "once"));
    check(&place, &mut pipe, 1, &Case { line, needs: WRITE, asked, error: None, words: "+2 -1" });
    let [old, new] = ["data/a.txt", "data/new"].map(|name| place.home.join(name));
    for is_undone in [true, false] {
        pipe.call(2, "Undo", if is_undone { json!({}) } else { json!({ "redo": true }) });
        let question = pipe.next("question");
        assert!(question["text"].as_str().unwrap().contains("outside the project"), "{question}");
        pipe.answer(&question, "once");
        let reply = pipe.next("reply");
        assert_eq!(reply["ok"], json!(true), "{reply}");
        assert_eq!((old.exists(), new.exists()), (is_undone, !is_undone), "{reply}");
        assert_eq!(place.root.join("in").exists(), !is_undone);
    }
    pipe.end();
}

/// The directories above a root among temporary files are a session's own. A command that moved them took the root to where rules
/// by path missed it.
#[test]
fn root_among_temporary_files_stays_judged() {
    let place = place();
    let top = place.root.parent().unwrap().display().to_string();
    for level in ["namespaces", "bubblewrap", "landlock"] {
        let line = format!(
            "mv {top} /tmp/away; mv {top}/ws {top}/away; n=env; for at in /tmp/away/ws {top}/away {top}/ws; \
             do echo planted >$at/.${{n}}rc; done; echo x >in"
        );
        let mut call = command(&place.home);
        call.arg("--root").arg(&place.root).arg("--set").arg(format!("run.sandbox={level}"));
        let path = std::env::var_os("PATH").unwrap();
        let done = call
            .args(["call", "Bash"])
            .arg(json!({ "command": line }).to_string())
            .env("PATH", path)
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&done.stderr).into_owned();
        if shown.contains("no sandbox") {
            println!("SKIPPED: {level} does not work here");
            continue;
        }
        assert!(!place.root.join(".envrc").exists(), "{level}: {shown}");
        assert!(fs::remove_file(place.root.join("in")).is_ok(), "{level}: {shown}");
    }
}
