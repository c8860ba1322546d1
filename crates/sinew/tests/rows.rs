//! Commands in the words of other vocabularies, run for real.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use sinew_testkit::COMMAND_ROWS as ROWS;
use tempfile::TempDir;

use crate::served::command;

/// A home directory with a project in it, and programs beside it.
struct Home {
    dir: TempDir,
    project: PathBuf,
    /// Where programs are looked for.
    path: String,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let project = fs::canonicalize(dir.path()).unwrap().join("project");
        fs::create_dir_all(project.join("sub")).unwrap();
        let path = format!("{}/bin:/usr/bin:/bin", dir.path().display());
        let home = Self { dir, project, path };
        home.file("project/big", &"x".repeat(300_000), 0o644);
        home.file("project/wide", &"é".repeat(150_000), 0o644);
        home.file("project/cat", "#!/bin/sh\necho planted\n", 0o755);
        home.file("bin/jq", "no program\n", 0o644);
        home
    }

    /// Returns one where programs are looked for beside the project alone.
    fn with_few_programs() -> Self {
        let home = Self::new();
        Self { path: format!("{}/bin", home.dir.path().display()), ..home }
    }

    fn file(&self, path: &str, content: &str, mode: u32) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Calls a tool of a dialect; returns the exit code and the result object.
    fn call(&self, more: &[&str], (dialect, tool): (&str, &str), args: &Value) -> (i32, Value) {
        let mut command = command(self.dir.path());
        let path = self.path.as_str();
        let vars = [("PATH", path), ("NODE_ENV", "test"), ("LC_ALL", "C"), ("SECRET", "x")];
        command.envs(vars).arg("--root").arg(&self.project).args(["--dialect", dialect]).args(more);
        if !more.iter().any(|word| word.contains("commandPolicy")) {
            command.args(["--set", "tools.commandPolicy.mode=denylist"]);
        }
        let args = self.filled(&args.to_string());
        let done = command.args(["call", "--json", tool, &args]).output().unwrap();
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let result =
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("{tool} {args}: {done:?}"));
        (done.status.code().unwrap_or(-1), result)
    }

    fn filled(&self, text: &str) -> String {
        text.replace("{root}", &self.project.display().to_string())
    }

    /// Checks the text of an allowed call, and its error's kind.
    #[track_caller]
    fn check(&self, row: (&str, &str), args: &Value, text: &str, error: Option<&str>) {
        let (_, result) = self.call(&["--approvals", "allow"], row, args);
        let found = result["content"][0]["text"].as_str().unwrap_or_default();
        let end = found.find(",\"duration_ms\":").unwrap_or(found.len());
        let found = if text.ends_with('}') { found } else { &found[..end] };
        assert_eq!(found, self.filled(text), "{row:?} {args}");
        assert_eq!(result["error"]["kind"].as_str(), error, "{row:?} {args}");
        assert_eq!(result["ok"], error.is_none(), "{row:?} {args}");
    }
}

#[test]
fn every_row_asks_and_is_what_rules_mean_by_bash() {
    let home = Home::new();
    for row in ROWS {
        let args = match row.1 {
            "tool::shell_exec" => json!({ "argv": ["touch", "made"] }),
            "spawn" => json!({ "command": "touch", "args": ["made"] }),
            _ => json!({ "command": "touch made" }),
        };
        for (more, kind) in [
            (&["--approvals", "ask"][..], "approval_denied"),
            (&["--approvals", "allow", "--set", "tools.policy.deny=[\"Bash\"]"], "policy_denied"),
            (&["--approvals", "allow", "--read-only"], "policy_denied"),
        ] {
            let (code, result) = home.call(more, *row, &args);
            assert_eq!(result["error"]["kind"], kind, "{row:?} {more:?}: {result}");
            assert_eq!(code, 3, "{row:?} {more:?}");
        }
        assert!(!home.project.join("made").exists(), "{row:?}");
        let (code, result) = home.call(&["--approvals", "allow"], *row, &args);
        assert_eq!(code, 0, "{row:?}: {result}");
        fs::remove_file(home.project.join("made")).unwrap();
    }
}

#[test]
fn shell_exec_of_molf() {
    let home = Home::new();
    let row = ("molf", "shell_exec");
    for (args, text, error) in [
        (json!({"command": "echo one; echo two >&2"}), "one\ntwo\n\n\nexit code: 0", None),
        (json!({"command": "printf x; exit 3"}), "x\n\nexit code: 3", None),
        (json!({"command": "kill -9 $$"}), "\n\nexit code: 1", None),
        (json!({"command": "basename $PWD", "cwd": "sub"}), "sub\n\n\nexit code: 0", None),
        (json!({"command": "basename $PWD", "cwd": ""}), "project\n\n\nexit code: 0", None),
        (json!({"command": "basename $PWD", "cwd": "{root}/sub"}), "sub\n\n\nexit code: 0", None),
        (
            json!({"command": "printf begun; sleep 600", "timeout": 300}),
            "begun\n\nCommand execution failed: Command timed out after 300ms",
            Some("timeout"),
        ),
        (
            json!({"command": "  "}),
            "argument `command` is empty; name a command",
            Some("invalid_args"),
        ),
    ] {
        home.check(row, &args, text, error);
    }
    let allowed = &["--approvals", "allow"];
    for (args, kind) in [
        (json!({"command": "true", "cwd": "/etc"}), "path_denied"),
        (json!({"command": "true", "cwd": "../.."}), "path_denied"),
        (json!({"command": "true", "cwd": "none"}), "file_not_found"),
        (json!({"command": "true", "cwd": "big"}), "not_regular_file"),
    ] {
        let (_, result) = home.call(allowed, row, &args);
        assert_eq!(result["error"]["kind"], kind, "{args}: {result}");
    }
    let (_, result) = home.call(allowed, row, &json!({"command": "seq 1 5000"}));
    let text = result["content"][0]["text"].as_str().unwrap();
    let path = result["structured"]["meta"]["outputPath"].as_str().unwrap();
    assert_eq!(
        path,
        ".molf/tool-output/".to_owned() + result["call_id"].as_str().unwrap() + ".txt"
    );
    assert!(text.contains("\n2000\n\n...3000 lines truncated...\n\n"), "{text:.100}");
    assert!(text.contains(path) && text.ends_with("\n\nexit code: 0"), "{path}");
    let whole = fs::read_to_string(home.project.join(path)).unwrap();
    assert!(whole.ends_with("4999\n5000\n"));
}

#[test]
fn shell_exec_of_agentos() {
    let home = Home::new();
    let row = ("agentos", "tool::shell_exec");
    let argv = |argv: &[&str]| json!({ "argv": argv });
    let late = "timed out after 300 ms, and everything it started was ended";
    for (args, stdout, stderr, code) in [
        (argv(&["echo", "$HOME;", "*"]), "$HOME; *\n", "", 0),
        (argv(&["/bin/echo", "x"]), "x\n", "", 0),
        (json!({"argv": ["ls"], "cwd": "sub"}), "", "", 0),
        (argv(&["cat", "none"]), "", "cat: none: No such file or directory\n", 1),
        (json!({"argv": ["ls"], "cwd": "none"}), "", "argument `cwd`: no such file: none", 127),
        (json!({"argv": ["tail", "-f", "/dev/null"], "timeout": 300}), "", late, 124),
    ] {
        let text = json!({ "stdout": stdout, "stderr": stderr, "exitCode": code }).to_string();
        home.check(row, &args, &text, None);
    }
    let bare = Home::with_few_programs();
    for (name, problem, code) in
        [("bun", "no such program", 127), ("jq", "cannot be executed", 126)]
    {
        let stderr = format!("argument `argv`: {problem}: {name}");
        let text = json!({ "stdout": "", "stderr": stderr, "exitCode": code }).to_string();
        bare.check(row, &argv(&[name]), &text, None);
    }
    let allowed = &["--approvals", "allow"];
    for (args, kind, words) in [
        (argv(&["sh", "-c", "true"]), "policy_denied", "these may: git, node, npm"),
        (argv(&["/bin/sh"]), "policy_denied", "this program may not be run here: /bin/sh"),
        (argv(&["./cat"]), "policy_denied", "name it without a directory: `cat`"),
        (argv(&["{root}/cat"]), "policy_denied", "another program than the one"),
        (argv(&[]), "invalid_args", "argument `argv` is empty; name a program"),
        (json!({"argv": "ls"}), "invalid_args", "argument `argv` must be a list"),
        (json!({"argv": ["ls"], "cwd": "/etc"}), "path_denied", "argument `cwd`"),
        (json!({"argv": ["ls"], "cwd": "../.."}), "path_denied", "argument `cwd`"),
    ] {
        let (_, result) = home.call(allowed, row, &args);
        assert_eq!(result["error"]["kind"], kind, "{args}: {result}");
        assert!(result["content"][0]["text"].as_str().unwrap().contains(words), "{args}: {result}");
    }
    for (file, n_chars) in [("big", 100_000), ("wide", 50_000)] {
        let (_, result) = home.call(allowed, row, &argv(&["cat", file]));
        let stdout = result["structured"]["stdout"].as_str().unwrap();
        assert_eq!((stdout.chars().count(), stdout.contains('\u{fffd}')), (n_chars, false));
        let path = result["meta"]["output_path"].as_str().unwrap();
        assert_eq!(fs::read(home.project.join(path)).unwrap().len(), 300_000);
    }
    let (_, result) = home.call(allowed, row, &argv(&["env"]));
    let mut vars: Vec<&str> = result["structured"]["stdout"].as_str().unwrap().lines().collect();
    vars.retain(|var| !var.starts_with("TMPDIR="));
    vars.sort_unstable();
    let expected = [
        format!("HOME={}", home.dir.path().display()),
        String::from("NODE_ENV=test"),
        format!("PATH={}", home.path),
    ];
    assert_eq!(vars, expected);
}

#[test]
fn bash_of_aionrs() {
    let home = Home::new();
    for (args, text, error) in [
        (
            json!({"command": "echo one; echo two >&2"}),
            "Exit code: 0\nSTDOUT:\none\n\nSTDERR:\ntwo\n",
            None,
        ),
        (
            json!({"command": "printf x; exit 3"}),
            "Exit code: 3\nSTDOUT:\nx\nSTDERR:\n",
            Some("execution_failed"),
        ),
        (json!({"command": "echo $0"}), "Exit code: 0\nSTDOUT:\nsh\n\nSTDERR:\n", None),
        (
            json!({"command": "printf begun; sleep 600", "timeout": 300}),
            "Command timed out after 300ms\nSTDOUT:\nbegun\nSTDERR:\n",
            Some("timeout"),
        ),
    ] {
        home.check(("aionrs", "Bash"), &args, text, error);
    }
}

#[test]
fn exec_shell_and_spawn_of_clawft() {
    let home = Home::new();
    for (tool, args, text, error) in [
        (
            "exec_shell",
            json!({"command": "echo one; echo two >&2; exit 3"}),
            r#"{"exit_code":3,"stdout":"one\n","stderr":"two\n""#,
            None,
        ),
        (
            "spawn",
            json!({"command": "echo", "args": ["a b", "$HOME"], "description": "says it"}),
            r#"{"exit_code":0,"stdout":"a b $HOME\n","stderr":"","command":"echo","description":"says it"}"#,
            None,
        ),
        (
            "spawn",
            json!({"command": "sh", "args": ["-c", "echo begun; sleep 600"], "timeout": 1}),
            r#"{"exit_code":-1,"stdout":"begun\n","stderr":"","command":"sh","description":"(no description)","error":"timeout after 1s"}"#,
            Some("timeout"),
        ),
        (
            "spawn",
            json!({"command": "no-such-program"}),
            r#"{"error":"not found: argument `command`: no such program: no-such-program; check the name; programs are looked for in PATH, outside the roots"}"#,
            Some("file_not_found"),
        ),
        (
            "spawn",
            json!({"command": "./big"}),
            r#"{"error":"permission denied: argument `command`: cannot be executed: ./big; its mode does not allow execution, or it is not a file"}"#,
            Some("permission_denied"),
        ),
    ] {
        home.check(("clawft", tool), &args, text, error);
    }
    let args = json!({"command": "echo begun; sleep 600", "timeout": 1});
    let (_, result) = home.call(&["--approvals", "allow"], ("clawft", "exec_shell"), &args);
    assert_eq!(result["structured"]["error"], "timeout after 1s", "{result}");
    assert_eq!(result["structured"]["stdout"], "begun\n", "{result}");
    assert!(1_000 <= result["structured"]["duration_ms"].as_u64().unwrap(), "{result}");
    let args = json!({"command": "cat wide; cat big >&2"});
    let (_, result) = home.call(&["--approvals", "allow"], ("clawft", "exec_shell"), &args);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!((65_500..=65_536).contains(&text.len()), "{}", text.len());
    let inner: Value = serde_json::from_str(text).unwrap();
    assert_eq!(inner, result["structured"]);
    assert!(inner["stdout"].as_str().unwrap().ends_with('é'));
}

#[test]
fn clawft_runs_what_its_policy_names() {
    let home = Home::new();
    let exec = |text: &str| ("exec_shell", json!({ "command": text }));
    let spawn =
        |command: &str, args: &[&str]| ("spawn", json!({ "command": command, "args": args }));
    let allow = "tools.commandPolicy.mode=allowlist";
    let only_touch = "tools.commandPolicy.allowlist=[\"touch\"]";
    let none = "tools.commandPolicy.allowlist=[]";
    let deny = "tools.commandPolicy={mode=\"denylist\",denylist=[\"TOUCH  made\"]}";
    for (set, (tool, args), refused) in [
        (allow, exec("echo a | wc -l; test -e big && true"), None),
        (allow, exec("/bin/echo a"), None),
        (none, exec("echo a"), None),
        (allow, spawn("echo", &["touch made"]), None),
        (allow, exec("touch made"), Some("`touch` is not among the allowed commands")),
        (allow, exec("echo a & touch made"), Some("`touch` is not among")),
        (allow, exec("echo a\ntouch made"), Some("`touch` is not among")),
        (allow, exec("echo $(touch made)"), Some("`touch` is not among")),
        (allow, exec("echo `touch made`"), Some("`touch` is not among")),
        (allow, exec("env touch made"), Some("`touch` is not among")),
        (allow, exec("find . -name big -exec touch made \\;"), Some("`touch` is not among")),
        (allow, exec("$X made"), Some("only known when it does")),
        (allow, exec("./cat big"), Some("`./cat` is not among")),
        (allow, exec("echo 'a"), Some("is not known: it cannot be parsed")),
        (allow, spawn("touch", &["made"]), Some("`touch` is not among")),
        (allow, spawn("env", &["touch", "made"]), Some("`touch` is not among")),
        (allow, spawn("/bin/sh", &["-c", "true"]), Some("is not among")),
        (allow, exec("echo RM  -rf\t/"), Some("dangerous pattern `rm -rf /`")),
        (only_touch, exec("echo a"), Some("`echo` is not among")),
        (only_touch, exec("touch other"), None),
        (deny, exec("touch other"), None),
        (deny, exec("touch 'made'"), Some("it holds `TOUCH  made`, which is denied")),
        (deny, exec("echo reboot"), Some("dangerous pattern `reboot`")),
        (deny, spawn("env", &["sudo", "true"]), Some("dangerous pattern `sudo`")),
    ] {
        let (_, result) =
            home.call(&["--approvals", "allow", "--set", set], ("clawft", tool), &args);
        let kind = refused.map(|_| "policy_denied");
        assert_eq!(result["error"]["kind"].as_str(), kind, "{set} {args}: {result}");
        let error = result["structured"]["error"].as_str().unwrap_or_default();
        let begin = "permission denied: denied by the rule `tools.commandPolicy`: ";
        let words = refused.map(|words| error.starts_with(begin) && error.contains(words));
        assert!(words.unwrap_or(error.is_empty()), "{set} {args}: {error}");
        assert!(!home.project.join("made").exists(), "{set} {args}");
    }
    // No other vocabulary reads it.
    let (_, result) = home.call(
        &["--approvals", "allow", "--set", allow],
        ("molf", "shell_exec"),
        &json!({ "command": "touch other" }),
    );
    assert_eq!(result["ok"], true, "{result}");
}

#[test]
fn exec_of_moltis() {
    let home = Home::new();
    let row = ("moltis", "exec");
    for (args, text, error) in [
        (
            json!({"command": "echo one; echo two >&2; exit 3"}),
            r#"{"stdout":"one\n","stderr":"two\n","exit_code":3}"#,
            None,
        ),
        (
            json!({"command": "basename $PWD", "working_dir": "{root}/sub"}),
            r#"{"stdout":"sub\n","stderr":"","exit_code":0}"#,
            None,
        ),
        (
            json!({"command": "printf begun; sleep 600", "timeout": 1}),
            r#"{"stdout":"begun","stderr":"","exit_code":-1,"error":"command timed out after 1s"}"#,
            Some("timeout"),
        ),
        (
            json!({"command": "true", "working_dir": "none"}),
            "argument `working_dir`: no such file: none\n\ncheck the path by listing the \
             directory above it; a dangling link counts as missing",
            Some("file_not_found"),
        ),
    ] {
        home.check(row, &args, text, error);
    }
    let args = json!({"command": "cat wide; cat big >&2"});
    let (_, result) = home.call(&["--approvals", "allow"], row, &args);
    for (key, content) in [("stdout", "é".repeat(102_400)), ("stderr", "x".repeat(204_800))] {
        let text = result["structured"][key].as_str().unwrap();
        assert!(text == format!("{content}\n... [output truncated]"), "{key}: {}", text.len());
    }
}

/// Two calls at once had both been counted before either ran.
#[test]
fn no_more_than_five_are_spawned_at_once() {
    let home = Home::new();
    let mut server = command(home.dir.path());
    server.args(["--dialect", "clawft", "--approvals", "trust-client"]);
    let config = home.dir.path().join("config/sinew/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(config, "[tools.commandPolicy]\nmode = \"denylist\"\n").unwrap();
    let pipes =
        server.arg("mcp").current_dir(&home.project).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut send = |id: u32, method: &str, params: Value| {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(input, "{request}").unwrap();
    };
    let mut receive = || {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    let client = json!({ "name": "test", "version": "0" });
    let shake =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    send(0, "initialize", shake);
    receive();
    let wait = "until test -e go; do sleep 0.05; done; echo gone";
    let spawn = |text: &str| json!({ "name": "spawn", "arguments": { "command": "sh", "args": ["-c", text] } });
    (1..=6).for_each(|id| send(id, "tools/call", spawn(wait)));
    let refused = receive();
    let text = refused["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("execution failed: 5 commands run already"), "{refused}");
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    fs::write(home.project.join("go"), "").unwrap();
    for _ in 0..5 {
        let done = receive();
        assert_eq!(done["result"]["structuredContent"]["stdout"], "gone\n", "{done}");
    }
    for id in 7..=16 {
        send(id, "tools/call", spawn("echo again"));
        let done = receive();
        assert_eq!(done["result"]["structuredContent"]["stdout"], "again\n", "{done}");
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}
