//! The tool catalog of one dialect.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use sinew_guard::{Case, Guard, Rules, Store};
use sinew_tool::{
    AgentSpawner, Arguments, Conventions, Dialect, Effects, Facts, FileSettings, ForeignNames,
    NoAgents, NoSkills, SkillIndex, SkillInfo, Targets, TemplateInfo, Tool, ToolError, Verdict,
    tool_matches, wire_name,
};

use crate::foreign_names::Wanted;
use crate::narrowing::Narrowings;
use crate::owner::Owner;
use crate::schema_check::SchemaCheck;
use crate::visibility::Visibility;

/// A tool as a catalog lists it.
#[derive(Debug, Clone)]
pub struct ToolInfo {
    /// The name on the wire.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// The description for the model.
    pub description: String,
    /// The JSON schema of the arguments.
    pub parameters: Value,
    /// The JSON schema of the structured result.
    pub output_schema: Option<Value>,
    /// What may be known of every call.
    pub facts: Facts,
    /// Whether it belongs to the short catalog.
    pub core: bool,
    /// Who brought it.
    pub owner: Owner,
    /// Whether it is listed.
    pub visibility: Visibility,
}

/// One tool of a catalog with values computed once.
pub(crate) struct Listed {
    pub(crate) tool: Arc<dyn Tool>,
    /// The rules that can match a call of it.
    pub(crate) rules: Arc<Rules>,
    /// Whether they deny every call of it.
    pub(crate) is_denied: bool,
    pub(crate) owner: Owner,
    pub(crate) visibility: Visibility,
    schema: SchemaCheck,
}

/// A tool of another server before a catalog names it.
pub trait ForeignTool: Send + Sync {
    /// Returns its name at the server.
    fn remote_name(&self) -> &str;

    /// Returns the tool with its name in a catalog.
    fn named(&self, name: String, names: ForeignNames) -> Arc<dyn Tool>;
}

/// A tool of a server, and whether it is listed.
pub type ForeignEntry = (Box<dyn ForeignTool>, Visibility);

impl Listed {
    fn new(tool: Arc<dyn Tool>, owner: Owner, visibility: Visibility, all: &Arc<Rules>) -> Self {
        let rules = all.of_tool(tool.name(), tool.operation());
        let is_denied = denies(&rules, &*tool);
        Self { tool, rules, is_denied, owner, visibility, schema: SchemaCheck::default() }
    }

    /// Returns whether a call can run it.
    pub(crate) fn is_usable(&self) -> bool {
        let is_known = matches!(self.visibility, Visibility::Shown | Visibility::Deferred);
        is_known && !self.is_denied
    }

    /// Checks arguments of a tool that does not decode them itself, and returns them.
    pub(crate) fn check(&self, args: Arguments) -> Result<Arguments, ToolError> {
        if !self.tool.checked_by_schema() {
            return Ok(args);
        }
        self.schema.check(&*self.tool, args)
    }
}

/// Returns whether rules deny every call of a tool, whatever its arguments.
pub(crate) fn denies(rules: &Rules, tool: &dyn Tool) -> bool {
    let facts = tool.facts();
    let case = Case {
        tool: tool.name(),
        operation: tool.operation(),
        facts: &facts,
        effects: facts.effects,
        agent: None,
    };
    sinew_guard::judge(&case, &Targets::default(), rules).verdict == Verdict::Deny
}

/// A read-only tool, served or not: plain commands must not read what rules deny to it.
pub(crate) struct Looker {
    name: String,
    operation: String,
    facts: Facts,
}

impl Looker {
    pub(crate) fn case<'a>(&'a self, agent: Option<&'a str>) -> Case<'a> {
        let Self { name, operation, facts } = self;
        Case { tool: name, operation, facts, effects: facts.effects, agent }
    }
}

/// Says which tools are served.
pub(crate) type Shown = dyn Fn(&dyn Tool) -> bool + Send + Sync;

/// How many servers of deferred tools are named.
const MAX_COUNTED: usize = 40;

/// The tools of one dialect.
#[derive(Clone)]
pub struct Catalog {
    pub(crate) name: &'static str,
    pub(crate) conventions: Conventions,
    pub(crate) settings: Arc<FileSettings>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) guard: Arc<Guard>,
    /// Where full outputs are kept, if at all.
    pub(crate) store: Option<Store>,
    pub(crate) tools: Vec<Arc<Listed>>,
    pub(crate) lookers: Arc<[Looker]>,
    /// Names of tools, with `*`, that are found by a search.
    deferred: Arc<[String]>,
    /// Names that no tool of another server gets.
    reserved: Arc<[String]>,
    shown: Arc<Shown>,
    pub(crate) skills: Arc<dyn SkillIndex>,
    pub(crate) agents: Arc<dyn AgentSpawner>,
    by_name: HashMap<String, usize>,
}

impl Catalog {
    pub(crate) fn new(
        dialect: &Dialect,
        settings: Arc<FileSettings>,
        rules: &Rules,
        (guard, may_store): (Arc<Guard>, bool),
        more: &[Arc<dyn Tool>],
        (shown, deferred, reserved): (&Arc<Shown>, &Arc<[String]>, &Arc<[String]>),
    ) -> Self {
        let require_approval = rules.require_approval || settings.require_approval;
        let mut all: Vec<Arc<dyn Tool>> = (dialect.tools)();
        let n_built_in = all.len();
        all.extend(more.iter().cloned());
        let looks = all.iter().filter(|tool| tool.facts().effects.only_observes());
        let lookers = looks.map(|tool| Looker {
            name: tool.name().to_owned(),
            operation: tool.operation().to_owned(),
            facts: tool.facts(),
        });
        let store = may_store.then(|| store_of(dialect, &guard, &all, rules)).flatten();
        let mut catalog = Self {
            store,
            lookers: lookers.collect(),
            name: dialect.name,
            conventions: dialect.conventions,
            settings,
            rules: Arc::new(Rules { require_approval, ..rules.clone() }),
            guard,
            deferred: Arc::clone(deferred),
            reserved: Arc::clone(reserved),
            shown: Arc::clone(shown),
            skills: Arc::new(NoSkills),
            agents: Arc::new(NoAgents),
            tools: Vec::new(),
            by_name: HashMap::new(),
        };
        for (at, tool) in all.into_iter().enumerate() {
            if shown(&*tool) {
                let owner = if at < n_built_in { Owner::BuiltIn } else { Owner::Program };
                catalog.add(tool, owner);
            }
        }
        catalog
    }

    /// Replaces the tools of a server where they stand; returns what could not be added, in words.
    pub(crate) fn set_foreign(&mut self, server: &str, tools: &[ForeignEntry]) -> Vec<String> {
        let owner = Owner::Foreign(Arc::from(server));
        // In the order of their names, so that no list depends on how fast servers answer.
        let is_behind = |listed: &Arc<Listed>| match &listed.owner {
            Owner::Foreign(other) => server <= &**other,
            _ => false,
        };
        let at = self.tools.iter().position(is_behind).unwrap_or(self.tools.len());
        self.tools.retain(|listed| listed.owner != owner);
        let mut taken: HashSet<String> =
            self.tools.iter().map(|listed| wire_name(listed.tool.name())).collect();
        let others: Vec<String> = taken.iter().cloned().collect();
        let reserved: Vec<String> = self.reserved.iter().map(|name| wire_name(name)).collect();
        taken.extend(reserved.iter().cloned());
        let (names, mut problems) = (self.conventions.foreign_names, Vec::new());
        let mut added = Vec::with_capacity(tools.len());
        for (tool, visibility) in tools {
            let remote = tool.remote_name();
            let name = Wanted { names, server, tool: remote }.name(
                |name| !taken.contains(name),
                |prefix| {
                    // A single `_` parts words of many names.
                    let reserved = reserved.iter().filter(|_| prefix.ends_with("__"));
                    let mut all = others.iter().chain(reserved);
                    all.any(|other| other.starts_with(prefix))
                },
            );
            let Some(name) = name else {
                let remote = sinew_tool::shown_line(remote);
                problems
                    .push(format!("the tool `{remote}` is left out: every name for it is taken"));
                continue;
            };
            taken.insert(name.clone());
            let tool = tool.named(name, names);
            if !(self.shown)(&*tool) {
                continue;
            }
            let visibility = self.visibility(&*tool, *visibility);
            added.push(Arc::new(Listed::new(tool, owner.clone(), visibility, &self.rules)));
        }
        self.tools.splice(at..at, added);
        self.index();
        problems
    }

    /// Adds a tool and replaces one of the same name.
    pub(crate) fn add(&mut self, tool: Arc<dyn Tool>, owner: Owner) {
        let name = tool.name().to_owned();
        let visibility = self.visibility(&*tool, Visibility::Shown);
        let listed = Arc::new(Listed::new(tool, owner, visibility, &self.rules));
        match self.by_name.get(&name).copied().and_then(|at| self.tools.get_mut(at)) {
            Some(place) => *place = listed,
            None => {
                self.by_name.insert(name, self.tools.len());
                self.tools.push(listed);
            }
        }
    }

    /// Defers a tool that would be shown, where the settings say so.
    fn visibility(&self, tool: &dyn Tool, wanted: Visibility) -> Visibility {
        let is_named = || self.deferred.iter().any(|name| tool_matches(name, tool.name()));
        match wanted {
            Visibility::Shown if !tool.for_deferred() && is_named() => Visibility::Deferred,
            wanted => wanted,
        }
    }

    /// Removes a tool; returns whether it was there.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let before = self.tools.len();
        self.tools.retain(|listed| listed.tool.name() != name);
        self.index();
        self.tools.len() < before
    }

    fn index(&mut self) {
        let names = self.tools.iter().map(|listed| listed.tool.name().to_owned());
        self.by_name = names.zip(0..).collect();
    }

    /// Returns the name of the dialect.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the tools that are listed in catalog order, without those whose every call the rules deny.
    pub fn tools(&self) -> impl Iterator<Item = ToolInfo> + '_ {
        self.listed(|_| true, |_| false)
    }

    /// Returns the tools that are shown, and those that `also` names, as far as they are `left`.
    pub(crate) fn listed<'a>(
        &'a self,
        left: impl Fn(&dyn Tool) -> bool + 'a,
        also: impl Fn(&Listed) -> bool + 'a,
    ) -> impl Iterator<Item = ToolInfo> + 'a {
        let is_needed = self.needs();
        let is_listed = move |listed: &&Arc<Listed>| {
            !listed.is_denied
                && is_needed(listed)
                && (listed.visibility == Visibility::Shown || also(listed))
                && left(&*listed.tool)
        };
        self.tools.iter().filter(is_listed).map(|listed| self.info(listed))
    }

    /// Returns the tools that a skill leaves.
    pub(crate) fn narrowed<'a>(
        &'a self,
        narrowings: &'a Narrowings,
    ) -> impl Iterator<Item = ToolInfo> + 'a {
        let is_needed = self.needs();
        let is_listed = move |listed: &&Arc<Listed>| {
            // The tool that loads skills is the way back, also where no skill is left.
            !listed.is_denied
                && (is_needed(listed) || listed.tool.skill_argument().is_some())
                && narrowings.list(&*listed.tool, listed.visibility)
        };
        self.tools.iter().filter(is_listed).map(|listed| self.info(listed))
    }

    /// Says whether there is work for a tool that finds tools, loads skills or spawns sub-agents.
    fn needs(&self) -> impl Fn(&Listed) -> bool + use<> {
        let has_deferred = self.deferred().next().is_some();
        let has_loader = self.tools.iter().any(|listed| listed.tool.skill_argument().is_some());
        let has_skills = has_loader && !self.skills.list().is_empty();
        let has_spawner = self.tools.iter().any(|listed| listed.tool.spawns());
        let has_templates = has_spawner && !self.agents.templates().is_empty();
        move |listed| {
            (has_deferred || !listed.tool.for_deferred())
                && (has_templates || !listed.tool.spawns())
                && (has_skills || listed.tool.skill_argument().is_none())
        }
    }

    /// Returns the tools that can be called; hidden ones too where a skill may show them.
    pub(crate) fn usable(&self, with_hidden: bool) -> impl Iterator<Item = &dyn Tool> {
        let is_usable = move |listed: &&Arc<Listed>| {
            listed.is_usable() || (with_hidden && listed.visibility == Visibility::Hidden)
        };
        self.tools.iter().filter(is_usable).map(|listed| &*listed.tool)
    }

    /// Returns the tools that a search finds.
    pub(crate) fn deferred(&self) -> impl Iterator<Item = &Arc<Listed>> {
        let is_deferred =
            |listed: &&Arc<Listed>| listed.visibility == Visibility::Deferred && listed.is_usable();
        self.tools.iter().filter(is_deferred)
    }

    /// Returns every tool that the rules do not deny, listed or not.
    pub fn all_tools(&self) -> impl Iterator<Item = ToolInfo> + '_ {
        self.tools.iter().filter(|listed| !listed.is_denied).map(|listed| self.info(listed))
    }

    /// Returns the tools whose names match one of these patterns, in which `*` means any characters, hidden ones too:
    /// what a skill that allows them shows.
    pub fn schemas_for_tools(&self, patterns: &[&str]) -> Vec<ToolInfo> {
        let is_wanted =
            |info: &ToolInfo| patterns.iter().any(|pattern| tool_matches(pattern, &info.name));
        let usable = self.all_tools().filter(|info| info.visibility != Visibility::Disabled);
        usable.filter(is_wanted).collect()
    }

    pub(crate) fn info(&self, listed: &Listed) -> ToolInfo {
        let tool = &listed.tool;
        let mut description = tool.description().to_owned();
        if tool.for_deferred() && tool.forwards(&Arguments::new()).is_none() {
            description.push_str(&self.deferred_words());
        }
        let mut parameters = tool.parameters_with(&self.settings);
        if let Some(argument) = tool.skill_argument() {
            name_skills(&self.skills.list(), argument, &mut description, &mut parameters);
        }
        if tool.spawns() {
            let templates = self.agents.templates();
            let word = |template: &TemplateInfo| {
                format!("\n- {}: {}", template.name, template.description)
            };
            description.extend(templates.iter().map(word));
        }
        ToolInfo {
            name: tool.name().to_owned(),
            title: tool.title().map(str::to_owned),
            description,
            parameters,
            output_schema: tool.output_schema(),
            facts: tool.facts(),
            core: tool.core(),
            owner: listed.owner.clone(),
            visibility: listed.visibility,
        }
    }

    /// Returns how many tools a search finds, by their servers, in words for the model.
    fn deferred_words(&self) -> String {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for listed in self.deferred() {
            let owner = match &listed.owner {
                Owner::Foreign(server) => server,
                Owner::BuiltIn | Owner::Program => "sinew",
            };
            match counts.iter_mut().find(|(known, _)| *known == owner) {
                Some((_, n)) => *n += 1,
                None => counts.push((owner, 1)),
            }
        }
        let n_more = counts.len().saturating_sub(MAX_COUNTED);
        let mut words: Vec<String> =
            counts.iter().take(MAX_COUNTED).map(|(owner, n)| format!("{owner} {n}")).collect();
        if 0 < n_more {
            words.push(format!("{n_more} more"));
        }
        match words.as_slice() {
            [] => String::new(),
            words => format!(" Not listed: {}.", words.join(", ")),
        }
    }

    /// Finds a tool by its wire name. `::` equals `__`: some protocols carry only one of them.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Listed>> {
        self.find_any(name).filter(|listed| listed.visibility != Visibility::Hidden)
    }

    /// Like [`Catalog::find`], hidden tools too.
    pub(crate) fn find_any(&self, name: &str) -> Option<&Arc<Listed>> {
        let at = self
            .by_name
            .get(name)
            .or_else(|| self.by_name.get(name.replace("__", "::").as_str()))?;
        self.tools.get(*at)
    }

    /// Returns whether a call can name a tool so.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Returns the usable tool of an operation.
    pub fn does(&self, operation: &str) -> Option<&str> {
        let does =
            |listed: &&Arc<Listed>| listed.tool.operation() == operation && !listed.is_denied;
        self.tools.iter().find(does).map(|listed| listed.tool.name())
    }

    /// Returns the names nearest to an unknown one, best first.
    pub(crate) fn nearest(&self, name: &str) -> Vec<&str> {
        crate::nearest(name, self.names())
    }

    /// Returns the names of the tools that can be called, in catalog order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let is_needed = self.needs();
        let shown = self.tools.iter().filter(move |listed| listed.is_usable() && is_needed(listed));
        shown.map(|listed| listed.tool.name())
    }

    /// Returns the names that can be called from the start: those of tools that are not of other servers, and need
    /// nothing that may be missing.
    pub fn own_names(&self) -> impl Iterator<Item = &str> {
        let is_own = |listed: &&Arc<Listed>| {
            let is_foreign = matches!(listed.owner, Owner::Foreign(_));
            let tool = &listed.tool;
            let has_work =
                !tool.for_deferred() && tool.skill_argument().is_none() && !tool.spawns();
            listed.is_usable() && !is_foreign && has_work
        };
        self.tools.iter().filter(is_own).map(|listed| listed.tool.name())
    }
}

/// The most bytes of all descriptions of skills.
const MAX_SKILL_WORDS: usize = 16 << 10;

/// Names the skills in the tool that loads them: their names as the values of its argument, and when to load each.
fn name_skills(
    skills: &[SkillInfo],
    argument: &str,
    description: &mut String,
    parameters: &mut Value,
) {
    let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
    let schema = parameters.get_mut("properties").and_then(|all| all.get_mut(argument));
    if let Some(Value::Object(schema)) = schema {
        schema.insert(String::from("enum"), Value::from(names));
    }
    let before = description.len();
    for (at, skill) in skills.iter().enumerate() {
        let line = format!("\n- {}: {}", skill.name, skill.description);
        if MAX_SKILL_WORDS < description.len() - before + line.len() {
            description.push_str(&format!("\n- {} more", skills.len() - at));
            break;
        }
        description.push_str(&line);
    }
}

/// Returns the store of a dialect's full outputs; `None` where the rules keep its tools from writing there.
fn store_of(
    dialect: &Dialect,
    guard: &Arc<Guard>,
    tools: &[Arc<dyn Tool>],
    rules: &Rules,
) -> Option<Store> {
    let Some(outputs) = dialect.conventions.outputs else { return Some(guard.store()) };
    let facts: Vec<(&str, &str, Facts)> =
        tools.iter().map(|tool| (tool.name(), tool.operation(), tool.facts())).collect();
    let cases = facts.iter().map(|(tool, operation, facts)| Case {
        tool,
        operation,
        facts,
        effects: facts.effects,
        agent: None,
    });
    let changes = |case: &Case<'_>| {
        case.effects.contains(Effects::CHANGE) && !case.effects.intersects(Effects::EXECUTE)
    };
    let changing: Vec<Case<'_>> = cases.filter(changes).collect();
    guard.store_in(outputs.directory, &changing, rules)
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog").field("name", &self.name).finish_non_exhaustive()
    }
}
