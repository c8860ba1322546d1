//! Parses the message parameters that the reading thread needs, and rejects invalid ones.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use rmcp::model::ClientRequest;
use rmcp::service::{RoleServer, RxJsonRpcMessage};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::elicit;
use crate::frame::{self, Fault, Frame, INVALID_PARAMS};
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
    #[serde(rename = "requestState", default, borrow)]
    pub(crate) request_state: Option<Cow<'a, str>>,
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

/// The prefix of a line searched for the method name, in bytes.
const HEAD: usize = 256;

/// Parses a call and its parameters in one pass instead of two. Returns `None` for other messages and for
/// errors, which [`frame::parse`] reports.
pub(crate) fn parse_call(line: &[u8]) -> Option<(&RawValue, CallParams<'_>)> {
    let head = line.get(..HEAD).unwrap_or(line);
    static CALL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"tools/call\""));
    CALL.find(head)?;
    // Skipped parts must be UTF-8 too.
    let line = std::str::from_utf8(line).ok()?;
    let Named(frame) =
        serde_json::from_str::<Named<Frame<'_, Named<CallParams<'_>>>>>(line).ok()?;
    let is_call =
        frame.kind() == Ok(frame::Kind::Request) && frame.method.as_deref() == Some("tools/call");
    let Named(params) = frame.params.filter(|_| is_call)?;
    Some((frame.id?, params))
}

impl RequestMeta<'_> {
    pub(crate) fn names_version(&self) -> bool {
        self.version.is_some()
    }

    /// Returns whether the client supports elicitation.
    pub(crate) fn can_be_asked(&self) -> bool {
        let capabilities = self.capabilities.map(RawValue::get).unwrap_or_default();
        // Fast path: skip the parse where the key does not occur.
        capabilities.contains("elicitation")
            && serde_json::from_str(capabilities).is_ok_and(|value| elicit::can_be_asked(&value))
    }

    /// Returns whether the request carries all that a stateless request must.
    pub(crate) fn is_stateless(&self) -> bool {
        self.version.as_deref() == Some(crate::STATELESS)
            && self.capabilities.is_some_and(|value| value.get().starts_with('{'))
    }
}

/// Returns whether a request switches the library to stateless mode.
pub(crate) fn carries_version(frame: &Frame<'_>) -> bool {
    frame.method.as_deref() != Some("server/discover")
        && frame
            .params
            .and_then(|params| serde_json::from_str::<ListParams<'_>>(params.get()).ok())
            .and_then(|params| params.meta)
            .is_some_and(|Named(meta)| meta.is_stateless())
}

/// Rejects a request whose parameters do not fit its method.
pub(crate) fn misfit(
    frame: &Frame<'_>,
    id: Option<String>,
    problem: &dyn std::fmt::Display,
) -> Fault {
    let method = frame.method.as_deref().unwrap_or_default();
    let message = format!("the parameters do not fit `{method}`: {problem}");
    Fault { code: INVALID_PARAMS, message, id }
}

/// Returns whether parameters are an object or absent.
pub(crate) fn is_object(params: Option<&RawValue>) -> bool {
    params.is_none_or(|params| params.get().starts_with('{'))
}

/// Methods of this server with required parameters.
const WITH_PARAMETERS: &[&str] =
    &["initialize", "server/discover", "subscriptions/listen", "tools/call"];

/// Returns whether the library reports a known method as unknown, because its parameters do not fit.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns id and parameters of a call by one pass and by two passes.
    fn both(line: &[u8]) -> [Option<String>; 2] {
        let text = |id: &RawValue, params: CallParams<'_>| {
            let meta = params.meta.map(|Named(meta)| (meta.names_version(), meta.is_stateless()));
            let extra = (params.task.map(RawValue::get), params.input_responses.is_some(), meta);
            format!("{} {} {:?} {extra:?}", id.get(), params.name, params.arguments)
        };
        let at_once = parse_call(line).map(|(id, params)| text(id, params));
        let in_turn = || {
            let (frame, kind) = frame::parse(line).ok()?;
            let is_call =
                kind == frame::Kind::Request && frame.method.as_deref() == Some("tools/call");
            let params = frame.params.filter(|params| is_call && params.get().starts_with('{'))?;
            Some(text(frame.id?, serde_json::from_str(params.get()).ok()?))
        };
        [at_once, in_turn()]
    }

    #[test]
    fn calls_are_read_at_once() {
        let call = r#"{"method":"tools/call","params":{"name":"Read"},"jsonrpc":"2.0","id":1}"#;
        let [at_once, in_turn] = both(call.as_bytes());
        assert_eq!(at_once.as_deref(), Some("1 Read None (None, false, None)"));
        assert_eq!(at_once, in_turn);
        // Other spellings and later positions take the two-pass way.
        for call in [
            call.replace("tools/call", "tools\\/call"),
            call.replace("\"method\"", &format!("\"x\":\"{}\",\"method\"", "y".repeat(HEAD))),
        ] {
            let [at_once, in_turn] = both(call.as_bytes());
            assert_eq!((at_once, in_turn.is_some()), (None, true), "{call}");
        }
    }

    proptest! {
        /// Calls with complete, missing, duplicate or mistyped parts.
        #[test]
        fn a_call_is_the_same_at_once_and_in_turn(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    r#""jsonrpc":"2.0""#, r#""jsonrpc":"1.0""#, r#""id":1"#, r#""id":"a\\n""#,
                    r#""id":null"#, r#""id":{}"#, r#""method":"tools/call""#,
                    r#""method":"tools/list""#, r#""result":{}"#, r#""x":[{"id":1}]"#,
                    r#""params":{"name":"Read","arguments":{"path":"a\\n"}}"#,
                    r#""params":{"name":"Read","arguments":{"a":1,"a":2}}"#,
                    r#""params":{"name":"Read","task":{}}"#, r#""params":["Read"]"#,
                    r#""params":null"#, r#""params":{"name":1}"#, r#""params":{"arguments":[]}"#,
                    r#""params":{"name":"Read","_meta":{"x":"~"}}"#, r#""y":"~""#,
                ]),
                3..8,
            ),
            is_text in any::<bool>(),
        ) {
            let mut line = format!("{{{}}}", parts.join(",")).into_bytes();
            if !is_text {
                line.iter_mut().filter(|byte| **byte == b'~').for_each(|byte| *byte = 0xFF);
            }
            let [at_once, in_turn] = both(&line);
            let names_call = parts.contains(&r#""method":"tools/call""#);
            // Lines that are not UTF-8 take the two-pass way.
            if is_text || at_once.is_some() {
                prop_assert_eq!(at_once, in_turn.filter(|_| names_call));
            }
        }
    }
}
