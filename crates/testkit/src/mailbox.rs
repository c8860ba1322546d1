//! Messages of a World in memory: receivers by their names, and an inbox that is read once.

use std::sync::{Arc, Mutex};

use sinew_tool::sync::lock;
use sinew_tool::{
    BoxFuture, ChannelKind, Host, Inbox, InboxMessage, Kind, MessageClaim, MessageTarget, Messages,
    Receiver, ReceiverClaim, SentMessage, ToolError, UncertainMessage,
};

/// The session of every call.
const SESSION: &str = "test";
/// The longest message between agents.
const MAX_BYTES: usize = 102_400;
/// A time in an inbox and an outbox, in milliseconds since 1970.
const AT_MS: u64 = 1_800_000_000_123;

/// The inbox of the session, and the sent messages.
///
/// Agents are `peer`, `full` (whose inbox is) and `often` (which got too many). Channels are `console` and `telegram`, whose chat
/// says what its service answers: `429`, `401`, `404`, `408` (nothing), `409` (this call sent it before), `410` (an earlier
/// message is in doubt), else that it was sent.
#[derive(Debug, Clone, Default)]
pub struct Mailbox {
    inbox: Arc<Mutex<Vec<InboxMessage>>>,
}

impl Mailbox {
    /// Adds a message to the inbox of the session.
    pub fn receive(&self, sender: &str, content: Result<&str, &str>) {
        let content = content.map(str::to_owned).map_err(str::to_owned);
        lock(&self.inbox).push(InboxMessage { sender: sender.to_owned(), at_ms: AT_MS, content });
    }

    /// Contains a message as the guard does.
    pub(crate) fn target(claim: MessageClaim) -> Result<MessageTarget, ToolError> {
        let MessageClaim { receiver, content_argument, content } = claim;
        if content.trim().is_empty() {
            return Err(ToolError::argument(content_argument, "is empty"));
        }
        let receiver = match receiver {
            ReceiverClaim::Agent { argument, id, sender } => {
                if let Some((argument, sender)) = sender
                    && sender != SESSION
                {
                    let message =
                        format!("argument `{argument}` must be this session: `{SESSION}`");
                    return Err(ToolError::new(Kind::PolicyDenied, message)
                        .hint("a session sends in its own name alone"));
                }
                agent(argument, id, &content)?
            }
            ReceiverClaim::Channel { argument, name, chat, .. } => {
                channel(argument, name, chat, (content_argument, &content))?
            }
        };
        Ok(MessageTarget { receiver, content })
    }
}

fn agent(argument: &str, id: String, content: &str) -> Result<Receiver, ToolError> {
    if id == SESSION {
        return Err(ToolError::argument(argument, "is this session itself; name another one"));
    }
    if MAX_BYTES < content.len() {
        let message = format!("the message has {} bytes, more than {MAX_BYTES}", content.len());
        return Err(
            ToolError::new(Kind::TooLarge, message).hint("send it in parts, or name a file")
        );
    }
    if !["peer", "full", "often"].contains(&id.as_str()) {
        return Err(ToolError::argument(argument, format!("names no known session: `{id}`")).hint(
            "a session is known once it read its inbox, sent a message, or made a call that is on record",
        ));
    }
    Ok(Receiver::Agent { id, is_same_root: true })
}

fn channel(
    argument: &str,
    name: String,
    chat: String,
    (content_argument, content): (&str, &str),
) -> Result<Receiver, ToolError> {
    let (kind, host) = match name.as_str() {
        "console" => (ChannelKind::Console, None),
        "telegram" => (ChannelKind::Telegram, Some(Host::new("api.telegram.org", Some(443)))),
        name => {
            let problem = format!("names no channel: `{name}`; configured: `console`, `telegram`");
            return Err(ToolError::argument(argument, problem).hint(format!(
                "the user can add one in their configuration: `[messages.channels.{name}]` with `token_env`"
            )));
        }
    };
    let (n, max, unit) = kind.length(content);
    if max < n {
        let service = kind.service();
        let message =
            format!("argument `{content_argument}` has {n} {unit}; {service} takes {max} at most");
        return Err(ToolError::new(Kind::TooLarge, message).hint("send it in parts"));
    }
    Ok(Receiver::Channel { name, kind, chat, host })
}

/// The messages of one call.
#[derive(Debug)]
pub(crate) struct MailboxOfCall {
    pub(crate) mailbox: Mailbox,
    pub(crate) target: Option<MessageTarget>,
}

impl Messages for MailboxOfCall {
    fn send(&self) -> BoxFuture<'static, Result<SentMessage, ToolError>> {
        let failed = |kind, words: &str| ToolError::new(kind, words.to_owned());
        let channel =
            |kind, words| failed(kind, &format!("the channel `telegram` (Telegram) {words}"));
        let sent = match self.target.as_ref().map(|target| target.receiver.names()) {
            None => Err(failed(Kind::PolicyDenied, "the call sends no message")),
            Some(("agent", "full")) => Err(failed(
                Kind::LimitReached,
                "the inbox of `full` is full: 1000 messages wait until it reads them",
            )
            .hint("send it again later")),
            Some(("agent", "often")) => Err(failed(
                Kind::LimitReached,
                "10 messages went to `often` within a minute, which is the limit; the next may go in 12 s",
            )
            .hint("say more in one message instead of sending many")),
            Some(("telegram", "429")) => {
                Err(channel(Kind::LimitReached, "takes no more messages for 5 s")
                    .hint("it was not sent; send it again after that time"))
            }
            Some(("telegram", "401")) => {
                Err(channel(Kind::Unavailable, "refuses the token: Unauthorized"))
            }
            Some(("telegram", "404")) => {
                Err(channel(Kind::InvalidArgs, "does not reach this chat: Bad Request: chat not found"))
            }
            Some(("telegram", "408")) => Err(channel(Kind::Timeout, "gave no answer within 30 s")),
            Some(("telegram", "409")) => {
                Ok(SentMessage { sent_before_ms: Some(AT_MS), ..SentMessage::default() })
            }
            Some(("telegram", "410")) => {
                let (call_id, channel) = (String::from("test-3"), String::from("telegram"));
                let lost =
                    UncertainMessage { call_id, channel, chat: String::from("42"), at_ms: AT_MS };
                Ok(SentMessage { sent_before_ms: None, uncertain: vec![lost] })
            }
            Some(_) => Ok(SentMessage::default()),
        };
        Box::pin(std::future::ready(sent))
    }

    fn receive(&self, max: usize) -> BoxFuture<'static, Result<Inbox, ToolError>> {
        let mut waiting = lock(&self.mailbox.inbox);
        let n_read = max.min(waiting.len());
        let messages: Vec<InboxMessage> = waiting.drain(..n_read).collect();
        let inbox = Inbox {
            session: SESSION.to_owned(),
            messages,
            n_left: waiting.len() as u64,
            boundary: String::from("b0b0"),
        };
        Box::pin(std::future::ready(Ok(inbox)))
    }
}
