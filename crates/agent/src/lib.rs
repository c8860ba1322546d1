//! The agent: a loop that lets a model work with the tools of the runtime.
//!
//! [`Agent`] runs turns: it asks a [`Model`], runs the calls of its message, and asks again until there are none. The
//! [`Session`] is its conversation, whose entries a [`Transcript`] stores.
//!
//! [`Model`] is the one interface of all models: it takes a conversation, streams events, and a [`Completion`] ends
//! them. Each API is a [`Wire`]: it serializes requests with the growing part last, so that prompt caches hit, and
//! decodes streams without a socket, so that recorded streams test it.

#![forbid(unsafe_code)]

mod agent;
mod api_model;
mod apis;
mod assembly;
mod budget;
mod compaction;
mod decoder;
pub mod message;
mod model;
mod output_compaction;
mod provider_error;
mod recording;
mod repeats;
mod retry;
mod session;
mod sub_agent;
mod system_prompt;
mod tools;
pub mod wire;
pub mod written_calls;

pub use agent::{Agent, AgentError, AgentSettings, TurnEnd, TurnEvent, TurnListener};
pub use api_model::{ApiModel, ApiModelSettings, ModelClient, ModelStream};
pub use budget::{Budget, Prices, Spending};
pub use compaction::{Compaction, Summary};
pub use message::{CallResult, Message, Part, Sealed, ToolCall};
pub use model::{
    Completion, CompletionRequest, Model, ModelError, ModelErrorKind, StopReason, StreamEvent,
    ToolSpec, Usage,
};
pub use output_compaction::OutputCompaction;
pub use recording::{RecordedModel, Recording, RecordingHeader};
pub use session::{Entry, Session, Transcript, TurnStop, Unstored};
pub use sub_agent::SubAgentPlace;
pub use system_prompt::{Instructions, PromptParts, system_prompt};
pub use tools::Offer;
pub use wire::Wire;
