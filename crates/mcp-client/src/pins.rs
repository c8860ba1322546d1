//! The pins of servers: the definitions of tools that a person has, by use or by word, agreed to.
//!
//! The first definitions of a server are pinned as they are. From then on a tool is offered only as pinned: a changed
//! definition and a new tool wait until a person approves them.

use serde::{Deserialize, Serialize};
use sinew_tool::{ContentHash, ToolError};

use crate::connection::Traits;
use crate::definition::Definition;

/// The pinned tools and traits of one server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerPin {
    /// Its tools, in the order of its list.
    pub tools: Vec<Definition>,
    /// Larger than that of servers that were pinned before: those keep names that two of them want.
    #[serde(default)]
    pub number: u64,
    /// Whether it knows the handshake of older protocol versions alone.
    #[serde(default)]
    pub needs_handshake: bool,
    /// Whether it has resources.
    #[serde(default)]
    pub resources: bool,
    /// Whether it has prompts.
    #[serde(default)]
    pub prompts: bool,
}

impl ServerPin {
    /// Returns its traits, without the tools.
    pub(crate) fn traits(&self) -> Traits {
        let Self { needs_handshake, resources, prompts, .. } = *self;
        Traits { needs_handshake, resources, prompts }
    }

    pub(crate) fn set_traits(&mut self, traits: Traits) {
        let Traits { needs_handshake, resources, prompts } = traits;
        (self.needs_handshake, self.resources, self.prompts) =
            (needs_handshake, resources, prompts);
    }

    /// Returns the pinned definition of a tool.
    pub fn tool(&self, name: &str) -> Option<&Definition> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

/// Stores pins across processes.
pub trait PinStore: Send + Sync {
    /// Returns the pin of a server, if it has one.
    fn load(&self, server: &str) -> Result<Option<ServerPin>, ToolError>;

    /// Stores the pin of a server.
    fn save(&self, server: &str, pin: &ServerPin) -> Result<(), ToolError>;
}

/// What a list of tools is against the pin.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// Tools that are as pinned.
    pub pinned: Vec<Definition>,
    /// Tools that wait for a person, with the pinned definition of changed ones.
    pub waiting: Vec<Waiting>,
    /// Pinned tools that the server lists no more.
    pub missing: Vec<String>,
}

/// A tool that waits for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    /// As the server defines it now.
    pub now: Definition,
    /// As it is pinned; `None` for a new tool.
    pub pinned: Option<Definition>,
}

impl Waiting {
    /// Returns the hash of the definition as it is now.
    pub fn hash(&self) -> ContentHash {
        self.now.hash()
    }
}

/// Compares the tools of a server with its pin.
pub fn compare(pin: &ServerPin, listed: Vec<Definition>) -> Compared {
    let is_listed = |name: &str| listed.iter().any(|tool| tool.name == name);
    let missing = pin.tools.iter().filter(|tool| !is_listed(&tool.name));
    let missing = missing.map(|tool| tool.name.clone()).collect();
    let mut compared = Compared { pinned: Vec::new(), waiting: Vec::new(), missing };
    for now in listed {
        match pin.tool(&now.name) {
            Some(pinned) if pinned.hash() == now.hash() => compared.pinned.push(now),
            pinned => {
                let pinned = pinned.cloned();
                compared.waiting.push(Waiting { now, pinned });
            }
        }
    }
    compared
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, description: &str) -> Definition {
        Definition {
            name: name.to_owned(),
            title: None,
            description: description.to_owned(),
            parameters: json!({"type": "object"}),
            output_schema: None,
            annotations: None,
        }
    }

    #[test]
    fn changed_and_new_tools_wait() {
        let pin = ServerPin {
            tools: vec![tool("same", "a"), tool("changed", "a"), tool("gone", "a")],
            ..ServerPin::default()
        };
        let listed = vec![tool("new", "a"), tool("changed", "b"), tool("same", "a")];
        let compared = compare(&pin, listed);
        assert_eq!(compared.pinned, [tool("same", "a")]);
        assert_eq!(compared.missing, ["gone"]);
        let waiting: Vec<_> = compared.waiting.iter().map(|one| one.now.name.as_str()).collect();
        assert_eq!(waiting, ["new", "changed"]);
        assert_eq!(compared.waiting[0].pinned, None);
        assert_eq!(compared.waiting[1].pinned, Some(tool("changed", "a")));
    }
}
