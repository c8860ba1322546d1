//! The wire to a server: the standard streams of its process, or HTTP to its address.

use std::error::Error;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::Either;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use sinew_guard::{RunningServer, ServerProcess, ServerProgram, error_words};
use sinew_runtime::Runtime;
use sinew_tool::sync::lock;
use sinew_tool::{Exit, Kind, ToolError, shown_line};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::http::{self, Backend};
use crate::pipe::{Pipe, Trouble};
use crate::settings::{Endpoint, ServerSettings};
use crate::sign_in::{CredentialFiles, Tokens};

/// How much of what a server printed last is kept, in bytes.
const TAIL: usize = 2 << 10;
/// How much of an error is shown, in bytes.
const MAX_WORDS: usize = 2 << 10;
/// How long the end of a process is waited for after its streams have ended.
pub(crate) const ENDS: Duration = Duration::from_millis(500);

/// The header that takes the place of a sign-in.
const AUTHORIZATION: &str = "authorization";

/// What carries the messages of a connection. One type for all servers, so that the protocol is compiled once.
pub(crate) enum Wire {
    Pipe(Pipe),
    /// With what ends all that waits for the server once it is dropped.
    Http(
        Box<StreamableHttpClientTransport<Backend>>,
        #[expect(dead_code, reason = "its drop counts")] watch::Sender<()>,
    ),
}

impl Transport<RoleClient> for Wire {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        match self {
            Self::Pipe(pipe) => Either::Left(pipe.send(message)),
            Self::Http(http, _) => {
                let sending = http.send(message);
                Either::Right(async move { sending.await.map_err(io::Error::other) })
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        match self {
            Self::Pipe(pipe) => pipe.receive().await,
            Self::Http(http, _) => http.receive().await,
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        match self {
            Self::Pipe(pipe) => pipe.close().await,
            Self::Http(http, _) => http.close().await.map_err(io::Error::other),
        }
    }
}

/// The process of a server, and the reasons for its end.
#[derive(Default)]
pub(crate) struct Process {
    /// `None` for a server that has an address, and once it is ended.
    pub(crate) running: Mutex<Option<Arc<RunningServer>>>,
    trouble: Trouble,
    printed: Arc<Mutex<Vec<u8>>>,
}

impl Process {
    /// Returns whether there is none, because the server has an address.
    pub(crate) fn is_elsewhere(&self) -> bool {
        lock(&self.running).is_none()
    }

    /// Returns why a connection ended, in words that follow the name of its server.
    pub(crate) async fn end(&self) -> String {
        let running = lock(&self.running).clone();
        let exit = match running {
            Some(running) => timeout(ENDS, running.ended()).await.ok(),
            None => None,
        };
        let mut words = match (self.trouble.broke(), exit) {
            (Some(why), _) => why,
            (None, Some(Exit::NotStarted { why, .. })) => format!("it did not start: {why}"),
            (None, Some(exit)) => format!("it ended ({exit})"),
            (None, None) => String::from("it closed the connection"),
        };
        let printed = lock(&self.printed).clone();
        let printed = String::from_utf8_lossy(&printed);
        if let Some(line) = printed.trim().lines().next_back() {
            words.push_str(&format!("; its last words: {}", shown_line(line.trim())));
        } else if let Some((line, _)) = self.trouble.noise() {
            words.push_str(&format!("; it printed: {line}"));
        }
        words
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Its end waits for processes and removes their files, which would stop the other servers.
        if let Some(running) = lock(&self.running).take() {
            let _ = std::thread::Builder::new().spawn(move || drop(running));
        }
    }
}

/// Starts the process of a server, or prepares the client of its address.
pub(crate) async fn reached(
    runtime: &Runtime,
    settings: &ServerSettings,
    credentials: &Arc<dyn CredentialFiles>,
) -> Result<(Process, Wire), ToolError> {
    let program = match &settings.endpoint {
        Endpoint::Stdio { argv, cwd, env, network } => {
            let (argv, cwd, env) = (argv.clone(), cwd.clone(), env.clone());
            ServerProgram { argv, cwd, env, network: *network }
        }
        Endpoint::Http { address, headers, .. } => {
            let failed = |why| {
                let words = format!("the server `{}` cannot be reached: {why}", settings.name);
                ToolError::new(Kind::Unavailable, words)
            };
            let tokens =
                match headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION)) {
                    true => None,
                    false => {
                        let tokens = Tokens::new(settings, Arc::clone(credentials));
                        Some(tokens.map_err(|error| failed(words_of(&error)))?)
                    }
                };
            let (closes, open) = watch::channel(());
            let wire = http::transport(address, headers, tokens, open).map_err(failed)?;
            return Ok((Process::default(), Wire::Http(Box::new(wire), closes)));
        }
    };
    let ServerProcess { stdin, stdout, stderr, running } = runtime.start_server(program).await?;
    let (trouble, printed) = (Trouble::default(), Arc::default());
    follow(stderr, Arc::clone(&printed)).map_err(broken)?;
    let pipe = Pipe::new(stdin, stdout, trouble.clone()).map_err(broken)?;
    let running = Mutex::new(Some(Arc::new(running)));
    Ok((Process { running, trouble, printed }, Wire::Pipe(pipe)))
}

/// Returns an error in words, with its causes, as a line.
pub(crate) fn words_of(error: &(dyn Error + 'static)) -> String {
    if let Some(words) = http::sign_in_wanted(error) {
        return words;
    }
    let mut text = without_paths(&error_words(error));
    text.truncate(text.floor_char_boundary(MAX_WORDS));
    shown_line(&text)
}

/// Leaves out what follows the hosts of addresses: it can hold a secret.
fn without_paths(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("://") {
        let (before, address) = rest.split_at(at + 3);
        let is_of_host = |c: char| c.is_alphanumeric() || "-._:[]".contains(c);
        let end = address.find(|c| !is_of_host(c)).unwrap_or(address.len());
        let (host, after) = address.split_at(end);
        shown.extend([before, host]);
        rest = after;
        if after.starts_with(['/', '?', '#', '@']) {
            let ends = |c: char| c.is_whitespace() || "\"'`)>".contains(c);
            shown.push_str("/…");
            rest = after.get(after.find(ends).unwrap_or(after.len())..).unwrap_or_default();
        }
    }
    shown + rest
}

fn broken(error: io::Error) -> ToolError {
    ToolError::new(Kind::Unavailable, "the streams of the server cannot be read").source(error)
}

/// Keeps the end of what a server prints.
fn follow(stderr: OwnedFd, printed: Arc<Mutex<Vec<u8>>>) -> io::Result<()> {
    let mut stderr = pipe::Receiver::from_owned_fd(stderr)?;
    tokio::spawn(async move {
        let mut buffer = [0; 1024];
        while let Ok(n) = stderr.read(&mut buffer).await {
            if n == 0 {
                return;
            }
            let mut printed = lock(&printed);
            printed.extend_from_slice(buffer.get(..n).unwrap_or_default());
            let excess = printed.len().saturating_sub(TAIL);
            printed.drain(..excess);
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_addresses_only_hosts_are_shown() {
        for (text, expected) in [
            ("no answer", "no answer"),
            (
                "at https://a.example:81/x?key=1 (`http://b/y`)",
                "at https://a.example:81/… (`http://b/…`)",
            ),
            ("https://a.example: closed", "https://a.example: closed"),
            ("at http://[::1]:8?key=1", "at http://[::1]:8/…"),
        ] {
            assert_eq!(without_paths(text), expected);
        }
    }
}
