//! Who may replace whose tools.

use std::sync::Arc;

use sinew_runtime::{BuildError, Owner};

use crate::deeds::{Bench, named};

fn owner(bench: &Bench, name: &str) -> Option<Owner> {
    let catalogs = bench.runtime.catalogs();
    let mut tools = catalogs.first().expect("a catalog").tools();
    tools.find(|tool| tool.name == name).map(|tool| tool.owner)
}

fn of(server: &str) -> Owner {
    Owner::Foreign(Arc::from(server))
}

#[test]
fn servers_replace_their_own_tools_alone() {
    let bench = Bench::new(|builder| builder);
    let runtime = &bench.runtime;
    runtime.add_tool(&named("mine")).expect("a tool");
    runtime.add_foreign_tool("one", &named("one__read")).expect("a tool");
    runtime.add_foreign_tool("one", &named("one__read")).expect("a tool of the same server");
    for (server, name, expected) in [
        ("one", "put", Owner::BuiltIn),
        ("one", "mine", Owner::Program),
        ("two", "one__read", of("one")),
        // Other spellings of a built-in one, and of one of a server.
        ("one", "agent__unknown", Owner::BuiltIn),
        ("two", "one::read", of("one")),
    ] {
        match runtime.add_foreign_tool(server, &named(name)) {
            Err(BuildError::NameTaken { name: taken, owner }) => {
                assert_eq!((taken.as_str(), owner), (name, expected), "{server} {name}");
            }
            other => panic!("{server} {name}: {other:?}"),
        }
    }
    assert_eq!(owner(&bench, "put"), Some(Owner::BuiltIn));
    assert_eq!(owner(&bench, "one__read"), Some(of("one")));
    assert_eq!(owner(&bench, "one::read"), None);
    // A program decides about every tool of its runtime.
    runtime.add_tool(&named("put")).expect("a tool");
    runtime.add_tool(&named("one__read")).expect("a tool");
    assert_eq!(owner(&bench, "put"), Some(Owner::Program));
    assert_eq!(owner(&bench, "one__read"), Some(Owner::Program));
}

#[test]
fn tools_of_a_server_are_removed_together() {
    let bench = Bench::new(|builder| builder);
    let runtime = &bench.runtime;
    for (server, name) in [("one", "one__a"), ("two", "two__a"), ("one", "one__b")] {
        runtime.add_foreign_tool(server, &named(name)).expect("a tool");
    }
    assert!(runtime.remove_foreign_tools("one"));
    assert!(!runtime.remove_foreign_tools("one"));
    let left = ["one__a", "two__a", "one__b", "put"].map(|name| owner(&bench, name).is_some());
    assert_eq!(left, [false, true, false, true]);
}
