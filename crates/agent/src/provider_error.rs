//! Errors of providers: their statuses and bodies become kinds that the agent acts on.

use serde_json::Value;

use crate::model::{ModelError, ModelErrorKind};

/// Returns the error for what a provider answers or streams instead of a message.
pub(crate) fn provider_error(status: u16, body: &Value) -> ModelError {
    let error = body.get("error").unwrap_or(body);
    let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
    let words = match (text("message"), error.as_str()) {
        ("", Some(words)) => words,
        (words, _) => words,
    };
    let shown = sinew_tool::shown_line(words);
    let code = format!("{} {}", text("type"), text("code")).to_lowercase();
    let says = |parts: &[&str]| {
        let words = words.to_lowercase();
        parts.iter().any(|part| words.contains(part) || code.contains(part))
    };
    use ModelErrorKind as Kind;
    let kind = match status {
        401 | 403 => Kind::Auth,
        404 => Kind::NotFound,
        413 => Kind::ContextOverflow,
        402 => Kind::Quota,
        429 if says(&["insufficient_quota", "billing"]) => Kind::Quota,
        429 => Kind::RateLimited,
        _ if says(&[
            "context_length",
            "context length",
            "context size",
            "context window",
            "prompt is too long",
        ]) =>
        {
            Kind::ContextOverflow
        }
        _ if says(&["authentication_error", "invalid_api_key", "permission_error"]) => Kind::Auth,
        _ if says(&["not_found_error", "model_not_found"]) => Kind::NotFound,
        _ if says(&["rate_limit"]) => Kind::RateLimited,
        408 | 409 | 500..=599 => Kind::Overloaded,
        _ if says(&["overloaded", "server_error", "api_error"]) => Kind::Overloaded,
        _ => Kind::Invalid,
    };
    let hint = match kind {
        Kind::Auth => "; check the key of this model",
        Kind::NotFound => "; check the name of the model and its `url`",
        Kind::Quota => "; the account has no quota left",
        Kind::ContextOverflow => "; start a new session or compact this one",
        _ => "",
    };
    let answered = if status == 200 { String::new() } else { format!(" (HTTP {status})") };
    ModelError::new(kind, format!("the model's server answers{answered}: {shown}{hint}"))
}
