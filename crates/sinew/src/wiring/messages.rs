//! The messages of a process: their database in the state directory, and the channels with their tokens.

use std::sync::Arc;

use sinew_guard::{Channel, MessageSettings, MessageStore, Redactor};
use sinew_tool::ApiKey;

use super::Loaded;
use crate::config::{self, ChannelConfig, env_vars};
use crate::screen::say;

/// Returns how messages are sent. Nothing is opened or created yet.
pub(super) fn settings(loaded: &Loaded) -> MessageSettings {
    let config::MessageConfig { limits, timeout, channels } = &loaded.settings.messages;
    let redactor = || Redactor::knowing(env_vars::all());
    let store = loaded.state.as_ref();
    let store = store.map(|state| Arc::new(MessageStore::new(state, limits.clone(), redactor())));
    let channels = channels.iter().map(|(name, channel)| {
        let ChannelConfig { kind, url, token_env } = channel;
        let token = token(name, token_env.as_deref());
        let address = url.clone();
        let of = |token| Channel { kind: *kind, address, token, timeout: *timeout };
        (name.clone(), token.map(of))
    });
    MessageSettings { store, console: say, channels: channels.collect() }
}

/// Returns the token of a channel, or why it is missing.
fn token(name: &str, variable: Option<&str>) -> Result<Option<ApiKey>, String> {
    let Some(variable) = variable else { return Ok(None) };
    match env_vars::api_key(variable) {
        Some(token) => Ok(Some(token)),
        None => Err(format!(
            "the variable {variable}, which `messages.channels.{name}.token_env` names, is not set"
        )),
    }
}
