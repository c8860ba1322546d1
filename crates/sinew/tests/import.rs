//! Permissions of other programs hold as much back here as there.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::served::{Place, command};

/// The verdicts, the weakest first.
const VERDICTS: [&str; 3] = ["allow", "ask", "deny"];

/// Numbers in an order of their own, the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % n as u64).unwrap()
    }

    fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

/// Returns whether a text fits a pattern in which `*` stands for any run of signs.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            (0..=text.len())
                .filter(|at| text.is_char_boundary(*at))
                .any(|at| fits(rest, &text[at..]))
        }),
    }
}

/// What molf says: the last rule that matches wins, and it asks where none does.
fn of_molf(rules: &[(String, String, &'static str)], tool: &str, value: &str) -> &'static str {
    let mut matching = rules
        .iter()
        .rev()
        .filter(|(permission, pattern, _)| fits(permission, tool) && fits(pattern, value));
    matching.next().map_or("ask", |(_, _, verdict)| verdict)
}

const PERMISSIONS: &[&str] =
    &["*", "read_file", "write_file", "edit_file", "shell_exec", "*_file", "grep"];
const PATHS: &[&str] = &[
    "*",
    "*.env",
    "*.env.*",
    "*.env.example",
    "src/*",
    "src/*.rs",
    "*secret*",
    "a.txt",
    "src",
    "*/x.env",
    "s*c/a.txt",
    "src/deep/*",
];
const COMMANDS: &[&str] = &[
    "*",
    "git *",
    "git status",
    "git push *",
    "git*",
    "rm *",
    "* --force",
    "ls",
    "ls *",
    "cat a.txt",
    "npm run *",
    "npm run test*",
    "git -C *",
];
const FILES: &[&str] = &[
    "a.txt",
    "x.env",
    ".env",
    "src/x.env",
    "src/x.env.example",
    "x.env.example/secret.env",
    "src/a.txt",
    "src/deep/secret.rs",
    "src/deep/b.rs",
    "c/secret/d",
    "src",
];
const LINES: &[&str] = &[
    "git status",
    "git",
    "git push origin",
    "git -C . status",
    "git status -s",
    "ls",
    "ls -l",
    "/bin/ls",
    "cat a.txt",
    "rm x",
    "rm -rf --force x",
    "npm run test",
    "npm run build",
    "npm -x run test",
    "gitk",
    "npm run test:unit",
    "git push --force",
];

/// Whatever the rules are, no call that molf holds back is let go.
#[test]
fn no_rule_of_molf_is_looser_here() {
    let place = Place::new();
    for dir in ["src/deep", "c/secret", "x.env.example"] {
        fs::create_dir_all(place.root.join(dir)).unwrap();
    }
    for file in FILES.iter().filter(|file| **file != "src") {
        fs::write(place.root.join(file), "x").unwrap();
    }
    let mut chance = Chance(7);
    let mut asked = Vec::new();
    let mut expected = Vec::new();
    let n_rules = if std::env::var_os("SINEW_TEST_ROUNDS").is_some() { 150 } else { 40 };
    for n in 0..n_rules {
        let mut rules = Vec::new();
        for _ in 0..=chance.below(6) {
            let permission = chance.one_of(PERMISSIONS);
            let is_command = permission == "shell_exec";
            let pattern = chance.one_of(if is_command { COMMANDS } else { PATHS });
            rules.push((permission.to_owned(), pattern.to_owned(), VERDICTS[chance.below(3)]));
        }
        let list: Vec<Value> = rules
            .iter()
            .map(|(permission, pattern, action)| {
                json!({ "permission": permission, "pattern": pattern, "action": action })
            })
            .collect();
        let from = place.home.join(format!("{n}.jsonc"));
        let to = place.home.join(format!("{n}.toml"));
        fs::write(&from, format!("// {n}\n{}", Value::from(list.clone()))).unwrap();
        let mut import = command(&place.home);
        let done =
            import.args(["import", "molf"]).arg(&from).arg("--out").arg(&to).output().unwrap();
        assert!(done.status.success(), "{list:?}: {done:?}");
        let policy = to.to_str().unwrap().to_owned();
        let mut ask = |tool: &str, value: &str, arguments: Value| {
            asked.push(json!({ "tool": tool, "arguments": arguments, "policy": policy }));
            expected.push((
                of_molf(&rules, tool, value),
                tool.to_owned(),
                value.to_owned(),
                list.clone(),
            ));
        };
        for file in FILES {
            if *file != "src" {
                ask("read_file", file, json!({ "path": file }));
                ask("write_file", file, json!({ "path": file, "content": "" }));
                ask("edit_file", file, json!({ "path": file, "oldString": "x", "newString": "y" }));
            }
            ask("grep", file, json!({ "pattern": "x", "path": file }));
        }
        for line in LINES {
            ask("shell_exec", line, json!({ "command": line }));
        }
    }
    let answers = judged(&place, &asked);
    assert_eq!(answers.len(), expected.len());
    let strength = |verdict: &str| VERDICTS.iter().position(|known| *known == verdict).unwrap();
    let mut n_stricter = 0;
    for (answer, (verdict, tool, value, rules)) in answers.iter().zip(&expected) {
        let found = answer["ruling"].as_str().unwrap();
        let rules = Value::from(rules.clone());
        assert!(
            strength(verdict) <= strength(found),
            "{tool} {value}: {verdict} there, {found} here: {rules}\n{answer}"
        );
        n_stricter += usize::from(strength(verdict) < strength(found));
    }
    println!("{n_stricter} of {} calls are held back more strictly", expected.len());
    assert!(n_stricter * 4 < expected.len(), "{n_stricter} of {} are stricter", expected.len());
}

/// Judges calls by the rules of files.
fn judged(place: &Place, asked: &[Value]) -> Vec<Value> {
    let mut check = command(&place.home);
    check.args(["--dialect", "molf", "--root"]).arg(&place.root).args(["policy", "check"]);
    let mut child = check.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: String = asked.iter().map(|line| format!("{line}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
    let done = child.wait_with_output().unwrap();
    writer.join().unwrap();
    String::from_utf8(done.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// What the import said of names that mean nothing here is not said again by each start. The control is the
/// same file without the key that keeps them.
#[test]
fn absent_names_are_said_once() {
    for (form, text, name) in [
        ("clawft", r#"{"tools": {"denylist": ["write_file", "canvas"]}}"#, "canvas"),
        ("molf", r#"{"read_file": {"*": "allow", "/srv/elsewhere/**": "deny"}}"#, "/srv/elsewhere"),
        (
            "claude-code",
            r#"{"permissions": {"deny": ["Edit(//srv/elsewhere/**)"]}}"#,
            "/srv/elsewhere",
        ),
    ] {
        let place = Place::new();
        let file = place.home.join("from");
        fs::write(&file, text).unwrap();
        let done = command(&place.home).args(["import", form]).arg(&file).output().unwrap();
        let (said, written) = (String::from_utf8(done.stderr), String::from_utf8(done.stdout));
        let (said, written) = (said.unwrap(), written.unwrap());
        assert!(
            said.contains(name) && written.contains("\nabsent = ["),
            "{form}: {said} {written}"
        );
        let start = |configuration: String| {
            let path = place.home.join("config/sinew/config.toml");
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, configuration).unwrap();
            let args = ["mcp", "--check"];
            let done = command(&place.home).current_dir(&place.root).args(args).output().unwrap();
            String::from_utf8(done.stderr).unwrap()
        };
        let (head, rest) = written.split_once("\nabsent = [").unwrap();
        let (_, tail) = rest.split_once("]\n").unwrap();
        let without = format!("{head}\n{tail}");
        assert!(start(without).contains(name), "{form}: the control is silent");
        let warned = start(written);
        assert!(!warned.contains(name), "{form}: {warned}");
    }
}

#[test]
fn a_file_is_imported_or_refused_with_its_place() {
    let place = Place::new();
    for (form, text, code, said) in [
        ("molf", "{\"read_file\": {\"*.env\": \"deny\",}, // x\n}", 0, "verdict = \"deny\""),
        ("molf", "{\n  \"read_file\" \"deny\"}", 2, "line 2 column 15"),
        ("molf", "{\"read_file\": \"no\"}", 2, "allow, ask or deny, not \"no\""),
        (
            "clawft",
            "{\"tools\": {\"commandPolicy\": {\"mode\": \"denylist\"}}}",
            0,
            "[tools.commandPolicy]",
        ),
        ("clawft", "{\"tools\": {\"exec\": {\"timeout\": 60}}}", 0, "[tools.exec]\ntimeout = 60"),
        (
            "clawft",
            "{\"gateway\": {}, \"tools\": {\"exec\": {\"timeout\": 60, \"x\": 1}}}",
            0,
            "# `tools.exec.x` is left out: sinew has no such key",
        ),
        ("clawft", "{\"gateway\": {}}", 1, "`gateway` is left out: sinew has no such key"),
        ("clawft", "{\"tools\": {\"exec\": {\"timeout\": \"60\"}}}", 2, "`tools.exec.timeout`"),
        (
            "agentos",
            "{\"tools\": [\"tool::file_write\"], \"timeoutMs\": 9000}",
            0,
            "approval_timeout_s = 9",
        ),
        ("aionrs", "[tools]\nallow_list = [\"Write\"]\n", 0, "tools = [\"Write\"]"),
        ("aionrs", "a = \n", 2, "line 1, column"),
        (
            "claude-code",
            "{\"permissions\": {\"deny\": [\"Bash(rm:*)\"]}}",
            0,
            "command = \"rm* *\"",
        ),
        ("claude-code", "{}", 1, "nothing of"),
        (
            "mcp",
            "{\"mcpServers\": {\"x\": {\"command\": \"y\"}}}",
            0,
            "[tools.mcp_servers.x]\ncommand = \"y\"\ninternal_only = false\n",
        ),
    ] {
        let file = place.home.join("from");
        fs::write(&file, text).unwrap();
        let done = command(&place.home).args(["import", form]).arg(&file).output().unwrap();
        let shown = String::from_utf8([done.stdout.clone(), done.stderr].concat()).unwrap();
        assert_eq!(done.status.code(), Some(code), "{form} {text}: {shown}");
        assert!(shown.contains(said), "{form} {text}: {shown}");
        // The written text is a configuration.
        if code == 0 {
            let written = place.home.join("written.toml");
            fs::write(&written, done.stdout).unwrap();
            let shown = command(&place.home)
                .args(["--root", place.root.to_str().unwrap(), "--config"])
                .arg(&written)
                .args(["config", "show"])
                .output()
                .unwrap();
            assert!(shown.status.success(), "{form} {text}: {shown:?}");
        }
    }
    let kept = place.home.join("kept.toml");
    fs::write(&kept, "mine").unwrap();
    let file = place.home.join("from");
    fs::write(&file, "{\"read_file\": \"deny\"}").unwrap();
    let mut import = command(&place.home);
    let done = import.args(["import", "molf"]).arg(&file).arg("--out").arg(&kept).output().unwrap();
    assert_eq!(done.status.code(), Some(2), "{done:?}");
    assert_eq!(fs::read_to_string(&kept).unwrap(), "mine");
}

/// A path that Claude Code may not read has no name there either.
#[test]
fn denied_reads_hide_names_too() {
    let place = Place::new();
    fs::create_dir(place.root.join("secrets")).unwrap();
    fs::write(place.root.join("secrets/inner"), "needle\n").unwrap();
    fs::write(place.root.join("open"), "needle\n").unwrap();
    let (from, to) = (place.home.join("settings.json"), place.home.join("rules.toml"));
    let settings = json!({"permissions": {"deny": ["Read(./secrets/**)"]}});
    fs::write(&from, settings.to_string()).unwrap();
    let mut import = command(&place.home);
    let done = import.args(["import", "claude-code"]).arg(&from).arg("--out").arg(&to).output();
    assert!(done.as_ref().unwrap().status.success(), "{done:?}");
    for (tool, arguments) in [
        ("Read", json!({"file_path": "secrets/inner"})),
        ("Glob", json!({"pattern": "secrets/*"})),
        ("Glob", json!({"pattern": "**"})),
        ("List", json!({"path": "secrets"})),
        ("List", json!({"recursive": true})),
        ("Grep", json!({"pattern": "needle"})),
        ("Grep", json!({"pattern": "needle", "path": "secrets"})),
    ] {
        let call = |more: &[&std::ffi::OsStr]| {
            let mut call = command(&place.home);
            call.arg("--root").arg(&place.root).args(["--tools", "all"]).args(more);
            let done = call.args(["call", tool, &arguments.to_string()]).output().unwrap();
            String::from_utf8(done.stdout).unwrap()
        };
        let shows = |text: &str| text.contains("inner") || text.contains("secrets/");
        let shown = call(&[]);
        let denied = call(&["--config".as_ref(), to.as_os_str()]);
        assert!(shows(&shown) || tool == "Read" && shown.contains("needle"), "{tool}: {shown}");
        assert!(!denied.contains("inner"), "{tool} {arguments}: {denied}");
        assert!(tool != "Read" || !denied.contains("needle"), "{denied}");
    }
}
