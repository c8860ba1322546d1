//! The examples of the library, each run as a user runs it.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

use crate::database::{SINEW, at_home};

/// Runs an example and returns its output.
#[track_caller]
fn check(name: &str) -> String {
    checked(Command::new(built(name)).stdin(Stdio::null()))
}

#[track_caller]
fn checked(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout
}

/// Returns the program of an example. `cargo test` builds it beside this test; `cargo test --test` does not.
fn built(name: &str) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    let own = std::env::current_exe().unwrap();
    let built = own.ancestors().nth(2).unwrap();
    let program = built.join("examples").join(name);
    if changed_at(&program) < changed_at(&example(&format!("{name}.rs"))) {
        BUILT.get_or_init(|| {
            let profile = built.file_name().unwrap();
            let profile = if profile == "debug" { OsStr::new("test") } else { profile };
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "--quiet", "--package", "sinew", "--examples", "--profile"]);
            checked(cargo.arg(profile).current_dir(env!("CARGO_MANIFEST_DIR")));
        });
    }
    program
}

fn changed_at(path: &Path) -> SystemTime {
    path.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn example(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(file)
}

/// Says past the capture of the harness that a test is skipped.
#[track_caller]
fn skipped(test: &str, why: &str) {
    assert!(std::env::var_os("SINEW_TEST_ALL").is_none(), "{test}: {why}");
    std::io::stderr().write_all(format!("SKIPPED {test}: {why}\n").as_bytes()).unwrap();
}

#[test]
fn embed_writes_reads_and_undoes() {
    let said = check("embed");
    assert_eq!(said.matches("recorded: ").count(), 4, "{said}");
}

#[test]
fn custom_tools_look_unasked_and_act_asked() {
    let said = check("custom_tool");
    assert!(said.contains("Population: 717710\n"), "{said}");
    assert!(said.contains("Book: approval_denied: "), "{said}");
}

#[test]
fn approver_answers_by_policy_without_a_terminal() {
    let said = check("approver");
    assert!(said.contains("notes.md: Ok(") && said.contains("run.sh: Err("), "{said}");
    assert!(said.contains("only Markdown may be written here"), "{said}");
}

#[test]
fn commands_run_in_the_sandbox() {
    let mut command = Command::new(built("commands"));
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    // Elsewhere commands ask, since no sandbox or no undo covers them.
    if !said.contains("sandbox level: namespaces\n") {
        return skipped("commands_run_in_the_sandbox", "no namespaces");
    }
    let said = checked(&mut command);
    assert!(said.contains("$ sort list\na\nb\n"), "{said}");
}

#[test]
fn hook_blocks_and_rewrites() {
    let said = check("hook");
    assert!(said.contains("app.lock is generated"), "{said}");
}

#[test]
fn python_drives_the_pipe() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skipped("python_drives_the_pipe", "no python3");
    }
    let home = tempfile::tempdir().unwrap();
    let mut python = at_home(home.path(), "python3");
    let said = checked(python.arg(example("pipe.py")).arg(SINEW));
    assert!(said.contains("Refused: approval_denied"), "{said}");
}
