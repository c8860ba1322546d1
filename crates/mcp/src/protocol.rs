//! The protocol library (`rmcp`) and its runtime, started by the first message that needs it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::service::{RoleServer, RxJsonRpcMessage};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::engine::Engine;
use crate::handler::Handler;
use crate::transport::{Channel, Output, Owed};

pub(crate) struct Protocol {
    pub(crate) handle: Handle,
    /// Messages for the library. The channel has room for 32 from the beginning, so they are in boxes.
    pub(crate) messages: mpsc::Sender<Box<RxJsonRpcMessage<RoleServer>>>,
    /// The runtime and the serving task, until the runtime gets a thread.
    parked: Option<(tokio::runtime::Runtime, JoinHandle<()>)>,
}

impl Protocol {
    /// Starts the library without a thread.
    pub(crate) fn start(
        engine: Arc<Engine>,
        output: Output,
        owed: Owed,
        shaken: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().max_io_events_per_tick(MAX_EVENTS).build()?;
        let handle = runtime.handle().clone();
        let (messages, receiver) = mpsc::channel(64);
        let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
        let ready = Arc::clone(&engine);
        let shaken: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            if !shaken.swap(true, Ordering::AcqRel) {
                (ready.options.on_ready)();
            }
        });
        let task = runtime.spawn(async move {
            // A client may retry a failed handshake.
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
        Ok(Self { handle, messages, parked: Some((runtime, task)) })
    }

    /// Answers the first request on this thread, which avoids a thread switch; returns any later request.
    pub(crate) fn answer_first(
        &mut self,
        message: RxJsonRpcMessage<RoleServer>,
        id: &str,
        owed: &Owed,
    ) -> Option<RxJsonRpcMessage<RoleServer>> {
        let Some((runtime, _)) = &self.parked else { return Some(message) };
        if let Err(error) = self.messages.try_send(Box::new(message)) {
            return Some(*error.into_inner());
        }
        // A slower answer completes once the runtime has its thread.
        let _ = runtime.block_on(async { tokio::time::timeout(FIRST, owed.settled(id)).await });
        None
    }

    /// Gives the runtime its own thread, once.
    pub(crate) fn run(&mut self) {
        if let Some((runtime, task)) = self.parked.take() {
            let run = move || drop(runtime.block_on(task));
            // Without a thread no answer comes; the end of the input then ends the server.
            let _ = std::thread::Builder::new().name(String::from("mcp")).spawn(run);
        }
    }
}

/// How many events of files and sockets the runtime takes at once; each has room from the beginning.
const MAX_EVENTS: usize = 64;
/// The most time a first request may use on the reading thread.
const FIRST: Duration = Duration::from_millis(100);

/// Notifies a client with handshake of changed tools, once it has listed them; stateless clients subscribe.
async fn tell_client_changes(engine: Arc<Engine>, peer: rmcp::service::Peer<RoleServer>) {
    let mut catalogs = engine.runtime.watch_catalogs();
    while catalogs.changed().await.is_ok() {
        if !engine.has_listed() {
            continue;
        }
        if peer.peer_info().is_some() && peer.notify_tool_list_changed().await.is_err() {
            return;
        }
    }
}
