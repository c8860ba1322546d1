//! The machine that clients are set up on: directories of the user, programs in PATH, and the running executable.
#![expect(clippy::disallowed_methods, reason = "looks for clients where they are installed")]

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};

use super::base::{At, Base};
use super::clients::{ClientRow, NAME};
use super::error::SetupError;
use crate::config::env_vars;
use crate::wiring::{self, Places};

/// The longest that a client's command may take.
const MAX_RUN: Duration = Duration::from_secs(60);
/// The most bytes of its output that are read.
const MAX_SAID: usize = 64 << 10;
/// The time between looks at it.
const PAUSE: Duration = Duration::from_millis(20);

/// The machine.
#[derive(Debug)]
pub(super) struct Host {
    home: PathBuf,
    /// The current directory.
    pub(super) project: PathBuf,
    /// The path of this program, as files name it.
    pub(super) program: String,
    /// The directory of records.
    pub(super) state: PathBuf,
}

impl Host {
    pub(super) fn of_process() -> Result<Self, SetupError> {
        let places = Places::of_process();
        let home = env_vars::home().or_else(|| places.database.known().map(Path::to_owned));
        let home = home.ok_or(SetupError::NoPlace(env_vars::HOME))?;
        let state = places.state().ok_or(SetupError::NoPlace(env_vars::XDG_STATE_HOME))?;
        let io = |error| SetupError::Io { path: PathBuf::from("."), error };
        let project = wiring::current_dir().map_err(|error| io(std::io::Error::other(error)))?;
        let program = std::env::current_exe().map_err(io)?;
        let program = linked(&program, &project).unwrap_or(program);
        let program = program
            .into_os_string()
            .into_string()
            .map_err(|path| SetupError::Program(path.into()))?;
        Ok(Self { home, project, program, state })
    }

    /// Returns the path of a file or directory.
    pub(super) fn path(&self, At(base, below): At) -> PathBuf {
        let named = |variable, usual| {
            env_vars::client_directory(variable).unwrap_or_else(|| self.home.join(usual))
        };
        let base = match base {
            Base::Home => self.home.clone(),
            Base::Config => env_vars::config_home().unwrap_or_else(|| self.home.join(".config")),
            Base::Claude => named(env_vars::CLAUDE_CONFIG_DIR, ".claude"),
            Base::ClaudeState => named(env_vars::CLAUDE_CONFIG_DIR, ""),
            Base::Codex => named(env_vars::CODEX_HOME, ".codex"),
            Base::Gemini => named(env_vars::GEMINI_CLI_HOME, "").join(".gemini"),
            Base::Project => self.project.clone(),
        };
        match below {
            "" => base,
            below => base.join(below),
        }
    }

    /// Returns a path with `~` for the home directory.
    pub(super) fn shown(&self, path: &Path) -> String {
        match path.strip_prefix(&self.home) {
            Ok(below) => sinew_tool::shown_path(&Path::new("~").join(below)),
            Err(_) => sinew_tool::shown_path(path),
        }
    }

    /// Returns the file of the server: the first that exists, else the last.
    pub(super) fn file(&self, client: &ClientRow) -> PathBuf {
        let mut files = client.files.iter().map(|file| self.path(*file));
        let found = files.clone().find(|file| file.symlink_metadata().is_ok());
        found.or_else(|| files.next_back()).unwrap_or_default()
    }

    /// Returns whether a client is installed.
    pub(super) fn has(&self, client: &ClientRow) -> bool {
        client.programs.iter().any(|program| env_vars::has_program(program))
            || client.dirs.iter().any(|dir| self.path(*dir).is_dir())
    }

    /// Returns why the path of this program should not be registered.
    pub(super) fn doubt(&self) -> Option<&'static str> {
        let named = Path::new(&self.program);
        let real = std::fs::canonicalize(named).unwrap_or_default();
        let programs = [named, &real];
        let temporary = [std::env::temp_dir(), PathBuf::from("/tmp"), PathBuf::from("/var/tmp")];
        let is_built =
            |program: &&Path| program.parent().is_some_and(|dir| dir.join(".cargo-lock").exists());
        if programs.iter().any(is_built) {
            return Some("it is in a build directory of Cargo, which the next build replaces");
        }
        temporary
            .iter()
            .any(|dir| programs.iter().any(|program| program.starts_with(dir)))
            .then_some("it is in a temporary directory, which is emptied")
    }

    /// Returns the first number of a client's version.
    pub(super) fn major(&self, client: &ClientRow) -> Option<u64> {
        let program = client.programs.iter().find(|program| env_vars::has_program(program))?;
        let said = run(&[program, "--version"]).ok()?;
        let words = said.split_whitespace();
        let versions = words.filter_map(|word| word.trim_start_matches('v').split_once('.'));
        versions.filter_map(|(major, _)| major.parse().ok()).next()
    }
}

/// Returns the path in PATH that leads to a program: an update replaces a link, and removes the old target. A path in the
/// project is skipped, since the content of a repository could replace it.
fn linked(program: &Path, project: &Path) -> Option<PathBuf> {
    let paths = env_vars::path();
    let dirs = std::env::split_paths(&paths).filter(|dir| dir.is_absolute());
    let mut paths = dirs.filter(|dir| !dir.starts_with(project)).map(|dir| dir.join(NAME));
    let real = std::fs::canonicalize(program).ok()?;
    paths.find(|path| std::fs::canonicalize(path).is_ok_and(|found| found == real))
}

/// Runs a command of a client without input, and returns its output; an error is what it said.
pub(super) fn run(words: &[&str]) -> Result<String, String> {
    run_within(words, MAX_RUN)
}

fn run_within(words: &[&str], limit: Duration) -> Result<String, String> {
    let Some((program, args)) = words.split_first() else { return Err(String::new()) };
    // A pipe would block a command that says much, and stays open while a process that it left holds it.
    let (output, errors) = (memory_file()?, memory_file()?);
    let copy = |file: &File| file.try_clone().map_err(|error| error.to_string());
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(copy(&output)?).stderr(copy(&errors)?);
    // A process group of its own, so that the limit ends what it started too.
    let mut child = command.process_group(0).spawn().map_err(|error| error.to_string())?;
    let started = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if limit < started.elapsed() => {
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                let _ = child.wait();
                return Err(format!("it did not end within {} seconds", limit.as_secs()));
            }
            None => std::thread::sleep(PAUSE),
        }
    };
    match status.success() {
        true => Ok(said(&output)),
        false => Err(match (said(&errors), status.code()) {
            (said, _) if !said.is_empty() => said,
            (_, Some(code)) => format!("exit {code}"),
            (_, None) => String::from("it was killed"),
        }),
    }
}

/// Makes a file without a name.
fn memory_file() -> Result<File, String> {
    let made = memfd_create("sinew-setup", MemfdFlags::CLOEXEC);
    made.map(File::from).map_err(|errno| errno.to_string())
}

/// Returns the beginning of an output.
fn said(file: &File) -> String {
    let mut bytes = vec![0; MAX_SAID];
    let n = file.read_at(&mut bytes, 0).unwrap_or_default();
    String::from_utf8_lossy(bytes.get(..n).unwrap_or_default()).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ends_without_waiting_for_leftovers() {
        let started = Instant::now();
        let shell = |script: &str, limit| run_within(&["sh", "-c", script], limit);
        let long = Duration::from_secs(30);
        assert_eq!(shell("sleep 60 & echo 1.2", long), Ok(String::from("1.2")));
        let much = shell("head -c 300000 /dev/zero | tr '\\0' x", long);
        assert_eq!(much.map(|said| said.len()), Ok(MAX_SAID));
        assert_eq!(shell("echo no >&2; exit 3", long), Err(String::from("no")));
        assert!(started.elapsed() < long, "{:?}", started.elapsed());
    }

    #[test]
    fn run_past_its_limit_kills_the_group() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("pid");
        let script = format!("sleep 300 & echo $! >{}; wait", file.display());
        let said = run_within(&["sh", "-c", &script], Duration::from_secs(1));
        assert_eq!(said, Err(String::from("it did not end within 1 seconds")));
        let pid = std::fs::read_to_string(&file).expect("the file");
        let stat = format!("/proc/{}/stat", pid.trim());
        let is_gone = || {
            let stat = std::fs::read_to_string(&stat).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        let until = Instant::now() + Duration::from_secs(20);
        while !is_gone() && Instant::now() < until {
            std::thread::sleep(PAUSE);
        }
        assert!(is_gone());
    }
}
