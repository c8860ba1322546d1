//! The tool catalog of one dialect.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use sinew_guard::{Case, Guard, Rules, Store};
use sinew_tool::{
    Arguments, Conventions, Dialect, Effects, Facts, FileSettings, Targets, Tool, ToolError,
    Verdict,
};

use crate::owner::Owner;
use crate::schema_check::SchemaCheck;

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
}

/// One tool of a catalog with values computed once.
pub(crate) struct Listed {
    pub(crate) tool: Arc<dyn Tool>,
    /// The rules that can match a call of it.
    pub(crate) rules: Arc<Rules>,
    /// Whether they deny every call of it.
    pub(crate) is_denied: bool,
    owner: Owner,
    schema: SchemaCheck,
}

impl Listed {
    fn new(tool: Arc<dyn Tool>, owner: Owner, all: &Arc<Rules>) -> Self {
        let rules = all.of_tool(tool.name(), tool.operation());
        let is_denied = denies(&rules, &*tool);
        Self { tool, rules, is_denied, owner, schema: SchemaCheck::default() }
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
    by_name: HashMap<String, usize>,
}

impl Catalog {
    pub(crate) fn new(
        dialect: &Dialect,
        settings: Arc<FileSettings>,
        rules: &Rules,
        (guard, may_store): (Arc<Guard>, bool),
        more: &[Arc<dyn Tool>],
        shown: &dyn Fn(&dyn Tool) -> bool,
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
            tools: Vec::new(),
            by_name: HashMap::new(),
        };
        for (at, tool) in all.into_iter().enumerate() {
            if shown(&*tool) {
                catalog.add(tool, if at < n_built_in { Owner::BuiltIn } else { Owner::Program });
            }
        }
        catalog
    }

    /// Returns the owner of a tool that one of this owner and name may not replace. Clients may take `::` for `__`, so
    /// names that differ in that alone are the same.
    pub(crate) fn keeper(&self, name: &str, owner: &Owner) -> Option<&Owner> {
        let spelled = |name: &str| name.replace("::", "__");
        let wanted = spelled(name);
        let mut same = self.tools.iter().filter(|listed| spelled(listed.tool.name()) == wanted);
        same.find(|listed| !owner.may_replace(&listed.owner)).map(|listed| &listed.owner)
    }

    /// Adds a tool and replaces one of the same name.
    pub(crate) fn add(&mut self, tool: Arc<dyn Tool>, owner: Owner) {
        let name = tool.name().to_owned();
        let listed = Arc::new(Listed::new(tool, owner, &self.rules));
        match self.by_name.get(&name).copied().and_then(|at| self.tools.get_mut(at)) {
            Some(place) => *place = listed,
            None => {
                self.by_name.insert(name, self.tools.len());
                self.tools.push(listed);
            }
        }
    }

    /// Removes a tool; returns whether it was there.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        0 < self.retain(|tool, _| tool.name() != name)
    }

    /// Removes the tools of an owner; returns how many there were.
    pub(crate) fn remove_of(&mut self, owner: &Owner) -> usize {
        self.retain(|_, of| of != owner)
    }

    fn retain(&mut self, keeps: impl Fn(&dyn Tool, &Owner) -> bool) -> usize {
        let before = self.tools.len();
        self.tools.retain(|listed| keeps(&*listed.tool, &listed.owner));
        let names = self.tools.iter().map(|listed| listed.tool.name().to_owned());
        self.by_name = names.zip(0..).collect();
        before - self.tools.len()
    }

    /// Returns the name of the dialect.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the usable tools in catalog order, without those whose every call the rules deny.
    pub fn tools(&self) -> impl Iterator<Item = ToolInfo> + '_ {
        self.tools.iter().filter(|listed| !listed.is_denied).map(|listed| {
            let tool = &listed.tool;
            ToolInfo {
                name: tool.name().to_owned(),
                title: tool.title().map(str::to_owned),
                description: tool.description().to_owned(),
                parameters: tool.parameters_with(&self.settings),
                output_schema: tool.output_schema(),
                facts: tool.facts(),
                core: tool.core(),
                owner: listed.owner.clone(),
            }
        })
    }

    /// Finds a tool by its wire name. `::` equals `__`: some protocols carry only one of them.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Listed>> {
        let at = self
            .by_name
            .get(name)
            .or_else(|| self.by_name.get(name.replace("__", "::").as_str()))?;
        self.tools.get(*at)
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

    /// Returns the names of the usable tools in catalog order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let shown = self.tools.iter().filter(|listed| !listed.is_denied);
        shown.map(|listed| listed.tool.name())
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
