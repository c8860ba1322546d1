//! Chores of the project: `cargo xtask NAME`.
//!
//! A chore is one line of [`CHORES`] and one function; the recipes of the `justfile` carry the same
//! names. Chores call `cargo` and read the tree; nothing here is part of what users install, so the
//! bans on ambient authority do not hold.

#![expect(
    clippy::disallowed_methods,
    reason = "chores work on the tree and start cargo; no tool call reaches them"
)]

mod bench;
mod dist;
mod tidy;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

/// One command of `cargo xtask`.
struct Chore {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<()>,
}

const CHORES: &[Chore] = &[
    Chore { name: "check", about: "format, lints and tidy, changing nothing", run: check },
    Chore { name: "test", about: "every test of the workspace", run: test },
    Chore {
        name: "tidy",
        about: "the rules of the project that no compiler checks",
        run: run_tidy,
    },
    Chore { name: "circles", about: "files of a crate that import one another", run: circles },
    Chore {
        name: "words",
        about: "how often comments and pages name no actor or noun",
        run: words,
    },
    Chore { name: "fmt", about: "format every source file", run: fmt },
    Chore { name: "dist", about: "the binary that people get, and its checks", run: build_dist },
    Chore { name: "docs", about: "write the generated pages of docs anew", run: docs },
    Chore {
        name: "bench",
        about: "speed, measured beside what people would use instead",
        run: bench,
    },
    Chore {
        name: "nightly",
        about: "what takes long, or some of it: tests, deny, bombs, bench",
        run: nightly,
    },
];

/// Chores that chores start; no person does, and so no usage text and no recipe has them.
const HIDDEN: &[Chore] =
    &[Chore { name: "null-mcp", about: "the server that does nothing", run: bench::serve_null }];

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let Some(chore) = CHORES.iter().chain(HIDDEN).find(|chore| chore.name == name) else {
        eprint!("{}", usage());
        return ExitCode::from(2);
    };
    match (chore.run)(&rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> String {
    let mut text = String::from("usage: cargo xtask NAME\n\n");
    for chore in CHORES {
        text.push_str(&format!("  {:<8} {}\n", chore.name, chore.about));
    }
    text
}

fn check(args: &[String]) -> Result<()> {
    refuse(args)?;
    cargo(&["fmt", "--all", "--check"], &[])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])?;
    cargo(&[&["clippy"], EMBEDDED, &["--lib", "--", "-D", "warnings"]].concat(), &[])?;
    run_tidy(&[])
}

fn test(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bench::ripgrep(&root())?;
        return run("the tests", tests(2).args(args));
    }
    let build = ["--no-run", "--message-format", "json-render-diagnostics"];
    // Each build leaves a processor idle at times, so ripgrep is compiled beside the tests that compare with it.
    let (ripgrep, build) = std::thread::scope(|scope| {
        let ripgrep = scope.spawn(|| bench::ripgrep(&root()));
        let build = tests(2).args(build).stderr(Stdio::inherit()).current_dir(root()).output();
        (ripgrep.join(), build)
    });
    ripgrep.map_err(|_| anyhow!("the thread that compiles ripgrep ended"))??;
    let build = build?;
    if !build.status.success() {
        bail!("the build of the tests ended with {}", build.status);
    }
    // Cargo runs one program of tests after the other, and each ends with tests that wait.
    let programs = Mutex::new(programs_of(&build.stdout)?.into_iter());
    let failed = std::thread::scope(|scope| {
        let lanes = [(); N_LANES].map(|()| scope.spawn(|| run_in_turn(&programs)));
        lanes.into_iter().map(|lane| lane.join().unwrap_or(Ok(1))).sum::<Result<usize>>()
    })?;
    if 0 < failed {
        bail!("{failed} programs of tests failed");
    }
    // With `--doc` cargo would compile much again, with other features. Only these tests have a path in their names.
    run("the tests of the documentation", tests(2).args(["--quiet", "--", "src/"]))
}

/// How many programs of tests run at once.
const N_LANES: usize = 2;

/// A program of tests, and the directory of its package.
struct Program {
    name: String,
    path: PathBuf,
    package: PathBuf,
}

/// Returns the programs of tests that cargo built, by its messages: the largest, which take longest, come first.
fn programs_of(messages: &[u8]) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for line in messages.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let message: Value = serde_json::from_slice(line)?;
        let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
        let is_test = message.pointer("/profile/test") == Some(&Value::Bool(true));
        let (Some(path), true) = (text("/executable"), is_test) else { continue };
        let package = text("/manifest_path").map(Path::new).and_then(Path::parent);
        let package = package.context("a program without a package")?.to_owned();
        let source =
            text("/target/src_path").map(Path::new).context("a program without a source")?;
        let name = source.strip_prefix(root()).unwrap_or(source).display().to_string();
        let size = std::fs::metadata(path)?.len();
        programs.push((size, Program { name, path: PathBuf::from(path), package }));
    }
    if programs.is_empty() {
        bail!("cargo names no program of tests");
    }
    programs.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    Ok(programs.into_iter().map(|(_, program)| program).collect())
}

/// Runs the next program until there is none; returns how many failed.
fn run_in_turn(programs: &Mutex<std::vec::IntoIter<Program>>) -> Result<usize> {
    let mut n_failed = 0;
    loop {
        let next = programs.lock().ok().and_then(|mut programs| programs.next());
        let Some(Program { name, path, package }) = next else { return Ok(n_failed) };
        let mut program = Command::new(path);
        with_threads(&mut program, 1).current_dir(&package).env("CARGO_MANIFEST_DIR", &package);
        let done = program.output().with_context(|| format!("`{name}` does not start"))?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "     Running {name}")?;
        out.write_all(&done.stdout)?;
        out.write_all(&done.stderr)?;
        if !done.status.success() {
            writeln!(out, "{name} ended with {}", done.status)?;
            n_failed += 1;
        }
    }
}

/// Returns Cargo with the environment that it has outside of `cargo run`: the build script of `ring` depends on the
/// package named there, and would compile much anew.
pub(crate) fn cargo_command() -> Command {
    let mut cargo = Command::new("cargo");
    cargo.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH");
    cargo
}

/// Returns the command that tests the workspace.
fn tests(n_for_each: usize) -> Command {
    let mut tests = cargo_command();
    with_threads(&mut tests, n_for_each).args(["test", "--workspace"]);
    tests
}

/// Lets so many tests run at once for each processor: most of them wait for processes most of the time.
fn with_threads(tests: &mut Command, n_for_each: usize) -> &mut Command {
    if std::env::var_os(TEST_THREADS).is_none() {
        let n_cores = std::thread::available_parallelism().map_or(2, usize::from);
        tests.env(TEST_THREADS, (n_for_each * n_cores + 1).to_string());
    }
    tests
}

/// How many tests of a program run at once.
const TEST_THREADS: &str = "RUST_TEST_THREADS";

/// The library as other programs have it: a build of the workspace adds the command to it.
const EMBEDDED: &[&str] = &["--package", "sinew", "--no-default-features", "--features", "tool-fn"];

/// Builds the release that people get, and prints where it is.
fn build_dist(args: &[String]) -> Result<()> {
    refuse(args)?;
    let binary = dist::build(&root())?;
    println!("{}: {} bytes", binary.display(), std::fs::metadata(&binary)?.len());
    Ok(())
}

/// Runs the tests that hold the generated pages to the code, and lets them write.
fn docs(args: &[String]) -> Result<()> {
    refuse(args)?;
    let of_command = [
        "fidelity::a_change_damages_nothing",
        "hooks::commands::schemas_are_printed_and_checked_in",
    ];
    let runs: [(&[&str], &[&str]); 3] = [
        (&["--package", "sinew-guard", "--test", "it"], &["protected_names_have_a_page"]),
        (&["--package", "sinew-config", "--lib"], &["reference"]),
        (&["--package", "sinew", "--test", "main"], &of_command),
    ];
    for (target, tests) in runs {
        let status = cargo_command()
            .arg("test")
            .args(target)
            .arg("--")
            .args(tests)
            .env("UPDATE_GOLDEN", "1")
            .current_dir(root())
            .status()
            .context("cargo does not start")?;
        if !status.success() {
            bail!("the tests ended with {status}");
        }
    }
    Ok(())
}

fn fmt(args: &[String]) -> Result<()> {
    refuse(args)?;
    cargo(&["fmt", "--all"], &[])
}

/// Prints how often words stand in the place of an actor or a noun.
fn words(args: &[String]) -> Result<()> {
    refuse(args)?;
    print!("{}", tidy::word_rates(&root())?);
    Ok(())
}

/// Prints every circle of files, the largest first.
fn circles(args: &[String]) -> Result<()> {
    refuse(args)?;
    for circle in tidy::circles(&root())? {
        println!("{circle}");
    }
    Ok(())
}

fn run_tidy(args: &[String]) -> Result<()> {
    refuse(args)?;
    let findings = tidy::findings(&root())?;
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        n => bail!("{n} to mend"),
    }
}

fn bench(args: &[String]) -> Result<()> {
    bench::run(&root(), args)
}

/// Runs tests and measurements that take too long for every change, all or the named parts, and keeps results under
/// their date.
fn nightly(args: &[String]) -> Result<()> {
    let parts: Vec<&str> = args.iter().map(String::as_str).collect();
    if let Some(unknown) = parts.iter().find(|part| !NIGHTLY_PARTS.contains(part)) {
        bail!("no such part: `{unknown}`; parts are {}", NIGHTLY_PARTS.join(", "));
    }
    let runs = |part: &str| parts.is_empty() || parts.contains(&part);
    let date =
        Command::new("date").args(["-u", "+%F"]).output().context("`date` does not start")?;
    let date = String::from_utf8_lossy(&date.stdout).trim().to_owned();
    let results = root().join("nightly");
    std::fs::create_dir_all(&results)?;
    if runs("tests") {
        bench::ripgrep(&root())?;
        let mut tests = cargo_command();
        tests.args(["test", "--workspace"]);
        tests.env("SINEW_TEST_ROUNDS", NIGHTLY_ROUNDS).env("PROPTEST_CASES", NIGHTLY_CASES);
        run("the tests", &mut tests)?;
        // The example of the library as other programs have it: a build of the workspace adds the command to it.
        cargo(&[&["test"], EMBEDDED, &["--doc"]].concat(), &[])?;
        let program = ["run", "--locked", "--manifest-path", "tests/embedded/Cargo.toml"];
        cargo(&program, &["--target-dir", "target/embedded"].map(String::from))?;
    }
    if runs("deny") {
        let mut deny = Command::new(bench::cargo_deny(&root())?);
        run("`cargo deny`", deny.args(["check", "licenses", "sources", "bans"]))?;
    }
    for (suite, variable, value) in NIGHTLY_SUITES {
        // The others install or download packages, so they must be named.
        if parts.contains(&suite) || (suite == "bombs" && parts.is_empty()) {
            let file = results.join(format!("{suite}-{date}.txt"));
            let mut command = Command::new("tests/e2e/run");
            if ["pages", "loop"].contains(&suite) {
                // Their limits of time are those of what people get.
                command.env("SINEW_BIN", dist::build(&root())?);
            }
            command.arg(suite).env(variable, value).stdout(std::fs::File::create(&file)?);
            let done = run(&format!("the suite `{suite}`"), &mut command);
            println!("{}", file.display());
            done?;
        }
    }
    if runs("bench") {
        let file = results.join(format!("bench-{date}.json"));
        let options = ["--nightly", "--json"].map(String::from).into_iter();
        bench::run(&root(), &options.chain([file.display().to_string()]).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Runs a command in the root of the workspace.
fn run(name: &str, command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.current_dir(root()).status();
    let status = status.with_context(|| format!("`{program}` does not start"))?;
    if !status.success() {
        bail!("{name} ended with {status}");
    }
    Ok(())
}

/// What `nightly` runs, in this order.
const NIGHTLY_PARTS: [&str; 12] = [
    "tests",
    "deny",
    "bombs",
    "protected",
    "pages",
    "servers",
    "catalog",
    "tasks",
    "loop",
    "undo",
    "newcomer",
    "bench",
];
/// The suites of the night, and the variable that makes them whole. Of the bombs it says how often each case runs.
const NIGHTLY_SUITES: [(&str, &str, &str); 9] = [
    ("bombs", "SINEW_BOMB_ROUNDS", "3"),
    ("protected", "SINEW_PROTECTED_ALL", "1"),
    ("pages", "SINEW_PAGES", "1"),
    ("servers", "SINEW_SERVERS", "1"),
    ("catalog", "SINEW_CATALOG", "1"),
    ("tasks", "SINEW_TASKS", "1"),
    ("loop", "SINEW_LOOP", "1"),
    ("undo", "SINEW_UNDO", "1"),
    ("newcomer", "SINEW_NEWCOMER", "1"),
];
/// How many times as long the tests that repeat themselves (races, kills) go on at night.
const NIGHTLY_ROUNDS: &str = "10";

/// How many cases a property is tried on at night; by day, 256.
const NIGHTLY_CASES: &str = "20000";

fn refuse(args: &[String]) -> Result<()> {
    match args.first() {
        None => Ok(()),
        Some(arg) => bail!("takes no arguments: `{arg}`"),
    }
}

/// Runs cargo in the root of the workspace, with its output on the terminal.
fn cargo(args: &[&str], more: &[String]) -> Result<()> {
    let mut command = cargo_command();
    run(&format!("`cargo {}`", args.join(" ")), command.args(args).args(more))
}

/// Returns the root of the workspace.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_is_tidy() {
        let findings = tidy::findings(&root()).expect("tidy runs");
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "to mend:\n{}", lines.join("\n"));
    }

    #[test]
    fn every_chore_has_a_recipe_and_every_recipe_a_chore() {
        let justfile = std::fs::read_to_string(root().join("justfile")).expect("a justfile");
        let recipes: Vec<&str> = justfile
            .lines()
            .filter(|line| !line.starts_with([' ', '#']))
            .filter_map(|line| line.split([' ', ':']).next())
            .filter(|name| !name.is_empty())
            .collect();
        let chores: Vec<&str> = CHORES.iter().map(|chore| chore.name).collect();
        assert_eq!(recipes, chores);
        for name in chores {
            assert!(justfile.contains(&format!("    cargo xtask {name}")), "recipe of {name}");
        }
    }
}
