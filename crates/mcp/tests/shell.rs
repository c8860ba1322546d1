//! A program's own tools, served over MCP by their providers.

use serde_json::{Value, json};
use sinew_runtime::{CompositeToolProvider, ToolDefinition, ToolProvider};
use sinew_tool::{Kind, ToolError};

use crate::connection::Client;

/// Provides some tools that say who they are.
struct Named {
    namespace: &'static str,
    tools: &'static [&'static str],
    says: &'static str,
}

impl ToolProvider for Named {
    fn namespace(&self) -> &str {
        self.namespace
    }

    fn list_tools(&self) -> Vec<ToolDefinition> {
        let define = |name: &&str| ToolDefinition {
            name: (*name).to_owned(),
            description: format!("Of {}.", self.says),
            input_schema: json!({"type": "object"}),
        };
        self.tools.iter().map(define).collect()
    }

    fn call_tool(&self, name: &str, args: Value) -> Result<Value, ToolError> {
        match name {
            "fail" => Err(ToolError::new(Kind::ExecutionFailed, "it went wrong")),
            name => Ok(json!(format!("{} {name} {args}", self.says))),
        }
    }
}

fn providers() -> Vec<Box<dyn ToolProvider>> {
    vec![
        Box::new(Named { namespace: "a", tools: &["x", "y__z", "fail"], says: "first" }),
        Box::new(Named { namespace: "b", tools: &["x"], says: "second" }),
        Box::new(Named { namespace: "a", tools: &["x"], says: "third" }),
    ]
}

#[test]
fn tools_are_routed_to_their_providers() {
    let mut all = CompositeToolProvider::default();
    providers().into_iter().for_each(|provider| all.register(provider));
    let names: Vec<String> = all.list_tools().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["a__x", "a__y__z", "a__fail", "b__x"]);
    for (name, expected) in [
        ("a__x", Ok("third x {}")),
        ("a__y__z", Ok("first y__z {}")),
        ("b__x", Ok("second x {}")),
        // Without a namespace the first that has it.
        ("x", Ok("first x {}")),
        ("a__fail", Err(Kind::ExecutionFailed)),
        ("none", Err(Kind::NotFound)),
        ("c__x", Err(Kind::NotFound)),
    ] {
        let called = all.call_tool(name, json!({}));
        let got = called.map_err(|error| error.kind);
        assert_eq!(got, expected.map(|text| json!(text)), "{name}");
    }
}

#[test]
fn providers_are_served_beside_the_runtime() {
    let mut client = Client::start_with(true, providers());
    client.shake_hands();
    client.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let list: Value = serde_json::from_str(&client.receive()).expect("JSON");
    let tools = list["result"]["tools"].as_array().expect("tools");
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(names.ends_with(&["a__x", "a__y__z", "a__fail", "b__x"]), "{names:?}");
    for (name, expected) in [("a__x", "third x {\"n\":1}"), ("a__fail", "it went wrong")] {
        client.send(&format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"{name}","arguments":{{"n":1}}}}}}"#
        ));
        let reply: Value = serde_json::from_str(&client.receive()).expect("JSON");
        assert_eq!(reply["result"]["content"][0]["text"], expected, "{reply}");
    }
    client.close();
}
