//! What a server may ask of sinew: the roots, and nothing else. It gets no model and no answer of a person.

#![expect(deprecated, reason = "servers of older protocol versions ask for roots")]

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ListRootsResult, ProgressNotificationParam,
    ProgressToken, Root,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use sinew_tool::Progress;
use sinew_tool::sync::lock;
use tokio::sync::Notify;

/// The calls that want to hear of progress, by the token of their request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progresses(Arc<Mutex<HashMap<ProgressToken, Progress>>>);

impl Progresses {
    /// Passes progress on until the returned guard is dropped.
    pub(crate) fn listen(&self, token: ProgressToken, progress: Progress) -> Listening {
        lock(&self.0).insert(token.clone(), progress);
        Listening { progresses: self.clone(), token }
    }
}

/// Passes progress on until it is dropped.
pub(crate) struct Listening {
    progresses: Progresses,
    token: ProgressToken,
}

impl Drop for Listening {
    fn drop(&mut self) {
        lock(&self.progresses.0).remove(&self.token);
    }
}

/// Answers one server.
#[derive(Debug, Clone)]
pub(crate) struct Handler {
    pub(crate) roots: Arc<[String]>,
    pub(crate) progresses: Progresses,
    /// Raised when the server says that its tools are others.
    pub(crate) tools_changed: Arc<Notify>,
}

impl Handler {
    pub(crate) fn new(roots: impl Iterator<Item = impl AsRef<Path>>) -> Self {
        let uris = roots.map(|root| sinew_tool::file_uri(root.as_ref()));
        Self {
            roots: uris.collect(),
            progresses: Progresses::default(),
            tools_changed: Arc::default(),
        }
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_roots().build();
        ClientConfig::new(capabilities, Implementation::new("sinew", env!("CARGO_PKG_VERSION")))
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(self.roots.iter().map(|uri| Root::new(uri.clone())).collect()))
    }

    async fn on_progress(
        &self,
        told: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let progress = lock(&self.progresses.0).get(&told.progress_token).cloned();
        if let Some(progress) = progress
            && 0.0 <= told.progress
        {
            let message = told.message.as_deref().map(sinew_tool::visible_only);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count that is too large is the largest one"
            )]
            progress.report(told.progress as u64, message.as_deref().unwrap_or("done"));
        }
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.tools_changed.notify_one();
    }
}
