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
