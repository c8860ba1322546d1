//! decode: turns wire arguments into a prepared call.

use std::sync::Arc;

use serde_json::Value;
use sinew_guard::{Case, Guard, Rules, Store};
use sinew_tool::{
    Arguments, Claim, Effects, Facts, FileSettings, Prepared, Request, Tool, ToolError,
};

use super::find::Found;
use crate::catalog::Looker;

pub(super) struct Decoded {
    pub(super) tool: Arc<dyn Tool>,
    /// The dialect of the call.
    pub(super) dialect: &'static str,
    pub(super) facts: Facts,
    pub(super) takes_turns: bool,
    pub(super) settings: Arc<FileSettings>,
    pub(super) rules: Arc<Rules>,
    /// The rules that can match a call of the tool.
    pub(super) own_rules: Arc<Rules>,
    /// Whether they deny every call of it.
    pub(super) is_denied: bool,
    pub(super) guard: Arc<Guard>,
    /// Where the full output is kept, if at all.
    pub(super) store: Option<Store>,
    pub(super) lookers: Arc<[Looker]>,
    pub(super) prepared: Box<dyn Prepared>,
    pub(super) claims: Vec<Claim>,
    /// The arguments that a question shows beside its targets: numbers and booleans, or all.
    pub(super) shown_arguments: Arguments,
}

impl Decoded {
    /// Returns the call with these effects as rules match it.
    pub(super) fn case<'a>(&'a self, effects: Effects, agent: Option<&'a str>) -> Case<'a> {
        let (tool, operation) = (self.tool.name(), self.tool.operation());
        Case { tool, operation, facts: &self.facts, effects, agent }
    }
}

/// Decodes the arguments, which it moves out of the request.
pub(super) fn decode(found: Found, request: &mut Request) -> Result<Decoded, ToolError> {
    let args = std::mem::take(&mut request.arguments);
    let args = found.listed.check(args)?;
    let tool = Arc::clone(&found.listed.tool);
    let shows_all = tool.shows_arguments();
    let is_shown = |value: &Value| shows_all || value.is_boolean() || value.is_number();
    let shown = args.iter().filter(|(_, value)| is_shown(value));
    let shown_arguments = shown.map(|(name, value)| (name.clone(), value.clone())).collect();
    let mut prepared = Arc::clone(&tool).prepare(args, &found.settings)?;
    Ok(Decoded {
        dialect: found.dialect,
        facts: tool.facts(),
        takes_turns: found.takes_turns,
        settings: found.settings,
        rules: found.rules,
        own_rules: Arc::clone(&found.listed.rules),
        is_denied: found.listed.is_denied,
        guard: found.guard,
        store: found.store,
        lookers: found.lookers,
        claims: prepared.claims(),
        prepared,
        shown_arguments,
        tool,
    })
}
