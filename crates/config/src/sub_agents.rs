//! Validates the limits of sub-agents: `[sub_agents]`.

use std::time::Duration;

use sinew_guard::ChildLimits;

use super::{ConfigError, Options};

/// How deep sub-agents can be.
const MAX_DEPTH: u64 = 5;
/// The most that can work at once.
const MAX_RUNNING: u64 = 32;
/// The most of any count that can be configured.
const MAX_COUNT: u64 = 1_000_000;
/// The longest time, in seconds.
const MAX_TIME_S: u64 = 86_400;
/// The most tokens.
const MAX_TOKENS: u64 = 1_000_000_000;

/// How sub-agents work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubAgentsConfig {
    /// How many there may be.
    pub limits: ChildLimits,
    /// How long one may work.
    pub timeout: Duration,
    /// The most tokens of one.
    pub max_tokens: u64,
    /// How often one may call tools, where that is configured.
    pub max_iterations: Option<u32>,
}

/// Resolves the limits of sub-agents.
pub(crate) fn settings(options: &Options) -> Result<SubAgentsConfig, ConfigError> {
    let written = options.sub_agents.clone().unwrap_or_default();
    let base = ChildLimits::default();
    let within = |name, value: Option<u64>, default, (from, to)| match value.unwrap_or(default) {
        value if (from..=to).contains(&value) => Ok(value),
        value => Err(ConfigError(format!(
            "`sub_agents.{name}` must be from {from} to {to}, not `{value}`"
        ))),
    };
    let count = (1, MAX_COUNT);
    let depth = written.max_depth.map(u64::from);
    let depth = within("max_depth", depth, u64::from(base.max_depth), (0, MAX_DEPTH))?;
    let iterations = match written.max_iterations.map(u64::from) {
        None => None,
        written => Some(within("max_iterations", written, 1, (1, 1_000))?),
    };
    Ok(SubAgentsConfig {
        limits: ChildLimits {
            max_depth: u32::try_from(depth).unwrap_or(base.max_depth),
            max_children: within("max_children", written.max_children, base.max_children, count)?,
            max_running: within(
                "max_running",
                written.max_running,
                base.max_running,
                (1, MAX_RUNNING),
            )?,
            max_total: within("max_total", written.max_total, base.max_total, count)?,
        },
        timeout: Duration::from_secs(within("timeout_s", written.timeout_s, 600, (1, MAX_TIME_S))?),
        max_tokens: within("max_tokens", written.max_tokens, 500_000, (1, MAX_TOKENS))?,
        max_iterations: iterations.and_then(|n| u32::try_from(n).ok()),
    })
}
