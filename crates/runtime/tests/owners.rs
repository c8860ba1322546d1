//! Who may replace whose tools, and which of them are listed and called.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sinew_runtime::{ForeignEntry, ForeignTool, Owner, Visibility};
use sinew_tool::{ForeignNames, Kind, Tool};

use crate::deeds::{Bench, named};

struct Remote(&'static str);

impl ForeignTool for Remote {
    fn remote_name(&self) -> &str {
        self.0
    }

    fn named(&self, name: String, _names: ForeignNames) -> Arc<dyn Tool> {
        named(&name)
    }
}

fn entries(tools: &[(&'static str, Visibility)]) -> Vec<ForeignEntry> {
    let entry = |&(name, visibility): &(&'static str, Visibility)| {
        (Box::new(Remote(name)) as Box<dyn ForeignTool>, visibility)
    };
    tools.iter().map(entry).collect()
}

fn set(bench: &Bench, server: &str, tools: &[&'static str]) -> Vec<String> {
    let shown: Vec<_> = tools.iter().map(|tool| (*tool, Visibility::Shown)).collect();
    bench.runtime.set_foreign_tools(server, &entries(&shown))
}

fn owner(bench: &Bench, name: &str) -> Option<Owner> {
    let catalogs = bench.runtime.catalogs();
    let mut tools = catalogs.first().expect("a catalog").tools();
    tools.find(|tool| tool.name == name).map(|tool| tool.owner)
}

fn foreign(bench: &Bench) -> Vec<String> {
    let catalogs = bench.runtime.catalogs();
    let tools = catalogs.first().expect("a catalog").tools();
    let foreign = tools.filter(|tool| matches!(tool.owner, Owner::Foreign(_)));
    foreign.map(|tool| tool.name).collect()
}

#[test]
fn servers_take_no_names_of_others() {
    let bench = Bench::new(|builder| builder);
    bench.runtime.add_tool(&named("mine")).expect("a tool");
    bench.runtime.add_tool(&named("taken__put")).expect("a tool");
    assert!(set(&bench, "one", &["read", "put", "a.b", "a b"]).is_empty());
    assert!(set(&bench, "two", &["read"]).is_empty());
    // Of the namespace of a built-in tool, in the spelling of its clients; of a tool of the program.
    assert!(set(&bench, "agent", &["unknown"]).is_empty());
    assert!(set(&bench, "taken", &["other"]).is_empty());
    let expected = [
        "mcp__agent__unknown",
        "one__read",
        "one__put",
        "one__a_b",
        "mcp__one__a_b",
        "mcp__taken__other",
        "two__read",
    ];
    assert_eq!(foreign(&bench), expected);
    assert_eq!(owner(&bench, "put"), Some(Owner::BuiltIn));
    // A program decides about every tool of its runtime.
    bench.runtime.add_tool(&named("one__read")).expect("a tool");
    assert_eq!(owner(&bench, "one__read"), Some(Owner::Program));
}

#[test]
fn tools_of_a_server_are_replaced_together() {
    let bench = Bench::new(|builder| builder);
    set(&bench, "two", &["a"]);
    set(&bench, "one", &["a", "b"]);
    set(&bench, "one", &["b", "c"]);
    assert_eq!(foreign(&bench), ["one__b", "one__c", "two__a"], "by the names of servers");
    set(&bench, "one", &[]);
    assert_eq!(foreign(&bench), ["two__a"]);
}

#[tokio::test]
async fn visibility_holds_where_a_call_finds_its_tool() {
    let bench = Bench::new(|builder| builder);
    let tools = [
        ("shown", Visibility::Shown),
        ("deferred", Visibility::Deferred),
        ("hidden", Visibility::Hidden),
        ("disabled", Visibility::Disabled),
    ];
    bench.runtime.set_foreign_tools("one", &entries(&tools));
    assert_eq!(foreign(&bench), ["one__shown"]);
    for (tool, is_found) in
        [("shown", true), ("deferred", true), ("hidden", false), ("disabled", true)]
    {
        let reply = bench.call(&format!("one__{tool}"), json!({})).await;
        let kind = reply.error.map(|error| error.kind);
        assert_eq!(kind != Some(Kind::NotFound), is_found, "{tool}: {kind:?}");
        // A hidden tool is not told by a wrong name either.
        let reply = bench.call(&format!("one__{tool}s"), json!({})).await;
        let hint = reply.error.and_then(|error| error.hint);
        let is_told = hint.is_some_and(|hint| hint.contains(&format!("one__{tool}")));
        assert_eq!(is_told, matches!(tool, "shown" | "deferred"), "{tool}");
    }
}

#[test]
fn lists_wait_for_pending_tools() {
    let bench = Bench::new(|builder| builder);
    let runtime = &bench.runtime;
    let settled = |at_most| {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let since = std::time::Instant::now();
        tokio.expect("a runtime").block_on(runtime.tools_settled(at_most));
        since.elapsed()
    };
    assert!(settled(Duration::from_secs(60)) < Duration::from_secs(10));
    let pending = runtime.pending_tools();
    assert!(runtime.has_pending_tools());
    assert!(Duration::from_millis(50) <= settled(Duration::from_millis(50)));
    drop(pending);
    assert!(!runtime.has_pending_tools());
    assert!(settled(Duration::from_secs(60)) < Duration::from_secs(10));
}

/// The patterns are those of clawft's page.
#[test]
fn schemas_are_selected_by_patterns() {
    let bench = Bench::new(|builder| builder);
    for name in ["read_file", "write_file", "read_files"] {
        bench.runtime.add_tool(&named(name)).expect("a tool");
    }
    let tools = [
        ("memory_store", Visibility::Hidden),
        ("memory_query", Visibility::Shown),
        ("memory_old", Visibility::Disabled),
        ("agent_spawn", Visibility::Hidden),
    ];
    bench.runtime.set_foreign_tools("claude-flow", &entries(&tools));
    let catalogs = bench.runtime.catalogs();
    let catalog = catalogs.first().expect("a catalog");
    let selected = catalog.schemas_for_tools(&["claude-flow__memory_*", "read_file", "write_file"]);
    let mut names: Vec<String> = selected.into_iter().map(|tool| tool.name).collect();
    names.sort_unstable();
    let expected =
        ["claude-flow__memory_query", "claude-flow__memory_store", "read_file", "write_file"];
    assert_eq!(names, expected);
    assert!(catalog.schemas_for_tools(&[]).is_empty());
}
