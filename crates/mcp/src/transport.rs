//! The shared output of all threads, and the transport of the protocol library.

use sinew_tool::sync::lock;
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use rmcp::model::ServerResult;
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::{Notify, mpsc};

/// The shared output, which writes one whole message at a time.
#[derive(Clone)]
pub(crate) struct Output(Arc<Mutex<Box<dyn Write + Send>>>, Arc<OnceLock<io::Error>>);

impl Output {
    pub(crate) fn new(output: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(output)), Arc::default())
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut output = lock(&self.0);
        output.write_all(bytes).and_then(|()| output.flush()).map_err(|error| {
            let kind = error.kind();
            // A client may leave at any time: a broken pipe is no failure.
            if kind != io::ErrorKind::BrokenPipe {
                let _ = self.1.set(error);
            }
            kind.into()
        })
    }

    /// Returns the error of a write to a connected client, if any.
    pub(crate) fn failure(&self) -> Option<&io::Error> {
        self.1.get()
    }
}

/// Pending answers of the protocol library, by request id as JSON.
#[derive(Clone, Default)]
pub(crate) struct Owed(Arc<Mutex<HashMap<String, Debt>>>, Arc<Notify>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Debt {
    /// Pending.
    Due,
    /// Pending until the client ends it, such as a subscription: the shutdown does not wait for it.
    Open,
    /// Being written.
    Answered,
}

impl Owed {
    fn locked(&self) -> MutexGuard<'_, HashMap<String, Debt>> {
        lock(&self.0)
    }

    pub(crate) fn add(&self, id: String) {
        self.locked().insert(id, Debt::Due);
    }

    pub(crate) fn add_open(&self, id: String) {
        self.locked().insert(id, Debt::Open);
    }

    /// Marks an answer as being written, which frees the id; returns `false` if the request was cancelled.
    fn answering(&self, id: &str) -> bool {
        let mut owed = self.locked();
        let debt = owed.get_mut(id);
        debt.map(|debt| *debt = Debt::Answered).is_some()
    }

    /// Removes a written answer, unless the client already reused its id.
    fn answered(&self, id: &str) {
        let mut owed = self.locked();
        if let Some(Debt::Answered) = owed.get(id) {
            owed.remove(id);
        }
        drop(owed);
        self.1.notify_one();
    }

    pub(crate) fn settle(&self, id: &str) {
        self.locked().remove(id);
        self.1.notify_one();
    }

    /// Waits until one request is answered; one waiter at a time.
    pub(crate) async fn settled(&self, id: &str) {
        while self.locked().contains_key(id) {
            self.1.notified().await;
        }
    }

    /// Returns whether a request with this id is pending.
    pub(crate) fn waits(&self, id: &str) -> bool {
        self.locked().get(id).is_some_and(|debt| *debt != Debt::Answered)
    }

    /// Returns whether only open requests, such as subscriptions, are left.
    pub(crate) fn is_settled(&self) -> bool {
        self.locked().values().all(|debt| *debt == Debt::Open)
    }
}

/// The transport of the protocol library: messages arrive by channel and leave by the shared output.
pub(crate) struct Channel {
    pub(crate) messages: Arc<tokio::sync::Mutex<mpsc::Receiver<Box<RxJsonRpcMessage<RoleServer>>>>>,
    pub(crate) output: Output,
    pub(crate) owed: Owed,
    /// Called after the reply to `initialize` is written.
    pub(crate) shaken: Arc<dyn Fn() + Send + Sync>,
}

impl Transport<RoleServer> for Channel {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let output = self.output.clone();
        let owed = self.owed.clone();
        let shaken = Arc::clone(&self.shaken);
        async move {
            let mut bytes = serde_json::to_vec(&message)?;
            bytes.push(b'\n');
            let id = match &message {
                TxJsonRpcMessage::<RoleServer>::Response(response) => Some(&response.id),
                TxJsonRpcMessage::<RoleServer>::Error(error) => error.id.as_ref(),
                _ => None,
            };
            let id = id.and_then(|id| serde_json::to_string(id).ok());
            if id.as_ref().is_some_and(|id| !owed.answering(id)) {
                return Ok(());
            }
            let written = output.write(&bytes);
            if let TxJsonRpcMessage::<RoleServer>::Response(response) = &message
                && matches!(response.result, ServerResult::InitializeResult(_))
                && written.is_ok()
            {
                shaken();
            }
            // An answer that cannot be written is no longer pending.
            id.iter().for_each(|id| owed.answered(id));
            written
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.messages.lock().await.recv().await.map(|message| *message)
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}
