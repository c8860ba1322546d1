//! The floor of the system's file, which no layer below it loosens, and the layers above it.
//!
//! The file lies at one fixed place, so each run gets a view of the machine of its own in which that place
//! is another one. Where nobody may make such a view, the tests say that they were skipped.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::served::command;

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
        let etc = self.top.join("etc");
        // What else lies in /etc stays in sight.
        let script = "cp -a /etc/. \"$1\"/real && cp -a \"$1\"/sinew \"$1\"/real/ \
                      && mount --bind \"$1\"/real /etc && shift && exec \"$@\"";
        fs::create_dir_all(etc.join("real")).unwrap();
        let sinew = command(&self.top.join("home"));
        let mut ran = Command::new("unshare");
        ran.args(["--mount", "sh", "-c", script, "sh"]).arg(&etc).arg(sinew.get_program());
        ran.args(args).current_dir(self.top.join("ws")).env_clear();
        for (name, value) in sinew.get_envs() {
            value.map(|value| ran.env(name, value));
        }
        ran.env("XDG_CONFIG_HOME", self.top.join("home/.config"));
        ran.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let done = ran.output().unwrap();
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

const WRITE: &[&str] = &["call", "Write", r#"{"file_path": "b.txt", "content": "x"}"#];
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
    ("profile = \"workspace\"", "profile = \"full\"", &[], SHOW, "profile = \"workspace\" "),
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
        "roots = [\"/usr\"]",
        "",
        &["--root", "/"],
        SHOW,
        "the root / lies outside of `managed.roots`",
    ),
    ("roots = [\"/usr\"]", "", &[], SHOW, "lies outside of `managed.roots`"),
    ("ledger = true", "[ledger]\nmode = \"off\"", &[], SHOW, "ledger.mode = \"sqlite\" "),
    ("ledger = true", "", &["--set", "ledger.mode=off"], SHOW, "ledger.mode = \"sqlite\" "),
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
        "`managed.trust` in /etc/sinew/config.toml lets nobody trust anything",
    ),
    (
        "trust = false",
        "",
        &[],
        &["trust", "--yes", "--arguments", "--", "mcp", "--approvals", "allow"],
        "`managed.trust` in /etc/sinew/config.toml lets nobody trust anything",
    ),
];

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
        // A floor of another layer holds nothing.
        let own = Machine::new("", &format!("{user}\n{managed}"), "").run(&args);
        assert!(own.contains("only the system's file, /etc/sinew/config.toml"), "{floor}: {own}");
        assert!(!own.contains(said), "{floor} {user} {args:?}: {own}");
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
        let args =
            ["policy", "explain", "--tool", "Write", r#"{"file_path": "b", "content": "x"}"#];
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
