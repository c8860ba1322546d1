//! The parameters of messages, as far as the reading thread looks at them, and what does not fit.

use std::borrow::Cow;

use rmcp::model::ClientRequest;
use rmcp::service::{RoleServer, RxJsonRpcMessage};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::frame::{Fault, Frame, INVALID_PARAMS};
use crate::object::{Named, Object};

#[derive(Deserialize)]
pub(crate) struct ListParams<'a> {
    #[serde(default, borrow)]
    pub(crate) cursor: Option<&'a RawValue>,
    #[serde(rename = "_meta", default, borrow)]
    pub(crate) meta: Option<Named<RequestMeta<'a>>>,
}

#[derive(Deserialize)]
pub(crate) struct CallParams<'a> {
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
    #[serde(default)]
    pub(crate) arguments: Option<Object>,
    #[serde(rename = "_meta", default, borrow)]
    pub(crate) meta: Option<Named<RequestMeta<'a>>>,
    #[serde(default, borrow)]
    pub(crate) task: Option<&'a RawValue>,
    #[serde(rename = "inputResponses", default, borrow)]
    pub(crate) input_responses: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(crate) struct RequestMeta<'a> {
    #[serde(rename = "progressToken", default, borrow)]
    pub(crate) progress_token: Option<&'a RawValue>,
    #[serde(rename = "io.modelcontextprotocol/protocolVersion", default, borrow)]
    version: Option<Cow<'a, str>>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities", default, borrow)]
    capabilities: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(crate) struct CancelParams<'a> {
    #[serde(rename = "requestId", borrow)]
    pub(crate) request_id: &'a RawValue,
}

impl RequestMeta<'_> {
    /// Returns whether a version is named at all.
    pub(crate) fn names_version(&self) -> bool {
        self.version.is_some()
    }

    /// Returns whether the request says all that one without a handshake must say.
    pub(crate) fn is_stateless(&self) -> bool {
        self.version.as_deref() == Some(crate::STATELESS)
            && self.capabilities.is_some_and(|value| value.get().starts_with('{'))
    }
}

/// Returns whether a request is one that tells the library to do without the handshake.
pub(crate) fn carries_version(frame: &Frame<'_>) -> bool {
    frame.method.as_deref() != Some("server/discover")
        && frame
            .params
            .and_then(|params| serde_json::from_str::<ListParams<'_>>(params.get()).ok())
            .and_then(|params| params.meta)
            .is_some_and(|Named(meta)| meta.is_stateless())
}

/// Refuses a request whose parameters are not those of its method.
pub(crate) fn misfit(
    frame: &Frame<'_>,
    id: Option<String>,
    problem: &dyn std::fmt::Display,
) -> Fault {
    let method = frame.method.as_deref().unwrap_or_default();
    let message = format!("the parameters do not fit `{method}`: {problem}");
    Fault { code: INVALID_PARAMS, message, id }
}

/// Returns whether parameters are one object, or not there.
pub(crate) fn is_object(params: Option<&RawValue>) -> bool {
    params.is_none_or(|params| params.get().starts_with('{'))
}

/// Methods that this server has and whose parameters are required.
const WITH_PARAMETERS: &[&str] =
    &["initialize", "server/discover", "subscriptions/listen", "tools/call"];

/// Returns whether the protocol library took a method that it knows for one that it does not,
/// because the parameters do not fit.
pub(crate) fn is_misfit(message: &RxJsonRpcMessage<RoleServer>) -> bool {
    match message {
        RxJsonRpcMessage::<RoleServer>::Request(request) => match &request.request {
            ClientRequest::CustomRequest(custom) => {
                WITH_PARAMETERS.contains(&custom.method.as_str())
            }
            _ => false,
        },
        _ => false,
    }
}
