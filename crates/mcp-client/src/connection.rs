//! One connection to a server: its process, its handshake, its list of tools and its calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ListToolsRequest,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerResult, SubscriptionFilter,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, Peer, PeerRequestOptions, RunningService,
    ServiceError, serve_client_with_lifecycle,
};
use serde_json::{Map, Value, json};
use sinew_runtime::Runtime;
use sinew_tool::sync::lock;
use sinew_tool::{Arguments, ContentHash, Kind, Reply, ToolError, shown_line};
use tokio::time::{sleep, timeout};

use crate::definition::Definition;
use crate::features::{Feature, List, add_page};
use crate::handler::Handler;
use crate::http::sign_in_wanted;
use crate::ongoing::{Caller, Entered, Ongoing};
use crate::settings::{Endpoint, ServerSettings, Timeouts};
use crate::sign_in::CredentialFiles;
use crate::wire::{ENDS, Process, reached, words_of};

/// How long a call may take in all, however often its server reports progress.
const MAX_CALL: Duration = Duration::from_secs(3600);
/// How often a server may ask for something before it answers a call.
const MAX_ROUNDS: usize = 8;
/// How long after a subscription ended the next one is asked for.
const LISTENS_AGAIN: Duration = Duration::from_secs(30);
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

/// Properties of a server, beside its tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    /// Whether its protocol version has a handshake.
    pub(crate) needs_handshake: bool,
    pub(crate) resources: bool,
    pub(crate) prompts: bool,
}

/// A server that answers.
pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, Handler>>>,
    process: Process,
    handler: Handler,
    timeouts: Timeouts,
    /// The hashes of the definitions that this process of the server listed last.
    listed: Mutex<HashMap<String, ContentHash>>,
    /// Its traits, for its next start.
    pub(crate) traits: Traits,
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
        runtime: &Arc<Runtime>,
        settings: &ServerSettings,
        credentials: &Arc<dyn CredentialFiles>,
        needs_handshake: bool,
    ) -> Result<Self, ToolError> {
        let opening = async {
            if !needs_handshake {
                match Self::tried(runtime, settings, credentials, false).await {
                    // Some older servers end at a request before the handshake, or answer it with something else.
                    Err(Failed::AtHandshake(_)) => {}
                    Err(Failed::Other(error)) => return Err(error),
                    Ok(connection) => return Ok(connection),
                }
            }
            Self::tried(runtime, settings, credentials, true).await.map_err(Failed::into_error)
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
        runtime: &Arc<Runtime>,
        settings: &ServerSettings,
        credentials: &Arc<dyn CredentialFiles>,
        needs_handshake: bool,
    ) -> Result<Self, Failed> {
        let (process, wire) =
            reached(runtime, settings, credentials).await.map_err(Failed::Other)?;
        let ongoing = Ongoing::new(&settings.name, Arc::downgrade(runtime));
        let handler = Handler::new(runtime.roots().iter(), ongoing, runtime.shows_forms());
        let mode = match needs_handshake {
            true => ClientLifecycleMode::Initialize,
            false => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
        };
        let service = match serve_client_with_lifecycle(handler.clone(), wire, mode).await {
            Ok(service) => service,
            Err(error) => return Err(not_connected(settings, &process, error).await),
        };
        let info = service.peer_info();
        let version = info.as_ref().map(|info| info.protocol_version.clone());
        let has = |what: fn(&ServerCapabilities) -> bool| {
            info.as_ref().is_some_and(|info| what(&info.capabilities))
        };
        Ok(Self {
            peer: service.peer().clone(),
            service: Mutex::new(Some(service)),
            process,
            handler,
            timeouts: settings.timeouts,
            listed: Mutex::default(),
            traits: Traits {
                needs_handshake: version.is_none_or(|version| version.has_initialize()),
                resources: has(|all| all.resources.is_some()),
                prompts: has(|all| all.prompts.is_some()),
            },
        })
    }

    /// Returns whether the server can still be called.
    pub(crate) fn is_open(&self) -> bool {
        !self.peer.is_transport_closed()
            && lock(&self.service).as_ref().is_some_and(|service| !service.is_closed())
    }

    /// Returns whether no call runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.handler.ongoing.is_idle()
    }

    /// Listens for changed tools at a server that has no handshake and so says nothing by itself, until it is closed.
    pub(crate) fn listening(&self) -> Option<impl Future<Output = ()> + Send + 'static> {
        let tells = self.peer.peer_info().is_some_and(|info| {
            let tools = info.capabilities.tools.as_ref();
            tools.is_some_and(|tools| tools.list_changed == Some(true))
        });
        let (peer, changed) = (self.peer.clone(), Arc::clone(&self.handler.tools_changed));
        (tells && !self.traits.needs_handshake).then_some(async move {
            while !peer.is_transport_closed() {
                let filter = SubscriptionFilter::builder().tools_list_changed().build();
                if let Ok(mut subscription) = peer.listen(filter).await {
                    while let Ok(Some(_)) = subscription.next().await {
                        changed.notify_one();
                    }
                }
                sleep(LISTENS_AGAIN).await;
            }
        })
    }

    /// Waits until the server says that its tools are others.
    pub(crate) async fn tools_changed(&self) {
        self.handler.tools_changed.notified().await;
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
        caller: Caller,
    ) -> Result<Value, ToolError> {
        let entered = self.handler.ongoing.enter(caller);
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        for _ in 0..MAX_ROUNDS {
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()));
            let answered = self.answered(request, &entered).await;
            let required = match answered {
                Ok(ServerResult::InputRequiredResult(required)) => required,
                Ok(result) => return Ok(serde_json::to_value(result).unwrap_or_default()),
                Err(error) => return Err(self.failed(server, error).await),
            };
            params.request_state = required.request_state.clone();
            let input = self.handler.input(required, entered.number()).await.map_err(|why| {
                ToolError::new(Kind::Unavailable, format!("the server `{server}`: {why}"))
            })?;
            params.input_responses = Some(input);
        }
        let words = format!("the server `{server}` asked {MAX_ROUNDS} times before it answered");
        Err(ToolError::new(Kind::LimitReached, words))
    }

    /// Lists or reads what the server has beside its tools.
    pub(crate) async fn reach(
        &self,
        server: &str,
        feature: Feature,
        arguments: Arguments,
        caller: Caller,
    ) -> Result<Reply, ToolError> {
        let entered = self.handler.ongoing.enter(caller);
        let request = match feature.lists() {
            [] => feature.request(arguments)?,
            lists => {
                let mut all = Map::new();
                for list in lists {
                    self.add_list(server, list, &entered, &mut all).await?;
                }
                return Ok(feature.reply(Value::Object(all)));
            }
        };
        match self.answered(request, &entered).await {
            Ok(ServerResult::InputRequiredResult(_)) => Err(ToolError::new(
                Kind::Unavailable,
                format!(
                    "the server `{server}` asks for input, which sinew gives only to calls of its tools"
                ),
            )),
            Ok(result) => Ok(feature.reply(serde_json::to_value(result).unwrap_or_default())),
            Err(error) => Err(self.failed(server, error).await),
        }
    }

    async fn add_list(
        &self,
        server: &str,
        (member, request): &List,
        entered: &Entered,
        all: &mut Map<String, Value>,
    ) -> Result<(), ToolError> {
        let (mut cursor, mut n_bytes) = (None, 0);
        for _ in 0..MAX_PAGES {
            let params =
                cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let mut page = match self.answered(request(params), entered).await {
                Ok(result) => serde_json::to_value(result).unwrap_or_default(),
                // A server with resources may know no templates.
                Err(ServiceError::McpError(error))
                    if error.code == rmcp::model::ErrorCode::METHOD_NOT_FOUND =>
                {
                    return Ok(());
                }
                Err(error) => return Err(self.failed(server, error).await),
            };
            n_bytes += page.to_string().len();
            add_page(all, member, &mut page);
            cursor = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            if cursor.is_none() {
                return Ok(());
            }
            if MAX_LIST <= n_bytes {
                break;
            }
        }
        // The last line of the list, in the place of the omitted ones.
        let mut cut = json!({ *member: [{ "cut": "the server lists more than is asked for" }] });
        add_page(all, member, &mut cut);
        Ok(())
    }

    /// Sends a request, and returns what comes back for it. It is cancelled at a server that gives no sign.
    async fn answered(
        &self,
        request: ClientRequest,
        entered: &Entered,
    ) -> Result<ServerResult, ServiceError> {
        let handle =
            self.peer.send_request_with_option(request, PeerRequestOptions::no_options()).await?;
        entered.listen(handle.id.clone(), handle.progress_token.clone());
        let mut withdrawn = WithdrawnOnDrop(Some((self.peer.clone(), handle.id.clone())));
        let within = self.timeouts.call;
        let answered = tokio::select! {
            answered = handle.await_response() => answered,
            () = entered.silent(within) => return Err(ServiceError::Timeout { timeout: within }),
            () = sleep(MAX_CALL) => return Err(ServiceError::Timeout { timeout: MAX_CALL }),
        };
        withdrawn.0 = None;
        answered
    }

    /// Returns the error of a call without an answer.
    async fn failed(&self, server: &str, error: ServiceError) -> ToolError {
        match error {
            ServiceError::McpError(error) => {
                let kind = match error.code {
                    rmcp::model::ErrorCode::INVALID_PARAMS => Kind::InvalidArgs,
                    _ => Kind::ExecutionFailed,
                };
                let message = sinew_tool::visible_only(&error.message);
                let end = message.floor_char_boundary(MAX_ERROR);
                let message = message.get(..end).unwrap_or_default();
                ToolError::new(kind, format!("the server `{server}` answers: {message}"))
            }
            ServiceError::Timeout { timeout } => ToolError::new(
                Kind::Timeout,
                format!(
                    "the server `{server}` did not answer within {} s, so the call was cancelled there; \
                     it may have had effects",
                    timeout.as_secs()
                ),
            ),
            ServiceError::TransportSend(error)
                if sign_in_wanted(error.error.as_ref()).is_some() =>
            {
                let wanted = sign_in_wanted(error.error.as_ref()).unwrap_or_default();
                ToolError::new(
                    Kind::Unavailable,
                    format!("the server `{server}` does not answer: {wanted}"),
                )
                .hint(format!("the user can sign in with `sinew mcp-servers login {server}`"))
            }
            error => ToolError::new(
                Kind::ExecutionFailed,
                format!("the server `{server}` gave no answer: {}", self.words(error).await),
            )
            .hint("the call may have had effects; the next one starts the server again"),
        }
    }

    /// Returns an error of the protocol in words that follow the name of a server.
    async fn words(&self, error: ServiceError) -> String {
        match error {
            ServiceError::TransportSend(error) if self.process.is_elsewhere() => {
                words_of(error.error.as_ref())
            }
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
    /// The server closed it, or answered with something else.
    AtHandshake(ToolError),
    Other(ToolError),
}

impl Failed {
    fn into_error(self) -> ToolError {
        match self {
            Self::AtHandshake(error) | Self::Other(error) => error,
        }
    }
}

async fn not_connected(
    settings: &ServerSettings,
    process: &Process,
    error: ClientInitializeError,
) -> Failed {
    let name = &settings.name;
    let is_closed = matches!(
        error,
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }
    );
    // The newest protocol version was tried first.
    let mut last = &error;
    while let ClientInitializeError::LegacyFallbackFailed { fallback, .. } = last {
        last = fallback;
    }
    let why = match last {
        ClientInitializeError::TransportError { error, .. } if process.is_elsewhere() => {
            words_of(error.error.as_ref())
        }
        _ if is_closed => process.end().await,
        error => format!("its handshake failed: {}", shown_line(&error.to_string())),
    };
    let tries = format!("`sinew mcp-servers test {name}` tries it");
    let hint = match &settings.endpoint {
        Endpoint::Stdio { network: true, .. } => tries,
        Endpoint::Stdio { .. } => format!(
            "{tries}; a server that downloads or reaches other hosts needs `network = true` in \
             `tools.mcp_servers.{name}`"
        ),
        Endpoint::Http { .. } if why.contains("sign-in") => {
            format!("the user can sign in with `sinew mcp-servers login {name}`")
        }
        Endpoint::Http { .. } => format!("{tries}; its address must be that of streamable HTTP"),
    };
    let words = format!("the server `{name}` does not answer: {why}");
    let error = ToolError::new(Kind::Unavailable, words).hint(hint);
    match last {
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => Failed::Other(error),
        _ => Failed::AtHandshake(error),
    }
}
