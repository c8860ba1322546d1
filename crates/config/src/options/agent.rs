//! What was written of the agent and of its models.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[agent]`: how `sinew run` and `sinew chat` work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentOptions {
    /// The model: the NAME of a table `[models.NAME]`, or `anthropic/MODEL`, `openai/MODEL`, `openrouter/MODEL` (with
    /// the key in `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` or `OPENROUTER_API_KEY`) or `ollama/MODEL`. Default: a server on this
    /// machine, where one answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How often the model may call tools in one turn; then it must answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_iterations: Option<u32>,
    /// The most that one run may cost: tokens, such as `200k` or `1.5M`, or dollars, such as `$2.50`, by the prices of the
    /// model. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// Which output of commands is left out for the model: `off` (none), `safe` (text that a terminal would not show)
    /// or `full` (runs of similar lines too). Text of files stays as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_compaction: Option<String>,
    /// Whether the prompt has the instructions of AGENTS.md and CLAUDE.md: that of your configuration directory, and those from
    /// the top of the repository down to the working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<bool>,
    /// How long sessions are kept after their last message, in days; 0 means for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age_days: Option<u64>,
    /// The most sessions that are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_sessions: Option<u64>,
}

/// `[models.NAME]`: a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelOptions {
    /// Its API.
    pub wire: String,
    /// The address of the API.
    pub url: String,
    /// Its name at the provider. Default: NAME.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The variable that holds the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// The program that prints the key, and its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_command: Option<Vec<String>>,
    /// Whether `url` may be `http` of another machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plain_http: Option<bool>,
    /// The tokens of its context window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u32>,
    /// The most tokens of one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// The sampling temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// What a million tokens of requests cost, in dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_price: Option<f64>,
    /// The same, of those out of the provider's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_price: Option<f64>,
    /// What a million tokens of answers cost, in dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_price: Option<f64>,
}

impl ModelOptions {
    /// The table of all models.
    pub const TABLE: &'static str = "models";
}
