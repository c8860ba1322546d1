//! Every key of a hook takes effect.

use std::collections::BTreeSet;
use std::fs;

use serde_json::json;
use sinew::config::HookOptions;

use super::{Place, has};

/// A key with its value, and what `sinew hook list`, or a call of Write, shows with it and not without.
enum Seen {
    /// The list of hooks shows these words.
    Listed(&'static str),
    /// A call of Write ends with this code instead, and says these words.
    Ends(i32, &'static str),
}

/// The hook without the key: it notes that it ran, and blocks.
const BASE: &str = "[[hooks]]\nevent = \"before_tool_execute\"\ncommand = [\"{home}/bin/hook\"]\n";

const KEYS: &[(&str, &str, Seen)] = &[
    ("event", "event = \"persist\"", Seen::Ends(0, "created a.txt")),
    ("events", "events = [\"after_tool_execute\"]", Seen::Listed("at after_tool_execute")),
    ("command", "command = [\"true\"]", Seen::Ends(0, "created a.txt")),
    ("name", "name = \"other\"", Seen::Ends(3, "the hook `other`")),
    ("description", "description = \"looks\"", Seen::Listed("hook\n  looks\n")),
    ("emoji", "emoji = \"★\"", Seen::Listed("hook\n  ★\n")),
    ("tools", "tools = [\"Read\", \"Gl*\"]", Seen::Ends(0, "created a.txt")),
    ("paths", "paths = [\"*.md\"]", Seen::Ends(0, "created a.txt")),
    ("priority", "priority = 7", Seen::Listed("priority 7,")),
    ("timeout_ms", "timeout_ms = 1", Seen::Ends(3, "its time of 1 ms ran out")),
    ("timeout", "timeout = 7", Seen::Listed("7000 ms")),
    ("on_error", "on_error = \"continue\"", Seen::Listed("a failure means continue")),
    ("payload", "payload = \"aionrs\"", Seen::Listed("payload aionrs")),
    ("env", "env = { REASON = \"mine\" }", Seen::Ends(3, ": mine")),
    ("cwd", "cwd = \"{home}\"", Seen::Ends(3, "in {home}")),
    (
        "in_root",
        "command = [\"{root}/hook\"]\nin_root = true",
        Seen::Ends(3, "blocked by the hook `hook`"),
    ),
    ("requires", "requires = { os = [\"darwin\"] }", Seen::Ends(0, "created a.txt")),
];

#[test]
fn every_key_of_a_hook_has_an_effect() {
    let schema = schemars::schema_for!(HookOptions).to_value();
    let known: BTreeSet<&str> =
        schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    let tested: BTreeSet<&str> = KEYS.iter().map(|(key, ..)| *key).collect();
    assert_eq!(tested, known);
    for (key, written, seen) in KEYS {
        let place = Place::new();
        let program = place.program("hook", "sleep 0.05; echo \"in $PWD: $REASON\" >&2; exit 2");
        fs::copy(program, place.place.root.join("hook")).unwrap();
        let without: String = match *key {
            "event" | "command" | "in_root" => {
                let key = if *key == "event" { "event " } else { "command " };
                let lines = BASE.lines().filter(|line| !line.starts_with(key));
                lines.collect::<Vec<_>>().join("\n")
            }
            _ => BASE.to_owned(),
        };
        let written = place.filled(written);
        place.config(&format!("{without}\n{written}\n"));
        match seen {
            Seen::Listed(words) => has(&place.run(&["hook", "list"], "").out, words),
            Seen::Ends(code, words) => {
                let arguments = json!({ "file_path": "a.txt", "content": "x" }).to_string();
                let ran = place.run(&["call", "Write", &arguments], "");
                // At persist the deed is done, and the hook blocks its reply.
                let code = if *key == "event" { 3 } else { *code };
                let words = if *key == "event" { "hook `hook` withheld its reply" } else { words };
                assert_eq!(ran.code, code, "{key}: {ran:?}");
                has(&format!("{}{}", ran.out, ran.err), &place.filled(words));
            }
        }
    }
}

/// Without the keys the same hook blocks, so that what the table sees is their doing.
#[test]
fn without_further_keys_the_hook_of_the_table_blocks() {
    let place = Place::new();
    place.program("hook", "echo \"in $PWD: $REASON\" >&2; exit 2");
    place.config(BASE);
    let arguments = json!({ "file_path": "a.txt", "content": "x" }).to_string();
    let ran = place.run(&["call", "Write", &arguments], "");
    assert_eq!(ran.code, 3, "{ran:?}");
    has(&ran.err, "blocked by the hook `hook`: in ");
    let listed = place.run(&["hook", "list"], "").out;
    for words in
        ["at before_tool_execute, a failure means block", "priority 0, 30000 ms, payload sinew"]
    {
        has(&listed, words);
    }
}

#[test]
fn tools_and_paths_say_which_calls_a_hook_is_for() {
    let write = ("Write", json!({ "file_path": "src/a.rs", "content": "x" }));
    let glob = ("Glob", json!({ "pattern": "*" }));
    for (more, (tool, arguments), dialect, runs) in [
        ("", &write, "native", true),
        ("tools = [\"Write\"]", &write, "native", true),
        ("tools = [\"write_file\"]", &write, "native", true),
        ("tools = [\"Wri*\"]", &write, "native", true),
        ("tools = [\"Glob\"]", &write, "native", false),
        ("tools = [\"Write\"]", &glob, "native", false),
        ("paths = [\"*.rs\"]", &write, "native", true),
        ("paths = [\"src/*.rs\"]", &write, "native", true),
        ("paths = [\"{root}/src/**\"]", &write, "native", true),
        ("paths = [\"*.md\"]", &write, "native", false),
        // What finds files by itself may find any.
        ("paths = [\"*.env\"]", &glob, "native", true),
        ("paths = [\"*.env\"]", &("List", json!({})), "native", true),
        ("paths = [\"*.env\"]", &("Grep", json!({ "pattern": "x" })), "native", true),
        ("paths = [\"*.env\"]", &("Bash", json!({ "command": "true" })), "native", true),
        ("paths = [\"*.env\"]", &("BashOutput", json!({ "id": "x" })), "native", true),
        (
            "paths = [\"*.env\"]",
            &("Grep", json!({ "pattern": "x", "path": "src/b.rs" })),
            "native",
            false,
        ),
        ("tools = [\"Write\"]\npaths = [\"*.md\"]", &write, "native", false),
        (
            "tools = [\"Write\"]",
            &("write_file", json!({ "path": "src/a.rs", "content": "x" })),
            "molf",
            true,
        ),
        // Which files arguments name that do not fit cannot be told, so the hook is asked.
        ("paths = [\"*.md\"]", &("Write", json!({ "file_path": "src/a.rs" })), "native", true),
        (
            "paths = [\"*.md\"]",
            &("Write", json!({ "file_path": "/etc/x", "content": "" })),
            "native",
            true,
        ),
        // A link is no way around.
        ("paths = [\"src/*.rs\"]", &("Read", json!({ "file_path": "link" })), "native", true),
    ] {
        let place = Place::new();
        fs::create_dir(place.place.root.join("src")).unwrap();
        fs::write(place.place.root.join("src/b.rs"), "x").unwrap();
        std::os::unix::fs::symlink("src/b.rs", place.place.root.join("link")).unwrap();
        place.hook("before_tool_execute", "echo ran >{home}/ran", &place.filled(more));
        let arguments = arguments.to_string();
        place.run(&["--dialect", dialect, "call", tool, &arguments], "");
        assert_eq!(place.noted("ran").is_some(), runs, "{more} {tool} {arguments}");
    }
}

/// A program in a root is one that a model can write.
#[test]
fn a_program_of_the_workspace_runs_only_where_that_is_said() {
    for (command, more, is_refused) in [
        ("[\"{root}/hook\"]", "", true),
        ("[\"/bin/sh\", \"{root}/hook\"]", "", true),
        ("[\"/bin/sh\", \"hook\"]", "cwd = \"{root}\"", true),
        // Python runs a directory too.
        ("[\"/bin/sh\", \"{root}\"]", "", true),
        ("[\"/bin/sh\", \"{root}/late\"]", "", true),
        ("[\"/bin/sh\", \"-c\", \"~/bin/link\"]", "", true),
        ("\"exec $HOME/bin/link\"", "payload = \"moltis\"", true),
        ("\"\\\"${P}\\\"/hook\"", "payload = \"moltis\"\nenv = { P = \"{root}\" }", true),
        ("\"$SINEW_CWD/hook\"", "payload = \"moltis\"", true),
        ("\"d={home}; $d/hook\"", "payload = \"moltis\"", true),
        ("[\"{home}/bin/link\"]", "", true),
        ("[\"/bin/sh\", \"-c\", \"./hook\"]", "cwd = \"{root}\"", true),
        ("\"./hook\"", "payload = \"aionrs\"", true),
        ("[\"{root}/hook\"]", "in_root = true", false),
        ("[\"/bin/sh\", \"-c\", \"./hook\"]", "in_root = true\ncwd = \"{root}\"", false),
        ("[\"{home}/bin/hook\", \"other\"]", "", false),
    ] {
        let place = Place::new();
        let script = place.program("hook", "echo ran >{home}/ran");
        fs::copy(&script, place.place.root.join("hook")).unwrap();
        std::os::unix::fs::symlink(place.place.root.join("hook"), place.at("bin/link")).unwrap();
        place.config(&format!(
            "[[hooks]]\nevent = \"before_tool_execute\"\ncommand = {command}\n{more}\n"
        ));
        let ran = place.run(&["call", "List"], "");
        let command = format!("{command} {more}");
        assert_eq!(ran.code, if is_refused { 2 } else { 0 }, "{command}: {ran:?}");
        assert_eq!(place.noted("ran").is_none(), is_refused, "{command}");
        if is_refused {
            let is_unknown = command.contains("$d");
            let words = if is_unknown { "sinew cannot tell" } else { "where a model can write it" };
            has(&ran.err, words);
            has(&ran.err, "config.toml:1: the hook");
            // The line names the key.
            has(&place.run(&["hook", "list"], "").out, "it will fail: ");
            let tried = place.run(&["hook", "test", "before_tool_execute"], "");
            assert_eq!(tried.code, 1, "{command}: {tried:?}");
            has(&tried.out, "failed, which blocks: it did not start");
        }
    }
}

/// A repository does not choose what names of programs mean either, nor how its own path is spelled.
#[test]
fn the_workspace_is_not_in_the_path_of_a_hook() {
    let place = Place::new();
    let script = place.program("hook", "echo \"$PATH\" >{home}/path; tool");
    fs::create_dir(place.place.root.join("bin")).unwrap();
    for (name, text) in [("tool", "echo ran >{home}/ran"), ("named", "echo ran >{home}/ran")] {
        let path = place.program(name, text);
        fs::rename(path, place.place.root.join("bin").join(name)).unwrap();
    }
    let run = |command: &str| {
        place.config(&format!(
            "[[hooks]]\nevent = \"before_tool_execute\"\ncommand = [\"{command}\"]\n"
        ));
        let mut command = crate::served::command(&place.place.home);
        let path = place.filled("{root}/bin:.:/usr/bin:/bin");
        command.env("PATH", path).current_dir(&place.place.root).args(["call", "List"]);
        command.output().unwrap()
    };
    assert_eq!(run(&script).status.code(), Some(3));
    assert_eq!(place.noted("path").as_deref(), Some("/usr/bin:/bin\n"));
    assert_eq!(run("named").status.code(), Some(3));
    assert_eq!(place.noted("ran"), None);
}

#[test]
fn a_glob_may_spell_the_root_as_it_was_given() {
    let place = Place::new();
    std::os::unix::fs::symlink(&place.place.root, place.at("way")).unwrap();
    place.hook("before_tool_execute", "echo ran >{home}/ran", "paths = [\"{home}/way/*.txt\"]");
    let way = place.at("way");
    let arguments = json!({ "file_path": "a.txt", "content": "x" }).to_string();
    let ran = place.run(&["--root", way.to_str().unwrap(), "call", "Write", &arguments], "");
    assert_eq!((ran.code, place.noted("ran").is_some()), (0, true), "{ran:?}");
}

/// A program that a model writes later counts as little as one that was in the root before.
#[test]
fn a_program_that_comes_into_the_workspace_later_does_not_run() {
    let place = Place::new();
    place.config(
        "[[hooks]]\nname = \"h\"\nevent = \"after_tool_execute\"\non_error = \"continue\"\n\
         cwd = \"{root}\"\ncommand = [\"/bin/sh\", \"late\"]\n",
    );
    let write = json!({ "file_path": "late", "content": "echo ran >{home}/ran" });
    let ran = place.run(&["call", "--json", "Write", &place.filled(&write.to_string())], "");
    // A model is not rid of a hook by writing a file, whatever a failure means otherwise.
    assert_eq!(ran.code, 3, "{ran:?}");
    has(&ran.out, "its reply is withheld: it did not start");
    has(&ran.err, "where a model can write it");
    assert_eq!(place.noted("ran"), None);
}

/// A hook started in the root, where an interpreter takes its modules from.
#[test]
fn a_hook_starts_where_no_model_writes() {
    for (more, expected) in [
        ("", "/ unset"),
        ("payload = \"aionrs\"", "{root} 1"),
        ("cwd = \"{root}\"", "{root} 1"),
        ("cwd = \"{root}\"\nenv = { PYTHONSAFEPATH = \"\" }", "{root} "),
        ("env = { PATH = \"{root}/bin:/usr/bin:/bin\" }", "/ unset /usr/bin:/bin"),
    ] {
        let place = Place::new();
        let script = "echo \"$PWD ${PYTHONSAFEPATH-unset} $PATH\" >{home}/ran";
        place.hook("before_tool_execute", script, &place.filled(more));
        assert_eq!(place.run(&["call", "List"], "").code, 0, "{more}");
        let ran = place.noted("ran").unwrap();
        assert!(ran.starts_with(&place.filled(expected)), "{more}: {ran}");
    }
}
