//! Asks at the terminal of `sinew approve`, which answers for all clients of a user: some clients show no questions.
//!
//! `sinew approve` listens at a Unix socket in the state directory, where no tool and no sandboxed command may write. A
//! process that has a question connects and sends it as a JSON line; it gets one when the question has arrived, and one with
//! the answer. A closed connection takes the question back.
#![expect(
    clippy::disallowed_types,
    reason = "the socket is one of sinew's own, in its state directory"
)]

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt,
};
use serde::{Deserialize, Serialize};
use sinew_runtime::question;
use sinew_tool::{Answer, Approver, BoxFuture, Question, shown_path};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;

use crate::shown_question::ShownQuestion;

/// The socket in the state directory.
pub(crate) const SOCKET: &str = "approve.socket";
/// How long a question may take to arrive. A terminal that is stopped answers nothing.
pub(crate) const ARRIVAL: Duration = Duration::from_secs(5);
/// The size limit of a line, in bytes: a question has all that its answer covers.
const MAX_LINE: u64 = 64 << 20;

/// An approver that asks at `sinew approve`, while one runs.
#[derive(Debug)]
pub(crate) struct SecondTerminal {
    socket: PathBuf,
    /// Which process asks, in words.
    of: String,
}

/// A line from `sinew approve`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum FromTerminal {
    /// The question has arrived, and a person will see it.
    Arrived,
    Answer {
        answer: String,
        #[serde(default)]
        reason: Option<String>,
    },
}

impl SecondTerminal {
    /// Returns the approver of a process that serves these roots.
    pub(crate) fn new(state: &Path, surface: &str, roots: &[PathBuf]) -> Self {
        let roots: Vec<_> = roots.iter().map(|root| shown_path(root)).collect();
        let of = format!("sinew {surface} in {}", roots.join(" and "));
        Self { socket: state.join(SOCKET), of }
    }

    fn connect(&self) -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(&self.socket)?)?;
        let peer = sockopt::socket_peercred(&socket)?;
        if peer.uid != rustix::process::geteuid() {
            return Err(io::Error::other("another user answers there"));
        }
        Ok(socket)
    }

    async fn answer(&self, question: &Question) -> Result<Answer, String> {
        let stream = self.connect().map(StdUnixStream::from).and_then(UnixStream::from_std);
        let stream = stream.map_err(|error| error.to_string())?;
        let (read, mut write) = stream.into_split();
        let mut lines = BufReader::new(read);
        let arrives = async {
            let mut shown = ShownQuestion::of(question);
            shown.of = Some(self.of.clone());
            write_line(&mut write, &shown).await?;
            read_line::<FromTerminal>(&mut lines).await
        };
        match tokio::time::timeout(ARRIVAL, arrives).await {
            Ok(Ok(FromTerminal::Arrived)) => {}
            Ok(Ok(FromTerminal::Answer { .. })) => {
                return Err(String::from("it answered before the question had arrived"));
            }
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err(format!("it took no question within {} s", ARRIVAL.as_secs())),
        }
        match read_line(&mut lines).await.map_err(|error| error.to_string())? {
            FromTerminal::Answer { answer, reason } => question::answer(&answer, reason),
            FromTerminal::Arrived => Err(String::from("it gave no answer")),
        }
    }
}

impl Approver for SecondTerminal {
    fn name(&self) -> &'static str {
        "approve"
    }

    fn ask(&self, question: Question) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            self.answer(&question).await.unwrap_or_else(|problem| {
                crate::screen::say(&format!("`sinew approve` gave no answer: {problem}"));
                Answer::Gone
            })
        })
    }

    fn comes_back(&self) -> bool {
        true
    }

    /// `sinew approve` runs only at one.
    fn is_at_terminal(&self) -> bool {
        true
    }

    /// Returns whether a terminal is there.
    fn serves(&self, _session: &str, _call_id: &str) -> bool {
        self.connect().is_ok()
    }
}

/// Writes a value as a JSON line.
pub(crate) async fn write_line(
    to: &mut (impl tokio::io::AsyncWrite + Unpin),
    value: &impl Serialize,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    to.write_all(&line).await
}

/// Reads a value that is a JSON line.
pub(crate) async fn read_line<T: for<'a> Deserialize<'a>>(
    lines: &mut BufReader<OwnedReadHalf>,
) -> io::Result<T> {
    let mut line = Vec::new();
    lines.take(MAX_LINE).read_until(b'\n', &mut line).await?;
    if line.last() != Some(&b'\n') {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended"));
    }
    Ok(serde_json::from_slice(&line)?)
}
