//! The machine that clients are set up on: directories of the user, programs in PATH, and the running executable.
#![expect(clippy::disallowed_methods, reason = "looks for clients where they are installed")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::base::{At, Base};
use super::clients::ClientRow;
use super::error::SetupError;
use crate::config::env_vars;
use crate::wiring::{self, Places};

/// The longest that a client's command may take.
const MAX_RUN: Duration = Duration::from_secs(60);
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
        let program = Path::new(&self.program);
        let temporary = [std::env::temp_dir(), PathBuf::from("/tmp"), PathBuf::from("/var/tmp")];
        if program.parent().is_some_and(|dir| dir.join(".cargo-lock").exists()) {
            return Some("it is in a build directory of Cargo, which the next build replaces");
        }
        temporary
            .iter()
            .any(|dir| program.starts_with(dir))
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

/// Runs a command of a client without input, and returns its output; an error is what it said.
pub(super) fn run(words: &[&str]) -> Result<String, String> {
    let Some((program, args)) = words.split_first() else { return Err(String::new()) };
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let started = Instant::now();
    // Such a command says less than a pipe holds.
    while let Ok(None) = child.try_wait() {
        if MAX_RUN < started.elapsed() {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("it did not end within {} seconds", MAX_RUN.as_secs()));
        }
        std::thread::sleep(PAUSE);
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(match (text(&output.stderr), output.status.code()) {
            (said, _) if !said.is_empty() => said,
            (_, Some(code)) => format!("exit {code}"),
            (_, None) => String::from("it was killed"),
        }),
    }
}
