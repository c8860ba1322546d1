//! Configured rules: which calls run, ask or are denied.
//!
//! A rule has a verdict and matches calls by tool, effect and agent, and by a path, a command or a host. One
//! that denies or asks matches if one of these does. Rules that allow must together match each of them that
//! does more than read. Deny beats ask beats allow, in any order and layer. `unless` names exceptions.
//!
//! Rules that deny or ask check every command of a line, [also those that other programs run](CommandList).
//! They ask if a word is only known at run time, since it may be any word. Rules that allow check the line as
//! written: each command must match word by word or be plain, and the line may hold nothing else.
//!
//! Path rules that deny or ask also hide paths beneath a directory that is searched or listed.

mod beneath;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sinew_tool::{
    Access, Analysis, CommandLine, CommandList, CommandTarget, Effects, FileKind, FileTarget, Host,
    Need, Piece, Position, Ruling, Targets, Verdict, agents, name_matches, shown, tool_matches,
};

use crate::globs::{self, Globs, RuleError, Written};
use crate::hosts::HostPattern;
use crate::judge::Case;
use crate::publishing;
use sinew_fs::literal::escaped;
use sinew_fs::roots::Roots;
use sinew_shell::command_pattern::{self, CommandPattern, Fit, UNCONTAINED};

pub use beneath::{Beneath, Judge, Taken, judges_paths};

sinew_tool::word_enum! {
    /// Who wrote a rule, in the order of configuration, weakest first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Layer {
        /// Built-in defaults.
        BuiltIn = "built-in",
        /// The system's file.
        System = "system",
        /// The user's own files, and permanent answers.
        User = "user",
        /// The project's file.
        Project = "project",
        /// A file that was named, variables and flags of this process.
        Session = "session",
        /// The embedding program.
        Program = "program",
    }
}

/// Where a rule was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleOrigin {
    /// Who wrote it.
    pub layer: Layer,
    /// The file and line, the flag or the variable.
    pub place: String,
}

/// Path globs of a rule: absolute, or relative to each root.
#[derive(Debug, Clone, Default)]
pub struct Paths {
    written: Vec<String>,
    /// Compiled once the roots are known.
    globs: Option<Arc<Globs>>,
}

impl PartialEq for Paths {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for Paths {}

impl Paths {
    /// Parses globs. The error is the index of the first invalid one, and why.
    pub fn parse(written: Vec<String>) -> Result<Self, (usize, String)> {
        for (at, glob) in written.iter().enumerate() {
            globs::check(glob).map_err(|problem| (at, problem))?;
        }
        Ok(Self { written, globs: None })
    }

    /// Returns a glob for exactly one real path; `None` if it cannot be written.
    pub fn of(path: &Path) -> Option<Self> {
        let glob = escaped(path).ok()?;
        let meant = Written::as_it_is(glob.clone());
        let globs = Globs::compile("an answer", &[meant], false).ok()??;
        Some(Self { written: vec![glob], globs: Some(Arc::new(globs)) })
    }

    /// Returns globs for a real path and all beneath it; `None` if they cannot be written.
    pub fn beneath(path: &Path) -> Option<Self> {
        let itself = escaped(path).ok()?;
        let written = vec![itself.clone(), format!("{itself}/**")];
        let meant: Vec<_> = written.iter().cloned().map(Written::as_it_is).collect();
        let globs = Globs::compile("an answer", &meant, false).ok()??;
        Some(Self { written, globs: Some(Arc::new(globs)) })
    }

    /// Returns the globs as written.
    pub fn written(&self) -> &[String] {
        &self.written
    }

    fn anchor(&mut self, roots: &Roots, origin: &RuleOrigin, holds: bool) -> Result<(), RuleError> {
        let list = format!("{}: `paths` of a rule", origin.place);
        let written = Written::all_beneath(&list, &self.written, roots, holds)?;
        self.globs = Globs::compile(&list, &written, true)?.map(Arc::new);
        Ok(())
    }

    fn mean(&self, path: &Path) -> bool {
        self.globs.as_ref().is_some_and(|globs| globs.first_match(path).is_some())
    }

    fn may_lie_beneath(&self, dir: &Path) -> bool {
        self.globs.as_ref().is_some_and(|globs| globs.may_lie_beneath(dir))
    }
}

/// A command that an answer at a terminal lets run without a sandbox: one text, and where it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsandboxedCommand {
    /// The text. It is no pattern.
    pub text: String,
    /// The real path of the directory, since a name may mean another file elsewhere.
    pub cwd: PathBuf,
}

impl UnsandboxedCommand {
    /// Returns a command as it was asked about; `None` if it was not understood whole, not all of it can be shown,
    /// or it runs what other calls may change.
    pub fn of(command: &CommandTarget) -> Option<Self> {
        let CommandLine::Shell(_, text) = &command.command.line else { return None };
        // Other calls may change what it runs, unasked.
        if command.may_run_own_files {
            return None;
        }
        let mut all = command_pattern::all(&command.analysis)?.peekable();
        all.peek()?;
        if all.any(|words| publishing::may_publish(words, true)) {
            return None;
        }
        command.cwd.to_str()?;
        (shown(text) == *text && !text.contains(char::is_control))
            .then(|| Self { text: text.clone(), cwd: command.cwd.clone() })
    }
}

/// The part of a call that a condition matches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Object {
    /// The whole call.
    #[default]
    Call,
    /// Each path of the call.
    Paths(Paths),
    /// Each command.
    Command(CommandPattern),
    /// One command without a sandbox. Only an answer makes such a rule.
    Unsandboxed(UnsandboxedCommand),
    /// Each host.
    Hosts(Vec<HostPattern>),
}

/// Which calls match. An empty field matches every call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Condition {
    /// Names of tools or operations, with `*` for any run of characters.
    pub tools: Vec<String>,
    /// Effects: the call has one of them; if the rule allows, it has no other.
    pub effects: Option<Effects>,
    /// Names of agents, with `*` for any run of characters.
    pub agents: Vec<String>,
    /// The part of the call that must match.
    pub object: Object,
    /// What its command may need beyond its sandbox, where the rule allows: it covers a command that needs something only
    /// if it names all of that.
    pub needs: Vec<Need>,
}

impl Condition {
    /// Returns whether tool and effects of the call match.
    fn meets(&self, case: &Case<'_>, verdict: Verdict) -> bool {
        let by_effect = self.effects.is_none_or(|effects| match verdict {
            Verdict::Allow => (Effects::OBSERVE | effects).contains(case.effects),
            Verdict::Ask | Verdict::Deny => effects.intersects(case.effects),
        });
        by_effect && self.names(case.tool, case.operation)
    }

    /// Returns whether the agent of the call matches. A sub-agent has the rights of all above it: what binds one of them
    /// binds it, and what frees it frees each of them.
    fn names_agent(&self, case: &Case<'_>, binds: bool) -> bool {
        let is_meant =
            |agent: Option<&str>| agent.is_some_and(|agent| is_named(&self.agents, agent));
        self.agents.is_empty()
            || match binds {
                true => agents::lineage(case.agent).any(is_meant),
                false => agents::lineage(case.agent).all(is_meant),
            }
    }

    /// Returns whether a tool is one of those named.
    fn names(&self, tool: &str, operation: &str) -> bool {
        let fits = |pattern: &String| {
            tool_matches(pattern, tool) || (tool != operation && name_matches(pattern, operation))
        };
        self.tools.is_empty() || self.tools.iter().any(fits)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effects = self.effects.map(|effects| effects.names().join("|"));
        let (paths, hosts) = match &self.object {
            Object::Paths(paths) => (paths.written.join("|"), String::new()),
            Object::Hosts(hosts) if hosts.is_empty() => (String::new(), String::from("no host")),
            Object::Hosts(hosts) => (String::new(), in_list(hosts)),
            Object::Call | Object::Command(_) | Object::Unsandboxed(_) => {
                (String::new(), String::new())
            }
        };
        let parts = [
            self.tools.join("|"),
            effects.unwrap_or_default(),
            match self.agents.as_slice() {
                [] => String::new(),
                agents => format!("agent {}", agents.join("|")),
            },
            match &self.object {
                Object::Command(pattern) => pattern.to_string(),
                Object::Unsandboxed(UnsandboxedCommand { text, cwd }) => {
                    format!("{text:?} in {}", cwd.display())
                }
                _ => String::new(),
            },
            paths,
            hosts,
            match self.needs.as_slice() {
                [] => String::new(),
                needs => format!("with needs {}", in_list(needs)),
            },
        ];
        let parts: Vec<&str> =
            parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        f.write_str(if parts.is_empty() { "*" } else { "" })?;
        f.write_str(&parts.join(" "))
    }
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The name that rulings carry.
    pub name: &'static str,
    /// The verdict on matching calls.
    pub verdict: Verdict,
    /// Which calls match.
    pub when: Condition,
    /// Which of them are excepted.
    pub unless: Vec<Condition>,
    /// The reason for people; may be empty.
    pub why: String,
    /// Where the rule was written.
    pub origin: RuleOrigin,
    /// The rule as written, if its names were widened since.
    written: Option<String>,
    /// Whether an answer made it.
    is_answer: bool,
}

impl Rule {
    /// The name of a rule of the list `rules`.
    pub const NAME: &'static str = "rules";

    /// Returns a rule for a condition, without exceptions.
    pub fn new(verdict: Verdict, when: Condition, origin: RuleOrigin) -> Self {
        Self {
            name: Self::NAME,
            verdict,
            when,
            unless: Vec::new(),
            why: String::new(),
            origin,
            written: None,
            is_answer: false,
        }
    }

    /// Returns a rule as one that an answer made: its open patterns cover no command that publishes, and none at all with the network.
    #[must_use]
    pub fn of_answer(self) -> Self {
        Self { is_answer: true, ..self }
    }

    /// Returns a rule that denies tools, as `tools.policy.deny` does.
    pub fn denying(tools: Vec<String>, origin: RuleOrigin) -> Self {
        let when = Condition { tools, ..Condition::default() };
        Self { name: "tools.deny", ..Self::new(Verdict::Deny, when, origin) }
    }

    /// Returns a rule that denies all other tools, as `tools.policy.allow` does.
    pub fn only(tools: Vec<String>, origin: RuleOrigin) -> Self {
        let but = Condition { tools, ..Condition::default() };
        Self {
            name: "tools.allow",
            unless: vec![but],
            why: String::from("only these tools may be used"),
            ..Self::new(Verdict::Deny, Condition::default(), origin)
        }
    }

    /// Returns a rule of a setting that denies hosts.
    pub fn denying_hosts(
        setting: &'static str,
        hosts: Vec<HostPattern>,
        origin: RuleOrigin,
    ) -> Self {
        let when = Condition { object: Object::Hosts(hosts), ..Condition::default() };
        Self { name: setting, ..Self::new(Verdict::Deny, when, origin) }
    }

    /// Returns a rule of a setting that denies all other hosts.
    pub fn only_hosts(setting: &'static str, hosts: Vec<HostPattern>, origin: RuleOrigin) -> Self {
        let but = Condition { object: Object::Hosts(hosts), ..Condition::default() };
        Self {
            unless: vec![but],
            why: String::from("only these hosts may be reached"),
            ..Self::denying_hosts(setting, vec![HostPattern::all()], origin)
        }
    }

    /// Widens tool names to every vocabulary: `mean` gets them, and whether equivalent tools match too. The
    /// rule is still displayed as written.
    #[must_use]
    pub fn meaning(mut self, mean: impl Fn(&[String], bool) -> Vec<String>) -> Self {
        self.written = Some(self.to_string());
        let holds = self.verdict != Verdict::Allow;
        self.when.tools = mean(&self.when.tools, holds);
        for but in &mut self.unless {
            but.tools = mean(&but.tools, !holds);
        }
        self
    }

    /// Anchors relative globs at these roots.
    pub fn anchor(&mut self, roots: &Roots) -> Result<(), RuleError> {
        let Self { when, unless, origin, verdict, .. } = self;
        let holds = *verdict != Verdict::Allow;
        let all = std::iter::once((when, holds)).chain(unless.iter_mut().map(|but| (but, !holds)));
        for (condition, holds) in all {
            if let Object::Paths(paths) = &mut condition.object {
                paths.anchor(roots, origin, holds)?;
            }
        }
        Ok(())
    }

    fn meets(&self, case: &Case<'_>) -> bool {
        let binds = self.verdict != Verdict::Allow;
        self.when.meets(case, self.verdict)
            && self.when.names_agent(case, binds)
            && !self.excepted(case).any(|object| object == &Object::Call)
    }

    /// Returns whether the rule can match a call of a tool.
    pub(crate) fn can_mean(&self, tool: &str, operation: &str) -> bool {
        self.when.names(tool, operation)
    }

    /// Returns whether the rule denies or asks by path.
    fn holds_by_path(&self) -> bool {
        self.verdict != Verdict::Allow && matches!(self.when.object, Object::Paths(_))
    }

    /// Returns the exceptions that hold for a call.
    fn excepted<'r>(&'r self, case: &'r Case<'_>) -> impl Iterator<Item = &'r Object> {
        let frees = self.verdict != Verdict::Allow;
        let meets = move |condition: &&Condition| {
            condition.meets(case, Verdict::Deny) && condition.names_agent(case, !frees)
        };
        self.unless.iter().filter(meets).map(|condition| &condition.object)
    }

    fn means_path(&self, case: &Case<'_>, path: &Path) -> bool {
        let Object::Paths(paths) = &self.when.object else { return false };
        let excepts = |object: &Object| matches!(object, Object::Paths(paths) if paths.mean(path));
        paths.mean(path) && !self.excepted(case).any(excepts)
    }

    fn means_host(&self, case: &Case<'_>, host: &Host) -> bool {
        let Object::Hosts(hosts) = &self.when.object else { return false };
        let holds = self.verdict != Verdict::Allow;
        let excepts = |object: &Object| matches!(object, Object::Hosts(hosts) if is_among(hosts, host, !holds));
        is_among(hosts, host, holds) && !self.excepted(case).any(excepts)
    }

    /// Returns how a command fits a rule that denies or asks; an exception must surely fit.
    fn find(&self, case: &Case<'_>, pattern: &CommandPattern, command: &[Piece]) -> Fit {
        let excepts = |object: &Object| match object {
            Object::Command(pattern) => pattern.find(command) == Fit::Yes,
            _ => false,
        };
        match pattern.find(command) {
            Fit::No => Fit::No,
            _ if self.excepted(case).any(excepts) => Fit::No,
            fit => fit,
        }
    }

    /// Returns whether known words fit a rule that allows; no exception may fit.
    fn covers(&self, case: &Case<'_>, words: &[String]) -> bool {
        let Object::Command(pattern) = &self.when.object else { return false };
        let pieces: Vec<Piece> = words.iter().cloned().map(Piece::Known).collect();
        let excepts = |object: &Object| match object {
            Object::Command(pattern) => pattern.find(&pieces) != Fit::No,
            _ => false,
        };
        let has_network = case.effects.contains(Effects::NETWORK);
        let is_too_wide = self.is_answer
            && (pattern.is_open() || has_network)
            && publishing::may_publish(words, has_network);
        pattern.covers(words) && !is_too_wide && !self.excepted(case).any(excepts)
    }

    /// Returns whether the rule matches a command line by itself.
    pub fn matches(&self, case: &Case<'_>, analysis: &Analysis) -> bool {
        match self.verdict {
            Verdict::Allow => {
                let covers = |words: &Vec<String>| self.covers(case, words);
                match (&analysis.plain, &analysis.rest) {
                    (Err(_), Some(rest)) => !rest.is_empty() && rest.iter().all(covers),
                    (Err(_), None) => false,
                    // A plain line needs no rule, but may match one.
                    (Ok(_), _) => analysis.segments.iter().all(|part| covers(&part.words)),
                }
            }
            Verdict::Ask | Verdict::Deny => self.fit(case, &analysis.commands) == Fit::Yes,
        }
    }

    /// Returns whether the rule may match a command line, as far as is known before it runs.
    pub fn may_match(&self, case: &Case<'_>, analysis: &Analysis) -> bool {
        match self.verdict {
            Verdict::Allow => self.matches(case, analysis),
            Verdict::Ask | Verdict::Deny => {
                let commands = &analysis.commands;
                commands.unclear.is_some() || self.fit(case, commands) != Fit::No
            }
        }
    }

    fn fit(&self, case: &Case<'_>, commands: &CommandList) -> Fit {
        let Object::Command(pattern) = &self.when.object else { return Fit::No };
        if commands.all.is_empty() && pattern.means_all() {
            // A line may act without any command, such as by truncating a file.
            return Fit::Yes;
        }
        let fits = commands.all.iter().map(|command| self.find(case, pattern, command));
        fits.max().unwrap_or(Fit::No)
    }

    fn ruling(&self, fit: Fit, unclear: Option<&str>) -> Ruling {
        let place = &self.origin.place;
        let why = match self.why.is_empty() {
            true => String::new(),
            false => format!(": {}", self.why),
        };
        let does = match self.verdict {
            Verdict::Allow => "allows it",
            Verdict::Ask => "asks",
            Verdict::Deny => "denies it",
        };
        let (verdict, why) = match (fit, unclear) {
            (Fit::Yes, _) => (self.verdict, format!("the rule `{self}` of {place} {does}{why}")),
            (_, Some(unclear)) => (
                Verdict::Ask,
                format!("{unclear}, and the rule `{self}` of {place} may match it{why}"),
            ),
            (_, None) => (
                Verdict::Ask,
                format!(
                    "a word of it is only known when it runs, and the rule `{self}` of {place} may match it{why}"
                ),
            ),
        };
        let origin = Some(format!("{}, {place}", self.origin.layer.as_str()).into());
        Ruling { verdict, rule: self.name, why: why.into(), origin }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(written) = &self.written {
            return f.write_str(written);
        }
        self.when.fmt(f)?;
        self.unless.iter().try_for_each(|but| write!(f, " unless {but}"))
    }
}

/// Returns whether a pattern matches a name.
fn is_named(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| name_matches(pattern, name))
}

/// Returns whether one of the patterns means a host; see [`HostPattern::means`].
fn is_among(patterns: &[HostPattern], host: &Host, if_unknown: bool) -> bool {
    patterns.iter().any(|pattern| pattern.means(host, if_unknown))
}

fn in_list(patterns: &[impl ToString]) -> String {
    let shown: Vec<String> = patterns.iter().map(ToString::to_string).collect();
    shown.join("|")
}

/// Returns the ruling of rules that deny or ask. `taken`: real paths of moved descendants, if known.
pub fn held(
    rules: &[Arc<Rule>],
    case: &Case<'_>,
    targets: &Targets,
    taken: Option<&[PathBuf]>,
) -> Option<Ruling> {
    let commands = targets.command.as_ref().map(|command| &command.analysis.commands);
    let moves = targets.files.iter().any(moves_directory);
    let mut found: Option<(Fit, Ruling)> = None;
    let held = rules.iter().filter(|rule| rule.verdict != Verdict::Allow && rule.meets(case));
    for rule in held {
        let mut unclear = None;
        let fit = match (&rule.when.object, commands) {
            (Object::Call, _) => Fit::Yes,
            (Object::Paths(paths), _) => {
                // What moves is beneath the directory before, and beneath the destination after.
                let may_move = || targets.files.iter().any(|f| paths.may_lie_beneath(&f.path));
                if taken.is_none() && moves && may_move() {
                    unclear = Some("the moved directory may hold a path that the rule matches");
                }
                let named = targets.files.iter().map(|file| file.path.as_path());
                let mut meant = named.chain(taken.into_iter().flatten().map(PathBuf::as_path));
                fit_of(meant.any(|path| rule.means_path(case, path)))
            }
            (Object::Hosts(_), _) => {
                fit_of(targets.hosts.iter().any(|host| rule.means_host(case, host)))
            }
            (Object::Unsandboxed(_), _) | (Object::Command(_), None) => Fit::No,
            (Object::Command(_), Some(commands)) => {
                unclear = commands.unclear;
                rule.fit(case, commands)
            }
        };
        if fit == Fit::No && unclear.is_none() {
            continue;
        }
        let one = (fit, rule.ruling(fit, unclear));
        // The first of the strongest: for equal verdicts, a sure fit explains more.
        let strength = |found: &(Fit, Ruling)| (found.1.verdict, found.0);
        if found.as_ref().is_none_or(|found| strength(found) < strength(&one)) {
            found = Some(one);
        }
    }
    found.map(|(_, ruling)| ruling)
}

/// Returns whether a target is a directory that moves.
pub fn moves_directory(file: &FileTarget) -> bool {
    file.claim.access == Access::Move && file.state.kind() == Some(FileKind::Directory)
}

fn fit_of(fits: bool) -> Fit {
    if fits { Fit::Yes } else { Fit::No }
}

/// Returns the ruling of rules that allow, on a call that does more than read.
pub fn allowed(rules: &[Arc<Rule>], case: &Case<'_>, targets: &Targets) -> Option<Ruling> {
    covering(rules.iter().map(Arc::as_ref), case, targets).map(|rule| rule.ruling(Fit::Yes, None))
}

/// Returns the first of the allowing rules that together cover a call.
pub fn covering<'r>(
    rules: impl Iterator<Item = &'r Rule>,
    case: &Case<'_>,
    targets: &Targets,
) -> Option<&'r Rule> {
    let allowing: Vec<&Rule> =
        rules.filter(|rule| rule.verdict == Verdict::Allow && rule.meets(case)).collect();
    if allowing.is_empty() {
        return None;
    }
    let analysis = targets.command.as_ref().map(|command| &command.analysis);
    if analysis.is_some_and(is_uncontained) {
        return None;
    }
    let needs = targets.command.as_ref().map(|command| command.extra.needs()).unwrap_or_default();
    if !needs.is_empty() {
        return covering_needs(&allowing, &needs, case, targets);
    }
    let leaves = |file: &FileTarget| file.position == Position::Outside;
    // A rule on calls as such means paths beneath the roots.
    let is_inside = !targets.files.iter().any(leaves);
    let is_of_calls =
        |rule: &&&Rule| rule.when.object == Object::Call && rule.when.needs.is_empty();
    if let Some(rule) = allowing.iter().find(is_of_calls)
        && is_inside
    {
        return Some(rule);
    }
    let covering =
        |means: &dyn Fn(&Rule) -> bool| allowing.iter().copied().find(|rule| means(rule));
    let mut covered = Vec::new();
    let mut left = case.effects;
    for file in &targets.files {
        let rule = covering(&|rule| rule.means_path(case, &file.path));
        // Reads beneath the roots need no rule.
        if file.claim.access.changes() || leaves(file) {
            rule?;
            left = left.without(Effects::CHANGE);
        }
        covered.extend(rule);
    }
    if let Some(analysis) = analysis {
        for words in command_pattern::rest(analysis)? {
            covered.push(covering(&|rule| rule.covers(case, words))?);
        }
        // A command reaches the network only through the programs that it runs.
        left = left.without(Effects::EXECUTE).without(Effects::NETWORK);
    }
    for host in &targets.hosts {
        covered.push(covering(&|rule| rule.means_host(case, host))?);
        left = left.without(Effects::NETWORK);
    }
    // No rule covers effects beyond the named objects.
    covered.first().copied().filter(|_| Effects::OBSERVE.contains(left))
}

/// Returns the first of the allowing rules that cover a command with needs: each names all of them, and every command of the
/// text has one, since plain ones get what it needs too. One without a sandbox is covered by its text alone, with just these needs.
fn covering_needs<'r>(
    allowing: &[&'r Rule],
    needs: &[Need],
    case: &Case<'_>,
    targets: &Targets,
) -> Option<&'r Rule> {
    let command = targets.command.as_ref()?;
    if needs.contains(&Need::Unsandboxed) {
        let asked = Object::Unsandboxed(UnsandboxedCommand::of(command)?);
        let is_it = |rule: &&&Rule| rule.when.object == asked && rule.when.needs == needs;
        return allowing.iter().find(is_it).copied();
    }
    let names = |rule: &&&Rule| {
        needs.iter().all(|need| rule.when.needs.iter().any(|named| named.covers(need)))
    };
    let naming: Vec<&Rule> = allowing.iter().filter(names).copied().collect();
    let mut commands = command_pattern::all(&command.analysis)?.peekable();
    commands.peek()?;
    let mut covering = commands.map(|words| naming.iter().find(|rule| rule.covers(case, words)));
    let first = covering.next()??;
    covering.all(|rule| rule.is_some()).then_some(first)
}

/// Returns whether the command runs without a sandbox: then it asks, whatever a rule says.
fn is_uncontained(analysis: &Analysis) -> bool {
    analysis.plain.as_ref().is_err_and(|unclear| unclear.rule == UNCONTAINED)
}
