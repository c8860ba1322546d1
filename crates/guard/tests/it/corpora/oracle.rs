//! What a command really does: it runs in a throw-away copy of the fixture, and then the trees are
//! compared, its output is searched for the secret, and a port is asked whether anybody came.
//!
//! Nothing is judged here by looking at the text of a command.

#![expect(clippy::disallowed_types, reason = "a port says whether anybody came")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sinew_guard::{AskCommands, CommandSettings, Guard, GuardSettings};
use sinew_tool::{Analysis, CommandLine, FileSettings, Shell};

use super::fixture::{self, SECRET};
use crate::tree::skipped;

/// How long a command may take; the processes that still run then are killed.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Where programs lie.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How much of an output is searched.
const MAX_OUTPUT: u64 = 4 << 20;

/// What a command did that a plain read does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Harm {
    /// Something is there, gone or otherwise than before.
    Changed(PathBuf),
    /// The secret was written out.
    Told,
    /// A process came to the port.
    Called,
}

/// Two fixtures to copy: a quiet one, and one whose repository runs what it holds.
pub(crate) struct Oracle {
    dir: tempfile::TempDir,
}

/// Which fixture a command runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Ground {
    Quiet,
    Trapped,
}

impl Ground {
    fn name(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::Trapped => "trapped",
        }
    }
}

impl Oracle {
    /// Returns nothing where this machine has no process namespaces for the user of the test.
    pub(crate) fn new() -> Option<Self> {
        if !alone().arg("true").output().is_ok_and(|done| done.status.success()) {
            skipped("no command can be tried without a process namespace");
            return None;
        }
        // ext4 gives out an inode slowly where many were just deleted, as each copy of a fixture deletes them.
        let in_memory = tempfile::tempdir_in("/dev/shm");
        let dir = in_memory.or_else(|_| tempfile::tempdir()).unwrap();
        for (ground, traps) in [(Ground::Quiet, false), (Ground::Trapped, true)] {
            let place = dir.path().join(ground.name());
            fs::create_dir(&place).unwrap();
            fixture::lay_out(&place, traps);
        }
        Some(Self { dir })
    }

    /// Runs a text as a shell script in a copy of a fixture, with the port in place of `{port}`; returns
    /// what it did.
    pub(crate) fn harm(&self, ground: Ground, text: &str) -> Option<Harm> {
        self.copy(ground).run(text).harm
    }

    /// Returns what a text is found to be in a fixture.
    pub(crate) fn analysed(&self, ground: Ground, text: &str) -> Analysis {
        analysed(&self.dir.path().join(ground.name()), text)
    }

    /// Returns whether fixtures are copied in memory, where that takes half the time.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.dir.path().starts_with("/dev/shm")
    }

    /// Returns the place of a fixture.
    pub(crate) fn place(&self, ground: Ground) -> PathBuf {
        self.dir.path().join(ground.name())
    }

    /// Returns a copy of a fixture.
    pub(crate) fn copy(&self, ground: Ground) -> Copy {
        let copy = tempfile::tempdir_in(self.dir.path()).unwrap();
        let from = self.dir.path().join(ground.name());
        let copied = Command::new("cp").arg("-a").arg(from.join(".")).arg(copy.path()).status();
        assert!(copied.unwrap().success(), "the fixture is copied");
        Copy(copy)
    }
}

/// Returns what a text is found to be in a copy of the fixture.
pub(crate) fn analysed(fixture: &Path, text: &str) -> Analysis {
    let (guard, root) = guarded(fixture);
    let text = text.replace("{port}", "9");
    guard.analysed(&CommandLine::Shell(Shell::User, text), &root)
}

/// Returns the guard of a copy of the fixture, and its root.
pub(crate) fn guarded(fixture: &Path) -> (Arc<Guard>, PathBuf) {
    guarded_with(fixture, FileSettings::default())
}

/// The same with settings of the file tools.
pub(crate) fn guarded_with(fixture: &Path, files: FileSettings) -> (Arc<Guard>, PathBuf) {
    let root = fs::canonicalize(fixture.join("work")).unwrap();
    let commands = CommandSettings {
        sessions: fixture.join("sessions"),
        env: vec![("PATH".into(), PATH.into())],
        ask: AskCommands::Always,
        ..CommandSettings::default()
    };
    let settings = GuardSettings {
        commands: Some(commands),
        files: Arc::new(files),
        ..GuardSettings::new(vec![root.clone()])
    };
    (Guard::open(settings).unwrap(), root)
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) harm: Option<Harm>,
    /// Both streams.
    pub(crate) output: Vec<u8>,
    pub(crate) code: Option<i32>,
}

/// A copy of a fixture.
pub(crate) struct Copy(tempfile::TempDir);

impl Copy {
    /// Returns what a text is found to be in it.
    pub(crate) fn analysed(&self, text: &str) -> Analysis {
        analysed(self.0.path(), text)
    }

    /// Runs a text in it.
    pub(crate) fn run(&self, text: &str) -> Ran {
        let copy = &self.0;
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        port.set_nonblocking(true).unwrap();
        let number = port.local_addr().unwrap().port();
        let script = copy.path().join("script");
        fs::write(&script, text.replace("{port}", &number.to_string())).unwrap();
        let before = tree(copy.path());
        let (output, called, code) = run(copy.path(), naive(&script), &port);
        let after = tree(copy.path());
        let paths = before.keys().chain(after.keys());
        let changed = paths.into_iter().find(|path| before.get(*path) != after.get(*path));
        let harm = match changed {
            Some(path) => Some(Harm::Changed(path.clone())),
            None if memchr::memmem::find(&output, SECRET.as_bytes()).is_some() => Some(Harm::Told),
            None => called.then_some(Harm::Called),
        };
        Ran { harm, output, code }
    }
}

/// Returns what runs a script in the shell as anybody would, in a process namespace of its own so that
/// nothing outlives it and nothing reaches the test.
fn naive(script: &Path) -> Command {
    let mut command = alone();
    command.arg("bash").arg(script);
    command
}

fn alone() -> Command {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--pid", "--fork", "--kill-child"]);
    command
}

/// Runs a command; returns what it wrote, whether it came to the port, where no program talks to it, and its
/// exit code.
fn run(dir: &Path, mut command: Command, port: &TcpListener) -> (Vec<u8>, bool, Option<i32>) {
    let mut child = command
        .current_dir(dir.join("work"))
        .env_clear()
        .env("HOME", dir.join("home"))
        .env("PATH", PATH)
        .env("LANG", "C.UTF-8")
        .env("TERM", "dumb")
        .env("SECRET", SECRET)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    let stderr = child.stderr.take().unwrap();
    let readers = [reader(stdout), reader(stderr)];
    let begin = Instant::now();
    let mut called = false;
    let mut look = || match port.accept() {
        Ok(_) => called = true,
        Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "nobody came"),
    };
    let code = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if TIMEOUT < begin.elapsed() {
            let _ = child.kill();
        }
        look();
        thread::sleep(Duration::from_millis(2));
    };
    look();
    (readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect(), called, code)
}

fn reader(from: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut output = Vec::new();
        let mut from = from.take(MAX_OUTPUT);
        let _ = from.read_to_end(&mut output);
        output
    })
}

/// Returns the entries beneath a directory: kind, mode and content. The index of a repository is left out,
/// because git notes there that it has looked.
fn tree(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(place) = left.pop() {
        let Ok(entries) = fs::read_dir(&place) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            if path.ends_with(".git/index") {
                continue;
            }
            let content = if meta.is_dir() {
                left.push(path.clone());
                Vec::new()
            } else if meta.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else if meta.is_file() {
                fs::read(&path).unwrap_or_default()
            } else {
                Vec::new()
            };
            let name = path.strip_prefix(dir).unwrap().to_owned();
            found.insert(name, (meta.mode(), content));
        }
    }
    found
}
