//! Authorization type-state: [`Contained`] → [`Judged`] → [`Clearance`] → [`World`]. Each state is made only
//! from the one before it, so a clearance cannot be forged, used twice or used for other paths.
//!
//! [`Contained`] holds open handles and gives no access. [`Judged`] lends at most a read-only [`World`], for
//! previews. An allowing ruling or answer gives a [`Clearance`], and [`Guard::clear`] a World of its targets.
//!
//! ```compile_fail,E0451
//! fn forged(contained: sinew_guard::Contained) -> sinew_guard::Clearance {
//!     let effects = sinew_tool::Effects::OBSERVE;
//!     sinew_guard::Clearance { contained, effects, bound: false }
//! }
//! ```
//!
//! ```compile_fail,E0382
//! fn used_twice(judged: sinew_guard::Judged) {
//!     let first = judged.by_ruling();
//!     let second = judged.by_ruling();
//! }
//! ```
//!
//! ```compile_fail,E0451
//! fn ruled_by_hand(contained: sinew_guard::Contained, ruling: sinew_tool::Ruling) {
//!     let effects = sinew_tool::Effects::OBSERVE;
//!     let judged = sinew_guard::Judged { contained, effects, ruling };
//! }
//! ```
//!
//! What compiles goes through a ruling:
//!
//! ```
//! use sinew_guard::{Case, Cleared, Contained, Guard, Rules};
//!
//! fn by_the_rules(contained: Contained, case: &Case<'_>, rules: &Rules) -> Option<Cleared> {
//!     Guard::clear(contained.judge(case, rules).by_ruling()?).ok()
//! }
//! ```

mod undone;

use std::ffi::{CString, OsStr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sinew_tool::{
    Access, Answer, Caller, Command, CommandTarget, Effects, ExtraAccess, Facts, FileKind,
    FileSettings, FileState, FileTarget, HardLinks, Host, Kind, MessageClaim, NoMessages, NoNet,
    NoProcesses, Position, Processes, Ruling, SearchClaim, Targets, ToolError, UrlClaim, Verdict,
    World,
};

use crate::approval_fingerprint::ApprovalFingerprint;
use crate::change::kept;
use crate::command;
use crate::files::{Armed, GuardedFiles};
use crate::guard::Guard;
use crate::messages;
use crate::moving::descendants;
#[cfg(feature = "web")]
use crate::net::{HostRules, reach};
use crate::restore::{OfWorld, Restoring};
use sinew_fs::clock::SystemClock;
use sinew_fs::resolve::Place;
use sinew_fs::roots::Roots;
use sinew_fs::store::Store;
use sinew_fs::temporary::temporary_name;
use sinew_policy::hosts::HostPattern;
use sinew_policy::judge::{
    Case, PROTECTED, Rules, in_sandbox, judge_taken, may_run_undone, with_written,
};
use sinew_policy::publishing;
use sinew_policy::rule::{
    self, Beneath, Condition, Layer, Object, Paths, Rule, RuleOrigin, Taken, UnsandboxedCommand,
};
use sinew_records::knowledge::CallKnowledge;
use sinew_shell::command_pattern;

use sinew_shell::arity;

/// A call whose paths are resolved to open handles, without access to them yet.
#[derive(Debug)]
pub struct Contained {
    guard: Arc<Guard>,
    /// The roots of the call.
    roots: Arc<Roots>,
    cwd: Arc<Path>,
    targets: Arc<Targets>,
    places: Arc<[Place]>,
    /// The caller, if known.
    caller: Option<Arc<Caller>>,
    /// Where full outputs are stored, if at all.
    store: Option<Store>,
    /// The restore that the call performs, if any.
    restoring: Option<Arc<Restoring>>,
}

/// What rules by path leave of a call that runs.
#[derive(Debug)]
struct Narrowed {
    /// Paths that rules hide from its searches.
    beneath: Option<Arc<Beneath>>,
    /// Rules on descendants of directories that it moves.
    taken: Option<Arc<Taken>>,
    /// Paths that rules deny to the call.
    kept_out: Option<Arc<Beneath>>,
}

/// A contained call with its ruling.
#[derive(Debug)]
pub struct Judged {
    contained: Contained,
    narrowed: Narrowed,
    effects: Effects,
    ruling: Ruling,
    /// Whether it may run unasked where all that it does can be undone.
    may_run_undone: bool,
    operation: String,
    agent: Option<String>,
    #[cfg(feature = "web")]
    hosts: HostRules,
}

/// The right to run one call, made only from its ruling or from an answer to it.
#[derive(Debug)]
pub struct Clearance {
    contained: Contained,
    narrowed: Narrowed,
    effects: Effects,
    #[cfg(feature = "web")]
    hosts: HostRules,
    /// Whether an approval binds the files to their state at containment.
    bound: bool,
    /// Whether it runs only because its changes can be undone.
    must_undo: bool,
}

/// A call that may run.
#[derive(Debug)]
pub struct Cleared {
    /// The only access to the system, narrowed to the targets of the call.
    pub world: World,
    /// Temporary files that may be left if the process dies during the call.
    pub temporaries: Vec<PathBuf>,
}

impl Contained {
    pub(crate) fn new(
        guard: Arc<Guard>,
        roots: Arc<Roots>,
        cwd: Arc<Path>,
        targets: Targets,
        places: Vec<Place>,
    ) -> Self {
        Self {
            guard,
            roots,
            cwd,
            targets: Arc::new(targets),
            places: places.into(),
            caller: None,
            store: None,
            restoring: None,
        }
    }

    /// Adds the addresses that the call fetches, its search, and the other hosts that it names.
    pub fn with_hosts(
        mut self,
        urls: Vec<UrlClaim>,
        search: Option<SearchClaim>,
        hosts: Vec<Host>,
    ) -> Result<Self, ToolError> {
        if !urls.is_empty() || search.is_some() || !hosts.is_empty() {
            let session = self.caller.as_ref().map_or("", |caller| caller.session.as_str());
            let targets = Arc::make_mut(&mut self.targets);
            targets.hosts = hosts;
            reach(&self.guard, session, targets, urls, search)?;
        }
        Ok(self)
    }

    /// Adds the message that the call sends; rules judge the host that it reaches.
    pub fn with_message(mut self, claim: Option<MessageClaim>) -> Result<Self, ToolError> {
        if let Some(claim) = claim {
            let address = self.caller.as_ref().map_or("", |caller| caller.address());
            let message = messages::contain(self.guard.shared.messages.as_deref(), address, claim)?;
            let targets = Arc::make_mut(&mut self.targets);
            targets.hosts.extend(message.receiver.host().cloned());
            targets.message = Some(message);
        }
        Ok(self)
    }

    /// Sets caller and output store. Without a caller: no commands, no file knowledge, no checkpoints.
    #[must_use]
    pub fn by(mut self, caller: Caller, store: Option<Store>) -> Self {
        self.caller = Some(Arc::new(caller));
        self.store = store;
        self
    }

    /// Sets the restore that the call performs, bound to the state that the plan found.
    pub(crate) fn restoring(mut self, restoring: Restoring) -> Self {
        self.restoring = Some(Arc::new(restoring));
        self
    }

    pub(crate) fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Returns the address of the caller, if known: its commands run there.
    pub(crate) fn address(&self) -> Option<&str> {
        self.caller.as_ref().map(|caller| caller.address())
    }

    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    /// Sets the command, to start in the first path. Plain commands must not read what `lookers` may not.
    pub fn with_command(
        mut self,
        command: Command,
        rules: &Rules,
        lookers: &[Case<'_>],
    ) -> Result<Self, ToolError> {
        let kept_out = Beneath::of_calls(&rules.rules, lookers);
        let paths = (self.targets.files.as_slice(), &*self.places);
        let target = command::contain(&self.guard, command, paths, &self.cwd, kept_out.as_ref())?;
        let targets = Arc::make_mut(&mut self.targets);
        for file in targets.files.iter_mut().filter(|file| is_lent(file)) {
            // Every command sees it.
            if !target.extra.paths.iter().any(|extra| extra.path == file.path)
                && file.position == Position::Outside
            {
                file.position = Position::Programs;
            }
        }
        targets.command = Some(target);
        Ok(self)
    }

    /// Returns the roots of the call.
    pub(crate) fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Returns the resolved targets.
    pub fn targets(&self) -> &Arc<Targets> {
        &self.targets
    }

    /// Returns the real path of the working directory.
    pub fn cwd(&self) -> &Arc<Path> {
        &self.cwd
    }

    /// Judges the call by the rules. It adds effects to those of the case: `CHANGE` for a path to change,
    /// `EXECUTE` for a command, and `NETWORK` if commands reach the network.
    pub fn judge(self, case: &Case<'_>, rules: &Rules) -> Judged {
        let changes = self.targets.files.iter().any(|target| target.claim.access.changes());
        let mut effects = if changes { case.effects | Effects::CHANGE } else { case.effects };
        if let Some(command) = &self.targets.command {
            effects = effects | Effects::EXECUTE;
            let commands = self.guard.shared.commands.as_ref();
            let reaches = commands.is_some_and(|commands| commands.reach_network());
            if reaches || command.extra.network || command.extra.unsandboxed {
                effects = effects | Effects::NETWORK;
            }
        }
        let case = Case { effects, ..*case };
        let taken = self.takes_along(&case, rules);
        let mut ruling = judge_taken(&case, &self.targets, rules, taken.as_deref());
        if let Some(restoring) = &self.restoring {
            ruling = with_written(ruling, restoring.held(&rules.rules, &case, &self.targets));
        }
        if let Some(allowed) = in_sandbox(&ruling, &self.targets, effects, rules)
            && self.is_well_contained()
        {
            ruling = allowed;
        }
        let may_run_undone = may_run_undone(&ruling, &self.targets, effects, rules);
        let was_asked = ruling.verdict == Verdict::Ask && ruling.rule == Rule::NAME;
        let taken = taken.map(|_| Arc::new(Taken::of(&rules.rules, &case, was_asked)));
        let beneath = Beneath::of(&rules.rules, &case, &self.targets).map(Arc::new);
        let kept_out = Beneath::of_calls(&rules.rules, &[case]).map(Arc::new);
        let (operation, agent) = (case.operation.to_owned(), case.agent.map(str::to_owned));
        let narrowed = Narrowed { beneath, taken, kept_out };
        Judged {
            #[cfg(feature = "web")]
            hosts: HostRules::of(&case, &self.targets, rules),
            contained: self,
            narrowed,
            effects,
            ruling,
            may_run_undone,
            operation,
            agent,
        }
    }

    /// Returns whether commands of the session run in a sandbox that lacks nothing; opens the session if needed.
    fn is_well_contained(&self) -> bool {
        let commands = self.guard.shared.commands.as_ref();
        if commands.is_some_and(|commands| commands.always_ask()) {
            return false;
        }
        // A judgement without a call has no session, and any has the same sandbox.
        let address = self.address().unwrap_or_default();
        let probed = self.guard.probe_commands(address);
        probed.is_some_and(|probed| {
            probed.is_ok_and(|(level, missing)| {
                level != sinew_sandbox::SandboxLevel::None && missing.is_empty()
            })
        })
    }

    /// Returns the old and new real paths of descendants of moved directories, if rules judge paths; `None`
    /// also if a directory cannot be read, and then such rules ask.
    fn takes_along(&self, case: &Case<'_>, rules: &Rules) -> Option<Vec<PathBuf>> {
        let moves = |file: &FileTarget| rule::moves_directory(file);
        if !self.targets.files.iter().any(moves) || !rule::judges_paths(&rules.rules, case) {
            return None;
        }
        let mut taken = Vec::new();
        for (file, pair) in self.targets.files.iter().zip(self.places.windows(2)) {
            if let [from, to] = pair
                && moves(file)
            {
                let mut note = |real: &Path| {
                    taken.push(real.to_owned());
                    Ok(())
                };
                descendants::judge(self.guard.names(), from, &to.real, &mut note).ok()?;
            }
        }
        Some(taken)
    }

    fn world(
        &self,
        narrowed: &Narrowed,
        armed: Vec<Option<Armed>>,
        processes: Arc<dyn Processes>,
    ) -> World {
        // A restore overwrites files on purpose, and is bound to the state that the plan found. It restores each name of a
        // file by itself, unless changes are written to all names.
        let settings = match &self.restoring {
            None => Arc::clone(&self.guard.files),
            Some(_) => Arc::new(FileSettings {
                track_reads: false,
                must_read_before_write: false,
                hard_links: match self.guard.files.hard_links {
                    HardLinks::Refuse | HardLinks::Break => HardLinks::Break,
                    HardLinks::InPlace => HardLinks::InPlace,
                },
                ..(*self.guard.files).clone()
            }),
        };
        let knowledge = Arc::new(CallKnowledge::new(
            Arc::clone(&self.guard.shared.knowledge),
            self.caller.clone(),
            Arc::clone(&self.targets),
            Arc::clone(&settings),
        ));
        let kept = match &self.restoring {
            None => self.guard.kept(),
            // A restore can always be undone, whatever the settings record of other changes.
            Some(_) => self.guard.shared.checkpoints.clone(),
        };
        // A restore counts as a change of the session that it undoes, so that a later one passes over it.
        let caller = match (&self.caller, &self.restoring) {
            (Some(caller), Some(restoring)) => Some(Arc::new(Caller {
                session: restoring.session().to_owned(),
                ..(**caller).clone()
            })),
            (caller, _) => caller.clone(),
        };
        let files = GuardedFiles::new(
            Arc::clone(&self.guard),
            Arc::clone(&self.roots),
            Arc::clone(&self.targets),
            Arc::clone(&self.places),
            armed,
            Arc::clone(&knowledge),
            kept::CallCheckpoint::new(
                kept,
                caller,
                &self.guard.shared.roots,
                self.restoring.as_ref().and_then(|restoring| restoring.since()),
            ),
        )
        .without(narrowed.beneath.clone())
        .taking(narrowed.taken.clone())
        .restoring(self.restoring.clone())
        .by(settings);
        let checkpoints = OfWorld::new(
            Arc::clone(&self.guard),
            Arc::clone(&self.roots),
            self.restoring.clone(),
            narrowed.kept_out.clone(),
        );
        World {
            files: Arc::new(files),
            processes,
            net: Arc::new(NoNet),
            messages: Arc::new(NoMessages),
            knowledge,
            checkpoints: Arc::new(checkpoints),
            clock: Arc::new(SystemClock),
        }
    }
}

impl Judged {
    /// Returns the call.
    pub fn contained(&self) -> &Contained {
        &self.contained
    }

    /// Applies a ruling from beside the rules, such as that of a hook, if it is stricter than the own one.
    #[must_use]
    pub fn stricter(mut self, ruling: Ruling) -> Self {
        self.may_run_undone &= ruling.verdict == Verdict::Allow;
        self.ruling = with_written(self.ruling, Some(ruling));
        self
    }

    /// Returns the effects of the call.
    pub fn effects(&self) -> Effects {
        self.effects
    }

    /// Returns the ruling.
    pub fn ruling(&self) -> &Ruling {
        &self.ruling
    }

    /// Returns a read-only World of the targets, for previews; `None` if the call is denied.
    pub fn looking(&self) -> Option<World> {
        let armed = || self.contained.places.iter().map(|_| None).collect();
        let looks = self.ruling.verdict != Verdict::Deny;
        looks.then(|| self.contained.world(&self.narrowed, armed(), Arc::new(NoProcesses)))
    }

    /// Returns whether a person must answer: the call asks for a protected name, a path outside the roots, or by a configured rule.
    /// Neither a client's confirmation, which sinew cannot see, nor an undo replaces that answer.
    pub fn wants_person(&self) -> bool {
        let Ruling { verdict, rule, origin, .. } = &self.ruling;
        let needs_more = !self.extra().is_empty();
        *verdict == Verdict::Ask
            && (*rule == PROTECTED || origin.is_some() || needs_more || self.leaves_roots())
    }

    /// Returns what the command gets beyond its sandbox.
    pub fn extra(&self) -> &ExtraAccess {
        const NOTHING: &ExtraAccess = &ExtraAccess {
            network: false,
            ssh_agent: false,
            unsandboxed: false,
            paths: Vec::new(),
        };
        self.contained.targets.command.as_ref().map_or(NOTHING, |command| &command.extra)
    }

    /// Returns whether the command is to run without a sandbox. A standing yes does not cover that.
    pub fn leaves_sandbox(&self) -> bool {
        self.extra().unsandboxed
    }

    /// Returns whether a path of the call is outside the roots, and not among files of programs that it only reads.
    pub fn leaves_roots(&self) -> bool {
        self.contained.targets.files.iter().any(|file| file.position == Position::Outside)
    }

    /// Returns the error of a call that asks for a path outside the roots, where no person can answer. One whose command
    /// needs that path has another.
    pub fn outside_denied(&self, asks: bool) -> Option<ToolError> {
        let Contained { guard, targets, .. } = &self.contained;
        self.extra().is_empty().then(|| guard.outside_denied(targets, asks)).flatten()
    }

    /// Clears the call if the ruling allows it.
    pub fn by_ruling(self) -> Option<Clearance> {
        self.cleared(Verdict::Allow, false)
    }

    /// Clears a call that asks by a standing answer for all calls; the files count as they are at run time.
    pub fn by_standing_answer(self) -> Option<Clearance> {
        self.cleared(Verdict::Ask, false)
    }

    /// Returns whether the command may load files that its words do not name, which no answer covers.
    pub fn loads_unnamed(&self) -> bool {
        let Contained { guard, targets, .. } = &self.contained;
        let Some(command) = &targets.command else { return false };
        let is_written = |name: &str| {
            let path = match name.contains('/') {
                true => Some(command.cwd.join(name)),
                false => guard.program(name, &command.cwd),
            };
            path.is_some_and(|path| guard.shared.roots.locate(&path).is_some())
        };
        let CommandTarget { command, analysis, .. } = command;
        sinew_shell::loads_unnamed(&command.line, &analysis.commands, is_written)
    }

    /// Returns the error of a command whose only program is missing: no answer would let it run.
    pub fn missing_program(&self) -> Option<ToolError> {
        let CommandTarget { command, analysis, cwd, .. } =
            self.contained.targets.command.as_ref()?;
        let name = sinew_shell::sole_program(&command.line, analysis)?;
        self.contained.guard.shared.commands.as_ref()?.missing(name, cwd, command.argument)
    }

    /// Takes the fingerprint of what the call would run, for a question.
    pub fn fingerprint(&self) -> Result<ApprovalFingerprint, ToolError> {
        ApprovalFingerprint::of(&self.contained)
    }

    /// Clears a call that asks, if the answer is yes. It binds the files at containment, and `fingerprint`.
    pub fn by_answer(
        self,
        answer: &Answer,
        fingerprint: &ApprovalFingerprint,
    ) -> Result<Option<Clearance>, ToolError> {
        match answer {
            Answer::Yes(_) => {
                fingerprint.check(&self.fingerprint()?)?;
                Ok(self.cleared(Verdict::Ask, true))
            }
            Answer::No(_) | Answer::TimedOut | Answer::Gone => Ok(None),
        }
    }

    /// Returns rules for an answer that covers the session: a pattern for each command that is not plain, the text of one
    /// without a sandbox, each changed file, each host. `None` if nothing can be offered or more than a built-in rule asks.
    pub fn always(&self) -> Option<Vec<Rule>> {
        if !self.can_be_granted() {
            return None;
        }
        let targets = &self.contained.targets;
        let mut objects: Vec<Object> = Vec::new();
        if let Some(command) = targets.command.as_ref().filter(|_| self.leaves_sandbox()) {
            objects.push(Object::Unsandboxed(UnsandboxedCommand::of(command)?));
        } else if let Some(command) = &targets.command {
            let commands: Vec<_> = match command.extra.is_empty() {
                true => command_pattern::rest(&command.analysis)?.iter().collect(),
                // Plain ones get what it needs too.
                false => command_pattern::all(&command.analysis)?.collect(),
            };
            for words in commands {
                let has_network = self.effects.contains(Effects::NETWORK);
                let pattern = match publishing::may_publish(words, has_network) {
                    true if has_network => return None,
                    true => arity::exact(words)?,
                    false => arity::pattern(words)?,
                };
                objects.push(Object::Command(pattern));
            }
        }
        // What a command needs is granted with its words.
        for file in targets.files.iter().filter(|file| !is_lent(file)) {
            if !file.claim.access.changes() {
                if file.position == Position::Outside {
                    objects.push(Object::Paths(match is_directory(&file.state) {
                        true => Paths::beneath(&file.path)?,
                        // A search of a file would cover a directory that takes its name.
                        false if file.claim.access == Access::Search => return None,
                        false => Paths::of(&file.path)?,
                    }));
                }
                continue;
            }
            if !matches!(file.claim.access, Access::Write { .. } | Access::Edit { .. }) {
                return None;
            }
            // A directory may take a name that is free.
            if file.position == Position::Outside && file.state == FileState::Missing {
                return None;
            }
            objects.push(Object::Paths(Paths::of(&file.path)?));
        }
        objects.extend(targets.hosts.iter().map(|host| Object::Hosts(vec![HostPattern::of(host)])));
        // An answer covers one agent only; a name with `*` would be a pattern.
        let agents: Vec<String> = self.agent.iter().cloned().collect();
        if agents.iter().any(|agent| agent.contains('*')) {
            return None;
        }
        let mut rules: Vec<Rule> = Vec::new();
        for object in objects {
            let tools = match object {
                Object::Command(_) | Object::Unsandboxed(_) => Vec::new(),
                _ => vec![self.operation.clone()],
            };
            let place = String::from("an answer");
            let origin = RuleOrigin { layer: Layer::Session, place };
            let condition = Condition {
                tools,
                object,
                agents: agents.clone(),
                needs: self.extra().needs(),
                ..Condition::default()
            };
            let rule = Rule::new(Verdict::Allow, condition, origin).of_answer();
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        let covered = self.covered_by(&rules).is_some();
        covered.then_some(rules)
    }

    /// Allows the call if only a built-in rule asks and granted rules cover it. They also count where it is redirected.
    #[must_use]
    pub fn granted(mut self, granted: &[Rule]) -> Self {
        #[cfg(feature = "web")]
        self.hosts.grant(granted);
        if let Some(why) = self.covered_by(granted) {
            let why = why.into();
            self.ruling = Ruling { verdict: Verdict::Allow, rule: "grant", why, origin: None };
        }
        self
    }

    /// Allows the call because this exact call was granted.
    #[must_use]
    pub fn granted_as_it_is(mut self) -> Self {
        if self.can_be_granted_as_it_is() {
            let why = "this very call was granted for this session".into();
            self.ruling = Ruling { verdict: Verdict::Allow, rule: "grant", why, origin: None };
        }
        self
    }

    /// Returns why granted rules cover the call, if they do.
    pub fn covered_by(&self, granted: &[Rule]) -> Option<String> {
        if granted.is_empty() || !self.can_be_granted() {
            return None;
        }
        let facts = Facts { effects: self.effects, ..Facts::UNKNOWN };
        let case = Case {
            tool: &self.operation,
            operation: &self.operation,
            facts: &facts,
            effects: self.effects,
            agent: self.agent.as_deref(),
        };
        let first = rule::covering(granted.iter(), &case, &self.contained.targets)?;
        Some(format!("`{first}` was granted for this session"))
    }

    /// Returns whether only a built-in rule asks, one that an answer can settle for more than this call.
    pub fn can_be_granted(&self) -> bool {
        let asks = self.ruling.verdict == Verdict::Ask && self.ruling.origin.is_none();
        let never = [PROTECTED, "require_approval", "shell.terminal", command_pattern::UNCONTAINED];
        asks && !never.contains(&self.ruling.rule)
    }

    /// Returns whether an answer can settle this very call for the session.
    pub fn can_be_granted_as_it_is(&self) -> bool {
        self.can_be_granted() && !self.leaves_sandbox()
    }

    fn cleared(self, verdict: Verdict, bound: bool) -> Option<Clearance> {
        let bound = bound || self.contained.restoring.is_some();
        let must_undo = self.must_undo();
        let clearance = Clearance {
            contained: self.contained,
            narrowed: self.narrowed,
            effects: self.effects,
            #[cfg(feature = "web")]
            hosts: self.hosts,
            bound,
            must_undo,
        };
        (self.ruling.verdict == verdict).then_some(clearance)
    }
}

impl Clearance {
    pub(crate) fn contained(&self) -> &Contained {
        &self.contained
    }
}

impl Guard {
    /// Returns the World of a cleared call.
    pub fn clear(clearance: Clearance) -> Result<Cleared, ToolError> {
        let Clearance { contained, narrowed, effects, bound, must_undo, .. } = clearance;
        let mut armed = Vec::with_capacity(contained.places.len());
        let mut temporaries = Vec::new();
        let is_restored = contained.restoring.is_some();
        for (at, target) in contained.targets.files.iter().enumerate() {
            let earlier = contained.targets.files.iter().take(at);
            // The second step of a restore at one path finds nothing there.
            let is_second = is_restored && earlier.rev().any(|earlier| earlier.path == target.path);
            let arm = arm(target, bound, is_second)?;
            if let (Some(arm), Some(parent)) = (&arm, target.path.parent()) {
                temporaries.push(parent.join(file_name(&arm.temporary)));
            }
            armed.push(arm);
        }
        temporaries
            .extend(contained.restoring.iter().flat_map(|restoring| restoring.git().locks()));
        let Contained { guard, targets, caller, store, .. } = &contained;
        let call = caller.as_deref().map(|caller| (caller, store.as_ref()));
        let commands = guard.shared.commands.as_ref().map(|commands| (commands, &guard.globs));
        let processes = sinew_sandbox::processes(commands, targets, call, effects, must_undo)?;
        #[cfg(feature = "web")]
        let net = clearance.hosts.net(guard, targets, call);
        #[cfg(not(feature = "web"))]
        let net = Arc::new(NoNet);
        let messages =
            messages::of_call(guard.shared.messages.as_ref(), targets, caller.as_deref());
        let world = World { net, messages, ..contained.world(&narrowed, armed, processes) };
        Ok(Cleared { world, temporaries })
    }
}

/// Refuses the addresses and the search of a call.
#[cfg(not(feature = "web"))]
fn reach(
    _guard: &Guard,
    _session: &str,
    _targets: &mut Targets,
    urls: Vec<UrlClaim>,
    search: Option<SearchClaim>,
) -> Result<(), ToolError> {
    match urls.is_empty() && search.is_none() {
        true => Ok(()),
        false => Err(ToolError::new(Kind::Unavailable, "this build of sinew has no network")),
    }
}

/// Returns what a change of a target needs; `None` if its claim does not change it.
fn arm(target: &FileTarget, bound: bool, is_second: bool) -> Result<Option<Armed>, ToolError> {
    if !target.claim.access.changes() {
        return Ok(None);
    }
    let before = match &target.state {
        FileState::Missing => None,
        FileState::Found(_) if is_second => None,
        FileState::Found(meta) => Some(meta.identity),
    };
    let temporary = temporary_name().map_err(|errno| {
        ToolError::new(Kind::Unavailable, "the system gives no random numbers").source(errno)
    })?;
    Ok(Some(Armed::new(temporary, bound.then_some(before))))
}

fn file_name(name: &CString) -> &OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(name.as_bytes())
}

/// Returns whether a path is one that the command of its call needs.
fn is_lent(file: &FileTarget) -> bool {
    matches!(file.claim.access, Access::Lend { .. })
}

fn is_directory(state: &FileState) -> bool {
    matches!(state, FileState::Found(meta) if meta.kind == FileKind::Directory)
}
