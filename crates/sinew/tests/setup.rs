//! `sinew setup` on files of each client as people have them: after a setup and its undo every byte is as before.
//!
//! Each run has a home of its own, and scripts that stand for clients.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::database;
use crate::served::{Place, command};

mod changed;

/// The names of the clients, as the table has them.
const CLIENTS: [&str; 7] = ["claude", "codex", "gemini", "opencode", "vscode", "cursor", "zed"];

/// A home, a project and scripts.
struct Setup {
    place: Place,
    bin: PathBuf,
}

/// The output of a run.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Setup {
    /// Returns a home in which these clients are installed by a script.
    fn new(programs: &[(&str, &str)]) -> Self {
        let place = Place::new();
        let bin = place.home.join("bin");
        fs::create_dir(&bin).unwrap();
        for (name, script) in programs {
            let path = bin.join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        database::lay_out(&place.home);
        Self { place, bin }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(&self.place.home);
        // The rehearsal needs `rm`; the scripts come first.
        let path = format!("{}:/usr/bin:/bin", self.bin.display());
        command.arg("setup").args(args).env("PATH", path).current_dir(&self.place.root);
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(&mut self.command(args))
    }

    #[track_caller]
    fn works(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {}{}", ran.out, ran.err);
        ran.out
    }

    /// Returns the path of a file: of the project where it begins with `./`, else of the home.
    fn path(&self, file: &str) -> PathBuf {
        match file.strip_prefix("./") {
            Some(file) => self.place.root.join(file),
            None => self.place.home.join(file),
        }
    }

    fn write(&self, file: &str, text: &str) -> PathBuf {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Returns every path of home and project, with content and mode, except the files of sinew and of the test.
    fn tree(&self) -> BTreeMap<PathBuf, (u32, String)> {
        let mut tree = BTreeMap::new();
        let mut left = vec![self.place.home.clone(), self.place.root.clone()];
        while let Some(dir) = left.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap();
                if [".passwd", "state", "bin"].iter().any(|own| name == *own) {
                    continue;
                }
                let meta = fs::symlink_metadata(&path).unwrap();
                let content = match (meta.is_dir(), meta.is_symlink()) {
                    (true, _) => String::new(),
                    (_, true) => fs::read_link(&path).unwrap().display().to_string(),
                    _ => String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned(),
                };
                if meta.is_dir() {
                    left.push(path.clone());
                }
                tree.insert(path, (meta.permissions().mode(), content));
            }
        }
        tree
    }
}

impl Ran {
    fn of(command: &mut Command) -> Self {
        let done = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: done.status.code().unwrap(), out: text(done.stdout), err: text(done.stderr) }
    }
}

/// A file of a client as people have it, and where the client looks for it.
struct Case {
    client: &'static str,
    file: &'static str,
    text: &'static str,
    /// A part of the text that its owner changes afterwards.
    change: (&'static str, &'static str),
}

const CASES: &[Case] = &[
    Case {
        client: "claude",
        file: ".claude/settings.json",
        text: "{\n  \"model\": \"opus\",\n  \"permissions\": {\n    \"deny\":[ \"WebFetch\",\"Read(./.env)\" ],\n    \
               \"defaultMode\" : \"plan\"\n  },\n  \"env\": { \"A\":\"1\" }\n}\n",
        change: ("opus", "sonnet"),
    },
    Case {
        client: "claude",
        file: ".claude/settings.json",
        text: "{\"hooks\":{\"Stop\":[]}}",
        change: ("Stop", "Start"),
    },
    Case {
        client: "codex",
        file: ".codex/config.toml",
        text: "# my Codex\nmodel   = \"gpt-5\"   # the model\nnotify = [\n  \"a\", # one\n  \"b\",\n]\n\n[features]\nweb_search = \
               true # on\n\n\n[mcp_servers.docs]  # documents\ncommand=\"npx\"\nargs = [ \"-y\",'docs' ]\n\n[mcp_servers.docs.env]\nKEY = \
               \"1\"\n\n[projects.\"/home/ada/app\"]\ntrust_level = \"trusted\"\n\n# the end\n",
        change: ("gpt-5", "gpt-6"),
    },
    Case {
        client: "codex",
        file: ".codex/config.toml",
        text: "\u{feff}model = 'x'\r\n\r\n[tui]\r\n\ttheme = \"dark\" # dark\r\n[mcp_servers.a]\r\nurl = \"https://x.example\"\r\n",
        change: ("dark\" #", "light\" #"),
    },
    Case {
        client: "codex",
        file: ".codex/config.toml",
        text: "mcp_servers = {a={command=\"x\"}} # short\nfeatures.web_search = true",
        change: ("short", "long"),
    },
    Case {
        client: "codex",
        file: ".codex/config.toml",
        text: "[features]\nshell_tool = true   # I want it\n",
        change: ("I want it", "still"),
    },
    Case {
        client: "gemini",
        file: ".gemini/settings.json",
        text: "{\n\t// colours\n\t\"ui\": {\"theme\":   \"Default\",},\n\n\t\"mcpServers\": {\n\t\t\"git\": { \"command\": \"mcp-git\" }, // \
               of mine\n\t\t/* \"old\": {} */\n\t},\n}",
        change: ("Default", "Dark"),
    },
    Case { client: "gemini", file: ".gemini/settings.json", text: "", change: ("", "") },
    Case {
        client: "opencode",
        file: ".config/opencode/opencode.jsonc",
        text: "{\r\n    // opencode\r\n    \"$schema\": \"https://opencode.ai/config.json\",\r\n    \"permission\": {\"bash\": \"ask\" /* \
               always */},\r\n    \"mcp\": {\r\n        \"x\": {\"type\": \"remote\", \"url\": \"https://x.example/{a}//b\"}\r\n    }\r\n}\r\n",
        change: ("always", "never"),
    },
    Case {
        client: "opencode",
        file: ".config/opencode/opencode.json",
        text: "{\"theme\":\"system\",\"permission\":\"ask\"}\n",
        change: ("system", "nord"),
    },
    Case {
        client: "vscode",
        file: "./.vscode/mcp.json",
        text: "{\n\t\"inputs\": [\n\t\t{ \"type\": \"promptString\", \"id\": \"key\", \"password\": true, },\n\t],\n\t\"servers\": {\n\t\t// \
               none yet\n\t}\n}\n",
        change: ("promptString", "pickString"),
    },
    Case {
        client: "vscode",
        file: "./.vscode/mcp.json",
        text: "// a project\n",
        change: ("project", "repository"),
    },
    Case {
        client: "cursor",
        file: ".cursor/mcp.json",
        text: "{\"mcpServers\":{\"a\":{\"command\":\"x\",\"env\":{\"K\":\"\\u00e9\\\"}\"}}}}",
        change: ("\"x\"", "\"y\""),
    },
    Case {
        client: "cursor",
        file: ".cursor/mcp.json",
        text: "{\n  \"mcpServers\" : {\n  }\n  , \"other\": [ 1,2 ,3 ]\n}\n\n\n",
        change: ("2 ,3", "2"),
    },
    Case {
        client: "zed",
        file: ".config/zed/settings.json",
        text: "// Zed settings\n//\n// see the documentation\n{\n  \"theme\": {\n    \"mode\": \"system\", // or dark\n  },\n  \
               \"context_servers\": {\n    \"a\": {\n      \"command\": \"x\"\n    } // last\n    // more to come\n  }, /* end */\n  \"vim_mode\": true\n}",
        change: ("system", "dark"),
    },
    Case {
        client: "zed",
        file: ".config/zed/settings.json",
        text: "\u{feff}{\r\n    \"buffer_font_size\": 16.50,\r\n    \"lsp\": { \"x\": { \"settings\": [ ] } },\r\n}\r\n",
        change: ("16.50", "1.7e1"),
    },
];

/// Claude Code's own command, as far as it matters: it refuses a name that is there, and writes its file anew.
const CLAUDE: &str = r#"
echo "$*" >>"$HOME/claude-calls"
file=$HOME/.claude.json
has() { grep -q sinew "$file"; }
case "$1 $2" in
"mcp add-json") has && exit 1; printf '{"n": 3,\n"mcpServers": {"sinew": %s}}' "$6" >"$file" ;;
"mcp add") has && exit 1; printf '{"n": 3,\n"mcpServers": {"sinew": {"type": "stdio", "command": "%s", "args": ["%s"], "env": {}}}}' "$7" "$8" >"$file" ;;
"mcp remove") has || exit 1; printf '{"n": 3}' >"$file" ;;
*) exit 2 ;;
esac"#;
const CLAUDE_FILE: &str = r#"{"n": 3}"#;

/// Returns a home with every client in it.
fn with_clients() -> Setup {
    let setup = Setup::new(&[("claude", CLAUDE), ("opencode", "echo 1.18.3")]);
    for dir in [".codex", ".gemini", ".config/opencode", ".cursor", ".config/zed"] {
        fs::create_dir_all(setup.path(dir)).unwrap();
    }
    fs::create_dir_all(setup.path("./.vscode")).unwrap();
    setup.write(".claude.json", CLAUDE_FILE);
    setup
}

/// Returns whether the bytes of one text are in another one, in their order.
fn is_within(old: &str, new: &str) -> bool {
    let mut bytes = new.bytes();
    old.bytes().all(|byte| bytes.any(|other| other == byte))
}

/// Reads what the file of a client says about sinew, by the reader that `sinew trust` uses.
fn registered(file: &str, text: &str) -> Vec<(String, Vec<String>)> {
    let text = text.replace("\"context_servers\"", "\"mcpServers\"");
    let servers = sinew::config::clients::servers(Path::new(file), &text).unwrap();
    servers.into_iter().map(|server| (server.name, server.words)).collect()
}

#[track_caller]
fn check_bytes(case: &Case) {
    let Case { client, file, text, change } = case;
    let setup = with_clients();
    let path = setup.write(file, text);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let before = setup.tree();
    // A dry run and the list change nothing.
    let diff = setup.works(&[client, "--dry-run"]);
    assert!(diff.contains("+++ ") && diff.contains("sinew"), "{diff}");
    setup.works(&[]);
    assert_eq!(setup.tree(), before, "{client}: {text}");

    let said = setup.works(&[client]);
    let new = fs::read_to_string(&path).unwrap();
    assert_ne!(new, *text);
    assert!(is_within(text, &new), "{client}: {text}\n{new}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
    let words = vec![String::from(database::SINEW), String::from("mcp")];
    let own = (String::from("sinew"), words);
    let (of, written) = match *client {
        "claude" => (".claude.json", fs::read_to_string(setup.path(".claude.json")).unwrap()),
        _ => (*file, new.clone()),
    };
    assert_eq!(
        registered(of, &written).iter().filter(|server| **server == own).count(),
        1,
        "{new}"
    );
    assert!(said.contains("brought notes.txt back") || said.contains("SKIPPED"), "{said}");
    assert!(said.contains("reading ~/.ssh/id_ed25519: refused"), "{said}");

    let said = setup.works(&[client]);
    assert!(said.contains("already configured"), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), new);
    setup.works(&[client, "--undo"]);
    assert_eq!(setup.tree_without_calls(), before, "{client}: {text}");
    assert!(setup.works(&[client, "--undo"]).contains("nothing to undo"));

    // Other changes of the owner stay.
    setup.works(&[client]);
    let (from, to) = change;
    let change =
        |text: &str| if from.is_empty() { text.to_owned() } else { text.replacen(from, to, 1) };
    fs::write(&path, change(&new)).unwrap();
    setup.works(&[client, "--undo"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), change(text), "{client}");
}

impl Setup {
    fn tree_without_calls(&self) -> BTreeMap<PathBuf, (u32, String)> {
        let mut tree = self.tree();
        tree.remove(&self.path("claude-calls"));
        tree
    }
}

fn check_client(client: &str) {
    if !database::can_bind("setup") {
        return;
    }
    let cases: Vec<&Case> = CASES.iter().filter(|case| case.client == client).collect();
    assert!(!cases.is_empty());
    cases.into_iter().for_each(check_bytes);
}

#[test]
fn claude_files_come_back() {
    check_client("claude");
}

#[test]
fn codex_files_come_back() {
    check_client("codex");
}

#[test]
fn gemini_files_come_back() {
    check_client("gemini");
}

#[test]
fn opencode_files_come_back() {
    check_client("opencode");
}

#[test]
fn vscode_files_come_back() {
    check_client("vscode");
}

#[test]
fn cursor_files_come_back() {
    check_client("cursor");
}

#[test]
fn zed_files_come_back() {
    check_client("zed");
}

#[test]
fn a_home_without_files_is_empty_again() {
    if !database::can_bind("setup") {
        return;
    }
    let setup = with_clients();
    let before = setup.tree();
    for client in CLIENTS {
        setup.works(&[client]);
    }
    let listed = setup.works(&["--json"]);
    let rows: Vec<Value> = listed.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    let names: Vec<_> = rows.iter().map(|row| row["client"].as_str().unwrap()).collect();
    assert_eq!(names, CLIENTS);
    for row in rows {
        let found = (&row["installed"], &row["configured"], &row["would"]);
        assert_eq!(found, (&json!(true), &json!("yes"), &json!(["change nothing"])), "{row}");
    }
    for path in [".codex/config.toml", ".cursor/mcp.json", ".gemini/policies/sinew.toml"] {
        let mode = fs::metadata(setup.path(path)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600, "{path}");
    }
    for client in CLIENTS {
        setup.works(&[client, "--undo"]);
    }
    assert_eq!(setup.tree_without_calls(), before);
    // Neither a record nor anything of a rehearsal is left.
    assert_eq!(fs::read_dir(setup.place.home.join("state/sinew")).unwrap().count(), 0);
}

#[test]
fn claude_code_registers_by_its_own_command() {
    if !database::can_bind("setup") {
        return;
    }
    let setup = with_clients();
    setup.works(&["claude", "--beside"]);
    assert!(!setup.path(".claude/settings.json").exists());
    setup.works(&["claude"]);
    let settings = fs::read_to_string(setup.path(".claude/settings.json")).unwrap();
    let settings: Value = serde_json::from_str(&settings).unwrap();
    assert_eq!(settings["permissions"]["allow"], json!(["mcp__sinew"]));
    assert!(settings["permissions"]["deny"].as_array().unwrap().contains(&json!("Bash")));
    setup.works(&["claude", "--beside"]);
    assert!(!setup.path(".claude/settings.json").exists());
    setup.works(&["claude", "--undo"]);
    let sinew = database::SINEW;
    let full = json!({ "type": "stdio", "command": sinew, "args": ["mcp"], "alwaysLoad": true });
    let beside = format!("mcp add -s user sinew -- {sinew} mcp");
    let remove = "mcp remove -s user sinew";
    let calls = fs::read_to_string(setup.path("claude-calls")).unwrap();
    let expected =
        [&beside, remove, &format!("mcp add-json -s user sinew {full}"), remove, &beside, remove];
    assert_eq!(calls.lines().collect::<Vec<_>>(), expected);
    assert_eq!(fs::read_to_string(setup.path(".claude.json")).unwrap(), CLAUDE_FILE);

    // An entry that changed since is its owner's.
    setup.works(&["claude"]);
    let changed = fs::read_to_string(setup.path(".claude.json"))
        .unwrap()
        .replace("\"mcp\"", "\"mcp\", \"--x\"");
    fs::write(setup.path(".claude.json"), &changed).unwrap();
    let said = setup.works(&["claude", "--undo"]);
    assert!(said.contains("`mcpServers.sinew` changed since the setup, so it stays"), "{said}");
    assert_eq!(fs::read_to_string(setup.path(".claude.json")).unwrap(), changed);
    assert!(!setup.path(".claude/settings.json").exists());
}

#[test]
fn opencode_2_has_a_form_of_its_own() {
    if !database::can_bind("setup") {
        return;
    }
    let sinew = database::SINEW;
    let new = json!({ "servers": { "sinew": { "type": "local", "command": [sinew, "mcp"] } } });
    let old = json!({ "sinew": { "type": "local", "command": [sinew, "mcp"], "enabled": true } });
    for (text, mcp, rules) in [("{}", &new, 7), ("{\"permission\": {}}", &old, 0)] {
        let setup = Setup::new(&[("opencode", "echo v2.0.3")]);
        let path = setup.write(".config/opencode/opencode.json", text);
        setup.works(&["opencode"]);
        let written: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(written["mcp"], *mcp, "{written}");
        let found = written["permissions"].as_array().map_or(0, Vec::len);
        assert_eq!(found, rules, "{written}");
        setup.works(&["opencode", "--undo"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn links_stay_links() {
    if !database::can_bind("setup") {
        return;
    }
    let setup = with_clients();
    let target = setup.write("dotfiles/mcp.json", "{}\n");
    symlink("../dotfiles/mcp.json", setup.path(".cursor/mcp.json")).unwrap();
    let before = setup.tree();
    setup.works(&["cursor"]);
    assert!(fs::read_to_string(&target).unwrap().contains("sinew"));
    assert!(fs::symlink_metadata(setup.path(".cursor/mcp.json")).unwrap().is_symlink());
    setup.works(&["cursor", "--undo"]);
    assert_eq!(setup.tree(), before);
}

/// Lays out a home in which a setup is refused.
type LayOut = fn(&Setup);

fn set_mode(setup: &Setup, path: &str, mode: u32) {
    fs::set_permissions(setup.path(path), fs::Permissions::from_mode(mode)).unwrap();
}
/// A client, a home in which its setup is refused, and a part of the error.
const BAD: &[(&str, LayOut, &str)] = &[
    (
        "cursor",
        |setup| drop(setup.write(".cursor/mcp.json", "{\n  \"a\": 1\n  \"b\": 2\n}\n")),
        "line 2, column 9: ",
    ),
    (
        "codex",
        |setup| drop(setup.write(".codex/config.toml", "a = 1\nb = = 2\n")),
        "config.toml: line 2, column 5: ",
    ),
    (
        "zed",
        |setup| drop(setup.write(".config/zed/settings.json", "[]")),
        "the file holds no object",
    ),
    (
        "cursor",
        |setup| drop(setup.write(".cursor/mcp.json", "{\"mcpServers\": \"x\"}")),
        "`mcpServers` is not an object",
    ),
    (
        "gemini",
        |setup| drop(setup.write(".gemini/settings.json", "{\"mcpServers\": []}")),
        "`mcpServers` is not an object",
    ),
    (
        "vscode",
        |setup| {
            drop(
                setup.write(
                    "./.vscode/mcp.json",
                    "{\"servers\": {\"sinew\": {\"command\": \"x\"}}}",
                ),
            )
        },
        "servers.sinew = {\"command\":\"x\"}",
    ),
    (
        "claude",
        |setup| {
            drop(setup.write(".claude.json", "{\"mcpServers\": {\"sinew\": {\"command\": \"x\"}}}"))
        },
        "mcpServers.sinew = {\"command\":\"x\"}",
    ),
    (
        "cursor",
        |setup| drop(setup.write(".cursor/mcp.json", "{\"a\": 1, \"a\": 2}")),
        "the key appears twice",
    ),
    (
        "cursor",
        |setup| {
            setup.write(".cursor/mcp.json", "{}");
            set_mode(setup, ".cursor/mcp.json", 0o444);
        },
        "the file is read-only",
    ),
    ("cursor", |setup| set_mode(setup, ".cursor", 0o555), "the directory is read-only"),
    (
        "cursor",
        |setup| {
            let file = setup.write(".cursor/mcp.json", "{}");
            fs::hard_link(file, setup.path("other.json")).unwrap();
        },
        "the file has more than one hard link",
    ),
    (
        "cursor",
        |setup| symlink("../gone.json", setup.path(".cursor/mcp.json")).unwrap(),
        "a link to a file that does not exist",
    ),
    (
        "vscode",
        |setup| {
            symlink(setup.write("elsewhere.json", "{}"), setup.path("./.vscode/mcp.json")).unwrap()
        },
        "a link leads out of the project",
    ),
    (
        "cursor",
        |setup| fs::create_dir(setup.path(".cursor/mcp.json")).unwrap(),
        "not a regular file",
    ),
    (
        "cursor",
        |setup| fs::write(setup.path(".cursor/mcp.json"), b"{\"\xff\": 1}").unwrap(),
        "not UTF-8",
    ),
    (
        "cursor",
        |setup| fs::remove_dir(setup.path(".cursor")).unwrap(),
        "Cursor is not installed: PATH has no `cursor`",
    ),
    (
        "claude",
        |setup| {
            fs::remove_file(setup.bin.join("claude")).unwrap();
            fs::create_dir(setup.path(".claude")).unwrap();
        },
        "PATH has no `claude`",
    ),
    (
        "claude",
        |setup| {
            fs::write(setup.bin.join("claude"), "#!/bin/sh\necho no luck >&2; exit 7\n").unwrap()
        },
        "no luck",
    ),
];

#[test]
fn what_cannot_be_set_up_changes_nothing() {
    if !database::can_bind("setup") {
        return;
    }
    for (client, lay_out, error) in BAD {
        let setup = with_clients();
        lay_out(&setup);
        let before = setup.tree();
        for args in [&[*client][..], &[client, "--beside"], &[client, "--dry-run"]] {
            // A client that fails does so only when its command runs, and a dry run needs no client.
            let late = ["no luck", "is not installed", "PATH has no"];
            let is_late = late.iter().any(|words| error.contains(words));
            if is_late && args.contains(&"--dry-run") {
                continue;
            }
            // A client that the machine has is none here.
            let ran = Ran::of(setup.command(args).env("PATH", &setup.bin));
            assert!(ran.code == 1 && ran.err.contains(error), "{args:?}: {error}: {}", ran.err);
            assert_eq!((ran.out.as_str(), setup.tree()), ("", before.clone()), "{args:?}: {error}");
        }
        let ran = Ran::of(setup.command(&[client, "--json"]).env("PATH", &setup.bin));
        let object: Value = serde_json::from_str(&ran.out).unwrap();
        assert!(object["error"]["message"].as_str().unwrap().contains(error), "{object}");
        assert_eq!((ran.code, &object["ok"]), (1, &json!(false)));
        // Without a change there is no record, and the list works.
        assert!(setup.works(&[client, "--undo"]).contains("nothing to undo"), "{error}");
        setup.works(&[]);
        for path in [".cursor", ".cursor/mcp.json"] {
            if fs::metadata(setup.path(path)).is_ok() {
                set_mode(&setup, path, 0o755);
            }
        }
    }
    let setup = with_clients();
    for args in [&["emacs"][..], &["--undo"], &["--beside"], &["codex", "--undo", "--beside"]] {
        assert_eq!(setup.run(args).code, 2, "{args:?}");
    }
}

/// A dry run of Claude Code failed where `PATH` had no `claude`.
#[test]
fn dry_run_needs_no_client() {
    if !database::can_bind("setup") {
        return;
    }
    // A client, its directory, what a dry run would do, and what it says of the program.
    for (client, dir, does, missing) in [
        (
            "claude",
            "",
            "would run claude mcp add-json",
            "Claude Code is not installed: PATH has no `claude`",
        ),
        (
            "claude",
            ".claude",
            "would run claude mcp add-json",
            "PATH has no `claude`, which registers servers",
        ),
        ("codex", "", "+[mcp_servers.sinew]", "Codex is not installed: PATH has no `codex`"),
        ("gemini", "", "+  \"mcpServers\": {", "Gemini CLI is not installed: PATH has no `gemini`"),
        ("opencode", "", "+  \"mcp\": {", "opencode is not installed: PATH has no `opencode`"),
        ("vscode", "", "+  \"servers\": {", "VS Code is not installed: PATH has no `code`"),
        ("cursor", "", "+  \"mcpServers\": {", "Cursor is not installed: PATH has no `cursor`"),
        ("zed", "", "+  \"context_servers\": {", "Zed is not installed: PATH has no `zed`"),
    ] {
        let setup = Setup::new(&[]);
        fs::create_dir_all(setup.path(dir)).unwrap();
        let before = setup.tree();
        let run = |args: &[&str]| Ran::of(setup.command(args).env("PATH", &setup.bin));
        let ran = run(&[client, "--dry-run"]);
        assert_eq!(ran.code, 0, "{client}: {}{}", ran.out, ran.err);
        for words in ["dry run, nothing was changed", does, missing] {
            assert!(ran.out.contains(words), "{client}: {words}: {}", ran.out);
        }
        let object: Value =
            serde_json::from_str(&run(&[client, "--dry-run", "--json"]).out).unwrap();
        assert_eq!((&object["ok"], &object["changed"]), (&json!(true), &json!(false)), "{object}");
        assert!(object["notes"].to_string().contains(missing), "{object}");
        let listed = run(&["--dry-run"]);
        assert_eq!((listed.code, &listed.out), (0, &run(&[]).out), "{client}");
        // The control: a setup fails.
        let ran = run(&[client]);
        assert!(ran.code == 1 && ran.err.contains("PATH has no `"), "{client}: {}", ran.err);
        assert_eq!(setup.tree(), before, "{client}");
    }
    // Nor does the dry run of an undo.
    let setup = with_clients();
    setup.works(&["claude"]);
    fs::remove_file(setup.bin.join("claude")).unwrap();
    let before = setup.tree();
    let undo = ["claude", "--undo", "--dry-run"];
    let ran = Ran::of(setup.command(&undo).env("PATH", &setup.bin));
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for words in ["would run claude mcp remove", "PATH has no `claude`, which removes servers"] {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
    assert_eq!(setup.tree(), before);
}

#[test]
fn an_object_says_all_that_happened() {
    if !database::can_bind("setup") {
        return;
    }
    let setup = with_clients();
    let object = |args: &[&str]| -> Value { serde_json::from_str(&setup.works(args)).unwrap() };
    let dry = object(&["vscode", "--dry-run", "--json"]);
    assert_eq!((&dry["changed"], &dry["dry_run"]), (&json!(false), &json!(true)));
    assert!(dry["changes"][0]["diff"].as_str().unwrap().contains("+  \"servers\": {"), "{dry}");
    let done = object(&["vscode", "--json"]);
    assert_eq!((&done["ok"], &done["changed"]), (&json!(true), &json!(true)));
    let steps: Vec<_> =
        done["rehearsal"].as_array().unwrap().iter().map(|step| &step["step"]).collect();
    assert_eq!(steps, ["write", "delete", "undo", "refuse"]);
    let notes = done["notes"].to_string();
    let link = "vscode:mcp/install?%7B%22name%22%3A%22sinew%22%2C%22type%22%3A%22stdio%22%2C";
    assert!(notes.contains(link), "{notes}");
    let undone = object(&["vscode", "--undo", "--json"]);
    assert_eq!(
        (&undone["action"], &undone["changes"][0]["change"]),
        (&json!("undo"), &json!("deleted"))
    );
    // The rehearsal leaves nothing among the temporary files.
    let temporary = tempfile::tempdir().unwrap();
    let ran = Ran::of(setup.command(&["vscode"]).env("TMPDIR", temporary.path()));
    assert_eq!((ran.code, fs::read_dir(temporary.path()).unwrap().count()), (0, 0), "{}", ran.err);
    assert!(ran.err.contains("it is in a build directory of Cargo"), "{}", ran.err);
}

#[test]
fn a_rehearsal_that_fails_is_a_failure() {
    if !database::can_bind("setup") {
        return;
    }
    let setup = with_clients();
    setup.write(".config/sinew/config.toml", "profile = \"read-only\"\n");
    let ran = setup.run(&["cursor"]);
    assert!(ran.code == 1 && ran.out.contains("FAILED write: "), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("the rehearsal failed"), "{}", ran.err);
    assert!(setup.path(".cursor/mcp.json").exists());
    let ran = Ran::of(setup.command(&["zed", "--json"]).env("TMPDIR", setup.path("none")));
    let object: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &object["ok"], &object["changed"]), (1, &json!(false), &json!(true)));
    assert_eq!(object["rehearsal"][0]["outcome"], "failed", "{object}");
}
