//! The search of tools that are not listed, and which of them a session lists since it found them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use sinew_tool::sync::lock;
use sinew_tool::{FoundTool, FoundTools, ToolIndex, ToolSearcher, agents};

use crate::catalog::{Catalog, Listed, ToolInfo};
use crate::narrowing::Narrowing;
use crate::runtime::Runtime;
use crate::tool_ranking::{Document, Ranking};
use crate::visibility::Visibility;

/// The most tools that are selected by name.
const MAX_SELECTED: usize = 50;
/// The most sessions that have found tools.
const MAX_SESSIONS: usize = 10_000;

/// What the search of tools remembers.
#[derive(Default)]
pub(crate) struct ToolSearches {
    /// The tools that sessions found, by their names.
    found: Mutex<HashMap<String, HashSet<String>>>,
    /// The index of the catalog that was searched last.
    ranked: Mutex<Option<Arc<RankedCatalog>>>,
}

/// The deferred tools of a catalog, ranked.
struct RankedCatalog {
    catalogs: Arc<Vec<Catalog>>,
    dialect: String,
    tools: Vec<Arc<Listed>>,
    ranking: Ranking,
}

impl ToolSearches {
    fn has_found(&self, session: &str, name: &str) -> bool {
        lock(&self.found).get(session).is_some_and(|found| found.contains(name))
    }

    /// Remembers what a session found; returns whether that is new.
    fn remember(&self, session: &str, names: impl Iterator<Item = String>) -> bool {
        let mut all = lock(&self.found);
        if MAX_SESSIONS <= all.len() && !all.contains_key(session) {
            all.clear();
        }
        let found = all.entry(session.to_owned()).or_default();
        names.fold(false, |is_new, name| found.insert(name) | is_new)
    }

    /// Returns the index of a catalog, which is made again after a change of the catalogs.
    fn of(&self, catalogs: &Arc<Vec<Catalog>>, catalog: &Catalog) -> Arc<RankedCatalog> {
        let mut ranked = lock(&self.ranked);
        if let Some(ranked) = &*ranked
            && Arc::ptr_eq(&ranked.catalogs, catalogs)
            && ranked.dialect == catalog.name
        {
            return Arc::clone(ranked);
        }
        let tools: Vec<Arc<Listed>> = catalog.deferred().cloned().collect();
        let schemas: Vec<_> = tools.iter().map(|listed| listed.tool.parameters()).collect();
        let documents = tools.iter().zip(&schemas).map(|(listed, parameters)| Document {
            name: listed.tool.name(),
            title: listed.tool.title(),
            description: listed.tool.description(),
            parameters,
        });
        let ranking = Ranking::new(documents);
        let (catalogs, dialect) = (Arc::clone(catalogs), catalog.name.to_owned());
        let made = Arc::new(RankedCatalog { catalogs, dialect, tools, ranking });
        *ranked = Some(Arc::clone(&made));
        made
    }
}

impl Runtime {
    /// Gives the tools that a session lists to `make`: those that are shown, and those that it found; while a skill
    /// narrows them, what that leaves. `None` is the first dialect.
    pub fn with_listed_tools<T>(
        &self,
        dialect: Option<&str>,
        (session, agent): (&str, Option<&str>),
        make: impl FnOnce(&mut dyn Iterator<Item = ToolInfo>) -> T,
    ) -> T {
        let catalogs = self.catalogs();
        let catalog = match dialect {
            None => catalogs.first(),
            Some(name) => catalogs.iter().find(|catalog| catalog.name() == name),
        };
        // A sub-agent that does not work lists nothing.
        let Ok(narrowings) = self.narrowings.of(session, agent, false) else {
            return make(&mut std::iter::empty());
        };
        if narrowings.show_hidden() {
            return make(
                &mut catalog.into_iter().flat_map(|catalog| catalog.narrowed(&narrowings)),
            );
        }
        let is_found = |listed: &Listed| {
            let address = agents::address(session, agent);
            listed.visibility == Visibility::Deferred
                && (self.searches.has_found(address, listed.tool.name())
                    || narrowings.name_by_template(&*listed.tool))
        };
        make(
            &mut catalog
                .into_iter()
                .flat_map(|catalog| catalog.listed(|tool| narrowings.allow(tool), is_found)),
        )
    }

    /// Returns whether a template leaves an agent one of the tools that it can call.
    pub fn leaves_one(
        &self,
        (session, agent): (&str, Option<&str>),
        dialect: &str,
        template: &Narrowing,
    ) -> bool {
        let catalogs = self.catalogs();
        let catalog = catalogs.iter().find(|catalog| catalog.name() == dialect);
        let Ok(narrowings) = self.narrowings.of(session, agent, false) else { return false };
        catalog.is_some_and(|catalog| {
            catalog
                .usable(narrowings.show_hidden())
                .any(|tool| template.allows(tool) && narrowings.allow(tool))
        })
    }

    fn found(
        &self,
        searcher: ToolSearcher<'_>,
        catalog: &Catalog,
        tools: &[&Arc<Listed>],
    ) -> Vec<FoundTool> {
        let deferred = tools.iter().filter(|listed| listed.visibility == Visibility::Deferred);
        let names = deferred.map(|listed| listed.tool.name().to_owned());
        if self.searches.remember(searcher.session, names) {
            // Lists of the session are others now.
            self.tell_tools_changed();
        }
        let found = tools.iter().map(|listed| {
            let info = catalog.info(listed);
            FoundTool {
                name: info.name,
                description: info.description,
                parameters: info.parameters,
            }
        });
        found.collect()
    }

    fn n_unlisted(&self, session: &str, catalog: &Catalog) -> usize {
        let is_unlisted =
            |listed: &&Arc<Listed>| !self.searches.has_found(session, listed.tool.name());
        catalog.deferred().filter(is_unlisted).count()
    }
}

impl ToolIndex for Runtime {
    fn select(&self, searcher: ToolSearcher<'_>, names: &[String]) -> FoundTools {
        let catalogs = self.catalogs();
        let catalog = catalogs.iter().find(|catalog| catalog.name == searcher.dialect);
        let Some(catalog) = catalog else { return FoundTools::default() };
        let n_deferred = self.n_unlisted(searcher.session, catalog);
        let (mut tools, mut unknown) = (Vec::new(), Vec::new());
        let mut seen = HashSet::new();
        let each_once = names.iter().filter(|name| seen.insert(name.as_str()));
        for name in each_once.take(MAX_SELECTED) {
            match catalog.find(name).filter(|listed| listed.is_usable()) {
                Some(listed) => tools.push(listed),
                None => unknown.push(name.clone()),
            }
        }
        FoundTools { found: self.found(searcher, catalog, &tools), unknown, n_deferred }
    }

    fn search(
        &self,
        searcher: ToolSearcher<'_>,
        words: &[String],
        must: &[String],
        limit: usize,
    ) -> FoundTools {
        let catalogs = self.catalogs();
        let catalog = catalogs.iter().find(|catalog| catalog.name == searcher.dialect);
        let Some(catalog) = catalog else { return FoundTools::default() };
        let ranked = self.searches.of(&catalogs, catalog);
        let best = ranked.ranking.ranked(words, must);
        let tools: Vec<_> =
            best.iter().filter_map(|at| ranked.tools.get(*at)).take(limit).collect();
        let n_deferred = self.n_unlisted(searcher.session, catalog);
        let found = self.found(searcher, catalog, &tools);
        FoundTools { found, unknown: Vec::new(), n_deferred }
    }
}
