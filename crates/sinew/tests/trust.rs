//! What a repository says loosens nothing until a person trusts it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::database;
use crate::served::{Place, command};

/// A call over MCP that asks, and one that looks.
const WRITE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"Bash","arguments":{"command":"touch made"}}}
"#;

struct Repository {
    place: Place,
}

impl Repository {
    /// Returns nothing where a test cannot have a user database of its own: `sinew trust` would write into
    /// the home of the user who runs it.
    fn new(test: &str) -> Option<Self> {
        if !database::can_bind(test) {
            return None;
        }
        let place = Place::new();
        fs::create_dir_all(place.home.join("config/sinew")).unwrap();
        fs::create_dir_all(place.root.join(".git")).unwrap();
        let repository = Self { place };
        repository.own("");
        Some(repository)
    }

    fn write(&self, name: &str, text: &str) -> &Self {
        let path = self.place.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn own(&self, text: &str) -> &Self {
        // Every command asks, so that only what loosens lets one run.
        let text = format!("{text}\n[run]\nask = \"always\"\n");
        fs::write(self.place.home.join("config/sinew/config.toml"), text).unwrap();
        self
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(&self.place.home);
        command.args(args).current_dir(&self.place.root);
        command
    }

    /// Runs a command to its end, without a person.
    fn run(&self, args: &[&str]) -> Output {
        self.command(args).stdin(Stdio::null()).output().unwrap()
    }

    /// Starts the server as a client does, lets it touch a file, and returns whether it did and what it said.
    fn serve(&self, args: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
        use std::io::Write as _;
        let mut command = self.command(args);
        command.envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        // One that does not start reads nothing.
        drop(input.write_all(WRITE.as_bytes()));
        drop(input);
        let done = child.wait_with_output().unwrap();
        let made = self.place.root.join("made");
        let is_made = made.exists();
        if is_made {
            fs::remove_file(made).unwrap();
        }
        (is_made, String::from_utf8([done.stdout, done.stderr].concat()).unwrap())
    }

    fn trust(&self, args: &[&str]) -> String {
        let done = self.run(&[&["trust", "--yes"], args].concat());
        assert!(done.status.success(), "{done:?}");
        String::from_utf8([done.stdout, done.stderr].concat()).unwrap()
    }

    fn path(&self, name: &str) -> String {
        self.place.root.join(name).to_str().unwrap().to_owned()
    }
}

const LOOSE: &[&str] = &["mcp", "--tools", "all", "--approvals", "allow"];

#[test]
fn arguments_loosen_nothing_that_nobody_confirmed() {
    for (own, is_made) in [
        ("", false),
        ("[mcp]\ntrust_arguments = true\n", true),
        ("approvals = \"allow\"\n", true),
        ("[mcp]\ntrust_arguments = false\n", false),
    ] {
        let Some(repository) = Repository::new("arguments_loosen_nothing_that_nobody_confirmed")
        else {
            return;
        };
        let (made, said) = repository.own(own).serve(LOOSE, &[]);
        assert_eq!(made, is_made, "{own}: {said}");
        let told = "flag --approvals: left out until you confirm it: approvals=\"allow\"";
        assert_eq!(said.contains(told), !is_made, "{own}: {said}");
    }
}

#[test]
fn whatever_way_arguments_loosen_it_is_left_out_and_told() {
    let all = ["mcp", "--tools", "all"];
    for (args, variables, told) in [
        (&["--set", "approvals=allow"][..], &[][..], "approvals=\"allow\""),
        (&[], &[("SINEW_APPROVALS", "allow")], "variable SINEW_APPROVALS: left out"),
        (&[], &[("SINEW_SET", "profile=full")], "profile=\"full\""),
        (&[], &[("SINEW_CONFIG", "evil.toml")], "approvals=\"allow\""),
        (&["--config", "evil.toml"], &[], "rules={\"verdict\":\"allow\",\"command\":\"touch *\"}"),
        (&["--config", "evil.toml", "--log", "error"], &[], "approvals=\"allow\""),
        (&["--set", "mcp.trust_arguments=true"], &[], "only in your own configuration"),
        (&["--set", "run.sandbox=none"], &[], "run.sandbox=\"none\""),
        (&["--root", "/"], &[], "roots=[\"/\"]"),
        (&["--root", ".."], &[], "roots=["),
        (&["--root", "up"], &[], "roots=["),
        (&["--set", "ledger.mode=off"], &[], "ledger.mode=\"off\""),
    ] {
        let Some(repository) =
            Repository::new("whatever_way_arguments_loosen_it_is_left_out_and_told")
        else {
            return;
        };
        let evil = "approvals = \"allow\"\n[[rules]]\nverdict = \"allow\"\ncommand = \"touch *\"\n";
        repository.write("evil.toml", evil);
        std::os::unix::fs::symlink("..", repository.place.root.join("up")).unwrap();
        let (made, said) = repository.serve(&[&all, args].concat(), variables);
        assert!(!made && said.contains(told), "{args:?} {variables:?}: {said}");
        assert!(said.contains("\"id\":2"), "the server serves: {said}");
        let here = format!("beneath: {}.", repository.place.root.display());
        assert!(said.contains(&here), "{args:?}: {said}");
    }
}

#[test]
fn what_loosens_nothing_is_taken() {
    for args in [
        &["--approvals", "trust-client"][..],
        &["--dialect", "moltis"],
        &["--root", ".", "--root", "sub"],
        &["--session", "s", "--log", "info"],
        &["--approvals", "deny", "--read-only", "--require-sandbox=namespaces"],
        &["--set", "tools.policy.deny=[\"Read\"]", "--set", "run.network=false"],
    ] {
        let Some(repository) = Repository::new("what_loosens_nothing_is_taken") else { return };
        repository.write("sub/x", "");
        let (_, said) = repository.serve(&[&["mcp", "--tools", "all"], args].concat(), &[]);
        assert!(!said.contains("left out"), "{args:?}: {said}");
    }
    let Some(repository) = Repository::new("what_loosens_nothing_is_taken") else { return };
    let trusting = ["mcp", "--tools", "all", "--approvals", "trust-client"];
    assert!(repository.serve(&trusting, &[]).0);
    // Who wrote something stricter meant it.
    let (made, said) = repository.own("approvals = \"deny\"\n").serve(&trusting, &[]);
    assert!(!made && said.contains("approvals=\"trust-client\""), "{said}");
    // A root that the person named is one that a client may name.
    let other = repository.place.home.display().to_string();
    repository.own(&format!("roots = [\"{other}\"]\n"));
    let (_, said) = repository.serve(&["mcp", "--root", &other], &[]);
    assert!(!said.contains("left out"), "{said}");
}

/// A client that starts the server there had handed over all of it by naming it.
#[test]
fn a_home_directory_is_no_root_that_a_client_may_name() {
    let Some(repository) = Repository::new("a_home_directory_is_no_root_that_a_client_may_name")
    else {
        return;
    };
    repository.write("home/sub/x", "");
    let home = repository.path("home");
    for (root, dir, is_taken) in
        [("/", "/", false), (".", "home", false), ("home", "", false), ("home/sub", "", true)]
    {
        let mut command = repository.command(&["mcp", "--root", root]);
        command.current_dir(repository.place.root.join(dir)).env("HOME", &home);
        let done = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        // The variable is left out too, and says nothing of the root.
        let is_left_out = |line: &str| line.contains("left out") && !line.contains("variable HOME");
        assert_eq!(!said.lines().any(is_left_out), is_taken, "{root} in {dir}: {said}");
    }
}

#[test]
fn what_was_confirmed_counts_here_and_nowhere_else() {
    let Some(repository) = Repository::new("what_was_confirmed_counts_here_and_nowhere_else")
    else {
        return;
    };
    let more = [LOOSE, &["--set", "run.network=true"]].concat();
    let said = repository.serve(LOOSE, &[]).1;
    let here = repository.place.root.display();
    let line = "mcp --tools all --approvals allow";
    let command = format!("to confirm them: cd {here} && sinew trust --arguments -- {line}\n");
    assert!(said.contains(&command), "{said}");
    let shown = repository.trust(&[&["--arguments", "--"], LOOSE].concat());
    assert!(shown.contains("approvals=\"allow\"  (flag --approvals)"), "{shown}");
    assert!(repository.serve(LOOSE, &[]).0, "as it was confirmed");
    let variable = [("SINEW_APPROVALS", "allow")];
    assert!(repository.serve(&["mcp", "--tools", "all"], &variable).0, "in other words");
    assert!(!repository.serve(&more, &[]).0, "with more");
    let listed = String::from_utf8(repository.run(&["trust", "list"]).stdout).unwrap();
    assert!(listed.contains("approvals=\"allow\""), "{listed}");
    let other = repository.place.home.join("other");
    fs::create_dir(&other).unwrap();
    let mut elsewhere = repository.command(LOOSE);
    let done = elsewhere.current_dir(&other).stdin(Stdio::null()).output().unwrap();
    assert!(String::from_utf8_lossy(&done.stderr).contains("left out"), "{done:?}");
    repository.run(&["trust", "revoke"]);
    assert!(!repository.serve(LOOSE, &[]).0, "no more");
}

#[test]
fn a_project_loosens_as_long_as_it_is_what_was_trusted() {
    let Some(repository) = Repository::new("a_project_loosens_as_long_as_it_is_what_was_trusted")
    else {
        return;
    };
    let config = "approvals = \"allow\"\n[mcp]\ntrust_arguments = true\n";
    repository.write(".sinew/config.toml", config).write(".sinew/hooks/a", "x");
    let serve = || repository.serve(&["mcp", "--tools", "all"], &[]);
    let (made, said) = serve();
    assert!(!made && said.contains("`approvals` is left out") && said.contains("`sinew trust`"));
    assert!(said.contains("`mcp.trust_arguments` is left out"), "{said}");
    let shown = repository.trust(&[]);
    assert!(shown.contains("approvals=\"allow\"  ("), "{shown}");
    assert!(shown.contains("  .sinew/hooks/a\n"), "{shown}");
    assert!(serve().0, "trusted");
    assert!(repository.trust(&[]).contains("nothing here would loosen"));
    let (_, said) = repository.serve(&["mcp", "--set", "profile=full"], &[]);
    assert!(said.contains("`mcp.trust_arguments` is left out"), "even where it is trusted: {said}");
    assert!(said.contains("left out until you confirm it: profile"), "{said}");
    for (name, text) in
        [(".sinew/config.toml", "approvals = \"allow\" \n"), (".sinew/hooks/a", "y")]
    {
        repository.write(name, text);
        let (made, said) = serve();
        assert!(!made && said.contains("has changed since you trusted it"), "{name}: {said}");
        repository.trust(&[]);
        assert!(serve().0, "{name}");
    }
    assert!(repository.run(&["trust", "revoke"]).status.success());
    assert!(!serve().0, "no more");
}

#[test]
fn the_files_of_clients_are_looked_through() {
    let Some(repository) = Repository::new("the_files_of_clients_are_looked_through") else {
        return;
    };
    let servers = r#"{"mcpServers": {"s": {"command": "sinew", "args": ["mcp", "--tools", "all"],
        "env": {"SINEW_APPROVALS": "allow"}}, "o": {"command": "npx", "args": ["x"]}}}"#;
    repository.write(".mcp.json", servers);
    let done = repository.run(&["trust", "--json"]);
    let shown: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(shown["servers"][0]["place"], ".mcp.json: s");
    assert_eq!(shown["servers"][0]["loosens"][0]["value"], "allow");
    assert_eq!((&shown["trusted"], shown["servers"].as_array().unwrap().len()), (&false.into(), 1));
    let variables = [("SINEW_APPROVALS", "allow")];
    let serve = || repository.serve(&["mcp", "--tools", "all"], &variables).0;
    assert!(!serve(), "only shown");
    let refused = repository.run(&["trust"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no terminal to ask at"));
    assert!(!serve(), "nobody was asked");
    repository.trust(&[]);
    assert!(serve(), "trusted");
    // What cannot be read stops nothing.
    repository.write(".cursor/mcp.json", "{").run(&["trust", "revoke"]);
    assert!(repository.trust(&[]).contains("mcp.json: EOF while parsing"));
    assert!(serve(), "trusted again");
}

#[test]
fn a_project_holds_no_directory_of_the_person() {
    for (name, within) in [("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "c"), ("HOME", "home")]
    {
        let Some(repository) = Repository::new("a_project_holds_no_directory_of_the_person") else {
            return;
        };
        let inside = repository.path(within);
        repository.write(&format!("{within}/sinew/config.toml"), "approvals = \"allow\"\n");
        let mut variables = vec![(name, inside.as_str())];
        if name == "HOME" {
            variables.extend([("XDG_STATE_HOME", ""), ("XDG_CONFIG_HOME", "")]);
        }
        let (made, said) = repository.serve(&["mcp", "--tools", "all"], &variables);
        assert!(!made && !said.contains("\"id\":2"), "{name}: {said}");
        assert!(said.contains("inside the project") && said.contains("take HOME"), "{said}");
        // A person who says so means it.
        let done = repository.command(&["call", "List"]).env(name, &inside).output().unwrap();
        assert!(done.status.success(), "{name}: {done:?}");
    }
}

/// Another project, with the current directory outside of it, was the person's own configuration.
#[test]
fn no_project_at_all_holds_a_directory_of_the_person() {
    let Some(repository) = Repository::new("no_project_at_all_holds_a_directory_of_the_person")
    else {
        return;
    };
    let other = repository.place.home.parent().unwrap().join("other");
    fs::create_dir(&other).unwrap();
    repository.write("cfg/sinew/config.toml", "approvals = \"allow\"\n[run]\nsandbox = \"none\"\n");
    for (name, within) in [("XDG_CONFIG_HOME", "cfg"), ("XDG_STATE_HOME", "cfg"), ("HOME", "cfg")] {
        let mut command = repository.command(&["mcp", "--tools", "all"]);
        command.current_dir(&other).env(name, repository.path(within));
        if name == "HOME" {
            command.env_remove("XDG_STATE_HOME").env_remove("XDG_CONFIG_HOME");
        }
        let done = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(said.contains("inside the project") && said.contains("take HOME"), "{said}");
    }
}

/// Programs of hooks were looked for where a variable of a client led.
#[test]
fn no_project_holds_the_programs_of_hooks() {
    use std::os::unix::fs::PermissionsExt;

    let Some(repository) = Repository::new("no_project_holds_the_programs_of_hooks") else {
        return;
    };
    repository.own(
        "approvals = \"allow\"\n[[hooks]]\nevent = \"before_tool_call\"\ncommand = [\"mycheck\"]\n",
    );
    let other = repository.place.home.parent().unwrap().join("other");
    let program = other.join("bin/mycheck");
    fs::create_dir_all(other.join("bin")).unwrap();
    fs::write(&program, format!("#!/bin/sh\ntouch {}/ran\n", other.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}/bin:/usr/bin:/bin", other.display());
    for (mark, runs) in [("none", true), (".mcp.json", false), (".git", false)] {
        fs::write(other.join(mark), "{}").unwrap();
        let (made, said) = repository.serve(&["mcp", "--tools", "all"], &[("PATH", &path)]);
        assert_eq!(other.join("ran").exists(), runs, "{mark}: {said}");
        assert_eq!(made, runs, "{mark}: a hook that cannot run blocks: {said}");
        drop(fs::remove_file(other.join("ran")));
        fs::remove_file(other.join(mark)).unwrap();
    }
}

/// The command that confirms was code of the repository for the shell that it was pasted into.
#[test]
fn the_command_that_confirms_holds_no_name_of_anybody() {
    let Some(repository) = Repository::new("the_command_that_confirms_holds_no_name_of_anybody")
    else {
        return;
    };
    let odd = ("SINEW_A;touch pwned;B", "1");
    let known = ("SINEW_SESSION", "s1");
    let (_, said) = repository.serve(LOOSE, &[odd, known]);
    assert!(said.contains("SINEW_SESSION=s1 sinew trust --arguments"), "{said}");
    assert!(!said.contains("pwned"), "{said}");
}

/// What a repository brings its names into was written to the terminal as it was.
#[test]
fn nothing_out_of_a_repository_moves_the_cursor() {
    let erase = "\u{1b}[2J";
    let folder = format!(".sinew/hooks/a{erase}/HOOK.md");
    for (name, text) in [
        (".sinew/config.toml", "[tools.policy]\ndeny = [\"a\\u001b[2J\\nsinew: all is well\"]\n"),
        (".sinew/config.toml", "[[rules]]\nverdict = \"deny\"\npaths = [\"a[\\u001b[2J\"]\n"),
        (".sinew/config.toml", "\"a\\u001b[2J\\nsinew: x\" = 1\n"),
        (".sinew/config.toml", "# \u{1b}[2J\nx = = \u{1b}[2J\n"),
        (
            ".sinew/config.toml",
            "[[rules]]\nverdict = \"allow\"\ntools = [\"Bash\"]\nwhy = \"\\u001b[2J\"\n",
        ),
        (&folder, "no front matter\u{1b}[2J"),
    ] {
        let Some(repository) = Repository::new("nothing_out_of_a_repository_moves_the_cursor")
        else {
            return;
        };
        repository.write(name, text);
        for args in [&["tools"][..], &["policy", "explain", "ls"], &["trust"], &["mcp"]] {
            let done = repository.run(args);
            let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
            assert!(!said.contains('\u{1b}'), "{args:?} {text:?}: {said:?}");
            assert!(!said.contains("\nsinew: all is well"), "{args:?} {text:?}: {said:?}");
            assert!(!said.contains("\nsinew: x"), "{args:?} {text:?}: {said:?}");
        }
    }
}

/// A checkpoint that is kept lets a change run without an answer.
#[test]
fn a_project_does_not_turn_on_what_lets_changes_run() {
    let Some(repository) = Repository::new("a_project_does_not_turn_on_what_lets_changes_run")
    else {
        return;
    };
    repository.write(".sinew/config.toml", "[tools.fs]\ncheckpoint_before_mutation = true\n");
    for (own, is_taken) in [("", true), ("[tools.fs]\ncheckpoint_before_mutation = false\n", false)]
    {
        let done = repository.own(own).run(&["config", "show"]);
        let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
        let left = said.contains("`tools.fs.checkpoint_before_mutation` is left out");
        assert_eq!(left, !is_taken, "{own}: {said}");
    }
}

#[test]
fn whoever_wrote_what_is_served_meant_it() {
    let Some(repository) = Repository::new("whoever_wrote_what_is_served_meant_it") else { return };
    for (own, serve, left) in [
        ("", "all", false),
        ("serve = [\"read\"]\n", "all", true),
        ("serve = [\"read\"]\n", "Read", false),
    ] {
        let (made, said) = repository.own(own).serve(&["mcp", "--tools", serve], &[]);
        assert_eq!(said.contains("left out until you confirm it: serve="), left, "{own}: {said}");
        assert!(!made, "{own}: {said}");
    }
}

#[test]
fn what_lies_above_a_home_directory_is_no_root_by_itself() {
    let Some(repository) = Repository::new("what_lies_above_a_home_directory_is_no_root_by_itself")
    else {
        return;
    };
    let above = repository.place.home.parent().unwrap().to_owned();
    let other = tempfile::tempdir().unwrap();
    let mut command = repository.command(&["mcp"]);
    command.env("XDG_CONFIG_HOME", other.path()).env("XDG_STATE_HOME", other.path());
    let done = command.current_dir(&above).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(!done.status.success() && said.contains("tools would get all of"), "{said}");
}

/// A broken file of a repository kept the record from being read there.
#[test]
fn whoever_reads_the_record_does_so_whatever_lies_here() {
    let Some(repository) = Repository::new("whoever_reads_the_record_does_so_whatever_lies_here")
    else {
        return;
    };
    assert!(repository.run(&["call", "List"]).status.success());
    repository.write(".sinew/config.toml", "x = \u{1b}[2J = \n");
    let done = repository.run(&["audit", "verify"]);
    let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
    assert!(done.status.success() && said.contains("it is left out"), "{said}");
    assert!(!said.contains('\u{1b}'), "{said:?}");
    assert!(!repository.run(&["call", "List"]).status.success(), "a call works here");
}

#[test]
fn a_hook_is_shown_before_it_is_trusted_and_trust_is_recorded() {
    let Some(repository) =
        Repository::new("a_hook_is_shown_before_it_is_trusted_and_trust_is_recorded")
    else {
        return;
    };
    let hook =
        "+++\nevent = \"before_tool_call\"\ncommand = [\"./run.sh\"]\nin_root = true\n+++\nwords\n";
    repository.write(".sinew/hooks/x/HOOK.md", hook).write(".sinew/hooks/x/run.sh", "#!/bin/sh\n");
    let shown = repository.trust(&[]);
    for said in [
        "The hook of .sinew/hooks/x/HOOK.md says:",
        "  command = [\"./run.sh\"]",
        "  in_root = true",
    ] {
        assert!(shown.contains(said), "{shown}");
    }
    assert!(!shown.contains("  words"), "{shown}");
    repository.run(&["trust", "revoke"]);
    let done = repository.run(&["audit", "list", "--json"]);
    let found = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
    for event in ["\"event\":\"trust\"", "\"event\":\"withdrawn trust\""] {
        assert!(found.contains(event), "{event}: {found}");
    }
}

#[test]
fn a_person_at_a_terminal_says_what_counts() {
    let Some(repository) = Repository::new("a_person_at_a_terminal_says_what_counts") else {
        return;
    };
    repository.write(".sinew/config.toml", "approvals = \"allow\"\n");
    for (typed, is_trusted) in [("n\n", false), ("\n", false), ("y\n", true)] {
        let said = at_terminal(&mut repository.command(&["trust"]), typed);
        assert!(said.contains("Trust this as it is now?"), "{said}");
        let (made, said) = repository.serve(&["mcp", "--tools", "all"], &[]);
        assert_eq!(made, is_trusted, "{typed:?}: {said}");
    }
}

/// Runs a command at a terminal of its own and returns what it shows there.
fn at_terminal(command: &mut Command, typed: &str) -> String {
    use std::io::{Read as _, Write as _};
    use std::os::fd::OwnedFd;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    let own: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&own).unwrap();
    unlockpt(&own).unwrap();
    let name = ptsname(&own, Vec::new()).unwrap();
    let other = PathBuf::from(name.to_str().unwrap());
    let end = |path: &Path| fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let keep = end(&other);
    command.stdin(end(&other)).stdout(Stdio::null()).stderr(end(&other));
    let mut terminal = fs::File::from(own);
    terminal.write_all(typed.as_bytes()).unwrap();
    let mut child = command.spawn().unwrap();
    child.wait().unwrap();
    // No process has the other end any more, so reading ends after the written text.
    command.stdin(Stdio::null()).stderr(Stdio::null());
    drop(keep);
    let mut shown = Vec::new();
    drop(terminal.read_to_end(&mut shown));
    String::from_utf8_lossy(&shown).into_owned()
}
