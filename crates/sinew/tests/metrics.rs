//! What calls leave in the files of `metrics.file` and `trace.file`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::served::{Place, command};

/// A running `sinew mcp`.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start(place: &Place, more: &[String]) -> Self {
        // A client's arguments count for nothing by themselves.
        let config = place.home.join("config/sinew");
        fs::create_dir_all(&config).unwrap();
        fs::write(config.join("config.toml"), "[mcp]\ntrust_arguments = true\n").unwrap();
        let mut command = command(&place.home);
        command.current_dir(&place.root).args(more).arg("mcp");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut server = Self { child, input, output };
        let client = json!({ "name": "a-client", "version": "1" });
        let shake =
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        server.ask("initialize", &shake);
        server
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        writeln!(self.input.as_mut().unwrap(), "{request}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn call(&mut self, tool: &str, arguments: Value) {
        self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
    }

    /// Returns the names of the threads of the server.
    fn threads(&self) -> BTreeSet<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        tasks
            .map(|task| fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default())
            .map(|name| name.trim().to_owned())
            .collect()
    }

    fn interrupt(mut self) {
        let signal = rustix::process::Signal::TERM;
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal)
            .unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(143));
    }

    fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

fn set(key: &str, path: &Path) -> [String; 2] {
    [String::from("--set"), format!("{key}={:?}", path.display().to_string())]
}

/// Makes one call and returns its exit code with what it says to standard error.
fn call(place: &Place, more: &[String], tool: &str, arguments: &Value) -> (i32, String) {
    let mut command = command(&place.home);
    command.env("DEPLOY_TOKEN", "canary-in-a-variable");
    command.arg("--root").arg(&place.root).args(more).args(["call", tool, &arguments.to_string()]);
    let done = command.output().unwrap();
    (done.status.code().unwrap(), String::from_utf8(done.stderr).unwrap())
}

#[test]
fn without_a_file_nothing_is_counted_and_no_thread_starts() {
    let place = Place::new();
    let mut server = Server::start(&place, &[]);
    server.call("List", json!({}));
    let threads = server.threads();
    assert!(!threads.iter().any(|name| name.contains("metrics")), "{threads:?}");
    server.end();
    assert_eq!(fs::read_dir(&place.root).unwrap().count(), 0);
}

#[test]
fn a_file_that_cannot_be_is_refused_by_its_key() {
    let place = Place::new();
    let of_others = place.home.join("hosts");
    fs::write(&of_others, "127.0.0.1 localhost\n").unwrap();
    let missing = place.home.join("missing/x");
    let linked = place.home.join("linked");
    std::os::unix::fs::symlink(&of_others, &linked).unwrap();
    for (key, path, words) in [
        ("trace.file", place.root.join("x"), "outside the roots"),
        ("trace.file", missing.clone(), "the directory of `trace.file` must be there"),
        ("trace.file", linked.clone(), "name another file"),
        ("trace.file", place.home.clone(), "name another file"),
        ("metrics.file", Path::new("x").to_owned(), "`metrics.file` must be the absolute path"),
        ("metrics.file", place.root.join("x"), "outside the roots"),
        ("metrics.file", missing, "the directory of `metrics.file` must be there"),
        ("metrics.file", linked, "name another file"),
        ("metrics.file", of_others.clone(), "not a file of sinew"),
        ("metrics.file", place.home.clone(), "not a regular file"),
    ] {
        let (code, said) = call(&place, &set(key, &path), "List", &json!({}));
        assert!(code == 2 && said.contains(words), "{key} {path:?}: {code} {said}");
    }
    assert_eq!(fs::read_to_string(of_others).unwrap(), "127.0.0.1 localhost\n");
}

#[test]
fn a_project_cannot_name_a_file_to_be_written() {
    let place = Place::new();
    let file = place.home.join("file");
    fs::create_dir(place.root.join(".sinew")).unwrap();
    for key in ["trace", "metrics"] {
        let text = format!("[{key}]\nfile = {file:?}\n");
        fs::write(place.root.join(".sinew/config.toml"), text).unwrap();
        let (code, said) = call(&place, &[], "List", &json!({}));
        assert!(code == 0 && said.contains(&format!("`{key}.file`")), "{code} {said}");
        assert!(!file.exists());
    }
}

#[test]
fn each_call_leaves_a_line_in_the_trace() {
    let place = Place::new();
    let file = place.home.join("trace.jsonl");
    let more = set("trace.file", &file);
    let lines = || -> Vec<Value> {
        let text = fs::read_to_string(&file).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let write = json!({ "file_path": "canary-in-a-variable.txt", "content": "x" });
    let allowed = [&more[..], &[String::from("--approvals"), String::from("allow")]].concat();
    assert_eq!(call(&place, &allowed, "Write", &write).0, 0);
    let denied = [&more[..], &[String::from("--approvals"), String::from("deny")]].concat();
    assert_eq!(call(&place, &denied, "Write", &write).0, 3);
    assert_eq!(call(&place, &more, "Nope", &json!({})).0, 2);
    let said = fs::read_to_string(&file).unwrap();
    assert!(!said.contains("canary"), "{said}");
    let mut server = Server::start(&place, &more);
    server.call("List", json!({}));
    // The line is there before the answer is.
    assert_eq!(lines().len(), 4, "{:?}", lines());
    server.end();
    let of = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
    let seen: Vec<[String; 4]> = lines()
        .iter()
        .map(|line| ["surface", "client", "tool", "outcome"].map(|field| of(line, field)))
        .collect();
    let expected = [
        ["call", "", "Write", "ok"],
        ["call", "", "Write", "approval_denied"],
        ["call", "", "Nope", "not_found"],
        ["mcp", "a-client", "List", "ok"],
    ];
    assert_eq!(seen, expected.map(|row| row.map(String::from)));
    let first = &lines()[0];
    let path = place.root.join("[redacted: variable].txt").display().to_string();
    assert_eq!((of(first, "file_path"), first["bytes"].clone()), (path, json!(1)));
    assert_eq!((of(first, "rule"), of(first, "approver")), ("change".into(), "allow".into()));
    assert!(first["duration_ms"].is_f64() && first["at_ms"].is_u64(), "{first}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

mod counted {
    use std::time::{Duration, Instant};

    use super::*;

    /// How long something may take to come.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Returns how often a file says that a tool ended so.
    fn n(file: &Path, tool: &str, outcome: &str) -> Option<u64> {
        let text = fs::read_to_string(file).ok()?;
        let labels = format!("{{dialect=\"native\",outcome={outcome:?},tool={tool:?}}} ");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("sinew_calls_total")?.strip_prefix(labels.as_str()));
        line.and_then(|n| n.parse().ok())
    }

    /// Waits until a file says how often a tool did its deed.
    fn wait(file: &Path, tool: &str, wanted: u64) {
        let began = Instant::now();
        while n(file, tool, "ok") != Some(wanted) {
            assert!(began.elapsed() < PATIENCE, "{:?}", fs::read_to_string(file));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn calls_of_many_processes_add_up() {
        let place = Place::new();
        let file = place.home.join("sinew.prom");
        let more = set("metrics.file", &file);
        // A process that was killed left its part.
        fs::write(place.home.join("sinew.prom.0123456789abcdef"), "x").unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2 {
                        assert_eq!(call(&place, &more, "List", &json!({})).0, 0);
                        let read = json!({ "file_path": "none" });
                        assert_eq!(call(&place, &more, "Read", &read).0, 1);
                    }
                });
            }
        });
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(n(&file, "List", "ok"), Some(8), "{text}");
        assert_eq!(n(&file, "Read", "file_not_found"), Some(8), "{text}");
        for line in [
            "moltis_tool_executions_total{success=\"true\",tool=\"List\"} 8",
            "moltis_tool_execution_errors_total{tool=\"Read\"} 8",
            "tool_execution_total{status=\"failure\",toolId=\"Read\"} 8",
            "function_call_duration_ms_count{functionId=\"List\",status=\"success\"} 8",
            "sinew_call_duration_ms_bucket{dialect=\"native\",tool=\"List\",le=\"+Inf\"} 8",
        ] {
            assert!(text.lines().any(|there| there == line), "{line} in {text}");
        }
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
        let left = fs::read_dir(&place.home).unwrap().filter(|entry| {
            entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("sinew.prom")
        });
        assert_eq!(left.count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_server_writes_while_it_runs_by_a_thread_of_its_first_call() {
        let place = Place::new();
        let file = place.home.join("sinew.prom");
        let often = [String::from("--set"), String::from("metrics.interval_s=1")];
        let more = [&set("metrics.file", &file)[..], &often].concat();
        let mut server = Server::start(&place, &more);
        assert!(!server.threads().contains("metrics"), "nothing is there to be written");
        server.call("List", json!({}));
        wait(&file, "List", 1);
        assert!(server.threads().contains("metrics"));
        let began = Instant::now();
        server.call("List", json!({}));
        wait(&file, "List", 2);
        assert!(Duration::from_millis(500) < began.elapsed(), "not before an interval is over");
        server.end();
        assert_eq!(n(&file, "List", "ok"), Some(2));
    }

    #[test]
    fn what_an_interval_holds_back_is_written_at_the_end() {
        for end in [Server::end, Server::interrupt] {
            let place = Place::new();
            let file = place.home.join("sinew.prom");
            let mut server = Server::start(&place, &set("metrics.file", &file));
            server.call("List", json!({}));
            wait(&file, "List", 1);
            server.call("List", json!({}));
            assert_eq!(n(&file, "List", "ok"), Some(1), "15 s are not over");
            end(server);
            assert_eq!(n(&file, "List", "ok"), Some(2));
        }
    }

    #[test]
    fn a_file_that_can_no_longer_be_written_is_told_and_calls_go_on() {
        let place = Place::new();
        let dir = place.home.join("dir");
        fs::create_dir(&dir).unwrap();
        let mut command = command(&place.home);
        command.arg("--root").arg(&place.root).args(set("metrics.file", &dir.join("x.prom")));
        command.args(["call", "--batch"]).stdin(Stdio::piped());
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = piped.unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        writeln!(input, r#"{{"name": "List", "arguments": {{}}}}"#).unwrap();
        output.read_line(&mut line).unwrap();
        wait(&dir.join("x.prom"), "List", 1);
        fs::remove_dir_all(&dir).unwrap();
        writeln!(input, r#"{{"name": "List", "arguments": {{}}}}"#).unwrap();
        line.clear();
        output.read_line(&mut line).unwrap();
        assert!(line.contains("\"ok\":true"), "{line}");
        drop(input);
        let done = child.wait_with_output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success() && said.contains("the metrics cannot be written"), "{said}");
    }
}
