//! Messages of a call: to another agent, to a channel of a person, and out of the session's own inbox.

use std::marker::Sync;

use crate::{BoxFuture, Host, Kind, ToolError};

/// A message of a call to a chat of a channel.
#[derive(Debug, Clone, Copy)]
pub struct ChannelMessage<'a> {
    /// The session that sends it.
    pub session: &'a str,
    /// The call that sends it: a webhook recognizes repetitions by it.
    pub call_id: &'a str,
    /// The name of the channel.
    pub channel: &'a str,
    /// The chat, in the words of the service.
    pub chat: &'a str,
    /// The content.
    pub content: &'a str,
}

crate::word_enum! {
    /// The kinds of channels.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum ChannelKind {
        /// A line on standard error of this process.
        Console = "console",
        /// A JSON object for a server of the user.
        Webhook = "webhook",
        /// The Telegram Bot API.
        Telegram = "telegram",
        /// The Slack Web API.
        Slack = "slack",
        /// The Discord API.
        Discord = "discord",
    }
}

impl ChannelKind {
    /// Returns the name of the service for people.
    pub fn service(self) -> &'static str {
        match self {
            Self::Console => "the console",
            Self::Webhook => "the webhook",
            Self::Telegram => "Telegram",
            Self::Slack => "Slack",
            Self::Discord => "Discord",
        }
    }

    /// Returns why a chat cannot be one of the service, if so.
    pub fn problem_with_chat(self, chat: &str) -> Option<String> {
        let is_id = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        match self {
            _ if chat.trim().is_empty() => Some(String::from("is empty")),
            _ if MAX_CHAT < chat.len() => Some(format!("has more than {MAX_CHAT} bytes")),
            _ if chat.chars().any(char::is_control) => Some(String::from("has control characters")),
            // It is a part of the address.
            Self::Discord if !is_id(chat) => {
                Some(String::from("must be the ID of a channel of Discord, which has digits only"))
            }
            Self::Telegram if !chat.starts_with('@') && !is_id(chat.trim_start_matches('-')) => {
                Some(String::from("must be the number of a chat of Telegram, or `@` and a name"))
            }
            _ => None,
        }
    }

    /// Returns how long a content is and how long it may be, with the unit in which the service counts.
    pub fn length(self, content: &str) -> (usize, usize, &'static str) {
        match self {
            // The offsets of its entities count the same.
            Self::Telegram => (content.encode_utf16().count(), 4_096, "UTF-16 code units"),
            Self::Discord => (content.chars().count(), 2_000, "characters"),
            Self::Slack => (content.chars().count(), 40_000, "characters"),
            Self::Webhook | Self::Console => (content.len(), 102_400, "bytes"),
        }
    }
}

/// The longest name of a chat, in bytes.
const MAX_CHAT: usize = 256;

/// A message that a call sends, before containment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageClaim {
    /// The receiver as written.
    pub receiver: ReceiverClaim,
    /// The wire name of the argument with the content, which hooks may change.
    pub content_argument: &'static str,
    /// The content.
    pub content: String,
}

/// The receiver of a message as written, with the wire names of its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiverClaim {
    /// The inbox of another session.
    Agent {
        /// The argument with the target.
        argument: &'static str,
        /// The session.
        id: String,
        /// The sender with its argument, where a dialect names it: it must be the caller's own session.
        sender: Option<(&'static str, String)>,
    },
    /// A chat of a configured channel.
    Channel {
        /// The argument with the channel.
        argument: &'static str,
        /// The name of the channel.
        name: String,
        /// The argument with the chat.
        chat_argument: &'static str,
        /// The chat, in the words of the service.
        chat: String,
    },
}

impl ReceiverClaim {
    /// Returns the name of the channel, and the receiver in it: for agents the channel is `agent`.
    pub fn names(&self) -> (&str, &str) {
        match self {
            Self::Agent { id, .. } => (AGENT, id),
            Self::Channel { name, chat, .. } => (name, chat),
        }
    }
}

/// The name under which hooks see the bus between agents.
pub const AGENT: &str = "agent";

/// A message after containment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageTarget {
    /// The receiver.
    pub receiver: Receiver,
    /// The content that is judged, shown and sent.
    pub content: String,
}

/// The receiver of a message after containment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Receiver {
    /// The inbox of another session.
    Agent {
        /// The session.
        id: String,
        /// Whether it works in the same first root.
        is_same_root: bool,
    },
    /// A chat of a configured channel.
    Channel {
        /// The name of the channel.
        name: String,
        /// Its kind.
        kind: ChannelKind,
        /// The chat.
        chat: String,
        /// The host that is reached; the console has none.
        host: Option<Host>,
    },
}

impl Receiver {
    /// Returns the host that is reached.
    pub fn host(&self) -> Option<&Host> {
        match self {
            Self::Agent { .. } => None,
            Self::Channel { host, .. } => host.as_ref(),
        }
    }

    /// Returns the name of the channel, and the receiver in it: for agents the channel is `agent`.
    pub fn names(&self) -> (&str, &str) {
        match self {
            Self::Agent { id, .. } => (AGENT, id),
            Self::Channel { name, chat, .. } => (name, chat),
        }
    }
}

/// A message that was sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SentMessage {
    /// When the same call sent it before, in milliseconds since 1970: it was not sent again.
    pub sent_before_ms: Option<u64>,
    /// Earlier messages of the session of which it is not known whether they arrived.
    pub uncertain: Vec<UncertainMessage>,
}

/// A message of which it is not known whether it arrived: its process ended while it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncertainMessage {
    /// The call that sent it.
    pub call_id: String,
    /// The channel.
    pub channel: String,
    /// The chat.
    pub chat: String,
    /// When it was sent, in milliseconds since 1970.
    pub at_ms: u64,
}

/// Messages out of an inbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inbox {
    /// The session that owns the inbox.
    pub session: String,
    /// The messages, oldest first.
    pub messages: Vec<InboxMessage>,
    /// How many more wait.
    pub n_left: u64,
    /// A random word that marks where the text of a message begins and ends.
    pub boundary: String,
}

/// One message out of an inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxMessage {
    /// The session that sent it.
    pub sender: String,
    /// When it was sent, in milliseconds since 1970.
    pub at_ms: u64,
    /// Its content, or why a hook withheld it.
    pub content: Result<String, String>,
}

/// The messages of a World: the one that the call sends, and the inbox of its session.
pub trait Messages: Send + Sync {
    /// Sends the message of the call. Dropping the future ends the wait for an answer; a sent message stays sent.
    fn send(&self) -> BoxFuture<'static, Result<SentMessage, ToolError>>;

    /// Takes the oldest messages, at most so many, out of the inbox of the caller's session. Each is returned once.
    fn receive(&self, max: usize) -> BoxFuture<'static, Result<Inbox, ToolError>>;
}

/// The messages of a World without any.
#[derive(Debug)]
pub struct NoMessages;

impl Messages for NoMessages {
    fn send(&self) -> BoxFuture<'static, Result<SentMessage, ToolError>> {
        Box::pin(async { Err(no_messages()) })
    }

    fn receive(&self, _max: usize) -> BoxFuture<'static, Result<Inbox, ToolError>> {
        Box::pin(async { Err(no_messages()) })
    }
}

/// Returns the error of a call where there is no place for messages.
pub fn no_messages() -> ToolError {
    ToolError::new(Kind::Unavailable, "messages need a state directory, and there is none here")
        .hint("the user can set XDG_STATE_HOME to an absolute directory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_and_chats_fit_their_service() {
        use ChannelKind::*;
        for (kind, content, fits) in [
            (Telegram, "x".repeat(4_096), true),
            (Telegram, "x".repeat(4_097), false),
            (Telegram, "😀".repeat(2_048), true),
            (Telegram, "😀".repeat(2_049), false),
            (Discord, "é".repeat(2_000), true),
            (Discord, "é".repeat(2_001), false),
            (Slack, "x".repeat(40_000), true),
            (Slack, "x".repeat(40_001), false),
            (Webhook, "x".repeat(102_401), false),
            (Webhook, "é".repeat(51_200), true),
        ] {
            let (n, max, unit) = kind.length(&content);
            assert_eq!(n <= max, fits, "{kind}: {n} {unit}");
        }
        for (kind, chat, fits) in [
            (Telegram, "-100123", true),
            (Telegram, "@team", true),
            (Telegram, "team", false),
            (Discord, "290926798999357250", true),
            (Discord, "1/../2", false),
            (Discord, "", false),
            (Slack, "#general", true),
            (Slack, "a\nb", false),
            (Webhook, " ", false),
        ] {
            let problem = kind.problem_with_chat(chat);
            assert_eq!(problem.is_none(), fits, "{kind} {chat}: {problem:?}");
        }
    }
}
