//! The two ends of the connection as the rest sees them: a writer that every thread shares, and
//! the transport under the protocol library.

use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::ServerResult;
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::{Notify, mpsc};

/// The output, shared: one message is written whole before the next.
#[derive(Clone)]
pub(crate) struct Output(Arc<Mutex<Box<dyn Write + Send>>>);

impl Output {
    pub(crate) fn new(output: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(output)))
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        output.write_all(bytes)?;
        output.flush()
    }
}

/// What the protocol library owes the client, by request id as JSON.
#[derive(Clone, Default)]
pub(crate) struct Owed(Arc<Mutex<HashSet<String>>>, Arc<Notify>);

impl Owed {
    pub(crate) fn add(&self, id: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    pub(crate) fn settle(&self, id: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        self.1.notify_one();
    }

    /// Waits until one request is answered. One waiter at a time.
    pub(crate) async fn settled(&self, id: &str) {
        while self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(id) {
            self.1.notified().await;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// The transport under the protocol library: messages come in through a channel and leave through
/// the shared output.
pub(crate) struct Channel {
    pub(crate) messages: Arc<tokio::sync::Mutex<mpsc::Receiver<RxJsonRpcMessage<RoleServer>>>>,
    pub(crate) output: Output,
    pub(crate) owed: Owed,
    /// Told once the reply to `initialize` was written.
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
            let written = output.write(&bytes);
            // What cannot be written is not owed any longer either.
            match &message {
                TxJsonRpcMessage::<RoleServer>::Response(response) => {
                    let shakes = matches!(response.result, ServerResult::InitializeResult(_));
                    if shakes && written.is_ok() {
                        shaken();
                    }
                    settle(&owed, &response.id);
                }
                TxJsonRpcMessage::<RoleServer>::Error(error) => {
                    if let Some(id) = &error.id {
                        settle(&owed, id);
                    }
                }
                _ => {}
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.messages.lock().await.recv().await
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn settle(owed: &Owed, id: &rmcp::model::RequestId) {
    if let Ok(id) = serde_json::to_string(id) {
        owed.settle(&id);
    }
}
