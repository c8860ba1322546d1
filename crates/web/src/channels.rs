//! Sends messages to the channels of a person: Telegram, Slack, Discord, or a webhook of the user.
//!
//! The user names the addresses, so they need not be public. A request is sent once: there is no redirect and no retry, since a
//! second request could be a second message. Each service says in its own form what went wrong; a [`ChannelError`] has it in one.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use sinew_tool::{ApiKey, ChannelKind, ChannelMessage};

use crate::http::{HttpAddress, HttpClient, HttpError, HttpReply};

/// The most bytes of an answer.
const MAX_ANSWER: usize = 256 << 10;
/// How much of the words of a service an error shows, in bytes.
const MAX_WORDS: usize = 300;

/// A channel of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    /// The service; not the console.
    pub kind: ChannelKind,
    /// The base address of its API.
    pub address: HttpAddress,
    /// Its token, which a webhook need not have.
    pub token: Option<ApiKey>,
    /// How long the service may take to answer.
    pub timeout: Duration,
}

/// Why a message was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelError {
    /// Too many messages; the next may go after this time, if the service says so.
    RateLimited(Option<Duration>),
    /// The token is wrong or may not do this.
    WrongToken(String),
    /// There is no such chat, or the sender is not in it.
    UnknownChat(String),
    /// The content is longer than the service takes.
    TooLong(String),
    /// The service refused for another reason.
    Refused(String),
    /// The server could not be reached: nothing was sent.
    Unreachable(String),
    /// The request went out, and no usable answer came: the message may have arrived.
    Unanswered(String),
    /// The same, because the time of the channel ran out.
    TimedOut(Duration),
}

impl ChannelError {
    /// Returns whether the message may have arrived all the same.
    pub fn is_uncertain(&self) -> bool {
        matches!(self, Self::Unanswered(_) | Self::TimedOut(_))
    }
}

impl fmt::Display for ChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RateLimited(Some(wait)) => {
                let s = wait.as_millis().div_ceil(1_000);
                write!(f, "takes no more messages for {s} s")
            }
            Self::RateLimited(None) => f.write_str("takes no more messages now"),
            Self::WrongToken(why) => write!(f, "refuses the token: {why}"),
            Self::UnknownChat(why) => write!(f, "does not reach this chat: {why}"),
            Self::TooLong(why) => write!(f, "takes no message of this length: {why}"),
            Self::Refused(why) => write!(f, "refuses the message: {why}"),
            Self::Unreachable(why) => write!(f, "cannot be reached: {why}"),
            Self::Unanswered(why) => write!(f, "gave no answer: {why}"),
            Self::TimedOut(time) => write!(f, "gave no answer within {} s", time.as_secs_f32()),
        }
    }
}

/// Sends a message once, within the time of the channel.
pub async fn send(
    client: &HttpClient,
    channel: &Channel,
    outbound: &ChannelMessage<'_>,
) -> Result<(), ChannelError> {
    let (address, headers, body) = request(channel, outbound);
    let body = Some(body.to_string().into_bytes());
    let sent = client.send(&address, &headers, body, MAX_ANSWER);
    let reply = match tokio::time::timeout(channel.timeout, sent).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(HttpError::NotConnected(why))) => return Err(ChannelError::Unreachable(why)),
        Ok(Err(HttpError::Unusable(why))) => return Err(ChannelError::Unreachable(why)),
        Ok(Err(HttpError::Unreachable(why))) => return Err(ChannelError::Unanswered(why)),
        Ok(Err(error @ HttpError::TooLong(_))) => {
            return Err(ChannelError::Unanswered(error.to_string()));
        }
        Err(_) => return Err(ChannelError::TimedOut(channel.timeout)),
    };
    answered(channel.kind, &reply)
}

/// Returns the address, headers and body of a request.
fn request(
    channel: &Channel,
    outbound: &ChannelMessage<'_>,
) -> (HttpAddress, Vec<(&'static str, String)>, Value) {
    let token = channel.token.as_ref().map(ApiKey::reveal).unwrap_or_default();
    let mut headers = vec![("content-type", String::from("application/json; charset=utf-8"))];
    let ChannelMessage { session, call_id, channel: name, chat, content } = *outbound;
    let (address, body) = match channel.kind {
        ChannelKind::Telegram => (
            channel.address.below(&format!("bot{token}/sendMessage")),
            json!({ "chat_id": chat, "text": content }),
        ),
        ChannelKind::Slack => {
            headers.push(("authorization", format!("Bearer {token}")));
            (channel.address.below("chat.postMessage"), json!({ "channel": chat, "text": content }))
        }
        ChannelKind::Discord => {
            headers.push(("authorization", format!("Bot {token}")));
            // `@everyone` in a text sends no notification.
            let mentions = json!({ "parse": [] });
            (
                channel.address.below(&format!("channels/{chat}/messages")),
                json!({ "content": content, "allowed_mentions": mentions }),
            )
        }
        ChannelKind::Webhook | ChannelKind::Console => {
            if !token.is_empty() {
                headers.push(("authorization", format!("Bearer {token}")));
            }
            headers.push(("idempotency-key", header_value(&format!("{session}/{call_id}"))));
            let body = json!({
                "type": "message", "session": session, "call_id": call_id, "channel": name,
                "chat_id": chat, "content": content,
            });
            (channel.address.clone(), body)
        }
    };
    (address, headers, body)
}

/// Returns a text as the value of a header, in which other characters than visible ASCII are `_`.
fn header_value(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_graphic() { c } else { '_' }).collect()
}

/// Reads what a service answered.
fn answered(kind: ChannelKind, reply: &HttpReply) -> Result<(), ChannelError> {
    let said: Value = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
    let is_success = (200..300).contains(&reply.status);
    // Telegram and Slack say so themselves, Slack even with status 200.
    let is_ok = match kind {
        ChannelKind::Telegram | ChannelKind::Slack => said.get("ok").and_then(Value::as_bool),
        ChannelKind::Discord => said.get("id").map(|_| true),
        ChannelKind::Webhook | ChannelKind::Console => Some(is_success),
    };
    if is_success && is_ok == Some(true) {
        return Ok(());
    }
    let words = words(kind, &said, reply);
    let retry_after = retry_after(&said, reply);
    if reply.status == 429 || words == "ratelimited" || words == "rate_limited" {
        return Err(ChannelError::RateLimited(retry_after));
    }
    if is_success && is_ok.is_none() {
        return Err(ChannelError::Unanswered(format!(
            "the answer is not in the form of {}",
            kind.service()
        )));
    }
    // A gateway can fail after it passed the message on.
    if 500 <= reply.status {
        return Err(ChannelError::Unanswered(words));
    }
    Err(match kind {
        ChannelKind::Telegram => telegram(reply.status, words),
        ChannelKind::Slack => slack(reply.status, words),
        ChannelKind::Discord => discord(reply.status, &said, words),
        ChannelKind::Webhook | ChannelKind::Console => match reply.status {
            401 | 403 => ChannelError::WrongToken(words),
            404 | 410 => ChannelError::UnknownChat(words),
            413 => ChannelError::TooLong(words),
            _ => ChannelError::Refused(words),
        },
    })
}

fn telegram(status: u16, words: String) -> ChannelError {
    match status {
        // A token that is none of Telegram's is a path that is not there.
        401 | 404 => ChannelError::WrongToken(words),
        403 => ChannelError::UnknownChat(words),
        _ if words.contains("chat not found") || words.contains("chat_id is empty") => {
            ChannelError::UnknownChat(words)
        }
        _ if words.contains("message is too long") => ChannelError::TooLong(words),
        _ => ChannelError::Refused(words),
    }
}

fn slack(status: u16, words: String) -> ChannelError {
    match words.as_str() {
        "invalid_auth"
        | "not_authed"
        | "account_inactive"
        | "token_revoked"
        | "token_expired"
        | "missing_scope"
        | "no_permission"
        | "not_allowed_token_type"
        | "org_login_required" => ChannelError::WrongToken(words),
        "channel_not_found" | "not_in_channel" | "is_archived" | "restricted_action" => {
            ChannelError::UnknownChat(words)
        }
        "msg_too_long" | "msg_blocks_too_long" => ChannelError::TooLong(words),
        _ if status == 401 || status == 403 => ChannelError::WrongToken(words),
        _ => ChannelError::Refused(words),
    }
}

fn discord(status: u16, said: &Value, words: String) -> ChannelError {
    let is_too_long = || {
        let problems = said.pointer("/errors/content/_errors").and_then(Value::as_array);
        let code = |problem: &Value| problem.get("code") == Some(&json!("BASE_TYPE_MAX_LENGTH"));
        problems.is_some_and(|problems| problems.iter().any(code))
    };
    match (status, said.get("code").and_then(Value::as_u64)) {
        (401, _) => ChannelError::WrongToken(words),
        // Unknown channel, no access, no permission, and no messages to this user.
        (_, Some(10_003 | 50_001 | 50_013 | 50_007)) | (403 | 404, _) => {
            ChannelError::UnknownChat(words)
        }
        _ if is_too_long() => ChannelError::TooLong(words),
        _ => ChannelError::Refused(words),
    }
}

/// Returns the words of a service for an error, as one short line.
fn words(kind: ChannelKind, said: &Value, reply: &HttpReply) -> String {
    let key = match kind {
        ChannelKind::Telegram => "description",
        ChannelKind::Slack | ChannelKind::Webhook | ChannelKind::Console => "error",
        ChannelKind::Discord => "message",
    };
    match said.get(key).and_then(Value::as_str).filter(|words| !words.trim().is_empty()) {
        Some(words) => {
            let shown = words.get(..words.floor_char_boundary(MAX_WORDS)).unwrap_or_default();
            sinew_tool::shown_line(shown).to_string()
        }
        None => format!("status {}", reply.status),
    }
}

/// Returns how long a service wants to be left alone: what its body says is more exact than the header.
fn retry_after(said: &Value, reply: &HttpReply) -> Option<Duration> {
    let of_body = said.pointer("/parameters/retry_after").or_else(|| said.get("retry_after"));
    let of_body = of_body.and_then(Value::as_f64);
    of_body.and_then(|s| Duration::try_from_secs_f64(s).ok()).or(reply.retry_after)
}

#[cfg(test)]
mod tests;
