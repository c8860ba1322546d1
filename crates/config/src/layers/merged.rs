//! The merged configuration: its options, the origin of each value, and the warnings about it.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use sinew_guard::{Layer, Rule};

use super::{ALLOWED, DENIED, LeftOut, Origin, words};
use crate::lines::RULES;
use crate::{ConfigError, Options, rules, serve};

/// The `tools.policy` list of one layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolList {
    /// Whether it is a deny list; otherwise it is an allow list.
    pub denies: bool,
    /// The names, in which `*` matches any run of characters.
    pub names: Vec<String>,
    /// The origin.
    pub origin: Origin,
}

/// The merged configuration as options, with warnings and dropped values.
#[derive(Debug, Clone)]
pub struct Layered {
    /// The merged options.
    pub options: Options,
    /// Each value and its origin, by key.
    pub origins: BTreeMap<String, (Value, Origin)>,
    /// The origin of each rule.
    pub rules: Vec<Origin>,
    /// The `tools.policy` lists of all layers.
    pub lists: Vec<ToolList>,
    /// The origin of each MCP server.
    pub servers: BTreeMap<String, Origin>,
    /// The origin of each hook.
    pub hooks: Vec<Origin>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The dropped values of layers that can only tighten.
    pub left_out: Vec<LeftOut>,
    /// The trusted project: the first root, ignoring the project's own file.
    pub trusted_project: Option<PathBuf>,
    /// Whether the system's file forbids trusting projects and arguments.
    pub keeps_from_trusting: bool,
    /// Whether the system's file forbids allow rules and permanent approvals of other layers.
    pub keeps_from_allowing: bool,
}

impl Layered {
    /// Returns the dropped values of this process's arguments and variables.
    pub fn unconfirmed(&self) -> impl Iterator<Item = &LeftOut> {
        self.left_out.iter().filter(|left| left.origin.layer() == Layer::Session)
    }

    /// Returns where a value was set.
    pub fn origin(&self, key: &str) -> &Origin {
        self.origins.get(key).map_or(&Origin::Default, |(_, origin)| origin)
    }

    /// Prefixes an error with the origin of the key that it names.
    pub fn located(&self, error: ConfigError) -> ConfigError {
        let named = |key: &&String| error.0.contains(&format!("`{key}"));
        let longest = self.origins.keys().filter(named).max_by_key(|key| key.len());
        match longest.and_then(|key| self.origins.get(key)) {
            Some((_, origin)) => ConfigError(format!("{origin}: {error}")),
            None => error,
        }
    }

    /// Adds a warning for each policy name that matches no tool: a rule with a typo restricts nothing.
    pub fn warn_of_unknown_tools(&mut self) {
        let known = LazyCell::new(sinew_dialects::names);
        let absent = self.options.absent.clone().unwrap_or_default();
        let is_known = |pattern: &str| {
            serve::may_be_foreign(pattern, self.servers.keys())
                || absent.iter().any(|name| name == pattern)
                || known.iter().any(|name| sinew_tool::tool_matches(pattern, name))
        };
        let mut warn = |origin: &Origin, key: &str, names: &[String]| {
            for pattern in names.iter().filter(|pattern| !is_known(pattern)) {
                self.warnings.push(format!("{origin}: {}", unknown(key, pattern)));
            }
        };
        for list in &self.lists {
            let key = if list.denies { DENIED } else { ALLOWED };
            warn(&list.origin, key, &list.names);
        }
        let rules = self.options.rules.as_deref().unwrap_or_default();
        for (at, (rule, origin)) in rules.iter().zip(&self.rules).enumerate() {
            let but = rule.unless.iter().flat_map(|but| but.tools.as_deref());
            for names in rule.tools.as_deref().into_iter().chain(but) {
                warn(origin, &format!("{RULES}[{at}].tools"), names);
            }
        }
    }

    /// Returns the validated rules of every layer.
    pub fn all_rules(&self) -> Result<Vec<Arc<Rule>>, ConfigError> {
        Ok(rules::of_layers(self)?.into_iter().map(Arc::new).collect())
    }

    /// Checks `serve` for words that match no tool: an error if a flag set them, else a warning.
    pub fn check_served(&mut self) -> Result<(), ConfigError> {
        let Some((value, origin)) = self.origins.get("serve") else { return Ok(()) };
        let is_unknown = |word: &&str| {
            !serve::is_known(word) && !serve::may_be_foreign(word, self.servers.keys())
        };
        for word in words(value).into_iter().filter(is_unknown) {
            let problem = format!("{origin}: {}", unknown("serve", word));
            match origin {
                Origin::Flag(_) => return Err(ConfigError(problem)),
                _ => self.warnings.push(problem),
            }
        }
        Ok(())
    }
}

/// Returns the message for an unknown tool name, with a suggestion.
fn unknown(key: &str, word: &str) -> String {
    let known = sinew_dialects::names();
    let nearest = sinew_runtime::nearest(word, known.iter().map(String::as_str));
    let meant = if nearest.is_empty() {
        format!("known: {}", known.iter().cloned().collect::<Vec<_>>().join(", "))
    } else {
        format!("did you mean: {}", nearest.join(", "))
    };
    format!("`{key}` names no tool: `{word}`; {meant}")
}
