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
pub(crate) fn skipped(test: &str, why: &str) {
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
    // Elsewhere commands ask, since no sandbox or no undo covers them.
    if !sandbox_runs_unasked() {
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

/// Where no sandbox makes commands run unasked, the call of the example waits for an answer that it does not give.
#[test]
fn python_runs_a_command_in_ten_lines() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skipped("python_runs_a_command_in_ten_lines", "no python3");
    }
    let code = std::fs::read_to_string(example("bash.py")).unwrap();
    let (_, code) = code.split_once("import sys\n\n").unwrap();
    assert!(code.lines().count() <= 10, "{code}");
    let home = tempfile::tempdir().unwrap();
    let project = tempfile::tempdir().unwrap();
    std::fs::write(project.path().join("notes"), "").unwrap();
    let mut python = at_home(home.path(), "python3");
    python.arg(example("bash.py")).args([Path::new(SINEW), project.path()]);
    if !sandbox_runs_unasked() {
        return skipped("python_runs_a_command_in_ten_lines", "no namespaces");
    }
    checked(&mut python);
    let listed = std::fs::read_to_string(project.path().join("files.txt")).unwrap();
    assert!(listed.contains("notes\n"), "{listed}");
}

fn sandbox_runs_unasked() -> bool {
    let said = Command::new(built("commands")).output().unwrap().stdout;
    String::from_utf8_lossy(&said).contains("sandbox level: namespaces\n")
}

#[test]
fn rust_runs_a_command_in_ten_lines() {
    for page in ["README.md", "docs/embedding.md"] {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
        let text = std::fs::read_to_string(&page).unwrap();
        let code = text.split("```").find(|block| block.contains("fn main()")).unwrap();
        let code = code.split("fn main()").nth(1).unwrap();
        assert!(code.contains("\"Bash\"") && code.lines().count() <= 10, "{code}");
    }
}
