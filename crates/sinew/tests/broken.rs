//! sinew reports broken files around it in a few lines, and they stop no command that could help.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::database;
use crate::served::{Place, command};

fn run(place: &Place, args: &[&str]) -> Output {
    run_with(place, args, &[])
}

fn run_with(place: &Place, args: &[&str], variables: &[(&str, &Path)]) -> Output {
    let mut command = command(&place.home);
    command.args(args).envs(variables.iter().copied()).current_dir(&place.root);
    command.stdin(Stdio::null()).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn write(place: &Place, name: &str, text: &str) {
    let path = place.root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A project with thousands of rules that loosen filled a terminal at every command.
#[test]
fn thousands_of_warnings_are_a_few_lines() {
    let place = Place::new();
    let rule = |n| format!("[[rules]]\nverdict = \"allow\"\ncommand = \"c{n} *\"\n");
    write(&place, ".sinew/config.toml", &(0..3_000).map(rule).collect::<String>());
    for n in 0..30 {
        write(&place, &format!(".sinew/hooks/h{n}/HOOK.md"), "no front matter");
    }
    for args in [&["tools"][..], &["call", "List"], &["doctor"], &["mcp"], &["audit", "list"]] {
        let ran = run(&place, args);
        assert!(ran.status.success(), "{args:?}: {}", err(&ran));
        let lines = err(&ran).lines().count();
        assert!((2..10).contains(&lines), "{args:?} says {lines} lines");
        assert!(err(&ran).contains("more warnings"), "{args:?}: {}", err(&ran));
        assert!(err(&ran).len() < 10_000, "{args:?}");
    }
    let doctor = run(&place, &["doctor"]);
    assert!(out(&doctor).lines().count() < 12 && out(&doctor).len() < 10_000);
    assert!(out(&doctor).contains("and 30"), "{}", out(&doctor));
    // Nothing is lost for a program.
    let all: Value = serde_json::from_str(&out(&run(&place, &["doctor", "--json"]))).unwrap();
    let detail = all["findings"][0]["text"].as_str().unwrap();
    assert_eq!(detail.matches("is left out, because").count(), 3_030);
    // One long warning is not a page either.
    let place = Place::new();
    write(
        &place,
        ".sinew/config.toml",
        &format!("[tools.policy]\ndeny = [\"{}\"]\n", "x".repeat(9_000)),
    );
    let ran = run(&place, &["tools"]);
    assert!(err(&ran).contains("xxx") && err(&ran).len() < 2_000, "{}", err(&ran));
}

#[test]
fn a_broken_project_stops_neither_the_doctor_nor_trust_nor_the_record() {
    for text in [
        "x = = 1",
        "unknown = 1",
        "approvals = 7",
        "[[rules]]\nverdict = \"perhaps\"\n",
        "[tools.fs]\ndeny_paths = [\"/a[\"]\n",
    ] {
        let place = Place::new();
        assert!(run(&place, &["call", "List"]).status.success());
        write(&place, ".sinew/config.toml", text);
        // The control: a call fails, and so does the server.
        for args in [&["call", "List"][..], &["mcp"]] {
            assert!(!run(&place, args).status.success(), "{text:?} {args:?}");
        }
        let doctor = run(&place, &["doctor", "--json"]);
        assert_eq!(doctor.status.code(), Some(1), "{text:?}: {}", err(&doctor));
        let all: Value = serde_json::from_str(&out(&doctor)).unwrap();
        let findings = all["findings"].as_array().unwrap();
        assert_eq!(findings.len(), 11, "{text:?}: {all}");
        let missing = findings.iter().filter(|one| one["ok"] == false && one["needed"] == true);
        let told: String = missing.map(|one| one["text"].as_str().unwrap()).collect();
        assert!(told.contains("config.toml") || told.contains("deny_paths"), "{text:?}: {told}");
        for args in [&["audit", "list"][..], &["audit", "verify"], &["trust"], &["trust", "list"]] {
            let ran = run(&place, args);
            assert!(ran.status.success(), "{text:?} {args:?}: {}", err(&ran));
        }
        // What a client's file would loosen is shown and confirmed; the project itself is not.
        let servers = json!({ "mcpServers": {
            "s": {"command": "sinew", "args": ["mcp", "--approvals", "allow"]}
        }});
        write(&place, ".mcp.json", &servers.to_string());
        write(
            &place,
            ".sinew/hooks/h/HOOK.md",
            "+++\nevent = \"before_tool_call\"\ncommand = [\"true\"]\n+++\n",
        );
        let trusted = run(&place, &["trust", "--yes"]);
        assert!(trusted.status.success(), "{text:?}: {}", err(&trusted));
        assert!(err(&trusted).contains("approvals=\"allow\""), "{text:?}: {}", err(&trusted));
        let listed = out(&run(&place, &["trust", "list"]));
        let is_read = !text.contains("deny_paths");
        assert!(listed.contains("arguments"), "{text:?}: {listed}");
        assert_eq!(listed.contains("project"), !is_read, "{text:?}: {listed}");
    }
}

/// Runs the command in a view of the machine in which the state is mounted read-only; 99 where nothing can be mounted.
fn on_read_only_mount(place: &Place, state: &Path, args: &[&str]) -> Output {
    let script =
        "mount --bind \"$STATE\" \"$STATE\" && mount -o remount,bind,ro \"$STATE\" || exit 99
        touch \"$STATE/x\" 2>/dev/null && exit 98
        \"$SINEW\" \"$@\"";
    let sinew = command(&place.home);
    let mut ran = Command::new("unshare");
    ran.args(["-rm", "sh", "-c", script, "sh"]).args(args).env_clear();
    ran.envs(sinew.get_envs().filter_map(|(name, value)| Some((name, value?))));
    ran.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    ran.env("STATE", state).env("SINEW", database::SINEW).env("XDG_STATE_HOME", state);
    ran.current_dir(&place.root).output().unwrap()
}

/// Says that a test is skipped where nothing can be mounted.
fn can_mount(place: &Place, state: &Path) -> bool {
    let can = on_read_only_mount(place, state, &["--version"]).status.code() != Some(99);
    if !can {
        println!("SKIPPED: nothing can be mounted here");
        assert!(std::env::var_os("SINEW_TEST_ALL").is_none());
    }
    can
}

/// Four findings, each of which sent the reader to another one.
#[test]
fn doctor_says_read_only_state_once() {
    for has_records in [false, true] {
        let place = Place::new();
        let state = place.home.join("elsewhere");
        fs::create_dir_all(&state).unwrap();
        if !can_mount(&place, &state) {
            return;
        }
        if has_records {
            let called = run_with(&place, &["call", "List"], &[("XDG_STATE_HOME", &state)]);
            assert!(called.status.success(), "{}", err(&called));
        }
        let servers = json!({"mcpServers": {"s": {"command": "sinew", "args": ["mcp"]}}});
        write(&place, ".mcp.json", &servers.to_string());
        let doctor = on_read_only_mount(&place, &state, &["doctor"]);
        let said = format!("{}{}", out(&doctor), err(&doctor));
        assert_eq!(doctor.status.code(), Some(1), "{said}");
        assert_eq!(said.matches("MISSING").count(), 1, "{said}");
        assert!(said.contains("MISSING  state      the state directory is read-only: "), "{said}");
        assert_eq!(said.matches("not checked: it needs the state directory").count(), 3, "{said}");
        assert!(!said.contains("audit verify") && !said.contains("says what works"), "{said}");
        // The control: where it can be written, all is checked.
        let doctor = run_with(&place, &["doctor"], &[("XDG_STATE_HOME", &state)]);
        let said = out(&doctor);
        assert!(doctor.status.success() && !said.contains("not checked"), "{said}");
    }
}

#[test]
fn the_record_is_read_on_a_read_only_mount() {
    let place = Place::new();
    // A name that means something in a URI.
    let state = place.home.join("st?a#te%20 x");
    fs::create_dir_all(&state).unwrap();
    if !can_mount(&place, &state) {
        return;
    }
    // A process that is killed leaves a log that is in no database yet.
    let mut child = command(&place.home)
        .args(["--approvals", "allow", "call", "--batch"])
        .env("XDG_STATE_HOME", &state)
        .current_dir(&place.root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let write = |n| json!({"name": "Write", "arguments": {"file_path": format!("{n}.txt"), "content": "x"}});
    let mut input = child.stdin.take().unwrap();
    let mut replies = std::io::BufReader::new(child.stdout.take().unwrap());
    for n in 0..5 {
        writeln!(input, "{}", write(n)).unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut replies, &mut line).unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let own = state.join("sinew");
    assert!(0 < fs::metadata(own.join("sinew.db-wal")).unwrap().len());
    let check = |what: &str| {
        let listed = on_read_only_mount(&place, &state, &["audit", "list", "--json"]);
        assert!(listed.status.success(), "{what}: {}", err(&listed));
        let n_writes = out(&listed).lines().filter(|line| line.contains("\"Write\"")).count();
        assert_eq!(n_writes, 5, "{what}: {}", out(&listed));
        for args in [
            &["audit", "verify"][..],
            &["audit", "show", "2"],
            &["audit", "export"],
            &["audit", "head"],
        ] {
            let ran = on_read_only_mount(&place, &state, args);
            assert!(ran.status.success(), "{what} {args:?}: {} {}", out(&ran), err(&ran));
        }
        let ran = on_read_only_mount(&place, &state, &["log", "-p"]);
        let is_whole = out(&ran).contains("Write 4.txt (new, +1 -0)") && out(&ran).contains("c1  ");
        assert!(ran.status.success() && is_whole, "{what}: {} {}", out(&ran), err(&ran));
    };
    check("a log and its index");
    fs::remove_file(own.join("sinew.db-shm")).unwrap();
    check("a log alone");
    let left = fs::read_dir(std::env::temp_dir()).unwrap().filter_map(Result::ok);
    let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with("sinew-audit-"));
    assert_eq!(left.count(), 0, "a copy stays");
    // The next process moves the log into the database as it ends.
    let called = run_with(&place, &["call", "List"], &[("XDG_STATE_HOME", &state)]);
    assert!(called.status.success() && !own.join("sinew.db-wal").exists());
    check("a database alone");
    fs::remove_file(own.join("ledger.lock")).unwrap();
    check("no lock");
    // Damage is found there too.
    let bytes = fs::read(own.join("sinew.db")).unwrap();
    let broken: Vec<u8> =
        bytes.iter().enumerate().map(|(n, byte)| if n < 4_096 { *byte } else { 0x5a }).collect();
    fs::write(own.join("sinew.db"), broken).unwrap();
    let ran = on_read_only_mount(&place, &state, &["audit", "verify"]);
    assert_eq!(ran.status.code(), Some(1), "{} {}", out(&ran), err(&ran));
}

/// The doctor said that all was well where no client could start the server.
#[test]
fn the_doctor_fails_where_a_server_would() {
    let server = |args: &[&str], variables: Value| {
        json!({"mcpServers": {"s": {"command": "/usr/bin/sinew", "args": args, "env": variables}}})
            .to_string()
    };
    let none = json!({});
    let inside = "${workspaceFolder}/state";
    let cases = [
        ("nothing", String::new(), "HOME", "home", 0),
        (
            "a server",
            server(&["mcp", "--approvals", "trust-client"], none.clone()),
            "HOME",
            "home",
            0,
        ),
        ("another program", server(&["tools", "--nope"], none.clone()), "HOME", "home", 0),
        ("an unknown option", server(&["mcp", "--nope"], none.clone()), "HOME", "home", 1),
        ("a wrong value", server(&["mcp", "--set", "nonsense"], none.clone()), "HOME", "home", 1),
        (
            "a root that nobody confirmed",
            server(&["--root", "/none", "mcp"], none.clone()),
            "HOME",
            "home",
            0,
        ),
        (
            "a state in the project",
            server(&["mcp"], json!({"XDG_STATE_HOME": inside}))
                .replace("${workspaceFolder}", "{root}"),
            "HOME",
            "home",
            1,
        ),
        ("no JSON", String::from("{"), "HOME", "home", 1),
        ("a home in the project", String::new(), "XDG_CONFIG_HOME", "ws", 1),
        ("a state home in the project", String::new(), "XDG_STATE_HOME", "ws", 1),
        (
            "a variable that is no business of sinew",
            server(&["mcp"], json!({"LD_PRELOAD": "/none", "PATH": "/none"})),
            "HOME",
            "home",
            0,
        ),
    ];
    for (what, client, name, value, code) in cases {
        let place = Place::new();
        if !client.is_empty() {
            write(&place, ".mcp.json", &client.replace("{root}", place.root.to_str().unwrap()));
        }
        let value = place.home.with_file_name(value);
        let variables = [(name, value.as_path())];
        let doctor = run_with(&place, &["doctor"], &variables);
        let said = format!("{}{}", out(&doctor), err(&doctor));
        assert_eq!(doctor.status.code(), Some(code), "{what}: {said}");
        assert!(!said.contains("LD_PRELOAD") && !said.contains("preloaded"), "{what}: {said}");
        if code == 1 {
            assert!(said.contains("MISSING  config"), "{what}: {said}");
        }
        if client.is_empty() {
            let served = run_with(&place, &["mcp"], &variables);
            assert_eq!(served.status.success(), code == 0, "the control: {what}: {}", err(&served));
        }
    }
}

/// Any word `mcp` made the doctor run the line of a client's file: `call` without a sandbox, `trust` without a
/// question.
#[test]
fn doctor_runs_no_other_command() {
    let place = Place::new();
    let call = ["--approvals", "allow", "--session", "mcp", "call", "Write"];
    let arguments = json!({"file_path": "kept.txt", "content": "new"}).to_string();
    fs::write(place.root.join("kept.txt"), "old").unwrap();
    let read = json!({"file_path": "kept.txt"}).to_string();
    assert!(run(&place, &["--session", "mcp", "call", "Read", &read]).status.success());
    let written = run(&place, &[&call[..], &[&arguments]].concat());
    assert!(written.status.success(), "{}", err(&written));
    write(&place, ".sinew/config.toml", "approvals = \"allow\"\n");
    let bash = json!({"command": "id > PWNED"}).to_string();
    let lines: [&[&str]; 4] = [
        &[
            "call",
            "Bash",
            &bash,
            "--approvals",
            "allow",
            "--set",
            "run.sandbox=none",
            "--session",
            "mcp",
        ],
        &["trust", "--yes", "--session", "mcp"],
        &["pipe", "--session", "mcp", "--root", "/none"],
        &["checkpoint", "restore", "c1", "--yes", "--force", "--session", "mcp"],
    ];
    let kept = || fs::read_to_string(place.root.join("kept.txt")).unwrap();
    let listed = || out(&run(&place, &["trust", "list"]));
    let untrusted = listed();
    for line in lines {
        let servers = json!({"mcpServers": {"s": {"command": "sinew", "args": line}}});
        write(&place, ".mcp.json", &servers.to_string());
        let doctor = run(&place, &["doctor"]);
        assert!(doctor.status.success(), "{line:?}: {}{}", out(&doctor), err(&doctor));
        assert!(!place.root.join("PWNED").exists(), "{line:?}");
        assert_eq!((kept().as_str(), listed()), ("new", untrusted.clone()), "{line:?}");
    }
    // The control: each line does what it says where a person writes it.
    fs::remove_file(place.root.join(".mcp.json")).unwrap();
    for line in lines {
        let ran = run(&place, line);
        assert_eq!(ran.status.success(), line[0] != "pipe", "{line:?}: {}", err(&ran));
    }
    assert!(place.root.join("PWNED").exists() && kept() == "old" && listed() != untrusted);
}

/// Files of clients were found broken for what every client expands in them.
#[test]
fn doctor_expands_as_clients_do() {
    let place = Place::new();
    fs::create_dir(place.root.join("sub")).unwrap();
    let server = |command: &str, args: &[&str], variables: Value| {
        json!({"mcpServers": {"s": {"command": command, "args": args, "env": variables}}})
            .to_string()
    };
    let none = json!({});
    for (what, client, mark) in [
        (
            "a root",
            server("sinew", &["mcp", "--root", "${workspaceFolder}/sub"], none.clone()),
            "ok",
        ),
        (
            "a default",
            server("sinew", &["mcp", "--root", "${CLAUDE_PROJECT_DIR:-/none}"], none.clone()),
            "ok",
        ),
        (
            "a current directory",
            server("sinew", &["mcp", "--root=${PWD:-/none}"], none.clone()),
            "ok",
        ),
        (
            "a home",
            server("sinew", &["mcp"], json!({"XDG_STATE_HOME": "${HOME}/.local/state"})),
            "ok",
        ),
        ("a value", server("sinew", &["mcp"], json!({"SINEW_APPROVALS": "${MODE:-deny}"})), "ok"),
        (
            "only the client knows",
            server("sinew", &["mcp"], json!({"SINEW_LOG": "${LEVEL}"})),
            "note",
        ),
        (
            "only the client knows",
            server("sinew", &["mcp", "--log", "${LEVEL}"], none.clone()),
            "note",
        ),
        (
            "a wrong default",
            server("sinew", &["mcp", "--set", "${MODE:-nonsense}"], none.clone()),
            "MISSING",
        ),
        (
            "a variable in front",
            server("env", &["SINEW_SET=nonsense", "sinew", "mcp"], none.clone()),
            "MISSING",
        ),
        (
            "a state in the project",
            server("sinew", &["mcp"], json!({"XDG_STATE_HOME": "${PWD}/s"})),
            "MISSING",
        ),
        ("an unknown option", server("sinew", &["mcp", "--nope"], none.clone()), "MISSING"),
    ] {
        write(&place, ".mcp.json", &client);
        let doctor = run(&place, &["doctor"]);
        let said = out(&doctor);
        assert!(said.starts_with(&format!("{mark:<8} config ")), "{what}: {client}: {said}");
        assert_eq!(doctor.status.success(), mark != "MISSING", "{what}: {said}");
        let is_told = said.contains("only its client can expand `${LEVEL}`");
        assert_eq!(is_told, mark == "note", "{what}: {said}");
        assert_eq!(
            said.contains("unexpected argument '--nope'"),
            what == "an unknown option",
            "{said}"
        );
    }
}

/// The value of an option was taken for the subcommand, and the doctor failed without a reason.
#[test]
fn doctor_takes_no_value_for_the_subcommand() {
    let place = Place::new();
    fs::create_dir(place.root.join("doctor")).unwrap();
    for args in [
        &["doctor", "--root", "doctor"][..],
        &["--root", "doctor", "doctor"],
        &["--session", "doctor", "doctor", "--root", "doctor"],
        &["doctor", "--session", "doctor", "--json"],
    ] {
        let doctor = run(&place, args);
        assert!(doctor.status.success(), "{args:?}: {}{}", out(&doctor), err(&doctor));
    }
    // The control: the other options still count.
    write(&place, "bad.toml", "unknown = 1");
    let doctor = run(&place, &["doctor", "--root", "doctor", "--set", "read_only=7"]);
    assert_eq!(doctor.status.code(), Some(2), "{}{}", out(&doctor), err(&doctor));
}
