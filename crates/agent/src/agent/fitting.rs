//! Keeps requests within the context window, by an estimate that each answer corrects.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use sinew_tool::Cancel;

use super::{Agent, AgentError, TurnEvent, TurnListener};
use crate::compaction::{Compaction, Summary, n_summarized, oldest_results};
use crate::message::{Message, message_text};
use crate::model::{CompletionRequest, StopReason, Usage};
use crate::session::Entry;

/// How many bytes are about a token, until a provider has counted some.
pub(super) const BYTES_OF_TOKEN: f64 = 3.6;
/// Above this part of the window a conversation is shortened, and to that part.
const PRESSURE: f64 = 0.85;
const RELIEF: f64 = 0.6;
/// The most tokens of a summary.
const SUMMARY_TOKENS: u32 = 2_048;

impl Agent {
    /// Returns about how many tokens the next request has.
    pub(super) fn request_tokens(&self) -> u64 {
        self.tokens(self.request_bytes())
    }

    fn tokens(&self, n_bytes: usize) -> u64 {
        (n_bytes as f64 / self.bytes_of_token).ceil() as u64
    }

    fn request_bytes(&self) -> usize {
        self.system.len() + self.tools.n_bytes() + self.session.n_bytes()
    }

    /// Corrects the estimate by what the provider counted.
    pub(super) fn learn(&mut self, usage: Usage) {
        /// Fewer tokens say little.
        const MIN_TOKENS: u64 = 200;
        if MIN_TOKENS <= usage.input {
            let found = self.request_bytes() as f64 / usage.input as f64;
            self.bytes_of_token = found.clamp(1.5, 6.0);
        }
    }

    /// Refuses a turn whose prompt and tools leave less than half of the window.
    pub(super) fn check_size(&self) -> Result<(), AgentError> {
        let needed = self.tokens(self.system.len() + self.tools.n_bytes());
        let context = self.settings.context;
        match u64::from(context) <= 2 * needed {
            true => Err(AgentError::TooSmall { needed, context }),
            false => Ok(()),
        }
    }

    /// Shortens the conversation if the next request would come near the window.
    pub(super) async fn fit(
        &mut self,
        cancel: &Cancel,
        listener: TurnListener<'_>,
    ) -> Result<(), AgentError> {
        let room = f64::from(self.settings.context.saturating_sub(self.settings.max_output_tokens));
        if (self.request_tokens() as f64) < room * PRESSURE {
            return Ok(());
        }
        match self.shorten((room * RELIEF) as u64, "context_limit", cancel, listener).await {
            // A hook that blocks it means not now; a conversation that is too long is refused by the provider.
            Err(AgentError::Blocked(_)) => Ok(()),
            shortened => shortened,
        }
    }

    /// Shortens the conversation now, as a person asks for; a summary replaces all but the last messages.
    pub async fn compact(
        &mut self,
        cancel: &Cancel,
        listener: TurnListener<'_>,
    ) -> Result<(), AgentError> {
        self.tools.refresh();
        self.shorten(0, "manual", cancel, listener).await
    }

    /// Shortens the conversation to about so many tokens: the oldest results first, then a summary.
    pub(super) async fn shorten(
        &mut self,
        wanted: u64,
        reason: &str,
        cancel: &Cancel,
        listener: TurnListener<'_>,
    ) -> Result<(), AgentError> {
        let (before, n_before) = (self.request_tokens(), self.session.messages().len());
        self.before_compaction(reason).await?;
        let excess = before.saturating_sub(wanted) as f64 * self.bytes_of_token;
        let (cleared, n_gone) = oldest_results(self.session.messages(), excess as usize);
        let n_messages = n_summarized(self.session.messages());
        let mut text = String::new();
        // The notes are made of whole results. Where there are none to be had, the results go alone.
        let summary = match (n_gone as f64) < excess && 0 < n_messages {
            true => self.summarize(n_messages, cancel).await,
            false => None,
        };
        if !cleared.is_empty() {
            self.store(Entry::Compaction(Compaction { cleared, summary: None }))?;
        }
        if let Some(summary) = summary {
            text.clone_from(&summary);
            let summary = Some(Summary { n_messages, text: summary });
            self.store(Entry::Compaction(Compaction { cleared: Vec::new(), summary }))?;
        }
        let after = self.request_tokens();
        if after < before {
            listener(TurnEvent::Compacted { before, after });
            self.after_compaction(n_before, &text).await;
        }
        Ok(())
    }

    /// Asks the model for a summary of the first messages; `None` if it makes none, or the user ended the turn.
    async fn summarize(&mut self, n_messages: usize, cancel: &Cancel) -> Option<String> {
        let mut messages: Vec<Message> =
            self.session.messages().iter().take(n_messages).cloned().collect();
        messages.push(Message::User {
            text: String::from(
                "Summarize this conversation for yourself, as notes to go on from: the user's tasks in their words, what \
                 was found with paths and names, what was changed, what failed and why, and what is left. Write the \
                 notes alone.",
            ),
        });
        let model = Arc::clone(&self.model);
        let request = CompletionRequest {
            system: &self.system,
            tools: self.tools.specs(),
            may_call: false,
            messages: &messages,
            max_output_tokens: SUMMARY_TOKENS.min(self.settings.max_output_tokens),
            temperature: self.settings.temperature,
        };
        let mut silent = |_| {};
        let asked = pin!(model.complete(&request, &mut silent));
        let completed = match select(asked, cancel.cancelled()).await {
            Either::Left((completed, _)) => completed.ok()?,
            Either::Right(_) => return None,
        };
        self.spent.add(&completed.usage);
        self.settings.spending.add(&completed.usage, self.settings.prices.as_ref());
        let notes = message_text(&completed.parts);
        if notes.trim().is_empty() || completed.stop != StopReason::End {
            return None;
        }
        Some(format!(
            "[The first {n_messages} messages of this conversation were replaced by your notes:]\n\n{}",
            notes.trim()
        ))
    }
}
