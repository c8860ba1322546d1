//! Rules, from what was written to what is meant.

use std::path::Path;

use serde::Deserialize;
use sinew_guard::{
    CommandPattern, Condition, Layer, Object, Paths, Profile, Rule, RuleOrigin, name_matches,
};
use sinew_tool::{Effects, Verdict};

use super::options::{ConditionOptions, RuleOptions};
use super::{ConfigError, Layered, layers};

/// Reads rules; the first that cannot be meant is named by its key.
pub(crate) fn read(written: &[RuleOptions]) -> Result<Vec<Rule>, ConfigError> {
    written.iter().enumerate().map(|(at, rule)| read_one(&format!("rules[{at}]"), rule)).collect()
}

fn read_one(key: &str, written: &RuleOptions) -> Result<Rule, ConfigError> {
    let verdicts = [Verdict::Deny, Verdict::Ask, Verdict::Allow];
    let verdict = verdicts.into_iter().find(|known| known.as_str() == written.verdict);
    let verdict = verdict.ok_or_else(|| {
        ConfigError(format!(
            "`{key}.verdict` must be one of deny, ask, allow, not `{}`",
            written.verdict.escape_debug()
        ))
    })?;
    let when = condition(key, &written.when())?;
    if verdict == Verdict::Allow && when == Condition::default() {
        return Err(ConfigError(format!(
            "`{key}` allows every call; `profile = \"full\"` says that, or name tools, effects, paths, \
             a command, hosts or agents"
        )));
    }
    let mut unless = Vec::with_capacity(written.unless.len());
    for (at, but) in written.unless.iter().enumerate() {
        let key = format!("{key}.unless[{at}]");
        let but = condition(&key, but)?;
        let kind = std::mem::discriminant(&but.object);
        if but.object != Object::Call && kind != std::mem::discriminant(&when.object) {
            return Err(ConfigError(format!(
                "`{key}` must name what the rule names: paths where it has paths, a command where it has \
                 a command, hosts where it has hosts"
            )));
        }
        if but == Condition::default() {
            return Err(ConfigError(format!("`{key}` is empty, so the rule would mean nothing")));
        }
        unless.push(but);
    }
    let origin = RuleOrigin { layer: Layer::Program, place: key.to_owned() };
    let why = written.why.clone().unwrap_or_default();
    let mut rule = Rule::new(verdict, when, origin);
    (rule.unless, rule.why) = (unless, why);
    Ok(rule.meaning(|tools, is_wide| match is_wide {
        true => sinew_dialects::forbidden(tools, name_matches),
        false => sinew_dialects::operations(tools),
    }))
}

/// Reads which calls are meant.
fn condition(key: &str, written: &ConditionOptions) -> Result<Condition, ConfigError> {
    let ConditionOptions { tools, effects, agents, paths, command, hosts } = written;
    for (name, list) in [
        ("tools", tools),
        ("effects", effects),
        ("agents", agents),
        ("paths", paths),
        ("hosts", hosts),
    ] {
        // A list that is empty would mean every call.
        if list.as_ref().is_some_and(Vec::is_empty) {
            return Err(ConfigError(format!("`{key}.{name}` is empty; leave it out or name some")));
        }
    }
    let mut mask: Option<Effects> = None;
    for name in effects.iter().flatten() {
        let effect = Effects::of_name(name).ok_or_else(|| {
            let known = Effects::NAMED.map(|(_, name)| name).join(", ");
            ConfigError(format!("`{key}.effects` must hold some of {known}, not `{name}`"))
        })?;
        mask = Some(mask.map_or(effect, |mask| mask | effect));
    }
    let object = match (paths, command, hosts) {
        (None, None, None) => Object::Call,
        (Some(paths), None, None) => Object::Paths(Paths::new(paths.clone())),
        (None, Some(command), None) => {
            Object::Command(CommandPattern::parse(command).map_err(|why| {
                let pattern = command.escape_debug();
                ConfigError(format!("`{key}.command` cannot be used: {why}: `{pattern}`"))
            })?)
        }
        (None, None, Some(hosts)) => Object::Hosts(
            hosts.iter().map(|host| host_pattern(key, host)).collect::<Result<_, _>>()?,
        ),
        _ => {
            return Err(ConfigError(format!(
                "`{key}` has more than one of `paths`, `command` and `hosts`; write a rule for each"
            )));
        }
    };
    Ok(Condition {
        tools: tools.clone().unwrap_or_default(),
        effects: mask,
        agents: agents.clone().unwrap_or_default(),
        object,
    })
}

/// Reads the pattern of a host: a name or an address, `*.` before a name, or `*`.
fn host_pattern(key: &str, written: &str) -> Result<String, ConfigError> {
    let name = written.strip_prefix("*.").unwrap_or(written);
    let is_name =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':' | '[' | ']');
    match written == "*" || (!name.is_empty() && name.chars().all(is_name)) {
        true => Ok(written.trim_end_matches('.').to_ascii_lowercase()),
        false => Err(ConfigError(format!(
            "`{key}.hosts` must hold names such as `example.com` or `*.example.com`, not `{}`; names \
             with other letters are written as they are looked up (`xn--…`)",
            written.escape_debug()
        ))),
    }
}

/// Returns the rules of every layer, each with where it stands.
pub(super) fn of_layers(layered: &Layered) -> Result<Vec<Rule>, ConfigError> {
    let written = layered.options.rules.as_deref().unwrap_or_default();
    let mut rules = read(written)?;
    for (rule, origin) in rules.iter_mut().zip(&layered.rules) {
        rule.origin = origin.of_rule();
    }
    let lists = layered.lists.iter().map(|list| {
        let origin = list.origin.of_rule();
        match list.denies {
            true => Rule::denying(list.names.clone(), origin)
                .meaning(|tools, _| sinew_dialects::forbidden(tools, name_matches)),
            false => Rule::only(list.names.clone(), origin)
                .meaning(|tools, _| sinew_dialects::operations(tools)),
        }
    });
    rules.extend(lists);
    Ok(rules)
}

impl Layered {
    /// Adds a warning for each rule that means just what a stronger one means: it changes nothing.
    pub fn warn_of_contradictions(&mut self) {
        let rules = self.options.rules.as_deref().unwrap_or_default();
        let strength = |rule: &RuleOptions| {
            ["allow", "ask", "deny"].iter().position(|verdict| *verdict == rule.verdict)
        };
        for (at, (rule, origin)) in rules.iter().zip(&self.rules).enumerate() {
            let mut others = rules.iter().zip(&self.rules);
            let stronger = others.find(|(other, _)| {
                let is_same = other.when() == rule.when() && other.unless == rule.unless;
                is_same && strength(rule) < strength(other)
            });
            if let Some((other, place)) = stronger {
                self.warnings.push(format!(
                    "{origin}: `rules[{at}]` changes nothing, because a stronger rule, {} of {place}, means \
                     the same calls",
                    other.verdict
                ));
            }
        }
    }
}

/// A file with rules, in the form of the configuration.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    profile: Option<String>,
    #[serde(default)]
    rules: Vec<RuleOptions>,
}

/// What a file with rules means.
#[derive(Debug, Clone)]
pub(crate) struct PolicyFile {
    /// How much is allowed without asking.
    pub(crate) profile: Profile,
    /// The rules.
    pub(crate) rules: Vec<Rule>,
    /// The rules as they are written.
    pub(crate) written: Vec<RuleOptions>,
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

/// Reads a file with `profile` and `[[rules]]`.
pub(crate) fn read_file(path: &Path) -> Result<PolicyFile, ConfigError> {
    let fail = |error: &dyn std::fmt::Display| {
        ConfigError(format!("{}: {}", path.display(), error.to_string().trim_end()))
    };
    let text = layers::read(path).map_err(|error| fail(&error))?;
    let Written { profile: word, rules: written } =
        toml_edit::de::from_str(&text).map_err(|error| fail(&error))?;
    let profile = match word.as_deref() {
        None => Profile::default(),
        Some(word) => profile(word).ok_or_else(|| {
            fail(&format!("`profile` must be one of read-only, workspace, full, not `{word}`"))
        })?,
    };
    let mut rules = read(&written).map_err(|error| fail(&error))?;
    for (rule, line) in rules.iter_mut().zip(layers::lines_of_rules(&text)) {
        let place = format!("{}:{line}", path.display());
        rule.origin = RuleOrigin { layer: Layer::Session, place };
    }
    Ok(PolicyFile { profile, rules, written })
}
