//! The transport over the standard streams of a server: one JSON message a line, within limits.
//!
//! A line that is no message is skipped and counted, since programs print there by mistake. A message that is too long
//! or broken ends the connection, so that the calls that wait for it fail at once and say why.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use sinew_tool::shown_line;
use sinew_tool::sync::lock;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::Notify;

/// The longest message of a server, in bytes.
pub const MAX_MESSAGE: usize = 8 << 20;
/// The most bytes of a server that are no message.
const MAX_NOISE: usize = 16 << 20;
/// How much of a skipped line is shown.
const SHOWN: usize = 200;
/// How long a server may not read while a message for it waits.
const WRITES: Duration = Duration::from_secs(30);

/// What went wrong on a connection, for messages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trouble(Arc<Mutex<Troubles>>);

#[derive(Debug, Default)]
struct Troubles {
    /// Why sinew ended the connection.
    broke: Option<String>,
    noise: Option<String>,
    n_noise: usize,
}

impl Trouble {
    /// Returns why sinew ended the connection, if it did.
    pub(crate) fn broke(&self) -> Option<String> {
        lock(&self.0).broke.clone()
    }

    /// Returns the first line that was no message, and how many bytes such lines had.
    pub(crate) fn noise(&self) -> Option<(String, usize)> {
        let troubles = lock(&self.0);
        troubles.noise.clone().map(|line| (line, troubles.n_noise))
    }

    fn end(&self, why: impl Into<String>) {
        lock(&self.0).broke.get_or_insert(why.into());
    }

    /// Counts a line that is no message; returns whether there were too many.
    fn skip(&self, line: &[u8]) -> bool {
        let mut troubles = lock(&self.0);
        troubles.n_noise += line.len() + 1;
        if troubles.noise.is_none() {
            let start = line.get(..SHOWN.min(line.len())).unwrap_or_default();
            troubles.noise = Some(shown_line(&String::from_utf8_lossy(start)));
        }
        MAX_NOISE < troubles.n_noise
    }
}

/// The two pipes to a server.
pub(crate) struct Pipe {
    reader: BufReader<pipe::Receiver>,
    writer: Arc<tokio::sync::Mutex<pipe::Sender>>,
    trouble: Trouble,
    /// The part of the next line that was read. The future that reads it is dropped and made anew at every turn.
    line: Vec<u8>,
    sending: Arc<Sending>,
}

/// The messages that wait to be written.
#[derive(Debug, Default)]
struct Sending {
    n_waiting: AtomicUsize,
    /// Raised when no further message can be written.
    failed: Notify,
}

/// The most messages that wait for a server to read them.
const MAX_WAITING: usize = 256;

impl Pipe {
    pub(crate) fn new(stdin: OwnedFd, stdout: OwnedFd, trouble: Trouble) -> io::Result<Self> {
        Ok(Self {
            reader: BufReader::with_capacity(64 << 10, pipe::Receiver::from_owned_fd(stdout)?),
            writer: Arc::new(tokio::sync::Mutex::new(pipe::Sender::from_owned_fd(stdin)?)),
            trouble,
            line: Vec::new(),
            sending: Arc::default(),
        })
    }

    /// Reads the rest of a line into the buffer; returns whether it is whole. It may be cancelled at any time.
    async fn read_line(&mut self) -> io::Result<bool> {
        loop {
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() {
                return Ok(false);
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(chunk.len());
            if MAX_MESSAGE < self.line.len() + taken {
                let limit = MAX_MESSAGE >> 20;
                self.trouble.end(format!("it sent a message of more than {limit} MiB"));
                return Ok(false);
            }
            self.line.extend_from_slice(chunk.get(..taken).unwrap_or_default());
            self.reader.consume(taken + usize::from(end.is_some()));
            if end.is_some() {
                return Ok(true);
            }
        }
    }
}

impl Transport<RoleClient> for Pipe {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (writer, trouble) = (Arc::clone(&self.writer), self.trouble.clone());
        let sending = Arc::clone(&self.sending);
        async move {
            let mut bytes = serde_json::to_vec(&message)?;
            bytes.push(b'\n');
            let written = async { writer.lock().await.write_all(&bytes).await };
            let n_waiting = sending.n_waiting.fetch_add(1, Ordering::Relaxed);
            let written = match n_waiting < MAX_WAITING {
                true => tokio::time::timeout(WRITES, written).await,
                false => Ok(Err(io::ErrorKind::QuotaExceeded.into())),
            };
            sending.n_waiting.fetch_sub(1, Ordering::Relaxed);
            let failed = match written {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Err(error),
                Ok(Err(error)) => error,
                Err(_) => io::ErrorKind::TimedOut.into(),
            };
            // A part of the message may have been written, so no other can follow it.
            trouble.end("it does not read what is sent to it");
            sending.failed.notify_one();
            Err(failed)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let sending = Arc::clone(&self.sending);
        loop {
            tokio::select! {
                read = self.read_line() => match read {
                    Ok(true) => {}
                    Ok(false) | Err(_) => return None,
                },
                () = sending.failed.notified() => return None,
            }
            // From here on nothing waits, so the whole line is handed on.
            let whole = std::mem::take(&mut self.line);
            let line = whole.trim_ascii();
            if line.is_empty() {
                continue;
            }
            match message_of(line) {
                Line::Message(message) => return Some(*message),
                Line::Broken(why) => {
                    self.trouble.end(why);
                    return None;
                }
                Line::Noise if self.trouble.skip(line) => {
                    self.trouble.end(format!(
                        "it printed more than {} MiB that are not messages",
                        MAX_NOISE >> 20
                    ));
                    return None;
                }
                Line::Noise => {}
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One line of a server.
enum Line {
    Message(Box<RxJsonRpcMessage<RoleClient>>),
    /// Text of a program.
    Noise,
    /// A message that cannot be read.
    Broken(String),
}

fn message_of(line: &[u8]) -> Line {
    let error = match serde_json::from_slice(line) {
        Ok(message) => return Line::Message(Box::new(message)),
        Err(error) => error,
    };
    let means_message = line.starts_with(b"{") && contains(line, b"\"jsonrpc\"");
    match means_message {
        true => {
            let start = line.get(..SHOWN.min(line.len())).unwrap_or_default();
            let start = shown_line(&String::from_utf8_lossy(start));
            Line::Broken(format!("it sent a message that cannot be read ({error}): {start}"))
        }
        false => Line::Noise,
    }
}

fn contains(line: &[u8], wanted: &[u8]) -> bool {
    line.windows(wanted.len()).any(|window| window == wanted)
}
