//! The rows of the corpora.

use serde::Deserialize;

/// One row of a corpus.
#[derive(Debug, Deserialize)]
pub(crate) struct Case {
    /// What the way around uses.
    #[serde(default)]
    pub(crate) class: String,
    /// A script that lays out what the command needs.
    #[serde(default)]
    pub(crate) setup: String,
    command: Text,
}

/// A command, or its parts and how often each stands there.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Text {
    Whole(String),
    Parts(Vec<(String, usize)>),
}

impl Case {
    pub(crate) fn text(&self) -> String {
        match &self.command {
            Text::Whole(text) => text.clone(),
            Text::Parts(parts) => parts.iter().map(|(text, times)| text.repeat(*times)).collect(),
        }
    }

    /// Returns the command as it is shown, on one line and not too long.
    pub(crate) fn shown(&self) -> String {
        let shown: String = self.text().escape_debug().take(100).collect();
        format!("{}: {shown}", self.class)
    }
}
