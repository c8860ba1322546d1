//! What a server may ask of sinew: the roots, and fields that the person who waits for a call fills in. It gets no model.

#![expect(deprecated, reason = "servers of older protocol versions ask for roots")]

use std::path::Path;
use std::sync::Arc;

use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    Implementation, InputRequest, InputRequiredResult, InputResponses, ListRootsResult,
    ProgressNotificationParam, Root,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde_json::Value;
use sinew_tool::Filled;
use tokio::sync::Notify;

use crate::ongoing::{During, Ongoing};

/// The most requests in one answer that asks for input.
const MAX_REQUESTS: usize = 16;

/// Answers one server.
#[derive(Clone)]
pub(crate) struct Handler {
    pub(crate) roots: Arc<[String]>,
    pub(crate) ongoing: Ongoing,
    /// Whether an approver shows forms.
    pub(crate) shows_forms: bool,
    /// Raised when the server says that its tools are others.
    pub(crate) tools_changed: Arc<Notify>,
}

impl Handler {
    pub(crate) fn new(
        roots: impl Iterator<Item = impl AsRef<Path>>,
        ongoing: Ongoing,
        shows_forms: bool,
    ) -> Self {
        let uris = roots.map(|root| sinew_tool::file_uri(root.as_ref()));
        Self { roots: uris.collect(), ongoing, shows_forms, tools_changed: Arc::default() }
    }

    fn roots(&self) -> ListRootsResult {
        ListRootsResult::new(self.roots.iter().map(|uri| Root::new(uri.clone())).collect())
    }

    async fn elicited(&self, asked: ElicitRequestParams, during: During) -> ElicitResult {
        let filled = match asked {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                let schema = serde_json::to_value(requested_schema).unwrap_or_default();
                self.ongoing.fill(&message, schema, during).await
            }
            // A page of a server would ask what it likes.
            _ => Filled::Declined,
        };
        match filled {
            Filled::Sent(fields) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(fields))
            }
            Filled::Closed => ElicitResult::new(ElicitationAction::Cancel),
            Filled::Declined | Filled::Gone => ElicitResult::new(ElicitationAction::Decline),
        }
    }

    /// Returns what a server needs before it answers a call; an error where that is a model.
    pub(crate) async fn input(
        &self,
        required: InputRequiredResult,
        call: u64,
    ) -> Result<InputResponses, &'static str> {
        let mut responses = InputResponses::new();
        let requests = required.input_requests.unwrap_or_default();
        if MAX_REQUESTS < requests.len() {
            return Err("it asks for too much at once");
        }
        for (key, request) in requests {
            let response = match request {
                InputRequest::Elicitation(request) => {
                    serde_json::to_value(self.elicited(request.params, During::Call(call)).await)
                }
                InputRequest::ListRoots(_) => serde_json::to_value(self.roots()),
                _ => return Err("it asks for a model, and gets none"),
            };
            responses.insert(key, response.unwrap_or_default());
        }
        Ok(responses)
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let capabilities = match self.shows_forms {
            true => ClientCapabilities::builder().enable_roots().enable_elicitation().build(),
            false => ClientCapabilities::builder().enable_roots().build(),
        };
        ClientConfig::new(capabilities, Implementation::new("sinew", env!("CARGO_PKG_VERSION")))
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(self.roots())
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let during = match context.extensions.get() {
            Some(InboundStreamOrigin::OutboundRequest(id)) => During::Request(id.clone()),
            _ => During::Unknown,
        };
        tokio::select! {
            result = self.elicited(request, during) => Ok(result),
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    async fn on_progress(
        &self,
        told: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.ongoing.progress(&told);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.tools_changed.notify_one();
    }
}
