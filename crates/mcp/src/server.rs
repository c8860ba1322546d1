//! The reading thread: what is answered in place, what moves on, and how it all ends.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rmcp::ServiceExt;
use rmcp::model::ClientRequest;
use rmcp::service::{RoleServer, RxJsonRpcMessage};
use serde::Deserialize;
use serde_json::value::RawValue;
use sinew_runtime::{CallOptions, Runtime};
use sinew_tool::{Cancel, Progress, Reply};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::ReusableBoxFuture;

use crate::calls::Calls;
use crate::engine::Engine;
use crate::frame::{self, Fault, Frame, Kind};
use crate::handler::Handler;
use crate::line::{Line, Lines};
use crate::object::{Named, Object};
use crate::progress;
use crate::reply;
use crate::transport::{Channel, Output, Owed};

/// What a server is started with.
pub struct Options {
    /// The dialect to serve; `None` is the first of the runtime.
    pub dialect: Option<String>,
    /// The session that every call belongs to; call ids begin with it.
    pub session: String,
    /// What the client's model is told of the server.
    pub instructions: String,
    /// The longest line that is taken, in bytes.
    pub max_line_bytes: usize,
    /// Whether cheap calls are answered on the reading thread. Off, every message goes through the
    /// protocol library: slower, and the same bytes.
    pub inline: bool,
    /// The calls that run, for whoever ends the process.
    pub calls: Calls,
    /// Told the name of the client, once it says it.
    pub on_client: Box<dyn Fn(String) + Send + Sync>,
}

/// The two ends of a connection.
pub struct Stream {
    /// Where requests come from; reads block.
    pub input: Box<dyn Read + Send>,
    /// Where answers go; writes block.
    pub output: Box<dyn Write + Send>,
    /// Returns whether the client closed its end of the output, without writing to it.
    pub gone: Box<dyn Fn() -> bool + Send>,
}

/// How long answers that are still due are waited for after the input ended.
const DRAIN: Duration = Duration::from_secs(60);
/// How long calls that are taken back at the end get to end by themselves.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The most memory that answers take between two writes, and keep after one, in bytes.
const KEPT_ANSWERS: usize = 1024 * 1024;
/// How often the end of the client is looked for meanwhile.
const DRAIN_STEP: Duration = Duration::from_millis(2);

/// Serves a client until it closes its end. Fails where the input cannot be read, or answers cannot
/// be written to a client that is there.
pub fn serve(runtime: Arc<Runtime>, options: Options, stream: Stream) -> io::Result<()> {
    let Stream { mut input, output, gone } = stream;
    let max_line_bytes = options.max_line_bytes;
    let mut connection = Connection::new(Engine::new(runtime, options), Output::new(output));
    let read = read(&mut connection, &mut *input, max_line_bytes);
    // However it ends, what was answered goes out and what runs gets its closing record.
    let flushed = connection.flush();
    connection.drain(&*gone);
    match connection.output.failure() {
        Some(error) => {
            Err(io::Error::new(error.kind(), format!("answers cannot be written: {error}")))
        }
        None => read.and(flushed),
    }
}

/// Reads until the client closes its end, or answers cannot be written any more.
fn read(
    connection: &mut Connection,
    input: &mut dyn Read,
    max_line_bytes: usize,
) -> io::Result<()> {
    let mut lines = Lines::new(max_line_bytes);
    let mut buffer = vec![0; 64 * 1024];
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
    }
    lines.finish(|line| connection.line(line));
    Ok(())
}

/// The calls that did not finish on the reading thread, by request id as JSON; nothing stands for one
/// whose answer is on its way.
type Moved = Arc<Mutex<HashMap<String, Option<Cancel>>>>;

struct Connection {
    engine: Arc<Engine>,
    output: Output,
    /// What the reading thread answered since the last write.
    answers: Vec<u8>,
    /// Where the future of the last call was, for the next one.
    place: Option<ReusableBoxFuture<'static, Reply>>,
    moved: Moved,
    owed: Owed,
    library: Option<Library>,
    /// Whether the reply to `initialize` was written.
    shaken: Arc<AtomicBool>,
    /// Whether the protocol library saw a request that carries its version, and so knows that this
    /// client does without the handshake.
    stateless: bool,
}

/// The protocol library and its runtime.
struct Library {
    handle: Handle,
    messages: mpsc::Sender<RxJsonRpcMessage<RoleServer>>,
    /// The runtime before it has a thread of its own, and the task that serves.
    parked: Option<(tokio::runtime::Runtime, JoinHandle<()>)>,
}

impl Library {
    /// Answers a first request on this thread: nobody else has to wake up for it. A request that is
    /// not the first comes back.
    fn answer_first(
        &mut self,
        message: RxJsonRpcMessage<RoleServer>,
        id: &str,
        owed: &Owed,
    ) -> Option<RxJsonRpcMessage<RoleServer>> {
        let Some((runtime, _)) = &self.parked else { return Some(message) };
        if let Err(error) = self.messages.try_send(message) {
            return Some(error.into_inner());
        }
        // One that takes longer goes on when the runtime gets its thread.
        let _ = runtime.block_on(async { tokio::time::timeout(FIRST, owed.settled(id)).await });
        None
    }

    /// Gives the runtime a thread of its own, unless it has one.
    fn run(&mut self) {
        if let Some((runtime, task)) = self.parked.take() {
            let run = move || drop(runtime.block_on(task));
            // Without a thread nothing would ever be answered; then the end of the input ends it.
            let _ = std::thread::Builder::new().name(String::from("mcp")).spawn(run);
        }
    }
}

/// How long a first request may occupy the reading thread.
const FIRST: Duration = Duration::from_millis(100);

impl Connection {
    fn new(engine: Engine, output: Output) -> Self {
        Self {
            engine: Arc::new(engine),
            output,
            answers: Vec::new(),
            place: None,
            moved: Moved::default(),
            owed: Owed::default(),
            library: None,
            shaken: Arc::default(),
            stateless: false,
        }
    }

    /// Writes what the reading thread answered.
    fn flush(&mut self) -> io::Result<()> {
        if self.answers.is_empty() {
            return Ok(());
        }
        let written = self.output.write(&self.answers);
        self.answers.clear();
        // One large answer must not stay in memory for the rest of the session.
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
        match frame::parse(bytes) {
            Ok((frame, kind)) => self.frame(&frame, kind, bytes),
            Err(fault) => frame::write_fault(&mut self.answers, &fault),
        }
    }

    fn frame(&mut self, frame: &Frame<'_>, kind: Kind, line: &[u8]) {
        if KEPT_ANSWERS < self.answers.len() {
            // A client that is gone is noticed at the next read.
            let _ = self.flush();
        }
        let answered = match kind {
            Kind::Request => match self.checked(frame) {
                Ok(call) => self.answer(frame, call),
                Err(fault) => {
                    frame::write_fault(&mut self.answers, &fault);
                    true
                }
            },
            // Nothing answers a notification, also not one that cannot be read.
            Kind::Notification => !is_object(frame.params) || self.cancel(frame),
            Kind::Response => false,
        };
        if !answered {
            self.pass_on(frame, kind, line);
        }
    }

    /// Refuses a request that no way could answer; returns the parameters of one that calls a tool.
    fn checked<'a>(&self, frame: &Frame<'a>) -> Result<Option<CallParams<'a>>, Fault> {
        let Some(id) = frame.id else { return Ok(None) };
        let waits =
            |id: &str| self.owed.waits(id) || matches!(locked(&self.moved).get(id), Some(Some(_)));
        // An id must not be used twice in a session, says the specification under "Requests". After
        // the answer it does no harm; before, one of the two would get the answer of the other. An
        // error with this id would be taken for the answer of the first.
        if waits(&frame::key(id)) {
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
                // No list of ours gave a cursor out.
                let list = serde_json::from_str::<ListParams<'_>>(params.get());
                if list.map_err(|error| misfit(&error))?.cursor.is_some() {
                    let message = "this `cursor` is unknown: the list has one page; leave it out";
                    return Err(Fault { code: INVALID_PARAMS, message: message.to_owned(), id });
                }
                Ok(None)
            }
            (Some("tools/call"), Some(params)) => {
                serde_json::from_str(params.get()).map(Some).map_err(|error| misfit(&error))
            }
            _ => Ok(None),
        }
    }

    /// Answers a request on this thread where that is possible; returns whether it was.
    fn answer(&mut self, frame: &Frame<'_>, call: Option<CallParams<'_>>) -> bool {
        let (Some(id), Some(method)) = (frame.id, &frame.method) else {
            return false;
        };
        if !self.engine.options.inline {
            return false;
        }
        match (method.as_ref(), frame.params) {
            ("ping", None) if self.is_shaken() => {
                frame::write_result(&mut self.answers, id.get(), b"{}");
                true
            }
            ("tools/list", params) => {
                let Some(stateless) = self.list_shape(params) else { return false };
                let shown = self.engine.shown();
                frame::write_result(&mut self.answers, id.get(), shown.bytes(stateless));
                true
            }
            ("tools/call", _) => call.is_some_and(|params| self.call(id, params)),
            _ => false,
        }
    }

    fn is_shaken(&self) -> bool {
        self.shaken.load(Ordering::Acquire)
    }

    /// Returns whether a list is asked for in the stateless shape, or nothing where the library
    /// must answer.
    fn list_shape(&self, params: Option<&RawValue>) -> Option<bool> {
        let Some(params) = params else { return self.is_shaken().then_some(false) };
        let params: ListParams<'_> = serde_json::from_str(params.get()).ok()?;
        self.shape(params.meta.as_ref().map(|Named(meta)| meta))
    }

    /// Returns whether a request is answered in the stateless shape, by the version it carries or
    /// that the session agreed on; nothing where the library must decide.
    fn shape(&self, meta: Option<&RequestMeta<'_>>) -> Option<bool> {
        match meta {
            Some(RequestMeta { version: Some(version), capabilities, .. }) => {
                let complete = capabilities.is_some_and(|value| value.get().starts_with('{'));
                (complete && self.stateless && version == crate::STATELESS).then_some(true)
            }
            Some(_) | None => self.is_shaken().then_some(false),
        }
    }

    /// Polls a call once on this thread: a cheap one is done, any other moves to the runtime.
    fn call(&mut self, id: &RawValue, params: CallParams<'_>) -> bool {
        if params.task.is_some() || params.input_responses.is_some() {
            return false;
        }
        let Some(stateless) = self.shape(params.meta.as_ref().map(|Named(meta)| meta)) else {
            return false;
        };
        let handle = self.library().map(|library| {
            library.run();
            library.handle.clone()
        });
        let Some(handle) = handle else { return false };
        let cancel = Cancel::default();
        let token = params.meta.as_ref().and_then(|Named(meta)| meta.progress_token);
        let progress = match token {
            Some(token) => progress::to(self.output.clone(), token.get().to_owned()),
            None => Progress::default(),
        };
        let options = CallOptions { cancel: cancel.clone(), progress };
        let arguments = params.arguments.map(|Object(arguments)| arguments).unwrap_or_default();
        let call = self.engine.call(&params.name, arguments, options);
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
                self.move_on(&handle, id, stateless, cancel, call);
            }
        }
        true
    }

    /// Lets a call that waits for something go on as a task of the runtime.
    fn move_on(
        &self,
        handle: &Handle,
        id: &RawValue,
        stateless: bool,
        cancel: Cancel,
        call: ReusableBoxFuture<'static, Reply>,
    ) {
        let (moved, output) = (Arc::clone(&self.moved), self.output.clone());
        let (key, id) = (frame::key(id).into_owned(), id.get().to_owned());
        locked(&moved).insert(key.clone(), Some(cancel.clone()));
        handle.spawn(async move {
            let reply = call.await;
            locked(&moved).insert(key.clone(), None);
            // A request that the client took back gets no answer.
            if !cancel.is_cancelled() {
                let mut answer = Vec::new();
                reply::write(&mut answer, &id, reply::result(reply), stateless);
                // A client that is gone is noticed by the reading thread.
                let _ = output.write(&answer);
            }
            let mut moved = locked(&moved);
            // The client may have used the id again as soon as it had the answer.
            if let Some(None) = moved.get(&key) {
                moved.remove(&key);
            }
        });
    }

    /// Takes back a call of ours; returns whether it was one.
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

    /// Hands a message to the protocol library.
    fn pass_on(&mut self, frame: &Frame<'_>, kind: Kind, line: &[u8]) {
        let id = frame.id.map(|id| id.get().to_owned());
        let message: RxJsonRpcMessage<RoleServer> = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(error) if kind == Kind::Request => {
                let fault = misfit(frame, id, &error);
                return frame::write_fault(&mut self.answers, &fault);
            }
            // Nothing answers a notification or a response.
            Err(_) => return,
        };
        if is_misfit(&message) {
            let fault = misfit(frame, id, &"a required one is missing or of another type");
            return frame::write_fault(&mut self.answers, &fault);
        }
        if !self.stateless && carries_version(frame) {
            self.stateless = true;
            self.tell_client(frame, "/_meta/io.modelcontextprotocol~1clientInfo/name");
        }
        if frame.method.as_deref() == Some("initialize") {
            self.tell_client(frame, "/clientInfo/name");
        } else if kind != Kind::Request && self.library.is_none() {
            // Before its first request the library takes a notification for a broken client.
            return;
        }
        // What was answered so far goes out first, so that order within a read is kept.
        if self.flush().is_err() {
            return;
        }
        let owed = self.owed.clone();
        let id = frame.id.filter(|_| kind == Kind::Request).map(|id| frame::key(id).into_owned());
        id.iter().for_each(|id| owed.add(id.clone()));
        let Some(library) = self.library() else { return };
        let left = match id {
            Some(id) => library.answer_first(message, &id, &owed),
            None => Some(message),
        };
        library.run();
        if let Some(message) = left {
            // A full channel stops the reader, as a full pipe would.
            let _ = library.messages.blocking_send(message);
        }
    }

    /// Tells the name of the client, which stands at a place of the parameters.
    fn tell_client(&self, frame: &Frame<'_>, place: &str) {
        let name = frame
            .params
            .and_then(|params| serde_json::from_str::<serde_json::Value>(params.get()).ok())
            .and_then(|params| Some(params.pointer(place)?.as_str()?.to_owned()));
        if let Some(name) = name {
            (self.engine.options.on_client)(name);
        }
    }

    /// Returns the protocol library, started with its runtime the first time it is needed.
    fn library(&mut self) -> Option<&mut Library> {
        if self.library.is_none() {
            self.library = self.start().ok();
        }
        self.library.as_mut()
    }

    fn start(&self) -> io::Result<Library> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let handle = runtime.handle().clone();
        let (messages, receiver) = mpsc::channel(64);
        let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
        let (engine, output, owed) =
            (Arc::clone(&self.engine), self.output.clone(), self.owed.clone());
        let shaken = Arc::clone(&self.shaken);
        let shaken: Arc<dyn Fn() + Send + Sync> =
            Arc::new(move || shaken.store(true, Ordering::Release));
        let task = runtime.spawn(async move {
            tokio::spawn(tell_changes(Arc::clone(&engine)));
            // A client whose handshake failed may try again.
            while !receiver.lock().await.is_closed() {
                let transport = Channel {
                    messages: Arc::clone(&receiver),
                    output: output.clone(),
                    owed: owed.clone(),
                    shaken: Arc::clone(&shaken),
                };
                if let Ok(service) = Handler(Arc::clone(&engine)).serve(transport).await {
                    let told = tokio::spawn(tell_client_changes(
                        Arc::clone(&engine),
                        service.peer().clone(),
                    ));
                    let _ = service.waiting().await;
                    told.abort();
                }
            }
        });
        Ok(Library { handle, messages, parked: Some((runtime, task)) })
    }

    /// Waits for the answers that are still due, unless nobody is there to read them.
    fn drain(&mut self, gone: &dyn Fn() -> bool) {
        let until = Instant::now() + DRAIN;
        let calls = &self.engine.options.calls;
        let due = || calls.is_busy() || !self.owed.is_empty() || !locked(&self.moved).is_empty();
        let failed = || self.output.failure().is_some();
        while due() && !gone() && !failed() && Instant::now() < until {
            std::thread::sleep(DRAIN_STEP);
        }
        // What still runs is taken back, and its end is recorded.
        calls.cancel_all(LAST_WORDS);
    }
}

/// JSON-RPC: the JSON is no request.
const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC: the parameters do not fit the method.
const INVALID_PARAMS: i32 = -32602;

/// Returns whether a request is one that tells the library to do without the handshake.
fn carries_version(frame: &Frame<'_>) -> bool {
    frame.method.as_deref() != Some("server/discover")
        && frame
            .params
            .and_then(|params| serde_json::from_str::<ListParams<'_>>(params.get()).ok())
            .and_then(|params| params.meta)
            .is_some_and(|Named(meta)| {
                meta.version.as_deref() == Some(crate::STATELESS)
                    && meta.capabilities.is_some_and(|value| value.get().starts_with('{'))
            })
}

/// Refuses a request whose parameters are not those of its method.
fn misfit(frame: &Frame<'_>, id: Option<String>, problem: &dyn std::fmt::Display) -> Fault {
    let method = frame.method.as_deref().unwrap_or_default();
    let message = format!("the parameters do not fit `{method}`: {problem}");
    Fault { code: INVALID_PARAMS, message, id }
}

/// Returns whether parameters are one object, or not there.
fn is_object(params: Option<&RawValue>) -> bool {
    params.is_none_or(|params| params.get().starts_with('{'))
}

/// Methods that this server has and whose parameters are required.
const WITH_PARAMETERS: &[&str] =
    &["initialize", "server/discover", "subscriptions/listen", "tools/call"];

/// Returns whether the protocol library took a method that it knows for one that it does not,
/// because the parameters do not fit.
fn is_misfit(message: &RxJsonRpcMessage<RoleServer>) -> bool {
    match message {
        RxJsonRpcMessage::<RoleServer>::Request(request) => match &request.request {
            ClientRequest::CustomRequest(custom) => {
                WITH_PARAMETERS.contains(&custom.method.as_str())
            }
            _ => false,
        },
        _ => false,
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the catalog anew whenever the tools change.
async fn tell_changes(engine: Arc<Engine>) {
    let mut catalogs = engine.runtime.watch_catalogs();
    while catalogs.changed().await.is_ok() {
        engine.show();
    }
}

/// Tells a client with a handshake that the list of tools changed. Clients without one subscribe.
async fn tell_client_changes(engine: Arc<Engine>, peer: rmcp::service::Peer<RoleServer>) {
    let mut catalogs = engine.runtime.watch_catalogs();
    while catalogs.changed().await.is_ok() {
        // Whoever is told asks at once, and must not get the old list.
        engine.show();
        if peer.peer_info().is_some() && peer.notify_tool_list_changed().await.is_err() {
            return;
        }
    }
}

#[derive(Deserialize)]
struct ListParams<'a> {
    #[serde(default, borrow)]
    cursor: Option<&'a RawValue>,
    #[serde(rename = "_meta", default, borrow)]
    meta: Option<Named<RequestMeta<'a>>>,
}

#[derive(Deserialize)]
struct CallParams<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default)]
    arguments: Option<Object>,
    #[serde(rename = "_meta", default, borrow)]
    meta: Option<Named<RequestMeta<'a>>>,
    #[serde(default, borrow)]
    task: Option<&'a RawValue>,
    #[serde(rename = "inputResponses", default, borrow)]
    input_responses: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RequestMeta<'a> {
    #[serde(rename = "progressToken", default, borrow)]
    progress_token: Option<&'a RawValue>,
    #[serde(rename = "io.modelcontextprotocol/protocolVersion", default, borrow)]
    version: Option<Cow<'a, str>>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities", default, borrow)]
    capabilities: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CancelParams<'a> {
    #[serde(rename = "requestId", borrow)]
    request_id: &'a RawValue,
}
