//! The APIs of models: their names, paths, framing and headers.

use serde::{Deserialize, Serialize};
use sinew_tool::word_enum;

word_enum! {
    /// An API of models.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Wire {
        /// Anthropic Messages.
        Anthropic = "anthropic",
        /// OpenAI Responses.
        Responses = "responses",
        /// OpenAI Chat Completions, which many servers speak.
        Chat = "chat",
        /// Ollama's own API, which alone takes a context length.
        Ollama = "ollama",
    }
}

/// How the messages of a stream are framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON object per line.
    Lines,
}

impl Wire {
    /// Returns the path below the base address.
    pub fn path(self) -> &'static str {
        match self {
            Self::Anthropic => "v1/messages",
            Self::Responses => "responses",
            Self::Chat => "chat/completions",
            Self::Ollama => "api/chat",
        }
    }

    pub(crate) fn framing(self) -> Framing {
        match self {
            Self::Ollama => Framing::Lines,
            _ => Framing::Events,
        }
    }

    /// Returns the headers for a key.
    pub(crate) fn headers(self, key: Option<&str>) -> Vec<(&'static str, String)> {
        let version =
            (self == Self::Anthropic).then(|| ("anthropic-version", String::from("2023-06-01")));
        let key = key.map(|key| match self {
            Self::Anthropic => ("x-api-key", key.to_owned()),
            _ => ("authorization", format!("Bearer {key}")),
        });
        version.into_iter().chain(key).collect()
    }
}
