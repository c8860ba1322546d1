//! The hook events.

crate::word_enum! {
    /// An event at which hooks run.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum HookEvent {
        /// A tool is about to be judged and run.
        BeforeToolExecute = "before_tool_execute",
        /// A tool ran.
        AfterToolExecute = "after_tool_execute",
        /// A reply is about to be kept and handed out.
        Persist = "persist",
        /// A question was sent or answered.
        Approval = "approval",
        /// A message is about to be judged and sent.
        MessageSending = "message_sending",
        /// A message was sent.
        MessageSent = "message_sent",
        /// A message was read from the inbox of a session.
        MessageReceived = "message_received",
        /// The first call of a session is about to be made.
        SessionStart = "session_start",
        /// A session ends.
        SessionEnd = "session_end",
        /// An agent is about to build a prompt.
        BeforePrompt = "before_prompt",
        /// An agent is about to call a model.
        BeforeModelCall = "before_model_call",
        /// A model answered an agent.
        AfterModelCall = "after_model_call",
        /// An agent is about to shorten its conversation.
        BeforeCompaction = "before_compaction",
        /// An agent shortened its conversation.
        AfterCompaction = "after_compaction",
        /// A turn of an agent begins.
        TurnStart = "turn_start",
        /// A turn of an agent ended.
        TurnEnd = "turn_end",
        /// An agent begins.
        AgentStart = "agent_start",
        /// An agent ended.
        AgentEnd = "agent_end",
    }
}

impl HookEvent {
    /// Returns the time of the event, in words for people.
    pub fn about(self) -> &'static str {
        match self {
            Self::BeforeToolExecute => "A tool is about to be judged and run.",
            Self::AfterToolExecute => "A tool ran, and succeeded or failed.",
            Self::Persist => {
                "The reply to a call, also to one that was refused, is about to be shortened, stored and \
                 returned."
            }
            Self::Approval => "An approver is asked whether a call may run, or has answered.",
            Self::MessageSending => {
                "A message to an agent or a channel is about to be judged and sent."
            }
            Self::MessageSent => "A message was sent to an agent or a channel.",
            Self::MessageReceived => {
                "A message was read from the inbox of a session, which sees it after the hooks."
            }
            Self::SessionStart => "The first call of a session is about to be made.",
            Self::SessionEnd => "A session that had a call ends with the process.",
            Self::BeforePrompt => "An agent is about to build a prompt.",
            Self::BeforeModelCall => "An agent is about to call a model.",
            Self::AfterModelCall => "A model answered an agent.",
            Self::BeforeCompaction => "An agent is about to shorten its conversation.",
            Self::AfterCompaction => "An agent shortened its conversation.",
            Self::TurnStart => "A turn of an agent begins.",
            Self::TurnEnd => "A turn of an agent ended.",
            Self::AgentStart => "An agent begins.",
            Self::AgentEnd => "An agent ended.",
        }
    }

    /// Returns whether only an agent fires it: that of sinew, or one of an embedding program.
    pub fn is_of_agent(self) -> bool {
        Self::SessionEnd < self
    }

    /// Returns whether it is about a message.
    pub fn is_of_message(self) -> bool {
        matches!(self, Self::MessageSending | Self::MessageSent | Self::MessageReceived)
    }

    /// Returns whether a hook can block the event.
    pub fn can_block(self) -> bool {
        matches!(
            self,
            Self::BeforeToolExecute
                | Self::MessageSending
                | Self::MessageReceived
                | Self::BeforePrompt
                | Self::BeforeModelCall
                | Self::AfterModelCall
                | Self::BeforeCompaction
                | Self::AgentStart
        )
    }

    /// Returns whether a failing hook can block the event or withhold the reply.
    pub fn can_be_stopped(self) -> bool {
        self.can_block() || matches!(self, Self::AfterToolExecute | Self::Persist)
    }

    /// Returns whether a failing hook stops the event by default: if it can block, or at `Persist`.
    pub fn fails_closed(self) -> bool {
        self.can_block() || self == Self::Persist
    }

    /// Returns the keys of the payload that a hook can change.
    pub fn changes(self) -> &'static [&'static str] {
        match self {
            Self::BeforeToolExecute => &["arguments"],
            Self::AfterToolExecute | Self::Persist => &["reply"],
            Self::MessageSending | Self::MessageReceived => &["content"],
            Self::BeforePrompt => &["system_prompt", "messages", "tools"],
            Self::BeforeModelCall | Self::BeforeCompaction => &["messages"],
            Self::AfterModelCall => &["text", "tool_calls"],
            Self::Approval
            | Self::MessageSent
            | Self::SessionStart
            | Self::SessionEnd
            | Self::AfterCompaction
            | Self::TurnStart
            | Self::TurnEnd
            | Self::AgentStart
            | Self::AgentEnd => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_has_a_word_of_its_own() {
        for event in HookEvent::ALL {
            assert_eq!(HookEvent::from_word(event.as_str()), Some(event));
        }
        assert_eq!(HookEvent::from_word("BeforeToolCall"), None);
        let of_agent: Vec<_> =
            HookEvent::ALL.into_iter().filter(|event| event.is_of_agent()).collect();
        assert_eq!(of_agent, HookEvent::ALL[9..]);
    }
}
