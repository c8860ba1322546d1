//! `sinew setup` on files and clients that changed since an earlier setup, and beside other setups.

use std::os::unix::fs::{MetadataExt, chown};

use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;

use super::*;

impl Setup {
    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap()
    }

    #[track_caller]
    fn fails(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, 1, "{args:?}: {}{}", ran.out, ran.err);
        format!("{}{}", ran.out, ran.err)
    }

    /// Writes another script for Claude Code.
    fn claude(&self, script: &str) {
        fs::write(self.bin.join("claude"), format!("#!/bin/sh\n{script}\n")).unwrap();
    }
}

/// One record a client made the second profile take the first one's values back.
#[test]
fn profiles_have_records_of_their_own() {
    if !database::can_bind("setup") {
        return;
    }
    for (client, variable, file) in
        [("codex", "CODEX_HOME", "config.toml"), ("cursor", "HOME", ".cursor/mcp.json")]
    {
        let setup = with_clients();
        let homes = ["one", "two"].map(|name| setup.path(name));
        let run = |home: &PathBuf, args: &[&str]| {
            let ran = Ran::of(setup.command(args).env(variable, home));
            assert_eq!(ran.code, 0, "{args:?}: {}{}", ran.out, ran.err);
            ran.out
        };
        let texts = || homes.clone().map(|home| fs::read_to_string(home.join(file)).unwrap());
        for home in &homes {
            fs::create_dir_all(home.join(".cursor")).unwrap();
            fs::write(home.join(file), "\n").unwrap();
        }
        homes.iter().for_each(|home| drop(run(home, &[client])));
        let set_up = texts();
        assert!(set_up.iter().all(|text| text.contains("sinew")), "{set_up:?}");
        assert!(run(&homes[0], &[client]).contains("already configured"));
        run(&homes[0], &[client, "--undo"]);
        assert_eq!(texts(), [String::from("\n"), set_up[1].clone()]);
        assert!(run(&homes[0], &[client, "--undo"]).contains("nothing to undo"));
        run(&homes[1], &[client, "--undo"]);
        assert_eq!(texts(), ["\n", "\n"]);
    }
}

/// A printer of TOML dropped the comment before a removed table.
#[test]
fn undo_keeps_comments_of_toml() {
    if !database::can_bind("setup") {
        return;
    }
    let old = "[mcp_servers.other]\ncommand = \"x\"\n# keep this note\n";
    let setup = with_clients();
    setup.write(".codex/config.toml", old);
    setup.works(&["codex"]);
    let changed = setup.text(".codex/config.toml").replace("tool = false", "tool = true");
    setup.write(".codex/config.toml", &changed);
    let said = setup.works(&["codex", "--undo"]);
    assert!(said.contains("undone, except for"), "{said}");
    assert!(said.contains("`features.shell_tool` changed since the setup"), "{said}");
    let left = format!("{old}\n[features]\nshell_tool = true\n");
    assert_eq!(setup.text(".codex/config.toml"), left);
}

/// A second setup took the values back and wrote them again, without the comments between them.
#[test]
fn second_setup_keeps_comments() {
    if !database::can_bind("setup") {
        return;
    }
    for (client, file, from, to) in [
        (
            "opencode",
            ".config/opencode/opencode.json",
            "\"read\": \"deny\"",
            "// mine\n\"read\": \"deny\"",
        ),
        ("codex", ".codex/config.toml", "[\"mcp\"]", "[ \"mcp\" ] # reformatted"),
        ("cursor", ".cursor/mcp.json", "[\"mcp\"]", "[\"mcp\"], // mine\n\"trust\": true"),
        ("cursor", ".cursor/mcp.json", "[\"mcp\"]", "[\"--root\", \"/srv\", \"mcp\"]"),
        ("claude", ".claude.json", "[\"mcp\"]", "[\"--root\", \"/srv\", \"mcp\"]"),
    ] {
        let setup = with_clients();
        setup.works(&[client]);
        let changed = setup.text(file).replace(from, to);
        assert!(changed.contains(to), "{changed}");
        setup.write(file, &changed);
        let said = setup.works(&[client]);
        assert!(said.contains("already configured"), "{said}");
        assert_eq!(setup.text(file), changed);
        setup.works(&[client, "--undo"]);
    }
}

#[test]
fn changed_program_of_ours_is_named_so() {
    if !database::can_bind("setup") {
        return;
    }
    let setup = with_clients();
    setup.works(&["cursor"]);
    let changed =
        setup.text(".cursor/mcp.json").replace("\"mcp\"]", "\"--root\", \"/srv\", \"mcp\"]");
    setup.write(".cursor/mcp.json", &changed);
    // The same program at another path.
    let other = setup.bin.join("sinew");
    symlink(database::SINEW, &other).unwrap();
    let said = setup.fails(&["cursor"]);
    let expected = format!(
        "changed since the setup and names another program; set its command to {}",
        other.display()
    );
    assert!(said.contains(&expected), "{said}");
    assert_eq!(setup.text(".cursor/mcp.json"), changed);
}

/// The resolved path of a linked program vanishes with an update.
#[test]
fn linked_program_is_registered_by_its_link() {
    if !database::can_bind("setup") {
        return;
    }
    let setup = with_clients();
    let link = setup.bin.join("sinew");
    symlink(database::SINEW, &link).unwrap();
    setup.works(&["cursor"]);
    let written: Value = serde_json::from_str(&setup.text(".cursor/mcp.json")).unwrap();
    assert_eq!(written["mcpServers"]["sinew"]["command"], json!(link));
    setup.works(&["cursor", "--undo"]);
    // A repository may hold a link too.
    fs::create_dir(setup.path("./bin")).unwrap();
    symlink(database::SINEW, setup.path("./bin/sinew")).unwrap();
    let path = format!("{}:/usr/bin:/bin", setup.path("./bin").display());
    let ran = Ran::of(setup.command(&["cursor"]).env("PATH", path));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(setup.text(".cursor/mcp.json").contains(database::SINEW));
}

/// The difference and the error showed the tokens of other servers.
#[test]
fn secrets_of_the_file_are_not_shown() {
    if !database::can_bind("setup") {
        return;
    }
    let setup = with_clients();
    for text in [
        "{\"mcpServers\":{\"a\":{\"command\":\"x\",\"env\":{\"K\":\"hush\"}}}}",
        "{\n  \"mcpServers\": {\n    \"a\": {\n      \"headers\": { \"A\": \"hush\" }\n    }\n  }\n}\n",
        "{\"apiKey\":\"hush\"}",
    ] {
        setup.write(".cursor/mcp.json", text);
        for args in [&["cursor", "--dry-run"][..], &["cursor", "--dry-run", "--json"]] {
            let said = setup.works(args);
            assert!(said.contains("+++ ") && !said.contains("hush"), "{said}");
        }
    }
    let taken = "{\"mcpServers\":{\"sinew\":{\"command\":\"x\",\"args\":[\"y\"],\"env\":{\"K\":\"hush\"}}}}";
    setup.write(".cursor/mcp.json", taken);
    setup.write(".claude.json", taken);
    for client in ["cursor", "claude"] {
        for args in [&[client][..], &[client, "--json"], &[]] {
            let ran = setup.run(args);
            let said = format!("{}{}", ran.out, ran.err).replace('\\', "");
            assert!(said.contains("{\"command\":\"x\",\"args\":[\"y\"]}"), "{said}");
            assert!(!said.contains("hush"), "{said}");
        }
    }
}

/// An undo removed the target of a link that leads out of the project.
#[test]
fn undo_removes_no_target_of_a_link() {
    if !database::can_bind("setup") {
        return;
    }
    let setup = with_clients();
    for (client, file) in [("vscode", "./.vscode/mcp.json"), ("cursor", ".cursor/mcp.json")] {
        setup.works(&[client]);
        let text = setup.text(file);
        let outside = setup.write("outside.json", &text);
        fs::remove_file(setup.path(file)).unwrap();
        symlink(&outside, setup.path(file)).unwrap();
        match client {
            "vscode" => {
                let said = setup.fails(&[client, "--undo"]);
                assert!(said.contains("a link leads out of the project"), "{said}");
                assert_eq!(setup.text(file), text);
            }
            _ => {
                setup.works(&[client, "--undo"]);
                assert_eq!(setup.text(file), "{}\n");
            }
        }
        assert!(outside.is_file() && setup.path(file).is_symlink());
    }
}

#[test]
fn undo_of_a_file_with_comments_leaves_an_object() {
    if !database::can_bind("setup") {
        return;
    }
    let setup = with_clients();
    setup.works(&["cursor"]);
    let text = setup.text(".cursor/mcp.json");
    setup.write(".cursor/mcp.json", &format!("// mine\n{text}"));
    setup.works(&["cursor", "--undo"]);
    assert_eq!(setup.text(".cursor/mcp.json"), "// mine\n{}\n");
}

/// One file that could not be parsed blocked the undo of the others.
#[test]
fn undo_of_one_broken_file_undoes_the_others() {
    if !database::can_bind("setup") {
        return;
    }
    let setup = with_clients();
    setup.works(&["claude"]);
    let settings = setup.text(".claude/settings.json");
    setup.write(".claude/settings.json", &settings.replacen('{', "{{", 1));
    let said = setup.fails(&["claude", "--undo"]);
    assert!(
        said.contains("except for what follows") && said.contains("settings.json: line 1"),
        "{said}"
    );
    assert_eq!(setup.text(".claude.json"), CLAUDE_FILE);
    let said = setup.fails(&["claude", "--undo"]);
    assert!(said.contains("settings.json: line 1"), "{said}");
    setup.write(".claude/settings.json", &settings);
    setup.works(&["claude", "--undo"]);
    assert!(!setup.path(".claude/settings.json").exists());
    assert!(setup.works(&["claude", "--undo"]).contains("nothing to undo"));
}

/// Without the client's program an undo did nothing.
#[test]
fn undo_without_the_client_names_its_entry() {
    if !database::can_bind("setup") {
        return;
    }
    let setup = with_clients();
    setup.works(&["claude"]);
    fs::remove_file(setup.bin.join("claude")).unwrap();
    let undo = || Ran::of(setup.command(&["claude", "--undo"]).env("PATH", &setup.bin));
    let entry = "remove `mcpServers.sinew` from ~/.claude.json by hand";
    let ran = undo();
    assert!(ran.code == 1 && ran.out.contains(entry), "{}{}", ran.out, ran.err);
    assert!(!setup.path(".claude/settings.json").exists());
    let ran = undo();
    assert!(ran.code == 1 && ran.err.contains(entry), "{}{}", ran.out, ran.err);
    setup.write(".claude.json", CLAUDE_FILE);
    assert_eq!(undo().code, 0);
    assert!(undo().out.contains("nothing to undo"));
}

/// The record of an entry was lost where the client's command failed after it had written.
#[test]
fn entry_of_a_failed_command_can_be_undone() {
    if !database::can_bind("setup") {
        return;
    }
    let setup = with_clients();
    setup.claude(&format!("({CLAUDE}\n)\n[ \"$2\" = add-json ] && exit 3; exit 0"));
    let said = setup.fails(&["claude"]);
    assert!(said.contains("exit 3"), "{said}");
    assert!(setup.text(".claude.json").contains("sinew"));
    assert!(!setup.path(".claude/settings.json").exists());
    setup.works(&["claude", "--undo"]);
    assert_eq!(setup.text(".claude.json"), CLAUDE_FILE);
}

/// The second of two setups at once removed the record of the first.
#[test]
fn setups_at_once_share_a_record() {
    if !database::can_bind("setup") {
        return;
    }
    let setup = with_clients();
    setup.claude(&format!("sleep 1\n{CLAUDE}"));
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..2).map(|_| scope.spawn(|| setup.works(&["claude"]))).collect();
        let said: Vec<String> = runs.into_iter().map(|run| run.join().unwrap()).collect();
        assert!(said.iter().any(|said| said.contains("already configured")), "{said:?}");
    });
    setup.works(&["claude", "--undo"]);
    assert_eq!(setup.text(".claude.json"), CLAUDE_FILE);
}

/// A rename lost the ACL and the extended attributes of a file.
#[test]
fn attributes_of_a_file_stay() {
    if !database::can_bind("setup") {
        return;
    }
    let setup = with_clients();
    let path = setup.write(".cursor/mcp.json", "{}\n");
    set_mode(&setup, ".cursor/mcp.json", 0o600);
    // The owner, this user, the group, the mask and others.
    let uid = rustix::process::getuid().as_raw();
    let none = u32::MAX;
    let entries = [(1, 6, none), (2, 4, uid), (4, 0, none), (0x10, 4, none), (0x20, 0, none)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend([u16::to_le_bytes(tag), u16::to_le_bytes(permissions)].concat());
        list.extend(u32::to_le_bytes(id));
    }
    let values = [("system.posix_acl_access", list), ("user.note", b"mine".to_vec())];
    for (name, value) in &values {
        match setxattr(&path, *name, value, XattrFlags::empty()) {
            Err(Errno::NOTSUP) => {
                assert!(std::env::var_os("SINEW_TEST_ALL").is_none(), "{name}");
                return eprintln!("SKIPPED: this file system has no {name}");
            }
            other => other.unwrap(),
        }
    }
    let mode = fs::metadata(&path).unwrap().mode();
    for args in [&["cursor"][..], &["cursor", "--undo"]] {
        setup.works(args);
        assert_eq!(fs::metadata(&path).unwrap().mode(), mode);
        for (name, value) in &values {
            let mut found = vec![0; 256];
            let n = getxattr(&path, *name, &mut found[..]).unwrap();
            assert_eq!(&found[..n], value, "{args:?}: {name}");
        }
    }
}

/// A setup by root made files that the user of the home could not change.
#[test]
fn new_file_of_root_has_the_owner_of_its_directory() {
    if !database::can_bind("setup") || !rustix::process::geteuid().is_root() {
        return;
    }
    let setup = with_clients();
    chown(setup.path(".gemini"), Some(1234), Some(1234)).unwrap();
    setup.works(&["gemini"]);
    for file in [".gemini/settings.json", ".gemini/policies", ".gemini/policies/sinew.toml"] {
        assert_eq!(fs::metadata(setup.path(file)).unwrap().uid(), 1234, "{file}");
    }
}

#[test]
fn output_names_what_stays() {
    if !database::can_bind("setup") {
        return;
    }
    let setup = with_clients();
    let policy = ".gemini/policies/sinew.toml";
    setup.works(&["gemini"]);
    let changed = setup.text(policy).replace("900", "901");
    setup.write(policy, &changed);
    // Of two values one stays.
    let said = setup.works(&["gemini", "--beside"]);
    assert!(
        said.contains("nothing changes") && said.contains("sinew.toml exists with another text"),
        "{said}"
    );
    let said = setup.works(&["gemini", "--undo"]);
    assert!(said.contains("undone, except for what follows"), "{said}");
    assert_eq!(setup.text(policy), changed);

    setup.works(&["cursor"]);
    let text = setup.text(".cursor/mcp.json").replace("[\"mcp\"]", "[\"mcp\", \"--x\"]");
    setup.write(".cursor/mcp.json", &text);
    let said = setup.works(&["cursor", "--undo"]);
    assert!(said.contains("nothing changes") && said.contains("changed since the setup"), "{said}");
}

#[test]
fn record_of_a_later_version_is_refused() {
    if !database::can_bind("setup") {
        return;
    }
    let setup = with_clients();
    setup.works(&["cursor"]);
    let dir = setup.place.home.join("state/sinew/setup");
    let record = fs::read_dir(dir).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, text.replace("\"version\": 1", "\"version\": 2")).unwrap();
    let before = setup.tree();
    for args in [&["cursor"][..], &["cursor", "--undo"]] {
        let said = setup.fails(args);
        assert!(said.contains("a later sinew wrote it, in version 2"), "{said}");
    }
    assert_eq!(setup.tree(), before);
}
