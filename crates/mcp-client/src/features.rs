//! Tools of sinew for what a server has beside its tools: resources and prompts.

use rmcp::model::{
    ClientRequest, GetPromptRequest, GetPromptRequestParams, ListPromptsRequest,
    ListResourceTemplatesRequest, ListResourcesRequest, PaginatedRequestParams,
    ReadResourceRequest, ReadResourceRequestParams,
};
use serde_json::{Map, Value, json};
use sinew_tool::{Arguments, Block, Reply, ToolError, visible_only};

use crate::definition::Definition;

/// What a server can have beside its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feature {
    ListResources,
    ReadResource,
    ListPrompts,
    GetPrompt,
}

/// One list that is asked for in pages: its member, and its request.
pub(crate) type List = (&'static str, fn(Option<PaginatedRequestParams>) -> ClientRequest);

/// The lists of resources.
const RESOURCES: [List; 2] = [
    ("resources", |params| {
        ClientRequest::ListResourcesRequest(ListResourcesRequest { params, ..Default::default() })
    }),
    ("resourceTemplates", |params| {
        ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest {
            params,
            ..Default::default()
        })
    }),
];
/// The list of prompts.
const PROMPTS: [List; 1] = [("prompts", |params| {
    ClientRequest::ListPromptsRequest(ListPromptsRequest { params, ..Default::default() })
})];

impl Feature {
    /// Returns what a server with these has.
    pub(crate) fn of(resources: bool, prompts: bool) -> impl Iterator<Item = Self> {
        let all = [
            (Self::ListResources, resources),
            (Self::ReadResource, resources),
            (Self::ListPrompts, prompts),
            (Self::GetPrompt, prompts),
        ];
        all.into_iter().filter_map(|(feature, is_there)| is_there.then_some(feature))
    }

    /// Returns its tool.
    pub(crate) fn definition(self) -> Definition {
        let (name, description, properties, required) = match self {
            Self::ListResources => (
                "list_resources",
                "Lists the resources of this MCP server, and the templates of their URIs.",
                json!({}),
                "",
            ),
            Self::ReadResource => (
                "read_resource",
                "Reads a resource of this MCP server.",
                json!({"uri": {"type": "string", "description": "The URI of the resource"}}),
                "uri",
            ),
            Self::ListPrompts => (
                "list_prompts",
                "Lists the prompts of this MCP server, with their arguments.",
                json!({}),
                "",
            ),
            Self::GetPrompt => (
                "get_prompt",
                "Returns the messages of a prompt of this MCP server.",
                json!({
                    "name": {"type": "string", "description": "The name of the prompt"},
                    "arguments": {
                        "type": "object",
                        "additionalProperties": {"type": "string"},
                        "description": "The arguments of the prompt",
                    },
                }),
                "name",
            ),
        };
        let mut parameters = json!({"type": "object", "properties": properties});
        if let (Value::Object(members), false) = (&mut parameters, required.is_empty()) {
            members.insert(String::from("required"), json!([required]));
        }
        Definition {
            name: name.to_owned(),
            title: None,
            description: description.to_owned(),
            parameters,
            output_schema: None,
            annotations: None,
        }
    }

    /// Returns the lists that are asked for; none for a feature that is one request.
    pub(crate) fn lists(self) -> &'static [List] {
        match self {
            Self::ListResources => &RESOURCES,
            Self::ListPrompts => &PROMPTS,
            Self::ReadResource | Self::GetPrompt => &[],
        }
    }

    /// Returns the one request of a call with these arguments.
    pub(crate) fn request(self, mut arguments: Arguments) -> Result<ClientRequest, ToolError> {
        let key = if self == Self::ReadResource { "uri" } else { "name" };
        let Some(Value::String(wanted)) = arguments.remove(key) else {
            return Err(ToolError::argument(key, "must be a text"));
        };
        if self == Self::ReadResource {
            let params = ReadResourceRequestParams::new(wanted);
            return Ok(ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params)));
        }
        let mut params = GetPromptRequestParams::new(wanted);
        match arguments.remove("arguments") {
            None | Some(Value::Null) => {}
            Some(Value::Object(given)) => params.arguments = Some(given),
            Some(_) => return Err(ToolError::argument("arguments", "must be an object")),
        }
        Ok(ClientRequest::GetPromptRequest(GetPromptRequest::new(params)))
    }

    /// Returns the reply for the result of a server, or for its lists.
    pub(crate) fn reply(self, mut result: Value) -> Reply {
        let mut reply = Reply::text("");
        let mut take = |name: &str| match result.get_mut(name).map(Value::take) {
            Some(Value::Array(values)) => values,
            _ => Vec::new(),
        };
        reply.content = match self {
            Self::ListResources | Self::ListPrompts => {
                let lists = self.lists().iter().map(|(name, _)| (*name, take(name)));
                let lines =
                    lists.flat_map(|(_, entries)| entries).map(|entry| format!("{entry}\n"));
                let text: String = lines.collect();
                let text = if text.is_empty() { String::from("There are none.") } else { text };
                vec![Block::Text { text: visible_only(&text) }]
            }
            Self::ReadResource => take("contents").into_iter().map(content).collect(),
            Self::GetPrompt => take("messages").into_iter().map(message).collect(),
        };
        reply
    }
}

/// Returns a content of a resource: a text as such, so that it is cut and kept like any other.
fn content(mut content: Value) -> Block {
    match content.get_mut("text").map(Value::take) {
        Some(Value::String(text)) => Block::Text { text },
        _ => Block::Mcp(json!({"type": "resource", "resource": content})),
    }
}

/// Returns a message of a prompt, a text with who says it.
fn message(mut message: Value) -> Block {
    let role = message.get("role").and_then(Value::as_str).unwrap_or("user").to_owned();
    let content = message.get_mut("content").map(Value::take).unwrap_or_default();
    match content.get("text").and_then(Value::as_str) {
        Some(text) => Block::Text { text: format!("[{}]\n{text}\n", visible_only(&role)) },
        None => Block::Mcp(content),
    }
}

/// Adds the entries of a page to the member of all pages.
pub(crate) fn add_page(all: &mut Map<String, Value>, member: &str, page: &mut Value) {
    if let Some(Value::Array(entries)) = page.get_mut(member).map(Value::take) {
        let known = all.entry(member).or_insert_with(|| json!([]));
        if let Value::Array(known) = known {
            known.extend(entries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_server_has_is_a_tool() {
        let names = |resources, prompts| {
            let of = Feature::of(resources, prompts).map(|feature| feature.definition().name);
            of.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(false, false), "");
        assert_eq!(names(true, false), "list_resources read_resource");
        assert_eq!(names(false, true), "list_prompts get_prompt");
    }

    #[test]
    fn contents_and_messages_are_read() {
        let read = |feature: Feature, result: Value| json!(feature.reply(result).content);
        for (feature, result, expected) in [
            (Feature::ListPrompts, json!({}), json!([{"type": "text", "text": "There are none."}])),
            (
                Feature::ListResources,
                json!({"resources": [{"uri": "a:b\u{202e}"}], "resourceTemplates": [{"uriTemplate": "a:{x}"}]}),
                json!([{"type": "text", "text": "{\"uri\":\"a:b\"}\n{\"uriTemplate\":\"a:{x}\"}\n"}]),
            ),
            (
                Feature::ReadResource,
                json!({"contents": [{"uri": "a:b", "text": "one"}, {"uri": "a:c", "blob": "eA=="}]}),
                json!([
                    {"type": "text", "text": "one"},
                    {"type": "resource", "resource": {"uri": "a:c", "blob": "eA=="}},
                ]),
            ),
            (
                Feature::GetPrompt,
                json!({"messages": [
                    {"role": "user", "content": {"type": "text", "text": "hi"}},
                    {"role": "assistant", "content": {"type": "image", "data": "eA==", "mimeType": "image/png"}},
                ]}),
                json!([
                    {"type": "text", "text": "[user]\nhi\n"},
                    {"type": "image", "data": "eA==", "mimeType": "image/png"},
                ]),
            ),
        ] {
            assert_eq!(read(feature, result), expected, "{feature:?}");
        }
    }
}
