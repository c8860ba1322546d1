//! Validates rules from the configuration and warns of rules without effect.

use std::path::{Path, PathBuf};

use sinew_guard::{
    CommandPattern, Condition, Layer, Object, Paths, Profile, Rule, RuleOrigin, UnsandboxedCommand,
    lies_outside,
};
use sinew_tool::{Effects, Need, Verdict, name_matches, shown, tool_matches};

use super::options::{ConditionOptions, RuleOptions};
use super::{ConfigError, Layered, Options, ToolList, files, hosts, lines, url_policy};

/// Validates rules; the error names the key of the first invalid one.
pub fn read(written: &[RuleOptions]) -> Result<Vec<Rule>, ConfigError> {
    written.iter().enumerate().map(|(at, rule)| read_one(&format!("rules[{at}]"), rule)).collect()
}

/// Validates rules that answers made: a command may be one without a sandbox, which no configuration can hold.
pub(crate) fn read_answers(written: &[RuleOptions]) -> Result<Vec<Rule>, ConfigError> {
    let read = |(at, rule): (usize, &RuleOptions)| match unsandboxed(rule) {
        Some(rule) => Ok(rule),
        None => read_one(&format!("rules[{at}]"), rule),
    };
    written.iter().enumerate().map(|one| Ok(read(one)?.of_answer())).collect()
}

/// Returns the rule on a command without a sandbox; its only path is the directory in which the command starts.
fn unsandboxed(written: &RuleOptions) -> Option<Rule> {
    let RuleOptions { verdict, command, paths, needs, agents, tools, effects, hosts, .. } = written;
    let is_narrowed = tools.is_some() || effects.is_some() || hosts.is_some();
    if is_narrowed || !written.unless.is_empty() {
        return None;
    }
    let needs = needs.iter().flatten().map(|need| Need::parse(need).ok());
    let needs: Vec<Need> = needs.collect::<Option<_>>()?;
    let (Some(text), Some([cwd])) = (command, paths.as_deref()) else { return None };
    if !needs.contains(&Need::Unsandboxed) || verdict != Verdict::Allow.as_str() {
        return None;
    }
    let (text, cwd) = (text.clone(), PathBuf::from(cwd));
    let object = Object::Unsandboxed(UnsandboxedCommand { text, cwd });
    let agents = agents.clone().unwrap_or_default();
    let when = Condition { object, needs, agents, ..Condition::default() };
    let origin = RuleOrigin { layer: Layer::Program, place: String::new() };
    Some(Rule::new(Verdict::Allow, when, origin))
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
    let mut when = condition(key, &written.when())?;
    when.needs = needs(key, verdict, written)?;
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
            return Err(ConfigError(format!("`{key}` is empty, so the rule would match no call")));
        }
        unless.push(but);
    }
    let origin = RuleOrigin { layer: Layer::Program, place: key.to_owned() };
    let why = written.why.clone().unwrap_or_default();
    let mut rule = Rule::new(verdict, when, origin);
    (rule.unless, rule.why) = (unless, why);
    Ok(rule.meaning(|tools, is_wide| match is_wide {
        true => sinew_dialects::forbidden(tools),
        false => sinew_dialects::operations(tools),
    }))
}

/// Reads the needs that a rule allows.
fn needs(key: &str, verdict: Verdict, written: &RuleOptions) -> Result<Vec<Need>, ConfigError> {
    let Some(entries) = &written.needs else { return Ok(Vec::new()) };
    let fail = |why: String| Err(ConfigError(format!("`{key}.needs` {why}")));
    if verdict != Verdict::Allow {
        return fail(String::from(
            "is for rules that allow; one that denies or asks names `effects` or `paths`",
        ));
    }
    if written.paths.is_some() || written.hosts.is_some() {
        return fail(String::from("is for rules on commands, without `paths` and `hosts`"));
    }
    if entries.is_empty() {
        return fail(String::from("is empty; leave it out or name some"));
    }
    if written.command.is_none() {
        return fail(String::from("must be beside the `command` that may have it"));
    }
    let mut needs = Vec::with_capacity(entries.len());
    for entry in entries {
        match Need::parse(entry) {
            Ok(Need::Unsandboxed) => {
                return fail(String::from(
                    "cannot hold `unsandboxed`: only a person at a terminal allows such a command",
                ));
            }
            Ok(need) => needs.push(need),
            Err(problem) => return fail(format!("cannot be used: {problem}")),
        }
    }
    Ok(needs)
}

fn condition(key: &str, written: &ConditionOptions) -> Result<Condition, ConfigError> {
    let ConditionOptions { tools, effects, agents, paths, command, hosts } = written;
    for (name, list) in [
        ("tools", tools),
        ("effects", effects),
        ("agents", agents),
        ("paths", paths),
        ("hosts", hosts),
    ] {
        // An empty list would match every call.
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
        (Some(paths), None, None) => {
            Object::Paths(Paths::parse(paths.clone()).map_err(|(at, problem)| {
                let glob = paths.get(at).map(|glob| shown(glob)).unwrap_or_default();
                ConfigError(format!("`{key}.paths[{at}]` cannot be used: {problem}: `{glob}`"))
            })?)
        }
        (None, Some(command), None) => {
            Object::Command(CommandPattern::parse(command).map_err(|why| {
                let pattern = command.escape_debug();
                ConfigError(format!("`{key}.command` cannot be used: {why}: `{pattern}`"))
            })?)
        }
        (None, None, Some(hosts)) => {
            let written: Vec<&str> = hosts.iter().map(String::as_str).collect();
            Object::Hosts(hosts::parse(&format!("{key}.hosts"), &written)?)
        }
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
        needs: Vec::new(),
    })
}

/// Returns the rules of every layer with their origins.
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
                .meaning(|tools, _| sinew_dialects::forbidden(tools)),
            false => Rule::only(list.names.clone(), origin)
                .meaning(|tools, _| sinew_dialects::operations(tools)),
        }
    });
    rules.extend(lists);
    rules.extend(of_hosts(layered)?);
    Ok(rules)
}

/// Returns the rules on hosts that settings of their own name.
fn of_hosts(layered: &Layered) -> Result<Vec<Rule>, ConfigError> {
    let mut rules = Vec::new();
    let managed = layered.options.managed.as_ref().and_then(|managed| managed.hosts.as_ref());
    if let Some(hosts) = managed {
        let written: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let hosts = hosts::parse(hosts::MANAGED, &written)?;
        rules.push(Rule::only_hosts(
            hosts::MANAGED,
            hosts,
            layered.origin(hosts::MANAGED).of_rule(),
        ));
    }
    let blocked = url_policy::blocked(&layered.options)?;
    if !blocked.is_empty() {
        rules.push(Rule::denying_hosts(
            url_policy::BLOCKED,
            blocked,
            layered.origin(url_policy::BLOCKED).of_rule(),
        ));
    }
    Ok(rules)
}

impl Layered {
    /// Adds a warning for each rule without effect, because a stronger one has the same conditions.
    pub fn warn_of_contradictions(&mut self) {
        let rules = self.options.rules.as_deref().unwrap_or_default();
        let strength = |rule: &RuleOptions| {
            ["allow", "ask", "deny"].iter().position(|verdict| *verdict == rule.verdict)
        };
        let meant: Vec<_> = rules.iter().map(meant).collect();
        for (at, (rule, origin)) in rules.iter().zip(&self.rules).enumerate() {
            let mut others = rules.iter().zip(&self.rules).zip(&meant);
            let stronger = others.find(|((other, _), means)| {
                meant.get(at) == Some(*means) && strength(rule) < strength(other)
            });
            let stronger = stronger.map(|(other, _)| other);
            if let Some(list) = self.denying(rule) {
                self.warnings.push(format!(
                    "{origin}: `rules[{at}]` changes nothing, because `tools.policy.deny` of {} denies all \
                     of its tools",
                    list.origin
                ));
                continue;
            }
            if let Some((other, place)) = stronger {
                self.warnings.push(format!(
                    "{origin}: `rules[{at}]` changes nothing, because a stronger rule, {} of {place}, matches the same calls",
                    other.verdict
                ));
            }
        }
    }
}

impl Layered {
    /// Adds a warning for each key that would switch checks of addresses off, which nothing does.
    pub fn warn_of_url_policy(&mut self) {
        for key in url_policy::loosening(&self.options) {
            let warning = format!("{}: {}", self.origin(key), url_policy::warning(key));
            self.warnings.push(warning);
        }
    }
}

impl Layered {
    /// Adds a warning for each rule that can match no call, so that it restricts nothing.
    pub fn warn_of_idle_rules(&mut self, roots: &[PathBuf]) {
        let rules = self.options.rules.as_deref().unwrap_or_default();
        let mut warnings = Vec::new();
        for (at, (rule, origin)) in rules.iter().zip(&self.rules).enumerate() {
            let idle = [idle(&rule.when()), idle_but(rule)].into_iter().flatten();
            let but = rule.unless.iter().filter_map(idle_exception);
            warnings.extend(
                idle.chain(but)
                    .map(|why| format!("{origin}: `rules[{at}]` matches no call: {why}")),
            );
            let globs = rule.paths.iter().chain(rule.unless.iter().flat_map(|but| &but.paths));
            let is_noted =
                |glob: &String| self.options.absent.iter().flatten().any(|one| one == glob);
            let outside =
                globs.flatten().filter(|glob| lies_outside(glob, roots) && !is_noted(glob));
            warnings.extend(outside.map(|glob| {
                format!("{origin}: `rules[{at}]`: `{glob}` is in no root, so no call names it")
            }));
        }
        self.warnings.extend(warnings);
    }
}

/// Returns why a condition can match no call.
fn idle(when: &ConditionOptions) -> Option<String> {
    let fetches = |pattern: &String| {
        has_tool(pattern, |effects| {
            effects.contains(Effects::NETWORK) && !effects.contains(Effects::EXECUTE)
        })
    };
    let named = when.tools.as_ref().map(|tools| sinew_dialects::operations(tools));
    if when.hosts.is_some() && named.is_some_and(|tools| !tools.iter().any(fetches)) {
        let why = "none of its tools fetches pages, and commands have `run.network`";
        return Some(String::from(why));
    }
    if let Some(why) = idle_effects(when) {
        return Some(why);
    }
    let command = when.command.as_ref()?;
    let runs = |effect: &String| ["execute", "network"].contains(&effect.as_str());
    if when.effects.as_ref().is_some_and(|effects| !effects.iter().any(runs)) {
        return Some(String::from("a command has the effects execute and network alone"));
    }
    if let Some(sign) = command.split_whitespace().find_map(sign_of_shell) {
        return Some(format!(
            "`{sign}` separates commands, and each is judged alone; write a rule for each"
        ));
    }
    let tools = sinew_dialects::operations(when.tools.as_ref()?);
    let runs = |pattern: &String| has_tool(pattern, |effects| effects.contains(Effects::EXECUTE));
    (!tools.iter().any(runs)).then(|| String::from("none of its tools runs a command"))
}

/// Returns why none of the matched tools has one of the effects.
fn idle_effects(when: &ConditionOptions) -> Option<String> {
    let effects = when.effects.iter().flatten().filter_map(|name| Effects::of_name(name));
    let effects = effects.reduce(|all, one| all | one)?;
    let named = when.tools.as_ref().map(|tools| sinew_dialects::operations(tools));
    let tools = sinew_dialects::tools();
    let is_meant = |operation: &str| {
        let fits = |pattern: &String| name_matches(pattern, operation);
        named.as_ref().is_none_or(|named| named.iter().any(fits))
    };
    let mut meant = tools.filter(|tool| is_meant(tool.operation())).peekable();
    // The effects of an unknown tool are unknown.
    meant.peek()?;
    let has_one = meant.any(|tool| {
        let runs = tool.facts().effects.contains(Effects::EXECUTE);
        // The sandbox decides whether a command reaches the network.
        tool.facts().effects.intersects(effects) || (runs && effects.intersects(Effects::NETWORK))
    });
    (!has_one).then(|| match named {
        None => String::from("no tool has these effects yet"),
        Some(_) => String::from("none of its tools has these effects"),
    })
}

/// Returns why exceptions leave nothing of a rule.
fn idle_but(rule: &RuleOptions) -> Option<String> {
    let is_whole = |but: &&ConditionOptions| {
        let is_plain = but.effects.is_none()
            && but.agents.is_none()
            && but.paths.is_none()
            && but.command.is_none()
            && but.hosts.is_none();
        let names = but.tools.as_deref().unwrap_or_default();
        is_plain && (names.iter().any(|name| name == "*") || but.tools == rule.tools)
    };
    let but = rule.unless.iter().find(|but| **but == rule.when() || is_whole(but));
    but.map(|_| String::from("an exception takes all of it away"))
}

/// Returns why an exception can match no call, unless the same reason applies to its rule.
fn idle_exception(but: &ConditionOptions) -> Option<String> {
    let why = but.command.is_some().then(|| idle(but)).flatten()?;
    Some(format!("one of its exceptions cannot hold: {why}"))
}

/// Returns the shell command separator that a word is or ends with.
fn sign_of_shell(word: &str) -> Option<&str> {
    let alone = ["&&", "||", "&", ";", "<", ">", ">>", "2>", "|&"];
    alone.into_iter().find(|sign| *sign == word).or_else(|| word.ends_with(';').then_some(";"))
}

/// Returns whether a pattern matches a tool with such effects, or only unknown tools.
fn has_tool(pattern: &str, is_meant: impl Fn(Effects) -> bool) -> bool {
    let tools = sinew_dialects::tools();
    let mut named = tools
        .filter(|tool| {
            tool_matches(pattern, tool.name()) || name_matches(pattern, tool.operation())
        })
        .peekable();
    named.peek().is_none() || named.any(|tool| is_meant(tool.facts().effects))
}

impl Layered {
    /// Returns a list that denies all tools of a weaker rule.
    fn denying(&self, rule: &RuleOptions) -> Option<&ToolList> {
        let tools = sinew_dialects::operations(rule.tools.as_deref()?);
        if rule.verdict == Verdict::Deny.as_str() {
            return None;
        }
        self.lists.iter().filter(|list| list.denies).find(|list| {
            let denied = sinew_dialects::forbidden(&list.names);
            tools.iter().all(|tool| denied.iter().any(|pattern| name_matches(pattern, tool)))
        })
    }
}

/// Returns a rule in normal form, without the order of its lists or the aliases of tools.
fn meant(rule: &RuleOptions) -> (ConditionOptions, Option<Vec<String>>, Vec<ConditionOptions>) {
    let sorted = |list: &Option<Vec<String>>| {
        let mut list = list.clone()?;
        list.sort();
        list.dedup();
        Some(list)
    };
    let one = |when: &ConditionOptions| ConditionOptions {
        tools: sorted(&when.tools.as_ref().map(|tools| sinew_dialects::operations(tools))),
        effects: sorted(&when.effects),
        agents: sorted(&when.agents),
        paths: sorted(&when.paths),
        command: when.command.clone(),
        hosts: sorted(&when.hosts),
    };
    (one(&rule.when()), sorted(&rule.needs), rule.unless.iter().map(one).collect())
}

/// The profile and rules of a file.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    /// The profile.
    pub profile: Profile,
    /// The validated rules.
    pub rules: Vec<Rule>,
    /// The rules as written.
    pub written: Vec<RuleOptions>,
}

/// Parses a profile.
pub fn profile(word: &str) -> Option<Profile> {
    Some(match word {
        "read-only" => Profile::ReadOnly,
        "workspace" => Profile::Workspace,
        "sandboxed" => Profile::Sandboxed,
        "full" => Profile::Full,
        _ => return None,
    })
}

/// Reads `profile` and `[[rules]]` of a configuration file.
pub fn read_file(path: &Path) -> Result<PolicyFile, ConfigError> {
    let fail = |error: &dyn std::fmt::Display| {
        ConfigError(format!("{}: {}", path.display(), error.to_string().trim_end()))
    };
    let text = files::read(path).map_err(|error| fail(&error))?;
    let Options { profile: word, rules, .. } =
        toml_edit::de::from_str(&text).map_err(|error| fail(&error))?;
    let written = rules.unwrap_or_default();
    let profile = match word.as_deref() {
        None => Profile::default(),
        Some(word) => profile(word).ok_or_else(|| {
            fail(&format!(
                "`profile` must be one of read-only, workspace, sandboxed, full, not `{word}`"
            ))
        })?,
    };
    let mut rules = read(&written).map_err(|error| lines::placed(path, &text, error))?;
    for (rule, line) in rules.iter_mut().zip(lines::lines_of_rules(&text)) {
        let place = format!("{}:{line}", path.display());
        rule.origin = RuleOrigin { layer: Layer::Session, place };
    }
    Ok(PolicyFile { profile, rules, written })
}
