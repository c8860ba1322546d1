//! Checks whether `sinew mcp` starts from clients' configuration files, and reports why not.
//!
//! A server has its own rules for HOME, the state directory and options. So the check runs this program with
//! `--check`, as a client's process without a terminal; it loads and builds a server, then exits.
//!
//! A repository may write client files. So the check uses only arguments that parse as `sinew mcp` and
//! variables that sinew reads, and runs only this program.
#![expect(
    clippy::disallowed_methods,
    reason = "the server is this program, and the files of clients are read here"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::cli;
use crate::client_start::{self, Start};
use crate::config::clients;
use crate::wiring::Loaded;

/// The time-out of one check.
const MAX_WAIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(2);
/// The limit of servers started for one file.
const MAX_SERVERS: usize = 16;
/// The limit of stderr bytes kept.
const MAX_SAID: u64 = 64 * 1024;
/// The size limit of a client's file.
const MAX_BYTES: u64 = 1 << 20;

/// The findings about servers.
#[derive(Debug, Default)]
pub(super) struct Servers {
    /// Why some do not start.
    pub(super) stopped: Vec<String>,
    /// Why others could not be checked.
    pub(super) notes: Vec<String>,
}

/// Checks the server with this process's options, and returns why it does not start.
pub(super) fn own(loaded: &Loaded) -> Option<String> {
    let why = match as_server(&loaded.said.arguments) {
        Some(words) => refusal(&words, &BTreeMap::new(), &loaded.said.current)?,
        None => String::from("its arguments could not be made out of those of `sinew doctor`"),
    };
    Some(format!("`sinew mcp` does not start here: {why}"))
}

/// Returns server arguments with the options of `sinew doctor`. Since `doctor` can also be an option's value,
/// it replaces the one that makes the line a server's.
fn as_server(doctor: &[OsString]) -> Option<Vec<OsString>> {
    let places = doctor.iter().enumerate().filter(|(_, word)| *word == "doctor");
    places.map(|(at, _)| at).find_map(|at| {
        let words = doctor.iter().enumerate().filter(|(_, word)| *word != "--json");
        let server = |(n, word): (usize, &OsString)| match n == at {
            true => OsString::from("mcp"),
            false => word.clone(),
        };
        let words: Vec<OsString> = words.map(server).collect();
        let cli = client_start::parsed(words.iter().cloned()).ok()?;
        matches!(cli.command, cli::Command::Mcp(_)).then_some(words)
    })
}

/// Checks each sinew server in the project's client files.
pub(super) fn of_clients(loaded: &Loaded) -> Servers {
    let project = loaded.roots.first().unwrap_or(&loaded.said.current);
    let mut found = Servers::default();
    for file in clients::FILES {
        let Some(text) = read(&project.join(file)) else { continue };
        let servers = match clients::servers(Path::new(file), &text) {
            Ok(servers) => servers,
            Err(error) => {
                let error = error.trim_end();
                found.stopped.push(format!("{file}: {error}; its client starts no server"));
                continue;
            }
        };
        let started =
            servers.iter().filter_map(|server| Some((server, Start::of(server, project)?)));
        for (server, start) in started.take(MAX_SERVERS) {
            match verdict(&start) {
                Verdict::Starts => {}
                Verdict::Stopped(why) => found
                    .stopped
                    .push(format!("{file}: the server `{}` does not start: {why}", server.name)),
                Verdict::Unknown(value) => found.notes.push(format!(
                    "{file}: the server `{}` is not checked: only its client can expand `{value}`",
                    server.name
                )),
            }
        }
    }
    found
}

/// The result for one client entry.
enum Verdict {
    Starts,
    Stopped(String),
    /// It depends on this value, which only the client knows.
    Unknown(String),
}

fn verdict(start: &Start) -> Verdict {
    let words: Vec<OsString> = start.words.iter().map(OsString::from).collect();
    let parsed = client_start::parsed(words.iter().cloned());
    let is_meant = match &parsed {
        Ok(cli) => matches!(cli.command, cli::Command::Mcp(_)),
        Err(error) => error.use_stderr() && words.iter().any(|word| word == "mcp"),
    };
    if !is_meant {
        return Verdict::Starts;
    }
    let variables = variables(start);
    let current = start.current.to_string_lossy();
    let values = start.words.iter().chain(variables.values()).map(String::as_str);
    if let Some(value) = values.chain([&*current]).find(|value| value.contains("${")) {
        return Verdict::Unknown(value.to_owned());
    }
    if let Err(error) = parsed {
        let text = error.render().to_string();
        let first = text.split("\n\n").next().unwrap_or_default();
        return Verdict::Stopped(first.trim_start_matches("error: ").trim_end().to_owned());
    }
    if !start.current.is_dir() {
        return Verdict::Stopped(format!("its directory does not exist: {current}"));
    }
    refusal(&words, &variables, &start.current).map_or(Verdict::Starts, Verdict::Stopped)
}

/// Returns a server's variables that sinew reads.
fn variables(start: &Start) -> BTreeMap<String, String> {
    let is_read =
        |name: &str| name == "HOME" || name.starts_with("XDG_") || name.starts_with("SINEW_");
    let variables = start.variables.iter().filter(|(name, _)| is_read(name));
    variables.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn read(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok()?;
    (meta.is_file() && meta.len() <= MAX_BYTES).then(|| std::fs::read_to_string(path).ok())?
}

/// Runs this program to check a server, and returns the error if the server would fail.
/// The arguments must parse as `sinew mcp`.
fn refusal(
    words: &[OsString],
    variables: &BTreeMap<String, String>,
    current: &Path,
) -> Option<String> {
    let failed = |error: std::io::Error| Some(format!("it cannot be run: {error}"));
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return failed(error),
    };
    let mut command = Command::new(program);
    // `sinew mcp` takes only options, so `--` can only be last.
    let words = words.iter().filter(|word| *word != "--");
    command.args(words).arg("--check").envs(variables).current_dir(current);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return failed(error),
    };
    let said = child.stderr.take().map(|errors| {
        std::thread::spawn(move || {
            let mut said = Vec::new();
            let mut errors = errors;
            let _ = errors.by_ref().take(MAX_SAID).read_to_end(&mut said);
            // Drain the rest, so that the server never blocks on a full pipe.
            let _ = std::io::copy(&mut errors, &mut std::io::sink());
            said
        })
    });
    let end = Instant::now() + MAX_WAIT;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < end => std::thread::sleep(PAUSE),
            Ok(None) | Err(_) => break None,
        }
    };
    if status.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let said = said.and_then(|said| said.join().ok()).unwrap_or_default();
    match status {
        Some(status) if status.success() => None,
        Some(status) => {
            let why = last_message(&String::from_utf8_lossy(&said));
            Some(if why.is_empty() {
                format!("it ended with {status} and said nothing")
            } else {
                why
            })
        }
        None => Some(format!("it did not end within {} seconds without input", MAX_WAIT.as_secs())),
    }
}

/// Returns the last message, which is the reason that the process ended.
fn last_message(said: &str) -> String {
    let at = said.rfind("\nsinew: ").map_or(0, |at| at + 1);
    let last = said.get(at..).unwrap_or_default();
    last.trim_start_matches("sinew: ").trim_end().to_owned()
}
