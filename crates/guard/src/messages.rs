//! The messages of a call: who receives the one that it sends, and the World object that sends and reads.
//!
//! The receiver is resolved before the ruling, like a path: an agent with its root, a channel with its host, which rules may
//! judge. The judged message is the one that is sent; an operation names neither receiver nor content again.

#[cfg(feature = "web")]
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sinew_fs::clock::timestamp;
use sinew_records::knowledge::KnowledgeBase;
use sinew_records::messages::{MessageError, MessageLimits, MessageStore, OutboxEntry};
use sinew_tool::{
    BoxFuture, Caller, ChannelKind, ChannelMessage, Inbox, Kind, MessageClaim, MessageTarget,
    Messages, NoMessages, Receiver, ReceiverClaim, SentMessage, Targets, ToolError, no_messages,
};
#[cfg(feature = "web")]
use sinew_web::channels::{self, Channel, ChannelError};
#[cfg(feature = "web")]
use sinew_web::http::HttpClient;

#[cfg(feature = "web")]
use crate::web_sessions::WebSessions;

/// The name of the channel that writes to standard error.
const CONSOLE: &str = "console";
/// What to do about a message that may have arrived.
const IN_DOUBT: &str = "sinew does not send it again by itself; look at the chat, and send it in a new call if it is not there";

/// How messages are sent.
#[derive(Debug, Clone)]
pub struct MessageSettings {
    /// The queues and the outbox; without them only the console works.
    pub store: Option<Arc<MessageStore>>,
    /// Writes a line for the person at the terminal.
    pub console: fn(&str),
    /// The channels by their names. One that cannot be used says why.
    #[cfg(feature = "web")]
    pub channels: BTreeMap<String, Result<Channel, String>>,
}

/// The messages of every call; nothing is opened yet.
#[derive(Debug)]
pub(crate) struct MessageCenter {
    settings: MessageSettings,
    knowledge: Arc<KnowledgeBase>,
    /// The first root.
    root: String,
    #[cfg(feature = "web")]
    web: Option<Arc<WebSessions>>,
    #[cfg(feature = "web")]
    client: HttpClient,
}

impl MessageCenter {
    /// Returns the messages of calls that have this first root.
    pub(crate) fn new(
        settings: MessageSettings,
        knowledge: Arc<KnowledgeBase>,
        root: Option<&Path>,
    ) -> Self {
        Self {
            settings,
            knowledge,
            root: root.map(|root| root.to_string_lossy().into_owned()).unwrap_or_default(),
            #[cfg(feature = "web")]
            web: None,
            #[cfg(feature = "web")]
            client: HttpClient::default(),
        }
    }

    /// Sets where it is noted that a session read a text.
    #[cfg(feature = "web")]
    pub(crate) fn noting(self, web: Option<Arc<WebSessions>>) -> Self {
        Self { web, ..self }
    }

    fn store(&self) -> Result<&MessageStore, ToolError> {
        self.settings.store.as_deref().ok_or_else(no_messages)
    }
}

/// Resolves the receiver of a message, and refuses what no receiver takes.
pub(crate) fn contain(
    center: Option<&MessageCenter>,
    address: &str,
    claim: MessageClaim,
) -> Result<MessageTarget, ToolError> {
    let center = center.ok_or_else(no_messages)?;
    let MessageClaim { receiver, content_argument, content } = claim;
    if content.trim().is_empty() {
        return Err(ToolError::argument(content_argument, "is empty"));
    }
    let receiver = match receiver {
        ReceiverClaim::Agent { argument, id, sender } => {
            if let Some((argument, sender)) = sender
                && sender != address
            {
                let message = format!("argument `{argument}` must be this session: `{address}`");
                return Err(ToolError::new(Kind::PolicyDenied, message)
                    .hint("a session sends in its own name alone"));
            }
            agent(center, (argument, id), address, &content)?
        }
        ReceiverClaim::Channel { argument, name, chat_argument, chat } => {
            let receiver = channel(center, argument, name, chat)?;
            if let Receiver::Channel { kind, chat, .. } = &receiver {
                check_channel(*kind, (chat_argument, chat), (content_argument, &content))?;
            }
            receiver
        }
    };
    Ok(MessageTarget { receiver, content })
}

fn agent(
    center: &MessageCenter,
    (argument, id): (&'static str, String),
    address: &str,
    content: &str,
) -> Result<Receiver, ToolError> {
    if id == address {
        return Err(ToolError::argument(argument, "is this session itself; name another one"));
    }
    let store = center.store()?;
    let MessageLimits { max_bytes, .. } = *store.limits();
    if max_bytes < content.len() {
        return Err(failed(MessageError::TooLarge { bytes: content.len(), max: max_bytes }));
    }
    let known = store.find(&id, &center.knowledge).map_err(failed)?;
    let Some(known) = known else {
        let shown = sinew_tool::shown_line(&id);
        return Err(ToolError::argument(argument, format!("names no known session: `{shown}`"))
            .hint(
                "a session is known once it read its inbox, sent a message, or made a call that is on record",
            ));
    };
    let is_same_root = known.root.is_some_and(|root| root == center.root);
    Ok(Receiver::Agent { id, is_same_root })
}

fn channel(
    center: &MessageCenter,
    argument: &'static str,
    name: String,
    chat: String,
) -> Result<Receiver, ToolError> {
    if name == CONSOLE {
        return Ok(Receiver::Channel { name, kind: ChannelKind::Console, chat, host: None });
    }
    #[cfg(feature = "web")]
    let known = match center.settings.channels.get(&name) {
        Some(Ok(Channel { kind, address, .. })) => {
            center.store()?;
            return Ok(Receiver::Channel { name, kind: *kind, chat, host: Some(address.host()) });
        }
        Some(Err(why)) => {
            let message = format!("the channel `{name}` cannot be used: {why}");
            return Err(ToolError::new(Kind::Unavailable, message));
        }
        None => center.settings.channels.keys().map(String::as_str).collect::<Vec<_>>(),
    };
    #[cfg(not(feature = "web"))]
    let known = {
        let _ = center;
        Vec::<&str>::new()
    };
    let known: Vec<String> =
        std::iter::once(CONSOLE).chain(known).map(|name| format!("`{name}`")).collect();
    let shown = sinew_tool::shown_line(&name);
    let problem = format!("names no channel: `{shown}`; configured: {}", known.join(", "));
    let kind = match ChannelKind::from_word(&name) {
        Some(kind) => kind.as_str(),
        None => "telegram",
    };
    Err(ToolError::argument(argument, problem).hint(format!(
        "the user can add one in their configuration: `[messages.channels.{kind}]` with {}",
        match kind {
            "webhook" => "`url`",
            _ => "`token_env`",
        }
    )))
}

fn check_channel(
    kind: ChannelKind,
    (chat_argument, chat): (&str, &str),
    (content_argument, content): (&str, &str),
) -> Result<(), ToolError> {
    if let Some(problem) = kind.problem_with_chat(chat) {
        return Err(ToolError::argument(chat_argument, problem));
    }
    let (n, max, unit) = kind.length(content);
    if max < n {
        let service = kind.service();
        let message =
            format!("argument `{content_argument}` has {n} {unit}; {service} takes {max} at most");
        return Err(ToolError::new(Kind::TooLarge, message).hint("send it in parts"));
    }
    Ok(())
}

/// Returns the messages of a cleared call.
pub(crate) fn of_call(
    center: Option<&Arc<MessageCenter>>,
    targets: &Targets,
    caller: Option<&Caller>,
) -> Arc<dyn Messages> {
    match (center, caller) {
        (Some(center), Some(caller)) => Arc::new(CallMessages(Arc::new(OfCall {
            center: Arc::clone(center),
            target: targets.message.clone(),
            address: caller.address().to_owned(),
            #[cfg(feature = "web")]
            session: caller.session.clone(),
            call_id: caller.call_id.clone(),
        }))),
        _ => Arc::new(NoMessages),
    }
}

/// The messages of one call.
#[derive(Debug)]
struct CallMessages(Arc<OfCall>);

#[derive(Debug)]
struct OfCall {
    center: Arc<MessageCenter>,
    target: Option<MessageTarget>,
    /// The inbox of the caller.
    address: String,
    /// Its session, for which hosts are noted.
    #[cfg(feature = "web")]
    session: String,
    call_id: String,
}

impl Messages for CallMessages {
    fn send(&self) -> BoxFuture<'static, Result<SentMessage, ToolError>> {
        let call = Arc::clone(&self.0);
        Box::pin(async move { call.send().await })
    }

    fn receive(&self, max: usize) -> BoxFuture<'static, Result<Inbox, ToolError>> {
        let call = Arc::clone(&self.0);
        Box::pin(async move { call.receive(max) })
    }
}

impl OfCall {
    async fn send(&self) -> Result<SentMessage, ToolError> {
        let Some(MessageTarget { receiver, content }) = &self.target else {
            return Err(ToolError::new(Kind::PolicyDenied, "the call sends no message"));
        };
        match receiver {
            Receiver::Agent { id, .. } => {
                let from = (self.address.as_str(), self.center.root.as_str());
                self.center.store()?.send(from, id, content).map_err(failed)?;
                Ok(SentMessage::default())
            }
            Receiver::Channel { kind: ChannelKind::Console, chat, .. } => {
                let chat = sinew_tool::shown_line(chat);
                (self.center.settings.console)(&format!("message for {chat}: {content}"));
                Ok(SentMessage::default())
            }
            Receiver::Channel { name, chat, .. } => self.send_to_channel(name, chat, content).await,
        }
    }

    /// Sends a message to a channel, recorded in the outbox before it leaves and after the answer.
    async fn send_to_channel(
        &self,
        name: &str,
        chat: &str,
        content: &str,
    ) -> Result<SentMessage, ToolError> {
        let (session, call_id) = (self.address.as_str(), self.call_id.as_str());
        let store = self.center.store()?;
        let entry = store.begin(&ChannelMessage { session, call_id, channel: name, chat, content });
        let uncertain = match entry.map_err(failed)? {
            OutboxEntry::New(uncertain) => uncertain,
            OutboxEntry::Sent(at_ms) => {
                return Ok(SentMessage { sent_before_ms: Some(at_ms), ..SentMessage::default() });
            }
            OutboxEntry::Uncertain(at_ms) => {
                let at = timestamp(at_ms);
                let message = format!(
                    "this call sent this message at {at}, and it is not known whether it arrived"
                );
                return Err(ToolError::new(Kind::ExecutionFailed, message).hint(IN_DOUBT));
            }
        };
        // A call that is cancelled meanwhile leaves a doubt, of which the session hears with its next message.
        let doubt = Doubt { store, session, call_id };
        let sent = self.deliver(name, chat, content).await;
        std::mem::forget(doubt);
        let settled = match &sent {
            Ok(()) => store.confirm(session, call_id),
            Err(Undelivered { is_uncertain: true, .. }) => store.doubt(session, call_id, true),
            Err(_) => store.refuse(session, call_id),
        };
        sent.map_err(|undelivered| undelivered.error)?;
        // The message arrived, so the call succeeded; its row stays one in doubt.
        let _ = settled;
        Ok(SentMessage { sent_before_ms: None, uncertain })
    }

    #[cfg(not(feature = "web"))]
    async fn deliver(&self, _: &str, _: &str, _: &str) -> Result<(), Undelivered> {
        let error = ToolError::new(Kind::Unavailable, "this build of sinew has no network");
        Err(Undelivered { error, is_uncertain: false })
    }

    #[cfg(feature = "web")]
    async fn deliver(&self, name: &str, chat: &str, content: &str) -> Result<(), Undelivered> {
        let Some(Ok(channel)) = self.center.settings.channels.get(name) else {
            let error = ToolError::new(Kind::PolicyDenied, "the call names no channel");
            return Err(Undelivered { error, is_uncertain: false });
        };
        let (session, call_id) = (self.address.as_str(), self.call_id.as_str());
        let outbound = ChannelMessage { session, call_id, channel: name, chat, content };
        let sent = channels::send(&self.center.client, channel, &outbound).await;
        sent.map_err(|error| Undelivered {
            is_uncertain: error.is_uncertain(),
            error: of_channel(name, channel.kind, &error),
        })
    }

    fn receive(&self, max: usize) -> Result<Inbox, ToolError> {
        let boundary = boundary()?;
        let owner = (self.address.as_str(), self.center.root.as_str());
        let (messages, n_left) = self.center.store()?.receive(owner, max).map_err(failed)?;
        // Another agent may pass on what a page told it.
        #[cfg(feature = "web")]
        if let Some(web) = self.center.web.as_ref().filter(|_| !messages.is_empty()) {
            web.note_text(&self.session);
        }
        Ok(Inbox { session: self.address.clone(), messages, n_left, boundary })
    }
}

/// Why a message was not confirmed, and whether it may have arrived.
struct Undelivered {
    error: ToolError,
    is_uncertain: bool,
}

/// Records a doubt if it is dropped before the answer.
struct Doubt<'a> {
    store: &'a MessageStore,
    session: &'a str,
    call_id: &'a str,
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        let _ = self.store.doubt(self.session, self.call_id, false);
    }
}

fn boundary() -> Result<String, ToolError> {
    let mut bytes = [0; 6];
    getrandom::fill(&mut bytes).map_err(|error| {
        ToolError::new(Kind::Unavailable, "the system gives no random numbers").source(error)
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns an error of the store for the model, which does not see where the database is.
fn failed(error: MessageError) -> ToolError {
    let words = error.to_string();
    match error {
        MessageError::Database { problem, .. } => {
            let message = format!("the messages cannot be used: {problem}");
            ToolError::new(Kind::Unavailable, message).source(words)
        }
        MessageError::TooLarge { .. } => {
            ToolError::new(Kind::TooLarge, words).hint("send it in parts, or name a file")
        }
        MessageError::QueueFull { .. } => {
            ToolError::new(Kind::LimitReached, words).hint("send it again later")
        }
        MessageError::TooOften { .. } => ToolError::new(Kind::LimitReached, words)
            .hint("say more in one message instead of sending many"),
    }
}

#[cfg(feature = "web")]
fn of_channel(name: &str, kind: ChannelKind, error: &ChannelError) -> ToolError {
    let words = format!("the channel `{name}` ({}) {error}", kind.service());
    match error {
        ChannelError::RateLimited(_) => ToolError::new(Kind::LimitReached, words)
            .hint("it was not sent; send it again after that time"),
        ChannelError::WrongToken(_) => ToolError::new(Kind::Unavailable, words).hint(format!(
            "the user can correct the token, which `messages.channels.{name}.token_env` names"
        )),
        ChannelError::UnknownChat(_) => ToolError::new(Kind::InvalidArgs, words)
            .hint("check the chat; the bot must be a member of it"),
        ChannelError::TooLong(_) => ToolError::new(Kind::TooLarge, words).hint("send it in parts"),
        ChannelError::Refused(_) => ToolError::new(Kind::ExecutionFailed, words),
        ChannelError::Unreachable(_) => ToolError::new(Kind::ExecutionFailed, words)
            .hint("nothing was sent; send it again later"),
        ChannelError::Unanswered(_) => ToolError::new(Kind::ExecutionFailed, words)
            .hint(format!("the message may have arrived; {IN_DOUBT}")),
        ChannelError::TimedOut(_) => ToolError::new(Kind::Timeout, words)
            .hint(format!("the message may have arrived; {IN_DOUBT}")),
    }
}
