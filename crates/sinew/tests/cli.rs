//! The command as a shell has it: words, variables and files in, text, JSON and exit codes out.
//!
//! Every run has a home, a configuration and a state of its own. The tables of keys and variables
//! are compared with what the code knows, so that a new one needs its row here.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::database;
use crate::served::command;

/// A home, a root and another directory that vanish with their test.
struct Place {
    _dir: tempfile::TempDir,
    home: PathBuf,
    root: PathBuf,
    other: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let [home, root, other] = ["home", "ws", "other"].map(|name| top.join(name));
        for path in [&home, &root.join("dir"), &root.join(".git"), &other] {
            fs::create_dir_all(path).unwrap();
        }
        let line = format!("{}\n", "x".repeat(99));
        for (path, content) in [
            ("a.txt", b"one\ntwo\n".as_slice()),
            ("b.txt", b"one\n"),
            ("dir/c.txt", b"one\n"),
            ("ignored.log", b"one\n"),
            (".gitignore", b"*.log\n"),
            ("binary.bin", b"a\0b"),
            ("large.txt", line.repeat(2_000).as_bytes()),
            ("linked.txt", b"one\n"),
        ] {
            fs::write(root.join(path), content).unwrap();
        }
        fs::hard_link(root.join("linked.txt"), root.join("dir/second.txt")).unwrap();
        fs::write(other.join("elsewhere.txt"), "one\n").unwrap();
        Self { _dir: dir, home, root, other }
    }

    /// Puts the directories of this place into a text.
    fn fill(&self, text: &str) -> String {
        text.replace("{root}", self.root.to_str().unwrap())
            .replace("{other}", self.other.to_str().unwrap())
            .replace("{home}", self.home.to_str().unwrap())
    }

    /// Returns the command in the root, with arguments.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(&self.home);
        command.current_dir(&self.root).args(args.iter().map(|arg| self.fill(arg)));
        command
    }

    fn run(&self, args: &[&str], input: &str) -> Ran {
        Ran::of(&mut self.command(args), input)
    }
}

/// What a run left.
#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    fn of(command: &mut Command, input: &str) -> Self {
        let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = streams.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A command that does not read its input closes it.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let done = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: done.status.code().unwrap(), out: text(done.stdout), err: text(done.stderr) }
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the objects that were printed, one a line.
    #[track_caller]
    fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// Returns everything that can be seen of the run.
    fn transcript(&self) -> String {
        format!("exit {}\n{}{}", self.code, self.out, self.err)
    }
}

#[track_caller]
fn check_exit(args: &[&str], input: &str, code: i32, out: &str, err: &str) {
    let ran = Place::new().run(args, input);
    assert_eq!(ran.code, code, "{args:?}: {ran:?}");
    assert!(ran.out.contains(out), "{args:?}: {ran:?}");
    assert!(ran.err.contains(err), "{args:?}: {ran:?}");
    assert!(code == 0 || ran.out.is_empty(), "what failed says so on standard error: {ran:?}");
    assert!(code != 0 || ran.err.is_empty(), "what succeeded is quiet: {ran:?}");
}

/// The server ended with success, and its caller did not learn that no answer had arrived.
#[test]
fn answers_that_cannot_be_written_are_a_failure() {
    let place = Place::new();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let params = r#"{"name":"Write","arguments":{"file_path":"new.txt","content":"x"}}"#;
    let shake = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}"#;
    let mut mcp = place.command(&["--approvals", "trust-client", "mcp"]);
    let mut child = mcp.stdin(Stdio::piped()).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for (id, method, params) in [(1, "initialize", shake), (2, "tools/call", params)] {
        // The server stops reading as soon as a write fails.
        let _ = writeln!(
            input,
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#
        );
    }
    // It ends by itself, with the input still open.
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.starts_with("sinew: answers cannot be written: No space left"), "{said}");
}

/// The last of two equal keys won, so that an approver who saw the first was shown another file.
const TWICE: &str = r#"{"file_path": "zzz", "file_path": "a.txt"}"#;

#[test]
fn a_batch_refuses_a_key_that_appears_twice() {
    let line = format!("{{\"name\": \"Read\", \"arguments\": {TWICE}}}\n");
    let result = Place::new().run(&["call", "--batch"], &line).json();
    let message = result["error"]["message"].as_str().unwrap();
    assert_eq!(result["error"]["kind"], "invalid_args");
    assert!(message.contains("the key \"file_path\" appears twice"), "{message}");
}

#[test]
fn exit_codes_tell_what_happened() {
    let write = r#"{"file_path": "new.txt", "content": "x"}"#;
    for (args, input, code, out, err) in [
        (&["call", "Read", r#"{"file_path": "a.txt"}"#][..], "", 0, "2→two", ""),
        (&["call", "Read", "file_path=a.txt", "limit=1", "offset:=2"], "", 0, "2→two", ""),
        (&["call", "List"], "", 0, "a.txt", ""),
        (&["call", "Read", "-"], r#"{"file_path": "b.txt"}"#, 0, "1→one", ""),
        (&["call", "Grep", r#"{"pattern": "nowhere"}"#], "", 0, "no matches", ""),
        (&["--approvals", "allow", "call", "Write", write], "", 0, "created new.txt", ""),
        (&["--approvals", "trust-client", "call", "Write", write], "", 2, "", "--approvals allow"),
        (&["--approvals", "trust-client", "call", "--batch"], "", 2, "", "flag --approvals: "),
        (&["--set", "approvals=trust-client", "call", "List"], "", 2, "", "flag --set: "),
        (&["--approvals", "trust-client", "tools"], "", 0, "Write", ""),
        (&["call", "Read", r#"{"file_path": "none"}"#], "", 1, "", "no such file: none"),
        (&["call", "Read", r#"{"file_path": "dir"}"#], "", 1, "", "use List"),
        (&["call", "Read", r#"{"file_path": "binary.bin"}"#], "", 1, "", "binary"),
        (&["call", "Nope"], "", 2, "", "known tools: Read, Write"),
        (&["call", "Read"], "", 2, "", "`file_path` is missing"),
        (&["call", "Read", "{}"], "", 2, "", "`file_path` is missing"),
        (&["call", "Read", r#"{"file_path": "a.txt", "x": 1}"#], "", 2, "", "x"),
        (&["call", "Read", "a.txt"], "", 2, "", "write NAME=TEXT or NAME:=JSON"),
        (&["call", "Read", "file_path:=a.txt"], "", 2, "", "a text is written file_path=TEXT"),
        (&["call", "Read", "file_path=a.txt", "limit=two"], "", 2, "", "must be a whole number"),
        (&["call", "Read", "file_path=a.txt", "-"], "", 2, "", "must be the only argument"),
        (&["call", "Read", "[]"], "", 2, "", "one JSON object"),
        (&["call", "Read", "{"], "", 2, "", "not JSON"),
        (&["call", "Read", TWICE], "", 2, "", "the key \"file_path\" appears twice"),
        (&["call", "Read", "-"], "", 2, "", "not JSON"),
        (&["call", "Grep", r#"{"pattern": "("}"#], "", 2, "", "unclosed group"),
        (&["call"], "", 2, "", "<TOOL>"),
        (&["call", "--batch", "Read"], "", 2, "", "cannot be used with"),
        (&["nope"], "", 2, "", "unrecognized subcommand"),
        (&["--nope", "tools"], "", 2, "", "unexpected argument"),
        (&["--dialect", "klingon", "tools"], "", 2, "", "`dialect` must be one of"),
        (&["--config", "{root}/none.toml", "tools"], "", 2, "", "none.toml"),
        (&["--set", "files.nope=1", "tools"], "", 2, "", "nope"),
        (&["--set", "files", "tools"], "", 2, "", "key=value"),
        (&["--root", "{root}/none", "tools"], "", 2, "", "does not exist"),
        (&["--root", "{root}/a.txt", "tools"], "", 2, "", "not a directory"),
        (&["call", "Read", r#"{"file_path": "../other/elsewhere.txt"}"#], "", 3, "", "denied"),
        (&["--approvals", "ask", "call", "Write", write], "", 3, "", "needs approval"),
        (&["--approvals", "deny", "call", "Write", write], "", 3, "", "needs approval"),
        (&["--read-only", "--approvals", "allow", "call", "Write", write], "", 3, "", "read-only"),
        (&["--set", r#"tools.policy.deny=["Read"]"#, "call", "Read", "{}"], "", 2, "", "missing"),
        (
            &["--set", r#"tools.policy.deny=["List"]"#, "call", "List"],
            "",
            3,
            "",
            "denied by the rule",
        ),
        (&["--tools", "none", "tools"], "", 2, "", "flag --tools: `serve` names no tool: `none`"),
        (&["--tools", "core,net", "tools"], "", 2, "", "names no tool: `net`"),
        (&["--tools", "Raed", "tools"], "", 2, "", "did you mean: Read"),
        (&["--session", "", "tools"], "", 2, "", "flag --session: `session` must be"),
        (&["--set", "session=a/b", "tools"], "", 2, "", "flag --set: `session` must be"),
        (&["--version"], "", 0, "sinew ", ""),
        (&["--help"], "", 0, "Usage: sinew", ""),
        (&["tools"], "", 0, "MultiEdit", ""),
        (&["config", "show"], "", 0, "dialect = \"native\"", ""),
        (&["config", "show"], "", 0, "tools.fs.workspace_root = null", ""),
        (&["doctor"], "", 0, "roots", ""),
    ] {
        check_exit(args, input, code, out, err);
    }
}

#[test]
fn a_home_or_the_whole_machine_is_no_root_by_accident() {
    let place = Place::new();
    for dir in [place.home.as_path(), std::path::Path::new("/")] {
        let ran = Ran::of(place.command(&["tools"]).current_dir(dir), "");
        assert!(ran.code == 2 && ran.err.contains("--root"), "{ran:?}");
        let named = ["--root", dir.to_str().unwrap(), "tools"];
        assert_eq!(Ran::of(place.command(&named).current_dir(dir), "").code, 0);
    }
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_result_object_has_the_same_fields_whatever_happened() {
    const RESULT: [&str; 7] = ["call_id", "tool", "ok", "content", "structured", "error", "meta"];
    let write = r#"{"file_path": "new.txt", "content": "x"}"#;
    for (args, tool, kind) in [
        (&["call", "--json", "List"][..], "List", None),
        (&["--dialect", "moltis", "call", "--json", "Glob"], "Glob", Some("invalid_args")),
        (&["call", "--json", "Read", "{\"file_path\": \"none\"}"], "Read", Some("file_not_found")),
        (&["call", "--json", "Read", "nonsense"], "Read", Some("invalid_args")),
        (&["call", "--json", "Nope"], "Nope", Some("not_found")),
        (
            &["--approvals", "ask", "call", "--json", "Write", write],
            "Write",
            Some("approval_denied"),
        ),
        (&["--read-only", "call", "--json", "Write", write], "Write", Some("policy_denied")),
    ] {
        let ran = Place::new().run(args, "");
        let result = ran.json();
        assert_eq!(keys(&result), RESULT, "{args:?}");
        assert_eq!(result["tool"], tool);
        assert_eq!(result["ok"], kind.is_none(), "{result}");
        assert_eq!(result["error"]["kind"].as_str(), kind, "{result}");
        assert!(result["call_id"].as_str().is_some_and(|id| !id.is_empty()), "{result}");
        assert_eq!(result["content"][0]["type"], "text", "{result}");
        assert!(result["meta"]["duration_ms"].is_number(), "{result}");
        assert!(result["meta"]["truncated"].is_boolean(), "{result}");
        if kind.is_some() {
            assert_eq!(keys(&result["error"]), ["kind", "message", "hint"]);
        }
        assert_eq!(ran.out.lines().count(), 1, "one line");
        assert_eq!(ran.err, "", "with --json nothing is told twice");
    }
    // A dialect may have results of its own.
    let moltis = r#"{"file_path": "{root}/a.txt"}"#;
    let place = Place::new();
    let result = place.run(&["--dialect", "moltis", "call", "--json", "Read", moltis], "").json();
    assert_eq!(result["structured"]["kind"], "text", "{result}");
}

const TOOLS: [&str; 23] = [
    "Read",
    "Write",
    "Edit",
    "MultiEdit",
    "ApplyPatch",
    "Glob",
    "Grep",
    "List",
    "Bash",
    "BashOutput",
    "KillShell",
    "Terminal",
    "WebFetch",
    "WebSearch",
    "MemoryRead",
    "MemoryWrite",
    "AgentSend",
    "AgentInbox",
    "Message",
    "TodoWrite",
    "Undo",
    "CheckpointList",
    "CheckpointRestore",
];

const CORE: [&str; 15] = [
    "Read",
    "Write",
    "Edit",
    "ApplyPatch",
    "Glob",
    "Grep",
    "List",
    "Bash",
    "BashOutput",
    "KillShell",
    "WebFetch",
    "WebSearch",
    "MemoryRead",
    "MemoryWrite",
    "Undo",
];

#[test]
fn every_form_of_the_list_holds_every_tool() {
    for (args, list, name, schema) in [
        (&["tools", "--json"][..], "", "/tool", "/input_schema"),
        (&["tools", "--format", "mcp"], "", "/name", "/inputSchema"),
        (&["tools", "--format", "anthropic"], "", "/name", "/input_schema"),
        (&["tools", "--format", "openai"], "", "/function/name", "/function/parameters"),
        (
            &["tools", "--format", "gemini"],
            "/0/functionDeclarations",
            "/name",
            "/parametersJsonSchema",
        ),
    ] {
        let ran = Place::new().run(args, "");
        let value = match args.contains(&"--json") {
            true => Value::from(ran.lines()),
            false => ran.json(),
        };
        let tools = value.pointer(list).and_then(Value::as_array).unwrap();
        let names: Vec<&str> =
            tools.iter().filter_map(|tool| tool.pointer(name)?.as_str()).collect();
        assert_eq!(names, TOOLS, "{args:?}");
        for tool in tools {
            let schema = tool.pointer(schema).unwrap();
            assert_eq!(schema["type"], "object", "{args:?}: {tool}");
            assert!(schema["properties"].is_object(), "{args:?}: {tool}");
        }
    }
    let names: Vec<String> = Place::new()
        .run(&["tools"], "")
        .out
        .lines()
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .collect();
    assert_eq!(names, TOOLS);
}

#[test]
fn what_is_not_served_is_unknown() {
    for (words, served) in [
        (
            "read",
            &["Read", "Glob", "Grep", "List", "MemoryRead", "TodoWrite", "CheckpointList"][..],
        ),
        (
            "edit",
            &[
                "Write",
                "Edit",
                "MultiEdit",
                "ApplyPatch",
                "MemoryWrite",
                "Undo",
                "CheckpointRestore",
            ],
        ),
        ("core", &CORE),
        ("run", &["Bash", "BashOutput", "KillShell", "Terminal"]),
        ("web", &["WebFetch", "WebSearch"]),
        ("agents", &["AgentSend", "AgentInbox", "Message"]),
        ("all", &TOOLS),
        ("*Edit", &["Edit", "MultiEdit"]),
        ("List,G*", &["Glob", "Grep", "List"]),
    ] {
        let place = Place::new();
        let list = place.run(&["--tools", words, "tools", "--json"], "").lines();
        let names: Vec<&str> = list.iter().map(|tool| tool["tool"].as_str().unwrap()).collect();
        assert_eq!(names, served, "{words}");
        for tool in TOOLS {
            let result = place.run(&["--tools", words, "call", "--json", tool], "");
            let unknown = result.json()["error"]["kind"] == "not_found";
            assert_eq!(unknown, !served.contains(&tool), "{words} {tool}: {result:?}");
            assert!(!unknown || result.code == 2, "{words} {tool}: {result:?}");
        }
    }
}

/// Returns the id and the kind of error of every result of a batch.
fn rows(ran: &Ran) -> Vec<(Value, Value)> {
    let results = ran.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    results.map(|result| (result["id"].clone(), result["error"]["kind"].clone())).collect()
}

/// A line without end was read into memory as long as it grew.
#[test]
fn a_long_line_ends_a_batch() {
    let place = Place::new();
    let write = |id: &str, n: usize| {
        let content = "x".repeat(n);
        json!({ "id": id, "name": "Write", "arguments": { "file_path": "n", "content": content } })
    };
    let list = json!({ "id": 2, "name": "List" });
    let args = ["--set", "mcp.max_line_bytes=4096", "--session", "s", "call", "--batch"];
    let first = [(json!(2), Value::Null), (json!("long"), json!("too_large"))];
    let second = [(json!(2), Value::Null), (json!("s-2"), json!("too_large"))];
    for (line, expected) in [(write("long", 5_000).to_string(), first), ("x".repeat(9_000), second)]
    {
        let ran = place.run(&args, &format!("{list}\n{line}\n{list}\n"));
        assert_eq!((rows(&ran).as_slice(), ran.code), (&expected[..], 2), "{ran:?}");
        assert!(ran.out.contains("line 2: longer than 4096 bytes"), "{ran:?}");
    }
    assert!(!place.root.join("n").exists());
}

#[test]
fn a_batch_answers_every_line_in_order() {
    let place = Place::new();
    let input = [
        r#"{"id": "first", "name": "Read", "arguments": {"file_path": "a.txt"}}"#,
        "",
        r#"{"id": 7, "name": "List"}"#,
        r#"{"name": "Nope"}"#,
        r#"{"id": "../x", "name": "Write", "arguments": {"file_path": "n", "content": "x"}}"#,
        r#"{"name": "Edit", "arguments": {"file_path": "a.txt", "old_string": "two", "new_string": "2"}}"#,
        r#"{"name": "Read", "arguments": {"file_path": "a.txt"}}"#,
        r#"{"id": null, "name": "List"}"#,
        r#"{"id": 1.5, "name": "List"}"#,
    ]
    .join("\n");
    let ran = place.run(&["--approvals", "allow", "--session", "s", "call", "--batch"], &input);
    let expected = [
        (json!("first"), Value::Null),
        (json!(7), Value::Null),
        (json!("s-4"), json!("not_found")),
        (json!("../x"), Value::Null),
        (json!("s-6"), Value::Null),
        (json!("s-7"), Value::Null),
        (Value::Null, Value::Null),
        (json!(1.5), Value::Null),
    ];
    assert_eq!(rows(&ran), expected);
    let ids: Vec<Value> = ran.lines().iter().map(|line| line["call_id"].clone()).collect();
    assert_eq!(ids[..4], [json!("first"), json!("7"), json!("s-4"), json!("s-5")]);
    assert!(ran.out.contains("2→2"), "later calls see what earlier ones did: {}", ran.out);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "each call has its own result");
    assert_eq!(place.run(&["call", "--batch"], "").out, "");
}

#[test]
fn a_line_that_is_no_call_ends_a_batch() {
    let (list, write) = (
        r#"{"id": 1, "name": "List"}"#,
        r#"{"name": "Write", "arguments": {"file_path": "n", "content": "x"}}"#,
    );
    for (line, id) in [
        ("nonsense", json!("s-2")),
        (r#"{"name": "Read", "more": 1}"#, json!("s-2")),
        (r#"{"name": "Read", "arguments": []}"#, json!("s-2")),
        (r#"{"id": [], "name": "Read"}"#, json!("s-2")),
        (r#"{"id": 8, "name": "List", "more": 1}"#, json!(8)),
    ] {
        let place = Place::new();
        let args = ["--approvals", "allow", "--session", "s", "call", "--batch"];
        let ran = place.run(&args, &format!("{list}\n{line}\n{write}\n"));
        let expected = [(json!(1), Value::Null), (id, json!("invalid_args"))];
        assert_eq!(rows(&ran), expected, "{line}");
        assert_eq!((ran.code, ran.err.as_str()), (2, ""), "{line}");
        assert!(!place.root.join("n").exists(), "what follows does not run: {line}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let call = format!("{}\n", json!({ "name": "List" })).repeat(500);
    for (args, input) in [
        (&["tools"][..], ""),
        (&["tools", "--json"], ""),
        (&["call", "List"], ""),
        (&["call", "--json", "List"], ""),
        (&["call", "--batch"], call.as_str()),
        (&["config", "show"], ""),
        (&["config", "show", "--json"], ""),
        (&["doctor"], ""),
        (&["doctor", "--json"], ""),
    ] {
        let place = Place::new();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = place.command(args);
        command.stdin(Stdio::piped()).stdout(writer).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let done = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&done.stderr);
        assert_eq!((done.status.code(), &*err), (Some(0), ""), "{args:?}");
    }
}

/// Returns the line of a key of `config show`.
fn value_of(ran: &Ran, key: &str) -> Value {
    ran.lines().into_iter().find(|line| line["key"] == key).unwrap_or_default()
}

#[test]
fn every_value_tells_where_it_came_from() {
    let place = Place::new();
    let person = place.home.join("config/sinew/config.toml");
    // Where the variable and the user database mean the same, the name of the latter is shown.
    let usual = place.home.join(".config/sinew/config.toml");
    let project = place.root.join(".sinew/config.toml");
    let named = place.root.join("named.json");
    for (path, text) in [
        (&person, "# mine\nlog = \"info\"\n\n[files]\nglob_limit = 11\ngrep_limit = 12\n"),
        (&project, "read_only = true\n[files]\ngrep_limit = 10\n[ledger]\nmode = \"off\"\n"),
        (&named, "{\"files\": {\"list_limit\": 13, \"sync\": \"data\"}}"),
    ] {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut command = place.command(&[
        "--set",
        "files.sync=\"full\"",
        "--session",
        "s",
        "config",
        "show",
        "--json",
        "--config",
        named.to_str().unwrap(),
    ]);
    let ran = Ran::of(command.env("SINEW_APPROVALS", "deny"), "");
    for (key, value, origin) in [
        ("dialect", json!("native"), String::from("default")),
        ("log", json!("info"), format!("{}:2", usual.display())),
        ("files.glob_limit", json!(11), format!("{}:5", usual.display())),
        ("read_only", json!(true), format!("{}:1", project.display())),
        ("files.grep_limit", json!(10), format!("{}:3", project.display())),
        ("files.list_limit", json!(13), named.display().to_string()),
        ("files.sync", json!("full"), String::from("flag --set")),
        ("session", json!("s"), String::from("flag --session")),
        ("approvals", json!("deny"), String::from("variable SINEW_APPROVALS")),
        ("approval_timeout_s", json!(300), String::from("dialect native")),
        ("roots", json!([place.root]), String::from("current directory")),
        // A project's own file cannot switch the record off.
        ("ledger.mode", json!("sqlite"), String::from("default")),
    ] {
        let expected = json!({ "key": key, "value": value, "origin": origin });
        assert_eq!(value_of(&ran, key), expected, "{key}");
    }
    assert!(ran.err.contains("`ledger.mode` is left out"), "{}", ran.err);
}

#[test]
fn the_doctor_says_what_is_missing() {
    for (args, state, code, missing) in [
        (&["doctor", "--json"][..], "state", 0, &[][..]),
        (&["doctor", "--json"], "ws/a.txt", 1, &["state"]),
        (&["--set", "ledger.mode=\"off\"", "doctor", "--json"], "state", 0, &[]),
        (&["--root", "{root}/none", "doctor", "--json"], "state", 1, &["roots", "ledger"]),
    ] {
        let place = Place::new();
        let state = place.root.parent().unwrap().join(state);
        let ran = Ran::of(place.command(args).env("XDG_STATE_HOME", state), "");
        let shown = ran.json();
        let findings = shown["findings"].as_array().unwrap();
        let names: Vec<&str> =
            findings.iter().map(|finding| finding["check"].as_str().unwrap()).collect();
        let expected = [
            "config",
            "roots",
            "home",
            "state",
            "ledger",
            "undo",
            "openat2",
            "sandbox",
            "approvals",
            "mcp",
            "model",
        ];
        assert_eq!(names, expected);
        let found: Vec<&str> = findings
            .iter()
            .filter(|finding| finding["needed"] == true && finding["ok"] == false)
            .map(|finding| finding["check"].as_str().unwrap())
            .collect();
        assert_eq!((ran.code, &found[..]), (code, missing), "{shown}");
        assert_eq!(shown["ok"], missing.is_empty());
    }
}

/// How the effect of a value is seen.
#[derive(Debug, Clone, Copy)]
enum Seen {
    /// The run shows this with the value and not without, and that without and not with.
    Shows(&'static str, &'static str),
    /// The run makes these system calls more or less often.
    Traced(&'static str),
    /// Nothing but the configuration itself shows it.
    Resolved(&'static str),
}

/// One key or variable: a value, a run, and how the effect is seen in it.
type Row = (&'static str, &'static str, &'static [&'static str], &'static str, Seen);

const READ: &[&str] = &["call", "Read", r#"{"file_path": "a.txt"}"#];
const MESSAGE: &[&str] =
    &["call", "Message", r#"{"channel": "telegram", "chat_id": "1", "content": "x"}"#];
const BATCH: &[&str] = &["call", "--batch"];
const READ_OFTEN: &str = concat!(
    "{\"name\": \"Read\", \"arguments\": {\"file_path\": \"a.txt\"}}\n",
    "{\"name\": \"Read\", \"arguments\": {\"file_path\": \"a.txt\"}}\n",
    "{\"name\": \"Read\", \"arguments\": {\"file_path\": \"a.txt\"}}\n",
);
const READ_BINARY: &[&str] = &["call", "Read", r#"{"file_path": "binary.bin"}"#];
const READ_LARGE: &[&str] = &["call", "Read", r#"{"file_path": "large.txt"}"#];
const READ_DEEP: &[&str] = &["call", "Read", r#"{"file_path": "dir/c.txt"}"#];
const GLOB: &[&str] = &["call", "Glob", r#"{"pattern": "**"}"#];
const GREP: &[&str] = &["call", "Grep", r#"{"pattern": "one"}"#];
const LIST: &[&str] = &["call", "List"];
const TOOL_LIST: &[&str] = &["tools"];
const WEAK: &[&str] = &["--set", "run.sandbox=landlock", "call", "List"];
const RUN: &[&str] =
    &["--approvals", "allow", "call", "--json", "Bash", r#"{"command": "env; ls dir; exit 0"}"#];
const BEGIN: &[&str] = &[
    "--approvals",
    "allow",
    "call",
    "Bash",
    r#"{"command": "sleep 9", "run_in_background": true}"#,
];
const LIMITS: &[&str] =
    &["--approvals", "allow", "call", "Bash", r#"{"command": "tr -s ' ' </proc/self/limits"}"#];
const HOLD: &[&str] = &[
    "call",
    "Bash",
    r#"{"command": "perl -e '$x = \"x\" x (200 << 20); sleep 1; print \"held it\"'"}"#,
];
const NEEDS: &[&str] =
    &["call", "Bash", r#"{"command": "true", "needs": ["unsandboxed"], "why": "to try"}"#];
const TOUCH_UNASKED: &[&str] = &["call", "Bash", r#"{"command": "touch made"}"#];
const PLANT: &[&str] = &[
    "--approvals",
    "allow",
    "call",
    "Bash",
    r#"{"command": "n=.env; echo planted >${n}rc; touch y; cat .envrc"}"#,
];
const WRITE: &[&str] =
    &["--approvals", "allow", "call", "Write", r#"{"file_path": "b.txt", "content": "x"}"#];
const NOTE: &[&str] = &["--approvals", "allow", "call", "MemoryWrite", r#"{"content": "xy"}"#];
const WRITE_LARGER: &[&str] = &[
    "--approvals",
    "allow",
    "--set",
    "checkpoints.max_file_bytes=1",
    "call",
    "Write",
    r#"{"file_path": "b.txt", "content": "x"}"#,
];
const WRITE_UNRECORDED: &[&str] = &[
    "--approvals",
    "allow",
    "--set",
    "ledger.mode=\"off\"",
    "call",
    "Write",
    r#"{"file_path": "b.txt", "content": "x"}"#,
];
const WRITE_LINKED: &[&str] =
    &["--approvals", "allow", "call", "Write", r#"{"file_path": "linked.txt", "content": "x"}"#];
/// A program is read unasked.
const READ_PROGRAM: &[&str] = &["call", "Read", r#"{"file_path": "/usr/bin/env"}"#];
const WRITE_PLAIN: &[&str] = &["call", "Write", r#"{"file_path": "b.txt", "content": "x"}"#];
/// A change that cannot be undone asks.
const WRITE_ASKING: &[&str] = &[
    "--set",
    "tools.fs.checkpoint_before_mutation=false",
    "call",
    "Write",
    r#"{"file_path": "b.txt", "content": "x"}"#,
];
const JSON: &[&str] = &["call", "--json", "List"];
const FETCH: &[&str] = &["call", "WebFetch", r#"{"url":"http://127.0.0.1:9/"}"#];
const FETCH_CLAWFT: &[&str] =
    &["--dialect", "clawft", "call", "web_fetch", r#"{"url":"https://127.0.0.1/"}"#];
/// A search that stays on this machine.
const SEARCH: &[&str] = &[
    "--set",
    "tools.web_search.searxng=http://127.0.0.1:9/",
    "call",
    "WebSearch",
    r#"{"query":"x"}"#,
];
const SEARCH_SEARXNG: &[&str] = &["call", "WebSearch", r#"{"query":"x","provider":"searxng"}"#];
const SEARCH_ENDPOINT: &[&str] = &["call", "WebSearch", r#"{"query":"x","provider":"endpoint"}"#];
const AGENT: &[&str] = &["run", "do it"];
const SHOW: &[&str] = &["config", "show"];

#[test]
fn checks_of_addresses_cannot_be_switched_off() {
    for (key, value, warns) in [
        ("tools.urlPolicy.enabled", "false", true),
        ("tools.urlPolicy.allowPrivate", "true", true),
        ("tools.urlPolicy.enabled", "true", false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut sinew = command(dir.path());
        sinew.current_dir(dir.path()).args(["--root", ".", "--set", &format!("{key}={value}")]);
        sinew.args(FETCH_CLAWFT);
        let done = sinew.output().unwrap();
        let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
        assert_eq!(said.contains(&format!("`{key}` changes nothing")), warns, "{said}");
        assert!(said.contains("is not public"), "{said}");
    }
}

/// Every key of the configuration.
const KEYS: &[Row] = &[
    ("roots", r#"["{other}"]"#, LIST, "", Seen::Shows("elsewhere.txt", "a.txt")),
    ("dialect", "moltis", TOOL_LIST, "", Seen::Shows("exit 0", "List ")),
    ("serve", r#"["read"]"#, TOOL_LIST, "", Seen::Shows("exit 0", "MultiEdit")),
    ("absent", r#"["Wirte"]"#, SHOW, "", Seen::Resolved("absent = [\"Wirte\"]")),
    ("read_only", "true", WRITE, "", Seen::Shows("exit 3", "wrote b.txt")),
    ("approvals", "allow", WRITE_ASKING, "", Seen::Shows("wrote b.txt", "needs approval")),
    ("approval_timeout_s", "7", SHOW, "", Seen::Resolved("approval_timeout_s = 7")),
    ("session", "mine", JSON, "", Seen::Shows("\"mine-1\"", "")),
    ("log", "error", LIST, "", Seen::Shows("exit 0", "is left out")),
    ("files.sync", "data", WRITE_UNRECORDED, "", Seen::Traced("fsync,fdatasync")),
    ("files.hard_links", "break", WRITE_LINKED, "", Seen::Shows("wrote", "2 hard links")),
    ("files.outside", "deny", READ_PROGRAM, "", Seen::Shows("outside the roots", "binary")),
    ("files.resolver", "walk", READ_DEEP, "", Seen::Traced("openat2")),
    ("files.glob_limit", "1", GLOB, "", Seen::Shows("[1 of ", "")),
    ("files.grep_limit", "1", GREP, "", Seen::Shows("[stopped after 1 rows", "")),
    ("files.list_limit", "1", LIST, "", Seen::Shows("[1 of ", "a.txt")),
    ("files.search_timeout_ms", "0", GLOB, "", Seen::Shows("the time ran out", "a.txt")),
    ("run.sandbox", "none", RUN, "", Seen::Shows("\"level\":\"none\"", "")),
    ("run.require_sandbox", "namespaces", WEAK, "", Seen::Shows("is weaker than", "a.txt")),
    ("run.ask", "always", TOUCH_UNASKED, "", Seen::Shows("`run.ask` is `always`", "exit 0")),
    (
        "run.unsandboxed",
        "deny",
        NEEDS,
        "",
        Seen::Shows("`run.unsandboxed` is `deny`", "needs approval"),
    ),
    // What it does is tried where there is a registry.
    ("run.caches", "project", SHOW, "", Seen::Resolved("run.caches = \"project\"")),
    ("run.network", "true", RUN, "", Seen::Shows("\"network\":true", "\"network\":false")),
    ("run.env", r#"["XDG_STATE_HOME"]"#, RUN, "", Seen::Shows("XDG_STATE_HOME=", "")),
    ("run.hide", r#"["{root}/dir"]"#, RUN, "", Seen::Shows("ermission denied", "c.txt")),
    ("run.unprotected", r#"[".envrc"]"#, PLANT, "", Seen::Shows("planted", "execute or obey it")),
    // What lies in the home directory is looked at where there is one.
    ("run.show", r#"["/x/.netrc"]"#, SHOW, "", Seen::Resolved("run.show = [\"/x/.netrc\"]")),
    // How many processes there can be is tried where a command tries it.
    // What it does is tried where there is something to activate.
    ("run.activate", r#"["venv"]"#, SHOW, "", Seen::Resolved("run.activate = [\"venv\"]")),
    ("run.max_cpu_s", "7", LIMITS, "", Seen::Shows("cpu time 7 ", "cpu time unlimited")),
    (
        "run.max_memory_mib",
        "512",
        LIMITS,
        "",
        Seen::Shows("data size 536870912 ", "data size unlimited"),
    ),
    (
        "run.max_file_mib",
        "1",
        LIMITS,
        "",
        Seen::Shows("file size 1048576 ", "file size 17179869184 "),
    ),
    (
        "run.max_command_memory_mib",
        "100",
        HOLD,
        "",
        Seen::Shows("the command was ended: its processes held", "held it"),
    ),
    // A floor takes a disk of its own, so it is tried where there is one.
    ("run.min_free_disk_mib", "9", SHOW, "", Seen::Resolved("run.min_free_disk_mib = 9")),
    ("run.max_open_files", "99", LIMITS, "", Seen::Shows("open files 99 ", "")),
    (
        "run.max_background",
        "0",
        BEGIN,
        "",
        Seen::Shows("no more may run", "runs in the background"),
    ),
    ("run.max_processes", "400", SHOW, "", Seen::Resolved("run.max_processes = 400")),
    ("tools.fs.workspace_root", "{other}", LIST, "", Seen::Shows("elsewhere.txt", "a.txt")),
    ("tools.fs.allow_paths", r#"["{root}/dir/**"]"#, READ, "", Seen::Shows("allow_paths", "two")),
    ("tools.fs.deny_paths", r#"["**/a.txt"]"#, READ, "", Seen::Shows("deny_paths", "two")),
    ("tools.fs.track_reads", "false", BATCH, READ_OFTEN, Seen::Shows("exit 0", "3 times in a row")),
    (
        "tools.fs.must_read_before_write",
        "true",
        WRITE,
        "",
        Seen::Shows("not read yet, so it is not changed: b.txt", "wrote b.txt"),
    ),
    (
        "tools.fs.require_approval",
        "true",
        WRITE_PLAIN,
        "",
        Seen::Shows("needs approval", "wrote b.txt"),
    ),
    ("tools.fs.max_read_bytes", "3", READ, "", Seen::Shows("more than 3", "two")),
    ("tools.fs.binary_policy", "base64", READ_BINARY, "", Seen::Shows("YQBi", "exit 1")),
    ("tools.fs.respect_gitignore", "false", GLOB, "", Seen::Shows("ignored.log", "1 ignored")),
    (
        "tools.fs.checkpoint_before_mutation",
        "false",
        &["doctor"],
        "",
        Seen::Shows("so changes stay", "a checkpoint precedes each change"),
    ),
    (
        "checkpoints.max_bytes",
        "1",
        WRITE,
        "",
        Seen::Shows("1 bytes that checkpoints keep", "wrote"),
    ),
    ("checkpoints.max_file_bytes", "1", WRITE, "", Seen::Shows("keeps at most 1 of", "wrote")),
    ("checkpoints.larger", "unkept", WRITE_LARGER, "", Seen::Shows("wrote", "keeps at most 1 of")),
    ("checkpoints.sync", "full", WRITE, "", Seen::Traced("fsync,fdatasync")),
    ("checkpoints.commands", "false", TOUCH, "", Seen::Shows("no output", "undoes this")),
    ("checkpoints.max_count", "7", SHOW, "", Seen::Resolved("checkpoints.max_count = 7")),
    ("checkpoints.max_age_days", "7", SHOW, "", Seen::Resolved("checkpoints.max_age_days = 7")),
    (
        "tools.fs.context_window_tokens",
        "1000",
        READ_LARGE,
        "",
        Seen::Shows("go on with offset", "\n  2000→"),
    ),
    (
        "tools.memory.max_bytes",
        "1",
        NOTE,
        "",
        Seen::Shows("a memory holds 1", "created .sinew/MEMORY.md"),
    ),
    ("tools.policy.allow", r#"["Glob"]"#, READ, "", Seen::Shows("exit 3", "two")),
    ("tools.policy.deny", r#"["Read"]"#, READ, "", Seen::Shows("exit 3", "two")),
    (
        "tools.mcp_servers",
        r#"{a={command="true"}}"#,
        &["mcp-servers", "list"],
        "",
        Seen::Shows("a  not used yet", "no MCP server is configured"),
    ),
    // A server whose tools are surfaced is tried where there is one.
    ("tools.surface", r#"["a__b"]"#, SHOW, "", Seen::Resolved("tools.surface = [\"a__b\"]")),
    ("tools.deferred", r#"["Glob"]"#, TOOL_LIST, "", Seen::Shows("ToolSearch", "")),
    ("profile", "read-only", WRITE, "", Seen::Shows("exit 3", "exit 0")),
    (
        "rules",
        r#"[{verdict="deny",command="touch *"}]"#,
        TOUCH,
        "",
        Seen::Shows("denied by the rule `rules`", "exit 0"),
    ),
    ("tools.commandPolicy.mode", "denylist", TOUCH_CLAWFT, "", Seen::Shows("exit 0", "not among")),
    (
        "tools.commandPolicy.allowlist",
        r#"["touch"]"#,
        TOUCH_CLAWFT,
        "",
        Seen::Shows("exit 0", "not among"),
    ),
    (
        "tools.commandPolicy.denylist",
        r#"["touch x"]"#,
        &[
            "--set",
            "tools.commandPolicy.mode=denylist",
            "--dialect",
            "clawft",
            "--approvals",
            "allow",
            "call",
            "exec_shell",
            r#"{"command":"touch x"}"#,
        ],
        "",
        Seen::Shows("it holds `touch x`", "exit 0"),
    ),
    (
        "tools.exec.timeout",
        "1",
        &[
            "--set",
            "tools.commandPolicy.mode=denylist",
            "--dialect",
            "clawft",
            "--approvals",
            "allow",
            "call",
            "exec_shell",
            r#"{"command":"sleep 1.5"}"#,
        ],
        "",
        Seen::Shows("timeout after 1s", "exit 0"),
    ),
    (
        "tools.web_fetch.allow_hosts",
        r#"["127.0.0.1:9"]"#,
        FETCH,
        "",
        Seen::Shows("cannot be reached", "is not public"),
    ),
    (
        "tools.urlPolicy.allowedDomains",
        r#"["127.0.0.1"]"#,
        FETCH_CLAWFT,
        "",
        Seen::Shows("cannot be reached", "is not public"),
    ),
    (
        "tools.urlPolicy.blockedDomains",
        r#"["127.0.0.1"]"#,
        FETCH_CLAWFT,
        "",
        Seen::Shows("denied by the rule `tools.urlPolicy.blockedDomains`", "is not public"),
    ),
    // They change nothing, and say so.
    (
        "tools.urlPolicy.enabled",
        "false",
        SHOW,
        "",
        Seen::Resolved("tools.urlPolicy.enabled = false"),
    ),
    (
        "tools.urlPolicy.allowPrivate",
        "true",
        SHOW,
        "",
        Seen::Resolved("tools.urlPolicy.allowPrivate = true"),
    ),
    // What they do is tried where servers are.
    (
        "tools.web_fetch.proxy",
        "http://127.0.0.1:9",
        SHOW,
        "",
        Seen::Resolved("tools.web_fetch.proxy = \"http://127.0.0.1:9\""),
    ),
    (
        "tools.web_fetch.proxy_resolves",
        "true",
        SHOW,
        "",
        Seen::Resolved("tools.web_fetch.proxy_resolves = true"),
    ),
    ("tools.web_fetch.timeout_s", "7", SHOW, "", Seen::Resolved("tools.web_fetch.timeout_s = 7")),
    (
        "tools.web_fetch.idle_timeout_s",
        "7",
        SHOW,
        "",
        Seen::Resolved("tools.web_fetch.idle_timeout_s = 7"),
    ),
    (
        "tools.web_fetch.max_redirects",
        "7",
        SHOW,
        "",
        Seen::Resolved("tools.web_fetch.max_redirects = 7"),
    ),
    ("tools.web_fetch.cache_s", "7", SHOW, "", Seen::Resolved("tools.web_fetch.cache_s = 7")),
    (
        "tools.web_search.provider",
        "brave",
        SEARCH,
        "",
        Seen::Shows("`BRAVE_API_KEY` is not set", "127.0.0.1:9"),
    ),
    (
        "tools.web_search.searxng",
        "http://127.0.0.1:9/",
        SEARCH_SEARXNG,
        "",
        Seen::Shows("127.0.0.1:9 cannot be reached", "is not set"),
    ),
    (
        "tools.web_search.endpoint",
        "http://127.0.0.1:9/",
        SEARCH_ENDPOINT,
        "",
        Seen::Shows("127.0.0.1:9 cannot be reached", "is not set"),
    ),
    ("tools.web_search.timeout_s", "7", SHOW, "", Seen::Resolved("tools.web_search.timeout_s = 7")),
    ("ledger.mode", "off", READ, "", Seen::Shows("no record", "a record")),
    // What each key of a hook does is tried where hooks are.
    (
        "hooks",
        r#"[{event="before_tool_execute",command=["false"]}]"#,
        READ,
        "",
        Seen::Shows("the hook `false` failed", "two"),
    ),
    ("ledger.sync", "full", WRITE, "", Seen::Traced("fsync,fdatasync")),
    // What they do is tried where there is a ledger that cannot be written or has many records.
    ("ledger.on_failure", "continue", SHOW, "", Seen::Resolved("ledger.on_failure = \"continue\"")),
    ("ledger.max_age_days", "7", SHOW, "", Seen::Resolved("ledger.max_age_days = 7")),
    ("ledger.max_records", "7", SHOW, "", Seen::Resolved("ledger.max_records = 7")),
    ("mcp.max_line_bytes", "4096", &["mcp"], "{ping}", Seen::Shows("4096 bytes", "\"result\"")),
    // Tests with a server check the requests to it.
    ("webhook.url", "http://example.com/", LIST, "", Seen::Shows("is for this machine", "a.txt")),
    ("webhook.secret_file", "{root}/x", WEBHOOK, "", Seen::Shows("must be outside", "a.txt")),
    // What stands in these files is tried where metrics are.
    ("metrics.file", "{root}/x", LIST, "", Seen::Shows("`metrics.file` ", "a.txt")),
    ("agent.model", "nope", AGENT, "", Seen::Shows("no model `nope`", "no model is configured")),
    (
        "models",
        r#"{m = {wire = "x", url = "http://127.0.0.1:9/"}}"#,
        AGENT,
        "",
        Seen::Shows("`models.m.wire` must be one of", "no model is configured"),
    ),
    // What these do is tried where a model answers.
    (
        "messages.channels",
        r#"{telegram = {token_env = "NO_SUCH_TOKEN"}}"#,
        MESSAGE,
        "",
        Seen::Shows("the variable NO_SUCH_TOKEN", "names no channel"),
    ),
    ("messages.max_bytes", "7", SHOW, "", Seen::Resolved("messages.max_bytes = 7")),
    ("messages.max_queued", "7", SHOW, "", Seen::Resolved("messages.max_queued = 7")),
    ("messages.max_per_minute", "7", SHOW, "", Seen::Resolved("messages.max_per_minute = 7")),
    ("messages.max_age_days", "7", SHOW, "", Seen::Resolved("messages.max_age_days = 7")),
    ("messages.timeout_s", "7", SHOW, "", Seen::Resolved("messages.timeout_s = 7")),
    ("agent.max_tool_iterations", "7", SHOW, "", Seen::Resolved("agent.max_tool_iterations = 7")),
    ("agent.budget", "7k", SHOW, "", Seen::Resolved("agent.budget = \"7k\"")),
    (
        "agent.output_compaction",
        "full",
        SHOW,
        "",
        Seen::Resolved("agent.output_compaction = \"full\""),
    ),
    ("agent.instructions", "false", SHOW, "", Seen::Resolved("agent.instructions = false")),
    ("agent.max_age_days", "7", SHOW, "", Seen::Resolved("agent.max_age_days = 7")),
    ("agent.max_sessions", "7", SHOW, "", Seen::Resolved("agent.max_sessions = 7")),
    ("sub_agents.max_depth", "4", SHOW, "", Seen::Resolved("sub_agents.max_depth = 4")),
    ("sub_agents.max_children", "7", SHOW, "", Seen::Resolved("sub_agents.max_children = 7")),
    ("sub_agents.max_running", "4", SHOW, "", Seen::Resolved("sub_agents.max_running = 4")),
    ("sub_agents.max_total", "7", SHOW, "", Seen::Resolved("sub_agents.max_total = 7")),
    ("sub_agents.timeout_s", "7", SHOW, "", Seen::Resolved("sub_agents.timeout_s = 7")),
    ("sub_agents.max_tokens", "7", SHOW, "", Seen::Resolved("sub_agents.max_tokens = 7")),
    ("sub_agents.max_iterations", "7", SHOW, "", Seen::Resolved("sub_agents.max_iterations = 7")),
    ("metrics.interval_s", "7", SHOW, "", Seen::Resolved("metrics.interval_s = 7")),
    ("trace.file", "{root}/x", LIST, "", Seen::Shows("`trace.file` must be outside", "a.txt")),
];

const WEBHOOK: &[&str] = &["--set", "webhook.url=https://127.0.0.1:9/", "call", "List", "{}"];
const TOUCH: &[&str] = &["--approvals", "allow", "call", "Bash", r#"{"command":"touch x"}"#];
const TOUCH_CLAWFT: &[&str] = &[
    "--dialect",
    "clawft",
    "--approvals",
    "allow",
    "call",
    "exec_shell",
    r#"{"command":"touch x"}"#,
];

/// Every variable.
const VARIABLES: &[Row] = &[
    ("SINEW_ROOT", "{other}:{root}", LIST, "", Seen::Shows("elsewhere.txt", "a.txt")),
    ("SINEW_DIALECT", "moltis", TOOL_LIST, "", Seen::Shows("exit 0", "List ")),
    ("SINEW_TOOLS", "Read,G*", TOOL_LIST, "", Seen::Shows("exit 0", "MultiEdit")),
    ("SINEW_READ_ONLY", "true", WRITE, "", Seen::Shows("exit 3", "wrote b.txt")),
    ("SINEW_CONFIG", "{other}/named.toml", GLOB, "", Seen::Shows("[1 of ", "")),
    ("SINEW_SET", "files.list_limit=1", LIST, "", Seen::Shows("[1 of ", "a.txt")),
    ("SINEW_SESSION", "mine", JSON, "", Seen::Shows("\"mine-1\"", "")),
    ("SINEW_REQUIRE_SANDBOX", "namespaces", WEAK, "", Seen::Shows("is weaker than", "a.txt")),
    ("SINEW_LOG", "error", LIST, "", Seen::Shows("exit 0", "is left out")),
    ("SINEW_APPROVALS", "allow", WRITE_ASKING, "", Seen::Shows("wrote b.txt", "needs approval")),
    ("SINEW_PROFILE", "sandboxed", WRITE_ASKING, "", Seen::Shows("wrote b.txt", "needs approval")),
];

/// What became of a row.
#[derive(Debug, PartialEq, Eq)]
enum Effect {
    Seen,
    /// Only the configuration shows it.
    Resolved,
    /// This machine has no `strace`.
    Skipped,
}

/// Runs a row with and without its value and checks that the runs differ as it says.
fn check_effect(row: &Row, set: impl Fn(&Place, &mut Command)) -> Effect {
    let (name, _, args, input, seen) = row;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping", "params": { "x": "x".repeat(5_000) } });
    let input = input.replace("{ping}", &format!("{ping}\n"));
    let run = |with: bool| -> Option<String> {
        let place = Place::new();
        fs::write(place.other.join("named.toml"), "[files]\nglob_limit = 1\n").unwrap();
        // What a project may not say is told as a warning.
        fs::create_dir(place.root.join(".sinew")).unwrap();
        fs::write(place.root.join(".sinew/config.toml"), "approvals = \"allow\"\n").unwrap();
        let trace = place.home.join("trace");
        let mut command = place.command(&[]);
        if let Seen::Traced(calls) = seen {
            let mut traced = Command::new("strace");
            traced.args(["-f", "-qq", "-e", &format!("trace={calls}"), "-o"]).arg(&trace);
            traced.arg(database::SINEW).current_dir(&place.root);
            traced.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
            traced.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command = traced;
            // It may be there and may not be allowed to work.
            let probe = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
            if !probe.is_ok_and(|done| done.status.success()) {
                return None;
            }
        }
        if with {
            set(&place, &mut command);
        }
        command.args(args.iter().map(|arg| place.fill(arg)));
        let ran = Ran::of(&mut command, &input);
        if let Seen::Traced(_) = seen {
            assert_eq!(ran.code, 0, "{name}: {ran:?}");
            let n = fs::read_to_string(trace).unwrap().lines().count();
            return Some(format!("{n} calls"));
        }
        let record = place.home.join("state/sinew").is_dir();
        let record = if record { "a record" } else { "no record" };
        Some(format!("{}{record}\n", ran.transcript()))
    };
    let (Some(with), Some(without)) = (run(true), run(false)) else { return Effect::Skipped };
    match seen {
        Seen::Shows(shown, hidden) => {
            let right = with.contains(shown) && (shown == &"exit 0" || !without.contains(shown));
            assert!(right, "{name}: {shown:?}\n--- with\n{with}\n--- without\n{without}");
            let right = hidden.is_empty() || (without.contains(hidden) && !with.contains(hidden));
            assert!(right, "{name}: {hidden:?}\n--- with\n{with}\n--- without\n{without}");
            Effect::Seen
        }
        Seen::Traced(calls) => {
            assert_ne!(with, without, "{name}: {calls}");
            Effect::Seen
        }
        Seen::Resolved(shown) => {
            assert!(with.contains(shown) && !without.contains(shown), "{name}: {with}");
            Effect::Resolved
        }
    }
}

/// Checks all rows and tells what could not be seen.
fn check_rows(rows: &[Row], set: impl Fn(&Row, &Place, &mut Command)) {
    let mut unseen = Vec::new();
    for row in rows {
        match check_effect(row, |place, command| set(row, place, command)) {
            Effect::Seen => {}
            other => unseen.push(format!("{}: {other:?}", row.0)),
        }
    }
    println!("{} rows, {} not seen from outside: {unseen:?}", rows.len(), unseen.len());
}

/// Returns every key of the configuration that the code knows.
fn known_keys(schema: &Value, object: &Value, prefix: &str, keys: &mut BTreeSet<String>) {
    for (name, property) in object["properties"].as_object().unwrap() {
        let key = format!("{prefix}{name}");
        let choices = property["anyOf"].as_array();
        let table = choices.and_then(|choices| choices.iter().find_map(|c| c["$ref"].as_str()));
        match table.and_then(|table| schema.pointer(table.trim_start_matches('#'))) {
            Some(table) => known_keys(schema, table, &format!("{key}."), keys),
            None => drop(keys.insert(key)),
        }
    }
}

#[test]
fn every_key_of_the_configuration_has_an_effect() {
    let schema = schemars::schema_for!(sinew::config::Options).to_value();
    let mut known = BTreeSet::new();
    known_keys(&schema, &schema, "", &mut known);
    // The floor holds in one file alone, and has tests of its own.
    // So does what says that arguments are trusted.
    known.retain(|key| !key.starts_with("managed.") && key != "mcp.trust_arguments");
    let tested: BTreeSet<String> = KEYS.iter().map(|row| row.0.to_owned()).collect();
    assert_eq!(tested, known);
    check_rows(KEYS, |(key, value, ..), place, command| {
        command.arg("--set").arg(place.fill(&format!("{key}={value}")));
    });
}

#[test]
fn every_variable_has_an_effect() {
    let source = include_str!("../../config/src/env_vars.rs");
    let known: BTreeSet<&str> =
        source.split('"').filter(|word| word.starts_with("SINEW_")).collect();
    let tested: BTreeSet<&str> = VARIABLES.iter().map(|row| row.0).collect();
    assert_eq!(tested, known);
    check_rows(VARIABLES, |(name, value, ..), place, command| {
        command.env(name, place.fill(value));
    });
}

/// Changes ran unasked on the command line, where no client had asked anybody.
#[test]
fn nobody_is_trusted_as_a_client_on_the_command_line() {
    let place = Place::new();
    let ran = Ran::of(place.command(&["call", "List"]).env("SINEW_APPROVALS", "trust-client"), "");
    assert!(ran.code == 2 && ran.err.contains("variable SINEW_APPROVALS: "), "{ran:?}");
    // A person's file says what holds over MCP; it does not stop the command line.
    let file = place.home.join("config/sinew/config.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, "approvals = \"trust-client\"\n").unwrap();
    assert_eq!(place.run(&["call", "List"], "").code, 0);
    let ran = place.run(WRITE_ASKING, "");
    assert!(ran.code == 3 && ran.err.contains("needs approval"), "{ran:?}");
}

/// Rules that a link had led to were gone without a word.
#[test]
fn a_configuration_that_a_link_lost_is_an_error() {
    let place = Place::new();
    let dir = place.home.join("config/sinew");
    fs::create_dir_all(place.home.join("config")).unwrap();
    std::os::unix::fs::symlink(place.home.join("gone"), &dir).unwrap();
    let ran = place.run(&["call", "List"], "");
    assert!(ran.code == 2 && ran.err.contains("config.toml: No such file"), "{ran:?}");
    fs::remove_file(&dir).unwrap();
    fs::create_dir_all(&dir).unwrap();
    assert_eq!(place.run(&["call", "List"], "").code, 0);
    std::os::unix::fs::symlink(place.home.join("gone"), dir.join("config.toml")).unwrap();
    let ran = place.run(&["call", "List"], "");
    assert!(ran.code == 2 && ran.err.contains("config.toml: No such file"), "{ran:?}");
    fs::write(place.home.join("gone"), "profile = \"full\"\n").unwrap();
    assert_eq!(place.run(&["call", "List"], "").code, 0);
}

/// A variable that was set to nothing was refused or taken for a value.
#[test]
fn an_empty_variable_counts_as_none() {
    let place = Place::new();
    let plain = place.run(&["config", "show"], "");
    for (name, ..) in VARIABLES {
        let ran = Ran::of(place.command(&["config", "show"]).env(name, ""), "");
        assert_eq!((ran.code, &ran.out, &ran.err), (0, &plain.out, &plain.err), "{name}");
    }
}

#[test]
fn a_yes_or_no_in_a_variable_has_many_spellings() {
    let place = Place::new();
    let run = |word: &str| Ran::of(place.command(WRITE).env("SINEW_READ_ONLY", word), "");
    for (words, code) in [(["1", "true", "yes", "on"], 3), (["0", "false", "no", "off"], 0)] {
        for word in words {
            assert_eq!(run(word).code, code, "{word}");
            assert_eq!(run(&word.to_uppercase()).code, code, "{word}");
        }
    }
    let odd = run("perhaps");
    assert!(odd.code == 2 && odd.err.contains("'perhaps' for '--read-only'"), "{odd:?}");
}

#[test]
fn a_rule_that_a_stronger_one_contradicts_is_told() {
    let place = Place::new();
    for (second, is_told) in [
        ("[[rules]]\nverdict = \"deny\"\ncommand = \"a *\"\n", true),
        ("[[rules]]\nverdict = \"deny\"\ncommand = \"a\"\n", false),
        (
            "[[rules]]\nverdict = \"deny\"\ncommand = \"a *\"\nunless = [{ command = \"a b\" }]\n",
            false,
        ),
        ("[[rules]]\nverdict = \"allow\"\ncommand = \"a *\"\n", false),
    ] {
        let file = place.root.join("c.toml");
        let first = "[[rules]]\nverdict = \"allow\"\ncommand = \"a *\"\n\n";
        fs::write(&file, [first, second].concat()).unwrap();
        let ran = place.run(&["--config", file.to_str().unwrap(), "tools"], "");
        let place = file.display();
        let told = format!(
            "{place}:1: `rules[0]` changes nothing, because a stronger rule, deny of {place}:5, matches"
        );
        assert_eq!(ran.err.contains(&told), is_told, "{second}: {ran:?}");
    }
}

/// A rule with a slip of the pen held nothing back and said nothing.
#[test]
fn a_rule_that_names_no_tool_is_told() {
    let place = Place::new();
    let file = place.root.join("c.toml");
    let text =
        "[tools.policy]\nallow = [\"G*\", \"*\"]\ndeny = [\"Wirte\", \"Read\", \"xyzzyfoo\"]\n";
    fs::write(&file, text).unwrap();
    let told = format!("{}:3: `tools.policy.deny` names no tool: `Wirte`; ", file.display());
    let run = |args: &[&str]| {
        let named = ["--config", file.to_str().unwrap()];
        place.run(&[&named, args].concat(), "")
    };
    for args in [&["tools"][..], &["config", "show"], &["call", "List"]] {
        let ran = run(args);
        assert!(ran.code == 0 && ran.err.contains(&told), "{args:?}: {ran:?}");
        assert!(ran.err.contains("did you mean: Write\n"), "{args:?}: {ran:?}");
        assert!(
            ran.err.contains("`xyzzyfoo`; known: AgentInbox, AgentSend, ApplyPatch, Bash, "),
            "{args:?}: {ran:?}"
        );
        assert_eq!(ran.err.lines().count(), 2, "{args:?}: {ran:?}");
    }
    let shown = run(&["doctor", "--json"]).json();
    assert_eq!(shown["ok"], true);
    assert!(shown["findings"][0]["text"].as_str().unwrap().contains(&told), "{shown}");
}

#[test]
fn xdg_directories_add_to_those_of_the_home() {
    let place = Place::new();
    fs::create_dir_all(place.other.join("sinew")).unwrap();
    fs::write(place.other.join("sinew/config.toml"), "dialect = \"molf\"\n").unwrap();
    let other = place.other.to_str().unwrap().to_owned();
    let config = place.home.join(".config/sinew/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(&config, "dialect = \"moltis\"\n").unwrap();
    for (variable, dialect) in [
        (None, "moltis"),
        (Some("relative"), "moltis"),
        (Some("/none"), "moltis"),
        (Some(&*other), "molf"),
    ] {
        let mut command = place.command(&["config", "show", "--json"]);
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME");
        if let Some(value) = variable {
            command.env("XDG_CONFIG_HOME", value);
        }
        let ran = Ran::of(&mut command, "");
        assert_eq!(value_of(&ran, "dialect")["value"], dialect, "{variable:?}");
    }
    fs::remove_file(&config).unwrap();
    let mut command = place.command(&["call", "List"]);
    let ran = Ran::of(command.env_remove("XDG_STATE_HOME"), "");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(place.home.join(".local/state/sinew/sinew.db").is_file());
}

/// Each example of `sinew help TOOL` is a command line that sinew understands.
#[test]
fn help_of_each_tool_has_an_example() {
    let place = Place::new();
    let run =
        |args: &[&str]| command(&place.home).args(args).current_dir(&place.root).output().unwrap();
    let tools = run(&["tools", "--format", "mcp"]).stdout;
    let tools: Vec<Value> = serde_json::from_slice(&tools).unwrap();
    assert!(20 < tools.len());
    fs::write(place.root.join("fix.patch"), "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-x\n+y\n")
        .unwrap();
    for tool in tools {
        let name = tool["name"].as_str().unwrap();
        let help = run(&["help", name, "--json"]).stdout;
        let help: Value = serde_json::from_slice(&help).unwrap();
        let example = help["example"].as_str().unwrap();
        let line = example.strip_prefix("sinew ").unwrap();
        let line = format!("\"$SINEW\" --approvals deny {line} </dev/null");
        let mut shell = std::process::Command::new("/bin/sh");
        shell
            .args(["-c", &line])
            .env("SINEW", env!("CARGO_BIN_EXE_sinew"))
            .env("HOME", &place.home);
        let done =
            shell.env("XDG_STATE_HOME", place.home.join("state")).current_dir(&place.root).output();
        let done = done.unwrap();
        // What these name is only there once it was begun.
        let said = String::from_utf8_lossy(&done.stderr);
        let unknown = ["unknown background command", "names no known session", "no such c"];
        let is_unknown = unknown.iter().any(|words| said.contains(words));
        assert!(done.status.code() != Some(2) || is_unknown, "{example}: {done:?}");
        let words = String::from_utf8(run(&["help", name]).stdout).unwrap();
        for parameter in tool["inputSchema"]["properties"].as_object().unwrap().keys() {
            assert!(words.contains(&format!("\n  {parameter} ")), "{name}: {words}");
        }
        assert!(words.contains(example), "{words}");
    }
    for (args, code, said) in [
        (&["help"][..], 0, "Usage: sinew"),
        (&["help", "audit", "list"], 0, "Usage: sinew audit list"),
        (&["help", "read"], 0, "\n  file_path "),
        (&["help", "--dialect", "codex", "apply_patch"], 0, "Example:\n  sinew call apply_patch "),
        (&["help", "Raed"], 2, "there is no command and no tool `Raed`"),
        (&["help", "audit", "lst"], 2, "`sinew audit` has no command `lst`"),
    ] {
        let done = run(args);
        let text = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
        assert_eq!(done.status.code(), Some(code), "{args:?}: {text}");
        assert!(text.contains(said), "{args:?}: {text}");
    }
}

#[test]
fn shells_and_man_know_every_command() {
    let place = Place::new();
    let run = |args: &[&str]| {
        let done = command(&place.home).args(args).output().unwrap();
        assert!(done.status.success(), "{args:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = run(&["completions", shell]);
        for word in ["checkpoint", "mcp-servers", "approvals"] {
            assert!(text.contains(word), "{shell}: {word}");
        }
    }
    let script = place.home.join("completions");
    fs::write(&script, run(&["completions", "bash"])).unwrap();
    let asked = "source \"$1\"; COMP_WORDS=(sinew chec) COMP_CWORD=1; _sinew sinew chec sinew; echo \"${COMPREPLY[@]}\"";
    let done = Command::new("bash").args(["-c", asked, "-"]).arg(&script).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), "checkpoint", "{done:?}");
    let dir = place.home.join("man1");
    fs::create_dir(&dir).unwrap();
    let shown = run(&["man", "--dir", dir.to_str().unwrap()]);
    let pages: Vec<String> = fs::read_dir(&dir)
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(shown.starts_with(&format!("wrote {} pages", pages.len())), "{shown}");
    for (page, words) in [
        ("sinew.1", "sinew\\-mcp(1)"),
        ("sinew-call.1", "batch"),
        ("sinew-checkpoint-restore.1", "dry\\-run"),
    ] {
        let text = fs::read_to_string(dir.join(page)).unwrap();
        assert!(text.contains(".TH ") && text.contains(words), "{page}: {text}");
    }
    let one = run(&["man", "checkpoint", "restore"]);
    assert_eq!(one, fs::read_to_string(dir.join("sinew-checkpoint-restore.1")).unwrap());
    for (args, words) in [
        (&["man", "nothing"][..], "has no command `nothing`"),
        (&["man", "--dir", "/nonexistent/x"], "make it first"),
        (&["completions", "tcsh"], "possible values: bash"),
    ] {
        let done = command(&place.home).args(args).output().unwrap();
        assert!(!done.status.success(), "{args:?}");
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(text.contains(words), "{args:?}: {text}");
    }
}
