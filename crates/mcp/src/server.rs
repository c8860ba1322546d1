//! The reading thread: answers requests in place, hands others to the protocol library, and shuts down.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rmcp::service::{RoleServer, RxJsonRpcMessage};
use serde_json::value::RawValue;
use sinew_runtime::{CallOptions, Runtime};
use sinew_tool::sync::lock;
use sinew_tool::{Cancel, Progress, Reply};
use tokio::runtime::Handle;
use tokio_util::sync::ReusableBoxFuture;

use crate::calls::Calls;
use crate::elicit::{Called, Came, Going};
use crate::engine::Engine;
use crate::frame::{self, Fault, Frame, INVALID_PARAMS, INVALID_REQUEST, Kind};
use crate::line::{Line, Lines};
use crate::object::{Named, Object};
use crate::params::{
    CallParams, CancelParams, ListParams, RequestMeta, carries_version, is_misfit, is_object,
    misfit, parse_call,
};
use crate::progress;
use crate::protocol::Protocol;
use crate::reply;
use crate::transport::{Output, Owed};

/// The options of a server.
pub struct Options {
    /// The dialect to serve; `None` is the runtime's first.
    pub dialect: Option<String>,
    /// The session of all calls; call ids begin with it.
    pub session: String,
    /// The instructions for the client's model.
    pub instructions: String,
    /// The longest accepted line, in bytes.
    pub max_line_bytes: usize,
    /// Whether the reading thread answers cheap calls. The protocol library is slower, with the same bytes.
    pub inline: bool,
    /// The running calls, so that the process can cancel them when it ends.
    pub calls: Calls,
    /// Receives the client's name once it is known.
    pub on_client: Box<dyn Fn(String) + Send + Sync>,
    /// Runs once a client is there: after the reply to its handshake, or before its first request without one.
    pub on_ready: Box<dyn Fn() + Send + Sync>,
}

/// The two ends of a connection.
pub struct Stream {
    /// The source of requests; reads block.
    pub input: Box<dyn Read + Send>,
    /// The destination of answers; writes block.
    pub output: Box<dyn Write + Send>,
    /// Returns whether the client closed its end of the output, without a write.
    pub gone: Box<dyn Fn() -> bool + Send>,
}

/// The longest wait for pending answers after the input ended.
const DRAIN: Duration = Duration::from_secs(60);
/// The time that calls cancelled at the end get to finish.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The most buffered answers between two writes, and the buffer kept after one, in bytes.
const KEPT_ANSWERS: usize = 1024 * 1024;
/// The poll interval for a closed client in that time.
const DRAIN_STEP: Duration = Duration::from_millis(2);

/// Serves a client until it closes its end. Fails if the input cannot be read, or if a connected client
/// cannot be written to.
pub fn serve(runtime: Arc<Runtime>, options: Options, stream: Stream) -> io::Result<()> {
    let Stream { mut input, output, gone } = stream;
    let max_line_bytes = options.max_line_bytes;
    let output = Output::new(output);
    let mut connection = Connection::new(Engine::new(runtime, options, output.clone()), output);
    let read = read(&mut connection, &mut *input, max_line_bytes);
    // In every case answers are flushed, and running calls get their closing record.
    let flushed = connection.flush();
    connection.drain(&*gone);
    match connection.output.failure() {
        Some(error) => {
            Err(io::Error::new(error.kind(), format!("answers cannot be written: {error}")))
        }
        None => read.and(flushed),
    }
}

/// The bytes that the first read takes at most. To clear a larger buffer takes a tenth of a start; it grows where
/// more is waiting.
const FIRST_READ: usize = 16 * 1024;
/// The most bytes that a read takes.
const MAX_READ: usize = 256 * 1024;

fn read(
    connection: &mut Connection,
    input: &mut dyn Read,
    max_line_bytes: usize,
) -> io::Result<()> {
    let mut lines = Lines::new(max_line_bytes);
    let mut buffer = vec![0; FIRST_READ];
    while connection.output.failure().is_none() {
        let n = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error),
        };
        lines.feed(buffer.get(..n).unwrap_or_default(), |line| connection.line(line));
        connection.flush()?;
        if n == buffer.len() && n < MAX_READ {
            buffer.resize(2 * n, 0);
        }
    }
    lines.finish(|line| connection.line(line));
    Ok(())
}

/// Calls that left the reading thread, by request id as JSON; `None` means the answer is being written.
type Moved = Arc<Mutex<HashMap<String, Option<Cancel>>>>;

/// The kind of a request for this thread.
enum Asked<'a> {
    Ping,
    List(Option<Named<RequestMeta<'a>>>),
    Call(CallParams<'a>),
    /// A request for the protocol library.
    Other,
}

struct Connection {
    engine: Arc<Engine>,
    output: Output,
    /// Answers since the last write.
    answers: Vec<u8>,
    /// Reusable allocation for the future of the next call.
    place: Option<ReusableBoxFuture<'static, Reply>>,
    moved: Moved,
    owed: Owed,
    protocol: Option<Protocol>,
    /// Whether the reply to `initialize` was written.
    shaken: Arc<AtomicBool>,
    /// Whether the library saw a request with its version, which makes this client stateless (no handshake).
    stateless: bool,
}

impl Connection {
    fn new(engine: Engine, output: Output) -> Self {
        Self {
            engine: Arc::new(engine),
            output,
            answers: Vec::new(),
            place: None,
            moved: Moved::default(),
            owed: Owed::default(),
            protocol: None,
            shaken: Arc::default(),
            stateless: false,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.answers.is_empty() {
            return Ok(());
        }
        let written = self.output.write(&self.answers);
        self.engine.runtime.rest();
        self.answers.clear();
        // Do not keep the memory of one large answer for the whole session.
        self.answers.shrink_to(KEPT_ANSWERS);
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }

    fn line(&mut self, line: Line<'_>) {
        let bytes = match line {
            Line::Whole(bytes) => bytes.trim_ascii(),
            Line::TooLong(id) => {
                let message = format!(
                    "the line is longer than {} bytes; send less in one message",
                    self.engine.options.max_line_bytes
                );
                let fault = Fault { code: INVALID_REQUEST, message, id };
                return frame::write_fault(&mut self.answers, &fault);
            }
        };
        if bytes.is_empty() {
            return;
        }
        if self.engine.options.inline
            && let Some((id, params)) = parse_call(bytes)
            && self.is_new(id)
            && self.call(id, params)
        {
            return self.keep_small();
        }
        match frame::parse(bytes) {
            Ok((frame, kind)) => self.frame(&frame, kind, bytes),
            Err(fault) => frame::write_fault(&mut self.answers, &fault),
        }
    }

    fn frame(&mut self, frame: &Frame<'_>, kind: Kind, line: &[u8]) {
        let answered = match kind {
            Kind::Request => match self.checked(frame) {
                Ok(asked) => self.answer(frame, asked),
                Err(fault) => {
                    frame::write_fault(&mut self.answers, &fault);
                    true
                }
            },
            // Notifications have no response, even invalid ones.
            Kind::Notification => !is_object(frame.params) || self.cancel(frame),
            Kind::Response => {
                frame.id.is_some_and(|id| self.engine.elicitation.respond(&frame::key(id), line))
            }
        };
        if !answered {
            self.pass_on(frame, kind, line);
        }
        self.keep_small();
    }

    /// Flushes answers above the buffer limit.
    fn keep_small(&mut self) {
        if KEPT_ANSWERS < self.answers.len() {
            // The next read detects a closed client.
            let _ = self.flush();
        }
    }

    /// Returns whether no pending request has this id.
    fn is_new(&self, id: &RawValue) -> bool {
        let id = frame::key(id);
        !self.owed.waits(&id) && !matches!(locked(&self.moved).get(&*id), Some(Some(_)))
    }

    /// Rejects an invalid request, or returns its kind for this thread.
    fn checked<'a>(&self, frame: &Frame<'a>) -> Result<Asked<'a>, Fault> {
        let Some(id) = frame.id else { return Ok(Asked::Other) };
        // The specification ("Requests") forbids reuse of an id in a session. Reuse of a pending id is
        // harmful: the client would take any response with it for that of the first request.
        if !self.is_new(id) {
            let message = format!(
                "a request of this `id` is not answered yet; give each its own: {}",
                id.get()
            );
            return Err(Fault { code: INVALID_REQUEST, message, id: None });
        }
        let id = Some(id.get().to_owned());
        let misfit = |problem: &dyn std::fmt::Display| misfit(frame, id.clone(), problem);
        if !is_object(frame.params) {
            return Err(misfit(&"they must be one object"));
        }
        match (frame.method.as_deref(), frame.params) {
            (Some("tools/list"), Some(params)) => {
                // This server's lists never return a cursor.
                let list = serde_json::from_str::<ListParams<'_>>(params.get());
                let list = list.map_err(|error| misfit(&error))?;
                if list.cursor.is_some() {
                    let message = "this `cursor` is unknown: the list has one page; leave it out";
                    return Err(Fault { code: INVALID_PARAMS, message: message.to_owned(), id });
                }
                Ok(Asked::List(list.meta))
            }
            (Some("tools/list"), None) => Ok(Asked::List(None)),
            (Some("tools/call"), Some(params)) => {
                serde_json::from_str(params.get()).map(Asked::Call).map_err(|error| misfit(&error))
            }
            (Some("ping"), None) => Ok(Asked::Ping),
            _ => Ok(Asked::Other),
        }
    }

    /// Answers a request on this thread if possible; returns whether it did.
    fn answer(&mut self, frame: &Frame<'_>, asked: Asked<'_>) -> bool {
        let Some(id) = frame.id.filter(|_| self.engine.options.inline) else { return false };
        match asked {
            Asked::Ping if self.is_shaken() => {
                frame::write_result(&mut self.answers, id.get(), b"{}");
                true
            }
            // The library waits for servers that begin.
            Asked::List(_) if self.engine.runtime.has_pending_tools() => false,
            Asked::List(meta) => {
                let Some(stateless) = self.shape(meta.as_ref()) else { return false };
                let list = self.engine.list(stateless);
                frame::write_result(&mut self.answers, id.get(), &list);
                true
            }
            Asked::Call(params) => self.call(id, params),
            Asked::Ping | Asked::Other => false,
        }
    }

    fn is_shaken(&self) -> bool {
        self.shaken.load(Ordering::Acquire)
    }

    /// Returns whether the response has the stateless shape, by the version of the request or session; `None`
    /// lets the library decide.
    fn shape(&self, meta: Option<&Named<RequestMeta<'_>>>) -> Option<bool> {
        match meta {
            Some(Named(meta)) if meta.names_version() => {
                (self.stateless && meta.is_stateless()).then_some(true)
            }
            Some(_) | None => self.is_shaken().then_some(false),
        }
    }

    /// Polls a call once on this thread: cheap calls complete, others move to the runtime.
    fn call(&mut self, id: &RawValue, params: CallParams<'_>) -> bool {
        if params.task.is_some() {
            return false;
        }
        let Some(stateless) = self.shape(params.meta.as_ref()) else {
            return false;
        };
        if let Some(state) = &params.request_state {
            let state = state.to_string();
            return self.resume(id, params, &state, stateless);
        }
        if params.input_responses.is_some() {
            return false;
        }
        let handle = self.protocol().map(|protocol| {
            protocol.run();
            protocol.handle.clone()
        });
        let Some(handle) = handle else { return false };
        let cancel = Cancel::default();
        let token = params.meta.as_ref().and_then(|Named(meta)| meta.progress_token);
        let progress = match token {
            Some(token) => progress::to(self.output.clone(), token.get().to_owned()),
            None => Progress::default(),
        };
        let options = CallOptions { cancel: cancel.clone(), progress, ..CallOptions::default() };
        let arguments = params.arguments.map(|Object(arguments)| arguments).unwrap_or_default();
        let call_id = self.engine.call_id();
        let can_be_asked =
            stateless && params.meta.as_ref().is_some_and(|Named(meta)| meta.can_be_asked());
        let listening = can_be_asked.then(|| {
            let called = Called { tool: params.name.to_string(), arguments: arguments.clone() };
            (self.engine.elicitation.listen(call_id.clone()), called)
        });
        let call = self.engine.call(call_id, &params.name, arguments, options);
        let mut call = match self.place.take() {
            Some(mut place) => {
                place.set(call);
                place
            }
            None => ReusableBoxFuture::new(call),
        };
        let entered = handle.enter();
        match call.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => {
                reply::write(&mut self.answers, id.get(), reply::result(reply), stateless);
                self.place = Some(call);
            }
            Poll::Pending => {
                drop(entered);
                match listening {
                    None => self.move_on(&handle, id, stateless, cancel, call),
                    Some((listening, called)) => {
                        let going = listening.going(&handle, call);
                        self.follow(&handle, id, going, called, cancel);
                    }
                }
            }
        }
        true
    }

    /// Continues a waiting call as a task of the runtime.
    fn move_on(
        &self,
        handle: &Handle,
        id: &RawValue,
        stateless: bool,
        cancel: Cancel,
        call: ReusableBoxFuture<'static, Reply>,
    ) {
        let (moved, output) = (Arc::clone(&self.moved), self.output.clone());
        let runtime = Arc::clone(&self.engine.runtime);
        let (key, id) = (frame::key(id).into_owned(), id.get().to_owned());
        locked(&moved).insert(key.clone(), Some(cancel.clone()));
        handle.spawn(async move {
            let reply = call.await;
            locked(&moved).insert(key.clone(), None);
            // A cancelled request gets no answer.
            if !cancel.is_cancelled() {
                let mut answer = Vec::new();
                reply::write(&mut answer, &id, reply::result(reply), stateless);
                // The reading thread detects a closed client.
                let _ = output.write(&answer);
            }
            runtime.rest();
            let mut moved = locked(&moved);
            // The client may reuse the id as soon as it has the answer.
            if let Some(None) = moved.get(&key) {
                moved.remove(&key);
            }
        });
    }

    /// Resumes the suspended call behind a client's state.
    fn resume(
        &mut self,
        id: &RawValue,
        params: CallParams<'_>,
        state: &str,
        stateless: bool,
    ) -> bool {
        let handle = self.protocol().map(|protocol| protocol.handle.clone());
        let Some(handle) = handle.filter(|_| stateless) else { return false };
        let responses = params.input_responses.map(RawValue::get);
        let responses = responses.and_then(|text| serde_json::from_str(text).ok());
        let arguments = params.arguments.map(|Object(arguments)| arguments).unwrap_or_default();
        let called = Called { tool: params.name.into_owned(), arguments };
        match self.engine.elicitation.resume(state, &called, responses) {
            Ok((going, cancel)) => self.follow(&handle, id, going, called, cancel),
            Err(message) => {
                let id = Some(id.get().to_owned());
                let fault = Fault { code: INVALID_PARAMS, message, id };
                frame::write_fault(&mut self.answers, &fault);
            }
        }
        true
    }

    /// Answers a request with the outcome of a background call: its reply or a question.
    fn follow(&self, handle: &Handle, id: &RawValue, going: Going, called: Called, cancel: Cancel) {
        let (moved, output) = (Arc::clone(&self.moved), self.output.clone());
        let engine = Arc::clone(&self.engine);
        let (key, id) = (frame::key(id).into_owned(), id.get().to_owned());
        locked(&moved).insert(key.clone(), Some(cancel.clone()));
        handle.spawn(async move {
            let mut answer = Vec::new();
            match going.wait().await {
                Came::Reply(reply) => {
                    reply::write(&mut answer, &id, reply::result(*reply), true);
                }
                Came::Asks(asks, going) => {
                    let elicitation = &engine.elicitation;
                    match elicitation.suspend(*asks, going, called, cancel.clone()) {
                        Some(result) => {
                            let result = result.to_string();
                            frame::write_result(&mut answer, &id, result.as_bytes());
                        }
                        None => {
                            let message = String::from("too many calls wait for their client");
                            let fault =
                                Fault { code: INVALID_REQUEST, message, id: Some(id.clone()) };
                            frame::write_fault(&mut answer, &fault);
                        }
                    }
                }
            }
            locked(&moved).insert(key.clone(), None);
            // A cancelled request gets no answer.
            if !cancel.is_cancelled() {
                // The reading thread detects a closed client.
                let _ = output.write(&answer);
            }
            engine.runtime.rest();
            let mut moved = locked(&moved);
            if let Some(None) = moved.get(&key) {
                moved.remove(&key);
            }
        });
    }

    /// Cancels a call of this server; returns whether it was one.
    fn cancel(&mut self, frame: &Frame<'_>) -> bool {
        if frame.method.as_deref() != Some("notifications/cancelled") {
            return false;
        }
        let Some(params) = frame
            .params
            .and_then(|params| serde_json::from_str::<CancelParams<'_>>(params.get()).ok())
        else {
            return false;
        };
        let id = frame::key(params.request_id);
        self.owed.settle(&id);
        let cancel = locked(&self.moved).get(&*id).cloned().flatten();
        cancel.inspect(Cancel::cancel).is_some()
    }

    fn pass_on(&mut self, frame: &Frame<'_>, kind: Kind, line: &[u8]) {
        let id = frame.id.map(|id| id.get().to_owned());
        let message: RxJsonRpcMessage<RoleServer> = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(error) if kind == Kind::Request => {
                let fault = misfit(frame, id, &error);
                return frame::write_fault(&mut self.answers, &fault);
            }
            // Notifications and responses get no answer.
            Err(_) => return,
        };
        if is_misfit(&message) {
            let fault = misfit(frame, id, &"a required one is missing or of another type");
            return frame::write_fault(&mut self.answers, &fault);
        }
        if !self.stateless && carries_version(frame) {
            self.stateless = true;
            self.engine.elicitation.is_stateless();
            self.tell_client(frame, "/_meta/io.modelcontextprotocol~1clientInfo/name");
            (self.engine.options.on_ready)();
        }
        if frame.method.as_deref() == Some("initialize") {
            self.tell_client(frame, "/clientInfo/name");
            let params = frame.params.and_then(|params| serde_json::from_str(params.get()).ok());
            let params: serde_json::Value = params.unwrap_or_default();
            self.engine.elicitation.declared(&params);
        } else if kind != Kind::Request && self.protocol.is_none() {
            // Before its first request the library treats a notification as a protocol error.
            return;
        }
        // Flush first to keep the order of answers within a read.
        if self.flush().is_err() {
            return;
        }
        let owed = self.owed.clone();
        let id = frame.id.filter(|_| kind == Kind::Request).map(|id| frame::key(id).into_owned());
        let is_open = frame.method.as_deref() == Some("subscriptions/listen");
        id.iter().for_each(
            |id| {
                if is_open { owed.add_open(id.clone()) } else { owed.add(id.clone()) }
            },
        );
        let Some(protocol) = self.protocol() else { return };
        let left = match id {
            // Do not wait for a subscription: the client decides when it ends.
            Some(id) if !is_open => protocol.answer_first(message, &id, &owed),
            _ => Some(message),
        };
        protocol.run();
        if let Some(message) = left {
            // A full channel blocks the reader, as a full pipe would.
            let _ = protocol.messages.blocking_send(Box::new(message));
        }
    }

    /// Reports the client name from a key of the parameters.
    fn tell_client(&self, frame: &Frame<'_>, place: &str) {
        let name = frame
            .params
            .and_then(|params| serde_json::from_str::<serde_json::Value>(params.get()).ok())
            .and_then(|params| Some(params.pointer(place)?.as_str()?.to_owned()));
        if let Some(name) = name {
            (self.engine.options.on_client)(name);
        }
    }

    /// Returns the protocol library and starts its runtime on first use.
    fn protocol(&mut self) -> Option<&mut Protocol> {
        if self.protocol.is_none() {
            let (engine, shaken) = (Arc::clone(&self.engine), Arc::clone(&self.shaken));
            self.protocol =
                Protocol::start(engine, self.output.clone(), self.owed.clone(), shaken).ok();
        }
        self.protocol.as_mut()
    }

    /// Waits for pending answers unless the client is gone.
    fn drain(&mut self, gone: &dyn Fn() -> bool) {
        // No elicitation response can arrive any more.
        self.engine.elicitation.close();
        let until = Instant::now() + DRAIN;
        let calls = &self.engine.options.calls;
        let due = || calls.is_busy() || !self.owed.is_settled() || !locked(&self.moved).is_empty();
        let failed = || self.output.failure().is_some();
        while due() && !gone() && !failed() && Instant::now() < until {
            std::thread::sleep(DRAIN_STEP);
        }
        // Cancel the remaining calls, so that their end is recorded.
        calls.cancel_all(LAST_WORDS);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock(mutex)
}
