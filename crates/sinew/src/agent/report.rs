//! What the commands of the agent share: the session to go on with, what a run prints, what it changed, and why it ended.

use anyhow::{Context as _, bail};
use indicatif::ProgressBar;
use sinew_agent::{AgentError, TurnEnd, TurnEvent, TurnStop};
use sinew_guard::{CheckpointId, StoredSession};

use super::changes::{self, Changes};
use super::json_output::JsonOutput;
use super::text_output::TextOutput;
use super::{AgentParts, transcript};
use crate::screen::say;
use crate::wiring::{Loaded, quoted};

/// The output of a run.
pub(crate) enum RunOutput {
    Text(Box<TextOutput>),
    Json(JsonOutput),
}

impl RunOutput {
    pub(crate) fn new(as_json: bool, progress: ProgressBar) -> Self {
        match as_json {
            true => Self::Json(JsonOutput::default()),
            false => Self::Text(Box::new(TextOutput::new(progress))),
        }
    }

    pub(crate) fn event(&mut self, event: &TurnEvent<'_>) {
        match self {
            Self::Text(text) => text.event(event),
            Self::Json(json) => json.event(event),
        }
    }
}

/// Returns the session to go on with. Its root and dialect must be those of now.
pub(crate) fn resumed(
    loaded: &Loaded,
    word: Option<&str>,
) -> anyhow::Result<Option<StoredSession>> {
    let Some(word) = word else { return Ok(None) };
    let sessions = transcript::sessions(loaded)?;
    let root = loaded.roots.first().context("there is no root")?.to_string_lossy();
    let stored = transcript::find(&sessions, word, &root)?;
    if stored.root != root {
        bail!("the session `{}` belongs to {}; go on with it there", stored.id, stored.root);
    }
    let dialect = loaded.settings.dialect.name;
    if stored.dialect != dialect {
        bail!(
            "the session `{}` uses the tools of {}, not of {dialect}; add `--dialect {0}`",
            stored.id,
            stored.dialect,
        );
    }
    Ok(Some(stored))
}

/// Returns the newest checkpoint of the session.
pub(crate) fn newest(parts: &AgentParts) -> Option<CheckpointId> {
    let checkpoints = parts.wired.checkpoints.as_ref()?;
    changes::newest(checkpoints, &parts.wired.session).ok().flatten()
}

/// Returns what the run changed, and says why where that is not known.
pub(crate) fn changed(
    loaded: &Loaded,
    parts: &AgentParts,
    before: Option<CheckpointId>,
) -> Changes {
    let (Some(checkpoints), Some(root)) = (&parts.wired.checkpoints, loaded.roots.first()) else {
        return Changes::default();
    };
    let found = changes::since(checkpoints, &parts.wired.session, before, root);
    found.unwrap_or_else(|error| {
        say(&format!("what the run changed is not known: {error}"));
        Changes::default()
    })
}

/// Returns the line that undoes what the run changed.
pub(crate) fn undo_line(loaded: &Loaded, changes: &Changes) -> Option<String> {
    let first = changes.first.as_ref().filter(|_| !changes.files.is_empty())?;
    let roots: String = loaded
        .said
        .global
        .root
        .iter()
        .map(|root| format!(" --root {}", quoted(&root.to_string_lossy())))
        .collect();
    Some(format!("sinew{roots} checkpoint restore {first}"))
}

/// Prints the changed files, and how to undo the changes.
pub(crate) fn change_lines(loaded: &Loaded, changes: &Changes) {
    if !changes.files.is_empty() {
        let files: Vec<String> = changes.files.iter().map(changes::ChangedFile::words).collect();
        say(&format!("changed: {}", files.join(", ")));
    }
    if let Some(line) = undo_line(loaded, changes) {
        say(&format!("undo with: {line}"));
    }
}

/// Says why a turn ended, unless the model was done.
pub(crate) fn say_stop(ended: &Result<TurnEnd, AgentError>) {
    let end = match ended {
        Ok(end) => end,
        Err(error) => return say(&error.to_string()),
    };
    match end.stop {
        TurnStop::Done => {}
        TurnStop::MaxTurns => say(&format!(
            "stopped after {} rounds of tool calls (`--max-turns` allows more)",
            end.n_iterations.saturating_sub(1)
        )),
        TurnStop::Repeated => say("stopped, since the model made the same call again and again"),
        TurnStop::Budget => say("stopped, since the budget is used up"),
        TurnStop::Interrupted => say("interrupted; what was done so far is kept"),
        TurnStop::Length => say("the answer was cut at the most output tokens of the model"),
        TurnStop::Refusal => say("the model or its provider refused to answer"),
    }
}
