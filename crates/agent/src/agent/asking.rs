//! Asks the model for its next message, and takes the calls out of it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::{Either, select};
use sinew_tool::Cancel;

use super::{Agent, AgentError, Turn, TurnEvent, TurnListener};
use crate::message::{Part, ToolCall, is_name_char, message_calls};
use crate::model::{
    Completion, CompletionRequest, ModelError, ModelErrorKind, StopReason, StreamEvent, Usage,
};
use crate::session::{Entry, TurnStop};
use crate::written_calls::written_calls;

/// What came of asking.
pub(super) enum Asked {
    /// The user ended the turn; what had arrived is stored.
    Interrupted,
    /// The model is done.
    Ended(TurnStop),
    /// It calls tools.
    Calls(Vec<ToolCall>),
}

impl Agent {
    /// Asks the model, and stores its message.
    pub(super) async fn ask(
        &mut self,
        turn: &Turn,
        may_call: bool,
        cancel: &Cancel,
        listener: TurnListener<'_>,
    ) -> Result<Asked, AgentError> {
        self.tools.refresh();
        self.fit(cancel, listener).await?;
        let begun = Instant::now();
        let mut completion = match self.complete(turn, may_call, cancel, listener).await {
            Ok(Some(completion)) => completion,
            Ok(None) => return Ok(Asked::Interrupted),
            // The estimate was too low: once more, with less.
            Err(AgentError::Model(error)) if error.kind == ModelErrorKind::ContextOverflow => {
                self.shorten_much(error, cancel, listener).await?;
                match self.complete(turn, may_call, cancel, listener).await? {
                    Some(completion) => completion,
                    None => return Ok(Asked::Interrupted),
                }
            }
            Err(error) => return Err(error),
        };
        self.recover(&mut completion);
        if !may_call {
            completion.parts.retain(|part| !matches!(part, Part::Call(_)));
        }
        self.after_model_call(turn, &mut completion, begun.elapsed()).await?;
        self.number_calls(&mut completion.parts);
        let Completion { parts, stop, usage } = completion;
        self.spend(&usage);
        self.learn(usage);
        listener(TurnEvent::Answered { usage });
        let calls: Vec<ToolCall> = message_calls(&parts).cloned().collect();
        if !parts.is_empty() {
            self.store(Entry::Model { parts, usage, is_cut: false })?;
        }
        if !calls.is_empty() {
            return Ok(Asked::Calls(calls));
        }
        Ok(Asked::Ended(match stop {
            StopReason::End | StopReason::Calls => TurnStop::Done,
            StopReason::Length | StopReason::Context => TurnStop::Length,
            StopReason::Refusal => TurnStop::Refusal,
        }))
    }

    /// Returns the model's message, or `None` if the user ended the turn before it was complete.
    async fn complete(
        &mut self,
        turn: &Turn,
        may_call: bool,
        cancel: &Cancel,
        listener: TurnListener<'_>,
    ) -> Result<Option<Completion>, AgentError> {
        let changed = self.before_model_call(turn).await?;
        listener(TurnEvent::Asks { tokens: self.request_tokens() });
        let model = Arc::clone(&self.model);
        let request = CompletionRequest {
            system: &self.system,
            tools: self.tools.specs(),
            may_call,
            messages: changed.as_deref().unwrap_or(self.session.messages()),
            max_output_tokens: self.settings.max_output_tokens,
            temperature: self.settings.temperature,
        };
        let mut partial = String::new();
        let completed = {
            let mut tap = |event: StreamEvent| {
                match &event {
                    StreamEvent::Text(text) => partial.push_str(text),
                    StreamEvent::Retry { .. } => partial.clear(),
                    _ => {}
                }
                listener(TurnEvent::Stream(event));
            };
            let asked = pin!(model.complete(&request, &mut tap));
            match select(asked, cancel.cancelled()).await {
                Either::Left((completed, _)) => Some(completed),
                Either::Right(_) => None,
            }
        };
        match completed {
            Some(Ok(completion)) => Ok(Some(completion)),
            Some(Err(error)) => {
                self.keep_partial(partial)?;
                Err(AgentError::Model(error))
            }
            None => {
                self.keep_partial(partial)?;
                Ok(None)
            }
        }
    }

    /// Stores the text of a message that was not completed.
    fn keep_partial(&mut self, text: String) -> Result<(), AgentError> {
        if text.trim().is_empty() {
            return Ok(());
        }
        let parts = vec![Part::Text { text }];
        self.store(Entry::Model { parts, usage: Usage::default(), is_cut: true })
    }

    /// Takes calls out of the text, where the model wrote them there.
    fn recover(&self, completion: &mut Completion) {
        if message_calls(&completion.parts).next().is_some() {
            return;
        }
        let is_tool = |name: &str| self.tools.has(name);
        let Some(Part::Text { text }) =
            completion.parts.iter_mut().rfind(|part| matches!(part, Part::Text { .. }))
        else {
            return;
        };
        let Some((before, calls)) = written_calls(text, is_tool) else { return };
        *text = before.to_owned();
        completion.parts.retain(|part| !matches!(part, Part::Text { text } if text.is_empty()));
        completion.parts.extend(calls.into_iter().map(Part::Call));
    }

    /// Gives calls whose ids are not unique in the conversation other ones, since results name calls by them, and names
    /// that every API takes back.
    fn number_calls(&self, parts: &mut [Part]) {
        let mut known: Vec<String> = self.session.call_ids().map(str::to_owned).collect();
        let mut n = self.session.n_calls();
        for part in parts {
            let Part::Call(call) = part else { continue };
            n += 1;
            while call.id.is_empty() || known.contains(&call.id) {
                call.id = format!("call_{n}");
                n += 1;
            }
            known.push(call.id.clone());
            if !is_name(&call.name) {
                call.name = to_name(&call.name);
            }
        }
    }

    /// Shortens the conversation after the provider refused it as too long.
    async fn shorten_much(
        &mut self,
        error: ModelError,
        cancel: &Cancel,
        listener: TurnListener<'_>,
    ) -> Result<(), AgentError> {
        let before = self.request_tokens();
        let half = u64::from(self.settings.context) / 2;
        self.shorten(before.min(half).saturating_mul(2) / 3, "context_limit", cancel, listener)
            .await?;
        match self.request_tokens() < before {
            true => Ok(()),
            false => Err(AgentError::Model(error)),
        }
    }
}

/// The longest name of a tool.
const MAX_NAME: usize = 64;

fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_name_char)
}

/// Returns a name that a model invented in the characters and the length that APIs take.
fn to_name(name: &str) -> String {
    let of = |char| if is_name_char(char) { char } else { '_' };
    let name: String = name.chars().take(MAX_NAME).map(of).collect();
    if name.is_empty() { String::from("unnamed") } else { name }
}
