//! Imports clawft: `tools.commandPolicy` of its JSON configuration, which sinew also has.

use serde_json::Value;

use super::{Imported, is_known, texts};
use crate::{CommandPolicyOptions, PolicyOptions, ToolsOptions};

/// Imports a configuration.
pub(super) fn read(tree: &Value) -> Result<Imported, String> {
    let mut imported = Imported::default();
    let tools = tree.get("tools").unwrap_or(&Value::Null);
    let policy = tools.get("commandPolicy").or_else(|| tools.get("command_policy"));
    if let Some(policy) = policy {
        let mode = match policy.get("mode") {
            None => None,
            Some(mode) => match mode.as_str().map(str::to_lowercase).as_deref() {
                Some(word @ ("allowlist" | "denylist")) => Some(word.to_owned()),
                _ => return Err(format!("`mode` must be allowlist or denylist, not {mode}")),
            },
        };
        let options = CommandPolicyOptions {
            mode,
            allowlist: texts(policy, "allowlist")?,
            denylist: texts(policy, "denylist")?,
        };
        if options != CommandPolicyOptions::default() {
            imported.options.dialect = Some(String::from("clawft"));
            let command_policy = Some(options);
            imported.options.tools =
                Some(ToolsOptions { command_policy, ..ToolsOptions::default() });
            imported.note(
                "the policy of commands counts in the dialect clawft, which is chosen with it",
            );
        }
    }
    if tools.get("urlPolicy").or_else(|| tools.get("url_policy")).is_some() {
        imported.note("`tools.urlPolicy`: no tool here fetches addresses");
    }
    let list = |key: &str| match texts(tools, key)? {
        None => texts(tree, key),
        list => Ok(list),
    };
    let mut policy = PolicyOptions { allow: list("allowlist")?, deny: list("denylist")? };
    for name in policy.allow.iter().chain(&policy.deny).flatten().filter(|name| !is_known(name)) {
        imported.note(format!("`{name}` names no tool that is here"));
    }
    if policy != PolicyOptions::default() {
        if policy.allow.as_ref().is_some_and(Vec::is_empty) {
            imported.note("`allowlist` is empty, so every tool is denied");
            policy = PolicyOptions { allow: None, deny: Some(vec![String::from("*")]) };
        }
        imported.options.tools.get_or_insert_default().policy = Some(policy);
    }
    if tools.get("restrictToWorkspace").or_else(|| tree.get("restrictToWorkspace")).is_some() {
        imported.note("`restrictToWorkspace`: nothing here leaves the roots, whatever it says");
    }
    if tools.get("permissions").or_else(|| tree.get("permissions")).is_some() {
        imported.note("`permissions`: levels are not carried over; write `[tools.policy]`");
    }
    Ok(imported)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_policy_of_commands_is_taken_as_it_is() {
        let policy = |tree: &Value| {
            let options = read(tree).expect("a configuration").options;
            serde_json::to_value(options.tools.and_then(|tools| tools.command_policy))
                .expect("JSON")
        };
        for (tree, expected) in [
            (
                json!({"tools": {"commandPolicy": {"mode": "denylist", "denylist": ["rm"]}}}),
                json!({"mode": "denylist", "denylist": ["rm"]}),
            ),
            (
                json!({"tools": {"commandPolicy": {"mode": "Allowlist", "allowlist": ["ls"]}}}),
                json!({"mode": "allowlist", "allowlist": ["ls"]}),
            ),
            (json!({"tools": {"commandPolicy": {}}}), json!(null)),
            (json!({}), json!(null)),
        ] {
            assert_eq!(policy(&tree), expected, "{tree}");
        }
        for tree in [
            json!({"tools": {"commandPolicy": {"mode": "x"}}}),
            json!({"tools": {"commandPolicy": {"allowlist": "ls"}}}),
            json!({"tools": {"commandPolicy": {"denylist": [1]}}}),
        ] {
            assert!(read(&tree).is_err(), "{tree}");
        }
        let lists = json!({"tools": {"allowlist": ["read_file", "x"], "denylist": ["write_file"]}});
        let imported = read(&lists).expect("a configuration");
        let policy = imported.options.tools.and_then(|tools| tools.policy).expect("a policy");
        let policy = serde_json::to_value(policy).expect("JSON");
        assert_eq!(policy, json!({"allow": ["read_file", "x"], "deny": ["write_file"]}));
        assert!(imported.notes.iter().any(|note| note.contains("`x` names no tool")));
        let none = read(&json!({"tools": {"allowlist": []}})).expect("a configuration");
        let policy = none.options.tools.and_then(|tools| tools.policy).expect("a policy");
        assert_eq!(serde_json::to_value(policy).expect("JSON"), json!({"deny": ["*"]}));
        assert!(none.notes.iter().any(|note| note.contains("every tool is denied")));
        let notes = read(&json!({"tools": {"urlPolicy": {}}})).expect("a configuration").notes;
        assert!(notes.iter().any(|note| note.contains("urlPolicy")), "{notes:?}");
    }
}
