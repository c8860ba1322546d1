//! The command `sinew` as a process that answers one call after the other.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use crate::database;

/// Returns the command in an environment of its own, the user database included: nothing of the person who runs
/// the tests.
pub(crate) fn command(home: &Path) -> Command {
    database::lay_out(home);
    let mut command = database::at_home(home, database::SINEW);
    command
        .env_clear()
        .env("HOME", home)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env("XDG_STATE_HOME", home.join("state"))
        .current_dir(home);
    command
}

/// A home and an empty root for the command, which vanish with their test.
pub(crate) struct Place {
    _dir: tempfile::TempDir,
    pub(crate) home: PathBuf,
    pub(crate) root: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::within(&std::env::temp_dir())
    }

    /// Makes a place where commands see its home: they have directories for temporary files of their own.
    pub(crate) fn seen_by_commands() -> Self {
        Self::within(&std::env::home_dir().unwrap())
    }

    fn within(dir: &Path) -> Self {
        let dir = tempfile::tempdir_in(dir).unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let (home, root) = (top.join("home"), top.join("ws"));
        fs::create_dir(&home).unwrap();
        fs::create_dir(&root).unwrap();
        Self { _dir: dir, home, root }
    }

    /// Makes another root with the same home.
    pub(crate) fn beside(&self) -> Self {
        Self { home: self.home.clone(), ..Self::new() }
    }
}

/// A running `sinew call --batch`.
pub(crate) struct Served {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Served {
    /// Starts the command over roots; changes are allowed. No more than so many descriptors may be
    /// open in it.
    pub(crate) fn start(home: &Path, roots: &[&Path], more: &[&str], max_files: u64) -> Self {
        let mut command = command(home);
        command.args(["--approvals", "allow"]).args(more);
        for root in roots {
            command.arg("--root").arg(root);
        }
        command.args(["call", "--batch"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let limit = Rlimit { current: Some(max_files), maximum: Some(max_files) };
        prlimit(Pid::from_raw(child.id().cast_signed()), Resource::Nofile, limit).unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    /// Calls a tool and returns the result object.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let line = json!({ "name": tool, "arguments": arguments });
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{tool}: {error}: {line:?}"))
    }

    /// Returns the most memory that the process ever had, in MiB.
    pub(crate) fn peak_mib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        kib.div_ceil(1_024)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.input.take());
        let ended = self.child.wait();
        if !std::thread::panicking() {
            assert!(ended.unwrap().success());
        }
    }
}
