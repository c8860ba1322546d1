//! AgentSend: puts a message into the inbox of another session.

use serde::Deserialize;
use sinew_tool::{
    Context, Cost, Effects, Facts, MessageClaim, Operation, Param, ParamKind, ReceiverClaim, Reply,
    Row, SentMessage, Targets, ToolError,
};

/// Sends a message to another session.
#[derive(Debug)]
pub struct AgentSend;

/// Arguments of AgentSend.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSendArgs {
    /// The session that gets it.
    pub target: String,
    /// The content.
    pub message: String,
    /// The session that sends it, where a dialect names it: only the caller's own is accepted.
    #[serde(default)]
    pub sender: Option<String>,
}

/// The native row.
pub const NATIVE: Row<AgentSend> = Row {
    name: "AgentSend",
    description: "Sends a message to another session, which reads it with AgentInbox.",
    params: &[
        Param::required("target", "target", ParamKind::String, "Session ID"),
        Param::required("message", "message", ParamKind::String, ""),
    ],
    core: false,
    ..Row::<AgentSend>::shaped(|args, _, _| {
        let target = sinew_tool::shown_line(&args.target);
        Reply::text(format!("sent {} bytes to {target}\n", args.message.len()))
    })
};

impl Operation for AgentSend {
    const NAME: &'static str = "AgentSend";
    const FACTS: Facts =
        Facts { effects: Effects::DELEGATE, idempotent: false, destructive: false, parallel: true };
    type Args = AgentSendArgs;
    type Out = SentMessage;

    fn message(args: &AgentSendArgs) -> Option<MessageClaim> {
        let sender = args.sender.clone().map(|sender| ("sender", sender));
        Some(MessageClaim {
            receiver: ReceiverClaim::Agent { argument: "target", id: args.target.clone(), sender },
            content_argument: "message",
            content: args.message.clone(),
        })
    }

    fn cost(_args: &AgentSendArgs, _targets: &Targets) -> Cost {
        Cost::Long
    }

    async fn run(_args: &AgentSendArgs, cx: &Context) -> Result<SentMessage, ToolError> {
        cx.still_wanted()?;
        cx.world.messages.send().await
    }
}
