//! Names and texts that would move the cursor, begin a line of sinew's own or turn text round: no command prints
//! them raw for a person, and every command gives programs the exact bytes.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use crate::served::command;

/// A line that looks like one of sinew's, what erases a screen in two spellings, and what turns text round.
const EVIL: &str =
    "a\nsinew: all is well\u{1b}[2J\u{9b}2J\u{202e}\u{2066}\u{200e}\u{61c}\u{200b}\u{2028}z";
/// How a part of it is shown.
const SHOWN: &str = "\\u{202e}";

struct Repository {
    _dir: tempfile::TempDir,
    home: PathBuf,
    root: PathBuf,
}

impl Repository {
    /// Returns a project that has the name in everything that a project can name.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let (home, root) = (top.join("home"), top.join(format!("ws{EVIL}")));
        fs::create_dir_all(home.join("config/sinew")).unwrap();
        fs::create_dir_all(root.join(".git")).unwrap();
        let repository = Self { _dir: dir, home, root };
        repository.write(
            OsStr::new(".sinew/config.toml"),
            &format!(
                "[tools.policy]\ndeny = [{0}]\n[tools.fs]\ndeny_paths = [\"/x\", {1}]\n
                 [[rules]]\nverdict = \"allow\"\ntools = [{0}]\nwhy = {0}\nmatch = [{0}]\n",
                json!(EVIL),
                json!(format!("/{}", EVIL.replace('[', ""))),
            ),
        );
        let hook = format!(
            "---\nname: {0}\ndescription: {0}\nevents: [BeforeToolExecute]\ncommand: [\"true\", {0}]\n---\n{EVIL}\n",
            json!(EVIL)
        );
        repository.write(OsStr::new(&format!(".sinew/hooks/{EVIL}/HOOK.md")), &hook);
        repository.write(OsStr::from_bytes(b".sinew/hooks/\xff\xfe/HOOK.md"), &hook);
        let servers = json!({ "mcpServers": {
            EVIL: {"command": "sinew", "args": ["mcp", "--approvals", "allow", "--session", EVIL]}
        }});
        repository.write(OsStr::new(".mcp.json"), &servers.to_string());
        repository
    }

    fn write(&self, name: &OsStr, text: &str) {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Writes permissions of another program and a file of rules, with the name in their own.
    fn named_files(&self) -> (PathBuf, PathBuf) {
        let import = self.root.join(format!("import{EVIL}.json"));
        let allowed = json!({ "permissions": {"allow": [EVIL, format!("Bash({EVIL})")]} });
        fs::write(&import, allowed.to_string()).unwrap();
        let rules = self.root.join(format!("rules{EVIL}.toml"));
        let name = json!(EVIL);
        let text = format!(
            "[[rules]]\nverdict = \"deny\"\ncommand = \"x\"\nwhy = {name}\nmatch = [{name}]\n"
        );
        fs::write(&rules, text).unwrap();
        (import, rules)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(&self.home);
        command.args(args).current_dir(&self.root).stdin(Stdio::null());
        command
    }

    /// Runs a command and returns all that it printed.
    fn run(&self, args: &[&str]) -> Vec<u8> {
        let done = self.command(args).output().unwrap();
        [done.stdout, done.stderr].concat()
    }

    fn json(&self, args: &[&str]) -> Value {
        let done = self.command(args).output().unwrap();
        let text = String::from_utf8(done.stdout).unwrap();
        let lines = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
        let lines = lines.unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"));
        if lines.len() == 1 { lines[0].clone() } else { Value::from(lines) }
    }
}

/// Returns the first thing in an output that a terminal would act on.
fn hostile(printed: &[u8]) -> Option<String> {
    let text = match std::str::from_utf8(printed) {
        Ok(text) => text,
        Err(error) => return Some(error.to_string()),
    };
    let is_bad = |c: &char| {
        let is_plain = matches!(c, '\n' | '\t');
        let turns = matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}');
        (c.is_control() && !is_plain) || turns
    };
    let bad = text.chars().find(is_bad).map(|c| format!("{c:?}"));
    let forged = text.lines().find(|line| line.starts_with("sinew: all is well"));
    bad.or(forged.map(str::to_owned))
}

/// Returns whether a text stands in some value, as it is.
fn holds(value: &Value, text: &str) -> bool {
    match value {
        Value::String(found) => found.contains(text),
        Value::Array(all) => all.iter().any(|one| holds(one, text)),
        Value::Object(all) => all.iter().any(|(key, one)| key.contains(text) || holds(one, text)),
        _ => false,
    }
}

#[test]
fn the_look_finds_what_is_hostile() {
    assert_eq!(hostile("plain \\u{202e} é\n\tx".as_bytes()), None);
    for raw in
        ["\u{1b}[2J", "\u{9b}2J", "\r", "\u{202e}", "x\nsinew: all is well", "\u{200b}", "\u{2028}"]
    {
        assert!(hostile(raw.as_bytes()).is_some(), "{raw:?}");
    }
    assert!(hostile(b"\xff").is_some());
}

/// Each command, with whether the name must be in what it prints: where it is not, it was not tried.
#[test]
fn no_command_prints_a_hostile_name_raw() {
    let repository = Repository::new();
    let arguments = json!({ "file_path": EVIL, "content": EVIL }).to_string();
    let written = repository.run(&["--approvals", "allow", "call", "Write", &arguments]);
    assert!(repository.root.join(EVIL).exists(), "{}", String::from_utf8_lossy(&written));
    let list = json!({ "path": EVIL }).to_string();
    let missing = json!({ "file_path": format!("{EVIL}/x") }).to_string();
    let other = json!({ "file_path": "a.txt", EVIL: 1 }).to_string();
    let (import, rules) = repository.named_files();
    let (import, rules) = (import.to_str().unwrap(), rules.to_str().unwrap());
    let odd = format!("{EVIL}/none");
    let set = format!("{EVIL}=1");
    let commands: &[(&[&str], bool)] = &[
        (&["trust"], true),
        (&["trust", "list"], false),
        (&["trust", "--arguments", "--", "mcp", "--approvals", "allow", "--session", EVIL], true),
        (&["trust", "--arguments", "--", "mcp", EVIL], true),
        (&["config", "show"], true),
        (&["doctor"], true),
        (&["checkpoint", "list"], true),
        (&["checkpoint", "list", "--path", EVIL], true),
        (&["checkpoint", "diff", "c1"], true),
        (&["checkpoint", "diff", EVIL], true),
        (&["checkpoint", "restore", "c1", "--dry-run"], true),
        (&["call", EVIL], true),
        (&["--dialect", EVIL, "call", "Read"], true),
        (&["call", "Read", &missing], true),
        (&["call", "Read", &other], true),
        (&["call", "CheckpointList", EVIL], false),
        (&["audit", "list"], true),
        (&["audit", "list", "--outcome", EVIL], true),
        (&["audit", "list", "--since", EVIL], true),
        (&["audit", "show", "2"], true),
        (&["audit", "show", EVIL], true),
        (&["audit", "verify"], false),
        (&["audit", "verify", "--head", EVIL], true),
        (&["audit", "verify", "--file", EVIL], true),
        (&["hook", "list"], true),
        (&["hook", "test", "before_tool_execute"], true),
        (&["hook", "test", "before_tool_execute", EVIL], true),
        (&["policy", "explain", EVIL], true),
        (&["policy", "explain", "--tool", EVIL, "{}"], true),
        (&["policy", "explain", "--tool", "List", &list], true),
        (&["policy", "explain", "--policy", &odd, "ls"], true),
        (&["policy", "test"], true),
        (&["policy", "test", rules], true),
        (&["tools"], true),
        (&["import", "claude-code", import], true),
        (&["import", "claude-code", &odd], true),
        (&["--root", &odd, "tools"], true),
        (&["--session", EVIL, "checkpoint", "list"], false),
        (&["--config", &odd, "tools"], true),
        (&["--set", &set, "tools"], true),
        (&["--log", "info", "call", "CheckpointRestore", "{}"], true),
        (&[EVIL], true),
        (&["--unknown", EVIL], false),
        (&["mcp"], true),
        (&["trust", "--yes"], true),
        (&["trust", "list"], true),
        (&["hook", "list"], true),
        (&["hook", "test", "before_tool_execute"], true),
        (&["trust", "revoke"], true),
    ];
    let mut wrong = Vec::new();
    for (args, must_name) in commands {
        let printed = repository.run(args);
        let text = String::from_utf8_lossy(&printed);
        if let Some(what) = hostile(&printed) {
            wrong.push(format!("{args:?}: {what}: {text:?}"));
        } else if *must_name && !text.contains(SHOWN) {
            wrong.push(format!("{args:?} does not name it: {text}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), commands.len(), wrong.join("\n\n"));
}

#[test]
fn programs_are_given_exactly_what_is_there() {
    let repository = Repository::new();
    let arguments = json!({ "file_path": EVIL, "content": EVIL }).to_string();
    repository.run(&["--approvals", "allow", "call", "Write", &arguments]);
    let read = json!({ "file_path": EVIL }).to_string();
    for args in [
        &["trust", "--json"][..],
        &["config", "show", "--json"],
        &["doctor", "--json"],
        &["checkpoint", "list", "--json"],
        &["checkpoint", "diff", "c1", "--json"],
        &["call", "Read", &read, "--json"],
    ] {
        let object = repository.json(args);
        assert!(holds(&object, EVIL) || holds(&object, "\u{202e}"), "{args:?}: {object}");
    }
    // Of a file, too, where no terminal is at the end.
    let printed = repository.run(&["call", "Read", &read]);
    assert!(printed.windows(4).any(|bytes| bytes == b"\x1b[2J"));
}

/// A refused path stood in the reply as it is, so that its name could forge a line of sinew's own.
#[test]
fn sandbox_refusals_escape_names() {
    let repository = Repository::new();
    // The directory of the project has the name, and the command prints nothing.
    let touch = json!({ "command": "touch .sinew/new 2>/dev/null; true" }).to_string();
    let reply = repository.json(&["--approvals", "allow", "call", "Bash", &touch, "--json"]);
    let text = reply["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{reply}"));
    // Quoted as git does it.
    assert!(text.starts_with("[the sandbox refused to change \""), "{text:?}");
    let (refused, rest) = text.split_once('\n').unwrap();
    assert!(refused.contains(r"\342\200\256") && !rest.contains('\n'), "{text:?}");
    assert_eq!(hostile(text.as_bytes()), None, "{text:?}");
}

/// At a terminal the content of a file is visible and not acted on.
#[test]
fn a_terminal_is_shown_the_content_of_a_file() {
    let repository = Repository::new();
    repository.write(OsStr::new("colored.txt"), "\u{1b}[2Jone\ttwo\n");
    let arguments = json!({ "file_path": "colored.txt" }).to_string();
    let mut command = repository.command(&["call", "Read", &arguments]);
    let own = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&own).unwrap();
    unlockpt(&own).unwrap();
    let name = ptsname(&own, Vec::new()).unwrap();
    let end = fs::OpenOptions::new().write(true).open(name.to_str().unwrap()).unwrap();
    command.stdout(end).stderr(Stdio::null());
    assert!(command.status().unwrap().success());
    // The other end closes with the command, so that reading ends.
    drop(command);
    let mut shown = Vec::new();
    drop(fs::File::from(own).read_to_end(&mut shown));
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.contains("\\u{1b}[2Jone") && !shown.contains('\u{1b}'), "{shown:?}");
}

/// The sentence above the prompt cannot be forged by the name of a file.
#[test]
fn no_name_forges_a_sentence_of_the_question_of_trust() {
    let repository = Repository::new();
    let forged = "x/HOOK.md\n\nnothing here would loosen what is not trusted already\n";
    repository.write(
        OsStr::new(&format!(".sinew/hooks/{}", forged.replace('/', "-"))),
        "---\nname: h\nevents: [BeforeToolExecute]\ncommand: [\"true\"]\n---\n",
    );
    let text = String::from_utf8(repository.run(&["trust"])).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(text.contains("x-HOOK.md\\n\\nnothing here"), "{text}");
    assert!(!lines.contains(&"nothing here would loosen what is not trusted already"), "{text}");
    let root = Path::new(&repository.root).file_name().unwrap().to_str().unwrap();
    assert!(!text.contains(root) && text.contains("wsa\\nsinew: all is well"), "{text}");
}

/// Messages go through one place, so that none is forgotten.
#[test]
fn no_source_prints_a_message_by_itself() {
    fn look(dir: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                look(&path, found);
                continue;
            }
            if path.ends_with("tests.rs") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for (n, line) in text.lines().enumerate() {
                // `eprint` holds `print`.
                if ["print!(", "println!("].iter().any(|print| line.contains(print)) {
                    found.push(format!("{}:{}: {line}", path.display(), n + 1));
                }
            }
        }
    }
    let mut found = Vec::new();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for name in ["sinew", "guard", "runtime", "mcp", "ops", "dialects", "tool"] {
        look(&sources.join(name).join("src"), &mut found);
    }
    assert!(found.is_empty(), "use `screen::say`: {found:#?}");
}
