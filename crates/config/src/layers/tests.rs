use std::fs;

use proptest::prelude::*;
use rustix::fs::{FileType, Mode};
use serde_json::json;

use super::*;

fn project(text: &str) -> (Value, Vec<String>) {
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join(".sinew")).expect("a directory");
    fs::write(dir.path().join(".sinew/config.toml"), text).expect("a file");
    let mut layers = Layers::with_defaults().expect("defaults");
    layers.set_written("tools.fs.deny_paths=[\"/a\"]", Origin::Default).expect("a value");
    layers.add_project_file(dir.path()).expect("a file that can be read");
    let layered = layers.merge().expect("it merges");
    let warnings = layered.warnings.iter().map(|warning| {
        let start = warning.find('`').map_or(0, |at| at + 1);
        warning[start..].split('`').next().unwrap_or_default().to_owned()
    });
    let warnings = warnings.collect();
    (serde_json::to_value(layered.options).expect("a tree"), warnings)
}

#[track_caller]
fn check_project(text: &str, pointer: &str, value: Value, left_out: &[&str]) {
    let (tree, warnings) = project(text);
    assert_eq!(tree.pointer(pointer).cloned().unwrap_or_default(), value, "{text}");
    assert_eq!(warnings, left_out, "{text}");
}

#[test]
fn a_project_can_only_tighten() {
    check_project("read_only = true", "/read_only", json!(true), &[]);
    check_project("approvals = \"deny\"", "/approvals", json!("deny"), &[]);
    check_project("approvals = \"allow\"", "/approvals", json!("auto"), &["approvals"]);
    check_project("roots = [\"/\"]", "/roots", Value::Null, &["roots"]);
    let limit = "/files/glob_limit";
    check_project("[files]\nglob_limit = 9999", limit, Value::Null, &["files.glob_limit"]);
    check_project("[files]\nglob_limit = 50", limit, json!(50), &[]);
    check_project("[files]\nsync = \"full\"", "/files/sync", json!("full"), &[]);
    check_project(
        "[tools.fs]\ndeny_paths = [\"/b\"]",
        "/tools/fs/deny_paths",
        json!(["/a", "/b"]),
        &[],
    );
    check_project("[ledger]\nmode = \"off\"", "/ledger/mode", json!("sqlite"), &["ledger.mode"]);
    check_project(
        "[files]\nhard_links = \"in_place\"",
        "/files/hard_links",
        json!("refuse"),
        &["files.hard_links"],
    );
    let model = "[models.\"a.b\"]\nwire = \"chat\"\nurl = \"https://example.com\"";
    check_project(model, "/models", Value::Null, &["models"]);
    let channel = "[messages.channels.webhook]\nurl = \"https://example.com\"";
    check_project(channel, "/messages/channels", Value::Null, &["messages.channels"]);
    let bytes = "/messages/max_bytes";
    check_project("messages.max_bytes = 200000", bytes, json!(102_400), &["messages.max_bytes"]);
    check_project("messages.max_bytes = 10", bytes, json!(10), &[]);
    check_project("agent.model = \"openai/x\"", "/agent/model", Value::Null, &["agent.model"]);
    let turns = "/agent/max_tool_iterations";
    check_project(
        "agent.max_tool_iterations = 99",
        turns,
        json!(20),
        &["agent.max_tool_iterations"],
    );
    check_project("agent.max_tool_iterations = 5", turns, json!(5), &[]);
    check_project("dialect = \"moltis\"", "/dialect", json!("native"), &["dialect"]);
    check_project("dialect = \"native\"", "/dialect", json!("native"), &[]);
    check_project("serve = [\"all\"]", "/serve", Value::Null, &["serve"]);
    check_project("serve = [\"read\"]", "/serve", json!(["read"]), &[]);
    let tokens = "/tools/fs/context_window_tokens";
    for (written, taken) in [(327_681, None), (327_680, Some(327_680)), (1_000, Some(1_000))] {
        let left_out = taken.map_or(&["tools.fs.context_window_tokens"][..], |_| &[]);
        let text = format!("[tools.fs]\ncontext_window_tokens = {written}");
        check_project(&text, tokens, json!(taken), left_out);
    }
    check_project(
        "[tools.fs]\nbinary_policy = \"base64\"",
        "/tools/fs/binary_policy",
        json!("reject"),
        &["tools.fs.binary_policy"],
    );
    check_project(
        "[tools.policy]\nallow = [\"Read\"]",
        "/tools/policy/allow",
        json!(["Read"]),
        &[],
    );
    let rule = |verdict: &str, command: &str| {
        format!("[[rules]]\nverdict = \"{verdict}\"\ncommand = \"{command}\"\n")
    };
    check_project(
        &[rule("deny", "a"), rule("allow", "b"), rule("ask", "c")].concat(),
        "/rules",
        json!([{"verdict": "deny", "command": "a"}, {"verdict": "ask", "command": "c"}]),
        &["rules[1]"],
    );
    check_project(&rule("allow", "*"), "/rules", Value::Null, &["rules[0]"]);
}

#[test]
fn a_project_adds_rules_to_those_of_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let own = dir.path().join("own.toml");
    let rule = |verdict: &str, command: &str| {
        format!("[[rules]]\nverdict = \"{verdict}\"\ncommand = \"{command}\"\n")
    };
    let write = |file: &Path, text: &str| fs::write(file, text).expect("a file");
    write(&own, &[rule("allow", "a"), rule("deny", "b")].concat());
    fs::create_dir(dir.path().join(".sinew")).expect("a directory");
    write(&dir.path().join(".sinew/config.toml"), &rule("deny", "c"));
    let mut layers = Layers::with_defaults().expect("defaults");
    layers.add_file(&own, Layer::User, true).expect("it reads");
    layers.add_project_file(dir.path()).expect("it reads");
    let layered = layers.merge().expect("it merges");
    let rules = layered.options.rules.expect("rules");
    let found = rules.iter().zip(&layered.rules).map(|(rule, origin)| {
        let origin = origin.to_string();
        (
            rule.command.clone().unwrap_or_default(),
            origin.replace(&dir.path().display().to_string(), ""),
        )
    });
    let expected = [("a", "/own.toml:1"), ("b", "/own.toml:4"), ("c", "/.sinew/config.toml:1")];
    let expected = expected.map(|(command, origin)| (command.to_owned(), origin.to_owned()));
    assert_eq!(found.collect::<Vec<_>>(), expected);
    write(&own, &[rule("ask", "x"), rule("never", "y")].concat());
    let error =
        Layers::default().add_file(&own, Layer::User, true).expect_err("no verdict").to_string();
    assert!(error.contains("own.toml:5:11: `rules[1].verdict`"), "{error}");
    for (text, at) in [
        ("rules = [{ verdict = \"deny\", command = \"a\" },\n  { verdict = \"x\" }]", "2:15"),
        ("[[rules]]\nverdict = \"deny\"\ntools = []", "3:9"),
        ("[[rules]]\nverdict = \"deny\"\neffects = [\"x\"]", "3:11"),
        ("[[rules]]\nverdict = \"deny\"\nhosts = [\"a b\"]", "3:9"),
        ("[[rules]]\nverdict = \"deny\"\nunless = [\n  { tools = [] },\n]", "4:13"),
        ("[[rules]]\nverdict = \"allow\"", "1:1"),
    ] {
        write(&own, text);
        let error = Layers::default().add_file(&own, Layer::User, true);
        let error = error.expect_err("no rule").to_string();
        assert!(error.contains(&format!("own.toml:{at}: `rules[")), "{text}: {error}");
    }
    write(&own, "rules = [\n  { verdict = \"deny\", command = \"a\" },\n]");
    let mut layers = Layers::default();
    layers.add_file(&own, Layer::User, true).expect("it reads");
    let place = layers.merge().expect("it merges").rules.first().map(ToString::to_string);
    assert!(place.is_some_and(|place| place.ends_with("own.toml:2")), "an inline rule");
}

fn added(lay_out: impl Fn(&Path, &Path)) -> Result<Layered, String> {
    let dir = tempfile::tempdir().expect("a directory");
    let (project, other) = (dir.path().join("project"), dir.path().join("other"));
    fs::create_dir_all(project.join(".sinew")).expect("a directory");
    fs::create_dir(&other).expect("a directory");
    fs::write(other.join("config.toml"), "secret words\n").expect("a file");
    lay_out(&project, &other);
    let mut layers = Layers::with_defaults().expect("defaults");
    layers.add_project_file(&project).map_err(|error| error.to_string())?;
    Ok(layers.merge().expect("it merges"))
}

/// The error of a symlinked configuration would reveal the first line of the target.
#[test]
fn a_project_cannot_link_to_another_file() {
    let link = |to: &Path, at: PathBuf| std::os::unix::fs::symlink(to, at).expect("a link");
    let file = |project: &Path| project.join(".sinew/config.toml");
    let outside = added(|project, other| link(&other.join("config.toml"), file(project)));
    let inside = added(|project, _| link(&project.join("x.toml"), file(project)));
    let folder = added(|project, other| {
        fs::remove_dir(project.join(".sinew")).expect("it goes");
        link(other, project.join(".sinew"));
    });
    for refused in [outside, inside, folder] {
        let error = refused.expect_err("a link");
        assert!(error.contains("may not be reached by a link"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn a_project_without_a_file_has_none_and_an_odd_one_does_not_block() {
    assert!(added(|_, _| ()).is_ok(), "no file");
    let no_folder = |project: &Path, _: &Path| {
        fs::remove_dir(project.join(".sinew")).expect("it goes");
        fs::write(project.join(".sinew"), "").expect("a file");
    };
    assert!(added(no_folder).is_ok(), "a file in place of the directory");
    let fifo = |project: &Path, _: &Path| {
        let path = project.join(".sinew/config.toml");
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, mode, 0).expect("a FIFO");
    };
    assert!(added(fifo).expect_err("a FIFO").contains("not a regular file"));
    let large = |project: &Path, _: &Path| {
        let path = project.join(".sinew/config.toml");
        fs::File::create(path).and_then(|file| file.set_len(2 << 20)).expect("a file");
    };
    assert!(added(large).expect_err("a large file").contains("larger than 1024 KiB"));
}

#[test]
fn values_remember_where_they_came_from() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("c.toml");
    fs::write(&file, "log = \"info\"\n\n[files]\n# why\nsync = \"full\"\n").expect("a file");
    let mut layers = Layers::with_defaults().expect("defaults");
    layers.add_file(&file, Layer::User, true).expect("it reads");
    layers.set("dialect", json!("moltis"), Origin::Flag("--dialect"));
    let layered = layers.merge().expect("it merges");
    let origin = |key: &str| layered.origins[key].1.to_string();
    assert_eq!(origin("files.sync"), format!("{}:5", file.display()));
    assert_eq!(origin("log"), format!("{}:1", file.display()));
    assert_eq!(origin("dialect"), "flag --dialect");
    assert_eq!(origin("files.resolver"), "default");
}

const LOOSE: Source = Source { layer: Layer::User, restriction: Restriction::None };
const STRICT: Source = Source { layer: Layer::Project, restriction: Restriction::ProjectFile };

/// Valid and invalid configuration lines.
const LINES: &[&str] = &[
    "read_only = true",
    "read_only = false",
    "approvals = \"allow\"",
    "approvals = \"deny\"",
    "approvals = \"trust-client\"",
    "roots = [\"/\"]",
    "serve = [\"all\"]",
    "serve = [\"*\"]",
    "serve = [\"Read\"]",
    "dialect = \"moltis\"",
    "dialect = \"native\"",
    "approval_timeout_s = 99999",
    "log = \"error\"",
    "profile = \"full\"",
    "run.network = true",
    "run.caches = \"project\"",
    "run.sandbox = \"none\"",
    "run.require_sandbox = \"none\"",
    "run.env = [\"SECRET\"]",
    "run.show = [\"/\"]",
    "run.unprotected = [\".git/hooks/\"]",
    "rules = [{ verdict = \"allow\", tools = [\"*\"] }]",
    "checkpoints.max_count = 1",
    "managed.approvals = \"allow\"",
    "mcp.trust_arguments = true",
    "tools.fs.checkpoint_before_mutation = true",
    "tools.fs.context_window_tokens = 9999999",
    "tools.fs.max_read_bytes = 999999999999",
    "tools.fs.binary_policy = \"base64\"",
    "tools.fs.respect_gitignore = false",
    "tools.fs.workspace_root = \"/\"",
    "tools.policy.allow = [\"*\"]",
    "files.search_timeout_ms = 9999999",
    "files.resolver = \"auto\"",
    "ledger.sync = \"normal\"",
    "mcp.max_line_bytes = 999999999999",
    "session = \"s\"",
    "files.glob_limit = 5000",
    "files.sync = \"off\"",
    "files.hard_links = \"in_place\"",
    "tools.fs.deny_paths = []",
    "tools.fs.allow_paths = [\"/**\"]",
    "ledger.mode = \"off\"",
    "tools.fs.require_approval = false",
    "tools.fs.track_reads = false",
    "tools.fs.must_read_before_write = false",
    "tools.policy.deny = []",
    "mcp.max_line_bytes = 1",
    "[files]",
    "[tools.fs]",
    "[[tools]]",
    "x = ",
    "\u{0}",
    "\"a\" . b = 1",
    "= 1",
    "[",
];

proptest! {
    #[test]
    fn any_text_is_a_configuration_or_an_error_with_its_place(text in "(?s).{0,200}") {
        let mut layers = Layers::with_defaults().expect("defaults");
        let added = layers.add_toml(&text, Path::new("/c.toml"), |_| Origin::Default, LOOSE);
        if let Err(error) = added {
            prop_assert!(error.to_string().starts_with("/c.toml: "), "{error}");
        }
    }

    /// No project file makes any value less strict.
    #[test]
    fn no_project_loosens(lines in prop::collection::vec(prop::sample::select(LINES), 0..6)) {
        let mut layers = Layers::with_defaults().expect("defaults");
        for strict in [
            "read_only = true", "approvals = \"ask\"", "roots = [\"/a\"]", "files.glob_limit = 7",
            "files.sync = \"full\"", "tools.fs.deny_paths = [\"/d\"]",
            "tools.fs.allow_paths = [\"/a/**\"]", "tools.policy.deny = [\"Write\"]",
            "tools.fs.track_reads = true", "tools.fs.must_read_before_write = true",
            "tools.fs.require_approval = true", "tools.policy.allow = [\"Read\"]",
            "profile = \"workspace\"", "run.require_sandbox = \"landlock\"",
            "tools.fs.checkpoint_before_mutation = false",
            "files.resolver = \"walk\"", "ledger.sync = \"full\"", "log = \"warn\"",
        ] {
            layers.set_written(strict, Origin::Default).expect("a value");
        }
        let text = lines.join("\n");
        let origin = |_: Option<usize>| Origin::Default;
        let added = layers.add_toml(&text, Path::new("/c.toml"), origin, STRICT);
        if added.is_err() {
            return Ok(());
        }
        let merged = layers.merge().expect("it merges").options;
        let value = serde_json::to_value(&merged).expect("JSON");
        let at = |place: &str| value.pointer(place).cloned().unwrap_or_default();
        prop_assert_eq!(at("/read_only"), json!(true));
        prop_assert_ne!(at("/approvals"), json!("allow"));
        prop_assert_ne!(at("/approvals"), json!("trust-client"));
        prop_assert_eq!(at("/profile"), json!("workspace"));
        prop_assert_eq!(at("/run/network"), json!(false));
        prop_assert_eq!(at("/run/sandbox"), json!("auto"));
        prop_assert_eq!(at("/run/require_sandbox"), json!("landlock"));
        prop_assert_eq!(at("/run/env"), json!([]));
        prop_assert_eq!(at("/run/show"), Value::Null);
        prop_assert_eq!(at("/run/unprotected"), Value::Null);
        prop_assert_eq!(at("/rules"), Value::Null);
        prop_assert_eq!(at("/checkpoints/max_count"), json!(10_000));
        prop_assert_eq!(at("/tools/fs/checkpoint_before_mutation"), json!(false));
        prop_assert_eq!(at("/managed"), Value::Null);
        prop_assert_eq!(at("/mcp/trust_arguments"), Value::Null);
        prop_assert_eq!(at("/roots"), json!(["/a"]));
        prop_assert_eq!(at("/files/glob_limit"), json!(7));
        prop_assert_eq!(at("/files/sync"), json!("full"));
        prop_assert_eq!(at("/files/hard_links"), json!("refuse"));
        prop_assert_eq!(at("/tools/fs/deny_paths/0"), json!("/d"));
        prop_assert_eq!(at("/tools/fs/allow_paths"), json!(["/a/**"]));
        prop_assert_eq!(at("/tools/fs/require_approval"), json!(true));
        prop_assert_eq!(at("/tools/fs/track_reads"), json!(true));
        prop_assert_eq!(at("/tools/fs/must_read_before_write"), json!(true));
        prop_assert_eq!(at("/tools/policy/deny/0"), json!("Write"));
        prop_assert_eq!(at("/ledger/mode"), json!("sqlite"));
        prop_assert_eq!(at("/ledger/sync"), json!("full"));
        prop_assert_eq!(at("/log"), json!("warn"));
        prop_assert_eq!(at("/session"), Value::Null);
        prop_assert_eq!(at("/dialect"), json!("native"));
        prop_assert!([Value::Null, json!(["Read"])].contains(&at("/serve")));
        prop_assert_eq!(at("/approval_timeout_s"), Value::Null);
        prop_assert_eq!(at("/files/search_timeout_ms"), Value::Null);
        prop_assert_eq!(at("/files/resolver"), json!("walk"));
        prop_assert_eq!(at("/tools/fs/context_window_tokens"), Value::Null);
        prop_assert_eq!(at("/tools/fs/max_read_bytes"), Value::Null);
        prop_assert_eq!(at("/tools/fs/binary_policy"), json!("reject"));
        prop_assert_eq!(at("/tools/fs/respect_gitignore"), json!(true));
        prop_assert_eq!(at("/tools/fs/workspace_root"), Value::Null);
        prop_assert_eq!(at("/tools/policy/allow"), json!(["Read"]));
        prop_assert!(at("/mcp/max_line_bytes").as_u64() <= Some(8 << 20));
    }
}
