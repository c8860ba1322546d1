//! A tool of a server as the runtime sees it.

use std::sync::{Arc, Weak};

use serde_json::Value;
use sinew_runtime::ForeignTool;
use sinew_tool::{
    Arguments, Block, BoxFuture, ContentHash, Context, ErrorBody, Facts, FileSettings,
    ForeignNames, Host, Kind, Prepared, Reply, Tool, ToolError, ToolOrigin, function_call,
};

use crate::definition::Definition;
use crate::features::Feature;
use crate::servers::Inner;

/// The longest text that keeps its annotations, in bytes.
const MAX_ANNOTATED: usize = 4 << 10;
/// How much of a server's error is in the message of a reply, in bytes.
const MAX_ERROR: usize = 1 << 10;
/// The most bytes of the arguments of a call as JSON.
pub const MAX_ARGUMENTS: usize = 1 << 20;
/// How deep arguments may be nested.
pub const MAX_ARGUMENT_DEPTH: usize = 64;

/// A pinned tool of a server, before a catalog names it.
pub(crate) struct Pinned {
    pub(crate) servers: Weak<Inner>,
    pub(crate) server: Arc<str>,
    /// The definition for the model.
    pub(crate) definition: Arc<Definition>,
    /// What it is for, where it is a tool of sinew's for what the server has beside its tools.
    pub(crate) feature: Option<Feature>,
    /// The hash of the definition as it was sent.
    pub(crate) hash: ContentHash,
    /// Why it does not run, if it does not.
    pub(crate) disabled: Option<String>,
    /// The host of its server, where that has an address.
    pub(crate) host: Option<Host>,
}

impl ForeignTool for Pinned {
    fn remote_name(&self) -> &str {
        &self.definition.name
    }

    fn named(&self, name: String, naming: ForeignNames) -> Arc<dyn Tool> {
        let description = &self.definition.description;
        Arc::new(RemoteTool {
            name,
            description: match naming.labelled {
                true => format!("[{}] {description}", self.server),
                false => description.clone(),
            },
            servers: Weak::clone(&self.servers),
            server: Arc::clone(&self.server),
            definition: Arc::clone(&self.definition),
            feature: self.feature,
            hash: self.hash,
            disabled: self.disabled.clone(),
            host: self.host.clone(),
            closed: naming.closed_schemas,
        })
    }
}

/// A tool of a server with its name in a catalog.
struct RemoteTool {
    name: String,
    description: String,
    servers: Weak<Inner>,
    server: Arc<str>,
    definition: Arc<Definition>,
    feature: Option<Feature>,
    hash: ContentHash,
    disabled: Option<String>,
    host: Option<Host>,
    /// Whether its schema says that there are no other arguments, unless it says something of them itself.
    closed: bool,
}

impl Tool for RemoteTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn title(&self) -> Option<&str> {
        self.definition.title.as_deref()
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn parameters(&self) -> Value {
        let mut schema = self.definition.parameters.clone();
        if let (true, Value::Object(members)) = (self.closed, &mut schema) {
            members.entry("additionalProperties").or_insert(Value::Bool(false));
        }
        schema
    }

    fn output_schema(&self) -> Option<Value> {
        self.definition.output_schema.clone()
    }

    // What a server says of its tools is no fact: a server that wants to be called unasked says that it only reads.
    fn facts(&self) -> Facts {
        Facts::UNKNOWN
    }

    fn checked_by_schema(&self) -> bool {
        false
    }

    fn hosts(&self) -> Vec<Host> {
        self.host.iter().cloned().collect()
    }

    fn origin(&self) -> Option<ToolOrigin> {
        Some(ToolOrigin {
            server: Arc::clone(&self.server),
            tool: self.definition.name.clone(),
            definition: self.hash,
        })
    }

    fn prepare(
        self: Arc<Self>,
        args: Arguments,
        _settings: &Arc<FileSettings>,
    ) -> Result<Box<dyn Prepared>, ToolError> {
        if let Some(why) = &self.disabled {
            let (name, servers) = (&self.definition.name, self.servers.upgrade());
            let servers = servers.ok_or_else(|| disabled(&self.server, name, why))?;
            servers.still_disabled(&self.server, (name, self.hash))?;
        }
        if MAX_ARGUMENT_DEPTH < args.values().map(depth).max().unwrap_or(0) {
            return Err(ToolError::new(
                Kind::InvalidArgs,
                format!("the arguments are nested deeper than {MAX_ARGUMENT_DEPTH} levels"),
            ));
        }
        let bytes = serde_json::to_vec(&args).map_or(0, |bytes| bytes.len());
        if MAX_ARGUMENTS < bytes {
            return Err(ToolError::new(
                Kind::TooLarge,
                format!("the arguments have {bytes} bytes; a server gets {MAX_ARGUMENTS} at most"),
            ));
        }
        Ok(function_call(self, args))
    }

    fn execute<'a>(
        &'a self,
        args: Arguments,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<Reply, ToolError>> {
        Box::pin(async move {
            let servers = self.servers.upgrade().ok_or_else(|| {
                ToolError::new(Kind::Unavailable, "the servers of this session are closed")
            })?;
            if let Some(feature) = self.feature {
                return servers.reach(&self.server, feature, args, cx).await;
            }
            let (tool, hash) = (&self.definition.name, self.hash);
            let called = servers.call(&self.server, (tool, hash), args, cx);
            Ok(reply(&self.server, called.await?))
        })
    }
}

/// Returns the error of a tool that waits for a person.
pub(crate) fn disabled(server: &str, tool: &str, why: &str) -> ToolError {
    ToolError::new(
        Kind::PolicyDenied,
        format!("the tool `{tool}` of the server `{server}` is disabled: {why}"),
    )
    .hint(format!("`sinew mcp-servers approve {server}` shows a person what changed, and asks"))
}

/// Returns how deep a value is nested, up to one level beyond the limit.
fn depth(value: &Value) -> usize {
    fn within(value: &Value, left: usize) -> usize {
        let deepest = |values: &mut dyn Iterator<Item = &Value>| {
            values.map(|value| within(value, left.saturating_sub(1))).max().unwrap_or(0)
        };
        match value {
            _ if left == 0 => 0,
            Value::Array(values) => 1 + deepest(&mut values.iter()),
            Value::Object(members) => 1 + deepest(&mut members.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
        }
    }
    within(value, MAX_ARGUMENT_DEPTH + 1)
}

/// Returns the reply for the result of a server. Its blocks are passed on as they are.
fn reply(server: &str, mut result: Value) -> Reply {
    let content = match result.get_mut("content").map(Value::take) {
        Some(Value::Array(blocks)) => blocks.into_iter().map(block).collect(),
        _ => Vec::new(),
    };
    let mut reply = Reply::text("");
    reply.content = content;
    reply.structured = result.get_mut("structuredContent").map(Value::take);
    reply.ok = result.get("isError") != Some(&Value::Bool(true));
    if !reply.ok {
        let text = reply.content.iter().find_map(Block::as_text);
        let first = text.unwrap_or_default().lines().next().unwrap_or_default();
        let first = first.get(..first.floor_char_boundary(MAX_ERROR)).unwrap_or_default();
        reply.error = Some(ErrorBody {
            kind: Kind::ExecutionFailed,
            message: format!("the server `{server}` reports an error: {}", first.trim()),
            hint: None,
        });
    }
    reply
}

/// Returns a block as it is. A long text is one of sinew's, which is cut and kept, without its annotations.
fn block(mut block: Value) -> Block {
    let is_plain = block.as_object().is_some_and(|members| members.len() == 2);
    let is_text = block.get("type").and_then(Value::as_str) == Some("text");
    match block.get_mut("text") {
        Some(Value::String(text)) if is_text && (is_plain || MAX_ANNOTATED < text.len()) => {
            Block::Text { text: std::mem::take(text) }
        }
        _ => Block::Mcp(block),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_are_passed_on_as_they_are() {
        let blocks = json!([
            {"type": "text", "text": "one\nmore"},
            {"type": "text", "text": "two", "annotations": {"audience": ["user"]}},
            {"type": "image", "data": "eA==", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "file:///a", "name": "a"},
        ]);
        let result = json!({"content": blocks, "structuredContent": {"a": 1}, "isError": true});
        let reply = reply("s", result);
        assert_eq!(json!(reply.content), blocks);
        assert_eq!(reply.structured, Some(json!({"a": 1})));
        assert!(!reply.ok);
        assert_eq!(
            reply.error.map(|error| error.message).as_deref(),
            Some("the server `s` reports an error: one")
        );
    }

    #[test]
    fn depth_is_counted_to_the_limit() {
        let nested = |n| (0..n).fold(json!(1), |inner, _| json!([inner]));
        for (value, expected) in
            [(json!(1), 1), (json!({"a": [1]}), 3), (nested(300), MAX_ARGUMENT_DEPTH + 1)]
        {
            assert_eq!(depth(&value), expected);
        }
    }
}
