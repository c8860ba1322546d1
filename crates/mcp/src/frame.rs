//! The envelope of JSON-RPC, read without touching what is inside but for calls of tools.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::object::Named;
use crate::params::CallParams;

/// One message, its parts still as text, or its parameters read.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "P: Deserialize<'de>"))]
pub(crate) struct Frame<'a, P = &'a RawValue> {
    #[serde(default, borrow)]
    pub(crate) jsonrpc: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(default = "Option::default")]
    pub(crate) params: Option<P>,
    #[serde(default, borrow)]
    result: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

/// What kind of message a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Notification,
    Response,
}

/// Why a line is no message, as a JSON-RPC error.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) code: i32,
    pub(crate) message: String,
    pub(crate) id: Option<String>,
}

/// JSON-RPC: the text is not JSON.
const PARSE_ERROR: i32 = -32700;
/// JSON-RPC: the JSON is no request.
pub(crate) const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC: the parameters do not fit the method.
pub(crate) const INVALID_PARAMS: i32 = -32602;

/// Reads the envelope of a line.
pub(crate) fn parse(line: &[u8]) -> Result<(Frame<'_>, Kind), Fault> {
    let Named(frame): Named<Frame<'_>> = serde_json::from_slice(line).map_err(|error| {
        if error.is_data() {
            let message = match line.first() {
                Some(b'[') => String::from("batches are not supported; send one message a line"),
                _ => format!("not a JSON-RPC message: {error}"),
            };
            Fault { code: INVALID_REQUEST, message, id: None }
        } else {
            Fault { code: PARSE_ERROR, message: format!("not JSON: {error}"), id: None }
        }
    })?;
    let kind = frame.kind()?;
    Ok((frame, kind))
}

/// How far into a line the name of its method is looked for.
const HEAD: usize = 256;

/// Reads a line that is a call together with its parameters: once, where looking at the envelope first
/// would go over all of it twice. Nothing where it is no call, or where something is wrong with it
/// that [`parse`] is to tell.
pub(crate) fn parse_call(line: &[u8]) -> Option<(&RawValue, CallParams<'_>)> {
    let head = line.get(..HEAD).unwrap_or(line);
    memchr::memmem::find(head, b"\"tools/call\"")?;
    // A part that nobody reads must be text too.
    let line = std::str::from_utf8(line).ok()?;
    let Named(frame) =
        serde_json::from_str::<Named<Frame<'_, Named<CallParams<'_>>>>>(line).ok()?;
    let is_call =
        frame.kind() == Ok(Kind::Request) && frame.method.as_deref() == Some("tools/call");
    let Named(params) = frame.params.filter(|_| is_call)?;
    Some((frame.id?, params))
}

impl<P> Frame<'_, P> {
    /// Returns what kind of message it is.
    fn kind(&self) -> Result<Kind, Fault> {
        let id = self.id.map(RawValue::get).filter(|id| *id != "null");
        let fault = |message: &str| Fault {
            code: INVALID_REQUEST,
            message: message.to_owned(),
            id: id.filter(|id| is_id(id)).map(str::to_owned),
        };
        if self.jsonrpc.as_deref() != Some("2.0") {
            return Err(fault("`jsonrpc` must be \"2.0\""));
        }
        if id.is_some_and(|id| !is_id(id)) {
            return Err(fault("`id` must be a string or a whole number"));
        }
        match (&self.method, id, self.result.or(self.error)) {
            (Some(_), Some(_), _) => Ok(Kind::Request),
            (Some(_), None, _) => Ok(Kind::Notification),
            (None, _, Some(_)) => Ok(Kind::Response),
            (None, _, None) => Err(fault("`method` is missing")),
        }
    }
}

/// Returns the one spelling of an id: a text can be written with escapes or without.
pub(crate) fn key(id: &RawValue) -> Cow<'_, str> {
    let written = id.get();
    if !written.starts_with('-') && !written.contains('\\') {
        return Cow::Borrowed(written);
    }
    match serde_json::from_str::<serde_json::Value>(written) {
        Ok(id) => Cow::Owned(id.to_string()),
        Err(_) => Cow::Borrowed(written),
    }
}

/// Returns whether a JSON text can be a request id.
fn is_id(text: &str) -> bool {
    match text.as_bytes().first() {
        Some(b'"') => true,
        Some(b'-' | b'0'..=b'9') => text.parse::<i64>().is_ok(),
        _ => false,
    }
}

/// Writes an error response for a line that is no message.
pub(crate) fn write_fault(out: &mut Vec<u8>, fault: &Fault) {
    let body = serde_json::json!({ "code": fault.code, "message": fault.message });
    let id = fault.id.as_deref().unwrap_or("null");
    out.extend_from_slice(
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{body}}}\n").as_bytes(),
    );
}

/// Writes a response around a result that is already JSON.
pub(crate) fn write_result(out: &mut Vec<u8>, id: &str, result: &[u8]) {
    write_result_with(out, id, |out| out.extend_from_slice(result));
}

/// Writes a response around a result that is written in place.
pub(crate) fn write_result_with(out: &mut Vec<u8>, id: &str, result: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(b",\"result\":");
    result(out);
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Result<Kind, (i32, Option<&str>)>) {
        let parsed = parse(line.as_bytes()).map(|(_, kind)| kind);
        let parsed = parsed.map_err(|fault| (fault.code, fault.id));
        let expected = expected.map_err(|(code, id)| (code, id.map(str::to_owned)));
        assert_eq!(parsed, expected, "{line}");
    }

    #[test]
    fn envelopes_are_told_apart() {
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, Ok(Kind::Request));
        check(r#"{"jsonrpc":"2.0","id":"a\"b","method":"x","params":[]}"#, Ok(Kind::Request));
        check(r#"{"jsonrpc":"2.0","method":"n"}"#, Ok(Kind::Notification));
        check(r#"{"jsonrpc":"2.0","id":null,"method":"n"}"#, Ok(Kind::Notification));
        check(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Ok(Kind::Response));
        check("{", Err((-32700, None)));
        check("\u{1}", Err((-32700, None)));
        check("[]", Err((-32600, None)));
        // An array was read as the fields of a message in their order, and ran.
        check(r#"["2.0",4,"ping",{},null,null]"#, Err((-32600, None)));
        check("3", Err((-32600, None)));
        check(r#"{"id":1,"method":"ping"}"#, Err((-32600, Some("1"))));
        check(r#"{"jsonrpc":"2.0","id":1}"#, Err((-32600, Some("1"))));
        check(r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, Err((-32600, None)));
        check(r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, Err((-32600, None)));
    }

    /// Returns the id and the parameters of a call as both ways of reading see them: at once, and one
    /// after the other.
    fn both(line: &[u8]) -> [Option<String>; 2] {
        let text = |id: &RawValue, params: CallParams<'_>| {
            let meta = params.meta.map(|Named(meta)| (meta.names_version(), meta.is_stateless()));
            let extra = (params.task.map(RawValue::get), params.input_responses.is_some(), meta);
            format!("{} {} {:?} {extra:?}", id.get(), params.name, params.arguments)
        };
        let at_once = parse_call(line).map(|(id, params)| text(id, params));
        let in_turn = || {
            let (frame, kind) = parse(line).ok()?;
            let is_call = kind == Kind::Request && frame.method.as_deref() == Some("tools/call");
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
        // What is spelled otherwise, or stands far behind, is read in turn.
        for call in [
            call.replace("tools/call", "tools\\/call"),
            call.replace("\"method\"", &format!("\"x\":\"{}\",\"method\"", "y".repeat(HEAD))),
        ] {
            let [at_once, in_turn] = both(call.as_bytes());
            assert_eq!((at_once, in_turn.is_some()), (None, true), "{call}");
        }
    }

    /// Returns whether a fault is written as one line of JSON.
    fn is_one_line(fault: &Fault) -> bool {
        let mut out = Vec::new();
        write_fault(&mut out, fault);
        let line = out.strip_suffix(b"\n").unwrap_or_default();
        !line.contains(&b'\n')
            && serde_json::from_slice::<Value>(line).is_ok_and(|fault| fault["error"].is_object())
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_a_fault(
            line in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            if let Err(fault) = parse(&line) {
                prop_assert!(is_one_line(&fault));
            }
        }

        /// Calls whose parts are all there, missing, twice there, or of another type.
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
            // What is not all text is left to the other way.
            if is_text || at_once.is_some() {
                prop_assert_eq!(at_once, in_turn.filter(|_| names_call));
            }
        }

        /// Envelopes whose parts are all there, missing, or of another type.
        #[test]
        fn any_envelope_is_a_message_or_a_fault(
            parts in prop::collection::vec(
                (
                    prop::sample::select(vec!["jsonrpc", "id", "method", "params", "result", "error"]),
                    prop::sample::select(vec![
                        "\"2.0\"", "\"1.0\"", "1", "-0", "1.5", "1e3", "99999999999999999999", "null",
                        "true", "\"x\"", "\"\\u0000\\n\\\"\"", "{}", "[]", "[[[{\"id\":1}]]]",
                    ]),
                ),
                0..7,
            ),
        ) {
            let parts: Vec<String> =
                parts.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
            let line = format!("{{{}}}", parts.join(","));
            match parse(line.as_bytes()) {
                Ok((frame, kind)) => {
                    prop_assert_eq!(frame.jsonrpc.as_deref(), Some("2.0"));
                    let has_id = frame.id.is_some_and(|id| id.get() != "null");
                    prop_assert_eq!(kind == Kind::Request, has_id && frame.method.is_some());
                }
                Err(fault) => prop_assert!(is_one_line(&fault), "{line}"),
            }
        }
    }
}
