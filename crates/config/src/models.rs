//! Validates the agent and its models: `[agent]` and `[models]`.

use std::collections::BTreeMap;
use std::time::Duration;

use sinew_guard::HttpAddress;

use super::options::ModelOptions;
use super::{ConfigError, Options};

/// The smallest context window that a model may have, in tokens.
const MIN_CONTEXT: u32 = 2_048;
/// The most rounds of tool calls of one turn.
const MAX_ITERATIONS: u32 = 10_000;

/// The agent's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentConfig {
    /// The model, as it is written.
    pub model: Option<String>,
    /// How often the model may call tools in one turn.
    pub max_tool_iterations: u32,
    /// What a run may cost, as it is written.
    pub budget: Option<String>,
    /// What of the output of commands is left out.
    pub output_compaction: String,
    /// Whether AGENTS.md and CLAUDE.md are read.
    pub instructions: bool,
    /// How long sessions are kept; `None` means for ever.
    pub max_age: Option<Duration>,
    /// The most sessions that are kept.
    pub max_sessions: u64,
    /// The models by their names.
    pub models: BTreeMap<String, ModelConfig>,
}

/// A model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Its API, as it is written.
    pub wire: String,
    /// The base address of its API.
    pub url: HttpAddress,
    /// Its name at the provider.
    pub name: String,
    /// Where its key is.
    pub key: Option<KeySource>,
    /// The tokens of its context window, where it is configured.
    pub context: Option<u32>,
    /// The most tokens of one answer, where they are configured.
    pub max_output_tokens: Option<u32>,
    /// The sampling temperature, where it is configured.
    pub temperature: Option<f64>,
    /// What a million tokens of requests, of cached requests and of answers cost, in dollars.
    pub prices: Option<[f64; 3]>,
}

/// Where the key of a model is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// In this variable.
    Env(String),
    /// A program of the user prints it: its name and arguments.
    Command(Vec<String>),
}

/// Resolves the agent and its models.
pub(crate) fn agent(options: &Options) -> Result<AgentConfig, ConfigError> {
    let written = options.agent.clone().unwrap_or_default();
    let max_tool_iterations = written.max_tool_iterations.unwrap_or(20);
    if !(1..=MAX_ITERATIONS).contains(&max_tool_iterations) {
        return Err(ConfigError(format!(
            "`agent.max_tool_iterations` must be 1 to {MAX_ITERATIONS}, not `{max_tool_iterations}`"
        )));
    }
    let models = options.models.iter().flatten();
    let models = models.map(|(name, written)| Ok((name.clone(), model(name, written)?)));
    let days = written.max_age_days.unwrap_or(30);
    Ok(AgentConfig {
        model: written.model,
        max_tool_iterations,
        budget: written.budget,
        output_compaction: written.output_compaction.unwrap_or_else(|| String::from("safe")),
        instructions: written.instructions.unwrap_or(true),
        max_age: (days != 0).then(|| Duration::from_secs(days.saturating_mul(24 * 60 * 60))),
        max_sessions: written.max_sessions.unwrap_or(200).max(1),
        models: models.collect::<Result<_, ConfigError>>()?,
    })
}

fn model(name: &str, written: &ModelOptions) -> Result<ModelConfig, ConfigError> {
    let key = |key: &str| format!("`{}.{name}.{key}`", ModelOptions::TABLE);
    let parsed = match written.plain_http {
        Some(true) => HttpAddress::parse_plain(&written.url),
        _ => HttpAddress::parse(&written.url),
    };
    let url = parsed.map_err(|problem| {
        let is_plain = written.url.starts_with("http://");
        let hint =
            if is_plain { ", or `plain_http = true` for a network that you trust" } else { "" };
        ConfigError(format!("{}: {problem}{hint}", key("url")))
    })?;
    let source = match (&written.key_env, &written.key_command) {
        (Some(_), Some(_)) => {
            return Err(ConfigError(format!(
                "{} and `key_command` exclude each other",
                key("key_env")
            )));
        }
        (Some(name), None) => Some(KeySource::Env(name.clone())),
        (None, Some(argv)) if argv.first().is_none_or(String::is_empty) => {
            return Err(ConfigError(format!("{} names no program", key("key_command"))));
        }
        (None, Some(argv)) => Some(KeySource::Command(argv.clone())),
        (None, None) => None,
    };
    if let (Some(most), Some(context)) = (written.max_output_tokens, written.context)
        && context <= most
    {
        return Err(ConfigError(format!(
            "{} must be smaller than `context`, not `{most}`",
            key("max_output_tokens")
        )));
    }
    if let Some(small) = written.context.filter(|context| *context < MIN_CONTEXT) {
        return Err(ConfigError(format!(
            "{} must be at least {MIN_CONTEXT} tokens, not `{small}`",
            key("context")
        )));
    }
    if written.temperature.is_some_and(|degree| !(0.0..=2.0).contains(&degree)) {
        return Err(ConfigError(format!("{} must be 0 to 2", key("temperature"))));
    }
    let prices = [written.input_price, written.output_price, written.cached_price];
    if prices.iter().flatten().any(|price| !price.is_finite() || *price < 0.0) {
        return Err(ConfigError(format!(
            "{} and the other prices must be dollars",
            key("input_price")
        )));
    }
    let prices = match prices {
        [Some(input), Some(output), cached] => Some([input, cached.unwrap_or(input), output]),
        [None, None, None] => None,
        _ => {
            return Err(ConfigError(format!(
                "{} and `output_price` belong together",
                key("input_price")
            )));
        }
    };
    Ok(ModelConfig {
        wire: written.wire.clone(),
        url,
        name: written.name.clone().unwrap_or_else(|| name.to_owned()),
        key: source,
        context: written.context,
        max_output_tokens: written.max_output_tokens,
        temperature: written.temperature,
        prices,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(text: &str) -> Result<AgentConfig, String> {
        let options: Options = toml_edit::de::from_str(text).map_err(|error| error.to_string())?;
        agent(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn models_are_checked() {
        let chat = "[models.\"a.b\"]\nwire = \"chat\"\nurl = \"http://127.0.0.1:8080/v1\"\n";
        for (more, problem) in [
            ("", None),
            ("input_price = 3\noutput_price = 15\n", None),
            ("input_price = 3\n", Some("belong together")),
            ("input_price = -3\noutput_price = 1\n", Some("must be dollars")),
            ("context = 100\n", Some("`models.a.b.context` must be at least 2048")),
            ("temperature = 3\n", Some("`models.a.b.temperature` must be 0 to 2")),
            ("colour = 1\n", Some("unknown field")),
            ("key_command = [\"pass\", \"llm\"]\n", None),
            ("key_command = []\n", Some("`models.a.b.key_command` names no program")),
            ("key_command = [\"x\"]\nkey_env = \"K\"\n", Some("exclude each other")),
            ("context = 4096\nmax_output_tokens = 4096\n", Some("must be smaller than `context`")),
            ("[agent]\nmax_tool_iterations = 0\n", Some("must be 1 to")),
        ] {
            let found = resolved(&format!("{chat}{more}"));
            match (found, problem) {
                (Ok(agent), None) => assert_eq!(agent.models["a.b"].name, "a.b"),
                (Err(error), Some(problem)) => assert!(error.contains(problem), "{error}"),
                (found, _) => panic!("{more}: {found:?}"),
            }
        }
        let far = chat.replace("127.0.0.1:8080", "example.com");
        let error = resolved(&far).expect_err("no TLS");
        assert!(error.contains("`models.a.b.url`") && error.contains("plain_http"), "{error}");
        assert!(resolved(&format!("{far}plain_http = true\n")).is_ok());
    }
}
