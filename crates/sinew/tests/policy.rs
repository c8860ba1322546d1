//! What `sinew policy` says of commands, without running them.

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::served::command;

/// How long one hostile line may take, start of the program included.
const PATIENCE: Duration = Duration::from_secs(5);

fn project() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.txt"), "one\n").unwrap();
    dir
}

/// Hands lines to `sinew policy check`; returns its answers and its exit code.
fn check(lines: &[Vec<u8>]) -> (Vec<Value>, Option<i32>) {
    let dir = project();
    let mut command = command(dir.path());
    command.arg("--root").arg(dir.path()).args(["policy", "check"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let text = [lines.join(&b'\n'), vec![b'\n']].concat();
    let writer = std::thread::spawn(move || input.write_all(&text).unwrap());
    let done = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let answers = String::from_utf8(done.stdout).unwrap();
    let answers = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (answers, done.status.code())
}

fn asked(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

#[test]
fn each_line_is_answered_by_its_rule() {
    let rows = [
        (json!({ "command": "cat a.txt" }), "allow", "plain"),
        (json!({ "command": "cat a.txt", "policy": "workspace" }), "allow", "plain"),
        (json!({ "command": "cat a.txt", "policy": "read-only" }), "deny", "profile.read-only"),
        (json!({ "command": "rm a.txt", "policy": "full" }), "allow", "profile.full"),
        (json!({ "command": "rm a.txt" }), "ask", "shell.program"),
        (json!({ "command": "cat a.txt > b.txt" }), "ask", "shell.write"),
        (json!({ "command": "sort -o a.txt a.txt" }), "ask", "shell.option"),
        (json!({ "command": "cat ../x" }), "ask", "shell.outside"),
        (json!({ "command": "cat .env" }), "ask", "shell.secret"),
        (json!({ "command": "cat $X" }), "ask", "shell.syntax"),
        (json!({ "command": "PATH=. cat a.txt" }), "ask", "shell.environment"),
        (json!({ "command": "ls \u{202e}" }), "ask", "shell.characters"),
        (json!({ "command": "no-such-program" }), "ask", "shell.missing"),
        (json!({ "command": "sed e a.txt" }), "ask", "shell.script"),
        (json!({ "command": "false || cd ." }), "ask", "shell.directory"),
        (json!({ "argv": ["cat", "a.txt"] }), "allow", "plain"),
        (json!({ "argv": ["cat", "$X"] }), "allow", "plain"),
        (json!({ "argv": ["rm", "a.txt"] }), "ask", "shell.program"),
        (json!({ "argv": ["no-such-program"] }), "deny", "file_not_found"),
        (json!({ "argv": [] }), "deny", "invalid_args"),
        (json!({ "command": " " }), "deny", "invalid_args"),
    ];
    let lines: Vec<_> = rows.iter().map(|(line, ..)| asked(line)).collect();
    let (answers, code) = check(&lines);
    assert_eq!((answers.len(), code), (rows.len(), Some(0)));
    for ((line, ruling, rule), answer) in rows.iter().zip(&answers) {
        let found = (answer["ruling"].as_str(), answer["rule"].as_str());
        assert_eq!(found, (Some(*ruling), Some(*rule)), "{line}: {answer}");
        assert!(!answer["why"].as_str().unwrap().is_empty(), "{answer}");
    }
}

#[test]
fn parts_are_told_wherever_they_stand() {
    let text = "cat a.txt && echo \"$(touch 'x y')\" | sh -c 'rm z'";
    let (answers, _) = check(&[asked(&json!({ "command": text }))]);
    let parts = answers[0]["segments"].as_array().unwrap();
    let words: Vec<_> = parts.iter().map(|part| part["words"].clone()).collect();
    let expected = [
        json!(["cat", "a.txt"]),
        json!(["echo", "\"$(touch 'x y')\""]),
        json!(["touch", "x y"]),
        json!(["sh", "-c", "rm z"]),
    ];
    assert_eq!(words, expected);
}

#[test]
fn what_is_no_question_is_answered_too() {
    let dir = tempfile::tempdir().unwrap();
    let unreadable = dir.path().join("policy.toml");
    fs::write(&unreadable, "[[rules]]\nverdict = \"deny\"\npaths = [\"ok/**\", \"[\"]\n").unwrap();
    let bad = [
        b"{".to_vec(),
        b"{\"command\":\"\xff\"}".to_vec(),
        asked(&json!({ "command": "ls", "argv": ["ls"] })),
        asked(&json!({})),
        asked(&json!({ "command": "ls", "policy": "nope" })),
        asked(&json!({ "command": "ls", "policy": unreadable })),
    ];
    let lines = [bad.to_vec(), vec![asked(&json!({ "command": "ls" }))]].concat();
    let (answers, code) = check(&lines);
    assert_eq!((answers.len(), code), (7, Some(2)));
    assert!(
        answers.iter().take(6).all(|answer| answer["error"]["message"].is_string()),
        "{answers:?}"
    );
    let place = "policy.toml:3:19: `rules[0].paths[1]` cannot be used: ";
    assert!(answers[5]["error"]["message"].as_str().unwrap().contains(place), "{answers:?}");
    assert_eq!(answers[6]["ruling"], "allow");
}

/// Each asks, in bounded time.
#[test]
fn hostile_texts_ask() {
    let nested = |n: usize| format!("{}ls{}", "$(".repeat(n), ")".repeat(n));
    for text in [
        "a;".repeat(20_000),
        "(".repeat(40_000),
        "ls;".repeat(10_000),
        "true && ".repeat(7_000) + "ls",
        "! ".repeat(30_000) + "ls",
        "{ ".repeat(20_000),
        "if ls; then ".repeat(4_000),
        "\"".repeat(30_001),
        "'ls".to_owned(),
        "ls \"a".to_owned(),
        nested(5_000),
        "cat <<A ".repeat(6_000),
        "cat *".to_owned() + &"*".repeat(30_000) + "x",
        "ls ".to_owned() + &"*/".repeat(20_000),
        "eval 'eval \"eval ls\"'".to_owned(),
        "alias ls=rm; ls".to_owned(),
        "ls() { rm a; }; ls".to_owned(),
        "ls\t\t\u{200b}; rm a".to_owned(),
    ] {
        let begun = Instant::now();
        let (answers, code) = check(&[asked(&json!({ "command": text }))]);
        let shown: String = text.chars().take(40).collect();
        assert_eq!((answers.len(), code), (1, Some(0)), "{shown}");
        assert_eq!(answers[0]["ruling"], "ask", "{shown}: {}", answers[0]["why"]);
        assert!(begun.elapsed() < PATIENCE, "{shown}: {:?}", begun.elapsed());
    }
}

#[test]
fn a_person_is_told_in_words() {
    let dir = project();
    for (text, words) in [
        ("cat a.*", &["allow (plain): ", "what runs in its place:\n", "cat' 'a.txt'\n"][..]),
        (
            "ls \u{202e}; rm a",
            &["ask (shell.characters): ", "  ls \\u{202e}; rm a\n", "its parts:\n"],
        ),
    ] {
        let mut command = command(dir.path());
        let done = command.arg("--root").arg(dir.path()).args(["policy", "explain", text]).output();
        let said = String::from_utf8(done.unwrap().stdout).unwrap();
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
}

/// Runs `sinew policy` in a project with these files; returns its output and its exit code.
fn run(files: &[(&str, &str)], args: &[&str]) -> (String, Option<i32>) {
    let dir = project();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut command = command(dir.path());
    command.arg("--root").arg(dir.path()).current_dir(dir.path());
    let done = command.args(args).output().unwrap();
    let said = [done.stdout, done.stderr].concat();
    (String::from_utf8(said).unwrap(), done.status.code())
}

/// A file that a rule kept from every tool was shown by `cat`, unasked.
#[test]
fn plain_commands_do_not_read_what_rules_keep_from_reading() {
    let rule = |what: &str| format!("[[rules]]\nverdict = \"deny\"\n{what}\n");
    let secret = rule("paths = [\"secret/**\"]");
    let of_read = rule("tools = [\"Read\"]\npaths = [\"secret/**\"]");
    let of_write = rule("tools = [\"Write\"]\npaths = [\"secret/**\"]");
    let but = rule("paths = [\"secret/**\"]\nunless = [{ paths = [\"secret/open/**\"] }]");
    for (rules, command, ruling) in [
        ("", "cat secret/k", "allow (plain)"),
        (&*secret, "cat secret/k", "ask (shell.outside)"),
        (&of_read, "cat secret/k", "ask (shell.outside)"),
        (&of_write, "cat secret/k", "allow (plain)"),
        (&secret, "cat a.txt", "allow (plain)"),
        (&secret, "cat < secret/k", "ask (shell."),
        (&secret, "cat sec*/k", "ask (shell.outside)"),
        (&secret, "cd secret && cat k", "ask (shell.outside)"),
        (&secret, "cat secret/../a.txt", "allow (plain)"),
        (&secret, "grep -r one .", "ask (shell.outside)"),
        (&secret, "grep -r one", "ask (shell.outside)"),
        (&secret, "grep one a.txt", "allow (plain)"),
        (&secret, "grep -r one other", "allow (plain)"),
        (&secret, "find", "ask (shell.outside)"),
        (&secret, "find . -name k", "ask (shell.outside)"),
        (&secret, "find other", "allow (plain)"),
        (&secret, "ls", "allow (plain)"),
        (&secret, "ls secret", "ask (shell.outside)"),
        (&secret, "ls -R", "ask (shell.outside)"),
        (&secret, "du", "ask (shell.outside)"),
        (&but, "cat secret/open/k", "allow (plain)"),
        (&but, "cat secret/k", "ask (shell.outside)"),
    ] {
        let files =
            [("own.toml", rules), ("secret/k", "k"), ("secret/open/k", "k"), ("other/x", "one")];
        let (found, _) = run(&files, &["--config", "own.toml", "policy", "explain", command]);
        assert!(found.starts_with(ruling), "{rules} {command}: {found}");
    }
}

#[test]
fn what_a_setting_decides_is_told_with_its_place() {
    let write = r#"{"file_path": "b.txt", "content": "x"}"#;
    for (own, args, said) in [
        (
            "[tools.fs]\ndeny_paths = [\"/**/a.txt\"]",
            ["--tool", "Read", r#"{"file_path": "a.txt"}"#],
            "session, own.toml:2 (`tools.fs.deny_paths`)",
        ),
        (
            "[tools.fs]\nrequire_approval = true",
            ["--tool", "Write", write],
            "session, own.toml:2 (`tools.fs.require_approval`)",
        ),
        ("serve = [\"read\"]", ["--tool", "Write", write], "session, own.toml:1 (`serve`)"),
        ("", ["--tool", "Write", write], "built-in"),
    ] {
        let args = [&["--config", "own.toml", "policy", "explain"], &args[..]].concat();
        let (found, _) = run(&[("own.toml", own)], &args);
        assert!(found.contains(&format!("decided by a rule of: {said}\n")), "{own}: {found}");
    }
}

#[test]
fn a_command_that_reaches_the_network_has_that_effect() {
    let rule = |verdict: &str, what: &str| format!("[[rules]]\nverdict = \"{verdict}\"\n{what}\n");
    let open = "run.network=true";
    for (own, set, command, said) in [
        (rule("deny", "effects = [\"network\"]"), open, "curl x", "deny (rules)"),
        (rule("deny", "effects = [\"network\"]"), "run.network=false", "curl x", "ask ("),
        (rule("allow", "effects = [\"execute\"]"), open, "curl x", "ask ("),
        (rule("allow", "effects = [\"execute\", \"network\"]"), open, "curl x", "allow (rules)"),
        (rule("allow", "command = \"curl *\""), open, "curl x", "allow (rules)"),
        (String::new(), open, "cat a.txt", "allow (plain)"),
    ] {
        let args = ["--config", "own.toml", "--set", set, "policy", "explain", command];
        let (found, _) = run(&[("own.toml", &own)], &args);
        assert!(found.starts_with(said), "{own} {set} {command}: {found}");
    }
}

#[test]
fn rules_that_a_stronger_one_covers_are_told() {
    let rule = |verdict: &str, what: &str| format!("[[rules]]\nverdict = \"{verdict}\"\n{what}\n");
    let deny = |what: &str| rule("deny", what);
    for (own, is_told) in [
        (rule("allow", "tools = [\"Write\"]") + &deny("tools = [\"write_file\"]"), true),
        (rule("ask", "tools = [\"Read\", \"List\"]") + &deny("tools = [\"List\", \"Read\"]"), true),
        (rule("allow", "tools = [\"Write\"]") + "[tools.policy]\ndeny = [\"Write\"]\n", true),
        (rule("allow", "tools = [\"Write\"]") + "[tools.policy]\ndeny = [\"Glob\"]\n", false),
        (rule("allow", "tools = [\"Write\"]") + &deny("tools = [\"Bash\"]"), false),
        (
            rule("allow", "tools = [\"Write\"]") + &deny("tools = [\"Write\"]\nagents = [\"a\"]"),
            false,
        ),
    ] {
        let (found, _) = run(&[("own.toml", &own)], &["--config", "own.toml", "tools"]);
        assert_eq!(found.contains("changes nothing"), is_told, "{own}: {found}");
    }
}

/// A rule that can mean nothing was taken without a word.
#[test]
fn rules_that_mean_nothing_are_told() {
    let rule = |what: &str| format!("[[rules]]\nverdict = \"deny\"\n{what}\n");
    for (what, said) in [
        ("paths = [\"secret/**\"]", ""),
        ("paths = [\"./secret/**\"]", ""),
        ("paths = [\"/no/such/place/**\"]", "`/no/such/place/**` is in no root"),
        (
            "paths = [\"../x/**\"]",
            "own.toml:3:10: `rules[0].paths[0]` cannot be used: `..` means nothing in a glob",
        ),
        ("paths = [\"~/x\"]", "`~` is not expanded"),
        ("paths = [\".\"]", "means no path"),
        (
            "tools = [\"Read\"]\ncommand = \"x\"",
            "own.toml:1: `rules[0]` matches no call: none of its tools runs",
        ),
        ("tools = [\"Terminal\"]\ncommand = \"x\"", ""),
        ("effects = [\"observe\"]\ncommand = \"x\"", "execute and network alone"),
        ("effects = [\"delegate\"]", ""),
        ("effects = [\"delegate\", \"change\"]", ""),
        ("effects = [\"network\"]", ""),
        ("tools = [\"Read\"]\neffects = [\"change\"]", "none of its tools has these effects"),
        ("tools = [\"Wri*\"]\neffects = [\"change\"]", ""),
        ("tools = [\"Bash\"]\neffects = [\"network\"]", ""),
        ("paths = [\"$HOME/x\"]", "variables are not filled in here"),
        ("command = \"git push && rm x\"", "`&&` separates commands"),
        ("command = \"git push\"", ""),
        ("tools = [\"*\"]\nunless = [{ tools = [\"*\"] }]", "an exception takes all of it away"),
        ("tools = [\"*\"]\nunless = [{ tools = [\"Read\"] }]", ""),
        ("hosts = [\"x.org\"]", ""),
        ("tools = [\"Read\"]\nhosts = [\"x.org\"]", "none of its tools fetches pages"),
        ("tools = [\"web_fetch\"]\nhosts = [\"x.org:443\"]", ""),
    ] {
        let own = rule(what);
        let (found, _) = run(&[("own.toml", &own)], &["--config", "own.toml", "tools"]);
        assert!(found.contains(said), "{what}: {found}");
        assert_eq!(found.contains("own.toml:"), !said.is_empty(), "{what}: {found}");
    }
}

/// What cannot lie beneath a file told files from nothing in what rules deny.
#[test]
fn what_is_denied_is_not_told_by_what_lies_in_the_way() {
    let rule = "[[rules]]\nverdict = \"deny\"\npaths = [\"secret/**\"]\n";
    let globs = "[tools.fs]\ndeny_paths = [\"/**/secret/**\"]\n";
    let files = [("secret/k", "x"), ("open/k", "x")];
    for own in [rule, globs] {
        for (path, is_denied) in [
            ("secret/k/x", true),
            ("secret/k/", true),
            ("secret/k/x/y", true),
            ("secret/k/..", true),
            ("secret/none/x", true),
            ("open/k/x", false),
            ("open/k/", false),
        ] {
            for (tool, key) in [("Read", "file_path"), ("Glob", "path"), ("List", "path")] {
                let mut args = json!({ key: path });
                if tool == "Glob" {
                    args["pattern"] = json!("*");
                }
                let files = [&files[..], &[("own.toml", own)]].concat();
                let args = ["--config", "own.toml", "call", tool, &args.to_string()];
                let (found, code) = run(&files, &args);
                let words = if is_denied { "denied" } else { "not a directory" };
                let told = found.contains(words) && code != Some(0);
                assert!(told, "{own}: {tool} {path}: {found}");
            }
        }
    }
}

/// The person that had denied Bash had Terminal left, and a change that was only tried showed what it would
/// not let be read.
#[test]
fn what_is_denied_is_not_done_by_another_tool() {
    for (what, tool, arguments) in [
        ("tools = [\"Bash\"]", "Terminal", r#"{"command": "touch x"}"#),
        (
            "tools = [\"Read\"]",
            "Edit",
            r#"{"file_path": "a.txt", "old_string": "one", "new_string": "x", "dry_run": true}"#,
        ),
        ("tools = [\"Read\"]", "Grep", r#"{"pattern": "one"}"#),
        (
            "effects = [\"change\"]",
            "Edit",
            r#"{"file_path": "a.txt", "old_string": "one", "new_string": "x", "dry_run": true}"#,
        ),
    ] {
        let own = format!("[[rules]]\nverdict = \"deny\"\n{what}\n");
        let args = ["--config", "own.toml", "--approvals", "allow", "call", tool, arguments];
        let (found, code) = run(&[("own.toml", &own)], &args);
        assert!(found.contains("denied by the rule") && code != Some(0), "{what} {tool}: {found}");
        let (found, _) = run(&[("own.toml", &own)], &["--config", "own.toml", "tools"]);
        assert!(!found.contains(&format!("{tool} ")), "{what} {tool}: {found}");
    }
}

const RULES: &str = r#"
[[rules]]
verdict = "deny"
command = "git push *"
why = "people push"
match = ["git push", "sudo git push origin"]
not_match = ["git pull"]

[[rules]]
verdict = "allow"
command = "make *"
"#;

#[test]
fn rules_are_named_with_where_they_stand() {
    let own = &[("own.toml", RULES)];
    for (command, said) in [
        ("env git push", "deny (rules): the rule `git push *` of own.toml:2 denies it: people"),
        ("make all", "allow (rules): the rule `make *` of own.toml:9 allows it\n"),
        ("make all; rm a.txt", "ask (shell.program): "),
    ] {
        let args = ["--config", "own.toml", "policy", "explain", command];
        let (found, code) = run(own, &args);
        assert!(found.starts_with(said) && code == Some(0), "{command}: {found}");
        let args = ["policy", "explain", "--policy", "./own.toml", command];
        let (found, _) = run(own, &args);
        assert!(found.starts_with(&said.replace("own", "./own")), "{command}: {found}");
    }
    let (found, _) = run(&[(".sinew/config.toml", RULES)], &["policy", "explain", "make all"]);
    assert!(found.contains("`rules[1]` is left out"), "{found}");
    assert!(found.starts_with("ask (shell.program): "), "{found}");
    let full = format!("profile = \"full\"\n{RULES}");
    let (found, _) =
        run(&[("full.toml", &full)], &["policy", "explain", "--policy", "full.toml", "rm a"]);
    assert!(found.starts_with("allow (profile.full): "), "{found}");
}

#[test]
fn examples_are_tried() {
    let wrong = RULES.replace("git pull", "git push --force").replace("sudo git", "sudo hg");
    for (rules, said, code) in [
        (
            RULES.to_owned(),
            "2 rules, 3 examples, 0 failures; rules without an example: 1\n".to_owned(),
            0,
        ),
        (
            wrong.clone(),
            "own.toml:2: `sudo hg push origin` does not match the rule `deny git push *`\n\
             own.toml:2: `git push --force` matches or may match the rule `deny git push *`\n\
             2 rules, 3 examples, 2 failures; rules without an example: 1\n"
                .to_owned(),
            1,
        ),
        (
            String::new(),
            "0 rules, 0 examples, 0 failures; rules without an example: 0\n".to_owned(),
            0,
        ),
    ] {
        let own = &[("own.toml", rules.as_str())];
        for args in
            [&["--config", "own.toml", "policy", "test"][..], &["policy", "test", "own.toml"]]
        {
            assert_eq!(run(own, args), (said.clone(), Some(code)), "{args:?}");
        }
    }
    let (found, code) = run(&[("own.toml", &wrong)], &["policy", "test", "own.toml", "--json"]);
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(
        (code, &found["n_without_example"], found["failed"].as_array().unwrap().len()),
        (Some(1), &json!(1), 2)
    );
    let (found, code) = run(
        &[("own.toml", "[[rules]]\nverdict = \"x\"\ncommand = \"y\"")],
        &["policy", "test", "own.toml"],
    );
    assert!(found.contains("own.toml:2:11: `rules[0].verdict`") && code != Some(0), "{found}");
}

/// Returns the texts of the replies to commands, in one session.
fn replies(more: &[&str], tool: &str, commands: &[&str]) -> Vec<Vec<String>> {
    let dir = project();
    // Beside what sinew keeps: commands do not see that, and on some sandbox levels not the directory around it.
    let root = dir.path().join("work");
    fs::create_dir(&root).unwrap();
    fs::rename(dir.path().join("a.txt"), root.join("a.txt")).unwrap();
    let mut command = command(dir.path());
    command.arg("--root").arg(&root).args(["--approvals", "allow"]).args(more);
    let mut child = command
        .args(["call", "--batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for text in commands {
        let call = json!({ "name": tool, "arguments": { "command": text } });
        writeln!(input, "{call}").unwrap();
    }
    drop(input);
    let done = child.wait_with_output().unwrap();
    let texts = |line: &str| {
        let reply: Value = serde_json::from_str(line).unwrap();
        let blocks = reply["content"].as_array().unwrap().clone();
        let texts = blocks.iter().map(|block| &block["text"]);
        // Some vocabularies keep notes apart from the content.
        let notes = reply["meta"]["notes"].as_array().cloned().unwrap_or_default();
        let texts = texts.chain(&notes).map(|text| text.as_str().unwrap_or_default().to_owned());
        texts.collect()
    };
    String::from_utf8(done.stdout).unwrap().lines().map(texts).collect()
}

#[test]
fn a_tool_that_does_the_same_is_named_once() {
    let hint = |tool: &str| format!("[`{tool}` does this too, without a shell]");
    let commands = ["cat a.txt", "cat a.txt", "ls", "cat a.txt; ls", "cat none", "cat a.txt | wc"];
    for (more, tool, names) in [
        (&[][..], "Bash", [Some("Read"), None, Some("List"), None, None, None]),
        (&["--tools", "Bash,List"], "Bash", [None, None, Some("List"), None, None, None]),
        (&["--dialect", "molf"], "shell_exec", [Some("read_file"), None, None, None, None, None]),
        (&["--dialect", "moltis"], "exec", [Some("Read"), None, None, None, None, None]),
    ] {
        let replies = replies(more, tool, &commands);
        let found: Vec<_> = replies.iter().map(|texts| texts.get(1).cloned()).collect();
        let expected: Vec<_> = names.iter().map(|name| name.map(hint)).collect();
        assert_eq!(found, expected, "{more:?}");
    }
}

/// Every class of addresses, in every spelling: those that are not public are denied.
#[test]
fn addresses_are_judged_by_their_class() {
    let rows: Vec<(&str, Value)> = include_str!("data/urls.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut fields = line.splitn(3, '|').map(str::trim);
            let ruling = fields.next().unwrap();
            let url: String =
                serde_json::from_str(&format!("\"{}\"", fields.next().unwrap())).unwrap();
            let dns: Vec<&str> = fields.next().unwrap_or_default().split(' ').collect();
            let mut asked = json!({ "url": url });
            if dns != [""] {
                asked["dns"] = json!(dns);
            }
            (ruling, asked)
        })
        .collect();
    assert!(250 <= rows.len());
    let lines: Vec<Vec<u8>> = rows.iter().map(|(_, asked)| self::asked(asked)).collect();
    let (answers, code) = check(&lines);
    assert_eq!(code, Some(0));
    assert_eq!(answers.len(), rows.len());
    for ((ruling, asked), answer) in rows.iter().zip(&answers) {
        assert_eq!(answer["ruling"], *ruling, "{asked}: {answer}");
        let rule = match *ruling {
            "allow" => "network.get",
            "deny" => "network.address",
            _ => "invalid_args",
        };
        assert_eq!(answer["rule"], rule, "{asked}: {answer}");
        assert_eq!(answer.get("address").is_some(), *ruling != "invalid", "{asked}: {answer}");
    }
}

#[test]
fn redirects_are_judged_in_turn() {
    let dns = json!({ "a.test": ["9.9.9.9"], "b.test": ["10.0.0.1"], "c.test": ["9.9.9.10"] });
    for (asked, ruling, address) in [
        (json!({ "url": "http://a.test/", "dns": dns }), "allow", json!("9.9.9.9")),
        (
            json!({ "url": "http://a.test/", "dns": dns, "redirects": ["https://c.test/"] }),
            "allow",
            json!("9.9.9.10"),
        ),
        (
            json!({ "url": "http://a.test/", "dns": dns, "redirects": ["http://b.test/", "http://c.test/"] }),
            "deny",
            json!("10.0.0.1"),
        ),
        (
            json!({ "url": "http://a.test/", "dns": dns, "redirects": ["http://127.0.0.1/"] }),
            "deny",
            json!("127.0.0.1"),
        ),
        (
            json!({ "url": "http://a.test/", "dns": dns, "redirects": ["file:///etc/passwd"] }),
            "invalid",
            json!(null),
        ),
        (json!({ "url": "http://d.test/", "dns": dns }), "deny", json!(null)),
        // Without answers nothing is looked up.
        (json!({ "url": "http://a.test/" }), "allow", json!(null)),
        (json!({ "url": "http://a.test/", "policy": "read-only" }), "deny", json!(null)),
    ] {
        let (answers, code) = check(&[self::asked(&asked)]);
        assert_eq!(code, Some(0), "{asked}: {answers:?}");
        assert_eq!(answers[0]["ruling"], ruling, "{asked}: {answers:?}");
        assert_eq!(answers[0]["address"], address, "{asked}: {answers:?}");
    }
    for asked in [
        json!({ "dns": [] }),
        json!({ "command": "ls", "redirects": ["http://a.test/"] }),
        json!({ "command": "ls", "url": "http://a.test/" }),
    ] {
        let (answers, code) = check(&[self::asked(&asked)]);
        assert_eq!(code, Some(2), "{asked}: {answers:?}");
    }
}
