//! Validates messages and their channels: `[messages]`.

use std::collections::BTreeMap;
use std::time::Duration;

use sinew_guard::{HttpAddress, MessageLimits};
use sinew_tool::ChannelKind;

use super::options::ChannelOptions;
use super::{ConfigError, Options};

/// The longest message between agents that can be configured, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// The most of any count that can be configured.
const MAX_COUNT: u64 = 1_000_000;
/// The longest time that anything is kept, in days.
const MAX_DAYS: u64 = 3_650;
/// The longest time of a service, in seconds.
const MAX_TIMEOUT_S: u64 = 600;

/// How messages are sent.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageConfig {
    /// The limits of messages between agents.
    pub limits: MessageLimits,
    /// How long the service of a channel may take to answer.
    pub timeout: Duration,
    /// The channels by their names.
    pub channels: BTreeMap<String, ChannelConfig>,
}

/// A channel.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelConfig {
    /// Its service.
    pub kind: ChannelKind,
    /// The base address of its API.
    pub url: HttpAddress,
    /// The variable that holds its token.
    pub token_env: Option<String>,
}

/// Resolves messages and their channels.
pub(crate) fn settings(options: &Options) -> Result<MessageConfig, ConfigError> {
    let written = options.messages.clone().unwrap_or_default();
    let within = |name, value: Option<u64>, default, to| match value.unwrap_or(default) {
        value if (1..=to).contains(&value) => Ok(value),
        value => {
            Err(ConfigError(format!("`messages.{name}` must be from 1 to {to}, not `{value}`")))
        }
    };
    let max_bytes = written.max_bytes.map(|bytes| bytes as u64);
    let max_bytes = within("max_bytes", max_bytes, 102_400, MAX_BYTES)?;
    let days = within("max_age_days", written.max_age_days, 30, MAX_DAYS)?;
    let timeout = within("timeout_s", written.timeout_s, 30, MAX_TIMEOUT_S)?;
    let limits = MessageLimits {
        max_bytes: usize::try_from(max_bytes).unwrap_or(usize::MAX),
        max_queued: within("max_queued", written.max_queued, 1_000, MAX_COUNT)?,
        max_per_minute: within("max_per_minute", written.max_per_minute, 10, MAX_COUNT)?,
        max_age: Duration::from_secs(days * 24 * 60 * 60),
    };
    let channels = written.channels.unwrap_or_default().into_iter();
    let channels = channels.map(|(name, written)| {
        let read = channel(&name, &written)?;
        Ok((name, read))
    });
    let channels = channels.collect::<Result<_, ConfigError>>()?;
    Ok(MessageConfig { limits, timeout: Duration::from_secs(timeout), channels })
}

fn channel(name: &str, written: &ChannelOptions) -> Result<ChannelConfig, ConfigError> {
    let table = ChannelOptions::TABLE;
    let wrong = |key: &str, what: &str| ConfigError(format!("`{table}.{name}.{key}` {what}"));
    let kind = written.kind.as_deref().unwrap_or(name);
    let kind = match ChannelKind::from_word(kind) {
        Some(kind) if kind != ChannelKind::Console => kind,
        _ => {
            let shown = kind.escape_debug();
            let what = format!(
                "must be `webhook`, `telegram`, `slack` or `discord`, not `{shown}`; `console` is always there"
            );
            return Err(wrong("kind", &what));
        }
    };
    if name == ChannelKind::Console.as_str() {
        return Err(wrong("kind", "cannot be set: `console` writes to standard error"));
    }
    let url = match (written.url.as_deref(), kind) {
        (Some(url), _) => url,
        (None, ChannelKind::Telegram) => "https://api.telegram.org",
        (None, ChannelKind::Slack) => "https://slack.com/api",
        (None, ChannelKind::Discord) => "https://discord.com/api/v10",
        (None, ChannelKind::Webhook | ChannelKind::Console) => {
            return Err(wrong("url", "is missing: a webhook has no address of its own"));
        }
    };
    let parsed = match written.plain_http {
        Some(true) => HttpAddress::parse_plain(url),
        _ => HttpAddress::parse(url),
    };
    let url = parsed.map_err(|problem| {
        let hint = match url.starts_with("http://") {
            true => ", or `plain_http = true` for a network that you trust",
            false => "",
        };
        wrong("url", &format!("cannot be used: {problem}{hint}"))
    })?;
    if written.token_env.is_none() && kind != ChannelKind::Webhook {
        return Err(wrong("token_env", "is missing: it names the variable that holds the token"));
    }
    Ok(ChannelConfig { kind, url, token_env: written.token_env.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<MessageConfig, String> {
        let options: Options = toml_edit::de::from_str(text).map_err(|error| error.to_string())?;
        settings(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn channels_are_checked() {
        let defaults = read("").expect("defaults");
        assert_eq!((defaults.limits, defaults.timeout.as_secs()), (MessageLimits::default(), 30));
        for (name, keys, expected) in [
            ("telegram", "token_env = 'T'", Ok("https://api.telegram.org/")),
            ("ops", "kind = 'slack'\ntoken_env = 'T'", Ok("https://slack.com/api")),
            ("discord", "token_env = 'T'", Ok("https://discord.com/api/v10")),
            ("webhook", "url = 'http://127.0.0.1:1/x'", Ok("http://127.0.0.1:1/x")),
            ("webhook", "url = 'http://example.com/x'", Err("plain_http")),
            (
                "webhook",
                "url = 'http://example.com/x'\nplain_http = true",
                Ok("http://example.com/x"),
            ),
            ("webhook", "", Err("`messages.channels.webhook.url` is missing")),
            ("telegram", "", Err("`messages.channels.telegram.token_env` is missing")),
            ("ops", "token_env = 'T'", Err("`messages.channels.ops.kind` must be")),
            ("ops", "kind = 'console'", Err("`console` is always there")),
            ("console", "kind = 'webhook'\nurl = 'https://e.com'", Err("cannot be set")),
            ("slack", "token = 'x'", Err("unknown field")),
        ] {
            let found = read(&format!("[messages.channels.{name}]\n{keys}"));
            match (found, expected) {
                (Ok(read), Ok(url)) => assert_eq!(read.channels[name].url.as_str(), url),
                (Err(told), Err(problem)) => assert!(told.contains(problem), "{told}"),
                (found, _) => panic!("{name} {keys}: {found:?}"),
            }
        }
        for (keys, problem) in [
            ("max_bytes = 0", "`messages.max_bytes` must be from 1 to 1048576"),
            ("max_queued = 0", "`messages.max_queued`"),
            ("max_per_minute = 1000001", "`messages.max_per_minute`"),
            ("max_age_days = 0", "`messages.max_age_days`"),
            ("timeout_s = 601", "`messages.timeout_s` must be from 1 to 600"),
        ] {
            let told = read(&format!("[messages]\n{keys}")).expect_err(keys);
            assert!(told.contains(problem), "{told}");
        }
    }
}
