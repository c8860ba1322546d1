//! Fires the agent and model events of hooks. Without hooks at an event nothing is copied for it.

use std::time::Duration;

use serde_json::{Value, json};
use sinew_tool::{
    AfterCompaction, AfterModelCall, AgentEnd, AgentEvent, AgentStart, BeforeCompaction,
    BeforeModelCall, BeforePrompt, HookEvent, Kind, ToolError, TurnEnd as TurnEndPayload,
    TurnStart,
};

use super::{Agent, AgentError, Turn};
use crate::message::{Message, Part, ToolCall, message_calls, message_text};
use crate::model::{Completion, ToolSpec};

/// The name of the agent in events; sub-agents have others.
const MAIN: &str = "main";

impl Agent {
    /// Fires the start of agent and turn.
    pub(super) async fn turn_begins(&mut self, turn: &str, prompt: &str) -> Result<(), AgentError> {
        let session = || self.settings.session.clone();
        let model = || self.model.name().to_owned();
        if !self.is_started && self.runtime.has_hooks_at(HookEvent::AgentStart) {
            let (agent, prompt) = (self.event_name(), prompt.to_owned());
            let start = AgentStart { session: session(), agent, prompt, model: model() };
            self.runtime.agent_event(AgentEvent::AgentStart(start)).await?;
        }
        // A sub-agent works within the turn of the agent above it.
        if self.sub_agent().is_none() && self.runtime.has_hooks_at(HookEvent::TurnStart) {
            let (turn, prompt) = (turn.to_owned(), prompt.to_owned());
            let start = TurnStart { session: session(), turn, prompt, model: model() };
            // A turn that has begun cannot be blocked.
            let _ = self.runtime.agent_event(AgentEvent::TurnStart(start)).await;
        }
        self.is_started = true;
        Ok(())
    }

    fn event_name(&self) -> String {
        self.sub_agent().unwrap_or(MAIN).to_owned()
    }

    /// Fires the end of a turn, also of one that failed.
    pub(super) async fn turn_ended(&self, turn: &Turn, duration: Duration) {
        if self.sub_agent().is_some() || !self.runtime.has_hooks_at(HookEvent::TurnEnd) {
            return;
        }
        let payload = TurnEndPayload {
            session: self.settings.session.clone(),
            turn: turn.name.clone(),
            message: self.session.answer().to_owned(),
            n_tool_calls: turn.n_calls,
            n_steps: u64::from(turn.n_iterations),
            duration_ms: duration.as_secs_f64() * 1e3,
        };
        let _ = self.runtime.agent_event(AgentEvent::TurnEnd(payload)).await;
    }

    /// Fires the end of the agent, after its last turn, if it had one.
    pub async fn ended(&self) {
        if !self.is_started || !self.runtime.has_hooks_at(HookEvent::AgentEnd) {
            return;
        }
        let payload = AgentEnd {
            session: self.settings.session.clone(),
            agent: self.event_name(),
            text: self.session.answer().to_owned(),
            n_iterations: self.n_iterations,
            n_tool_calls: self.n_calls,
        };
        let _ = self.runtime.agent_event(AgentEvent::AgentEnd(payload)).await;
    }

    /// Lets hooks change the system prompt and the tools of a turn.
    pub(super) async fn before_prompt(&mut self) -> Result<(), AgentError> {
        self.system.clone_from(&self.settings.system);
        self.tools.choose(None);
        if !self.runtime.has_hooks_at(HookEvent::BeforePrompt) {
            return Ok(());
        }
        let prompt = BeforePrompt {
            session: self.settings.session.clone(),
            model: self.model.name().to_owned(),
            system_prompt: self.system.clone(),
            messages: written(self.session.messages()),
            tools: self.tools.specs().iter().map(|tool| json!(tool)).collect(),
        };
        let changed = self.runtime.agent_event(AgentEvent::BeforePrompt(prompt.clone())).await?;
        let AgentEvent::BeforePrompt(changed) = changed else { return Ok(()) };
        self.system.clone_from(&changed.system_prompt);
        if changed.tools != prompt.tools {
            let tools: Vec<ToolSpec> = read(Value::Array(changed.tools), "tools")?;
            self.tools.choose(Some(tools));
        }
        if changed.messages != prompt.messages {
            self.session.set_messages(read(Value::Array(changed.messages), "messages")?);
        }
        Ok(())
    }

    /// Returns the messages of a request if hooks changed them.
    pub(super) async fn before_model_call(
        &self,
        turn: &Turn,
    ) -> Result<Option<Vec<Message>>, AgentError> {
        if !self.runtime.has_hooks_at(HookEvent::BeforeModelCall) {
            return Ok(None);
        }
        let messages = written(self.session.messages());
        let call = BeforeModelCall {
            session: self.settings.session.clone(),
            provider: self.settings.provider.clone(),
            model: self.model.name().to_owned(),
            messages: messages.clone(),
            n_tools: self.tools.specs().len() as u64,
            iteration: u64::from(turn.n_iterations),
        };
        let changed = self.runtime.agent_event(AgentEvent::BeforeModelCall(call)).await?;
        match changed {
            AgentEvent::BeforeModelCall(changed) if changed.messages != messages => {
                Ok(Some(read(Value::Array(changed.messages), "messages")?))
            }
            _ => Ok(None),
        }
    }

    /// Lets hooks change the text and the calls of a message.
    pub(super) async fn after_model_call(
        &self,
        turn: &Turn,
        completion: &mut Completion,
        duration: Duration,
    ) -> Result<(), AgentError> {
        if !self.runtime.has_hooks_at(HookEvent::AfterModelCall) {
            return Ok(());
        }
        let text = message_text(&completion.parts);
        let call = AfterModelCall {
            session: self.settings.session.clone(),
            provider: self.settings.provider.clone(),
            model: self.model.name().to_owned(),
            text: (!text.is_empty()).then_some(text),
            tool_calls: message_calls(&completion.parts).map(|call| json!(call)).collect(),
            input_tokens: completion.usage.input,
            output_tokens: completion.usage.output,
            iteration: u64::from(turn.n_iterations),
            duration_ms: duration.as_secs_f64() * 1e3,
        };
        let changed = self.runtime.agent_event(AgentEvent::AfterModelCall(call.clone())).await?;
        let AgentEvent::AfterModelCall(changed) = changed else { return Ok(()) };
        if changed.text != call.text {
            completion.parts.retain(|part| !matches!(part, Part::Text { .. }));
            let text = changed.text.filter(|text| !text.is_empty());
            let at = completion.parts.iter().position(|part| matches!(part, Part::Call(_)));
            let at = at.unwrap_or(completion.parts.len());
            completion.parts.splice(at..at, text.map(|text| Part::Text { text }));
        }
        if changed.tool_calls != call.tool_calls {
            let calls: Vec<ToolCall> = read(Value::Array(changed.tool_calls), "tool_calls")?;
            completion.parts.retain(|part| !matches!(part, Part::Call(_)));
            completion.parts.extend(calls.into_iter().map(Part::Call));
        }
        Ok(())
    }

    /// Lets hooks block a compaction, or change the messages that it summarizes.
    pub(super) async fn before_compaction(&mut self, reason: &str) -> Result<(), AgentError> {
        if !self.runtime.has_hooks_at(HookEvent::BeforeCompaction) {
            return Ok(());
        }
        let messages = written(self.session.messages());
        let payload = BeforeCompaction {
            session: self.settings.session.clone(),
            reason: reason.to_owned(),
            messages: messages.clone(),
        };
        let changed = self.runtime.agent_event(AgentEvent::BeforeCompaction(payload)).await?;
        if let AgentEvent::BeforeCompaction(changed) = changed
            && changed.messages != messages
        {
            self.session.set_messages(read(Value::Array(changed.messages), "messages")?);
        }
        Ok(())
    }

    pub(super) async fn after_compaction(&self, n_before: usize, summary: &str) {
        if !self.runtime.has_hooks_at(HookEvent::AfterCompaction) {
            return;
        }
        let payload = AfterCompaction {
            session: self.settings.session.clone(),
            n_before: n_before as u64,
            n_after: self.session.messages().len() as u64,
            summary: summary.to_owned(),
        };
        let _ = self.runtime.agent_event(AgentEvent::AfterCompaction(payload)).await;
    }
}

fn written(messages: &[Message]) -> Vec<Value> {
    messages.iter().map(|message| json!(message)).collect()
}

/// Reads what hooks changed.
fn read<T: serde::de::DeserializeOwned>(value: Value, key: &str) -> Result<T, AgentError> {
    serde_json::from_value(value).map_err(|error| {
        let words = format!("a hook changed `{key}` to something that cannot be read: {error}");
        AgentError::Blocked(ToolError::new(Kind::BlockedByHook, words))
    })
}
