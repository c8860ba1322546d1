//! Models over their APIs: Anthropic Messages, OpenAI Responses and Chat Completions, and Ollama.
//!
//! [`Model`] is the one interface of all of them: it takes a conversation, streams events, and a [`Completion`] ends
//! them. Each API is a [`Wire`]: it serializes requests with the growing part last, so that prompt caches hit, and
//! decodes streams without a socket, so that recorded streams test it.

#![forbid(unsafe_code)]

mod api_model;
mod apis;
mod assembly;
mod decoder;
pub mod message;
mod model;
mod provider_error;
mod retry;
pub mod wire;
pub mod written_calls;

pub use api_model::{ApiModel, ApiModelSettings, ModelClient, ModelStream};
pub use message::{CallResult, Message, Part, Sealed, ToolCall};
pub use model::{
    Completion, CompletionRequest, Model, ModelError, ModelErrorKind, StopReason, StreamEvent,
    ToolSpec, Usage,
};
pub use wire::Wire;
