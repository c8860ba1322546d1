//! What `sinew mcp` says as it begins, and how the calls of one client run beside one another.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::client::{Answers, serve};
use crate::served::{Place, command};

/// Returns the instructions without the line about the roots, and the printed text.
fn begun(place: &Place, args: &[&str]) -> (Vec<String>, String) {
    let mut command = command(&place.home);
    command.args(args).arg("mcp").current_dir(&place.root);
    let served = serve(&mut command, Answers::Never, &[]);
    let mut lines = served.instructions.lines().map(str::to_owned);
    let first = lines.next().unwrap_or_default();
    let root = place.root.display().to_string();
    let is_absolute = args.contains(&"moltis");
    assert!(first.starts_with(&format!("Tools that work beneath: {root}. ")), "{first}");
    assert_eq!(first.contains("Paths are absolute"), is_absolute, "{first}");
    (lines.collect(), served.err)
}

#[test]
fn each_vocabulary_is_told_what_to_prefer() {
    for (args, lines) in [
        (
            &["--dialect", "moltis"][..],
            &[
                "There are `Read`, `Write`, `Edit`, `MultiEdit`, `Glob`, `Grep`, `checkpoint_restore` and `exec`.",
                "Search with `Grep` and `Glob` rather than `grep` or `find` in `exec`.",
                "Read and list with `Read` rather than `cat` or `ls` in `exec`.",
                "Change files with `Edit` and `MultiEdit` rather than rewriting them with `Write` or `sed` in `exec`.",
            ][..],
        ),
        (
            &["--dialect", "molf"],
            &[
                "There are `shell_exec`, `read_file`, `write_file`, `edit_file`, `glob` and `grep`.",
                "Search with `grep` and `glob` rather than `grep` or `find` in `shell_exec`.",
                "Read and list with `read_file` rather than `cat` or `ls` in `shell_exec`.",
                "Change files with `edit_file` rather than rewriting them with `write_file` or `sed` in `shell_exec`.",
            ],
        ),
        (
            &["--dialect", "agentos"],
            &[
                "There are `tool__file_read`, `tool__file_write`, `tool__file_list`, `tool__apply_patch`, `tool__shell_exec`, `tool__web_fetch`, `tool__web_search` and `tool__agent_send`.",
                "Read and list with `tool__file_read` and `tool__file_list` rather than `cat` or `ls` in `tool__shell_exec`.",
                "Change files with `tool__apply_patch` rather than rewriting them with `tool__file_write` or `sed` in `tool__shell_exec`.",
            ],
        ),
        (
            &["--dialect", "aionrs"],
            &[
                "There are `Read`, `Write`, `Edit`, `Bash`, `Grep` and `Glob`.",
                "Search with `Grep` and `Glob` rather than `grep` or `find` in `Bash`.",
                "Read and list with `Read` rather than `cat` or `ls` in `Bash`.",
                "Change files with `Edit` rather than rewriting them with `Write` or `sed` in `Bash`.",
            ],
        ),
        (
            &["--dialect", "clawft"],
            &[
                "There are `read_file`, `write_file`, `edit_file`, `list_directory`, `exec_shell`, `memory_read`, `memory_write`, `web_search`, `web_fetch`, `message` and `spawn`.",
                "Read and list with `read_file` and `list_directory` rather than `cat` or `ls` in `exec_shell`.",
                "Change files with `edit_file` rather than rewriting them with `write_file` or `sed` in `exec_shell`.",
            ],
        ),
        (
            &["--dialect", "codex"],
            &["There are `apply_patch`.", "Change files with `apply_patch`."],
        ),
        // Only served tools are named.
        (
            &["--dialect", "aionrs", "--tools", "Grep,Bash"],
            &[
                "There are `Bash` and `Grep`.",
                "Search with `Grep` rather than `grep` or `find` in `Bash`.",
            ],
        ),
        (&["--dialect", "aionrs", "--tools", "Read,Grep"], &["There are `Read` and `Grep`."]),
    ] {
        assert_eq!(begun(&Place::new(), args).0, lines, "{args:?}");
    }
}

#[test]
fn weak_sandbox_of_moltis_is_told_once() {
    for (dialect, more, n_times) in
        [("moltis", "", 1), ("molf", "", 0), ("moltis", "log = \"error\"\n", 0)]
    {
        let place = Place::new();
        let config = place.home.join("config/sinew/config.toml");
        fs::create_dir_all(config.parent().unwrap()).unwrap();
        fs::write(config, format!("{more}[run]\nsandbox = \"none\"\n")).unwrap();
        let (_, err) = begun(&place, &["--dialect", dialect]);
        let told = err.matches("no strong sandbox: commands run at the sandbox level `none`");
        assert_eq!(told.count(), n_times, "{dialect} {more}: {err}");
    }
}

/// Sends every call before it reads an answer; returns the texts of the answers in the order of the calls.
fn together(args: &[&str], place: &Place, calls: &[(&str, Value)]) -> Vec<String> {
    let mut command = command(&place.home);
    command.args(args).args(["--approvals", "trust-client", "mcp"]).current_dir(&place.root);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let shake = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" } });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": shake });
    writeln!(input, "{hello}").unwrap();
    output.next().unwrap().unwrap();
    for (id, (name, arguments)) in calls.iter().enumerate() {
        let params = json!({ "name": name, "arguments": arguments });
        let call =
            json!({ "jsonrpc": "2.0", "id": id + 1, "method": "tools/call", "params": params });
        writeln!(input, "{call}").unwrap();
    }
    input.flush().unwrap();
    let mut texts = vec![String::new(); calls.len()];
    for _ in calls {
        let reply: Value = serde_json::from_str(&output.next().unwrap().unwrap()).unwrap();
        let id = usize::try_from(reply["id"].as_u64().unwrap()).unwrap();
        let text = &reply["result"]["content"][0]["text"];
        texts[id - 1] = text.as_str().unwrap_or_default().to_owned();
    }
    drop(input);
    assert!(child.wait().unwrap().success());
    texts
}

/// In aionrs what does more than read runs alone; all of these calls had run side by side.
#[test]
fn aionrs_calls_take_turns() {
    let calls = |file: &str| {
        [
            ("Bash", json!({ "command": "sleep 0.5; echo first > f" })),
            ("Read", json!({ "file_path": file })),
            ("Bash", json!({ "command": "cat f; sleep 0.2; echo second > f" })),
            ("Grep", json!({ "pattern": "second" })),
        ]
    };
    let place = Place::new();
    let file = place.root.join("f").display().to_string();
    let texts = together(&["--dialect", "aionrs"], &place, &calls(&file));
    assert!(texts[1].contains("first"), "{texts:?}");
    assert!(texts[2].contains("STDOUT:\nfirst"), "{texts:?}");
    assert!(texts[3].contains("second"), "{texts:?}");
}

/// Other vocabularies run calls side by side.
#[test]
fn calls_of_others_do_not_wait() {
    let place = Place::new();
    let calls = [
        ("exec", json!({ "command": "while ! test -e f; do sleep 0.05; done; echo seen" })),
        ("exec", json!({ "command": "touch f" })),
    ];
    let texts = together(&["--dialect", "moltis"], &place, &calls);
    assert!(texts[0].contains("seen"), "{texts:?}");
}
