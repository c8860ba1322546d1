//! The environment of an MCP server can come out of a repository: it loosens nothing of the user's rules, which
//! are in the home that the user database names.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{self, Answers, ServerOutput};
use crate::database::{self, SINEW};

/// A user with five rules, a project, and a directory that came out of an archive.
struct Machine {
    _dir: TempDir,
    top: PathBuf,
}

/// Rules by path, by command, by tool, and a program: one call of each kind is refused.
const OWN: &str = r#"
[tools.fs]
deny_paths = ["**/secret.txt"]

[[rules]]
verdict = "deny"
command = "date"

[[rules]]
verdict = "ask"
tools = ["List"]

[[hooks]]
event = "before_tool_call"
tools = ["Grep"]
command = ["{top}/bin/refuse"]
"#;

/// The fifth, in a folder of its own.
const FOLDER: &str = "event = \"before_tool_call\"\ntools = [\"Glob\"]\ncommand = [\"./refuse\"]\n";

/// What an archive would like the user to have said.
const LOOSE: &str = r#"
approvals = "allow"
profile = "full"

[tools.fs]
deny_paths = []

[mcp]
trust_arguments = true

[[rules]]
verdict = "allow"
tools = ["*"]

[[rules]]
verdict = "allow"
command = "date"
"#;

/// One call for each rule, by the name of the rule.
fn calls() -> [(&'static str, &'static str, Value); 5] {
    [
        ("deny_paths", "Read", json!({ "file_path": "secret.txt" })),
        ("deny", "Bash", json!({ "command": "date" })),
        ("ask", "List", json!({})),
        ("hook", "Grep", json!({ "pattern": "one" })),
        ("folder", "Glob", json!({ "pattern": "*" })),
    ]
}

/// Returns the rules that held nothing back.
fn loosened(said: &ServerOutput) -> Vec<&'static str> {
    calls().into_iter().map(|(name, ..)| name).filter(|name| said.is_done(name)).collect()
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let machine = Self { _dir: dir, top };
        let own = OWN.replace("{top}", machine.top.to_str().unwrap());
        for (name, text) in [
            ("home/.config/sinew/config.toml", own.as_str()),
            ("home/.config/sinew/hooks/folder/hook.toml", FOLDER),
            ("ws/secret.txt", "one\n"),
            ("ws/a.txt", "one\n"),
            ("unpacked/.config/sinew/config.toml", LOOSE),
            ("unpacked/.local/state/sinew/x", ""),
            ("unpacked/etc/passwd", "root:x:0:0::/:\n"),
            ("file", ""),
        ] {
            machine.write(name, text);
        }
        for program in ["bin/refuse", "home/.config/sinew/hooks/folder/refuse"] {
            machine.write(program, "#!/bin/sh\nexit 2\n");
            fs::set_permissions(machine.at(program), fs::Permissions::from_mode(0o755)).unwrap();
        }
        machine.write("unpacked/bin/sh", "#!/bin/true\n");
        symlink(machine.at("unpacked"), machine.at("link")).unwrap();
        machine
    }

    fn at(&self, name: &str) -> PathBuf {
        self.top.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        fs::write(self.at(name), text).unwrap();
    }

    fn home(&self) -> PathBuf {
        self.at("home")
    }

    /// Returns sinew with a user database, started as from the user's own shell.
    fn sinew(&self, database: &str) -> Command {
        let mut command = database::with_database(database, &self.top, SINEW);
        command.current_dir(self.at("ws")).env_clear();
        command.env("HOME", self.home()).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    /// Sets the variables of a server; one without a value is taken away.
    fn set(&self, command: &mut Command, variables: &[(&str, Option<&str>)]) {
        for (name, value) in variables {
            match value {
                Some(value) => {
                    command.env(name, value.replace("{top}", self.top.to_str().unwrap()))
                }
                None => command.env_remove(name),
            };
        }
    }

    /// Serves one call for each rule and one that nothing forbids.
    fn serve(&self, database: &str, variables: &[(&str, Option<&str>)]) -> ServerOutput {
        let mut command = self.sinew(database);
        self.set(&mut command, variables);
        let allowed = ("allowed", "Read", json!({ "file_path": "a.txt" }));
        let calls: Vec<_> = calls().into_iter().chain([allowed]).collect();
        client::serve(command.arg("mcp"), Answers::Never, &calls)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = self.sinew(&database::naming(&self.home()));
        command.args(args).stdin(Stdio::null()).output().unwrap()
    }

    /// Returns how many calls a state directory has on record.
    fn n_recorded(&self, state: &str) -> usize {
        let path = self.at(state).join("sinew/sinew.db");
        if !path.exists() {
            return 0;
        }
        let database = Connection::open(path).unwrap();
        let count = "SELECT count(*) FROM record WHERE tool IS NOT NULL";
        database.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap().try_into().unwrap()
    }
}

/// The environments, and whether the naive reading of the variables loses rules in it.
type Row = (&'static [(&'static str, Option<&'static str>)], bool);

const ENVIRONMENTS: &[Row] = &[
    (&[("XDG_CONFIG_HOME", Some("/nonexistent"))], true),
    (&[("XDG_CONFIG_HOME", Some("{top}/unpacked/.config"))], true),
    (&[("XDG_CONFIG_HOME", Some("{top}/link/.config"))], true),
    (&[("XDG_CONFIG_HOME", Some("{top}/file"))], true),
    (&[("XDG_CONFIG_HOME", Some("/proc/self"))], true),
    (&[("XDG_CONFIG_HOME", Some(""))], false),
    (&[("XDG_CONFIG_HOME", Some("../unpacked/.config"))], false),
    (&[("HOME", Some("{top}/none"))], true),
    (&[("HOME", Some("/nonexistent")), ("XDG_STATE_HOME", Some("{top}/other"))], true),
    (&[("HOME", Some("{top}/unpacked"))], true),
    (&[("HOME", Some("{top}/home/../unpacked"))], true),
    (&[("HOME", Some("{top}/link"))], true),
    (&[("HOME", Some("")), ("XDG_STATE_HOME", Some("{top}/other"))], true),
    (&[("HOME", Some("../unpacked")), ("XDG_STATE_HOME", Some("{top}/other"))], true),
    (&[("HOME", None), ("XDG_STATE_HOME", Some("{top}/other"))], true),
    (&[("HOME", Some("{top}/unpacked")), ("XDG_CONFIG_HOME", Some("/nonexistent"))], true),
    (&[("XDG_STATE_HOME", Some("{top}/unpacked/.local/state"))], false),
    (&[("XDG_STATE_HOME", Some("{top}/file"))], false),
    (&[("SINEW_CONFIG", Some("{top}/unpacked/.config/sinew/config.toml"))], false),
    (&[("SINEW_APPROVALS", Some("allow")), ("SINEW_SET", Some("tools.fs.deny_paths=[]"))], false),
    (
        &[("SINEW_SET", Some("hooks=[]")), ("XDG_CONFIG_DIRS", Some("{top}/unpacked/.config"))],
        false,
    ),
    (&[("USER", Some("nobody")), ("LOGNAME", Some("nobody")), ("HOME", Some("{top}/file"))], false),
    (&[("PATH", Some("{top}/unpacked/bin")), ("BASH_ENV", Some("{top}/file"))], false),
];

/// `{"env": {"XDG_CONFIG_HOME": "/nonexistent"}}` in `.mcp.json` took away every rule of the user, unsaid.
#[test]
fn environment_of_server_loosens_no_rule() {
    if !database::can_bind("environment_of_server_loosens_no_rule") {
        return;
    }
    assert!(20 <= ENVIRONMENTS.len());
    for (variables, _) in ENVIRONMENTS {
        let machine = Machine::new();
        let said = machine.serve(&database::naming(&machine.home()), variables);
        assert_eq!(loosened(&said), [""; 0], "{variables:?}: {}", said.err);
        assert!(said.is_done("allowed"), "{variables:?}: {:?} {}", said.replies, said.err);
        let n_calls = calls().len() + 1;
        assert_eq!(machine.n_recorded("home/.local/state"), n_calls, "{variables:?}");
        let others = ["other", "unpacked/.local/state"].map(|state| machine.n_recorded(state));
        assert_eq!(others, [0, 0], "{variables:?}");
    }
}

/// The control: where the variables count as they are, because the user database has no entry, they take the
/// rules away, and the calls of the suite tell.
#[test]
fn naive_reading_of_home_loses_rules() {
    if !database::can_bind("naive_reading_of_home_loses_rules") {
        return;
    }
    for (variables, loses) in ENVIRONMENTS {
        let machine = Machine::new();
        let said = machine.serve("daemon:x:4242:4242::/:\n", variables);
        let lost = loosened(&said);
        assert_eq!(!lost.is_empty(), *loses, "{variables:?}: {lost:?}: {}", said.err);
        assert!(!loses || 3 <= lost.len(), "{variables:?}: {lost:?}");
    }
    let machine = Machine::new();
    let done = machine.sinew("").args(["doctor", "--json"]).output().unwrap();
    let shown: Value = serde_json::from_slice(&done.stdout).unwrap();
    let findings = shown["findings"].as_array().unwrap();
    let home = findings.iter().find(|finding| finding["check"] == "home").unwrap();
    assert_eq!((&home["ok"], &home["needed"]), (&json!(false), &json!(false)));
    let detail = home["text"].as_str().unwrap();
    assert!(detail.contains("no entry") && detail.contains("HOME"), "{detail}");
}

/// What the environment adds tightens.
#[test]
fn environment_of_server_adds_rules() {
    if !database::can_bind("environment_of_server_adds_rules") {
        return;
    }
    let machine = Machine::new();
    let more = "tools.fs.deny_paths = [\"**/a.txt\"]\n";
    machine.write("unpacked/.config/sinew/config.toml", more);
    let variables = [("XDG_CONFIG_HOME", Some("{top}/unpacked/.config"))];
    let said = machine.serve(&database::naming(&machine.home()), &variables);
    assert_eq!(loosened(&said), [""; 0], "{}", said.err);
    assert!(said.reply("allowed").is_some() && !said.is_done("allowed"), "{}", said.err);
    assert!(
        said.err.contains("variable XDG_CONFIG_HOME: left out until you confirm"),
        "{}",
        said.err
    );
}

/// A hook of another configuration is a program that no person has reviewed.
#[test]
fn hook_of_environment_runs_once_confirmed() {
    if !database::can_bind("hook_of_environment_runs_once_confirmed") {
        return;
    }
    let machine = Machine::new();
    let hook = format!(
        "event = \"before_tool_call\"\ncommand = [\"/usr/bin/touch\", \"{}\"]\n",
        machine.at("ran").display()
    );
    machine.write("unpacked/.config/sinew/hooks/x/hook.toml", &hook);
    machine.write("unpacked/.config/sinew/config.toml", "profile = \"full\"\n");
    let variables = [("XDG_CONFIG_HOME", Some("{top}/unpacked/.config"))];
    let database = database::naming(&machine.home());
    let said = machine.serve(&database, &variables);
    assert!(!machine.at("ran").exists() && said.err.contains("hooks={"), "{}", said.err);
    let mut trust = machine.sinew(&database);
    machine.set(&mut trust, &variables);
    let done = trust.args(["trust", "--yes", "--arguments", "--", "mcp"]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let said = machine.serve(&database, &variables);
    assert!(machine.at("ran").exists(), "{}", said.err);
    // The user's own configuration still binds.
    assert_eq!(loosened(&said), [""; 0], "{}", said.err);
}

/// `sinew trust` called a file harmless that moved the user's configuration and ledger elsewhere.
#[test]
fn other_state_counts_once_confirmed() {
    if !database::can_bind("other_state_counts_once_confirmed") {
        return;
    }
    let machine = Machine::new();
    let database = database::naming(&machine.home());
    let [config, state] = ["elsewhere/config", "elsewhere/state"].map(|name| machine.at(name));
    let env = json!({ "XDG_CONFIG_HOME": config, "XDG_STATE_HOME": state });
    let by_variable = json!({ "command": "sinew", "args": ["mcp"], "env": env });
    let set = format!("XDG_STATE_HOME={}", state.display());
    let by_word = json!({ "command": "env", "args": [set, "/usr/bin/sinew", "mcp"] });
    let servers = json!({ "mcpServers": { "a": by_variable, "b": by_word } });
    machine.write("ws/.mcp.json", &servers.to_string());
    let shown: Value = serde_json::from_slice(&machine.run(&["trust", "--json"]).stdout).unwrap();
    let loosens = |at: usize| -> Vec<(String, String)> {
        let all = shown["servers"][at]["loosens"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        all.iter().map(|one| (text(&one["key"]), text(&one["value"]))).collect()
    };
    let told = |key: &str, dir: &Path| (key.to_owned(), dir.join("sinew").display().to_string());
    let told_state = told("XDG_STATE_HOME", &state);
    assert_eq!(loosens(0), [told("XDG_CONFIG_HOME", &config), told_state.clone()], "{shown}");
    assert_eq!(loosens(1), [told_state], "{shown}");

    let [config, state] = [&config, &state].map(|dir| dir.to_str().unwrap());
    let variables = [("XDG_CONFIG_HOME", Some(config)), ("XDG_STATE_HOME", Some(state))];
    let n_recorded = || ["home/.local/state", "elsewhere/state"].map(|dir| machine.n_recorded(dir));
    let n_calls = calls().len() + 1;
    let said = machine.serve(&database, &variables);
    assert_eq!(n_recorded(), [n_calls, 0], "{}", said.err);
    let line = format!("XDG_STATE_HOME={state} sinew trust --arguments -- mcp\n");
    assert!(said.err.contains(&line), "{}", said.err);
    assert!(machine.run(&["trust", "--yes"]).status.success());
    let said = machine.serve(&database, &variables);
    assert_eq!(n_recorded(), [n_calls, n_calls], "{}", said.err);
    assert_eq!(loosened(&said), [""; 0], "{}", said.err);
    // A trust file in a place that only the client names confirms nothing.
    fs::create_dir_all(machine.at("unpacked/.local/state/sinew")).unwrap();
    let confirming = machine.at("unpacked/.local/state/sinew/trust.toml");
    fs::copy(machine.at("home/.local/state/sinew/trust.toml"), confirming).unwrap();
    assert!(machine.run(&["trust", "revoke"]).status.success());
    let forged = machine.at("unpacked/.local/state").display().to_string();
    machine.serve(&database, &[("XDG_STATE_HOME", Some(&forged))]);
    assert_eq!(n_recorded(), [2 * n_calls, n_calls]);
}

/// The user database of a large site is read to the end, in little time.
#[test]
fn large_user_database_binds() {
    if !database::can_bind("large_user_database_binds") {
        return;
    }
    let machine = Machine::new();
    let mut database = String::new();
    for n in 0..200_000 {
        let uid = n + 5_000_000;
        database.push_str(&format!("user{n}:x:{uid}:100:a name:/home/user{n}:/bin/sh\n"));
    }
    database.push_str(&database::naming(&machine.home()));
    assert!(10_000_000 < database.len());
    let started = Instant::now();
    let said = machine.serve(&database, &[("HOME", Some("{top}/unpacked"))]);
    assert_eq!(loosened(&said), [""; 0], "{}", said.err);
    assert!(said.is_done("allowed"), "{}", said.err);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn state_directory_that_is_a_file_is_told() {
    if !database::can_bind("state_directory_that_is_a_file_is_told") {
        return;
    }
    let machine = Machine::new();
    machine.write("home/.local/state/sinew", "");
    let said = machine.serve(&database::naming(&machine.home()), &[]);
    let told = "home/.local/state/sinew: ";
    assert!(said.replies.is_empty() && said.err.contains(told), "{}", said.err);
    for args in [
        &["call", "List"][..],
        &["trust", "--yes", "--arguments", "--", "mcp", "--approvals", "allow"],
    ] {
        let done = machine.run(args);
        let err = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{args:?}: {err}");
        assert!(err.contains(told), "{args:?}: {err}");
    }
    let done = machine.run(&["doctor"]);
    let out = String::from_utf8_lossy(&done.stdout).into_owned();
    assert_eq!(done.status.code(), Some(1), "{out}");
    assert!(out.contains("MISSING  state"), "{out}");
}

impl Machine {
    /// Gives the user one hook, a program that is run before each call.
    fn hook(&self, script: &str) {
        let hook = "[[hooks]]\nevent = \"before_tool_call\"\ncommand = [\"{top}/bin/hook\"]\n";
        let own = hook.replace("{top}", self.top.to_str().unwrap());
        fs::remove_dir_all(self.at("home/.config/sinew/hooks")).unwrap();
        self.write("home/.config/sinew/config.toml", &own);
        self.write("bin/hook", script);
        fs::set_permissions(self.at("bin/hook"), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Returns what `sinew trust` shows of a server with these variables.
    fn shown(&self, env: &Value) -> Value {
        let server = json!({ "command": "sinew", "args": ["mcp"], "env": env });
        let servers = json!({ "mcpServers": { "a": server } });
        self.write("ws/.mcp.json", &servers.to_string());
        serde_json::from_slice(&self.run(&["trust", "--json"]).stdout).unwrap()
    }
}

/// A hook that requires what a client can take away was left out, and the call went through.
#[test]
fn hook_stays_without_path_and_variables() {
    if !database::can_bind("hook_stays_without_path_and_variables") {
        return;
    }
    let machine = Machine::new();
    machine.hook("#!/bin/sh\ncat >/dev/null\nexit 2\n");
    let own = machine.at("home/.config/sinew/config.toml");
    let hooked = fs::read_to_string(&own).unwrap()
        + "requires = { bins = [\"cat\", \"mine\"], env = [\"WANTED\"] }\n";
    let database = database::naming(&machine.home());
    for (path, dir) in [
        (None, machine.at("ws")),
        (Some("/nonexistent"), machine.at("ws")),
        (Some(""), machine.at("ws")),
        (Some("/usr/bin:/bin"), PathBuf::from("/usr")),
    ] {
        let listed = |hooked: bool| {
            let mut command = machine.sinew(&database);
            machine.set(&mut command, &[("PATH", path)]);
            command.current_dir(&dir).arg("mcp");
            let said =
                client::serve(&mut command, Answers::Never, &[("allowed", "List", json!({}))]);
            assert_eq!(said.err.contains("may fail: "), hooked, "{path:?}: {}", said.err);
            said.is_done("allowed")
        };
        fs::write(&own, &hooked).unwrap();
        assert!(!listed(true), "{path:?}");
        // The control: without the hook the same call is done.
        fs::write(&own, "").unwrap();
        assert!(listed(false), "{path:?}");
    }
}

/// A hook that looks for `~/.block` found another home, and let the call through.
#[test]
fn hook_finds_home_of_user() {
    if !database::can_bind("hook_finds_home_of_user") {
        return;
    }
    for home in ["x", "", "{top}/unpacked", "{top}/link"] {
        let machine = Machine::new();
        let home = home.replace("{top}", machine.top.to_str().unwrap());
        machine.hook("#!/bin/sh\n[ -e \"$HOME/.block\" ] && exit 2\nexit 0\n");
        let database = database::naming(&machine.home());
        let variables = [("HOME", Some(home.as_str()))];
        let said = machine.serve(&database, &[]);
        assert!(said.is_done("allowed"), "the hook lets calls through: {}", said.err);
        machine.write("home/.block", "");
        let said = machine.serve(&database, &variables);
        let is_refused = said.reply("allowed").is_some() && !said.is_done("allowed");
        assert!(is_refused, "{home:?}: {:?} {}", said.replies, said.err);
        assert!(said.err.contains("variable HOME: left out until you confirm"), "{}", said.err);
        let shown = machine.shown(&json!({ "HOME": home }));
        let loosens = shown["servers"][0]["loosens"].as_array().unwrap();
        let told = loosens.iter().find(|one| one["key"] == "HOME");
        assert_eq!(told.map(|one| &one["value"]), Some(&json!(home)), "{shown}");
        // What the user confirmed counts.
        assert!(machine.run(&["trust", "--yes"]).status.success());
        let said = machine.serve(&database, &variables);
        assert!(said.is_done("allowed"), "{home:?}: {:?} {}", said.replies, said.err);
    }
}

/// Python imported `usercustomize` from the home that a file of the repository named, outside any sandbox.
#[test]
fn hook_loads_nothing_of_client_home() {
    if !database::can_bind("hook_loads_nothing_of_client_home") {
        return;
    }
    let machine = Machine::new();
    let script = "#!/bin/sh\nenv > {top}/env\npython3 -c pass\nexit 0\n";
    machine.hook(&script.replace("{top}", machine.top.to_str().unwrap()));
    let version = "import sys; print('python%d.%d' % sys.version_info[:2], end='')";
    let python = Command::new("python3").args(["-c", version]).output();
    let version = python.map(|done| String::from_utf8(done.stdout).unwrap()).unwrap_or_default();
    let module = format!("evil/.local/lib/{version}/site-packages/usercustomize.py");
    machine.write(&module, &format!("open({:?}, 'w')\n", machine.at("ran")));
    let usual = [
        ("XDG_CONFIG_HOME", Some("{top}/home/.config")),
        ("XDG_STATE_HOME", Some("{top}/home/.local/state")),
    ];
    let others = ["CARGO_HOME", "GEM_HOME", "PYENV_ROOT", "VIRTUAL_ENV", "EDITOR", "CC", "TMPDIR"];
    let others = others.map(|name| (name, Some("{top}/evil")));
    let plain = [("HOME", Some("{top}/evil")), ("USER", Some("evil")), ("LC_ALL", Some("C"))];
    let variables = [&usual[..], &others, &plain].concat();
    let said = machine.serve(&database::naming(&machine.home()), &variables);
    assert!(said.is_done("allowed"), "{:?} {}", said.replies, said.err);
    assert!(!machine.at("ran").exists());
    let env = fs::read_to_string(machine.at("env")).unwrap();
    let has = |line: String| env.lines().any(|at| at == line);
    assert!(has(format!("HOME={}", machine.home().display())), "{env}");
    assert!(has(String::from("LC_ALL=C")), "{env}");
    let of_client = machine.at("evil").display().to_string();
    let told = ["evil", "XDG_", &of_client].into_iter().find(|word| env.contains(*word));
    assert_eq!(told, None, "{env}");
}

/// The dynamic loader obeys these before sinew runs, so `sinew trust` shows them.
#[test]
fn loader_variables_of_server_are_shown() {
    if !database::can_bind("loader_variables_of_server_are_shown") {
        return;
    }
    let names = ["LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GLIBC_TUNABLES", "PATH"];
    for name in names {
        let by_variable = json!({ "command": "sinew", "args": ["mcp"], "env": { name: "./x" } });
        let set = format!("{name}=./x");
        let by_word = json!({ "command": "env", "args": [set, "sinew", "mcp"] });
        for server in [by_variable, by_word] {
            let machine = Machine::new();
            machine.write("ws/.mcp.json", &json!({ "mcpServers": { "a": server } }).to_string());
            let done = machine.run(&["trust", "--yes"]);
            let err = String::from_utf8_lossy(&done.stderr).into_owned();
            let line = format!(".mcp.json: a sets {name}=./x");
            assert!(err.contains(&line) && err.contains("sinew cannot defend"), "{name}: {err}");
            let done = machine.run(&["trust", "--json"]);
            let shown: Value = serde_json::from_slice(&done.stdout).unwrap();
            let told = json!([{ "place": ".mcp.json: a", "key": name, "value": "./x" }]);
            assert_eq!(shown["loader"], told, "{shown}");
        }
    }
    let machine = Machine::new();
    let shown = machine.shown(&json!({ "LANG": "C", "OLD_LD_PRELOAD": "x" }));
    assert_eq!(shown["loader"], json!([]), "{shown}");
}

#[test]
fn ledger_in_the_home_is_told() {
    if !database::can_bind("ledger_in_the_home_is_told") {
        return;
    }
    let machine = Machine::new();
    let database = database::naming(&machine.home());
    let told = |args: &[&str]| {
        let mut command = machine.sinew(&database);
        let done = command.args(args).env("XDG_STATE_HOME", machine.at("elsewhere/state")).output();
        let done = done.unwrap();
        let all = [done.stdout, done.stderr].concat();
        assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&all));
        String::from_utf8(all).unwrap().contains("another is in ")
    };
    let all = [
        &["audit", "list"][..],
        &["audit", "verify"],
        &["checkpoint", "list"],
        &["log"],
        &["doctor"],
    ];
    for args in all {
        assert!(!told(args), "{args:?}");
    }
    machine.serve(&database, &[]);
    for args in all {
        assert!(told(args), "{args:?}");
    }
}

#[test]
fn broken_configuration_is_a_finding() {
    if !database::can_bind("broken_configuration_is_a_finding") {
        return;
    }
    let machine = Machine::new();
    let check = |args: &[&str], code: i32, told: &str| {
        let done = machine.run(args);
        let all = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
        assert_eq!(done.status.code(), Some(code), "{args:?}: {all}");
        assert!(all.contains(told), "{args:?}: {all}");
    };
    let call = ["call", "Read", r#"{"file_path": "a.txt"}"#];
    let trust = machine.at("home/.local/state/sinew/trust.toml");
    fs::create_dir_all(&trust).unwrap();
    check(&call, 2, "trust.toml: ");
    check(&["doctor"], 1, "trust.toml: ");
    fs::remove_dir(&trust).unwrap();
    check(&call, 0, "one");
    for broken in
        ["profile = \"bogus\"", "[run]\nsandbox = \"bogus\"", "[tools.fs]\ndeny_paths = [\"[\"]"]
    {
        machine.write("home/.config/sinew/config.toml", broken);
        check(&["doctor"], 1, "MISSING  config");
    }
    fs::remove_file(machine.at("home/.config/sinew/config.toml")).unwrap();
    fs::create_dir(machine.at("home/.config/sinew/config.toml")).unwrap();
    check(&call, 2, "home/.config/sinew/config.toml: ");
    check(&["doctor"], 1, "MISSING  config");
    check(&["doctor", "--json"], 1, r#""ok":false"#);
}

/// Where the user database gives no home, nothing holds the variables of a client.
#[test]
fn server_without_database_home_warns() {
    if !database::can_bind("server_without_database_home_warns") {
        return;
    }
    let machine = Machine::new();
    let naming = |home: &str| database::naming(Path::new(home));
    let at = |name: &str| machine.at(name).display().to_string();
    for (database, why) in [
        (String::from("daemon:x:4242:4242::/:\n"), "has no entry for you"),
        (naming(&at("none")), "does not exist"),
        (naming("relative"), "names no directory"),
        (naming(&at("file")), "is not a directory"),
        (naming(&at("file/x")), "is beneath a file"),
    ] {
        for variables in [&[][..], &[("SINEW_LOG", Some("error"))]] {
            let said = machine.serve(&database, variables);
            let told: Vec<_> =
                said.err.lines().filter(|line| line.contains("count as they are")).collect();
            assert!(matches!(told[..], [line] if line.contains(why)), "{why}: {}", said.err);
        }
    }
    let said = machine.serve(&database::naming(&machine.home()), &[]);
    assert!(!said.err.contains("count as they are"), "{}", said.err);
}
