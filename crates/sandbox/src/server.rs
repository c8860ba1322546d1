//! Starts a server, such as an MCP server: a program in a sandbox of its own that is spoken to over pipes until it
//! ends. No server shares its sandbox, so one cannot signal another, and each has the network only if its settings
//! say so.
#![expect(clippy::disallowed_types, reason = "the guard may listen to its processes")]

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use sinew_fs::stat::identity_of;
use sinew_tool::{Exit, Kind, ToolError, line_name};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::capture::RequestedCommand;
use super::run::{not_started, on_thread, words};
use super::session::Session;
use super::wire::{self, Command, End, Refusal, Report, SpawnRequest, Unkept};
use super::{Commands, GRACE_MS, SandboxLevel, broken, no_helper};
use sinew_policy::rules::PathGlobs;

/// The variables of sinew's environment that a server gets where they are set; `LC_` variables too.
const PASSED: [&str; 9] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ"];
/// Keeps Python from importing modules from its working directory.
const SAFE_PATH: &str = "PYTHONSAFEPATH";
/// How long a server may take to exit after the end of its input.
const EXITS: Duration = Duration::from_millis(500);
/// How long its supervisor may take to stop it then.
const STOPS: Duration = Duration::from_secs(2);

/// A program to start as a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerProgram {
    /// The program, by its name in `PATH` or by path, and its arguments.
    pub argv: Vec<String>,
    /// The directory in which it starts.
    pub cwd: PathBuf,
    /// Variables beside those that every server gets.
    pub env: Vec<(String, String)>,
    /// Whether it may reach the network.
    pub network: bool,
}

/// A running server with the other ends of its streams.
#[derive(Debug)]
pub struct ServerProcess {
    /// Its standard input.
    pub stdin: OwnedFd,
    /// Its standard output.
    pub stdout: OwnedFd,
    /// Its standard error.
    pub stderr: OwnedFd,
    /// What ends it.
    pub running: RunningServer,
}

/// A running server. Dropping it kills it with all that it started.
#[derive(Debug)]
pub struct RunningServer {
    /// The socket to its supervisor.
    line: OwnedFd,
    session: Session,
}

impl RunningServer {
    /// Returns how it is contained, and the features that are missing for that.
    pub fn containment(&self) -> (SandboxLevel, Vec<String>) {
        let missing = self.session.missing.iter().map(|one| one.what.clone());
        (self.session.level, missing.collect())
    }

    /// Waits for its end and returns how it ended.
    pub async fn ended(&self) -> Exit {
        let heard = async {
            let line = net::UnixStream::from(self.line.try_clone()?);
            line.set_nonblocking(true)?;
            let line = UnixStream::from_std(line)?;
            loop {
                line.readable().await?;
                match line.try_io(Interest::READABLE, || wire::receive::<Report>(&line)) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    heard => return heard,
                }
            }
        };
        match heard.await {
            Ok(Some((Report::Ended { end: End::Code(code), .. }, _))) => Exit::Code(code),
            Ok(Some((Report::Ended { end: End::Signal(signal), .. }, _))) => Exit::Signal(signal),
            Ok(Some((Report::Failed(Refusal::Program, number), _))) => not_started(number),
            Ok(Some((Report::Failed(Refusal::Directory, number), _))) => Exit::NotStarted {
                is_missing: false,
                why: format!("its working directory cannot be entered: {}", words(number)),
            },
            Ok(Some((Report::Failed(Refusal::Containment, number), _))) => Exit::NotStarted {
                is_missing: false,
                why: format!("it could not be contained: {}", words(number)),
            },
            Ok(Some((Report::Asks(_) | Report::TakesBack, _)) | None) | Err(_) => Exit::Lost,
        }
    }

    /// Ends a server whose standard input was closed: waits a moment for its exit, then sends SIGTERM, then kills it.
    pub async fn end(self) {
        if timeout(EXITS, self.ended()).await.is_err() {
            let _ = wire::send(&self.line, &Command::Stop, &[]);
            let _ = timeout(STOPS, self.ended()).await;
        }
        // It waits for the helper and removes the files of the session.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }
}

impl Commands {
    /// Starts a server. Paths that the globs deny are denied to it too.
    pub async fn start_server(
        self: &Arc<Self>,
        program: ServerProgram,
        globs: &Arc<PathGlobs>,
    ) -> Result<ServerProcess, ToolError> {
        let (commands, globs) = (Arc::clone(self), Arc::clone(globs));
        // Opening a session waits for its helper process.
        on_thread(move || commands.started_server(&program, &globs))?.await?
    }

    fn started_server(
        &self,
        program: &ServerProgram,
        globs: &PathGlobs,
    ) -> Result<ServerProcess, ToolError> {
        let name = program.argv.first().map(String::as_str).unwrap_or_default();
        let path = self.server_program(name, &program.cwd)?;
        let identity = rustix::fs::stat(&program.cwd).map_err(|errno| {
            let cwd = line_name(&program.cwd);
            ToolError::new(Kind::FileNotFound, format!("the working directory {cwd} is missing"))
                .source(errno)
        })?;
        let helper = self.settings.helper.as_ref().ok_or_else(no_helper)?;
        // Its program and its files may be anywhere in the home directory of the person who configured it.
        let view = self.private().without_directories();
        let session =
            self.open_session(helper, globs, (program.network, &view), (None, None), None)?;
        self.warn_of(&session);
        let mut env = self.server_environment(&program.env);
        session.set_temporary_directory(&mut env);
        let order = SpawnRequest {
            program: path,
            argv: program.argv.iter().map(OsString::from).collect(),
            env,
            cwd: program.cwd.clone(),
            cwd_identity: identity_of(&identity).of_file(),
            keeps_cwd: false,
            has_terminal: false,
            timeout_ms: None,
            grace_ms: GRACE_MS,
            granted: Vec::new(),
            unkept: Unkept::Made,
            asks_outside: false,
            room: 0,
        };
        let (input, stdin) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| broken(errno.into()))?;
        let requested = session.order(&order, Some(input), false, None).map_err(broken)?;
        let RequestedCommand { line, stdout, stderr, .. } = requested;
        let stderr = stderr.ok_or_else(|| broken(ErrorKind::BrokenPipe.into()))?;
        let running = RunningServer { line, session };
        Ok(ServerProcess { stdin, stdout, stderr, running })
    }

    /// Returns the program of a server: by path, or from `PATH`, never from an environment of the project.
    fn server_program(&self, name: &str, cwd: &Path) -> Result<PathBuf, ToolError> {
        match name.contains('/') {
            true => self.program(name, cwd, "command"),
            false => self.find(name).ok_or_else(|| {
                ToolError::new(
                    Kind::FileNotFound,
                    format!("argument `command`: no such program: {name}"),
                )
                .hint("check the name; programs are looked for in PATH, outside the roots")
            }),
        }
    }

    /// Returns the environment of a server: what programs need to find their files, and what its settings name.
    fn server_environment(&self, own: &[(String, String)]) -> Vec<(OsString, OsString)> {
        let is_own = |name: &OsStr| own.iter().any(|(own, _)| name == own.as_str());
        let is_passed = |name: &OsStr| {
            PASSED.iter().any(|passed| name == *passed) || name.as_bytes().starts_with(b"LC_")
        };
        let passed = self.settings.env.iter();
        let passed = passed.filter(|(name, _)| is_passed(name) && !is_own(name)).cloned();
        // A server of Python does not import modules that lie in its working directory, the project.
        let safe_path = (OsString::from(SAFE_PATH), OsString::from("1"));
        let safe_path = Some(safe_path).filter(|(name, _)| !is_own(name));
        let own = own.iter().map(|(name, value)| (name.into(), value.into()));
        passed.chain(safe_path).chain(own).collect()
    }
}
