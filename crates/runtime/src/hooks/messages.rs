//! Hooks of messages: before one is judged, after it was sent, and when one is read from the inbox.
//!
//! The content that a hook returns is judged, shown and sent, so those hooks run before the ruling. Hooks of a message
//! that was sent run beside the calls.

use std::sync::Arc;

use serde_json::Value;
use sinew_tool::{
    AGENT, AgentEvent, BoxFuture, HookEvent, Inbox, InboxMessage, MessageReceived, MessageSending,
    MessageSent, MessageTarget, Messages, Request, SentMessage, Tool, ToolError,
};

use super::{Notes, Stopped};
use crate::catalog::Listed;
use crate::caught::caught;
use crate::runtime::Runtime;

/// Runs the hooks before a call sends its message; they may change the content in its arguments, or stop the call. Returns
/// whether the arguments changed.
pub(crate) async fn sending(
    runtime: &Runtime,
    listed: &Listed,
    settings: &Arc<sinew_tool::FileSettings>,
    request: &mut Request,
    notes: &mut Notes,
) -> Result<bool, Stopped> {
    let tool: Arc<dyn Tool> = Arc::clone(&listed.tool);
    let decoded = listed.check(request.arguments.clone());
    // Arguments that do not fit are refused by a later stage.
    let Ok(prepared) = decoded.and_then(|args| tool.prepare(args, settings)) else {
        return Ok(false);
    };
    let Some(claim) = prepared.message() else { return Ok(false) };
    let (channel, receiver) = claim.receiver.names();
    let before = AgentEvent::MessageSending(MessageSending {
        session: request.session.clone(),
        call_id: request.call_id.clone(),
        channel: channel.to_owned(),
        receiver: receiver.to_owned(),
        content: claim.content.clone(),
    });
    let after = runtime.run_event_hooks(before, notes).await?;
    let AgentEvent::MessageSending(MessageSending { content, .. }) = after else {
        return Ok(false);
    };
    if content == claim.content {
        return Ok(false);
    }
    request.arguments.insert(claim.content_argument.to_owned(), Value::from(content));
    Ok(true)
}

/// Returns the messages of a call, with the hooks of those that are sent and read.
pub(crate) fn with_hooks(
    runtime: &Arc<Runtime>,
    messages: Arc<dyn Messages>,
    target: Option<&MessageTarget>,
    (session, call_id): (&str, &str),
) -> Arc<dyn Messages> {
    let has = |event| !runtime.hooks.at(event).is_empty();
    if !has(HookEvent::MessageSent) && !has(HookEvent::MessageReceived) {
        return messages;
    }
    let sent = target.map(|target| {
        let (channel, receiver) = target.receiver.names();
        MessageSent {
            session: session.to_owned(),
            call_id: call_id.to_owned(),
            channel: channel.to_owned(),
            receiver: receiver.to_owned(),
            content: target.content.clone(),
        }
    });
    Arc::new(HookedMessages { runtime: Arc::clone(runtime), messages, sent })
}

/// The messages of a call around which hooks run.
struct HookedMessages {
    runtime: Arc<Runtime>,
    messages: Arc<dyn Messages>,
    sent: Option<MessageSent>,
}

impl Messages for HookedMessages {
    fn send(&self) -> BoxFuture<'static, Result<SentMessage, ToolError>> {
        let sending = self.messages.send();
        let (runtime, told) = (Arc::clone(&self.runtime), self.sent.clone());
        Box::pin(async move {
            let sent = sending.await?;
            let hooks = runtime.hooks.at(HookEvent::MessageSent).to_vec();
            if let Some(told) = told.filter(|_| sent.sent_before_ms.is_none() && !hooks.is_empty())
            {
                runtime.telling.tell(async move {
                    let moment = AgentEvent::MessageSent(told);
                    for hook in hooks {
                        // A hook cannot stop a sent message.
                        let _ = caught(async { hook.agent(&moment).await }).await;
                    }
                });
            }
            Ok(sent)
        })
    }

    fn receive(&self, max: usize) -> BoxFuture<'static, Result<Inbox, ToolError>> {
        let receiving = self.messages.receive(max);
        let runtime = Arc::clone(&self.runtime);
        Box::pin(async move {
            let mut inbox = receiving.await?;
            for message in &mut inbox.messages {
                received(&runtime, &inbox.session, message).await;
            }
            Ok(inbox)
        })
    }
}

/// Runs the hooks of a message that was read, which may change or withhold its content.
async fn received(runtime: &Runtime, session: &str, message: &mut InboxMessage) {
    let Ok(content) = &message.content else { return };
    let moment = AgentEvent::MessageReceived(MessageReceived {
        session: session.to_owned(),
        channel: AGENT.to_owned(),
        sender: message.sender.clone(),
        sent_at_ms: message.at_ms,
        content: content.clone(),
    });
    // A changed content needs no note: it is what the reader sees.
    match runtime.run_event_hooks(moment, &mut Notes::default()).await {
        Ok(AgentEvent::MessageReceived(MessageReceived { content, .. })) => {
            message.content = Ok(content);
        }
        Ok(_) => {}
        Err(stopped) => message.content = Err(stopped.error.message.into_owned()),
    }
}
