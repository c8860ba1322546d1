//! Message: sends a message to a chat of a channel, such as Telegram, Slack, Discord, a webhook or the console.

use serde::Deserialize;
use sinew_tool::{
    Context, Cost, Effects, Facts, MessageClaim, Operation, Param, ParamKind, ReceiverClaim, Reply,
    Row, SentMessage, Shaping, Targets, ToolError, shown_line,
};

use crate::time::iso_of_ms;

/// The channel that reaches no network.
const CONSOLE: &str = "console";

/// Sends a message to a channel.
#[derive(Debug)]
pub struct Message;

/// Arguments of Message.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageArgs {
    /// The name of the channel.
    pub channel: String,
    /// The chat, in the words of the service.
    pub chat_id: String,
    /// The content.
    pub content: String,
}

/// The native row.
pub const NATIVE: Row<Message> = Row {
    name: "Message",
    description: "Sends a message to a person through a configured channel, or `console`.",
    params: &[
        Param::required("channel", "channel", ParamKind::String, ""),
        Param::required("chat_id", "chat_id", ParamKind::String, ""),
        Param::required("content", "content", ParamKind::String, ""),
    ],
    core: false,
    ..Row::shaped(shape)
};

impl Operation for Message {
    const NAME: &'static str = "Message";
    const FACTS: Facts = Facts {
        effects: Effects::DELEGATE.or(Effects::NETWORK),
        idempotent: false,
        destructive: false,
        parallel: true,
    };
    type Args = MessageArgs;
    type Out = SentMessage;

    fn effects(args: &MessageArgs) -> Effects {
        // A rule on hosts covers what reaches a service.
        if args.channel == CONSOLE { Effects::DELEGATE } else { Effects::NETWORK }
    }

    fn message(args: &MessageArgs) -> Option<MessageClaim> {
        Some(MessageClaim {
            receiver: ReceiverClaim::Channel {
                argument: "channel",
                name: args.channel.clone(),
                chat_argument: "chat_id",
                chat: args.chat_id.clone(),
            },
            content_argument: "content",
            content: args.content.clone(),
        })
    }

    fn cost(_args: &MessageArgs, _targets: &Targets) -> Cost {
        Cost::Waits
    }

    async fn run(_args: &MessageArgs, cx: &Context) -> Result<SentMessage, ToolError> {
        cx.world.messages.send().await
    }
}

/// Adds to a reply what the sender must know beside that its message was sent.
pub fn note(reply: &mut Reply, sent: &SentMessage) {
    if let Some(at_ms) = sent.sent_before_ms {
        reply.note(format!(
            "[this call sent this message at {} already; it was not sent again]",
            iso_of_ms(at_ms)
        ));
    }
    for lost in &sent.uncertain {
        reply.note(format!(
            "[the message of call {} to {} of {} at {} may not have arrived: sinew ended, or was interrupted, while it \
             was sent; it is not sent again by itself]",
            shown_line(&lost.call_id),
            shown_line(&lost.chat),
            shown_line(&lost.channel),
            iso_of_ms(lost.at_ms)
        ));
    }
}

fn shape(args: &MessageArgs, sent: SentMessage, _shaping: &Shaping<'_>) -> Reply {
    let MessageArgs { channel, chat_id, content } = args;
    let (channel, chat) = (shown_line(channel), shown_line(chat_id));
    let mut reply = Reply::text(format!("sent {} bytes to {chat} of {channel}\n", content.len()));
    note(&mut reply, &sent);
    reply
}
