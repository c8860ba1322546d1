//! The server handler of the protocol library, for messages that the reading thread does not answer.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, InputRequiredResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ProgressToken, ServerCapabilities,
    ServerConfig, SubscriptionFilter,
};
use rmcp::service::{Peer, RequestContext, RoleServer, SubscriptionContext};
use sinew_runtime::CallOptions;
use sinew_tool::{Cancel, Progress};

use crate::elicit::{Called, Came, Going};
use crate::engine::Engine;
use crate::progress::Pace;
use crate::{catalog, reply};

/// How long a list of tools waits for those of servers that begin. What comes later is notified.
const SETTLES: Duration = Duration::from_secs(5);

pub(crate) struct Handler(pub(crate) Arc<Engine>);

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        let mut info =
            ServerConfig::new(capabilities).with_instructions(self.0.options.instructions.clone());
        info.server_info =
            Implementation::new("sinew", env!("CARGO_PKG_VERSION")).with_title("sinew");
        info
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, rmcp::ErrorData> {
        self.0.runtime.tools_settled(SETTLES).await;
        Ok(catalog::list(self.0.with_tools(|tools| tools.map(catalog::tool).collect())))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, rmcp::ErrorData> {
        let cancel = Cancel::default();
        let progress = match context.meta.get_progress_token() {
            Some(token) => progress(context.peer.clone(), token),
            None => Progress::default(),
        };
        let options = CallOptions { cancel: cancel.clone(), progress, ..CallOptions::default() };
        let elicitation = &self.0.elicitation;
        let arguments = request.arguments.unwrap_or_default();
        if let Some(state) = &request.request_state {
            let responses = request.input_responses.map(|all| serde_json::json!(all));
            let called = Called { tool: request.name.into_owned(), arguments };
            let resumed = elicitation.resume(state, &called, responses);
            let (going, cancel) =
                resumed.map_err(|message| rmcp::ErrorData::invalid_params(message, None))?;
            return self.follow(going, called, cancel, context).await;
        }
        let call_id = self.0.call_id();
        let capabilities = context.meta.client_capabilities();
        let forms = capabilities.and_then(|capabilities| capabilities.elicitation);
        if forms.is_some_and(|modes| modes.form.is_some() || modes.url.is_none()) {
            let listening = elicitation.listen(call_id.clone());
            let called = Called { tool: request.name.to_string(), arguments: arguments.clone() };
            let call = self.0.call(call_id, &request.name, arguments, options);
            let going = listening.going(&tokio::runtime::Handle::current(), call);
            return self.follow(going, called, cancel, context).await;
        }
        let mut call = pin!(self.0.call(call_id, &request.name, arguments, options));
        let reply = tokio::select! {
            reply = &mut call => reply,
            () = context.ct.cancelled() => {
                cancel.cancel();
                call.await
            }
        };
        Ok(reply::result(reply).into())
    }

    fn accepted_subscription_filter(
        &self,
        _requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), rmcp::ErrorData> {
        let mut catalogs = self.0.runtime.watch_catalogs();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                changed = catalogs.changed() => {
                    if changed.is_err() || context.sink().notify_tool_list_changed().await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

impl Handler {
    /// Answers with the outcome of a background call: its reply or a question.
    async fn follow(
        &self,
        going: Going,
        called: Called,
        cancel: Cancel,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, rmcp::ErrorData> {
        let mut waiting = pin!(going.wait());
        let came = tokio::select! {
            came = &mut waiting => came,
            () = context.ct.cancelled() => {
                cancel.cancel();
                waiting.await
            }
        };
        match came {
            Came::Reply(reply) => Ok(reply::result(*reply).into()),
            Came::Asks(asks, going) => {
                let asked = self.0.elicitation.suspend(*asks, going, called, cancel);
                let asked = asked
                    .and_then(|asked| serde_json::from_value::<InputRequiredResult>(asked).ok());
                asked.map(CallToolResponse::InputRequired).ok_or_else(|| {
                    rmcp::ErrorData::internal_error("too many calls wait for their client", None)
                })
            }
        }
    }
}

/// Returns a progress that notifies the client from any thread, at most every 100 ms.
fn progress(peer: Peer<RoleServer>, token: ProgressToken) -> Progress {
    let handle = tokio::runtime::Handle::current();
    let pace = Pace::default();
    Progress::to(move |done, what| {
        if !pace.is_due() {
            return;
        }
        let told = ProgressNotificationParam::new(token.clone(), done as f64)
            .with_message(format!("{done} {what}"));
        let peer = peer.clone();
        handle.spawn(async move {
            // A closed client ends the server elsewhere.
            let _ = peer.notify_progress(told).await;
        });
    })
}
