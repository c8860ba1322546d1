//! Judges a call: a pure function from facts about the call and rules to a ruling.
//!
//! Deny beats ask beats allow, in any order of the rules. Names in rules mean operations, so `Write` also
//! covers `write_file` of another vocabulary. Nothing here accesses the system, so rulings are repeatable.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use sinew_tool::{
    CommandTarget, Effects, Facts, FileTarget, Position, Receiver, Ruling, Targets, Verdict,
};

use sinew_shell::command_pattern;

use crate::command_policy::CommandPolicy;
use crate::protected;
use crate::rule::{self, Rule, RuleOrigin};

/// How much is allowed without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// Allows reads; denies everything else.
    ReadOnly,
    /// Allows reads inside the roots; asks for the rest, unless rules allow it.
    #[default]
    Workspace,
    /// Also allows changes of files, and commands that their sandbox contains well and whose network is closed.
    Sandboxed,
    /// Asks only for protected names.
    Full,
}

/// Configuration of rulings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// How much is allowed without asking.
    pub profile: Profile,
    /// Where the profile was configured, if it was.
    pub profile_origin: Option<RuleOrigin>,
    /// Whether each change must be approved, whatever the profile says.
    pub require_approval: bool,
    /// Where that was configured, if it was: then a person answers.
    pub required_origin: Option<RuleOrigin>,
    /// Configured rules, in any order.
    pub rules: Vec<Arc<Rule>>,
    /// Allowlist and denylists of commands, if the vocabulary has them.
    pub policy: Option<CommandPolicy>,
}

impl Rules {
    /// Returns the rules that can match a call of one tool.
    #[must_use]
    pub fn of_tool(self: &Arc<Self>, tool: &str, operation: &str) -> Arc<Self> {
        let can_mean = |rule: &&Arc<Rule>| rule.can_mean(tool, operation);
        if self.rules.iter().all(|rule| can_mean(&rule)) {
            return Arc::clone(self);
        }
        let rules = self.rules.iter().filter(can_mean).cloned().collect();
        let Self { profile, profile_origin, require_approval, required_origin, policy, .. } =
            &**self;
        Arc::new(Self {
            rules,
            profile: *profile,
            profile_origin: profile_origin.clone(),
            require_approval: *require_approval,
            required_origin: required_origin.clone(),
            policy: policy.clone(),
        })
    }
}

/// Facts about a call that is judged.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// The wire name of the tool.
    pub tool: &'a str,
    /// The name of its operation.
    pub operation: &'a str,
    /// Facts about every call of the tool.
    pub facts: &'a Facts,
    /// Effects of this call.
    pub effects: Effects,
    /// The calling agent, if there are several.
    pub agent: Option<&'a str>,
}

impl Case<'static> {
    /// A shell command.
    pub const COMMAND: Self = Case {
        tool: "Bash",
        operation: "Bash",
        facts: &Facts { effects: Effects::EXECUTE, ..Facts::UNKNOWN },
        effects: Effects::EXECUTE,
        agent: None,
    };
}

/// The rule that allows commands in the profile `sandboxed`.
pub const SANDBOXED: &str = "profile.sandboxed";
/// The rule that allows what stays inside and can be undone.
pub const UNDO: &str = "undo";
/// The rule that asks for paths outside the roots.
pub const OUTSIDE: &str = "outside";
/// The rule that asks for what a command needs beyond its sandbox.
pub const NEEDS: &str = "needs";
/// The rule that asks for names that other programs act on.
pub const PROTECTED: &str = "protected";

/// The rule on reading pages of public hosts.
pub const NETWORK_GET: &str = "network.get";

/// The rule on sub-agents.
pub const SUB_AGENT: &str = "sub_agent";
/// The operation that spawns them.
const SPAWN: &str = "Spawn";

/// The rule on messages that stay on this machine.
pub const MESSAGE: &str = "message";

/// Returns the ruling on a call. To run it, the guard's `Contained::judge` must judge its held paths.
pub fn judge(case: &Case<'_>, targets: &Targets, rules: &Rules) -> Ruling {
    judge_taken(case, targets, rules, None)
}

/// Like [`judge`], for a call that moves descendants with these old and new real paths.
pub fn judge_taken(
    case: &Case<'_>,
    targets: &Targets,
    rules: &Rules,
    taken: Option<&[PathBuf]>,
) -> Ruling {
    let mut strongest = built_in(case, targets, rules);
    if let Some(ruling) = by_profile(case, rules)
        && strongest.verdict < ruling.verdict
    {
        strongest = ruling;
    }
    // A setting that always asks is reported before a rule that one answer settles for several calls.
    if let Some(ruling) = by_setting(case, rules)
        && strongest.verdict <= ruling.verdict
        && strongest.rule != PROTECTED
    {
        strongest = ruling;
    }
    // Of equal verdicts, the configured rule explains more.
    for ruling in [rule::held(&rules.rules, case, targets, taken), by_policy(targets, rules)] {
        strongest = with_written(strongest, ruling);
    }
    strongest
}

/// Returns the stronger of two rulings; of equal ones, that of a configured rule.
pub fn with_written(strongest: Ruling, written: Option<Ruling>) -> Ruling {
    match written {
        Some(written)
            if strongest.verdict < written.verdict
                || (strongest.verdict == written.verdict && strongest.origin.is_none()) =>
        {
            written
        }
        _ => strongest,
    }
}

/// Returns the ruling of the command policy.
fn by_policy(targets: &Targets, rules: &Rules) -> Option<Ruling> {
    let CommandTarget { command, analysis, .. } = targets.command.as_ref()?;
    rules.policy.as_ref()?.held(&command.line, &analysis.commands)
}

/// Returns the denial by the profile, if any.
fn by_profile(case: &Case<'_>, rules: &Rules) -> Option<Ruling> {
    (rules.profile == Profile::ReadOnly && !case.effects.only_observes()).then(|| Ruling {
        origin: by_whom(rules),
        ..ruling(Verdict::Deny, "profile.read-only", "the profile `read-only` allows only reads")
    })
}

/// Returns the question that the settings of the file tools require, if any.
fn by_setting(case: &Case<'_>, rules: &Rules) -> Option<Ruling> {
    let why = "`require_approval` is on, so each change asks";
    (rules.require_approval && case.effects.contains(Effects::CHANGE)).then(|| Ruling {
        origin: written(rules.required_origin.as_ref()),
        ..ruling(Verdict::Ask, "require_approval", why)
    })
}

/// Returns the ruling of the built-in rules.
fn built_in(case: &Case<'_>, targets: &Targets, rules: &Rules) -> Ruling {
    if let Some(target) = targets.files.iter().find(|target| asks_always(target)) {
        let name = target.protected.unwrap_or_default();
        return ruling(
            Verdict::Ask,
            PROTECTED,
            format!("other programs act on {}, so a change of it always asks", explained(name)),
        );
    }
    let named = targets.command.as_ref().map_or(&[][..], |command| &command.named);
    if !named.is_empty() {
        let them = if named.len() == 1 { "it" } else { "them" };
        let names: Vec<_> = named.iter().map(|name| explained(name)).collect();
        let names = names.join(" and ");
        let mut why =
            format!("other programs act on {names}, so a command that changes {them} always asks");
        // An answer must know of these too.
        let plain = targets.command.as_ref().map(|command| &command.analysis.plain);
        if let Some(Err(unclear)) = plain
            && ["shell.terminal", command_pattern::UNCONTAINED].contains(&unclear.rule)
        {
            why = format!("{why}; {}", unclear.why);
        }
        return ruling(Verdict::Ask, PROTECTED, why);
    }
    if let Some(allowed) = rule::allowed(&rules.rules, case, targets) {
        return allowed;
    }
    if let Some(asks) = needing(targets).or_else(|| outside(targets)) {
        return asks;
    }
    if case.effects.only_observes() {
        return ruling(Verdict::Allow, "observe", "reading inside the roots is allowed");
    }
    if let Some(why) = targets.message.as_ref().and_then(|message| inside(&message.receiver)) {
        return ruling(Verdict::Allow, MESSAGE, why);
    }
    if case.operation == SPAWN && case.effects == Effects::DELEGATE {
        let why = "each call of a sub-agent is judged as one of the agent above it";
        return ruling(Verdict::Allow, SUB_AGENT, why);
    }
    if (Effects::OBSERVE | Effects::SESSION).contains(case.effects) {
        let why = "it reaches what this session began, which was allowed when it began";
        return ruling(Verdict::Allow, "session", why);
    }
    let gets = case.effects == Effects::OBSERVE | Effects::NETWORK;
    let reads = !targets.hosts.is_empty() || targets.search.is_some();
    if gets && reads && targets.command.is_none() {
        return match &targets.unnamed_host {
            Some(host) if rules.profile != Profile::Full => ruling(
                Verdict::Ask,
                NETWORK_GET,
                format!(
                    "the session read pages or results of a search, which may have named {host}, so it asks"
                ),
            ),
            _ => ruling(Verdict::Allow, NETWORK_GET, "reading pages of public hosts is allowed"),
        };
    }
    if rules.profile == Profile::Full {
        let full = ruling(Verdict::Allow, "profile.full", "the profile `full` allows it");
        return Ruling { origin: by_whom(rules), ..full };
    }
    let only_changes = (Effects::OBSERVE | Effects::CHANGE).contains(case.effects);
    if rules.profile == Profile::Sandboxed && only_changes && *case.facts != Facts::UNKNOWN {
        let why = "the profile `sandboxed` allows changes of files";
        return Ruling { origin: by_whom(rules), ..ruling(Verdict::Allow, SANDBOXED, why) };
    }
    let of_commands = Effects::OBSERVE | Effects::EXECUTE | Effects::NETWORK;
    let only_runs = of_commands.contains(case.effects);
    let analysis = targets.command.as_ref().map(|command| &command.analysis);
    match analysis.map(|analysis| &analysis.plain) {
        Some(Ok(_)) if only_runs => {
            ruling(Verdict::Allow, "plain", "the command only reads beneath the roots")
        }
        Some(Err(unclear)) => ruling(Verdict::Ask, unclear.rule, unclear.why.clone()),
        Some(Ok(_)) | None => {
            let (rule, why) = asking_rule(case);
            ruling(Verdict::Ask, rule, why)
        }
    }
}

/// Returns the ruling of the profile `sandboxed` on a command that asks by a built-in rule, if it may run
/// unasked where its sandbox contains it: it reaches no network and has no terminal.
pub fn in_sandbox(
    ruling: &Ruling,
    targets: &Targets,
    effects: Effects,
    rules: &Rules,
) -> Option<Ruling> {
    let command = targets.command.as_ref()?;
    let may_run = rules.profile == Profile::Sandboxed
        && !rules.require_approval
        && ruling.verdict == Verdict::Ask
        && ruling.origin.is_none()
        && ![PROTECTED, NEEDS, command_pattern::UNCONTAINED].contains(&ruling.rule)
        && !command.command.has_terminal
        && (Effects::OBSERVE | Effects::CHANGE | Effects::EXECUTE).contains(effects);
    let why = "the profile `sandboxed` allows commands that their sandbox contains";
    may_run
        .then(|| Ruling { origin: by_whom(rules), ..self::ruling(Verdict::Allow, SANDBOXED, why) })
}

/// Returns whether a call may run unasked where all that it does can be undone and stays inside: only a built-in rule
/// asks, and it reaches no network, terminal or protected name.
pub fn may_run_undone(ruling: &Ruling, targets: &Targets, effects: Effects, rules: &Rules) -> bool {
    let changes = Effects::OBSERVE | Effects::CHANGE;
    let possible = match targets.command {
        // Whether commands reach the network depends on their sandbox.
        Some(_) => changes | Effects::EXECUTE | Effects::NETWORK,
        None => changes,
    };
    ruling.verdict == Verdict::Ask
        && ruling.origin.is_none()
        && !rules.require_approval
        && ![PROTECTED, NEEDS, OUTSIDE, command_pattern::UNCONTAINED].contains(&ruling.rule)
        && targets.command.as_ref().is_none_or(|command| !command.command.has_terminal)
        && targets.hosts.is_empty()
        && possible.contains(effects)
}

/// Returns the question about what a command needs beyond its sandbox, if it needs something.
fn needing(targets: &Targets) -> Option<Ruling> {
    let command = targets.command.as_ref().filter(|command| !command.extra.is_empty())?;
    let needs: Vec<String> = command.extra.needs().iter().map(|need| format!("`{need}`")).collect();
    let why = format!("the command needs {}, which always asks", needs.join(", "));
    Some(ruling(Verdict::Ask, NEEDS, why))
}

/// Returns the question about the first path outside the roots, if there is one.
fn outside(targets: &Targets) -> Option<Ruling> {
    let file = targets.files.iter().find(|file| file.position == Position::Outside)?;
    let does = if file.claim.access.changes() { "changing" } else { "reading" };
    let why = format!("{} is outside the roots, so {does} it asks", file.path.display());
    Some(ruling(Verdict::Ask, OUTSIDE, why))
}

/// Returns why a message runs without a question, if it stays on this machine and in its root.
fn inside(receiver: &Receiver) -> Option<&'static str> {
    match receiver {
        Receiver::Agent { is_same_root: true, .. } => {
            Some("a message to a session of the same root is allowed")
        }
        Receiver::Channel { host: None, .. } => {
            Some("a line for the person at the terminal is allowed")
        }
        Receiver::Agent { .. } | Receiver::Channel { .. } => None,
    }
}

/// Returns a protected name with what programs do with it.
fn explained(name: &str) -> String {
    match protected::what_happens(name) {
        Some(what) => format!("`{name}` ({what})"),
        None => format!("`{name}`"),
    }
}

/// Returns whether a target asks under every profile.
pub fn asks_always(target: &FileTarget) -> bool {
    target.claim.access.changes() && target.protected.is_some()
}

/// Returns the rule for the strongest effect of a call that does more than read.
fn asking_rule(case: &Case<'_>) -> (&'static str, &'static str) {
    let effects = case.effects;
    if *case.facts == Facts::UNKNOWN {
        ("unknown", "nothing is known of what the tool does, so it asks")
    } else if effects.contains(Effects::EXECUTE) {
        ("execute", "running a program asks")
    } else if effects.contains(Effects::NETWORK) {
        ("network", "reaching the network asks")
    } else if effects.contains(Effects::DELEGATE) {
        ("delegate", "handing work or a message to another agent asks")
    } else if effects.contains(Effects::CHANGE) {
        ("change", "changing files asks")
    } else {
        ("unknown", "nothing is known of what the tool does, so it asks")
    }
}

fn ruling(verdict: Verdict, rule: &'static str, why: impl Into<Cow<'static, str>>) -> Ruling {
    Ruling { verdict, rule, why: why.into(), origin: None }
}

/// Returns who configured the profile, and where.
fn by_whom(rules: &Rules) -> Option<Arc<str>> {
    written(rules.profile_origin.as_ref())
}

fn written(origin: Option<&RuleOrigin>) -> Option<Arc<str>> {
    let RuleOrigin { layer, place } = origin?;
    Some(format!("{}, {place}", layer.as_str()).into())
}

#[cfg(test)]
mod tests {
    use sinew_tool::{ChannelKind, Host, MessageTarget};

    use super::*;

    #[test]
    fn messages_that_leave_ask() {
        let channel = |host| Receiver::Channel {
            name: String::from("ops"),
            kind: ChannelKind::Slack,
            chat: String::from("c"),
            host,
        };
        let agent = |is_same_root| Receiver::Agent { id: String::from("s"), is_same_root };
        let host = || Some(Host::new("slack.com", Some(443)));
        let (delegate, network) = (Effects::DELEGATE, Effects::NETWORK);
        for (receiver, effects, profile, expected) in [
            (agent(true), delegate, Profile::Workspace, (Verdict::Allow, MESSAGE)),
            (agent(true), delegate, Profile::ReadOnly, (Verdict::Deny, "profile.read-only")),
            (agent(false), delegate, Profile::Workspace, (Verdict::Ask, "delegate")),
            (agent(false), delegate, Profile::Full, (Verdict::Allow, "profile.full")),
            (channel(None), delegate, Profile::Workspace, (Verdict::Allow, MESSAGE)),
            (channel(host()), network, Profile::Workspace, (Verdict::Ask, "network")),
            (channel(host()), network, Profile::Sandboxed, (Verdict::Ask, "network")),
        ] {
            let facts = Facts { effects, ..Facts::OBSERVES };
            let case = Case { facts: &facts, effects, ..Case::COMMAND };
            let hosts = receiver.host().cloned().into_iter().collect();
            let message = Some(MessageTarget { receiver, content: String::from("x") });
            let targets = Targets { message, hosts, ..Targets::default() };
            let ruling = judge(&case, &targets, &Rules { profile, ..Rules::default() });
            assert_eq!((ruling.verdict, ruling.rule), expected, "{targets:?}");
        }
    }
}
