//! Chooses the model of an agent: configured, of a known provider, or on this machine.

use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;
use sinew_agent::{Prices, Usage, Wire};
use sinew_guard::{HttpAddress, HttpClient};
use sinew_tool::ApiKey;
use tokio::time::timeout;

use super::model_key;
use crate::config::{AgentConfig, ModelConfig, env_vars};
use crate::wiring::Loaded;

/// The context window that counts where none is known, in tokens.
const USUAL_CONTEXT: u32 = 128_000;
/// What Ollama is asked for where none is configured: its own default cuts prompts of agents.
const OLLAMA_CONTEXT: u32 = 16_384;
/// Below this context window a model gets a short prompt and few tools.
const LEAN_BELOW: u32 = 16_000;
/// The most tokens of one answer, where none are configured.
const MAX_OUTPUT: u32 = 32_000;
/// How long a server on this machine may take to say what it serves.
const PROBE: Duration = Duration::from_millis(1_500);
/// The most bytes of what it says.
const MAX_PROBED: usize = 4 << 20;
/// The word for the model that a server on this machine serves.
const LOCAL: &str = "local";

/// A model that was chosen.
#[derive(Debug, Clone)]
pub(crate) struct ChosenModel {
    /// How the user names it.
    pub(crate) written: String,
    /// Who serves it.
    pub(crate) provider: String,
    pub(crate) wire: Wire,
    /// The base address of its API.
    pub(crate) url: HttpAddress,
    /// Its name at the provider.
    pub(crate) name: String,
    pub(crate) key: Option<ApiKey>,
    /// The tokens of its context window.
    pub(crate) context: u32,
    /// The most tokens of one answer.
    pub(crate) max_output_tokens: u32,
    /// The sampling temperature, where one is configured.
    pub(crate) temperature: Option<f64>,
    pub(crate) prices: Option<Prices>,
}

impl ChosenModel {
    /// Returns what tokens it used, and what they cost, in words.
    pub(crate) fn usage_words(&self, usage: &Usage) -> String {
        let cost = self.prices.map(|prices| format!(", ${:.4}", prices.cost(usage)));
        format!(
            "{} tokens read ({} from the cache), {} written{}",
            usage.input,
            usage.cached,
            usage.output,
            cost.unwrap_or_default()
        )
    }

    /// Returns whether its context window is small.
    pub(crate) fn is_lean(&self) -> bool {
        self.context < LEAN_BELOW
    }
}

/// A provider that needs no configuration.
struct Provider {
    name: &'static str,
    wire: Wire,
    url: &'static str,
    key_env: Option<&'static str>,
    context: Option<u32>,
}

const PROVIDERS: &[Provider] = &[
    Provider {
        name: "anthropic",
        wire: Wire::Anthropic,
        url: "https://api.anthropic.com",
        key_env: Some("ANTHROPIC_API_KEY"),
        context: Some(200_000),
    },
    Provider {
        name: "openai",
        wire: Wire::Responses,
        url: "https://api.openai.com/v1",
        key_env: Some("OPENAI_API_KEY"),
        context: Some(200_000),
    },
    Provider {
        name: "openrouter",
        wire: Wire::Chat,
        url: "https://openrouter.ai/api/v1",
        key_env: Some("OPENROUTER_API_KEY"),
        context: None,
    },
    Provider {
        name: "ollama",
        wire: Wire::Ollama,
        url: "http://127.0.0.1:11434",
        key_env: None,
        context: Some(OLLAMA_CONTEXT),
    },
];

/// Servers on this machine and their usual ports.
const LOCAL_SERVERS: &[(&str, Wire, &str)] = &[
    ("llama.cpp", Wire::Chat, "http://127.0.0.1:8080/v1"),
    ("LM Studio", Wire::Chat, "http://127.0.0.1:1234/v1"),
    ("vLLM", Wire::Chat, "http://127.0.0.1:8000/v1"),
    ("Ollama", Wire::Ollama, "http://127.0.0.1:11434"),
];

/// What names a model.
pub(crate) enum Choice {
    Model(ChosenModel),
    /// None is configured, and this one was found on this machine.
    Found(ChosenModel),
}

/// Chooses the model that is written, or without one a server on this machine.
pub(crate) async fn choose(loaded: &Loaded, written: Option<&str>) -> anyhow::Result<Choice> {
    let (agent, http) = (&loaded.settings.agent, HttpClient::default());
    if let Some(written) = written {
        if let Some(model) = agent.models.get(written) {
            return Ok(Choice::Model(configured(written, model, (loaded, &http)).await?));
        }
        if written == LOCAL {
            let found = discover(&http).await;
            return found
                .map(Choice::Model)
                .with_context(|| no_server("no model server answers here"));
        }
        return Ok(Choice::Model(of_provider(agent, written, &http).await?));
    }
    match agent.models.iter().next() {
        Some((name, model)) if agent.models.len() == 1 => {
            return Ok(Choice::Model(configured(name, model, (loaded, &http)).await?));
        }
        Some(_) => {
            let names: Vec<&str> = agent.models.keys().map(String::as_str).collect();
            bail!(
                "no model is chosen; use `--model NAME` or set `agent.model` to one of: {}",
                names.join(", ")
            );
        }
        None => {}
    }
    discover(&http).await.map(Choice::Found).with_context(|| {
        no_server("no model is configured, and no model server answers on this machine")
    })
}

/// Returns what to do without a model.
fn no_server(problem: &str) -> String {
    let ports: Vec<String> = LOCAL_SERVERS
        .iter()
        .map(|(name, _, url)| {
            format!("{name} at {}", url.trim_start_matches("http://").trim_end_matches("/v1"))
        })
        .collect();
    let set: Vec<&str> = PROVIDERS
        .iter()
        .filter(|provider| provider.key_env.is_some_and(|key| env_vars::api_key(key).is_some()))
        .map(|provider| provider.name)
        .collect();
    let providers = match set.as_slice() {
        [] => String::from(
            "`--model anthropic/MODEL` with ANTHROPIC_API_KEY, or `openai/MODEL` with OPENAI_API_KEY, or \
             `openrouter/MODEL` with OPENROUTER_API_KEY",
        ),
        set => set
            .iter()
            .map(|name| format!("`--model {name}/MODEL`"))
            .collect::<Vec<_>>()
            .join(" or "),
    };
    format!(
        "{problem}; use {providers}; or start a server ({}); or write a table `[models.NAME]` with `wire` and `url` into \
         ~/.config/sinew/config.toml",
        ports.join(", ")
    )
}

/// Returns a model of the configuration.
async fn configured(
    written: &str,
    model: &ModelConfig,
    (loaded, http): (&Loaded, &HttpClient),
) -> anyhow::Result<ChosenModel> {
    let Some(wire) = Wire::from_word(&model.wire) else {
        bail!(
            "`models.{written}.wire` must be one of anthropic, responses, chat, ollama, not `{}`",
            model.wire
        );
    };
    let key = match &model.key {
        Some(source) => Some(model_key::of(source, written, loaded).await?),
        None => None,
    };
    let context = match model.context {
        Some(context) => context,
        None if wire == Wire::Ollama => OLLAMA_CONTEXT,
        None if !model.url.is_encrypted() => {
            context_of(http, &model.url, &model.name).await.unwrap_or(USUAL_CONTEXT)
        }
        None => USUAL_CONTEXT,
    };
    let max_output_tokens = model.max_output_tokens.unwrap_or_else(|| max_output(context));
    if context <= max_output_tokens {
        bail!(
            "`models.{written}.max_output_tokens` must be smaller than the window of {context} tokens, not \
             `{max_output_tokens}`"
        );
    }
    let [input, cached, output] = model.prices.unwrap_or_default();
    Ok(ChosenModel {
        written: written.to_owned(),
        provider: model.url.host().name().to_owned(),
        wire,
        url: model.url.clone(),
        name: model.name.clone(),
        key,
        context,
        max_output_tokens,
        temperature: model.temperature,
        prices: model.prices.map(|_| Prices { input, cached, output }),
    })
}

/// Returns a model that is written `PROVIDER/MODEL`.
async fn of_provider(
    agent: &AgentConfig,
    written: &str,
    http: &HttpClient,
) -> anyhow::Result<ChosenModel> {
    let parts = written.split_once('/').filter(|(_, model)| !model.is_empty());
    let known = parts.and_then(|(name, model)| {
        let provider = PROVIDERS.iter().find(|provider| provider.name == name)?;
        Some((provider, model))
    });
    let Some((provider, model)) = known else {
        let mut names: Vec<String> = agent.models.keys().map(|name| format!("`{name}`")).collect();
        names.extend(PROVIDERS.iter().map(|provider| format!("`{}/MODEL`", provider.name)));
        names.push(format!("`{LOCAL}`"));
        bail!("there is no model `{written}`; known are {}", names.join(", "));
    };
    let key = match provider.key_env {
        Some(name) => Some(env_vars::api_key(name).with_context(|| {
            format!("the variable {name} with the key of {} is not set", provider.name)
        })?),
        None => None,
    };
    let url = HttpAddress::parse(provider.url).map_err(anyhow::Error::msg)?;
    let mut context = provider.context.unwrap_or(USUAL_CONTEXT);
    if provider.wire == Wire::Ollama
        && let Some(most) = ollama_context(http, &url, model).await
    {
        context = context.min(most);
    }
    Ok(ChosenModel {
        written: written.to_owned(),
        provider: provider.name.to_owned(),
        wire: provider.wire,
        url,
        name: model.to_owned(),
        key,
        context,
        max_output_tokens: max_output(context),
        temperature: None,
        prices: None,
    })
}

/// Returns the model that a server on a usual port of this machine serves.
async fn discover(http: &HttpClient) -> Option<ChosenModel> {
    for (provider, wire, url) in LOCAL_SERVERS {
        let Ok(url) = HttpAddress::parse(url) else { continue };
        let found = match wire {
            Wire::Ollama => {
                let tags = get(http, &url, "api/tags").await;
                let name = tags.as_ref().and_then(|tags| tags.pointer("/models/0/name")?.as_str());
                let Some(name) = name.map(str::to_owned) else { continue };
                let most = ollama_context(http, &url, &name).await.unwrap_or(OLLAMA_CONTEXT);
                (name, most.min(OLLAMA_CONTEXT))
            }
            _ => {
                let models = get(http, &url, "models").await;
                let name =
                    models.as_ref().and_then(|models| models.pointer("/data/0/id")?.as_str());
                let Some(name) = name.map(str::to_owned) else { continue };
                let context = context_of(http, &url, &name).await.unwrap_or(USUAL_CONTEXT);
                (name, context)
            }
        };
        let (name, context) = found;
        return Some(ChosenModel {
            written: LOCAL.to_owned(),
            provider: (*provider).to_owned(),
            wire: *wire,
            url,
            name,
            key: None,
            context,
            max_output_tokens: max_output(context),
            temperature: None,
            prices: None,
        });
    }
    None
}

fn max_output(context: u32) -> u32 {
    (context / 4).min(MAX_OUTPUT)
}

/// Asks a server on this machine for the context window that it loaded a model with.
async fn context_of(http: &HttpClient, url: &HttpAddress, model: &str) -> Option<u32> {
    let models = get(http, url, "models").await;
    let entries = models.as_ref().and_then(|models| models.get("data")?.as_array());
    let of_model = |entry: &&Value| entry.get("id").and_then(Value::as_str) == Some(model);
    let entry = entries.and_then(|entries| entries.iter().find(of_model));
    // vLLM, and LM Studio under another name.
    let said = ["max_model_len", "context_length", "loaded_context_length"]
        .iter()
        .find_map(|key| entry?.get(*key)?.as_u64());
    if let Some(context) = said {
        return u32::try_from(context).ok();
    }
    // llama.cpp says it beside the API.
    let server = HttpAddress::parse_plain(&url.server()).ok()?;
    let props = get(http, &server, "props").await?;
    let context = props.pointer("/default_generation_settings/n_ctx")?.as_u64()?;
    u32::try_from(context).ok().filter(|context| 0 < *context)
}

/// Asks Ollama for the longest context of a model.
async fn ollama_context(http: &HttpClient, url: &HttpAddress, model: &str) -> Option<u32> {
    let body = serde_json::json!({ "model": model }).to_string().into_bytes();
    let show = send(http, url, "api/show", Some(body)).await?;
    let info = show.get("model_info")?.as_object()?;
    let context = info.iter().find(|(key, _)| key.ends_with(".context_length"))?.1.as_u64()?;
    u32::try_from(context).ok()
}

async fn get(http: &HttpClient, url: &HttpAddress, path: &str) -> Option<Value> {
    send(http, url, path, None).await
}

async fn send(
    http: &HttpClient,
    url: &HttpAddress,
    path: &str,
    body: Option<Vec<u8>>,
) -> Option<Value> {
    let address = url.below(path);
    let headers = [("content-type", String::from("application/json"))];
    let sent = http.send(&address, &headers, body, MAX_PROBED);
    let reply = timeout(PROBE, sent).await.ok()?.ok()?;
    (reply.status == 200).then(|| serde_json::from_slice(&reply.body).ok()).flatten()
}
