//! Memory files as their users have them: several processes, undo, the audit log, and everything that may not reach
//! or change them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use sinew::Runtime;
use sinew::approval::{Approvals, Asking};
use sinew::dialects::NATIVE;

use crate::caller::Caller;
use crate::served::{Place, command};

const N_PROCESSES: usize = 4;
const N_APPENDS: usize = 25;

impl Place {
    fn memory(&self) -> PathBuf {
        self.root.join(".sinew/MEMORY.md")
    }

    fn user_memory(&self) -> PathBuf {
        self.home.join("state/sinew/memory/MEMORY.md")
    }

    fn sinew(&self, args: &[&str]) -> Command {
        let mut command = command(&self.home);
        command.current_dir(&self.root).args(args);
        command
    }

    /// Calls a tool in a process of its own, where changes are allowed.
    fn call(&self, more: &[&str], tool: &str, arguments: &Value) -> Value {
        self.call_with(&[&["--approvals", "allow"], more].concat(), tool, arguments)
    }

    fn call_with(&self, flags: &[&str], tool: &str, arguments: &Value) -> Value {
        let arguments = arguments.to_string();
        let args = [flags, &["call", "--json", tool, &arguments]].concat();
        let done = self.sinew(&args).output().unwrap();
        let text = String::from_utf8(done.stdout).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| {
            panic!("{tool}: {error}: {text}{}", String::from_utf8_lossy(&done.stderr))
        })
    }

    /// Writes to a memory and returns the checkpoint.
    #[track_caller]
    fn note(&self, arguments: &Value) -> String {
        let reply = self.call(&[], "MemoryWrite", arguments);
        assert_eq!(reply["ok"], true, "{reply}");
        reply["meta"]["checkpoint_id"].as_str().unwrap().to_owned()
    }
}

fn kind(reply: &Value) -> &str {
    reply["error"]["kind"].as_str().unwrap_or("none")
}

fn text(reply: &Value) -> &str {
    reply["content"][0]["text"].as_str().unwrap_or_default()
}

/// Every entry whose call succeeded is there once, also those of the first moment, and no other. On a disk that stops
/// for seconds, a call may give up on what another process holds, and says so.
#[test]
fn appends_of_processes_all_stay() {
    // What a session has read would find a lost entry too.
    for (scope, track_reads) in
        [("project", "tools.fs.track_reads=false"), ("user", "tools.fs.track_reads=true")]
    {
        let place = Place::new();
        let mut running = Vec::new();
        for process in 0..N_PROCESSES {
            let mut command =
                place.sinew(&["--approvals", "allow", "--set", track_reads, "call", "--batch"]);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut input = child.stdin.take().unwrap();
            for n in 0..N_APPENDS {
                let id = format!("{process}-{n}");
                let arguments = json!({ "content": format!("entry {id}."), "scope": scope });
                let line = json!({ "id": id, "name": "MemoryWrite", "arguments": arguments });
                writeln!(input, "{line}").unwrap();
            }
            running.push((child, input));
        }
        let mut all = Vec::new();
        for (mut child, input) in running {
            drop(input);
            let n_before = all.len();
            for line in BufReader::new(child.stdout.take().unwrap()).lines() {
                let reply: Value = serde_json::from_str(&line.unwrap()).unwrap();
                if reply["ok"] == true {
                    all.push(format!("entry {}.", reply["id"].as_str().unwrap()));
                } else {
                    assert!(matches!(kind(&reply), "timeout" | "unavailable"), "{reply}");
                }
            }
            let n_done = all.len() - n_before;
            assert!(N_APPENDS / 2 < n_done, "{n_done} calls of a process succeeded");
            child.wait().unwrap();
        }
        let path = if scope == "user" { place.user_memory() } else { place.memory() };
        let content = fs::read_to_string(path).unwrap();
        let mut entries: Vec<&str> = content.split("\n\n").collect();
        entries.sort_unstable();
        all.sort_unstable();
        assert_eq!(entries, all, "{scope}");
    }
}

#[test]
fn writes_are_recorded_and_undone() {
    for (scope, file) in [
        ("project", Place::memory as fn(&Place) -> PathBuf),
        ("user", Place::user_memory as fn(&Place) -> PathBuf),
    ] {
        let place = Place::new();
        let path = file(&place);
        let first = place.note(&json!({ "content": "one", "scope": scope }));
        let second = place.note(&json!({ "content": "two", "scope": scope, "mode": "overwrite" }));
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        let listed = place.sinew(&["audit", "list", "--json"]).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let last: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
        let hash = |text: &str| Value::from(sinew_guard::content_hash(text.as_bytes()).to_string());
        assert_eq!((&last["tool"], &last["outcome"]), (&json!("MemoryWrite"), &json!("ok")));
        assert_eq!((&last["before_hash"], &last["after_hash"]), (&hash("one"), &hash("two")));
        for (id, left) in [(&second, Some("one")), (&first, None)] {
            let done = place.sinew(&["checkpoint", "restore", id, "--yes"]).output().unwrap();
            assert!(
                done.status.success(),
                "{scope} {id}: {}",
                String::from_utf8_lossy(&done.stderr)
            );
            assert_eq!(fs::read_to_string(&path).ok().as_deref(), left, "{scope} {id}");
        }
        // The directory stays: other files of sinew come there too.
        assert!(path.parent().unwrap().is_dir());
    }
}

#[test]
fn new_directories_are_ignored_or_private() {
    let place = Place::new();
    place.note(&json!({ "content": "a" }));
    place.note(&json!({ "content": "b", "scope": "user" }));
    assert_eq!(fs::read_to_string(place.root.join(".sinew/.gitignore")).unwrap(), "*\n");
    let dir = place.user_memory().parent().unwrap().to_owned();
    assert_eq!(fs::metadata(dir).unwrap().permissions().mode() & 0o777, 0o700);
}

/// Neither file tools nor commands change a memory, even if the user's is beneath a root; the memory tools do.
#[test]
fn other_tools_do_not_change_it() {
    let place = Place::new();
    place.note(&json!({ "content": "mine" }));
    place.note(&json!({ "content": "mine", "scope": "user" }));
    let home = place.home.to_str().unwrap();
    for path in [place.memory(), place.user_memory()] {
        let name = path.to_str().unwrap();
        let patch = format!("*** Begin Patch\n*** Delete File: {name}\n*** End Patch\n");
        for (tool, arguments) in [
            ("Write", json!({ "file_path": name, "content": "theirs" })),
            ("Edit", json!({ "file_path": name, "old_string": "mine", "new_string": "theirs" })),
            ("ApplyPatch", json!({ "patch": patch })),
            ("Bash", json!({ "command": format!("echo theirs > {name}") })),
            ("Bash", json!({ "command": format!("rm -rf {}", path.parent().unwrap().display()) })),
        ] {
            let root = place.root.to_str().unwrap();
            let roots = ["--root", root, "--root", home];
            let reply = place.call(&roots, tool, &arguments);
            assert_ne!(kind(&reply), "none", "{tool}: {reply}");
            assert_eq!(fs::read_to_string(&path).unwrap(), "mine", "{tool} {arguments}");
        }
    }
    // The project's is read as any file; the user's is not seen.
    let read = |path: PathBuf| {
        let arguments = json!({ "file_path": path });
        kind(&place.call(&["--root", home, "--root", "."], "Read", &arguments)).to_owned()
    };
    assert_eq!(
        (read(place.memory()), read(place.user_memory())),
        ("none".into(), "path_denied".into())
    );
    let command = json!({ "command": format!("cat {}", place.user_memory().display()) });
    let reply = place.call(&[], "Bash", &command);
    assert!(!text(&reply).contains("mine"), "{reply}");
    place.note(&json!({ "content": "more" }));
}

/// A repository may ship a link in the place of the file, or of the directory once sinew runs.
#[test]
fn links_lead_nowhere() {
    for (is_above, is_outside) in [(false, false), (false, true), (true, false), (true, true)] {
        let place = Place::new();
        let runtime = Runtime::builder(NATIVE)
            .root(&place.root)
            .asking(Asking { approvals: Approvals::Allow, ..Asking::default() })
            .without_store();
        let caller = Caller::new(&runtime.build().unwrap());
        let to = if is_outside { &place.home } else { &place.root }.join("to");
        fs::create_dir(&to).unwrap();
        fs::write(to.join("MEMORY.md"), "theirs").unwrap();
        if is_above {
            symlink(&to, place.root.join(".sinew")).unwrap();
        } else {
            fs::create_dir(place.root.join(".sinew")).unwrap();
            symlink(to.join("MEMORY.md"), place.memory()).unwrap();
        }
        for (tool, arguments) in [
            ("MemoryRead", json!({})),
            ("MemoryWrite", json!({ "content": "a" })),
            ("MemoryWrite", json!({ "content": "a", "mode": "overwrite" })),
        ] {
            let error = caller.call(tool, arguments).error.expect("an error");
            assert_eq!(error.kind.to_string(), "path_denied", "{is_above} {error:?}");
            assert_eq!(fs::read_to_string(to.join("MEMORY.md")).unwrap(), "theirs");
        }
        assert_eq!(fs::read_dir(&to).unwrap().count(), 1);
        // Without a state directory, the user has no memory.
        let error = caller.call("MemoryRead", json!({ "scope": "user" })).error.expect("an error");
        assert_eq!(error.message, "path denied: the user's MEMORY.md");
    }
}

#[test]
fn limits_and_encodings_are_told() {
    let place = Place::new();
    let write = |n: usize, mode: &str| json!({ "content": "x".repeat(n), "mode": mode });
    fs::create_dir(place.root.join(".sinew")).unwrap();
    // Ten megabytes are neither read nor appended to, and a shorter memory takes their place.
    fs::write(place.memory(), vec![b'x'; 10 << 20]).unwrap();
    assert_eq!(kind(&place.call(&[], "MemoryRead", &json!({}))), "too_large");
    assert_eq!(kind(&place.call(&[], "MemoryRead", &json!({ "query": "x" }))), "too_large");
    assert_eq!(kind(&place.call(&[], "MemoryWrite", &write(1, "append"))), "too_large");
    let id = place.note(&write(2, "overwrite"));
    assert_eq!(fs::read_to_string(place.memory()).unwrap(), "xx");
    let done = place.sinew(&["checkpoint", "restore", &id, "--yes"]).output().unwrap();
    assert!(done.status.success());
    assert_eq!(fs::metadata(place.memory()).unwrap().len(), 10 << 20);
    for bytes in [&b"caf\xe9"[..], b"\xff\xfea\0"] {
        fs::write(place.memory(), bytes).unwrap();
        assert_eq!(kind(&place.call(&[], "MemoryRead", &json!({}))), "binary");
        assert_eq!(kind(&place.call(&[], "MemoryWrite", &write(1, "append"))), "binary");
        assert_eq!(kind(&place.call(&[], "MemoryWrite", &write(1, "overwrite"))), "binary");
        assert_eq!(fs::read(place.memory()).unwrap(), bytes);
    }
    // The limit is a setting.
    fs::write(place.memory(), "a").unwrap();
    let limit = ["--set", "tools.memory.max_bytes=4"];
    assert_eq!(kind(&place.call(&limit, "MemoryWrite", &write(2, "append"))), "too_large");
    assert_eq!(kind(&place.call(&limit, "MemoryWrite", &write(1, "append"))), "none");
}

/// A memory is judged as a file of the root is.
#[test]
fn profiles_judge_it_like_a_file() {
    for profile in ["read-only", "workspace", "sandboxed", "full"] {
        let place = Place::new();
        let profile = format!("profile={profile}");
        let flags = ["--approvals", "ask", "--set", &profile];
        let verdict = |tool: &str, arguments: &Value| {
            let reply = place.call_with(&flags, tool, arguments);
            (kind(&reply).to_owned(), reply["meta"]["ruling"].clone())
        };
        let of_file = verdict("Write", &json!({ "file_path": "a", "content": "a" }));
        for scope in ["project", "user"] {
            let arguments = json!({ "content": "a", "scope": scope });
            assert_eq!(verdict("MemoryWrite", &arguments), of_file, "{profile} {scope}");
            assert_eq!(verdict("MemoryRead", &json!({ "scope": scope })).0, "none", "{profile}");
        }
    }
}

#[test]
fn rules_name_tool_and_path() {
    let place = Place::new();
    place.note(&json!({ "content": "one" }));
    let config = place.home.join("config/sinew/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    let both = |rules: &str| {
        fs::write(&config, rules).unwrap();
        let write = place.call(&[], "MemoryWrite", &json!({ "content": "a" }));
        let read = place.call(&[], "MemoryRead", &json!({}));
        (kind(&write).to_owned(), kind(&read).to_owned())
    };
    let rule = |tools: &str, paths: &str| {
        format!("[[rules]]\nverdict = \"deny\"\ntools = [\"{tools}\"]\npaths = [\"{paths}\"]\n")
    };
    for (rules, write, read) in [
        (rule("MemoryWrite", ".sinew/**"), "policy_denied", "none"),
        (rule("MemoryRead", ".sinew/MEMORY.md"), "none", "policy_denied"),
        (rule("MemoryWrite", "src/**"), "none", "none"),
        (String::from("tools.policy.deny = [\"memory\"]\n"), "policy_denied", "policy_denied"),
        (String::from("tools.policy.deny = [\"memory_write\"]\n"), "policy_denied", "none"),
        (String::from("tools.policy.allow = [\"memory\"]\n"), "none", "none"),
        (String::from("tools.policy.deny = [\"Write\"]\n"), "policy_denied", "none"),
        (String::from("tools.policy.deny = [\"Read\"]\n"), "none", "policy_denied"),
        (String::from("tools.fs.deny_paths = [\"**/MEMORY.md\"]\n"), "path_denied", "path_denied"),
    ] {
        assert_eq!(both(&rules), (write.to_owned(), read.to_owned()), "{rules}");
        let checked = place.sinew(&["mcp", "--check"]).output().unwrap();
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(!said.contains("names no tool"), "{said}");
    }
}

#[test]
fn denied_memory_is_not_restored() {
    let place = Place::new();
    let id = place.note(&json!({ "content": "one" }));
    let restore = |rule: &str| {
        let rules = format!("rules=[{{verdict=\"deny\",{rule}}}]");
        let args = ["--set", &rules, "checkpoint", "restore", &id, "--yes"];
        let done = place.sinew(&args).output().unwrap();
        (done.status.code(), place.memory().exists())
    };
    assert_eq!(restore("tools=[\"MemoryWrite\"],paths=[\".sinew/**\"]"), (Some(3), true));
    assert_eq!(restore("tools=[\"MemoryWrite\"],paths=[\"src/**\"]"), (Some(0), false));
}
