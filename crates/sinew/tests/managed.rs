//! The floor of the system's file, which no layer below it loosens, and the layers above it.
//!
//! The file lies at one fixed place, so each run gets a view of the machine of its own in which that place
//! is another one. Where the user may not make such a view, the tests say that they were skipped.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::database;
use crate::served::command;
use crate::unsandboxed::{called_at_terminal, unsandboxed};

/// Returns a copy of /etc with a place for a file of the system: what else lies there stays in sight.
fn etc() -> &'static std::path::Path {
    static COPY: OnceLock<TempDir> = OnceLock::new();
    let copy = COPY.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let copied = Command::new("cp").args(["-a", "/etc/."]).arg(dir.path()).status().unwrap();
        assert!(copied.success());
        fs::create_dir_all(dir.path().join("sinew")).unwrap();
        dir
    });
    copy.path()
}

/// A machine with a file of the system, a person's file, and a project.
struct Machine {
    _dir: TempDir,
    top: PathBuf,
}

impl Machine {
    fn new(system: &str, user: &str, project: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        for (path, text) in [
            ("etc/sinew/config.toml", system),
            ("home/.config/sinew/config.toml", user),
            ("ws/.sinew/config.toml", project),
            ("ws/a.txt", "one\n"),
        ] {
            fs::create_dir_all(top.join(path).parent().unwrap()).unwrap();
            fs::write(top.join(path), text).unwrap();
        }
        Self { _dir: dir, top }
    }

    /// Runs sinew on the machine and returns all that it says.
    fn run(&self, args: &[&str]) -> String {
        self.run_with(args, &[])
    }

    /// Runs sinew with variables, and a write on its standard input where it serves.
    fn run_with(&self, args: &[&str], variables: &[(&str, &str)]) -> String {
        let script = "mount --bind \"$1\" /etc && mount --bind \"$2\" /etc/sinew \
                      && mount --bind \"$3\" /etc/passwd && shift 3 && exec \"$@\"";
        let sinew = command(&self.top.join("home"));
        let mut ran = Command::new("unshare");
        ran.args(["--mount", "sh", "-c", script, "sh"]).arg(etc()).arg(self.top.join("etc/sinew"));
        let database = self.top.join("home/database");
        fs::write(&database, database::naming(&self.top.join("home"))).unwrap();
        ran.arg(database);
        ran.arg(database::SINEW);
        ran.args(args).current_dir(self.top.join("ws")).env_clear();
        for (name, value) in sinew.get_envs() {
            value.map(|value| ran.env(name, value));
        }
        ran.env("XDG_CONFIG_HOME", self.top.join("home/.config"));
        ran.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        ran.envs(variables.iter().copied());
        let input = self.top.join("input");
        fs::write(&input, SERVED).unwrap();
        let done = ran.stdin(fs::File::open(&input).unwrap()).output().unwrap();
        let said = [done.stdout, done.stderr].concat();
        String::from_utf8(said).unwrap().replace(&*self.top.to_string_lossy(), "")
    }
}

/// Returns whether a view of the machine can be made.
fn can_look_elsewhere() -> bool {
    let made =
        Command::new("unshare").args(["--mount", "mount", "--bind", "/etc", "/etc"]).status();
    let can = made.is_ok_and(|status| status.success());
    if !can {
        println!("SKIPPED: no view of the machine can be made here");
    }
    can
}

/// A call over MCP that asks.
const SERVED: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"Write","arguments":{"file_path":"b.txt","content":"x"}}}
"#;

const WRITE: &[&str] = &["call", "Write", r#"{"file_path": "b.txt", "content": "x"}"#];
const FETCH: &[&str] = &["call", "WebFetch", r#"{"url": "http://127.0.0.1:9/"}"#];
const SHOW: &[&str] = &["config", "show"];

/// A floor, the person's own file, more arguments, what runs, and what it says with the floor and not without.
type Row<'a> = (&'a str, &'a str, &'a [&'a str], &'a [&'a str], &'a str);

const FLOORS: &[Row<'_>] = &[
    (
        "approvals = \"ask\"",
        "",
        &["--approvals", "allow"],
        WRITE,
        "flag --approvals: `approvals = \"allow\"` is held at \"ask\", because /etc/sinew/config.toml:2",
    ),
    ("approvals = \"ask\"", "approvals = \"allow\"", &[], WRITE, "this call needs approval"),
    ("approvals = \"ask\"", "", &["--set", "approvals=trust-client"], SHOW, "approvals = \"ask\" "),
    (
        "approvals = \"ask\"",
        "",
        &["--set", "managed.approvals=allow", "--approvals", "allow"],
        WRITE,
        "flag --approvals: `approvals = \"allow\"` is held at \"ask\", because /etc/sinew/config.toml:2",
    ),
    (
        "approvals = \"ask\"",
        "approvals = \"allow\"",
        &["--set", "managed={approvals=\"allow\"}"],
        WRITE,
        "this call needs approval",
    ),
    (
        "commands_ask = true",
        "",
        &["--set", "run.ask=auto"],
        &["call", "Bash", r#"{"command": "touch made"}"#],
        "it cannot run unasked: `run.ask` is `always`",
    ),
    (
        "only_sandboxed = true",
        "run.unsandboxed = \"ask\"",
        &["--approvals", "allow"],
        &["call", "Bash", r#"{"command": "true", "needs": ["unsandboxed"], "why": "x"}"#],
        "`run.unsandboxed` is `deny`",
    ),
    (
        "network = false",
        "",
        &["--approvals", "allow"],
        &["call", "Bash", r#"{"command": "true", "needs": ["network"], "why": "x"}"#],
        "the system's configuration closes the network",
    ),
    (
        "only_roots = true",
        "files.outside = \"ask\"",
        &["--approvals", "allow"],
        &["call", "Read", r#"{"file_path": "/usr/bin/env"}"#],
        "it lies outside the roots",
    ),
    ("profile = \"workspace\"", "profile = \"full\"", &[], SHOW, "profile = \"workspace\" "),
    (
        "network = false",
        "[tools.mcp_servers.a]\ncommand = \"true\"\nnetwork = true",
        &[],
        &["mcp-servers", "list"],
        "it gets no network, because `managed.network` says so for this machine",
    ),
    (
        "approvals = \"ask\"",
        "",
        &["--set", "rules=[{verdict=\"allow\",tools=[\"*\"]}]"],
        WRITE,
        "flag --set: a rule that allows is left out, because /etc/sinew/config.toml:2",
    ),
    (
        "profile = \"workspace\"",
        "[[rules]]\nverdict = \"allow\"\ntools = [\"Bash\"]",
        &["--approvals", "ask"],
        &["call", "Bash", r#"{"command": "touch made"}"#],
        "this call needs approval",
    ),
    (
        "profile = \"read-only\"",
        "",
        &["--approvals", "allow"],
        WRITE,
        "denied by the rule `profile.read-only`",
    ),
    (
        "require_sandbox = \"namespaces\"",
        "",
        &["--require-sandbox=none"],
        SHOW,
        "run.require_sandbox = \"namespaces\" ",
    ),
    ("network = false", "[run]\nnetwork = true", &[], SHOW, "run.network = false "),
    ("network = false", "", &["--set", "run.network=true"], SHOW, "run.network = false "),
    (
        "network = false",
        "[run]\nsandbox = \"none\"",
        &[],
        SHOW,
        "`run.sandbox` is weaker than `run.require_sandbox`, which is `landlock`",
    ),
    ("roots = [\"/usr\"]", "", &["--root", "/"], SHOW, "the root / is outside `managed.roots`"),
    ("roots = [\"/usr\"]", "", &[], SHOW, "is outside `managed.roots`"),
    (
        "roots = [\"/usr\"]",
        "",
        &["--set", "managed.roots=[\"/\"]"],
        SHOW,
        "is outside `managed.roots`",
    ),
    (
        "hosts = [\"docs.rs\", \"*.example.com:443\"]",
        "[[rules]]\nverdict = \"allow\"\nhosts = [\"*\"]",
        &["--approvals", "allow", "--profile", "full"],
        FETCH,
        "denied by the rule `managed.hosts`",
    ),
    (
        "hosts = [\"127.0.0.1:9\"]",
        "",
        &["--set", "tools.web_fetch.allow_hosts=[\"127.0.0.1:8\",\"127.0.0.1:9\"]"],
        &["call", "WebFetch", r#"{"url": "http://127.0.0.1:8/"}"#],
        "denied by the rule `managed.hosts`",
    ),
    (
        "hosts = [\"docs.rs\"]",
        "[tools.web_fetch]\nproxy = \"http://127.0.0.1:9\"",
        &[],
        FETCH,
        "names 127.0.0.1:9, which is not among `managed.hosts`",
    ),
    (
        "hosts = []",
        "",
        &["--set", "managed.hosts=[\"*\"]"],
        FETCH,
        "denied by the rule `managed.hosts`",
    ),
    ("ledger = true", "[ledger]\nmode = \"off\"", &[], SHOW, "ledger.mode = \"sqlite\" "),
    ("ledger = true", "", &["--set", "ledger.mode=off"], SHOW, "ledger.mode = \"sqlite\" "),
    (
        "ledger = true",
        "[ledger]\non_failure = \"continue\"",
        &[],
        SHOW,
        "ledger.on_failure = \"refuse\" ",
    ),
    ("ledger = true", "", &["--set", "ledger.max_age_days=1"], SHOW, "ledger.max_age_days = 365 "),
    (
        "ledger = true",
        "",
        &["--set", "ledger.max_records=1"],
        SHOW,
        "ledger.max_records = 1000000 ",
    ),
    (
        "ledger = true\n[ledger]\nsync = \"full\"",
        "",
        &["--set", "ledger.sync=normal"],
        SHOW,
        "ledger.sync = \"full\" ",
    ),
    (
        "trust = false",
        "[mcp]\ntrust_arguments = true",
        &[],
        SHOW,
        "`mcp.trust_arguments = true` is held at false, because /etc/sinew/config.toml:2",
    ),
    (
        "trust = false",
        "",
        &[],
        &["trust", "--yes"],
        "`managed.trust` in /etc/sinew/config.toml forbids trust on this machine",
    ),
    (
        "trust = false",
        "",
        &[],
        &["trust", "--yes", "--arguments", "--", "mcp", "--approvals", "allow"],
        "`managed.trust` in /etc/sinew/config.toml forbids trust on this machine",
    ),
];

/// A floor of `full` made every call run unasked without a written profile.
#[test]
fn floor_below_the_defaults_loosens_nothing() {
    if !can_look_elsewhere() {
        return;
    }
    let bash: &[&str] =
        &["--set", "run.ask=always", "call", "Bash", r#"{"command": "touch made"}"#];
    let asks = "this call needs approval";
    for (managed, user, args, said) in [
        ("profile = \"full\"", "", bash, asks),
        ("approvals = \"allow\"\nprofile = \"full\"", "", bash, asks),
        (
            "require_sandbox = \"none\"\nnetwork = true\nledger = false\ntrust = true",
            "",
            bash,
            asks,
        ),
        (
            "profile = \"full\"",
            "profile = \"read-only\"",
            bash,
            "denied by the rule `profile.read-only`",
        ),
        ("profile = \"full\"", "", SHOW, "approvals = \"auto\" "),
    ] {
        let held = Machine::new(&format!("[managed]\n{managed}\n"), user, "").run(args);
        assert!(held.contains(said), "{managed} {user} {args:?}: {held}");
        assert!(!held.contains("\nprofile = \"full\""), "{managed} {user} {args:?}: {held}");
    }
    // The control: as the user's own profile it allows the same call.
    let said = Machine::new("", "profile = \"full\"", "").run(bash);
    assert!(!said.contains(asks), "{said}");
}

/// What a person answered for always is left out, also for a command without a sandbox.
#[test]
fn answers_for_always_end_at_the_floor() {
    if !can_look_elsewhere() {
        return;
    }
    let machine = Machine::new("", "", "");
    let (home, root) = (machine.top.join("home"), machine.top.join("ws"));
    let asked = unsandboxed("touch made", &["unsandboxed"]);
    assert!(called_at_terminal(&home, &root, &asked, "a").is_some());
    let arguments = asked.to_string();
    let call: &[&str] = &["call", "Bash", &arguments];
    let needs_person = "this call needs approval by a person";
    for (managed, expected) in [
        ("", None),
        ("approvals = \"auto\"", Some(needs_person)),
        ("profile = \"workspace\"", Some(needs_person)),
        ("only_sandboxed = true", Some("no answer gives a command `unsandboxed`")),
    ] {
        fs::remove_file(root.join("made")).unwrap();
        fs::write(machine.top.join("etc/sinew/config.toml"), format!("[managed]\n{managed}\n"))
            .unwrap();
        let said = machine.run(call);
        assert_eq!(root.join("made").exists(), expected.is_none(), "{managed}: {said}");
        assert!(said.contains(expected.unwrap_or_default()), "{managed}: {said}");
        fs::write(root.join("made"), "").unwrap();
    }
}

#[test]
fn nothing_below_the_floor_loosens_it() {
    if !can_look_elsewhere() {
        return;
    }
    for (floor, user, args, what, said) in FLOORS {
        let managed = format!("[managed]\n{floor}\n");
        let args: Vec<&str> = args.iter().chain(*what).copied().collect();
        let held = Machine::new(&managed, user, "").run(&args);
        assert!(held.contains(said), "{floor} {user} {args:?}: {held}");
        let free = Machine::new("", user, "").run(&args);
        assert!(!free.contains(said), "{floor} {user} {args:?}: {free}");
        if floor.contains("\n[") {
            continue;
        }
        // A floor of another layer holds nothing.
        let own = Machine::new("", &format!("{user}\n{managed}"), "").run(&args);
        assert!(own.contains("it counts only in /etc/sinew/config.toml"), "{floor}: {own}");
        assert!(!own.contains(said), "{floor} {user} {args:?}: {own}");
    }
}

/// A floor with a slip of the pen held nothing, without a warning.
#[test]
fn a_floor_that_cannot_be_meant_is_refused() {
    if !can_look_elsewhere() {
        return;
    }
    for (floor, said) in [
        (
            "approvals = \"aks\"",
            "2: `managed.approvals` must be one of allow, trust-client, auto, ask, deny, not \"aks\"",
        ),
        (
            "profile = \"workspce\"",
            "2: `managed.profile` must be one of full, sandboxed, workspace, read-only, not \"workspce\"",
        ),
        (
            "hosts = [\"a b\"]",
            "2: `managed.hosts` must hold hosts such as `example.com`, `*.example.com` or `example.com:443`, not `a b`",
        ),
        (
            "require_sandbox = \"\"",
            "2: `managed.require_sandbox` must be one of none, landlock, bubblewrap, namespaces, not \"\"",
        ),
        ("roots = [\"src\"]", "2: `managed.roots` must hold absolute paths, not \"src\""),
        ("ledger = 1", "line 2, column 10"),
    ] {
        let machine = Machine::new(&format!("[managed]\n{floor}\n"), "", "");
        let found = machine.run(SHOW);
        assert!(
            found.starts_with("sinew: /etc/sinew/config.toml:") && found.contains(said),
            "{floor}: {found}"
        );
    }
}

/// `--set` and its variable once replaced the floor itself, confirmed or not, and so did a server's arguments.
#[test]
fn nothing_that_is_said_replaces_the_floor() {
    if !can_look_elsewhere() {
        return;
    }
    let floor = "[managed]\napprovals = \"ask\"\n";
    let told = "it counts only in /etc/sinew/config.toml";
    let set = ["--set", "managed.approvals=allow"];
    let file = ["--config", "own.toml"];
    let loose = ["--approvals", "allow"];
    for (args, variables) in
        [(&set[..], &[][..]), (&[], &[("SINEW_SET", "managed.approvals=allow")]), (&file, &[])]
    {
        let machine = Machine::new(floor, "", "");
        fs::write(machine.top.join("ws/own.toml"), "[managed]\napprovals = \"allow\"\n").unwrap();
        let found = machine.run_with(&[args, &loose, WRITE].concat(), variables);
        assert!(
            found.contains(told) && found.contains("this call needs approval"),
            "{args:?}: {found}"
        );
        assert!(!machine.top.join("ws/b.txt").exists(), "{args:?}");
        let server = [&["mcp", "--tools", "all"][..], args, &loose].concat();
        for is_confirmed in [false, true] {
            if is_confirmed {
                let trust = [&["trust", "--yes", "--arguments", "--"], &server[..]].concat();
                let found = machine.run_with(&trust, variables);
                assert!(
                    found.contains("approvals=\"allow\"") && !found.contains("managed.approvals="),
                    "{found}"
                );
            }
            let found = machine.run_with(&server, variables);
            assert!(found.contains(told), "{args:?} {is_confirmed}: {found}");
            assert!(!machine.top.join("ws/b.txt").exists(), "{args:?} {is_confirmed}: {found}");
        }
    }
}

#[test]
fn every_key_of_the_floor_has_a_test() {
    let schema = schemars::schema_for!(sinew::config::ManagedOptions).to_value();
    let known = schema["properties"].as_object().unwrap().keys();
    let known: BTreeSet<String> = known.map(|key| format!("managed.{key}")).collect();
    let tested = FLOORS.iter().map(|row| format!("managed.{}", row.0.split(' ').next().unwrap()));
    assert_eq!(tested.collect::<BTreeSet<String>>(), known);
}

/// Deny beats ask beats allow, whichever layers they stand in, and each says where it stands.
#[test]
fn layers_are_combined_by_strength() {
    if !can_look_elsewhere() {
        return;
    }
    let rule = |verdict: &str| format!("[[rules]]\nverdict = \"{verdict}\"\ntools = [\"Write\"]\n");
    let [deny, ask, allow] = ["deny", "ask", "allow"].map(rule);
    let none = String::new();
    for (system, user, project, said) in [
        (
            &deny,
            &allow,
            &none,
            "deny (rules): the rule `Write` of /etc/sinew/config.toml:1 denies it",
        ),
        (
            &allow,
            &deny,
            &none,
            "deny (rules): the rule `Write` of /home/.config/sinew/config.toml:1",
        ),
        (&allow, &none, &ask, "ask (rules): the rule `Write` of /ws/.sinew/config.toml:1 asks"),
        (
            &none,
            &allow,
            &none,
            "allow (rules): the rule `Write` of /home/.config/sinew/config.toml:1",
        ),
        (&none, &none, &allow, "`rules[0]` is left out, because a project's own file cannot allow"),
        (&none, &none, &allow, "ask (change): "),
    ] {
        let machine = Machine::new(system, user, project);
        let call = ["--tool", "Write", r#"{"file_path": "b", "content": "x"}"#];
        let args = [&["--approvals", "ask", "policy", "explain"][..], &call].concat();
        let found = machine.run(&args);
        assert!(found.contains(said), "{system}{user}{project}: {found}");
    }
    let listed = |list: &str| format!("[tools.policy]\n{list}\n");
    for (system, user, project, tool, said) in [
        ("deny = [\"Read\"]", "deny = [\"List\"]", "", "Read", "system, /etc/sinew/config.toml:2"),
        (
            "deny = [\"Read\"]",
            "deny = [\"List\"]",
            "",
            "List",
            "user, /home/.config/sinew/config.toml:2",
        ),
        ("deny = [\"Read\"]", "deny = []", "", "Read", "system, /etc/sinew/config.toml:2"),
        ("allow = [\"Read\"]", "allow = [\"*\"]", "", "List", "system, /etc/sinew/config.toml:2"),
        ("allow = [\"Read\", \"List\"]", "allow = [\"Read\"]", "", "List", "user, /home/"),
        (
            "",
            "allow = [\"Read\"]",
            "allow = [\"List\"]",
            "Read",
            "project, /ws/.sinew/config.toml:2",
        ),
        ("", "allow = [\"Read\"]", "allow = [\"List\"]", "List", "user, /home/"),
    ] {
        let machine = Machine::new(&listed(system), &listed(user), &listed(project));
        let args = ["policy", "explain", "--tool", tool, r#"{"file_path": "a.txt"}"#];
        let args = if tool == "List" { [args[0], args[1], args[2], tool, "{}"] } else { args };
        let found = machine.run(&args);
        let decided = format!("decided by a rule of: {said}");
        assert!(
            found.starts_with("deny (") && found.contains(&decided),
            "{system} {user}: {found}"
        );
    }
}

#[test]
fn a_profile_says_who_chose_it() {
    if !can_look_elsewhere() {
        return;
    }
    let machine = Machine::new("", "profile = \"read-only\"", "");
    let args = &["policy", "explain", "touch x"];
    let found = machine.run(args);
    let user = "decided by a rule of: user, /home/.config/sinew/config.toml:1";
    assert!(found.starts_with("deny (profile.read-only)") && found.contains(user), "{found}");
    let found = machine.run(&[&["--read-only"], &args[..]].concat());
    assert!(found.contains("decided by a rule of: session, flag --read-only"), "{found}");
}

/// `approvals = "ask"` of the machine asked no person where the user's profile was `full`.
#[test]
fn floor_of_approvals_holds_profile() {
    if !can_look_elsewhere() {
        return;
    }
    let asks = "this call needs approval";
    for (approvals, is_held) in
        [("ask", true), ("auto", true), ("trust-client", true), ("allow", false)]
    {
        let floor = format!("[managed]\napprovals = \"{approvals}\"\n");
        for (profile, counts) in [
            ("full", if is_held { "workspace" } else { "full" }),
            ("workspace", "workspace"),
            ("read-only", "read-only"),
        ] {
            let machine = Machine::new(&floor, &format!("profile = \"{profile}\""), "");
            let shown = machine.run(SHOW);
            let line = format!("\nprofile = \"{counts}\"");
            assert!(shown.contains(&line), "{approvals} {profile}: {shown}");
            let told = "`profile = \"full\"` is held at \"workspace\"";
            assert_eq!(shown.contains(told), profile != counts, "{approvals} {profile}: {shown}");
        }
        let machine = Machine::new(&floor, "profile = \"full\"", "");
        let bash = ["--approvals", "ask", "call", "Bash", r#"{"command": "touch made"}"#];
        let said = machine.run(&bash);
        assert_eq!(said.contains(asks), is_held, "{approvals}: {said}");
        let by_flag =
            Machine::new(&floor, "", "").run(&["--set", "profile=full", "config", "show"]);
        assert_eq!(by_flag.contains("\nprofile = \"full\""), !is_held, "{approvals}: {by_flag}");
        // What the file of the floor says itself, it means.
        let system = format!("profile = \"full\"\n{floor}");
        let shown = Machine::new(&system, "", "").run(SHOW);
        assert!(shown.contains("\nprofile = \"full\""), "{approvals}: {shown}");
    }
}
