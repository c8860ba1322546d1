//! The servers of a process: which of them answer, their pins, and the tools that they bring.
//!
//! The pinned definitions are the catalog, so no server is started before one of its tools is called. A server
//! without a pin is started at once, since nothing is known of it.

use std::sync::{Arc, Mutex, Once, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use sinew_runtime::{ForeignEntry, PendingTools, Runtime, Visibility};
use sinew_tool::sync::lock;
use sinew_tool::{Arguments, ContentHash, Context, Kind, Reply, ToolError};
use tokio::runtime::Handle;

use crate::connection::{Connection, Traits};
use crate::definition::Definition;
use crate::features::Feature;
use crate::link::{Links, MAX_PAUSE, MAX_SESSIONS};
use crate::ongoing::Caller;
use crate::pins::{Compared, PinStore, ServerPin, Waiting, compare};
use crate::settings::ServerSettings;
use crate::sign_in::{CredentialFiles, SignIn};
use crate::tool::{Pinned, disabled};
use crate::worker::{AbortOnDrop, Worker};

/// How long changes of a list of tools are collected; twice as long for each list soon after another, up to the longest
/// pause.
const SETTLES: Duration = Duration::from_millis(500);
/// When a first use that failed is tried again, in seconds; the last one again and again.
const TRIES_AGAIN: [u64; 5] = [2, 5, 15, 60, 300];
/// How long the ends of all servers are waited for.
const CLOSES: Duration = Duration::from_secs(3);

/// The servers of a process. Dropping the last copy ends them.
#[derive(Clone)]
pub struct Servers(Arc<Inner>);

pub(crate) struct Inner {
    me: Weak<Self>,
    runtime: Weak<Runtime>,
    pins: Arc<dyn PinStore>,
    credentials: Arc<dyn CredentialFiles>,
    servers: Vec<Arc<Server>>,
    /// The pins wait for the first that needs them, so that no first reply waits for them.
    pins_read: Once,
    /// Lists of tools wait for the first session that begins.
    first: Mutex<Option<PendingTools>>,
    /// Tells the user why a server that is not pinned yet cannot be used.
    tell: Tell,
    worker: OnceLock<Worker>,
}

/// Says a line to the user.
pub type Tell = Box<dyn Fn(&str) + Send + Sync>;

struct Server {
    settings: ServerSettings,
    known: Mutex<Known>,
    links: Links,
}

/// The pinned, waiting and missing tools of a server.
#[derive(Debug, Clone, Default)]
struct Known {
    pin: Option<ServerPin>,
    /// Whether there is a pin that cannot be read. Nothing is offered then, and nothing pinned over it.
    is_unreadable: bool,
    waiting: Vec<Waiting>,
    /// Pinned tools that the server lists no more.
    missing: Vec<String>,
    problems: Vec<String>,
    /// What the runtime got last.
    offered: Vec<(String, ContentHash, Visibility)>,
}

/// The status of a server, for people.
#[derive(Debug, Clone)]
pub struct ServerStatus {
    /// Its name.
    pub name: String,
    /// Where its settings are from.
    pub origin: String,
    /// Whether its tools are hidden.
    pub internal_only: bool,
    /// Whether its tools are found by a search first.
    pub deferred: bool,
    /// The pinned tools; `None` before its first use.
    pub pinned: Option<Vec<Definition>>,
    /// The tools that wait for a person.
    pub waiting: Vec<Waiting>,
    /// Pinned tools that the server lists no more, as far as it was asked.
    pub missing: Vec<String>,
    /// What could not be read of it.
    pub problems: Vec<String>,
}

impl Servers {
    /// Prepares these servers for a runtime. Nothing is read or started yet, and lists of tools wait for the first
    /// session that begins. `tell` gets what a user should know of servers that are not pinned yet.
    pub fn new(
        runtime: &Arc<Runtime>,
        settings: Vec<ServerSettings>,
        pins: Arc<dyn PinStore>,
        credentials: Arc<dyn CredentialFiles>,
        tell: Tell,
    ) -> Self {
        let server = |settings| {
            let (known, links) = (Mutex::default(), Links::default());
            Arc::new(Server { settings, known, links })
        };
        let servers = settings.into_iter().map(server).collect();
        let inner = Arc::new_cyclic(|me| Inner {
            me: Weak::clone(me),
            runtime: Arc::downgrade(runtime),
            pins,
            credentials,
            servers,
            pins_read: Once::new(),
            first: Mutex::new(Some(runtime.pending_tools())),
            tell,
            worker: OnceLock::new(),
        });
        Self(inner)
    }

    /// Waits until the pins are read, and so their tools are those of the runtime.
    pub fn wait_for_pins(&self) {
        self.0.wait_for_pins();
    }

    /// Reads the pins on a thread, and then starts the servers of which nothing is known, side by side, for a session.
    /// The runtime counts their tools as pending until then. Nothing is waited for here.
    pub fn begin(&self, session: &str) {
        let pending = self.0.runtime.upgrade().map(|runtime| runtime.pending_tools());
        let (inner, session) = (Arc::clone(&self.0), session.to_owned());
        let begin = move || {
            inner.wait_for_pins();
            inner.begin(&session);
            drop(pending);
        };
        let thread = thread::Builder::new().name(String::from("mcp-pins")).spawn(begin);
        if thread.is_err() {
            // Without threads no server runs either, and lists need not wait.
            drop(lock(&self.0.first).take());
        }
    }

    /// Starts the servers of which nothing is known, and waits for their tools.
    pub async fn settle(&self, session: &str) {
        self.begin(session);
        if let Some(runtime) = self.0.runtime.upgrade() {
            let longest =
                self.0.servers.iter().map(|server| server.settings.timeouts.connect).max();
            runtime.tools_settled(longest.unwrap_or_default()).await;
        }
    }

    /// Returns the status of each server.
    pub fn status(&self) -> Vec<ServerStatus> {
        self.0.wait_for_pins();
        let of = |server: &Arc<Server>| {
            let Known { pin, waiting, missing, problems, .. } = lock(&server.known).clone();
            ServerStatus {
                name: server.settings.name.clone(),
                origin: server.settings.origin.clone(),
                internal_only: server.settings.internal_only,
                deferred: server.settings.deferred,
                pinned: pin.map(|pin| pin.tools),
                waiting,
                missing,
                problems,
            }
        };
        self.0.servers.iter().map(of).collect()
    }

    /// Connects to a server and returns its status.
    pub async fn test(&self, name: &str, session: &str) -> Result<ServerStatus, ToolError> {
        self.0.wait_for_pins();
        let server = self.0.server(name)?;
        let (inner, of) = (Arc::clone(&self.0), Arc::clone(&server));
        let session = session.to_owned();
        let connected = async move { inner.connected(&of, &session).await.map(drop) };
        self.0.on_worker(connected).await??;
        let status = self.status().into_iter().find(|status| status.name == name);
        status.ok_or_else(|| unknown(name))
    }

    /// Begins a sign-in at a server, which a person ends.
    pub async fn sign_in(&self, name: &str, scopes: &[String]) -> Result<SignIn, ToolError> {
        let server = self.0.server(name)?;
        SignIn::begin(&server.settings, Arc::clone(&self.0.credentials), scopes).await
    }

    /// Forgets what a sign-in at a server brought; returns whether there was some.
    pub fn sign_out(&self, name: &str) -> Result<bool, ToolError> {
        let server = self.0.server(name)?;
        let _locked = self.0.credentials.lock(&server.settings.pin)?;
        self.0.credentials.remove(&server.settings.pin)
    }

    /// Pins the waiting tools of a server that have these hashes, and takes away the pins of tools that it lists no more.
    pub fn approve(&self, name: &str, hashes: &[ContentHash]) -> Result<(), ToolError> {
        self.0.wait_for_pins();
        let server = self.0.server(name)?;
        self.0.reload(&server)?;
        let mut known = lock(&server.known).clone();
        let mut pin = known.pin.take().unwrap_or_default();
        let (agreed, waiting): (Vec<_>, Vec<_>) =
            known.waiting.into_iter().partition(|one| hashes.contains(&one.hash()));
        pin.tools.retain(|tool| !known.missing.contains(&tool.name));
        for Waiting { now, .. } in agreed {
            match pin.tools.iter_mut().find(|tool| tool.name == now.name) {
                Some(tool) => *tool = now,
                None => pin.tools.push(now),
            }
        }
        self.0.pins.save(&server.settings.pin, &pin)?;
        let mut known = lock(&server.known);
        (known.pin, known.waiting, known.missing) = (Some(pin), waiting, Vec::new());
        drop(known);
        self.0.offer(&server, Vec::new());
        Ok(())
    }

    /// Ends every server and waits for it, for at most three seconds.
    pub fn close(&self) {
        self.0.close();
    }
}

impl Inner {
    fn begin(self: &Arc<Self>, session: &str) {
        for server in &self.servers {
            let known = lock(&server.known);
            let is_unknown = known.pin.is_none() && !known.is_unreadable;
            drop(known);
            if is_unknown && let Some(runtime) = self.runtime.upgrade() {
                let pending = runtime.pending_tools();
                let (inner, server) = (Arc::downgrade(self), Arc::clone(server));
                let session = session.to_owned();
                if let Ok(worker) = self.worker() {
                    worker.spawn(first_use(inner, server, session, pending));
                }
            }
        }
        drop(lock(&self.first).take());
    }

    fn read_pins(&self) {
        for server in &self.servers {
            let read = self.pins.load(&server.settings.pin);
            let mut known = lock(&server.known);
            match read {
                Ok(pin) => known.pin = pin,
                Err(error) => {
                    known.is_unreadable = true;
                    known.problems.push(error.message.into_owned());
                }
            }
        }
        // Where two servers want a name, the one that was pinned first keeps it.
        let mut servers: Vec<_> = self.servers.iter().collect();
        servers.sort_by_key(|server| lock(&server.known).pin.as_ref().map(|pin| pin.number));
        servers.into_iter().for_each(|server| self.offer(server, Vec::new()));
    }

    /// Returns the number of the next pin.
    fn next_number(&self) -> u64 {
        let number_of = |server: &Arc<Server>| Some(lock(&server.known).pin.as_ref()?.number);
        self.servers.iter().filter_map(number_of).max().unwrap_or_default() + 1
    }

    /// Returns why a tool that waited for a person still does not run, if so: another process may have approved it.
    pub(crate) fn still_disabled(
        &self,
        server: &str,
        (tool, hash): (&str, ContentHash),
    ) -> Result<(), ToolError> {
        let server = self.server(server)?;
        if self.reload(&server)? {
            self.offer(&server, Vec::new());
        }
        let known = lock(&server.known);
        let pinned = known.pin.as_ref().and_then(|pin| pin.tool(tool)).map(Definition::hash);
        let waits = known.waiting.iter().any(|one| one.now.name == tool);
        match pinned.filter(|_| !waits) {
            Some(pinned) if pinned == hash => Ok(()),
            Some(_) => Err(ToolError::new(
                Kind::PolicyDenied,
                format!("the tool `{tool}` has another definition now, which a person approved"),
            )
            .hint("list the tools again, and call it as it is defined there")),
            None => Err(disabled(&server.settings.name, tool, CHANGED)),
        }
    }

    /// Reads the pin of a server again: another process may have approved tools. Returns whether it is another one.
    fn reload(&self, server: &Server) -> Result<bool, ToolError> {
        let pin = self.pins.load(&server.settings.pin)?;
        let mut known = lock(&server.known);
        let is_other = known.pin != pin && pin.is_some();
        if let (true, Some(pin)) = (is_other, pin) {
            known
                .waiting
                .retain(|one| pin.tool(&one.now.name).map(Definition::hash) != Some(one.hash()));
            known.pin = Some(pin);
        }
        Ok(is_other)
    }

    /// Waits until the pins are read, and reads them where no thread did.
    fn wait_for_pins(&self) {
        self.pins_read.call_once(|| self.read_pins());
    }

    fn server(&self, name: &str) -> Result<Arc<Server>, ToolError> {
        let found = self.servers.iter().find(|server| server.settings.name == name);
        found.cloned().ok_or_else(|| unknown(name))
    }

    /// Calls a pinned tool.
    pub(crate) async fn call(
        self: &Arc<Self>,
        server: &str,
        (tool, hash): (&str, ContentHash),
        arguments: Arguments,
        cx: &Context,
    ) -> Result<serde_json::Value, ToolError> {
        let server = self.server(server)?;
        let (inner, tool) = (Arc::clone(self), tool.to_owned());
        let caller = Caller::of(cx);
        self.on_worker(async move { inner.called(&server, (&tool, hash), arguments, caller).await })
            .await?
    }

    async fn called(
        self: &Arc<Self>,
        server: &Arc<Server>,
        (tool, hash): (&str, ContentHash),
        arguments: Arguments,
        caller: Caller,
    ) -> Result<serde_json::Value, ToolError> {
        let connection = self.connected(server, &caller.session).await?;
        // The list of a server that was just started may differ from the pin, and that of one session from another's.
        let is_pinned = || {
            let known = lock(&server.known);
            let pinned = known.pin.as_ref().and_then(|pin| pin.tool(tool));
            pinned.is_some_and(|pinned| pinned.hash() == hash)
        };
        let may_run = || connection.lists(tool, hash) && is_pinned();
        if !may_run() {
            if self.reload(server)? {
                self.offer(server, Vec::new());
            }
            if !may_run() {
                return Err(disabled(&server.settings.name, tool, CHANGED));
            }
        }
        connection.call(&server.settings.name, tool, arguments, caller).await
    }

    /// Lists or reads what a server has beside its tools.
    pub(crate) async fn reach(
        self: &Arc<Self>,
        server: &str,
        feature: Feature,
        arguments: Arguments,
        cx: &Context,
    ) -> Result<Reply, ToolError> {
        let server = self.server(server)?;
        let (inner, caller) = (Arc::clone(self), Caller::of(cx));
        self.on_worker(async move {
            let connection = inner.connected(&server, &caller.session).await?;
            connection.reach(&server.settings.name, feature, arguments, caller).await
        })
        .await?
    }

    /// Returns the connection of a session to a server, and makes it where there is none.
    async fn connected(
        self: &Arc<Self>,
        server: &Arc<Server>,
        session: &str,
    ) -> Result<Arc<Connection>, ToolError> {
        let name = &server.settings.name;
        let link = server.links.of(session).ok_or_else(|| {
            ToolError::new(
                Kind::LimitReached,
                format!("calls of {MAX_SESSIONS} sessions run at the server `{name}` already"),
            )
            .hint("try it again once one of them is over")
        })?;
        let mut link = link.lock().await;
        if lock(&server.known).is_unreadable {
            let words =
                format!("the pin of the server `{name}` cannot be read, so it is not started");
            return Err(ToolError::new(Kind::Unavailable, words)
                .hint("`sinew mcp-servers list` says why; remove the file to pin it anew"));
        }
        if let Some(connection) = link.open().await {
            return Ok(connection);
        }
        if let Some((left, why)) = link.resting() {
            let seconds = left.as_secs_f64();
            return Err(ToolError::new(
                Kind::Unavailable,
                format!("the server `{name}` is offline: {why}"),
            )
            .hint(format!("it is started again by a call in {seconds:.1} s")));
        }
        let runtime = self.runtime.upgrade().ok_or_else(closed)?;
        let needs_handshake =
            lock(&server.known).pin.as_ref().is_some_and(|pin| pin.needs_handshake);
        let opened = async {
            let (settings, credentials) = (&server.settings, &self.credentials);
            let opening = Connection::open(&runtime, settings, credentials, needs_handshake);
            let connection = opening.await?;
            self.learn(server, &connection).await?;
            Ok(Arc::new(connection))
        };
        match opened.await {
            Ok(connection) => {
                link.opened(Arc::clone(&connection));
                self.follow(server, &connection);
                Ok(connection)
            }
            Err(error) => {
                let error: ToolError = error;
                lock(&server.known).problems = vec![error.message.to_string()];
                link.rest(error.message.to_string());
                Err(error)
            }
        }
    }

    /// Lists the tools of a server again when it says that they are others.
    fn follow(self: &Arc<Self>, server: &Arc<Server>, connection: &Arc<Connection>) {
        let (inner, server) = (Arc::downgrade(self), Arc::clone(server));
        let listening = connection
            .listening()
            .map(|listening| AbortOnDrop(tokio::spawn(listening).abort_handle()));
        let connection = Arc::downgrade(connection);
        tokio::spawn(async move {
            let _listening = listening;
            let mut settles = SETTLES;
            loop {
                let Some(open) = connection.upgrade() else { return };
                tokio::select! {
                    () = open.tools_changed() => {}
                    () = tokio::time::sleep(MAX_PAUSE) => {
                        settles = SETTLES;
                        let Some(inner) = inner.upgrade() else { return };
                        inner.look_for_approval(&server);
                        if open.is_open() {
                            continue;
                        }
                        return;
                    }
                }
                tokio::time::sleep(settles).await;
                settles = (settles * 2).min(MAX_PAUSE);
                let Some(inner) = inner.upgrade() else { return };
                if let Err(error) = inner.learn(&server, &open).await {
                    lock(&server.known).problems = vec![error.message.into_owned()];
                }
            }
        });
    }

    /// Offers what another process approved meanwhile, where tools wait for a person.
    fn look_for_approval(&self, server: &Arc<Server>) {
        let waits = !lock(&server.known).waiting.is_empty();
        if waits && self.reload(server).is_ok_and(|is_other| is_other) {
            self.offer(server, Vec::new());
        }
    }

    /// Lists the tools of a server, and offers those that are as pinned. Without a pin all are pinned.
    async fn learn(&self, server: &Arc<Server>, connection: &Connection) -> Result<(), ToolError> {
        let name = &server.settings.name;
        let listed = connection.list().await.map_err(|why| {
            ToolError::new(
                Kind::Unavailable,
                format!("the tools of the server `{name}` are unknown: {why}"),
            )
        })?;
        let mut problems = listed.problems;
        let mut usable = Vec::with_capacity(listed.tools.len());
        for tool in listed.tools {
            match tool.cleaned() {
                Ok(_) => usable.push(tool),
                Err(why) => {
                    let tool = sinew_tool::shown_line(&tool.name);
                    problems.push(format!("the tool `{tool}` is left out: {why}"));
                }
            }
        }
        // Another process may have pinned or approved tools meanwhile.
        self.reload(server)?;
        let pin = lock(&server.known).pin.clone();
        let (pin, waiting, missing) = match pin {
            None => {
                let number = self.next_number();
                let mut pin = ServerPin { tools: usable, number, ..ServerPin::default() };
                pin.set_traits(connection.traits);
                self.pins.save(&server.settings.pin, &pin)?;
                (pin, Vec::new(), Vec::new())
            }
            Some(mut pin) => {
                let Compared { waiting, missing, .. } = compare(&pin, usable);
                if pin.traits() != connection.traits {
                    pin.set_traits(connection.traits);
                    self.pins.save(&server.settings.pin, &pin)?;
                }
                (pin, waiting, missing)
            }
        };
        let mut known = lock(&server.known);
        (known.pin, known.waiting, known.missing) = (Some(pin), waiting, missing);
        known.problems.clear();
        drop(known);
        self.offer(server, problems);
        Ok(())
    }

    /// Gives the runtime the tools of a server as they are pinned.
    fn offer(&self, server: &Arc<Server>, mut problems: Vec<String>) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        let known = lock(&server.known).clone();
        let name: Arc<str> = Arc::from(server.settings.name.as_str());
        let mut tools: Vec<ForeignEntry> = Vec::new();
        let mut offered: Vec<(String, ContentHash, Visibility)> = Vec::new();
        let mut add =
            |definition: Definition, hash, feature: Option<Feature>, disabled: Option<String>| {
                let visibility = match server.settings.visibility(&definition.name) {
                    Visibility::Hidden => Visibility::Hidden,
                    _ if disabled.is_some() => Visibility::Disabled,
                    visibility => visibility,
                };
                // A feature gives way to a tool of the server with its name.
                if feature.is_none() || offered.iter().all(|(name, ..)| *name != definition.name) {
                    offered.push((definition.name.clone(), hash, visibility));
                    let (servers, server_name) = (Weak::clone(&self.me), Arc::clone(&name));
                    let (definition, host) = (Arc::new(definition), server.settings.host());
                    let pinned = Pinned {
                        servers,
                        server: server_name,
                        definition,
                        feature,
                        hash,
                        disabled,
                        host,
                    };
                    tools.push((Box::new(pinned), visibility));
                }
            };
        let pinned = known.pin.iter().flat_map(|pin| &pin.tools);
        let new = known.waiting.iter().filter(|one| one.pinned.is_none());
        for tool in pinned.chain(new.map(|one| &one.now)) {
            let is_waiting = known.waiting.iter().any(|one| one.now.name == tool.name);
            if let Ok(definition) = tool.cleaned() {
                let disabled = is_waiting.then(|| String::from(CHANGED));
                add(definition, tool.hash(), None, disabled);
            }
        }
        let Traits { resources, prompts, .. } =
            known.pin.as_ref().map(ServerPin::traits).unwrap_or_default();
        for feature in Feature::of(resources, prompts) {
            let definition = feature.definition();
            let hash = definition.hash();
            add(definition, hash, Some(feature), None);
        }
        // Every change makes clients list anew.
        if known.offered != offered {
            problems.extend(runtime.set_foreign_tools(&name, &tools));
        }
        let mut known = lock(&server.known);
        known.offered = offered;
        known.problems.extend(problems);
    }

    /// Runs a future on the thread of the servers. Dropping the returned one ends it.
    async fn on_worker<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ToolError> {
        let task = self.worker()?.spawn(future);
        let _abort = AbortOnDrop(task.abort_handle());
        task.await.map_err(|error| {
            ToolError::new(Kind::ExecutionFailed, "the work for the server was lost").source(error)
        })
    }

    /// Returns the handle of the thread of the servers, and starts it where there is none.
    fn worker(&self) -> Result<&Handle, ToolError> {
        if self.worker.get().is_none() {
            let started = Worker::start()?;
            // Another call may have started one meanwhile; this one ends.
            let _ = self.worker.set(started);
        }
        self.worker.get().map(|worker| &worker.handle).ok_or_else(closed)
    }

    fn close(&self) {
        let Some(worker) = self.worker.get().filter(|worker| !worker.is_this_thread()) else {
            return;
        };
        let links: Vec<_> = self.servers.iter().flat_map(|server| server.links.take()).collect();
        let (done, closed) = std::sync::mpsc::channel();
        worker.handle.spawn(async move {
            let closing = links.into_iter().map(|link| {
                tokio::spawn(async move {
                    if let Some(connection) = link.lock().await.take() {
                        connection.close().await;
                    }
                })
            });
            for closing in closing.collect::<Vec<_>>() {
                let _ = closing.await;
            }
            let _ = done.send(());
        });
        let _ = closed.recv_timeout(CLOSES);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

/// Starts a server of which nothing is known, until it is pinned. Lists of tools wait for the first try alone.
async fn first_use(
    inner: Weak<Inner>,
    server: Arc<Server>,
    session: String,
    pending: PendingTools,
) {
    let mut pending = Some(pending);
    let [.., last] = TRIES_AGAIN;
    for pause in TRIES_AGAIN.into_iter().chain(std::iter::repeat(last)) {
        {
            let Some(inner) = inner.upgrade() else { return };
            match inner.connected(&server, &session).await {
                Ok(_) => return,
                Err(error) if pending.is_some() => {
                    (inner.tell)(&error.to_string());
                }
                Err(_) => {}
            }
            pending = None;
        }
        tokio::time::sleep(Duration::from_secs(pause)).await;
        let Some(inner) = inner.upgrade() else { return };
        // Another process may have used it meanwhile.
        if inner.reload(&server).is_ok_and(|is_other| is_other) {
            return inner.offer(&server, Vec::new());
        }
        if lock(&server.known).pin.is_some() {
            return;
        }
    }
}

/// Why a tool waits for a person.
const CHANGED: &str = "its definition differs from the one that a person approved";

fn unknown(name: &str) -> ToolError {
    ToolError::new(
        Kind::NotFound,
        format!("no server of this name: {}", sinew_tool::shown_line(name)),
    )
    .hint("`sinew mcp-servers list` shows those of the configuration")
}

fn closed() -> ToolError {
    ToolError::new(Kind::Unavailable, "the servers of this session are closed")
}
