//! Checks which model the agent would use.

use crate::agent::models::{self, Choice, ChosenModel};
use crate::wiring::Loaded;

use super::{Finding, found};

/// Returns the model of the configuration, or one that a server on this machine serves. Nothing needs it but the agent.
pub(super) fn check(loaded: &Loaded) -> Finding {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let chosen = tokio.map_err(anyhow::Error::from).and_then(|tokio| {
        tokio.block_on(models::choose(loaded, loaded.settings.agent.model.as_deref()))
    });
    let (ok, detail, short) = match chosen {
        Ok(Choice::Model(chosen)) => {
            let ChosenModel { written, name, context, url, .. } = chosen;
            let detail = format!("{written}: {name} at {}, {context} tokens", url.server());
            (true, detail, None)
        }
        Ok(Choice::Found(ChosenModel { provider, name, url, .. })) => {
            let server = url.server();
            let detail = format!(
                "none is configured; {provider} at {server} serves {name}, which `--model local` uses"
            );
            (true, detail, None)
        }
        Err(error) => {
            let is_configured =
                loaded.settings.agent.model.is_some() || !loaded.settings.agent.models.is_empty();
            let short =
                "none, which only `sinew run` and `sinew chat` need; `--json` says how to set one";
            (false, format!("{error:#}"), (!is_configured).then(|| String::from(short)))
        }
    };
    Finding { needed: false, short, ..found("model", ok, detail) }
}
