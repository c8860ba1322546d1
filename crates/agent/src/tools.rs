//! The tools of a session as its model sees them, and which of their calls may run side by side.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use sinew_runtime::{Catalog, Owner, Runtime, ToolInfo};
use sinew_tool::{Effects, wire_name};
use tokio::sync::watch;

use crate::agent::AgentSettings;
use crate::message::{NAMESPACE_END, ToolCall};
use crate::model::ToolSpec;

/// How tools are offered to a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offer {
    /// Whether descriptions are cut to a sentence and arguments to the needed ones: for small context windows.
    pub is_lean: bool,
    /// Whether tools of MCP servers are grouped by their servers, as models of the Responses API know them.
    pub has_namespaces: bool,
}

/// The tools of a session.
pub(crate) struct Tools {
    runtime: Arc<Runtime>,
    session: String,
    /// The name of a sub-agent, and the dialect of the call that spawned it.
    agent: Option<(String, &'static str)>,
    offer: Offer,
    /// Says that the catalogs changed, or what the session lists of them.
    changes: watch::Receiver<Arc<Vec<Catalog>>>,
    listed: Offered,
    /// The tools that a hook chose for this turn.
    chosen: Option<Offered>,
    traits: HashMap<String, CallTraits>,
}

/// Tools as they are offered.
#[derive(Default)]
struct Offered {
    specs: Vec<ToolSpec>,
    /// About how many bytes they add to a request.
    n_bytes: usize,
}

/// What the loop needs to know of a tool's calls.
struct CallTraits {
    /// Whether they may run side by side: they only observe.
    is_parallel: bool,
    /// Whether they run a program, whose output may be shortened. Of tools of servers and programs it is not known whether
    /// they answer with text of files.
    executes: bool,
}

impl From<&ToolInfo> for CallTraits {
    fn from(info: &ToolInfo) -> Self {
        let effects = info.facts.effects;
        Self {
            is_parallel: info.facts.parallel && effects.only_observes(),
            executes: info.owner == Owner::BuiltIn
                && effects.intersects(Effects::EXECUTE.or(Effects::SESSION)),
        }
    }
}

impl Tools {
    pub(crate) fn new(runtime: Arc<Runtime>, settings: &AgentSettings) -> Self {
        let (session, offer) = (settings.session.clone(), settings.offer);
        let agent = settings.sub_agent.as_ref().map(|place| (place.name.clone(), place.dialect));
        let mut changes = runtime.watch_catalogs();
        changes.mark_changed();
        let (listed, traits) = (Offered::default(), HashMap::new());
        Self { runtime, session, agent, offer, changes, listed, chosen: None, traits }
    }

    /// Makes the list again if it changed. It is the same list for the same tools, byte for byte.
    pub(crate) fn refresh(&mut self) {
        // The runtime holds the sender.
        if !self.changes.has_changed().unwrap_or_default() {
            return;
        }
        self.changes.mark_unchanged();
        let (agent, dialect) = match &self.agent {
            Some((agent, dialect)) => (Some(agent.as_str()), Some(*dialect)),
            None => (None, None),
        };
        let by = (self.session.as_str(), agent);
        let infos: Vec<ToolInfo> =
            self.runtime.with_listed_tools(dialect, by, |tools| tools.collect());
        self.traits = infos.iter().map(|info| (wire_name(&info.name), info.into())).collect();
        self.listed = Offered::of(infos.into_iter().map(|info| spec(info, self.offer)).collect());
    }

    /// Offers the tools that a hook chose; without any those of the catalog.
    pub(crate) fn choose(&mut self, specs: Option<Vec<ToolSpec>>) {
        self.chosen = specs.map(Offered::of);
    }

    fn offered(&self) -> &Offered {
        self.chosen.as_ref().unwrap_or(&self.listed)
    }

    pub(crate) fn specs(&self) -> &[ToolSpec] {
        &self.offered().specs
    }

    /// Returns about how many bytes they add to a request.
    pub(crate) fn n_bytes(&self) -> usize {
        self.offered().n_bytes
    }

    /// Returns whether a tool has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.traits.contains_key(name)
    }

    /// Returns whether the call may run beside others.
    pub(crate) fn is_parallel(&self, call: &ToolCall) -> bool {
        self.traits.get(&*call.full_name()).is_some_and(|traits| traits.is_parallel)
    }

    /// Returns whether the output of the call may be shortened.
    pub(crate) fn executes(&self, call: &ToolCall) -> bool {
        self.traits.get(&*call.full_name()).is_some_and(|traits| traits.executes)
    }
}

impl Offered {
    fn of(specs: Vec<ToolSpec>) -> Self {
        let n_bytes = specs.iter().map(tool_weight).sum();
        Self { specs, n_bytes }
    }
}

fn spec(info: ToolInfo, offer: Offer) -> ToolSpec {
    let name = wire_name(&info.name);
    let is_foreign = matches!(info.owner, Owner::Foreign(_));
    let parted = (offer.has_namespaces && is_foreign)
        .then(|| name.rsplit_once(NAMESPACE_END))
        .flatten()
        .filter(|(namespace, tool)| !namespace.is_empty() && !tool.is_empty())
        .map(|(namespace, tool)| (namespace.to_owned(), tool.to_owned()));
    let (namespace, name) = match parted {
        Some((namespace, tool)) => (Some(namespace), tool),
        None => (None, name),
    };
    match offer.is_lean {
        true => ToolSpec {
            namespace,
            name,
            description: first_sentence(&info.description),
            parameters: needed_only(&info.parameters),
        },
        false => {
            let (description, parameters) = (info.description, info.parameters);
            ToolSpec { namespace, name, description, parameters }
        }
    }
}

/// Returns about how many bytes a tool adds to a request.
fn tool_weight(tool: &ToolSpec) -> usize {
    tool.name.len() + tool.description.len() + tool.parameters.to_string().len()
}

fn first_sentence(text: &str) -> String {
    text.split_inclusive(". ").next().unwrap_or_default().trim_end().to_owned()
}

/// Arguments that a small model gets too, although they are optional. It invents values for others, such as paths.
const LEAN_OPTIONAL: [&str; 1] = ["replace_all"];

/// Returns a schema with the needed arguments and a few more, without words about them.
fn needed_only(schema: &Value) -> Value {
    let needed: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let all = schema.get("properties").and_then(Value::as_object);
    let of = |name: &&str| {
        let mut property = all?.get(*name)?.clone();
        if let Some(members) = property.as_object_mut() {
            members.retain(|key, _| ["type", "enum", "items"].contains(&key.as_str()));
        }
        Some(((*name).to_owned(), property))
    };
    let optional = LEAN_OPTIONAL.iter().filter(|name| !needed.contains(name));
    let properties: Map<String, Value> = needed.iter().chain(optional).filter_map(of).collect();
    serde_json::json!({"type": "object", "properties": properties, "required": needed})
}

/// Returns how many of the first calls run together: all that only observe, else one.
pub(crate) fn batch_len(calls: &[ToolCall], is_parallel: impl Fn(&ToolCall) -> bool) -> usize {
    calls.iter().take_while(|call| is_parallel(call)).count().max(1).min(calls.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn observing_calls_run_together_and_others_alone() {
        for (names, expected) in [
            ("rrwrrxr", vec![2, 1, 2, 1, 1]),
            ("www", vec![1, 1, 1]),
            ("rrr", vec![3]),
            ("", vec![]),
        ] {
            let calls: Vec<ToolCall> = names
                .chars()
                .map(|name| ToolCall {
                    id: String::new(),
                    name: name.to_string(),
                    namespace: None,
                    arguments: String::new(),
                })
                .collect();
            let mut rest = calls.as_slice();
            let mut batches = Vec::new();
            while !rest.is_empty() {
                let n = batch_len(rest, |call| call.name == "r");
                batches.push(n);
                rest = rest.get(n..).unwrap_or_default();
            }
            assert_eq!(batches, expected, "{names}");
        }
    }

    #[test]
    fn lean_schema_has_needed_arguments_alone() {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["path"],
            "properties": {
                "path": {"type": "string", "description": "A long text."},
                "limit": {"type": "integer"},
                "replace_all": {"type": "boolean", "default": false},
            },
        });
        let lean = json!({
            "type": "object", "required": ["path"],
            "properties": {"path": {"type": "string"}, "replace_all": {"type": "boolean"}},
        });
        assert_eq!(needed_only(&schema), lean);
        assert_eq!(first_sentence("Reads a file. More words."), "Reads a file.");
    }
}
