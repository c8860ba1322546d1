//! The protocol library and its runtime: it starts with the first message that needs it.

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

/// The protocol library and its runtime.
pub(crate) struct Protocol {
    /// Where tasks are started.
    pub(crate) handle: Handle,
    /// What the library is to answer.
    pub(crate) messages: mpsc::Sender<RxJsonRpcMessage<RoleServer>>,
    /// The runtime before it has a thread of its own, and the task that serves.
    parked: Option<(tokio::runtime::Runtime, JoinHandle<()>)>,
}

impl Protocol {
    /// Starts the library, which has no thread of its own yet.
    pub(crate) fn start(
        engine: Arc<Engine>,
        output: Output,
        owed: Owed,
        shaken: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (messages, receiver) = mpsc::channel(64);
        let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
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
        Ok(Self { handle, messages, parked: Some((runtime, task)) })
    }

    /// Answers a first request on this thread: nobody else has to wake up for it. A request that is
    /// not the first comes back.
    pub(crate) fn answer_first(
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
    pub(crate) fn run(&mut self) {
        if let Some((runtime, task)) = self.parked.take() {
            let run = move || drop(runtime.block_on(task));
            // Without a thread nothing would ever be answered; then the end of the input ends it.
            let _ = std::thread::Builder::new().name(String::from("mcp")).spawn(run);
        }
    }
}

/// How long a first request may occupy the reading thread.
const FIRST: Duration = Duration::from_millis(100);

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
