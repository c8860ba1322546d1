//! One connection to a server: its process, its handshake, its list of tools and its calls.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ListToolsRequest,
    PaginatedRequestParams, ProtocolVersion, ServerResult,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, Peer, PeerRequestOptions, RunningService,
    ServiceError, serve_client_with_lifecycle,
};
use serde_json::Value;
use sinew_guard::{RunningServer, ServerProcess, ServerProgram};
use sinew_runtime::Runtime;
use sinew_tool::sync::lock;
use sinew_tool::{Arguments, ContentHash, Exit, Kind, Progress, ToolError, shown_line};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::definition::Definition;
use crate::handler::{Handler, Progresses};
use crate::pipe::{Pipe, Trouble};
use crate::settings::{Endpoint, ServerSettings, Timeouts};

/// How long a call may take in all, however often its server reports progress.
const MAX_CALL: Duration = Duration::from_secs(3600);
/// The most pages of a list of tools.
const MAX_PAGES: usize = 100;
/// The most tools of a server.
pub const MAX_TOOLS: usize = 1_000;
/// How much of a server's error is in the message of a reply, in bytes.
const MAX_ERROR: usize = 4 << 10;
/// The most bytes of all definitions of a server.
const MAX_LIST: usize = 16 << 20;
/// The most problems of a list that its status holds.
const MAX_PROBLEMS: usize = 20;
/// How much of what a server printed last is kept, in bytes.
const TAIL: usize = 2 << 10;
/// How long the end of a process is waited for after its streams have ended.
const ENDS: Duration = Duration::from_millis(500);

/// A server that answers.
pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, Handler>>>,
    process: Process,
    progresses: Progresses,
    tools_changed: Arc<Notify>,
    timeouts: Timeouts,
    /// The hashes of the definitions that this process of the server listed last.
    listed: Mutex<HashMap<String, ContentHash>>,
    /// Whether its protocol version has a handshake.
    pub(crate) needs_handshake: bool,
}

/// The process of a server, and what is known of its end.
struct Process {
    running: Mutex<Option<Arc<RunningServer>>>,
    trouble: Trouble,
    printed: Arc<Mutex<Vec<u8>>>,
}

impl Process {
    /// Returns why a connection ended, in words that follow the name of its server.
    async fn end(&self) -> String {
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

/// What a server lists.
#[derive(Default)]
pub(crate) struct ListedTools {
    pub(crate) tools: Vec<Definition>,
    /// What could not be read.
    pub(crate) problems: Vec<String>,
    n_bytes: usize,
}

impl Connection {
    /// Starts a server and agrees on a protocol version with it.
    pub(crate) async fn open(
        runtime: &Runtime,
        settings: &ServerSettings,
        needs_handshake: bool,
    ) -> Result<Self, ToolError> {
        let opening = async {
            if !needs_handshake {
                match Self::tried(runtime, settings, false).await {
                    // Some older servers end at a request before the handshake.
                    Err(Failed::Closed(_)) => {}
                    Err(Failed::Other(error)) => return Err(error),
                    Ok(connection) => return Ok(connection),
                }
            }
            Self::tried(runtime, settings, true).await.map_err(Failed::into_error)
        };
        match timeout(settings.timeouts.connect, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(ToolError::new(
                Kind::Timeout,
                format!(
                    "the server `{}` did not answer within {} s",
                    settings.name,
                    settings.timeouts.connect.as_secs()
                ),
            )
            .hint(format!("`sinew mcp-servers test {}` shows what it prints", settings.name))),
        }
    }

    async fn tried(
        runtime: &Runtime,
        settings: &ServerSettings,
        needs_handshake: bool,
    ) -> Result<Self, Failed> {
        let Endpoint::Stdio { argv, cwd, env, network } = &settings.endpoint;
        let program = ServerProgram {
            argv: argv.clone(),
            cwd: cwd.clone(),
            env: env.clone(),
            network: *network,
        };
        let started = runtime.start_server(program).await.map_err(Failed::Other)?;
        let ServerProcess { stdin, stdout, stderr, running } = started;
        let trouble = Trouble::default();
        let printed = Arc::default();
        follow(stderr, Arc::clone(&printed)).map_err(|error| Failed::Other(broken(error)))?;
        let pipe = Pipe::new(stdin, stdout, trouble.clone());
        let pipe = pipe.map_err(|error| Failed::Other(broken(error)))?;
        let running = Mutex::new(Some(Arc::new(running)));
        let process = Process { running, trouble, printed };
        let handler = Handler::new(runtime.roots().iter());
        let (progresses, tools_changed) =
            (handler.progresses.clone(), Arc::clone(&handler.tools_changed));
        let mode = match needs_handshake {
            true => ClientLifecycleMode::Initialize,
            false => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
        };
        let service = match serve_client_with_lifecycle(handler, pipe, mode).await {
            Ok(service) => service,
            Err(error) => return Err(not_connected(settings, &process, error).await),
        };
        let version = service.peer_info().map(|info| info.protocol_version.clone());
        Ok(Self {
            peer: service.peer().clone(),
            service: Mutex::new(Some(service)),
            process,
            progresses,
            tools_changed,
            timeouts: settings.timeouts,
            listed: Mutex::default(),
            needs_handshake: version.is_none_or(|version| version.has_initialize()),
        })
    }

    /// Returns whether the server can still be called.
    pub(crate) fn is_open(&self) -> bool {
        !self.peer.is_transport_closed()
            && lock(&self.service).as_ref().is_some_and(|service| !service.is_closed())
    }

    /// Waits until the server says that its tools are others.
    pub(crate) async fn tools_changed(&self) {
        self.tools_changed.notified().await;
    }

    /// Returns whether this process of the server listed a tool with this definition last.
    pub(crate) fn lists(&self, tool: &str, hash: ContentHash) -> bool {
        lock(&self.listed).get(tool) == Some(&hash)
    }

    /// Returns the tools of the server.
    pub(crate) async fn list(&self) -> Result<ListedTools, String> {
        let within = self.timeouts.list;
        match timeout(within, self.all_pages()).await {
            Ok(Ok(listed)) => {
                let hashes = listed.tools.iter().map(|tool| (tool.name.clone(), tool.hash()));
                *lock(&self.listed) = hashes.collect();
                Ok(listed)
            }
            Ok(Err(why)) => Err(why),
            Err(_) => Err(format!("it did not list them within {} s", within.as_secs())),
        }
    }

    async fn all_pages(&self) -> Result<ListedTools, String> {
        let mut listed = ListedTools::default();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let params =
                cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let request = ListToolsRequest { params, ..ListToolsRequest::default() };
            let answered = self.peer.send_request(ClientRequest::ListToolsRequest(request)).await;
            let mut page = match answered {
                Ok(result) => serde_json::to_value(result).unwrap_or_default(),
                Err(error) => return Err(self.words(error).await),
            };
            let Some(Value::Array(tools)) = page.get_mut("tools").map(Value::take) else {
                return Err(String::from("its answer to `tools/list` has no list"));
            };
            listed.take(tools);
            cursor = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            if cursor.is_none() || MAX_TOOLS <= listed.tools.len() || MAX_LIST <= listed.n_bytes {
                return Ok(listed);
            }
        }
        listed.tell(format!("lists its tools on more than {MAX_PAGES} pages"));
        Ok(listed)
    }

    /// Calls a tool and returns its result as JSON.
    pub(crate) async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Arguments,
        progress: Progress,
    ) -> Result<Value, ToolError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::with_timeout(self.timeouts.call)
            .reset_timeout_on_progress()
            .with_max_total_timeout(MAX_CALL);
        let answered = async {
            let handle = self.peer.send_request_with_option(request, options).await?;
            let _listening = self.progresses.listen(handle.progress_token.clone(), progress);
            let mut withdrawn = WithdrawnOnDrop(Some((self.peer.clone(), handle.id.clone())));
            let answered = handle.await_response().await;
            withdrawn.0 = None;
            answered
        };
        match answered.await {
            Ok(ServerResult::InputRequiredResult(_)) => Err(ToolError::new(
                Kind::Unavailable,
                format!("the server `{server}` asks for input that this client does not give"),
            )),
            Ok(result) => Ok(serde_json::to_value(result).unwrap_or_default()),
            Err(ServiceError::McpError(error)) => {
                let kind = match error.code {
                    rmcp::model::ErrorCode::INVALID_PARAMS => Kind::InvalidArgs,
                    _ => Kind::ExecutionFailed,
                };
                let message = sinew_tool::visible_only(&error.message);
                let end = message.floor_char_boundary(MAX_ERROR);
                let message = message.get(..end).unwrap_or_default();
                Err(ToolError::new(kind, format!("the server `{server}` answers: {message}")))
            }
            Err(ServiceError::Timeout { timeout }) => Err(ToolError::new(
                Kind::Timeout,
                format!(
                    "the server `{server}` did not answer within {} s, so the call was cancelled there; \
                     it may have had effects",
                    timeout.as_secs()
                ),
            )),
            Err(error) => Err(ToolError::new(
                Kind::ExecutionFailed,
                format!("the server `{server}` gave no answer: {}", self.words(error).await),
            )
            .hint("the call may have had effects; the next one starts the server again")),
        }
    }

    /// Returns an error of the protocol in words that follow the name of a server.
    async fn words(&self, error: ServiceError) -> String {
        match error {
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
                self.process.end().await
            }
            ServiceError::McpError(error) => shown_line(&error.message),
            error => shown_line(&error.to_string()),
        }
    }

    /// Closes the standard input of the server and ends it, where it does not exit by itself.
    pub(crate) async fn close(&self) {
        let service = lock(&self.service).take();
        if let Some(mut service) = service {
            let _ = service.close_with_timeout(ENDS).await;
        }
        let running = lock(&self.process.running).take().and_then(Arc::into_inner);
        if let Some(running) = running {
            running.end().await;
        }
    }
}

impl ListedTools {
    fn take(&mut self, entries: Vec<Value>) {
        for entry in entries {
            if MAX_TOOLS <= self.tools.len() {
                self.tell(format!("lists more than {MAX_TOOLS} tools; the others are left out"));
                return;
            }
            self.n_bytes += entry.to_string().len();
            if MAX_LIST <= self.n_bytes {
                self.tell(format!(
                    "lists more than {} MiB of definitions; the others are left out",
                    MAX_LIST >> 20
                ));
                return;
            }
            match Definition::of(entry) {
                Ok(tool) if self.tools.iter().any(|other| other.name == tool.name) => {
                    let name = shown_line(&tool.name);
                    self.tell(format!("lists the tool {name} twice; the first one counts"));
                }
                Ok(tool) => self.tools.push(tool),
                Err(why) => self.tell(why),
            }
        }
    }

    fn tell(&mut self, problem: String) {
        match self.problems.len() {
            n if n < MAX_PROBLEMS => self.problems.push(problem),
            MAX_PROBLEMS => self.problems.push(String::from("there are more such problems")),
            _ => {}
        }
    }
}

/// Cancels a call at the server when its caller stops waiting.
struct WithdrawnOnDrop(Option<(Peer<RoleClient>, rmcp::model::RequestId)>);

impl Drop for WithdrawnOnDrop {
    fn drop(&mut self) {
        if let Some((peer, id)) = self.0.take()
            && let Ok(handle) = tokio::runtime::Handle::try_current()
        {
            handle.spawn(async move {
                let reason = Some(String::from("the call was cancelled"));
                let params = rmcp::model::CancelledNotificationParam::new(Some(id), reason);
                let _ = peer.notify_cancelled(params).await;
            });
        }
    }
}

/// Why a connection failed.
enum Failed {
    /// The server closed it.
    Closed(ToolError),
    Other(ToolError),
}

impl Failed {
    fn into_error(self) -> ToolError {
        match self {
            Self::Closed(error) | Self::Other(error) => error,
        }
    }
}

async fn not_connected(
    settings: &ServerSettings,
    process: &Process,
    error: ClientInitializeError,
) -> Failed {
    let is_closed = matches!(
        error,
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }
    );
    let why = match is_closed {
        true => process.end().await,
        false => format!("its handshake failed: {}", shown_line(&error.to_string())),
    };
    let Endpoint::Stdio { network, .. } = &settings.endpoint;
    let words = format!("the server `{}` does not answer: {why}", settings.name);
    let error = ToolError::new(Kind::Unavailable, words).hint(match network {
        true => format!("`sinew mcp-servers test {}` tries it", settings.name),
        false => format!(
            "`sinew mcp-servers test {0}` tries it; a server that downloads or reaches other hosts needs \
             `network = true` in `tools.mcp_servers.{0}`",
            settings.name
        ),
    });
    if is_closed { Failed::Closed(error) } else { Failed::Other(error) }
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
