//! The JSON-RPC envelope, parsed without its contents.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::object::Named;

/// One message with raw parts or parsed parameters.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Notification,
    Response,
}

/// A JSON-RPC error for an invalid line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) code: i32,
    pub(crate) message: String,
    pub(crate) id: Option<String>,
}

const PARSE_ERROR: i32 = -32700;
/// JSON-RPC: not a valid request.
pub(crate) const INVALID_REQUEST: i32 = -32600;
pub(crate) const INVALID_PARAMS: i32 = -32602;

/// Parses the envelope of a line.
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

impl<P> Frame<'_, P> {
    pub(crate) fn kind(&self) -> Result<Kind, Fault> {
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

/// Returns the canonical spelling of an id: a string may contain escapes.
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

fn is_id(text: &str) -> bool {
    match text.as_bytes().first() {
        Some(b'"') => true,
        Some(b'-' | b'0'..=b'9') => text.parse::<i64>().is_ok(),
        _ => false,
    }
}

/// Writes an error response.
pub(crate) fn write_fault(out: &mut Vec<u8>, fault: &Fault) {
    let body = serde_json::json!({ "code": fault.code, "message": fault.message });
    let id = fault.id.as_deref().unwrap_or("null");
    out.extend_from_slice(
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{body}}}\n").as_bytes(),
    );
}

pub(crate) fn write_result(out: &mut Vec<u8>, id: &str, result: &[u8]) {
    write_result_with(out, id, |out| out.extend_from_slice(result));
}

/// Writes a response with a result written in place.
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
        // Regression: an array was parsed as the fields of a message, and ran.
        check(r#"["2.0",4,"ping",{},null,null]"#, Err((-32600, None)));
        check("3", Err((-32600, None)));
        check(r#"{"id":1,"method":"ping"}"#, Err((-32600, Some("1"))));
        check(r#"{"jsonrpc":"2.0","id":1}"#, Err((-32600, Some("1"))));
        check(r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, Err((-32600, None)));
        check(r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, Err((-32600, None)));
    }

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

        /// Envelopes with complete, missing or mistyped parts.
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
