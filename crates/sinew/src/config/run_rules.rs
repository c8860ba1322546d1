//! Rules for commands, from what was written to what is meant.

use sinew_guard::{CommandPattern, RunRule};
use sinew_tool::Verdict;

use super::ConfigError;
use super::options::RunRuleOptions;

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
