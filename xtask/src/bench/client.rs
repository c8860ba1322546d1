//! A client of MCP over stdio that is as thin as can be: one thread, one `write` and one `read` a
//! call where the bytes come at once.
//!
//! What it costs is measured beside the servers, through a server that answers constant bytes. It
//! writes prepared lines, finds replies by their ids, and reads JSON only where a row checks an
//! answer, outside the time that is measured. It declares no capabilities, so servers have nothing
//! to ask of it.

#![expect(clippy::disallowed_types, reason = "Node hands its children sockets as standard streams")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// How long a server may take for one reply before it is ended.
const PATIENCE: Duration = Duration::from_secs(120);

/// How much is read at once.
const BUFFER: usize = 256 * 1024;

/// How many bytes at either end of a reply are searched for its id and for errors.
const RIM: usize = 160;

/// What the standard streams of a server are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    Pipes,
    Sockets,
}

/// A line to send, complete but for its id.
#[derive(Debug, Clone)]
pub(super) struct Request {
    after_id: Vec<u8>,
}

impl Request {
    pub(super) fn method(method: &str, params: &Value) -> Self {
        let after_id = format!(",\"method\":\"{method}\",\"params\":{params}}}\n").into_bytes();
        Self { after_id }
    }

    pub(super) fn call(tool: &str, arguments: &Value) -> Self {
        Self::method("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    fn write(&self, id: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        out.extend_from_slice(id.to_string().as_bytes());
        out.extend_from_slice(&self.after_id);
    }
}

/// A running server and the two streams to it.
pub(super) struct Client {
    watched: Arc<Watched>,
    writer: Option<File>,
    reader: BufReader<File>,
    out: Vec<u8>,
    line: Vec<u8>,
    last_id: u64,
    started: Duration,
    log: PathBuf,
}

impl Client {
    /// Starts a server and waits until it has answered `initialize`. What it says on its standard
    /// error goes to the file `log`.
    pub(super) fn start(mut command: Command, link: Link, log: PathBuf) -> Result<Self> {
        let watched = Watched::new();
        command.stderr(File::create(&log)?);
        let (writer, reader);
        let begun;
        match link {
            Link::Pipes => {
                command.stdin(Stdio::piped()).stdout(Stdio::piped());
                begun = Instant::now();
                let mut child = command.spawn().context("the server does not start")?;
                writer = child.stdin.take().map(OwnedFd::from);
                reader = child.stdout.take().map(OwnedFd::from);
                watched.watch(child);
            }
            Link::Sockets => {
                let (ours_in, theirs_in) = UnixStream::pair()?;
                let (ours_out, theirs_out) = UnixStream::pair()?;
                command.stdin(OwnedFd::from(theirs_in)).stdout(OwnedFd::from(theirs_out));
                begun = Instant::now();
                watched.watch(command.spawn().context("the server does not start")?);
                writer = Some(OwnedFd::from(ours_in));
                reader = Some(OwnedFd::from(ours_out));
            }
        }
        // The command holds the far ends of sockets; with them open the end of the server would not
        // be seen.
        drop(command);
        let mut client = Self {
            watched,
            writer: writer.map(File::from),
            reader: BufReader::with_capacity(BUFFER, reader.map(File::from).context("no stdout")?),
            out: Vec::new(),
            line: Vec::new(),
            last_id: 100,
            started: Duration::ZERO,
            log,
        };
        client.initialize(begun)?;
        Ok(client)
    }

    fn initialize(&mut self, begun: Instant) -> Result<()> {
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        });
        self.exchange(&Request::method("initialize", &params)).context("initialize")?;
        self.started = begun.elapsed();
        self.send(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")
    }

    /// Returns the time from before the start of the process to the reply to `initialize`.
    pub(super) fn started(&self) -> f64 {
        self.started.as_secs_f64()
    }

    pub(super) fn pid(&self) -> u32 {
        self.watched.pid.load(Ordering::Relaxed) as u32
    }

    /// Sends a request and waits for its reply, which [`result`](Self::result) shows.
    pub(super) fn exchange(&mut self, request: &Request) -> Result<()> {
        self.last_id += 1;
        self.out.clear();
        request.write(self.last_id, &mut self.out);
        self.watched.begin();
        let sent = match &mut self.writer {
            Some(writer) => writer.write_all(&self.out),
            None => Ok(()),
        };
        sent.with_context(|| self.last_words())?;
        while self.next_reply()? != self.last_id {}
        self.watched.end();
        Ok(())
    }

    /// Returns how long an exchange took, whose reply must be no error.
    pub(super) fn time(&mut self, request: &Request) -> Result<f64> {
        let begun = Instant::now();
        self.exchange(request)?;
        let seconds = begun.elapsed().as_secs_f64();
        self.refuse_error()?;
        Ok(seconds)
    }

    /// Returns how long an exchange took and the text of its reply, which must be no error.
    pub(super) fn time_text(&mut self, request: &Request) -> Result<(f64, String)> {
        let seconds = self.time(request)?;
        Ok((seconds, text_of(&self.result()?)))
    }

    /// Returns the text of a reply, which must be no error.
    pub(super) fn text(&mut self, request: &Request) -> Result<String> {
        Ok(self.time_text(request)?.1)
    }

    /// Returns the result of the newest reply.
    pub(super) fn result(&self) -> Result<Value> {
        let mut reply: Value = serde_json::from_slice(&self.line).context("a reply is not JSON")?;
        match reply.get_mut("result").map(Value::take) {
            Some(result) if result.get("isError") != Some(&Value::Bool(true)) => Ok(result),
            Some(result) => bail!("the tool answers an error: {}", text_of(&result)),
            None => bail!("the server answers an error: {reply}"),
        }
    }

    fn refuse_error(&self) -> Result<()> {
        let (head, tail) = rims(&self.line);
        let has = |what: &str| [head, tail].iter().any(|rim| find(rim, what.as_bytes()).is_some());
        if has("\"isError\":true") || has("\"error\":") {
            self.result()?;
        }
        Ok(())
    }

    /// Keeps `n_in_flight` requests unanswered for a while, and returns the replies a second.
    ///
    /// Each request must be answered once, and by a reply as long as that of a single call.
    pub(super) fn flood(
        &mut self,
        request: &Request,
        n_in_flight: u64,
        lasting: Duration,
    ) -> Result<f64> {
        self.time(request)?;
        let expected = self.line.len();
        let first = self.last_id + 1;
        let begun = Instant::now();
        let (mut n_replies, mut sum) = (0, 0);
        self.refill(request, n_in_flight)?;
        while first + n_replies <= self.last_id {
            let mut n_read = 0;
            loop {
                sum += self.next_reply()? - first;
                n_read += 1;
                if 8 < expected.abs_diff(self.line.len()) {
                    self.refuse_error()?;
                    bail!("a reply of {} bytes, expected {expected}", self.line.len());
                }
                if self.reader.buffer().is_empty() {
                    break;
                }
            }
            n_replies += n_read;
            if begun.elapsed() < lasting {
                self.refill(request, n_read)?;
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        self.watched.end();
        if sum != n_replies * (n_replies - 1) / 2 {
            bail!("a request was answered twice and another not at all");
        }
        Ok(n_replies as f64 / seconds)
    }

    /// Sends the requests all at once, and returns the texts of their replies in the order of the
    /// requests.
    pub(super) fn all_at_once(&mut self, requests: &[Request]) -> Result<Vec<String>> {
        let first = self.last_id + 1;
        let mut out = Vec::new();
        for request in requests {
            self.last_id += 1;
            request.write(self.last_id, &mut out);
        }
        self.send(&out)?;
        self.watched.begin();
        let mut texts = Vec::new();
        while texts.len() < requests.len() {
            let id = self.next_reply()?;
            texts.push((id, text_of(&self.result()?)));
        }
        self.watched.end();
        texts.sort();
        texts.dedup_by_key(|(id, _)| *id);
        if texts.len() != requests.len() || texts.first().is_some_and(|(id, _)| *id != first) {
            bail!("a request was answered twice and another not at all");
        }
        Ok(texts.into_iter().map(|(_, text)| text).collect())
    }

    fn refill(&mut self, request: &Request, n: u64) -> Result<()> {
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        for _ in 0..n {
            self.last_id += 1;
            request.write(self.last_id, &mut out);
        }
        self.watched.begin();
        self.send(&out)?;
        self.out = out;
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let writer = self.writer.as_mut().context("the stream to the server is closed")?;
        writer.write_all(bytes)?;
        Ok(())
    }

    /// Reads one reply into `line`, passing over notifications, and returns its id.
    fn next_reply(&mut self) -> Result<u64> {
        loop {
            self.line.clear();
            let n = self.reader.read_until(b'\n', &mut self.line)?;
            if n == 0 {
                bail!("the server ended: {}", self.last_words());
            }
            if let Some(id) = id_of(&self.line) {
                return Ok(id);
            }
        }
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().rev().take(3).collect::<Vec<_>>().join(" | ")
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.writer = None;
        self.watched.finish();
    }
}

/// Returns the text of the result of a call.
pub(super) fn text_of(result: &Value) -> String {
    let blocks = result.get("content").and_then(Value::as_array);
    blocks.into_iter().flatten().filter_map(|block| block.get("text")?.as_str()).collect()
}

/// Returns the id of a reply; requests and notifications of the server have none that matters.
fn id_of(line: &[u8]) -> Option<u64> {
    let (head, tail) = rims(line);
    let id_at_end = || {
        let end = tail.trim_ascii_end().strip_suffix(b"}")?;
        let digits = end.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let (before, id) = end.split_at_checked(end.len() - digits)?;
        before.ends_with(b"\"id\":").then(|| number(id)).flatten()
    };
    let id_at_start = || {
        let at = find(head, b"\"id\":")?;
        number(head.get(at + 5..)?)
    };
    let is_reply = find(head, b"\"method\":").is_none();
    is_reply.then(|| id_at_end().or_else(id_at_start)).flatten()
}

fn number(digits: &[u8]) -> Option<u64> {
    let n = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(digits.get(..n)?).ok()?.parse().ok()
}

fn rims(line: &[u8]) -> (&[u8], &[u8]) {
    let head = line.get(..RIM).unwrap_or(line);
    let tail = line.get(line.len().saturating_sub(RIM)..).unwrap_or(line);
    (head, tail)
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// A process that is ended when it leaves a request unanswered for too long, so that a server that
/// hangs fails its row and not the run.
struct Watched {
    born: Instant,
    pid: AtomicU64,
    /// Milliseconds from `born` to the request that waits, or zero.
    waiting_ms: AtomicU64,
    child: Mutex<Option<Child>>,
}

impl Watched {
    fn new() -> Arc<Self> {
        let watched = Arc::new(Self {
            born: Instant::now(),
            pid: AtomicU64::new(0),
            waiting_ms: AtomicU64::new(0),
            child: Mutex::new(None),
        });
        let weak = Arc::downgrade(&watched);
        thread::spawn(move || keep_watch(&weak));
        watched
    }

    fn watch(&self, child: Child) {
        self.pid.store(u64::from(child.id()), Ordering::Relaxed);
        *self.lock() = Some(child);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn begin(&self) {
        self.waiting_ms.store(self.now_ms().max(1), Ordering::Relaxed);
    }

    fn end(&self) {
        self.waiting_ms.store(0, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the process, whose input is closed, two seconds to end by itself.
    fn finish(&self) {
        let Some(mut child) = self.lock().take() else { return };
        for _ in 0..1_000 {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn keep_watch(weak: &Weak<Watched>) {
    let patience = u64::try_from(PATIENCE.as_millis()).unwrap_or(u64::MAX);
    loop {
        thread::sleep(Duration::from_millis(500));
        let Some(watched) = weak.upgrade() else { return };
        let since = watched.waiting_ms.load(Ordering::Relaxed);
        if since != 0 && since + patience < watched.now_ms() {
            if let Some(child) = watched.lock().as_mut() {
                let _ = child.kill();
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_at_either_end() {
        let check = |line: &str, id: Option<u64>| assert_eq!(id_of(line.as_bytes()), id, "{line}");
        check("{\"id\":7,\"jsonrpc\":\"2.0\",\"result\":{}}\n", Some(7));
        check("{\"result\":{\"a\":\"\\\"id\\\":9\"},\"jsonrpc\":\"2.0\",\"id\":8}\n", Some(8));
        check("{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":8}\n", None);
        check("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n", None);
        check("{}\n", None);
    }

    #[test]
    fn requests_differ_in_their_ids_alone() {
        let mut out = Vec::new();
        Request::call("Read", &json!({"file_path": "a"})).write(12, &mut out);
        let expected = concat!(
            r#"{"jsonrpc":"2.0","id":12,"method":"tools/call","#,
            r#""params":{"name":"Read","arguments":{"file_path":"a"}}}"#,
            "\n"
        );
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
