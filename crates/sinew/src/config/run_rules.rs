//! Rules for commands, from what was written to what is meant.

use std::path::Path;

use serde::Deserialize;
use sinew_guard::{CommandPattern, Profile, RunRule};
use sinew_tool::Verdict;

use super::options::RunRuleOptions;
use super::{ConfigError, layers};

/// Reads rules; the first that cannot be meant is named by its key.
pub(crate) fn read(written: &[RunRuleOptions]) -> Result<Vec<RunRule>, ConfigError> {
    let rules = written.iter().enumerate().map(|(at, rule)| {
        let key = format!("run.rules[{at}]");
        let verdicts = [Verdict::Deny, Verdict::Ask, Verdict::Allow];
        let verdict = verdicts.into_iter().find(|known| known.as_str() == rule.verdict);
        let verdict = verdict.ok_or_else(|| {
            ConfigError(format!(
                "`{key}.verdict` must be one of deny, ask, allow, not `{}`",
                rule.verdict.escape_debug()
            ))
        })?;
        let command = CommandPattern::parse(&rule.command).map_err(|why| {
            let pattern = rule.command.escape_debug();
            ConfigError(format!("`{key}.command` cannot be used: {why}: `{pattern}`"))
        })?;
        let why = rule.why.clone().unwrap_or_default();
        Ok(RunRule { verdict, command, why, origin: key })
    });
    rules.collect()
}

/// A file with rules, in the form of the configuration.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    profile: Option<String>,
    #[serde(default)]
    run: Run,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    #[serde(default)]
    rules: Vec<RunRuleOptions>,
}

/// What a file with rules means.
#[derive(Debug, Clone)]
pub(crate) struct PolicyFile {
    /// How much is allowed without asking.
    pub(crate) profile: Profile,
    /// The rules.
    pub(crate) rules: Vec<RunRule>,
    /// The rules as they are written.
    pub(crate) written: Vec<RunRuleOptions>,
}

/// Returns the profile of a word.
pub(crate) fn profile(word: &str) -> Option<Profile> {
    Some(match word {
        "read-only" => Profile::ReadOnly,
        "workspace" => Profile::Workspace,
        "full" => Profile::Full,
        _ => return None,
    })
}

/// Reads a file with `profile` and `[[run.rules]]`.
pub(crate) fn read_file(path: &Path) -> Result<PolicyFile, ConfigError> {
    let fail = |error: &dyn std::fmt::Display| {
        ConfigError(format!("{}: {}", path.display(), error.to_string().trim_end()))
    };
    let text = layers::read(path).map_err(|error| fail(&error))?;
    let Written { profile: word, run } =
        toml_edit::de::from_str(&text).map_err(|error| fail(&error))?;
    let profile = match word.as_deref() {
        None => Profile::default(),
        Some(word) => profile(word).ok_or_else(|| {
            fail(&format!("`profile` must be one of read-only, workspace, full, not `{word}`"))
        })?,
    };
    let mut rules = read(&run.rules).map_err(|error| fail(&error))?;
    for (rule, line) in rules.iter_mut().zip(layers::lines_of_rules(&text)) {
        rule.origin = format!("{}:{line}", path.display());
    }
    Ok(PolicyFile { profile, rules, written: run.rules })
}
