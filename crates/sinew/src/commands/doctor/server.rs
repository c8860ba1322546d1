//! Starts `sinew mcp` as a client does, and says why it does not start.
//!
//! A server judges what its client says by rules of its own: where HOME and the state may lie, which options
//! count. So the real one is started, without any input, and ends at once where nothing stops it.
//!
//! A file of a project names the command and its variables. Only variables that sinew reads are passed on, and
//! only this program is run.
#![expect(
    clippy::disallowed_methods,
    reason = "the server is this program, and the files of clients are read here"
)]

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::clients::{self, Server};
use crate::wiring::Loaded;

/// How long a server may take to start and end.
const MAX_WAIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(2);
/// The most servers of one file that are started.
const MAX_SERVERS: usize = 16;
/// How much of what it says is read.
const MAX_SAID: u64 = 64 * 1024;
/// The largest file of a client that is read.
const MAX_BYTES: u64 = 1 << 20;

/// Tries the server with the options of this process, and returns why it does not start.
pub(super) fn own(loaded: &Loaded) -> Option<String> {
    let mut words = loaded.said.arguments.clone();
    let at = words.iter().rposition(|word| word == "doctor")?;
    let after = words.split_off(at);
    words.push(OsString::from("mcp"));
    words.extend(after.into_iter().skip(1).filter(|word| word != "--json"));
    let why = refusal(&words, &[], &loaded.said.current)?;
    Some(format!("`sinew mcp` does not start here: {why}"))
}

/// Tries each server that a file of a client in the project starts, and returns why it does not start.
pub(super) fn of_clients(loaded: &Loaded) -> Vec<String> {
    let project = loaded.roots.first().unwrap_or(&loaded.said.current);
    let mut found = Vec::new();
    for file in clients::FILES {
        let Some(text) = read(&project.join(file)) else { continue };
        let servers = match clients::servers(Path::new(file), &text) {
            Ok(servers) => servers,
            Err(error) => {
                found.push(format!("{file}: {}; its client starts no server", error.trim_end()));
                continue;
            }
        };
        let started = servers.iter().filter_map(|server| {
            clients::line_of(server, project).map(|(words, current)| (server, words, current))
        });
        for (server, words, current) in started.take(MAX_SERVERS) {
            if let Some(why) = refusal(&words, &variables(server), &current) {
                found.push(format!("{file}: the server `{}` does not start: {why}", server.name));
            }
        }
    }
    found
}

/// Returns the variables of a server that sinew reads.
fn variables(server: &Server) -> Vec<(&String, &String)> {
    let is_read =
        |name: &str| name == "HOME" || name.starts_with("XDG_") || name.starts_with("SINEW_");
    server.variables.iter().filter(|(name, _)| is_read(name)).collect()
}

fn read(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok()?;
    (meta.is_file() && meta.len() <= MAX_BYTES).then(|| std::fs::read_to_string(path).ok())?
}

/// Starts this program with words and variables, and returns what it says where it fails.
fn refusal(
    words: &[OsString],
    variables: &[(&String, &String)],
    current: &PathBuf,
) -> Option<String> {
    let failed = |error: std::io::Error| Some(format!("it cannot be run: {error}"));
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return failed(error),
    };
    let mut command = Command::new(program);
    command.args(words).envs(variables.iter().copied()).current_dir(current);
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
            // What is more is read and dropped, so that the server is not held up.
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
        Some(_) => Some(last_message(&String::from_utf8_lossy(&said))),
        None => Some(format!("it did not end within {} seconds without input", MAX_WAIT.as_secs())),
    }
}

/// Returns the last message, which says why a process ended.
fn last_message(said: &str) -> String {
    let at = said.rfind("\nsinew: ").map_or(0, |at| at + 1);
    let last = said.get(at..).unwrap_or_default();
    last.trim_start_matches("sinew: ").trim_end().to_owned()
}
