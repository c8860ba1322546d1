//! The interface of all models, what they are asked, and their errors.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sinew_tool::{BoxFuture, word_enum};

use crate::message::{Message, Part, full_name};

/// A model that answers conversations.
pub trait Model: Send + Sync {
    /// Returns its name at the provider.
    fn name(&self) -> &str;

    /// Streams the next message of a conversation. Dropping the future ends the request.
    fn complete<'a>(
        &'a self,
        request: &'a CompletionRequest<'a>,
        listener: &'a mut (dyn FnMut(StreamEvent) + Send),
    ) -> BoxFuture<'a, Result<Completion, ModelError>>;
}

/// A conversation that a model continues.
#[derive(Debug, Clone, Copy)]
pub struct CompletionRequest<'a> {
    /// The system prompt.
    pub system: &'a str,
    /// The tools that it may call. They stay in the request where it may not, so that the prompt cache still hits.
    pub tools: &'a [ToolSpec],
    /// Whether it may call tools.
    pub may_call: bool,
    /// The conversation.
    pub messages: &'a [Message],
    /// The most tokens of its answer.
    pub max_output_tokens: u32,
    /// The sampling temperature; `None` leaves it to the server.
    pub temperature: Option<f64>,
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The namespace, where the Responses API is to group tools by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name, without the namespace.
    pub name: String,
    /// The description.
    pub description: String,
    /// The JSON schema of the arguments.
    pub parameters: Value,
}

impl ToolSpec {
    /// Returns the name with its namespace, for APIs without namespaces.
    pub fn full_name(&self) -> Cow<'_, str> {
        full_name(self.namespace.as_deref(), &self.name)
    }
}

/// What a model's stream brings, as it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEvent {
    /// Text for the user.
    Text(String),
    /// Reasoning.
    Thinking(String),
    /// A call of this tool begins; its arguments follow.
    CallBegins(String),
    /// Bytes of arguments arrived.
    Arguments(usize),
    /// The request failed and is sent again. Everything streamed for this message is void.
    Retry {
        /// The error.
        error: String,
        /// The pause before it.
        after: Duration,
    },
}

/// A whole message of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// Text, thinking and calls.
    pub parts: Vec<Part>,
    /// Why it ends.
    pub stop: StopReason,
    /// What it cost.
    pub usage: Usage,
}

word_enum! {
    /// Why a model's message ends.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum StopReason {
        /// The model is done.
        End = "end",
        /// It waits for the results of its calls.
        Calls = "calls",
        /// Its answer reached the most output tokens.
        Length = "length",
        /// The context window is full.
        Context = "context",
        /// The provider or the model refused.
        Refusal = "refusal",
    }
}

/// Tokens of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the request, cached ones included.
    pub input: u64,
    /// Tokens of the request that came out of the provider's cache.
    pub cached: u64,
    /// Tokens of the answer.
    pub output: u64,
}

impl Usage {
    /// Adds the tokens of another message.
    pub fn add(&mut self, other: &Self) {
        self.input += other.input;
        self.cached += other.cached;
        self.output += other.output;
    }

    /// Returns all tokens of request and answer.
    pub fn total(&self) -> u64 {
        self.input + self.output
    }
}

word_enum! {
    /// The kind of a model's error.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ModelErrorKind {
        /// The key is missing or wrong.
        Auth = "auth",
        /// The provider does not know the model or the address.
        NotFound = "not_found",
        /// The request is invalid.
        Invalid = "invalid",
        /// The conversation does not fit the context window.
        ContextOverflow = "context_overflow",
        /// The account has no quota left.
        Quota = "quota",
        /// Too many requests.
        RateLimited = "rate_limited",
        /// The provider is overloaded or failed.
        Overloaded = "overloaded",
        /// No connection.
        Unreachable = "unreachable",
        /// The stream ended before the message did.
        Cut = "cut",
        /// The provider's reply does not follow its API.
        Malformed = "malformed",
        /// The provider sent more than a message may have.
        TooLarge = "too_large",
    }
}

impl ModelErrorKind {
    /// Returns whether the same request may succeed later.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::RateLimited | Self::Overloaded | Self::Unreachable | Self::Cut | Self::Malformed
        )
    }
}

/// Why a model did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// The kind.
    pub kind: ModelErrorKind,
    /// What failed, and what to do.
    pub message: String,
    /// How long the provider asks clients to wait.
    pub retry_after: Option<Duration>,
}

impl ModelError {
    /// Creates an error.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }
}
