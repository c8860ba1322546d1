//! find: resolves a name to a tool.

use std::sync::Arc;

use sinew_guard::{Guard, Rules, Store};
use sinew_tool::{FileSettings, Kind, Request, ToolError, shown_line};

use crate::catalog::{Catalog, Listed, Looker};
use crate::narrowing::Narrowings;

/// The most known tools that are named for an unknown one.
const MAX_NAMED: usize = 60;

/// A tool with the rules and guard of its catalog.
pub(super) struct Found {
    pub(super) listed: Arc<Listed>,
    /// The dialect of the catalog.
    pub(super) dialect: &'static str,
    /// Whether calls of the dialect take turns.
    pub(super) takes_turns: bool,
    pub(super) settings: Arc<FileSettings>,
    pub(super) joined_paths: bool,
    pub(super) rules: Arc<Rules>,
    pub(super) guard: Arc<Guard>,
    pub(super) store: Option<Store>,
    pub(super) lookers: Arc<[Looker]>,
}

pub(super) fn catalog<'a>(catalogs: &'a [Catalog], request: &Request) -> Option<&'a Catalog> {
    match &request.dialect {
        None => catalogs.first(),
        Some(name) => catalogs.iter().find(|catalog| catalog.name == name),
    }
}

/// Finds the tool of a request. A call of a tool that forwards becomes the forwarded call.
pub(super) fn find(
    catalogs: &[Catalog],
    request: &mut Request,
    narrowings: &Narrowings,
) -> Result<Found, ToolError> {
    let found = named(catalogs, request, narrowings)?;
    match found.listed.tool.forwards(&request.arguments) {
        None => Ok(found),
        Some(other) => {
            (request.name, request.arguments) = other?;
            named(catalogs, request, narrowings)
        }
    }
}

/// Finds the tool with the name of a request; the error for an unknown name lists the nearest ones.
fn named(
    catalogs: &[Catalog],
    request: &Request,
    narrowings: &Narrowings,
) -> Result<Found, ToolError> {
    let catalog = catalog(catalogs, request).ok_or_else(|| {
        let known: Vec<&str> = catalogs.iter().map(Catalog::name).collect();
        let wanted = request.dialect.as_deref().unwrap_or_default();
        ToolError::new(Kind::NotFound, format!("no dialect of this name: {}", shown_line(wanted)))
            .hint(format!("served here: {}", known.join(", ")))
    })?;
    let listed = match narrowings.show_hidden() {
        false => catalog.find(&request.name),
        true => catalog.find_any(&request.name),
    };
    let refusal = listed
        .and_then(|listed| narrowings.refusal(&*listed.tool, listed.visibility, &request.name));
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    if let Some(listed) = listed {
        return Ok(Found {
            listed: Arc::clone(listed),
            dialect: catalog.name,
            takes_turns: catalog.conventions.takes_turns,
            settings: Arc::clone(&catalog.settings),
            joined_paths: catalog.conventions.joined_paths,
            rules: Arc::clone(&catalog.rules),
            guard: Arc::clone(&catalog.guard),
            store: catalog.store.clone(),
            lookers: Arc::clone(&catalog.lookers),
        });
    }
    let nearest = catalog.nearest(&request.name);
    let known: Vec<&str> = catalog.names().collect();
    Err(ToolError::new(
        Kind::NotFound,
        format!("no tool of this name: {}", shown_line(&request.name)),
    )
    .hint(if nearest.is_empty() {
        let shown = known.get(..MAX_NAMED.min(known.len())).unwrap_or_default();
        let n_more = known.len() - shown.len();
        let more = if n_more == 0 { String::new() } else { format!(" and {n_more} more") };
        format!("known tools: {}{more}", shown.join(", "))
    } else {
        format!("did you mean: {}", nearest.join(", "))
    }))
}
